//! The oracle of what clients see: the assignment of one client, in loops over all endpoints. It knows of no forms for
//! others, and nothing of what decides between them.

use crate::names::without_tls;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{
    EndpointState, Fact, Locality, Name, NodeFact, ReportedEndpoint, ReportedState, ServiceFact, SliceFact, TargetUid,
    TrafficDistribution, Transport,
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

    type Found<'f> = (EndpointState, Option<&'f Name>, Option<&'f Name>, Option<TargetUid>);
    let mut members: BTreeMap<(&Name, u16), Found<'_>> = BTreeMap::new();
    for slice in slices(facts).filter(|slice| slice.service.as_ref() == Some(&service.name)) {
        for slice_port in slice.ports.iter().filter(|p| p.name == port.name && p.transport == transport) {
            for endpoint in &slice.endpoints {
                let found = (endpoint.state, endpoint.zone.as_ref(), endpoint.node.as_ref(), endpoint.target);
                let member = members.entry((&endpoint.address, slice_port.port)).or_insert(found);
                *member = (*member).min(found);
            }
        }
    }
    let any_ready = members.values().any(|(state, ..)| *state == EndpointState::Ready);
    let mut placed: Vec<Placed> = members
        .into_iter()
        .map(|((address, port), (state, zone, node, target))| {
            let draining = any_ready && state == EndpointState::Draining;
            let there = whereabouts(facts, service, zone, node);
            let tier = tier(service.distribution, &client, &there);
            let said = said(facts, service, address, target, port);
            Placed { endpoint: ir::Endpoint { address: address.clone(), port, draining }, there, tier, said }
        })
        .collect();
    // One that is local and unhealthy drains, if there is another one.
    let is_good = |placed: &Placed| !placed.endpoint.draining && placed.said < UNHEALTHY;
    if placed.iter().any(is_good) {
        placed
            .iter_mut()
            .filter(|one| one.tier == 0 && one.said == UNHEALTHY)
            .for_each(|one| one.endpoint.draining = true);
    }
    let localities = placed.iter().map(|Placed { endpoint, there, tier, said }| {
        let order = |tier: usize, said: u8| if tier == 0 { (0, 0) } else { (1 + said, tier) };
        let before: BTreeSet<_> = placed.iter().map(|other| order(other.tier, other.said)).collect();
        let before = before.into_iter().filter(|other| *other < order(*tier, *said));
        let priority = u32::try_from(before.count()).expect("there are few tiers");
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

/// An endpoint as one client sees it.
struct Placed {
    endpoint: ir::Endpoint,
    there: Locality,
    tier: usize,
    said: u8,
}

/// What [`said`] says of an endpoint that is unhealthy.
const UNHEALTHY: u8 = 2;

/// 0 if nothing is said against an endpoint, 1 if all that was said has expired, 2 if it is unhealthy.
fn said(facts: &BTreeSet<Fact>, service: &ServiceFact, address: &Name, target: Option<TargetUid>, port: u16) -> u8 {
    let mut states = BTreeSet::new();
    for fact in facts {
        let Fact::Report(entry) = fact else { continue };
        let is_it = match &entry.endpoint {
            ReportedEndpoint::Target(uid) => target == Some(*uid),
            ReportedEndpoint::Address(other) => other == address,
        };
        if entry.service == service.name && is_it && entry.port.unwrap_or(port) == port {
            states.insert(entry.state);
        }
    }
    if states.contains(&ReportedState::Unhealthy) {
        UNHEALTHY
    } else {
        u8::from(states.into_iter().eq([ReportedState::Expired]))
    }
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
