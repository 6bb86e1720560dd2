//! What the admin port sees: values taken from the engine's state, the board, the source and the ADS server.

use super::{AppConfig, wire};
use crate::clock::Clock;
use crate::fleet::seats::Seats;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use tidegate_admin::{BuildInfo, Counters, Readiness, Unreadable, View};
use tidegate_ads::ClientStats;
use tidegate_engine::{EngineHandle, Profiler, Recording};
use tidegate_model::{Epoch, Kind, ObjectKey, ResourceType};
use tidegate_profile::{Drawing, page};
use tidegate_sources::{Problem, Provenance};
use tidegate_status::Board;
use tidegate_xds::Sealed;
use tokio::sync::watch;

/// Reads everything, changes nothing.
pub(crate) struct AppView {
    pub(crate) config: AppConfig,
    pub(crate) clock: Clock,
    pub(crate) engine: EngineHandle,
    pub(crate) board: Arc<Mutex<Board>>,
    pub(crate) problems: watch::Receiver<Arc<[Problem]>>,
    pub(crate) provenance: Provenance,
    pub(crate) ads: tidegate_ads::Config,
    /// The Envoys that run here, if that is our business.
    pub(crate) seats: Option<Seats>,
    /// What operators do, if that is logged.
    pub(crate) profiler: Option<Profiler>,
}

impl View for AppView {
    fn readiness(&self) -> Readiness {
        let state = self.engine.state().borrow().clone();
        let unreadable =
            state.unreadable.iter().map(|(kind, reason)| Unreadable { kind: kind.to_string(), reason: reason.clone() });
        let directory = self.config.manifests.display();
        let missing = state.missing.iter().map(|kind| format!("{kind}: the list from {directory} is not complete"));
        let degraded = match &state.recording {
            Recording::Off | Recording::On => None,
            Recording::Stopped(reason) => Some(format!("the recording stopped: {reason}")),
        };
        Readiness {
            missing: missing.collect(),
            unreadable: unreadable.collect(),
            degraded: degraded.into_iter().collect(),
        }
    }

    fn sealed(&self) -> Option<Arc<Sealed>> {
        self.engine.sealed().borrow().clone()
    }

    fn objects(&self) -> Vec<Value> {
        let board = self.board.lock().expect("nobody panics while holding the board");
        objects(&board, &self.provenance, &self.config.controller)
    }

    fn problems(&self) -> Vec<Value> {
        self.problems.borrow().iter().map(|problem| json!(problem)).collect()
    }

    fn clients(&self) -> Vec<Value> {
        let newest = self.ads.metrics.newest.get().map(|(epoch, _)| epoch);
        self.ads.clients.snapshot().iter().map(|stats| client(stats, newest)).collect()
    }

    fn proxies(&self) -> Option<Vec<Value>> {
        self.seats.as_ref().map(Seats::render)
    }

    fn dataflow(&self) -> Option<Value> {
        self.profiler.as_ref().map(|profiler| json!({ "dataflow": Drawing::both(profiler) }))
    }

    fn dataflow_page(&self) -> Option<String> {
        let about = || {
            let state = self.engine.state().borrow().clone();
            let epoch = state.epoch.map_or("nothing sealed yet".to_owned(), |epoch| format!("epoch {epoch}"));
            format!("{epoch}, {} objects, {} facts", state.objects, state.facts)
        };
        self.profiler.as_ref().map(|profiler| page::dataflow(&about(), &Drawing::both(profiler)))
    }

    fn counters(&self) -> Counters {
        let state = self.engine.state().borrow().clone();
        let now_ms = (self.clock)();
        Counters {
            now_ms,
            seals: state.epoch.map_or(0, |epoch| epoch + 1),
            events: state.events,
            facts: state.facts as u64,
            violations: state.violations as u64,
            manifest_problems: self.problems.borrow().len() as u64,
            frontier_lag_ms: self.engine.in_progress().map_or(0, |taken| now_ms.saturating_sub(taken)),
            queued_batches: self.engine.queued() as u64,
            wire: wire::figures(&self.ads),
        }
    }

    fn build(&self) -> BuildInfo {
        BuildInfo {
            version: env!("CARGO_PKG_VERSION"),
            controller: self.config.controller.clone(),
            workers: self.config.workers,
        }
    }
}

/// Every object that has a status or findings, and where it stands.
pub(crate) fn objects(board: &Board, provenance: &Provenance, controller: &str) -> Vec<Value> {
    let Value::Array(mut objects) = board.render(controller) else { unreachable!("the board is rendered as a list") };
    for object in &mut objects {
        if let Some(place) = key_of(object).and_then(|key| provenance.get(&key)) {
            object["source"] = json!({ "path": place.path, "line": place.line });
        }
    }
    objects
}

/// One client, as `/clients` shows it.
fn client(stats: &ClientStats, newest: Option<Epoch>) -> Value {
    let types: Map<String, Value> = ResourceType::ALL
        .into_iter()
        .zip(&stats.session.types)
        .map(|(kind, of)| {
            let shown = json!({
                "subscribed": of.subscribed,
                "sent": of.sent_version,
                "accepted": of.acked_version,
                "pending": of.pending,
                "behind": of.behind,
                "rejected": of.rejected,
                "nacks": of.nacks,
            });
            (kind.short().to_owned(), shown)
        })
        .collect();
    json!({
        "stream": stats.client.id.stream,
        "node": stats.client.id.node,
        "gateway": stats.client.gateway,
        "locality": stats.session.locality.to_string(),
        "protocol": wire::short(stats.protocol),
        "state": stats.state(newest).short(),
        "sinceMillis": stats.since,
        "waiting": stats.session.pinned,
        "leaving": stats.session.leaving,
        "overdue": stats.session.overdue_pins,
        "types": types,
    })
}

/// The key of a rendered object.
pub(crate) fn key_of(object: &Value) -> Option<ObjectKey> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let kind = Kind::of(text("/apiVersion")?, text("/kind")?)?;
    Some(ObjectKey::new(kind, text("/metadata/namespace").unwrap_or_default(), text("/metadata/name")?))
}
