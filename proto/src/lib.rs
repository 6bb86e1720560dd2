//! Envoy API types, generated at build time, with canonical JSON of any message.
//!
//! *Comes in*: nothing. *Goes out*: `envoy::…`, `google::…` and `xds::…` in the folders of their .proto packages, with
//! ordered maps and shared [`Any`] values, so that equal messages encode to equal bytes. *Must not know*: anything of
//! tidegate. *Start at* [`pack`] and [`json`].
//!
//! *Invariant*: no service is generated here; who speaks gRPC writes its frames itself.

pub mod json;

mod any;

pub use any::{TYPE_URL_PREFIX, pack, unpack};
pub use google::protobuf::Any;

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    rustdoc::all,
    reason = "generated from the protos, which are documented where they are published"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/mod.rs"));
}

pub use generated::*;

/// The encoded descriptors of every message here, with the options that carry Envoy's field rules.
pub static DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
