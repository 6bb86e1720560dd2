//! Lowering: an attached route with resolved backends becomes encoded entries of virtual hosts, the clusters that they
//! use, and the route's status. The last place where a route is seen whole.

use crate::attach::{Attachment, Outcome};
use crate::backends::{Found, Resolution, mirrors};
use crate::lookup::Rows;
use crate::names::{Backend, HostKey, table_name};
use crate::origin::Origin;
use crate::rank::{Rank, Ranked};
use crate::rivals::{self, Loss};
use crate::status::route_status;
use crate::streams::{SocketKey, Stream};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{
    BackendFact, BackendRef, DerivedStatus, Filter, Finding, HeaderModifier, Hostname, HttpMatch, INVALID_CLUSTER,
    Name, NamespacedName, PathMatch, RedirectFact, RouteFact, RouteKey, RouteKind, RuleFact, SessionFact, Upstream,
};
use tidegate_xds::{Version, encode, ir};

/// What a route is lowered from. The fact sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum RouteInput {
    Fact(Arc<RouteFact>),
    Attached(Attachment),
    Backend(BackendRef, Resolution),
    Lost(Loss),
    Finding(Finding),
}

pub(crate) fn attached((route, attachment): (RouteKey, Attachment)) -> (RouteKey, RouteInput) {
    (route, RouteInput::Attached(attachment))
}

pub(crate) fn resolved((route, (target, found)): (RouteKey, (BackendRef, Resolution))) -> (RouteKey, RouteInput) {
    (route, RouteInput::Backend(target, found))
}

pub(crate) fn lost((route, loss): (RouteKey, Loss)) -> (RouteKey, RouteInput) {
    (route, RouteInput::Lost(loss))
}

/// What a route is lowered to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum RouteOutput {
    /// An entry of a virtual host; the hostname is that of the listener.
    Entry(HostKey, Hostname, Arc<Ranked>),
    /// A Gateway's table names a cluster.
    Uses(NamespacedName, Backend),
    /// The route leads from a Gateway to a port of a Service that policies are about.
    Leads(Lead),
    /// What is wanted of a socket.
    Stream(SocketKey, Arc<Stream>),
    /// The route's status.
    Status(Arc<DerivedStatus>),
}

/// A way from a Gateway to a port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Lead {
    pub(crate) service: NamespacedName,
    pub(crate) port_name: Name,
    pub(crate) gateway: NamespacedName,
}

/// Where requests come in: what a redirect that changes neither scheme nor port must say again, and how they go on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entrance {
    port: u16,
    tls: bool,
    origin: Origin,
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
    pub(crate) attachments: Vec<Cow<'r, Attachment>>,
    /// Listeners that are not among the attachments any more.
    pub(crate) losses: Vec<&'r Loss>,
    pub(crate) backends: BTreeMap<&'r BackendRef, &'r Resolution>,
    pub(crate) findings: Vec<Finding>,
    /// Whether entries may be held.
    pub(crate) holds: bool,
}

impl<'r> RouteParts<'r> {
    /// Sorts the inputs of one route; none if the route itself is gone.
    pub(crate) fn gather(inputs: impl Iterator<Item = &'r RouteInput>, holds: bool) -> Option<Self> {
        let mut fact = None;
        let (mut attachments, mut losses, mut backends) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut findings = Vec::new();
        for input in inputs {
            match input {
                RouteInput::Fact(route) => fact = Some(&**route),
                RouteInput::Attached(attachment) => attachments.push(attachment),
                RouteInput::Backend(target, resolution) => {
                    backends.insert(target, resolution);
                }
                RouteInput::Lost(loss) => losses.push(loss),
                RouteInput::Finding(finding) => findings.push(finding.clone()),
            }
        }
        let attachments = attachments.into_iter().map(|attachment| rivals::without(attachment, &losses)).collect();
        Some(RouteParts { fact: fact?, attachments, losses, backends, findings, holds })
    }

    /// Entries, uses and status.
    pub(crate) fn lower(&self) -> Vec<RouteOutput> {
        let mut rows = Vec::new();
        if let Some(status) = route_status(self) {
            rows.push(RouteOutput::Status(Arc::new(status)));
        }
        rows.extend(self.leads().into_iter().map(RouteOutput::Leads));
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
                    let (port, tls) = (binding.socket.port, binding.socket.is_tls());
                    let entrance = Entrance { port, tls, origin: binding.origin.clone() };
                    places.insert((key, binding.listener_host.clone()), entrance);
                }
            }
        }
        if places.is_empty() {
            return rows;
        }
        if !self.holds {
            let gateways: BTreeSet<(&NamespacedName, &Origin)> =
                places.iter().map(|((key, _), entrance)| (&key.gateway, &entrance.origin)).collect();
            for (gateway, origin) in gateways {
                rows.extend(self.used(origin).into_iter().map(|backend| RouteOutput::Uses(gateway.clone(), backend)));
            }
        }
        self.entries(&places, &mut rows);
        rows
    }

    /// Where the route leads of what policies are about, be it that they let nothing pass.
    fn leads(&self) -> BTreeSet<Lead> {
        let found = self.backends.values().filter_map(|resolution| match resolution {
            Resolution::Found(found) => Some(found).filter(|found| found.has_policies),
            Resolution::Failed(..) => None,
        });
        let found: Vec<&Found> = found.collect();
        let mut leads = BTreeSet::new();
        for attachment in &self.attachments {
            let Outcome::Bound(bindings) = &attachment.outcome else { continue };
            if bindings.iter().all(|binding| binding.origin == Origin::Passthrough) {
                continue;
            }
            leads.extend(found.iter().map(|found| Lead {
                service: found.backend.cluster.service.clone(),
                port_name: found.backend.port_name.clone(),
                gateway: attachment.gateway.clone(),
            }));
        }
        leads
    }

    /// The backends that some entry forwards to.
    fn used(&self, origin: &Origin) -> BTreeSet<Backend> {
        self.fact.rules.iter().flat_map(|rule| self.used_by(rule, origin)).collect()
    }

    /// The backends that the entries of the rule send to, mirrors too.
    fn used_by(&self, rule: &RuleFact, origin: &Origin) -> BTreeSet<Backend> {
        let weighted = weighted(rule);
        if refused(rule).next().is_some() || redirect(&rule.filters).is_some() || weighted.is_empty() {
            return BTreeSet::new();
        }
        let targets = weighted.into_iter().filter_map(|backend| self.served(backend, origin));
        targets.chain(self.mirrored(rule, origin).map(|(found, _)| found)).collect()
    }

    /// What requests that go to this backend reach; none: they are answered with an error.
    fn served(&self, backend: &BackendFact, origin: &Origin) -> Option<Backend> {
        let refused = backend.filters.iter().any(|filter| matches!(filter, Filter::Refused(_)));
        self.reached(&backend.target, origin).filter(|_| !refused)
    }

    /// Where copies of the rule's requests go, and how many of a million. A mirror that leads nowhere is left out.
    fn mirrored(&self, rule: &RuleFact, origin: &Origin) -> impl Iterator<Item = (Backend, u32)> {
        mirrors(&rule.filters).filter_map(move |(_, mirror)| {
            let share = u64::from(mirror.numerator) * 1_000_000 / u64::from(mirror.denominator.max(1));
            // However small a share is, it is not none.
            let per_million = if mirror.numerator == 0 { 0 } else { share.clamp(1, 1_000_000) };
            let per_million = u32::try_from(per_million).expect("at most a million");
            Some((self.reached(&mirror.target, origin)?, per_million)).filter(|_| per_million > 0)
        })
    }

    /// The backend of a reference as it is reached from there; none if it does not resolve or must not be reached.
    pub(crate) fn reached(&self, target: &BackendRef, origin: &Origin) -> Option<Backend> {
        let Found { backend, security, .. } = self.found(target)?;
        origin.reach(backend, security)
    }

    fn found(&self, target: &BackendRef) -> Option<&'r Found> {
        match self.backends.get(target) {
            Some(Resolution::Found(found)) => Some(found),
            Some(Resolution::Failed(..)) | None => None,
        }
    }

    /// Encodes each match once an entrance and hands it to every domain of it.
    fn entries(&self, places: &BTreeMap<(HostKey, Hostname), Entrance>, rows: &mut Vec<RouteOutput>) {
        let entrances: BTreeSet<&Entrance> = places.values().collect();
        for entrance in entrances {
            for (rule_index, rule) in self.fact.rules.iter().enumerate() {
                let rule_id = rule_id(&self.fact.key, rule, rule_index);
                for (match_index, matcher) in rule.matches.iter().enumerate() {
                    let id = format!("{rule_id} match {match_index}").into();
                    let encoded = encode::entry(&self.entry(id, rule, matcher, entrance));
                    let rank = Rank::of(self.fact, matcher, (rule_index, match_index));
                    let (mut uses, mut origin) = (Vec::new(), Origin::default());
                    if self.holds {
                        uses.extend(self.used_by(rule, &entrance.origin));
                        origin.clone_from(&entrance.origin);
                    }
                    let ranked = Arc::new(Ranked { rank, entry: encoded, uses, origin });
                    let here = places.iter().filter(|(_, at)| *at == entrance);
                    rows.extend(here.map(|((key, listener_host), _)| {
                        RouteOutput::Entry(key.clone(), listener_host.clone(), ranked.clone())
                    }));
                }
            }
        }
    }

    fn entry(&self, id: Name, rule: &RuleFact, matcher: &HttpMatch, entrance: &Entrance) -> ir::Entry {
        let (request_headers, response_headers) = header_modifiers(&rule.filters);
        let action = match redirect(&rule.filters) {
            _ if refused(rule).next().is_some() => self.fail(),
            Some(redirect) => ir::Action::Redirect(lower_redirect(redirect, entrance)),
            None => self.forward(rule, &entrance.origin),
        };
        ir::Entry { id, matcher: matcher.clone(), action, request_headers, response_headers }
    }

    /// The answer to what cannot be served: 500 by the Gateway API, and what Envoy tells a client of gRPC as UNAVAILABLE.
    fn fail(&self) -> ir::Action {
        ir::Action::Respond(if self.is_grpc() { 503 } else { 500 })
    }

    fn is_grpc(&self) -> bool {
        match self.fact.key.kind {
            RouteKind::Http | RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp => false,
            RouteKind::Grpc => true,
        }
    }

    fn forward(&self, rule: &RuleFact, origin: &Origin) -> ir::Action {
        let weighted = weighted(rule);
        if weighted.is_empty() {
            // No backend to send to is an error of the configuration.
            return self.fail();
        }
        let mirrors = self.mirrored(rule, origin);
        let mut forward = ir::Forward {
            targets: weighted.iter().map(|backend| self.target(backend, origin)).collect(),
            mirrors: mirrors.map(|(to, per_million)| ir::Mirror { cluster: to.cluster.name(), per_million }).collect(),
            timeout: rule.request_timeout,
            try_timeout: rule.backend_timeout,
            retry: rule.retry.clone(),
            session: rule.session.as_ref().map(|session| self.session(rule, session)),
            websocket: weighted
                .iter()
                .filter_map(|backend| self.found(&backend.target))
                .all(|found| found.backend.cluster.upstream != Upstream::H2c)
                && !self.is_grpc(),
            grpc: self.is_grpc(),
            ..ir::Forward::default()
        };
        for filter in &rule.filters {
            match filter {
                Filter::Rewrite(rewrite) => {
                    (forward.hostname, forward.path) = (rewrite.hostname.clone(), rewrite.path.clone());
                }
                Filter::Cors(cors) => forward.cors = Some(Box::new(cors.clone())),
                Filter::RequestHeaders(_)
                | Filter::ResponseHeaders(_)
                | Filter::Redirect(_)
                | Filter::Mirror(_)
                | Filter::Refused(_) => {}
            }
        }
        ir::Action::Forward(forward)
    }

    fn target(&self, backend: &BackendFact, origin: &Origin) -> ir::Target {
        let (request_headers, response_headers) = header_modifiers(&backend.filters);
        let reached = self.served(backend, origin);
        let cluster = reached.map_or_else(|| INVALID_CLUSTER.into(), |backend| backend.cluster.name());
        ir::Target { cluster, weight: backend.weight, request_headers, response_headers }
    }

    /// Sessions of different rules do not know each other, so without a name the rule's own place gives one, that says
    /// nothing about the route. A cookie comes back to what the rule matches, if that is one path.
    fn session(&self, rule: &RuleFact, session: &SessionFact) -> ir::Session {
        let name = session.name.clone().unwrap_or_else(|| {
            let index = self.fact.rules.iter().position(|other| std::ptr::eq(other, rule)).unwrap_or(0);
            let place = Version::of(rule_id(&self.fact.key, rule, index).as_bytes()).to_string();
            format!("tidegate-session-{}", &place[..16]).into()
        });
        let path = match rule.matches.as_slice() {
            [HttpMatch { path: PathMatch::Exact(path) | PathMatch::Prefix(path), .. }] => path.trim_end_matches('/'),
            _ => "",
        };
        // These would end the path within a cookie.
        let path = if path.is_empty() || path.contains([';', ',']) { "/" } else { path }.into();
        ir::Session { name, carrier: session.carrier, path }
    }
}

/// The backends of a rule that requests go to.
fn weighted(rule: &RuleFact) -> Vec<&BackendFact> {
    rule.backends.iter().filter(|backend| backend.weight > 0).collect()
}

/// Why the rule as a whole cannot be served: its requests are answered with an error, and never let through without
/// what the rule asks for.
pub(crate) fn refused(rule: &RuleFact) -> impl Iterator<Item = Refusal<'_>> {
    let split = rule.session.is_some() && weighted(rule).len() > 1;
    split.then_some(Refusal::Split).into_iter().chain(refused_filters(&rule.filters).map(Refusal::Filter))
}

/// Why a rule cannot be served.
pub(crate) enum Refusal<'r> {
    /// A filter that cannot be applied.
    Filter(&'r Finding),
    /// A session that several backends share: which of them a client is at is chosen anew for each request.
    Split,
}

/// Filters that cannot be applied.
pub(crate) fn refused_filters(filters: &[Filter]) -> impl Iterator<Item = &Finding> {
    filters.iter().filter_map(|filter| match filter {
        Filter::Refused(finding) => Some(finding),
        Filter::RequestHeaders(_)
        | Filter::ResponseHeaders(_)
        | Filter::Redirect(_)
        | Filter::Rewrite(_)
        | Filter::Mirror(_)
        | Filter::Cors(_) => None,
    })
}

fn redirect(filters: &[Filter]) -> Option<&RedirectFact> {
    filters.iter().find_map(|filter| match filter {
        Filter::Redirect(redirect) => Some(redirect),
        Filter::RequestHeaders(_)
        | Filter::ResponseHeaders(_)
        | Filter::Rewrite(_)
        | Filter::Mirror(_)
        | Filter::Cors(_)
        | Filter::Refused(_) => None,
    })
}

fn header_modifiers(filters: &[Filter]) -> (HeaderModifier, HeaderModifier) {
    let (mut request, mut response) = (HeaderModifier::default(), HeaderModifier::default());
    for filter in filters {
        match filter {
            Filter::RequestHeaders(modifier) => request = modifier.clone(),
            Filter::ResponseHeaders(modifier) => response = modifier.clone(),
            Filter::Redirect(_) | Filter::Rewrite(_) | Filter::Mirror(_) | Filter::Cors(_) | Filter::Refused(_) => {}
        }
    }
    (request, response)
}

/// Decides the port that Location shows: the written one; else the well-known port of a written scheme; else the
/// port that the request came in on. A port that its scheme implies is not shown.
fn lower_redirect(redirect: &RedirectFact, entrance: &Entrance) -> ir::Redirect {
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

/// Names a rule by its route and, best of all, by the name that it has there: `HTTPRoute shop/cart rule 0` or
/// `HTTPRoute shop/cart rule "checkout"`.
pub(crate) fn rule_id(route: &RouteKey, rule: &RuleFact, index: usize) -> String {
    let rule = rule.name.as_ref().map_or_else(|| index.to_string(), |name| format!("{name:?}"));
    format!("{} {} rule {rule}", route.kind.kind(), route.name)
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
            lower_redirect(&redirect(scheme, port), &Entrance { port: listener, tls, origin: Origin::default() }).port
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
