//! Requests of either protocol as they come in, and what is wrong with them before a session sees them.

use crate::session::{Ask, Protocol, Request, TypeUrl};
use bytes::{Buf, Bytes, BytesMut};
use http_body::Body as _;
use prost::Message;
use std::pin::Pin;
use std::task::{Context, Poll};
use tidegate_model::Name;
use tidegate_proto::envoy::config::core::v3::Node;
use tidegate_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tonic::Status;
use tonic::body::Body;

/// Longest name of a resource or a type, in bytes. Ours are a namespace, a Service, a port and a suffix, which Kubernetes
/// bounds to a quarter of that; what is kept for a client is at most this times the names that it may ask for.
pub(crate) const MAX_NAME_BYTES: usize = 4096;

/// A request, with the node if it says so.
type Incoming = (Option<Node>, Request);

/// Requests of one stream.
pub(super) struct Inbound {
    protocol: Protocol,
    messages: Messages,
}

impl Inbound {
    pub(super) fn new(protocol: Protocol, body: Body, max_bytes: usize) -> Self {
        Inbound { protocol, messages: Messages { body, buffer: BytesMut::new(), max_bytes } }
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The next request; an error is the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Incoming, Status>>> {
        let next = std::task::ready!(self.messages.poll_next(cx));
        Poll::Ready(next.map(|message| {
            let message = message?;
            check(match self.protocol {
                Protocol::Sotw => from_sotw(decode(message)?),
                Protocol::Delta => from_delta(decode(message)?),
            })
        }))
    }
}

fn decode<M: Message + Default>(message: Bytes) -> Result<M, Status> {
    M::decode(message).map_err(|error| Status::invalid_argument(format!("cannot decode request: {error}")))
}

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The messages in a request body. Nothing is kept between two of them: a client lists thousands of names once, and is
/// then connected for days.
struct Messages {
    body: Body,
    buffer: BytesMut,
    max_bytes: usize,
}

impl Messages {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        loop {
            if let Some(message) = self.take().transpose() {
                return Poll::Ready(Some(message));
            }
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None if self.buffer.is_empty() => return Poll::Ready(None),
                None => return Poll::Ready(Some(Err(Status::invalid_argument("the stream ended within a request")))),
            }
        }
    }

    /// The next message, if all of it is here.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let [compressed, length @ ..] = *prefix;
        if compressed != 0 {
            return Err(Status::unimplemented("compressed requests are not taken"));
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.max_bytes {
            let limit = self.max_bytes;
            let text = format!("the request is larger than {limit} bytes: raise --max-request-bytes");
            return Err(Status::resource_exhausted(text));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        let message = self.buffer.split_to(length).freeze();
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        Ok(Some(message))
    }
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
