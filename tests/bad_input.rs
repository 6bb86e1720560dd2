//! Two hundred broken manifests, one after the other, in a directory that is served: each changes nothing but what derives
//! from its own object, and says what is wrong with it and where.
//!
//! The world is made of groups that do not know each other: whatever happens to an object of one group, all rows of the
//! others stay as they are, byte for byte. A file that is refused changes no row at all.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is the message")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_engine::{Config, Core};
use tidegate_fuzz::{Choices, mutate, render};
use tidegate_log::{Event, Object};
use tidegate_model::{Kind, ObjectKey};
use tidegate_normalize::admit;
use tidegate_scenarios::{difference, rows_of, scenario::seal};
use tidegate_sources::manifests::{Options, document};
use tidegate_sources::{Directory, Problem};
use tidegate_workload::{Random, World};
use tidegate_xds::Row;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

const GROUPS: u64 = 2;
const MUTATIONS: u64 = 200;

/// Far more than any wait needs.
const LIMIT: Duration = Duration::from_secs(60);

/// The served directory.
struct Served {
    _folder: tempfile::TempDir,
    root: PathBuf,
    batches: mpsc::Receiver<Vec<Event>>,
    problems: watch::Receiver<Arc<[Problem]>>,
    _running: JoinSet<Result<(), tidegate_sources::manifests::Error>>,
    core: Core,
    /// Bodies as they were sent, without their generation.
    live: BTreeMap<ObjectKey, Value>,
    rows: BTreeSet<Row>,
    marks: u64,
}

impl Served {
    async fn start(files: &BTreeMap<String, Object>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("manifests");
        std::fs::create_dir(&root).unwrap();
        for (name, object) in files {
            std::fs::write(root.join(name), tame(object)).unwrap();
        }
        let options = Options { admission: Some(admit), ..Options::default() };
        let directory = Directory::open(&root, &options).unwrap();
        let problems = directory.problems();
        let (sink, mut batches) = mpsc::channel(8);
        let mut running = JoinSet::new();
        running.spawn(directory.run(sink, std::future::pending()));
        let mut core = Core::new(&Config::default());
        let mut live = BTreeMap::new();
        let first = next(&mut batches).await;
        note(&first, &mut live);
        let rows = rows_of(&seal(&mut core, &first, 0));
        Served { _folder: folder, root, batches, problems, _running: running, core, live, rows, marks: 0 }
    }

    /// Puts the contents in place and waits until they were looked at: what follows in the directory was seen too.
    async fn put(&mut self, name: &str, contents: &[u8]) {
        replace(&self.root.join(name), contents);
        self.marks += 1;
        let mark =
            format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: mark, labels: {{at: m{}}}}}}}", self.marks);
        replace(&self.root.join("zz-mark.yaml"), mark.as_bytes());
        let at = format!("m{}", self.marks);
        loop {
            let batch = next(&mut self.batches).await;
            note(&batch, &mut self.live);
            let sealed = seal(&mut self.core, &batch, self.marks);
            self.rows = rows_of(&sealed);
            let is_mark = |event: &Event| matches!(event, Event::Apply(object) if object.body["metadata"]["labels"]["at"] == at.as_str());
            if batch.iter().any(is_mark) {
                assert!(self.core.store().violations().is_empty());
                return;
            }
        }
    }

    fn problems_of(&self, name: &str) -> Vec<Problem> {
        let path = self.root.join(name);
        self.problems.borrow().iter().filter(|problem| problem.path == path).cloned().collect()
    }
}

async fn next(batches: &mut mpsc::Receiver<Vec<Event>>) -> Vec<Event> {
    tokio::time::timeout(LIMIT, batches.recv()).await.expect("waited in vain for a batch").expect("the source runs")
}

fn note(batch: &[Event], live: &mut BTreeMap<ObjectKey, Value>) {
    for event in batch {
        match event {
            Event::Apply(object) => drop(live.insert(object.key.clone(), without_generation(object))),
            Event::Delete(key) => drop(live.remove(key)),
            _ => {}
        }
    }
}

fn without_generation(object: &Object) -> Value {
    let mut body = (*object.body).clone();
    body["metadata"].as_object_mut().unwrap().remove("generation");
    body
}

/// Puts a file in place in one step.
fn replace(path: &Path, contents: &[u8]) {
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, contents).unwrap();
    std::fs::rename(temporary, path).unwrap();
}

fn tame(object: &Object) -> Vec<u8> {
    render::file(&[(*object.body).clone()], false, &mut Choices::new(&[]))
}

/// A file for each object: the objects of each group have names that no other group has.
fn files() -> BTreeMap<String, Object> {
    let mut files = BTreeMap::new();
    for group in 0..GROUPS {
        for event in World::new(group).list() {
            let Event::Apply(object) = event else { continue };
            let mut text = object.body.to_string();
            let classes_and_namespaces =
                ["infra", "shop", "team-x", "annex", "ours", "also-ours", "foreign", "nowhere"];
            for name in classes_and_namespaces.into_iter().chain(["left", "right", "far", "lost"]) {
                text = text.replace(&format!("\"{name}\""), &format!("\"g{group}-{name}\""));
            }
            let object = Object::new(serde_json::from_str(&text).unwrap()).unwrap();
            // The generator writes Secrets as a log has them, which is not how a file does.
            if object.key.kind != Kind::Secret && admit(&object).is_empty() {
                files.insert(format!("{}.yaml", object.key.to_string().replace([' ', '/'], "_")), object);
            }
        }
    }
    files
}

/// The group of a row, by its names.
fn group(row: &Row) -> Option<String> {
    let of = |name: &str| name.starts_with('g').then(|| name[..2.min(name.len())].to_owned());
    match row {
        Row::Gateway(gateway)
        | Row::Listener(gateway, _)
        | Row::Table(gateway, _)
        | Row::VirtualHost(gateway, ..)
        | Row::Secret(gateway, _)
        | Row::Shows(gateway, ..)
        | Row::Member(gateway, _) => of(gateway.as_str()),
        Row::Held(held) => of(held.gateway.as_str()),
        Row::Cluster(name, _) | Row::Endpoints(name, _) | Row::KubeNode(name, _) => of(name),
        Row::Status(key, _) if key.kind.is_cluster_scoped() => of(key.name.name()),
        Row::Status(key, _) => of(key.name.namespace()),
    }
}

/// The object as somebody wrote it who was in a hurry.
fn broken(object: &Object, others: &[&Object], random: &mut Random) -> Vec<u8> {
    let input: Vec<u8> = (0..2_000).map(|_| (random.bits() >> 32) as u8).collect();
    let mut choices = Choices::new(&input);
    let mut value = (*object.body).clone();
    let other = *choices.pick(others);
    let like = others.iter().filter(|other| other.key.kind == object.key.kind);
    let like: Vec<&Object> = like.copied().collect();
    let mut changes = 1 + choices.below(3);
    if choices.chance(45) {
        // What another of its kind says: most of that is right, and means something.
        let (name, twin) = (value["metadata"].take(), *choices.pick(&like));
        value = (*twin.body).clone();
        value["metadata"] = name;
        changes = choices.below(2);
    }
    for _ in 0..changes {
        mutate::mutate(&mut value, &other.body, &mut choices);
    }
    let wild = choices.chance(20);
    render::file(&[value], wild, &mut choices)
}

/// What the files say of this one, found without the source; none if it is not whole.
fn taken(contents: &[u8]) -> Option<Vec<Object>> {
    let parsed = document::parse(contents);
    let blank = contents.iter().all(u8::is_ascii_whitespace);
    let objects: Vec<Object> = parsed.objects.into_iter().map(|located| located.object).collect();
    let admitted = objects.iter().all(|object| admit(object).is_empty());
    (!blank && parsed.mistakes.is_empty() && admitted).then_some(objects)
}

/// A problem says where it is, what it is about and what to do.
fn check_problem(problem: &Problem) {
    let whole_file = problem.message.starts_with("the file is empty") || problem.message.starts_with("the text cannot");
    assert!(problem.line > 0 || whole_file, "no line: {problem}");
    if problem.message.starts_with("also ") {
        assert!(problem.message.ends_with("; remove one of the two"), "{problem}");
        return;
    }
    let many = problem.message.starts_with("more than ");
    assert!(problem.object.is_none() || many || !problem.field.is_empty(), "no field: {problem}");
    assert!(problem.message.contains("; "), "does not say what follows: {problem}");
    let own = problem.message.rsplit_once("; ").map_or("", |(own, _)| own);
    let says_what_to_do = own.contains("; ") || own.contains("must be");
    assert!(problem.object.is_none() || says_what_to_do, "does not say what to do: {problem}");
    assert!(!problem.to_string().contains(char::is_control), "{problem:?}");
}

#[tokio::test]
async fn a_broken_manifest_changes_nothing_but_what_derives_from_its_object() {
    let files = files();
    let names: Vec<&String> = files.keys().collect();
    let mut served = Served::start(&files).await;
    assert_eq!(served.problems.borrow().len(), 0);
    let (mut refused, mut changed) = (0, 0);
    for seed in 0..MUTATIONS {
        let mut random = Random::new(seed);
        let name = *random.pick(&names);
        let object = &files[name];
        // Parts come from its own group: nothing it says may be about another.
        let mark = &name[name.find("_g").unwrap()..][..4];
        let others: Vec<&Object> = files.iter().filter(|(name, _)| name.contains(mark)).map(|(_, o)| o).collect();
        let contents = broken(object, &others, &mut random);
        let text = String::from_utf8_lossy(&contents).into_owned();
        let (rows, live) = (served.rows.clone(), served.live.clone());
        served.put(name, &contents).await;
        let mut expected = live.clone();
        expected.insert(mark_key(), Value::Null);
        served.live.insert(mark_key(), Value::Null);
        let problems = served.problems_of(name);
        problems.iter().for_each(check_problem);
        match taken(&contents) {
            None => {
                refused += 1;
                assert!(!problems.is_empty(), "seed {seed}: refused without a word:\n{text}");
                assert!(served.rows == rows, "seed {seed}: a file that is refused changes rows:\n{text}");
            }
            Some(objects) => {
                expected.remove(&object.key);
                let mut own = BTreeSet::new();
                for object in objects {
                    // Of two files that have an object the first counts, and so does the first of two documents.
                    let elsewhere = files.iter().find(|(other, held)| *other != name && held.key == object.key);
                    if elsewhere.is_none_or(|(other, _)| other > name) && own.insert(object.key.clone()) {
                        expected.insert(object.key.clone(), without_generation(&object));
                    }
                }
                let own = group(&Row::Status(object.key.clone(), Arc::new(nothing())));
                let elsewhere: Vec<&Row> =
                    served.rows.symmetric_difference(&rows).filter(|row| group(row) != own).collect();
                let stray = |row: &&Row| group(row).is_some();
                assert!(!elsewhere.iter().any(stray), "seed {seed}: {} changes {elsewhere:?}:\n{text}", object.key);
                changed += u32::from(served.rows != rows);
            }
        }
        assert!(served.live == expected, "seed {seed}: other objects than the files say:\n{text}");
        // All of it is compared now and then: the reference derives everything anew.
        if seed % 20 == 0 {
            let differs = difference(&seal(&mut served.core, &[], 0), &served.core.facts());
            assert_eq!(differs, [""; 0], "seed {seed}:\n{text}");
        }
        served.put(name, &tame(object)).await;
        assert_eq!(served.problems.borrow().len(), 0, "seed {seed}: {:?}", served.problems.borrow());
        let without_status = |rows: &BTreeSet<Row>| -> Vec<Row> {
            rows.iter().filter(|row| !matches!(row, Row::Status(..))).cloned().collect()
        };
        assert!(without_status(&served.rows) == without_status(&rows), "seed {seed}: something stays:\n{text}");
    }
    eprintln!("{MUTATIONS} manifests: {refused} refused, {changed} taken with other rows");
    assert!(refused >= 50 && changed >= 20, "{refused} refused, {changed} changed: too few to say anything");
}

fn mark_key() -> ObjectKey {
    ObjectKey::new(Kind::Namespace, "", "mark")
}

fn nothing() -> tidegate_model::DerivedStatus {
    tidegate_model::DerivedStatus { generation: 0, body: tidegate_model::StatusBody::None, findings: Vec::new() }
}
