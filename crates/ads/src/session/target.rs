//! What a seal wants one client to hold.

use crate::session::Client;
use imbl::ordmap::DiffItem;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use tidegate_model::{Epoch, INVALID_CLUSTER, ListenerKey, Locality, Name, ResourceType};
use tidegate_xds::row::Listener;
use tidegate_xds::{GatewayView, Resource, Sealed, Table, Variants, Version};

/// A seal, seen by the clients of one Gateway at one place. A Gateway that is not in the seal is an empty view.
#[derive(Clone, Default)]
pub(crate) struct Target {
    sealed: Arc<Sealed>,
    view: GatewayView,
    locality: Locality,
    /// Tables in another form than the seal's: without what this client rejects.
    composed: BTreeMap<Name, Arc<Table>>,
}

/// A seal is large; its epoch says which it is.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}

impl Target {
    pub(crate) fn new(sealed: Arc<Sealed>, client: &Client) -> Self {
        let view = sealed.gateways.get(&client.gateway).cloned().unwrap_or_default();
        let locality = sealed.locality(&client.locality);
        Target { sealed, view, locality, composed: BTreeMap::new() }
    }

    /// The same seal for a client that is elsewhere.
    pub(crate) fn elsewhere(&self, client: &Client) -> Self {
        Target { locality: self.sealed.locality(&client.locality), ..self.clone() }
    }

    /// The same with these tables in place of the seal's.
    pub(crate) fn with(&self, composed: BTreeMap<Name, Arc<Table>>) -> Self {
        Target { composed, ..self.clone() }
    }

    /// The table as it was sealed.
    pub(crate) fn sealed_table(&self, name: &Name) -> Option<&Arc<Table>> {
        self.view.tables.get(name)
    }

    /// The table as the client shall hold it.
    fn table(&self, name: &Name) -> Option<&Arc<Table>> {
        self.composed.get(name).or_else(|| self.view.tables.get(name))
    }

    /// Whether there is a cluster of this name.
    pub(crate) fn is_member(&self, cluster: &Name) -> bool {
        self.view.members.contains(cluster)
    }

    /// The secret that a cluster names, if it names one.
    pub(crate) fn secret_of(&self, cluster: &Name) -> Option<&Name> {
        self.view.shows.get(cluster)
    }

    /// The listeners of the Gateway and its ListenerSets that suffer when the client has not got this listener, secret or table, sorted.
    pub(crate) fn owners(&self, kind: ResourceType, name: &Name) -> Vec<ListenerKey> {
        let owners = self.view.listeners.iter().flat_map(|(listener, content)| {
            content.owners.iter().filter(move |owner| match kind {
                ResourceType::Listener => listener == name,
                ResourceType::Secret => owner.secrets.contains(name),
                ResourceType::Table => owner.table.as_ref() == Some(name),
                ResourceType::Cluster | ResourceType::Endpoints => false,
            })
        });
        owners.map(|owner| owner.listener.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Ids of the entries and streams that name the cluster, sorted, each once. Looks at every one: for what happens
    /// rarely.
    pub(crate) fn entries_with(&self, cluster: &Name) -> Vec<Name> {
        let hosts = self.view.tables.values().flat_map(|table| table.hosts.values());
        let entries = hosts.flat_map(|host| &host.entries).map(|entry| (&entry.id, &entry.clusters));
        let streams = self.view.listeners.values().flat_map(|listener| &listener.streams);
        let all = entries.chain(streams.map(|stream| (&stream.id, &stream.clusters)));
        let with = all.filter(|(_, clusters)| clusters.contains(cluster));
        with.map(|(id, _)| id.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Where the client is.
    pub(crate) fn locality(&self) -> &Locality {
        &self.locality
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
            ResourceType::Table => self.table(name).map(|table| table.resource()),
        }
    }

    fn shared<'a>(&'a self, all: &'a imbl::OrdMap<Name, Variants>, name: &Name) -> Option<&'a Resource> {
        if self.view.members.contains(name) { all.get(name).map(|forms| forms.choose(&self.locality)) } else { None }
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
            ResourceType::Table => self.table(name).cloned().map(User::Table),
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
        // Of what changed perhaps only what others get.
        let differs = |name: &Name| self.shared(old, name) != newer.shared(new, name);
        if self.locality != newer.locality {
            let stay = self.view.members.iter().filter(|name| ours(name) && differs(name)).cloned();
            return membership.chain(stay).collect();
        }
        let content = old.diff(new).filter(|item| ours(name_of(item)) && differs(name_of(item)));
        membership.chain(content.map(|item| name_of(&item).clone())).collect()
    }

    fn changed_tables(&self, newer: &Target) -> BTreeSet<Name> {
        let nothing_composed = self.composed.is_empty() && newer.composed.is_empty();
        if nothing_composed && self.view.tables.ptr_eq(&newer.view.tables) {
            return BTreeSet::new();
        }
        // A Gateway has few tables; what is many are the virtual hosts in them.
        let differs = |name: &&Name| match (self.table(name), newer.table(name)) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new) && old.version != new.version,
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        self.view.tables.keys().chain(newer.view.tables.keys()).filter(differs).cloned().collect()
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
            (User::Listener(listener), _) => listener.clusters().cloned().collect(),
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
