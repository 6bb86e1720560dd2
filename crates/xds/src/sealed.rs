//! The sealed store: persistent maps, so that a seal is cheap to keep and the difference of two seals costs what
//! changed (`imbl::OrdMap::diff`).

use crate::check::{Checker, Violation};
use crate::digest::Digest;
use crate::encode;
use crate::resource::{Resource, Variants, Version};
use crate::row::{Listener, Row, VirtualHost};
use imbl::{OrdMap, OrdSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use tidegate_model::{
    DerivedStatus, Epoch, Held, Hostname, Locality, Millis, Name, NamespacedName, ObjectKey, ResourceType,
};

/// Everything derived, complete at one epoch. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Sealed {
    /// The epoch.
    pub epoch: Epoch,
    /// When its batch was taken.
    pub millis: Millis,
    /// Clusters that somebody references, by name; shared by all Gateways.
    pub clusters: OrdMap<Name, Variants>,
    /// Endpoint assignments, by cluster name; exactly those of `clusters`.
    pub endpoints: OrdMap<Name, Variants>,
    /// What is each Gateway's own.
    pub gateways: OrdMap<NamespacedName, GatewayView>,
    /// Digests of the key material that some Gateway's secrets name, and how many do.
    pub materials: OrdMap<Name, usize>,
    /// Where Nodes are, by name.
    pub kube_nodes: OrdMap<Name, Locality>,
    /// Derived status by object.
    pub status: OrdMap<ObjectKey, Arc<DerivedStatus>>,
    /// Entries that keep their previous form, those of one route side by side.
    pub held: OrdSet<Arc<Held>>,
    /// Multiset hash of all published resources and derived conditions.
    pub digest: Digest,
}

/// What one Gateway's clients get.
#[derive(Clone, Debug, Default)]
pub struct GatewayView {
    /// Listeners by resource name.
    pub listeners: OrdMap<Name, Arc<Listener>>,
    /// Tables by name.
    pub tables: OrdMap<Name, Arc<Table>>,
    /// Secrets by name, without their material: see [`encode::secret_ref`].
    pub secrets: OrdMap<Name, Resource>,
    /// Names of the secrets that clusters name, by cluster.
    pub shows: OrdMap<Name, Name>,
    /// Names of the clusters (and endpoint assignments) that are its clients' share of [`Sealed::clusters`].
    pub members: OrdSet<Name>,
}

impl GatewayView {
    /// Whether nothing is in it.
    fn is_empty(&self) -> bool {
        self.listeners.is_empty()
            && self.tables.is_empty()
            && self.secrets.is_empty()
            && self.shows.is_empty()
            && self.members.is_empty()
    }
}

/// One route configuration, kept as virtual hosts.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: Name,
    /// Hash over the versions of its virtual hosts.
    pub version: Version,
    /// Virtual hosts by domain.
    pub hosts: OrdMap<Hostname, Arc<VirtualHost>>,
    encoded: OnceLock<Resource>,
}

impl Table {
    /// A table of these virtual hosts.
    #[must_use]
    pub fn new(name: Name, hosts: OrdMap<Hostname, Arc<VirtualHost>>) -> Self {
        let version = encode::table_version(&name, hosts.values().map(|host| &**host));
        Table { name, version, hosts, encoded: OnceLock::new() }
    }

    /// The encoded `RouteConfiguration`, concatenated from the encoded virtual hosts once, when first asked for.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        self.encoded.get_or_init(|| {
            let hosts: Vec<&VirtualHost> = self.hosts.values().map(|host| &**host).collect();
            Resource { name: self.name.clone(), version: self.version, bytes: encode::table(&self.name, &hosts) }
        })
    }
}

impl Sealed {
    /// Where a client is that says that it is there, with the name of its Node for a host: what the labels of that Node say,
    /// and what it says itself where they say nothing. This is where clients begin to differ.
    #[must_use]
    pub fn locality(&self, stated: &Locality) -> Locality {
        self.kube_nodes.get(&stated.host).map_or_else(|| stated.clone(), |node| node.or(stated))
    }

    /// The resource that the Gateway's clients get under this name: the form for everybody.
    #[must_use]
    pub fn resource(&self, gateway: &NamespacedName, resource_type: ResourceType, name: &str) -> Option<Resource> {
        self.form(gateway, resource_type, name, Variants::default_form)
    }

    /// The resource that a client of the Gateway gets under this name that is there.
    #[must_use]
    pub fn resource_for(
        &self,
        gateway: &NamespacedName,
        resource_type: ResourceType,
        name: &str,
        locality: &Locality,
    ) -> Option<Resource> {
        self.form(gateway, resource_type, name, |variants| variants.choose(locality))
    }

    fn form(
        &self,
        gateway: &NamespacedName,
        resource_type: ResourceType,
        name: &str,
        choose: impl Fn(&Variants) -> &Resource,
    ) -> Option<Resource> {
        let view = self.gateways.get(gateway)?;
        let shared = |of: &OrdMap<Name, Variants>| {
            let variants = view.members.contains(name).then(|| of.get(name)).flatten()?;
            Some(choose(variants).clone())
        };
        match resource_type {
            ResourceType::Cluster => shared(&self.clusters),
            ResourceType::Endpoints => shared(&self.endpoints),
            ResourceType::Listener => view.listeners.get(name).map(|listener| listener.resource.clone()),
            ResourceType::Secret => view.secrets.get(name).cloned(),
            ResourceType::Table => view.tables.get(name).map(|table| table.resource().clone()),
        }
    }

    /// The names of the resources of this type that the Gateway's clients get, sorted. None for a Gateway that is not
    /// served.
    #[must_use]
    pub fn names(&self, gateway: &NamespacedName, resource_type: ResourceType) -> Vec<Name> {
        let Some(view) = self.gateways.get(gateway) else { return Vec::new() };
        match resource_type {
            ResourceType::Cluster | ResourceType::Endpoints => view.members.iter().cloned().collect(),
            ResourceType::Listener => view.listeners.keys().cloned().collect(),
            ResourceType::Secret => view.secrets.keys().cloned().collect(),
            ResourceType::Table => view.tables.keys().cloned().collect(),
        }
    }
}

/// Turns the changed rows of each epoch into the next [`Sealed`].
#[derive(Debug, Default)]
pub struct Store {
    sealed: Sealed,
    drafts: BTreeMap<NamespacedName, Draft>,
    checker: Checker,
}

/// What there is of a Gateway, served or not.
#[derive(Debug, Default)]
struct Draft {
    served: bool,
    view: GatewayView,
    tables: BTreeMap<Name, TableDraft>,
}

/// What there is of a table, existing or not.
#[derive(Debug, Default)]
struct TableDraft {
    exists: bool,
    hosts: OrdMap<Hostname, Arc<VirtualHost>>,
}

/// The tables that changed, by Gateway that did.
type Touched = BTreeMap<NamespacedName, BTreeSet<Name>>;

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Store::default()
    }

    /// Applies the changes of one epoch (they need not be consolidated) and seals it. Costs what changed: each changed
    /// table is hashed over its virtual hosts' versions and encoded when somebody asks for it.
    pub fn seal(&mut self, epoch: Epoch, millis: Millis, changes: Vec<(Row, isize)>) -> Arc<Sealed> {
        let changes = consolidate(changes);
        self.sealed.epoch = epoch;
        self.sealed.millis = millis;
        self.sealed.digest.extend(&changes);
        self.checker.apply(&changes);
        let mut touched = Touched::new();
        // What goes first, so that of a replaced row the new content stays.
        let (gone, come): (Vec<_>, Vec<_>) = changes.into_iter().partition(|(_, diff)| *diff < 0);
        for (row, diff) in gone.into_iter().chain(come) {
            debug_assert!(diff == 1 || diff == -1, "a row stands once: {row:?} changed by {diff}");
            self.apply(row, diff > 0, &mut touched);
        }
        for (gateway, tables) in touched {
            self.publish(&gateway, tables);
        }
        Arc::new(self.sealed.clone())
    }

    /// What is wrong with the last sealed value; empty unless translation is broken.
    #[must_use]
    pub fn violations(&self) -> &BTreeSet<Violation> {
        self.checker.violations()
    }

    fn apply(&mut self, row: Row, come: bool, touched: &mut Touched) {
        match row {
            Row::Gateway(gateway) => {
                self.draft(&gateway, touched).served = come;
            }
            Row::Listener(gateway, listener) => {
                let name = listener.resource.name.clone();
                replace(&mut self.draft(&gateway, touched).view.listeners, name, listener, come);
            }
            Row::Table(gateway, table) => {
                let draft = self.draft(&gateway, touched);
                draft.tables.entry(table.clone()).or_default().exists = come;
                touched.entry(gateway).or_default().insert(table);
            }
            Row::VirtualHost(gateway, table, host, content) => {
                let draft = self.draft(&gateway, touched);
                replace(&mut draft.tables.entry(table.clone()).or_default().hosts, host, content, come);
                touched.entry(gateway).or_default().insert(table);
            }
            Row::Secret(gateway, secret) => {
                self.count_material(&secret, come);
                let name = secret.name.clone();
                replace(&mut self.draft(&gateway, touched).view.secrets, name, secret, come);
            }
            Row::Shows(gateway, cluster, secret) => {
                replace(&mut self.draft(&gateway, touched).view.shows, cluster, secret, come);
            }
            Row::Member(gateway, cluster) => {
                let members = &mut self.draft(&gateway, touched).view.members;
                if come {
                    members.insert(cluster)
                } else {
                    members.remove(&cluster)
                };
            }
            Row::Cluster(name, variants) => replace(&mut self.sealed.clusters, name, variants, come),
            Row::Endpoints(name, variants) => replace(&mut self.sealed.endpoints, name, variants, come),
            Row::KubeNode(name, locality) => replace(&mut self.sealed.kube_nodes, name, locality, come),
            Row::Status(object, status) => replace(&mut self.sealed.status, object, status, come),
            Row::Held(held) => {
                if come {
                    self.sealed.held.insert(held)
                } else {
                    self.sealed.held.remove(&held)
                };
            }
        }
    }

    fn count_material(&mut self, secret: &Resource, come: bool) {
        let digest = encode::secret_digest(secret);
        let count = self.sealed.materials.get(&digest).copied().unwrap_or(0);
        match if come { count + 1 } else { count.saturating_sub(1) } {
            0 => self.sealed.materials.remove(&digest),
            count => self.sealed.materials.insert(digest, count),
        };
    }

    fn draft(&mut self, gateway: &NamespacedName, touched: &mut Touched) -> &mut Draft {
        touched.entry(gateway.clone()).or_default();
        self.drafts.entry(gateway.clone()).or_default()
    }

    /// Brings the Gateway's published view up to its draft.
    fn publish(&mut self, gateway: &NamespacedName, tables: BTreeSet<Name>) {
        let Some(draft) = self.drafts.get_mut(gateway) else { return };
        for name in tables {
            let Some(table) = draft.tables.get(&name) else { continue };
            if table.exists {
                let table = Table::new(name.clone(), table.hosts.clone());
                draft.view.tables.insert(name, Arc::new(table));
            } else {
                draft.view.tables.remove(&name);
                if table.hosts.is_empty() {
                    draft.tables.remove(&name);
                }
            }
        }
        if draft.served {
            self.sealed.gateways.insert(gateway.clone(), draft.view.clone());
        } else {
            self.sealed.gateways.remove(gateway);
            if draft.tables.is_empty() && draft.view.is_empty() {
                self.drafts.remove(gateway);
            }
        }
    }
}

/// Sorts by row, sums up what happened to each and drops what cancels out.
fn consolidate(mut changes: Vec<(Row, isize)>) -> Vec<(Row, isize)> {
    changes.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    changes.dedup_by(|(row, diff), (kept, sum)| {
        let equal = row == kept;
        if equal {
            *sum += *diff;
        }
        equal
    });
    changes.retain(|(_, diff)| *diff != 0);
    changes
}

/// Puts `value` under `key`, or takes it away if it is what stands there.
fn replace<K: Ord + Clone + Debug, V: Clone + PartialEq>(map: &mut OrdMap<K, V>, key: K, value: V, come: bool) {
    if come {
        debug_assert!(!map.contains_key(&key), "two rows for {key:?}");
        map.insert(key, value);
    } else {
        let stands = map.get(&key) == Some(&value);
        debug_assert!(stands, "a row is retracted that does not stand: {key:?}");
        if stands {
            map.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests;
