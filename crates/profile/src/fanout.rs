//! The profile of a fan-out: what each operation costs, how that grows, what memory is for, and what other ways cost.

use crate::client::{Client, Received, gateway_of};
use crate::cluster::Cluster;
use crate::drawing::Drawing;
use crate::measure::{Memory, Operation, Times};
use crate::naive::Plan;
use crate::part::{Error, Outcome, Part, Runner};
use crate::report::{Compared, Comparison, Footprint, Line, Plot, Report};
use crate::size::Size;
use std::collections::BTreeSet;
use std::time::Instant;
use tidegate_log::Event;
use tidegate_workload::{Fanout, Random};

/// How often operations are done where a curve is drawn, at most.
const CURVE_COUNT: usize = 400;

/// Another way to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compare {
    /// Clients joined in the dataflow.
    Naive,
    /// Everything computed anew at every change.
    Recompute,
}

/// Measures the fan-out of this size, and what it is compared with.
///
/// # Errors
///
/// If the process of a part fails.
pub fn fanout(runner: &mut Runner<'_>, size: &Size, compare: &BTreeSet<Compare>) -> Result<Report, Error> {
    let services = steps(size.services, size.gateways.max(4));
    let clients = steps(size.clients, 1);
    let compared = usize::from(compare.contains(&Compare::Recompute))
        + if compare.contains(&Compare::Naive) { 1 + clients.len() } else { 0 };
    runner.expect(6 + services.len() + clients.len() + compared);
    let mut report = Report::new("fanout", Some(*size));
    let outcome = runner.run("operations", &Part::Operations(*size))?;
    report.operations = outcome.operations;
    report.sent = outcome.sent;
    memory(runner, size, &mut report)?;
    curves(runner, size, &services, &clients, &mut report)?;
    if compare.contains(&Compare::Naive) {
        compare_naive(runner, size, &clients, &mut report)?;
    }
    if compare.contains(&Compare::Recompute) {
        compare_recompute(runner, size, &mut report)?;
    }
    report.drawings = runner.run("operators", &Part::Drawings(*size))?.drawings;
    report.notes.push(
        "A change is timed from the event in memory, parsed and not yet normalized, to the seal; where clients are said, \
         to the last byte for the last of them, which one thread frames."
            .to_owned(),
    );
    Ok(report)
}

/// Sizes up to this one, each a few times the one before.
fn steps(most: usize, least: usize) -> Vec<usize> {
    let sizes = [most / 100, most / 30, most / 10, most / 3, most];
    let sizes: BTreeSet<usize> = sizes.into_iter().filter(|size| *size >= least).collect();
    sizes.into_iter().collect()
}

/// The operations, one sort after the other, on one cluster.
pub(crate) fn operations(size: &Size) -> Outcome {
    let mut cluster = Cluster::start_on(size.shape(), &size.config(), |_| true);
    let rss_bytes = Memory::now().bytes();
    let cold_start_ms = cluster.cold.as_secs_f64() * 1e3;
    let (mut clients, first, connect) = connects(&cluster, size.clients.max(1));
    let sent = first.bytes.iter().map(|(kind, bytes)| (kind.short().to_owned(), *bytes)).collect();
    let clients_bytes = (Memory::now().bytes() - rss_bytes).max(0.0);
    let few = size.count.div_ceil(10);
    let once = few.min(size.services.div_ceil(2));
    let endpoint = |fanout: &mut Fanout, service: usize| vec![fanout.change_endpoint(service)];
    let operations = vec![
        measured(&mut cluster, "endpoint change", size.count, size.services, endpoint),
        to_clients(&mut cluster, &mut clients, size.count.div_ceil(40)),
        connect,
        measured(&mut cluster, "route retarget", few, size.routes, |fanout, route| vec![fanout.retarget(route)]),
        measured(&mut cluster, "service remove", once, size.services, Fanout::remove_service),
        measured(&mut cluster, "service add", once, size.services, Fanout::add_service),
        measured(&mut cluster, "edit that nobody reads", few, size.services, Fanout::edit_unread),
    ];
    Outcome { cold_start_ms, rss_bytes, clients_bytes, operations, sent, ..Outcome::default() }
}

/// Connects that many clients; what the first was sent, and what one costs.
fn connects(cluster: &Cluster, count: usize) -> (Vec<Client>, Received, Operation) {
    let (mut times, mut clients, mut sent) = (Times::new(), Vec::new(), Received::default());
    let mut first = None;
    for index in 0..count {
        let gateway = gateway_of(cluster, index);
        let (client, received) = times.take(|| Client::connect(index, &gateway, &cluster.sealed, 1));
        assert_eq!(client.behind(), 0, "a client that accepted everything has everything");
        clients.push(client.content());
        first.get_or_insert_with(|| received.clone());
        sent.add(Received { assignments: Vec::new(), ..received });
    }
    let sent_bytes = Some(sent.total() as f64 / count as f64);
    (clients, first.unwrap_or_default(), Operation { sent_bytes, ..times.operation("client connect") })
}

/// Applies batches that `batch` makes of different numbers below `of`, after a tenth as many that are not counted.
fn measured(
    cluster: &mut Cluster,
    name: &str,
    count: usize,
    of: usize,
    mut batch: impl FnMut(&mut Fanout, usize) -> Vec<Event>,
) -> Operation {
    let mut order: Vec<usize> = (0..of).collect();
    Random::new(7).shuffle(&mut order);
    let (mut times, mut facts, mut rows) = (Times::new(), 0, 0);
    let unmeasured = count / 10;
    // Whatever is removed and added is so once each, unless there are more rounds than things.
    for (round, index) in order.into_iter().cycle().take(count + unmeasured).enumerate() {
        let events = batch(&mut cluster.fanout, index);
        let took = cluster.apply(&events);
        if round >= unmeasured {
            times.push(took);
            facts += cluster.core.changed_facts();
            rows += cluster.core.changed_rows();
        }
    }
    let each = |sum: usize| Some(sum as f64 / times.count() as f64);
    Operation { facts: each(facts), rows: each(rows), ..times.operation(name) }
}

/// Endpoint changes to the last byte for the last client.
fn to_clients(cluster: &mut Cluster, clients: &mut [Client], count: usize) -> Operation {
    let (mut random, mut times) = (Random::new(11), Times::new());
    let (mut encoded, mut sent) = (0, 0);
    clients.iter_mut().for_each(|client| _ = client.follow(&cluster.sealed, 1));
    for round in 0..count {
        let change = [cluster.fanout.change_endpoint(random.below(cluster.fanout.shape().services))];
        let start = Instant::now();
        cluster.apply(&change);
        let mut received = Received::default();
        for client in clients.iter_mut() {
            received.add(client.follow(&cluster.sealed, 2 + round as u64));
        }
        times.push(start.elapsed());
        sent += received.total();
        encoded += received.assignments.iter().collect::<BTreeSet<_>>().len();
    }
    let each = |sum: usize| Some(sum as f64 / count as f64);
    let name = format!("endpoint change to {} clients", clients.len());
    Operation { encoded: each(encoded), sent_bytes: each(sent), ..times.operation(&name) }
}

/// What operators do, situation by situation.
pub(crate) fn drawings(size: &Size) -> Outcome {
    let mut cluster = Cluster::profiled(size.shape(), &size.config());
    let cold = Drawing::new("cold start", &cluster.first_picture());
    let mut drawings = Vec::new();
    let count = size.count.min(CURVE_COUNT);
    let mut draw = |title: &str, of: usize, batch: &dyn Fn(&mut Fanout, usize) -> Vec<Event>| {
        crate::changes(&mut cluster, count, of, batch);
        drawings.push(Drawing::new(title, &cluster.picture()));
    };
    draw("endpoint change", size.services, &|fanout, service| vec![fanout.change_endpoint(service)]);
    draw("route retarget", size.routes, &|fanout, route| vec![fanout.retarget(route)]);
    drawings.push(cold);
    Outcome { drawings, ..Outcome::default() }
}

/// What one more of each thing costs: what is resident, against a cluster with twice as many of it.
fn memory(runner: &mut Runner<'_>, size: &Size, report: &mut Report) -> Result<(), Error> {
    let mut cold = |what: &str, size: Size| runner.run(what, &Part::Cold(size));
    let base = cold("memory", *size)?;
    let endpoints = cold("memory of endpoints", Size { endpoints: 2 * size.endpoints, clients: 0, ..*size })?;
    let services = cold("memory of services", Size { services: 2 * size.services, clients: 0, ..*size })?;
    let routes = cold("memory of routes", Size { routes: 2 * size.routes, clients: 0, ..*size })?;
    (report.cold_start_ms, report.rss_bytes) = (base.cold_start_ms, base.rss_bytes);
    let more = |outcome: &Outcome, by: usize| (outcome.rss_bytes - base.rss_bytes).max(0.0) / by as f64;
    let endpoint = more(&endpoints, size.services * size.endpoints);
    let service = (more(&services, size.services) - endpoint * size.endpoints as f64).max(0.0);
    let client = base.clients_bytes / size.clients.max(1) as f64;
    let row = |what: &str, bytes: f64, how: &str| {
        let how = format!("{how}; resident, by processes of their own");
        Footprint { what: what.to_owned(), bytes, how }
    };
    report.memory = vec![
        row("endpoint", endpoint, "twice as many endpoints in each Service"),
        row("Service", service, "twice as many Services, each with the rule that names it and without its endpoints"),
        row("route", more(&routes, size.routes), "twice as many routes, with as many rules in all"),
        row("client", client, "the session of each and its subscriptions; without a stream"),
    ];
    Ok(())
}

fn curves(
    runner: &mut Runner<'_>,
    size: &Size,
    services: &[usize],
    clients: &[usize],
    report: &mut Report,
) -> Result<(), Error> {
    let count = size.count.min(CURVE_COUNT);
    let (mut latency, mut p99, mut cold, mut resident) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for &services in services {
        let at = Size { services, count, clients: 1, ..*size };
        let outcome = runner.run(&format!("{services} services"), &Part::Operations(at))?;
        let x = services as f64;
        if let Some(operation) = outcome.operation("endpoint change") {
            latency.push((x, operation.p50_us));
            p99.push((x, operation.p99_us));
        }
        cold.push((x, outcome.cold_start_ms));
        resident.push((x, outcome.rss_bytes));
    }
    let (mut sealed, mut sent, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for &clients in clients {
        let at = Size { clients, count, ..*size };
        let outcome = runner.run(&format!("{clients} clients"), &Part::Operations(at))?;
        let x = clients as f64;
        sealed.extend(outcome.operation("endpoint change").map(|operation| (x, operation.p50_us)));
        let name = format!("endpoint change to {clients} clients");
        sent.extend(outcome.operation(&name).map(|operation| (x, operation.p50_us)));
        held.push((x, outcome.rss_bytes + outcome.clients_bytes));
    }
    let line = |name: &str, points: Vec<(f64, f64)>| Line { name: name.to_owned(), points };
    let plot = |title: &str, x: &str, y: &str, unit: &str, lines: Vec<Line>| Plot {
        title: title.to_owned(),
        x: x.to_owned(),
        y: y.to_owned(),
        unit: unit.to_owned(),
        lines,
    };
    report.plots = vec![
        plot("An endpoint changes", "Services", "event to seal", "us", vec![line("p50", latency), line("p99", p99)]),
        plot(
            "An endpoint changes",
            "clients",
            "event to seal, and to the last client",
            "us",
            vec![line("seal, p50", sealed), line("last byte, p50", sent)],
        ),
        plot("Cold start", "Services", "first list to first seal", "ms", vec![line("tidegate", cold)]),
        plot("Memory", "Services", "resident", "B", vec![line("tidegate", resident)]),
        plot("Memory", "clients", "resident", "B", vec![line("tidegate", held)]),
    ];
    Ok(())
}

fn compare_naive(runner: &mut Runner<'_>, size: &Size, clients: &[usize], report: &mut Report) -> Result<(), Error> {
    let shared = runner.run("shared plan", &Part::Naive(Plan::Shared, *size))?;
    let mut points = Vec::new();
    let mut naive = Outcome::default();
    for &clients in clients {
        let at = Size { clients, ..*size };
        naive = runner.run(&format!("naive plan, {clients} clients"), &Part::Naive(Plan::PerClient, at))?;
        points.push((clients as f64, naive.rss_bytes));
    }
    let row = |what: String, unit: &str, ours: f64, theirs: f64| Compared { what, unit: unit.to_owned(), ours, theirs };
    let mut rows = vec![
        row("memory".to_owned(), "B", shared.rss_bytes, naive.rss_bytes),
        row("cold start".to_owned(), "ms", shared.cold_start_ms, naive.cold_start_ms),
    ];
    for (ours, theirs) in shared.operations.iter().zip(&naive.operations) {
        rows.push(row(format!("{}, p50", ours.name), "us", ours.p50_us, theirs.p50_us));
        rows.push(row(format!("{}, p99", ours.name), "us", ours.p99_us, theirs.p99_us));
    }
    report.comparisons.push(Comparison { way: "clients joined in the dataflow (naive)".to_owned(), rows });
    let memory = report.plots.iter_mut().find(|plot| plot.title == "Memory" && plot.x == "clients");
    memory.into_iter().for_each(|plot| plot.lines.push(Line { name: "naive".to_owned(), points: points.clone() }));
    report.notes.push(
        "The naive plan and the shared one that it is compared with derive endpoints and nothing else, without store and \
         sessions; what is compared there is the plan."
            .to_owned(),
    );
    Ok(())
}

fn compare_recompute(runner: &mut Runner<'_>, size: &Size, report: &mut Report) -> Result<(), Error> {
    let outcome = runner.run("recompute", &Part::Recompute(*size))?;
    let Some((dataflow, others)) = outcome.operations.split_first() else { return Ok(()) };
    let rows = others.iter().map(|other| Compared {
        what: format!("endpoint change, p50: {}", other.name),
        unit: "us".to_owned(),
        ours: dataflow.p50_us,
        theirs: other.p50_us,
    });
    report.comparisons.push(Comparison { way: "everything computed anew".to_owned(), rows: rows.collect() });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_change_is_encoded_once_whatever_the_clients() {
        // Nobody prefers a zone: there is one form for everybody.
        let encoded = [1, 2, 12].map(|clients| {
            let outcome = operations(&Size { clients, prefer: 0, gateways: 1, ..Size::quick() });
            let change = outcome.operation("endpoint change").unwrap();
            assert_eq!((change.facts, change.rows), (Some(2.0), Some(2.0)), "one fact, one assignment");
            let all = outcome.operation(&format!("endpoint change to {clients} clients")).unwrap();
            assert!(all.sent_bytes > Some(0.0));
            all.encoded
        });
        assert_eq!(encoded, [Some(1.0); 3]);
    }

    #[test]
    fn what_nobody_reads_changes_nothing_and_a_service_goes_and_comes() {
        let outcome = operations(&Size::quick());
        let unread = outcome.operation("edit that nobody reads").unwrap();
        assert_eq!((unread.facts, unread.rows), (Some(0.0), Some(0.0)));
        for name in ["service remove", "service add"] {
            let operation = outcome.operation(name).unwrap();
            assert_eq!(operation.facts, Some(2.0), "{name}: the Service and its slice");
            assert!(operation.rows >= Some(2.0), "{operation:?}");
        }
        assert_eq!(outcome.sent.keys().map(String::as_str).collect::<Vec<_>>(), ["cds", "eds", "lds", "rds"]);
    }

    #[test]
    fn a_fan_out_has_every_figure_that_it_promises() {
        let mut steps = Vec::new();
        let mut runner = Runner::here().with_progress(|step| steps.push((step.done, step.of)));
        let all = BTreeSet::from([Compare::Naive, Compare::Recompute]);
        let report = fanout(&mut runner, &Size::quick(), &all).unwrap();
        drop(runner);
        let of = steps[0].1;
        assert_eq!(steps, (0..of).map(|done| (done, of)).collect::<Vec<_>>(), "as many parts as were promised");
        let text = serde_json::to_string(&report).unwrap();
        let read: Report = serde_json::from_str(&text).unwrap();
        assert_eq!((read.size, read.operations.len()), (report.size, report.operations.len()));
        for name in ["endpoint change", "client connect", "route retarget", "service remove", "service add"] {
            let operation = report.operation(name).unwrap();
            assert!(operation.p50_us > 0.0 && operation.p99_us >= operation.p50_us, "{operation:?}");
        }
        assert!(report.cold_start_ms > 0.0 && report.rss_bytes > 0.0);
        let memory: Vec<&str> = report.memory.iter().map(|row| row.what.as_str()).collect();
        assert_eq!(memory, ["endpoint", "Service", "route", "client"]);
        assert_eq!(report.comparisons.len(), 2);
        assert!(report.plots.iter().all(|plot| plot.lines.iter().all(|line| !line.points.is_empty())));
        let titles: Vec<&str> = report.drawings.iter().map(|drawing| drawing.title.as_str()).collect();
        assert_eq!(titles, ["endpoint change", "route retarget", "cold start"]);
    }
}
