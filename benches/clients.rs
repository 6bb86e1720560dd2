//! What clients cost the seal, and what a seal costs clients: 10 and 5,000 sessions, each with all clusters of its
//! Gateway. P1.
//!
//! `cargo bench -p benches --bench clients`.

#![allow(clippy::disallowed_methods, reason = "a bench is what clocks are for")]

use benches::{Cluster, Memory, Options, Report, Target, Times, in_own_process, say};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use tidegate_ads::session::{Ask, Client, Limits, Protocol, Reply, Request, Session, TypeUrl};
use tidegate_model::{ClientId, Millis, Name, ResourceType};
use tidegate_workload::{Random, Shape};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let options = Options::read();
    if let [services, clients, count] = options.child.as_slice() {
        let number = |text: &String| text.parse().expect("sizes are numbers");
        return run(number(services), number(clients), number(count));
    }
    let services = options.pick(10_000, 1_000);
    let count = options.pick(300, 20);
    let many = options.pick(5_000, 50);
    let report = Report::new(&format!("P1 clients, {services} services, 10 gateways"));
    let measure = |clients: usize| {
        let arguments = [services, clients, count].map(|number| number.to_string());
        in_own_process(&arguments.each_ref().map(String::as_str))
    };
    let few = measure(10);
    report.row("endpoint change to seal, p50, 10 clients", few[0], "ms", Target::Free);
    let all = measure(many);
    let what = |text: &str| format!("{text}, {many} clients");
    report.row(&what("endpoint change to seal, p50"), all[0], "ms", Target::Free);
    report.row(&what("endpoint change to seal, p50, against 10"), all[0] / few[0], "x", Target::AtMost(1.3));
    report.row("planning for a client that it concerns, p50, 10 clients", few[1], "us", Target::Free);
    report.row(&what("planning for a client that it concerns, p50"), all[1], "us", Target::Free);
    report.row(&what("planning for a client that it does not, p50"), all[2], "us", Target::Free);
    report.row(&what("planning for all clients of an epoch, p50"), all[3], "ms", Target::Free);
    report.row(&what("memory of a session and its subscriptions"), all[4], "KB", Target::Free);
}

/// Connects the clients, spread over the Gateways, changes endpoints and lets every session plan for every seal.
fn run(services: usize, clients: usize, count: usize) {
    let mut cluster = Cluster::start(Shape { services, ..Shape::default() });
    let before = Memory::now();
    let mut sessions: Vec<Session> = (0..clients).map(|index| connect(&cluster, index)).collect();
    let memory = (Memory::now().resident - before.resident) * 1024.0 / clients as f64;
    let mut random = Random::new(11);
    let (mut seals, mut concerned, mut others, mut all) = (Times::new(), Times::new(), Times::new(), Times::new());
    for round in 0..count {
        let change = [cluster.fanout.change_endpoint(random.below(services))];
        seals.push(cluster.apply(&change));
        let now = millis(round);
        let mut planning = std::time::Duration::ZERO;
        for session in &mut sessions {
            let sealed = cluster.sealed.clone();
            let start = Instant::now();
            let replies = session.on_sealed(sealed, now);
            let took = start.elapsed();
            planning += took;
            if replies.is_empty() {
                others.push(took)
            } else {
                concerned.push(took)
            }
            accept(session, replies, now);
        }
        all.push(planning);
    }
    assert!(concerned.count() >= count, "every change concerns a client");
    say(&[seals.at(50), concerned.at(50) * 1e3, others.at(50) * 1e3, all.at(50), memory]);
}

fn millis(round: usize) -> Millis {
    1_000_000 + Millis::try_from(round).expect("a count fits into 64 bits")
}

/// A delta client that asks for everything of its Gateway and accepts it.
fn connect(cluster: &Cluster, index: usize) -> Session {
    let gateway = cluster.fanout.gateway_name(index % cluster.fanout.shape().gateways);
    let id = ClientId { stream: index as u64, node: Name::from(format!("client-{index}")) };
    let client = Client { id, gateway: gateway.clone() };
    let mut session = Session::new(Protocol::Delta, client, Limits::default());
    let replies = session.on_sealed(cluster.sealed.clone(), millis(0));
    accept(&mut session, replies, millis(0));
    for kind in ResourceType::ALL {
        let subscribe = match kind {
            ResourceType::Cluster | ResourceType::Listener => Vec::new(),
            ResourceType::Endpoints | ResourceType::Table => cluster.sealed.names(&gateway, kind),
        };
        let replies = session.on_request(request(TypeUrl::Served(kind), String::new(), subscribe), millis(0));
        accept(&mut session, replies, millis(0));
    }
    let behind: usize = session.stats().types.iter().map(|figures| figures.behind).sum();
    assert_eq!(behind, 0, "a client that accepted everything has everything");
    session
}

/// Accepts whatever is sent, and what is sent because of that.
fn accept(session: &mut Session, replies: Vec<Reply>, now: Millis) {
    let mut queue = VecDeque::from(replies);
    while let Some(reply) = queue.pop_front() {
        match reply {
            Reply::Send(response) => {
                queue.extend(session.on_request(request(response.type_url, response.nonce, Vec::new()), now));
            }
            Reply::Observe(_) => {}
            Reply::Close(close) => panic!("a session gave up: {close}"),
        }
    }
}

fn request(type_url: TypeUrl, nonce: String, subscribe: Vec<Name>) -> Request {
    let ask = Ask::Delta { subscribe, unsubscribe: Vec::new(), initial: BTreeMap::new() };
    Request { type_url, nonce, error: None, ask }
}
