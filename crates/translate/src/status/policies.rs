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
    AncestorStatus, Condition, ConditionType, DerivedStatus, Finding, Kind, NamespacedName, ObjectKey, Reason,
    StatusBody,
};

/// Entries that a policy's status has room for.
const MAX_ANCESTORS: usize = 16;

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
        .join_core(leads.arrange_by_key_named("ways by service"), |_service, standing, lead| ancestor(standing, lead));
    edges
        .carry("policies to status", standings.map(|standing| (object(&standing), OtherInput::Policy(standing))))
        .concat(ancestors)
}

fn object(standing: &Standing) -> ObjectKey {
    ObjectKey { kind: Kind::BackendTlsPolicy, name: standing.fact.name.clone() }
}

/// The Gateway at the beginning of a way, if the policy is about its end.
pub(crate) fn ancestor(standing: &Standing, lead: &Lead) -> Option<(ObjectKey, OtherInput)> {
    let is_about = policies::is_about(standing, &lead.service, &lead.port_name);
    is_about.then(|| (object(standing), OtherInput::Ancestor(lead.gateway.clone())))
}

/// Adds what there is to say about the policy.
pub(super) fn describe(status: &mut DerivedStatus, standing: &Standing, ancestors: &BTreeSet<&NamespacedName>) {
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
    if ancestors.is_empty() {
        let message = "no route of a Gateway of this controller leads to what this is about; check the names of the Service \
                       and of its port";
        status.findings.push(Finding::new(Reason::TargetNotFound, "spec.targetRefs", message));
    }
    if ancestors.len() > MAX_ANCESTORS {
        let message = format!(
            "has an effect through {} Gateways, and status has room for {MAX_ANCESTORS}; it holds for all of them",
            ancestors.len()
        );
        status.findings.push(Finding::new(Reason::UnsupportedValue, "status.ancestors", message));
    }
}
