//! Which crate must not know which. "Know" is transitive and means normal dependencies: what a crate is built with or
//! tested with it may not use in what it does.

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};

/// A row of the table: a package of the workspace and what it must not know.
struct Row(&'static str, Forbidden);

/// What a package must not know.
enum Forbidden {
    /// These. A word names a package, or several: see [`packages_of`].
    Words(&'static [&'static str]),
    /// Every other package of the workspace, but these.
    WorkspaceBut(&'static [&'static str]),
}

use Forbidden::{Words, WorkspaceBut};

/// The table, in the order of the data. Every package of the workspace has a row; a row may wait for its package.
const TABLE: &[Row] = &[
    Row("tidegate-model", Words(&["kube", "tokio", "timely", "prost"])),
    Row("tidegate-proto", WorkspaceBut(&[])),
    Row("tidegate-log", Words(&["timely", "tidegate-xds", "tidegate-normalize"])),
    Row("tidegate-vault", WorkspaceBut(&["tidegate-model"])),
    Row("tidegate-sources", Words(&["tidegate-normalize", "tidegate-translate", "tidegate-engine", "tidegate-xds"])),
    Row("tidegate-normalize", Words(&["tokio", "timely", "tidegate-xds"])),
    Row("tidegate-xds", Words(&["kube", "timely", "tokio"])),
    Row("tidegate-translate", Words(&["kube", "tokio"])),
    Row("tidegate-engine", Words(&["kube", "tonic"])),
    Row("tidegate-ads", Words(&["kube", "timely", "tidegate-translate"])),
    Row("tidegate-status", Words(&["tidegate-translate", "tidegate-xds", "timely"])),
    Row("tidegate-infra", Words(&["tidegate-translate", "tidegate-xds", "timely"])),
    Row("tidegate-admin", Words(&["kube", "tonic"])),
    Row("tidegate-workload", Words(&["kube", "tonic"])),
    Row("tidegate-profile", Words(&["kube"])),
    Row("tidegate", Words(&[])),
    Row("tidegate-envoy", Words(&["tidegate-translate", "kube"])),
    Row("tidegate-ads-client", Words(&["tidegate-translate", "kube"])),
    Row("testkit", WorkspaceBut(&[])),
    Row("tidegate-scenarios", Words(&[])),
    Row("tidegate-fuzz", Words(&[])),
    Row("benches", Words(&[])),
    Row("xtask", Words(&["tidegate-translate", "tidegate-engine", "timely"])),
];

/// Packages on which nobody may depend but those named: the binary, and what only tests and tools use.
const NOBODY_BUT: &[(&str, &[&str])] = &[
    ("tidegate", &[]),
    ("tidegate-profile", &["tidegate", "benches"]),
    ("xtask", &[]),
    ("testkit", &["xtask", "tidegate-scenarios", "tidegate-fuzz", "benches"]),
    ("tidegate-scenarios", &["tidegate-fuzz"]),
    ("tidegate-fuzz", &[]),
    ("benches", &[]),
];

/// The packages that a word of the table stands for.
fn packages_of(word: &str) -> &[&str] {
    match word {
        // The client, not the types: the Gateway API's types come through `kube`, which without its features is but
        // traits about resources.
        "kube" => &["kube-client", "kube-runtime"],
        "timely" => &["timely", "timely_communication", "differential-dataflow"],
        "tonic" => &["tonic", "tonic-prost"],
        "tokio" => &["tokio"],
        "prost" => &["prost"],
        _ => &[],
    }
}

/// Normal dependencies between packages, by name.
pub(super) struct Graph {
    workspace: BTreeSet<String>,
    normal: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// What cargo says about this workspace.
    pub(super) fn of_workspace() -> Result<Self> {
        let mut command = MetadataCommand::new();
        command.cargo_path(crate::cargo()).current_dir(crate::root());
        let metadata = command.exec().context("cannot read the dependencies with `cargo metadata`")?;
        let name_of: BTreeMap<_, _> = metadata.packages.iter().map(|p| (&p.id, p.name.to_string())).collect();
        let resolve = metadata.resolve.as_ref().context("`cargo metadata` gave no resolved dependencies")?;
        let mut normal: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in &resolve.nodes {
            let used = node.deps.iter().filter(|dep| dep.dep_kinds.iter().any(|k| k.kind == DependencyKind::Normal));
            normal.entry(name_of[&node.id].clone()).or_default().extend(used.map(|dep| name_of[&dep.pkg].clone()));
        }
        let workspace = metadata.workspace_members.iter().map(|id| name_of[id].clone()).collect();
        Ok(Graph { workspace, normal })
    }

    /// The way from `from` to every package that it knows, in any number of steps, the shortest first.
    fn ways_from(&self, from: &str) -> BTreeMap<&str, Vec<&str>> {
        let mut ways: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let Some((from, _)) = self.normal.get_key_value(from) else { return ways };
        let mut queue = std::collections::VecDeque::from([vec![from.as_str()]]);
        while let Some(way) = queue.pop_front() {
            let last = way.last().expect("a way has a beginning");
            for next in self.normal.get(*last).into_iter().flatten() {
                if next != from && !ways.contains_key(next.as_str()) {
                    let longer: Vec<&str> = way.iter().copied().chain([next.as_str()]).collect();
                    ways.insert(next, longer.clone());
                    queue.push_back(longer);
                }
            }
        }
        ways
    }
}

/// Every edge that the table forbids, with the way by which it comes.
pub(super) fn check(graph: &Graph) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in &graph.workspace {
        let Some(Row(_, forbidden)) = TABLE.iter().find(|Row(name, _)| name == package) else {
            breaches.push(format!(
                "{package} has no row in the table of xtask/src/tidy/edges.rs; add what it must not know"
            ));
            continue;
        };
        let ways = graph.ways_from(package);
        let knows = |name: &str| ways.get(name).map(|way| way.join(" -> "));
        let mut names: BTreeSet<&str> = match forbidden {
            Words(words) => {
                words.iter().flat_map(|word| [*word].into_iter().chain(packages_of(word).iter().copied())).collect()
            }
            WorkspaceBut(allowed) => {
                graph.workspace.iter().map(String::as_str).filter(|n| !allowed.contains(n)).collect()
            }
        };
        // `kube` is a word, and the package of that name is not what it stands for.
        names.remove("kube");
        breaches
            .extend(names.iter().filter_map(|name| Some(format!("{package} must not know {name}: {}", knows(name)?))));
    }
    for (package, allowed) in NOBODY_BUT {
        let users =
            graph.workspace.iter().filter(|user| graph.normal.get(*user).is_some_and(|deps| deps.contains(*package)));
        let unwanted = users.filter(|user| !allowed.contains(&user.as_str()));
        breaches.extend(
            unwanted.map(|user| format!("{user} must not depend on {package}, which is for nobody to build on")),
        );
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> Graph {
        let workspace = edges.iter().map(|(name, _)| (*name).to_owned()).filter(|n| TABLE.iter().any(|r| r.0 == n));
        let normal =
            edges.iter().map(|(name, deps)| ((*name).to_owned(), deps.iter().map(|d| (*d).to_owned()).collect()));
        Graph { workspace: workspace.collect(), normal: normal.collect() }
    }

    #[test]
    fn a_forbidden_package_is_found_through_others_and_its_way_is_named() {
        let graph = graph(&[("tidegate-translate", &["a"]), ("a", &["b", "c"]), ("b", &["tokio"]), ("c", &["a"])]);
        assert_eq!(check(&graph), ["tidegate-translate must not know tokio: tidegate-translate -> a -> b -> tokio"]);
    }

    #[test]
    fn types_of_kubernetes_are_not_its_client() {
        let types = graph(&[("tidegate-engine", &["kube"]), ("kube", &["kube-core"])]);
        assert_eq!(check(&types), Vec::<String>::new());
        let client = graph(&[("tidegate-engine", &["kube"]), ("kube", &["kube-client"])]);
        assert_eq!(
            check(&client),
            ["tidegate-engine must not know kube-client: tidegate-engine -> kube -> kube-client"]
        );
    }

    #[test]
    fn nothing_builds_on_the_binary_or_on_the_test_kit() {
        let graph = graph(&[("tidegate-ads", &["testkit"]), ("xtask", &["testkit", "tidegate"]), ("testkit", &[])]);
        let breaches = check(&graph);
        assert_eq!(breaches.len(), 2, "{breaches:?}");
        assert!(breaches[0].starts_with("xtask must not depend on tidegate,"), "{breaches:?}");
        assert!(breaches[1].starts_with("tidegate-ads must not depend on testkit,"), "{breaches:?}");
    }

    #[test]
    fn a_package_that_must_know_nobody_is_held_to_it() {
        let graph = graph(&[("tidegate-proto", &["tidegate-model"]), ("tidegate-model", &[])]);
        assert_eq!(check(&graph), ["tidegate-proto must not know tidegate-model: tidegate-proto -> tidegate-model"]);
    }
}
