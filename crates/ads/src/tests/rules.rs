//! The rules one by one, with requests by hand where no Envoy would send them.

use super::harness::{BOTH, CDS, EDS, Harness, LDS, RDS};
use super::world::{GATEWAY, World};
use crate::session::{Ask, Client, Close, Limits, Protocol, Reply, Request, Response, Session, TypeUrl};
use std::collections::BTreeMap;
use tidegate_model::{ClientId, INVALID_CLUSTER, Locality, Name, NamespacedName, Observation, ResourceType};

fn shop() -> World {
    let mut world = World::new();
    world.route("a.example", &["a"]).route("z.example", &["z"]);
    world
}

fn bare(protocol: Protocol, limits: Limits) -> Session {
    let id = ClientId { stream: 7, node: Name::from("bare") };
    let client = Client { id, gateway: NamespacedName::parse(GATEWAY), locality: Locality::default() };
    Session::new(protocol, client, limits)
}

fn names(texts: &[&str]) -> Vec<Name> {
    texts.iter().map(|text| Name::from(*text)).collect()
}

fn sotw(kind: ResourceType, nonce: &str, wanted: &[&str]) -> Request {
    let names = wanted.iter().map(|name| (*name).to_owned()).collect();
    let ask = Ask::Sotw { version: String::new(), names };
    Request { type_url: TypeUrl::Served(kind), nonce: nonce.to_owned(), error: None, ask }
}

fn delta(kind: ResourceType, nonce: &str, subscribe: &[&str], unsubscribe: &[&str]) -> Request {
    let (subscribe, unsubscribe) = (names(subscribe), names(unsubscribe));
    let ask = Ask::Delta { subscribe, unsubscribe, initial: BTreeMap::new() };
    Request { type_url: TypeUrl::Served(kind), nonce: nonce.to_owned(), error: None, ask }
}

fn sent(replies: Vec<Reply>) -> Vec<Response> {
    let response = |reply| match reply {
        Reply::Send(response) => Some(response),
        Reply::Observe(_) | Reply::Remember(_) | Reply::Close(_) => None,
    };
    replies.into_iter().filter_map(response).collect()
}

fn resources(responses: &[Response]) -> Vec<&str> {
    responses.iter().flat_map(|response| &response.resources).map(|resource| &*resource.name).collect()
}

#[test]
fn w1_a_table_goes_out_as_it_is_after_the_bound_and_is_counted() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(EDS);
        world.route("n.example", &["n"]);
        harness.seal(&mut world);
        harness.run();
        harness.take_log();
        assert_eq!(harness.stats().pinned, 1);
        harness.pass(999);
        assert_eq!(harness.take_log(), [""; 0]);
        harness.pass(1);
        assert_eq!(harness.take_log(), ["rds http"]);
        assert_eq!((harness.stats().overdue_pins, harness.stats().pinned), (1, 0));
        harness.assert_current();
    }
}

#[test]
fn w1_an_earlier_acknowledgement_of_endpoints_proves_nothing() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(EDS);
        world.endpoints("a", &["10.0.0.2"]);
        harness.seal(&mut world);
        harness.run();
        let early = harness.envoy.release();
        world.route("n.example", &["n"]);
        harness.seal(&mut world);
        harness.run();
        let late = harness.envoy.release();
        harness.take_log();
        harness.to_server.extend(early);
        harness.run();
        assert_eq!(harness.take_log(), [""; 0], "{protocol}");
        harness.to_server.extend(late);
        harness.run();
        assert_eq!(harness.take_log(), ["rds http"], "{protocol}");
        harness.assert_clean();
    }
}

#[test]
fn w1_a_route_to_nowhere_waits_for_nothing() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        world.route("n.example", &[INVALID_CLUSTER]);
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["rds http"]);
        harness.assert_clean();
    }
}

#[test]
fn w1_a_listener_waits_for_the_endpoints_of_a_cluster_that_its_streams_name() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(EDS);
        world.stream("http", "n");
        harness.seal(&mut world);
        harness.run();
        assert!(!harness.take_log().iter().any(|line| line.starts_with("lds")), "{protocol}");
        assert_eq!(harness.stats().pinned, 1);
        let accepted = harness.envoy.release();
        harness.to_server.extend(accepted);
        harness.run();
        assert!(harness.take_log().iter().any(|line| line.starts_with("lds")), "{protocol}");
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn w1_a_listener_whose_streams_go_to_a_known_cluster_or_to_nowhere_waits_for_nothing() {
    for protocol in BOTH {
        for cluster in ["a", INVALID_CLUSTER] {
            let mut world = shop();
            let mut harness = Harness::running(protocol, &mut world);
            harness.envoy.options().hold.extend([CDS, EDS]);
            world.direct.insert("http".to_owned(), vec![cluster.to_owned()]);
            harness.seal(&mut world);
            harness.run();
            assert_eq!(harness.take_log(), ["lds http"], "{protocol} {cluster}");
            harness.assert_clean();
        }
    }
}

#[test]
fn w1_a_changed_cluster_holds_no_table_back() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.extend([CDS, EDS]);
        world.h2.insert("a".to_owned());
        world.route("n.example", &["a"]);
        harness.seal(&mut world);
        harness.run();
        assert!(harness.take_log().contains(&"rds http".to_owned()));
        harness.assert_clean();
    }
}

#[test]
fn w7_churn_starves_no_table_and_holds_back_no_endpoints() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        harness.envoy.options().hold.insert(EDS);
        for round in 0..50 {
            // Every 100 ms the table names another new cluster, none of which is ever proven usable.
            world.route("n.example", &[&format!("n{round}")]);
            world.endpoints("a", &[&format!("10.0.1.{round}")]);
            harness.seal(&mut world);
            harness.run();
            let log = harness.take_log();
            let endpoints: Vec<&String> = log.iter().filter(|line| line.starts_with("eds")).collect();
            assert!(endpoints.iter().any(|line| line.contains(" a")), "round {round}: {log:?}");
            harness.pass(100);
        }
        let tables = harness.envoy.responses(RDS);
        assert!((4..=7).contains(&tables), "about one a second in five, not {tables}");
        harness.assert_clean();
    }
}

#[test]
fn w7_what_is_sealed_between_two_calls_is_never_made() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        for round in 0..20 {
            world.endpoints("a", &[&format!("10.0.1.{round}")]);
            world.seal();
        }
        harness.seal(&mut world);
        harness.run();
        assert_eq!(harness.take_log(), ["eds a"]);
        harness.assert_current();
    }
}

#[test]
fn w2_a_table_that_was_rejected_keeps_its_clusters() {
    for protocol in BOTH {
        let mut world = shop();
        let mut harness = Harness::running(protocol, &mut world);
        let rejection =
            tidegate_ads_client::Rejection { kind: RDS, name: "http".to_owned(), containing: None, named: true };
        harness.envoy.options().rejections.push(rejection);
        world.unroute("a.example");
        harness.seal(&mut world);
        harness.run();
        harness.pass(100_000);
        assert!(harness.envoy.holds(CDS).contains_key("a"), "the old table still names it");
        harness.envoy.options().rejections.clear();
        world.route("q.example", &["z"]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(5_000);
        assert!(!harness.envoy.holds(CDS).contains_key("a"));
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn w4_names_added_to_endpoints_are_answered_once_and_unknown_ones_as_their_protocol_can() {
    let sealed = shop().seal();
    let mut session = bare(Protocol::Sotw, Limits::default());
    assert_eq!(sent(session.on_request(sotw(CDS, "", &[]), 0)), []);
    let first = sent(session.on_sealed(sealed.clone(), 0));
    assert_eq!(resources(&first), ["a", "z"]);
    let both = sent(session.on_request(sotw(EDS, "", &["a"]), 0));
    assert_eq!(resources(&both), ["a", "z"], "what follows a cluster need not be asked for");
    assert_eq!(sent(session.on_request(sotw(EDS, &both[0].nonce, &["a", "z"]), 0)), []);
    let unknown = sent(session.on_request(sotw(EDS, &both[0].nonce, &["a", "x", "z"]), 0));
    assert_eq!(resources(&unknown), ["x"]);
    assert_eq!(unknown[0].resources[0].bytes, b"\x0a\x01x"[..], "no endpoints");
    assert_eq!(sent(session.on_request(sotw(EDS, &unknown[0].nonce, &["a", "x", "z"]), 0)), []);

    let mut session = bare(Protocol::Delta, Limits::default());
    session.on_request(delta(CDS, "", &[], &[]), 0);
    session.on_sealed(sealed, 0);
    let both = sent(session.on_request(delta(EDS, "", &["a", "x"], &[]), 0));
    assert_eq!((resources(&both), &both[0].removed), (vec!["a", "z"], &names(&["x"])));
    assert_eq!(sent(session.on_request(delta(EDS, "", &["z"], &[]), 0)), []);
}

#[test]
fn w4_a_name_that_was_unknown_is_sent_when_it_appears() {
    for protocol in BOTH {
        let mut world = shop();
        let mut session = bare(protocol, Limits::default());
        session.on_sealed(world.seal(), 0);
        let (clusters, endpoints) = match protocol {
            Protocol::Sotw => (sotw(CDS, "", &[]), sotw(EDS, "", &["a", "n", "z"])),
            Protocol::Delta => (delta(CDS, "", &[], &[]), delta(EDS, "", &["a", "n", "z"], &[])),
        };
        session.on_request(clusters, 0);
        session.on_request(endpoints, 0);
        world.route("n.example", &["n"]);
        let responses = sent(session.on_sealed(world.seal(), 0));
        assert_eq!(responses.last().map(|response| resources(std::slice::from_ref(response))), Some(vec!["n"]));
    }
}

#[test]
fn what_is_no_longer_asked_for_is_no_longer_sent_and_comes_again_when_it_is() {
    for protocol in BOTH {
        let mut world = shop();
        let mut session = bare(protocol, Limits::default());
        session.on_sealed(world.seal(), 0);
        let ask = |kind, more: &[&str], less: &[&str], all: &[&str]| match protocol {
            Protocol::Sotw => sotw(kind, "", all),
            Protocol::Delta => delta(kind, "", more, less),
        };
        session.on_request(ask(CDS, &[], &[], &[]), 0);
        session.on_request(ask(EDS, &["a", "z"], &[], &["a", "z"]), 0);
        session.on_request(ask(LDS, &[], &[], &[]), 0);
        session.on_request(ask(RDS, &["http"], &[], &["http"]), 0);
        session.on_timer(2_000);
        session.on_request(ask(EDS, &[], &["a", "z"], &[]), 2_000);
        session.on_request(ask(RDS, &[], &["http"], &[]), 2_000);
        world.endpoints("a", &["10.0.0.8"]);
        world.route("z.example", &["a"]);
        let responses = sent(session.on_sealed(world.seal(), 2_000));
        assert_eq!(responses, [], "{protocol}: nothing that changed is asked for");
        assert_eq!(resources(&sent(session.on_request(ask(EDS, &["a"], &[], &["a"]), 2_000))), ["a"]);
        assert_eq!(resources(&sent(session.on_request(ask(RDS, &["http"], &[], &["http"]), 3_000))), [""; 0]);
        assert_eq!(resources(&sent(session.on_timer(4_000))), ["http"], "unproven clusters are waited for");
    }
}

#[test]
fn a_client_that_warms_for_ever_gets_clusters_that_it_does_not_ask_for() {
    for protocol in BOTH {
        let mut world = shop();
        let mut session = bare(protocol, Limits::default());
        session.on_sealed(world.seal(), 0);
        let endpoints = match protocol {
            Protocol::Sotw => sotw(EDS, "", &["a", "z"]),
            Protocol::Delta => delta(EDS, "", &["a", "z"], &[]),
        };
        let first = sent(session.on_request(endpoints, 0));
        let kinds: Vec<&TypeUrl> = first.iter().map(|response| &response.type_url).collect();
        assert_eq!(kinds, [&TypeUrl::Served(CDS), &TypeUrl::Served(EDS)], "{protocol}");
        world.h2.insert("a".to_owned());
        let mended = sent(session.on_sealed(world.seal(), 0));
        assert!(mended[0].resources.iter().any(|cluster| &*cluster.name == "a"), "{protocol}");
    }
}

#[test]
fn a_wildcard_can_be_narrowed_to_names() {
    let mut world = shop();
    let mut session = bare(Protocol::Delta, Limits::default());
    session.on_sealed(world.seal(), 0);
    assert_eq!(resources(&sent(session.on_request(delta(CDS, "", &["*"], &[]), 0))), ["a", "z"]);
    assert_eq!(sent(session.on_request(delta(CDS, "", &["a"], &["*"]), 0)).iter().flat_map(|r| &r.removed).count(), 0);
    world.h2.extend(["a".to_owned(), "z".to_owned()]);
    assert_eq!(resources(&sent(session.on_sealed(world.seal(), 0))), ["a"]);
    let mut session = bare(Protocol::Sotw, Limits::default());
    session.on_sealed(world.seal(), 0);
    assert_eq!(resources(&sent(session.on_request(sotw(CDS, "", &["a"]), 0))), ["a"]);
    assert_eq!(resources(&sent(session.on_request(sotw(CDS, "", &["a", "z"]), 0))), ["a", "z"]);
    assert_eq!(sent(session.on_request(sotw(CDS, "", &[]), 0)), [], "everything is let go of");
}

#[test]
fn a_delta_name_asked_for_twice_is_sent_twice() {
    let mut session = bare(Protocol::Delta, Limits::default());
    session.on_sealed(shop().seal(), 0);
    session.on_request(delta(CDS, "", &[], &[]), 0);
    session.on_request(delta(EDS, "", &["a", "z"], &[]), 0);
    assert_eq!(resources(&sent(session.on_request(delta(EDS, "", &["a"], &[]), 0))), ["a"]);
}

#[test]
fn a_stale_nonce_acknowledges_nothing_and_its_subscription_counts() {
    let mut world = shop();
    let mut session = bare(Protocol::Sotw, Limits::default());
    session.on_sealed(world.seal(), 0);
    session.on_request(sotw(CDS, "", &[]), 0);
    for nonce in ["999", "no number", ""] {
        let replies = session.on_request(sotw(CDS, nonce, &[]), 0);
        assert_eq!(replies, [], "nonce {nonce:?}");
    }
    let replies = session.on_request(sotw(EDS, "999", &["a"]), 0);
    assert_eq!(resources(&sent(replies)), ["a", "z"]);
    assert_eq!(session.stats().types[CDS as usize].pending, 1);
    // An error with a stale nonce is no rejection.
    let error = Request { error: Some("no".to_owned()), ..sotw(CDS, "999", &[]) };
    assert_eq!(session.on_request(error, 0), []);
    assert_eq!(session.stats().types[CDS as usize].nacks, 0);
}

#[test]
fn an_acknowledgement_is_observed_once_with_its_epoch() {
    let mut world = shop();
    world.seal();
    let mut session = bare(Protocol::Delta, Limits::default());
    session.on_sealed(world.seal(), 0);
    let responses = session.on_request(delta(CDS, "", &[], &[]), 0);
    assert!(matches!(&responses[0], Reply::Observe(Observation::Connected { delta: true, .. })));
    let nonce = sent(responses)[0].nonce.clone();
    let replies = session.on_request(delta(CDS, &nonce, &[], &[]), 0);
    let client = session.client().id.clone();
    assert_eq!(replies, [Reply::Observe(Observation::Acked { client: client.clone(), kind: CDS, epoch: 1 })]);
    assert_eq!(session.on_request(delta(CDS, &nonce, &[], &[]), 0), []);
    assert_eq!(session.on_close(), [Reply::Observe(Observation::Disconnected { client })]);
    assert_eq!(session.on_close(), []);
}

#[test]
fn an_unserved_type_is_answered_once_and_disturbs_nobody() {
    let url = || TypeUrl::new("type.googleapis.com/envoy.service.runtime.v3.Runtime");
    let mut session = bare(Protocol::Sotw, Limits::default());
    session.on_sealed(shop().seal(), 0);
    let answers = sent(session.on_request(Request { type_url: url(), ..sotw(CDS, "", &["x"]) }, 0));
    assert_eq!((answers.len(), answers[0].type_url.clone(), resources(&answers)), (1, url(), vec![]));
    let nonce = answers[0].nonce.clone();
    assert_eq!(session.on_request(Request { type_url: url(), ..sotw(CDS, &nonce, &["x"]) }, 0), []);
    // Envoy answers a push of a type that it never asked for without a type.
    assert_eq!(session.on_request(Request { type_url: TypeUrl::new(""), ..sotw(CDS, "", &[]) }, 0), []);
    assert_eq!(resources(&sent(session.on_request(sotw(CDS, "", &[]), 0))), ["a", "z"]);

    let mut session = bare(Protocol::Delta, Limits::default());
    let answers = sent(session.on_request(Request { type_url: url(), ..delta(CDS, "", &["x"], &[]) }, 0));
    assert_eq!(answers[0].removed, names(&["x"]));
    let nonce = answers[0].nonce.clone();
    assert_eq!(session.on_request(Request { type_url: url(), ..delta(CDS, &nonce, &[], &[]) }, 0), []);
}

#[test]
fn a_client_that_asks_for_too_many_names_is_closed() {
    let mut session = bare(Protocol::Sotw, Limits { max_names: 2, ..Limits::default() });
    let replies = session.on_request(sotw(EDS, "", &["a", "b", "c"]), 0);
    assert!(matches!(replies.last(), Some(Reply::Close(Close::TooManyNames { names: 3, limit: 2, .. }))));
}

#[test]
fn a_client_that_never_answers_costs_a_bounded_memory() {
    for protocol in BOTH {
        let mut world = shop();
        let limits = Limits { max_inflight: 4, ..Limits::default() };
        let mut harness = Harness::running_with(protocol, limits, &mut world);
        harness.envoy.options().hold.extend(ResourceType::ALL);
        for round in 0..20 {
            world.endpoints("a", &[&format!("10.0.1.{round}")]);
            world.route(&format!("r{round}.example"), &["a"]);
            harness.seal(&mut world);
            harness.run();
        }
        assert!(harness.stats().types.iter().all(|kind| kind.pending <= 4), "{:?}", harness.stats());
        let kept = harness.envoy.release();
        harness.envoy.options().hold.clear();
        harness.to_server.extend(kept);
        harness.run();
        harness.assert_clean();
        harness.assert_current();
    }
}

#[test]
fn one_changed_endpoint_is_one_resource_in_one_response() {
    for protocol in BOTH {
        let mut world = World::new();
        let clusters: Vec<String> = (0..300).map(|number| format!("c{number:03}")).collect();
        for cluster in &clusters {
            world.route(&format!("{cluster}.example"), &[cluster]);
        }
        let mut harness = Harness::running(protocol, &mut world);
        world.endpoints("c123", &["10.0.0.2"]);
        harness.seal(&mut world);
        assert_eq!(harness.to_client.len(), 1);
        harness.run();
        assert_eq!(harness.take_log(), ["eds c123"]);
        assert!(harness.stats().types.iter().all(|kind| kind.behind == 0));
    }
}

#[test]
fn w2_a_cluster_that_a_listener_named_stays_until_its_old_connections_have_drained() {
    for protocol in BOTH {
        let mut world = shop();
        world.endpoints("t", &["10.0.0.1"]).endpoints("u", &["10.0.0.2"]);
        world.direct.insert("http".to_owned(), vec!["t".to_owned()]);
        let limits = Limits { grace_ms: 5_000, drain_ms: 60_000, ..Limits::default() };
        let mut harness = Harness::running_with(protocol, limits, &mut world);
        world.direct.insert("http".to_owned(), vec!["u".to_owned()]);
        harness.seal(&mut world);
        harness.run();
        harness.pass(59_999);
        assert!(harness.envoy.holds(CDS).contains_key("t"), "{protocol}");
        harness.pass(1);
        assert!(!harness.envoy.holds(CDS).contains_key("t"), "{protocol}");
        // So it is with a listener that goes.
        world.listeners.insert("other".to_owned(), "http".to_owned());
        world.direct.remove("http");
        harness.seal(&mut world);
        harness.run();
        harness.pass(59_999);
        assert!(harness.envoy.holds(CDS).contains_key("u"), "{protocol}");
        harness.pass(1);
        assert!(!harness.envoy.holds(CDS).contains_key("u"), "{protocol}");
        harness.assert_current();
        assert_eq!(harness.stats().overdue_pins, 0);
    }
}

#[test]
fn w2_what_old_connections_of_a_returning_client_may_use_stays_until_they_have_drained() {
    let mut world = shop();
    world.endpoints("t", &["10.0.0.1"]).endpoints("u", &["10.0.0.2"]);
    world.direct.insert("http".to_owned(), vec!["t".to_owned()]);
    let limits = Limits { grace_ms: 5_000, drain_ms: 60_000, ..Limits::default() };
    let mut harness = Harness::running_with(Protocol::Delta, limits, &mut world);
    world.direct.insert("http".to_owned(), vec!["u".to_owned()]);
    harness.seal(&mut world);
    harness.run();
    harness.reconnect(Some(world.seal()));
    harness.run();
    harness.pass(59_999);
    assert!(harness.envoy.holds(CDS).contains_key("t"));
    harness.pass(1);
    assert!(!harness.envoy.holds(CDS).contains_key("t"));
    harness.assert_clean();
    harness.assert_current();
}

#[test]
fn an_empty_response_that_crosses_the_end_of_all_names_is_not_waited_for() {
    let mut world = shop();
    world.secrets = [("shop/a".into(), "1".into()), ("shop/b".into(), "1".into())].into();
    let mut session = bare(Protocol::Sotw, Limits::default());
    session.on_sealed(world.seal(), 0);
    let first = sent(session.on_request(sotw(ResourceType::Secret, "", &["shop/a", "shop/b"]), 0));
    assert_eq!(resources(&first), ["shop/a", "shop/b"]);
    let nonce = &first[1].nonce;
    assert_eq!(sent(session.on_request(sotw(ResourceType::Secret, nonce, &["shop/a", "shop/b"]), 0)).len(), 0);
    let empty = sent(session.on_request(sotw(ResourceType::Secret, nonce, &["shop/b"]), 0));
    assert!(empty.len() == 1 && empty[0].resources.is_empty(), "{empty:?}");
    // Sent before that came: Envoy, asking for nothing now, takes it without a word.
    session.on_request(sotw(ResourceType::Secret, nonce, &[]), 0);
    assert!(session.stats().types.iter().all(|kind| kind.pending == 0), "{:?}", session.stats());
}
