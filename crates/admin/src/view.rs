//! What the port can see of the running controller: plain values, cheap to take, never a handle to change anything.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_xds::Sealed;

/// The running controller as this port sees it. Every call must be short and must not wait for the dataflow.
pub trait View: Send + Sync + 'static {
    /// What readiness depends on.
    fn readiness(&self) -> Readiness;

    /// The last sealed value, if there is one yet.
    fn sealed(&self) -> Option<Arc<Sealed>>;

    /// Every object with its status as the Kubernetes API would hold it, sorted. Each has `kind`,
    /// `metadata.namespace` (unless cluster-scoped) and `metadata.name`.
    fn objects(&self) -> Vec<Value>;

    /// What is wrong with the input files, in the order of their paths.
    fn problems(&self) -> Vec<Value>;

    /// The connected clients, one value each.
    fn clients(&self) -> Vec<Value>;

    /// The proxies that this process runs itself, one value each; none if it does not run any.
    fn proxies(&self) -> Option<Vec<Value>> {
        None
    }

    /// Numbers for `/metrics`.
    fn counters(&self) -> Counters;

    /// What was built.
    fn build(&self) -> BuildInfo;
}

/// What readiness depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// What the first seal still waits for, for people (`Gateway: initial list not complete`). Empty once sealed.
    pub missing: Vec<String>,
    /// Kinds that cannot be read: what depends on them fails closed.
    pub unreadable: Vec<Unreadable>,
    /// Other reasons to look here although clients are served (a recording that stopped).
    pub degraded: Vec<String>,
}

/// A kind that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// The kind.
    pub kind: String,
    /// Why, for people.
    pub reason: String,
}

/// Numbers for `/metrics`. Counters count since the process started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Milliseconds since the Unix epoch, now: what the age of the last seal is measured against.
    pub now_ms: u64,
    /// Epochs sealed.
    pub seals: u64,
    /// Events taken into the dataflow.
    pub events: u64,
    /// Facts that are current.
    pub facts: u64,
    /// Consistency violations in the last seal; anything but 0 is a bug of this program.
    pub violations: u64,
    /// Problems in the input files.
    pub manifest_problems: u64,
    /// Connected clients by protocol (`delta`, `sotw`).
    pub clients: BTreeMap<&'static str, u64>,
    /// Clients refused because there were too many.
    pub clients_refused: u64,
    /// Transitions sent after their bound, before all of their clusters were ready.
    pub overdue_pins: u64,
    /// Observations that were dropped because the queue was full.
    pub observations_dropped: u64,
    /// Bytes of responses handed to the transport.
    pub pushed_bytes: u64,
    /// What went over the wire, by resource type (`cds`, `eds`, `lds`, `rds`).
    pub types: BTreeMap<&'static str, TypeCounters>,
}

/// What went over the wire for one resource type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeCounters {
    /// Responses sent.
    pub pushes: u64,
    /// Resources in them.
    pub resources: u64,
    /// Responses accepted.
    pub acks: u64,
    /// Responses rejected.
    pub nacks: u64,
}

/// What was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildInfo {
    /// The version of the program.
    pub version: &'static str,
    /// The controller name that GatewayClasses must carry.
    pub controller: String,
    /// Dataflow workers.
    pub workers: usize,
}
