//! The outside world as events: manifest directories and recorded logs.
//!
//! *Comes in*: files. *Goes out*: batches of [`tidegate_log::Event`], one batch for what was found together, through a
//! bounded channel. *Must not know*: normalization, translation, the engine, resources. *Start at* [`manifests`], then
//! [`secret`], where key material is taken out, [`config_map`], and [`replay`].

pub mod manifests;

pub mod secret;

pub mod config_map;

pub mod replay;

pub use manifests::{Directory, Manifests, Problem, Provenance};
pub use replay::{Batch, Replay};
