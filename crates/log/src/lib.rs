//! The event log: format, writer, reader.
//!
//! *Comes in*: the events of each batch, and the seal that closed it. *Goes out*: a file that replays to the same
//! seals (`docs/log-format.md` describes it for people), and epochs read back from one. *Must not know*: what an
//! object means, resources, timely. *Start at* [`event`], the one closed set of things that can happen.
//!
//! Modules in the order of the data: what is logged, how it is written, how it is read.

pub mod event;

pub mod format;

pub mod writer;

pub mod reader;

pub use event::{Event, Object, Seal};
pub use format::{Error, FORMAT, Header};
pub use reader::{Epoch, Reader, Tail, Torn};
pub use writer::Writer;
