//! The model on a real stream.

use crate::envoy::Envoy;
use crate::message::{Protocol, Request, Response};
use prost::Message;
use std::marker::PhantomData;
use tidegate_proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is none, or nobody listens there.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: String,
        /// Why.
        source: tonic::transport::Error,
    },
    /// The server ended the stream with an error.
    #[error("the stream failed: {0}")]
    Stream(#[from] Status),
    /// The server ended the stream in good order, or takes no requests any more.
    #[error("the stream has ended")]
    Ended,
}

/// How many requests may wait for the transport.
const REQUESTS: usize = 1024;

/// Largest response that is taken, in bytes.
const MAX_RESPONSE: usize = 1 << 30;

/// An Envoy with an open stream.
pub struct Connection {
    envoy: Envoy,
    requests: Requests,
    responses: Responses,
}

enum Requests {
    Sotw(mpsc::Sender<DiscoveryRequest>),
    Delta(mpsc::Sender<DeltaDiscoveryRequest>),
}

enum Responses {
    Sotw(Streaming<DiscoveryResponse>),
    Delta(Streaming<DeltaDiscoveryResponse>),
}

impl Connection {
    /// Opens a stream to `address` (`http://host:port`, or `unix:///path` for a socket) and sends the first requests.
    ///
    /// # Errors
    ///
    /// Nobody listens at the address, or the server refuses the stream.
    pub async fn open(address: &str, mut envoy: Envoy) -> Result<Self, Error> {
        let failed = |source| Error::Connect { address: address.to_owned(), source };
        let channel = Endpoint::from_shared(address.to_owned()).map_err(failed)?.connect().await.map_err(failed)?;
        // The first requests are queued before the stream opens: a server may answer headers only then.
        let first = envoy.connect();
        let (requests, responses) = match envoy.protocol() {
            Protocol::Sotw => {
                let (sender, receiver) = mpsc::channel(REQUESTS);
                let requests = Requests::Sotw(sender);
                requests.send(first).await?;
                (requests, Responses::Sotw(stream(channel, receiver, "StreamAggregatedResources").await?))
            }
            Protocol::Delta => {
                let (sender, receiver) = mpsc::channel(REQUESTS);
                let requests = Requests::Delta(sender);
                requests.send(first).await?;
                (requests, Responses::Delta(stream(channel, receiver, "DeltaAggregatedResources").await?))
            }
        };
        Ok(Connection { envoy, requests, responses })
    }

    /// The Envoy.
    #[must_use]
    pub fn envoy(&self) -> &Envoy {
        &self.envoy
    }

    /// The Envoy, to change how it behaves.
    pub fn envoy_mut(&mut self) -> &mut Envoy {
        &mut self.envoy
    }

    /// Takes the next response and sends what follows it; returns the response.
    ///
    /// # Errors
    ///
    /// The stream has ended.
    pub async fn step(&mut self) -> Result<Response, Error> {
        let response = match &mut self.responses {
            Responses::Sotw(stream) => stream.message().await?.map(Response::Sotw),
            Responses::Delta(stream) => stream.message().await?.map(Response::Delta),
        };
        let response = response.ok_or(Error::Ended)?;
        let requests = self.envoy.receive(&response);
        self.requests.send(requests).await?;
        Ok(response)
    }

    /// Takes responses until `condition` holds.
    ///
    /// # Errors
    ///
    /// The stream has ended.
    pub async fn until(&mut self, condition: impl Fn(&Envoy) -> bool) -> Result<(), Error> {
        while !condition(&self.envoy) {
            self.step().await?;
        }
        Ok(())
    }

    /// Sends the acknowledgements that were kept.
    ///
    /// # Errors
    ///
    /// The stream has ended.
    pub async fn release(&mut self) -> Result<(), Error> {
        let kept = self.envoy.release();
        self.requests.send(kept).await
    }

    /// Ends the stream; the Envoy keeps what it holds.
    #[must_use]
    pub fn close(self) -> Envoy {
        self.envoy
    }
}

impl Requests {
    async fn send(&self, requests: Vec<Request>) -> Result<(), Error> {
        for request in requests {
            match (self, request) {
                (Requests::Sotw(sender), Request::Sotw(request)) => {
                    sender.send(request).await.map_err(|_| Error::Ended)?;
                }
                (Requests::Delta(sender), Request::Delta(request)) => {
                    sender.send(request).await.map_err(|_| Error::Ended)?;
                }
                (Requests::Sotw(_), Request::Delta(_)) | (Requests::Delta(_), Request::Sotw(_)) => {
                    unreachable!("an Envoy speaks one protocol")
                }
            }
        }
        Ok(())
    }
}

async fn stream<Q, R>(channel: Channel, requests: mpsc::Receiver<Q>, method: &str) -> Result<Streaming<R>, Error>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE);
    grpc.ready().await.map_err(|source| Error::Connect { address: method.to_owned(), source })?;
    let path = format!("/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}");
    let path = http::uri::PathAndQuery::try_from(path).expect("made of a method's name");
    let request = tonic::Request::new(ReceiverStream::new(requests));
    Ok(grpc.streaming(request, path, MessageCodec(PhantomData)).await?.into_inner())
}

/// Encodes and decodes any messages.
struct MessageCodec<Q, R>(PhantomData<(Q, R)>);

struct MessageEncoder<Q>(PhantomData<Q>);

struct MessageDecoder<R>(PhantomData<R>);

impl<Q: Message + 'static, R: Message + Default + 'static> Codec for MessageCodec<Q, R> {
    type Encode = Q;
    type Decode = R;
    type Encoder = MessageEncoder<Q>;
    type Decoder = MessageDecoder<R>;

    fn encoder(&mut self) -> Self::Encoder {
        MessageEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        MessageDecoder(PhantomData)
    }
}

impl<Q: Message> Encoder for MessageEncoder<Q> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, message: Q, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(format!("cannot encode request: {error}")))
    }
}

impl<R: Message + Default> Decoder for MessageDecoder<R> {
    type Item = R;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<R>, Status> {
        R::decode(buffer).map(Some).map_err(|error| Status::internal(format!("cannot decode response: {error}")))
    }
}
