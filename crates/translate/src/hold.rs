//! Retarget hold: an entry that changes its target keeps its previous form until what it shall go to has a usable
//! endpoint, or a bound ends. The one stage that remembers: what it gives depends on what it gave before.
//!
//! Kubernetes orders nothing across objects: a route may arrive before the Service that it names, and a Service before
//! its endpoints. The truth in between is 500 or 503. Who prefers the previous target for some seconds asks for a hold.
//!
//! *What is one entry*: the same name (route, rule, match) in the same virtual host, applied to the same requests. An
//! entry that begins to match something else is a new one, and a new one is never held: it has no previous form.
//!
//! *What is held*: an entry whose new form names a cluster that the previous one did not and that is not usable, while
//! each cluster of the previous form still exists, the route may still refer to it, and it is reached as policies and the
//! Gateway now want it: nothing goes on in plaintext that is to be encrypted. Nothing else ever is: no entry
//! that only changes its filters or weights, none whose target goes away or loses its endpoints, none at a cold start.
//!
//! *How long*: from the first change on, however often the target changes meanwhile. A change back ends it.

use crate::backends::{BackendAsk, Found};
use crate::names::{Backend, ClusterKey, HostKey, without_tls};
use crate::origin::Origin;
use crate::rank::Ranked;
use crate::references::{Ask, GrantKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{BackendRef, Held, Hostname, Kind, Millis, Name, NamespacedName, RouteKey};
use tidegate_xds::encode;
use tidegate_xds::row::EncodedEntry;

mod operator;

mod status;

pub(crate) use operator::{Clock, Sources, outputs};
pub(crate) use status::{route_statuses, with_held};

/// What a hold depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum HoldInput {
    /// When the batch was taken.
    Clock(Millis),
    /// A backend that exists, and whether it is usable.
    Backend(Found, bool),
    /// A grant: what a route may refer to in another namespace.
    Grant(GrantKey, Option<Name>),
    /// A route's own bound.
    Bound(RouteKey, Millis),
    /// An entry as its route wants it, and the hostname of its listener.
    Desired(RouteKey, HostKey, Hostname, Arc<Ranked>),
}

/// What is published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum HoldOutput {
    /// An entry of a virtual host, as wanted or as it was.
    Entry(HostKey, Hostname, Arc<Ranked>),
    /// A Gateway's table names a cluster.
    Uses(NamespacedName, Backend),
    /// An entry is held.
    Held(Arc<Held>),
}

/// What is the same entry from epoch to epoch, if it applies to the same requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryKey {
    pub(crate) host: HostKey,
    pub(crate) listener_host: Hostname,
    pub(crate) entry: Name,
}

/// What is known besides entries.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// When the batch was taken.
    pub(crate) now: Millis,
    /// The bound of routes without their own.
    pub(crate) bound: Millis,
    pub(crate) bounds: BTreeMap<RouteKey, Millis>,
    /// Backends that exist by the name of their cluster without TLS, and whether they are usable.
    pub(crate) backends: BTreeMap<Name, (Found, bool)>,
    pub(crate) grants: BTreeSet<(GrantKey, Option<Name>)>,
}

impl World {
    fn is_usable(&self, cluster: &Name) -> bool {
        self.backends.get(&without_tls(cluster)).is_some_and(|(_, usable)| *usable)
    }

    /// The backend of the cluster, if it exists, the route may refer to it and it is reached so now: never in plaintext
    /// where there shall be TLS, and never as somebody else.
    fn permitted(&self, route: &RouteKey, origin: &Origin, cluster: &Name) -> Option<Backend> {
        let (Found { backend, security, .. }, _) = self.backends.get(&without_tls(cluster))?;
        let backend = origin.reach(backend, security).filter(|backend| backend.cluster.name() == *cluster)?;
        let ClusterKey { service, port, .. } = &backend.cluster;
        let target = BackendRef { group_kind: Kind::Service.into(), name: service.clone(), port: Some(*port) };
        let ask = Ask::Backend(BackendAsk { route: route.clone(), target });
        let is_filed = |name: Option<Name>| self.grants.contains(&(ask.grant_key(), name));
        let permitted = !ask.needs_grant() || is_filed(None) || is_filed(Some(service.name().into()));
        permitted.then_some(backend)
    }
}

/// What stood there before, and since when it is held if it was.
pub(crate) type Previous = (EncodedEntry, Option<Millis>);

/// A hold: what goes on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) previous: EncodedEntry,
    /// The backends of its clusters, as they are now.
    pub(crate) uses: Vec<Backend>,
    pub(crate) waits_for: Vec<Name>,
    pub(crate) since: Millis,
    pub(crate) until: Millis,
}

/// Whether `desired` has to wait behind what stands there. A pure function of what stands, what is wanted and the world.
pub(crate) fn decide(world: &World, route: &RouteKey, previous: &Previous, desired: &Ranked) -> Option<Hold> {
    let (previous, since) = previous;
    let Ranked { entry: desired, origin, .. } = desired;
    let is_new = |cluster: &&Name| !previous.clusters.contains(cluster);
    let waits_for: Vec<Name> =
        desired.clusters.iter().filter(is_new).filter(|cluster| !world.is_usable(cluster)).cloned().collect();
    if waits_for.is_empty() || previous.clusters.is_empty() {
        return None;
    }
    let since = since.unwrap_or(world.now);
    let until = since.saturating_add(world.bounds.get(route).copied().unwrap_or(world.bound));
    if until <= world.now {
        return None;
    }
    let uses: Option<Vec<Backend>> =
        previous.clusters.iter().map(|cluster| world.permitted(route, origin, cluster)).collect();
    let hold = Hold { previous: previous.clone(), uses: uses?, waits_for, since, until };
    encode::matches_the_same(previous, desired).then_some(hold)
}

/// One entry: what its route wants, and what it is held back by.
#[derive(Debug)]
struct Slot {
    route: RouteKey,
    /// With multiplicities. More than one only where two rules of a route have one name; they are not held.
    desired: Vec<(Arc<Ranked>, isize)>,
    hold: Option<Hold>,
}

impl Slot {
    /// What the next step takes for what stands there.
    fn previous(&self) -> Option<Previous> {
        match (&self.hold, self.desired.as_slice()) {
            (Some(hold), _) => Some((hold.previous.clone(), Some(hold.since))),
            (None, [(only, 1)]) => Some((only.entry.clone(), None)),
            (None, _) => None,
        }
    }

    fn outputs(&self, key: &EntryKey) -> Vec<(HoldOutput, isize)> {
        let mut outputs = Vec::new();
        for (ranked, count) in &self.desired {
            let (ranked, held) = match &self.hold {
                None => (Arc::clone(ranked), None),
                Some(hold) => (hold.ranked(ranked), Some(hold.held(&self.route, key))),
            };
            let uses = ranked.uses.iter().map(|backend| HoldOutput::Uses(key.host.gateway.clone(), backend.clone()));
            outputs.extend(uses.map(|used| (used, *count)));
            outputs.push((HoldOutput::Entry(key.host.clone(), key.listener_host.clone(), ranked), *count));
            outputs.extend(held.map(|held| (HoldOutput::Held(Arc::new(held)), *count)));
        }
        outputs
    }
}

impl Hold {
    /// The entry that is published: the previous form, in the place that the route wants now.
    pub(crate) fn ranked(&self, desired: &Ranked) -> Arc<Ranked> {
        let rank = desired.rank.clone();
        let (entry, uses) = (self.previous.clone(), self.uses.clone());
        Arc::new(Ranked { rank, entry, uses, origin: desired.origin.clone() })
    }

    /// What is said about it.
    pub(crate) fn held(&self, route: &RouteKey, key: &EntryKey) -> Held {
        Held {
            object: route.object(),
            gateway: key.host.gateway.clone(),
            table: key.host.table.clone(),
            host: key.host.host.clone(),
            entry: key.entry.clone(),
            keeps: self.previous.clusters.clone(),
            waits_for: self.waits_for.clone(),
            since: self.since,
            until: self.until,
        }
    }
}

/// Everything that is remembered.
#[derive(Debug, Default)]
pub(crate) struct State {
    world: World,
    slots: BTreeMap<EntryKey, Slot>,
    /// The slots that are held: looked at again at every step.
    held: BTreeSet<EntryKey>,
}

/// How the wishes for one entry change.
type Wishes = BTreeMap<EntryKey, (RouteKey, Vec<(Arc<Ranked>, isize)>)>;

impl State {
    /// A state before the first epoch.
    pub(crate) fn new(bound: Millis) -> Self {
        State { world: World { bound, ..World::default() }, ..State::default() }
    }

    /// One epoch: how what is published changes. Costs what changes, and what is held.
    pub(crate) fn step(&mut self, mut updates: Vec<(HoldInput, isize)>) -> Vec<(HoldOutput, isize)> {
        differential_dataflow::consolidation::consolidate(&mut updates);
        // What goes first, so that of a replaced row the new one stays.
        updates.sort_by_key(|(_, diff)| *diff);
        let mut wishes = Wishes::new();
        for (input, diff) in updates {
            self.note(input, diff, &mut wishes);
        }
        for key in &self.held {
            if !wishes.contains_key(key) {
                wishes.insert(key.clone(), (self.slots[key].route.clone(), Vec::new()));
            }
        }
        let mut outputs = Vec::new();
        for (key, (route, changes)) in wishes {
            self.turn(key, route, changes, &mut outputs);
        }
        outputs
    }

    fn note(&mut self, input: HoldInput, diff: isize, wishes: &mut Wishes) {
        let World { now, bounds, backends, grants, .. } = &mut self.world;
        let come = diff > 0;
        match input {
            HoldInput::Clock(millis) => *now = millis,
            HoldInput::Backend(found, usable) => {
                put(backends, found.backend.cluster.name(), (found, usable), come);
            }
            HoldInput::Bound(route, bound) => put(bounds, route, bound, come),
            HoldInput::Grant(key, name) => {
                if come {
                    grants.insert((key, name))
                } else {
                    grants.remove(&(key, name))
                };
            }
            HoldInput::Desired(route, host, listener_host, ranked) => {
                let key = EntryKey { host, listener_host, entry: ranked.entry.id.clone() };
                wishes.entry(key).or_insert_with(|| (route, Vec::new())).1.push((ranked, diff));
            }
        }
    }

    /// Brings one entry up to date.
    fn turn(
        &mut self,
        key: EntryKey,
        route: RouteKey,
        changes: Vec<(Arc<Ranked>, isize)>,
        outputs: &mut Vec<(HoldOutput, isize)>,
    ) {
        let old = self.slots.remove(&key);
        let before = old.as_ref().map(|slot| slot.outputs(&key)).unwrap_or_default();
        let previous = old.as_ref().and_then(Slot::previous);
        let mut desired = old.map(|slot| slot.desired).unwrap_or_default();
        desired.extend(changes);
        differential_dataflow::consolidation::consolidate(&mut desired);
        self.held.remove(&key);
        let mut after = Vec::new();
        if !desired.is_empty() {
            let hold = match (&previous, desired.as_slice()) {
                (Some(previous), [(only, 1)]) => decide(&self.world, &route, previous, only),
                _ => None,
            };
            if hold.is_some() {
                self.held.insert(key.clone());
            }
            let slot = Slot { route, desired, hold };
            after = slot.outputs(&key);
            self.slots.insert(key, slot);
        }
        if before != after {
            outputs.extend(before.into_iter().map(|(output, count)| (output, -count)));
            outputs.extend(after);
        }
    }
}

/// Puts a value under its key, or takes it away if it stands there.
fn put<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: V, come: bool) {
    if come {
        map.insert(key, value);
    } else if map.get(&key) == Some(&value) {
        map.remove(&key);
    }
}

#[cfg(test)]
mod tests;
