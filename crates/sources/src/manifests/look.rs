//! One look at the tree: what changed since the last one, read and handed to [`Manifests`]. Blocking.

use super::document::FILE_MAX;
use super::problem::Problem;
use super::signals::{Request, SETTLE};
use super::state::{Admission, Found, Manifests};
use super::tree::{Identity, Stamp, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_log::Event;
use tidegate_vault::Vault;
use tokio::time::Instant;

/// How long a file must be gone before its objects go. Editors that keep a backup rename the file away and write a
/// new one, `git checkout` removes before it writes.
pub(super) const ABSENT: Duration = Duration::from_millis(250);

/// Compares the tree with what was taken of it.
#[derive(Debug)]
pub(super) struct Looker {
    root: PathBuf,
    manifests: Manifests,
    /// Whether the system says when a write ends. If not, a changed file is taken once it stays as it is.
    tells_ends: bool,
    identity: Option<Identity>,
    directories: BTreeSet<PathBuf>,
    /// The files as they were when they were last read.
    taken: BTreeMap<PathBuf, Stamp>,
    /// Changed files that may still be written, and since when they are as they are.
    unsettled: BTreeMap<PathBuf, (Stamp, Instant)>,
    /// Files that are gone, since when.
    absent: BTreeMap<PathBuf, Instant>,
    /// What is wrong with the tree rather than with a file.
    problems: Vec<Problem>,
    unreadable: BTreeMap<PathBuf, String>,
}

/// What a look brought.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) events: Vec<Event>,
    /// When to look again, whatever happens until then.
    pub(super) again_at: Option<Instant>,
    /// The directory is another one than before, or back again.
    pub(super) watch_anew: bool,
}

impl Looker {
    pub(super) fn new(root: PathBuf, tells_ends: bool, admission: Option<Admission>, vault: Vault) -> Self {
        Looker {
            root,
            manifests: Manifests::with_admission(admission).with_vault(vault),
            tells_ends,
            identity: None,
            directories: BTreeSet::new(),
            taken: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            absent: BTreeMap::new(),
            problems: Vec::new(),
            unreadable: BTreeMap::new(),
        }
    }

    pub(super) fn manifests(&mut self) -> &mut Manifests {
        &mut self.manifests
    }

    /// Everything that is wrong now.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = self.manifests.problems();
        problems.extend(self.problems.iter().cloned());
        problems.sort();
        problems
    }

    /// Polling settles files by itself, whatever the system could tell.
    pub(super) fn poll(&mut self) {
        self.tells_ends = false;
    }

    /// The first look takes everything as it is and returns the initial list.
    ///
    /// # Errors
    ///
    /// If the directory cannot be listed at the first look. Later that is a problem, and everything stays.
    pub(super) fn look(&mut self, request: &Request, now: Instant) -> io::Result<Seen> {
        let first = self.identity.is_none();
        let tree = match Tree::scan(&self.root) {
            Ok(tree) => tree,
            Err(error) if first => return Err(error),
            // Nothing to watch; what lies above it tells when it is back.
            Err(error) => return Ok(self.lost(format!("cannot be listed: {error}"), false)),
        };
        let replaced = self.identity.is_some_and(|before| before != tree.root);
        if replaced && tree.files.is_empty() && !self.taken.is_empty() {
            let watch_anew = request.watch_anew || !self.is_lost();
            return Ok(self.lost("was replaced by a directory without manifests".to_owned(), watch_anew));
        }
        let watch_anew = replaced || request.watch_anew || (!first && self.is_lost());
        let mut seen = Seen { watch_anew, ..Seen::default() };
        self.identity = Some(tree.root);
        let found = self.changed(&tree, request, first, now, &mut seen);
        seen.events = self.manifests.look(found, &mut read);
        let new_directory = tree.directories.iter().any(|directory| !self.directories.contains(directory));
        if !first && (request.again || new_directory) {
            again(&mut seen, now + SETTLE);
        }
        self.directories = tree.directories;
        self.problems = tree.unreadable.iter().map(|(path, reason)| whole(path, reason.clone())).collect();
        self.unreadable = tree.unreadable;
        Ok(seen)
    }

    fn is_lost(&self) -> bool {
        self.problems.iter().any(|problem| problem.path == self.root)
    }

    fn lost(&mut self, reason: String, watch_anew: bool) -> Seen {
        self.absent.clear();
        let objects = self.manifests.len();
        let message =
            format!("the directory {reason}; its {objects} objects stay as they were, put it back or restart");
        self.problems = vec![whole(&self.root, message)];
        Seen { watch_anew, ..Seen::default() }
    }

    /// The files to take at this look.
    fn changed(
        &mut self,
        tree: &Tree,
        request: &Request,
        first: bool,
        now: Instant,
        seen: &mut Seen,
    ) -> Vec<(PathBuf, Found)> {
        let mut found = Vec::new();
        self.unsettled.retain(|path, _| tree.files.contains_key(path));
        self.absent.retain(|path, _| !tree.files.contains_key(path));
        for (path, stamp) in &tree.files {
            let same = self.taken.get(path) == Some(stamp) && !self.unreadable.contains_key(path);
            let asked = self.tells_ends && (request.everything || request.dirty.contains(path));
            if request.writing.contains(path) || (same && !asked) {
                continue;
            }
            if !first && !self.tells_ends && !self.is_settled(path, *stamp, now) {
                again(seen, now + SETTLE);
                continue;
            }
            self.unsettled.remove(path);
            match read(path) {
                // Gone since it was listed: then the next look decides, and not too soon.
                Found::Gone => again(seen, now + SETTLE),
                contents => {
                    self.taken.insert(path.clone(), *stamp);
                    found.push((path.clone(), contents));
                }
            }
        }
        for path in self.gone(tree, now, seen) {
            self.taken.remove(&path);
            self.absent.remove(&path);
            found.push((path, Found::Gone));
        }
        found
    }

    /// Whether the file has stayed as it is for long enough.
    fn is_settled(&mut self, path: &Path, stamp: Stamp, now: Instant) -> bool {
        match self.unsettled.get(path) {
            Some((before, since)) if *before == stamp => now >= *since + SETTLE,
            _ => {
                self.unsettled.insert(path.to_owned(), (stamp, now));
                false
            }
        }
    }

    /// The files that are believed to be gone.
    fn gone(&mut self, tree: &Tree, now: Instant, seen: &mut Seen) -> Vec<PathBuf> {
        let mut gone = Vec::new();
        // A file that was taken under another name by now was moved: one change, not two.
        let moved: BTreeSet<Identity> = self
            .taken
            .iter()
            .filter(|(path, _)| tree.files.contains_key(*path))
            .map(|(_, stamp)| stamp.identity)
            .collect();
        for (path, stamp) in &self.taken {
            if tree.files.contains_key(path) || tree.hides(path) {
                continue;
            }
            let since = *self.absent.entry(path.clone()).or_insert(now);
            if moved.contains(&stamp.identity) || now >= since + ABSENT {
                gone.push(path.clone());
            } else {
                again(seen, since + ABSENT);
            }
        }
        gone
    }
}

fn again(seen: &mut Seen, at: Instant) {
    seen.again_at = Some(seen.again_at.map_or(at, |before| before.min(at)));
}

fn whole(path: &Path, message: String) -> Problem {
    Problem { path: path.to_owned(), line: 0, column: 0, object: None, field: String::new(), message }
}

/// Reads a manifest.
fn read(path: &Path) -> Found {
    let mut contents = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_MAX as u64 + 1).read_to_end(&mut contents));
    match read {
        Ok(_) if contents.len() > FILE_MAX => {
            Found::Unreadable(format!("the file is larger than {} MiB; split it", FILE_MAX >> 20))
        }
        Ok(_) => Found::Contents(contents),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Gone,
        Err(error) => Found::Unreadable(format!("the file cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tidegate_model::{Kind, ObjectKey};

    const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: cart}\n";

    /// A directory with one file, looked at once.
    fn looked_at() -> (tempfile::TempDir, Looker, Instant) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), SERVICE).unwrap();
        let mut looker = Looker::new(dir.path().to_owned(), true, None, Vault::new());
        let now = Instant::now();
        looker.look(&Request::default(), now).unwrap();
        (dir, looker, now)
    }

    #[test]
    fn a_move_is_followed_at_the_look_that_sees_it() {
        let (dir, mut looker, now) = looked_at();
        // A name that sorts later: were the old one believed to be there still, it would win.
        fs::rename(dir.path().join("a.yaml"), dir.path().join("z.yaml")).unwrap();
        let seen = looker.look(&Request::default(), now).unwrap();
        assert_eq!((seen.events, looker.problems()), (Vec::new(), Vec::new()));
        let key = ObjectKey::new(Kind::Service, "default", "cart");
        let place = looker.manifests().provenance().get(&key).unwrap();
        assert_eq!(&*place.path, dir.path().join("z.yaml"));
    }

    #[test]
    fn a_removal_is_believed_after_a_while_and_not_before() {
        let (dir, mut looker, now) = looked_at();
        fs::remove_file(dir.path().join("a.yaml")).unwrap();
        let seen = looker.look(&Request::default(), now).unwrap();
        assert_eq!((seen.events, seen.again_at), (Vec::new(), Some(now + ABSENT)));
        let seen = looker.look(&Request::default(), now + ABSENT).unwrap();
        assert!(matches!(seen.events[..], [Event::Delete(_)]), "{:?}", seen.events);
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let (dir, mut looker, now) = looked_at();
        fs::File::create(dir.path().join("b.yaml")).unwrap().set_len(FILE_MAX as u64 + 1).unwrap();
        looker.look(&Request::default(), now).unwrap();
        assert!(looker.problems()[0].message.starts_with("the file is larger than 16 MiB; split it"));
    }
}
