//! ListenerSet: listeners for a Gateway that stand outside it.

use crate::listeners::listeners;
use crate::metadata::Metadata;
use crate::node::{Node, Report};
use crate::text::{GROUP, KIND, NAMESPACE, REF_NAME};
use std::sync::Arc;
use tidegate_model::{Fact, Finding, GroupKind, Kind, ListenerSetFact, Name, NamespacedName, ObjectKey, Reason};

/// The ListenerSet, if its parent is a Gateway: else nobody would serve it, and there is only something to say.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    let metadata = Metadata::read(key, root, report);
    let spec = root.field("spec");
    spec.is_required_object(report);
    let gateway = gateway(key, &spec.field("parentRef"), report);
    let listeners = listeners(key, &spec.field("listeners"), report);
    let Some(gateway) = gateway else { return Vec::new() };
    vec![Fact::ListenerSet(Arc::new(ListenerSetFact {
        name: key.name.clone(),
        generation: metadata.generation,
        created: metadata.created,
        gateway,
        listeners,
        findings: report.carry(),
    }))]
}

/// `spec.parentRef`.
fn gateway(key: &ObjectKey, parent: &Node<'_>, report: &mut Report) -> Option<NamespacedName> {
    if !parent.demand(report) || !parent.is_object(report) {
        return None;
    }
    let group = parent.field("group").name(&GROUP, report).unwrap_or_else(|| Name::from(Kind::Gateway.group()));
    let kind = parent.field("kind").name(&KIND, report).unwrap_or_else(|| Name::from(Kind::Gateway.as_str()));
    let namespace = parent.field("namespace").name(&NAMESPACE, report);
    let name = parent.field("name").required_name(&REF_NAME, report)?;
    let named = GroupKind { group, kind };
    if !named.is(Kind::Gateway) {
        let message = format!("{named} is no parent of a ListenerSet, which is not served; name a Gateway");
        report.remark(Finding::new(Reason::NoMatchingParent, &parent.field("kind").path(), message));
        return None;
    }
    Some(NamespacedName::new(namespace.as_deref().unwrap_or(key.name.namespace()), &name))
}

#[cfg(test)]
mod tests;
