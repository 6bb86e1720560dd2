//! The published scenarios, by name, on both protocols.

use super::harness::{BOTH, CDS, EDS, Harness, LDS, RDS, SDS};
use super::world::World;
use crate::session::{Limits, Protocol};
use tidegate_ads_client::Rejection;

/// What differs between the protocols: a complete response of clusters against the changed ones.
fn pick<'a>(protocol: Protocol, sotw: &'a str, delta: &'a str) -> &'a str {
    match protocol {
        Protocol::Sotw => sotw,
        Protocol::Delta => delta,
    }
}

fn shop() -> World {
    let mut world = World::new();
    world.route("a.example", &["a"]).route("z.example", &["z"]);
    world
}

#[test]
fn boot_sends_clusters_endpoints_listeners_tables_once_each() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::new(protocol);
        harness.seal(&mut world);
        harness.run();
        harness.assert_clean();
        harness.assert_current();
        assert_eq!(harness.take_log(), ["cds a z", "eds a z", "lds http", "rds http"]);
        harness.pass(100_000);
        assert_eq!(harness.take_log(), [""; 0]);
        assert_eq!(harness.stats().overdue_pins, 0);
    }
}

#[test]
fn nobody_is_answered_before_the_first_seal() {
    for protocol in BOTH {
        let mut harness = Harness::new(protocol);
        harness.run();
        harness.pass(100_000);
        assert_eq!(harness.take_log(), [""; 0]);
        harness.seal(&mut shop());
        harness.run();
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn ord_a_retarget_adds_before_use_and_removes_after_it() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.route("a.example", &["b"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), [pick(protocol, "cds a b z", "cds b"), "eds b", "rds http"]);
        harness.pass(4_999);
        assert_eq!(harness.take_log(), [""; 0]);
        harness.pass(1);
        assert_eq!(harness.take_log(), [pick(protocol, "cds b z", "cds -a")]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn ord_b_delete_of_route_and_service_takes_the_route_first() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.unroute("a.example");
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["rds http"]);
        harness.pass(5_000);
        assert_eq!(harness.take_log(), [pick(protocol, "cds z", "cds -a")]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn c05_no_cluster_is_removed_while_its_table_is_not_acknowledged() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(RDS);
        world.unroute("a.example");
        harness.seal(&mut world);
        harness.run();
        harness.pass(60_000);
        assert_eq!(harness.take_log(), ["rds http"]);
        let kept = harness.envoy.release();
        harness.to_server.extend(kept);
        harness.run();
        harness.pass(5_000);
        assert_eq!(harness.take_log(), [pick(protocol, "cds z", "cds -a")]);
        harness.assert_clean();
    }
}

#[test]
fn ord_c_a_route_to_a_new_cluster_waits_for_the_endpoints_of_that_cluster() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        // The acknowledgement of clusters never comes; the one of endpoints is late.
        harness.envoy.options().hold.extend([CDS, EDS]);
        world.route("a.example", &["a", "b"]);
        harness.seal(&mut world);
        harness.run();
        world.route("n.example", &["n"]);
        harness.seal(&mut world);
        harness.run();
        let log = harness.take_log();
        assert!(!log.iter().any(|line| line.starts_with("rds")), "{log:?}");
        let kept = harness.envoy.release();
        harness.to_server.extend(kept);
        harness.run();
        harness.envoy.options().hold.remove(&EDS);
        let kept = harness.envoy.release();
        harness.to_server.extend(kept);
        harness.run();
        assert!(harness.take_log().contains(&"rds http".to_owned()));
        harness.assert_clean();
        harness.assert_current();
        assert_eq!(harness.stats().overdue_pins, 0);
    }
}

#[test]
fn c04_a_route_follows_its_cluster_while_an_earlier_cluster_response_is_unanswered() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(CDS);
        world.h2.insert("a".to_owned());
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), [pick(protocol, "cds a z", "cds a"), "eds a"]);
        world.route("x.example", &["x"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), [pick(protocol, "cds a x z", "cds x"), "eds x", "rds http"]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn ord_d_a_flap_inside_the_grace_never_removes_the_cluster() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.route("a.example", &["b"]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(2_000);
        harness.take_log();
        world.route("a.example", &["a"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["rds http"]);
        harness.pass(4_999);
        assert_eq!(harness.take_log(), [""; 0]);
        harness.pass(1);
        assert_eq!(harness.take_log(), [pick(protocol, "cds a z", "cds -b")]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn ord_e_a_listener_goes_first_and_its_table_with_it() {
    for protocol in BOTH {
        let mut world = shop();
        world.listeners.insert("other".to_owned(), "other".to_owned());
        world.route_in("other", "o.example", &["o"]);
        let mut harness = Harness::running(protocol, &mut world);
        world.listeners.remove("other");
        world.tables.remove("other");
        harness.seal(&mut world);
        harness.run();
        // The version that a state-of-the-world client would bring to another stream must not tell of the table.
        let rest: &[&str] = if protocol == Protocol::Sotw { &["lds http", "rds"] } else { &["lds -other"] };
        assert_eq!(harness.take_log(), rest);
        harness.pass(5_000);
        assert_eq!(harness.take_log(), [pick(protocol, "cds a z", "cds -o")]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn a_listener_that_moves_to_another_table_keeps_the_old_one_until_it_lets_go() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.tables.clear();
        world.listeners.insert("http".to_owned(), "next".to_owned());
        world.route_in("next", "n.example", &["n"]);
        harness.seal(&mut world);
        harness.run();
        let clusters = pick(protocol, "cds a n z", "cds n");
        assert_eq!(harness.take_log(), [clusters, "eds n", "lds http", "rds next"]);
        harness.pass(5_000);
        assert_eq!(harness.take_log(), [pick(protocol, "cds n", "cds -a -z")]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn warm_a_a_reconnect_with_unchanged_objects_answers_endpoints_alone() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        let before = harness.stats().types[EDS as usize].sent_version.clone();
        harness.reconnect(Some(world.seal()));
        harness.run();
        harness.pass(60_000);
        assert_eq!(harness.take_log(), ["eds a z"]);
        assert_eq!(harness.stats().types[EDS as usize].sent_version, before);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn warm_a_holds_when_the_seal_comes_after_the_client() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.reconnect(None);
        harness.run();
        harness.pass(30_000);
        assert_eq!(harness.take_log(), [""; 0]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(60_000);
        assert_eq!(harness.take_log(), ["eds a z"]);
        harness.assert_clean();
    }
}

#[test]
fn warm_b_endpoints_that_changed_while_away_come_in_that_one_answer() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.endpoints("a", &["10.0.0.9"]);
        harness.reconnect(Some(world.seal()));
        harness.run();
        harness.pass(60_000);
        assert_eq!(harness.take_log(), ["eds a z"]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn warm_c_a_cluster_and_its_route_that_vanished_while_away_go_route_first() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.unroute("a.example");
        harness.reconnect(Some(world.seal()));
        harness.run();
        assert_eq!(harness.take_log(), ["eds z", "rds http"], "{protocol}");
        harness.pass(5_000);
        let log = harness.take_log();
        match protocol {
            // Which form of z the client brought cannot be known: it may warm it anew.
            Protocol::Sotw => assert_eq!(log, ["cds z", "eds z"]),
            Protocol::Delta => assert_eq!(log, ["cds -a"]),
        }
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn a_route_to_a_cluster_that_came_while_away_gets_the_cluster_first() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.route("n.example", &["n"]);
        harness.reconnect(Some(world.seal()));
        harness.run();
        harness.pass(60_000);
        harness.assert_clean();
        harness.assert_current();
        assert_eq!(harness.stats().overdue_pins, 0);
    }
}

#[test]
fn warm_d_a_client_that_warms_gets_its_endpoints_without_a_request_for_clusters() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.h2.insert("a".to_owned());
        harness.seal(&mut world);
        // The changed cluster arrives, its endpoints do not.
        harness.deliver_response();
        assert_eq!(harness.envoy.warming().len(), 1);
        harness.reconnect(Some(world.seal()));
        harness.run();
        harness.pass(60_000);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn c06_a_changed_cluster_is_followed_by_its_unchanged_endpoints() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.h2.insert("a".to_owned());
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), [pick(protocol, "cds a z", "cds a"), "eds a"]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn c07_endpoints_of_a_cluster_that_is_gone_are_answered_so_that_warming_ends() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.route("x.example", &["x"]);
        harness.seal(&mut world);
        harness.deliver_response();
        assert_eq!(harness.envoy.warming().len(), 1);
        world.unroute("x.example");
        harness.reconnect(Some(world.seal()));
        harness.run();
        assert!(harness.envoy.warming().is_empty(), "{protocol}");
        harness.pass(60_000);
        harness.assert_current();
        harness.assert_clean();
    }
}

#[test]
fn c08_endpoints_that_appear_after_the_subscription_arrive() {
    for protocol in BOTH {
        let mut world = shop();
        world.endpoints("a", &[]);
        let mut harness = Harness::running(protocol, &mut world);
        world.endpoints("a", &["10.0.0.7"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["eds a"]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn c09_what_was_deleted_while_a_delta_client_was_away_is_removed() {
    let mut world = shop();
    let mut harness = Harness::running(Protocol::Delta, &mut world);
    world.unroute("a.example");
    harness.reconnect(Some(world.seal()));
    harness.run();
    harness.pass(5_000);
    let log = harness.take_log();
    assert_eq!(log, ["eds z", "rds http", "cds -a"]);
    harness.assert_clean();
    harness.assert_current();
}

#[test]
fn r1_a_scale_to_zero_changes_endpoints_alone_and_old_addresses_never_return() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        for addresses in [&[][..], &[], &["10.0.0.9"]] {
            world.endpoints("a", addresses);
            harness.seal(&mut world);
            harness.run();
            harness.assert_clean();
            harness.assert_current();
        }
        assert_eq!(harness.take_log(), ["eds a", "eds a"]);
    }
}

#[test]
fn s2_b_a_cluster_that_comes_back_gets_its_endpoints_again() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.unroute("a.example");
        harness.seal(&mut world);
        harness.run();
        harness.pass(5_000);
        harness.take_log();
        world.route("a.example", &["a"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), [pick(protocol, "cds a z", "cds a"), "eds a", "rds http"]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn s2_e_a_seal_that_changes_nothing_sends_nothing() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        for _ in 0..3 {
            harness.seal(&mut world);
            harness.run();
            harness.pass(10_000);
        }
        assert_eq!(harness.take_log(), [""; 0]);
    }
}

#[test]
fn s2_f_clusters_that_swap_their_endpoints_change_the_version() {
    let mut world = shop();
    world.endpoints("a", &["10.0.0.1"]).endpoints("z", &["10.0.0.2"]);
    let mut harness = Harness::running(Protocol::Sotw, &mut world);
    let before = harness.stats().types[EDS as usize].sent_version.clone();
    world.endpoints("a", &["10.0.0.2"]).endpoints("z", &["10.0.0.1"]);
    harness.seal(&mut world);
    harness.run();
    assert_ne!(harness.stats().types[EDS as usize].sent_version, before);
    harness.assert_current();
}

#[test]
fn c11_listeners_that_come_and_go_after_the_start_are_served() {
    for protocol in BOTH {
        let mut world = World::new();
        world.served = false;
        let mut harness = Harness::new(protocol);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["cds", "lds"], "an empty answer lets Envoy go on");
        world.served = true;
        world.route("a.example", &["a"]);
        harness.seal(&mut world);
        harness.run();
        harness.assert_current();
        world.served = false;
        harness.seal(&mut world);
        harness.run();
        harness.pass(5_000);
        harness.assert_current();
        harness.assert_clean();
        assert!(harness.envoy.holds(LDS).is_empty());
    }
}

#[test]
fn a_grace_of_zero_removes_at_the_acknowledgement() {
    for protocol in BOTH {
        let mut world = shop();
        let limits = Limits { grace_ms: 0, ..Limits::default() };
        let mut harness = Harness::running_with(protocol, limits, &mut world);
        world.route("a.example", &["b"]);
        harness.seal(&mut world);
        harness.run();
        let (add, remove) = (pick(protocol, "cds a b z", "cds b"), pick(protocol, "cds b z", "cds -a"));
        assert_eq!(harness.take_log(), [add, "eds b", "rds http", remove]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn a_secret_comes_when_it_is_asked_for_and_alone_when_it_rotates() {
    for protocol in BOTH {
        let mut world = shop();
        world.secrets = [("shop/a", "1"), ("shop/b", "1")].map(|(name, digest)| (name.into(), digest.into())).into();
        let mut harness = Harness::new(protocol);
        harness.seal(&mut world);
        harness.run();
        harness.assert_current();
        assert_eq!(harness.take_log(), ["cds a z", "eds a z", "lds http", "sds shop/a", "sds shop/b", "rds http"]);
        world.secrets.insert("shop/b".into(), "2".into());
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["sds shop/b"], "{protocol}");
        let sealed = world.seal();
        harness.reconnect(Some(sealed));
        harness.run();
        assert_eq!(harness.take_log().iter().filter(|line| line.starts_with("sds")).count(), 0, "{protocol}");
        world.secrets.remove("shop/a");
        harness.seal(&mut world);
        harness.run();
        // Nothing takes a secret back; only the version that a state-of-the-world client would bring must not tell of it.
        let all: &[&str] = if protocol == Protocol::Sotw { &["lds http", "sds"] } else { &["lds http"] };
        assert_eq!(harness.take_log(), all, "{protocol}");
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn a_rejected_secret_is_not_sent_again_and_its_next_content_is() {
    for protocol in BOTH {
        let mut world = shop();
        world.secrets = [("shop/a".into(), "1".into())].into();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().rejections =
            vec![Rejection { kind: SDS, name: "shop/a".into(), containing: Some("of 2".into()), named: false }];
        world.secrets.insert("shop/a".into(), "2".into());
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["sds shop/a"]);
        world.route("n.example", &["n"]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(100_000);
        assert!(!harness.take_log().iter().any(|line| line.starts_with("sds")), "{protocol}");
        world.secrets.insert("shop/a".into(), "3".into());
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["sds shop/a"]);
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn a_listener_that_comes_back_while_its_old_connections_drain_does_not_serve_the_table_of_then() {
    for protocol in BOTH {
        let mut world = shop();
        world.listeners.insert("door".to_owned(), "door".to_owned());
        world.route_in("door", "d.example", &["a"]);
        let mut harness = Harness::running(protocol, &mut world);
        // The listener goes; its connections drain, so the client still asks for the table.
        harness.envoy.options().drains = true;
        world.listeners.remove("door");
        let table = world.tables.remove("door").unwrap();
        harness.seal(&mut world);
        harness.run();
        harness.take_log();
        world.listeners.insert("door".to_owned(), "door".to_owned());
        world.tables.insert("door".to_owned(), table);
        world.route_in("door", "d.example", &["n"]);
        harness.seal(&mut world);
        harness.run();
        let log = harness.take_log();
        let at = |what: &str| log.iter().position(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{log:?}"));
        assert!(at("rds door") < at("lds door"), "{protocol}: {log:?}");
        harness.assert_current();
    }
}

#[test]
fn a_listener_that_comes_back_after_a_reconnect_gets_its_table_first_while_old_connections_drain() {
    for protocol in BOTH {
        let mut world = shop();
        world.listeners.insert("other".to_owned(), "other".to_owned());
        world.route_in("other", "o.example", &["a"]);
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().drains = true;
        world.listeners.remove("other");
        world.tables.remove("other");
        harness.seal(&mut world);
        harness.run();
        let sealed = world.seal();
        harness.reconnect(Some(sealed));
        harness.run();
        harness.take_log();
        world.listeners.insert("other".to_owned(), "other".to_owned());
        world.route_in("other", "o.example", &["z"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["rds other", pick(protocol, "lds http other", "lds other")], "{protocol}");
        harness.assert_current();
    }
}

#[test]
fn a_route_waits_for_the_certificate_that_its_cluster_shows() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(SDS);
        world.show("b", "shop/client", "1").route("a.example", &["b"]);
        harness.seal(&mut world);
        harness.run();
        // The endpoints are there and the certificate is on its way: the cluster warms all the same.
        assert_eq!(
            harness.take_log(),
            [pick(protocol, "cds a b z", "cds b"), "eds b", "sds shop/client"],
            "{protocol}"
        );
        let kept = harness.envoy.release();
        harness.to_server.extend(kept);
        harness.envoy.options().hold.remove(&SDS);
        harness.run();
        assert_eq!(harness.take_log(), ["rds http"], "{protocol}");
        harness.pass(5_000);
        assert_eq!(harness.take_log(), [pick(protocol, "cds b z", "cds -a")], "{protocol}");
        harness.assert_clean();
        harness.assert_current();
        assert_eq!(harness.stats().overdue_pins, 0);
    }
}

#[test]
fn a_certificate_that_a_cluster_shows_rotates_alone_and_nobody_waits_for_it() {
    for protocol in BOTH {
        let mut world = shop();
        world.show("a", "shop/client", "1");
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(SDS);
        world.show("a", "shop/client", "2");
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["sds shop/client"]);
        // Another route to the same cluster need not wait until the client has answered: it has the one before.
        world.route("n.example", &["a"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["rds http"]);
        harness.assert_clean();
    }
}

#[test]
fn a_certificate_that_the_client_rejects_is_not_waited_for() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        let rejection = Rejection { kind: SDS, name: "shop/client".into(), containing: None, named: false };
        harness.envoy.options().rejections.push(rejection);
        world.show("b", "shop/client", "1").route("a.example", &["b"]);
        harness.seal(&mut world);
        harness.run();
        assert!(harness.take_log().contains(&"rds http".to_owned()));
        assert_eq!(harness.stats().overdue_pins, 0);
    }
}
