//! The event log: format, writer, reader.

pub mod event;

pub use event::{Event, Object, Seal};
