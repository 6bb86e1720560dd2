//! Delta clients that do as little as one can: they ask for all clusters and their endpoints, and accept everything.

#![allow(clippy::print_stdout, reason = "the process of the server waits for lines")]

use prost::Message;
use std::io::Write;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidegate_model::ResourceType::{Cluster, Endpoints};
use tidegate_proto::envoy::config::core::v3::Node;
use tidegate_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

const METHOD: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// Rounds of `churn`.
const ROUNDS: usize = 3;

/// How often a client tries. Of tens of thousands of connections a minute the system may reset some.
const TRIES: usize = 5;

/// Runs what the arguments say: mode, address, Gateway, number of clients, how many of them connect at once.
pub(crate) fn run(arguments: &[String]) {
    let [mode, address, gateway, count, together] = arguments else { panic!("not the arguments of clients") };
    let number = |text: &String| text.parse::<usize>().expect("sizes are numbers");
    let (count, together) = (number(count), number(together));
    let place = Place { address: address.clone(), gateway: gateway.clone() };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        match mode.as_str() {
            "fanout" => fanout(&place, count, together).await,
            "churn" => churn(&place, count, together).await,
            "silent" => silent(&place).await,
            _ => panic!("{mode} is no mode"),
        }
    });
}

/// Where clients connect, and who they are.
#[derive(Clone)]
struct Place {
    address: String,
    gateway: String,
}

fn say() {
    println!("here");
    // Whoever does not listen any more has gone, and so do we.
    let _ = std::io::stdout().flush();
}

/// Connects all, then says a line whenever all have one more response.
async fn fanout(place: &Place, count: usize, together: usize) {
    let mut streams = Vec::new();
    while streams.len() < count {
        streams.extend(some(place, together.min(count - streams.len())).await);
    }
    say();
    let (received, mut tasks) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for mut stream in streams {
        let received = Arc::clone(&received);
        tasks.spawn(async move {
            while let Ok(Some(response)) = stream.responses.message().await {
                if (received.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(count) {
                    say();
                }
                stream.accept(&response).await;
            }
        });
    }
    tasks.join_all().await;
}

async fn churn(place: &Place, count: usize, together: usize) {
    for _ in 0..ROUNDS {
        let mut left = count;
        while left > 0 {
            let now = together.min(left);
            left -= now;
            drop(some(place, now).await);
        }
        say();
        // The server looks at its memory for a while.
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    std::future::pending().await
}

/// Asks for everything and reads nothing.
async fn silent(place: &Place) {
    let stream = Stream::open(place).await.expect("it is let in");
    let names = Vec::new();
    stream.ask(DeltaDiscoveryRequest { node: None, ..request(Endpoints.url(), names, "") }).await;
    say();
    std::future::pending().await
}

/// That many clients that have everything.
async fn some(place: &Place, count: usize) -> Vec<Stream> {
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let place = place.clone();
        tasks.spawn(async move {
            for _ in 1..TRIES {
                if let Ok(stream) = Stream::booted(&place).await {
                    return stream;
                }
            }
            Stream::booted(&place).await.expect("a client that tries again is let in")
        });
    }
    tasks.join_all().await
}

struct Stream {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
    /// Ends the connection.
    _channel: Channel,
}

fn request(type_url: &str, subscribe: Vec<String>, nonce: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: type_url.to_owned(),
        resource_names_subscribe: subscribe,
        response_nonce: nonce.to_owned(),
        ..DeltaDiscoveryRequest::default()
    }
}

impl Stream {
    /// One that has everything.
    async fn booted(place: &Place) -> Result<Self, Status> {
        let mut stream = Stream::open(place).await?;
        stream.boot().await?;
        Ok(stream)
    }

    /// Opens a stream and asks for clusters.
    async fn open(place: &Place) -> Result<Self, Status> {
        // The window that HTTP/2 has by default: what a client does not read waits at the server.
        let endpoint = Endpoint::from_shared(place.address.clone()).expect("an address");
        let endpoint = endpoint.initial_stream_window_size(65_535);
        let unavailable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        let channel = endpoint.connect().await.map_err(unavailable)?;
        let mut grpc = tonic::client::Grpc::new(channel.clone()).max_decoding_message_size(1 << 30);
        grpc.ready().await.map_err(unavailable)?;
        let (requests, receiver) = mpsc::channel(16);
        let node = Node { id: "bench".to_owned(), cluster: place.gateway.clone(), ..Node::default() };
        let first = DeltaDiscoveryRequest { node: Some(node), ..request(Cluster.url(), Vec::new(), "") };
        requests.send(first).await.expect("there is room");
        let path = http::uri::PathAndQuery::from_static(METHOD);
        let asked = tonic::Request::new(ReceiverStream::new(receiver));
        let responses = grpc.streaming(asked, path, MessageCodec(PhantomData)).await?.into_inner();
        Ok(Stream { requests, responses, _channel: channel })
    }

    /// Takes all clusters and all endpoints.
    async fn boot(&mut self) -> Result<(), Status> {
        let clusters = self.next().await?;
        let names: Vec<String> = clusters.resources.into_iter().map(|resource| resource.name).collect();
        let mut left = names.len();
        self.ask(request(Endpoints.url(), names, "")).await;
        while left > 0 {
            left = left.saturating_sub(self.next().await?.resources.len());
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<DeltaDiscoveryResponse, Status> {
        let ended = || Status::unavailable("the stream ended");
        let response = self.responses.message().await?.ok_or_else(ended)?;
        self.accept(&response).await;
        Ok(response)
    }

    async fn accept(&self, response: &DeltaDiscoveryResponse) {
        self.ask(request(&response.type_url, Vec::new(), &response.nonce)).await;
    }

    async fn ask(&self, request: DeltaDiscoveryRequest) {
        // A stream that has ended shows when it is read.
        let _ = self.requests.send(request).await;
    }
}

/// Encodes and decodes any messages.
struct MessageCodec<Q, R>(PhantomData<(Q, R)>);

impl<Q: Message + 'static, R: Message + Default + 'static> Codec for MessageCodec<Q, R> {
    type Encode = Q;
    type Decode = R;
    type Encoder = MessageCodec<Q, R>;
    type Decoder = MessageCodec<Q, R>;

    fn encoder(&mut self) -> Self::Encoder {
        MessageCodec(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        MessageCodec(PhantomData)
    }
}

impl<Q: Message, R> Encoder for MessageCodec<Q, R> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, message: Q, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<Q, R: Message + Default> Decoder for MessageCodec<Q, R> {
    type Item = R;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<R>, Status> {
        R::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
