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
fn nothing_is_kept_of_a_gateway_that_only_grew() {
    let (departed, mut world) = (Departed::default(), World::new());
    departed.note(&world.seal(), 0);
    world.route("web", &["one"]);
    departed.note(&world.seal(), 0);
    assert_eq!(departed.gateways(), 0);
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

/// A client that uses the cluster `gone` breaks off; meanwhile its route moves to one that it has not.
fn away(gone: &str, replica_saw_it: bool) -> Harness {
    let mut world = World::new();
    world.route("web", &[gone]).route("shop", &["kept"]);
    if gone.ends_with("~h2") {
        world.h2.insert(gone.to_owned());
    }
    let mut harness = Harness::running(Protocol::Sotw, &mut world);
    let departed = Departed::default();
    if replica_saw_it {
        departed.note(harness.sealed(), harness.now);
    }
    world.route("web", &["new"]);
    let sealed = world.seal();
    departed.note(&sealed, harness.now);
    harness.reconnect_to(Some(sealed), departed.of(&NamespacedName::parse(GATEWAY), harness.now));
    harness.run();
    harness
}

/// What was sent of clusters.
fn clusters(harness: &mut Harness) -> Vec<String> {
    harness.take_log().into_iter().filter(|said| said.starts_with("cds")).collect()
}

#[test]
fn a_replica_that_saw_a_cluster_go_repeats_it_until_the_client_lets_go() {
    let mut harness = away("gone", true);
    assert_eq!(clusters(&mut harness), ["cds gone kept new"]);
    harness.assert_clean();
    harness.pass(60_000);
    assert_eq!(clusters(&mut harness), ["cds kept new"]);
    harness.assert_clean();
    harness.assert_current();
}

#[test]
fn one_that_has_just_started_knows_it_by_its_name() {
    for name in ["shop/gone/80", "shop/gone/80~h2"] {
        let mut harness = away(name, false);
        assert_eq!(clusters(&mut harness), [format!("cds kept new {name}")]);
        harness.assert_clean();
        harness.pass(60_000);
        assert_eq!(clusters(&mut harness), ["cds kept new"]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn what_neither_saw_go_nor_has_a_name_that_says_what_it_was_goes_at_once() {
    let mut harness = away("shop/gone/80~tls-shop.ca", false);
    assert_eq!(clusters(&mut harness), ["cds kept new"]);
    harness.pass(60_000);
    harness.assert_current();
}

#[test]
fn a_client_that_missed_nothing_is_known_by_its_version_and_sent_nothing_again() {
    let mut world = World::new();
    world.route("web", &["shop/gone/80"]).route("shop", &["kept"]);
    let mut harness = Harness::running(Protocol::Sotw, &mut world);
    world.unroute("web");
    harness.reconnect_to(Some(world.seal()), Departed::default().of(&NamespacedName::parse(GATEWAY), harness.now));
    harness.run();
    assert_eq!(clusters(&mut harness), [""; 0], "all is as the version says, and nothing is to be added");
    harness.pass(60_000);
    assert_eq!(clusters(&mut harness), ["cds kept"]);
    harness.assert_clean();
    harness.assert_current();
}
