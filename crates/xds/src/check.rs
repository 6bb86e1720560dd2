//! The closure checker: everything that a sealed value names is in it, and nothing is in it that nothing names.
//!
//! [`Checker`] keeps reference counts and looks only at what the changed rows touch; [`full`] looks at everything and
//! is what the counts are tested against. `tidegate/invalid` is named on purpose and never there.

use crate::row::Row;
use crate::sealed::Sealed;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tidegate_model::{INVALID_CLUSTER, Name, NamespacedName};

/// One breach of the closure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// Rows of a Gateway that is not served.
    NoGateway(NamespacedName),
    /// A listener or a virtual host names a table of the Gateway that does not exist.
    NoTable(NamespacedName, Name),
    /// A listener or cluster names a secret of the Gateway that does not exist.
    NoSecret(NamespacedName, Name),
    /// A secret of the Gateway that none of its listeners and clusters names: it would leave the vault for nothing.
    UnusedSecret(NamespacedName, Name),
    /// The Gateway's listeners or entries name a cluster that its clients do not get.
    NotMember(NamespacedName, Name),
    /// The Gateway's clients get a cluster that none of its listeners and entries names.
    UnusedMember(NamespacedName, Name),
    /// A Gateway's clients shall get a cluster that does not exist.
    NoCluster(Name),
    /// A cluster that no Gateway's clients get.
    UnusedCluster(Name),
    /// A cluster without an assignment: its clients would wait for one.
    NoEndpoints(Name),
    /// An assignment without its cluster.
    StrayEndpoints(Name),
    /// The cluster of references that do not resolve exists: they would reach something.
    InvalidExists,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::NoGateway(gateway) => write!(f, "rows of gateway {gateway}, which is not served"),
            Violation::NoTable(gateway, table) => write!(f, "table {table} of gateway {gateway} does not exist"),
            Violation::NoSecret(gateway, secret) => write!(f, "secret {secret} of gateway {gateway} does not exist"),
            Violation::UnusedSecret(gateway, secret) => {
                write!(f, "secret {secret} of gateway {gateway} has no listener and no cluster")
            }
            Violation::NotMember(gateway, cluster) => {
                write!(f, "gateway {gateway} names cluster {cluster}, which is not its member")
            }
            Violation::UnusedMember(gateway, cluster) => {
                write!(f, "cluster {cluster} is a member of gateway {gateway}, which does not name it")
            }
            Violation::NoCluster(cluster) => write!(f, "cluster {cluster} does not exist"),
            Violation::UnusedCluster(cluster) => write!(f, "cluster {cluster} is no gateway's member"),
            Violation::NoEndpoints(cluster) => write!(f, "cluster {cluster} has no assignment"),
            Violation::StrayEndpoints(cluster) => write!(f, "assignment {cluster} has no cluster"),
            Violation::InvalidExists => write!(f, "cluster {INVALID_CLUSTER} exists"),
        }
    }
}

/// Follows the rows, and knows at any time what is wrong with them. Costs what changed.
#[derive(Debug, Default)]
pub struct Checker {
    gateways: Counts<NamespacedName>,
    /// Rows that need their Gateway.
    gateway_rows: Counts<NamespacedName>,
    tables: Counts<(NamespacedName, Name)>,
    /// Listeners and virtual hosts that need their table.
    table_uses: Counts<(NamespacedName, Name)>,
    secrets: Counts<(NamespacedName, Name)>,
    /// Listeners and clusters that need their secret.
    secret_uses: Counts<(NamespacedName, Name)>,
    members: Counts<(NamespacedName, Name)>,
    /// Clusters that name a secret.
    shows: Counts<(NamespacedName, Name)>,
    /// Listeners and entries that name the cluster.
    cluster_uses: Counts<(NamespacedName, Name)>,
    clusters: Counts<Name>,
    /// Gateways whose member the cluster is.
    cluster_members: Counts<Name>,
    endpoints: Counts<Name>,
    violations: BTreeSet<Violation>,
}

/// What the changed rows may have made right or wrong.
#[derive(Default)]
struct Touched {
    gateways: BTreeSet<NamespacedName>,
    tables: BTreeSet<(NamespacedName, Name)>,
    secrets: BTreeSet<(NamespacedName, Name)>,
    members: BTreeSet<(NamespacedName, Name)>,
    clusters: BTreeSet<Name>,
}

impl Checker {
    /// Takes in the changes of one epoch.
    pub fn apply(&mut self, changes: &[(Row, isize)]) {
        let mut touched = Touched::default();
        for (row, diff) in changes {
            self.count(row, *diff, &mut touched);
        }
        self.judge(touched);
    }

    /// What is wrong now.
    #[must_use]
    pub fn violations(&self) -> &BTreeSet<Violation> {
        &self.violations
    }

    fn count(&mut self, row: &Row, diff: isize, touched: &mut Touched) {
        match row {
            Row::Gateway(gateway) => {
                self.gateways.add(gateway.clone(), diff);
                touched.gateways.insert(gateway.clone());
            }
            Row::Listener(gateway, listener) => {
                self.count_of_gateway(gateway, diff, touched);
                for table in &listener.tables {
                    self.use_table(gateway, table, diff, touched);
                }
                for cluster in listener.clusters() {
                    self.use_cluster(gateway, cluster, diff, touched);
                }
                for secret in &listener.secrets {
                    self.secret_uses.add((gateway.clone(), secret.clone()), diff);
                    touched.secrets.insert((gateway.clone(), secret.clone()));
                }
            }
            Row::Secret(gateway, secret) => {
                self.count_of_gateway(gateway, diff, touched);
                self.secrets.add((gateway.clone(), secret.name.clone()), diff);
                touched.secrets.insert((gateway.clone(), secret.name.clone()));
            }
            Row::Shows(gateway, cluster, secret) => {
                self.count_of_gateway(gateway, diff, touched);
                self.secret_uses.add((gateway.clone(), secret.clone()), diff);
                touched.secrets.insert((gateway.clone(), secret.clone()));
                self.shows.add((gateway.clone(), cluster.clone()), diff);
                touched.members.insert((gateway.clone(), cluster.clone()));
            }
            Row::Table(gateway, table) => {
                self.count_of_gateway(gateway, diff, touched);
                self.tables.add((gateway.clone(), table.clone()), diff);
                touched.tables.insert((gateway.clone(), table.clone()));
            }
            Row::VirtualHost(gateway, table, _, host) => {
                self.count_of_gateway(gateway, diff, touched);
                self.use_table(gateway, table, diff, touched);
                for cluster in host.entries.iter().flat_map(|entry| &entry.clusters) {
                    self.use_cluster(gateway, cluster, diff, touched);
                }
            }
            Row::Member(gateway, cluster) => {
                self.count_of_gateway(gateway, diff, touched);
                self.members.add((gateway.clone(), cluster.clone()), diff);
                self.cluster_members.add(cluster.clone(), diff);
                touched.members.insert((gateway.clone(), cluster.clone()));
                touched.clusters.insert(cluster.clone());
            }
            Row::Cluster(name, _) => {
                self.clusters.add(name.clone(), diff);
                touched.clusters.insert(name.clone());
            }
            Row::Endpoints(name, _) => {
                self.endpoints.add(name.clone(), diff);
                touched.clusters.insert(name.clone());
            }
            // What a held entry keeps to is named by the virtual host that has it.
            Row::KubeNode(..) | Row::Status(..) | Row::Held(_) => {}
        }
    }

    fn count_of_gateway(&mut self, gateway: &NamespacedName, diff: isize, touched: &mut Touched) {
        self.gateway_rows.add(gateway.clone(), diff);
        touched.gateways.insert(gateway.clone());
    }

    fn use_table(&mut self, gateway: &NamespacedName, table: &Name, diff: isize, touched: &mut Touched) {
        self.table_uses.add((gateway.clone(), table.clone()), diff);
        touched.tables.insert((gateway.clone(), table.clone()));
    }

    fn use_cluster(&mut self, gateway: &NamespacedName, cluster: &Name, diff: isize, touched: &mut Touched) {
        if *cluster != INVALID_CLUSTER {
            self.cluster_uses.add((gateway.clone(), cluster.clone()), diff);
            touched.members.insert((gateway.clone(), cluster.clone()));
        }
    }

    fn judge(&mut self, touched: Touched) {
        for gateway in touched.gateways {
            let wrong = self.gateway_rows.has(&gateway) && !self.gateways.has(&gateway);
            self.set(Violation::NoGateway(gateway), wrong);
        }
        for key in touched.tables {
            let wrong = self.table_uses.has(&key) && !self.tables.has(&key);
            self.set(Violation::NoTable(key.0, key.1), wrong);
        }
        for key in touched.secrets {
            let (used, exists) = (self.secret_uses.has(&key), self.secrets.has(&key));
            let (gateway, secret) = key;
            self.set(Violation::NoSecret(gateway.clone(), secret.clone()), used && !exists);
            self.set(Violation::UnusedSecret(gateway, secret), exists && !used);
        }
        for key in touched.members {
            let (used, member) = (self.cluster_uses.has(&key), self.members.has(&key));
            let shows = self.shows.has(&key);
            let (gateway, cluster) = key;
            self.set(Violation::NotMember(gateway.clone(), cluster.clone()), (used || shows) && !member);
            self.set(Violation::UnusedMember(gateway, cluster), member && !used);
        }
        for name in touched.clusters {
            let (cluster, endpoints) = (self.clusters.has(&name), self.endpoints.has(&name));
            let member = self.cluster_members.has(&name);
            if name == INVALID_CLUSTER {
                self.set(Violation::InvalidExists, cluster || endpoints || member);
            }
            self.set(Violation::NoCluster(name.clone()), member && !cluster);
            self.set(Violation::UnusedCluster(name.clone()), cluster && !member);
            self.set(Violation::NoEndpoints(name.clone()), cluster && !endpoints);
            self.set(Violation::StrayEndpoints(name), endpoints && !cluster);
        }
    }

    fn set(&mut self, violation: Violation, wrong: bool) {
        if wrong {
            self.violations.insert(violation);
        } else {
            self.violations.remove(&violation);
        }
    }
}

/// How often something stands; nothing is kept of what does not.
#[derive(Debug)]
struct Counts<K>(BTreeMap<K, isize>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Counts(BTreeMap::new())
    }
}

impl<K: Ord> Counts<K> {
    fn add(&mut self, key: K, diff: isize) {
        match self.0.entry(key) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                if diff != 0 {
                    entry.insert(diff);
                }
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                *entry.get_mut() += diff;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
        }
    }

    fn has(&self, key: &K) -> bool {
        self.0.get(key).is_some_and(|count| *count > 0)
    }
}

/// Everything that is wrong with `sealed`, found by looking at all of it. Rows without their Gateway and virtual hosts
/// without their table are not published, so only a [`Checker`] sees them.
#[must_use]
pub fn full(sealed: &Sealed) -> Vec<Violation> {
    let mut violations = BTreeSet::new();
    let mut all_members = BTreeSet::new();
    for (gateway, view) in &sealed.gateways {
        let (mut used, mut named) = (BTreeSet::new(), BTreeSet::new());
        for listener in view.listeners.values() {
            for table in listener.tables.iter().filter(|table| !view.tables.contains_key(*table)) {
                violations.insert(Violation::NoTable(gateway.clone(), table.clone()));
            }
            used.extend(listener.clusters());
            named.extend(&listener.secrets);
        }
        named.extend(view.shows.values());
        for secret in named.iter().filter(|secret| !view.secrets.contains_key(**secret)) {
            violations.insert(Violation::NoSecret(gateway.clone(), (*secret).clone()));
        }
        for secret in view.secrets.keys().filter(|secret| !named.contains(secret)) {
            violations.insert(Violation::UnusedSecret(gateway.clone(), secret.clone()));
        }
        let hosts = view.tables.values().flat_map(|table| table.hosts.values());
        used.extend(hosts.flat_map(|host| &host.entries).flat_map(|entry| &entry.clusters));
        used.retain(|cluster| **cluster != INVALID_CLUSTER);
        for cluster in used.iter().copied().chain(view.shows.keys()).filter(|cluster| !view.members.contains(*cluster))
        {
            violations.insert(Violation::NotMember(gateway.clone(), cluster.clone()));
        }
        for cluster in view.members.iter().filter(|cluster| !used.contains(cluster)) {
            violations.insert(Violation::UnusedMember(gateway.clone(), cluster.clone()));
        }
        all_members.extend(&view.members);
    }
    let missing = all_members.iter().filter(|name| !sealed.clusters.contains_key(**name));
    violations.extend(missing.map(|name| Violation::NoCluster((*name).clone())));
    let unused = sealed.clusters.keys().filter(|name| !all_members.contains(name));
    violations.extend(unused.map(|name| Violation::UnusedCluster(name.clone())));
    let unanswered = sealed.clusters.keys().filter(|name| !sealed.endpoints.contains_key(*name));
    violations.extend(unanswered.map(|name| Violation::NoEndpoints(name.clone())));
    let stray = sealed.endpoints.keys().filter(|name| !sealed.clusters.contains_key(*name));
    violations.extend(stray.map(|name| Violation::StrayEndpoints(name.clone())));
    let invalid = Name::from(INVALID_CLUSTER);
    if all_members.contains(&invalid)
        || sealed.clusters.contains_key(&invalid)
        || sealed.endpoints.contains_key(&invalid)
    {
        violations.insert(Violation::InvalidExists);
    }
    violations.into_iter().collect()
}

#[cfg(test)]
mod tests;
