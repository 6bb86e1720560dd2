//! Every scenario, three ways with one end: as written, one object an epoch, and shuffled with noise and a relist. At
//! every epoch of each the rows are those of the reference, and everything that is named exists.
//!
//! `TIDEGATE_SCENARIO=b05` runs those whose names contain it; `UPDATE_GOLDEN=1` rewrites the golden files.

mod noise;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use tidegate_log::Event;
use tidegate_scenarios::scenario::Scenario;
use tidegate_scenarios::scenario::controller::Controller;
use tidegate_scenarios::scenario::observed::Observed;
use tidegate_scenarios::{Oracle, report, rows_of};
use tidegate_xds::{Row, Sealed};

/// Shuffles of each scenario.
const SEEDS: u64 = 4;

/// Shuffles of each row of the Gateway API: there are many, and they are about what follows, not about when.
const SEEDS_OF_ROWS: u64 = 2;

/// A controller that compares everything it seals with the reference.
struct Checked {
    scenario: String,
    controller: Controller,
    oracle: Oracle,
    sealed: u64,
}

impl Checked {
    fn new(scenario: &Scenario, way: &str) -> Self {
        let controller = Controller::new(scenario.settings.config());
        let oracle = Oracle::of(&scenario.settings);
        Checked { scenario: format!("{}, {way}", scenario.name()), controller, oracle, sealed: 0 }
    }

    fn apply(&mut self, events: &[Event]) -> Arc<Sealed> {
        self.apply_at(events, self.sealed + 1)
    }

    fn apply_at(&mut self, events: &[Event], millis: u64) -> Arc<Sealed> {
        let sealed = self.controller.apply(events, millis);
        self.check(sealed)
    }

    fn check(&mut self, sealed: Arc<Sealed>) -> Arc<Sealed> {
        self.sealed += 1;
        let difference = self.oracle.difference(&sealed, &self.controller.core.facts());
        let at = format!("{}, epoch {}", self.scenario, self.sealed);
        assert!(difference.is_empty(), "{at}: not what the reference says:\n{}", difference.join("\n"));
        let violations = self.controller.core.store().violations();
        assert!(violations.is_empty(), "{at}: {violations:?}");
        sealed
    }

    fn restart(&mut self, scenario: &Scenario) {
        self.controller.restart();
        self.oracle = Oracle::of(&scenario.settings);
    }

    /// The rows when nothing waits for time to pass any more.
    fn rest(&mut self) -> BTreeSet<Row> {
        let sealed = self.controller.rest();
        rows_of(&self.check(sealed))
    }
}

/// Plays the epochs as they are written and checks what is expected after each; the rows in the end.
fn as_written(scenario: &Scenario, wrong: &mut Vec<String>) -> BTreeSet<Row> {
    let mut checked = Checked::new(scenario, "as written");
    let mut before = None;
    let mut last = None;
    for epoch in &scenario.epochs {
        if epoch.restart {
            checked.restart(scenario);
        }
        let sealed = checked.apply_at(&epoch.events, epoch.millis);
        let observed = Observed(&sealed);
        let difference = epoch.expect.difference(&observed, before.as_ref());
        wrong.extend(difference.iter().map(|text| format!("{}, epoch {}: {text}", scenario.name(), epoch.number)));
        before = Some(observed.versions());
        last = Some(sealed);
    }
    let last = last.expect("there is an epoch");
    if !scenario.is_row() {
        golden(&scenario.folder.join("snapshot.yaml"), &Observed(&last).snapshot(), wrong);
        golden(&scenario.folder.join("status.yaml"), &Observed(&last).status(), wrong);
    }
    checked.rest()
}

/// Compares a golden file, and goes on if it differs: one run shows everything.
fn golden(path: &Path, actual: &str, wrong: &mut Vec<String>) {
    let checked = std::panic::catch_unwind(|| testkit::golden::check(path, actual));
    if let Err(panic) = checked {
        wrong.push(report::said(&*panic));
    }
}

fn one_object_an_epoch(scenario: &Scenario) -> BTreeSet<Row> {
    let mut checked = Checked::new(scenario, "one object an epoch");
    checked.apply(&[]);
    for event in scenario.changes() {
        checked.apply(std::slice::from_ref(event));
    }
    checked.rest()
}

fn shuffled(scenario: &Scenario, seed: u64) -> BTreeSet<Row> {
    let mut checked = Checked::new(scenario, &format!("shuffle {seed}"));
    checked.apply(&[]);
    for batch in noise::batches(scenario, seed) {
        checked.apply(&batch);
    }
    checked.rest()
}

fn cold(scenario: &Scenario) -> BTreeSet<Row> {
    let mut checked = Checked::new(scenario, "cold start");
    let events: Vec<Event> = scenario.last_objects().into_values().map(Event::Apply).collect();
    checked.apply(&events);
    checked.rest()
}

/// Plays one scenario all ways; what of its expectations does not hold.
fn all_ways(scenario: &Scenario) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = scenario.name();
    let seeds = if scenario.is_row() { SEEDS_OF_ROWS } else { SEEDS };
    let expected = as_written(scenario, &mut wrong);
    assert_eq!(one_object_an_epoch(scenario), expected, "{name}: one object an epoch ends differently");
    assert_eq!(cold(scenario), expected, "{name}: a cold start ends differently");
    for seed in 0..seeds {
        assert_eq!(shuffled(scenario, seed), expected, "{name}: shuffle {seed} ends differently");
    }
    wrong
}

/// The same, and says so in the report; what ends in a panic is wrong like everything else, and the others go on.
fn reported(scenario: &Scenario) -> Vec<String> {
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| all_ways(scenario)));
    let wrong = played.unwrap_or_else(|panic| vec![format!("{}: {}", scenario.name(), report::said(&*panic))]);
    report::note(&scenario.name(), "three ways", &wrong);
    wrong
}

#[test]
fn every_scenario_ends_the_same_whatever_the_order() {
    let scenarios = Scenario::all();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let scenarios = &scenarios;
    let share = |first: usize| scenarios.iter().skip(first).step_by(threads).flat_map(reported).collect::<Vec<_>>();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let shares: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        let joined = shares.into_iter().map(|share| share.join());
        joined.flat_map(|wrong| wrong.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    assert!(wrong.is_empty(), "{} expectations do not hold:\n{}", wrong.len(), wrong.join("\n"));
}
