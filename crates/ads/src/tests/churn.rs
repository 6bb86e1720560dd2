//! Clients that come and go, beside one that never reads: nothing of them stays.
//!
//! `TIDEGATE_CHURN=50000` makes rounds as large as `benches/streams.rs` measures them.

use super::raw::{EDS, Raw, ask_delta};
use super::server::{Server, envoy, start, within};
use super::world::World;
use crate::Config;
use tidegate_ads_client::{Envoy, Protocol};

/// Clusters with many endpoints.
const BIG: [&str; 4] = ["big-1", "big-2", "big-3", "big-4"];

/// Clients that are connected at a time.
const TOGETHER: usize = 50;

/// What the service holds: streams, entries in the list of clients, bytes that the transport has not taken.
fn held(server: &Server) -> (u64, usize, u64) {
    let config = &server.config;
    (config.metrics.streams.get(), config.clients.snapshot().len(), config.metrics.queued.get())
}

async fn round(server: &Server, clients: usize) {
    let mut left = clients;
    while left > 0 {
        let some = left.min(TOGETHER);
        left -= some;
        let client = |index: usize| async move {
            let protocol = if index.is_multiple_of(2) { Protocol::Delta } else { Protocol::Sotw };
            let mut connection = within(server.connect(envoy(protocol))).await;
            within(connection.until(Envoy::is_serving)).await.unwrap();
            connection
        };
        let connections = futures::future::join_all((0..some).map(client)).await;
        assert_eq!(held(server).1, some + 1);
        drop(connections);
        server.until(|config| config.metrics.streams.get() == 1).await;
    }
}

#[tokio::test]
async fn nothing_stays_of_clients_that_come_and_go() {
    let clients = std::env::var("TIDEGATE_CHURN").ok().and_then(|text| text.parse().ok()).unwrap_or(170);
    let mut world = World::new();
    // A response of these is far larger than what the transport buffers, and no piece of it is small.
    let many: Vec<String> = (0..1_000).map(|number| format!("10.{}.{}.1", number / 250, number % 250)).collect();
    let addresses = |skip: usize| many.iter().skip(skip).map(String::as_str).collect::<Vec<_>>();
    world.route("a.example", &["a"]).route("big.example", &BIG);
    BIG.iter().for_each(|cluster| {
        world.endpoints(cluster, &addresses(0));
    });
    let server = start(Config::default(), 1000).await;
    server.seal(&mut world);
    let silent = Raw::delta(&server, ask_delta(EDS, &BIG)).await;
    server.until(|config| config.metrics.queued.get() > 0).await;
    let bytes = server.config.metrics.queued.get();
    for round_number in 1..=20 {
        BIG.iter().for_each(|cluster| {
            world.endpoints(cluster, &addresses(round_number));
        });
        server.seal(&mut world);
        tokio::task::yield_now().await;
    }
    let before = held(&server);
    assert!(before.2 <= 2 * bytes, "one response waits, not all: {before:?}, {bytes} bytes each");
    for _ in 0..3 {
        round(&server, clients).await;
        assert_eq!(held(&server), before);
    }
    drop(silent);
    server.until(|config| config.metrics.streams.get() == 0).await;
    assert_eq!(held(&server), (0, 0, 0));
    server.stop().await;
}
