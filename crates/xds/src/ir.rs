//! The intermediate representation: what is to be said to Envoy, before it is encoded. Plain values, in the words of
//! Envoy; no Kubernetes object is visible here any more.

use serde::{Deserialize, Serialize};
use tidegate_model::{
    CorsFact, HeaderModifier, Hostname, HttpMatch, ListenerKey, Millis, Name, PathModifier, RetryFact, SessionCarrier,
    SubjectName, Transport, Upstream,
};

/// A listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Resource name.
    pub name: Name,
    /// IP addresses to bind, at least one.
    pub addresses: Vec<Name>,
    /// Port to bind.
    pub port: u16,
    /// What comes in there.
    pub family: Family,
    /// The ways in, at least one, with different hostnames; one for any hostname unless the family is TLS.
    pub chains: Vec<Chain>,
}

/// What comes in at a socket, before anything is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// Requests in plaintext.
    Http,
    /// TLS handshakes, which name the host that they are for: what is behind them is for each chain to say.
    Tls,
    /// Connections of any kind.
    Tcp,
    /// Datagrams.
    Udp,
}

/// One way into a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The name that a client must ask for in its TLS handshake; any for whoever asks for no other chain.
    pub hostname: Hostname,
    /// Where what comes in goes.
    pub to: Way,
    /// Names of the secrets with its certificates, which come by SDS; none where TLS is not terminated.
    pub certificates: Vec<Name>,
    /// How clients are validated where TLS is terminated; none: they are not asked for a certificate.
    pub clients: Option<ClientValidation>,
    /// The listeners of the Gateway and of its ListenerSets that it is made of. Nothing that Envoy is told.
    pub listeners: Vec<ListenerKey>,
}

/// How clients are validated that open a TLS connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientValidation {
    /// CA certificates in PEM, of which one must have signed the client's.
    pub authorities: Name,
    /// Whether only clients with a valid certificate pass. If not, they are asked for one and pass whatever they show.
    pub required: bool,
}

/// Where what comes in goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Requests, to what the table of this name says, which comes by RDS.
    Requests(Name),
    /// Connections or datagrams, each as a whole.
    Stream(Stream),
}

/// What becomes of connections, or of the datagrams of one client's socket. All of it stands in the listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// What it was made of: names the route object and rule; empty if no route takes them.
    pub id: Name,
    /// Where they go; none: they are closed, or dropped.
    pub shares: Vec<Share>,
}

/// A share of the connections, or of the clients' sockets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Share {
    /// Cluster; of [`tidegate_model::INVALID_CLUSTER`] they are closed, or dropped.
    pub cluster: Name,
    /// The share, above 0.
    pub weight: u32,
}

/// One route of a virtual host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it was made of: names the route object, rule and match; unique in its virtual host.
    pub id: Name,
    /// When it applies.
    pub matcher: HttpMatch,
    /// What it does.
    pub action: Action,
    /// Changes to the request, whatever the target.
    pub request_headers: HeaderModifier,
    /// Changes to the response, whatever the target.
    pub response_headers: HeaderModifier,
}

/// What an entry does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Proxies to one of the targets.
    Forward(Forward),
    /// Answers with a redirect.
    Redirect(Redirect),
    /// Answers with this status and no body.
    Respond(u16),
}

/// Proxying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forward {
    /// Targets, at least one with a weight above 0.
    pub targets: Vec<Target>,
    /// Where copies of the requests go.
    pub mirrors: Vec<Mirror>,
    /// New `Host` header.
    pub hostname: Option<Name>,
    /// New path.
    pub path: Option<PathModifier>,
    /// Limit of the whole request in milliseconds; `Some(0)` is none, `None` too (Envoy's 15 s are never wanted).
    pub timeout: Option<Millis>,
    /// Limit of one try in milliseconds; `Some(0)` and `None` are none.
    pub try_timeout: Option<Millis>,
    /// When a request is tried again; never if none.
    pub retry: Option<RetryFact>,
    /// What brings a client back to the endpoint that it was at.
    pub session: Option<Session>,
    /// Which pages of other origins may ask.
    pub cors: Option<Box<CorsFact>>,
    /// Whether a WebSocket upgrade is let through.
    pub websocket: bool,
    /// Whether what is forwarded are calls of gRPC: they may last long, and a target that is not there is unavailable.
    pub grpc: bool,
}

/// Where copies of requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Cluster.
    pub cluster: Name,
    /// How many of a million requests are copied; a million or more is all of them.
    pub per_million: u32,
}

/// What brings a client back to the endpoint that it was at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Name of the cookie or header.
    pub name: Name,
    /// What the client brings.
    pub carrier: SessionCarrier,
    /// The path that the client brings a cookie back to.
    pub path: Name,
}

/// One weighted target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Cluster; [`tidegate_model::INVALID_CLUSTER`] answers 500.
    pub cluster: Name,
    /// Share of the requests.
    pub weight: u32,
    /// Changes to requests that go here.
    pub request_headers: HeaderModifier,
    /// Changes to responses that come from here.
    pub response_headers: HeaderModifier,
}

/// A redirect, with scheme and port decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// New scheme; as the request if none.
    pub scheme: Option<Name>,
    /// New host; as the request if none.
    pub hostname: Option<Name>,
    /// The port that the client shall see. `None`: the default port of the scheme, so none shall stand in Location.
    pub port: Option<u16>,
    /// New path; as the request if none.
    pub path: Option<PathModifier>,
    /// Status code: 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A cluster whose endpoints come by EDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Resource name, also the EDS service name.
    pub name: Name,
    /// How the endpoints are reached.
    pub transport: Transport,
    /// What they speak.
    pub upstream: Upstream,
    /// What is under it, if it is spoken over TLS.
    pub tls: Option<UpstreamTls>,
}

/// TLS towards endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UpstreamTls {
    /// The name that is asked for in the handshake.
    pub sni: Name,
    /// The certificate of an endpoint must have one of these names; if there are none, the one that is asked for.
    pub names: Vec<SubjectName>,
    /// What it must be signed by.
    pub authorities: Authorities,
    /// The name of the secret with the certificate that is shown to endpoints, which comes by SDS.
    pub certificate: Option<Name>,
}

/// Whose signatures are trusted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Authorities {
    /// Those that the system trusts that Envoy runs on.
    System,
    /// Those of these CA certificates, in PEM.
    Inline(Name),
}

/// The endpoints of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Cluster name.
    pub cluster: Name,
    /// Endpoints by locality and priority, each pair once, sorted.
    pub localities: Vec<Locality>,
}

/// Endpoints of one locality.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Locality {
    /// Region, empty if unknown.
    pub region: Name,
    /// Zone, empty if unknown.
    pub zone: Name,
    /// Part of the zone, empty if unknown.
    pub sub_zone: Name,
    /// Priority, from 0 without gaps over the assignment.
    pub priority: u32,
    /// Endpoints, sorted, each address and port once.
    pub endpoints: Vec<Endpoint>,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// IP address.
    pub address: Name,
    /// Port.
    pub port: u16,
    /// Whether it only finishes what it has.
    pub draining: bool,
}
