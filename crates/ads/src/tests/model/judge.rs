//! What must hold of a client at every step, and when nothing is left to do.

use super::envoy::{Envoy, Outcome, kind_of};
use super::run::Setup;
use crate::session::{Ask, Protocol, Request, Response, TypeUrl};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{Millis, Name, ResourceType};
use tidegate_xds::{Sealed, Version};

/// A response without an answer: type, nonce, names and versions.
#[derive(Clone, Debug)]
struct Open {
    kind: ResourceType,
    nonce: String,
    carried: Vec<(Name, String)>,
    removed: Vec<Name>,
}

impl Open {
    fn names(&self) -> impl Iterator<Item = &Name> {
        self.carried.iter().map(|(name, _)| name).chain(&self.removed)
    }
}

/// Keeps what the rules are judged by.
#[derive(Clone, Debug, Default)]
pub(super) struct Judge {
    /// Clusters that nothing at the client uses any more, and since when.
    stopped: BTreeMap<Name, Millis>,
    /// Clusters in use.
    used: BTreeSet<Name>,
    /// Those of them that are not used by connections of replaced listeners alone.
    live: BTreeSet<Name>,
    /// Clusters that went out late, since the bound was reached, until they are active and
    /// nothing is on its way.
    overdue: BTreeSet<Name>,
    /// State of the world: it may have been told to keep forms that this stream does not know, so that what is rejected
    /// without a name cannot be halved.
    is_blind: bool,
    /// What the client used then.
    used_before: BTreeSet<Name>,
    /// How many of its first requests the session has yet to take, and since when.
    unheard: Option<(usize, Millis)>,
    /// What a client used that took longer than the bound to ask for what it holds.
    late: BTreeSet<Name>,
    /// What the client did not take, until it does.
    rejected: BTreeSet<(ResourceType, Name)>,
    /// Versions that the session knows to be bad, until it sends others.
    known_bad: BTreeSet<(ResourceType, Name, String)>,
    /// How often a version was sent after a response that held it was known to be rejected.
    tried: BTreeMap<(ResourceType, Name, String), u32>,
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
    /// Versions that a state-of-the-world client brought, until there is a newer seal.
    brought: BTreeMap<ResourceType, String>,
}

impl Judge {
    /// A new stream, which knows nothing of the last.
    pub(super) fn connected(&mut self, setup: &Setup, envoy: &Envoy, requests: usize, now: Millis) {
        self.unheard = Some((requests, now));
        self.is_blind = setup.protocol == Protocol::Sotw;
        self.used_before = self.used.clone();
        self.told.clear();
        self.whole.clear();
        self.owed.clear();
        self.open.clear();
        self.asked_for.clear();
        self.answered.clear();
        self.known_bad.clear();
        self.tried.clear();
        self.brought =
            ResourceType::ALL.into_iter().map(|kind| (kind, envoy.accepted_version(kind).to_owned())).collect();
    }

    /// The session takes a request.
    pub(super) fn asked(&mut self, request: &Request, now: Millis) {
        self.unheard = self.unheard.and_then(|(left, since)| (left > 1).then(|| (left - 1, since)));
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
                    // What is on its way to the client is newer than what it says.
                    let open = self.open.iter().filter(|open| open.kind == kind);
                    let open: BTreeSet<Name> = open.flat_map(Open::names).cloned().collect();
                    for (name, version) in initial.iter().filter(|(name, _)| !open.contains(*name)) {
                        // Before it said so nothing could be done about it.
                        self.ceased.entry((name.clone(), version.clone())).and_modify(|since| *since = now);
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
            // Others may be tried again until the culprit is found. Of a secret the second answer would be false.
            ([], [(name, version)]) | ([(name, version)], _)
                if kind == ResourceType::Secret && !self.superseded(kind, at, name) =>
            {
                self.known_bad.insert((kind, name.clone(), version.clone()));
            }
            _ => {}
        }
        for (name, version) in &carried {
            self.tried.entry((kind, name.clone(), version.clone())).or_default();
        }
        carried.iter().for_each(|(name, _)| drop(self.told.remove(&(kind, name.clone()))));
        if kind == ResourceType::Cluster {
            // Endpoints may have been given up along with a cluster that stayed.
            self.told.retain(|(of, _), _| *of != ResourceType::Endpoints);
        }
        self.whole.remove(&kind);
    }

    /// Whether the resource was sent again after the response at `at`, in whatever form: that is judged yet.
    fn superseded(&self, kind: ResourceType, at: usize, name: &Name) -> bool {
        let later = self.open[at + 1..].iter().filter(|open| open.kind == kind).flat_map(|open| &open.carried);
        later.into_iter().any(|(other, _)| other == name)
    }

    /// Time passes.
    pub(super) fn waited(&mut self, setup: &Setup, now: Millis) {
        if self.unheard.is_some_and(|(_, since)| now >= since + setup.limits.pin_ms) {
            self.late.extend(self.used_before.iter().chain(self.stopped.keys()).cloned());
        }
    }

    /// The session sends a response.
    pub(super) fn sent(&mut self, setup: &Setup, response: &Response, envoy: &Envoy) -> Result<(), String> {
        let kind = kind_of(response);
        let is_whole =
            setup.protocol == Protocol::Sotw && matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        let first = self.answered.insert(kind);
        let carried: Vec<(Name, String)> =
            response.resources.iter().map(|it| (it.name.clone(), it.version.to_string())).collect();
        if is_whole && first && !self.distrusted {
            let asked = self.asked_for.contains_key(&kind);
            let brought = self.brought.get(&kind).filter(|version| asked && !version.is_empty());
            if brought == Some(&response.version) {
                return Err(format!("{} was sent although the client brought it", kind.short()));
            }
        }
        if is_whole && self.whole.insert(kind, carried.clone()) == Some(carried.clone()) {
            return Err(format!("{} was sent again with nothing changed", kind.short()));
        }
        for (name, version) in &carried {
            let is_bad = |bad: &super::envoy::Bad| bad.version.to_string() == *version;
            let tried = self.tried.get_mut(&(kind, name.clone(), version.clone()));
            if let Some(tried) = tried.filter(|_| envoy.bad.get(&(kind, name.clone())).is_some_and(is_bad)) {
                *tried += 1;
                if *tried > setup.max_tries {
                    return Err(format!("{} {name} was tried {tried} times after its rejection", kind.short()));
                }
            }
            let others =
                |(of, other, bad): &(ResourceType, Name, String)| *of != kind || other != name || bad == version;
            self.known_bad.retain(others);
            self.tried.retain(|key, _| others(key));
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
        self.open.push(Open { kind, nonce: response.nonce.clone(), carried, removed: response.removed.clone() });
        Ok(())
    }

    /// A table or listener was sent although the bound was reached: clusters that it names and that are not active, or on
    /// their way, may be felt.
    pub(super) fn sent_overdue(&mut self, setup: &Setup, response: &Response, is_usable: impl Fn(&Name) -> bool) {
        let kind = kind_of(response);
        if matches!(kind, ResourceType::Listener | ResourceType::Table) {
            for resource in &response.resources {
                let form = setup.catalog.form(kind, resource);
                self.overdue.extend(form.names.clusters.iter().filter(|name| !is_usable(name)).cloned());
            }
        }
    }

    /// The client processed a response.
    pub(super) fn processed(
        &mut self,
        setup: &Setup,
        response: &Response,
        outcome: &Outcome,
        now: Millis,
    ) -> Result<(), String> {
        let kind = kind_of(response);
        for resource in response.resources.iter().filter(|_| kind != ResourceType::Cluster) {
            self.rejected.remove(&(kind, resource.name.clone()));
        }
        self.rejected.extend(outcome.rejected.iter().map(|name| (kind, name.clone())));
        for cluster in &outcome.lost {
            let stopped = self.stopped.get(cluster).is_none_or(|since| now >= since + setup.limits.grace_ms);
            // What names an overdue cluster was sent while the last removal of it may have been on its way.
            let felt = [&self.late, &self.overdue].into_iter().any(|all| all.contains(cluster));
            if !stopped && !felt {
                return Err(format!("cluster {cluster} was taken back before its grace ended"));
            }
        }
        Ok(())
    }

    /// After every step. `applied` says whether the client applied all that was sent.
    pub(super) fn check(
        &mut self,
        setup: &Setup,
        envoy: &Envoy,
        sealed: &Sealed,
        (now, applied): (Millis, bool),
    ) -> Result<(), String> {
        self.rejected.retain(|(kind, name)| *kind != ResourceType::Cluster || !envoy.is_active(name));
        if applied {
            self.overdue.retain(|name| !envoy.is_active(name));
        }
        let (mut used, mut live) = (BTreeSet::new(), BTreeSet::new());
        for form in envoy.users() {
            // Nothing new comes to a listener that was replaced: its grace begins with that, not when its connections end.
            if !envoy.draining.iter().any(|draining| std::ptr::eq(draining, form)) {
                live.extend(form.names.clusters.iter().cloned());
            }
            let user = &form.resource.name;
            for cluster in &form.names.clusters {
                used.insert(cluster.clone());
                let excused = envoy.is_active(cluster)
                    || self.overdue.contains(cluster)
                    || self.late.contains(cluster)
                    || self.rejected.contains(&(ResourceType::Cluster, cluster.clone()))
                    || is_bad(setup, envoy, sealed, (ResourceType::Cluster, cluster))
                        && self.rejected.insert((ResourceType::Cluster, cluster.clone()));
                if !excused {
                    return Err(format!("{user} is in use and names cluster {cluster}, which is not usable"));
                }
            }
        }
        for cluster in self.live.difference(&live) {
            self.stopped.insert(cluster.clone(), now);
        }
        self.stopped.retain(|cluster, since| !live.contains(cluster) && now < *since + setup.limits.grace_ms);
        (self.used, self.live) = (used, live);
        self.check_age(setup, envoy, sealed, now)
    }

    /// A newer seal is there.
    pub(super) fn sealed(&mut self, setup: &Setup, old: &Sealed, new: &Sealed, now: Millis) {
        self.brought.clear();
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
    fn check_age(&self, setup: &Setup, envoy: &Envoy, sealed: &Sealed, now: Millis) -> Result<(), String> {
        for name in setup.names(sealed, ResourceType::Table) {
            let Some(told) = self.told.get(&(ResourceType::Table, name.clone())) else { continue };
            let since = self.ceased.get(&(name.clone(), told.clone()));
            if let Some(since) = since.filter(|since| now > **since + 2 * setup.limits.pin_ms) {
                let wanted = setup.resource(sealed, ResourceType::Table, &name);
                if wanted.is_none_or(|wanted| !envoy.rejects_entry(&setup.catalog.form(ResourceType::Table, &wanted))) {
                    return Err(format!("table {name} is {} ms old", now - since));
                }
            }
        }
        Ok(())
    }

    /// Nothing is on its way and nothing falls due: the client holds what is sealed, but for what it rejected.
    pub(super) fn check_rest(&self, setup: &Setup, envoy: &Envoy, sealed: &Sealed) -> Result<(), String> {
        let is_bad = |kind, name: &Name| is_bad(setup, envoy, sealed, (kind, name));
        // A secret that it rejects is not sent again, so a listener that names it may never be ready.
        let is_bad_listener = |name: &Name| {
            let form = setup.resource(sealed, ResourceType::Listener, name);
            let names = form.map(|form| setup.catalog.form(ResourceType::Listener, &form).names);
            is_bad(ResourceType::Listener, name)
                || names.is_some_and(|names| names.secrets.iter().any(|secret| is_bad(ResourceType::Secret, secret)))
        };
        let bad_listener = setup.names(sealed, ResourceType::Listener).iter().any(is_bad_listener);
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
                // What was to go stays while a rejected table names it, or if the response that let it go was rejected.
                let named = self.distrusted && self.used.contains(name);
                let excused = is_bad(kind, name)
                    || self.is_blind && self.rejected.contains(&(kind, name.clone()))
                    || match kind {
                        ResourceType::Cluster => !wanted.contains_key(name) && named,
                        ResourceType::Endpoints => {
                            is_bad(ResourceType::Cluster, name) || !wanted.contains_key(name) && named
                        }
                        ResourceType::Table => bad_listener || self.is_healed(setup, envoy, sealed, name),
                        ResourceType::Secret => bad_listener,
                        ResourceType::Listener => is_bad_listener(name),
                    };
                if !excused {
                    let (held, wanted) = (held.get(name), wanted.get(name));
                    return Err(format!("at rest with {} {name}: {held:?} instead of {wanted:?}", kind.short()));
                }
            }
        }
        match envoy.clusters.iter().find(|(_, it)| it.warming.is_some()) {
            Some((name, _)) => Err(format!("at rest while cluster {name} warms")),
            None => Ok(()),
        }
    }

    /// Whether a table has all but the entries that the client rejects.
    fn is_healed(&self, setup: &Setup, envoy: &Envoy, sealed: &Sealed, name: &Name) -> bool {
        let Some(wanted) = setup.resource(sealed, ResourceType::Table, name) else { return false };
        let wanted = setup.catalog.form(ResourceType::Table, &wanted);
        let held = envoy.tables.get(name).and_then(Option::as_ref);
        let has = |entry: &Version| held.is_some_and(|held| held.names.entries.contains(entry));
        envoy.rejects_entry(&wanted)
            && wanted.names.entries.iter().all(|entry| envoy.bad_entries.contains(entry) || has(entry))
    }
}

/// Whether the client rejected what it shall have under this name. It is not sent again.
fn is_bad(setup: &Setup, envoy: &Envoy, sealed: &Sealed, (kind, name): (ResourceType, &Name)) -> bool {
    let bad = envoy.bad.get(&(kind, name.clone()));
    let wanted = setup.resource(sealed, kind, name);
    bad.is_some_and(|bad| wanted.is_some_and(|wanted| bad.version == wanted.version))
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
