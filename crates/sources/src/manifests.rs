//! A directory tree of manifests as a source of events; `docs/file-mode.md` has the rules for people.
//!
//! *Invariant*: a file that cannot be read, is half-written or does not parse removes nothing and changes nothing.
//! *Invariant*: what is kept of an object is hashes. A body that is needed again is read again.
//!
//! Modules in the order of the data: the files that are there ([`tree`]), their documents ([`document`]), what that
//! means ([`state`], pure), what went wrong ([`problem`]), where objects stand ([`provenance`]) and what to write in place of
//! kinds that are not read ([`unread`]); then the effects:
//! what the system says about changes ([`signals`]), one look at the tree ([`look`]), the running source
//! ([`directory`]).

pub mod tree;

pub mod document;

pub mod state;

pub mod problem;

pub mod provenance;

mod signals;

mod look;

pub mod unread;

pub mod directory;

pub use directory::{Directory, Error, Once, Options};
pub use problem::Problem;
pub use provenance::{Place, Provenance};
pub use state::{Admission, Found, Manifests};
