//! Derived status, from the same rows as traffic.

use crate::addresses::is_refusal;
use crate::attach::{Attachment, Outcome};
use crate::backends::{Resolution, mirrors};
use crate::gateways::{
    Certificates, Clients, GatewayState, ListenerProblem, ListenerState, ParentState, Verdict, sentence,
};
use crate::lookup::Rows;
use crate::lower::{Lead, Refusal, RouteParts, refused, refused_filters};
use crate::policies::Standing;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{
    AllowedNamespaces, ClassFact, Condition, ConditionType, DerivedStatus, Finding, Kind, ListenerSetFact,
    ListenerStatus, Name, NamespacedName, ObjectKey, ParentStatus, RETARGET_HOLD, Reason, StatusBody,
};

pub(crate) mod policies;

use ConditionType::{Accepted, Conflicted, InsecureFrontendValidationMode, PartiallyInvalid, Programmed, ResolvedRefs};

/// Status of a route towards each parent that is ours, and everything there is to say about it. None if there is
/// nothing to say.
pub(crate) fn route_status(parts: &RouteParts<'_>) -> Option<DerivedStatus> {
    let mut findings = parts.findings.clone();
    findings.extend(parts.fact.findings.iter().cloned());
    findings.extend(reference_findings(parts));
    findings.extend(unsupported(parts));
    findings.extend(parent_findings(parts));
    findings.extend(lost_listeners(parts));
    findings.extend(hold_finding(parts));
    let resolved = resolved_refs(parts);
    let partial = partially_invalid(parts);
    let parents: Vec<ParentStatus> = parts
        .attachments
        .iter()
        .map(|attachment| ParentStatus {
            parent: parts.fact.parents[attachment.index as usize].clone(),
            gateway: attachment.gateway.clone(),
            conditions: [accepted(parts, attachment), resolved.clone()].into_iter().chain(partial.clone()).collect(),
        })
        .collect();
    if parents.is_empty() && findings.is_empty() {
        return None;
    }
    Some(DerivedStatus { generation: parts.fact.generation, body: StatusBody::Route(parents), findings })
}

fn accepted(parts: &RouteParts<'_>, attachment: &Attachment) -> Condition {
    if let Some(first) = parts.fact.findings.first() {
        return Condition::no(Accepted, first.reason, sentence(&parts.fact.findings));
    }
    match &attachment.outcome {
        Outcome::Refused(reason, message) => Condition::no(Accepted, *reason, message.clone()),
        Outcome::Bound(bindings) => {
            let names: Vec<&str> = bindings.iter().map(|binding| &*binding.listener.name).collect();
            Condition::yes(Accepted, Reason::Accepted, format!("attached to listener {}", names.join(", ")))
        }
    }
}

fn resolved_refs(parts: &RouteParts<'_>) -> Condition {
    let failed: Vec<Finding> = reference_findings(parts);
    match failed.first() {
        Some(first) => Condition::no(ResolvedRefs, first.reason, sentence(&failed)),
        None => Condition::yes(ResolvedRefs, Reason::ResolvedRefs, "every reference resolves"),
    }
}

/// References that lead nowhere, by field.
fn reference_findings(parts: &RouteParts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (rule_index, rule) in parts.fact.rules.iter().enumerate() {
        let rule_field = format!("spec.rules[{rule_index}]");
        let mirrors = mirrors(&rule.filters)
            .map(|(index, mirror)| (format!("{rule_field}.filters[{index}].requestMirror.backendRef"), &mirror.target));
        let backends = rule.backends.iter().enumerate();
        let backends = backends.map(|(index, backend)| (format!("{rule_field}.backendRefs[{index}]"), &backend.target));
        for (field, target) in backends.chain(mirrors) {
            if let Some(Resolution::Failed(reason, message)) = parts.backends.get(target) {
                findings.push(Finding::new(*reason, &field, message.clone()));
            }
        }
    }
    findings.extend(refused_findings(parts).into_iter().filter(|finding| finding.reason != Reason::UnsupportedValue));
    findings
}

/// What rules and backends ask for and nothing here can do, references aside.
fn unsupported(parts: &RouteParts<'_>) -> Vec<Finding> {
    let mut findings = refused_findings(parts);
    findings.retain(|finding| finding.reason == Reason::UnsupportedValue);
    findings
}

/// Why rules, or requests to single backends of them, are answered with an error.
fn refused_findings(parts: &RouteParts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, rule) in parts.fact.rules.iter().enumerate() {
        findings.extend(refused(rule).map(|refusal| match refusal {
            Refusal::Filter(finding) => finding.clone(),
            Refusal::Split => {
                let field = format!("spec.rules[{index}].sessionPersistence");
                let message =
                    "a session cannot be kept where weights choose among backends; use one backend in the rule";
                Finding::new(Reason::UnsupportedValue, &field, message)
            }
        }));
        findings.extend(rule.backends.iter().flat_map(|backend| refused_filters(&backend.filters)).cloned());
    }
    findings
}

/// Rules that answer 500 in place of what they ask for. The message begins as the Gateway API wants it.
fn partially_invalid(parts: &RouteParts<'_>) -> Option<Condition> {
    let findings = unsupported(parts);
    let message = format!("Dropped Rule, whose requests are answered with 500: {}", sentence(&findings));
    (!findings.is_empty()).then(|| Condition::yes(PartiallyInvalid, Reason::UnsupportedValue, message))
}

/// What to do where a parent is not there.
const FIND_PARENT: &str = "create it, correct the reference, or see whether its manifest was refused";

/// Parents that are Gateways or ListenerSets but none of ours.
fn parent_findings(parts: &RouteParts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, parent) in (0..).zip(&parts.fact.parents) {
        let answered = parts.attachments.iter().any(|attachment| attachment.index == index);
        let Some(key) = parent.key().filter(|_| !answered) else { continue };
        let owned = if key.kind == Kind::Gateway { "of a class" } else { "whose Gateway is of a class" };
        let message = format!("there is no {key} {owned} of this controller; {FIND_PARENT}");
        findings.push(Finding::new(Reason::NoMatchingParent, &format!("spec.parentRefs[{index}]"), message));
    }
    findings
}

/// Listeners where another route goes before.
fn lost_listeners<'p>(parts: &'p RouteParts<'_>) -> impl Iterator<Item = Finding> + use<'p> {
    parts
        .losses
        .iter()
        .map(|loss| Finding::new(Reason::HostnameConflict, &format!("spec.parentRefs[{}]", loss.index), loss.message()))
}

/// Whoever asks for a hold from a controller that does none should not find out at the next change.
fn hold_finding(parts: &RouteParts<'_>) -> Option<Finding> {
    let asks = parts.fact.retarget_hold.is_some_and(|bound| bound > 0);
    let field = format!("metadata.annotations[{RETARGET_HOLD}]");
    let message = if parts.fact.key.kind.is_stream() {
        "has no effect, since only requests are held, and not streams; remove it"
    } else if parts.holds {
        return None;
    } else {
        "has no effect, since the controller runs without --retarget-hold"
    };
    asks.then(|| Finding::new(Reason::UnsupportedValue, &field, message))
}

/// What the status of a Gateway or ListenerSet is made of. The verdict sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum ParentInput {
    /// The verdict on a Gateway, and how many ListenerSets are attached, if that is worth saying.
    Gateway(ParentState, Option<u32>),
    /// The verdict on a ListenerSet of this Gateway.
    ListenerSet(NamespacedName, ParentState),
    /// It has no status of ours; what there is to say all the same.
    Nothing(Vec<Finding>),
    /// A route is attached to the listener; the multiplicity counts them.
    Attached(Name),
    Finding(Finding),
}

/// What the verdict on a Gateway says of it and of each of its ListenerSets.
pub(crate) fn verdicts(gateway: &NamespacedName, verdict: &Verdict) -> Vec<(ObjectKey, ParentInput)> {
    let key = ObjectKey { kind: Kind::Gateway, name: gateway.clone() };
    match verdict {
        Verdict::Ours(state) => {
            let of_set = |set: &ParentState| (set.key.clone(), ParentInput::ListenerSet(gateway.clone(), set.clone()));
            let own = ParentInput::Gateway(state.own.clone(), attached_sets(state));
            std::iter::once((key, own)).chain(state.sets.iter().map(of_set)).collect()
        }
        Verdict::Nothing { no_class, sets } => {
            let own = no_class.iter().map(|finding| (key.clone(), ParentInput::Nothing(vec![finding.clone()])));
            own.chain(sets.iter().map(|set| (set.key(), ParentInput::Nothing(without_gateway(set))))).collect()
        }
    }
}

/// How many ListenerSets are attached to the Gateway; none where nobody asks.
fn attached_sets(state: &GatewayState) -> Option<u32> {
    if state.fact.allowed_sets == AllowedNamespaces::None && state.sets.is_empty() {
        return None;
    }
    u32::try_from(state.sets.iter().filter(|set| set.is_attached()).count()).ok()
}

fn without_gateway(set: &ListenerSetFact) -> Vec<Finding> {
    let message = format!("there is no Gateway {} of a class of this controller; {FIND_PARENT}", set.gateway);
    let finding = Finding::new(Reason::NoMatchingParent, "spec.parentRef", message);
    set.findings.iter().cloned().chain([finding]).collect()
}

/// Status of every Gateway that is ours or names a class that nobody has, and of every ListenerSet.
pub(crate) fn parent_statuses<'s>(
    inputs: Rows<'s, (ObjectKey, ParentInput)>,
) -> Rows<'s, (ObjectKey, Arc<DerivedStatus>)> {
    inputs.reduce_named("status of parents", |key, input, output| {
        let counted = input.iter().map(|(input, count)| (*input, u32::try_from(*count).unwrap_or(0)));
        output.extend(parent_status(key, counted).map(|status| (Arc::new(status), 1)));
    })
}

/// Status of one Gateway or ListenerSet from its inputs, each with its count.
pub(crate) fn parent_status<'i>(
    key: &ObjectKey,
    inputs: impl Iterator<Item = (&'i ParentInput, u32)>,
) -> Option<DerivedStatus> {
    let (mut verdict, mut attached, mut findings) = (None, BTreeMap::new(), Vec::new());
    for (input, count) in inputs {
        match input {
            ParentInput::Gateway(..) | ParentInput::ListenerSet(..) | ParentInput::Nothing(_) => verdict = Some(input),
            ParentInput::Attached(listener) => {
                attached.insert(listener, count);
            }
            ParentInput::Finding(finding) => findings.push(finding.clone()),
        }
    }
    let (state, body) = match verdict {
        Some(ParentInput::Gateway(state, attached_sets)) => {
            let conditions = gateway_conditions(state).into_iter().chain(state.client.as_ref().map(client_resolved));
            let (conditions, listeners) = (conditions.collect(), listener_statuses(state, &attached));
            let mut addresses = Vec::new();
            if state.refused.is_none() {
                addresses.clone_from(&state.addresses.own);
                findings.extend(state.addresses.lacking.iter().cloned());
            }
            (state, StatusBody::Gateway { conditions, addresses, listeners, attached_sets: *attached_sets })
        }
        Some(ParentInput::ListenerSet(gateway, state)) => {
            let (conditions, listeners) = (set_conditions(state), listener_statuses(state, &attached));
            (state, StatusBody::ListenerSet { gateway: gateway.clone(), conditions, listeners })
        }
        Some(ParentInput::Nothing(said)) => {
            findings.extend(said.iter().cloned());
            return Some(DerivedStatus { generation: 0, body: StatusBody::None, findings });
        }
        // A ListenerSet that names no Gateway has nobody else to say what is wrong with it.
        Some(ParentInput::Attached(_) | ParentInput::Finding(_)) | None => {
            let alone = key.kind == Kind::ListenerSet && !findings.is_empty();
            return alone.then_some(DerivedStatus { generation: 0, body: StatusBody::None, findings });
        }
    };
    findings.extend(state.findings.iter().cloned());
    let certificates = state.certificates.iter().chain(&state.client);
    findings.extend(certificates.flat_map(|own| own.failed.iter().chain(&own.remarks)).cloned());
    if key.kind == Kind::Gateway {
        // Listeners of one port have theirs in common, and they stand in the Gateway.
        let authorities: BTreeSet<&Finding> = state.clients.iter().flat_map(|clients| &clients.failed).collect();
        findings.extend(authorities.into_iter().cloned());
    }
    Some(DerivedStatus { generation: state.generation, body, findings })
}

fn gateway_conditions(state: &ParentState) -> Vec<Condition> {
    if let Some((reason, message)) = &state.refused {
        return vec![
            Condition::no(Accepted, *reason, message.clone()),
            Condition::no(Programmed, Reason::Invalid, "the Gateway is not accepted"),
        ];
    }
    let accepted = if state.listeners.iter().all(|listener| listener.problem.is_none()) {
        Condition::yes(Accepted, Reason::Accepted, "the Gateway is accepted")
    } else {
        Condition::yes(Accepted, Reason::ListenersNotValid, "some listeners are not valid; their conditions say why")
    };
    let insecure = state.insecure.then(|| {
        let message =
            "spec.tls.frontend: clients pass without a valid certificate; use AllowValidOnly unless it is tried out";
        Condition::yes(InsecureFrontendValidationMode, Reason::ConfigurationChanged, message)
    });
    [accepted, programmed(state, Reason::AddressNotUsable)].into_iter().chain(insecure).collect()
}

/// Whether an accepted Gateway or ListenerSet is programmed: the Gateway must have all the addresses that it asks for, else
/// it is not, for this reason.
fn programmed(state: &ParentState, reason: Reason) -> Condition {
    let lacking = &state.addresses.lacking;
    let refused: Vec<Finding> = lacking.iter().filter(|finding| is_refusal(finding)).cloned().collect();
    if !refused.is_empty() {
        return Condition::no(Programmed, reason, sentence(&refused));
    }
    if !lacking.is_empty() {
        return Condition::unknown(Programmed, Reason::Pending, sentence(lacking));
    }
    Condition::yes(Programmed, Reason::Programmed, "the configuration is sealed for the proxies")
}

/// Unlike a Gateway, a ListenerSet of which nothing can be served is not accepted for that.
fn set_conditions(state: &ParentState) -> Vec<Condition> {
    if let Some((reason, message)) = &state.refused {
        let programmed = match &state.findings[..] {
            [_, ..] => Reason::Invalid,
            [] if *reason == Reason::ParentNotAccepted => Reason::ParentNotProgrammed,
            [] => *reason,
        };
        return vec![
            Condition::no(Accepted, *reason, message.clone()),
            Condition::no(Programmed, programmed, "the ListenerSet is not accepted"),
        ];
    }
    let not_valid = Reason::ListenersNotValid;
    if !state.is_attached() {
        return vec![
            Condition::no(Accepted, not_valid, "no listener can be served; their conditions say why"),
            Condition::no(Programmed, not_valid, "no listener can be served"),
        ];
    }
    let accepted = if state.listeners.iter().all(|listener| listener.fit) {
        Condition::yes(Accepted, Reason::Accepted, "the ListenerSet is accepted")
    } else {
        Condition::yes(Accepted, not_valid, "some listeners cannot be served; their conditions say why")
    };
    vec![accepted, programmed(state, Reason::ParentNotProgrammed)]
}

/// Status of the listeners of one object; `attached` counts the routes of each.
fn listener_statuses(state: &ParentState, attached: &BTreeMap<&Name, u32>) -> Vec<ListenerStatus> {
    let listeners = state.listeners.iter().zip(state.certificates.iter().zip(&*state.clients));
    let status = |(listener, own): (&ListenerState, (&Certificates, &Clients))| {
        listener_status(state, listener, own, attached.get(&listener.key.name).copied().unwrap_or(0))
    };
    listeners.map(status).collect()
}

/// Whether there is the certificate that backends are shown. Without it the Gateway goes on, and nothing goes to those
/// of them that are reached over TLS.
fn client_resolved(client: &Certificates) -> Condition {
    match client.failed.first() {
        None => Condition::yes(ResolvedRefs, Reason::ResolvedRefs, "every reference resolves"),
        Some(first) => Condition::no(ResolvedRefs, first.reason, sentence(&client.failed)),
    }
}

fn listener_status(
    state: &ParentState,
    listener: &ListenerState,
    (own, clients): (&Certificates, &Clients),
    attached_routes: u32,
) -> ListenerStatus {
    let (accepted, conflicted) = match listener.problem {
        None => (
            Condition::yes(Accepted, Reason::Accepted, "the listener is accepted"),
            Condition::no(Conflicted, Reason::NoConflicts, "no other listener stands in its way"),
        ),
        Some(ListenerProblem::UnsupportedProtocol) => (
            Condition::no(
                Accepted,
                Reason::UnsupportedProtocol,
                "the protocol is not supported; use HTTP, HTTPS, TLS, TCP or UDP",
            ),
            Condition::no(Conflicted, Reason::NoConflicts, "no other listener stands in its way"),
        ),
        Some(ListenerProblem::NoAuthority) => (
            Condition::no(
                Accepted,
                Reason::NoValidCACertificate,
                "there is no CA to validate clients by; see ResolvedRefs",
            ),
            Condition::no(Conflicted, Reason::NoConflicts, "no other listener stands in its way"),
        ),
        Some(ListenerProblem::HostnameConflict) => {
            conflict(Reason::HostnameConflict, "another listener has this port and hostname; change one of them")
        }
        Some(ListenerProblem::ProtocolConflict) => conflict(
            Reason::ProtocolConflict,
            "another listener has this port and a protocol that cannot share it; change one of them",
        ),
    };
    let programmed = match (listener.usable, &state.refused) {
        (true, _) => Condition::yes(Programmed, Reason::Programmed, "the listener is sealed for the proxies"),
        (false, Some(_)) if listener.problem.is_none() => {
            Condition::no(Programmed, Reason::Invalid, format!("the {} is not accepted", state.key.kind))
        }
        (false, None) if listener.problem.is_none() && state.addresses.bound.is_empty() => {
            Condition::no(Programmed, Reason::Invalid, "no address of the Gateway can be used")
        }
        (false, None) if listener.problem.is_none() && listener.speech.needs_certificate() && own.served.is_empty() => {
            Condition::no(Programmed, Reason::Invalid, "there is no certificate to serve; see ResolvedRefs")
        }
        (false, _) => {
            let reason = if conflicted.reason == Reason::NoConflicts { Reason::Invalid } else { conflicted.reason };
            Condition::no(Programmed, reason, "the listener is not served")
        }
    };
    let resolved = listener_resolved(listener, own, clients);
    ListenerStatus {
        name: listener.key.name.clone(),
        supported_kinds: listener.kinds.clone(),
        attached_routes,
        conditions: vec![accepted, programmed, resolved, conflicted],
    }
}

fn listener_resolved(listener: &ListenerState, own: &Certificates, clients: &Clients) -> Condition {
    let failed: Vec<Finding> = own.failed.iter().chain(&clients.failed).cloned().collect();
    if let Some(first) = failed.first() {
        return Condition::no(ResolvedRefs, first.reason, sentence(&failed));
    }
    if listener.bad_kinds.is_empty() {
        return Condition::yes(ResolvedRefs, Reason::ResolvedRefs, "every reference resolves");
    }
    let kinds = listener.bad_kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let message = format!("allowedRoutes.kinds: this protocol cannot carry {kinds}; remove it");
    Condition::no(ResolvedRefs, Reason::InvalidRouteKinds, message)
}

fn conflict(reason: Reason, message: &str) -> (Condition, Condition) {
    (Condition::no(Accepted, reason, message), Condition::yes(Conflicted, reason, message))
}

/// What the status of any other object is made of. The body sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum OtherInput {
    Class(ClassFact),
    Policy(Arc<Standing>),
    /// A way to a Service that the policy is about.
    Lead(Lead),
    Finding(Finding),
}

/// Status of classes of ours and of policies, and the findings of kinds without status.
pub(crate) fn other_statuses<'s>(
    inputs: Rows<'s, (ObjectKey, OtherInput)>,
) -> Rows<'s, (ObjectKey, Arc<DerivedStatus>)> {
    inputs.reduce_named("status of others", |_object, input, output| {
        output.push((Arc::new(other_status(input.iter().map(|(input, _)| *input))), 1));
    })
}

/// Status of one object that is no Gateway and no route.
pub(crate) fn other_status<'i>(inputs: impl Iterator<Item = &'i OtherInput>) -> DerivedStatus {
    let mut status = DerivedStatus { generation: 0, body: StatusBody::None, findings: Vec::new() };
    let (mut policy, mut leads) = (None, BTreeSet::new());
    for input in inputs {
        match input {
            OtherInput::Class(class) => {
                status.generation = class.generation;
                status.body = StatusBody::Class(vec![class_condition(class)]);
                status.findings.extend(class.findings.iter().cloned());
            }
            OtherInput::Policy(standing) => policy = Some(standing),
            OtherInput::Lead(lead) => _ = leads.insert(lead),
            OtherInput::Finding(finding) => status.findings.push(finding.clone()),
        }
    }
    if let Some(standing) = policy {
        policies::describe(&mut status, standing, &leads);
    }
    status
}

fn class_condition(class: &ClassFact) -> Condition {
    match class.findings.first() {
        Some(first) => Condition::no(Accepted, first.reason, sentence(&class.findings)),
        None => Condition::yes(Accepted, Reason::Accepted, "the class is accepted"),
    }
}
