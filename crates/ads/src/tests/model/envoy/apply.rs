//! What a response does to what is held.

use super::{Cluster, Envoy, Outcome, Verdict};
use crate::session::{Protocol, Response};
use crate::tests::model::catalog::Catalog;
use std::collections::BTreeSet;
use tidegate_model::{Name, ResourceType};
use tidegate_xds::Resource;

impl Envoy {
    /// Returns whether a cluster that was there changed and warms anew.
    pub(super) fn apply(
        &mut self,
        kind: ResourceType,
        response: &Response,
        verdict: Verdict,
        catalog: &Catalog,
        outcome: &mut Outcome,
    ) -> bool {
        let (good, bad): (Vec<&Resource>, Option<&Resource>) = match verdict {
            Verdict::Good => (response.resources.iter().collect(), None),
            Verdict::Refused(_) if matches!(kind, ResourceType::Cluster | ResourceType::Listener) => return false,
            Verdict::Refused(index) => (Vec::new(), Some(&response.resources[usize::from(index)])),
            Verdict::Named(index) => {
                let others = response.resources.iter().enumerate().filter(|(at, _)| *at != usize::from(index));
                (others.map(|(_, resource)| resource).collect(), Some(&response.resources[usize::from(index)]))
            }
            Verdict::Entry(_) => (Vec::new(), response.resources.first()),
            Verdict::Partial(index) => {
                let (before, rest) = response.resources.split_at(usize::from(index));
                (before.iter().collect(), rest.first())
            }
        };
        match kind {
            ResourceType::Cluster => return self.apply_clusters(response, good, outcome),
            ResourceType::Endpoints => {
                // Whatever ends the wait for endpoints makes the cluster active; without any it answers 503.
                let removed = response.removed.iter().filter(|_| verdict == Verdict::Good);
                let ended = match verdict {
                    Verdict::Refused(_) => response.resources.iter().map(|it| &it.name).collect(),
                    Verdict::Good | Verdict::Named(_) | Verdict::Partial(_) | Verdict::Entry(_) => {
                        bad.map(|bad| &bad.name).into_iter().chain(removed).collect()
                    }
                };
                self.apply_endpoints(good, ended);
            }
            ResourceType::Listener => self.apply_listeners(response, good, catalog),
            ResourceType::Secret => {
                for secret in good {
                    if self.deaf.contains(&(secret.name.clone(), secret.version)) {
                        continue;
                    }
                    self.deaf.retain(|(name, _)| *name != secret.name);
                    if self.wanted(kind).contains(&secret.name) {
                        self.secrets.insert(secret.name.clone(), Some(secret.clone()));
                    }
                }
                self.deaf.extend(bad.map(|bad| (bad.name.clone(), bad.version)));
                if let Some(bad) = bad.filter(|bad| self.wanted(kind).contains(&bad.name)) {
                    self.secrets.entry(bad.name.clone()).or_default();
                }
            }
            ResourceType::Table => {
                for table in good {
                    if self.wanted(kind).contains(&table.name) {
                        self.tables.insert(table.name.clone(), Some(catalog.form(kind, table)));
                    }
                }
                if let Some(bad) = bad.filter(|bad| self.wanted(kind).contains(&bad.name)) {
                    self.tables.entry(bad.name.clone()).or_default();
                }
            }
        }
        false
    }

    fn apply_clusters(&mut self, response: &Response, good: Vec<&Resource>, outcome: &mut Outcome) -> bool {
        for name in self.gone(response, self.clusters.keys()) {
            self.endpoints.remove(&name);
            if self.clusters.remove(&name).is_some_and(|cluster| cluster.active.is_some()) {
                outcome.lost.push(name);
            }
        }
        let mut rewarmed = false;
        for resource in good {
            let cluster = self.clusters.entry(resource.name.clone()).or_default();
            if cluster.newest().is_none_or(|newest| newest.version != resource.version) {
                rewarmed |= cluster.newest().is_some();
                cluster.warming = Some(resource.clone());
            }
        }
        rewarmed
    }

    fn apply_endpoints(&mut self, good: Vec<&Resource>, ended: Vec<&Name>) {
        for resource in good {
            let Some(cluster) = self.clusters.get_mut(&resource.name) else { continue };
            cluster.end_warming();
            self.endpoints.insert(resource.name.clone(), resource.clone());
        }
        for name in ended {
            if let Some(cluster) = self.clusters.get_mut(name) {
                cluster.end_warming();
            }
        }
    }

    fn apply_listeners(&mut self, response: &Response, good: Vec<&Resource>, catalog: &Catalog) {
        for name in self.gone(response, self.listeners.keys()) {
            let old = self.listeners.remove(&name).and_then(|listener| listener.active);
            self.draining.extend(old);
        }
        for resource in good {
            let listener = self.listeners.entry(resource.name.clone()).or_default();
            if listener.newest().is_none_or(|newest| newest.resource.version != resource.version) {
                listener.warming = Some(catalog.form(ResourceType::Listener, resource));
            }
        }
    }

    /// A listener whose tables and secrets all came replaces its older form, which drains. What nobody names is let go.
    pub(super) fn promote(&mut self) {
        for listener in self.listeners.values_mut() {
            let ready = listener.warming.as_ref().is_some_and(|form| {
                form.names.tables.iter().all(|table| self.tables.contains_key(table))
                    && form.names.secrets.iter().all(|secret| self.secrets.contains_key(secret))
            });
            if ready && let Some(old) = std::mem::replace(&mut listener.active, listener.warming.take()) {
                self.draining.push(old);
            }
        }
        let tables = self.wanted(ResourceType::Table);
        self.tables.retain(|name, _| tables.contains(name));
        let secrets = self.wanted(ResourceType::Secret);
        self.secrets.retain(|name, _| secrets.contains(name));
    }

    /// What a response of clusters or listeners takes away: also one of which a part is bad.
    fn gone<'a>(&self, response: &Response, held: impl Iterator<Item = &'a Name>) -> BTreeSet<Name> {
        match self.protocol {
            Protocol::Delta => response.removed.iter().cloned().collect(),
            Protocol::Sotw => {
                let stays: BTreeSet<&Name> = response.resources.iter().map(|it| &it.name).collect();
                held.filter(|name| !stays.contains(name)).cloned().collect()
            }
        }
    }
}

impl Cluster {
    fn end_warming(&mut self) {
        if let Some(form) = self.warming.take() {
            self.active = Some(form);
        }
    }
}
