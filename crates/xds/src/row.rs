//! Output rows of the dataflow: the input of the sealed store. Keys first, so that rows of one key sort together.
//!
//! *Invariant*: at every sealed epoch each key stands at most once, with multiplicity one.

use crate::resource::{Resource, Variants, Version};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tidegate_model::{
    DerivedStatus, Held, Hostname, INVALID_CLUSTER, ListenerKey, Locality, Name, NamespacedName, ObjectKey,
};

/// One output row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Row {
    /// The Gateway is ours and accepted: its clients are served, be it with nothing.
    Gateway(NamespacedName),
    /// A listener of a Gateway.
    Listener(NamespacedName, Arc<Listener>),
    /// A table exists, be it without virtual hosts.
    Table(NamespacedName, Name),
    /// A virtual host of a table.
    VirtualHost(NamespacedName, Name, Hostname, Arc<VirtualHost>),
    /// A secret that a Gateway's listeners or clusters name: see [`encode::secret_ref`](crate::encode::secret_ref).
    Secret(NamespacedName, Resource),
    /// A cluster of the Gateway's names a secret: the certificate that it shows to its endpoints.
    Shows(NamespacedName, Name, Name),
    /// The Gateway's listeners or tables reference the cluster.
    Member(NamespacedName, Name),
    /// A cluster that somebody references.
    Cluster(Name, Variants),
    /// The endpoints of a cluster that somebody references.
    Endpoints(Name, Variants),
    /// Where a Node is: clients that name it are there.
    KubeNode(Name, Locality),
    /// Derived status of an object.
    Status(ObjectKey, Arc<DerivedStatus>),
    /// An entry of a virtual host keeps its previous form.
    Held(Arc<Held>),
}

/// An encoded listener and what it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Listener {
    /// The encoded `envoy.config.listener.v3.Listener`.
    pub resource: Resource,
    /// Tables that it names.
    pub tables: Vec<Name>,
    /// What it does with streams.
    pub streams: Vec<Stream>,
    /// Secrets that it names, sorted, each once.
    pub secrets: Vec<Name>,
    /// What it is made of.
    pub owners: Vec<Owner>,
}

impl Listener {
    /// Clusters that it names directly, as often as it does; without the one of references that do not resolve.
    pub fn clusters(&self) -> impl Iterator<Item = &Name> {
        self.streams.iter().flat_map(|stream| &stream.clusters).filter(|cluster| **cluster != INVALID_CLUSTER)
    }
}

/// What a listener does with some of its connections or datagrams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stream {
    /// What it was made of, as [`EncodedEntry::id`].
    pub id: Name,
    /// Clusters that it names, sorted, each once; [`INVALID_CLUSTER`] may be among them.
    pub clusters: Vec<Name>,
}

/// One of the listeners of a Gateway and its ListenerSets that an encoded listener is made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Which one.
    pub listener: ListenerKey,
    /// Its table; none if it takes streams.
    pub table: Option<Name>,
    /// The secrets with its certificates.
    pub secrets: Vec<Name>,
}

/// An encoded virtual host of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VirtualHost {
    /// Hash of `bytes`.
    pub version: Version,
    /// The encoded `envoy.config.route.v3.VirtualHost`.
    pub bytes: Bytes,
    /// Its entries, in order: what a rejected table is halved over.
    pub entries: Vec<EncodedEntry>,
}

/// One encoded route of a virtual host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EncodedEntry {
    /// What it was made of.
    pub id: Name,
    /// The encoded `envoy.config.route.v3.Route`.
    pub bytes: Bytes,
    /// Clusters that it names, sorted, each once; [`INVALID_CLUSTER`] may be among them.
    pub clusters: Vec<Name>,
}
