//! What streams cost: one changed assignment to a thousand clients (P6), and clients that come and go in tens of
//! thousands (P10). The clients are a process of its own, on loopback.
//!
//! `cargo bench -p benches --bench streams`.

#![allow(clippy::disallowed_methods, reason = "a bench is what clocks are for")]

mod client;

use benches::{Cluster, Memory, Options, Report, Target, Times};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate_ads::Config;
use tidegate_workload::{Random, Shape};
use tidegate_xds::Sealed;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

/// As in the binary, and it knows how many bytes are in use: what is resident depends on what an allocator keeps.
#[global_allocator]
static GLOBAL: cap::Cap<mimalloc::MiMalloc> = cap::Cap::new(mimalloc::MiMalloc, usize::MAX);

/// How long nothing happens while the CPU is looked at.
const IDLE: Duration = Duration::from_secs(5);

fn main() {
    let options = Options::read();
    if !options.child.is_empty() {
        return client::run(&options.child);
    }
    fanout(&options);
    churn(&options);
}

/// A cluster with one Gateway, served.
struct Server {
    cluster: Cluster,
    sealed: watch::Sender<Option<Arc<Sealed>>>,
    config: Config,
    address: String,
    _runtime: Runtime,
}

impl Server {
    fn start(services: usize) -> Self {
        let shape = Shape { namespaces: 10, services, routes: services, gateways: 1, ..Shape::default() };
        let cluster = Cluster::start(shape);
        let (sealed, receiver) = watch::channel(Some(cluster.sealed.clone()));
        let config = Config { max_clients: 100_000, ..Config::default() };
        let runtime = Runtime::new().expect("a runtime starts");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("loopback has a free port");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        // Nobody follows observations: what the queue has no room for is dropped, as it would be.
        let (observe, mut observations) = mpsc::channel(1024);
        runtime.spawn(async move { while observations.recv().await.is_some() {} });
        let served =
            tidegate_ads::serve(listener, receiver, observe, Arc::new(millis), config.clone(), std::future::pending());
        runtime.spawn(served);
        Server { cluster, sealed, config, address, _runtime: runtime }
    }

    fn clients(&self, mode: &str, count: usize, together: usize) -> Clients {
        let gateway = self.cluster.fanout.gateway_name(0).to_string();
        let program = std::env::current_exe().expect("a running program is somewhere");
        let mut child = Command::new(program)
            .args(["--child", mode, &self.address, &gateway, &count.to_string(), &together.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a bench can start itself");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Clients { child, lines }
    }
}

fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).expect("milliseconds fit into 64 bits for long")
}

/// The process of the clients. It says a line whenever all of them are as far.
struct Clients {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Clients {
    fn wait(&mut self) {
        self.lines.next().expect("the clients live").expect("what they say is text");
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        // It ends when this end of its input is closed; one that does not is ended.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// P6: every client is subscribed to every cluster, and one of them changes.
fn fanout(options: &Options) {
    let (services, count) = (options.pick(1_000, 50), options.pick(1_000, 20));
    let mut server = Server::start(services);
    // What is shared is encoded for the first client.
    let mut first = server.clients("fanout", 1, 1);
    first.wait();
    let (before, used_before) = (Memory::now(), GLOBAL.allocated());
    let mut clients = server.clients("fanout", count, 50);
    clients.wait();
    let memory = (Memory::now().resident - before.resident) * 1024.0 / count as f64;
    let used = (GLOBAL.allocated() - used_before) as f64 / 1024.0 / count as f64;
    let (mut random, mut times, mut seals) = (Random::new(13), Times::new(), Times::new());
    for round in 0..options.pick(200, 10) + 10 {
        let change = [server.cluster.fanout.change_endpoint(random.below(services))];
        let start = Instant::now();
        let seal = server.cluster.apply(&change);
        server.sealed.send_replace(Some(server.cluster.sealed.clone()));
        clients.wait();
        if round >= 10 {
            times.push(start.elapsed());
            seals.push(seal);
        }
        first.wait();
    }
    let report = Report::new(&format!("P6 one change to {count} clients with {services} clusters each"));
    report.row("event to seal, p50", seals.at(50), "ms", Target::Free);
    report.row("event to last byte received by the last client, p50", times.at(50), "ms", target(options, 30.0));
    report.row("the same, p99", times.at(99), "ms", Target::Free);
    report.row("memory of a connected client, beyond what is shared", used, "KB", target(options, 40.0));
    report.row("the same as resident", memory, "KB", Target::Free);
    let cpu = cpu_seconds();
    std::thread::sleep(IDLE);
    let idle = (cpu_seconds() - cpu) / IDLE.as_secs_f64() * 100.0;
    report.row("P10 CPU of the server while nothing happens", idle, "%", target(options, 0.5));
}

fn target(options: &Options, most: f64) -> Target {
    if options.quick { Target::Free } else { Target::AtMost(most) }
}

/// P10: rounds of clients that connect, get everything, and leave, beside one that never reads.
fn churn(options: &Options) {
    let (count, together) = (options.pick(50_000, 200), options.pick(500, 50));
    let mut server = Server::start(20);
    let mut silent = server.clients("silent", 1, 1);
    silent.wait();
    // Far more than it has room for; the server has to keep one response of it, not all.
    for change in 0..options.pick(1_000, 100) {
        let change = [server.cluster.fanout.change_endpoint(change % 20)];
        server.cluster.apply(&change);
        server.sealed.send_replace(Some(server.cluster.sealed.clone()));
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = Report::new(&format!("P10 {count} connects and disconnects, {together} at a time"));
    let mut clients = server.clients("churn", count, together);
    let mut used = Vec::new();
    for round in 1..=3_usize {
        clients.wait();
        let metrics = &server.config.metrics;
        while metrics.streams.get() > 1 {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(server.config.clients.snapshot().len() <= 1, "clients that left are in no list");
        // Allocators give back after a while.
        std::thread::sleep(Duration::from_secs(2));
        used.push(GLOBAL.allocated() as f64);
        report.row(&format!("in use after round {round}"), used[round - 1] / 1024.0, "KB", Target::Free);
        report.row("resident", Memory::now().resident, "MB", Target::Free);
        report.row("bytes queued for streams", metrics.queued.get() as f64, "B", Target::Free);
    }
    let change = (used[2] / used[1] - 1.0).abs() * 100.0;
    report.row("in use, round 3 against round 2", change, "%", target(options, 2.0));
}

/// CPU time that this process has used.
fn cpu_seconds() -> f64 {
    /// Of the unit in which Linux says it.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").expect("benches run on Linux");
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks =
        after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().expect("ticks are numbers"));
    ticks.sum::<f64>() / TICKS_PER_SECOND
}
