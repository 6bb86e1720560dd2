//! Key material: what a Secret holds is checked, judged and kept here, and nowhere else.
//!
//! *Comes in*: the `type` and `data` of Secrets, from sources. *Goes out*: a [`Verdict`] with a digest, which is all that
//! the log, the dataflow and every dump ever see; and the material itself by that digest, to `ads` alone, when it sends.
//! *Must not know*: anything but the model.
//!
//! *Invariant*: no error, no `Debug` and no `Display` of this crate shows a byte of what it was given.
//! *Invariant*: what is judged well is accepted by Envoy: chain and key are decoded, compared, and encoded anew.
//!
//! *Start at* [`judge`], then [`Vault`].

mod certificate;

mod store;

pub use certificate::{CERTIFICATE_ENTRY, Certificate, KEY_ENTRY, Material, TLS_TYPE, Verdict, judge};
pub use store::Vault;
