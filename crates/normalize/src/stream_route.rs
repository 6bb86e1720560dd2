//! TLSRoute, TCPRoute and UDPRoute: routes of whole streams, which differ in little more than their names.

use crate::node::{Node, Report, quote};
use crate::route::{self, Contents};
use crate::text::{HOSTNAME, SECTION_NAME, is_ip};
use tidegate_model::{Fact, Hostname, ObjectKey, RouteKind, RuleFact};

/// Bounds of the API.
const MAX_HOSTNAMES: usize = 1024;
const MAX_RULES: usize = 1;

/// The route, always: its parents write its status.
pub(crate) fn facts(kind: RouteKind, key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    route::facts(kind, key, root, report, |spec, report| {
        spec.demand(report);
        let hostnames = match kind {
            RouteKind::Tls => server_names(&spec.field("hostnames"), report),
            RouteKind::Http | RouteKind::Grpc | RouteKind::Tcp | RouteKind::Udp => Vec::new(),
        };
        Contents { hostnames, rules: rules(key, &spec.field("rules"), report) }
    })
}

/// The names that clients ask for by SNI, each once; there must be some.
fn server_names(list: &Node<'_>, report: &mut Report) -> Vec<Hostname> {
    let mut hostnames = Vec::new();
    if list.demand(report) && list.items(MAX_HOSTNAMES, report).next().is_none() {
        report.invalid(list, "must not be empty; add a hostname");
    }
    for item in list.items(MAX_HOSTNAMES, report) {
        let Some(name) = item.required_name(&HOSTNAME, report) else { continue };
        if is_ip(&name) {
            report.invalid(&item, format!("{} is an IP address, which no client asks for; use a name", quote(&name)));
            continue;
        }
        let hostname = Hostname::new(&name);
        if !hostnames.contains(&hostname) {
            hostnames.push(hostname);
        }
    }
    hostnames
}

fn rules(key: &ObjectKey, list: &Node<'_>, report: &mut Report) -> Vec<RuleFact> {
    if list.demand(report) && list.items(MAX_RULES, report).next().is_none() {
        report.invalid(list, "must not be empty; add a rule");
    }
    list.items(MAX_RULES, report).map(|item| rule(key, &item, report)).collect::<Vec<_>>()
}

fn rule(key: &ObjectKey, item: &Node<'_>, report: &mut Report) -> RuleFact {
    if item.demand(report) {
        item.is_object(report);
    }
    let list = item.field("backendRefs");
    let backends = route::backends(key, &list, report, |_, _| Vec::new());
    if list.demand(report) && list.items(1, &mut Report::default()).next().is_none() {
        report.invalid(&list, "must not be empty; add a backend");
    }
    RuleFact {
        name: item.field("name").name(&SECTION_NAME, report),
        matches: Vec::new(),
        filters: Vec::new(),
        backends,
        request_timeout: None,
        backend_timeout: None,
        retry: None,
        session: None,
    }
}

#[cfg(test)]
mod tests;
