//! One stream: a response body that drives its session when the transport polls it.

use super::Shared;
use super::age::Age;
use super::inbound::Inbound;
use super::timing::Timing;
use crate::cause::{Asked, Occasion};
use crate::clients::ClientStats;
use crate::frame;
use crate::identity;
use crate::secrets;
use crate::session::{Client, Close, Limits, Rejections, Reply, Request, Response, Session, TypeUrl};
use bytes::Bytes;
use futures::Stream;
use http::HeaderMap;
use http_body::Frame;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_model::{ClientId, Locality, Millis, Observation, ResourceType};
use tidegate_proto::envoy::config::core::v3::Node;
use tidegate_xds::Sealed;
use tokio::time::Sleep;
use tokio_stream::wrappers::WatchStream;
use tonic::{Code, Status};

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
    /// When the batch of the newest seal that the session knows was taken.
    seal_millis: Millis,
    age: Option<Age>,
    asked: Asked,
    timing: Timing,
    timer: Pin<Box<Sleep>>,
    timer_at: Option<Millis>,
    /// Pieces of frames that the transport has not taken. Bounded by what one call of the session returns.
    outbound: VecDeque<Bytes>,
    /// How the stream ends, once that is known.
    end: Option<Status>,
    ended: bool,
    overdue_pins: u64,
    /// Nothing is under way: the client has answered everything, and nothing waits for it.
    settled: bool,
}

impl StreamBody {
    /// The stream with this number; it is counted already.
    pub(super) fn new(number: u64, inbound: Inbound, shared: Arc<Shared>) -> Self {
        let now = (shared.clock)();
        let age = shared.config.max_stream_age.map(|age| Age::new(age, number, now));
        let mut body = StreamBody {
            number,
            inbound,
            seals: WatchStream::new(shared.sealed.clone()),
            shutdown: WatchStream::new(shared.shutdown.clone()),
            unplanned: None,
            session: None,
            since: 0,
            seal_millis: 0,
            age,
            asked: Asked::default(),
            timing: Timing::default(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            timer_at: None,
            outbound: VecDeque::new(),
            end: None,
            ended: false,
            overdue_pins: 0,
            settled: true,
            shared,
        };
        body.set_timer(now);
        body
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
                Some(Err(status)) => self.on_broken(status),
                None => self.end = Some(Status::ok("")),
            }
            return Poll::Ready(());
        }
        if self.timer_at.is_some() && self.timer.as_mut().poll(cx).is_ready() {
            self.timer_at = None;
            self.drive(Occasion::Time, Session::on_timer);
            self.end_if_old();
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
        if let Err(error) = self.identify(node) {
            tracing::warn!(stream = self.number, %error, "refused a client");
            self.close(Status::invalid_argument(error.to_string()));
            return;
        }
        if let TypeUrl::Served(kind) = request.type_url
            && let Some(event) = self.timing.answered(kind, &request.nonce)
            && request.error.is_none()
        {
            let took = (self.shared.clock)().saturating_sub(event);
            self.shared.config.metrics.event_to_ack.of(kind).observe(took);
        }
        let occasion = self.asked.request(&request);
        self.drive(occasion, |session, now| session.on_request(request, now));
        self.plan();
        self.end_if_old();
    }

    /// There is no next request: it cannot be read, or the connection is gone.
    fn on_broken(&mut self, status: Status) {
        if matches!(status.code(), Code::InvalidArgument | Code::ResourceExhausted) {
            tracing::warn!(stream = self.number, %status, "refused a request");
            self.close(status);
        } else {
            tracing::debug!(stream = self.number, %status, "a stream broke");
            self.end = Some(status);
        }
    }

    /// Begins the session with the first node. A later one must be the same client's, since a stream is one client's; it may
    /// be elsewhere.
    fn identify(&mut self, node: Option<&Node>) -> Result<(), identity::Error> {
        match (&self.session, node) {
            (None, node) => {
                let (name, gateway) = identity::identify(node)?;
                let locality = node.map_or_else(|| Ok(Locality::default()), identity::locality)?;
                self.begin(Client { id: ClientId { stream: self.number, node: name }, gateway, locality });
                Ok(())
            }
            (Some(_), None) => Ok(()),
            (Some(session), Some(node)) => {
                let client = session.client();
                identity::confirm(&client.id.node, &client.gateway, node)?;
                let locality = identity::locality(node)?;
                if *node != Node::default() && locality != client.locality {
                    self.drive(Occasion::MOVED, |session, now| session.on_locality(locality, now));
                }
                Ok(())
            }
        }
    }

    fn begin(&mut self, client: Client) {
        let config = &self.shared.config;
        let limits = Limits {
            grace_ms: config.grace_ms,
            drain_ms: config.drain_ms,
            pin_ms: config.pin_ms,
            max_names: config.max_names,
            ..Limits::default()
        };
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
            let occasion = self.asked.seal();
            self.timing.sealed(sealed.millis, matches!(occasion, Occasion::FirstSeal(_)));
            self.seal_millis = sealed.millis;
            self.drive(occasion, |session, now| session.on_sealed(sealed, now));
        }
    }

    fn drive(&mut self, occasion: Occasion, step: impl FnOnce(&mut Session, Millis) -> Vec<Reply>) {
        let now = (self.shared.clock)();
        let Some(session) = &mut self.session else { return self.set_timer(now) };
        let replies = step(session, now);
        let stats = session.stats();
        let client = session.client().clone();
        let mut clusters = false;
        for reply in replies {
            match reply {
                Reply::Send(response) => {
                    let of_clusters = response.type_url == TypeUrl::Served(ResourceType::Cluster);
                    self.send(response, occasion, clusters, now);
                    clusters |= of_clusters;
                }
                Reply::Observe(observation) => self.observe(observation),
                Reply::Remember(rejections) => self.remember(rejections),
                Reply::Close(close) => self.refuse(&close),
            }
        }
        if stats.pinned == 0 {
            self.timing.settled();
        }
        self.settled = stats.pinned == 0 && stats.types.iter().all(|figures| figures.pending == 0);
        let config = &self.shared.config;
        config.metrics.overdue_pins.add(stats.overdue_pins - self.overdue_pins);
        self.overdue_pins = stats.overdue_pins;
        let (protocol, since, seal_millis) = (self.inbound.protocol(), self.since, self.seal_millis);
        config.clients.put(ClientStats { client, protocol, since, seal_millis, session: stats });
        self.set_timer(now);
    }

    /// Wakes this body when something falls due.
    fn set_timer(&mut self, now: Millis) {
        let session = self.session.as_ref().and_then(Session::deadline);
        let deadline = session.into_iter().chain(self.age.map(|age| age.deadline(now))).min();
        if deadline != self.timer_at {
            self.timer_at = deadline;
            if let Some(at) = deadline {
                let wait = Duration::from_millis(at.saturating_sub(now));
                self.timer.as_mut().reset(tokio::time::Instant::now() + wait);
            }
        }
    }

    /// Ends the stream if it is old. In good order: Envoy connects anew as after any end, and logs no warning.
    fn end_if_old(&mut self) {
        if self.end.is_none() && self.age.is_some_and(|age| age.is_over(self.settled, (self.shared.clock)())) {
            self.shared.config.metrics.aged.add(1);
            tracing::debug!(stream = self.number, settled = self.settled, "ends a stream of full age");
            self.end = Some(Status::ok("the stream is as old as --max-stream-age allows: connect anew"));
        }
    }

    fn refuse(&mut self, close: &Close) {
        tracing::warn!(stream = self.number, error = %close, "closed a stream");
        self.close(match close {
            Close::TooManyNames { .. } => Status::resource_exhausted(format!("{close} (--max-names)")),
        });
    }

    /// Ends the stream because of what its client said.
    fn close(&mut self, status: Status) {
        self.shared.config.metrics.closed.add(1);
        self.end = Some(status);
    }

    fn send(&mut self, response: Response, occasion: Occasion, follows: bool, now: Millis) {
        let (response, missing) = secrets::fill(response, |digest| self.shared.config.vault.get(digest));
        for secret in missing {
            // The seal it is of is older than what the vault keeps: the newest one is about to be planned.
            tracing::error!(stream = self.number, %secret, "left out a secret whose material is gone");
        }
        let pieces = frame::encode(self.inbound.protocol(), &response);
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let metrics = &self.shared.config.metrics;
        metrics.queued.add(bytes);
        if let TypeUrl::Served(kind) = response.type_url {
            let cause = occasion.cause(kind, follows);
            let traffic = metrics.traffic.of(kind).of(cause);
            traffic.pushes.add(1);
            traffic.bytes.add(bytes);
            metrics.resources.of(kind).add(response.resources.len() as u64);
            if let Some(event) = self.timing.sent(kind, &response.nonce, cause) {
                metrics.event_to_send.of(kind).observe(now.saturating_sub(event));
            }
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
                this.shared.config.metrics.queued.subtract(piece.len() as u64);
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
        config.metrics.queued.subtract(self.outbound.iter().map(|piece| piece.len() as u64).sum());
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
