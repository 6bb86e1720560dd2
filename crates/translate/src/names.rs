//! Names of resources: what a thing is, nothing positional, so that an insertion renames nothing.

use serde::{Deserialize, Serialize};
use tidegate_model::{Hostname, Name, NamespacedName, Transport, Upstream};

/// The listener of a port.
pub(crate) fn listener_name(port: u16, tls: bool) -> Name {
    format!("{}/{port}", if tls { "https" } else { "http" }).into()
}

/// The table of a listener of a Gateway. In plaintext the port has one, and its virtual hosts tell the listeners apart;
/// with TLS every listener has its own, because the name that the client asked for in its handshake chose the listener.
pub(crate) fn table_name(port: u16, tls: bool, hostname: &Hostname) -> Name {
    let listener = listener_name(port, tls);
    if tls { format!("{listener}/{hostname}").into() } else { listener }
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
    pub(crate) upstream: Upstream,
}

impl ClusterKey {
    /// `<namespace>/<service>/<port>[~h2|~ws]`; the default has no suffix.
    pub(crate) fn name(&self) -> Name {
        let suffix = match self.upstream {
            Upstream::Http1 => "",
            Upstream::H2c => "~h2",
            Upstream::WebSocket => "~ws",
        };
        format!("{}/{}{suffix}", self.service, self.port).into()
    }
}

/// A cluster together with what joins it to EndpointSlice ports: the name and transport of the Service port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Backend {
    pub(crate) cluster: ClusterKey,
    pub(crate) port_name: Name,
    pub(crate) transport: Transport,
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
        let key = |upstream| ClusterKey { service: NamespacedName::parse("shop/cart"), port: 80, upstream };
        assert_eq!(key(Upstream::Http1).name(), "shop/cart/80");
        assert_eq!(key(Upstream::H2c).name(), "shop/cart/80~h2");
        assert_eq!(key(Upstream::WebSocket).name(), "shop/cart/80~ws");
    }
}
