//! The shape of status in the Kubernetes API.

use crate::board::{Entry, Place};
use serde_json::{Map, Value, json};
use tidegate_model::{
    AncestorStatus, Condition, DerivedStatus, Finding, GroupKind, Kind, ListenerStatus, ObjectKey, ParentFact,
    ParentStatus, StatusBody, rfc3339,
};

/// One object: what it is, its status, and everything there is to say about it.
pub(crate) fn object(key: &ObjectKey, entry: &Entry, controller: &str) -> Value {
    let kind = key.kind;
    let version = kind.versions()[0];
    let api_version = if kind.group().is_empty() { version.to_owned() } else { format!("{}/{version}", kind.group()) };
    let mut metadata = Map::new();
    if !key.name.namespace().is_empty() {
        metadata.insert("namespace".into(), key.name.namespace().into());
    }
    metadata.insert("name".into(), key.name.name().into());
    if entry.derived.generation != 0 {
        metadata.insert("generation".into(), entry.derived.generation.into());
    }
    let mut object = Map::new();
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.as_str().into());
    object.insert("metadata".into(), metadata.into());
    if let Some(status) = status(entry, controller) {
        object.insert("status".into(), status);
    }
    object.insert("findings".into(), entry.derived.findings.iter().map(finding).collect());
    object.into()
}

/// The `status` of the object; none for kinds that have none of ours.
fn status(entry: &Entry, controller: &str) -> Option<Value> {
    let DerivedStatus { body, .. } = &*entry.derived;
    Some(match body {
        StatusBody::Class(own) => json!({ "conditions": conditions(entry, own, Place::Object) }),
        StatusBody::Gateway { conditions: own, listeners } => json!({
            "conditions": conditions(entry, own, Place::Object),
            "listeners": listeners.iter().map(|status| listener(entry, status)).collect::<Vec<_>>(),
        }),
        StatusBody::Route(parents) => json!({
            "parents": parents.iter().map(|status| parent(entry, status, controller)).collect::<Vec<_>>(),
        }),
        StatusBody::Policy(ancestors) => json!({
            "ancestors": ancestors.iter().map(|status| ancestor(entry, status, controller)).collect::<Vec<_>>(),
        }),
        StatusBody::None => return None,
    })
}

fn listener(entry: &Entry, status: &ListenerStatus) -> Value {
    json!({
        "name": status.name,
        "supportedKinds": status.supported_kinds.iter().map(group_kind).collect::<Vec<_>>(),
        "attachedRoutes": status.attached_routes,
        "conditions": conditions(entry, &status.conditions, |kind| Place::Listener(status.name.clone(), kind)),
    })
}

fn parent(entry: &Entry, status: &ParentStatus, controller: &str) -> Value {
    json!({
        "parentRef": parent_ref(&status.parent),
        "controllerName": controller,
        "conditions": conditions(entry, entry.of_parent(status), |kind| Place::Parent(status.parent.clone(), kind)),
    })
}

fn ancestor(entry: &Entry, status: &AncestorStatus, controller: &str) -> Value {
    let mut reference = group_kind(&Kind::Gateway.into());
    reference["namespace"] = json!(status.gateway.namespace());
    reference["name"] = json!(status.gateway.name());
    json!({
        "ancestorRef": reference,
        "controllerName": controller,
        "conditions": conditions(entry, &status.conditions, |kind| Place::Ancestor(status.gateway.clone(), kind)),
    })
}

/// The reference as the user wrote it, with group and kind.
fn parent_ref(parent: &ParentFact) -> Value {
    let mut reference = group_kind(&parent.group_kind);
    if let Some(namespace) = &parent.namespace_ref {
        reference["namespace"] = json!(namespace);
    }
    reference["name"] = json!(parent.name.name());
    if let Some(section) = &parent.section {
        reference["sectionName"] = json!(section);
    }
    if let Some(port) = parent.port {
        reference["port"] = json!(port);
    }
    reference
}

fn group_kind(group_kind: &GroupKind) -> Value {
    json!({ "group": group_kind.group, "kind": group_kind.kind })
}

/// The conditions at one place, with their times.
fn conditions<'a>(
    entry: &Entry,
    conditions: impl IntoIterator<Item = &'a Condition>,
    place: impl Fn(tidegate_model::ConditionType) -> Place,
) -> Vec<Value> {
    let render = |derived: &Condition| {
        let place = place(derived.kind);
        let condition = entry.effective(&place, derived);
        json!({
            "type": condition.kind.as_str(),
            "status": condition.status.as_str(),
            "reason": condition.reason.as_str(),
            "message": condition.message,
            "observedGeneration": entry.derived.generation,
            "lastTransitionTime": rfc3339(entry.since(&place)),
        })
    };
    conditions.into_iter().map(render).collect()
}

fn finding(finding: &Finding) -> Value {
    json!({ "reason": finding.reason.as_str(), "field": finding.field, "message": finding.message })
}
