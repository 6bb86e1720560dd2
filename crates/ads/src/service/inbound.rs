//! Requests of either protocol as they come in, and what is wrong with them before a session sees them.

use crate::session::{Ask, Protocol, Request, TypeUrl};
use prost::Message;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use tidegate_model::Name;
use tidegate_proto::envoy::config::core::v3::Node;
use tidegate_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tonic::codec::{DecodeBuf, Decoder};
use tonic::{Code, Status, Streaming};

/// Longest name of a resource or a type, in bytes. Ours are a namespace, a Service, a port and a suffix, which Kubernetes
/// bounds to a quarter of that; what is kept for a client is at most this times the names that it may ask for.
pub(crate) const MAX_NAME_BYTES: usize = 4096;

/// Decodes any message.
struct MessageDecoder<M>(PhantomData<M>);

impl<M: Message + Default> Decoder for MessageDecoder<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        M::decode(buffer).map(Some).map_err(|error| Status::invalid_argument(format!("cannot decode request: {error}")))
    }
}

/// A request, with the node if it says so.
type Incoming = (Option<Node>, Request);

/// Requests of one stream.
pub(super) struct Inbound {
    stream: Decoded,
    max_bytes: usize,
}

enum Decoded {
    Sotw(Streaming<DiscoveryRequest>),
    Delta(Streaming<DeltaDiscoveryRequest>),
}

impl Inbound {
    pub(super) fn new(protocol: Protocol, body: tonic::body::Body, max_bytes: usize) -> Self {
        let max = Some(max_bytes);
        let stream = match protocol {
            Protocol::Sotw => Decoded::Sotw(Streaming::new_request(MessageDecoder(PhantomData), body, None, max)),
            Protocol::Delta => Decoded::Delta(Streaming::new_request(MessageDecoder(PhantomData), body, None, max)),
        };
        Inbound { stream, max_bytes }
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self.stream {
            Decoded::Sotw(_) => Protocol::Sotw,
            Decoded::Delta(_) => Protocol::Delta,
        }
    }

    /// The next request; an error is the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Incoming, Status>>> {
        let next = match &mut self.stream {
            Decoded::Sotw(stream) => stream_next(stream, cx).map_ok(from_sotw),
            Decoded::Delta(stream) => stream_next(stream, cx).map_ok(from_delta),
        };
        next.map(|next| next.map(|next| next.map_err(|status| self.explain(status)).and_then(check)))
    }

    /// Says what to do about a request that is too large; the transport says only that it is.
    fn explain(&self, status: Status) -> Status {
        if status.code() != Code::OutOfRange {
            return status;
        }
        let limit = self.max_bytes;
        Status::resource_exhausted(format!("the request is larger than {limit} bytes: raise --max-request-bytes"))
    }
}

fn stream_next<M>(stream: &mut Streaming<M>, cx: &mut Context<'_>) -> Poll<Option<Result<M, Status>>> {
    futures::Stream::poll_next(Pin::new(stream), cx)
}

/// Refuses names that nothing can have: they would be kept for as long as the client asks for them.
fn check(incoming: Incoming) -> Result<Incoming, Status> {
    let request = &incoming.1;
    let longest = match &request.ask {
        Ask::Sotw { version: _, names } => names.iter().map(String::len).max(),
        Ask::Delta { subscribe, unsubscribe, initial } => {
            subscribe.iter().chain(unsubscribe).chain(initial.keys()).map(|name| name.len()).max()
        }
    };
    let longest = longest.unwrap_or(0).max(request.type_url.as_str().len());
    if longest > MAX_NAME_BYTES {
        return Err(Status::invalid_argument(format!(
            "a name of {longest} bytes is asked for, no name has more than {MAX_NAME_BYTES}"
        )));
    }
    Ok(incoming)
}

/// The request in a message, and the node if the message says so.
#[must_use]
pub fn from_sotw(message: DiscoveryRequest) -> (Option<Node>, Request) {
    let request = Request {
        type_url: TypeUrl::new(&message.type_url),
        nonce: message.response_nonce,
        error: message.error_detail.map(|status| status.message),
        ask: Ask::Sotw { version: message.version_info, names: message.resource_names },
    };
    (message.node, request)
}

/// The request in a message, and the node if the message says so.
#[must_use]
pub fn from_delta(message: DeltaDiscoveryRequest) -> (Option<Node>, Request) {
    let names = |texts: Vec<String>| texts.iter().map(Name::from).collect();
    let initial = message.initial_resource_versions.into_iter();
    let request = Request {
        type_url: TypeUrl::new(&message.type_url),
        nonce: message.response_nonce,
        error: message.error_detail.map(|status| status.message),
        ask: Ask::Delta {
            subscribe: names(message.resource_names_subscribe),
            unsubscribe: names(message.resource_names_unsubscribe),
            initial: initial.map(|(name, version)| (Name::from(name), version)).collect(),
        },
    };
    (message.node, request)
}
