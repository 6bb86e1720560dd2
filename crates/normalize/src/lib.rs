//! Kubernetes objects to facts and findings; pure.
//!
//! *Comes in*: one [`Object`], whole, as an API server or a file has it. *Goes out*: [`Normalized`], the facts that
//! this object alone is reason for, and what becomes of those that end by themselves. *Must not know*: clocks, other
//! objects, clients of anything, the dataflow, Envoy's messages. *Start at* [`normalize`], then one file per kind.
//!
//! What an API server would do to a manifest is done here, so that a file and a cluster mean the same: defaults are
//! applied first, then the rules of the kind are checked. A user's mistake is never an error, it is a row:
//!
//! * **What breaks a rule, or is not supported, goes into the `findings` of the fact** (GatewayClass, Gateway, ListenerSet,
//!   routes, policies):
//!   not accepted, nothing of it is served. Identity, parents and hostnames stay as far as they can be read, so that
//!   status has somewhere to be written.
//! * **What is only worth saying is a [`Fact::Finding`] of its own**: unknown fields, parts of an EndpointSlice that are
//!   left out while the rest is used.
//!
//! Two readers look at an object. `node` reads what translation needs, one field at a time, and a wrong value costs one
//! finding and nothing else. `schema` decodes the object once more into the published types of its kind, only to find
//! fields that no version of the kind has. It never decides acceptance: an API server may be newer than these types.
//!
//! *Invariant*: the result depends on the object alone, and of an EndpointReport on the time that is given with it; equal
//! objects give equal facts in equal order.

mod node;

mod text;

mod duration;

mod regex;

mod selector;

mod metadata;

mod gateway_class;

mod listeners;

mod gateway;

mod listener_set;

mod route;

mod http_route;

mod grpc_route;
mod stream_route;

mod reference_grant;

mod backend_tls_policy;

mod namespace;

mod kube_node;

mod service;

mod endpoint_slice;

mod secret;

mod config_map;

mod endpoint_report;

mod schema;

use node::{Node, Report};
use tidegate_log::Object;
use tidegate_model::{Fact, Finding, Kind, Millis, ObjectKey, REPORT_LIFETIME_MS, Reason, RouteKind};

/// What one object is reason for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Normalized {
    /// The facts. They replace every fact that an earlier form of the object gave.
    pub facts: Vec<Fact>,
    /// What becomes of those that end by themselves, each at its own deadline.
    pub endings: Vec<Ending>,
}

impl Normalized {
    /// When facts end by themselves.
    pub fn deadlines(&self) -> impl Iterator<Item = &Deadline> {
        self.endings.iter().map(|ending| &ending.deadline)
    }
}

/// Facts that end by themselves unless the object is renewed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// When.
    pub deadline: Deadline,
    /// Which.
    pub ends: Vec<Fact>,
    /// What the object is reason for in their place from then on.
    pub after: Vec<Fact>,
}

/// What is given with an object.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// When the object came in, in milliseconds since the Unix epoch.
    pub now: Millis,
    /// How long an entry of an EndpointReport is believed after its renewal, in milliseconds.
    pub report_lifetime: Millis,
}

impl Default for Moment {
    /// The beginning of time.
    fn default() -> Self {
        Moment { now: 0, report_lifetime: REPORT_LIFETIME_MS }
    }
}

/// The time at which facts of an object end unless the object is renewed before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline {
    /// The object.
    pub key: ObjectKey,
    /// When, in milliseconds since the Unix epoch.
    pub at: Millis,
    /// The renewal this deadline belongs to, in milliseconds since the Unix epoch; a later renewal voids it.
    pub renewed: Millis,
}

/// Turns an object into facts and findings. Never fails and never panics, whatever the object holds.
#[must_use]
pub fn normalize(object: &Object, moment: &Moment) -> Normalized {
    let mut report = Report::default();
    let root = Node::root(&object.body);
    let plain = |facts| Normalized { facts, ..Normalized::default() };
    let mut normalized = match object.key.kind {
        Kind::GatewayClass => plain(gateway_class::facts(&object.key, &root, &mut report)),
        Kind::Gateway => plain(gateway::facts(&object.key, &root, &mut report)),
        Kind::ListenerSet => plain(listener_set::facts(&object.key, &root, &mut report)),
        Kind::HttpRoute => plain(http_route::facts(&object.key, &root, &mut report)),
        Kind::GrpcRoute => plain(grpc_route::facts(&object.key, &root, &mut report)),
        Kind::TlsRoute => plain(stream_route::facts(RouteKind::Tls, &object.key, &root, &mut report)),
        Kind::TcpRoute => plain(stream_route::facts(RouteKind::Tcp, &object.key, &root, &mut report)),
        Kind::UdpRoute => plain(stream_route::facts(RouteKind::Udp, &object.key, &root, &mut report)),
        Kind::ReferenceGrant => plain(reference_grant::facts(&object.key, &root, &mut report)),
        Kind::BackendTlsPolicy => plain(backend_tls_policy::facts(&object.key, &root, &mut report)),
        Kind::Namespace => plain(namespace::facts(&object.key, &root, &mut report)),
        Kind::Node => plain(kube_node::facts(&object.key, &root, &mut report)),
        Kind::Service => plain(service::facts(&object.key, &root, &mut report)),
        Kind::EndpointSlice => plain(endpoint_slice::facts(&object.key, &root, &mut report)),
        Kind::Secret => secret::normalized(&object.key, &root, &mut report),
        Kind::ConfigMap => config_map::normalized(&object.key, &root, &mut report),
        Kind::EndpointReport => endpoint_report::normalized(&object.key, &root, moment, &mut report),
    };
    schema::check(object, &mut report);
    normalized.facts.extend(report.rows().into_iter().map(|row| Fact::Finding(object.key.clone(), row)));
    normalized
}

/// What an API server would refuse the object for, had it been asked to store it; empty for an object it would take.
/// For sources that have no API server before them. A value that is only not supported here is no reason to refuse.
#[must_use]
pub fn admit(object: &Object) -> Vec<Finding> {
    let findings = normalize(object, &Moment::default()).facts.into_iter().flat_map(|fact| match fact {
        Fact::Class(class) => class.findings,
        Fact::Gateway(gateway) => gateway.findings.clone(),
        Fact::ListenerSet(set) => set.findings.clone(),
        Fact::Route(route) => route.findings.clone(),
        Fact::BackendTls(policy) => policy.findings.clone(),
        Fact::Finding(_, finding) => vec![finding],
        Fact::Grant(_) | Fact::Namespace(_) | Fact::Node(_) => Vec::new(),
        Fact::Service(_) | Fact::Slice(_) | Fact::Secret(_) | Fact::Bundle(_) | Fact::Report(_) => Vec::new(),
    });
    findings.filter(|finding| finding.reason == Reason::Invalid).collect()
}

#[cfg(test)]
mod fixture;

#[cfg(test)]
mod tests;
