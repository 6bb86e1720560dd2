//! Envoy processes: where the binary comes from, what it is told at its start, and its life as a child process.
//!
//! *In*: a [`Bootstrap`] (which Gateway, which ADS server) and, where there is no Envoy yet, the network. *Out*: a
//! running [`Process`] that can be asked for its state, or the bootstrap text for somebody else to run.
//!
//! This crate must not know how configuration is derived (`tidegate-translate`) nor Kubernetes: an Envoy learns all
//! it serves from ADS, and its bootstrap names nothing but the Gateway and the way to the server.
//!
//! Reading order, which is the order of a start: [`mod@binary`] finds or installs, [`bootstrap`] says what to tell it,
//! [`process`] runs it, [`admin`] asks it, [`supervise`] starts it again when it ends.

pub mod admin;
pub mod binary;
pub mod bootstrap;
pub mod process;
pub mod supervise;

pub use admin::Admin;
pub use binary::Binary;
pub use bootstrap::{AdsAddress, Bootstrap};
pub use process::{Lines, LogTo, Options, Process};
