//! What a client rejects is not sent again until it changes, and holds back nothing else.

use super::harness::{BOTH, CDS, EDS, Harness, LDS, RDS};
use super::world::World;
use crate::session::Protocol;
use tidegate_ads_client::{Rejection, Violation};
use tidegate_model::{Observation, ResourceType};

fn shop() -> World {
    let mut world = World::new();
    world.route("a.example", &["a"]).route("z.example", &["z"]);
    world
}

fn reject(kind: ResourceType, name: &str, containing: Option<&str>, named: bool) -> Rejection {
    Rejection { kind, name: name.to_owned(), containing: containing.map(str::to_owned), named }
}

#[test]
fn rejected_endpoints_are_parked_until_they_change() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().rejections.push(reject(EDS, "a", Some("10.6.6.6"), true));
        world.endpoints("a", &["10.6.6.6"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["eds a"]);
        assert_eq!(harness.stats().types[EDS as usize].rejected.len(), 1);
        // Time and other changes do not bring it back.
        harness.pass(100_000);
        world.endpoints("z", &["10.0.0.3"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["eds z"]);
        world.endpoints("a", &["10.0.0.4"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["eds a"]);
        assert_eq!(harness.envoy.rejections(), 1);
        assert_eq!(harness.stats().types[EDS as usize].rejected.len(), 0);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn what_goes_back_to_the_accepted_content_is_sent_since_it_may_be_applied_in_part() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().rejections.push(reject(EDS, "a", Some("10.6.6.6"), false));
        world.endpoints("a", &["10.6.6.6"]).endpoints("z", &["10.0.0.9"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["eds a z"]);
        world.endpoints("a", &["10.0.0.1"]).endpoints("z", &["10.0.0.1"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["eds a z"]);
        harness.assert_current();
    }
}

#[test]
fn a_rejection_that_names_the_culprit_lets_its_neighbours_through() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().rejections.push(reject(CDS, "bad", None, true));
        world.route("b.example", &["bad"]).route("n.example", &["n"]);
        world.h2.insert("a".to_owned());
        harness.seal(&mut world);
        harness.run();
        harness.pass(2_000);
        assert_eq!(harness.envoy.rejections(), 1, "{protocol}: the same is never sent again");
        let held: Vec<String> = harness.envoy.holds(CDS).into_keys().collect();
        assert_eq!(held, ["a", "n", "z"]);
        assert!(harness.envoy.warming().is_empty());
        assert_eq!(harness.stats().types[CDS as usize].rejected, [tidegate_model::Name::from("bad")]);
        // Later changes flow, and do not bring it back in either protocol.
        harness.take_log();
        world.route("m.example", &["m"]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(2_000);
        assert!(harness.envoy.holds(CDS).contains_key("m"));
        assert_eq!(harness.envoy.rejections(), 1, "{protocol}");
    }
}

#[test]
fn a_rejected_change_of_a_cluster_keeps_its_accepted_form_in_complete_responses() {
    let mut world = shop();
    let mut harness = Harness::running(Protocol::Sotw, &mut world);
    let old = harness.envoy.holds(CDS)["a"].clone();
    harness.envoy.options().rejections.push(reject(CDS, "a", None, true));
    world.h2.insert("a".to_owned());
    harness.seal(&mut world);
    harness.run();
    harness.envoy.options().rejections.clear();
    world.route("n.example", &["n"]);
    harness.seal(&mut world);
    harness.run();
    assert_eq!(harness.envoy.holds(CDS)["a"], old, "sent again it would be the rejected one");
    assert!(harness.envoy.holds(CDS).contains_key("n"));
    assert_eq!(harness.envoy.rejections(), 1);
    harness.assert_clean();
}

#[test]
fn a_cluster_that_warms_anew_gets_the_last_accepted_endpoints_if_the_current_ones_were_rejected() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        let good = harness.envoy.holds(EDS)["a"].clone();
        harness.envoy.options().rejections.push(reject(EDS, "a", Some("10.6.6.6"), true));
        world.endpoints("a", &["10.6.6.6"]);
        harness.seal(&mut world);
        harness.run();
        world.h2.insert("a".to_owned());
        harness.seal(&mut world);
        harness.run();
        assert!(harness.envoy.warming().is_empty(), "{protocol}");
        assert_eq!(harness.envoy.holds(EDS)["a"], good);
        assert_eq!(harness.envoy.rejections(), 1);
        harness.assert_clean();
    }
}

#[test]
fn a_rejected_table_stays_as_it_was_and_the_rejection_is_observed() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.observations.clear();
        let old = harness.envoy.holds(RDS);
        harness.envoy.options().rejections.push(reject(RDS, "http", Some("bad.example"), false));
        world.route("bad.example", &["a"]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(100_000);
        assert_eq!(harness.take_log(), ["rds http"]);
        assert_eq!(harness.envoy.holds(RDS), old);
        let [Observation::Rejected { kind, epoch, resources, detail, .. }] = &harness.observations[..] else {
            panic!("{:?}", harness.observations)
        };
        assert_eq!((*kind, *epoch, &**detail), (RDS, 1, "no good"));
        assert_eq!(resources.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["http"]);
        world.unroute("bad.example");
        world.route("c.example", &["a"]);
        harness.seal(&mut world);
        harness.run();
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn a_version_stands_for_one_content_also_when_a_rejected_listener_is_repeated() {
    let mut world = shop();
    let mut harness = Harness::running(Protocol::Sotw, &mut world);
    world.listeners.insert("other".to_owned(), "http".to_owned());
    world.listeners.insert("third".to_owned(), "http".to_owned());
    // The rejection of one listener leaves open whether the client has the other; then that is rejected too.
    harness.envoy.options().rejections = vec![reject(LDS, "other", None, true)];
    harness.seal(&mut world);
    while harness.envoy.rejections() == 0 {
        harness.deliver_request();
        harness.deliver_response();
    }
    harness.envoy.options().rejections = vec![reject(LDS, "third", None, true)];
    harness.run();
    assert_eq!(harness.envoy.rejections(), 2);
    harness.envoy.options().rejections.clear();
    // The listeners change and change back; the third is repeated each time.
    world.listeners.insert("wide".to_owned(), "http".to_owned());
    harness.seal(&mut world);
    harness.run();
    world.listeners.remove("wide");
    harness.seal(&mut world);
    harness.run();
    // To send again what the client may have is allowed where it is not known that it has it.
    let violations = harness.envoy.violations().iter();
    let reused: Vec<_> = violations.filter(|violation| matches!(violation, Violation::VersionReused { .. })).collect();
    assert!(reused.is_empty(), "{reused:?}");
}
