//! Backend references: found, resolved to a Service port.

use crate::edges::Edges;
use crate::lookup::{Rows, lookup};
use crate::names::{Backend, ClusterKey};
use crate::policies::{self, Holding, Security};
use crate::references::{Ask, not_permitted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    BackendRef, Filter, Kind, MirrorFact, Name, NamespacedName, Reason, RouteFact, RouteKey, RouteKind, ServiceFact,
    ServicePortFact, Transport, Upstream,
};

/// What a reference leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Resolution {
    /// A Service port.
    Found(Found),
    /// Nothing that traffic can go to.
    Failed(Reason, Name),
}

/// A Service port, and how it is to be reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Found {
    /// As it is without any policy.
    pub(crate) backend: Backend,
    pub(crate) security: Security,
    /// Whether some policy is about the Service, be it about another port.
    pub(crate) has_policies: bool,
}

/// One reference of one route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct BackendAsk {
    pub(crate) route: RouteKey,
    pub(crate) target: BackendRef,
}

/// The references of a route, each once. An invalid route has none: it is not served, and its status says why.
pub(crate) fn asks(route: &RouteFact) -> Vec<BackendAsk> {
    let backends = route.rules.iter().flat_map(|rule| &rule.backends).map(|backend| &backend.target);
    let mirrors = route.rules.iter().flat_map(|rule| mirrors(&rule.filters)).map(|(_, mirror)| &mirror.target);
    let mut targets: Vec<&BackendRef> = backends.chain(mirrors).collect();
    targets.sort();
    targets.dedup();
    targets.into_iter().map(|target| BackendAsk { route: route.key.clone(), target: target.clone() }).collect()
}

/// The mirrors among the filters, with their positions.
pub(crate) fn mirrors(filters: &[Filter]) -> impl Iterator<Item = (usize, &MirrorFact)> {
    filters.iter().enumerate().filter_map(|(index, filter)| match filter {
        Filter::Mirror(mirror) => Some((index, mirror)),
        Filter::RequestHeaders(_)
        | Filter::ResponseHeaders(_)
        | Filter::Redirect(_)
        | Filter::Rewrite(_)
        | Filter::Cors(_)
        | Filter::Refused(_) => None,
    })
}

/// Every reference, resolved.
pub(crate) fn resolutions<'s>(
    edges: &Edges,
    asks: Rows<'s, (BackendAsk, bool)>,
    services: Rows<'s, Arc<ServiceFact>>,
    holdings: Rows<'s, (NamespacedName, Arc<Holding>)>,
) -> Rows<'s, (RouteKey, (BackendRef, Resolution))> {
    let services = edges.carry("services to references", services);
    let by_service = asks.map(|(ask, permitted)| (ask.target.name.clone(), (ask, permitted)));
    let wanted = by_service.clone().map(|(service, _)| service);
    let named = services.map(|service| (service.name.clone(), ServicePart::Service(service)));
    let holdings = edges.carry("policies to references", holdings);
    let named = named.concat(holdings.map(|(service, holding)| (service, ServicePart::Holding(holding))));
    let states = lookup("services", wanted, named, ServiceState::of);
    by_service.arrange_by_key_named("backend asks by service").join_core(
        states.arrange_by_key_named("services"),
        |_service, (ask, permitted), service| {
            let resolution = resolve(ask, *permitted, service);
            Some((ask.route.clone(), (ask.target.clone(), resolution)))
        },
    )
}

/// What there is to know of a Service. The Service sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum ServicePart {
    Service(Arc<ServiceFact>),
    Holding(Arc<Holding>),
}

/// A Service, if it is there, and the policies that hold for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ServiceState {
    pub(crate) service: Option<Arc<ServiceFact>>,
    pub(crate) holding: Option<Arc<Holding>>,
}

impl ServiceState {
    fn of(parts: &[&ServicePart]) -> Self {
        let mut state = ServiceState::default();
        for part in parts {
            match part {
                ServicePart::Service(service) => state.service = Some(service.clone()),
                ServicePart::Holding(holding) => state.holding = Some(holding.clone()),
            }
        }
        state
    }
}

/// What a reference leads to. A missing permission is told before anything that would tell what exists there.
pub(crate) fn resolve(ask: &BackendAsk, permitted: bool, state: &ServiceState) -> Resolution {
    let failed = |reason, message: String| Resolution::Failed(reason, message.into());
    let BackendRef { group_kind, name, port } = &ask.target;
    if !group_kind.is(Kind::Service) {
        return failed(Reason::InvalidKind, format!("{group_kind} {name} is not a kind of backend; use a Service"));
    }
    if !permitted {
        return failed(Reason::RefNotPermitted, not_permitted(&Ask::Backend(ask.clone())));
    }
    let Some(service) = &state.service else {
        return failed(
            Reason::BackendNotFound,
            format!("Service {name} does not exist; create it, or correct the name"),
        );
    };
    if service.external_name.is_some() {
        let message = format!("Service {name} is of type ExternalName, which is no backend; use one with endpoints");
        return failed(Reason::BackendNotFound, message);
    }
    let Some(port) = port else {
        return failed(Reason::BackendNotFound, format!("the reference to Service {name} names no port; add one"));
    };
    let transport = ask.route.kind.transport();
    match service.ports.iter().find(|p| p.port == *port && p.transport == transport) {
        None => {
            let known = service.ports.iter().map(|p| format!("{} {}", p.transport, p.port));
            let known = known.collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "it has none".to_owned() } else { format!("use one of {known}") };
            failed(Reason::BackendNotFound, format!("Service {name} has no {transport} port {port}; {known}"))
        }
        Some(found) => {
            Resolution::Found(secured(service, found, spoken(ask.route.kind, found), state.holding.as_deref()))
        }
    }
}

/// What a backend is spoken to in: what its port says, but calls of gRPC are HTTP/2 whatever it says. What HTTP a backend
/// speaks matters to TCP alone.
fn spoken(kind: RouteKind, port: &ServicePortFact) -> Upstream {
    match kind {
        RouteKind::Http | RouteKind::Tls | RouteKind::Tcp => port.upstream,
        RouteKind::Grpc => Upstream::H2c,
        RouteKind::Udp => Upstream::Http1,
    }
}

fn backend(service: &ServiceFact, port: &ServicePortFact, upstream: Upstream) -> Backend {
    let service = service.name.clone();
    let cluster = ClusterKey { service, port: port.port, transport: port.transport, upstream, tls: None };
    Backend { cluster, port_name: port.name.clone() }
}

/// The port with what holds for it. Policies are about TLS, which datagrams know nothing of.
fn secured(service: &ServiceFact, port: &ServicePortFact, upstream: Upstream, holding: Option<&Holding>) -> Found {
    let holding = holding.filter(|_| port.transport == Transport::Tcp);
    Found {
        backend: backend(service, port, upstream),
        security: policies::security(holding, &port.name),
        has_policies: holding.is_some(),
    }
}

/// Every backend that a reference of an entry to the Service can lead to.
pub(crate) fn of_service(service: &ServiceFact, holding: Option<&Holding>) -> Vec<Found> {
    let mut seen = BTreeSet::new();
    let is_backend = |port: &&ServicePortFact| port.transport == Transport::Tcp && service.external_name.is_none();
    let ports = service.ports.iter().filter(is_backend).filter(|port| seen.insert(port.port));
    let spoken =
        |port: &ServicePortFact| BTreeSet::from([RouteKind::Http, RouteKind::Grpc].map(|kind| spoken(kind, port)));
    ports.flat_map(|port| spoken(port).into_iter().map(|upstream| secured(service, port, upstream, holding))).collect()
}
