//! An ADS client that behaves like Envoy, with checkers.
//!
//! *Comes in*: discovery responses of either protocol. *Goes out*: the requests that Envoy would send, and every
//! [`Violation`] of what a control plane owes it. *Must not know*: Kubernetes, translation, how responses are made.
//! *Start at* [`Envoy`], the model, which has no I/O and no clock; [`Connection`] puts it on a real stream.
//!
//! What the model does was measured on Envoy 1.40: it subscribes to endpoints before it acknowledges clusters, withholds
//! that acknowledgement while a cluster warms, asks for listeners once clusters are warm, and keeps a changed cluster in
//! its old form until the endpoints that follow it.

mod message;

mod resources;

mod envoy;

mod check;

mod connection;

pub use check::Violation;
pub use connection::{Connection, Error};
pub use envoy::{Envoy, Options, Rejection};
pub use message::{Protocol, Request, Response};
