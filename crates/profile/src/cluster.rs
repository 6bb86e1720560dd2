//! A fan-out cluster and a core that has it.

use crate::measure::Times;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_engine::{Applied, Config, Core, Picture, Profiler};
use tidegate_log::Event;
use tidegate_model::Millis;
use tidegate_workload::{Fanout, Random, Shape};
use tidegate_xds::Sealed;

/// Objects of a list that are handed over at once: what an API server sends as one page.
const PAGE: usize = 500;

/// The generator and the core that follows it.
pub struct Cluster {
    /// The cluster.
    pub fanout: Fanout,
    /// What follows it.
    pub core: Core,
    /// What was sealed last.
    pub sealed: Arc<Sealed>,
    /// What the core needed until the first seal; making the objects is not in it.
    pub cold: Duration,
    /// What operators do, if that is logged.
    profiler: Option<Profiler>,
    now: Millis,
}

impl Cluster {
    /// Lists the cluster to a new core.
    #[must_use]
    pub fn start(shape: Shape) -> Self {
        Cluster::start_on(shape, &Config::default(), |_| true)
    }

    /// The same with this configuration, and with those events of the list alone that are `wanted`.
    #[must_use]
    pub fn start_on(shape: Shape, config: &Config, wanted: impl Fn(&Event) -> bool) -> Self {
        Cluster::start_with(shape, None, wanted, || Core::new(config))
    }

    /// The same, with a core that logs what its operators do.
    #[must_use]
    pub fn profiled(shape: Shape, config: &Config) -> Self {
        let profiler = Profiler::new(Instant::now());
        Cluster::start_with(shape, Some(profiler.clone()), |_| true, || Core::profiled(config, &profiler))
    }

    fn start_with(
        shape: Shape,
        profiler: Option<Profiler>,
        wanted: impl Fn(&Event) -> bool,
        core: impl FnOnce() -> Core,
    ) -> Self {
        let fanout = Fanout::new(shape);
        let mut times = Times::new();
        let mut core = times.take(core);
        let mut sealed = None;
        let mut list = fanout.list().filter(|event| wanted(event));
        loop {
            let page: Vec<Event> = list.by_ref().take(PAGE).collect();
            if page.is_empty() {
                break;
            }
            match times.take(|| core.apply(&page, 1)) {
                Applied::Pending { .. } => assert!(sealed.is_none(), "what is complete stays complete"),
                Applied::Sealed(first) => sealed = Some(first),
            }
        }
        drop(list);
        let sealed = sealed.expect("a list ends with every kind synced");
        check(&core);
        Cluster { fanout, core, sealed, cold: times.sum(), profiler, now: 1 }
    }

    /// Takes a batch to its seal, and says how long that took.
    ///
    /// # Panics
    ///
    /// If what comes of it is not closed.
    pub fn apply(&mut self, events: &[Event]) -> Duration {
        self.apply_at(events, self.now + 1)
    }

    /// The same with a batch that was taken at `now`.
    ///
    /// # Panics
    ///
    /// If what comes of it is not closed.
    pub fn apply_at(&mut self, events: &[Event], now: Millis) -> Duration {
        self.now = now;
        let start = Instant::now();
        let applied = self.core.apply(events, now);
        let took = start.elapsed();
        let Applied::Sealed(sealed) = applied else { panic!("every kind is listed") };
        self.sealed = sealed;
        check(&self.core);
        took
    }

    /// What the dataflow did at the first seal; nothing unless it is profiled.
    #[must_use]
    pub fn first_picture(&self) -> Picture {
        self.profiler.as_ref().map(Profiler::first).unwrap_or_default()
    }

    /// What it did after that and since this was last called.
    #[must_use]
    pub fn picture(&self) -> Picture {
        self.profiler.as_ref().map(Profiler::take).unwrap_or_default()
    }
}

fn check(core: &Core) {
    let violations = core.store().violations();
    assert!(violations.is_empty(), "what is sealed is not closed: {violations:?}");
}

/// Applies `count` batches that `batch` makes of a random number below `of`, after a tenth as many that are not counted.
pub fn changes(
    cluster: &mut Cluster,
    count: usize,
    of: usize,
    batch: impl Fn(&mut Fanout, usize) -> Vec<Event>,
) -> Times {
    let mut random = Random::new(7);
    let mut times = Times::new();
    for round in 0..count + count / 10 {
        let events = batch(&mut cluster.fanout, random.below(of));
        let took = cluster.apply(&events);
        if round >= count / 10 {
            times.push(took);
        }
    }
    times
}
