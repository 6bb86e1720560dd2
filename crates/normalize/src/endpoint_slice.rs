//! EndpointSlice, with the meaning that the Kubernetes API gives to its conditions.
//!
//! * `ready` not given counts as ready; `serving` not given is what `ready` says; `terminating` not given is false.
//! * Ready is followed literally, also where a Service publishes addresses that are not ready.
//! * Not ready, but terminating and serving: draining, used only while nothing is ready.
//! * Only the label `kubernetes.io/service-name` associates a slice with a Service, never its name or its owner.
//! * A slice that is being deleted counts until it is gone.
//! * Of an endpoint's addresses the first counts: the API defines no meaning for the others and kube-proxy does not look
//!   at them, so they may not even be reachable.
//!
//! Loopback and link-local addresses, which an API server refuses, are taken: files name backends on the same machine.

use crate::metadata::{Metadata, label};
use crate::node::{Node, Report, quote};
use crate::service::{port_name, transport};
use crate::text::any;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tidegate_model::{
    EndpointFact, EndpointState, Fact, Finding, Name, NamespacedName, ObjectKey, Reason, SliceFact, SlicePortFact,
    TargetUid,
};

/// The label that names the Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Bounds of the API.
const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20_000;
const MAX_ADDRESSES: usize = 100;

#[derive(Clone, Copy, PartialEq)]
enum Family {
    V4,
    V6,
}

/// The slice, with the endpoints that can be used. What cannot be read is left out, with a finding; the rest is used.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    Metadata::read(key, root, report);
    let service = label(root, SERVICE_LABEL, report).map(|name| NamespacedName::new(key.name.namespace(), &name));
    let ports = ports(&root.field("ports"), report);
    let family = family(root, report);
    let list = root.field("endpoints");
    let endpoints = match family {
        Some(family) => list.items(MAX_ENDPOINTS, report).filter_map(|item| endpoint(&item, family, report)).collect(),
        None => Vec::new(),
    };
    vec![Fact::Slice(Arc::new(SliceFact { name: key.name.clone(), service, ports, endpoints }))]
}

/// What the addresses are. None: nothing that an endpoint assignment could hold, which is reported.
fn family(root: &Node<'_>, report: &mut Report) -> Option<Family> {
    let field = root.field("addressType");
    if !field.demand(report) {
        return None;
    }
    match field.choice(&["IPv4", "IPv6", "FQDN"], report)? {
        "IPv4" => Some(Family::V4),
        "IPv6" => Some(Family::V6),
        _ => {
            let message = "names instead of addresses are not supported, the endpoints are left out; \
                           use a slice with addressType IPv4 or IPv6";
            report.remark(Finding::new(Reason::UnsupportedValue, &field.path(), message));
            None
        }
    }
}

/// The ports that have a number. Without one a port stands for all ports, which no Service port can be joined to; the
/// API allows it, so nothing is said.
fn ports(list: &Node<'_>, report: &mut Report) -> Vec<SlicePortFact> {
    let mut names = BTreeSet::new();
    let mut ports = Vec::new();
    for item in list.items(MAX_PORTS, report) {
        let number = item.field("port").port(report);
        let transport = transport(&item, report);
        let field = item.field("name");
        let Ok(name) = port_name(&field, report) else { continue };
        if !names.insert(name.clone()) {
            report.invalid(
                &field,
                format!("{} is there twice, the first counts; give every port its own name", quote(&name)),
            );
        } else if let (Some(port), Some(transport)) = (number, transport) {
            ports.push(SlicePortFact { name, port, transport });
        }
    }
    ports
}

fn endpoint(item: &Node<'_>, family: Family, report: &mut Report) -> Option<EndpointFact> {
    let state = state(&item.field("conditions"), report);
    let address = address(item, family, report);
    let node = item.field("nodeName").name(&any(1, 253), report);
    let zone = item.field("zone").name(&any(1, 253), report);
    let target = item.field("targetRef");
    target.is_object(report);
    let target = target.field("uid").text(report).filter(|uid| !uid.is_empty()).map(TargetUid::of);
    Some(EndpointFact { address: address?, state: state?, node, zone, target })
}

/// Whether and how gladly the endpoint may be used; none if not. A condition of the wrong type fails closed.
fn state(conditions: &Node<'_>, report: &mut Report) -> Option<EndpointState> {
    conditions.is_object(report);
    let read = |name: &str, report: &mut Report| {
        let field = conditions.field(name);
        (field.is_present(), field.boolean(report))
    };
    let ready = match read("ready", report) {
        (true, value) => value.unwrap_or(false),
        (false, _) => true,
    };
    let serving = match read("serving", report) {
        (true, value) => value.unwrap_or(false),
        (false, _) => ready,
    };
    let terminating = read("terminating", report).1.unwrap_or(false);
    if ready {
        Some(EndpointState::Ready)
    } else if serving && terminating {
        Some(EndpointState::Draining)
    } else {
        None
    }
}

/// The first address in canonical text.
fn address(item: &Node<'_>, family: Family, report: &mut Report) -> Option<Name> {
    let list = item.field("addresses");
    let first = list.items(MAX_ADDRESSES, report).next();
    let Some(first) = first else {
        if list.demand(report) {
            report.invalid(&list, "must hold an address; add one or remove the endpoint");
        }
        return None;
    };
    if !first.demand(report) {
        return None;
    }
    let text = first.text(report)?;
    let canonical = match family {
        Family::V4 => text.parse::<Ipv4Addr>().map(|ip| ip.to_string()).ok(),
        Family::V6 => text.parse::<Ipv6Addr>().map(|ip| ip.to_string()).ok(),
    };
    if canonical.is_none() {
        let wanted = if family == Family::V4 { "IPv4" } else { "IPv6" };
        let message =
            format!("{} is no {wanted} address, the endpoint is left out; correct it or addressType", quote(text));
        report.invalid(&first, message);
    }
    canonical.map(Name::from)
}

#[cfg(test)]
mod tests;
