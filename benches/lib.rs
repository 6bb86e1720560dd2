//! Cost benches: measurements that decide the design, each with the command that repeats it.
//!
//! *Comes in*: nothing. *Goes out*: tables of figures, with targets where there are some. *Must not know*: kube watches,
//! and of gRPC only `streams`. *Start at* `changes.rs`, which measures what is asked for most; `docs/performance.md` has the figures.
//!
//! What they measure with, and the other ways to do the same, are those of `tidegate profile`: `crates/profile`. Here is
//! what only benches share. Each takes `--quick`, for a run of seconds that shows that it works, and some
//! `--operators`, for what each operator of the dataflow costs. Where memory is measured a bench runs itself again in a
//! process of its own.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod measure;

pub use measure::{Options, Report, Target, in_own_process, say};
pub use tidegate_profile::{Cluster, Memory, Times, changes};
