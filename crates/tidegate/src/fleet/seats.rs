//! What runs: one seat for each Gateway, shared with whoever shows it.

use super::plan::{Socket, Verdict};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use tidegate_model::NamespacedName;

/// The place of a Gateway's Envoy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat {
    /// What it binds.
    pub(crate) sockets: BTreeSet<Socket>,
    pub(crate) state: State,
    /// Its admin interface and process id, while it runs.
    pub(crate) process: Option<(SocketAddr, Option<u32>)>,
    /// How often it was started.
    pub(crate) starts: u64,
}

/// How an Envoy is.
#[derive(Clone, Debug, Default)]
pub(crate) enum State {
    /// It is about to start.
    #[default]
    Starting,
    /// It has its first configuration.
    Live,
    /// It ended, or could not start, for this reason; it is started again.
    Failed(String),
    /// It finishes its requests and ends.
    Stopping,
    /// It must not run, for this reason.
    Hindered(String),
}

impl State {
    /// Its name, and why it is so.
    fn told(&self) -> (&'static str, Option<&str>) {
        match self {
            State::Starting => ("starting", None),
            State::Live => ("live", None),
            State::Failed(why) => ("failed", Some(why)),
            State::Stopping => ("stopping", None),
            State::Hindered(why) => ("hindered", Some(why)),
        }
    }
}

impl Seat {
    /// Nothing runs here; by the verdict it is about to, or must not.
    pub(crate) fn leave(&mut self, verdict: &Verdict) {
        self.process = None;
        self.state = match verdict {
            Verdict::Runs => State::Starting,
            Verdict::Loses { .. } | Verdict::NotHere(_) => State::Hindered(verdict.to_string()),
        };
    }
}

/// Every seat. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seats(Arc<Mutex<BTreeMap<NamespacedName, Seat>>>);

impl Seats {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, Seat>> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// Changes a seat, which is made if there is none.
    pub(crate) fn update(&self, gateway: &NamespacedName, change: impl FnOnce(&mut Seat)) {
        change(self.lock().entry(gateway.clone()).or_default());
    }

    /// Keeps the seats of those Gateways alone.
    pub(crate) fn retain(&self, keep: impl Fn(&NamespacedName) -> bool) {
        self.lock().retain(|gateway, _| keep(gateway));
    }

    /// What the Gateway's Envoy binds.
    pub(crate) fn sockets(&self, gateway: &NamespacedName) -> BTreeSet<Socket> {
        self.lock().get(gateway).map(|seat| seat.sockets.clone()).unwrap_or_default()
    }

    /// All of them, as `/clients` shows them.
    pub(crate) fn render(&self) -> Vec<Value> {
        let seat = |(gateway, seat): (&NamespacedName, &Seat)| {
            let (state, reason) = seat.state.told();
            json!({
                "gateway": gateway,
                "state": state,
                "reason": reason,
                "admin": seat.process.map(|(admin, _)| admin.to_string()),
                "pid": seat.process.and_then(|(_, id)| id),
                "listeners": seat.sockets.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "starts": seat.starts,
            })
        };
        self.lock().iter().map(seat).collect()
    }
}
