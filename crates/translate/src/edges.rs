//! The named edges of the dataflow, and how a test cuts one of them.
//!
//! A test that cannot fail is a defect. So every place where collections meet, and every place where equal rows are
//! counted once, has a name, and a dataflow can be built with one of them cut: rows stop there, or are counted as often
//! as they come. The comparison with the reference must notice each. In a dataflow without a cut this costs nothing: the
//! decision falls while it is built.

use crate::lookup::Rows;
use differential_dataflow::ExchangeData;
use differential_dataflow::operators::ThresholdTotal;
use std::hash::Hash;
use tidegate_model::Name;

/// Every edge that can be cut.
pub const EDGES: [&str; 56] = [
    "classes to Gateways",
    "verdicts to status",
    "verdicts to Gateways of ours",
    "namespaces to labels",
    "listeners to attachment",
    "namespaces of routes",
    "namespaces of ListenerSets",
    "ListenerSets to Gateways",
    "certificates of Gateways",
    "certificates of ListenerSets",
    "routes to attachment",
    "grants to references",
    "references that cross namespaces",
    "references within a namespace",
    "policies to judgement",
    "CA certificates to policies",
    "policies to references",
    "services to references",
    "secrets to references",
    "certificates to Gateways",
    "CA certificates to Gateways",
    "validation of clients to Gateways",
    "attachments to rivals",
    "lost listeners to lowering",
    "lost listeners to status",
    "routes to lowering",
    "attachments to lowering",
    "resolutions to lowering",
    "findings to routes",
    "domains of listeners",
    "domains of entries",
    "virtual hosts without entries",
    "entries of virtual hosts",
    "frames of sockets",
    "streams of sockets",
    "clusters of sockets",
    "members, each once",
    "wanted clusters, each once",
    "clusters that are wanted",
    "demands of policies",
    "certificates towards backends",
    "clusters with certificates",
    "slices to assignments",
    "traffic distributions to assignments",
    "traffic distributions to Nodes",
    "slices to Nodes",
    "Nodes to assignments",
    "Nodes to clients",
    "reports to assignments",
    "attachments to status",
    "findings to Gateways and ListenerSets",
    "classes to status",
    "policies to status",
    "ways to Services of policies",
    "findings to others",
    "status of routes",
];

/// Every edge that can be cut and is only there where entries may be held.
pub const HOLD_EDGES: [&str; 8] = [
    "backends to holds",
    "policies to holds",
    "slices to holds",
    "grants to holds",
    "bounds to holds",
    "time to holds",
    "held entries",
    "held entries to status",
];

/// Builds edges, all of them but one whole.
#[derive(Clone)]
pub(crate) struct Edges {
    pub(crate) cut: Option<Name>,
}

impl Edges {
    fn is_cut(&self, name: &'static str) -> bool {
        assert!(EDGES.contains(&name) || HOLD_EDGES.contains(&name), "{name} is an edge that no test would cut");
        self.cut.as_ref().is_some_and(|cut| *cut == name)
    }

    /// The rows, unless this edge is cut.
    pub(crate) fn carry<'s, D: ExchangeData>(&self, name: &'static str, rows: Rows<'s, D>) -> Rows<'s, D> {
        if self.is_cut(name) { rows.filter(|_| false) } else { rows }
    }

    /// The rows, each once; as often as they come if this edge is cut.
    pub(crate) fn once<'s, D: ExchangeData + Hash>(&self, name: &'static str, rows: Rows<'s, D>) -> Rows<'s, D> {
        if self.is_cut(name) { rows } else { rows.distinct_total() }
    }
}
