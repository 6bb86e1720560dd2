//! The running source: a watched directory, looked at whenever something in it is whole.

use super::look::{Looker, Seen};
use super::problem::Problem;
use super::provenance::Provenance;
use super::signals::{Request, SETTLE, Signals};
use super::state::Admission;
use super::unread::instead_of;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_log::Event;
use tidegate_vault::Vault;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// How often the tree is looked at even if the system says nothing: links to files that lie elsewhere, network file
/// systems and directories beyond the system's limit of watches are not reported. A look without changes costs one
/// `stat` a file.
pub const RESCAN: Duration = Duration::from_secs(10);

/// How often the tree is looked at if the system cannot watch it and no other interval was asked for.
pub const POLL: Duration = Duration::from_secs(1);

/// How the directory is watched.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Refuses what an API server would refuse; takes everything if none.
    pub admission: Option<Admission>,
    /// Where the material of Secrets goes.
    pub vault: Vault,
    /// Look at this interval instead of asking the system to report changes, for file systems where it does not.
    pub poll: Option<Duration>,
}

/// Why a directory cannot be a source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be listed.
    #[error("cannot read manifest directory {path}: {source}; name a directory that exists and can be listed")]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nobody takes the events any more.
    #[error("manifest directory {path}: nobody takes its events any more")]
    Closed {
        /// The directory.
        path: PathBuf,
    },
    /// A look did not come back.
    #[error("manifest directory {path}: a look at it broke off: {source}")]
    Broken {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: tokio::task::JoinError,
    },
}

/// A directory tree of manifests, ready to run.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    signals: Signals,
    watching: Watching,
    looker: Looker,
    provenance: Provenance,
    problems: watch::Sender<Arc<[Problem]>>,
}

/// What a directory holds at one look.
#[derive(Debug)]
pub struct Once {
    /// The initial list, with `synced` for every kind.
    pub events: Vec<Event>,
    /// What is wrong, by path and line.
    pub problems: Vec<Problem>,
    /// Where the objects stand.
    pub provenance: Provenance,
    /// Kinds that were found and are not read, as `apiVersion kind`.
    pub unknown_kinds: Vec<String>,
}

/// How changes are learnt.
#[derive(Debug)]
enum Watching {
    /// From the system; kept because it stops when it is dropped.
    System { _watcher: RecommendedWatcher },
    /// By looking this often.
    Poll(Duration),
}

impl Directory {
    /// Checks that the directory is there and begins to watch it. Blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// [`Error::Open`].
    pub fn open(path: impl Into<PathBuf>, options: &Options) -> Result<Self, Error> {
        let path = path.into();
        if let Err(source) = std::fs::read_dir(&path) {
            return Err(Error::Open { path, source });
        }
        let signals = Signals::new(&path);
        let watching = match options.poll {
            Some(interval) => Watching::Poll(interval),
            None => watch_or_poll(&path, &signals),
        };
        let tells_ends = matches!(watching, Watching::System { .. }) && Signals::tells_ends();
        let mut looker = Looker::new(path.clone(), tells_ends, options.admission, options.vault.clone());
        let provenance = looker.manifests().provenance();
        Ok(Directory { path, signals, watching, looker, provenance, problems: watch::Sender::new(Arc::from([])) })
    }

    /// Looks once, without watching: what a source that runs would send first. Blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// [`Error::Open`].
    pub fn read_once(path: impl Into<PathBuf>, admission: Option<Admission>) -> Result<Once, Error> {
        let path = path.into();
        let mut looker = Looker::new(path.clone(), false, admission, Vault::new());
        let looked = looker.look(&Request::default(), Instant::now());
        let events = looked.map_err(|source| Error::Open { path, source })?.events;
        let problems = looker.problems();
        let manifests = looker.manifests();
        Ok(Once { events, problems, provenance: manifests.provenance(), unknown_kinds: manifests.take_unknown_kinds() })
    }

    /// What is wrong with the manifests, always the whole list as of the last look.
    #[must_use]
    pub fn problems(&self) -> watch::Receiver<Arc<[Problem]>> {
        self.problems.subscribe()
    }

    /// Where the objects stand.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        self.provenance.clone()
    }

    /// Sends the initial list with `synced` for every kind as one batch, then one batch for what each look finds
    /// changed, until `shutdown`.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if the directory went away before its first look, [`Error::Closed`] if the receiver did.
    pub async fn run(
        mut self,
        sink: mpsc::Sender<Vec<Event>>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        tokio::pin!(shutdown);
        let mut request = Some(Request::default());
        let mut initial = true;
        let mut again_at = None;
        let mut looked_at = Instant::now();
        loop {
            if let Some(request) = request.take() {
                looked_at = Instant::now();
                let seen = self.look(request).await?;
                again_at = seen.again_at;
                if seen.watch_anew {
                    self.watch_anew().await?;
                    // What changed before the new watch stood is not reported.
                    again_at = Some(Instant::now());
                }
                if initial || !seen.events.is_empty() {
                    initial = false;
                    let sent = tokio::select! {
                        sent = sink.send(seen.events) => sent,
                        () = &mut shutdown => return Ok(()),
                    };
                    sent.map_err(|_| Error::Closed { path: self.path.clone() })?;
                }
            }
            let (interval, reported) = match self.watching {
                Watching::System { .. } => (RESCAN, self.signals.next()),
                Watching::Poll(interval) => (interval, None),
            };
            let due = looked_at + interval;
            let look_at = again_at.map_or(due, |at: Instant| at.min(due));
            let wake_at = reported.map_or(look_at, |at| at.min(look_at));
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                () = sink.closed() => return Err(Error::Closed { path: self.path }),
                () = self.signals.changed() => {}
                () = sleep_until(wake_at) => {}
            }
            let now = Instant::now();
            request = self.signals.take(now, now >= look_at);
        }
    }

    /// One look, on a thread where it may block; what it found wrong is published.
    async fn look(&mut self, request: Request) -> Result<Seen, Error> {
        let mut looker = std::mem::replace(&mut self.looker, Looker::new(PathBuf::new(), false, None, Vault::new()));
        let look = move || {
            let seen = looker.look(&request, Instant::now());
            (looker, seen)
        };
        let joined = tokio::task::spawn_blocking(look).await;
        let (looker, seen) = joined.map_err(|source| Error::Broken { path: self.path.clone(), source })?;
        self.looker = looker;
        let seen = seen.map_err(|source| Error::Open { path: self.path.clone(), source })?;
        self.publish();
        if !seen.events.is_empty() {
            tracing::debug!(directory = %self.path.display(), events = seen.events.len(), "manifests changed");
        }
        Ok(seen)
    }

    fn publish(&mut self) {
        for kind in self.looker.manifests().take_unknown_kinds() {
            match instead_of(&kind) {
                Some(advice) => tracing::warn!(kind, "manifests of this kind are not read: {advice}"),
                None => tracing::info!(kind, "manifests of this kind are not read"),
            }
        }
        let now = self.looker.problems();
        let before = self.problems.borrow().clone();
        if *before == *now {
            return;
        }
        let now: Arc<[Problem]> = now.into();
        // Before it is logged: whoever reads the line finds it wherever problems are shown.
        self.problems.send_replace(Arc::clone(&now));
        let known: BTreeSet<&Problem> = before.iter().collect();
        let current: BTreeSet<&Problem> = now.iter().collect();
        for problem in current.difference(&known) {
            tracing::warn!(field = problem.field, "{problem}");
        }
        for problem in known.difference(&current) {
            tracing::info!(path = %problem.path.display(), line = problem.line, "resolved: {}", problem.message);
        }
    }

    async fn watch_anew(&mut self) -> Result<(), Error> {
        if matches!(self.watching, Watching::Poll(_)) {
            return Ok(());
        }
        let (path, signals) = (self.path.clone(), self.signals.clone());
        let joined = tokio::task::spawn_blocking(move || watch_or_poll(&path, &signals)).await;
        self.watching = joined.map_err(|source| Error::Broken { path: self.path.clone(), source })?;
        if matches!(self.watching, Watching::Poll(_)) {
            self.looker.poll();
        }
        Ok(())
    }
}

/// Asks the system to report changes, or falls back to looking every [`POLL`].
fn watch_or_poll(path: &Path, signals: &Signals) -> Watching {
    match start_watcher(path, signals) {
        Ok(watcher) => Watching::System { _watcher: watcher },
        Err(error) => {
            tracing::warn!(
                directory = %path.display(), %error, interval_ms = u64::try_from(POLL.as_millis()).unwrap_or(u64::MAX),
                "the system cannot watch the manifest directory; looking at it at an interval instead"
            );
            Watching::Poll(POLL)
        }
    }
}

fn start_watcher(path: &Path, signals: &Signals) -> notify::Result<RecommendedWatcher> {
    let signals = signals.clone();
    let handler = move |event: notify::Result<notify::Event>| signals.on_event(&event, Instant::now());
    let mut watcher = notify::recommended_watcher(handler)?;
    watcher.watch(path, RecursiveMode::Recursive)?;
    // The directory's own entry, to see at once that it was replaced. Where that cannot be watched, the regular look
    // sees it later.
    if path.file_name().is_some()
        && let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty())
    {
        let _ = watcher.watch(above, RecursiveMode::NonRecursive);
    }
    Ok(watcher)
}

/// A file that is being taken needs at least this long where the system does not tell that it is whole.
const _: () = assert!(SETTLE.as_millis() < POLL.as_millis(), "a poll must not outrun what it waits for");
