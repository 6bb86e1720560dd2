//! Status of policies: one entry for each Gateway through which they have an effect.

use crate::edges::Edges;
use crate::gateways::sentence;
use crate::lookup::Rows;
use crate::lower::{Lead, RouteOutput};
use crate::policies::{self, Standing};
use crate::published::Lowered;
use crate::status::OtherInput;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    AncestorStatus, Condition, ConditionType, DerivedStatus, Finding, Kind, NamespacedName, ObjectKey, PolicyTarget,
    Reason, StatusBody,
};

/// Entries that a policy's status has room for.
const MAX_ANCESTORS: usize = 16;

/// Targets that no way leads to and that are told. More than an accepted policy can have.
const MAX_MISSED: usize = 16;

/// The ways among what routes are lowered to.
pub(crate) fn lead((_, output): Lowered) -> Option<Lead> {
    match output {
        RouteOutput::Leads(lead) => Some(lead),
        RouteOutput::Entry(..) | RouteOutput::Uses(..) | RouteOutput::Stream(..) | RouteOutput::Status(_) => None,
    }
}

/// What the status of every policy is made of.
pub(crate) fn inputs<'s>(
    edges: &Edges,
    standings: Rows<'s, Arc<Standing>>,
    leads: Rows<'s, Lead>,
) -> Rows<'s, (ObjectKey, OtherInput)> {
    let by_service = standings.clone().flat_map(|standing| {
        policies::services(&standing).into_iter().map(move |service| (service, Arc::clone(&standing)))
    });
    let leads = edges.carry("ways to Services of policies", leads);
    let leads = leads.map(|lead| (lead.service.clone(), lead));
    let ancestors = by_service
        .arrange_by_key_named("policies by service")
        .join_core(leads.arrange_by_key_named("ways by service"), |_service, standing, lead| Some(led(standing, lead)));
    edges
        .carry("policies to status", standings.map(|standing| (object(&standing), OtherInput::Policy(standing))))
        .concat(ancestors)
}

fn object(standing: &Standing) -> ObjectKey {
    ObjectKey { kind: Kind::BackendTlsPolicy, name: standing.fact.name.clone() }
}

/// A way to a Service that the policy is about, be it to another port of it.
pub(crate) fn led(standing: &Standing, lead: &Lead) -> (ObjectKey, OtherInput) {
    (object(standing), OtherInput::Lead(lead.clone()))
}

/// Adds what there is to say about the policy; `leads` are the ways to the Services that it is about.
pub(super) fn describe(status: &mut DerivedStatus, standing: &Standing, leads: &BTreeSet<&Lead>) {
    let is_about = |lead: &&&Lead| standing.fact.targets.iter().any(|target| policies::is_about(target, lead));
    let ancestors: BTreeSet<&NamespacedName> = leads.iter().filter(is_about).map(|lead| &lead.gateway).collect();
    let Standing { fact, refs, refused, lost } = standing;
    let accepted = match refused {
        None => Condition::yes(ConditionType::Accepted, Reason::Accepted, "the policy is accepted"),
        Some((reason, message)) => Condition::no(ConditionType::Accepted, *reason, message.clone()),
    };
    let resolved = match refs.first() {
        None => Condition::yes(ConditionType::ResolvedRefs, Reason::ResolvedRefs, "every reference resolves"),
        Some(first) => Condition::no(ConditionType::ResolvedRefs, first.reason, sentence(refs)),
    };
    let named = ancestors.iter().take(MAX_ANCESTORS);
    let named = named.map(|gateway| AncestorStatus {
        gateway: NamespacedName::clone(gateway),
        conditions: vec![accepted.clone(), resolved.clone()],
    });
    status.generation = fact.generation;
    status.body = StatusBody::Policy(named.collect());
    status.findings.extend(fact.findings.iter().chain(refs).chain(lost).cloned());
    let missed = fact.targets.iter().filter(|target| !leads.iter().any(|lead| policies::is_about(target, lead)));
    status.findings.extend(missed.take(MAX_MISSED).map(|target| missed_target(target, leads)));
    if ancestors.len() > MAX_ANCESTORS {
        let message = format!(
            "has an effect through {} Gateways, and status has room for {MAX_ANCESTORS}; it holds for all of them",
            ancestors.len()
        );
        status.findings.push(Finding::new(Reason::UnsupportedValue, "status.ancestors", message));
    }
}

/// A target that no route leads to: perhaps it is not there, perhaps it is not what was meant.
fn missed_target(target: &PolicyTarget, leads: &BTreeSet<&Lead>) -> Finding {
    let service = &target.service;
    let reached: BTreeSet<&str> =
        leads.iter().filter(|lead| lead.service == *service).map(|lead| &*lead.port_name).collect();
    let message = match &target.port {
        Some(port) if !reached.is_empty() => {
            let reached: Vec<String> = reached.iter().map(|port| format!("{port:?}")).collect();
            format!(
                "no route leads to a port {port} of Service {service}, but to {}; correct sectionName, or leave it out for \
                 every port",
                reached.join(", ")
            )
        }
        Some(port) => format!(
            "no route of a Gateway of this controller leads to port {port} of Service {service}; correct name or \
             sectionName, or remove this target"
        ),
        None => format!(
            "no route of a Gateway of this controller leads to Service {service}; correct its name, or remove this target"
        ),
    };
    Finding::new(Reason::TargetNotFound, &target.field, message)
}
