//! Every scenario, three ways with one end: as written, one object an epoch, and shuffled with noise and a relist. At
//! every epoch of each the rows are those of the reference, and everything that is named exists.
//!
//! `TIDEGATE_SCENARIO=b05` runs those whose names contain it; `UPDATE_GOLDEN=1` rewrites the golden files.

mod noise;

use std::collections::BTreeSet;
use std::path::Path;
use tidegate_engine::{Config, Core};
use tidegate_log::Event;
use tidegate_scenarios::scenario::observed::Observed;
use tidegate_scenarios::scenario::{Scenario, seal, synced};
use tidegate_scenarios::{difference, rows_of};
use tidegate_xds::{Row, Sealed};

/// Shuffles of each scenario.
const SEEDS: u64 = 6;

/// A core that compares everything it seals with the reference.
struct Checked {
    scenario: String,
    core: Core,
    sealed: u64,
}

impl Checked {
    fn new(scenario: &str, way: &str) -> Self {
        Checked { scenario: format!("{scenario}, {way}"), core: Core::new(&Config::default()), sealed: 0 }
    }

    fn apply(&mut self, events: &[Event]) -> std::sync::Arc<Sealed> {
        self.sealed += 1;
        let sealed = seal(&mut self.core, events, self.sealed);
        let difference = difference(&sealed, &self.core.facts());
        let at = format!("{}, epoch {}", self.scenario, self.sealed);
        assert!(difference.is_empty(), "{at}: not what the reference says:\n{}", difference.join("\n"));
        let violations = self.core.store().violations();
        assert!(violations.is_empty(), "{at}: {violations:?}");
        sealed
    }
}

/// Plays the epochs as they are written and checks what is expected after each; the rows in the end.
fn as_written(scenario: &Scenario, wrong: &mut Vec<String>) -> BTreeSet<Row> {
    let mut core = Checked::new(&scenario.name(), "as written");
    let mut before = None;
    let mut last = None;
    for epoch in &scenario.epochs {
        let mut events = epoch.events.clone();
        if last.is_none() {
            events.extend(synced());
        }
        let sealed = core.apply(&events);
        let observed = Observed(&sealed);
        let difference = epoch.expect.difference(&observed, before.as_ref());
        wrong.extend(difference.iter().map(|text| format!("{}, epoch {}: {text}", scenario.name(), epoch.number)));
        before = Some(observed.versions());
        last = Some(sealed);
    }
    let last = last.expect("there is an epoch");
    golden(&scenario.folder.join("snapshot.yaml"), &Observed(&last).snapshot(), wrong);
    golden(&scenario.folder.join("status.yaml"), &Observed(&last).status(), wrong);
    rows_of(&last)
}

/// Compares a golden file, and goes on if it differs: one run shows everything.
fn golden(path: &Path, actual: &str, wrong: &mut Vec<String>) {
    let checked = std::panic::catch_unwind(|| testkit::golden::check(path, actual));
    if let Err(panic) = checked {
        wrong.push(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| path.display().to_string()));
    }
}

fn one_object_an_epoch(scenario: &Scenario) -> BTreeSet<Row> {
    let mut core = Checked::new(&scenario.name(), "one object an epoch");
    let mut last = core.apply(&synced());
    for event in scenario.changes() {
        last = core.apply(std::slice::from_ref(event));
    }
    rows_of(&last)
}

fn shuffled(scenario: &Scenario, seed: u64) -> BTreeSet<Row> {
    let mut core = Checked::new(&scenario.name(), &format!("shuffle {seed}"));
    let mut last = core.apply(&synced());
    for batch in noise::batches(scenario, seed) {
        last = core.apply(&batch);
    }
    rows_of(&last)
}

fn cold(scenario: &Scenario) -> BTreeSet<Row> {
    let mut core = Checked::new(&scenario.name(), "cold start");
    let mut events: Vec<Event> = scenario.last_objects().into_values().map(Event::Apply).collect();
    events.extend(synced());
    rows_of(&core.apply(&events))
}

/// Plays one scenario all ways; what of its expectations does not hold.
fn all_ways(scenario: &Scenario) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = scenario.name();
    let expected = as_written(scenario, &mut wrong);
    assert_eq!(one_object_an_epoch(scenario), expected, "{name}: one object an epoch ends differently");
    assert_eq!(cold(scenario), expected, "{name}: a cold start ends differently");
    for seed in 0..SEEDS {
        assert_eq!(shuffled(scenario, seed), expected, "{name}: shuffle {seed} ends differently");
    }
    wrong
}

#[test]
fn every_scenario_ends_the_same_whatever_the_order() {
    let scenarios = Scenario::all();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let scenarios = &scenarios;
    let share = |first: usize| scenarios.iter().skip(first).step_by(threads).flat_map(all_ways).collect::<Vec<_>>();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let shares: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        let joined = shares.into_iter().map(|share| share.join());
        joined.flat_map(|wrong| wrong.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    assert!(wrong.is_empty(), "{} expectations do not hold:\n{}", wrong.len(), wrong.join("\n"));
}
