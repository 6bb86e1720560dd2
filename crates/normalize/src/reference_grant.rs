//! ReferenceGrant: one fact for every pair of `from` and `to`.

use crate::metadata::Metadata;
use crate::node::{Node, Report};
use crate::text::{GROUP, KIND, NAMESPACE, REF_NAME};
use tidegate_model::{Fact, GrantFact, GroupKind, Name, ObjectKey};

const MAX_ENTRIES: usize = 16;

/// The pairs. A grant with anything wrong in it grants nothing: an API server would not have it.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    Metadata::read(key, root, report);
    let spec = root.field("spec");
    spec.is_required_object(report);
    let from_list = spec.field("from");
    let to_list = spec.field("to");
    for list in [&from_list, &to_list] {
        if list.demand(report) && list.items(MAX_ENTRIES, report).next().is_none() {
            report.invalid(list, "must not be empty; add an entry");
        }
    }
    let from: Vec<_> = from_list
        .items(MAX_ENTRIES, report)
        .filter_map(|entry| {
            let group_kind = group_kind(&entry, report);
            let namespace = entry.field("namespace").required_name(&NAMESPACE, report);
            group_kind.zip(namespace)
        })
        .collect();
    let to: Vec<_> = to_list
        .items(MAX_ENTRIES, report)
        .filter_map(|entry| {
            let name = entry.field("name").name(&REF_NAME, report);
            group_kind(&entry, report).map(|group_kind| (group_kind, name))
        })
        .collect();
    if !report.is_clean() {
        return Vec::new();
    }
    let namespace = Name::from(key.name.namespace());
    let mut facts = Vec::new();
    for (from, from_namespace) in &from {
        for (to, to_name) in &to {
            facts.push(Fact::Grant(GrantFact {
                namespace: namespace.clone(),
                from: from.clone(),
                from_namespace: from_namespace.clone(),
                to: to.clone(),
                to_name: to_name.clone(),
            }));
        }
    }
    facts
}

fn group_kind(entry: &Node<'_>, report: &mut Report) -> Option<GroupKind> {
    let group = entry.field("group").required_name(&GROUP, report);
    let kind = entry.field("kind").required_name(&KIND, report);
    Some(GroupKind { group: group?, kind: kind? })
}

#[cfg(test)]
mod tests;
