//! Gateways of our classes, and the verdict on each of their listeners.
//!
//! Two views of one verdict leave here: [`GatewayState`] for status, and the listeners alone for attachment, so that
//! an edit that changes no listener re-derives no route.

use crate::edges::Edges;
use crate::lookup::{Rows, lookup};
use crate::names::listener_name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{
    AllowedNamespaces, ClassFact, Finding, GatewayFact, GroupKind, Hostname, Kind, ListenerFact, Name, NamespacedName,
    Protocol, Reason,
};
use tidegate_xds::{Row, encode, ir};

/// A Gateway of ours, looked at by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct GatewayState {
    pub(crate) fact: Arc<GatewayFact>,
    /// Why the Gateway is not accepted, if it is not. Then none of its listeners is usable.
    pub(crate) refused: Option<(Reason, Name)>,
    pub(crate) listeners: Arc<Vec<ListenerState>>,
}

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
    /// Whether traffic is served: no problem, and its Gateway is accepted.
    pub(crate) usable: bool,
}

/// Why a listener is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum ListenerProblem {
    UnsupportedProtocol,
    /// Another listener has this port and hostname.
    HostnameConflict,
    /// Another listener has this port and a protocol that cannot share it.
    ProtocolConflict,
}

/// What is known of the class that a Gateway names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum ClassState {
    /// No such class.
    Missing,
    /// A class of another controller: its Gateways are none of our business.
    Foreign,
    /// Ours; whether it is accepted.
    Ours(bool),
}

/// What becomes of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Verdict {
    /// It is ours.
    Ours(GatewayState),
    /// It names a class that does not exist: all there is to say is that.
    NoClass(Finding),
}

/// Every Gateway that is not a foreign controller's, with its verdict.
pub(crate) fn judge<'s>(
    edges: &Edges,
    controller: Name,
    classes: Rows<'s, ClassFact>,
    gateways: Rows<'s, Arc<GatewayFact>>,
) -> Rows<'s, (NamespacedName, Verdict)> {
    let wanted = gateways.clone().map(|gateway| gateway.class.clone());
    let named = edges.carry("classes to Gateways", classes).map(|class| (class.name.clone(), class));
    let states = lookup("class by name", wanted, named, move |known| class_state(&controller, known.first().copied()));
    gateways
        .map(|gateway| (gateway.class.clone(), gateway))
        .arrange_by_key_named("gateways by class")
        .join_core(states.arrange_by_key_named("class states"), |_class, gateway, state| {
            verdict(gateway, state).map(|verdict| (gateway.name.clone(), verdict))
        })
}

/// The Gateway, if it is ours.
pub(crate) fn ours((_, verdict): (NamespacedName, Verdict)) -> Option<GatewayState> {
    match verdict {
        Verdict::Ours(state) => Some(state),
        Verdict::NoClass(_) => None,
    }
}

/// What a Gateway may conclude of the class it names.
pub(crate) fn class_state(controller: &Name, class: Option<&ClassFact>) -> ClassState {
    match class {
        None => ClassState::Missing,
        Some(class) if class.controller != *controller => ClassState::Foreign,
        Some(class) => ClassState::Ours(class.findings.is_empty()),
    }
}

/// The verdict on a Gateway; none if it is not ours to judge.
pub(crate) fn verdict(gateway: &Arc<GatewayFact>, class: &ClassState) -> Option<Verdict> {
    match class {
        ClassState::Foreign => None,
        ClassState::Missing => Some(Verdict::NoClass(Finding::new(
            Reason::Pending,
            "spec.gatewayClassName",
            format!("there is no GatewayClass {}; create it or name another one", gateway.class),
        ))),
        ClassState::Ours(accepted) => Some(Verdict::Ours(resolve(gateway, *accepted))),
    }
}

fn resolve(gateway: &Arc<GatewayFact>, class_accepted: bool) -> GatewayState {
    let problems = problems(&gateway.listeners);
    let refused =
        refusal(gateway, class_accepted).or_else(|| problems.iter().all(Option::is_some).then(|| no_listener(gateway)));
    let listeners = gateway.listeners.iter().zip(problems).map(|(listener, problem)| {
        let (kinds, bad_kinds) = route_kinds(listener);
        ListenerState {
            name: listener.name.clone(),
            port: listener.port,
            hostname: listener.hostname.clone(),
            namespaces: listener.namespaces.clone(),
            usable: refused.is_none() && problem.is_none() && !kinds.is_empty(),
            kinds,
            bad_kinds,
            problem,
        }
    });
    let listeners = Arc::new(listeners.collect());
    GatewayState { fact: gateway.clone(), refused, listeners }
}

fn no_listener(gateway: &GatewayFact) -> (Reason, Name) {
    let message = match gateway.listeners.len() {
        0 => "the Gateway has no listeners; add one to spec.listeners",
        _ => "none of the listeners is valid; their conditions say why",
    };
    (Reason::ListenersNotValid, message.into())
}

/// Why a Gateway is not accepted whatever its listeners are.
fn refusal(gateway: &GatewayFact, class_accepted: bool) -> Option<(Reason, Name)> {
    if let Some(first) = gateway.findings.first() {
        return Some((first.reason, sentence(&gateway.findings)));
    }
    if !class_accepted {
        return Some((Reason::Pending, format!("GatewayClass {} is not accepted", gateway.class).into()));
    }
    if let Some(parameters) = &gateway.parameters {
        let message = format!("spec.infrastructure.parametersRef: {parameters} is not supported; remove it");
        return Some((Reason::InvalidParameters, message.into()));
    }
    let address = gateway.addresses.iter().find(|address| address.kind != "IPAddress" && address.kind != "Hostname")?;
    let message = format!("spec.addresses: type {} is not supported; use IPAddress or Hostname", address.kind);
    Some((Reason::UnsupportedAddress, message.into()))
}

/// Several findings as one message.
pub(crate) fn sentence(findings: &[Finding]) -> Name {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ").into()
}

/// The problem of each listener, in order. Conflicts have no winner: listeners of one Gateway have no age.
fn problems(listeners: &[ListenerFact]) -> Vec<Option<ListenerProblem>> {
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
            } else if listener.protocol != Protocol::Http {
                Some(ListenerProblem::UnsupportedProtocol)
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
fn route_kinds(listener: &ListenerFact) -> (Vec<GroupKind>, Vec<GroupKind>) {
    let possible: Vec<GroupKind> = match listener.protocol {
        Protocol::Http => vec![Kind::HttpRoute.into()],
        Protocol::Https | Protocol::Tls | Protocol::Tcp | Protocol::Udp | Protocol::Other(_) => Vec::new(),
    };
    if listener.kinds.is_empty() {
        return (possible, Vec::new());
    }
    let (good, bad) = listener.kinds.iter().cloned().partition(|kind| possible.contains(kind));
    // A protocol that carries nothing has a problem of its own to report.
    (good, if possible.is_empty() { Vec::new() } else { bad })
}

/// The Gateway's own rows: itself, and for each served port a listener and its table.
pub(crate) fn rows(state: &GatewayState) -> Vec<Row> {
    let gateway = &state.fact.name;
    if state.refused.is_some() {
        return Vec::new();
    }
    let mut rows = vec![Row::Gateway(gateway.clone())];
    let mut ports: Vec<u16> = state.listeners.iter().filter(|l| l.usable).map(|l| l.port).collect();
    ports.sort_unstable();
    ports.dedup();
    for port in ports {
        let name = listener_name(port);
        // Every address of the machine: which of them a client uses is decided outside.
        let listener = ir::Listener { name: name.clone(), address: "0.0.0.0".into(), port, table: name.clone() };
        rows.push(Row::Listener(gateway.clone(), Arc::new(encode::listener(&listener))));
        rows.push(Row::Table(gateway.clone(), name));
    }
    rows
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
        ]);
        assert_eq!(
            found,
            [
                Some(ListenerProblem::HostnameConflict),
                Some(ListenerProblem::HostnameConflict),
                None,
                Some(ListenerProblem::ProtocolConflict),
                Some(ListenerProblem::ProtocolConflict),
                Some(ListenerProblem::UnsupportedProtocol),
                Some(ListenerProblem::UnsupportedProtocol),
            ]
        );
    }
}
