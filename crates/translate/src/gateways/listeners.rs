//! The verdict on each listener of a Gateway.

use crate::names::{Socket, table_name};
use crate::speech::Speech;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidegate_model::{AllowedNamespaces, GroupKind, Hostname, ListenerFact, Name, Protocol};

/// A listener with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ListenerState {
    pub(crate) name: Name,
    pub(crate) port: u16,
    pub(crate) hostname: Hostname,
    pub(crate) namespaces: AllowedNamespaces,
    /// The kinds of route that it takes.
    pub(crate) kinds: Vec<GroupKind>,
    /// Kinds that the user allowed but that the protocol cannot carry.
    pub(crate) bad_kinds: Vec<GroupKind>,
    pub(crate) problem: Option<ListenerProblem>,
    /// What is spoken there.
    pub(crate) speech: Speech,
    /// Whether requests to its hostname are its own and no less specific listener's. A listener without a certificate
    /// that can be served still claims them: nothing answers them in its place.
    pub(crate) claims: bool,
    /// Whether traffic is served: no problem, its Gateway is accepted, and it has a certificate if it needs one.
    pub(crate) usable: bool,
}

impl ListenerState {
    /// The socket that it shares with other listeners of its port, if there can be one.
    pub(crate) fn socket(&self) -> Option<Socket> {
        self.speech.family().map(|family| Socket { port: self.port, family })
    }

    /// The table that its routes are in, if it takes requests.
    pub(crate) fn table(&self) -> Option<Name> {
        if self.speech.is_stream() { None } else { self.socket().map(|socket| table_name(socket, &self.hostname)) }
    }
}

/// Why a listener is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum ListenerProblem {
    UnsupportedProtocol,
    /// Another listener has this port and hostname.
    HostnameConflict,
    /// Another listener has this port and a protocol that cannot share it.
    ProtocolConflict,
    /// There is no CA certificate to validate its clients by.
    NoAuthority,
}

/// The problem of each listener, in order. Conflicts have no winner: listeners of one Gateway have no age.
pub(super) fn problems(listeners: &[ListenerFact]) -> Vec<Option<ListenerProblem>> {
    let mut by_port: BTreeMap<(u16, bool), Vec<&ListenerFact>> = BTreeMap::new();
    for listener in listeners {
        by_port.entry((listener.port, listener.protocol == Protocol::Udp)).or_default().push(listener);
    }
    listeners
        .iter()
        .map(|listener| {
            let share = &by_port[&(listener.port, listener.protocol == Protocol::Udp)];
            let others = || share.iter().filter(|other| other.name != listener.name);
            if matches!(listener.protocol, Protocol::Other(_)) {
                Some(ListenerProblem::UnsupportedProtocol)
            } else if others().any(|other| !can_share(&listener.protocol, &other.protocol)) {
                Some(ListenerProblem::ProtocolConflict)
            } else if others().any(|other| other.hostname == listener.hostname) {
                Some(ListenerProblem::HostnameConflict)
            } else {
                None
            }
        })
        .collect()
}

/// Whether listeners of these protocols can stand on one port. A protocol that nobody knows disturbs nobody.
fn can_share(one: &Protocol, other: &Protocol) -> bool {
    use Protocol::{Http, Https, Other, Tcp, Tls, Udp};
    match (one, other) {
        (Other(_), _) | (_, Other(_)) | (Http, Http) | (Https | Tls, Https | Tls) | (Tcp, Tcp) | (Udp, Udp) => true,
        (Http | Https | Tls | Tcp | Udp, Http | Https | Tls | Tcp | Udp) => false,
    }
}

/// The kinds of route a listener takes, and those it was asked to take but cannot.
pub(super) fn route_kinds(listener: &ListenerFact) -> (Vec<GroupKind>, Vec<GroupKind>) {
    let possible = Speech::of(listener).routes();
    if listener.kinds.is_empty() {
        return (possible, Vec::new());
    }
    let (good, bad) = listener.kinds.iter().cloned().partition(|kind| possible.contains(kind));
    // A protocol that carries nothing has a problem of its own to report.
    (good, if possible.is_empty() { Vec::new() } else { bad })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &str, port: u16, protocol: Protocol, hostname: &str) -> ListenerFact {
        ListenerFact {
            name: name.into(),
            port,
            protocol,
            hostname: Hostname::new(hostname),
            namespaces: AllowedNamespaces::Same,
            kinds: Vec::new(),
            tls: None,
        }
    }

    #[test]
    fn conflicting_listeners_have_no_winner_and_disturb_no_other() {
        let found = problems(&[
            listener("a", 80, Protocol::Http, "x.com"),
            listener("b", 80, Protocol::Http, "x.com"),
            listener("c", 80, Protocol::Http, "y.com"),
            listener("d", 81, Protocol::Http, ""),
            listener("e", 81, Protocol::Tcp, ""),
            listener("f", 81, Protocol::Udp, ""),
            listener("g", 80, Protocol::Other("INVALID".into()), "x.com"),
            listener("h", 443, Protocol::Https, "x.com"),
            listener("i", 443, Protocol::Tls, "y.com"),
            listener("j", 443, Protocol::Tls, ""),
            listener("k", 444, Protocol::Https, "x.com"),
            listener("l", 444, Protocol::Tls, "x.com"),
        ]);
        assert_eq!(
            found,
            [
                Some(ListenerProblem::HostnameConflict),
                Some(ListenerProblem::HostnameConflict),
                None,
                Some(ListenerProblem::ProtocolConflict),
                Some(ListenerProblem::ProtocolConflict),
                None,
                Some(ListenerProblem::UnsupportedProtocol),
                None,
                None,
                None,
                Some(ListenerProblem::HostnameConflict),
                Some(ListenerProblem::HostnameConflict),
            ]
        );
    }
}
