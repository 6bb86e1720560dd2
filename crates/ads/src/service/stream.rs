//! One stream: a response body that drives its session when the transport polls it.

use super::Shared;
use crate::clients::ClientStats;
use crate::frame;
use crate::identity;
use crate::secrets;
use crate::session::{Ask, Client, Close, Limits, Protocol, Rejections, Reply, Request, Response, Session, TypeUrl};
use bytes::Bytes;
use futures::Stream;
use http::HeaderMap;
use http_body::Frame;
use prost::Message;
use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_model::{ClientId, Millis, Name, Observation};
use tidegate_proto::envoy::config::core::v3::Node;
use tidegate_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tidegate_xds::Sealed;
use tokio::time::Sleep;
use tokio_stream::wrappers::WatchStream;
use tonic::codec::{DecodeBuf, Decoder};
use tonic::{Status, Streaming};

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

/// Requests of either protocol.
pub(super) enum Inbound {
    Sotw(Streaming<DiscoveryRequest>),
    Delta(Streaming<DeltaDiscoveryRequest>),
}

impl Inbound {
    pub(super) fn new(protocol: Protocol, body: tonic::body::Body, max_bytes: usize) -> Self {
        let max = Some(max_bytes);
        match protocol {
            Protocol::Sotw => Inbound::Sotw(Streaming::new_request(MessageDecoder(PhantomData), body, None, max)),
            Protocol::Delta => Inbound::Delta(Streaming::new_request(MessageDecoder(PhantomData), body, None, max)),
        }
    }

    fn protocol(&self) -> Protocol {
        match self {
            Inbound::Sotw(_) => Protocol::Sotw,
            Inbound::Delta(_) => Protocol::Delta,
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Incoming, Status>>> {
        match self {
            Inbound::Sotw(stream) => Pin::new(stream).poll_next(cx).map_ok(from_sotw),
            Inbound::Delta(stream) => Pin::new(stream).poll_next(cx).map_ok(from_delta),
        }
    }
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

/// The response body of one stream.
pub(super) struct StreamBody {
    number: u64,
    shared: Arc<Shared>,
    inbound: Inbound,
    seals: WatchStream<Option<Arc<Sealed>>>,
    shutdown: WatchStream<bool>,
    /// The newest seal, until there is a session to give it to.
    unplanned: Option<Arc<Sealed>>,
    session: Option<Session>,
    since: Millis,
    timer: Pin<Box<Sleep>>,
    timer_at: Option<Millis>,
    /// Pieces of frames that the transport has not taken. Bounded by what one call of the session returns.
    outbound: VecDeque<Bytes>,
    /// How the stream ends, once that is known.
    end: Option<Status>,
    ended: bool,
    overdue_pins: u64,
}

impl StreamBody {
    pub(super) fn new(number: u64, inbound: Inbound, shared: Arc<Shared>) -> Self {
        shared.config.metrics.streams.add(1);
        StreamBody {
            number,
            inbound,
            seals: WatchStream::new(shared.sealed.clone()),
            shutdown: WatchStream::new(shared.shutdown.clone()),
            unplanned: None,
            session: None,
            since: 0,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            timer_at: None,
            outbound: VecDeque::new(),
            end: None,
            ended: false,
            overdue_pins: 0,
            shared,
        }
    }

    /// Handles one thing that happened; pending if nothing did.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(stop) = Pin::new(&mut self.shutdown).poll_next(cx) {
            match stop {
                Some(false) => {}
                Some(true) | None => {
                    self.end = Some(Status::unavailable("the control plane shuts down"));
                    return Poll::Ready(());
                }
            }
        }
        // Requests first: an acceptance that is here already makes the plan for a newer seal shorter.
        if let Poll::Ready(request) = self.inbound.poll_next(cx) {
            match request {
                Some(Ok((node, request))) => self.on_request(node.as_ref(), request),
                Some(Err(status)) => self.end = Some(status),
                None => self.end = Some(Status::ok("")),
            }
            return Poll::Ready(());
        }
        if self.timer_at.is_some() && self.timer.as_mut().poll(cx).is_ready() {
            self.timer_at = None;
            self.drive(Session::on_timer);
            return Poll::Ready(());
        }
        if let Poll::Ready(Some(sealed)) = Pin::new(&mut self.seals).poll_next(cx) {
            if let Some(sealed) = sealed {
                self.unplanned = Some(sealed);
                self.plan();
            }
            return Poll::Ready(());
        }
        Poll::Pending
    }

    fn on_request(&mut self, node: Option<&Node>, request: Request) {
        if self.session.is_none() {
            match identity::identify(node) {
                Ok((node, gateway)) => self.begin(Client { id: ClientId { stream: self.number, node }, gateway }),
                Err(error) => {
                    tracing::warn!(stream = self.number, %error, "refused a client");
                    self.end = Some(Status::invalid_argument(error.to_string()));
                    return;
                }
            }
        }
        self.drive(|session, now| session.on_request(request, now));
        self.plan();
    }

    fn begin(&mut self, client: Client) {
        let config = &self.shared.config;
        let limits = Limits { grace_ms: config.grace_ms, pin_ms: config.pin_ms, ..Limits::default() };
        let protocol = self.inbound.protocol();
        tracing::info!(client = %client.id, gateway = %client.gateway, %protocol, "client connected");
        self.since = (self.shared.clock)();
        config.remembered.returned(&client);
        let known = config.remembered.get(&client);
        self.session = Some(Session::remembering(protocol, client, limits, &known).with_sequencing(config.sequencing));
    }

    /// Plans for the newest seal, if there is one that the session does not know.
    fn plan(&mut self) {
        if self.session.is_some()
            && let Some(sealed) = self.unplanned.take()
        {
            self.drive(|session, now| session.on_sealed(sealed, now));
        }
    }

    fn drive(&mut self, step: impl FnOnce(&mut Session, Millis) -> Vec<Reply>) {
        let Some(session) = &mut self.session else { return };
        let now = (self.shared.clock)();
        let replies = step(session, now);
        let deadline = session.deadline();
        let stats = session.stats();
        let client = session.client().clone();
        for reply in replies {
            self.perform(reply);
        }
        let config = &self.shared.config;
        config.metrics.overdue_pins.add(stats.overdue_pins - self.overdue_pins);
        self.overdue_pins = stats.overdue_pins;
        let protocol = self.inbound.protocol();
        config.clients.put(ClientStats { client, protocol, since: self.since, session: stats });
        if deadline != self.timer_at {
            self.timer_at = deadline;
            if let Some(at) = deadline {
                let wait = Duration::from_millis(at.saturating_sub(now));
                self.timer.as_mut().reset(tokio::time::Instant::now() + wait);
            }
        }
    }

    fn perform(&mut self, reply: Reply) {
        match reply {
            Reply::Send(response) => self.send(response),
            Reply::Observe(observation) => self.observe(observation),
            Reply::Remember(rejections) => self.remember(rejections),
            Reply::Close(close) => {
                tracing::warn!(stream = self.number, error = %close, "closed a stream");
                self.end = Some(match close {
                    Close::TooManyNames { .. } => Status::resource_exhausted(close.to_string()),
                });
            }
        }
    }

    fn send(&mut self, response: Response) {
        let (response, missing) = secrets::fill(response, |digest| self.shared.config.vault.get(digest));
        for secret in missing {
            // The seal it is of is older than what the vault keeps: the newest one is about to be planned.
            tracing::error!(stream = self.number, %secret, "left out a secret whose material is gone");
        }
        let metrics = &self.shared.config.metrics;
        let pieces = frame::encode(self.inbound.protocol(), &response);
        metrics.bytes.add(pieces.iter().map(|piece| piece.len() as u64).sum());
        if let TypeUrl::Served(kind) = response.type_url {
            metrics.pushes.of(kind).add(1);
            metrics.resources.of(kind).add(response.resources.len() as u64);
        }
        self.outbound.extend(pieces);
    }

    fn remember(&self, rejections: Rejections) {
        if let Some(session) = &self.session {
            self.shared.config.remembered.put(session.client(), rejections);
        }
    }

    fn observe(&self, observation: Observation) {
        let metrics = &self.shared.config.metrics;
        match &observation {
            Observation::Acked { kind, .. } => metrics.acks.of(*kind).add(1),
            Observation::Rejected { client, kind, detail, .. } => {
                metrics.nacks.of(*kind).add(1);
                tracing::warn!(%client, kind = kind.short(), %detail, "client rejected a response");
            }
            Observation::Refuses { client, refusals, .. } => {
                for refusal in refusals {
                    let (kind, name, detail) = (refusal.kind.short(), &refusal.name, &refusal.detail);
                    tracing::warn!(%client, kind, %name, %detail, entries = refusal.entries.len(), "client refuses");
                }
            }
            Observation::Connected { .. } | Observation::Disconnected { .. } => {}
        }
        if self.shared.observations.try_send(observation).is_err() {
            metrics.observations_dropped.add(1);
        }
    }
}

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            if let Some(piece) = this.outbound.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            if let Some(status) = this.end.take() {
                this.ended = true;
                let mut trailers = HeaderMap::new();
                if status.add_header(&mut trailers).is_err() {
                    return Poll::Ready(Some(Err(status)));
                }
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            std::task::ready!(this.poll_event(cx));
        }
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        let config = &self.shared.config;
        config.metrics.streams.subtract(1);
        if let Some(mut session) = self.session.take() {
            config.clients.remove(self.number);
            config.remembered.departed(session.client(), (self.shared.clock)());
            tracing::info!(client = %session.client().id, "client disconnected");
            for reply in session.on_close() {
                match reply {
                    Reply::Observe(observation) => self.observe(observation),
                    Reply::Send(_) | Reply::Remember(_) | Reply::Close(_) => {}
                }
            }
        }
    }
}
