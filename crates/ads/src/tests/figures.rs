//! What the service says of itself.

use super::server::{BOTH, envoy, start, start_at, within};
use super::world::World;
use crate::{Cause, ClientState, Config, Histogram};
use std::sync::Arc;
use std::time::Duration;
use tidegate_ads_client::{Envoy, Protocol, Rejection};
use tidegate_model::ResourceType::{self, Cluster, Endpoints, Listener, Table};

fn shop() -> World {
    let mut world = World::new();
    world.route("a.example", &["a"]).route("z.example", &["z"]);
    world
}

/// Responses by type and cause, those that there are.
fn pushes(config: &Config) -> Vec<(&'static str, &'static str, u64)> {
    let all = ResourceType::ALL.into_iter().flat_map(|kind| Cause::ALL.map(|cause| (kind, cause)));
    let count = |(kind, cause): (ResourceType, Cause)| {
        let traffic = config.metrics.traffic.of(kind).of(cause);
        assert_eq!(traffic.pushes.get() > 0, traffic.bytes.get() > 0);
        (kind.short(), cause.short(), traffic.pushes.get())
    };
    all.map(count).filter(|(_, _, count)| *count > 0).collect()
}

fn count(histogram: &Histogram) -> u64 {
    histogram.read().0.iter().sum()
}

#[tokio::test]
async fn every_response_has_a_cause() {
    let mut world = shop();
    let server = start(Config { grace_ms: 0, ..Config::default() }, 1000).await;
    server.seal(&mut world);
    let mut connection = within(server.connect(envoy(Protocol::Delta))).await;
    within(connection.until(Envoy::is_serving)).await.unwrap();
    let boot = pushes(&server.config);
    assert!(boot.iter().all(|(_, cause, _)| ["subscription", "acceptance", "cluster"].contains(cause)), "{boot:?}");

    world.route("a.example", &["b"]);
    server.seal(&mut world);
    within(connection.until(|envoy| envoy.holds(Cluster).contains_key("b") && !envoy.holds(Cluster).contains_key("a")))
        .await
        .unwrap();
    let mut after = pushes(&server.config);
    after.retain(|push| !boot.contains(push));
    // The cluster, its endpoints, the table that waited for them, and then the cluster that nothing names any more.
    let of = |kind: &str| -> Vec<&str> {
        after.iter().filter(|(short, ..)| *short == kind).map(|(_, cause, _)| *cause).collect()
    };
    assert_eq!((of("cds").first(), of("eds")), (Some(&"seal"), vec!["cluster"]));
    assert_eq!((of("rds"), of("lds")), (vec!["acceptance"], Vec::new()));

    let before = pushes(&server.config);
    let envoy = connection.close();
    let seen = envoy.responses(Endpoints);
    let mut connection = within(server.connect(envoy)).await;
    within(connection.until(|envoy| envoy.responses(Endpoints) > seen)).await.unwrap();
    let mut after = pushes(&server.config);
    after.retain(|push| !before.contains(push));
    assert_eq!(after, [("eds", "reconnect", 1)]);
    server.until(|config| config.metrics.queued.get() == 0).await;
    server.stop().await;
}

/// Seals of the world are of the millisecond that their epoch has, so what is measured can be told exactly.
#[tokio::test]
async fn a_change_is_measured_from_its_batch_and_a_boot_is_not() {
    for protocol in BOTH {
        let mut world = shop();
        let server = start_at(Config::default(), 1000, Arc::new(|| 1_000)).await;
        server.seal(&mut world);
        let mut connection = within(server.connect(envoy(protocol))).await;
        within(connection.until(Envoy::is_serving)).await.unwrap();
        let metrics = &server.config.metrics;
        server
            .until(|config| config.clients.snapshot().iter().all(|stats| stats.state(Some(0)) == ClientState::Current))
            .await;
        assert_eq!(ResourceType::ALL.map(|kind| count(metrics.event_to_send.of(kind))), [0; 5]);

        world.endpoints("a", &["10.0.9.9"]);
        let seen = connection.envoy().responses(Endpoints);
        server.seal(&mut world);
        within(connection.until(|envoy| envoy.responses(Endpoints) > seen)).await.unwrap();
        world.route("a.example", &["b"]);
        let seen = connection.envoy().responses(Table);
        server.seal(&mut world);
        within(connection.until(|envoy| envoy.responses(Table) > seen)).await.unwrap();
        server.until(|config| count(config.metrics.event_to_ack.of(Table)) == 1).await;
        // Epoch 1 and 2 for endpoints, 2 for the table that waited for some of them.
        let (_, endpoints) = metrics.event_to_send.of(Endpoints).read();
        assert_eq!((count(metrics.event_to_send.of(Endpoints)), endpoints), (2, 999 + 998));
        let (buckets, table) = metrics.event_to_ack.of(Table).read();
        assert_eq!((buckets[9], table), (1, 998), "the bucket up to a second");
        assert_eq!(count(metrics.event_to_ack.of(Endpoints)), 2);
        assert_eq!(metrics.newest.get(), Some((2, 2)));
        server.stop().await;
    }
}

#[tokio::test]
async fn a_client_is_current_behind_waiting_or_rejecting() {
    let mut world = shop();
    let server = start(Config { pin_ms: 60_000, ..Config::default() }, 1000).await;
    server.seal(&mut world);
    let mut connection = within(server.connect(envoy(Protocol::Delta))).await;
    within(connection.until(Envoy::is_serving)).await.unwrap();
    let is = |config: &Config, state: ClientState| {
        let newest = config.metrics.newest.get().map(|(epoch, _)| epoch);
        config.clients.snapshot().iter().all(|stats| stats.state(newest) == state)
    };
    server.until(|config| is(config, ClientState::Current)).await;

    connection.envoy_mut().options().hold.insert(Endpoints);
    world.endpoints("a", &["10.0.9.9"]);
    let seen = connection.envoy().responses(Endpoints);
    server.seal(&mut world);
    within(connection.until(|envoy| envoy.responses(Endpoints) > seen)).await.unwrap();
    server.until(|config| is(config, ClientState::Behind)).await;

    world.route("n.example", &["n"]);
    let seen = connection.envoy().responses(Endpoints);
    server.seal(&mut world);
    within(connection.until(|envoy| envoy.responses(Endpoints) > seen)).await.unwrap();
    server.until(|config| is(config, ClientState::Waiting)).await;

    connection.envoy_mut().options().hold.clear();
    within(connection.release()).await.unwrap();
    let seen = connection.envoy().responses(Table);
    within(connection.until(|envoy| envoy.responses(Table) > seen)).await.unwrap();
    server.until(|config| is(config, ClientState::Current)).await;

    let rejection = Rejection { kind: Listener, name: "second".to_owned(), containing: None, named: true };
    connection.envoy_mut().options().rejections.push(rejection);
    world.listeners.insert("second".to_owned(), "http".to_owned());
    let seen = connection.envoy().responses(Listener);
    server.seal(&mut world);
    within(connection.until(|envoy| envoy.responses(Listener) > seen)).await.unwrap();
    server.until(|config| is(config, ClientState::Rejecting)).await;
    assert_eq!(server.config.metrics.nacks.of(Listener).get(), 1);
    server.stop().await;
}

#[tokio::test]
async fn the_newest_seal_is_noted_though_nobody_is_connected() {
    let mut world = shop();
    let server = start(Config { keepalive: Duration::from_secs(1), ..Config::default() }, 10).await;
    assert_eq!(server.config.metrics.newest.get(), None);
    server.seal(&mut world);
    server.until(|config| config.metrics.newest.get() == Some((0, 0))).await;
    server.stop().await;
}
