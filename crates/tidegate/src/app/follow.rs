//! What follows the seals and the clients: the status board, the log lines about state changes, and the entries about
//! clients in the recording.

use crate::clock::Clock;
use imbl::ordmap::DiffItem;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_engine::EngineHandle;
use tidegate_log::Event;
use tidegate_model::{ConditionStatus, ConditionType, DerivedStatus, Finding, ObjectKey, Observation, StatusBody};
use tidegate_status::Board;
use tidegate_vault::Vault;
use tidegate_xds::Sealed;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Findings that are logged for one seal; the rest is counted. All of them are on `/status`.
const MAX_LOGGED_FINDINGS: usize = 20;

/// How often key material that nobody needs is looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// Joins seals and observations into the board.
pub(crate) struct Follower {
    pub(crate) engine: EngineHandle,
    pub(crate) observations: mpsc::Receiver<Observation>,
    pub(crate) board: Arc<Mutex<Board>>,
    pub(crate) clock: Clock,
    /// Keeps what the seals name, and what is no longer needed not for long.
    pub(crate) vault: Vault,
    /// What was followed last; none before the first seal.
    pub(crate) last: Option<Arc<Sealed>>,
    /// Told when nothing more will be recorded.
    pub(crate) drained: DropGuard,
}

impl Follower {
    /// Follows until `stop` is cancelled and the last client's end was observed.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut sealed = self.engine.sealed();
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                _ = sweep.tick() => self.vault.sweep((self.clock)()),
                // Once the engine has ended, which its own task reports, this branch is out.
                Ok(()) = sealed.changed() => {
                    let newest = sealed.borrow_and_update().clone();
                    if let Some(newest) = newest {
                        self.follow(newest);
                    }
                }
                observation = self.observations.recv() => match observation {
                    Some(observation) => self.observe(&observation).await,
                    // The ADS server has ended; whether it was asked to is for its own task to say.
                    None => break,
                },
            }
        }
        stop.cancelled().await;
        drop(self.drained);
        Ok(())
    }

    /// Takes a new seal.
    fn follow(&mut self, newest: Arc<Sealed>) {
        let last = self.last.replace(Arc::clone(&newest));
        let first = last.is_none();
        let last = last.unwrap_or_default();
        if first || !last.materials.ptr_eq(&newest.materials) {
            self.vault.sealed(newest.materials.keys().cloned(), (self.clock)());
        }
        let changes: Vec<_> = last.status.diff(&newest.status).map(change).collect();
        changes.iter().for_each(Change::log_programmed);
        log_findings(&changes);
        let statuses = changes.len();
        let derived = changes.into_iter().map(|change| (change.key, change.new));
        self.board.lock().expect("nobody panics while holding the board").derive(derived, newest.millis);
        let (gateways, clusters) = (newest.gateways.len(), newest.clusters.len());
        if first {
            tracing::info!(epoch = newest.epoch, gateways, clusters, "ready");
        }
        tracing::trace!(epoch = newest.epoch, gateways, clusters, statuses, "published");
    }

    /// Takes what a client told us.
    async fn observe(&mut self, observation: &Observation) {
        let event = match observation {
            Observation::Connected { client, gateway, delta: _ } => {
                Some(Event::Connect { client: client.clone(), gateway: gateway.clone() })
            }
            Observation::Disconnected { client } => Some(Event::Disconnect { client: client.clone() }),
            Observation::Rejected { client, gateway: _, kind, epoch: _, resources, detail } => Some(Event::Rejected {
                client: client.clone(),
                resource_type: *kind,
                resources: resources.clone(),
                detail: detail.to_string(),
            }),
            Observation::Acked { .. } | Observation::Refuses { .. } => None,
        };
        self.board.lock().expect("nobody panics while holding the board").observe(observation, (self.clock)());
        if let Some(event) = event {
            // Only the recording wants it; an engine that has ended is reported by its own task.
            let _ended = self.engine.send(vec![event]).await;
        }
    }
}

/// How the derived status of one object changed.
struct Change {
    key: ObjectKey,
    old: Option<Arc<DerivedStatus>>,
    new: Option<Arc<DerivedStatus>>,
}

fn change(item: DiffItem<'_, '_, ObjectKey, Arc<DerivedStatus>>) -> Change {
    match item {
        DiffItem::Add(key, new) => Change { key: key.clone(), old: None, new: Some(Arc::clone(new)) },
        DiffItem::Update { old: (key, old), new: (_, new) } => {
            Change { key: key.clone(), old: Some(Arc::clone(old)), new: Some(Arc::clone(new)) }
        }
        DiffItem::Remove(key, old) => Change { key: key.clone(), old: Some(Arc::clone(old)), new: None },
    }
}

impl Change {
    /// Says when a Gateway begins or ceases to be programmed.
    fn log_programmed(&self) {
        let (old, new) =
            (self.old.as_deref().is_some_and(is_programmed), self.new.as_deref().is_some_and(is_programmed));
        if old != new {
            let message = if new { "programmed" } else { "no longer programmed" };
            tracing::info!(object = %self.key, "{message}");
        }
    }

    /// What there is to say now that was not said before.
    fn new_findings(&self) -> impl Iterator<Item = &Finding> {
        let known: BTreeSet<&Finding> = self.old.iter().flat_map(|status| &status.findings).collect();
        self.new.iter().flat_map(|status| &status.findings).filter(move |finding| !known.contains(finding))
    }
}

/// Whether it is the status of a Gateway that is programmed.
fn is_programmed(status: &DerivedStatus) -> bool {
    match &status.body {
        StatusBody::Gateway { conditions, .. } => conditions
            .iter()
            .any(|condition| condition.kind == ConditionType::Programmed && condition.status == ConditionStatus::True),
        StatusBody::Class(_)
        | StatusBody::ListenerSet { .. }
        | StatusBody::Route(_)
        | StatusBody::Policy(_)
        | StatusBody::None => false,
    }
}

/// Logs new findings, each once, a bounded number for each seal.
fn log_findings(changes: &[Change]) {
    let mut findings = changes.iter().flat_map(|change| change.new_findings().map(|finding| (&change.key, finding)));
    for (object, finding) in findings.by_ref().take(MAX_LOGGED_FINDINGS) {
        tracing::warn!(%object, reason = finding.reason.as_str(), "{finding}");
    }
    let more = findings.count();
    if more > 0 {
        tracing::warn!(more, "further findings: see /status");
    }
}

#[cfg(test)]
mod tests;
