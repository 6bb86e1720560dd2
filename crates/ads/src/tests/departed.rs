//! Clusters that ceased to be wanted while a client was away.

use super::harness::Harness;
use super::world::{GATEWAY, World};
use crate::departed::Departed;
use crate::session::Protocol;
use tidegate_model::{Millis, NamespacedName};

fn names(departed: &Departed, now: Millis) -> Vec<String> {
    departed.of(&NamespacedName::parse(GATEWAY), now).keys().map(ToString::to_string).collect()
}

#[test]
fn what_went_is_kept_for_a_while_unless_it_comes_back() {
    let (departed, mut world) = (Departed::default(), World::new());
    world.route("web", &["one", "two"]);
    departed.note(&world.seal(), 0);
    world.route("web", &["three"]);
    departed.note(&world.seal(), 1_000);
    assert_eq!(names(&departed, 1_000), ["one", "two"]);
    world.route("web", &["two"]);
    departed.note(&world.seal(), 2_000);
    assert_eq!(names(&departed, 60_999), ["one", "three"]);
    world.route("web", &["three"]);
    departed.note(&world.seal(), 3_000);
    assert_eq!(names(&departed, 60_999), ["one", "two"]);
    assert_eq!(names(&departed, 61_000), ["two"], "one went for good, two went again");
    assert_eq!(names(&departed, 63_000), Vec::<String>::new());
}

#[test]
fn an_older_seal_says_nothing() {
    let (departed, mut world) = (Departed::default(), World::new());
    world.route("web", &["one"]);
    let first = world.seal();
    world.route("web", &["two"]);
    let second = world.seal();
    departed.note(&second, 0);
    departed.note(&first, 0);
    departed.note(&second, 0);
    assert_eq!(names(&departed, 0), Vec::<String>::new());
}

/// A client that uses `one` breaks off; meanwhile its route moves to a cluster that it has not.
fn away(replica_saw_it: bool) -> Harness {
    let mut world = World::new();
    world.route("web", &["one"]).route("shop", &["kept"]);
    let mut harness = Harness::running(Protocol::Sotw, &mut world);
    let departed = Departed::default();
    if replica_saw_it {
        departed.note(harness.sealed(), harness.now);
    }
    world.route("web", &["two"]);
    let sealed = world.seal();
    departed.note(&sealed, harness.now);
    harness.reconnect_to(Some(sealed), departed.of(&NamespacedName::parse(GATEWAY), harness.now));
    harness.run();
    harness
}

#[test]
fn a_replica_that_saw_a_cluster_go_repeats_it_until_the_client_lets_go() {
    let mut harness = away(true);
    let log = harness.take_log();
    assert_eq!(log.iter().filter(|said| said.starts_with("cds")).collect::<Vec<_>>(), ["cds kept one two"], "{log:?}");
    harness.assert_clean();
    harness.pass(60_000);
    assert_eq!(harness.take_log(), ["cds kept two"]);
    harness.assert_clean();
    harness.assert_current();
}

#[test]
fn one_that_did_not_see_it_go_cannot() {
    let mut harness = away(false);
    let log = harness.take_log();
    assert_eq!(log.iter().filter(|said| said.starts_with("cds")).collect::<Vec<_>>(), ["cds kept two"], "{log:?}");
    harness.pass(60_000);
    harness.assert_current();
}
