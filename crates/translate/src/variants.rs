//! The forms of an assignment: which of its members a client prefers, by where it is.
//!
//! The members that a client shares more of the first levels of its locality with come first; how many levels matter says
//! the Service's traffic distribution. So a client is told apart only as far as its locality goes along with that of some
//! member: there is a form for every such beginning, unless it says what that of a shorter one says, and one for everybody
//! else. All members are in every form: nobody is left without because those that are near are gone.

use crate::reports::{self, Candidate, Place, Standing};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{Locality, LocalityPrefix, Name, TrafficDistribution};
use tidegate_xds::{Resource, Variants, ir};

/// A member of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) address: Name,
    pub(crate) port: u16,
    pub(crate) locality: Locality,
    /// It only finishes what it has.
    pub(crate) draining: bool,
    /// What reports say of it.
    pub(crate) standing: Standing,
}

/// Every form of the assignment, each encoded once.
pub(crate) fn variants(
    cluster: &Name,
    members: &[Member],
    distribution: TrafficDistribution,
    mut encode: impl FnMut(&ir::Assignment) -> Resource,
) -> Variants {
    let depth = distribution.depth();
    let mut encoded = |views: &[Place]| encode(&assignment(cluster, members, views));
    let elsewhere = views(members, depth, None);
    let any = encoded(&elsewhere);
    if depth == 0 {
        return Variants::any(any);
    }
    let mut forms: BTreeMap<LocalityPrefix, Vec<Place>> = BTreeMap::new();
    // Wider ones first: whether a narrower one differs is asked of those that there are.
    for depth_of_prefix in 1..=depth {
        let prefixes: BTreeSet<LocalityPrefix> =
            members.iter().map(|member| member.locality.prefix(depth_of_prefix)).collect();
        for prefix in prefixes {
            let seen = views(members, depth, Some(&prefix));
            let wider = prefix.wider().find_map(|wider| forms.get(&wider)).unwrap_or(&elsewhere);
            if seen != *wider {
                forms.insert(prefix, seen);
            }
        }
    }
    Variants::by_locality(any, forms.into_iter().map(|(prefix, views)| (prefix, encoded(&views))))
}

/// What is said of each member to the clients in `from` that are in no narrower place where members are; none: that are
/// where no members are.
fn views(members: &[Member], depth: usize, from: Option<&LocalityPrefix>) -> Vec<Place> {
    let candidate = |member: &Member| {
        // The levels that it is away; none is local.
        let tier = depth - from.map_or(0, |prefix| prefix.common(&member.locality));
        Candidate { local: tier == 0, tier, used: !member.draining, standing: member.standing }
    };
    reports::places(&members.iter().map(candidate).collect::<Vec<_>>())
}

fn assignment(cluster: &Name, members: &[Member], views: &[Place]) -> ir::Assignment {
    let mut groups: BTreeMap<(&Name, &Name, &Name, u32), Vec<ir::Endpoint>> = BTreeMap::new();
    for (member, view) in members.iter().zip(views) {
        let Locality { region, zone, sub_zone, .. } = &member.locality;
        let endpoint = ir::Endpoint { address: member.address.clone(), port: member.port, draining: view.draining };
        groups.entry((region, zone, sub_zone, view.priority)).or_default().push(endpoint);
    }
    let localities = groups.into_iter().map(|((region, zone, sub_zone, priority), endpoints)| ir::Locality {
        region: region.clone(),
        zone: zone.clone(),
        sub_zone: sub_zone.clone(),
        priority,
        endpoints,
    });
    ir::Assignment { cluster: cluster.clone(), localities: localities.collect() }
}

#[cfg(test)]
mod tests;
