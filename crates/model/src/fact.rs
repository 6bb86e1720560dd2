//! Facts: what normalization makes of an object, the only things that enter the dataflow.
//!
//! Defaults are applied, names are resolved against the object's own namespace, nothing depends on another object.
//! *Invariant*: a fact is a function of one object. Small parts are plain; what is large stands behind an `Arc`, so
//! that a row of the dataflow stays a few words.

use crate::finding::Finding;
use crate::hostname::Hostname;
use crate::kind::{GroupKind, Kind, ObjectKey};
use crate::locality::{LEVELS, Locality};
use crate::name::{Name, NamespacedName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

mod frontend;

mod http;
mod policy;
mod report;

pub use frontend::{ClientValidationFact, FrontendFact};
pub use http::{
    CorsFact, Filter, HeaderModifier, HttpMatch, MethodMatch, MirrorFact, PathMatch, PathModifier, RedirectFact,
    RetryFact, RewriteFact, SessionCarrier, SessionFact, ValueMatch, ValuePattern,
};
pub use policy::{AuthorityRefs, BackendTlsFact, PolicyTarget, SubjectName};
pub use report::{ReportFact, ReportedEndpoint, ReportedState, TargetUid};

/// One normalized record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fact {
    /// A GatewayClass.
    Class(ClassFact),
    /// A Gateway.
    Gateway(Arc<GatewayFact>),
    /// A ListenerSet.
    ListenerSet(Arc<ListenerSetFact>),
    /// A route of any kind.
    Route(Arc<RouteFact>),
    /// One pair of `from` and `to` of a ReferenceGrant.
    Grant(GrantFact),
    /// A Namespace.
    Namespace(NamespaceFact),
    /// A Node.
    Node(Arc<NodeFact>),
    /// A Service.
    Service(Arc<ServiceFact>),
    /// An EndpointSlice.
    Slice(Arc<SliceFact>),
    /// A Secret.
    Secret(Arc<SecretFact>),
    /// A ConfigMap.
    Bundle(Arc<BundleFact>),
    /// A BackendTLSPolicy.
    BackendTls(Arc<BackendTlsFact>),
    /// One entry of an EndpointReport.
    Report(ReportFact),
    /// Something to say about an object whose kind has no status of its own to say it in.
    Finding(ObjectKey, Finding),
}

/// A GatewayClass.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassFact {
    /// Its name.
    pub name: Name,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.controllerName`.
    pub controller: Name,
    /// What is wrong with it by itself.
    pub findings: Vec<Finding>,
}

/// A Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GatewayFact {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp` in seconds since the Unix epoch; one constant in file mode when absent.
    pub created: i64,
    /// `spec.gatewayClassName`.
    pub class: Name,
    /// `spec.listeners`, in order.
    pub listeners: Vec<ListenerFact>,
    /// `spec.allowedListeners.namespaces`: whose ListenerSets may add listeners; nobody's if not given.
    pub allowed_sets: AllowedNamespaces,
    /// `spec.addresses`, in order.
    pub addresses: Vec<AddressFact>,
    /// `spec.tls.frontend`.
    pub frontend: FrontendFact,
    /// `spec.tls.backend.clientCertificateRef`: the certificate that backends are shown over TLS.
    pub client: Option<CertificateRef>,
    /// Whether `spec.infrastructure.parametersRef` is set, and to what.
    pub parameters: Option<GroupKind>,
    /// What is wrong with it by itself. Not empty: the Gateway is not accepted and nothing of it is served.
    pub findings: Vec<Finding>,
}

/// A ListenerSet: listeners that stand outside the Gateway that they belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListenerSetFact {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp` in seconds since the Unix epoch; one constant in file mode when absent.
    pub created: i64,
    /// `spec.parentRef`: the Gateway.
    pub gateway: NamespacedName,
    /// `spec.listeners`, in order.
    pub listeners: Vec<ListenerFact>,
    /// What is wrong with it by itself. Not empty: the ListenerSet is not accepted and nothing of it is served.
    pub findings: Vec<Finding>,
}

impl ListenerSetFact {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey { kind: Kind::ListenerSet, name: self.name.clone() }
    }
}

/// An entry of `Gateway.spec.addresses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AddressFact {
    /// `type`, by default `IPAddress`.
    pub kind: Name,
    /// `value`, if given.
    pub value: Option<Name>,
}

/// A listener of a Gateway or ListenerSet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListenerFact {
    /// `name`.
    pub name: Name,
    /// `port`.
    pub port: u16,
    /// `protocol`.
    pub protocol: Protocol,
    /// `hostname`; any if not given.
    pub hostname: Hostname,
    /// `allowedRoutes.namespaces`.
    pub namespaces: AllowedNamespaces,
    /// `allowedRoutes.kinds`; empty means the defaults of the protocol.
    pub kinds: Vec<GroupKind>,
    /// `tls`.
    pub tls: Option<ListenerTlsFact>,
}

/// `Listener.tls`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListenerTlsFact {
    /// Whether `mode` is `Passthrough`; by default it is `Terminate`.
    pub passthrough: bool,
    /// `certificateRefs`, in order.
    pub certificates: Vec<CertificateRef>,
}

/// What a certificate reference names, resolved against the namespace of the object that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CertificateRef {
    /// Group and kind.
    pub group_kind: GroupKind,
    /// Namespace and name.
    pub name: NamespacedName,
}

/// `Listener.protocol`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// `HTTP`.
    Http,
    /// `HTTPS`.
    Https,
    /// `TLS`.
    Tls,
    /// `TCP`.
    Tcp,
    /// `UDP`.
    Udp,
    /// Anything else.
    Other(Name),
}

/// `allowedRoutes.namespaces` or `allowedListeners.namespaces`: whose objects may attach.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AllowedNamespaces {
    /// The namespace of the object that says so.
    Same,
    /// Every namespace.
    All,
    /// Namespaces whose labels match.
    Selector(LabelSelector),
    /// No namespace.
    None,
}

/// A Kubernetes label selector; all parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelSelector {
    /// `matchLabels`.
    pub labels: BTreeMap<Name, Name>,
    /// `matchExpressions`.
    pub expressions: Vec<LabelExpression>,
}

/// One `matchExpressions` entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LabelExpression {
    /// The label has one of the values.
    In(Name, Vec<Name>),
    /// The label is absent or has none of the values.
    NotIn(Name, Vec<Name>),
    /// The label is present.
    Exists(Name),
    /// The label is absent.
    DoesNotExist(Name),
}

impl LabelSelector {
    /// Whether `labels` match every part.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<Name, Name>) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(|expression| match expression {
                LabelExpression::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
                LabelExpression::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
                LabelExpression::Exists(key) => labels.contains_key(key),
                LabelExpression::DoesNotExist(key) => !labels.contains_key(key),
            })
    }
}

/// The kinds of route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RouteKind {
    /// HTTPRoute.
    Http,
    /// GRPCRoute.
    Grpc,
    /// TLSRoute.
    Tls,
    /// TCPRoute.
    Tcp,
    /// UDPRoute.
    Udp,
}

impl RouteKind {
    /// Every kind of route.
    pub const ALL: [RouteKind; 5] = [RouteKind::Http, RouteKind::Grpc, RouteKind::Tls, RouteKind::Tcp, RouteKind::Udp];

    /// The kind of object.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            RouteKind::Http => Kind::HttpRoute,
            RouteKind::Grpc => Kind::GrpcRoute,
            RouteKind::Tls => Kind::TlsRoute,
            RouteKind::Tcp => Kind::TcpRoute,
            RouteKind::Udp => Kind::UdpRoute,
        }
    }

    /// The kind of route that an object of this kind is, if it is one.
    #[must_use]
    pub fn of(kind: Kind) -> Option<RouteKind> {
        RouteKind::ALL.into_iter().find(|route| route.kind() == kind)
    }

    /// Whether it routes streams or datagrams as a whole, without a look at what is in them. Its rules have neither
    /// matches nor filters.
    #[must_use]
    pub fn is_stream(self) -> bool {
        match self {
            RouteKind::Http | RouteKind::Grpc => false,
            RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp => true,
        }
    }

    /// The transport that its backends are reached by.
    #[must_use]
    pub fn transport(self) -> Transport {
        match self {
            RouteKind::Http | RouteKind::Grpc | RouteKind::Tls | RouteKind::Tcp => Transport::Tcp,
            RouteKind::Udp => Transport::Udp,
        }
    }
}

/// Kind, namespace and name of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RouteKey {
    /// The kind of route.
    pub kind: RouteKind,
    /// Namespace and name.
    pub name: NamespacedName,
}

impl RouteKey {
    /// The key of the object.
    #[must_use]
    pub fn object(&self) -> ObjectKey {
        ObjectKey { kind: self.kind.kind(), name: self.name.clone() }
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RouteFact {
    /// Kind, namespace and name.
    pub key: RouteKey,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp` in seconds since the Unix epoch; one constant in file mode when absent.
    pub created: i64,
    /// `spec.parentRefs`, in order.
    pub parents: Vec<ParentFact>,
    /// `spec.hostnames`; empty means the hostnames of the listener. Of a TLSRoute what the client asks for by SNI.
    pub hostnames: Vec<Hostname>,
    /// `spec.rules`, in order.
    pub rules: Vec<RuleFact>,
    /// The annotation [`RETARGET_HOLD`](crate::RETARGET_HOLD) in milliseconds: this route's bound of a retarget hold.
    pub retarget_hold: Option<u64>,
    /// What is wrong with it by itself. Not empty: no parent accepts the route and nothing of it is served.
    pub findings: Vec<Finding>,
}

/// A `parentRef`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ParentFact {
    /// Group and kind.
    pub group_kind: GroupKind,
    /// The object it names, with the route's own namespace where none is written.
    pub name: NamespacedName,
    /// The namespace as written: status repeats the reference as the user wrote it.
    pub namespace_ref: Option<Name>,
    /// `sectionName`.
    pub section: Option<Name>,
    /// `port`.
    pub port: Option<u16>,
}

impl ParentFact {
    /// The Gateway or ListenerSet that it names; none if it names something else.
    #[must_use]
    pub fn key(&self) -> Option<ObjectKey> {
        let kind = [Kind::Gateway, Kind::ListenerSet].into_iter().find(|kind| self.group_kind.is(*kind))?;
        Some(ObjectKey { kind, name: self.name.clone() })
    }
}

/// A rule of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuleFact {
    /// `name`.
    pub name: Option<Name>,
    /// `matches`, in order; never empty for HTTP, always empty for streams.
    pub matches: Vec<HttpMatch>,
    /// `filters`, in order.
    pub filters: Vec<Filter>,
    /// `backendRefs`, in order.
    pub backends: Vec<BackendFact>,
    /// `timeouts.request` in milliseconds; `Some(0)` disables the timeout.
    pub request_timeout: Option<u64>,
    /// `timeouts.backendRequest` in milliseconds; `Some(0)` disables the timeout.
    pub backend_timeout: Option<u64>,
    /// `retry`.
    pub retry: Option<RetryFact>,
    /// `sessionPersistence`.
    pub session: Option<SessionFact>,
}

/// A `backendRef` of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendFact {
    /// What it refers to.
    pub target: BackendRef,
    /// `weight`, by default 1; 0 is meaningful.
    pub weight: u32,
    /// `filters` of this reference.
    pub filters: Vec<Filter>,
}

/// What a backend reference names, resolved against the route's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendRef {
    /// Group and kind.
    pub group_kind: GroupKind,
    /// Namespace and name.
    pub name: NamespacedName,
    /// `port`; a Service needs one.
    pub port: Option<u16>,
}

/// One permitted pair of a ReferenceGrant: `from` may refer to `to` in the grant's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GrantFact {
    /// The namespace of the grant, that is, of what is referred to.
    pub namespace: Name,
    /// `from.group` and `from.kind`.
    pub from: GroupKind,
    /// `from.namespace`.
    pub from_namespace: Name,
    /// `to.group` and `to.kind`.
    pub to: GroupKind,
    /// `to.name`; none means every object of the kind.
    pub to_name: Option<Name>,
}

/// A Namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamespaceFact {
    /// Its name.
    pub name: Name,
    /// Its labels, with `kubernetes.io/metadata.name`. Empty where they cannot be read: then no selector takes it.
    pub labels: Arc<BTreeMap<Name, Name>>,
}

impl NamespaceFact {
    /// The labels of a namespace whose object is not there: what an API server gives every namespace.
    #[must_use]
    pub fn default_labels(name: &Name) -> Arc<BTreeMap<Name, Name>> {
        Arc::new(BTreeMap::from([(Name::from("kubernetes.io/metadata.name"), name.clone())]))
    }
}

/// A Node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeFact {
    /// Its name.
    pub name: Name,
    /// Where its labels say that it is; its host is its name where no label says another.
    pub locality: Locality,
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceFact {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `spec.externalName` of a Service of type ExternalName.
    pub external_name: Option<Name>,
    /// `spec.ports`, in order.
    pub ports: Vec<ServicePortFact>,
    /// Which of its endpoints a client prefers.
    pub distribution: TrafficDistribution,
}

/// Which endpoints of a Service a client prefers: `spec.trafficDistribution`, or the annotation that means the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TrafficDistribution {
    /// None.
    #[default]
    Any,
    /// Those of its network: `PreferNetwork`.
    Network,
    /// Those of its zone, then of its region, then of its network: `PreferSameZone`, and `PreferClose`.
    Zone,
    /// Those of its host, then of its sub-zone, and on as for the zone: `PreferSameNode`.
    Host,
}

impl TrafficDistribution {
    /// How many levels of a [`Locality`] matter.
    #[must_use]
    pub fn depth(self) -> usize {
        match self {
            TrafficDistribution::Any => 0,
            TrafficDistribution::Network => 1,
            TrafficDistribution::Zone => 3,
            TrafficDistribution::Host => LEVELS,
        }
    }
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServicePortFact {
    /// `name`, empty if not given: the key that EndpointSlice ports are joined on.
    pub name: Name,
    /// `port`.
    pub port: u16,
    /// `protocol`.
    pub transport: Transport,
    /// What `appProtocol` says the backend speaks.
    pub upstream: Upstream,
}

/// A transport protocol of a Service or slice port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP, which nothing here serves.
    Sctp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
            Transport::Sctp => "SCTP",
        })
    }
}

/// What a backend speaks on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Upstream {
    /// HTTP/1.1, the default.
    Http1,
    /// HTTP/2 without TLS (`kubernetes.io/h2c`).
    H2c,
    /// WebSocket over HTTP/1.1 (`kubernetes.io/ws`).
    WebSocket,
}

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SliceFact {
    /// Namespace and name.
    pub name: NamespacedName,
    /// The Service that the label `kubernetes.io/service-name` names; nothing else associates a slice.
    pub service: Option<NamespacedName>,
    /// `ports`.
    pub ports: Vec<SlicePortFact>,
    /// The usable `endpoints`: addresses that are no IP, and endpoints that are neither ready nor serving, are left
    /// out.
    pub endpoints: Vec<EndpointFact>,
}

/// A port of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlicePortFact {
    /// `name`, empty if not given.
    pub name: Name,
    /// `port`; a port without number has no members.
    pub port: u16,
    /// `protocol`.
    pub transport: Transport,
}

/// An endpoint of an EndpointSlice, one a (usable) address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EndpointFact {
    /// The IP address, in canonical text.
    pub address: Name,
    /// Whether it may be used, and how gladly.
    pub state: EndpointState,
    /// `nodeName`.
    pub node: Option<Name>,
    /// `zone`.
    pub zone: Option<Name>,
    /// `targetRef.uid`, by which reports name it.
    pub target: Option<TargetUid>,
}

/// Whether an endpoint may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EndpointState {
    /// `ready`, or nothing said.
    Ready,
    /// `terminating` but still `serving`: used only while nothing is ready.
    Draining,
}

/// A Secret: what is known of its material, which is kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SecretFact {
    /// Namespace and name.
    pub name: NamespacedName,
    /// The certificate that it holds, or why it holds none that can be served.
    pub certificate: Result<CertificateFact, Name>,
}

/// What is known of a certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CertificateFact {
    /// Digest of the certificate chain and the key: what the material is found by, and what tells two apart.
    pub digest: Name,
    /// DNS names that it is for, in lower case, sorted.
    pub names: Vec<Hostname>,
    /// The end of its validity, in seconds since the Unix epoch.
    pub not_after: i64,
    /// Whether that end has come.
    pub expired: bool,
}

/// The entry of a ConfigMap that holds CA certificates. Nothing else of a ConfigMap is read.
pub const BUNDLE_ENTRY: &str = "ca.crt";

/// What stands in that entry where a private key stood, which is no longer there for anybody to see.
pub const BUNDLE_KEY_MARK: &str = "(a private key was taken out here)";

/// A ConfigMap: the CA certificates that it holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BundleFact {
    /// Namespace and name.
    pub name: NamespacedName,
    /// The certificates in PEM and nothing besides them, each once and encoded anew; or why it holds none that can be
    /// used.
    pub authorities: Result<Name, Name>,
}

impl Fact {
    /// The object this fact was made of, where the fact alone tells.
    #[must_use]
    pub fn object(&self) -> Option<ObjectKey> {
        Some(match self {
            Fact::Class(class) => ObjectKey::new(Kind::GatewayClass, "", &class.name),
            Fact::Gateway(gateway) => ObjectKey { kind: Kind::Gateway, name: gateway.name.clone() },
            Fact::ListenerSet(set) => set.key(),
            Fact::Route(route) => route.key.object(),
            Fact::Namespace(namespace) => ObjectKey::new(Kind::Namespace, "", &namespace.name),
            Fact::Node(node) => ObjectKey::new(Kind::Node, "", &node.name),
            Fact::Service(service) => ObjectKey { kind: Kind::Service, name: service.name.clone() },
            Fact::Slice(slice) => ObjectKey { kind: Kind::EndpointSlice, name: slice.name.clone() },
            Fact::Secret(secret) => ObjectKey { kind: Kind::Secret, name: secret.name.clone() },
            Fact::BackendTls(policy) => ObjectKey { kind: Kind::BackendTlsPolicy, name: policy.name.clone() },
            Fact::Bundle(bundle) => ObjectKey { kind: Kind::ConfigMap, name: bundle.name.clone() },
            Fact::Report(entry) => ObjectKey { kind: Kind::EndpointReport, name: entry.report.clone() },
            Fact::Finding(object, _) => object.clone(),
            Fact::Grant(_) => return None,
        })
    }
}
