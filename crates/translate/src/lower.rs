//! Lowering: an attached route with resolved backends becomes encoded entries of virtual hosts, the clusters that they
//! use, and the route's status. The last place where a route is seen whole.

use crate::attach::{Attachment, Outcome};
use crate::backends::Resolution;
use crate::lookup::Rows;
use crate::names::{Backend, HostKey, table_name};
use crate::rank::{Rank, Ranked};
use crate::status::route_status;
use crate::streams::{SocketKey, Stream};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{
    BackendFact, BackendRef, DerivedStatus, Filter, Finding, HeaderModifier, Hostname, HttpMatch, INVALID_CLUSTER,
    Name, NamespacedName, RedirectFact, RouteFact, RouteKey, RuleFact, Upstream,
};
use tidegate_xds::{encode, ir};

/// What a route is lowered from. The fact sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum RouteInput {
    Fact(Arc<RouteFact>),
    Attached(Attachment),
    Backend(BackendRef, Resolution),
    Finding(Finding),
}

pub(crate) fn attached((route, attachment): (RouteKey, Attachment)) -> (RouteKey, RouteInput) {
    (route, RouteInput::Attached(attachment))
}

pub(crate) fn resolved((route, (target, found)): (RouteKey, (BackendRef, Resolution))) -> (RouteKey, RouteInput) {
    (route, RouteInput::Backend(target, found))
}

/// What a route is lowered to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum RouteOutput {
    /// An entry of a virtual host; the hostname is that of the listener.
    Entry(HostKey, Hostname, Arc<Ranked>),
    /// A Gateway's table names a cluster.
    Uses(NamespacedName, Backend),
    /// What is wanted of a socket.
    Stream(SocketKey, Arc<Stream>),
    /// The route's status.
    Status(Arc<DerivedStatus>),
}

/// Where requests come in: what a redirect that changes neither scheme nor port must say again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entrance {
    port: u16,
    tls: bool,
}

/// Every route, lowered. Where entries may be held (`holds`), each says itself what it uses.
pub(crate) fn lowered<'s>(inputs: Rows<'s, (RouteKey, RouteInput)>, holds: bool) -> Rows<'s, (RouteKey, RouteOutput)> {
    inputs.reduce_named("lower routes", move |_route, input, output| {
        let parts = RouteParts::gather(input.iter().map(|(input, _)| *input), holds);
        output.extend(parts.iter().flat_map(RouteParts::lower).map(|row| (row, 1)));
    })
}

/// A route and everything that was found out about it.
pub(crate) struct RouteParts<'r> {
    pub(crate) fact: &'r RouteFact,
    pub(crate) attachments: Vec<&'r Attachment>,
    pub(crate) backends: BTreeMap<&'r BackendRef, &'r Resolution>,
    pub(crate) findings: Vec<Finding>,
    /// Whether entries may be held.
    pub(crate) holds: bool,
}

impl<'r> RouteParts<'r> {
    /// Sorts the inputs of one route; none if the route itself is gone.
    pub(crate) fn gather(inputs: impl Iterator<Item = &'r RouteInput>, holds: bool) -> Option<Self> {
        let mut fact = None;
        let (mut attachments, mut backends, mut findings) = (Vec::new(), BTreeMap::new(), Vec::new());
        for input in inputs {
            match input {
                RouteInput::Fact(route) => fact = Some(&**route),
                RouteInput::Attached(attachment) => attachments.push(attachment),
                RouteInput::Backend(target, resolution) => {
                    backends.insert(target, resolution);
                }
                RouteInput::Finding(finding) => findings.push(finding.clone()),
            }
        }
        Some(RouteParts { fact: fact?, attachments, backends, findings, holds })
    }

    /// Entries, uses and status.
    pub(crate) fn lower(&self) -> Vec<RouteOutput> {
        let mut rows = Vec::new();
        if let Some(status) = route_status(self) {
            rows.push(RouteOutput::Status(Arc::new(status)));
        }
        if self.fact.key.kind.is_stream() {
            rows.extend(self.streams().into_iter().map(|(socket, stream)| RouteOutput::Stream(socket, stream)));
            return rows;
        }
        // The same domain may be reached through several parent references: each entry once.
        let mut places: BTreeMap<(HostKey, Hostname), Entrance> = BTreeMap::new();
        for attachment in &self.attachments {
            let Outcome::Bound(bindings) = &attachment.outcome else { continue };
            for binding in bindings {
                for host in &binding.hosts {
                    let key = HostKey {
                        gateway: attachment.gateway.clone(),
                        table: table_name(binding.socket, &binding.listener_host),
                        host: host.clone(),
                    };
                    let entrance = Entrance { port: binding.socket.port, tls: binding.socket.is_tls() };
                    places.insert((key, binding.listener_host.clone()), entrance);
                }
            }
        }
        if places.is_empty() {
            return rows;
        }
        if !self.holds {
            let gateways: BTreeSet<&NamespacedName> = places.keys().map(|(key, _)| &key.gateway).collect();
            for gateway in gateways {
                rows.extend(self.used().into_iter().map(|backend| RouteOutput::Uses(gateway.clone(), backend.clone())));
            }
        }
        self.entries(&places, &mut rows);
        rows
    }

    /// The backends that some entry forwards to.
    fn used(&self) -> BTreeSet<&Backend> {
        self.fact.rules.iter().flat_map(|rule| self.used_by(rule)).collect()
    }

    /// The backends that the entries of the rule forward to.
    fn used_by(&self, rule: &'r RuleFact) -> BTreeSet<&'r Backend> {
        if redirect(&rule.filters).is_some() {
            return BTreeSet::new();
        }
        let weighted = rule.backends.iter().filter(|backend| backend.weight > 0);
        weighted.filter_map(|backend| self.found(backend)).collect()
    }

    pub(crate) fn found(&self, backend: &BackendFact) -> Option<&'r Backend> {
        match self.backends.get(&backend.target) {
            Some(Resolution::Found(found)) => Some(found),
            Some(Resolution::Failed(..)) | None => None,
        }
    }

    /// Encodes each match once an entrance and hands it to every domain of it.
    fn entries(&self, places: &BTreeMap<(HostKey, Hostname), Entrance>, rows: &mut Vec<RouteOutput>) {
        let entrances: BTreeSet<Entrance> = places.values().copied().collect();
        for entrance in entrances {
            for (rule_index, rule) in (0..).zip(&self.fact.rules) {
                for (match_index, matcher) in (0..).zip(&rule.matches) {
                    let id = entry_id(&self.fact.key, rule, rule_index, match_index);
                    let encoded = encode::entry(&self.entry(id, rule, matcher, entrance));
                    let rank = Rank::of(self.fact, matcher, rule_index, match_index);
                    let uses = if self.holds { self.used_by(rule).into_iter().cloned().collect() } else { Vec::new() };
                    let ranked = Arc::new(Ranked { rank, entry: encoded, uses });
                    let here = places.iter().filter(|(_, at)| **at == entrance);
                    rows.extend(here.map(|((key, listener_host), _)| {
                        RouteOutput::Entry(key.clone(), listener_host.clone(), ranked.clone())
                    }));
                }
            }
        }
    }

    fn entry(&self, id: Name, rule: &RuleFact, matcher: &HttpMatch, entrance: Entrance) -> ir::Entry {
        let (request_headers, response_headers) = header_modifiers(&rule.filters);
        let action = match redirect(&rule.filters) {
            Some(redirect) => ir::Action::Redirect(lower_redirect(redirect, entrance)),
            None => self.forward(rule),
        };
        ir::Entry { id, matcher: matcher.clone(), action, request_headers, response_headers }
    }

    fn forward(&self, rule: &RuleFact) -> ir::Action {
        let weighted: Vec<&BackendFact> = rule.backends.iter().filter(|backend| backend.weight > 0).collect();
        if weighted.is_empty() {
            // No backend to send to is an error of the configuration, which the Gateway API answers with 500.
            return ir::Action::Respond(500);
        }
        let targets: Vec<ir::Target> = weighted.iter().map(|backend| self.target(backend)).collect();
        let (mut hostname, mut path) = (None, None);
        for filter in &rule.filters {
            if let Filter::Rewrite(rewrite) = filter {
                (hostname, path) = (rewrite.hostname.clone(), rewrite.path.clone());
            }
        }
        let websocket = weighted.iter().filter_map(|b| self.found(b)).all(|b| b.cluster.upstream != Upstream::H2c);
        ir::Action::Forward(ir::Forward {
            targets,
            hostname,
            path,
            timeout: rule.request_timeout,
            try_timeout: rule.backend_timeout,
            websocket,
        })
    }

    fn target(&self, backend: &BackendFact) -> ir::Target {
        let (request_headers, response_headers) = header_modifiers(&backend.filters);
        let cluster = match self.found(backend) {
            Some(found) if backend_filters_supported(backend) => found.cluster.name(),
            Some(_) | None => INVALID_CLUSTER.into(),
        };
        ir::Target { cluster, weight: backend.weight, request_headers, response_headers }
    }
}

/// Whether every filter of a backend reference is one that can be applied to one backend of several.
pub(crate) fn backend_filters_supported(backend: &BackendFact) -> bool {
    backend.filters.iter().all(|filter| match filter {
        Filter::RequestHeaders(_) | Filter::ResponseHeaders(_) => true,
        Filter::Redirect(_) | Filter::Rewrite(_) => false,
    })
}

fn redirect(filters: &[Filter]) -> Option<&RedirectFact> {
    filters.iter().find_map(|filter| match filter {
        Filter::Redirect(redirect) => Some(redirect),
        Filter::RequestHeaders(_) | Filter::ResponseHeaders(_) | Filter::Rewrite(_) => None,
    })
}

fn header_modifiers(filters: &[Filter]) -> (HeaderModifier, HeaderModifier) {
    let (mut request, mut response) = (HeaderModifier::default(), HeaderModifier::default());
    for filter in filters {
        match filter {
            Filter::RequestHeaders(modifier) => request = modifier.clone(),
            Filter::ResponseHeaders(modifier) => response = modifier.clone(),
            Filter::Redirect(_) | Filter::Rewrite(_) => {}
        }
    }
    (request, response)
}

/// Decides the port that Location shows: the written one; else the well-known port of a written scheme; else the
/// port that the request came in on. A port that its scheme implies is not shown.
fn lower_redirect(redirect: &RedirectFact, entrance: Entrance) -> ir::Redirect {
    let scheme = redirect.scheme.as_deref().unwrap_or(if entrance.tls { "https" } else { "http" });
    let well_known = if scheme == "https" { 443 } else { 80 };
    let port = match (redirect.port, &redirect.scheme) {
        (Some(port), _) => port,
        (None, Some(_)) => well_known,
        (None, None) => entrance.port,
    };
    ir::Redirect {
        scheme: redirect.scheme.clone(),
        hostname: redirect.hostname.clone(),
        port: (port != well_known).then_some(port),
        path: redirect.path.clone(),
        status: redirect.status,
    }
}

/// Names an entry by its route, rule and match: `HTTPRoute shop/cart rule 0 match 1`.
fn entry_id(route: &RouteKey, rule: &RuleFact, rule_index: u32, match_index: u32) -> Name {
    let rule = rule.name.as_ref().map_or_else(|| rule_index.to_string(), Name::to_string);
    format!("{} {} rule {rule} match {match_index}", route.kind.kind(), route.name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_shows_a_port_only_where_the_scheme_does_not_imply_it() {
        let redirect = |scheme: Option<&str>, port| RedirectFact {
            scheme: scheme.map(Name::from),
            hostname: None,
            port,
            path: None,
            status: 302,
        };
        let over = |tls, scheme, port, listener| {
            lower_redirect(&redirect(scheme, port), Entrance { port: listener, tls }).port
        };
        let shown = |scheme, port, listener| over(false, scheme, port, listener);
        assert_eq!(shown(Some("https"), None, 80), None);
        assert_eq!(shown(Some("https"), None, 8080), None);
        assert_eq!(shown(Some("https"), Some(8443), 80), Some(8443));
        assert_eq!(shown(Some("https"), Some(443), 80), None);
        assert_eq!(shown(Some("http"), None, 8080), None);
        assert_eq!(shown(None, None, 8080), Some(8080));
        assert_eq!(shown(None, None, 80), None);
        assert_eq!(shown(None, Some(8083), 80), Some(8083));
        assert_eq!(shown(Some("http"), Some(443), 80), Some(443));
        assert_eq!(over(true, None, None, 443), None);
        assert_eq!(over(true, None, None, 8443), Some(8443));
        assert_eq!(over(true, Some("http"), None, 8443), None);
    }
}
