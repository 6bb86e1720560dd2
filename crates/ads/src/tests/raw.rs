//! A stream on which anything can be sent.

use super::server::{Server, within};
use super::world::GATEWAY;
use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tidegate_model::ResourceType;
use tidegate_proto::envoy::config::core::v3::Node;
use tidegate_proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

pub(super) const SOTW: &str = "StreamAggregatedResources";
pub(super) const DELTA: &str = "DeltaAggregatedResources";

/// A stream of bytes.
pub(super) struct Raw {
    requests: mpsc::Sender<Bytes>,
    responses: Streaming<Bytes>,
}

impl Raw {
    /// Opens a stream with this first message; the server answers headers at once.
    pub(super) async fn open(server: &Server, method: &str, first: Bytes) -> Result<Raw, Status> {
        // The window that HTTP/2 has by default: what does not fit waits at the server until somebody reads.
        let endpoint = Endpoint::from_shared(server.address.clone()).unwrap().initial_stream_window_size(65_535);
        let channel = endpoint.connect().await.unwrap();
        let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(1 << 30);
        grpc.ready().await.unwrap();
        let path = format!("/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}");
        let (requests, receiver) = mpsc::channel(16);
        requests.send(first).await.unwrap();
        let request = tonic::Request::new(ReceiverStream::new(receiver));
        let responses = within(grpc.streaming(request, path.parse().unwrap(), Plain)).await?.into_inner();
        Ok(Raw { requests, responses })
    }

    pub(super) async fn sotw(server: &Server, first: DiscoveryRequest) -> Raw {
        Raw::open(server, SOTW, first.encode_to_vec().into()).await.unwrap()
    }

    pub(super) async fn delta(server: &Server, first: DeltaDiscoveryRequest) -> Raw {
        Raw::open(server, DELTA, first.encode_to_vec().into()).await.unwrap()
    }

    pub(super) async fn send(&self, message: &impl Message) {
        self.send_bytes(message.encode_to_vec().into()).await;
    }

    pub(super) async fn send_bytes(&self, bytes: Bytes) {
        // A stream that has ended says why when it is read.
        let _ = self.requests.send(bytes).await;
    }

    pub(super) async fn next_sotw(&mut self) -> DiscoveryResponse {
        DiscoveryResponse::decode(self.next().await).unwrap()
    }

    pub(super) async fn next_delta(&mut self) -> DeltaDiscoveryResponse {
        DeltaDiscoveryResponse::decode(self.next().await).unwrap()
    }

    /// The next response of this type; the types of those before it.
    pub(super) async fn sotw_of(&mut self, type_url: &str) -> (DiscoveryResponse, Vec<String>) {
        let mut before = Vec::new();
        loop {
            let response = self.next_sotw().await;
            if response.type_url == type_url {
                return (response, before);
            }
            before.push(response.type_url);
        }
    }

    /// The next response of this type; the types of those before it.
    pub(super) async fn delta_of(&mut self, type_url: &str) -> (DeltaDiscoveryResponse, Vec<String>) {
        let mut before = Vec::new();
        loop {
            let response = self.next_delta().await;
            if response.type_url == type_url {
                return (response, before);
            }
            before.push(response.type_url);
        }
    }

    async fn next(&mut self) -> Bytes {
        within(self.responses.message()).await.unwrap().expect("the stream goes on")
    }

    /// Reads to the end, which is this error.
    pub(super) async fn end(&mut self) -> Status {
        within(async {
            loop {
                match self.responses.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => break Status::ok("the end"),
                    Err(status) => break status,
                }
            }
        })
        .await
    }
}

pub(super) fn node(id: &str, gateway: &str) -> Node {
    Node { id: id.to_owned(), cluster: gateway.to_owned(), ..Node::default() }
}

/// A first request.
pub(super) fn ask_sotw(type_url: &str, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        node: Some(node("raw", GATEWAY)),
        type_url: type_url.to_owned(),
        resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..DiscoveryRequest::default()
    }
}

/// A first request.
pub(super) fn ask_delta(type_url: &str, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(node("raw", GATEWAY)),
        type_url: type_url.to_owned(),
        resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..DeltaDiscoveryRequest::default()
    }
}

/// The names of what a response carries.
pub(super) fn names(response: &DeltaDiscoveryResponse) -> Vec<&str> {
    response.resources.iter().map(|resource| &*resource.name).collect()
}

pub(super) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(super) const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

#[test]
fn the_types_are_those_that_are_served() {
    assert_eq!([CDS, EDS], [ResourceType::Cluster.url(), ResourceType::Endpoints.url()]);
}

#[derive(Clone, Copy)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Plain;
    type Decoder = Plain;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Plain {
        Plain
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
