//! The kinds of object that are read, and the key of one object.

use crate::name::{Name, NamespacedName};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of Kubernetes object that translation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// `gateway.networking.k8s.io` GatewayClass.
    GatewayClass,
    /// `gateway.networking.k8s.io` Gateway.
    Gateway,
    /// `gateway.networking.k8s.io` ListenerSet.
    ListenerSet,
    /// `gateway.networking.k8s.io` HTTPRoute.
    #[serde(rename = "HTTPRoute")]
    HttpRoute,
    /// `gateway.networking.k8s.io` GRPCRoute.
    #[serde(rename = "GRPCRoute")]
    GrpcRoute,
    /// `gateway.networking.k8s.io` TLSRoute.
    #[serde(rename = "TLSRoute")]
    TlsRoute,
    /// `gateway.networking.k8s.io` TCPRoute.
    #[serde(rename = "TCPRoute")]
    TcpRoute,
    /// `gateway.networking.k8s.io` UDPRoute.
    #[serde(rename = "UDPRoute")]
    UdpRoute,
    /// `gateway.networking.k8s.io` ReferenceGrant.
    ReferenceGrant,
    /// `gateway.networking.k8s.io` BackendTLSPolicy.
    #[serde(rename = "BackendTLSPolicy")]
    BackendTlsPolicy,
    /// core Namespace.
    Namespace,
    /// core Node. Only the labels are read that say where it is.
    Node,
    /// core Service.
    Service,
    /// `discovery.k8s.io` EndpointSlice.
    EndpointSlice,
    /// core Secret. Its material stays outside: what is read is a digest of it, and a verdict on it.
    Secret,
    /// core ConfigMap. Of what it holds only the entry [`BUNDLE_ENTRY`](crate::BUNDLE_ENTRY) is read.
    ConfigMap,
    /// `tidegate.dev` EndpointReport. The one kind whose `status` is read.
    EndpointReport,
}

impl Kind {
    /// Every kind, in the order in which their `synced` is awaited and reported.
    pub const ALL: [Kind; 17] = [
        Kind::GatewayClass,
        Kind::Gateway,
        Kind::ListenerSet,
        Kind::HttpRoute,
        Kind::GrpcRoute,
        Kind::TlsRoute,
        Kind::TcpRoute,
        Kind::UdpRoute,
        Kind::ReferenceGrant,
        Kind::BackendTlsPolicy,
        Kind::Namespace,
        Kind::Node,
        Kind::Service,
        Kind::EndpointSlice,
        Kind::Secret,
        Kind::ConfigMap,
        Kind::EndpointReport,
    ];

    /// The kind as a manifest writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::GatewayClass => "GatewayClass",
            Kind::Gateway => "Gateway",
            Kind::ListenerSet => "ListenerSet",
            Kind::HttpRoute => "HTTPRoute",
            Kind::GrpcRoute => "GRPCRoute",
            Kind::TlsRoute => "TLSRoute",
            Kind::TcpRoute => "TCPRoute",
            Kind::UdpRoute => "UDPRoute",
            Kind::ReferenceGrant => "ReferenceGrant",
            Kind::BackendTlsPolicy => "BackendTLSPolicy",
            Kind::Namespace => "Namespace",
            Kind::Node => "Node",
            Kind::Service => "Service",
            Kind::EndpointSlice => "EndpointSlice",
            Kind::Secret => "Secret",
            Kind::ConfigMap => "ConfigMap",
            Kind::EndpointReport => "EndpointReport",
        }
    }

    /// The API group, empty for the core group.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Kind::GatewayClass
            | Kind::Gateway
            | Kind::ListenerSet
            | Kind::HttpRoute
            | Kind::GrpcRoute
            | Kind::TlsRoute
            | Kind::TcpRoute
            | Kind::UdpRoute
            | Kind::ReferenceGrant
            | Kind::BackendTlsPolicy => "gateway.networking.k8s.io",
            Kind::Namespace | Kind::Node | Kind::Service | Kind::Secret | Kind::ConfigMap => "",
            Kind::EndpointSlice => "discovery.k8s.io",
            Kind::EndpointReport => "tidegate.dev",
        }
    }

    /// The versions that are read, the one to write first.
    #[must_use]
    pub fn versions(self) -> &'static [&'static str] {
        match self {
            Kind::GatewayClass | Kind::Gateway | Kind::HttpRoute => &["v1", "v1beta1"],
            // The experimental channel serves the older versions too; they have the same fields.
            Kind::TlsRoute => &["v1", "v1alpha2", "v1alpha3"],
            Kind::TcpRoute | Kind::UdpRoute => &["v1", "v1alpha2"],
            Kind::ReferenceGrant => &["v1beta1", "v1"],
            Kind::ListenerSet
            | Kind::GrpcRoute
            | Kind::BackendTlsPolicy
            | Kind::Namespace
            | Kind::Node
            | Kind::Service
            | Kind::EndpointSlice
            | Kind::Secret
            | Kind::ConfigMap => &["v1"],
            Kind::EndpointReport => &["v1alpha1"],
        }
    }

    /// Whether objects of this kind have no namespace.
    #[must_use]
    pub fn is_cluster_scoped(self) -> bool {
        matches!(self, Kind::GatewayClass | Kind::Namespace | Kind::Node)
    }

    /// Whether something would be open without an object of this kind that is closed with it. Such an object counts even
    /// if it is broken, as far as it can be read, and closes what it is about.
    #[must_use]
    pub fn guards(self) -> bool {
        match self {
            // Its Services would be reached in plaintext, and a selector may want a label not to be there.
            Kind::BackendTlsPolicy | Kind::Namespace => true,
            // What they are about is not served, not permitted or not trusted without them.
            Kind::GatewayClass
            | Kind::Gateway
            | Kind::ListenerSet
            | Kind::HttpRoute
            | Kind::GrpcRoute
            | Kind::TlsRoute
            | Kind::TcpRoute
            | Kind::UdpRoute
            | Kind::ReferenceGrant
            | Kind::Node
            | Kind::Service
            | Kind::EndpointSlice
            | Kind::EndpointReport
            | Kind::Secret
            | Kind::ConfigMap => false,
        }
    }

    /// The kind of an `apiVersion` (`group/version` or `version`) and `kind`, if it is one that is read.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Option<Kind> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Kind::ALL.into_iter().find(|k| k.as_str() == kind && k.group() == group && k.versions().contains(&version))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The identity of one object: its kind, namespace and name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The kind.
    pub kind: Kind,
    /// Namespace and name.
    pub name: NamespacedName,
}

impl ObjectKey {
    /// The key of `kind` `namespace/name`; the namespace of a cluster-scoped kind is dropped.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.is_cluster_scoped() { "" } else { namespace };
        ObjectKey { kind, name: NamespacedName::new(namespace, name) }
    }

    /// The object that a text begins with, written as [`fmt::Display`] writes it. What an entry of a table was made of
    /// stands at the start of the entry's id.
    #[must_use]
    pub fn at_start_of(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (kind, name) = (words.next()?, words.next()?);
        let kind = Kind::ALL.into_iter().find(|known| known.as_str() == kind)?;
        Some(ObjectKey { kind, name: NamespacedName::parse(name) })
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// One listener: the Gateway or ListenerSet that has it, and its name there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListenerKey {
    /// The Gateway or ListenerSet.
    pub parent: ObjectKey,
    /// The name of the listener, which others may have elsewhere.
    pub name: Name,
}

impl ListenerKey {
    /// The listener of this name that stands in a Gateway itself.
    #[must_use]
    pub fn of_gateway(gateway: &NamespacedName, name: &str) -> Self {
        ListenerKey { parent: ObjectKey { kind: Kind::Gateway, name: gateway.clone() }, name: name.into() }
    }
}

impl fmt::Display for ListenerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "listener {} of {}", self.name, self.parent)
    }
}

/// A group and kind as a user wrote them in a reference, any kind at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKind {
    /// The API group, empty for the core group.
    pub group: Name,
    /// The kind.
    pub kind: Name,
}

impl GroupKind {
    /// A group and a kind.
    #[must_use]
    pub fn new(group: &str, kind: &str) -> Self {
        GroupKind { group: group.into(), kind: kind.into() }
    }

    /// Whether this names `kind`.
    #[must_use]
    pub fn is(&self, kind: Kind) -> bool {
        self.group == kind.group() && self.kind == kind.as_str()
    }
}

impl From<Kind> for GroupKind {
    fn from(kind: Kind) -> Self {
        GroupKind::new(kind.group(), kind.as_str())
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { write!(f, "{}", self.kind) } else { write!(f, "{}/{}", self.group, self.kind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_back_from_the_start_of_a_text() {
        for kind in Kind::ALL {
            let key = ObjectKey::new(kind, "shop", "cart");
            assert_eq!(ObjectKey::at_start_of(&key.to_string()), Some(key.clone()));
            assert_eq!(ObjectKey::at_start_of(&format!("{key} rule 0 match 1")), Some(key));
        }
        assert_eq!(ObjectKey::at_start_of("misdirected"), None);
        assert_eq!(ObjectKey::at_start_of("Pod a/b"), None);
    }

    #[test]
    fn a_kind_is_found_by_group_version_and_kind() {
        assert_eq!(Kind::of("v1", "Service"), Some(Kind::Service));
        assert_eq!(Kind::of("gateway.networking.k8s.io/v1", "HTTPRoute"), Some(Kind::HttpRoute));
        assert_eq!(Kind::of("gateway.networking.k8s.io/v1alpha2", "TCPRoute"), Some(Kind::TcpRoute));
        assert_eq!(Kind::of("gateway.networking.k8s.io/v1alpha3", "TCPRoute"), None);
        assert_eq!(Kind::of("serving.knative.dev/v1", "Service"), None);
        assert_eq!(Kind::of("gateway.networking.k8s.io/v1alpha1", "Gateway"), None);
    }
}
