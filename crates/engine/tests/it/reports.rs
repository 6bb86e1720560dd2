//! Reports of health in time: a virtual clock, and deadlines that are said when they have passed.

use crate::live::{sealed, send, soon, ticking};
use crate::objects::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_engine::{Applied, Config, Core, Engine, replay};
use tidegate_log::{Event, Header, Object, Reader, Writer};
use tidegate_model::{Millis, ObjectKey};
use tidegate_normalize::Deadline;
use tidegate_xds::{Sealed, Version};

/// A controller under a virtual clock. Times are seconds.
struct World {
    core: Core,
    deadlines: BTreeMap<ObjectKey, Vec<Deadline>>,
    /// The assignment of the cart.
    version: Version,
}

impl World {
    /// The shop, with these reports, at a cold start.
    fn start(at: Millis, reports: &[Event]) -> Self {
        let mut core = Core::new(&config(1));
        let events: Vec<Event> = shop_with_pods().into_iter().chain(reports.iter().cloned()).chain(synced()).collect();
        let sealed = apply(&mut core, &events, at * 1000);
        World { deadlines: core.take_deadlines(), core, version: version(&sealed) }
    }

    /// Applies these events and says what has passed; whether the assignment changes.
    fn at(&mut self, second: Millis, events: &[Event]) -> bool {
        let millis = second * 1000;
        let passed = |all: &mut Vec<Deadline>| all.extract_if(.., |one| one.at <= millis).collect::<Vec<_>>();
        let passed: Vec<Deadline> = self.deadlines.values_mut().flat_map(passed).collect();
        let mut batch: Vec<Event> =
            passed.into_iter().map(|d| Event::Expired { key: d.key, renewed: d.renewed }).collect();
        batch.extend_from_slice(events);
        let sealed = apply(&mut self.core, &batch, millis);
        self.deadlines.extend(self.core.take_deadlines());
        let before = std::mem::replace(&mut self.version, version(&sealed));
        assert_eq!(
            before != self.version,
            self.core.changed_rows() > 0,
            "a report changes assignments and nothing else"
        );
        before != self.version
    }

    /// The seconds of this time at which something changes though nothing happens.
    fn changes(&mut self, seconds: impl Iterator<Item = Millis>) -> Vec<Millis> {
        seconds.filter(|second| self.at(*second, &[])).collect()
    }

    fn ends(&self) -> Vec<Millis> {
        self.deadlines.values().flatten().map(|deadline| deadline.at / 1000).collect()
    }
}

fn apply(core: &mut Core, events: &[Event], millis: Millis) -> Arc<Sealed> {
    match core.apply(events, millis) {
        Applied::Sealed(sealed) => sealed,
        Applied::Pending { missing } => panic!("{missing:?} are awaited"),
    }
}

fn version(sealed: &Sealed) -> Version {
    sealed.endpoints["shop/cart/80"].default_form().version
}

/// The shop, where the cart has the pods `a` and `z`.
fn shop_with_pods() -> Vec<Event> {
    let pods = ["a", "z"].map(|pod| {
        let target = json!({ "kind": "Pod", "name": pod, "uid": format!("uid-{pod}") });
        json!({ "addresses": [format!("10.0.0.{}", pod.as_bytes()[0])], "targetRef": target })
    });
    let Event::Apply(object) = slice("cart", &[]) else { panic!("a slice is applied") };
    let mut body = (*object.body).clone();
    body["endpoints"] = json!(pods);
    shop().into_iter().chain([Event::Apply(Object::new(body).expect("it has a key"))]).collect()
}

/// A report of one entry for each text: `a U@0` is an unhealthy `a` by a renewal at second 0.
fn report(name: &str, entries: &[&str]) -> Event {
    let entry = |text: &&str| {
        let (pod, said) = text.split_once(' ').expect("a pod and what is said of it");
        let (state, renewed) = said.split_once('@').expect("a state and a time");
        let state = BTreeMap::from([("H", "Healthy"), ("U", "Unhealthy"), ("K", "Unknown")])[state];
        let mut entry = json!({ "targetRef": { "uid": format!("uid-{pod}") }, "state": state });
        if renewed != "none" {
            entry["renewTime"] = time(renewed.parse::<Millis>().expect("a second") * 1000).into();
        }
        entry
    };
    report_of(name, entries.iter().map(entry).collect())
}

fn report_of(name: &str, endpoints: Vec<Value>) -> Event {
    apply_body(name, json!({ "endpoints": endpoints }))
}

fn apply_body(name: &str, status: Value) -> Event {
    crate::objects::apply(json!({
        "apiVersion": "tidegate.dev/v1alpha1", "kind": "EndpointReport",
        // As an API server has it.
        "metadata": { "namespace": "shop", "name": name, "uid": name },
        "spec": { "serviceRef": { "name": "cart" }, "reporter": name },
        "status": status,
    }))
}

fn time(millis: Millis) -> String {
    format!("1970-01-01T00:{:02}:{:02}.{:03}000Z", millis / 60_000, millis / 1000 % 60, millis % 1000)
}

/// What the cart's assignment is without a word of anybody.
fn plain() -> Version {
    World::start(0, &[]).version
}

#[test]
fn what_expires_does_so_without_any_event_and_once() {
    let mut world = World::start(0, &[report("n1", &["a U@0", "z H@0"])]);
    assert_ne!(world.version, plain(), "it drains");
    assert_eq!(world.changes(1..600), [60]);
    assert_eq!(world.version, plain(), "what nobody says any more is not believed");
    assert_eq!((world.ends(), world.core.changed_facts()), (vec![], 0));
}

#[test]
fn a_renewal_moves_the_end_and_is_no_work() {
    let mut world = World::start(0, &[report("n1", &["a U@0"])]);
    assert_eq!(world.ends(), [60]);
    assert!(!world.at(15, &[report("n1", &["a U@15"])]));
    assert_eq!((world.core.changed_facts(), world.ends()), (0, vec![75]));
    assert_eq!(world.changes(16..600), [75]);
    // Renewed again when it had expired: that is news.
    assert!(world.at(600, &[report("n1", &["a U@599"])]));
    assert_eq!(world.changes(601..700), [659]);
}

#[test]
fn an_agent_that_restarts_is_believed_at_once() {
    let mut world = World::start(0, &[report("n1", &["a U@0"])]);
    assert!(world.at(20, &[report("n1", &["a H@20"])]));
    assert_eq!(
        (world.version, world.changes(21..100)),
        (plain(), vec![]),
        "local ones are used while they are not ill"
    );
}

#[test]
fn a_writer_that_leaves_the_time_out_is_not_believed() {
    let mut world = World::start(0, &[report("n1", &["a U@0"])]);
    assert!(!world.at(60, &[report("n1", &["a U@60"])]), "its renewal came in time to be believed on");
    assert!(world.at(61, &[report("n1", &["a U@none"])]));
    assert_eq!((world.version, world.ends()), (plain(), vec![]));
}

#[test]
fn a_renewal_of_one_entry_leaves_what_has_expired_as_it_is() {
    let mut world = World::start(30, &[report("n1", &["a H@30"]), report("n2", &["z U@0"])]);
    assert_eq!(world.changes(31..70), [60]);
    assert!(!world.at(70, &[report("n1", &["a H@45"])]));
    assert_eq!(world.core.changed_facts(), 0);
    // The same in one report whose entries have times of their own.
    let mut world = World::start(30, &[report("n1", &["a U@30", "z U@0"])]);
    assert_eq!(world.version, plain(), "somebody must be left");
    assert_eq!(world.changes(31..80), [60]);
    assert!(!world.at(80, &[report("n1", &["a U@45", "z U@0"])]));
    assert_eq!(world.changes(81..200), [105]);
}

#[test]
fn after_a_restart_the_stored_times_and_the_clock_decide() {
    let stored = [report("n1", &["a U@50"])];
    let mut world = World::start(0, &[]);
    world.at(50, &stored);
    assert_eq!(World::start(109, &stored).version, world.version);
    assert_eq!(World::start(109, &stored).ends(), [110]);
    assert_eq!(World::start(110, &stored).version, plain());
    assert!(World::start(110, &stored).ends().is_empty());
    // A report that goes takes its word along.
    assert!(world.at(60, &[delete(&stored[0])]));
    assert_eq!((world.version, world.ends()), (plain(), vec![]));
}

#[test]
fn an_expiry_that_belongs_to_another_renewal_is_void() {
    let mut world = World::start(0, &[report("n1", &["a U@0"])]);
    world.at(15, &[report("n1", &["a U@15"])]);
    let key = ObjectKey::new(tidegate_model::Kind::EndpointReport, "shop", "n1");
    assert!(!world.at(60, &[Event::Expired { key: key.clone(), renewed: 0 }]));
    // A renewal in the same batch wins, whichever stands first.
    assert!(!world.at(74, &[Event::Expired { key, renewed: 15_000 }, report("n1", &["a U@70"])]));
    assert_eq!(world.changes(75..200), [130]);
}

#[test]
fn ten_minutes_of_renewals_of_ten_thousand_entries_are_no_work() {
    const REPORTS: u64 = 10;
    const ENTRIES: u64 = 1000;
    let of = |number: u64, second: u64| {
        let time = time(second * 1000);
        let entry = |entry: u64| {
            let state = ["Healthy", "Unhealthy", "Unknown"][usize::try_from(entry % 3).expect("small")];
            json!({ "targetRef": { "uid": format!("uid-{number}-{entry}") }, "state": state, "renewTime": time })
        };
        report_of(&format!("n{number}"), (0..ENTRIES).map(entry).collect())
    };
    let all = |second| (0..REPORTS).map(|number| of(number, second)).collect::<Vec<_>>();
    let mut world = World::start(0, &all(0));
    assert!(world.core.fact_count() as u64 > REPORTS * ENTRIES);
    let (mut facts, mut rows) = (0, 0);
    for second in (15..=600).step_by(15) {
        world.at(second, &all(second));
        facts += world.core.changed_facts();
        rows += world.core.changed_rows();
    }
    assert_eq!((facts, rows), (0, 0));
    assert_eq!(world.ends(), [660; 10], "one timer a report, however many entries it has");
}

/// In milliseconds. The clock of this test goes on by one at each look.
const LIFETIME: Millis = 7;

#[tokio::test]
async fn the_timer_wheel_ends_a_report_and_a_replay_needs_no_clock() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("reports.jsonl");
    let writer = Writer::create(&path, &Header::new("test", 1, tidegate_model::CONTROLLER_NAME)).expect("a new file");
    let short = |workers| Config { report_lifetime: LIFETIME, ..config(workers) };
    let (handle, running) = Engine::start(short(1), ticking(), Some(writer)).expect("a thread can be started");
    let entry = json!({ "targetRef": { "uid": "uid-a" }, "state": "Unhealthy", "renewTime": time(1_000) });
    let report = report_of("n1", vec![entry]);
    send(&handle, shop_with_pods().into_iter().chain([report]).chain(synced()).collect()).await;
    // Nobody says anything more: the first epoch is the end of the report.
    sealed(&handle, 1).await;
    let newest = handle.sealed().borrow().clone().expect("something is sealed");
    assert_eq!((version(&newest), handle.state().borrow().deadlines), (plain(), 0));
    handle.shutdown().await;
    soon(running.wait()).await.expect("no error");

    let text = std::fs::read_to_string(&path).expect("the log is there");
    let ended = r#"{"expired":{"key":{"kind":"EndpointReport","name":"shop/n1"},"renewed":1000}}"#;
    assert!(text.contains(ended), "{text}");
    for workers in [1, 2] {
        let report = replay(Reader::open(&path).expect("it is a log"), &short(workers), |_| {});
        let report = report.expect("the log is whole");
        assert!(report.is_equal() && report.epochs == 2, "{report:?}");
    }
}
