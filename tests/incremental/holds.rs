//! Histories in which entries are held: routes keep their matches while their targets change, time passes by
//! milliseconds, some routes have bounds of their own, and the timers say when a hold ends, or are late.

use super::{STEPS, histories_of};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate_engine::Config;
use tidegate_log::{Event, Object};
use tidegate_model::Kind;
use tidegate_scenarios::scenario::controller::Controller;
use tidegate_scenarios::{Oracle, rows_of};
use tidegate_workload::{Random, World};
use tidegate_xds::Sealed;

/// The bound of routes that do not say their own, in milliseconds.
pub(crate) const BOUND: u64 = 9;

/// How long reports are believed, in milliseconds: some of them end within a history.
const LIFETIME: u64 = 30;

/// Makes it likely that an entry is the same one before and after an edit: every route attaches to every Gateway for every
/// host, and its first rule matches everything. The route's own bound follows from its generation, so that an object says
/// the same whenever it is listed.
pub(crate) fn stage(event: &mut Event) {
    let Event::Apply(object) = event else { return };
    if object.key.kind != Kind::HttpRoute {
        return;
    }
    let mut body = (*object.body).clone();
    let gateways =
        ["infra", "shop", "team-x"].into_iter().flat_map(|namespace| [(namespace, "edge"), (namespace, "inner")]);
    body["spec"]["parentRefs"] =
        gateways.map(|(namespace, name)| json!({"namespace": namespace, "name": name})).collect();
    body["spec"]["hostnames"] = json!(null);
    if let Some(rule) = body["spec"]["rules"][0].as_object_mut() {
        rule.remove("matches");
    }
    let generation = body["metadata"]["generation"].as_u64().unwrap_or(0);
    let bound = ["", "", "", "0s", "3ms", "40ms", "soon"][usize::try_from(generation % 7).unwrap_or(0)];
    if !bound.is_empty() {
        body["metadata"]["annotations"]["tidegate.dev/retarget-hold"] = bound.into();
    }
    *event = Event::Apply(Object::new(body).expect("it was an object before"));
}

/// What the histories were worth.
#[derive(Default)]
struct Seen {
    /// Epochs at which something was held.
    held: AtomicUsize,
    /// Holds that ended because their time was up.
    ended: AtomicUsize,
    /// Holds that ended before.
    released: AtomicUsize,
}

impl Seen {
    fn note(&self, before: &Sealed, after: &Sealed) {
        let gone = before.held.iter().filter(|held| !after.held.contains(*held));
        let (ended, released): (Vec<_>, Vec<_>) = gone.partition(|held| held.until <= after.millis);
        self.held.fetch_add(usize::from(!after.held.is_empty()), Ordering::Relaxed);
        self.ended.fetch_add(ended.len(), Ordering::Relaxed);
        self.released.fetch_add(released.len(), Ordering::Relaxed);
    }
}

/// A controller with the oracle beside it.
struct Checked {
    seed: u64,
    controller: Controller,
    oracle: Oracle,
}

impl Checked {
    fn new(seed: u64, workers: usize) -> Self {
        let config = Config { workers, hold: Some(BOUND), report_lifetime: LIFETIME, ..Config::default() };
        let controller = Controller::new(config);
        Checked { seed, controller, oracle: Oracle::new(Some(BOUND)) }
    }

    fn apply(&mut self, mut events: Vec<Event>, millis: u64) -> Arc<Sealed> {
        events.iter_mut().for_each(stage);
        let sealed = self.controller.apply(&events, millis);
        self.check(sealed)
    }

    fn check(&mut self, sealed: Arc<Sealed>) -> Arc<Sealed> {
        let at = format!("seed {}, epoch {}", self.seed, sealed.epoch);
        let difference = self.oracle.difference(&sealed, &self.controller.core.facts());
        assert!(difference.is_empty(), "{at}: not what the reference says:\n{}", difference.join("\n"));
        let violations = self.controller.core.store().violations();
        assert!(violations.is_empty(), "{at}: {violations:?}");
        sealed
    }
}

/// Plays one history.
fn play(seed: u64, workers: usize, seen: &Seen) {
    let mut checked = Checked::new(seed, workers);
    let mut world = World::new(seed);
    let mut random = Random::new(seed ^ 0x401D);
    let mut millis = 1;
    let mut before = checked.apply(world.list(), millis);
    assert_eq!(before.held.len(), 0, "seed {seed}: a cold start holds something");
    for _ in 0..STEPS {
        millis += random.below(4) as u64;
        let next = checked.apply(world.step(), millis);
        seen.note(&before, &next);
        before = next;
    }
    // Every hold ends by itself, and every report, and then nothing is left of the past.
    let rest = checked.controller.rest();
    let rest = checked.check(rest);
    assert_eq!(rest.held.len(), 0, "seed {seed}: a hold never ends");
    let cold = Checked::new(seed, 1).apply(world.list(), rest.millis);
    assert_eq!(rows_of(&cold), rows_of(&rest), "seed {seed}: a cold start gives other rows");
}

fn histories(workers: usize, share: u64) {
    let seen = Seen::default();
    let count = histories_of(share, |seed| play(seed, workers, &seen));
    let Seen { held, ended, released } = seen;
    let (held, ended, released) = (held.into_inner(), ended.into_inner(), released.into_inner());
    eprintln!("{count} histories: {held} epochs with holds; {ended} holds ended, {released} were released before");
    assert!(
        held as u64 >= count / 2 && ended as u64 >= count / 4 && released as u64 >= count / 4,
        "too little is held"
    );
}

#[test]
fn every_epoch_with_holds_equals_the_reference() {
    histories(1, 1);
}

#[test]
fn two_workers_hold_the_same() {
    histories(2, 2);
}
