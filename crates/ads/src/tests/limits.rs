//! Every limit: what is said at it, and that it harms nobody else.

use super::raw::{CDS, EDS, Raw, ask_delta, ask_sotw, names};
use super::server::{BOTH, Server, envoy, start, start_at, within};
use super::world::World;
use crate::{Clock, Config};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_ads_client::{Connection, Envoy, Error, Protocol, Violation};
use tidegate_model::ResourceType;
use tonic::Code;

fn shop() -> World {
    let mut world = World::new();
    world.route("a.example", &["a"]).route("z.example", &["z"]);
    world
}

async fn serving(server: &Server, protocol: Protocol) -> Connection {
    let mut connection = within(server.connect(envoy(protocol))).await;
    within(connection.until(Envoy::is_serving)).await.unwrap();
    connection
}

async fn end(connection: &mut Connection) -> Error {
    within(async {
        loop {
            if let Err(error) = connection.step().await {
                break error;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_client_too_many_is_told_the_flag_and_gets_in_when_another_leaves() {
    for protocol in BOTH {
        let server = start(Config { max_clients: 1, ..Config::default() }, 100).await;
        server.seal(&mut shop());
        let first = serving(&server, protocol).await;
        let refused = within(Connection::open(&server.address, envoy(protocol))).await.err();
        let Some(Error::Stream(status)) = refused else { panic!("it was let in: {refused:?}") };
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("1 clients are connected") && status.message().contains("--max-clients"));
        assert_eq!(server.config.metrics.refused.get(), 1);
        drop(first);
        server.until(|config| config.metrics.streams.get() == 0).await;
        serving(&server, protocol).await;
        server.stop().await;
    }
}

#[tokio::test]
async fn who_asks_for_more_names_than_allowed_is_told_the_flag_and_a_neighbour_notices_nothing() {
    let mut world = shop();
    let server = start(Config { max_names: 10, ..Config::default() }, 100).await;
    server.seal(&mut world);
    let mut neighbour = serving(&server, Protocol::Delta).await;
    let many: Vec<String> = (0..11).map(|number| format!("c{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut delta = Raw::delta(&server, ask_delta(EDS, &many)).await;
    let mut sotw = Raw::sotw(&server, ask_sotw(EDS, &many)).await;
    for status in [delta.end().await, sotw.end().await] {
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("11 resources") && status.message().contains("--max-names"), "{status}");
    }
    assert_eq!(server.config.metrics.closed.get(), 2);
    world.endpoints("a", &["10.0.9.9"]);
    let seen = neighbour.envoy().responses(ResourceType::Endpoints);
    server.seal(&mut world);
    within(neighbour.until(|envoy| envoy.responses(ResourceType::Endpoints) > seen)).await.unwrap();
    assert_eq!(neighbour.envoy().violations(), Vec::<Violation>::new());
    server.stop().await;
}

#[tokio::test]
async fn a_request_too_large_is_refused_with_the_flag() {
    let server = start(Config { max_request_bytes: 1000, ..Config::default() }, 100).await;
    server.seal(&mut shop());
    let long = "x".repeat(600);
    for status in [
        Raw::delta(&server, ask_delta(EDS, &[&long, &long])).await.end().await,
        Raw::sotw(&server, ask_sotw(EDS, &[&long, &long])).await.end().await,
    ] {
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(
            status.message().contains("1000 bytes") && status.message().contains("--max-request-bytes"),
            "{status}"
        );
    }
    serving(&server, Protocol::Sotw).await;
    server.stop().await;
}

/// A client lists all that it holds when it reconnects: megabytes, far more than the 4 MiB that gRPC allows by itself.
#[tokio::test]
async fn a_client_reconnects_with_fifty_thousand_names() {
    const HELD: usize = 50_000;
    let server = start(Config { grace_ms: 0, pin_ms: 10, ..Config::default() }, 100).await;
    server.seal(&mut shop());
    // As long as names of clusters are that name a namespace, a Service and a port.
    let held: Vec<String> = (0..HELD).map(|number| format!("namespace-{number}/service-{number}/8080")).collect();
    let version = "0123456789abcdef".repeat(4);
    let list = || held.iter().map(|name| (name.clone(), version.clone())).collect();
    let mut clusters = ask_delta(CDS, &[]);
    clusters.initial_resource_versions = list();
    let mut raw = Raw::delta(&server, clusters).await;
    let mut endpoints = ask_delta(EDS, &["a", "z"]);
    endpoints.resource_names_subscribe.extend(held.iter().cloned());
    endpoints.initial_resource_versions = list();
    assert!(prost::Message::encoded_len(&endpoints) > 6 << 20);
    raw.send(&endpoints).await;
    let (mut removed, mut got) = (BTreeSet::new(), BTreeSet::new());
    while removed.len() < HELD || got.len() < 4 {
        let response = raw.next_delta().await;
        got.extend(names(&response).iter().map(|name| (response.type_url.clone(), (*name).to_owned())));
        if response.type_url == CDS {
            removed.extend(response.removed_resources);
        }
    }
    let expected = [(CDS, "a"), (CDS, "z"), (EDS, "a"), (EDS, "z")];
    assert_eq!(got, expected.map(|(kind, name)| (kind.to_owned(), name.to_owned())).into());
    assert_eq!(removed, held.into_iter().collect());
    server.stop().await;
}

#[tokio::test]
async fn an_old_stream_ends_in_good_order_and_the_next_one_is_told_only_what_is_new() {
    for protocol in BOTH {
        let config = Config { max_stream_age: Some(Duration::from_millis(200)), ..Config::default() };
        let server = start(config, 100).await;
        server.seal(&mut shop());
        let mut connection = serving(&server, protocol).await;
        assert!(matches!(end(&mut connection).await, Error::Ended), "an end without an error");
        assert_eq!(server.config.metrics.aged.get(), 1);
        let clusters = server.config.metrics.pushes(ResourceType::Cluster);
        let envoy = connection.close();
        let seen = envoy.responses(ResourceType::Endpoints);
        let mut connection = within(server.connect(envoy)).await;
        within(connection.until(|envoy| envoy.responses(ResourceType::Endpoints) > seen)).await.unwrap();
        assert_eq!(server.config.metrics.pushes(ResourceType::Cluster), clusters);
        assert_eq!(connection.envoy().violations(), Vec::<Violation>::new());
        server.stop().await;
    }
}

/// A clock that is set by hand. Timers are the runtime's; one that fires finds by this clock that it is early.
fn manual() -> (Arc<AtomicU64>, Clock) {
    let time = Arc::new(AtomicU64::new(1_000));
    let read = Arc::clone(&time);
    (time, Arc::new(move || read.load(Ordering::SeqCst)))
}

/// Short enough that all of its spread lies within the time for which an old stream is patient.
const AGE_MS: u64 = 20_000;

#[tokio::test]
async fn an_old_stream_waits_until_its_client_has_answered_everything() {
    for protocol in BOTH {
        let (time, clock) = manual();
        let config = Config { max_stream_age: Some(Duration::from_millis(AGE_MS)), ..Config::default() };
        let server = start_at(config, 1000, clock).await;
        let mut world = shop();
        server.seal(&mut world);
        let mut connection = serving(&server, protocol).await;
        connection.envoy_mut().options().hold.insert(ResourceType::Endpoints);
        world.endpoints("a", &["10.0.9.9"]);
        let seen = connection.envoy().responses(ResourceType::Endpoints);
        server.seal(&mut world);
        within(connection.until(|envoy| envoy.responses(ResourceType::Endpoints) > seen)).await.unwrap();
        // Older than any spread makes it, and there is an answer to something else.
        time.store(1_000 + AGE_MS / 10 * 11, Ordering::SeqCst);
        world.listeners.insert("second".to_owned(), "http".to_owned());
        let (acks, seen) = (&server.config.metrics.acks, connection.envoy().responses(ResourceType::Listener));
        let acked = acks.of(ResourceType::Listener).get();
        server.seal(&mut world);
        within(connection.until(|envoy| envoy.responses(ResourceType::Listener) > seen)).await.unwrap();
        server.until(|config| config.metrics.acks.of(ResourceType::Listener).get() > acked).await;
        assert_eq!(server.config.metrics.aged.get(), 0);
        within(connection.release()).await.unwrap();
        assert!(matches!(end(&mut connection).await, Error::Ended));
        assert_eq!(server.config.metrics.aged.get(), 1);
        server.stop().await;
    }
}

#[tokio::test]
async fn an_old_stream_does_not_wait_for_ever() {
    let (time, clock) = manual();
    let config = Config { max_stream_age: Some(Duration::from_millis(AGE_MS)), ..Config::default() };
    let server = start_at(config, 1000, clock).await;
    let mut world = shop();
    server.seal(&mut world);
    let mut connection = serving(&server, Protocol::Delta).await;
    connection.envoy_mut().options().hold.insert(ResourceType::Endpoints);
    world.endpoints("a", &["10.0.9.9"]);
    world.listeners.insert("second".to_owned(), "http".to_owned());
    let seen = connection.envoy().responses(ResourceType::Listener);
    server.until(|config| config.metrics.acks.of(ResourceType::Table).get() > 0).await;
    time.store(1_000 + AGE_MS * 2, Ordering::SeqCst);
    server.seal(&mut world);
    within(connection.until(|envoy| envoy.responses(ResourceType::Listener) > seen)).await.unwrap();
    assert!(matches!(end(&mut connection).await, Error::Ended));
    assert_eq!(server.config.metrics.aged.get(), 1);
    server.stop().await;
}
