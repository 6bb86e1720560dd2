//! What files mean together, without a file system.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is the message")]

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tidegate_log::Event;
use tidegate_model::{Finding, Kind, ObjectKey, Reason};
use tidegate_sources::Manifests;
use tidegate_sources::manifests::{Found, Place};

/// Files as a look finds them, and the manifests they were given to.
#[derive(Default)]
struct Directory {
    files: BTreeMap<PathBuf, String>,
    manifests: Manifests,
    reads: Vec<PathBuf>,
}

impl Directory {
    fn started() -> Self {
        let mut directory = Directory::default();
        assert_eq!(directory.look(&[]), Kind::ALL.map(|kind| format!("synced {kind}")));
        directory
    }

    /// Writes (or, with none, removes) files and looks at them.
    fn look(&mut self, changes: &[(&str, Option<String>)]) -> Vec<String> {
        self.events(changes).iter().map(describe).collect()
    }

    fn events(&mut self, changes: &[(&str, Option<String>)]) -> Vec<Event> {
        let mut found = Vec::new();
        for (path, contents) in changes {
            let path = PathBuf::from(path);
            match contents {
                Some(contents) => {
                    self.files.insert(path.clone(), contents.clone());
                    found.push((path, Found::Contents(contents.clone().into_bytes())));
                }
                None => {
                    self.files.remove(&path);
                    found.push((path, Found::Gone));
                }
            }
        }
        let (files, reads) = (&self.files, &mut self.reads);
        self.manifests.look(found, &mut |path: &Path| {
            reads.push(path.to_owned());
            files.get(path).map_or(Found::Gone, |contents| Found::Contents(contents.clone().into_bytes()))
        })
    }

    fn problems(&self) -> Vec<String> {
        self.manifests.problems().iter().map(ToString::to_string).collect()
    }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Apply(object) => {
            let (metadata, port) = (&object.body["metadata"], &object.body["spec"]["port"]);
            format!("apply {} {port} generation {}", object.key, metadata["generation"])
        }
        Event::Delete(key) => format!("delete {key}"),
        Event::Synced(kind) => format!("synced {kind}"),
        other => format!("{other:?}"),
    }
}

fn service(name: &str, port: u16) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: shop\nspec:\n  port: {port}\n---\n")
}

fn whole(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Service, "shop", name)
}

#[test]
fn the_first_look_is_the_initial_list() {
    let mut directory = Directory::default();
    let events = directory.look(&[("b.yaml", whole(&service("b", 1))), ("a.yaml", whole(&service("a", 2)))]);
    assert_eq!(events[..2], ["apply Service shop/a 2 generation 1", "apply Service shop/b 1 generation 1"]);
    assert_eq!(events[2..], Kind::ALL.map(|kind| format!("synced {kind}")));
}

#[test]
fn only_what_changed_is_sent() {
    let mut directory = Directory::started();
    let (a, b) = (service("a", 1), service("b", 1));
    assert_eq!(directory.look(&[("f.yaml", whole(&(a.clone() + &b)))]).len(), 2);
    assert_eq!(directory.look(&[("f.yaml", whole(&(a.clone() + &b)))]), [""; 0]);
    // Another order, comments and spelling are no change.
    assert_eq!(directory.look(&[("f.yaml", whole(&format!("# moved\n{b}{a}").replace("shop", "\"shop\"")))]), [""; 0]);
    let changed = service("c", 1) + &service("b", 2);
    assert_eq!(
        directory.look(&[("f.yaml", whole(&changed))]),
        ["delete Service shop/a", "apply Service shop/b 2 generation 2", "apply Service shop/c 1 generation 1"]
    );
    assert_eq!(directory.look(&[("f.yaml", None)]), ["delete Service shop/b", "delete Service shop/c"]);
    assert!(directory.manifests.is_empty());
}

#[test]
fn the_generation_counts_changes_of_the_spec_and_begins_anew() {
    let mut directory = Directory::started();
    let labelled = |port: u16, label: &str| {
        whole(&service("a", port).replace("spec:", &format!("  labels: {{x: {label}}}\nspec:")))
    };
    let mut generation = |contents| directory.look(&[("f.yaml", contents)]).pop();
    assert_eq!(generation(labelled(1, "a")).unwrap(), "apply Service shop/a 1 generation 1");
    assert_eq!(generation(labelled(1, "b")).unwrap(), "apply Service shop/a 1 generation 1");
    assert_eq!(generation(labelled(2, "b")).unwrap(), "apply Service shop/a 2 generation 2");
    assert_eq!(generation(labelled(3, "c")).unwrap(), "apply Service shop/a 3 generation 3");
    assert_eq!(generation(None).unwrap(), "delete Service shop/a");
    assert_eq!(generation(labelled(3, "c")).unwrap(), "apply Service shop/a 3 generation 1");
}

#[test]
fn a_file_that_breaks_changes_and_removes_nothing() {
    let mut directory = Directory::started();
    let (a, b) = (service("a", 1), service("b", 1));
    directory.look(&[("f.yaml", whole(&(a.clone() + &b)))]);
    for (broken, part) in [
        (service("a", 2) + "kind: [", "f.yaml:10:7: "),
        (
            service("a", 2) + "kind: Service\n",
            "f.yaml:9:1: apiVersion is missing; add it; its 2 objects stay as they were before",
        ),
        (String::new(), "f.yaml: the file is empty; its 2 objects stay as they were before; delete the file"),
        (" \n\n".to_owned(), "f.yaml: the file is empty"),
    ] {
        assert_eq!(directory.look(&[("f.yaml", whole(&broken))]), [""; 0], "{broken:?}");
        let problems = directory.problems();
        assert_eq!(problems.len(), 1);
        if broken.ends_with('[') {
            assert!(problems[0].contains("its 2 objects stay"), "{problems:?}");
        } else {
            assert!(problems[0].starts_with(part), "{problems:?} should begin with {part:?}");
        }
    }
    let found = Found::Unreadable("the file cannot be read: no".to_owned());
    let events = directory.manifests.look([("f.yaml".into(), found)], &mut |_| Found::Gone);
    assert_eq!((events, directory.problems().len()), (Vec::new(), 1));
    assert_eq!(directory.look(&[("f.yaml", whole(&(service("a", 2) + &b)))]), ["apply Service shop/a 2 generation 2"]);
    assert_eq!(directory.problems(), [""; 0]);
    // Nothing but a comment is somebody's will.
    assert_eq!(directory.look(&[("f.yaml", whole("# none\n"))]).len(), 2);
}

#[test]
fn a_new_file_is_taken_whole_or_not_at_all() {
    let mut directory = Directory::started();
    let broken = service("a", 1) + "kind: Service\n";
    assert_eq!(directory.look(&[("f.yaml", whole(&broken))]), [""; 0]);
    assert!(directory.problems()[0].ends_with("nothing of this file is used until it is whole"));
    assert_eq!(directory.look(&[("f.yaml", whole(""))]), [""; 0]);
    assert_eq!(directory.problems(), [""; 0], "a file that is empty and was never more is no mistake");
}

#[test]
fn at_the_first_look_the_good_documents_of_a_broken_file_are_taken() {
    let mut directory = Directory::default();
    let broken = service("a", 1) + "kind: Service\n---\n" + &service("b", 1);
    let events = directory.look(&[("f.yaml", whole(&broken))]);
    assert_eq!(events[..2], ["apply Service shop/a 1 generation 1", "apply Service shop/b 1 generation 1"]);
    assert!(directory.problems()[0].ends_with("the other documents of the file are used"));
    assert_eq!(directory.look(&[("f.yaml", whole(&("x: y\n---\n".to_owned() + &service("a", 2))))]), [""; 0]);
    assert_eq!(directory.look(&[("f.yaml", whole(&service("a", 2)))]).len(), 2);
}

#[test]
fn the_first_path_wins_and_both_are_named() {
    let mut directory = Directory::started();
    directory.look(&[("b.yaml", whole(&service("a", 2))), ("c.yaml", whole(&service("a", 3)))]);
    assert_eq!(
        directory.problems(),
        ["c.yaml:1:1: Service shop/a: also in b.yaml:1, which is the one that is used; remove one of the two"]
    );
    assert_eq!(directory.look(&[("c.yaml", whole(&service("a", 4)))]), [""; 0]);
    assert_eq!(directory.look(&[("a.yaml", whole(&service("a", 1)))]), ["apply Service shop/a 1 generation 2"]);
    assert_eq!(directory.problems().len(), 2);
    assert_eq!(directory.reads, [""; 0].map(PathBuf::from));
}

#[test]
fn when_the_winner_goes_the_other_file_takes_over_in_the_same_batch() {
    let mut directory = Directory::started();
    directory.look(&[("b.yaml", whole(&(service("a", 2) + &service("b", 2))))]);
    directory.look(&[("a.yaml", whole(&service("a", 1)))]);
    assert_eq!(directory.look(&[("a.yaml", None)]), ["apply Service shop/a 2 generation 3"]);
    assert_eq!(directory.reads, ["b.yaml"].map(PathBuf::from), "only the file that takes over is read again");
    assert_eq!(directory.problems(), [""; 0]);
}

#[test]
fn a_broken_file_cannot_take_over_until_it_is_whole() {
    let mut directory = Directory::started();
    directory.look(&[("a.yaml", whole(&service("a", 1))), ("b.yaml", whole(&service("a", 2)))]);
    directory.look(&[("b.yaml", whole("kind: ["))]);
    assert_eq!(directory.look(&[("a.yaml", None)]), [""; 0], "what was sent stays");
    assert_eq!(directory.look(&[("b.yaml", whole(&service("a", 2)))]), ["apply Service shop/a 2 generation 2"]);
}

#[test]
fn the_same_object_twice_in_a_file_is_told_with_both_lines() {
    let mut directory = Directory::started();
    let events = directory.look(&[("f.yaml", whole(&(service("a", 1) + &service("a", 2))))]);
    assert_eq!(events, ["apply Service shop/a 1 generation 1"]);
    assert_eq!(
        directory.problems(),
        ["f.yaml:9:1: Service shop/a: also at line 1, which is the one that is used; remove one of the two"]
    );
}

#[test]
fn a_file_that_moves_is_no_change_of_its_objects() {
    let mut directory = Directory::started();
    directory.look(&[("a.yaml", whole(&service("a", 1)))]);
    let place = |directory: &Directory| directory.manifests.provenance().get(&key("a"));
    assert_eq!(place(&directory), Some(Place { path: Path::new("a.yaml").into(), line: 1 }));
    let moved = format!("# moved\n{}", service("a", 1));
    assert_eq!(directory.look(&[("a.yaml", None), ("z.yaml", whole(&moved))]), [""; 0]);
    assert_eq!(place(&directory), Some(Place { path: Path::new("z.yaml").into(), line: 2 }));
    assert_eq!(directory.look(&[("z.yaml", None)]), ["delete Service shop/a"]);
    assert_eq!(place(&directory), None);
}

#[test]
fn kinds_that_are_not_read_are_noted_once() {
    let mut directory = Directory::started();
    directory.look(&[("a.yaml", whole("apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\n"))]);
    assert_eq!(directory.manifests.take_unknown_kinds(), ["v1 Pod"]);
    directory.look(&[("b.yaml", whole("apiVersion: v1\nkind: Pod\n"))]);
    assert_eq!(directory.manifests.take_unknown_kinds(), [""; 0]);
    assert_eq!(directory.problems(), [""; 0]);
}

/// What is live, by the events alone.
fn follow(live: &mut BTreeMap<ObjectKey, (u64, i64)>, events: Vec<Event>) {
    for event in events {
        match event {
            Event::Apply(object) => {
                let port = object.body["spec"]["port"].as_u64().unwrap();
                let generation = object.body["metadata"]["generation"].as_i64().unwrap();
                let before = live.insert(object.key.clone(), (port, generation));
                assert_ne!(before.map(|(port, _)| port), Some(port), "{} was sent without a change", object.key);
                assert_eq!(generation, before.map_or(1, |(_, generation)| generation + 1), "{}", object.key);
            }
            Event::Delete(key) => assert!(live.remove(&key).is_some(), "{key} was deleted and not there"),
            Event::Synced(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The oracle: of all whole files in order of their paths, the first that has an object has it.
fn expected(files: &BTreeMap<PathBuf, Vec<(usize, u16)>>) -> BTreeMap<ObjectKey, u64> {
    let mut live = BTreeMap::new();
    for (name, port) in files.values().flatten() {
        live.entry(key(&format!("s{name}"))).or_insert(u64::from(*port));
    }
    live
}

/// One file in one look: removed, broken, or with these objects.
#[derive(Clone, Debug)]
enum Change {
    Remove,
    Break,
    Write(Vec<(usize, u16)>),
}

fn any_look() -> impl Strategy<Value = Vec<(usize, Change)>> {
    let objects = prop::collection::vec((0..5usize, 0..3u16), 0..4);
    let change = prop_oneof![1 => Just(Change::Remove), 1 => Just(Change::Break), 4 => objects.prop_map(Change::Write)];
    prop::collection::vec((0..4usize, change), 1..4)
}

/// Refuses port 0, as an API server would.
fn refuse_port_zero(object: &tidegate_log::Object) -> Vec<Finding> {
    let zero = object.body["spec"]["port"] == 0;
    zero.then(|| Finding::new(Reason::Invalid, "spec.port", "must be 1 to 65535")).into_iter().collect()
}

#[test]
fn an_object_that_an_api_server_would_refuse_changes_nothing_and_is_named() {
    let manifests = Manifests::with_admission(Some(refuse_port_zero));
    let mut directory = Directory { manifests, ..Directory::default() };
    let both = |first, second| Some(service("a", first) + &service("b", second));
    assert_eq!(directory.look(&[("f.yaml", both(0, 1))])[0], "apply Service shop/b 1 generation 1");
    assert_eq!(directory.look(&[("f.yaml", both(2, 3))]).len(), 2);
    assert_eq!(directory.look(&[("f.yaml", both(0, 4))]), Vec::<String>::new());
    let problems = directory.problems();
    assert_eq!(problems.len(), 1);
    for part in ["f.yaml:1", "Service shop/a", "spec.port", "must be 1 to 65535", "stay as they were"] {
        assert!(problems[0].contains(part), "{part} is missing in: {}", problems[0]);
    }
    assert_eq!(directory.look(&[("f.yaml", both(5, 4))]).len(), 2);
    assert_eq!(directory.problems(), Vec::<String>::new());
}

#[test]
fn what_guards_something_counts_at_the_first_look_even_if_it_is_refused() {
    let manifests = Manifests::with_admission(Some(refuse_port_zero));
    let mut directory = Directory { manifests, ..Directory::default() };
    let policy = |version: &str, port: u16| {
        let head = format!("apiVersion: gateway.networking.k8s.io/{version}\nkind: BackendTLSPolicy\n");
        format!("{head}metadata: {{ name: tls, namespace: shop }}\nspec: {{ port: {port} }}\n---\n")
    };
    let first = directory.look(&[("f.yaml", Some(policy("v1", 0) + &service("a", 0)))]);
    assert_eq!(first[0], "apply BackendTLSPolicy shop/tls 0 generation 1");
    assert!(first[1].starts_with("synced"), "{first:?}");
    assert!(directory.problems()[0].contains("closed until then"), "{:?}", directory.problems());
    assert!(!directory.problems()[1].contains("closed"), "{:?}", directory.problems());
    // Later there is something that goes on.
    assert_eq!(
        directory.look(&[("f.yaml", whole(&policy("v1", 1)))]),
        ["apply BackendTLSPolicy shop/tls 1 generation 2"]
    );
    assert_eq!(directory.look(&[("f.yaml", whole(&policy("v1", 0)))]), [""; 0]);
    assert_eq!(directory.look(&[("g.yaml", whole(&policy("v1", 0).replace("tls", "new")))]), [""; 0]);

    let mut directory = Directory::default();
    let first = directory.look(&[("f.yaml", whole(&policy("v1alpha3", 1)))]);
    assert_eq!(first[0], "apply BackendTLSPolicy shop/tls 1 generation 1");
    assert!(directory.problems()[0].contains("write apiVersion: gateway.networking.k8s.io/v1"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_looks_the_events_add_up_to_the_whole_files(looks in prop::collection::vec(any_look(), 1..12)) {
        let mut directory = Directory::started();
        let (mut live, mut good) = (BTreeMap::new(), BTreeMap::new());
        for look in looks {
            let look: BTreeMap<usize, Change> = look.into_iter().collect();
            let mut changes = Vec::new();
            for (file, change) in look {
                let path = format!("{file}.yaml");
                changes.push(match change {
                    Change::Remove => {
                        good.remove(Path::new(&path));
                        (path, None)
                    }
                    Change::Break => (path, whole("kind: [")),
                    Change::Write(objects) => {
                        // A comment keeps a file without objects from being an empty one.
                        let text = objects.iter().map(|(name, port)| service(&format!("s{name}"), *port));
                        let text = "# objects\n---\n".to_owned() + &text.collect::<String>();
                        good.insert(PathBuf::from(&path), objects);
                        (path, Some(text))
                    }
                });
            }
            let changes: Vec<(&str, Option<String>)> = changes.iter().map(|(p, c)| (p.as_str(), c.clone())).collect();
            follow(&mut live, directory.events(&changes));
            // While a file is broken that others leave an object to, the object may lag: only the keys are certain.
            let ports: BTreeMap<ObjectKey, u64> = live.iter().map(|(key, (port, _))| (key.clone(), *port)).collect();
            let broken = directory.files.values().any(|contents| contents == "kind: [");
            if broken {
                prop_assert!(ports.keys().eq(expected(&good).keys()));
            } else {
                prop_assert_eq!(ports, expected(&good));
            }
        }
        // Once every file is whole again, nothing lags.
        let repaired: Vec<(String, String)> = good.iter().map(|(path, objects)| {
            let text: String = objects.iter().map(|(name, port)| service(&format!("s{name}"), *port)).collect();
            (path.display().to_string(), "# repaired\n---\n".to_owned() + &text)
        }).collect();
        let repaired: Vec<(&str, Option<String>)> = repaired.iter().map(|(p, c)| (p.as_str(), whole(c))).collect();
        follow(&mut live, directory.events(&repaired));
        let ports: BTreeMap<ObjectKey, u64> = live.iter().map(|(key, (port, _))| (key.clone(), *port)).collect();
        prop_assert_eq!(ports, expected(&good));
    }

    #[test]
    fn no_bytes_make_the_source_panic(contents: Vec<u8>) {
        let mut manifests = Manifests::new();
        manifests.look([("f.yaml".into(), Found::Contents(contents))], &mut |_| Found::Gone);
    }

    #[test]
    fn no_mutation_of_a_manifest_makes_the_source_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..6),
    ) {
        let mut text = (service("a", 1) + "apiVersion: v1\nkind: List\nitems:\n- &x {a: [1, 2.5, ~, *x]}\n- {\"k\": |\n").into_bytes();
        for (at, byte, edit) in edits {
            let at = at.index(text.len().max(1));
            match edit {
                0 if at < text.len() => text[at] = byte,
                1 if at < text.len() => drop(text.drain(at..)),
                _ => text.insert(at.min(text.len()), b"{}[]:-&*!|>'\"%@ \n\t#"[usize::from(byte) % 19]),
            }
        }
        let mut manifests = Manifests::new();
        manifests.look([("f.yaml".into(), Found::Contents(text))], &mut |_| Found::Gone);
        prop_assert!(manifests.problems().len() < 100);
    }
}
