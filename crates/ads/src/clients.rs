//! Who is connected, and how far.

use crate::session::{Client, Protocol, SessionStats};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_model::Millis;

/// One connected client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientStats {
    /// Who, and the Gateway whose configuration it gets.
    pub client: Client,
    /// Which form of the protocol it speaks.
    pub protocol: Protocol,
    /// When its stream sent the first request, in milliseconds since the Unix epoch.
    pub since: Millis,
    /// How far it is.
    pub session: SessionStats,
}

/// The connected clients. Clones share the same list.
#[derive(Clone, Debug, Default)]
pub struct Clients(Arc<Mutex<BTreeMap<u64, Arc<ClientStats>>>>);

impl Clients {
    /// Everybody who is connected now, in the order of their streams.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Arc<ClientStats>> {
        self.lock().values().cloned().collect()
    }

    pub(crate) fn put(&self, stats: ClientStats) {
        self.lock().insert(stats.client.id.stream, Arc::new(stats));
    }

    pub(crate) fn remove(&self, stream: u64) {
        self.lock().remove(&stream);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<ClientStats>>> {
        // Every change is one call on the map: a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
