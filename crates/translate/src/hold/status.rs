//! What is said about held entries, on their routes.

use crate::lookup::Rows;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    Condition, ConditionType, DerivedStatus, Held, INVALID_CLUSTER, Name, NamespacedName, ObjectKey, Reason,
    StatusBody, rfc3339,
};

/// Entries of one route that are named in a condition; the rest is counted.
const MAX_NAMED: usize = 3;

/// What the status of a route is made of where entries can be held. What was derived sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum StatusInput {
    Derived(Arc<DerivedStatus>),
    Held(Arc<Held>),
}

/// The status of every route, with what is held of it.
pub(crate) fn route_statuses<'s>(
    statuses: Rows<'s, (ObjectKey, Arc<DerivedStatus>)>,
    held: Rows<'s, Arc<Held>>,
) -> Rows<'s, (ObjectKey, Arc<DerivedStatus>)> {
    let statuses = statuses.map(|(route, status)| (route, StatusInput::Derived(status)));
    let held = held.map(|held| (held.object.clone(), StatusInput::Held(held)));
    statuses.concat(held).reduce_named("status of routes", |_route, input, output| {
        let (mut derived, mut held) = (None, Vec::new());
        for (input, _) in input {
            match input {
                StatusInput::Derived(status) => derived = Some(status),
                StatusInput::Held(one) => held.push(&**one),
            }
        }
        output.extend(derived.map(|status| (with_held(status, &held), 1)));
    })
}

/// The status with a condition for every parent at whose Gateway something is held.
pub(crate) fn with_held(status: &Arc<DerivedStatus>, held: &[&Held]) -> Arc<DerivedStatus> {
    if held.is_empty() {
        return Arc::clone(status);
    }
    let mut status = DerivedStatus::clone(status);
    if let StatusBody::Route(parents) = &mut status.body {
        for parent in parents {
            let message = message(&parent.gateway, held);
            let condition =
                message.map(|message| Condition::yes(ConditionType::Held, Reason::AwaitingEndpoints, message));
            parent.conditions.extend(condition);
        }
    }
    Arc::new(status)
}

/// What is held at the Gateway, each entry once whatever hosts it is for.
fn message(gateway: &NamespacedName, held: &[&Held]) -> Option<String> {
    let here = held.iter().filter(|held| held.gateway == *gateway);
    let texts: BTreeSet<String> = here.map(|held| sentence(held)).collect();
    let more = texts.len().saturating_sub(MAX_NAMED);
    let named = texts.into_iter().take(MAX_NAMED).collect::<Vec<_>>().join("; ");
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("{named}{more}"))
}

fn sentence(held: &Held) -> String {
    // `HTTPRoute shop/cart rule 0 match 0`: on the route itself the rule will do.
    let entry = held.entry.strip_prefix(&format!("{} ", held.object)).unwrap_or(&held.entry);
    let texts = |names: &[Name]| names.iter().map(Name::as_str).collect::<Vec<_>>().join(" and ");
    let (unresolved, empty): (Vec<Name>, Vec<Name>) =
        held.waits_for.iter().cloned().partition(|name| *name == INVALID_CLUSTER);
    let mut awaited = Vec::new();
    if !unresolved.is_empty() {
        awaited.push("every reference resolves".to_owned());
    }
    if !empty.is_empty() {
        awaited.push(format!("{} has a usable endpoint", texts(&empty)));
    }
    let until = rfc3339(held.until);
    format!("{entry} goes on to {} until {}, at most until {until}", texts(&held.keeps), awaited.join(" and "))
}
