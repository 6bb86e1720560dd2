//! Names of resources: what a thing is, nothing positional, so that an insertion renames nothing.

use serde::{Deserialize, Serialize};
use tidegate_model::{Hostname, Name, NamespacedName, Transport, Upstream};
use tidegate_xds::ir::{Cluster, Family};

/// A socket of a Gateway: what one of Envoy's listeners is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Socket {
    pub(crate) port: u16,
    pub(crate) family: Family,
}

impl Socket {
    /// The name of the listener.
    pub(crate) fn name(self) -> Name {
        let family = match self.family {
            Family::Http => "http",
            Family::Tls => "tls",
            Family::Tcp => "tcp",
            Family::Udp => "udp",
        };
        format!("{family}/{}", self.port).into()
    }

    /// Whether clients reach it over TLS.
    pub(crate) fn is_tls(self) -> bool {
        self.family == Family::Tls
    }
}

/// The table of a listener of a Gateway. In plaintext the port has one, and its virtual hosts tell the listeners apart;
/// with TLS every listener has its own, because the name that the client asked for in its handshake chose the listener.
pub(crate) fn table_name(socket: Socket, hostname: &Hostname) -> Name {
    if socket.is_tls() { format!("https/{}/{hostname}", socket.port).into() } else { socket.name() }
}

/// The name of a Secret as a resource: its own, so that new content under it is a rotation and nothing else.
pub(crate) fn secret_name(secret: &NamespacedName) -> Name {
    secret.as_str().into()
}

/// The identity of a cluster: a Service port and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ClusterKey {
    pub(crate) service: NamespacedName,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    pub(crate) upstream: Upstream,
    /// Over TLS, if a policy says so.
    pub(crate) tls: Option<TlsKey>,
}

/// Which policy says how TLS is spoken, and as whom. What it says is no part of it: a cluster whose policy changes is the
/// same cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct TlsKey {
    /// The BackendTLSPolicy.
    pub(crate) policy: NamespacedName,
    /// Whose certificate is shown, if any.
    pub(crate) client: Option<ClientKey>,
}

/// A Gateway as a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ClientKey {
    pub(crate) gateway: NamespacedName,
    /// The resource name of the Secret with its certificate: not a part of the name of a cluster.
    pub(crate) secret: Name,
}

impl ClusterKey {
    /// `<namespace>/<service>/<port>[~udp|~h2|~ws][~tls-<policy>][~gw-<gateway>]`; the default has no suffix.
    pub(crate) fn name(&self) -> Name {
        let mut name = Cluster::plain_name(&self.service, self.port, self.transport, self.upstream);
        if let Some(TlsKey { policy, client }) = &self.tls {
            name.push_str(&format!("{TLS}{}.{}", policy.namespace(), policy.name()));
            if let Some(ClientKey { gateway, .. }) = client {
                name.push_str(&format!("~gw-{}.{}", gateway.namespace(), gateway.name()));
            }
        }
        name.into()
    }
}

/// What the name of a cluster has before its policy. No name of an object has a tilde.
const TLS: &str = "~tls-";

/// The name of the cluster with the same endpoints that no policy is about.
pub(crate) fn without_tls(cluster: &Name) -> Name {
    match cluster.split_once(TLS) {
        Some((plain, _)) => plain.into(),
        None => cluster.clone(),
    }
}

/// A cluster together with what joins it to EndpointSlice ports besides the transport: the name of the Service port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Backend {
    pub(crate) cluster: ClusterKey,
    pub(crate) port_name: Name,
}

/// A virtual host: Gateway, table, domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct HostKey {
    pub(crate) gateway: NamespacedName,
    pub(crate) table: Name,
    pub(crate) host: Hostname,
}

impl HostKey {
    /// The same table, another domain.
    pub(crate) fn with_host(&self, host: Hostname) -> HostKey {
        HostKey { gateway: self.gateway.clone(), table: self.table.clone(), host }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_by_what_it_is() {
        let key = |transport, upstream| {
            let service = NamespacedName::parse("shop/cart");
            ClusterKey { service, port: 80, transport, upstream, tls: None }
        };
        let name = |transport, upstream| key(transport, upstream).name();
        assert_eq!(name(Transport::Tcp, Upstream::Http1), "shop/cart/80");
        assert_eq!(name(Transport::Tcp, Upstream::H2c), "shop/cart/80~h2");
        assert_eq!(name(Transport::Tcp, Upstream::WebSocket), "shop/cart/80~ws");
        assert_eq!(name(Transport::Udp, Upstream::Http1), "shop/cart/80~udp");
        let client = ClientKey { gateway: NamespacedName::parse("infra/edge"), secret: "infra/cert".into() };
        let tls = TlsKey { policy: NamespacedName::parse("shop/to.cart"), client: Some(client) };
        let over_tls = ClusterKey { tls: Some(tls), ..key(Transport::Tcp, Upstream::H2c) }.name();
        assert_eq!(over_tls, "shop/cart/80~h2~tls-shop.to.cart~gw-infra.edge");
        assert_eq!(without_tls(&over_tls), "shop/cart/80~h2");
        assert_eq!(without_tls(&name(Transport::Tcp, Upstream::H2c)), "shop/cart/80~h2");
    }
}
