//! What outlives this process: what clients reject, in a file.
//!
//! The file is a memory, not an input: without it a rejected secret may be sent once more to the Envoy that rejected it,
//! and everybody is told of a rejection anew. So a file that cannot be read is put aside and said, and a file that cannot
//! be written is said and tried again; neither stops anything.

use crate::clock::Clock;
use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_ads::Remembered;
use tidegate_model::Millis;
use tokio_util::sync::CancellationToken;

/// The file in the state directory.
const FILE: &str = "rejections.json";

/// How long changes are gathered before they are written.
const GATHER: Duration = Duration::from_millis(200);

/// How often clients that left are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// The file, kept up to date.
pub(crate) struct State {
    file: PathBuf,
    remembered: Remembered,
}

impl State {
    /// Reads what an earlier process kept in `dir`, which is created if it is not there.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or written to.
    pub(crate) fn open(dir: &Path, remembered: Remembered, now: Millis) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create --state-dir {}", dir.display()))?;
        let file = dir.join(FILE);
        let state = State { file, remembered };
        match std::fs::read_to_string(&state.file) {
            Ok(json) => state.restore(&json, now),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", state.file.display())),
        }
        state.write().with_context(|| format!("cannot write to --state-dir {}", dir.display()))?;
        Ok(state)
    }

    fn restore(&self, json: &str, now: Millis) {
        match self.remembered.restore(json, now) {
            Ok(()) => {
                let clients = self.remembered.len();
                tracing::info!(file = %self.file.display(), clients, "read what clients reject");
            }
            Err(error) => {
                let aside = self.file.with_extension("json.unreadable");
                let kept = std::fs::rename(&self.file, &aside).is_ok();
                let aside = if kept { format!("kept as {}", aside.display()) } else { "overwritten".to_owned() };
                tracing::error!(file = %self.file.display(), %error, "cannot read what clients reject: begun anew, {aside}");
            }
        }
    }

    /// Writes every change until `stop`, and then once more.
    pub(crate) async fn run(self, clock: Clock, stop: CancellationToken) -> anyhow::Result<()> {
        let mut changes = self.remembered.changes();
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = sweep.tick() => self.remembered.sweep(clock()),
                Ok(()) = changes.changed() => {
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(GATHER) => {}
                    }
                    changes.mark_unchanged();
                    if let Err(error) = self.write() {
                        tracing::error!(file = %self.file.display(), %error, "cannot keep what clients reject: tried again with the next change");
                    }
                }
            }
        }
        if let Err(error) = self.write() {
            tracing::error!(file = %self.file.display(), %error, "cannot keep what clients reject");
        }
        Ok(())
    }

    /// Replaces the file as a whole: a crash leaves the old one or the new one.
    fn write(&self) -> std::io::Result<()> {
        let new = self.file.with_extension("json.new");
        let mut file = std::fs::File::create(&new)?;
        file.write_all(self.remembered.to_json().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_ads::session::{Client, RejectedResource, Rejections};
    use tidegate_model::{ClientId, Locality, NamespacedName, ResourceType};
    use tidegate_xds::Version;

    fn client() -> Client {
        let id = ClientId { stream: 1, node: "envoy".into() };
        Client { id, gateway: NamespacedName::new("shop", "public"), locality: Locality::default() }
    }

    fn rejections() -> Rejections {
        let rejected = RejectedResource { version: Version::of(b"bad"), detail: "no".into(), kept: None };
        let mut all = Rejections::default();
        all.resources.insert((ResourceType::Secret, "shop/cert".into()), vec![rejected]);
        all
    }

    #[tokio::test]
    async fn what_is_rejected_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("state/deep");
        let remembered = Remembered::default();
        let state = State::open(&place, remembered.clone(), 0).unwrap();
        let stop = CancellationToken::new();
        let running = tokio::task::JoinSet::from_iter([state.run(std::sync::Arc::new(|| 0), stop.clone())]);
        remembered.put(&client(), rejections());
        stop.cancel();
        running.join_all().await.into_iter().for_each(|ended| ended.unwrap());
        let next = Remembered::default();
        State::open(&place, next.clone(), 0).unwrap();
        assert_eq!(*next.get(&client()), rejections());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_kept_and_does_not_stop_a_start() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "{ half").unwrap();
        let remembered = Remembered::default();
        State::open(dir.path(), remembered.clone(), 0).unwrap();
        assert!(remembered.is_empty());
        assert_eq!(std::fs::read_to_string(dir.path().join("rejections.json.unreadable")).unwrap(), "{ half");
        State::open(dir.path(), remembered, 0).unwrap();
    }

    #[test]
    fn a_place_that_cannot_be_written_to_is_an_error_that_names_the_flag() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = State::open(&file, Remembered::default(), 0).err().unwrap();
        assert!(error.to_string().contains("--state-dir"), "{error}");
    }
}
