//! How long an endpoint waits behind something big: a relist with many differences, an edit of the class that re-derives
//! every route. P11.
//!
//! `cargo bench -p benches --bench bursts`.

use benches::{Cluster, Options, Report, Target, Times, changes};
use std::time::Duration;
use tidegate_log::Event;
use tidegate_workload::Shape;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Arrivals that are played for each size of a slice.
const ARRIVALS: u32 = 1_000;

fn main() {
    let options = Options::read();
    relist(&options);
    class(&options);
}

/// A relist taken in slices of several sizes, each an epoch; the whole in one is what the engine does today.
fn relist(options: &Options) {
    let differences = options.pick(20_000, 1_000);
    let mut cluster = Cluster::start(Shape { services: differences, ..Shape::default() });
    let alone = changes(&mut cluster, options.pick(1_000, 50), differences, |fanout, service| {
        vec![fanout.change_endpoint(service)]
    });
    let report = Report::new(&format!("P11 relist with {differences} differences"));
    report.row("endpoint change alone, p50", alone.at(50), "ms", Target::Free);
    for slice in [differences, 5_000, 2_000, 1_000, 500].into_iter().filter(|slice| *slice <= differences) {
        let events = cluster.fanout.relist(differences);
        let epochs: Vec<Duration> = events.chunks(slice).map(|slice| cluster.apply(slice)).collect();
        let waits = waits(&epochs, Duration::from_secs_f64(alone.at(50) / 1e3));
        let what = if slice == differences { "as one epoch".to_owned() } else { format!("in slices of {slice}") };
        let total: Duration = epochs.iter().sum();
        report.row(&format!("{what}: the whole"), total.as_secs_f64() * 1e3, "ms", Target::Free);
        report.row(&format!("{what}: endpoint event to seal, p99"), waits.at(99), "ms", Target::AtMost(250.0));
    }
}

/// How long an event waits that arrives at any time during these epochs: until the one in progress is sealed, and then
/// for the next one, whose batch it joins. After the last there is nothing but the event.
fn waits(epochs: &[Duration], alone: Duration) -> Times {
    let total: Duration = epochs.iter().sum();
    let mut times = Times::new();
    for arrival in 0..ARRIVALS {
        let at = total * arrival / ARRIVALS;
        let mut end = Duration::ZERO;
        for (index, epoch) in epochs.iter().enumerate() {
            end += *epoch;
            if at < end {
                let next = epochs.get(index + 1).copied().unwrap_or(alone);
                times.push(end - at + next);
                break;
            }
        }
    }
    times
}

/// Refuses the class of all Gateways and takes it back, in turn.
fn class(options: &Options) {
    let routes = options.pick(20_000, 1_000);
    let mut cluster = Cluster::start(Shape { services: routes, routes, ..Shape::default() });
    let report = Report::new(&format!("P11 edit of the class of {routes} routes"));
    let (mut refused, mut accepted) = (Times::new(), Times::new());
    for round in 0..options.pick(6, 2) {
        let edit = [cluster.fanout.edit_class()];
        let took = cluster.apply(&edit);
        if round % 2 == 0 { refused.push(took) } else { accepted.push(took) }
    }
    report.row("every Gateway refused, p50: the longest wait", refused.at(50), "ms", Target::Free);
    report.row("every Gateway accepted again, p50: the longest wait", accepted.at(50), "ms", Target::Free);
    let unread: Vec<Event> = (0..routes).flat_map(|service| cluster.fanout.edit_unread(service)).collect();
    let took = cluster.apply(&unread);
    let changed = (cluster.core.changed_facts(), cluster.core.changed_rows());
    assert_eq!(changed, (0, 0), "an edit of what nobody reads re-derives nothing");
    let what = format!("{} edits of what nobody reads, all in one epoch", unread.len());
    report.row(&what, took.as_secs_f64() * 1e3, "ms", Target::Free);
}
