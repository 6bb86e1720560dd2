//! What a response does to what is held, and what it must not do.

use super::{Cluster, Envoy, Held};
use crate::check::{Violation, is_whole};
use crate::message::{Item, Response};
use crate::resources;
use std::collections::BTreeSet;
use tidegate_model::{INVALID_CLUSTER, ResourceType};

impl Envoy {
    /// Returns whether a cluster that was there changed and warms anew.
    pub(super) fn apply_clusters(&mut self, response: &Response, items: Vec<Item>, partial: bool) -> bool {
        let mut rewarmed = false;
        for name in self.gone(ResourceType::Cluster, response, &items, partial) {
            self.clusters.remove(&name);
            self.held.entry(ResourceType::Endpoints).or_default().remove(&name);
        }
        for item in items {
            let old = self.clusters.get(&item.name);
            if old.is_some_and(|old| old.bytes == item.bytes) {
                continue;
            }
            let usable = old.is_some_and(|old| old.usable);
            let eds = resources::has_eds(&item.bytes);
            rewarmed |= eds && old.is_some();
            let secrets = resources::secrets_of_cluster(&item.bytes);
            let (version, bytes, usable) = (item.version, item.bytes, usable || !eds);
            let cluster = Cluster { version, bytes, usable, warming: eds, assigned: false, secrets };
            self.clusters.insert(item.name, cluster);
        }
        self.let_go(ResourceType::Secret);
        rewarmed
    }

    pub(super) fn apply_endpoints(&mut self, response: &Response, items: Vec<Item>) {
        for item in items {
            let Some(cluster) = self.clusters.get_mut(&item.name) else {
                if !self.channels[&ResourceType::Endpoints].told_once.contains(&item.name) {
                    self.violations.push(Violation::Unasked { kind: "eds", name: item.name });
                }
                continue;
            };
            cluster.assigned = true;
            let held = Held { version: item.version, bytes: item.bytes, ..Held::default() };
            self.held.entry(ResourceType::Endpoints).or_default().insert(item.name, held);
        }
        for name in response.removed() {
            // Ends warming, without endpoints; endpoints in use stay.
            if let Some(cluster) = self.clusters.get_mut(name).filter(|cluster| cluster.warming) {
                cluster.assigned = true;
            }
        }
    }

    /// Ends the warming of clusters that have what they wait for.
    pub(super) fn end_warming(&mut self) {
        let secrets = self.held.entry(ResourceType::Secret).or_default();
        let rejected = &self.rejected;
        // One that was rejected is not waited for any more.
        let is_settled =
            |name: &String| secrets.contains_key(name) || rejected.contains_key(&(ResourceType::Secret, name.clone()));
        for cluster in self.clusters.values_mut().filter(|cluster| cluster.warming && cluster.assigned) {
            if cluster.secrets.iter().all(is_settled) {
                cluster.usable = true;
                cluster.warming = false;
            }
        }
    }

    pub(super) fn apply_listeners(&mut self, response: &Response, items: Vec<Item>, partial: bool) {
        let gone = self.gone(ResourceType::Listener, response, &items, partial);
        let listeners = self.held.entry(ResourceType::Listener).or_default();
        let left = listeners.iter().filter(|(name, _)| gone.contains(*name));
        let left: Vec<String> = left.flat_map(|(_, listener)| listener.names.iter().cloned()).collect();
        listeners.retain(|name, _| !gone.contains(name));
        if self.options.drains {
            self.draining.extend(left);
        }
        for item in items {
            let names = resources::tables_of_listener(&item.bytes);
            let secrets = resources::secrets_of_listener(&item.bytes);
            let clusters = resources::clusters_of_listener(&item.bytes);
            let held = Held { version: item.version, bytes: item.bytes, names, secrets, clusters };
            listeners.insert(item.name, held);
        }
        for kind in [ResourceType::Secret, ResourceType::Table] {
            self.let_go(kind);
        }
    }

    /// Secrets or tables: what nothing names, nor connections that drain, is let go at once.
    fn let_go(&mut self, kind: ResourceType) {
        let wanted = self.wanted(kind);
        self.held.entry(kind).or_default().retain(|name, _| wanted.contains(name));
    }

    /// Secrets or tables.
    pub(super) fn apply_named(&mut self, kind: ResourceType, items: Vec<Item>) {
        let wanted = self.wanted(kind);
        for item in items {
            if !wanted.contains(&item.name) {
                if !self.channels[&kind].told_once.contains(&item.name) {
                    self.violations.push(Violation::Unasked { kind: kind.short(), name: item.name });
                }
                continue;
            }
            let names = match kind {
                ResourceType::Table => resources::clusters_of_table(&item.bytes),
                _ => BTreeSet::new(),
            };
            let held = Held { version: item.version, bytes: item.bytes, names, ..Held::default() };
            self.held.entry(kind).or_default().insert(item.name, held);
        }
    }

    /// What a response of clusters or listeners takes away. A rejected one takes away only what it says it does: what
    /// it holds in a bad form stays.
    fn gone(&self, kind: ResourceType, response: &Response, items: &[Item], partial: bool) -> BTreeSet<String> {
        match response {
            Response::Delta(_) => response.removed().iter().cloned().collect(),
            Response::Sotw(_) if partial => {
                let all = response.items(kind).unwrap_or_default();
                let stays: BTreeSet<&String> = all.iter().map(|item| &item.name).collect();
                self.holds(kind).into_keys().filter(|name| !stays.contains(name)).collect()
            }
            Response::Sotw(_) => {
                let stays: BTreeSet<&String> = items.iter().map(|item| &item.name).collect();
                self.holds(kind).into_keys().filter(|name| !stays.contains(name)).collect()
            }
        }
    }

    /// Every listener, and every table that one uses, names only clusters that can be used.
    pub(super) fn check_routes(&mut self) {
        let mut found = Vec::new();
        let used: BTreeSet<&String> =
            self.of(ResourceType::Listener).flat_map(|(_, listener)| &listener.names).collect();
        for table in used {
            for cluster in self.table(table).into_iter().flat_map(|table| &table.names) {
                let usable = self.clusters.get(cluster).is_some_and(|cluster| cluster.usable);
                if !usable && cluster != INVALID_CLUSTER {
                    found.push(Violation::UnusableCluster { table: table.clone(), cluster: cluster.clone() });
                }
            }
        }
        for (name, listener) in self.of(ResourceType::Listener) {
            for cluster in &listener.clusters {
                let usable = self.clusters.get(cluster).is_some_and(|cluster| cluster.usable);
                if !usable && cluster != INVALID_CLUSTER {
                    let (listener, cluster) = (name.clone(), cluster.clone());
                    found.push(Violation::UnusableClusterOfListener { listener, cluster });
                }
            }
        }
        self.violations.extend(found);
    }

    /// Nothing comes twice, except what this stream has not answered and endpoints that warming waits for.
    pub(super) fn check_needless(&mut self, kind: ResourceType, response: &Response, items: &[Item]) {
        let channel = &self.channels[&kind];
        let short = kind.short();
        if channel.implied {
            return;
        }
        let held = self.holds(kind);
        if matches!(response, Response::Sotw(_)) && is_whole(kind) {
            let same = items.len() == held.len() && items.iter().all(|item| held.get(&item.name) == Some(&item.bytes));
            if same && (channel.any_answer || !channel.version.is_empty()) {
                self.violations.push(Violation::Needless { kind: short, name: "*".to_owned() });
            }
            return;
        }
        let mut found = Vec::new();
        for item in items.iter().filter(|item| held.get(&item.name) == Some(&item.bytes)) {
            let warms = self.clusters.get(&item.name).is_some_and(|cluster| cluster.warming);
            if kind == ResourceType::Endpoints && warms {
                continue;
            }
            match self.channel(kind).credit.get_mut(&item.name) {
                Some(credit) if *credit > 0 => *credit -= 1,
                Some(_) | None => found.push(Violation::Needless { kind: short, name: item.name.clone() }),
            }
        }
        self.violations.extend(found);
    }
}
