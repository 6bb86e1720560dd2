//! Derived status and observations, as the Kubernetes API would hold them.
//!
//! *Comes in*: derived status by object as it changes with each seal, and what clients told us. *Goes out*: the status
//! of every object as JSON. *Must not know*: how anything was derived, xDS resources, clocks (times come in). *Start
//! at* [`Board`].
//!
//! *Invariant*: a condition's transition time changes when its status does, and never else.

mod board;

mod clients;

mod render;

pub use board::Board;
