//! Cost benches: measurements that decide the design, each with the command that repeats it.
//!
//! *Comes in*: nothing. *Goes out*: tables of figures, with targets where there are some. *Must not know*: kube watches,
//! and of gRPC only `streams`. *Start at* `changes.rs`, which measures what is asked for most; `docs/performance.md` has the figures.
//!
//! Here is what the benches share. Each takes `--quick`, for a run of seconds that shows that it works, and some
//! `--operators`, for what each operator of the dataflow costs. Where memory is measured a bench runs itself again in a
//! process of its own.

#![allow(clippy::disallowed_methods, reason = "a bench is what clocks are for")]
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod cluster;

mod measure;

pub use cluster::{Cluster, changes};
pub use measure::{Memory, Options, Report, Target, Times, in_own_process, say};
