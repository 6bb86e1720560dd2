//! Who is connected, and how far.

use crate::session::{Client, Protocol, SessionStats};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_model::{Epoch, Millis};

/// One connected client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientStats {
    /// Who, and the Gateway whose configuration it gets.
    pub client: Client,
    /// Which form of the protocol it speaks.
    pub protocol: Protocol,
    /// When its stream sent the first request, in milliseconds since the Unix epoch.
    pub since: Millis,
    /// When the batch of the newest seal that it knows was taken, in milliseconds since the Unix epoch; 0 before the
    /// first.
    pub seal_millis: Millis,
    /// How far it is.
    pub session: SessionStats,
}

/// How a client is doing, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientState {
    /// It accepted all of the newest seal.
    Current,
    /// It has yet to get or to answer something.
    Behind,
    /// A listener or table waits for clusters that are not proven usable at this client.
    Waiting,
    /// It rejected something that it should have.
    Rejecting,
}

impl ClientState {
    /// All of them.
    pub const ALL: [ClientState; 4] =
        [ClientState::Current, ClientState::Behind, ClientState::Waiting, ClientState::Rejecting];

    /// The word for it, as labels have it.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            ClientState::Current => "current",
            ClientState::Behind => "behind",
            ClientState::Waiting => "waiting",
            ClientState::Rejecting => "rejecting",
        }
    }
}

impl ClientStats {
    /// How the client is doing, if the newest seal is of this epoch: the worst that holds.
    #[must_use]
    pub fn state(&self, newest: Option<Epoch>) -> ClientState {
        let types = &self.session.types;
        if types.iter().any(|figures| !figures.rejected.is_empty()) {
            ClientState::Rejecting
        } else if self.session.pinned > 0 {
            ClientState::Waiting
        } else if self.session.epoch < newest || types.iter().any(|figures| figures.pending > 0) {
            ClientState::Behind
        } else {
            ClientState::Current
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::{ClientId, Locality, Name, NamespacedName};

    fn stats(change: impl FnOnce(&mut SessionStats)) -> ClientStats {
        let id = ClientId { stream: 1, node: Name::from("envoy-0") };
        let client = Client { id, gateway: NamespacedName::new("shop", "public"), locality: Locality::default() };
        let mut session = SessionStats { epoch: Some(7), ..SessionStats::default() };
        change(&mut session);
        ClientStats { client, protocol: Protocol::Delta, since: 0, seal_millis: 0, session }
    }

    #[test]
    fn the_state_of_a_client_is_the_worst_that_holds() {
        assert_eq!(stats(|_| ()).state(Some(7)), ClientState::Current);
        assert_eq!(stats(|_| ()).state(Some(8)), ClientState::Behind);
        assert_eq!(stats(|session| session.epoch = None).state(None), ClientState::Current, "there is nothing yet");
        assert_eq!(stats(|session| session.types[0].pending = 1).state(Some(7)), ClientState::Behind);
        assert_eq!(stats(|session| session.pinned = 1).state(Some(8)), ClientState::Waiting);
        let rejecting = stats(|session| {
            session.pinned = 1;
            session.types[4].rejected.push(Name::from("http"));
        });
        assert_eq!(rejecting.state(Some(7)), ClientState::Rejecting);
    }
}
