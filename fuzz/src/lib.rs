//! Fuzz targets: what comes from outside may hold anything, and nothing of it may do more than it says.
//!
//! *Comes in*: bytes. *Goes out*: what an input showed that no other did, or a panic that says which rule it broke. A
//! target reads its input as decisions ([`Choices`]), so that any bytes are a valid input and a shorter one is a simpler
//! one; it takes objects that are right ([`seeds`]), makes them wrong value by value ([`mutate`]) and writes them down
//! as a person might ([`render`]). *Start at* [`TARGETS`]; [`hunt`] finds the inputs.
//!
//! Not a library's engine: see `docs/design/dependencies.md`. Any engine that hands out bytes can drive [`Target::run`].

pub mod choices;

pub mod seeds;

pub mod mutate;

pub mod render;

pub mod targets;

pub mod hunt;

pub use choices::Choices;
pub use targets::{Seen, TARGETS, Target};
