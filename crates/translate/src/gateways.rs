//! Gateways of our classes, and the verdict on each of their listeners.
//!
//! Two views of one verdict leave here: [`GatewayState`] for status, and the listeners alone for attachment, so that
//! an edit that changes no listener re-derives no route.

use crate::certificates::Resolution;
use crate::edges::Edges;
use crate::lookup::{Rows, lookup};
use crate::names::{Socket, secret_name, table_name};
use crate::speech::Speech;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{
    AllowedNamespaces, CertificateFact, CertificateRef, ClassFact, Finding, GatewayFact, GroupKind, Hostname,
    ListenerFact, Name, NamespacedName, Protocol, Reason,
};
use tidegate_xds::ir::Family;
use tidegate_xds::{Row, encode};

/// A Gateway of ours, looked at by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct GatewayState {
    pub(crate) fact: Arc<GatewayFact>,
    /// Why the Gateway is not accepted, if it is not. Then none of its listeners is usable.
    pub(crate) refused: Option<(Reason, Name)>,
    pub(crate) listeners: Arc<Vec<ListenerState>>,
    /// The certificates of each listener. Apart from the listeners, so that a rotation re-derives no route.
    pub(crate) certificates: Arc<Vec<Certificates>>,
}

/// What became of a listener's certificate references.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Certificates {
    /// Resource names of those that are served, in order, with the digests of their material.
    pub(crate) served: Vec<(Name, Name)>,
    /// Why the others are not.
    pub(crate) failed: Vec<Finding>,
    /// What else there is to say.
    pub(crate) remarks: Vec<Finding>,
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

/// A Gateway that is not a foreign controller's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Candidate {
    pub(crate) fact: Arc<GatewayFact>,
    /// Whether its class is accepted; none if there is no such class.
    pub(crate) class_accepted: Option<bool>,
}

/// What a Gateway is judged by. The candidate sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Part {
    Candidate(Candidate),
    Certificate(CertificateRef, Resolution),
}

/// Every Gateway that is not a foreign controller's.
pub(crate) fn candidates<'s>(
    edges: &Edges,
    controller: Name,
    classes: Rows<'s, ClassFact>,
    gateways: Rows<'s, Arc<GatewayFact>>,
) -> Rows<'s, (NamespacedName, Candidate)> {
    let wanted = gateways.clone().map(|gateway| gateway.class.clone());
    let named = edges.carry("classes to Gateways", classes).map(|class| (class.name.clone(), class));
    let states = lookup("class by name", wanted, named, move |known| class_state(&controller, known.first().copied()));
    gateways
        .map(|gateway| (gateway.class.clone(), gateway))
        .arrange_by_key_named("gateways by class")
        .join_core(states.arrange_by_key_named("class states"), |_class, gateway, state| candidate(gateway, state))
}

/// The verdict on each of them.
pub(crate) fn judge<'s>(
    edges: &Edges,
    candidates: Rows<'s, (NamespacedName, Candidate)>,
    certificates: Rows<'s, (NamespacedName, (CertificateRef, Resolution))>,
) -> Rows<'s, (NamespacedName, Verdict)> {
    let candidates = candidates.map(|(gateway, candidate)| (gateway, Part::Candidate(candidate)));
    let certificates = certificates.map(|(gateway, (target, found))| (gateway, Part::Certificate(target, found)));
    candidates.concat(edges.carry("certificates to Gateways", certificates)).reduce_named(
        "gateways",
        |_gateway, input, output| {
            output.extend(verdict(input.iter().map(|(part, _)| *part)).map(|verdict| (verdict, 1)));
        },
    )
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

/// The Gateway with its key; none if it is not ours to judge.
pub(crate) fn candidate(gateway: &Arc<GatewayFact>, class: &ClassState) -> Option<(NamespacedName, Candidate)> {
    let class_accepted = match class {
        ClassState::Foreign => return None,
        ClassState::Missing => None,
        ClassState::Ours(accepted) => Some(*accepted),
    };
    Some((gateway.name.clone(), Candidate { fact: gateway.clone(), class_accepted }))
}

/// The verdict on a Gateway; none if it is gone.
pub(crate) fn verdict<'p>(parts: impl Iterator<Item = &'p Part>) -> Option<Verdict> {
    let (mut candidate, mut certificates) = (None, BTreeMap::new());
    for part in parts {
        match part {
            Part::Candidate(found) => candidate = Some(found),
            Part::Certificate(target, resolution) => {
                certificates.insert(target, resolution);
            }
        }
    }
    let Candidate { fact, class_accepted } = candidate?;
    Some(match class_accepted {
        None => Verdict::NoClass(Finding::new(
            Reason::Pending,
            "spec.gatewayClassName",
            format!("there is no GatewayClass {}; create it or name another one", fact.class),
        )),
        Some(accepted) => Verdict::Ours(resolve(fact, *accepted, &certificates)),
    })
}

fn resolve(
    gateway: &Arc<GatewayFact>,
    class_accepted: bool,
    found: &BTreeMap<&CertificateRef, &Resolution>,
) -> GatewayState {
    let problems = problems(&gateway.listeners);
    let refused =
        refusal(gateway, class_accepted).or_else(|| problems.iter().all(Option::is_some).then(|| no_listener(gateway)));
    let certificates: Vec<Certificates> =
        (0..).zip(&gateway.listeners).map(|(index, listener)| certificates(index, listener, found)).collect();
    let listeners = gateway.listeners.iter().zip(problems).zip(&certificates).map(|((listener, problem), own)| {
        let (kinds, bad_kinds) = route_kinds(listener);
        let speech = Speech::of(listener);
        let accepted = refused.is_none() && problem.is_none();
        let usable = accepted && !kinds.is_empty() && (!speech.needs_certificate() || !own.served.is_empty());
        ListenerState {
            name: listener.name.clone(),
            port: listener.port,
            hostname: listener.hostname.clone(),
            namespaces: listener.namespaces.clone(),
            speech,
            claims: usable || (accepted && speech.family() == Some(Family::Tls)),
            usable,
            kinds,
            bad_kinds,
            problem,
        }
    });
    let listeners = Arc::new(listeners.collect());
    GatewayState { fact: gateway.clone(), refused, listeners, certificates: Arc::new(certificates) }
}

/// What the certificate references of a listener lead to.
fn certificates(index: usize, listener: &ListenerFact, found: &BTreeMap<&CertificateRef, &Resolution>) -> Certificates {
    let mut own = Certificates::default();
    let speech = Speech::of(listener);
    if !speech.needs_certificate() {
        return own;
    }
    let targets = listener.tls.iter().flat_map(|tls| &tls.certificates);
    for (at, target) in targets.enumerate() {
        let field = format!("spec.listeners[{index}].tls.certificateRefs[{at}]");
        match found.get(target) {
            Some(Resolution::Found(certificate)) => {
                own.remarks.extend(certificate_remarks(&field, &listener.hostname, target, certificate));
                let served = (secret_name(&target.name), certificate.digest.clone());
                if !own.served.contains(&served) {
                    own.served.push(served);
                }
            }
            Some(Resolution::Failed(reason, message)) => {
                own.failed.push(Finding::new(*reason, &field, message.clone()))
            }
            // Between a reference and its answer lies no epoch.
            None => {}
        }
    }
    if own.served.is_empty() && own.failed.is_empty() {
        let field = format!("spec.listeners[{index}].tls.certificateRefs");
        let message = "TLS that ends here needs a certificate; add one";
        own.failed.push(Finding::new(Reason::InvalidCertificateRef, &field, message));
    }
    own
}

/// What a user wants to know of a certificate that is served.
fn certificate_remarks(
    field: &str,
    hostname: &Hostname,
    target: &CertificateRef,
    certificate: &CertificateFact,
) -> Vec<Finding> {
    let mut remarks = Vec::new();
    if certificate.expired {
        let message = format!("the certificate of Secret {} expired; renew it", target.name);
        remarks.push(Finding::new(Reason::CertificateExpired, field, message));
    }
    if !certificate.names.iter().any(|name| is_for(name, hostname)) {
        let names = certificate.names.iter().map(Hostname::as_str).collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { "no DNS name".to_owned() } else { names };
        let message = format!("the certificate of Secret {} is for {names}, not for {hostname}", target.name);
        remarks.push(Finding::new(Reason::CertificateHostnameMismatch, field, message));
    }
    remarks
}

/// Whether a certificate of this name can be right for some host of a listener. A wildcard in a certificate stands for
/// one label only; which hosts of a wider listener are asked for, nobody knows.
fn is_for(name: &Hostname, hostname: &Hostname) -> bool {
    if name.is_wildcard() && !hostname.is_any() && !hostname.is_wildcard() {
        return hostname.as_str().split_once('.').is_some_and(|(_, parent)| name.as_str()[2..] == *parent);
    }
    name.covers(hostname) || hostname.covers(name)
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

/// The problem of each listener, in order. Conflicts have no winner: listeners of one Gateway have no age. A protocol that
/// nobody knows is in conflict with nothing, since nothing is served there.
fn problems(listeners: &[ListenerFact]) -> Vec<Option<ListenerProblem>> {
    let mut by_port: BTreeMap<(u16, bool), Vec<&ListenerFact>> = BTreeMap::new();
    let is_known = |listener: &&ListenerFact| !matches!(listener.protocol, Protocol::Other(_));
    for listener in listeners.iter().filter(is_known) {
        by_port.entry((listener.port, listener.protocol == Protocol::Udp)).or_default().push(listener);
    }
    listeners
        .iter()
        .map(|listener| {
            if !is_known(&listener) {
                return Some(ListenerProblem::UnsupportedProtocol);
            }
            let share = &by_port[&(listener.port, listener.protocol == Protocol::Udp)];
            let others = || share.iter().filter(|other| other.name != listener.name);
            if others().any(|other| !can_share(&listener.protocol, &other.protocol)) {
                Some(ListenerProblem::ProtocolConflict)
            } else if others().any(|other| other.hostname == listener.hostname) {
                Some(ListenerProblem::HostnameConflict)
            } else {
                None
            }
        })
        .collect()
}

/// Whether listeners of these protocols can stand on one port.
fn can_share(one: &Protocol, other: &Protocol) -> bool {
    use Protocol::{Http, Https, Other, Tcp, Tls, Udp};
    match (one, other) {
        (Other(_), _) | (_, Other(_)) | (Http, Http) | (Https | Tls, Https | Tls) | (Tcp, Tcp) | (Udp, Udp) => true,
        (Http | Https | Tls | Tcp | Udp, Http | Https | Tls | Tcp | Udp) => false,
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

/// The Gateway's own rows: itself, its tables and its secrets.
pub(crate) fn rows(state: &GatewayState) -> Vec<Row> {
    let gateway = &state.fact.name;
    if state.refused.is_some() {
        return Vec::new();
    }
    let mut rows = vec![Row::Gateway(gateway.clone())];
    let mut tables: BTreeSet<Name> = BTreeSet::new();
    let mut secrets: BTreeMap<&Name, &Name> = BTreeMap::new();
    for (listener, own) in state.listeners.iter().zip(&*state.certificates).filter(|(listener, _)| listener.usable) {
        tables.extend(listener.table());
        secrets.extend(own.served.iter().map(|(name, digest)| (name, digest)));
        rows.extend(misdirected(state, listener));
    }
    rows.extend(tables.into_iter().map(|table| Row::Table(gateway.clone(), table)));
    let secrets = secrets.into_iter().map(|(name, digest)| encode::secret_ref(name.clone(), digest));
    rows.extend(secrets.map(|secret| Row::Secret(gateway.clone(), secret)));
    rows
}

/// Virtual hosts that answer 421 on the table of an HTTPS `listener` for hosts that are another listener's: a client that
/// reuses a connection for them must open one of their own.
fn misdirected(state: &GatewayState, listener: &ListenerState) -> Vec<Row> {
    let Some(table) = listener.table().filter(|_| listener.speech == Speech::Https) else { return Vec::new() };
    let others = state
        .listeners
        .iter()
        .filter(|other| other.claims && other.socket() == listener.socket() && other.hostname != listener.hostname);
    let row = |other: &ListenerState| {
        let host = Arc::new(encode::misdirected(&other.hostname));
        Row::VirtualHost(state.fact.name.clone(), table.clone(), other.hostname.clone(), host)
    };
    others.map(row).collect()
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
    fn a_certificate_is_for_a_listener_that_it_can_be_right_for() {
        let fits = |name: &str, hostname: &str| is_for(&Hostname::new(name), &Hostname::new(hostname));
        assert!(fits("a.example", "a.example") && fits("*.example", "a.example") && fits("a.example", ""));
        assert!(fits("*.example", "*.example") && fits("a.example", "*.example") && fits("*.a.example", "*.example"));
        assert!(!fits("*.example", "a.b.example"), "a wildcard of a certificate is one label");
        assert!(!fits("a.example", "b.example") && !fits("example", "*.example"));
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
}
