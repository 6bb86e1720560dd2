//! The service on a real connection, with the model of Envoy at the other end.

use super::server::{BOTH, envoy, start, within};
use super::world::{GATEWAY, World};
use crate::Config;
use std::collections::BTreeSet;
use tidegate_ads_client::{Connection, Envoy, Options, Protocol, Violation};
use tidegate_model::{Observation, ResourceType};

fn shop() -> World {
    let mut world = World::new();
    world.route("a.example", &["a"]).route("z.example", &["z"]);
    world
}

fn clusters(envoy: &Envoy) -> BTreeSet<String> {
    envoy.holds(ResourceType::Cluster).into_keys().collect()
}

#[tokio::test]
async fn a_client_boots_follows_changes_and_reconnects() {
    for protocol in BOTH {
        let mut world = shop();
        let mut server = start(Config { grace_ms: 50, ..Config::default() }, 100).await;
        let mut connection = within(server.connect(envoy(protocol))).await;
        server.sealed.send(Some(world.seal())).unwrap();
        within(connection.until(Envoy::is_serving)).await.unwrap();
        world.route("a.example", &["b"]);
        server.sealed.send(Some(world.seal())).unwrap();
        within(connection.until(|envoy| clusters(envoy) == ["b", "z"].map(String::from).into())).await.unwrap();
        assert_eq!(connection.envoy().violations(), Vec::<Violation>::new());
        let first = within(server.observations.recv()).await.unwrap();
        assert!(matches!(first, Observation::Connected { .. }), "{first:?}");

        let pushes = |kind| server.config.metrics.pushes(kind);
        let before: Vec<u64> = ResourceType::ALL.map(pushes).into();
        let envoy = connection.close();
        let seen = envoy.responses(ResourceType::Endpoints);
        let mut connection = within(server.connect(envoy)).await;
        within(connection.until(|envoy| envoy.responses(ResourceType::Endpoints) > seen)).await.unwrap();
        assert_eq!(connection.envoy().violations(), Vec::<Violation>::new());
        let mut expected = before;
        expected[ResourceType::Endpoints as usize] += 1;
        assert_eq!(ResourceType::ALL.map(pushes).to_vec(), expected);
        drop(connection);
        server.stop().await;
    }
}

#[tokio::test]
async fn streams_end_in_good_order_at_shutdown() {
    for protocol in BOTH {
        let server = start(Config::default(), 100).await;
        server.sealed.send(Some(shop().seal())).unwrap();
        let mut connection = within(server.connect(envoy(protocol))).await;
        within(connection.until(Envoy::is_serving)).await.unwrap();
        let clients = server.config.clients.clone();
        assert_eq!(clients.snapshot().len(), 1);
        server.stop().await;
        let end = within(async {
            loop {
                if let Err(error) = connection.step().await {
                    break error;
                }
            }
        })
        .await;
        assert!(
            matches!(&end, tidegate_ads_client::Error::Stream(status) if status.code() == tonic::Code::Unavailable)
        );
        assert_eq!(clients.snapshot(), []);
    }
}

#[tokio::test]
async fn figures_of_a_client_can_be_read() {
    let server = start(Config::default(), 100).await;
    server.sealed.send(Some(shop().seal())).unwrap();
    let mut connection = within(server.connect(envoy(Protocol::Delta))).await;
    within(connection.until(Envoy::is_serving)).await.unwrap();
    let acked = || server.config.metrics.acks.of(ResourceType::Table).get();
    within(async {
        while acked() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let [client] = &server.config.clients.snapshot()[..] else { panic!("one client is connected") };
    assert_eq!((client.client.gateway.as_str(), &*client.client.id.node), (GATEWAY, "envoy-0"));
    let table = &client.session.types[ResourceType::Table as usize];
    assert!(!table.sent_version.is_empty());
    let metrics = &server.config.metrics;
    assert_eq!((metrics.streams.get(), metrics.pushes(ResourceType::Cluster)), (1, 1));
    assert_eq!(metrics.resources.of(ResourceType::Endpoints).get(), 2);
    assert!(metrics.bytes(ResourceType::Cluster) > 0);
    server.stop().await;
}

#[tokio::test]
async fn observations_that_nobody_takes_stop_no_stream_and_are_counted() {
    let mut world = shop();
    let server = start(Config::default(), 1).await;
    server.sealed.send(Some(world.seal())).unwrap();
    let mut connection = within(server.connect(envoy(Protocol::Sotw))).await;
    within(connection.until(Envoy::is_serving)).await.unwrap();
    for round in 0..10 {
        world.endpoints("a", &[&format!("10.0.2.{round}")]);
        let seen = connection.envoy().responses(ResourceType::Endpoints);
        server.sealed.send(Some(world.seal())).unwrap();
        within(connection.until(|envoy| envoy.responses(ResourceType::Endpoints) > seen)).await.unwrap();
    }
    assert!(server.config.metrics.observations_dropped.get() > 0);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_gets_the_newest_seal_when_it_reads() {
    let mut world = World::new();
    // One response of endpoints is far larger than what the transport buffers.
    let many: Vec<String> = (0..20_000).map(|number| format!("10.{}.{}.1", number / 250, number % 250)).collect();
    let addresses = |skip: usize| many.iter().skip(skip).map(String::as_str).collect::<Vec<_>>();
    world.route("a.example", &["a"]).endpoints("a", &addresses(0));
    let server = start(Config::default(), 1000).await;
    server.sealed.send(Some(world.seal())).unwrap();
    let mut connection = within(server.connect(envoy(Protocol::Delta))).await;
    within(connection.until(Envoy::is_serving)).await.unwrap();
    let (pushes, seen) =
        (server.config.metrics.pushes(ResourceType::Endpoints), connection.envoy().responses(ResourceType::Endpoints));
    for round in 1..=100 {
        world.endpoints("a", &addresses(round));
        server.sealed.send(Some(world.seal())).unwrap();
        tokio::task::yield_now().await;
    }
    let gateway = tidegate_model::NamespacedName::parse(GATEWAY);
    let newest =
        server.sealed.borrow().as_ref().and_then(|sealed| sealed.resource(&gateway, ResourceType::Endpoints, "a"));
    let newest = newest.unwrap().bytes;
    within(connection.until(|envoy| envoy.holds(ResourceType::Endpoints)["a"] == newest)).await.unwrap();
    let pushed = server.config.metrics.pushes(ResourceType::Endpoints) - pushes;
    assert!(pushed < 50, "{pushed} of 100 seals were sent to a client that read {seen}");
    assert_eq!(connection.envoy().violations(), Vec::<Violation>::new());
    server.stop().await;
}

#[tokio::test]
async fn too_many_clients_and_nameless_ones_are_refused() {
    let server = start(Config { max_clients: 1, ..Config::default() }, 100).await;
    server.sealed.send(Some(shop().seal())).unwrap();
    let mut connection = within(server.connect(envoy(Protocol::Sotw))).await;
    within(connection.until(Envoy::is_serving)).await.unwrap();
    let second = within(Connection::open(&server.address, envoy(Protocol::Sotw))).await;
    assert!(matches!(
        second.err(),
        Some(tidegate_ads_client::Error::Stream(status)) if status.code() == tonic::Code::ResourceExhausted
    ));
    assert_eq!(server.config.metrics.refused.get(), 1);
    server.stop().await;

    let server = start(Config::default(), 100).await;
    let nameless = Envoy::new(Options::new(Protocol::Delta, "envoy-0", "nobody"));
    let mut connection = within(server.connect(nameless)).await;
    let refused = within(connection.step()).await.err();
    assert!(matches!(
        refused,
        Some(tidegate_ads_client::Error::Stream(status)) if status.code() == tonic::Code::InvalidArgument
    ));
    server.stop().await;
}
