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

    /// What the operators of the dataflow do; none if that is not logged.
    fn dataflow(&self) -> Option<Value> {
        None
    }

    /// The same as a page.
    fn dataflow_page(&self) -> Option<String> {
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
    /// Milliseconds for which the batch in progress has been with the dataflow; 0 if there is none.
    pub frontier_lag_ms: u64,
    /// Batches that wait for the dataflow.
    pub queued_batches: u64,
    /// The ADS service and its clients.
    pub wire: Wire,
}

/// The ADS service and its clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wire {
    /// Open streams, those that have not said who they are included.
    pub streams: u64,
    /// Clients by protocol (`delta`, `sotw`) and state (`current`, `behind`, `waiting`, `rejecting`).
    pub clients: BTreeMap<(&'static str, &'static str), u64>,
    /// Clients refused because there were too many.
    pub refused: u64,
    /// Streams ended because of what their clients asked.
    pub closed: u64,
    /// Streams ended because of their age.
    pub aged: u64,
    /// Epochs by which the client furthest behind is behind the newest seal that changed something.
    pub lag_epochs: u64,
    /// The same, as the time between the batches of the two.
    pub lag_ms: u64,
    /// Listeners and tables that wait for clusters now, summed over clients.
    pub pinned: u64,
    /// Clusters that are kept although they are no longer wanted now, summed over clients.
    pub leaving: u64,
    /// Transitions sent after their bound, before all of their clusters were ready.
    pub overdue_pins: u64,
    /// Observations that were dropped because the queue was full.
    pub observations_dropped: u64,
    /// Bytes of responses that the transport has not taken.
    pub queued_bytes: u64,
    /// By resource type (`cds`, `eds`, `lds`, `sds`, `rds`).
    pub types: BTreeMap<&'static str, TypeCounters>,
}

/// What went over the wire for one resource type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeCounters {
    /// Responses sent and their bytes, by cause.
    pub traffic: BTreeMap<&'static str, Traffic>,
    /// Resources in them.
    pub resources: u64,
    /// Responses accepted.
    pub acks: u64,
    /// Responses rejected.
    pub nacks: u64,
    /// Resources that clients have rejected and should have, now.
    pub rejected: u64,
    /// From the batch of a change to the response that carries it.
    pub event_to_send: Histogram,
    /// From the batch of a change to the acceptance of the response that carried it.
    pub event_to_ack: Histogram,
}

/// What was sent for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Responses.
    pub pushes: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds in seconds, the last one infinite, and how many fell between each and the one before it.
    pub buckets: Vec<(f64, u64)>,
    /// The sum of all, in seconds.
    pub sum: f64,
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
