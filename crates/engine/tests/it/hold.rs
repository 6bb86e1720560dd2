//! Holds in time: the timer wheel ends them by a logged event, and a replay needs no timer.

use crate::live::{sealed, send, soon, ticking};
use crate::objects::*;
use std::sync::Arc;
use tidegate_engine::{Applied, Config, Core, Engine, Profiler, replay};
use tidegate_log::{Event, Header, Reader, Writer};
use tidegate_model::Millis;
use tidegate_xds::Sealed;

/// In milliseconds. The clock of these tests goes on by one at each look.
const BOUND: Millis = 5;

fn holding(workers: usize) -> Config {
    Config { hold: Some(BOUND), ..config(workers) }
}

/// The cart moves to a Service that has no endpoints.
fn retarget() -> Vec<Event> {
    vec![service("basket"), route("cart", "/cart", "basket")]
}

fn members(sealed: &Sealed) -> Vec<&str> {
    sealed.gateways[&gateway_key().name].members.iter().map(|name| name.as_str()).collect()
}

#[tokio::test]
async fn a_hold_ends_by_an_event_of_the_timer_wheel_and_a_replay_comes_to_the_same() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("hold.jsonl");
    let writer = Writer::create(&path, &Header::new("test", 1, tidegate_model::CONTROLLER_NAME)).expect("a new file");
    let (handle, running) = Engine::start(holding(1), ticking(), Some(writer)).expect("a thread can be started");
    send(&handle, initial()).await;
    sealed(&handle, 0).await;
    send(&handle, retarget()).await;
    // Nobody says anything more: the second epoch is the end of the hold.
    sealed(&handle, 2).await;
    let newest = handle.sealed().borrow().clone().expect("something is sealed");
    assert_eq!((newest.held.len(), members(&newest)), (0, vec!["shop/basket/80", "shop/web/80"]));
    assert_eq!(handle.state().borrow().deadlines, 0);
    // Released by an endpoint before its time.
    send(&handle, vec![service("box"), route("cart", "/cart", "box")]).await;
    send(&handle, vec![slice("box", &["10.0.3.1"])]).await;
    handle.shutdown().await;
    soon(running.wait()).await.expect("no error");

    let text = std::fs::read_to_string(&path).expect("the log is there");
    let ended = r#"{"expired":{"key":{"kind":"HTTPRoute","name":"shop/cart"},"renewed":"#;
    assert!(text.contains(ended), "{text}");
    for workers in [1, 1, 2] {
        let report = replay(Reader::open(&path).expect("it is a log"), &holding(workers), |_| {});
        let report = report.expect("the log is whole");
        assert!(report.is_equal() && report.epochs >= 3, "{report:?}");
    }
    let without = replay(Reader::open(&path).expect("it is a log"), &config(1), |_| {}).expect("the log is whole");
    assert_eq!(without.first_difference.map(|difference| difference.epoch), Some(1), "the hold is in the digest");
}

/// A core that has the shop, at the time 100.
fn open() -> Core {
    let mut core = Core::new(&holding(1));
    apply(&mut core, &initial(), 100);
    core
}

fn apply(core: &mut Core, events: &[Event], millis: Millis) -> Arc<Sealed> {
    match core.apply(events, millis) {
        Applied::Sealed(sealed) => sealed,
        Applied::Pending { missing } => panic!("{missing:?} are awaited"),
    }
}

#[test]
fn a_hold_is_a_deadline_of_its_route_until_it_ends() {
    let mut core = open();
    assert!(core.take_deadlines().is_empty());
    let held = apply(&mut core, &retarget(), 200);
    assert_eq!((held.held.len(), members(&held)), (1, vec!["shop/cart/80", "shop/web/80"]));
    let deadlines = core.take_deadlines();
    let of_route: Vec<_> = deadlines.values().flatten().map(|deadline| (deadline.at, deadline.renewed)).collect();
    assert_eq!(of_route, [(205, 200)]);
    let key = deadlines.into_keys().next().expect("the route has one");
    // Early, late for another hold, or twice: the time alone decides.
    let early = apply(&mut core, &[Event::Expired { key: key.clone(), renewed: 200 }], 204);
    assert_eq!((early.held.len(), core.changed_rows()), (1, 0));
    let ended = apply(&mut core, &[Event::Expired { key: key.clone(), renewed: 7 }], 205);
    assert_eq!((ended.held.len(), members(&ended)), (0, vec!["shop/basket/80", "shop/web/80"]));
    assert_eq!(core.take_deadlines().into_values().flatten().count(), 0);
    apply(&mut core, &[Event::Expired { key: key.clone(), renewed: 200 }], 206);
    assert!(core.changed_rows() == 0 && core.knows(&key), "a route does not end with its hold");
}

#[test]
fn a_batch_that_comes_first_ends_what_is_due() {
    let mut core = open();
    apply(&mut core, &retarget(), 200);
    let other = apply(&mut core, &[slice("web", &["10.9.9.9"])], 300);
    assert_eq!((other.held.len(), members(&other)), (0, vec!["shop/basket/80", "shop/web/80"]));
}

#[test]
fn while_something_is_held_its_clusters_alone_stay() {
    let mut core = open();
    let before = apply(&mut core, &[], 150);
    let held = apply(&mut core, &retarget(), 200);
    let tables =
        |sealed: &Sealed| sealed.gateways[&gateway_key().name].tables.values().map(|t| t.version).collect::<Vec<_>>();
    assert_eq!(tables(&held), tables(&before), "for the proxies nothing happens");
    assert_eq!(core.store().violations().len(), 0);
    // One row of the hold, and the status of the route.
    assert_eq!(core.changed_rows(), 3);
}

#[test]
fn holds_cost_few_operators_and_none_when_they_are_off() {
    #[allow(clippy::disallowed_methods, reason = "a profile measures real time")]
    let start = std::time::Instant::now();
    let count = |config: &Config| {
        let profiler = Profiler::new(start);
        let _core = Core::profiled(config, &profiler);
        profiler.look().operators.len()
    };
    let (off, on) = (count(&config(1)), count(&holding(1)));
    eprintln!("{off} operators, {on} with holds");
    assert!(on > off && on - off <= 24, "{off} operators, {on} with holds");
}
