//! Derived status, from the same rows as traffic.

use crate::attach::{Attachment, Outcome};
use crate::backends::{Resolution, mirrors};
use crate::gateways::{Certificates, GatewayState, ListenerProblem, ListenerState, Verdict, sentence};
use crate::lookup::Rows;
use crate::lower::{Refusal, RouteParts, refused, refused_filters};
use crate::policies::Standing;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{
    ClassFact, Condition, ConditionType, DerivedStatus, Finding, Kind, ListenerStatus, Name, NamespacedName, ObjectKey,
    ParentStatus, RETARGET_HOLD, Reason, StatusBody,
};

pub(crate) mod policies;

use ConditionType::{Accepted, Conflicted, PartiallyInvalid, Programmed, ResolvedRefs};

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
            let names: Vec<&str> = bindings.iter().map(|binding| &*binding.listener).collect();
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

/// Parents that are Gateways but none of ours.
fn parent_findings(parts: &RouteParts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, parent) in (0..).zip(&parts.fact.parents) {
        let answered = parts.attachments.iter().any(|attachment| attachment.index == index);
        if parent.group_kind.is(Kind::Gateway) && !answered {
            let message = format!("there is no Gateway {} of a class of this controller", parent.name);
            findings.push(Finding::new(Reason::NoMatchingParent, &format!("spec.parentRefs[{index}]"), message));
        }
    }
    findings
}

/// Listeners that take an older route instead.
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

/// What a Gateway's status is made of. The verdict sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum GatewayInput {
    Verdict(Verdict),
    /// A route is attached to the listener; the multiplicity counts them.
    Attached(Name),
    Finding(Finding),
}

/// Status of every Gateway that is ours, or that names a class nobody has.
pub(crate) fn gateway_statuses<'s>(
    inputs: Rows<'s, (NamespacedName, GatewayInput)>,
) -> Rows<'s, (ObjectKey, Arc<DerivedStatus>)> {
    inputs
        .reduce_named("status of gateways", |_gateway, input, output| {
            let counted = input.iter().map(|(input, count)| (*input, u32::try_from(*count).unwrap_or(0)));
            output.extend(gateway_status(counted).map(|status| (Arc::new(status), 1)));
        })
        .map(|(gateway, status)| (ObjectKey { kind: Kind::Gateway, name: gateway }, status))
}

/// Status of one Gateway from its inputs, each with its count.
pub(crate) fn gateway_status<'i>(inputs: impl Iterator<Item = (&'i GatewayInput, u32)>) -> Option<DerivedStatus> {
    let (mut verdict, mut attached, mut findings) = (None, BTreeMap::new(), Vec::new());
    for (input, count) in inputs {
        match input {
            GatewayInput::Verdict(found) => verdict = Some(found),
            GatewayInput::Attached(listener) => {
                attached.insert(listener, count);
            }
            GatewayInput::Finding(finding) => findings.push(finding.clone()),
        }
    }
    match verdict? {
        Verdict::NoClass(finding) => {
            findings.push(finding.clone());
            Some(DerivedStatus { generation: 0, body: StatusBody::None, findings })
        }
        Verdict::Ours(state) => {
            findings.extend(state.fact.findings.iter().cloned());
            let certificates = state.certificates.iter().chain(&state.client);
            findings.extend(certificates.flat_map(|own| own.failed.iter().chain(&own.remarks)).cloned());
            let listeners: Vec<ListenerStatus> = state
                .listeners
                .iter()
                .zip(&*state.certificates)
                .map(|(listener, own)| {
                    listener_status(state, listener, own, attached.get(&listener.name).copied().unwrap_or(0))
                })
                .collect();
            let conditions = gateway_conditions(state).into_iter().chain(state.client.as_ref().map(client_resolved));
            let body = StatusBody::Gateway { conditions: conditions.collect(), listeners };
            Some(DerivedStatus { generation: state.fact.generation, body, findings })
        }
    }
}

fn gateway_conditions(state: &GatewayState) -> Vec<Condition> {
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
    vec![accepted, Condition::yes(Programmed, Reason::Programmed, "the configuration is sealed for the proxies")]
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
    state: &GatewayState,
    listener: &ListenerState,
    own: &Certificates,
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
            Condition::no(Programmed, Reason::Invalid, "the Gateway is not accepted")
        }
        (false, None) if listener.problem.is_none() && listener.speech.needs_certificate() && own.served.is_empty() => {
            Condition::no(Programmed, Reason::Invalid, "there is no certificate to serve; see ResolvedRefs")
        }
        (false, _) => {
            let reason = if conflicted.reason == Reason::NoConflicts { Reason::Invalid } else { conflicted.reason };
            Condition::no(Programmed, reason, "the listener is not served")
        }
    };
    let resolved = listener_resolved(listener, own);
    ListenerStatus {
        name: listener.name.clone(),
        supported_kinds: listener.kinds.clone(),
        attached_routes,
        conditions: vec![accepted, programmed, resolved, conflicted],
    }
}

fn listener_resolved(listener: &ListenerState, own: &Certificates) -> Condition {
    if let Some(first) = own.failed.first() {
        return Condition::no(ResolvedRefs, first.reason, sentence(&own.failed));
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
    /// A Gateway through which the policy has an effect.
    Ancestor(NamespacedName),
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
    let (mut policy, mut ancestors) = (None, BTreeSet::new());
    for input in inputs {
        match input {
            OtherInput::Class(class) => {
                status.generation = class.generation;
                status.body = StatusBody::Class(vec![class_condition(class)]);
                status.findings.extend(class.findings.iter().cloned());
            }
            OtherInput::Policy(standing) => policy = Some(standing),
            OtherInput::Ancestor(gateway) => _ = ancestors.insert(gateway),
            OtherInput::Finding(finding) => status.findings.push(finding.clone()),
        }
    }
    if let Some(standing) = policy {
        policies::describe(&mut status, standing, &ancestors);
    }
    status
}

fn class_condition(class: &ClassFact) -> Condition {
    match class.findings.first() {
        Some(first) => Condition::no(Accepted, first.reason, sentence(&class.findings)),
        None => Condition::yes(Accepted, Reason::Accepted, "the class is accepted"),
    }
}
