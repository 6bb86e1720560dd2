//! Endpoint assignments: for every cluster that somebody references, the members its Service port has in all the
//! Service's slices, and what reports make of them. A cluster without members has an empty assignment, which is sent: it is the truth.

use crate::edges::Edges;
use crate::lookup::Rows;
use crate::names::{Backend, ClusterKey, TlsKey};
use crate::reports::{self, Candidate, Reports};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{EndpointFact, EndpointState, Name, NamespacedName, ReportFact, SliceFact};
use tidegate_xds::{Row, Variants, encode, ir};

/// What the assignments of one Service are made of. Wanted clusters sort first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum ServiceInput {
    Wanted(Backend),
    Slice(Arc<SliceFact>),
    Report(ReportFact),
}

/// Cluster and assignment of every wanted backend; `demands` are what policies demand of those that they are about.
pub(crate) fn assignments<'s>(
    edges: &Edges,
    wanted: Rows<'s, Backend>,
    demands: Rows<'s, (NamespacedName, Arc<ir::UpstreamTls>)>,
    slices: Rows<'s, Arc<SliceFact>>,
    reports: Rows<'s, ReportFact>,
) -> Rows<'s, Row> {
    let wanted = edges.carry("clusters that are wanted", wanted);
    let slices = edges.carry("slices to assignments", slices);
    let wanted_backends = wanted.clone();
    let wanted = wanted.map(|backend| (backend.cluster.service.clone(), ServiceInput::Wanted(backend)));
    let slices = slices.flat_map(|slice| slice.service.clone().map(|service| (service, ServiceInput::Slice(slice))));
    let reports = edges.carry("reports to assignments", reports);
    let reports = reports.map(|entry| (entry.service.clone(), ServiceInput::Report(entry)));
    // Apart from the reduction: a cluster does not depend on its endpoints.
    let plain = wanted_backends.clone().filter(|backend| backend.cluster.tls.is_none());
    let secured = wanted_backends.flat_map(|backend| Some((backend.cluster.tls.clone()?.policy, backend)));
    let secured = secured.arrange_by_key_named("clusters by policy").join_core(
        edges.carry("demands of policies", demands).arrange_by_key_named("demands of policies"),
        |_policy, backend, demand| Some(cluster(backend, Some(demand))),
    );
    let clusters = plain.map(|backend| cluster(&backend, None)).concat(secured);
    let inputs = wanted.concatenate([slices, reports]);
    let assignments = inputs.reduce_named("assignments by service", |_: &NamespacedName, input, output| {
        let (mut wanted, mut slices, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        for (input, _) in input {
            match input {
                ServiceInput::Wanted(backend) => wanted.push(backend),
                ServiceInput::Slice(slice) => slices.push(&**slice),
                ServiceInput::Report(entry) => entries.push(entry),
            }
        }
        let reports = Reports::of(entries);
        output.extend(wanted.into_iter().map(|backend| (endpoints(backend, &slices, &reports), 1)));
    });
    clusters.concat(assignments.map(|(_service, row)| row))
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

/// Its assignment.
pub(crate) fn endpoints(backend: &Backend, slices: &[&SliceFact], reports: &Reports<'_>) -> Row {
    let name = backend.cluster.name();
    let assignment = assignment(&name, backend, slices, reports);
    Row::Endpoints(name, Variants::any(encode::endpoints(&assignment)))
}

/// Whether a backend has a member that traffic can go to: one that is draining counts, since it is served while nothing
/// is ready.
pub(crate) fn is_usable(backend: &Backend, slices: &[&SliceFact]) -> bool {
    let has_port = |slice: &SliceFact| {
        slice.ports.iter().any(|p| p.name == backend.port_name && p.transport == backend.cluster.transport)
    };
    slices.iter().any(|slice| !slice.endpoints.is_empty() && has_port(slice))
}

/// The members of a Service port over all its slices: joined on the port's *name*, each address and port once.
fn assignment(cluster: &Name, backend: &Backend, slices: &[&SliceFact], reports: &Reports<'_>) -> ir::Assignment {
    let mut members: BTreeMap<(&Name, u16), &EndpointFact> = BTreeMap::new();
    for slice in slices {
        let ports =
            slice.ports.iter().filter(|p| p.name == backend.port_name && p.transport == backend.cluster.transport);
        for port in ports {
            for endpoint in &slice.endpoints {
                let member = members.entry((&endpoint.address, port.port)).or_insert(endpoint);
                // The same address in two slices during a rebalance: ready if one says so.
                *member = (*member).min(endpoint);
            }
        }
    }
    let any_ready = members.values().any(|endpoint| endpoint.state == EndpointState::Ready);
    let candidates = members.iter().map(|((_, port), endpoint)| Candidate {
        local: true,
        tier: 0,
        // While something is ready, a terminating endpoint only finishes what it has; removing it at once would reset
        // its requests. While nothing is, it is better than nobody.
        used: !any_ready || endpoint.state == EndpointState::Ready,
        standing: reports.standing(endpoint, *port),
    });
    let places = reports::places(&candidates.collect::<Vec<_>>());
    let mut localities: BTreeMap<(u32, Name), BTreeSet<ir::Endpoint>> = BTreeMap::new();
    for (((address, port), member), place) in members.into_iter().zip(places) {
        let endpoint = ir::Endpoint { address: address.clone(), port, draining: place.draining };
        let locality = (place.priority, member.zone.clone().unwrap_or_default());
        localities.entry(locality).or_default().insert(endpoint);
    }
    let localities = localities.into_iter().map(|((priority, zone), endpoints)| ir::Locality {
        region: Name::default(),
        zone,
        priority,
        endpoints: endpoints.into_iter().collect(),
    });
    ir::Assignment { cluster: cluster.clone(), localities: localities.collect() }
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
        let assignment = assignment(&"c".into(), &backend, slices, &Reports::default());
        let endpoints = assignment.localities.iter().flat_map(|l| &l.endpoints);
        endpoints.map(|e| format!("{}:{}{}", e.address, e.port, if e.draining { " draining" } else { "" })).collect()
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
