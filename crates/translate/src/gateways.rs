//! Gateways of our classes, and the verdict on each of their listeners.
//!
//! Two views of one verdict leave here: [`GatewayState`] for status, and the listeners alone for attachment, so that
//! an edit that changes no listener re-derives no route.

use crate::addresses::{self, Addresses, Terms};
use crate::authorities;
use crate::certificates::Resolution;
use crate::edges::Edges;
use crate::lookup::{Rows, lookup};
use crate::references::Ask;
use crate::speech::Speech;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{CertificateRef, ClassFact, Finding, GatewayFact, Name, NamespacedName, Reason};
use tidegate_xds::ir::Family;

mod certificates;
mod clients;
mod listeners;
mod rows;

pub(crate) use certificates::Certificates;
pub(crate) use clients::Clients;
pub(crate) use listeners::{ListenerProblem, ListenerState};
pub(crate) use rows::rows;

/// A Gateway of ours, looked at by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct GatewayState {
    pub(crate) fact: Arc<GatewayFact>,
    /// Why the Gateway is not accepted, if it is not. Then none of its listeners is usable.
    pub(crate) refused: Option<(Reason, Name)>,
    /// The addresses that it has.
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) listeners: Arc<Vec<ListenerState>>,
    /// The certificates of each listener. Apart from the listeners, so that a rotation re-derives no route.
    pub(crate) certificates: Arc<Vec<Certificates>>,
    /// What is asked of the clients of each listener, apart for the same reason.
    pub(crate) clients: Arc<Vec<Clients>>,
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
    Authority(CertificateRef, authorities::Resolution),
}

/// What the references of a Gateway lead to.
#[derive(Default)]
struct Found<'p> {
    certificates: BTreeMap<&'p CertificateRef, &'p Resolution>,
    authorities: BTreeMap<&'p CertificateRef, &'p authorities::Resolution>,
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

/// What a Gateway refers to.
pub(crate) fn asks(candidate: &(NamespacedName, Candidate)) -> Vec<Ask> {
    let to_certificates = crate::certificates::asks(candidate).into_iter().map(Ask::Certificate);
    to_certificates.chain(authorities::asks(candidate).into_iter().map(Ask::Authority)).collect()
}

/// The verdict on each of them.
pub(crate) fn judge<'s>(
    edges: &Edges,
    terms: Terms,
    candidates: Rows<'s, (NamespacedName, Candidate)>,
    certificates: Rows<'s, (NamespacedName, (CertificateRef, Resolution))>,
    authorities: Rows<'s, (NamespacedName, (CertificateRef, authorities::Resolution))>,
) -> Rows<'s, (NamespacedName, Verdict)> {
    let candidates = candidates.map(|(gateway, candidate)| (gateway, Part::Candidate(candidate)));
    let certificates = certificates.map(|(gateway, (target, found))| (gateway, Part::Certificate(target, found)));
    let authorities = authorities.map(|(gateway, (target, found))| (gateway, Part::Authority(target, found)));
    let parts = candidates
        .concat(edges.carry("certificates to Gateways", certificates))
        .concat(edges.carry("validation of clients to Gateways", authorities));
    parts.reduce_named("gateways", move |_gateway, input, output| {
        output.extend(verdict(&terms, input.iter().map(|(part, _)| *part)).map(|verdict| (verdict, 1)));
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
pub(crate) fn verdict<'p>(terms: &Terms, parts: impl Iterator<Item = &'p Part>) -> Option<Verdict> {
    let (mut candidate, mut found) = (None, Found::default());
    for part in parts {
        match part {
            Part::Candidate(own) => candidate = Some(own),
            Part::Certificate(target, resolution) => {
                found.certificates.insert(target, resolution);
            }
            Part::Authority(target, resolution) => {
                found.authorities.insert(target, resolution);
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
        Some(accepted) => Verdict::Ours(resolve(terms, fact, *accepted, &found)),
    })
}

fn resolve(terms: &Terms, gateway: &Arc<GatewayFact>, class_accepted: bool, found: &Found<'_>) -> GatewayState {
    let clients: Vec<Clients> =
        gateway.listeners.iter().map(|listener| clients::clients(gateway, listener, &found.authorities)).collect();
    let mut problems = listeners::problems(&gateway.listeners);
    for (problem, _) in problems.iter_mut().zip(&clients).filter(|(_, clients)| clients.lost) {
        problem.get_or_insert(ListenerProblem::NoAuthority);
    }
    let refused =
        refusal(gateway, class_accepted).or_else(|| problems.iter().all(Option::is_some).then(|| no_listener(gateway)));
    let addresses = addresses::addresses(gateway, terms);
    let has_address = !addresses.bound.is_empty();
    let certificates = (0..).zip(&gateway.listeners);
    let certificates: Vec<Certificates> = certificates
        .map(|(index, listener)| certificates::certificates(index, listener, &found.certificates))
        .collect();
    let listeners = gateway.listeners.iter().zip(problems).zip(&certificates).map(|((listener, problem), own)| {
        let (kinds, bad_kinds) = listeners::route_kinds(listener);
        let speech = Speech::of(listener);
        let accepted = refused.is_none() && problem.is_none();
        let exists = refused.is_none() && problem.is_none_or(|problem| problem == ListenerProblem::NoAuthority);
        let has_certificate = !speech.needs_certificate() || !own.served.is_empty();
        let usable = accepted && has_address && !kinds.is_empty() && has_certificate;
        ListenerState {
            name: listener.name.clone(),
            port: listener.port,
            hostname: listener.hostname.clone(),
            namespaces: listener.namespaces.clone(),
            speech,
            claims: usable || (exists && speech.family() == Some(Family::Tls)),
            usable,
            kinds,
            bad_kinds,
            problem,
        }
    });
    let listeners = Arc::new(listeners.collect());
    let (addresses, certificates, clients) = (Arc::new(addresses), Arc::new(certificates), Arc::new(clients));
    GatewayState { fact: gateway.clone(), refused, addresses, listeners, certificates, clients }
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
    let address = addresses::unsupported(gateway)?;
    let message = format!("spec.addresses: type {} is not supported; use IPAddress or Hostname", address.kind);
    Some((Reason::UnsupportedAddress, message.into()))
}

/// Several findings as one message.
pub(crate) fn sentence(findings: &[Finding]) -> Name {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ").into()
}
