//! The oracle of what clients see: the assignment of one client, in loops over all endpoints. It knows of no forms for
//! others, and nothing of what decides between them.

use crate::names::without_tls;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{
    EndpointState, Fact, Locality, Name, NodeFact, ServiceFact, SliceFact, TrafficDistribution, Transport,
};
use tidegate_xds::{Resource, encode, ir};

/// The assignment of a cluster as the client gets it that says that it runs there, with the name of its Node for a host.
/// None if there is no such Service port.
#[must_use]
pub fn seen_from(facts: &BTreeSet<Fact>, cluster: &Name, stated: &Locality) -> Option<Resource> {
    let plain = without_tls(cluster);
    let (name, transport) = match plain.split_once('~') {
        Some((name, "udp")) => (name, Transport::Udp),
        Some((name, _)) => (name, Transport::Tcp),
        None => (&*plain, Transport::Tcp),
    };
    let (service, port) = name.rsplit_once('/')?;
    let mut services = facts.iter().filter_map(|fact| if let Fact::Service(found) = fact { Some(found) } else { None });
    let service = services.find(|found| found.name.as_str() == service)?;
    let is_port = |number: u16| number.to_string() == port;
    let port = service.ports.iter().find(|found| is_port(found.port) && found.transport == transport)?;
    let client = node(facts, &stated.host).map_or_else(|| stated.clone(), |node| node.locality.or(stated));

    let mut members: BTreeMap<(&Name, u16), (EndpointState, Option<&Name>, Option<&Name>)> = BTreeMap::new();
    for slice in slices(facts).filter(|slice| slice.service.as_ref() == Some(&service.name)) {
        for slice_port in slice.ports.iter().filter(|p| p.name == port.name && p.transport == transport) {
            for endpoint in &slice.endpoints {
                let found = (endpoint.state, endpoint.zone.as_ref(), endpoint.node.as_ref());
                let member = members.entry((&endpoint.address, slice_port.port)).or_insert(found);
                *member = (*member).min(found);
            }
        }
    }
    let any_ready = members.values().any(|(state, ..)| *state == EndpointState::Ready);
    let placed: Vec<(ir::Endpoint, Locality, usize)> = members
        .into_iter()
        .map(|((address, port), (state, zone, node))| {
            let draining = any_ready && state == EndpointState::Draining;
            let there = whereabouts(facts, service, zone, node);
            let tier = tier(service.distribution, &client, &there);
            (ir::Endpoint { address: address.clone(), port, draining }, there, tier)
        })
        .collect();
    let localities = placed.iter().map(|(endpoint, there, tier)| {
        let nearer: BTreeSet<usize> = placed.iter().map(|(_, _, other)| *other).filter(|other| other < tier).collect();
        let priority = u32::try_from(nearer.len()).expect("there are few tiers");
        let Locality { region, zone, sub_zone, .. } = there.clone();
        ((region, zone, sub_zone, priority), endpoint.clone())
    });
    let mut together: BTreeMap<(Name, Name, Name, u32), Vec<ir::Endpoint>> = BTreeMap::new();
    for (key, endpoint) in localities {
        together.entry(key).or_default().push(endpoint);
    }
    let localities = together.into_iter().map(|((region, zone, sub_zone, priority), endpoints)| ir::Locality {
        region,
        zone,
        sub_zone,
        priority,
        endpoints,
    });
    Some(encode::endpoints(&ir::Assignment { cluster: cluster.clone(), localities: localities.collect() }))
}

/// How far an endpoint is: of the levels that matter, in their order, those from the first on in which it differs.
fn tier(distribution: TrafficDistribution, client: &Locality, endpoint: &Locality) -> usize {
    type Level = fn(&Locality) -> &Name;
    let levels: &[Level] = match distribution {
        TrafficDistribution::Any => &[],
        TrafficDistribution::Network => &[|at| &at.network],
        TrafficDistribution::Zone => &[|at| &at.network, |at| &at.region, |at| &at.zone],
        TrafficDistribution::Host => {
            &[|at| &at.network, |at| &at.region, |at| &at.zone, |at| &at.sub_zone, |at| &at.host]
        }
    };
    let differs = levels.iter().position(|level| level(client) != level(endpoint));
    differs.map_or(0, |first| levels.len() - first)
}

/// Where an endpoint is. Without a distribution only what its slice says is of interest.
fn whereabouts(facts: &BTreeSet<Fact>, service: &ServiceFact, zone: Option<&Name>, name: Option<&Name>) -> Locality {
    let (zone, host) = (zone.cloned().unwrap_or_default(), name.cloned().unwrap_or_default());
    let said = Locality { zone, host, ..Locality::default() };
    match name.and_then(|name| node(facts, name)) {
        Some(node) if service.distribution != TrafficDistribution::Any => node.locality.or(&said),
        Some(_) | None => said,
    }
}

fn node<'f>(facts: &'f BTreeSet<Fact>, name: &Name) -> Option<&'f NodeFact> {
    let mut nodes = facts.iter().filter_map(|fact| if let Fact::Node(node) = fact { Some(&**node) } else { None });
    nodes.find(|node| node.name == *name)
}

fn slices(facts: &BTreeSet<Fact>) -> impl Iterator<Item = &SliceFact> {
    facts.iter().filter_map(|fact| if let Fact::Slice(slice) = fact { Some(&**slice) } else { None })
}
