//! What is spoken on a listener: what it shares a socket with, whether it needs a certificate, which routes it takes.

use serde::{Deserialize, Serialize};
use tidegate_model::{GroupKind, Kind, ListenerFact, Protocol};
use tidegate_xds::ir::Family;

/// What is spoken on a listener, as far as its Gateway says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Speech {
    /// HTTP in plaintext.
    Http,
    /// HTTP over TLS.
    Https,
    /// Anything over TLS, which ends here.
    Terminate,
    /// Anything over TLS, which is passed on as it is.
    Passthrough,
    /// Anything over TCP.
    Tcp,
    /// Anything over UDP.
    Udp,
    /// Something that nobody here understands.
    Unknown,
}

impl Speech {
    pub(crate) fn of(listener: &ListenerFact) -> Speech {
        match &listener.protocol {
            Protocol::Http => Speech::Http,
            Protocol::Https => Speech::Https,
            Protocol::Tls if listener.tls.as_ref().is_some_and(|tls| tls.passthrough) => Speech::Passthrough,
            Protocol::Tls => Speech::Terminate,
            Protocol::Tcp => Speech::Tcp,
            Protocol::Udp => Speech::Udp,
            Protocol::Other(_) => Speech::Unknown,
        }
    }

    /// What comes in at its socket; none where there is no socket for it.
    pub(crate) fn family(self) -> Option<Family> {
        match self {
            Speech::Http => Some(Family::Http),
            Speech::Https | Speech::Terminate | Speech::Passthrough => Some(Family::Tls),
            Speech::Tcp => Some(Family::Tcp),
            Speech::Udp => Some(Family::Udp),
            Speech::Unknown => None,
        }
    }

    /// Whether what comes in is passed on as a whole.
    pub(crate) fn is_stream(self) -> bool {
        match self {
            Speech::Terminate | Speech::Passthrough | Speech::Tcp | Speech::Udp => true,
            Speech::Http | Speech::Https | Speech::Unknown => false,
        }
    }

    /// Whether nothing can be served without a certificate.
    pub(crate) fn needs_certificate(self) -> bool {
        match self {
            Speech::Https | Speech::Terminate => true,
            Speech::Http | Speech::Passthrough | Speech::Tcp | Speech::Udp | Speech::Unknown => false,
        }
    }

    /// The kinds of route that can say what becomes of it.
    pub(crate) fn routes(self) -> Vec<GroupKind> {
        let kinds: &[Kind] = match self {
            Speech::Http | Speech::Https => &[Kind::HttpRoute, Kind::GrpcRoute],
            // Once TLS has ended it is a connection like any other.
            Speech::Terminate => &[Kind::TlsRoute, Kind::TcpRoute],
            Speech::Passthrough => &[Kind::TlsRoute],
            Speech::Tcp => &[Kind::TcpRoute],
            Speech::Udp => &[Kind::UdpRoute],
            Speech::Unknown => &[],
        };
        kinds.iter().copied().map(GroupKind::from).collect()
    }
}
