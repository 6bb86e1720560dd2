//! What a client rejects is not sent again until it changes, and holds back nothing else.

use super::harness::{BOTH, CDS, EDS, Harness, LDS, RDS, SDS};
use super::world::World;
use crate::session::{Limits, Protocol, Rejections};
use prost::Message;
use tidegate_ads_client::{Rejection, Violation};
use tidegate_model::{Observation, Refusal, ResourceType};
use tidegate_proto::envoy::config::route::v3::RouteConfiguration;

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
        assert_eq!(harness.take_log(), ["eds a z", "eds a", "eds z"]);
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
        // As it is, with the answer 500, and without the entry: the client rejects the very host.
        assert_eq!(harness.take_log(), ["rds http", "rds http", "rds http"]);
        assert_eq!(harness.envoy.holds(RDS), old);
        let Observation::Rejected { kind, epoch, resources, detail, .. } = &harness.observations[0] else {
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

/// What the client refuses, as it was told last: type, name, entries.
fn refused(harness: &Harness) -> Vec<(ResourceType, String, Vec<String>)> {
    let told = harness.observations.iter().rev().find_map(|observation| match observation {
        Observation::Refuses { refusals, .. } => Some(refusals),
        _ => None,
    });
    let text = |refusal: &Refusal| {
        let entries = refusal.entries.iter().map(ToString::to_string).collect();
        (refusal.kind, refusal.name.to_string(), entries)
    };
    told.into_iter().flatten().map(text).collect()
}

#[test]
fn one_bad_entry_among_a_thousand_is_found_and_the_rest_keeps_changing() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().rejections.push(reject(RDS, "http", Some("/bad"), false));
        for number in 0..999 {
            world.route(&format!("h{number}.example"), &["a"]);
        }
        world.route("h500.example", &["a", "bad"]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(2_000);
        // The response itself, ten trials, what was held back, and the match alone.
        let pushes = harness.take_log().iter().filter(|line| line.starts_with("rds")).count();
        assert!(pushes <= 1 + 12, "{protocol}: {pushes}");
        let entry = vec!["h500.example/bad".to_owned()];
        assert_eq!(refused(&harness), [(RDS, "http".to_owned(), entry)]);
        let held = harness.envoy.holds(RDS)["http"].clone();
        let holds = |held: &[u8], text: &str| held.windows(text.len()).any(|part| part == text.as_bytes());
        for number in 0..999 {
            assert!(holds(&held, &format!("h{number}.example")), "{number}");
        }
        // The others change, one push each.
        world.route("h7.example", &["z"]).route("h501.example", &["z"]).unroute("h3.example");
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["rds http"]);
        assert!(!holds(&harness.envoy.holds(RDS)["http"], "h3.example"));
        // A good form of the bad one ends it.
        world.route("h500.example", &["a"]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(10_000);
        assert_eq!(refused(&harness), []);
        harness.assert_clean();
        harness.assert_current();
    }
}

/// The action of each route of a host, as text.
fn actions(harness: &Harness, host: &str) -> Vec<String> {
    let table = RouteConfiguration::decode(harness.envoy.holds(RDS)["http"].clone()).unwrap();
    let host = table.virtual_hosts.iter().find(|virtual_host| virtual_host.name == host).unwrap();
    host.routes.iter().map(|route| format!("{:?}", route.action.as_ref().unwrap())).collect()
}

#[test]
fn a_rejected_entry_keeps_the_form_that_was_accepted_as_long_as_its_clusters_are_there() {
    for protocol in BOTH {
        let mut world = shop();
        world.route("other.example", &["b"]);
        let mut harness = Harness::running(protocol, &mut world);
        let before = actions(&harness, "a.example");
        harness.envoy.options().rejections.push(reject(RDS, "http", Some("unloved"), false));
        world.retarget("a", "unloved").route("also.example", &["a-too"]);
        world.retarget("a-too", "a");
        harness.seal(&mut world);
        harness.run();
        harness.pass(60_000);
        assert_eq!(actions(&harness, "a.example"), before, "{protocol}");
        assert_eq!(refused(&harness), [(RDS, "http".to_owned(), vec!["a.example/a".to_owned()])]);
        assert!(harness.envoy.holds(CDS).contains_key("a"));
        // It survives another stream, at another replica that knows it.
        let sealed = world.seal();
        let rejections = harness.envoy.rejections();
        harness.take_log();
        harness.reconnect(Some(sealed));
        harness.run();
        let log = harness.take_log();
        assert_eq!(harness.envoy.rejections(), rejections, "{protocol} {log:?}");
        assert!(!log.iter().any(|line| line.starts_with("rds")), "{protocol}");
        // Nothing else needs its cluster any more: then it cannot stay.
        world.unroute("also.example");
        harness.seal(&mut world);
        harness.run();
        harness.pass(60_000);
        assert!(actions(&harness, "a.example")[0].contains("500"), "{:?}", actions(&harness, "a.example"));
        assert!(!harness.envoy.holds(CDS).contains_key("a"));
        assert_eq!(harness.envoy.rejections(), rejections);
        harness.assert_clean();
    }
}

#[test]
fn one_bad_cluster_or_listener_that_nobody_names_is_found_by_halving() {
    for protocol in BOTH {
        for kind in [CDS, LDS] {
            let mut world = shop();
            let mut harness = Harness::running(protocol, &mut world);
            let names: Vec<String> = (0..1_000).map(|number| format!("n{number}")).collect();
            for name in &names {
                if kind == CDS {
                    world.route(&format!("{name}.example"), &[name]);
                } else {
                    world.listeners.insert(name.clone(), "http".to_owned());
                }
            }
            harness.envoy.options().rejections.push(reject(kind, "n617", None, false));
            harness.seal(&mut world);
            harness.run();
            harness.pass(2_000);
            let pushes = harness.take_log().iter().filter(|line| line.starts_with(kind.short())).count();
            assert!(pushes <= 1 + 12, "{protocol} {}: {pushes}", kind.short());
            let held = harness.envoy.holds(kind);
            let missing: Vec<&String> = names.iter().filter(|name| !held.contains_key(*name)).collect();
            assert_eq!(missing, ["n617"], "{protocol} {}", kind.short());
            let told = refused(&harness);
            assert_eq!((told.len(), told[0].0, &*told[0].1), (1, kind, "n617"));
            // Later changes flow at once, each in one push, and do not bring it back.
            let rejections = harness.envoy.rejections();
            if kind == CDS {
                world.h2.insert("n618".to_owned());
            } else {
                world.listeners.insert("n618".to_owned(), "another".to_owned());
                world.tables.insert("another".to_owned(), std::collections::BTreeMap::new());
            }
            harness.seal(&mut world);
            harness.run();
            let pushes = harness.take_log().iter().filter(|line| line.starts_with(kind.short())).count();
            assert_eq!((pushes, harness.envoy.rejections()), (1, rejections), "{protocol} {}", kind.short());
            // Nor does a new stream.
            let sealed = world.seal();
            harness.reconnect(Some(sealed));
            harness.run();
            harness.pass(2_000);
            assert_eq!(harness.envoy.rejections(), rejections, "{protocol} {}: {:?}", kind.short(), harness.take_log());
            // Assignments follow their clusters before anybody knows that these are rejected; trials repeat the culprit.
            let felt = |violation: &&Violation| match violation {
                Violation::UnusableCluster { cluster, .. } => cluster == "n617",
                Violation::Unasked { kind, .. } => *kind == "eds",
                Violation::Needless { name, .. } => name == "n617",
                _ => false,
            };
            let others: Vec<_> = harness.envoy.violations().iter().filter(|violation| !felt(violation)).collect();
            assert!(others.is_empty(), "{protocol} {} {others:?}", kind.short());
        }
    }
}

#[test]
fn one_bad_assignment_among_a_thousand_is_found_by_halving() {
    for protocol in BOTH {
        let mut world = shop();
        let names: Vec<String> = (0..1_000).map(|number| format!("n{number}")).collect();
        for name in &names {
            world.route(&format!("{name}.example"), &[name]);
        }
        let mut harness = Harness::running(protocol, &mut world);
        for name in &names {
            world.endpoints(name, &["10.6.6.6"]);
        }
        harness.envoy.options().rejections.push(reject(EDS, "n617", Some("10.6.6.6"), false));
        harness.seal(&mut world);
        harness.run();
        assert!(harness.take_log().len() <= 1 + 12);
        let told = refused(&harness);
        assert_eq!(told, [(EDS, "n617".to_owned(), vec!["n617.example/n617".to_owned()])]);
        harness.take_log();
        for name in &names {
            world.endpoints(name, &["10.0.0.7"]);
        }
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log().len(), 1, "together again");
        assert_eq!(refused(&harness), []);
        harness.assert_current();
    }
}

#[test]
fn a_rejected_secret_is_never_sent_again_also_not_after_a_flap_or_on_another_stream() {
    for protocol in BOTH {
        let mut world = shop();
        world.secrets.insert("shop/cert".to_owned(), "first".to_owned());
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().rejections.push(reject(SDS, "shop/cert", Some("second"), false));
        for digest in ["second", "third", "second"] {
            world.secrets.insert("shop/cert".to_owned(), digest.to_owned());
            harness.seal(&mut world);
            harness.run();
        }
        assert_eq!(harness.take_log(), ["sds shop/cert", "sds shop/cert"], "{protocol}");
        assert_eq!(refused(&harness), [(SDS, "shop/cert".to_owned(), vec![])]);
        let sealed = world.seal();
        harness.reconnect(Some(sealed));
        harness.run();
        harness.pass(60_000);
        assert!(!harness.take_log().iter().any(|line| line.starts_with("sds")), "{protocol}");
        assert_eq!(harness.envoy.rejections(), 1);
        assert_eq!(refused(&harness), [(SDS, "shop/cert".to_owned(), vec![])], "told again on the new stream");
        harness.assert_clean();
    }
}

#[test]
fn a_new_process_under_the_same_name_is_tried_again() {
    for protocol in BOTH {
        let mut world = shop();
        world.secrets.insert("shop/cert".to_owned(), "bad".to_owned());
        let mut harness = Harness::with(protocol, Limits::default());
        harness.envoy.options().rejections.push(reject(SDS, "shop/cert", Some("bad"), false));
        harness.seal(&mut world);
        harness.run();
        assert_eq!(refused(&harness).len(), 1);
        harness.restart_client();
        harness.run();
        assert_eq!(refused(&harness), []);
        assert!(harness.envoy.is_serving(), "{protocol}");
    }
}

#[test]
fn a_complete_response_that_was_on_its_way_is_rejected_for_what_it_repeats_and_blames_nobody_else() {
    let mut world = shop();
    let mut harness = Harness::running(Protocol::Sotw, &mut world);
    harness.envoy.options().rejections.push(reject(CDS, "bad", None, false));
    world.route("bad.example", &["bad"]);
    harness.seal(&mut world);
    world.route("n.example", &["n"]);
    harness.seal(&mut world);
    harness.run();
    harness.pass(10_000);
    assert!(harness.envoy.holds(CDS).contains_key("n"));
    assert_eq!(refused(&harness), [(CDS, "bad".to_owned(), vec!["bad.example/bad".to_owned()])]);
    assert!(harness.envoy.rejections() <= 2);
}

#[test]
fn a_refused_cluster_holds_up_no_table() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().rejections.push(reject(CDS, "bad", None, true));
        world.route("b.example", &["bad"]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.stats().overdue_pins, 0, "{protocol}");
        assert_eq!(harness.stats().pinned, 0, "{protocol}");
        assert_eq!(actions(&harness, "b.example").len(), 1);
    }
}

#[test]
fn what_a_client_has_instead_survives_a_restart_in_which_other_things_changed() {
    for protocol in BOTH {
        for kind in [CDS, LDS] {
            for named in [false, true] {
                let mut world = shop();
                world.listeners.insert("other".to_owned(), "http".to_owned());
                let mut harness = Harness::running(protocol, &mut world);
                let name = if kind == CDS { "a" } else { "http" };
                let old = harness.envoy.holds(kind)[name].clone();
                world.h2.insert("a".to_owned());
                world.listeners.insert("http".to_owned(), "moved".to_owned());
                world.route_in("moved", "m.example", &["a"]);
                // How HTTP/2 is encoded: explicit_http_config { http2_protocol_options {} }.
                let new = if kind == CDS { "\u{1a}\u{2}\u{12}\u{0}" } else { "moved" };
                harness.envoy.options().rejections.push(reject(kind, name, Some(new), named));
                harness.seal(&mut world);
                harness.run();
                harness.pass(60_000);
                assert!(harness.envoy.rejections() > 0);
                assert_eq!(harness.envoy.holds(kind)[name], old);
                let rejections = harness.envoy.rejections();
                world.route("n.example", &["n"]).listeners.insert("third".to_owned(), "http".to_owned());
                let sealed = world.seal();
                harness.reconnect(Some(sealed));
                harness.run();
                harness.pass(60_000);
                let what = format!("{protocol} {} named: {named}", kind.short());
                assert_eq!(harness.envoy.rejections(), rejections, "{what}");
                assert_eq!(harness.envoy.holds(kind)[name], old, "{what}");
                assert!(harness.envoy.holds(CDS).contains_key("n") && harness.envoy.holds(LDS).contains_key("third"));
                assert_eq!(refused(&harness).len(), 1, "{what}");
            }
        }
    }
}

#[test]
fn a_client_that_rejects_all_that_it_is_sent_is_sent_it_once_or_few_times() {
    for protocol in BOTH {
        for kind in [CDS, EDS, LDS, RDS] {
            for reconnects in [false, true] {
                let mut world = shop();
                world.listeners.insert("other".to_owned(), "http".to_owned());
                let mut harness = Harness::running(protocol, &mut world);
                for name in ["a", "b", "c", "d", "z", "http", "other", "more"] {
                    harness.envoy.options().rejections.push(reject(kind, name, None, false));
                }
                for name in ["b", "c", "d"] {
                    world.route(&format!("{name}.example"), &[name]).h2.insert("a".to_owned());
                }
                world.listeners.insert("more".to_owned(), "http".to_owned());
                if reconnects {
                    harness.rejections = Rejections::default();
                    let sealed = world.seal();
                    harness.reconnect(Some(sealed));
                } else {
                    harness.seal(&mut world);
                }
                harness.run();
                harness.pass(600_000);
                let rejections = harness.envoy.rejections();
                assert!((1..40).contains(&rejections), "{protocol} {} {rejections}", kind.short());
            }
        }
    }
}

/// The delta protocol tells what is let go apart from what is answered, so that the one can overtake the other.
#[test]
fn a_table_that_was_let_go_before_its_rejection_keeps_no_cluster() {
    let mut world = shop();
    let mut harness = Harness::running(Protocol::Delta, &mut world);
    harness.envoy.options().rejections.push(reject(RDS, "two", None, false));
    harness.envoy.options().hold.insert(RDS);
    world.listeners.insert("other".to_owned(), "two".to_owned());
    world.route_in("two", "o.example", &["c"]);
    harness.seal(&mut world);
    harness.run();
    assert_eq!(harness.envoy.rejections(), 1);
    world.listeners.remove("other");
    world.tables.remove("two");
    harness.seal(&mut world);
    harness.run();
    let answers = harness.envoy.release();
    harness.to_server.extend(answers);
    harness.run();
    harness.pass(60_000);
    harness.assert_current();
    assert_eq!(harness.stats().leaving, 0);
}
