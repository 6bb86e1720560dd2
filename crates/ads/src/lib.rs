//! ADS sessions as sans-I/O state machines behind a thin gRPC service.
//!
//! *Comes in*: [`tidegate_xds::Sealed`] values, discovery requests, time. *Goes out*: discovery responses, and
//! [`tidegate_model::Observation`]s of what clients accepted and rejected. *Must not know*: Kubernetes, timely, how
//! anything is translated. *Start at* [`session`], which decides everything; [`serve`] only moves bytes.
//!
//! Modules in the order of the data: who a client is, what it may have of what is gone, its session, what it rejects, the
//! material of secrets, frames, the service, and what it shows of itself.

mod identity;

mod departed;

pub mod session;

mod remembered;

mod secrets;

mod frame;

mod service;

mod clients;

mod cause;

mod metrics;

pub use cause::Cause;
pub use clients::{ClientState, ClientStats, Clients};
pub use metrics::{Counter, Histogram, Metrics, Newest, PerCause, PerType, Traffic};
pub use remembered::Remembered;
pub use service::{Clock, Config, Error, serve};

/// The messages of both protocols to a session's words and back, for peers that have no stream.
pub mod messages {
    pub use crate::frame::encode;
    pub use crate::secrets::fill;
    pub use crate::service::{from_delta, from_sotw};
}

#[cfg(test)]
mod tests;
