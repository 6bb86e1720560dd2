//! What things cost: workloads, other ways to do the same, and pages that show it.
//!
//! *Comes in*: how big, and what to do. *Goes out*: a [`Report`], as JSON, as a page, as folded stacks. *Must not know*:
//! Kubernetes clients. *Start at* [`fanout`], the profile that everything else is a part of or a variation on.
//!
//! Modules in the order of the data: what measures; the cluster and its clients; the other ways to derive the same; the
//! profiles, made of parts that each have a process of their own; what is reported, drawn and written as a page.
//!
//! This crate has a clock, and is for tools alone: nothing that serves is built on it but the picture of a live dataflow.

#![allow(clippy::disallowed_methods, reason = "a profile is what clocks are for")]

mod measure;

mod size;

mod cluster;

mod client;

mod naive;

mod recompute;

mod part;

mod fanout;

mod churn;

mod attached;

mod probe;

mod restart;

mod replayed;

mod report;

mod drawing;

mod format;

pub mod page;

pub use attached::attached;
pub use churn::churn;
pub use client::{Client, Holding, Received, fleet, gateway_of, holding};
pub use cluster::{Cluster, changes};
pub use drawing::{Drawing, Edge, Node};
pub use fanout::{Compare, fanout};
pub use format::quantity;
pub use measure::{Memory, Operation, Times, cpu};
pub use naive::{Costs, Plan, naive};
pub use part::{Error, Outcome, Part, Runner, Step};
pub use probe::probe;
pub use recompute::recompute;
pub use replayed::replayed;
pub use report::{Compared, Comparison, Figure, Footprint, Line, Machine, Plot, Report};
pub use restart::restart;
pub use size::Size;
