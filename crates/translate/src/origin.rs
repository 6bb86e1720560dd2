//! Where connections to backends begin: at a listener, whose Gateway may have a certificate of its own to show, and which
//! may pass on TLS that began elsewhere.

use crate::names::{Backend, ClientKey, TlsKey};
use crate::policies::Security;
use serde::{Deserialize, Serialize};

/// How what comes in at a listener goes on to backends that policies are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Origin {
    /// As it came: it is TLS between its ends already, and policies are for those who begin it.
    Passthrough,
    /// As the policy says, without a certificate.
    #[default]
    Anonymous,
    /// As the policy says, with the certificate of the Gateway.
    Known(ClientKey),
    /// Not at all: the Gateway shall show a certificate that cannot be had.
    Unknown,
}

impl Origin {
    /// The backend as it is reached from here; none if it must not be.
    pub(crate) fn reach(&self, backend: &Backend, security: &Security) -> Option<Backend> {
        let policy = match (self, security) {
            (Origin::Passthrough, _) | (_, Security::Plain) => return Some(backend.clone()),
            (Origin::Unknown, Security::Tls(_))
            | (Origin::Anonymous | Origin::Known(_) | Origin::Unknown, Security::Closed) => return None,
            (Origin::Anonymous | Origin::Known(_), Security::Tls(policy)) => policy.clone(),
        };
        let client = match self {
            Origin::Known(client) => Some(client.clone()),
            Origin::Passthrough | Origin::Anonymous | Origin::Unknown => None,
        };
        let mut backend = backend.clone();
        backend.cluster.tls = Some(TlsKey { policy, client });
        Some(backend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ClusterKey;
    use tidegate_model::{NamespacedName, Transport, Upstream};

    #[test]
    fn a_backend_is_reached_as_its_policy_says_or_not_at_all() {
        let cluster = ClusterKey {
            service: NamespacedName::parse("shop/cart"),
            port: 443,
            transport: Transport::Tcp,
            upstream: Upstream::Http1,
            tls: None,
        };
        let backend = Backend { cluster, port_name: "https".into() };
        let client = ClientKey { gateway: NamespacedName::parse("infra/edge"), secret: "infra/cert".into() };
        let tls = Security::Tls(NamespacedName::parse("shop/tls"));
        let reached = |origin: &Origin, security: &Security| {
            origin.reach(&backend, security).map(|backend| backend.cluster.name().to_string())
        };
        let known = Origin::Known(client);
        let plain = Some("shop/cart/443".to_owned());
        for origin in [&Origin::Passthrough, &Origin::Anonymous, &known, &Origin::Unknown] {
            assert_eq!(reached(origin, &Security::Plain), plain);
        }
        assert_eq!(reached(&Origin::Passthrough, &tls), plain);
        assert_eq!(reached(&Origin::Passthrough, &Security::Closed), plain);
        assert_eq!(reached(&Origin::Anonymous, &tls), Some("shop/cart/443~tls-shop.tls".to_owned()));
        assert_eq!(reached(&known, &tls), Some("shop/cart/443~tls-shop.tls~gw-infra.edge".to_owned()));
        for (origin, security) in [
            (&Origin::Unknown, &tls),
            (&Origin::Anonymous, &Security::Closed),
            (&known, &Security::Closed),
            (&Origin::Unknown, &Security::Closed),
        ] {
            assert_eq!(reached(origin, security), None);
        }
    }
}
