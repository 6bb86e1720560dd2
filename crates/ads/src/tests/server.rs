//! The service on loopback, for tests to connect to.

use super::world::{GATEWAY, World};
use crate::{Clock, Config, Error, serve};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_ads_client::{Connection, Envoy, Options, Protocol};
use tidegate_model::Observation;
use tidegate_xds::Sealed;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

pub(super) const BOTH: [Protocol; 2] = [Protocol::Sotw, Protocol::Delta];

/// A service that runs.
pub(super) struct Server {
    pub(super) address: String,
    pub(super) sealed: watch::Sender<Option<Arc<Sealed>>>,
    pub(super) observations: mpsc::Receiver<Observation>,
    pub(super) config: Config,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

/// Milliseconds of the runtime's clock, so that timers and sessions agree.
fn clock() -> Clock {
    let ticks = AtomicU64::new(0);
    let start = tokio::time::Instant::now();
    Arc::new(move || {
        let now = u64::try_from(start.elapsed().as_millis()).unwrap();
        ticks.fetch_max(now, Ordering::Relaxed).max(now)
    })
}

/// A service whose clock is the runtime's, with room for this many observations.
pub(super) async fn start(config: Config, observations: usize) -> Server {
    start_at(config, observations, clock()).await
}

/// A service with this clock. Timers are still the runtime's.
#[allow(clippy::disallowed_methods, reason = "a test has no supervisor; it awaits the task itself")]
pub(super) async fn start_at(config: Config, observations: usize, clock: Clock) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sealed, receiver) = watch::channel(None);
    let (observe, observations) = mpsc::channel(observations);
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move {
        let _ = stopped.await;
    };
    let task = tokio::spawn(serve(listener, receiver, observe, clock, config.clone(), shutdown));
    Server { address, sealed, observations, config, stop, task }
}

impl Server {
    pub(super) async fn connect(&self, envoy: Envoy) -> Connection {
        Connection::open(&self.address, envoy).await.unwrap()
    }

    pub(super) fn seal(&self, world: &mut World) {
        self.sealed.send(Some(world.seal())).unwrap();
    }

    pub(super) async fn stop(self) {
        self.stop.send(()).unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(10), self.task).await;
        ended.expect("streams end at shutdown").unwrap().unwrap();
    }

    /// Waits until this holds of the figures.
    pub(super) async fn until(&self, holds: impl Fn(&Config) -> bool) {
        within(async {
            while !holds(&self.config) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

pub(super) fn envoy(protocol: Protocol) -> Envoy {
    Envoy::new(Options::new(protocol, "envoy-0", GATEWAY))
}

/// Waits for something that comes, on any machine.
pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("nothing came")
}
