//! The thin gRPC service: streams in, sessions, frames out.
//!
//! There is no task and no queue per stream: the transport polls a response body ([`stream`]) when it can take more,
//! and the body drives its session. A client that reads slowly is simply polled less often, and then gets the newest
//! seal.

mod age;

mod inbound;

mod timing;

mod stream;

use crate::clients::Clients;
use crate::departed::Departed;
use crate::metrics::Metrics;
use crate::remembered::Remembered;
use crate::session::{Limits, Protocol, Sequencing};
use http::{HeaderValue, Request, Response, header};
use inbound::Inbound;
pub use inbound::{from_delta, from_sotw};
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use stream::StreamBody;
use tidegate_model::{Millis, Observation};
use tidegate_vault::Vault;
use tidegate_xds::Sealed;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::TcpIncoming;

/// Wall-clock milliseconds since the Unix epoch, injected.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// How the service runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a cluster stays after its last use at a client, in milliseconds; 0 is allowed.
    pub grace_ms: Millis,
    /// How long Envoys drain the connections of a listener that was replaced, in milliseconds: until then they may use
    /// what it named.
    pub drain_ms: Millis,
    /// How long a listener or table waits for clusters that are new to a client, in milliseconds.
    pub pin_ms: Millis,
    /// In which order clients learn things; anything but the default is for tests.
    pub sequencing: Sequencing,
    /// Most streams at a time.
    pub max_clients: usize,
    /// Most names that a client may ask for, of one type.
    pub max_names: usize,
    /// Largest request in bytes. A client that reconnects lists everything that it holds.
    pub max_request_bytes: usize,
    /// About how old a stream may become; each ends up to a tenth earlier or later. `None`: as old as it likes.
    pub max_stream_age: Option<Duration>,
    /// How often a quiet connection is probed; it is closed if it does not answer as long again.
    pub keepalive: Duration,
    /// Where the material of secrets is.
    pub vault: Vault,
    /// Counters. Clones of the configuration share them.
    pub metrics: Arc<Metrics>,
    /// What clients reject. Clones of the configuration share it.
    pub remembered: Remembered,
    /// Who is connected. Clones of the configuration share it.
    pub clients: Clients,
}

impl Default for Config {
    fn default() -> Self {
        let limits = Limits::default();
        Config {
            grace_ms: limits.grace_ms,
            drain_ms: limits.drain_ms,
            pin_ms: limits.pin_ms,
            sequencing: Sequencing::default(),
            max_clients: 10_000,
            max_names: 200_000,
            max_request_bytes: 64 << 20,
            max_stream_age: None,
            keepalive: Duration::from_secs(30),
            vault: Vault::new(),
            metrics: Arc::default(),
            remembered: Remembered::default(),
            clients: Clients::default(),
        }
    }
}

/// Why the service ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The transport failed.
    #[error("cannot serve ADS: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// What all streams share.
struct Shared {
    sealed: watch::Receiver<Option<Arc<Sealed>>>,
    observations: mpsc::Sender<Observation>,
    clock: Clock,
    departed: Departed,
    config: Config,
    shutdown: watch::Receiver<bool>,
    next_stream: AtomicU64,
}

/// Serves ADS on `listener` until `shutdown` ends; then every stream is ended in good order.
///
/// `sealed` holds `None` until the first seal: nobody is answered before. Observations are dropped and counted if nobody
/// takes them: no stream ever waits.
///
/// # Errors
///
/// The listener or the transport failed as a whole; what goes wrong on one connection ends that one.
pub async fn serve(
    listener: TcpListener,
    sealed: watch::Receiver<Option<Arc<Sealed>>>,
    observations: mpsc::Sender<Observation>,
    clock: Clock,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let (stop, stopped) = watch::channel(false);
    let keepalive = config.keepalive;
    let departed = Departed::default();
    let newest = note_newest(sealed.clone(), Arc::clone(&config.metrics), departed.clone(), Arc::clone(&clock));
    let max_connection_age = config.max_stream_age.map(age::of_connection);
    let next_stream = AtomicU64::new(1);
    let shared = Shared { sealed, observations, clock, departed, config, shutdown: stopped, next_stream };
    let stopping = async move {
        shutdown.await;
        // Nobody listens if there is no stream.
        let _ = stop.send(true);
    };
    let mut server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(keepalive))
        .http2_keepalive_timeout(Some(keepalive))
        .tcp_nodelay(true);
    if let Some(age) = max_connection_age {
        server = server.max_connection_age(age);
    }
    let served = server
        .add_service(Service { shared: Arc::new(shared) })
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stopping);
    tokio::select! {
        served = served => Ok(served?),
        never = newest => match never {},
    }
}

/// Notes the newest seal that wakes watchers: one that changes nothing wakes nobody, and clients are not behind it.
async fn note_newest(
    mut sealed: watch::Receiver<Option<Arc<Sealed>>>,
    metrics: Arc<Metrics>,
    departed: Departed,
    clock: Clock,
) -> Infallible {
    loop {
        let newest = sealed.borrow_and_update().clone();
        if let Some(newest) = newest {
            metrics.newest.set(newest.epoch, newest.millis);
            departed.note(&newest, clock());
        }
        if sealed.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// The aggregated discovery service.
#[derive(Clone)]
struct Service {
    shared: Arc<Shared>,
}

impl tonic::server::NamedService for Service {
    const NAME: &'static str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
}

impl tower_service::Service<Request<Body>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok(self.open(request).unwrap_or_else(Status::into_http)))
    }
}

impl Service {
    fn open(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let protocol = match request.uri().path().rsplit('/').next() {
            Some("StreamAggregatedResources") => Protocol::Sotw,
            Some("DeltaAggregatedResources") => Protocol::Delta,
            Some(_) | None => return Err(Status::unimplemented("only the aggregated discovery streams are served")),
        };
        let config = &self.shared.config;
        if !config.metrics.streams.add_below(config.max_clients as u64) {
            config.metrics.refused.add(1);
            return Err(Status::resource_exhausted(format!(
                "{} clients are connected, more are refused: raise --max-clients",
                config.max_clients
            )));
        }
        let number = self.shared.next_stream.fetch_add(1, Ordering::Relaxed);
        let inbound = Inbound::new(protocol, request.into_body(), config.max_request_bytes);
        let mut response = Response::new(Body::new(StreamBody::new(number, inbound, self.shared.clone())));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        Ok(response)
    }
}
