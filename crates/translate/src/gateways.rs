//! Gateways of our classes with their ListenerSets, and the verdict on each of their listeners.
//!
//! Two views of one verdict leave here: [`GatewayState`] for status, and the listeners alone for attachment, apart for
//! the Gateway and each ListenerSet, so that an edit re-derives the routes of those alone whose listeners it changes.

use crate::addresses::{self, Terms};
use crate::authorities;
use crate::certificates::{CertificateAsk, Resolution};
use crate::edges::Edges;
use crate::labels::Labels;
use crate::lookup::{Rows, lookup};
use crate::names::ClientKey;
use crate::origin::Origin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{
    CertificateRef, ClassFact, Finding, GatewayFact, Kind, ListenerSetFact, Name, NamespacedName, ObjectKey, Reason,
};

mod certificates;
mod clients;
mod listeners;
mod parents;
mod rows;

pub(crate) use certificates::Certificates;
pub(crate) use clients::Clients;
use listeners::Held;
#[cfg(test)]
pub(crate) use listeners::isolate;
pub(crate) use listeners::{ListenerProblem, ListenerState};
use parents::Common;
pub(crate) use parents::ParentState;
pub(crate) use rows::rows;

/// Findings that one message names.
const MAX_NAMED: usize = 5;

/// A Gateway of ours, with the verdict on it and on its ListenerSets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct GatewayState {
    pub(crate) fact: Arc<GatewayFact>,
    /// The Gateway by itself.
    pub(crate) own: ParentState,
    /// Its ListenerSets in the order of precedence, those that are refused too.
    pub(crate) sets: Vec<ParentState>,
}

impl GatewayState {
    /// The Gateway, then its ListenerSets.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &ParentState> {
        std::iter::once(&self.own).chain(&self.sets)
    }

    /// The listeners of all of them, with their certificates and what is asked of their clients: what the proxies of the
    /// Gateway serve.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = (&ListenerState, &Certificates, &Clients)> {
        self.parents().flat_map(|parent| {
            let listeners = parent.listeners.iter().zip(&*parent.certificates).zip(&*parent.clients);
            listeners.map(|((listener, own), clients)| (listener, own, clients))
        })
    }
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

/// What becomes of a Gateway and of the ListenerSets that name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Verdict {
    /// It is ours.
    Ours(GatewayState),
    /// There is nothing to serve.
    Nothing {
        /// The Gateway names a class that does not exist: all there is to say is that.
        no_class: Option<Finding>,
        /// ListenerSets without a Gateway of ours.
        sets: Vec<Arc<ListenerSetFact>>,
    },
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
    /// A ListenerSet that names it, with the labels of its namespace.
    Set(Arc<ListenerSetFact>, Labels),
    /// What a certificate reference of the Gateway or of a ListenerSet leads to.
    Certificate(ObjectKey, CertificateRef, Resolution),
    /// What a reference of the Gateway to a CA certificate for its clients leads to.
    Authority(CertificateRef, authorities::Resolution),
}

/// What references lead to: those to certificates by the object that they stand in, those to CAs stand in the Gateway.
#[derive(Default)]
struct Found<'p> {
    certificates: BTreeMap<(&'p ObjectKey, &'p CertificateRef), &'p Resolution>,
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

/// The verdict on each Gateway that is one of them or is named by a ListenerSet.
pub(crate) fn judge<'s>(
    edges: &Edges,
    terms: Terms,
    candidates: Rows<'s, (NamespacedName, Candidate)>,
    sets: Rows<'s, (Arc<ListenerSetFact>, Labels)>,
    certificates: Rows<'s, (CertificateAsk, Resolution)>,
    authorities: Rows<'s, (NamespacedName, (CertificateRef, authorities::Resolution))>,
) -> Rows<'s, (NamespacedName, Verdict)> {
    let candidates = candidates.map(|(gateway, candidate)| (gateway, Part::Candidate(candidate)));
    let sets = sets.map(|(set, labels)| (set.gateway.clone(), Part::Set(set, labels)));
    let certificates = certificates.map(|(ask, found)| (ask.gateway, Part::Certificate(ask.owner, ask.target, found)));
    let authorities = authorities.map(|(gateway, (target, found))| (gateway, Part::Authority(target, found)));
    candidates
        .concat(edges.carry("ListenerSets to Gateways", sets))
        .concat(edges.carry("certificates to Gateways", certificates))
        .concat(edges.carry("validation of clients to Gateways", authorities))
        .reduce_named("gateways", move |_gateway, input, output| {
            output.extend(verdict(&terms, input.iter().map(|(part, _)| *part)).map(|verdict| (verdict, 1)));
        })
}

/// The Gateway, if it is ours.
pub(crate) fn ours((_, verdict): (NamespacedName, Verdict)) -> Option<GatewayState> {
    match verdict {
        Verdict::Ours(state) => Some(state),
        Verdict::Nothing { .. } => None,
    }
}

/// A Gateway at which what attaches to a Gateway or ListenerSet is served, and the listeners of the latter.
pub(crate) type Doors = (NamespacedName, Arc<Vec<ListenerState>>);

/// The listeners that routes see, by what they name as their parent.
pub(crate) fn doors(state: &GatewayState) -> Vec<(ObjectKey, Doors)> {
    let doors = |parent: &ParentState| (state.fact.name.clone(), parent.listeners.clone());
    state.parents().map(|parent| (parent.key.clone(), doors(parent))).collect()
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

/// The verdict on a Gateway; none if there is nothing to say.
pub(crate) fn verdict<'p>(terms: &Terms, parts: impl Iterator<Item = &'p Part>) -> Option<Verdict> {
    let (mut candidate, mut sets, mut found) = (None, Vec::new(), Found::default());
    for part in parts {
        match part {
            Part::Candidate(one) => candidate = Some(one),
            Part::Set(set, labels) => sets.push((set, labels)),
            Part::Certificate(owner, target, resolution) => {
                found.certificates.insert((owner, target), resolution);
            }
            Part::Authority(target, resolution) => {
                found.authorities.insert(target, resolution);
            }
        }
    }
    let no_class = match candidate {
        Some(Candidate { fact, class_accepted: Some(accepted) }) => {
            return Some(Verdict::Ours(resolve(terms, fact, *accepted, sets, &found)));
        }
        Some(Candidate { fact, class_accepted: None }) => Some(Finding::new(
            Reason::Pending,
            "spec.gatewayClassName",
            format!("there is no GatewayClass {}; create it or name another one", fact.class),
        )),
        None => None,
    };
    let sets: Vec<_> = sets.into_iter().map(|(set, _)| set.clone()).collect();
    (no_class.is_some() || !sets.is_empty()).then_some(Verdict::Nothing { no_class, sets })
}

fn resolve(
    terms: &Terms,
    gateway: &Arc<GatewayFact>,
    class_accepted: bool,
    mut sets: Vec<(&Arc<ListenerSetFact>, &Labels)>,
    found: &Found<'_>,
) -> GatewayState {
    let mut held = Held::default();
    let key = ObjectKey { kind: Kind::Gateway, name: gateway.name.clone() };
    let client = gateway.client.as_ref().map(|target| certificates::client(&key, target, found));
    let origin = origin(&gateway.name, client.as_ref());
    let addresses = Arc::new(addresses::addresses(gateway, terms));
    let common = Common { gateway, addresses, origin, found };
    let of_sets = sets.iter().flat_map(|(set, _)| &set.listeners);
    let idle = clients::idle(gateway, gateway.listeners.iter().chain(of_sets));
    let mut own = ParentState::of_gateway(&common, held.add(&gateway.listeners), |problems| {
        let none_valid = || problems.iter().all(Option::is_some).then(|| no_listener(gateway));
        refusal(gateway, class_accepted).or_else(none_valid)
    });
    own.client = client;
    own.findings.extend(idle);
    sets.sort_by(|(a, _), (b, _)| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let sets = sets.into_iter().map(|(set, labels)| {
        let refused = parents::refusal(set, gateway, own.refused.is_none(), labels.as_deref());
        // What is refused stands in nobody's way.
        let problems = if refused.is_some() { Held::default().add(&set.listeners) } else { held.add(&set.listeners) };
        ParentState::of_set(&common, set, problems, refused)
    });
    let mut sets: Vec<ParentState> = sets.collect();
    let all = std::iter::once(&mut own).chain(&mut sets);
    listeners::isolate(all.flat_map(|parent| Arc::make_mut(&mut parent.listeners)));
    GatewayState { fact: gateway.clone(), own, sets }
}

/// How connections to backends begin at the Gateway.
fn origin(gateway: &NamespacedName, client: Option<&Certificates>) -> Origin {
    match client.map(|client| client.served.first()) {
        None => Origin::Anonymous,
        Some(None) => Origin::Unknown,
        Some(Some((secret, _))) => Origin::Known(ClientKey { gateway: gateway.clone(), secret: secret.clone() }),
    }
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
        return Some((
            Reason::Pending,
            format!("GatewayClass {} is not accepted; its status says why", gateway.class).into(),
        ));
    }
    if let Some(parameters) = &gateway.parameters {
        let message = format!("spec.infrastructure.parametersRef: {parameters} is not supported; remove it");
        return Some((Reason::InvalidParameters, message.into()));
    }
    let address = addresses::unsupported(gateway)?;
    let message = format!("spec.addresses: type {} is not supported; use IPAddress", address.kind);
    Some((Reason::UnsupportedAddress, message.into()))
}

/// Several findings as one message, which names the first few.
pub(crate) fn sentence(findings: &[Finding]) -> Name {
    let more = findings.len().saturating_sub(MAX_NAMED);
    let more = (more > 0).then(|| format!("and {more} more"));
    let named = findings.iter().take(MAX_NAMED).map(Finding::to_string);
    named.chain(more).collect::<Vec<_>>().join("; ").into()
}
