//! What clients cost the seal, and what a seal costs clients: 10 and 5,000 sessions, each with all clusters of its
//! Gateway. P1.
//!
//! `cargo bench -p benches --bench clients`.

#![allow(clippy::disallowed_methods, reason = "a bench is what clocks are for")]

use benches::{Cluster, Memory, Options, Report, Target, Times, in_own_process, say};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tidegate_model::Millis;
use tidegate_profile::{Client, Received, fleet};
use tidegate_workload::{Random, Shape};
use tidegate_xds::Sealed;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let options = Options::read();
    if let [services, clients, count, pause] = options.child.as_slice() {
        let number = |text: &String| text.parse().expect("sizes are numbers");
        return run(number(services), number(clients), number(count), Duration::from_millis(number(pause) as u64));
    }
    let services = options.pick(10_000, 1_000);
    let count = options.pick(200, 20);
    let many = options.pick(5_000, 50);
    let report = Report::new(&format!("P1 clients, {services} services, 10 gateways"));
    let measure = |clients: usize, pause: usize| {
        let arguments = [services, clients, count, pause].map(|number| number.to_string());
        in_own_process(&[], &arguments.each_ref().map(String::as_str))
    };
    let few = measure(10, 0);
    report.row("endpoint change to seal, p50, 10 clients", few[0], "ms", Target::Free);
    let all = measure(many, 0);
    let what = |text: &str| format!("{text}, {many} clients");
    report.row(&what("endpoint change to seal, p50"), all[0], "ms", Target::Free);
    // Planning for many takes a while, in which the caches are somebody else's. The same pause, with few.
    let spaced = measure(10, all[3].ceil() as usize);
    report.row("endpoint change to seal, p50, 10 clients, as far apart", spaced[0], "ms", Target::Free);
    let target = if options.quick { Target::Free } else { Target::AtMost(1.3) };
    report.row(&what("endpoint change to seal, p50, against that"), all[0] / spaced[0], "x", target);
    report.row("planning for a client that it concerns, p50, 10 clients", few[1], "us", Target::Free);
    report.row(&what("planning for a client that it concerns, p50"), all[1], "us", Target::Free);
    report.row(&what("planning for a client that it does not, p50"), all[2], "us", Target::Free);
    report.row(&what("planning for all clients of an epoch, p50"), all[3], "ms", Target::Free);
    report.row(&what("memory of a session and its subscriptions"), all[4], "KB", Target::Free);
}

/// Connects the clients, spread over the Gateways, changes endpoints and lets every session plan for every seal, on a
/// thread of its own as in the controller: planning must not take the caches away from the dataflow.
fn run(services: usize, clients: usize, count: usize, pause: Duration) {
    let mut cluster = Cluster::start(Shape { services, ..Shape::default() });
    let before = Memory::now();
    let sessions = fleet(&cluster, clients, millis(0));
    let memory = (Memory::now().resident - before.resident) * 1024.0 / clients as f64;
    let (seals, sealed) = sync_channel(1);
    let (planned, done) = sync_channel(1);
    let planner = std::thread::spawn(move || plan(sessions, &sealed, &planned));
    let (mut random, mut times) = (Random::new(11), Times::new());
    for _ in 0..count {
        let change = [cluster.fanout.change_endpoint(random.below(services))];
        times.push(cluster.apply(&change));
        seals.send(cluster.sealed.clone()).expect("the planner plans until nothing is sealed any more");
        done.recv().expect("the planner answers every seal");
        std::thread::sleep(pause);
    }
    drop(seals);
    let Planned { concerned, others, all } = planner.join().expect("planning does not panic");
    assert!(concerned.count() >= count, "every change concerns a client");
    say(&[times.at(50), concerned.at(50) * 1e3, others.at(50) * 1e3, all.at(50), memory]);
}

/// What planning took.
#[derive(Default)]
struct Planned {
    /// For each client that a seal concerned.
    concerned: Times,
    /// For each that it did not.
    others: Times,
    /// For all clients of a seal.
    all: Times,
}

/// Plans every session for every seal.
fn plan(mut clients: Vec<Client>, sealed: &Receiver<Arc<Sealed>>, planned: &SyncSender<()>) -> Planned {
    let mut times = Planned::default();
    for (round, sealed) in sealed.iter().enumerate() {
        let now = millis(round);
        let mut all = Duration::ZERO;
        for client in &mut clients {
            let start = Instant::now();
            let replies = client.plan(&sealed, now);
            let took = start.elapsed();
            all += took;
            if replies.is_empty() {
                times.others.push(took)
            } else {
                times.concerned.push(took)
            }
            client.accept(replies, &mut Received::default());
        }
        times.all.push(all);
        // Whoever does not wait for it any more has all seals planned.
        let _ = planned.send(());
    }
    times
}

fn millis(round: usize) -> Millis {
    1_000_000 + Millis::try_from(round).expect("a count fits into 64 bits")
}
