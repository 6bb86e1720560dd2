//! Objects that are right: those of the examples, the scenarios and the random worlds.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tidegate_log::{Event, Object};
use tidegate_model::Kind;
use tidegate_scenarios::scenario::Scenario;
use tidegate_sources::manifests::document;
use tidegate_workload::World;

/// What [`secret`] holds, and no message may.
pub const MATERIAL: &str = "bWF0ZXJpYWwtdGhhdC1ub2JvZHktbWF5LXNlZQ";

/// A Secret as a manifest has it; its material is none that could be used.
#[must_use]
pub fn secret() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": "certificate", "namespace": "shop"},
        "data": {"tls.crt": MATERIAL, "tls.key": MATERIAL},
    })
}

/// All of them, each form once, in an order that does not vary.
#[must_use]
pub fn objects() -> &'static [Object] {
    static OBJECTS: OnceLock<Vec<Object>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let examples = files(&example_folder()).into_iter().flat_map(|contents| {
            document::parse(&contents).objects.into_iter().map(|located| located.object).collect::<Vec<_>>()
        });
        let scenarios = groups().iter().flatten().cloned();
        let worlds = (0..3).flat_map(|seed| World::new(seed).list()).filter_map(|event| match event {
            Event::Apply(object) => Some(object),
            _ => None,
        });
        let all = examples.chain(scenarios).chain(worlds);
        all.map(|object| ((object.key.clone(), object.body.to_string()), object))
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .collect()
    })
}

/// Objects that belong together: the last state of each scenario, without Secrets and ConfigMaps, whose certificates are new
/// ones at every run.
#[must_use]
pub fn groups() -> &'static [Vec<Object>] {
    static GROUPS: OnceLock<Vec<Vec<Object>>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        let objects = |scenario: &Scenario| {
            let objects = scenario.last_objects().into_values();
            objects.filter(|object| !matches!(object.key.kind, Kind::Secret | Kind::ConfigMap)).collect()
        };
        Scenario::all().iter().map(objects).collect()
    })
}

fn example_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// The contents of the files below `folder`, by path.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a folder that was opened can be listed").path()).collect();
    paths.sort();
    let contents = |path: &PathBuf| {
        if path.is_dir() {
            return files(path);
        }
        vec![std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))]
    };
    paths.iter().flat_map(contents).collect()
}
