//! An endpoint change against computing everything anew: P4.
//!
//! Three ways to compute anew, from the same facts: the reference, which is written to be read; plain loops over facts
//! that are indexed beforehand for nothing (`recompute.rs`); and the same with every encoding kept that may be kept. The
//! last two know only what this workload needs and derive no status, which is in their favor. Each must give what the
//! dataflow gives.
//!
//! `cargo bench -p benches --bench full`.

use benches::{Cluster, Options, Report, Target, Times, changes};
use recompute::{Cache, Facts, Snapshot};
use tidegate_engine::Config;
use tidegate_log::Event;
use tidegate_normalize::{Moment, normalize};
use tidegate_workload::Shape;

mod recompute;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let options = Options::read();
    let services = options.pick(10_000, 1_000);
    let mut cluster = Cluster::start(Shape { services, ..Shape::default() });
    let count = options.pick(2_000, 100);
    let incremental = changes(&mut cluster, count, services, |fanout, service| vec![fanout.change_endpoint(service)]);
    let report = Report::new(&format!("P4 endpoint change at {services} services, 5000 routes"));
    report.row("dataflow, p50", incremental.at(50), "ms", Target::Free);
    let against = |what: &str, times: &Times, least: f64| {
        report.row(&format!("{what}, p50"), times.at(50), "ms", Target::Free);
        let ratio = times.at(50) / incremental.at(50);
        let target = if options.quick { Target::Free } else { Target::AtLeast(least) };
        report.row(&format!("{what}, against the dataflow"), ratio, "x", target);
    };

    let config = tidegate_translate::Config::new(Config::default().controller);
    let facts = cluster.core.facts();
    let mut reference = Times::new();
    for _ in 0..options.pick(3, 1) {
        let rows = reference.take(|| tidegate_translate::reference::translate(&config, &facts));
        assert!(rows.len() > 2 * services, "the reference derives the whole");
    }
    against("reference", &reference, 100.0);

    let mut facts = Facts::new(facts);
    let plain = recomputes(&mut cluster, &mut facts, options.pick(20, 3), &mut |facts| recompute::all(facts, None));
    against("plain loops", &plain, 100.0);
    let mut cache = Cache::default();
    let cached =
        recomputes(&mut cluster, &mut facts, options.pick(50, 3), &mut |facts| recompute::all(facts, Some(&mut cache)));
    against("plain loops, encodings kept", &cached, 100.0);
}

/// Changes endpoints and computes everything anew each time: normalize, compute, compare with what there was.
fn recomputes(
    cluster: &mut Cluster,
    facts: &mut Facts,
    count: usize,
    compute: &mut dyn FnMut(&Facts) -> Snapshot,
) -> Times {
    let mut times = Times::new();
    let mut last = compute(facts);
    for round in 0..count {
        let change = cluster.fanout.change_endpoint(round * 7);
        cluster.apply(std::slice::from_ref(&change));
        let Event::Apply(object) = &change else { panic!("{change:?} applies nothing") };
        let (snapshot, changed) = times.take(|| {
            normalize(object, &Moment::default()).facts.into_iter().for_each(|fact| facts.insert(fact));
            let snapshot = compute(facts);
            let changed = snapshot.differences(&last);
            (snapshot, changed)
        });
        assert_eq!(changed, 1, "one assignment changes");
        last = snapshot;
    }
    last.assert_equals(&cluster.sealed);
    times
}
