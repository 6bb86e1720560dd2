//! Messages of either protocol.

use bytes::Bytes;
use prost::Message;
use tidegate_model::ResourceType;
use tidegate_proto::Any;
use tidegate_proto::envoy::config::cluster::v3::Cluster;
use tidegate_proto::envoy::config::endpoint::v3::ClusterLoadAssignment;
use tidegate_proto::envoy::config::listener::v3::Listener;
use tidegate_proto::envoy::config::route::v3::RouteConfiguration;
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::Secret;
use tidegate_proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};

/// The two forms of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// State of the world.
    Sotw,
    /// Incremental.
    Delta,
}

/// A request of either protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// State of the world.
    Sotw(DiscoveryRequest),
    /// Incremental.
    Delta(DeltaDiscoveryRequest),
}

/// A response of either protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// State of the world.
    Sotw(DiscoveryResponse),
    /// Incremental.
    Delta(DeltaDiscoveryResponse),
}

/// A resource as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: String,
    /// Empty in the state-of-the-world protocol.
    pub(crate) version: String,
    pub(crate) bytes: Bytes,
}

impl Request {
    /// The type that it asks for.
    #[must_use]
    pub fn type_url(&self) -> &str {
        match self {
            Request::Sotw(request) => &request.type_url,
            Request::Delta(request) => &request.type_url,
        }
    }
}

impl Response {
    /// The type URL.
    #[must_use]
    pub fn type_url(&self) -> &str {
        match self {
            Response::Sotw(response) => &response.type_url,
            Response::Delta(response) => &response.type_url,
        }
    }

    /// The nonce.
    #[must_use]
    pub fn nonce(&self) -> &str {
        match self {
            Response::Sotw(response) => &response.nonce,
            Response::Delta(response) => &response.nonce,
        }
    }

    /// `version_info` or `system_version_info`.
    #[must_use]
    pub fn version(&self) -> &str {
        match self {
            Response::Sotw(response) => &response.version_info,
            Response::Delta(response) => &response.system_version_info,
        }
    }

    /// Names of what it takes away.
    #[must_use]
    pub fn removed(&self) -> &[String] {
        match self {
            Response::Sotw(_) => &[],
            Response::Delta(response) => &response.removed_resources,
        }
    }

    /// What it brings; a text says what cannot be decoded.
    pub(crate) fn items(&self, kind: ResourceType) -> Result<Vec<Item>, String> {
        match self {
            Response::Sotw(response) => {
                response.resources.iter().map(|any| item(kind, any, String::new(), None)).collect()
            }
            Response::Delta(response) => {
                let one = |resource: &tidegate_proto::envoy::service::discovery::v3::Resource| {
                    let any = resource.resource.as_ref().ok_or_else(|| format!("{} has no content", resource.name))?;
                    item(kind, any, resource.version.clone(), Some(&resource.name))
                };
                response.resources.iter().map(one).collect()
            }
        }
    }
}

fn item(kind: ResourceType, any: &Any, version: String, wrapped: Option<&String>) -> Result<Item, String> {
    if any.type_url != kind.url() {
        return Err(format!("a resource of type {} in a response of {}", any.type_url, kind.short()));
    }
    let bytes = any.value.clone();
    let name = match kind {
        ResourceType::Cluster => Cluster::decode(bytes.clone()).map(|cluster| cluster.name),
        ResourceType::Endpoints => ClusterLoadAssignment::decode(bytes.clone()).map(|endpoints| endpoints.cluster_name),
        ResourceType::Listener => Listener::decode(bytes.clone()).map(|listener| listener.name),
        ResourceType::Secret => Secret::decode(bytes.clone()).map(|secret| secret.name),
        ResourceType::Table => RouteConfiguration::decode(bytes.clone()).map(|table| table.name),
    };
    let name = name.map_err(|error| format!("a resource of {} does not decode: {error}", kind.short()))?;
    match wrapped {
        Some(wrapped) if *wrapped != name => Err(format!("resource {name} is sent under the name {wrapped}")),
        Some(_) | None => Ok(Item { name, version, bytes }),
    }
}
