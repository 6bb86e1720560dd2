//! More of the published scenarios, by name, on both protocols: what one client sees while others, other objects or the
//! controller itself are in trouble. Not here: S2-c and S2-d, for an assignment always has the name of its one cluster.

use super::harness::{BOTH, CDS, EDS, Harness, LDS, RDS};
use super::world::World;
use crate::session::Limits;
use tidegate_ads_client::Rejection;
use tidegate_model::INVALID_CLUSTER;

fn shop() -> World {
    let mut world = World::new();
    world.route("a.example", &["a"]).route("z.example", &["z"]);
    world
}

/// The clusters at which each host's routes of the client's table point.
fn routed(harness: &Harness, cluster: &str) -> bool {
    let table = harness.envoy.holds(RDS)["http"].clone();
    table.windows(cluster.len() + 2).any(|part| part[0] == 0x0a && part[2..] == *cluster.as_bytes())
}

#[test]
fn r1_b_a_neighbour_changes_its_target_in_the_same_seal_that_empties_a_backend() {
    for protocol in BOTH {
        let mut world = shop();
        world.route("q.example", &["z"]);
        let mut harness = Harness::running(protocol, &mut world);
        world.endpoints("a", &[]).route("q.example", &["z2"]);
        harness.seal(&mut world);
        harness.run();
        harness.assert_clean();
        harness.assert_current();
        assert_eq!(harness.stats().overdue_pins, 0);
    }
}

#[test]
fn r1_c_a02_j03_a_new_client_is_served_though_a_backend_never_had_endpoints() {
    for protocol in BOTH {
        let mut world = shop();
        world.route("x.example", &["never"]).endpoints("never", &[]);
        let mut harness = Harness::running(protocol, &mut world);
        harness.assert_current();
        assert!(harness.envoy.is_serving());
        // A01, A03: what others do is not held up by it.
        world.endpoints("a", &["10.0.0.2"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["eds a"]);
    }
}

#[test]
fn r2_a_a_relist_without_a_difference_sends_nothing_and_a_real_deletion_is_truth() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), [""; 0]);
        // The Service is gone, its route stays: 500, and the cluster goes after the route that named it.
        world.route("a.example", &[INVALID_CLUSTER]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["rds http"]);
        harness.pass(5_000);
        assert!(!harness.envoy.holds(CDS).contains_key("a"));
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn r3_a_a_new_route_waits_for_its_new_service_and_nothing_else_does() {
    for protocol in BOTH {
        let mut world = shop();
        world.listeners.insert("other".to_owned(), "other".to_owned());
        world.route_in("other", "o.example", &["a"]);
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(EDS);
        world.route("n.example", &["n"]).endpoints("z", &["10.0.0.7"]);
        world.route_in("other", "p.example", &["z"]);
        harness.seal(&mut world);
        harness.run();
        // Endpoints and the other table are not held up, the route is.
        let log = harness.take_log();
        assert!(log.contains(&"rds other".to_owned()), "{log:?}");
        assert!(log.iter().any(|line| line.starts_with("eds") && line.contains('z')), "{log:?}");
        assert!(!log.contains(&"rds http".to_owned()), "{log:?}");
        harness.envoy.options().hold.clear();
        let answers = harness.envoy.release();
        harness.to_server.extend(answers);
        harness.run();
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn r3_b_a_weighted_route_waits_as_a_whole() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(EDS);
        world.route("a.example", &["a", "n"]);
        harness.seal(&mut world);
        harness.run();
        assert!(!harness.take_log().contains(&"rds http".to_owned()));
        assert!(!routed(&harness, "n"));
        harness.envoy.options().hold.clear();
        let answers = harness.envoy.release();
        harness.to_server.extend(answers);
        harness.run();
        assert!(routed(&harness, "n") && routed(&harness, "a"));
        harness.assert_clean();
    }
}

#[test]
fn r3_c_a_listener_that_passes_connections_on_waits_for_its_new_cluster_and_others_do_not() {
    for protocol in BOTH {
        let mut world = shop();
        world.listeners.insert("tcp".to_owned(), "tcp".to_owned());
        world.tables.insert("tcp".to_owned(), std::collections::BTreeMap::new());
        world.stream("tcp", "a");
        let mut harness = Harness::running(protocol, &mut world);
        let before = harness.envoy.holds(LDS)["tcp"].clone();
        harness.envoy.options().hold.insert(EDS);
        world.stream("tcp", "n").route("z.example", &["z", "a"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.envoy.holds(LDS)["tcp"], before);
        assert!(harness.take_log().contains(&"rds http".to_owned()), "what names nothing new is not held up");
        harness.envoy.options().hold.clear();
        let answers = harness.envoy.release();
        harness.to_server.extend(answers);
        harness.run();
        assert_ne!(harness.envoy.holds(LDS)["tcp"], before);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn err_b_a_first_client_of_a_controller_that_starts_with_an_invalid_backend_gets_everything_else() {
    for protocol in BOTH {
        let mut world = shop();
        // As the translation has it: what must not be reached in plaintext is named by nothing.
        world.route("a.example", &[INVALID_CLUSTER]);
        let mut harness = Harness::running(protocol, &mut world);
        assert!(!harness.envoy.holds(CDS).contains_key("a"));
        assert!(routed(&harness, "z") && harness.envoy.is_serving());
        // Its authority is back: the cluster comes before the route that names it.
        world.route("a.example", &["a"]);
        harness.seal(&mut world);
        harness.run();
        let log = harness.take_log();
        let at = |kind: &str| log.iter().position(|said| said.starts_with(kind)).unwrap();
        assert!(at("cds") < at("eds") && at("eds") < at("rds"), "{log:?}");
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn s1_a_cold_c_a_reference_to_nothing_is_published_and_starves_nobody() {
    for protocol in BOTH {
        let mut world = shop();
        world.route("gone.example", &[INVALID_CLUSTER]);
        let harness = Harness::running(protocol, &mut world);
        harness.assert_current();
        assert_eq!((harness.stats().overdue_pins, harness.stats().pinned), (0, 0));
        assert!(!harness.envoy.holds(CDS).contains_key(INVALID_CLUSTER));
    }
}

#[test]
fn s2_a_a_changed_cluster_gets_its_unchanged_endpoints_again_at_once() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.h2.insert("a".to_owned());
        harness.seal(&mut world);
        harness.run();
        let log = harness.take_log();
        assert!(log[0].starts_with("cds") && log[1] == "eds a", "{log:?}");
        assert!(harness.envoy.warming().is_empty());
        harness.assert_clean();
    }
}

#[test]
fn cold_a_a_client_that_was_first_gets_one_whole_snapshot_and_no_second_one() {
    for protocol in BOTH {
        let mut world = World::new();
        for number in 0..2_000 {
            world.route(&format!("h{number}.example"), &[&format!("c{number}")]);
        }
        let mut harness = Harness::new(protocol);
        harness.run();
        assert_eq!(harness.take_log(), [""; 0], "nothing before everything is known");
        harness.seal(&mut world);
        harness.run();
        harness.pass(60_000);
        let types: Vec<String> =
            harness.take_log().iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
        assert_eq!(types, ["cds", "eds", "lds", "rds"]);
        harness.assert_current();
    }
}

#[test]
fn warm_e_another_replica_with_the_same_objects_sends_endpoints_alone() {
    for protocol in BOTH {
        let mut harness = Harness::running(protocol, &mut shop());
        // Derived anew from the same objects, by a process that has seen nothing else.
        let elsewhere = shop().seal();
        harness.reconnect(Some(elsewhere));
        harness.run();
        harness.pass(60_000);
        assert_eq!(harness.take_log(), ["eds a z"], "{protocol}");
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn bound_b_what_waits_goes_on_by_time_alone() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(EDS);
        world.route("a.example", &["n"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.stats().pinned, 1);
        let due = harness.session.deadline().expect("something is to be done by time");
        assert!(due <= harness.now + harness.limits.pin_ms);
        // No seal, no request: the bound alone.
        harness.pass(harness.limits.pin_ms);
        assert_eq!((harness.stats().pinned, harness.stats().overdue_pins), (0, 1));
        assert!(routed(&harness, "n"));
    }
}

#[test]
fn rc_b_rc_c_a_client_that_comes_back_gets_what_changed_once() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.pass(59_000);
        let same = world.seal();
        harness.reconnect(Some(same));
        harness.run();
        assert_eq!(harness.take_log(), ["eds a z"], "{protocol}: nothing is sent again");
        world.route("n.example", &["a"]);
        let changed = world.seal();
        harness.pass(40_000);
        harness.reconnect(Some(changed));
        harness.run();
        assert_eq!(harness.take_log(), ["eds a z", "rds http"], "{protocol}");
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn j06_a_proxy_that_restarts_alone_gets_everything() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.restart_client();
        harness.run();
        harness.assert_clean();
        harness.assert_current();
        assert!(harness.envoy.is_serving());
    }
}

#[test]
fn j04_a_client_keeps_what_it_has_while_nobody_serves_and_converges_after() {
    for protocol in BOTH {
        let mut world = shop();
        world.secrets.insert("shop/cert".to_owned(), "old".to_owned());
        let mut harness = Harness::running(protocol, &mut world);
        // Nobody answers for an hour: a stream without a seal.
        harness.reconnect(None);
        harness.run();
        harness.pass(3_600_000);
        assert_eq!(harness.take_log(), [""; 0]);
        assert!(harness.envoy.is_serving());
        world.unroute("a.example").route("b.example", &["b"]);
        world.secrets.insert("shop/cert".to_owned(), "new".to_owned());
        let sealed = world.seal();
        harness.reconnect(Some(sealed));
        harness.run();
        harness.pass(60_000);
        harness.assert_current();
    }
}

#[test]
fn a17_nack_a_what_is_rejected_holds_up_neither_others_nor_its_own_correction() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        let bad = Rejection { kind: LDS, name: "bad".to_owned(), containing: None, named: true };
        harness.envoy.options().rejections.push(bad);
        world.listeners.insert("bad".to_owned(), "http".to_owned());
        world.listeners.insert("fine".to_owned(), "http".to_owned());
        world.endpoints("z", &["10.0.0.3"]);
        harness.seal(&mut world);
        harness.run();
        assert!(
            harness.envoy.holds(LDS).contains_key("fine"),
            "{protocol} {:?} {:?} {:?}",
            harness.take_log(),
            harness.stats(),
            harness.observations
        );
        // A01: the endpoints of others are fresh, routes change, and the same is never sent twice.
        world.endpoints("z", &["10.0.0.4"]).route("y.example", &["z"]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(600_000);
        assert_eq!(harness.envoy.rejections(), 1, "{protocol}");
        assert_eq!(harness.stats().types[LDS as usize].rejected.len(), 1);
        // The correction is sent at once.
        harness.envoy.options().rejections.clear();
        world.listeners.insert("bad".to_owned(), "mended".to_owned());
        world.tables.insert("mended".to_owned(), std::collections::BTreeMap::new());
        harness.seal(&mut world);
        harness.run();
        harness.assert_current();
        assert_eq!(harness.stats().types[LDS as usize].rejected.len(), 0);
    }
}

#[test]
fn a19_an_assignment_whose_cluster_goes_silences_nobody() {
    for protocol in BOTH {
        let mut world = shop();
        let limits = Limits { grace_ms: 60_000, ..Limits::default() };
        let mut harness = Harness::running_with(protocol, limits, &mut world);
        // The cluster is on its way out, within its grace.
        world.unroute("z.example");
        harness.seal(&mut world);
        harness.run();
        harness.take_log();
        world.endpoints("a", &["10.0.0.9"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["eds a"], "{protocol}");
    }
}

#[test]
fn n08_a_lone_change_is_one_push_and_a_storm_ends_exact() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.endpoints("a", &["10.0.1.1"]);
        harness.seal(&mut world);
        assert_eq!(harness.to_client.len(), 1, "at once, and nothing else");
        harness.run();
        harness.take_log();
        for number in 0..100 {
            world.endpoints("a", &[&format!("10.0.2.{number}")]);
            harness.seal(&mut world);
        }
        harness.run();
        harness.assert_clean();
        harness.assert_current();
    }
}
