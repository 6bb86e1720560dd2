//! Seeded generators of objects and events for tests, benches and profiles.
//!
//! *Comes in*: a seed. *Goes out*: [`tidegate_log::Event`]s. *Must not know*: Kubernetes watches, tonic. *Start at*
//! [`world`], which plays a small cluster whose objects refer to each other in every way that they can, for what is
//! right; [`fanout`] is a big and regular one, for what things cost.

pub mod fanout;

pub mod random;

pub mod world;

pub use fanout::{Fanout, Shape};
pub use random::Random;
pub use world::World;
