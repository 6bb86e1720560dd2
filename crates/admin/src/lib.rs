//! The read-only HTTP port: health, readiness, metrics, dumps.
//!
//! *Comes in*: GET requests, and a [`View`] of the running controller. *Goes out*: text and JSON. *Must not know*:
//! Kubernetes clients, gRPC, the dataflow; whatever those know reaches this crate as plain values through [`View`].
//! *Start at* [`view`], then [`serve`].
//!
//! **Invariant**: nothing here changes anything. No route takes another method than GET, no request body is read, and
//! no handler holds more than a clone of a sealed value. Work is bounded: [`MAX_CONNECTIONS`] connections, one request
//! each, [`MAX_DUMPS`] dumps at a time.

pub mod view;

mod listen;

mod metrics;

mod histogram;

mod pages;

pub mod snapshot;

pub mod reference;

pub use listen::MAX_CONNECTIONS;
pub use pages::MAX_DUMPS;
pub use view::{BuildInfo, Counters, Histogram, Readiness, Traffic, TypeCounters, Unreadable, View, Wire};

use std::sync::Arc;
use tokio::net::TcpListener;

/// Serves the port until `shutdown` resolves, then lets the running requests finish.
///
/// # Errors
///
/// When the listening socket fails for good.
pub async fn serve(
    listener: TcpListener,
    view: Arc<dyn View>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let bounded = listen::Bounded::new(listener);
    axum::serve(bounded, pages::router(view)).with_graceful_shutdown(shutdown).await
}
