//! Random seals against a client that is late, reconnects and reads at its own pace: the checkers of the model look at
//! every message, and in the end it holds what was sealed last.

use super::harness::{BOTH, Harness};
use super::world::{World, in_zone};
use crate::session::{Limits, Protocol};
use proptest::prelude::*;
use tidegate_ads_client::Violation;
use tidegate_model::{INVALID_CLUSTER, Locality};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Act {
    /// The host's route names these of the clusters.
    Route(usize, Vec<usize>),
    Unroute(usize),
    /// The cluster has so many endpoints.
    Endpoints(usize, usize),
    /// The cluster has so many endpoints for clients of this zone.
    Zoned(usize, usize, usize),
    /// The Node of the client is in this zone.
    Node(usize),
    /// The client says that it is in this zone.
    Move(usize),
    /// The cluster changes its form.
    Flip(usize),
    /// The second listener comes or goes, or moves to another table.
    Listener(Option<bool>),
    /// The first listener passes connections on to this cluster, or none.
    Stream(Option<usize>),
    /// A cluster shows a certificate of this content to its endpoints, or none.
    Show(usize, Option<usize>),
    /// The secret gets this content, or goes.
    Secret(usize, Option<usize>),
    Seal,
    /// The client's requests reach the session, so many of them.
    Requests(usize),
    /// The session's responses reach the client, so many of them.
    Responses(usize),
    /// Time passes, and what falls due is done.
    Pass(u64),
    /// The stream breaks. Either replica has the newest seal.
    Reconnect,
}

const CLUSTERS: [&str; 6] = ["a", "b", "c", "d", "e", INVALID_CLUSTER];
const SECRETS: [&str; 2] = ["shop/one", "shop/two"];
const ZONES: [&str; 3] = ["z1", "z2", ""];
const NODE: &str = "left";
const HOSTS: [&str; 3] = ["x.example", "y.example", "*.example"];

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..HOSTS.len(), prop::collection::vec(0..CLUSTERS.len(), 1..3)).prop_map(|(h, c)| Act::Route(h, c)),
        2 => (0..HOSTS.len()).prop_map(Act::Unroute),
        2 => (0..CLUSTERS.len() - 1, 0..3_usize).prop_map(|(c, n)| Act::Endpoints(c, n)),
        2 => (0..CLUSTERS.len() - 1, 0..ZONES.len(), 0..3_usize).prop_map(|(c, z, n)| Act::Zoned(c, z, n)),
        1 => (0..ZONES.len()).prop_map(Act::Node),
        1 => (0..ZONES.len()).prop_map(Act::Move),
        2 => (0..CLUSTERS.len() - 1).prop_map(Act::Flip),
        1 => prop::option::of(any::<bool>()).prop_map(Act::Listener),
        1 => prop::option::of(0..CLUSTERS.len() - 1).prop_map(Act::Stream),
        1 => (0..CLUSTERS.len(), prop::option::of(0..3_usize)).prop_map(|(name, content)| Act::Show(name, content)),
        1 => (0..SECRETS.len(), prop::option::of(0..3_usize)).prop_map(|(name, content)| Act::Secret(name, content)),
        6 => Just(Act::Seal),
        8 => (1..4_usize).prop_map(Act::Requests),
        8 => (1..4_usize).prop_map(Act::Responses),
        2 => (1..1_500_u64).prop_map(Act::Pass),
        1 => Just(Act::Reconnect),
    ]
}

const ADDRESSES: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

/// On the Node, in a zone if nobody else knows one.
fn there(zone: &str) -> Locality {
    Locality { host: NODE.into(), ..in_zone(zone) }
}

fn perform(act: &Act, world: &mut World, harness: &mut Harness) {
    match act {
        Act::Route(host, clusters) => {
            let mut clusters: Vec<&str> = clusters.iter().map(|cluster| CLUSTERS[*cluster]).collect();
            clusters.sort_unstable();
            clusters.dedup();
            world.route(HOSTS[*host], &clusters);
        }
        Act::Unroute(host) => {
            world.unroute(HOSTS[*host]);
        }
        Act::Endpoints(cluster, count) => {
            world.endpoints(CLUSTERS[*cluster], &ADDRESSES[..*count]);
        }
        Act::Zoned(cluster, zone, count) => {
            world.endpoints_in(CLUSTERS[*cluster], ZONES[*zone], &ADDRESSES[..*count]);
        }
        Act::Node(zone) => {
            world.node(NODE, ZONES[*zone]);
        }
        Act::Move(zone) => harness.moves(there(ZONES[*zone])),
        Act::Flip(cluster) => {
            let name = CLUSTERS[*cluster].to_owned();
            if !world.h2.remove(&name) {
                world.h2.insert(name);
            }
        }
        Act::Listener(state) => {
            world.tables.retain(|name, _| name == "http");
            world.listeners.remove("other");
            if let Some(first) = state {
                let table = if *first { "one" } else { "two" };
                world.listeners.insert("other".to_owned(), table.to_owned());
                world.route_in(table, "o.example", &["d"]);
            }
        }
        Act::Stream(cluster) => {
            world.direct.clear();
            if let Some(cluster) = cluster {
                world.stream("http", CLUSTERS[*cluster]);
            }
        }
        Act::Show(cluster, content) => {
            let cluster = CLUSTERS[*cluster];
            match content {
                Some(content) => drop(world.show(cluster, "shop/client", &format!("digest {content}"))),
                None => drop(world.shows.remove(cluster)),
            }
        }
        Act::Secret(name, content) => {
            let name = SECRETS[*name].to_owned();
            match content {
                Some(content) => drop(world.secrets.insert(name, format!("digest {content}"))),
                None => drop(world.secrets.remove(&name)),
            }
        }
        Act::Seal => harness.seal(world),
        Act::Requests(count) => (0..*count).for_each(|_| {
            harness.deliver_request();
        }),
        Act::Responses(count) => (0..*count).for_each(|_| {
            harness.deliver_response();
        }),
        Act::Pass(millis) => harness.pass_silently(*millis),
        Act::Reconnect => {
            let sealed = world.seal();
            harness.reconnect(Some(sealed));
        }
    }
}

/// Time never helps: what waits for an acknowledgement waits for ever without it.
const PATIENT: Limits =
    Limits { grace_ms: 5_000, pin_ms: 100_000_000, drain_ms: 0, max_inflight: 64, max_names: 1_000 };

/// Plays the acts, checking after each, and lets everything come to rest.
fn play(protocol: Protocol, limits: Limits, acts: &[Act], check: impl Fn(&Harness)) {
    let mut world = World::new();
    let mut harness = Harness::at(protocol, limits, there("z1"));
    for act in acts {
        perform(act, &mut world, &mut harness);
        check(&harness);
    }
    harness.seal(&mut world);
    harness.run();
    harness.pass(60_000 + limits.drain_ms);
    check(&harness);
    harness.assert_current();
    let settled = harness.stats();
    assert_eq!((settled.pinned, settled.leaving), (0, 0));
    assert!(settled.types.iter().all(|kind| kind.behind == 0 && kind.pending == 0), "{settled:?}");
}

/// The bound may be felt, and only by who was too late for it.
fn clean_but_for_the_bound(harness: &Harness) {
    let bound = harness.stats().overdue_pins > 0;
    let felt = |violation: &&Violation| {
        bound && matches!(violation, Violation::UnusableCluster { .. } | Violation::UnusableClusterOfListener { .. })
    };
    let others: Vec<&Violation> = harness.envoy.violations().iter().filter(|violation| !felt(violation)).collect();
    assert_eq!(others, Vec::<&Violation>::new());
}

fn cases() -> u32 {
    std::env::var("TIDEGATE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// On one stream nothing is ever served wrong, however late the client is.
    #[test]
    fn a_client_of_any_pace_is_never_served_wrong(acts in prop::collection::vec(act(), 1..80)) {
        let acts: Vec<Act> = acts.into_iter().filter(|act| !matches!(act, Act::Reconnect)).collect();
        for protocol in BOTH {
            play(protocol, PATIENT, &acts, Harness::assert_clean);
            play(protocol, Limits { grace_ms: 0, ..PATIENT }, &acts, Harness::assert_clean);
            play(protocol, Limits::default(), &acts, clean_but_for_the_bound);
        }
    }

    /// The delta protocol says what a client brings, so that reconnects change nothing about that, unless the client takes
    /// longer than the bound to say it.
    #[test]
    fn a_delta_client_that_reconnects_is_never_served_wrong(acts in prop::collection::vec(act(), 1..80)) {
        play(Protocol::Delta, Limits::default(), &acts, |_| {});
        // A client that starts, warms a cluster whose secret is gone and comes back asks for no listeners: that it uses none
        // is told by time alone.
        let acts: Vec<Act> = acts.into_iter().filter(|act| !matches!(act, Act::Show(..))).collect();
        play(Protocol::Delta, PATIENT, &acts, Harness::assert_clean);
        play(Protocol::Delta, Limits { grace_ms: 0, ..PATIENT }, &acts, Harness::assert_clean);
    }

    /// A state-of-the-world client ends up right whatever happened; what vanished while it was away may be felt.
    #[test]
    fn a_sotw_client_that_reconnects_ends_up_right(acts in prop::collection::vec(act(), 1..80)) {
        play(Protocol::Sotw, Limits::default(), &acts, |_| {});
        play(Protocol::Sotw, Limits { grace_ms: 0, ..Limits::default() }, &acts, |_| {});
    }
}
