//! Endpoint assignments: for every cluster that somebody references, the members its Service port has in all the
//! Service's slices. A cluster without members has an empty assignment, which is sent: it is the truth.

use crate::edges::Edges;
use crate::lookup::Rows;
use crate::names::{Backend, ClusterKey, TlsKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{EndpointState, Name, NamespacedName, SliceFact};
use tidegate_xds::{Row, Variants, encode, ir};

/// What the assignments of one Service are made of. Wanted clusters sort first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum ServiceInput {
    Wanted(Backend),
    Slice(Arc<SliceFact>),
}

/// Cluster and assignment of every wanted backend; `demands` are what policies demand of those that they are about.
pub(crate) fn assignments<'s>(
    edges: &Edges,
    wanted: Rows<'s, Backend>,
    demands: Rows<'s, (NamespacedName, Arc<ir::UpstreamTls>)>,
    slices: Rows<'s, Arc<SliceFact>>,
) -> Rows<'s, Row> {
    let wanted = edges.carry("clusters that are wanted", wanted);
    let slices = edges.carry("slices to assignments", slices);
    let wanted_backends = wanted.clone();
    let wanted = wanted.map(|backend| (backend.cluster.service.clone(), ServiceInput::Wanted(backend)));
    let slices = slices.flat_map(|slice| slice.service.clone().map(|service| (service, ServiceInput::Slice(slice))));
    // Apart from the reduction: a cluster does not depend on its endpoints.
    let plain = wanted_backends.clone().filter(|backend| backend.cluster.tls.is_none());
    let secured = wanted_backends.flat_map(|backend| Some((backend.cluster.tls.clone()?.policy, backend)));
    let secured = secured.arrange_by_key_named("clusters by policy").join_core(
        edges.carry("demands of policies", demands).arrange_by_key_named("demands of policies"),
        |_policy, backend, demand| Some(cluster(backend, Some(demand))),
    );
    let clusters = plain.map(|backend| cluster(&backend, None)).concat(secured);
    let assignments =
        wanted.concat(slices).reduce_named("assignments by service", |_: &NamespacedName, input, output| {
            let wanted = input.iter().filter_map(|(input, _)| match input {
                ServiceInput::Wanted(backend) => Some(backend),
                ServiceInput::Slice(_) => None,
            });
            let slices: Vec<&SliceFact> = input
                .iter()
                .filter_map(|(input, _)| match input {
                    ServiceInput::Wanted(_) => None,
                    ServiceInput::Slice(slice) => Some(&**slice),
                })
                .collect();
            for backend in wanted {
                output.push((endpoints(backend, &slices), 1));
            }
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
pub(crate) fn endpoints(backend: &Backend, slices: &[&SliceFact]) -> Row {
    let name = backend.cluster.name();
    let assignment = assignment(&name, backend, slices);
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
fn assignment(cluster: &Name, backend: &Backend, slices: &[&SliceFact]) -> ir::Assignment {
    let mut members: BTreeMap<(&Name, u16), (EndpointState, Option<&Name>)> = BTreeMap::new();
    for slice in slices {
        let ports =
            slice.ports.iter().filter(|p| p.name == backend.port_name && p.transport == backend.cluster.transport);
        for port in ports {
            for endpoint in &slice.endpoints {
                let found = (endpoint.state, endpoint.zone.as_ref());
                let member = members.entry((&endpoint.address, port.port)).or_insert(found);
                // The same address in two slices during a rebalance: ready if one says so.
                *member = (*member).min(found);
            }
        }
    }
    let any_ready = members.values().any(|(state, _)| *state == EndpointState::Ready);
    let mut zones: BTreeMap<Name, BTreeSet<ir::Endpoint>> = BTreeMap::new();
    for ((address, port), (state, zone)) in members {
        // While something is ready, a terminating endpoint only finishes what it has; removing it at once would reset
        // its requests. While nothing is, it is better than nobody.
        let draining = any_ready && state == EndpointState::Draining;
        let endpoint = ir::Endpoint { address: address.clone(), port, draining };
        zones.entry(zone.cloned().unwrap_or_default()).or_default().insert(endpoint);
    }
    let localities = zones.into_iter().map(|(zone, endpoints)| ir::Locality {
        region: Name::default(),
        zone,
        priority: 0,
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
        let assignment = assignment(&"c".into(), &backend, slices);
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
