//! Clients that say what no client should. Each gets the protocol's answer, and a neighbour notices nothing.

use super::raw::{CDS, DELTA, EDS, Raw, SOTW, ask_delta, ask_sotw, names, node};
use super::server::{Server, envoy, start, within};
use super::world::{GATEWAY, World};
use crate::Config;
use bytes::Bytes;
use prost::Message;
use tidegate_ads_client::{Connection, Envoy, Protocol, Violation};
use tidegate_model::ResourceType;
use tidegate_proto::envoy::config::core::v3::Node;
use tidegate_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tidegate_proto::google::rpc::Status as Detail;
use tonic::Code;

const UNKNOWN: &str = "type.googleapis.com/envoy.service.runtime.v3.Runtime";

/// A service with a client that behaves.
struct Street {
    server: Server,
    world: World,
    neighbour: Connection,
    changes: u32,
}

impl Street {
    async fn new() -> Self {
        let mut world = World::new();
        world.route("a.example", &["a"]).route("z.example", &["z"]);
        let server = start(Config::default(), 1000).await;
        server.seal(&mut world);
        let mut neighbour = within(server.connect(envoy(Protocol::Delta))).await;
        within(neighbour.until(Envoy::is_serving)).await.unwrap();
        Street { server, world, neighbour, changes: 0 }
    }

    /// Changes the endpoints of `a`, and waits until the neighbour has them.
    async fn change(&mut self) {
        self.changes += 1;
        self.world.endpoints("a", &[&format!("10.1.0.{}", self.changes)]);
        let seen = self.neighbour.envoy().responses(ResourceType::Endpoints);
        self.server.seal(&mut self.world);
        within(self.neighbour.until(|envoy| envoy.responses(ResourceType::Endpoints) > seen)).await.unwrap();
        assert_eq!(self.neighbour.envoy().violations(), Vec::<Violation>::new());
    }

    /// Waits until every client knows the newest seal.
    async fn settle(&self) {
        let newest = self.server.sealed.borrow().as_ref().map(|sealed| sealed.epoch);
        let knows = |config: &Config| config.clients.snapshot().iter().all(|stats| stats.session.epoch == newest);
        self.server.until(knows).await;
    }

    async fn end(mut self) {
        self.change().await;
        self.server.stop().await;
    }
}

/// A later request: without the node.
fn sotw(type_url: &str, names: &[&str], nonce: &str) -> DiscoveryRequest {
    DiscoveryRequest { node: None, response_nonce: nonce.to_owned(), ..ask_sotw(type_url, names) }
}

/// A later request: without the node.
fn delta(type_url: &str, names: &[&str], nonce: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { node: None, response_nonce: nonce.to_owned(), ..ask_delta(type_url, names) }
}

fn rejection() -> Option<Detail> {
    Some(Detail { code: 3, message: "no".to_owned(), ..Detail::default() })
}

#[tokio::test]
async fn a_type_that_is_not_served_has_no_resources() {
    let mut street = Street::new().await;
    let mut raw = Raw::sotw(&street.server, ask_sotw(UNKNOWN, &["x"])).await;
    let response = raw.next_sotw().await;
    assert_eq!((&*response.type_url, response.resources.len()), (UNKNOWN, 0));
    raw.send(&sotw(CDS, &[], "")).await;
    assert_eq!(raw.next_sotw().await.resources.len(), 2, "the same stream is served what there is");
    let mut raw = Raw::delta(&street.server, ask_delta(UNKNOWN, &["x"])).await;
    let response = raw.next_delta().await;
    assert_eq!((&*response.type_url, response.removed_resources), (UNKNOWN, vec!["x".to_owned()]));
    street.change().await;
    street.end().await;
}

#[tokio::test]
async fn answers_to_what_was_never_sent_say_nothing() {
    let mut street = Street::new().await;
    let mut raw = Raw::delta(&street.server, ask_delta(CDS, &[])).await;
    let clusters = raw.next_delta().await;
    assert_eq!((&*clusters.type_url, names(&clusters)), (CDS, vec!["a", "z"]));
    for nonce in ["999999", "-1", "0x1", "garbage"] {
        raw.send(&DeltaDiscoveryRequest { error_detail: rejection(), ..delta(CDS, &[], nonce) }).await;
        raw.send(&delta(EDS, &["a", "z"], nonce)).await;
    }
    raw.send(&delta(CDS, &[], &clusters.nonce)).await;
    raw.send(&delta(UNKNOWN, &["x"], "")).await;
    let (_, before) = raw.delta_of(UNKNOWN).await;
    // Names that are asked for again are wanted again; the first request, whatever nonce it had, is one.
    assert_eq!(before, vec![EDS; 4]);
    let metrics = &street.server.config.metrics;
    assert_eq!(ResourceType::ALL.map(|kind| metrics.nacks.of(kind).get()), [0; 5]);
    street.change().await;
    street.end().await;
}

#[tokio::test]
async fn who_takes_back_every_name_gets_nothing_more() {
    let mut street = Street::new().await;
    let mut one = Raw::delta(&street.server, ask_delta(CDS, &[])).await;
    one.send(&delta(EDS, &["a", "z"], "")).await;
    let (response, _) = one.delta_of(EDS).await;
    let unsubscribe = vec!["a".to_owned(), "z".to_owned(), "never".to_owned()];
    let nothing = delta(EDS, &[], &response.nonce);
    one.send(&DeltaDiscoveryRequest { resource_names_unsubscribe: unsubscribe, ..nothing }).await;
    let mut other = Raw::sotw(&street.server, ask_sotw(CDS, &[])).await;
    other.send(&sotw(EDS, &["a", "z"], "")).await;
    let (response, _) = other.sotw_of(EDS).await;
    other.send(&DiscoveryRequest { version_info: response.version_info, ..sotw(EDS, &[], &response.nonce) }).await;
    for settled in [false, true] {
        // What is asked last is answered last.
        one.send(&delta(UNKNOWN, &["x"], "")).await;
        other.send(&sotw(UNKNOWN, &[], "")).await;
        let before = [one.delta_of(UNKNOWN).await.1, other.sotw_of(UNKNOWN).await.1];
        assert_eq!(before, [Vec::<String>::new(), Vec::new()], "settled: {settled}");
        street.change().await;
        street.settle().await;
    }
    street.end().await;
}

#[tokio::test]
async fn what_cannot_be_read_ends_its_stream_alone() {
    let mut street = Street::new().await;
    let garbage = Bytes::from_static(&[0xff; 64]);
    for (method, request) in [(SOTW, ask_sotw(CDS, &[]).encode_to_vec()), (DELTA, ask_delta(CDS, &[]).encode_to_vec())]
    {
        let mut id = request.clone();
        let place = id.windows(3).position(|window| window == b"raw").unwrap();
        id[place] = 0xff;
        let mut first = Raw::open(&street.server, method, garbage.clone()).await.unwrap();
        let mut later = Raw::open(&street.server, method, request.into()).await.unwrap();
        later.send_bytes(garbage.clone()).await;
        let mut no_text = Raw::open(&street.server, method, id.into()).await.unwrap();
        for status in [first.end().await, later.end().await, no_text.end().await] {
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            assert!(status.message().contains("cannot decode request"), "{status}");
        }
        street.change().await;
    }
    street.server.until(|config| config.metrics.streams.get() == 1).await;
    assert_eq!(street.server.config.metrics.closed.get(), 6);
    street.end().await;
}

#[tokio::test]
async fn names_that_nothing_can_have_are_refused() {
    let mut street = Street::new().await;
    let long = "x".repeat(5_000);
    let held = DeltaDiscoveryRequest {
        initial_resource_versions: [(long.clone(), "v".to_owned())].into(),
        ..ask_delta(EDS, &["a"])
    };
    for mut raw in [
        Raw::delta(&street.server, ask_delta(EDS, &["a", &long])).await,
        Raw::delta(&street.server, held).await,
        Raw::sotw(&street.server, ask_sotw(CDS, &[&long])).await,
        Raw::sotw(&street.server, ask_sotw(&long, &[])).await,
    ] {
        let status = raw.end().await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("5000 bytes") && status.message().len() < 200, "{status}");
    }
    let node = Node { id: long, ..node("", GATEWAY) };
    let mut raw = Raw::sotw(&street.server, DiscoveryRequest { node: Some(node), ..ask_sotw(CDS, &[]) }).await;
    let status = raw.end().await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "node.id has 5000 bytes, at most 1024 are taken")
    );
    street.change().await;
    street.end().await;
}

#[tokio::test]
async fn a_stream_is_one_clients() {
    let mut street = Street::new().await;
    for other in [node("someone", GATEWAY), node("raw", "shop/private"), node("raw", "")] {
        let mut raw = Raw::delta(&street.server, ask_delta(CDS, &[])).await;
        let response = raw.next_delta().await;
        // The same node again, or an empty one, says nothing.
        let same = Some(node("raw", GATEWAY));
        raw.send(&DeltaDiscoveryRequest { node: same, ..delta(CDS, &[], &response.nonce) }).await;
        raw.send(&DeltaDiscoveryRequest { node: Some(Node::default()), ..delta(UNKNOWN, &["x"], "") }).await;
        assert_eq!(raw.next_delta().await.type_url, UNKNOWN);
        raw.send(&DeltaDiscoveryRequest { node: Some(other), ..delta(EDS, &["a"], "") }).await;
        let status = raw.end().await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("node raw for Gateway shop/public, which cannot change"), "{status}");
    }
    street.change().await;
    street.end().await;
}

#[tokio::test]
async fn clients_of_a_gateway_that_is_not_there_get_nothing_and_stay() {
    let mut street = Street::new().await;
    let nobody = Some(node("raw", "shop/nobody"));
    let mut one =
        Raw::delta(&street.server, DeltaDiscoveryRequest { node: nobody.clone(), ..ask_delta(CDS, &[]) }).await;
    let mut other = Raw::sotw(&street.server, DiscoveryRequest { node: nobody, ..ask_sotw(CDS, &[]) }).await;
    let (response, sotw) = (one.next_delta().await, other.next_sotw().await);
    assert_eq!((names(&response).len(), response.removed_resources.len(), sotw.resources.len()), (0, 0, 0));
    one.send(&delta(EDS, &["a"], "")).await;
    assert_eq!(one.next_delta().await.removed_resources, ["a"], "nothing of another Gateway");
    street.change().await;
    street.settle().await;
    assert_eq!(street.server.config.metrics.streams.get(), 3);
    street.end().await;
}

#[tokio::test]
async fn another_method_is_unimplemented() {
    let street = Street::new().await;
    let refused = Raw::open(&street.server, "Anything", Bytes::new()).await.err();
    assert_eq!(refused.map(|status| status.code()), Some(Code::Unimplemented));
    street.end().await;
}
