//! What is derived of a directory: one look, one epoch.

use crate::app::view;
use crate::clock;
use anyhow::anyhow;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tidegate_engine::{Applied, Config, Core};
use tidegate_log::Event;
use tidegate_model::{Kind, NamespacedName, ObjectKey, plain};
use tidegate_sources::manifests::Place;
use tidegate_sources::manifests::directory::Once;
use tidegate_sources::{Directory, Problem, Provenance};
use tidegate_status::Board;
use tidegate_xds::Sealed;

/// Everything that there is to print.
pub(super) struct World {
    /// What was read.
    pub(super) manifests: BTreeMap<ObjectKey, Arc<Value>>,
    pub(super) problems: Vec<Problem>,
    pub(super) provenance: Provenance,
    /// Kinds that were found and are not read.
    pub(super) unknown_kinds: Vec<String>,
    /// What was derived.
    pub(super) sealed: Arc<Sealed>,
    /// Objects with a status or findings, as `/status` shows them.
    pub(super) objects: Vec<Value>,
    /// Broken guarantees; a bug if there is one.
    pub(super) violations: Vec<String>,
    pub(super) controller: String,
}

impl World {
    /// Reads and derives.
    ///
    /// # Errors
    ///
    /// When the directory cannot be listed.
    pub(super) fn derive(dir: &Path, config: &Config) -> anyhow::Result<World> {
        let Once { events, problems, provenance, unknown_kinds } =
            Directory::read_once(dir, Some(tidegate_normalize::admit))?;
        let mut core = Core::new(config);
        let now = clock::system()();
        let mut sealed = match core.apply(&events, now) {
            Applied::Sealed(sealed) => sealed,
            Applied::Pending { missing } => return Err(anyhow!("the manifests say nothing about {missing:?}")),
        };
        // What has come to its end by now, as the timers of a controller would say at once.
        let ended = core.take_deadlines().into_values().flatten().filter(|deadline| deadline.at <= now);
        let ended: Vec<Event> =
            ended.map(|deadline| Event::Expired { key: deadline.key, renewed: deadline.renewed }).collect();
        if !ended.is_empty()
            && let Applied::Sealed(newer) = core.apply(&ended, now)
        {
            sealed = newer;
        }
        let violations = core.store().violations().iter().map(|violation| format!("{violation:?}")).collect();
        let mut board = Board::new();
        let statuses = sealed.status.iter().map(|(key, status)| (key.clone(), Some(Arc::clone(status))));
        // The time of every transition is a constant, so that the same manifests give the same output.
        board.derive(statuses, 0);
        let objects = view::objects(&board, &provenance, &config.controller);
        let manifests = events.into_iter().filter_map(|event| match event {
            Event::Apply(object) => Some((object.key, object.body)),
            Event::Delete(_)
            | Event::Synced(_)
            | Event::Unreadable { .. }
            | Event::Expired { .. }
            | Event::Connect { .. }
            | Event::Disconnect { .. }
            | Event::Rejected { .. } => None,
        });
        Ok(World {
            manifests: manifests.collect(),
            problems,
            provenance,
            unknown_kinds,
            sealed,
            objects,
            violations,
            controller: config.controller.to_string(),
        })
    }

    /// The objects of the Gateway API with their `status`, where they have one, as the API would hold them.
    pub(super) fn whole_objects(&self) -> Vec<Value> {
        let statuses: BTreeMap<ObjectKey, &Value> =
            self.objects.iter().filter_map(|object| Some((view::key_of(object)?, object.get("status")?))).collect();
        let of_the_api = |(key, body): (&ObjectKey, &Arc<Value>)| {
            let status = statuses.get(key);
            (status.is_some() || key.kind.group() == Kind::Gateway.group()).then(|| {
                let mut whole = Value::clone(body);
                if let Some(status) = status {
                    whole["status"] = Value::clone(status);
                }
                whole
            })
        };
        self.manifests.iter().filter_map(of_the_api).collect()
    }

    /// Where an object stands, as `file:line`.
    pub(super) fn place(&self, key: &ObjectKey) -> String {
        let place = |place: Place| format!("{}:{}", plain(&place.path.display().to_string()), place.line);
        self.provenance.get(key).map(place).unwrap_or_default()
    }

    /// Of objects that a text names those whose manifests were refused, so that they only seem to be missing.
    pub(super) fn refused_in(&self, text: &str) -> BTreeSet<String> {
        let refused = self.problems.iter().filter_map(|problem| Some((problem, problem.object.as_ref()?)));
        let missing = refused.filter(|(_, key)| !self.manifests.contains_key(*key) && names(text, &key.to_string()));
        let told = missing.map(|(problem, key)| {
            let path = problem.path.display().to_string();
            format!("the manifest of {key} was refused: {}:{}", plain(&path), problem.line)
        });
        told.collect()
    }

    /// The Gateway or ListenerSet that a reference to a parent means; none if it means something else.
    pub(super) fn parent_of(&self, object: &ObjectKey, field: &str) -> Option<ObjectKey> {
        let reference = self.manifests.get(object)?.pointer(&pointer(field))?;
        let text = |field: &str| reference.get(field).and_then(Value::as_str);
        let name = NamespacedName::new(text("namespace").unwrap_or(object.name.namespace()), text("name")?);
        let kind = if text("kind") == Some(Kind::ListenerSet.as_str()) { Kind::ListenerSet } else { Kind::Gateway };
        Some(ObjectKey { kind, name })
    }
}

/// The JSON pointer of a field, `spec.parentRefs[0]` as `/spec/parentRefs/0`.
fn pointer(field: &str) -> String {
    format!("/{}", field.replace(']', "").replace(['.', '['], "/"))
}

/// Whether a text names an object, and not another one whose name begins alike.
fn names(text: &str, object: &str) -> bool {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    text.match_indices(object).any(|(at, _)| !text[at + object.len()..].starts_with(goes_on))
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_object_is_not_another_one_whose_name_begins_alike() {
        assert!(
            super::names("there is no Gateway a/b of", "Gateway a/b") && super::names("no Gateway a/b", "Gateway a/b")
        );
        assert!(!super::names("there is no Gateway a/b-c, Gateway a/bc", "Gateway a/b"));
    }

    #[test]
    fn a_field_is_found_by_its_pointer() {
        assert_eq!(super::pointer("spec.parentRefs[10].name"), "/spec/parentRefs/10/name");
    }
}
