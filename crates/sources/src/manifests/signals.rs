//! What the system says about changes, folded into when to look and what not to look at yet.
//!
//! The rule: a look happens as soon as something is *whole*. A rename, a removal and the end of a write are; a file
//! that is being written is not, and is left out of looks until its writer closes it, or has not written for
//! [`WRITING`]. So an atomic rename waits for nothing, and a slow writer holds back nobody but itself.

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{EventKind, RecommendedWatcher, Watcher, WatcherKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a file that was written to may stay open without another write before it is read as it is.
pub(super) const WRITING: Duration = Duration::from_millis(1000);

/// How long something must have stayed as it is, where the system does not say when a write ends.
pub(super) const SETTLE: Duration = Duration::from_millis(100);

/// How many paths are told apart before everything is looked at instead.
const PATHS_MAX: usize = 10_000;

/// Shared between the watcher's thread, which adds to it, and the source, which takes from it.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    root: Arc<Path>,
    pending: Arc<Mutex<Pending>>,
    wake: Arc<Notify>,
}

/// What is known since the last look.
#[derive(Debug, Default)]
struct Pending {
    request: Request,
    /// Something is whole.
    due: bool,
    /// Files that are being written, and when they are read all the same.
    writing: BTreeMap<PathBuf, Instant>,
}

/// What one look is asked to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// Files to read even if they look unchanged.
    pub(super) dirty: BTreeSet<PathBuf>,
    /// Files to leave out.
    pub(super) writing: BTreeSet<PathBuf>,
    /// Read everything: something was missed.
    pub(super) everything: bool,
    /// Look once more after [`SETTLE`]: there is a directory that may not be watched yet.
    pub(super) again: bool,
    /// The directory itself was moved, removed or replaced: watch it anew.
    pub(super) watch_anew: bool,
}

impl Signals {
    pub(super) fn new(root: &Path) -> Self {
        Signals { root: Arc::from(root), pending: Arc::default(), wake: Arc::default() }
    }

    /// Whether the system says when a write ends.
    pub(super) fn tells_ends() -> bool {
        RecommendedWatcher::kind() == WatcherKind::Inotify
    }

    /// Waits until there is something new; at once if there was since it last returned.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// What to look at now; none if nothing is whole yet. `anyway`: look even so.
    pub(super) fn take(&self, now: Instant, anyway: bool) -> Option<Request> {
        let mut pending = self.lock();
        let over: Vec<PathBuf> =
            pending.writing.iter().filter(|(_, until)| **until <= now).map(|(path, _)| path.clone()).collect();
        for path in over {
            pending.writing.remove(&path);
            pending.request.dirty.insert(path);
            pending.due = true;
        }
        if !pending.due && !anyway {
            return None;
        }
        pending.due = false;
        let mut request = std::mem::take(&mut pending.request);
        request.writing = pending.writing.keys().cloned().collect();
        Some(request)
    }

    /// When the first of the files that are being written is read all the same.
    pub(super) fn next(&self) -> Option<Instant> {
        self.lock().writing.values().min().copied()
    }

    /// Takes an event of the watcher.
    pub(super) fn on_event(&self, event: &notify::Result<notify::Event>, now: Instant) {
        if self.lock().fold(&self.root, event, now) {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    /// Whether there is reason to wake up.
    fn fold(&mut self, root: &Path, event: &notify::Result<notify::Event>, now: Instant) -> bool {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::debug!(%error, "watching manifests: looking at everything");
                self.request.everything = true;
                self.due = true;
                return true;
            }
        };
        if event.need_rescan() {
            self.request.everything = true;
            self.due = true;
            return true;
        }
        let ends = Signals::tells_ends();
        let mut wake = false;
        // The directory above is watched too, for the sake of `root` itself.
        for path in event.paths.iter().filter(|path| path.starts_with(root)) {
            wake |= match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => self.whole(path),
                EventKind::Access(_) => false,
                EventKind::Create(CreateKind::File) if ends => self.being_written(path, now + SETTLE),
                EventKind::Modify(ModifyKind::Data(_)) if ends => self.being_written(path, now + WRITING),
                EventKind::Modify(ModifyKind::Metadata(_)) if ends && self.writing.contains_key(path) => false,
                EventKind::Create(CreateKind::Folder) | EventKind::Modify(ModifyKind::Name(_)) => {
                    self.request.again = true;
                    self.request.watch_anew |= path == root;
                    self.whole(path)
                }
                EventKind::Remove(_) => {
                    self.request.watch_anew |= path == root;
                    self.whole(path)
                }
                EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Other => self.whole(path),
            };
        }
        wake
    }

    fn whole(&mut self, path: &Path) -> bool {
        self.writing.remove(path);
        if self.request.dirty.len() < PATHS_MAX {
            self.request.dirty.insert(path.to_owned());
        } else {
            self.request.everything = true;
        }
        self.due = true;
        true
    }

    fn being_written(&mut self, path: &Path, until: Instant) -> bool {
        if self.writing.len() < PATHS_MAX || self.writing.contains_key(path) {
            let before = self.writing.insert(path.to_owned(), until);
            // The source sleeps until the earliest of them; a later one need not wake it.
            before.is_none()
        } else {
            self.whole(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::Event;
    use notify::event::{DataChange, Flag, RemoveKind, RenameMode};

    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));
    const RENAME: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));

    fn signals() -> Signals {
        Signals::new(Path::new("dir"))
    }

    fn tell(signals: &Signals, kind: EventKind, path: &str, now: Instant) {
        signals.on_event(&Ok(Event::new(kind).add_path(PathBuf::from(path))), now);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_is_left_out_until_its_writer_closes_it() {
        let (signals, now) = (signals(), Instant::now());
        tell(&signals, EventKind::Create(CreateKind::File), "dir/a.yaml", now);
        tell(&signals, WRITE, "dir/a.yaml", now);
        assert_eq!(signals.take(now, false), None);
        assert_eq!(signals.next(), Some(now + WRITING));
        tell(&signals, RENAME, "dir/b.yaml", now);
        let request = signals.take(now, false).unwrap();
        assert_eq!(request.writing, BTreeSet::from([PathBuf::from("dir/a.yaml")]));
        assert_eq!(request.dirty, BTreeSet::from([PathBuf::from("dir/b.yaml")]));
        tell(&signals, CLOSE, "dir/a.yaml", now);
        let request = signals.take(now, false).unwrap();
        assert_eq!((request.writing.len(), request.dirty.len()), (0, 1));
        assert_eq!(signals.next(), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_stays_open_is_read_in_the_end() {
        let (signals, now) = (signals(), Instant::now());
        tell(&signals, WRITE, "dir/a.yaml", now);
        tell(&signals, WRITE, "dir/a.yaml", now + SETTLE);
        assert_eq!(signals.take(now + WRITING, false), None);
        let request = signals.take(now + WRITING + SETTLE, false).unwrap();
        assert_eq!(request.dirty, BTreeSet::from([PathBuf::from("dir/a.yaml")]));
    }

    #[test]
    fn reading_a_file_is_no_news() {
        let (signals, now) = (signals(), Instant::now());
        tell(&signals, EventKind::Access(AccessKind::Open(AccessMode::Any)), "dir/a.yaml", now);
        tell(&signals, EventKind::Access(AccessKind::Close(AccessMode::Read)), "dir/a.yaml", now);
        assert_eq!(signals.take(now, false), None);
    }

    #[test]
    fn what_lies_beside_the_directory_is_no_news() {
        let (signals, now) = (signals(), Instant::now());
        tell(&signals, EventKind::Remove(RemoveKind::Any), "other/a.yaml", now);
        tell(&signals, EventKind::Remove(RemoveKind::Any), "dir2", now);
        assert_eq!(signals.take(now, false), None);
        tell(&signals, EventKind::Remove(RemoveKind::Any), "dir", now);
        assert!(signals.take(now, false).unwrap().watch_anew);
    }

    #[test]
    fn everything_is_read_after_events_were_lost() {
        let (signals, now) = (signals(), Instant::now());
        signals.on_event(&Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)), now);
        assert!(signals.take(now, false).unwrap().everything);
        signals.on_event(&Err(notify::Error::generic("lost")), now);
        assert!(signals.take(now, false).unwrap().everything);
        for n in 0..=PATHS_MAX {
            tell(&signals, RENAME, &format!("dir/{n}.yaml"), now);
        }
        let request = signals.take(now, false).unwrap();
        assert!(request.everything && request.dirty.len() == PATHS_MAX);
    }
}
