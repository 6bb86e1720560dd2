//! The verdict on each listener of a Gateway and of its ListenerSets.

use crate::names::{Socket, table_name};
use crate::origin::Origin;
use crate::speech::Speech;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{AllowedNamespaces, GroupKind, Hostname, ListenerFact, ListenerKey, Name, Protocol};
use tidegate_xds::ir::Family;

/// A listener with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ListenerState {
    pub(crate) key: ListenerKey,
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
    /// How what comes in goes on to backends.
    pub(crate) origin: Origin,
    /// Whether traffic is served: it is fit, what it stands in is accepted, and its Gateway has an address.
    pub(crate) usable: bool,
    /// Whether it could be served: no problem, some kind of route, and a certificate if it needs one.
    pub(crate) fit: bool,
    /// The hosts within its own that more specific listeners of its socket claim, sorted.
    pub(crate) narrower: Vec<Hostname>,
}

/// What a listener stands in.
pub(super) struct Standing<'a> {
    /// Whether that is accepted.
    pub(super) accepted: bool,
    /// Whether its Gateway has an address.
    pub(super) reachable: bool,
    /// How what comes in goes on to backends, where TLS is not passed on.
    pub(super) origin: &'a Origin,
}

impl ListenerState {
    /// The verdict on a listener by itself. `served` says whether some certificate can be served.
    pub(super) fn new(
        key: ListenerKey,
        listener: &ListenerFact,
        problem: Option<ListenerProblem>,
        standing: &Standing<'_>,
        served: bool,
    ) -> Self {
        let (kinds, bad_kinds) = route_kinds(listener);
        let speech = Speech::of(listener);
        let fit = problem.is_none() && !kinds.is_empty() && (served || !speech.needs_certificate());
        let usable = standing.accepted && standing.reachable && fit;
        let exists = standing.accepted && problem.is_none_or(|problem| problem == ListenerProblem::NoAuthority);
        ListenerState {
            key,
            port: listener.port,
            hostname: listener.hostname.clone(),
            namespaces: listener.namespaces.clone(),
            kinds,
            bad_kinds,
            claims: usable || (exists && speech.family() == Some(Family::Tls)),
            problem,
            origin: if speech == Speech::Passthrough { Origin::Passthrough } else { standing.origin.clone() },
            speech,
            usable,
            fit,
            narrower: Vec::new(),
        }
    }

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
    /// Another listener has this port and hostname, in the same object or in one that comes before it.
    HostnameConflict,
    /// Such a listener has this port and a protocol that cannot share it.
    ProtocolConflict,
    /// There is no CA certificate to validate its clients by.
    NoAuthority,
}

/// What the listeners so far hold of each port; that of UDP is another.
#[derive(Default)]
pub(super) struct Held {
    ports: BTreeMap<(u16, bool), (BTreeSet<Shares>, BTreeSet<Hostname>)>,
}

impl Held {
    /// The problem of each listener of the object that comes next, in order. Against those of the objects before they
    /// lose. Among themselves conflicts have no winner, since listeners of one object have no age, and nobody who comes
    /// later has what they disagree about.
    pub(super) fn add(&mut self, listeners: &[ListenerFact]) -> Vec<Option<ListenerProblem>> {
        let before: Vec<_> = listeners.iter().map(|listener| self.problem(listener)).collect();
        let left: Vec<&ListenerFact> =
            listeners.iter().zip(&before).filter(|(_, p)| p.is_none()).map(|(l, _)| l).collect();
        let problems =
            listeners.iter().zip(before).map(|(listener, problem)| problem.or_else(|| conflict(listener, &left)));
        let problems = problems.collect();
        for listener in left {
            let Some(shares) = Shares::of(&listener.protocol) else { continue };
            let (families, hostnames) = self.ports.entry(port(listener)).or_default();
            families.insert(shares);
            hostnames.insert(listener.hostname.clone());
        }
        problems
    }

    fn problem(&self, listener: &ListenerFact) -> Option<ListenerProblem> {
        let Some(shares) = Shares::of(&listener.protocol) else { return Some(ListenerProblem::UnsupportedProtocol) };
        let (families, hostnames) = self.ports.get(&port(listener))?;
        if families.iter().any(|held| *held != shares) {
            Some(ListenerProblem::ProtocolConflict)
        } else {
            hostnames.contains(&listener.hostname).then_some(ListenerProblem::HostnameConflict)
        }
    }
}

/// What a listener has against the others of its object.
fn conflict(listener: &ListenerFact, all: &[&ListenerFact]) -> Option<ListenerProblem> {
    let others = || all.iter().filter(|other| other.name != listener.name && port(other) == port(listener));
    if others().any(|other| Shares::of(&other.protocol) != Shares::of(&listener.protocol)) {
        Some(ListenerProblem::ProtocolConflict)
    } else {
        others().any(|other| other.hostname == listener.hostname).then_some(ListenerProblem::HostnameConflict)
    }
}

fn port(listener: &ListenerFact) -> (u16, bool) {
    (listener.port, listener.protocol == Protocol::Udp)
}

/// Listeners that can stand on one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shares {
    Http,
    Tls,
    Tcp,
    Udp,
}

impl Shares {
    /// None for a protocol that nobody knows: it disturbs nobody.
    fn of(protocol: &Protocol) -> Option<Shares> {
        match protocol {
            Protocol::Http => Some(Shares::Http),
            Protocol::Https | Protocol::Tls => Some(Shares::Tls),
            Protocol::Tcp => Some(Shares::Tcp),
            Protocol::Udp => Some(Shares::Udp),
            Protocol::Other(_) => None,
        }
    }
}

/// Tells each listener which hosts within its own are others'.
pub(crate) fn isolate<'l>(listeners: impl Iterator<Item = &'l mut ListenerState>) {
    let mut listeners: Vec<&mut ListenerState> = listeners.collect();
    let mut within: BTreeMap<(Socket, Hostname), BTreeSet<Hostname>> = BTreeMap::new();
    for listener in listeners.iter().filter(|listener| listener.claims) {
        let Some(socket) = listener.socket() else { continue };
        for wide in listener.hostname.widening().into_iter().skip(1) {
            within.entry((socket, wide)).or_default().insert(listener.hostname.clone());
        }
    }
    for listener in &mut listeners {
        let narrower = listener.socket().and_then(|socket| within.get(&(socket, listener.hostname.clone())));
        listener.narrower = narrower.into_iter().flatten().cloned().collect();
    }
}

/// The kinds of route a listener takes, and those it was asked to take but cannot.
fn route_kinds(listener: &ListenerFact) -> (Vec<GroupKind>, Vec<GroupKind>) {
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
        let found = Held::default().add(&[
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
            listener("m", 82, Protocol::Http, "x.com"),
            listener("n", 82, Protocol::Other("INVALID".into()), "x.com"),
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
                None,
                Some(ListenerProblem::UnsupportedProtocol),
            ]
        );
    }

    #[test]
    fn an_earlier_object_wins_and_what_lost_stands_in_nobodys_way() {
        let mut held = Held::default();
        let http = |name: &str, hostname: &str| listener(name, 80, Protocol::Http, hostname);
        let tcp = |name: &str| listener(name, 80, Protocol::Tcp, "");
        assert_eq!(
            held.add(&[http("a", "x.com"), http("b", "b.com"), http("c", "b.com")]),
            [None, Some(ListenerProblem::HostnameConflict), Some(ListenerProblem::HostnameConflict)]
        );
        let second = held.add(&[http("a", "y.com"), tcp("b"), http("c", "x.com")]);
        assert_eq!(second, [None, Some(ListenerProblem::ProtocolConflict), Some(ListenerProblem::HostnameConflict)]);
        let third = held.add(&[http("a", "z.com"), http("b", "y.com"), http("c", "b.com")]);
        assert_eq!(third, [None, Some(ListenerProblem::HostnameConflict), Some(ListenerProblem::HostnameConflict)]);
    }
}
