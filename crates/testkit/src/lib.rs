//! What tests and the demo stand on: backends that say who they are, requests, load that classifies every answer, and
//! golden files.
//!
//! *In*: addresses, and texts to compare. *Out*: answers, counts, and panics that say what differs. It must not know
//! the rest of the project: a test kit that shares code with what it tests shares its mistakes. It is a dependency of
//! tests and of `xtask` alone.
//!
//! Reading order: [`mod@echo`] is the backend, [`http`] asks once, [`load`] asks all the time; [`websocket`] upgrades;
//! [`stream`] is backend and client of what is no HTTP; [`epochs`] splits a scenario's input, [`golden`] compares its
//! output; [`tls`] makes certificates; [`ports`] finds room for listeners; [`rules`] says what Envoy would reject.

pub mod echo;
pub mod epochs;
pub mod golden;
pub mod http;
pub mod load;
pub mod ports;
pub mod rules;
pub mod stream;
pub mod tls;
pub mod websocket;

pub use echo::{Echo, Identity};
pub use stream::StreamEcho;
