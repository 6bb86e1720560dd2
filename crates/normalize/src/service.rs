//! Service: ports, what is spoken on them, external names, and which endpoints are preferred.

use crate::metadata::{Metadata, name_holds};
use crate::node::{Node, Report, quote};
use crate::text::{PORT_NAME, PRECISE_HOSTNAME, SERVICE_NAME, any, is_ip};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    Fact, Finding, Name, ObjectKey, Reason, ServiceFact, ServicePortFact, TrafficDistribution, Transport, Upstream,
};

/// Bound on the ports that are read. An API server has none but the size of an object.
const MAX_PORTS: usize = 4096;

/// The annotation that says what `spec.trafficDistribution` says, and may say more.
const DISTRIBUTION_ANNOTATION: &str = "networking.istio.io/traffic-distribution";

/// The Service, with the ports that can be read. A port that an API server would refuse is left out, with a finding; the
/// others are used.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    Metadata::read(key, root, report);
    if !name_holds(key, root, &SERVICE_NAME, report) {
        return Vec::new();
    }
    let spec = root.field("spec");
    spec.is_required_object(report);
    let kinds = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];
    let kind = spec.field("type").choice(&kinds, report).unwrap_or("ClusterIP");
    let external_name = if kind == "ExternalName" { external_name(&spec, report) } else { None };
    let list = spec.field("ports");
    let ports = ports(&list, report);
    let headless = spec.field("clusterIP").text(report) == Some("None");
    if ports.is_empty() && kind != "ExternalName" && !headless && report.is_clean() {
        report.invalid(&list, "must not be empty; add a port");
    }
    let distribution = distribution(root, report);
    vec![Fact::Service(Arc::new(ServiceFact { name: key.name.clone(), external_name, ports, distribution }))]
}

/// Which endpoints are preferred: the field says it, or the annotation where there is no field. A value that is not known
/// restricts nobody: it is said, and means no preference.
fn distribution(root: &Node<'_>, report: &mut Report) -> TrafficDistribution {
    let (spec, metadata) = (root.field("spec"), root.field("metadata"));
    let annotations = metadata.field("annotations");
    let (field, annotation) = (spec.field("trafficDistribution"), annotations.key(DISTRIBUTION_ANNOTATION));
    let (place, more) = if field.is_present() { (field, "") } else { (annotation, ", PreferNetwork, Any") };
    let Some(text) = place.text(report) else { return TrafficDistribution::Any };
    match text {
        "PreferClose" | "PreferSameZone" => TrafficDistribution::Zone,
        "PreferSameNode" => TrafficDistribution::Host,
        "PreferNetwork" | "PreferSameNetwork" if !more.is_empty() => TrafficDistribution::Network,
        "Any" if !more.is_empty() => TrafficDistribution::Any,
        _ => {
            let known = format!("PreferClose, PreferSameZone, PreferSameNode{more}");
            let message = format!("{} is none of {known}; no endpoint is preferred; use one of them", quote(text));
            report.remark(Finding::new(Reason::UnsupportedValue, &place.path(), message));
            TrafficDistribution::Any
        }
    }
}

/// The external name, without the dot that ends an absolute name. An IP address is passed on: whoever uses the Service
/// says whether it can.
fn external_name(spec: &Node<'_>, report: &mut Report) -> Option<Name> {
    let field = spec.field("externalName");
    let text = if field.demand(report) { field.text(report)? } else { return Some(Name::default()) };
    let absolute = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if let Err(message) = PRECISE_HOSTNAME.check(&absolute) {
        report.invalid(&field, message);
    } else if is_ip(&absolute) {
        let message = format!("{} is an IP address, not a name; use an EndpointSlice for addresses", quote(text));
        report.remark(Finding::new(Reason::UnsupportedValue, &field.path(), message));
    }
    Some(Name::from(absolute))
}

fn ports(list: &Node<'_>, report: &mut Report) -> Vec<ServicePortFact> {
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    let several = list.items(MAX_PORTS, report).nth(1).is_some();
    let mut ports = Vec::new();
    for item in list.items(MAX_PORTS, report) {
        let number = item.field("port");
        let (Some(port), Some(transport)) =
            (if number.demand(report) { number.port(report) } else { None }, transport(&item, report))
        else {
            continue;
        };
        let field = item.field("name");
        let Ok(name) = port_name(&field, report) else { continue };
        if several && name.is_empty() {
            report.invalid(&field, "is required when a Service has more than one port; add a name");
        } else if !numbers.insert((port, transport)) {
            report.invalid(&number, format!("port {port} is there twice; remove one of them"));
        } else if !names.insert(name.clone()) {
            report.invalid(&field, format!("{} is there twice; give every port its own name", quote(&name)));
        } else {
            ports.push(ServicePortFact { name, port, transport, upstream: upstream(&item, report) });
        }
    }
    ports
}

/// The name of a port, empty where there is none; an error where it is wrong, which is reported.
pub(crate) fn port_name(field: &Node<'_>, report: &mut Report) -> Result<Name, ()> {
    if field.is_present() { field.name(&PORT_NAME, report).ok_or(()) } else { Ok(Name::default()) }
}

/// `protocol` of a port, by default TCP; none where it is wrong, which is reported.
pub(crate) fn transport(item: &Node<'_>, report: &mut Report) -> Option<Transport> {
    let field = item.field("protocol");
    if !field.is_present() {
        return Some(Transport::Tcp);
    }
    Some(match field.choice(&["TCP", "UDP", "SCTP"], report)? {
        "TCP" => Transport::Tcp,
        "UDP" => Transport::Udp,
        _ => Transport::Sctp,
    })
}

/// What `appProtocol` asks for. Any other value says what the backend speaks to somebody else, so it is HTTP/1.1 here.
fn upstream(item: &Node<'_>, report: &mut Report) -> Upstream {
    match item.field("appProtocol").name(&any(0, 317), report).as_deref() {
        Some("kubernetes.io/h2c") => Upstream::H2c,
        Some("kubernetes.io/ws") => Upstream::WebSocket,
        Some(_) | None => Upstream::Http1,
    }
}

#[cfg(test)]
mod tests;
