//! A watched directory with real files. Every wait is for a batch or a problem, with a limit.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is the message")]

use std::fs;
use std::future::Future;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_log::Event;
use tidegate_model::{Kind, ObjectKey};
use tidegate_sources::manifests::{Error, Options};
use tidegate_sources::{Directory, Problem, Provenance};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

/// Far more than any wait needs.
const LIMIT: Duration = Duration::from_secs(30);

struct Source {
    batches: mpsc::Receiver<Vec<Event>>,
    problems: watch::Receiver<Arc<[Problem]>>,
    provenance: Provenance,
    shutdown: oneshot::Sender<()>,
    running: JoinSet<Result<(), Error>>,
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

impl Source {
    /// Starts the source and takes its initial list, without the `synced` that end it.
    async fn start(root: &Path, options: Options) -> (Self, Vec<String>) {
        let directory = Directory::open(root, &options).unwrap();
        let (problems, provenance) = (directory.problems(), directory.provenance());
        let (sink, batches) = mpsc::channel(8);
        let (shutdown, stopped) = oneshot::channel();
        let mut running = JoinSet::new();
        running.spawn(directory.run(sink, async { drop(stopped.await) }));
        let mut source = Source { batches, problems, provenance, shutdown, running };
        let mut initial = source.batch().await;
        let synced = initial.split_off(initial.len() - Kind::ALL.len());
        assert_eq!(synced, Kind::ALL.map(|kind| format!("synced {kind}")));
        (source, initial)
    }

    async fn watching(root: &Path) -> (Self, Vec<String>) {
        Source::start(root, Options::default()).await
    }

    async fn batch(&mut self) -> Vec<String> {
        let batch = within("a batch", self.batches.recv()).await.unwrap();
        batch.iter().map(describe).collect()
    }

    /// Waits until the problems are as said: each given text is a part of one, and there are no others.
    async fn problems(&mut self, parts: &[&str]) {
        let all_there = |problems: &Arc<[Problem]>| {
            problems.len() == parts.len() && problems.iter().zip(parts).all(|(p, part)| p.to_string().contains(part))
        };
        within(&format!("problems {parts:?}"), self.problems.wait_for(all_there)).await.unwrap();
    }

    async fn stop(mut self) {
        self.shutdown.send(()).unwrap();
        within("the end", self.running.join_next()).await.unwrap().unwrap().unwrap();
    }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Apply(object) => format!("apply {} {}", object.key.name.name(), object.body["spec"]["port"]),
        Event::Delete(key) => format!("delete {}", key.name.name()),
        Event::Synced(kind) => format!("synced {kind}"),
        other => format!("{other:?}"),
    }
}

fn service(name: &str, port: u16) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{port: {port}}}\n---\n")
}

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("manifests");
    fs::create_dir(&root).unwrap();
    (dir, root)
}

/// Puts the contents in place in one step.
fn replace(path: &Path, contents: &str) {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, contents).unwrap();
    fs::rename(temporary, path).unwrap();
}

#[tokio::test]
async fn a_renamed_file_is_one_batch() {
    let (_dir, root) = temporary();
    fs::write(root.join("a.yaml"), service("a", 1)).unwrap();
    let (mut source, initial) = Source::watching(&root).await;
    assert_eq!(initial, ["apply a 1"]);
    replace(&root.join("a.yaml"), &(service("a", 2) + &service("b", 2)));
    assert_eq!(source.batch().await, ["apply a 2", "apply b 2"]);
    replace(
        &root.join("new.json"),
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"c"},"spec":{"port":3}}"#,
    );
    assert_eq!(source.batch().await, ["apply c 3"]);
    source.stop().await;
}

#[tokio::test]
async fn a_file_rewritten_in_place_is_read_when_it_is_whole() {
    let (_dir, root) = temporary();
    let path = root.join("a.yaml");
    fs::write(&path, service("a", 1) + &service("b", 1)).unwrap();
    let (mut source, _) = Source::watching(&root).await;
    for port in 2..20 {
        fs::write(&path, service("a", port) + &service("b", port)).unwrap();
        assert_eq!(source.batch().await, [format!("apply a {port}"), format!("apply b {port}")]);
    }
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(service("c", 1).as_bytes()).unwrap();
    drop(file);
    assert_eq!(source.batch().await, ["apply c 1"]);
    assert!(source.problems.borrow().is_empty());
    source.stop().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_slow_writer_holds_back_nobody_but_itself() {
    let (_dir, root) = temporary();
    fs::write(root.join("slow.yaml"), service("a", 1) + &service("b", 1)).unwrap();
    let (mut source, _) = Source::watching(&root).await;
    let mut slow = fs::File::create(root.join("slow.yaml")).unwrap();
    slow.write_all(service("a", 2).as_bytes()).unwrap();
    // Half of it would be a valid file that lacks an object.
    replace(&root.join("other.yaml"), &service("c", 1));
    assert_eq!(source.batch().await, ["apply c 1"]);
    slow.write_all(service("b", 2).as_bytes()).unwrap();
    drop(slow);
    assert_eq!(source.batch().await, ["apply a 2", "apply b 2"]);
    source.stop().await;
}

#[tokio::test]
async fn a_file_that_is_deleted_takes_its_objects_along() {
    let (_dir, root) = temporary();
    fs::write(root.join("a.yaml"), service("a", 1)).unwrap();
    fs::write(root.join("b.yaml"), service("b", 1)).unwrap();
    let (mut source, _) = Source::watching(&root).await;
    fs::remove_file(root.join("a.yaml")).unwrap();
    assert_eq!(source.batch().await, ["delete a"]);
    source.stop().await;
}

#[tokio::test]
async fn an_editor_that_keeps_a_backup_deletes_nothing() {
    let (_dir, root) = temporary();
    let path = root.join("a.yaml");
    fs::write(&path, service("a", 1)).unwrap();
    let (mut source, _) = Source::watching(&root).await;
    for port in 2..6 {
        fs::rename(&path, root.join("a.yaml~")).unwrap();
        // The source looks now, and sees no a.yaml.
        replace(&root.join("b.yaml"), &service("b", port));
        assert_eq!(source.batch().await, [format!("apply b {port}")]);
        fs::write(&path, service("a", port)).unwrap();
        assert_eq!(source.batch().await, [format!("apply a {port}")]);
    }
    source.stop().await;
}

#[tokio::test]
async fn directories_come_move_and_go() {
    let (dir, root) = temporary();
    let (mut source, _) = Source::watching(&root).await;
    let prepared = dir.path().join("prepared");
    fs::create_dir_all(prepared.join("deep")).unwrap();
    fs::write(prepared.join("a.yaml"), service("a", 1)).unwrap();
    fs::write(prepared.join("deep/b.yaml"), service("b", 1)).unwrap();
    fs::rename(&prepared, root.join("sub")).unwrap();
    assert_eq!(source.batch().await, ["apply a 1", "apply b 1"]);
    replace(&root.join("sub/deep/b.yaml"), &service("b", 2));
    assert_eq!(source.batch().await, ["apply b 2"]);

    fs::rename(root.join("sub"), root.join("moved")).unwrap();
    replace(&root.join("moved/deep/b.yaml"), &service("b", 3));
    assert_eq!(source.batch().await, ["apply b 3"], "the move itself changes no object");
    let place = source.provenance.get(&ObjectKey::new(Kind::Service, "default", "a")).unwrap();
    assert_eq!(&*place.path, root.join("moved/a.yaml"));

    fs::rename(root.join("moved"), dir.path().join("away")).unwrap();
    assert_eq!(source.batch().await, ["delete a", "delete b"]);
    fs::create_dir_all(root.join("x/y/z")).unwrap();
    fs::write(root.join("x/y/z/c.yaml"), service("c", 1)).unwrap();
    assert_eq!(source.batch().await, ["apply c 1"]);
    fs::remove_dir_all(root.join("x")).unwrap();
    assert_eq!(source.batch().await, ["delete c"]);
    source.stop().await;
}

#[tokio::test]
async fn a_broken_file_is_reported_until_it_is_whole() {
    let (_dir, root) = temporary();
    let path = root.join("a.yaml");
    fs::write(&path, service("a", 1)).unwrap();
    let (mut source, _) = Source::watching(&root).await;
    fs::write(&path, service("a", 2) + "kind: [\n").unwrap();
    source.problems(&["a.yaml:6:7: "]).await;
    fs::write(&path, "").unwrap();
    source.problems(&["a.yaml: the file is empty; its object stays"]).await;
    fs::write(&path, service("a", 3)).unwrap();
    assert_eq!(source.batch().await, ["apply a 3"]);
    source.problems(&[]).await;
    symlink("nowhere", root.join("link.yaml")).unwrap();
    source.problems(&["link.yaml: a link to a file that is not there"]).await;
    source.stop().await;
}

#[tokio::test]
async fn a_config_map_is_switched_as_one_batch() {
    let (_dir, root) = temporary();
    let version = |name: &str, port: u16| {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("a.yaml"), service("a", port)).unwrap();
        fs::write(root.join(name).join("b.yaml"), service("b", port)).unwrap();
    };
    version("..1", 1);
    symlink("..1", root.join("..data")).unwrap();
    for name in ["a.yaml", "b.yaml"] {
        symlink(format!("..data/{name}"), root.join(name)).unwrap();
    }
    let (mut source, initial) = Source::watching(&root).await;
    assert_eq!(initial, ["apply a 1", "apply b 1"]);
    for port in 2..5 {
        version(&format!("..{port}"), port);
        symlink(format!("..{port}"), root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        fs::remove_dir_all(root.join(format!("..{}", port - 1))).unwrap();
        assert_eq!(source.batch().await, [format!("apply a {port}"), format!("apply b {port}")]);
    }
    source.stop().await;
}

#[tokio::test]
async fn a_directory_that_vanishes_leaves_everything_as_it_was() {
    let (dir, root) = temporary();
    fs::write(root.join("a.yaml"), service("a", 1)).unwrap();
    let (mut source, _) = Source::watching(&root).await;
    fs::rename(&root, dir.path().join("away")).unwrap();
    source.problems(&["its 1 objects stay as they were"]).await;
    fs::create_dir(&root).unwrap();
    source.problems(&["was replaced by a directory without manifests"]).await;
    replace(&root.join("a.yaml"), &service("a", 2));
    assert_eq!(source.batch().await, ["apply a 2"]);
    source.problems(&[]).await;
    replace(&root.join("a.yaml"), &service("a", 3));
    assert_eq!(source.batch().await, ["apply a 3"]);
    fs::rename(&root, dir.path().join("again")).unwrap();
    source.problems(&["its 1 objects stay as they were"]).await;
    fs::rename(dir.path().join("again"), &root).unwrap();
    source.problems(&[]).await;
    replace(&root.join("a.yaml"), &service("a", 4));
    assert_eq!(source.batch().await, ["apply a 4"]);
    source.stop().await;
}

#[tokio::test]
async fn a_directory_behind_a_link_is_switched_at_once() {
    let (dir, root) = temporary();
    let next = dir.path().join("next");
    fs::create_dir(&next).unwrap();
    fs::write(root.join("a.yaml"), service("a", 1)).unwrap();
    fs::write(next.join("a.yaml"), service("a", 2)).unwrap();
    let link = dir.path().join("current");
    symlink(&root, &link).unwrap();
    let (mut source, _) = Source::watching(&link).await;
    symlink(&next, dir.path().join("tmp")).unwrap();
    fs::rename(dir.path().join("tmp"), &link).unwrap();
    assert_eq!(source.batch().await, ["apply a 2"]);
    replace(&next.join("b.yaml"), &service("b", 2));
    assert_eq!(source.batch().await, ["apply b 2"]);
    source.stop().await;
}

#[tokio::test]
async fn polling_finds_the_same_changes() {
    let (_dir, root) = temporary();
    fs::write(root.join("a.yaml"), service("a", 1)).unwrap();
    let options = Options { poll: Some(Duration::from_millis(20)), ..Options::default() };
    let (mut source, initial) = Source::start(&root, options).await;
    assert_eq!(initial, ["apply a 1"]);
    fs::write(root.join("a.yaml"), service("a", 22)).unwrap();
    assert_eq!(source.batch().await, ["apply a 22"]);
    fs::create_dir(root.join("sub")).unwrap();
    fs::rename(root.join("a.yaml"), root.join("sub/a.yaml")).unwrap();
    replace(&root.join("b.yaml"), &service("b", 1));
    assert_eq!(source.batch().await, ["apply b 1"]);
    fs::remove_dir_all(root.join("sub")).unwrap();
    assert_eq!(source.batch().await, ["delete a"]);
    fs::write(root.join("b.yaml"), "kind: [").unwrap();
    source.problems(&["b.yaml:1:7: "]).await;
    source.stop().await;
}

#[tokio::test]
async fn a_missing_directory_is_an_error_at_the_start() {
    let error = Directory::open("/nowhere/manifests", &Options::default()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read manifest directory /nowhere/manifests: "), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(Directory::open(file.path(), &Options::default()), Err(Error::Open { .. })));
}

#[tokio::test]
async fn a_receiver_that_goes_away_ends_the_source() {
    let (_dir, root) = temporary();
    let (mut source, _) = Source::watching(&root).await;
    source.batches.close();
    let ended = within("the end", source.running.join_next()).await.unwrap().unwrap();
    assert!(matches!(ended, Err(Error::Closed { .. })), "{ended:?}");
}
