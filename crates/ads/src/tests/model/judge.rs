//! What must hold of a client at every step, and when nothing is left to do.

use super::envoy::{Envoy, Outcome, kind_of};
use super::run::Setup;
use crate::session::{Ask, Protocol, Request, Response, TypeUrl};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{Millis, Name, ResourceType};
use tidegate_xds::Sealed;

/// A response without an answer: type, nonce, names and versions.
#[derive(Clone, Debug)]
struct Open {
    kind: ResourceType,
    nonce: String,
    carried: Vec<(Name, String)>,
}

/// Keeps what the rules are judged by.
#[derive(Clone, Debug, Default)]
pub(super) struct Judge {
    /// Clusters that nothing at the client uses any more, and since when.
    stopped: BTreeMap<Name, Millis>,
    /// Clusters in use.
    used: BTreeSet<Name>,
    /// Clusters that went out late, since the bound was reached, until they are active.
    overdue: BTreeSet<Name>,
    /// State of the world: clusters that vanished while the client was away.
    vanished: BTreeSet<Name>,
    /// What the client did not take, until it does.
    rejected: BTreeSet<(ResourceType, Name)>,
    /// Versions that the session knows to be bad.
    known_bad: BTreeSet<(ResourceType, Name, String)>,
    /// What the client was sent on this stream and may be expected to hold.
    told: BTreeMap<(ResourceType, Name), String>,
    /// State of the world: all that the last response held.
    whole: BTreeMap<ResourceType, Vec<(Name, String)>>,
    /// Clusters whose endpoints must follow, or were asked for.
    owed: BTreeSet<Name>,
    open: Vec<Open>,
    /// State of the world: names of the last request of each type.
    asked_for: BTreeMap<ResourceType, BTreeSet<Name>>,
    /// When a form of a table ceased to be wanted.
    ceased: BTreeMap<(Name, String), Millis>,
    /// Whether anything was rejected so far: versions are then not trusted.
    distrusted: bool,
    /// A type has its first answer on this stream.
    answered: BTreeSet<ResourceType>,
    /// Versions that a state-of-the-world client brought.
    brought: BTreeMap<ResourceType, String>,
}

impl Judge {
    /// A new stream: what the client holds then and the seal does not want may be lost in the state-of-the-world protocol.
    pub(super) fn connected(&mut self, setup: &Setup, envoy: &Envoy, sealed: &Sealed) {
        if setup.protocol == Protocol::Sotw {
            let wanted: BTreeSet<Name> = setup.names(sealed, ResourceType::Cluster).into_iter().collect();
            self.vanished.extend(envoy.clusters.keys().filter(|name| !wanted.contains(*name)).cloned());
        }
        self.told.clear();
        self.whole.clear();
        self.owed.clear();
        self.open.clear();
        self.asked_for.clear();
        self.answered.clear();
        self.known_bad.clear();
        self.brought =
            ResourceType::ALL.into_iter().map(|kind| (kind, envoy.accepted_version(kind).to_owned())).collect();
    }

    /// The session takes a request.
    pub(super) fn asked(&mut self, request: &Request) {
        let TypeUrl::Served(kind) = request.type_url else { return };
        if let Some(at) = self.open.iter().position(|open| open.kind == kind && open.nonce == request.nonce) {
            if let Some(detail) = &request.error {
                self.take_rejection(kind, at, detail);
            }
            let mut index = 0;
            self.open.retain(|open| {
                index += 1;
                open.kind != kind || index > at + 1
            });
        }
        match &request.ask {
            Ask::Sotw { names, .. } => {
                let names: BTreeSet<Name> = names.iter().map(Name::from).collect();
                let before = self.asked_for.insert(kind, names.clone()).unwrap_or_default();
                for name in before.difference(&names) {
                    self.told.remove(&(kind, name.clone()));
                }
            }
            Ask::Delta { unsubscribe, initial, .. } => {
                unsubscribe.iter().for_each(|name| drop(self.told.remove(&(kind, name.clone()))));
                if kind != ResourceType::Endpoints && !self.distrusted {
                    for (name, version) in initial {
                        self.told.entry((kind, name.clone())).or_insert_with(|| version.clone());
                    }
                }
            }
        }
    }

    fn take_rejection(&mut self, kind: ResourceType, at: usize, detail: &str) {
        self.distrusted = true;
        let carried = self.open[at].carried.clone();
        let culprits: Vec<_> = carried.iter().filter(|(name, _)| detail.contains(&format!(" {name}:"))).collect();
        match (&culprits[..], &carried[..]) {
            ([], [(name, version)]) | ([(name, version)], _) => {
                self.known_bad.insert((kind, name.clone(), version.clone()));
            }
            _ => {}
        }
        carried.iter().for_each(|(name, _)| drop(self.told.remove(&(kind, name.clone()))));
        self.whole.remove(&kind);
    }

    /// The session sends a response.
    pub(super) fn sent(&mut self, setup: &Setup, response: &Response) -> Result<(), String> {
        let kind = kind_of(response);
        let is_whole =
            setup.protocol == Protocol::Sotw && matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        let first = self.answered.insert(kind);
        let carried: Vec<(Name, String)> =
            response.resources.iter().map(|it| (it.name.clone(), it.version.to_string())).collect();
        if setup.protocol == Protocol::Sotw && first && !self.distrusted && kind != ResourceType::Endpoints {
            let brought = self.brought.get(&kind).filter(|version| !version.is_empty());
            if brought == Some(&response.version) {
                return Err(format!("{} was sent although the client brought it", kind.short()));
            }
        }
        if is_whole && self.whole.insert(kind, carried.clone()) == Some(carried.clone()) {
            return Err(format!("{} was sent again with nothing changed", kind.short()));
        }
        for (name, version) in &carried {
            let known_bad = self.known_bad.contains(&(kind, name.clone(), version.clone()));
            if known_bad && !is_whole {
                return Err(format!("{} {name} was sent again though it was rejected", kind.short()));
            }
            let before = self.told.insert((kind, name.clone()), version.clone());
            let same = before.as_ref() == Some(version);
            match kind {
                ResourceType::Cluster if !same => {
                    self.owed.insert(name.clone());
                    self.told.remove(&(ResourceType::Endpoints, name.clone()));
                }
                ResourceType::Endpoints if self.owed.remove(name) => continue,
                _ => {}
            }
            if same && !is_whole {
                return Err(format!("{} {name} was sent again although the client has it", kind.short()));
            }
        }
        if is_whole {
            let names: BTreeSet<&Name> = carried.iter().map(|(name, _)| name).collect();
            self.told.retain(|(of, name), _| *of != kind || names.contains(name));
        }
        for name in &response.removed {
            self.told.remove(&(kind, name.clone()));
        }
        self.open.push(Open { kind, nonce: response.nonce.clone(), carried });
        Ok(())
    }

    /// A table or listener was sent although the bound was reached: clusters that it names and that are not active may
    /// be felt.
    pub(super) fn sent_overdue(&mut self, setup: &Setup, response: &Response, envoy: &Envoy) {
        let kind = kind_of(response);
        if matches!(kind, ResourceType::Listener | ResourceType::Table) {
            for resource in &response.resources {
                let form = setup.catalog.form(kind, resource);
                self.overdue.extend(form.names.clusters.iter().filter(|name| !envoy.is_active(name)).cloned());
            }
        }
    }

    /// The client processed a response.
    pub(super) fn processed(
        &mut self,
        setup: &Setup,
        response: &Response,
        outcome: &Outcome,
        envoy: &Envoy,
        now: Millis,
    ) -> Result<(), String> {
        let kind = kind_of(response);
        for resource in &response.resources {
            self.rejected.remove(&(kind, resource.name.clone()));
        }
        self.rejected.extend(outcome.rejected.iter().map(|name| (kind, name.clone())));
        for bad in &outcome.rejected {
            let Some(known) = envoy.bad.get(&(kind, bad.clone())) else { continue };
            if known.times > setup.max_rejections {
                return Err(format!("{} {bad} was rejected {} times", kind.short(), known.times));
            }
        }
        for cluster in &outcome.lost {
            let stopped = self.stopped.get(cluster).is_none_or(|since| now >= since + setup.limits.grace_ms);
            if !stopped && !self.vanished.contains(cluster) {
                return Err(format!("cluster {cluster} was taken back before its grace ended"));
            }
        }
        Ok(())
    }

    /// After every step.
    pub(super) fn check(&mut self, setup: &Setup, envoy: &Envoy, sealed: &Sealed, now: Millis) -> Result<(), String> {
        self.overdue.retain(|name| !envoy.is_active(name));
        let mut used = BTreeSet::new();
        for form in envoy.users() {
            let user = &form.resource.name;
            for cluster in &form.names.clusters {
                used.insert(cluster.clone());
                let excused = envoy.is_active(cluster)
                    || self.overdue.contains(cluster)
                    || self.vanished.contains(cluster)
                    || self.rejected.contains(&(ResourceType::Cluster, cluster.clone()));
                if !excused {
                    return Err(format!("{user} is in use and names cluster {cluster}, which is not usable"));
                }
            }
        }
        for cluster in self.used.difference(&used) {
            self.stopped.insert(cluster.clone(), now);
        }
        self.stopped.retain(|cluster, since| !used.contains(cluster) && now < *since + setup.limits.grace_ms);
        self.used = used;
        self.check_age(setup, sealed, now)
    }

    /// A newer seal is there.
    pub(super) fn sealed(&mut self, setup: &Setup, old: &Sealed, new: &Sealed, now: Millis) {
        for name in setup.names(old, ResourceType::Table) {
            let version = |sealed| setup.resource(sealed, ResourceType::Table, &name).map(|it| it.version.to_string());
            let (old, new) = (version(old), version(new));
            if old != new {
                self.ceased.extend(old.map(|old| ((name.clone(), old), now)));
                new.map(|new| self.ceased.remove(&(name.clone(), new)));
            }
        }
    }

    /// The form of a table that was sent last is not older than two waits: its own, and that of the next.
    fn check_age(&self, setup: &Setup, sealed: &Sealed, now: Millis) -> Result<(), String> {
        for name in setup.names(sealed, ResourceType::Table) {
            let Some(told) = self.told.get(&(ResourceType::Table, name.clone())) else { continue };
            let since = self.ceased.get(&(name.clone(), told.clone()));
            if let Some(since) = since.filter(|since| now > **since + 2 * setup.limits.pin_ms) {
                let parked = setup.resource(sealed, ResourceType::Table, &name).is_some_and(|wanted| {
                    self.known_bad.contains(&(ResourceType::Table, name.clone(), wanted.version.to_string()))
                });
                if !parked {
                    return Err(format!("table {name} is {} ms old", now - since));
                }
            }
        }
        Ok(())
    }

    /// Nothing is on its way and nothing falls due: the client holds what is sealed, but for what it rejected.
    pub(super) fn check_rest(&self, setup: &Setup, envoy: &Envoy, sealed: &Sealed) -> Result<(), String> {
        let rejects = |kind: ResourceType, name: &Name| self.rejected.contains(&(kind, name.clone()));
        let any_listener = self.rejected.iter().any(|(kind, _)| *kind == ResourceType::Listener);
        for kind in ResourceType::ALL {
            let wanted: BTreeMap<Name, String> = setup
                .names(sealed, kind)
                .into_iter()
                .filter(|name| setup.is_used(sealed, kind, name))
                .filter_map(|name| {
                    let version = setup.resource(sealed, kind, &name)?.version.to_string();
                    Some((name, version))
                })
                .collect();
            let held = held(envoy, kind);
            let names: BTreeSet<&Name> = wanted.keys().chain(held.keys()).collect();
            for name in names.into_iter().filter(|name| wanted.get(*name) != held.get(*name)) {
                let excused = rejects(kind, name)
                    || kind == ResourceType::Endpoints && rejects(ResourceType::Cluster, name)
                    || matches!(kind, ResourceType::Table | ResourceType::Secret) && any_listener;
                if !excused {
                    let (held, wanted) = (held.get(name), wanted.get(name));
                    return Err(format!("at rest with {} {name}: {held:?} instead of {wanted:?}", kind.short()));
                }
            }
        }
        match envoy.clusters.iter().find(|(name, it)| it.warming.is_some() && !rejects(ResourceType::Cluster, name)) {
            Some((name, _)) => Err(format!("at rest while cluster {name} warms")),
            None => Ok(()),
        }
    }
}

fn held(envoy: &Envoy, kind: ResourceType) -> BTreeMap<Name, String> {
    let text = |name: &Name, resource: &tidegate_xds::Resource| (name.clone(), resource.version.to_string());
    match kind {
        ResourceType::Cluster => {
            envoy.clusters.iter().filter_map(|(name, it)| Some(text(name, it.active.as_ref()?))).collect()
        }
        ResourceType::Endpoints => envoy.endpoints.iter().map(|(name, it)| text(name, it)).collect(),
        ResourceType::Listener => {
            envoy.listeners.iter().filter_map(|(name, it)| Some(text(name, &it.active.as_ref()?.resource))).collect()
        }
        ResourceType::Secret => envoy.secrets.iter().filter_map(|(name, it)| Some(text(name, it.as_ref()?))).collect(),
        ResourceType::Table => {
            envoy.tables.iter().filter_map(|(name, it)| Some(text(name, &it.as_ref()?.resource))).collect()
        }
    }
}
