//! Endpoint assignments: for every cluster that somebody references, the members its Service port has in all the
//! Service's slices, and what reports say of them. A cluster without members has an empty assignment, which is sent: it is
//! the truth.
//!
//! Where a member is matters where the Service has a traffic distribution: then, and only then, its Nodes are looked up.

use crate::edges::Edges;
use crate::lookup::Rows;
use crate::names::{Backend, ClusterKey, TlsKey};
use crate::reports::Reports;
use crate::variants::{Member, variants};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{
    EndpointState, Locality, Name, NamespacedName, NodeFact, ReportFact, ServiceFact, SliceFact, TargetUid,
    TrafficDistribution,
};
use tidegate_xds::{Row, Variants, encode, ir};

/// What the assignments of one Service are made of. Wanted clusters sort first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum ServiceInput {
    Wanted(Backend),
    /// That of the Service, if it has one.
    Distribution(TrafficDistribution),
    /// A Node that members run on.
    Node(Arc<NodeFact>),
    Slice(Arc<SliceFact>),
    /// What is said of one of its endpoints.
    Report(ReportFact),
}

/// The same, sorted out.
#[derive(Default)]
pub(crate) struct ServiceParts<'i> {
    wanted: Vec<&'i Backend>,
    distribution: TrafficDistribution,
    nodes: BTreeMap<&'i Name, &'i NodeFact>,
    slices: Vec<&'i SliceFact>,
    reports: Reports<'i>,
}

impl<'i> ServiceParts<'i> {
    pub(crate) fn gather(inputs: impl Iterator<Item = &'i ServiceInput>) -> Self {
        let mut parts = ServiceParts::default();
        for input in inputs {
            match input {
                ServiceInput::Wanted(backend) => parts.wanted.push(backend),
                ServiceInput::Distribution(distribution) => parts.distribution = *distribution,
                ServiceInput::Node(node) => drop(parts.nodes.insert(&node.name, node)),
                ServiceInput::Slice(slice) => parts.slices.push(slice),
                ServiceInput::Report(entry) => parts.reports.add(entry),
            }
        }
        parts
    }

    /// The assignment of every cluster that is wanted.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.wanted.iter().map(|backend| {
            let name = backend.cluster.name();
            let members = members(backend, &self.slices, &self.nodes, &self.reports);
            let forms = variants(&name, &members, self.distribution, encode::endpoints);
            Row::Endpoints(name, forms)
        })
    }
}

/// The traffic distribution of a Service that has one.
pub(crate) fn distribution(service: &ServiceFact) -> Option<(NamespacedName, TrafficDistribution)> {
    let prefers = service.distribution != TrafficDistribution::Any;
    prefers.then(|| (service.name.clone(), service.distribution))
}

/// What all assignments are made of.
pub(crate) struct Sources<'s> {
    pub(crate) wanted: Rows<'s, Backend>,
    /// What policies demand of those that they are about.
    pub(crate) demands: Rows<'s, (NamespacedName, Arc<ir::UpstreamTls>)>,
    pub(crate) services: Rows<'s, Arc<ServiceFact>>,
    pub(crate) slices: Rows<'s, Arc<SliceFact>>,
    pub(crate) nodes: Rows<'s, Arc<NodeFact>>,
    pub(crate) reports: Rows<'s, ReportFact>,
}

impl<'s> Sources<'s> {
    /// Cluster and assignment of every wanted backend, and where the Nodes are that clients may name.
    pub(crate) fn rows(self, edges: &Edges) -> Rows<'s, Row> {
        let Sources { wanted, demands, services, slices, nodes, reports } = self;
        let wanted = edges.carry("clusters that are wanted", wanted);
        let places = edges.carry("Nodes to clients", nodes.clone());
        let places = places.map(|node| Row::KubeNode(node.name.clone(), node.locality.clone()));
        let slices = slices.flat_map(|slice| slice.service.clone().map(|service| (service, slice)));
        let distributions = services.flat_map(|service| distribution(&service));
        let nodes = nodes_of_services(edges, distributions.clone(), slices.clone(), nodes);
        let distributions = edges.carry("traffic distributions to assignments", distributions);
        let slices = edges.carry("slices to assignments", slices);
        let reports = edges.carry("reports to assignments", reports);
        let inputs = wanted
            .clone()
            .map(|backend| (backend.cluster.service.clone(), ServiceInput::Wanted(backend)))
            .concatenate([
                distributions.map(|(service, distribution)| (service, ServiceInput::Distribution(distribution))),
                nodes,
                slices.map(|(service, slice)| (service, ServiceInput::Slice(slice))),
                reports.map(|entry| (entry.service.clone(), ServiceInput::Report(entry))),
            ]);
        let assignments = inputs.reduce_named("assignments by service", |_: &NamespacedName, input, output| {
            let parts = ServiceParts::gather(input.iter().map(|(input, _)| *input));
            output.extend(parts.rows().map(|row| (row, 1)));
        });
        places.concatenate([clusters(edges, wanted, demands), assignments.map(|(_service, row)| row)])
    }
}

/// The Nodes that members of each Service run on which has a traffic distribution.
fn nodes_of_services<'s>(
    edges: &Edges,
    distributions: Rows<'s, (NamespacedName, TrafficDistribution)>,
    slices: Rows<'s, (NamespacedName, Arc<SliceFact>)>,
    nodes: Rows<'s, Arc<NodeFact>>,
) -> Rows<'s, (NamespacedName, ServiceInput)> {
    let distributions = edges.carry("traffic distributions to Nodes", distributions);
    let slices = edges.carry("slices to Nodes", slices);
    let nodes = edges.carry("Nodes to assignments", nodes).map(|node| (node.name.clone(), node));
    let wanted = slices.arrange_by_key_named("slices by service").join_core(
        distributions.arrange_by_key_named("traffic distributions"),
        |service, slice, _distribution| {
            let named: BTreeSet<Name> = slice.endpoints.iter().filter_map(|endpoint| endpoint.node.clone()).collect();
            named.into_iter().map(|node| (node, service.clone())).collect::<Vec<_>>()
        },
    );
    wanted
        .arrange_by_key_named("services by Node")
        .join_core(nodes.arrange_by_key_named("Nodes"), |_node, service, fact| {
            Some((service.clone(), ServiceInput::Node(fact.clone())))
        })
}

/// The cluster of every wanted backend. Apart from the reduction: a cluster does not depend on its endpoints.
fn clusters<'s>(
    edges: &Edges,
    wanted: Rows<'s, Backend>,
    demands: Rows<'s, (NamespacedName, Arc<ir::UpstreamTls>)>,
) -> Rows<'s, Row> {
    let plain = wanted.clone().filter(|backend| backend.cluster.tls.is_none());
    let secured = wanted.flat_map(|backend| Some((backend.cluster.tls.clone()?.policy, backend)));
    let secured = secured.arrange_by_key_named("clusters by policy").join_core(
        edges.carry("demands of policies", demands).arrange_by_key_named("demands of policies"),
        |_policy, backend, demand| Some(cluster(backend, Some(demand))),
    );
    plain.map(|backend| cluster(&backend, None)).concat(secured)
}

/// The cluster of a backend, with what the policy demands that is about it.
pub(crate) fn cluster(backend: &Backend, demand: Option<&ir::UpstreamTls>) -> Row {
    let name = backend.cluster.name();
    let ClusterKey { transport, upstream, tls, .. } = &backend.cluster;
    let client = tls.as_ref().and_then(|TlsKey { client, .. }| client.as_ref());
    let certificate = client.map(|client| client.secret.clone());
    let tls = demand.map(|demand| ir::UpstreamTls { certificate, ..demand.clone() });
    let cluster = ir::Cluster { name: name.clone(), transport: *transport, upstream: *upstream, tls };
    Row::Cluster(name, Variants::any(encode::cluster(&cluster)))
}

/// Whether a backend has a member that traffic can go to: one that is draining counts, since it is served while nothing
/// is ready.
pub(crate) fn is_usable(backend: &Backend, slices: &[&SliceFact]) -> bool {
    let has_port = |slice: &SliceFact| {
        slice.ports.iter().any(|p| p.name == backend.port_name && p.transport == backend.cluster.transport)
    };
    slices.iter().any(|slice| !slice.endpoints.is_empty() && has_port(slice))
}

/// The members of a Service port over all its slices, sorted: joined on the port's *name*, each address and port once.
fn members(
    backend: &Backend,
    slices: &[&SliceFact],
    nodes: &BTreeMap<&Name, &NodeFact>,
    reports: &Reports<'_>,
) -> Vec<Member> {
    type Found<'a> = (EndpointState, Option<&'a Name>, Option<&'a Name>, Option<TargetUid>);
    let mut members: BTreeMap<(&Name, u16), Found<'_>> = BTreeMap::new();
    for slice in slices {
        let ports =
            slice.ports.iter().filter(|p| p.name == backend.port_name && p.transport == backend.cluster.transport);
        for port in ports {
            for endpoint in &slice.endpoints {
                let found = (endpoint.state, endpoint.zone.as_ref(), endpoint.node.as_ref(), endpoint.target);
                let member = members.entry((&endpoint.address, port.port)).or_insert(found);
                // The same address in two slices during a rebalance: ready if one says so.
                *member = (*member).min(found);
            }
        }
    }
    let any_ready = members.values().any(|(state, ..)| *state == EndpointState::Ready);
    let unknown = Locality::default();
    let member = |((address, port), (state, zone, node, target)): ((&Name, u16), Found<'_>)| Member {
        address: address.clone(),
        port,
        locality: locality(zone, node, nodes, &unknown),
        // While something is ready, a terminating endpoint only finishes what it has; removing it at once would reset
        // its requests. While nothing is, it is better than nobody.
        draining: any_ready && state == EndpointState::Draining,
        standing: reports.standing(address, target, port),
    };
    members.into_iter().map(member).collect()
}

/// Where a member is: what the labels of its Node say, and what its slice says where they say nothing.
fn locality(
    zone: Option<&Name>,
    node: Option<&Name>,
    nodes: &BTreeMap<&Name, &NodeFact>,
    unknown: &Locality,
) -> Locality {
    let mut said = unknown.clone();
    said.zone = zone.cloned().unwrap_or(said.zone);
    said.host = node.cloned().unwrap_or(said.host);
    match node.and_then(|node| nodes.get(node)) {
        Some(node) => node.locality.or(&said),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::{EndpointFact, SlicePortFact, Transport, Upstream};

    fn slice(name: &str, ports: &[(&str, u16)], endpoints: &[(&str, EndpointState)]) -> SliceFact {
        SliceFact {
            name: NamespacedName::new("shop", name),
            service: Some(NamespacedName::parse("shop/cart")),
            ports: ports
                .iter()
                .map(|(name, port)| SlicePortFact { name: (*name).into(), port: *port, transport: Transport::Tcp })
                .collect(),
            endpoints: endpoints
                .iter()
                .map(|(address, state)| EndpointFact {
                    address: (*address).into(),
                    state: *state,
                    node: None,
                    zone: None,
                    target: None,
                })
                .collect(),
        }
    }

    fn members(port_name: &str, slices: &[&SliceFact]) -> Vec<String> {
        let backend = Backend {
            cluster: ClusterKey {
                service: NamespacedName::parse("shop/cart"),
                port: 80,
                transport: Transport::Tcp,
                upstream: Upstream::Http1,
                tls: None,
            },
            port_name: port_name.into(),
        };
        let members = super::members(&backend, slices, &BTreeMap::new(), &Reports::default());
        let text = |m: &Member| format!("{}:{}{}", m.address, m.port, if m.draining { " draining" } else { "" });
        members.iter().map(text).collect()
    }

    use EndpointState::{Draining, Ready};

    #[test]
    fn each_port_has_its_own_members_joined_by_name() {
        let slice = slice("s", &[("a", 8080), ("b", 8081)], &[("10.0.0.1", Ready)]);
        assert_eq!(members("a", &[&slice]), ["10.0.0.1:8080"]);
        assert_eq!(members("b", &[&slice]), ["10.0.0.1:8081"]);
        assert_eq!(members("web", &[&slice]), Vec::<String>::new());
    }

    #[test]
    fn an_address_in_two_slices_is_one_member() {
        let one = slice("s1", &[("", 8080)], &[("10.0.0.1", Draining)]);
        let two = slice("s2", &[("", 8080)], &[("10.0.0.1", Ready), ("10.0.0.2", Ready)]);
        assert_eq!(members("", &[&one, &two]), ["10.0.0.1:8080", "10.0.0.2:8080"]);
    }

    #[test]
    fn draining_endpoints_serve_only_while_nothing_is_ready() {
        let old = slice("s1", &[("", 8080)], &[("10.0.0.1", Draining)]);
        let new = slice("s2", &[("", 8080)], &[("10.0.0.2", Ready)]);
        assert_eq!(members("", &[&old]), ["10.0.0.1:8080"]);
        assert_eq!(members("", &[&old, &new]), ["10.0.0.1:8080 draining", "10.0.0.2:8080"]);
    }
}
