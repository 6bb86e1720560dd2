//! What a seal wants one client to hold.

use imbl::ordmap::DiffItem;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tidegate_model::{Epoch, INVALID_CLUSTER, Name, NamespacedName, ResourceType};
use tidegate_xds::row::Listener;
use tidegate_xds::{GatewayView, Resource, Sealed, Table, Variants, Version};

/// A seal, seen by the clients of one Gateway. A Gateway that is not in the seal is an empty view.
#[derive(Clone, Default)]
pub(crate) struct Target {
    sealed: Arc<Sealed>,
    view: GatewayView,
}

/// A seal is large; its epoch says which it is.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}

impl Target {
    pub(crate) fn new(sealed: Arc<Sealed>, gateway: &NamespacedName) -> Self {
        let view = sealed.gateways.get(gateway).cloned().unwrap_or_default();
        Target { sealed, view }
    }

    /// The epoch of the seal.
    pub(crate) fn epoch(&self) -> Epoch {
        self.sealed.epoch
    }

    /// The resource of this name, if the client shall hold one.
    pub(crate) fn get(&self, kind: ResourceType, name: &Name) -> Option<&Resource> {
        match kind {
            ResourceType::Cluster => self.shared(&self.sealed.clusters, name),
            ResourceType::Endpoints => self.shared(&self.sealed.endpoints, name),
            ResourceType::Listener => self.view.listeners.get(name).map(|listener| &listener.resource),
            ResourceType::Secret => self.view.secrets.get(name),
            ResourceType::Table => self.view.tables.get(name).map(|table| table.resource()),
        }
    }

    fn shared<'a>(&'a self, all: &'a imbl::OrdMap<Name, Variants>, name: &Name) -> Option<&'a Resource> {
        if self.view.members.contains(name) { all.get(name).map(Variants::default_form) } else { None }
    }

    /// Names of everything that the client shall hold, sorted.
    pub(crate) fn names(&self, kind: ResourceType) -> Box<dyn Iterator<Item = &Name> + '_> {
        match kind {
            ResourceType::Cluster | ResourceType::Endpoints => Box::new(self.view.members.iter()),
            ResourceType::Listener => Box::new(self.view.listeners.keys()),
            ResourceType::Secret => Box::new(self.view.secrets.keys()),
            ResourceType::Table => Box::new(self.view.tables.keys()),
        }
    }

    /// What names clusters, for the types that do.
    pub(crate) fn user(&self, kind: ResourceType, name: &Name) -> Option<User> {
        match kind {
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Secret => None,
            ResourceType::Listener => self.view.listeners.get(name).cloned().map(User::Listener),
            ResourceType::Table => self.view.tables.get(name).cloned().map(User::Table),
        }
    }

    /// Names of the resources that may differ between two seals. Costs what changed, not what there is.
    pub(crate) fn changed(&self, newer: &Target, kind: ResourceType) -> BTreeSet<Name> {
        match kind {
            ResourceType::Cluster => self.changed_members(newer, &self.sealed.clusters, &newer.sealed.clusters),
            ResourceType::Endpoints => self.changed_members(newer, &self.sealed.endpoints, &newer.sealed.endpoints),
            ResourceType::Listener => {
                self.view.listeners.diff(&newer.view.listeners).map(|item| name_of(&item).clone()).collect()
            }
            ResourceType::Secret => {
                self.view.secrets.diff(&newer.view.secrets).map(|item| name_of(&item).clone()).collect()
            }
            ResourceType::Table => self.changed_tables(newer),
        }
    }

    fn changed_members(
        &self,
        newer: &Target,
        old: &imbl::OrdMap<Name, Variants>,
        new: &imbl::OrdMap<Name, Variants>,
    ) -> BTreeSet<Name> {
        use imbl::ordset::DiffItem::{Add, Remove};
        let membership = self.view.members.diff(&newer.view.members).map(|item| match item {
            Add(name) | Remove(name) => name.clone(),
        });
        let ours = |name: &Name| self.view.members.contains(name) && newer.view.members.contains(name);
        let content = old.diff(new).filter(|item| ours(name_of(item))).map(|item| name_of(&item).clone());
        membership.chain(content).collect()
    }

    fn changed_tables(&self, newer: &Target) -> BTreeSet<Name> {
        if self.view.tables.ptr_eq(&newer.view.tables) {
            return BTreeSet::new();
        }
        // A Gateway has few tables; what is many are the virtual hosts in them.
        let (old, new) = (&self.view.tables, &newer.view.tables);
        let differs = |name: &&Name| match (old.get(*name), new.get(*name)) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new) && old.version != new.version,
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        old.keys().chain(new.keys()).filter(differs).cloned().collect()
    }
}

fn name_of<'a, 'b, V>(item: &DiffItem<'a, 'b, Name, V>) -> &'a Name
where
    'b: 'a,
{
    match item {
        DiffItem::Add(name, _) | DiffItem::Remove(name, _) => name,
        DiffItem::Update { old: (name, _), .. } => name,
    }
}

/// Something that names clusters.
#[derive(Clone)]
pub(crate) enum User {
    /// A listener, with the clusters that it names directly.
    Listener(Arc<Listener>),
    /// A table.
    Table(Arc<Table>),
}

/// As of any resource: name and version.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.resource(), f)
    }
}

impl User {
    /// The resource.
    pub(crate) fn resource(&self) -> &Resource {
        match self {
            User::Listener(listener) => &listener.resource,
            User::Table(table) => table.resource(),
        }
    }

    /// The version of the resource, without encoding it.
    pub(crate) fn version(&self) -> Version {
        match self {
            User::Listener(listener) => listener.resource.version,
            User::Table(table) => table.version,
        }
    }

    /// The clusters named by what this has and `base` has not. Costs what differs between the two.
    pub(crate) fn clusters_beyond(&self, base: Option<&User>) -> BTreeSet<Name> {
        let mut clusters: BTreeSet<Name> = match (self, base) {
            (User::Listener(listener), _) => listener.clusters.iter().cloned().collect(),
            (User::Table(table), Some(User::Table(base))) => base
                .hosts
                .diff(&table.hosts)
                .filter_map(|item| match item {
                    DiffItem::Add(_, host) | DiffItem::Update { new: (_, host), .. } => Some(host),
                    DiffItem::Remove(..) => None,
                })
                .flat_map(|host| &host.entries)
                .flat_map(|entry| entry.clusters.iter().cloned())
                .collect(),
            (User::Table(table), _) => {
                let entries = table.hosts.values().flat_map(|host| &host.entries);
                entries.flat_map(|entry| entry.clusters.iter().cloned()).collect()
            }
        };
        clusters.remove(INVALID_CLUSTER);
        clusters
    }
}
