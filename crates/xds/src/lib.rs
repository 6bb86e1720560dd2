//! What is said to Envoy: the intermediate representation, its encoding, content-hash versions, the sealed store and
//! its consistency checker.
//!
//! *Comes in*: [`ir`] values from translation to encode; [`Row`]s at each epoch to seal. *Goes out*: [`Sealed`]
//! values, and [`wire`] pieces of responses. *Must not know*: Kubernetes clients, timely, tokio. *Start at* [`row`], then
//! [`sealed`].

pub mod ir;

pub mod encode;

pub mod resource;

pub mod row;

pub mod digest;

pub mod sealed;

pub mod check;

pub mod wire;

pub use digest::Digest;
pub use resource::{Resource, Variant, Variants, Version, When};
pub use row::Row;
pub use sealed::{GatewayView, Sealed, Store, Table};
