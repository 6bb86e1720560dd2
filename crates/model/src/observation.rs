//! Observations: what clients told us. Never an input of the dataflow.

use crate::Epoch;
use crate::kind::ListenerKey;
use crate::name::{Name, NamespacedName};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One connected client: an xDS node, for as long as its stream lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId {
    /// Number of the stream since the process started; distinguishes two streams of one node.
    pub stream: u64,
    /// `node.id`.
    pub node: Name,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.node, self.stream)
    }
}

/// The xDS resource types that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ResourceType {
    /// `envoy.config.cluster.v3.Cluster` (CDS).
    Cluster,
    /// `envoy.config.endpoint.v3.ClusterLoadAssignment` (EDS).
    Endpoints,
    /// `envoy.config.listener.v3.Listener` (LDS).
    Listener,
    /// `envoy.extensions.transport_sockets.tls.v3.Secret` (SDS).
    Secret,
    /// `envoy.config.route.v3.RouteConfiguration` (RDS).
    Table,
}

impl ResourceType {
    /// Every type, in the order in which additions are sent.
    pub const ALL: [ResourceType; 5] = [
        ResourceType::Cluster,
        ResourceType::Endpoints,
        ResourceType::Listener,
        ResourceType::Secret,
        ResourceType::Table,
    ];

    /// The type URL.
    #[must_use]
    pub fn url(self) -> &'static str {
        match self {
            ResourceType::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            ResourceType::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            ResourceType::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            ResourceType::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            ResourceType::Table => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    /// The short name of its discovery service: `cds`, `eds`, `lds`, `sds`, `rds`.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            ResourceType::Cluster => "cds",
            ResourceType::Endpoints => "eds",
            ResourceType::Listener => "lds",
            ResourceType::Secret => "sds",
            ResourceType::Table => "rds",
        }
    }

    /// The type of a type URL.
    #[must_use]
    pub fn of_url(url: &str) -> Option<ResourceType> {
        ResourceType::ALL.into_iter().find(|t| t.url() == url)
    }
}

/// A resource, or entries of a table, that a client refuses and is kept from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Refusal {
    /// The type.
    pub kind: ResourceType,
    /// The name of the resource.
    pub name: Name,
    /// The listeners of the Gateway and of its ListenerSets that suffer.
    pub listeners: Vec<ListenerKey>,
    /// Ids of the entries that suffer: those of the table that are refused, or that name the cluster.
    pub entries: Vec<Name>,
    /// The client's message, without dumped material.
    pub detail: Name,
}

/// Something a client told us.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Observation {
    /// A stream was opened and named its Gateway.
    Connected {
        /// Who.
        client: ClientId,
        /// The Gateway whose configuration it asks for.
        gateway: NamespacedName,
        /// Whether it speaks the delta protocol.
        delta: bool,
    },
    /// A response was accepted.
    Acked {
        /// Who.
        client: ClientId,
        /// Of which type.
        kind: ResourceType,
        /// The epoch whose content the response carried.
        epoch: Epoch,
    },
    /// A response was rejected; the client keeps what it had.
    Rejected {
        /// Who.
        client: ClientId,
        /// The Gateway it belongs to.
        gateway: NamespacedName,
        /// Of which type.
        kind: ResourceType,
        /// The epoch whose content the response carried.
        epoch: Epoch,
        /// Names of the resources that the response carried, and with which versions.
        resources: Vec<(Name, Name)>,
        /// Envoy's message, without dumped material.
        detail: Name,
    },
    /// What the client refuses of what it shall have now: all of it, after each change.
    Refuses {
        /// Who.
        client: ClientId,
        /// The Gateway it belongs to.
        gateway: NamespacedName,
        /// By type and name; empty when nothing is refused any more.
        refusals: Vec<Refusal>,
    },
    /// The stream ended.
    Disconnected {
        /// Who.
        client: ClientId,
    },
}
