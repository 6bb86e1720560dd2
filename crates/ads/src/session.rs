//! One client's stream as a state machine: requests, seals and time in, replies out. No I/O, no clock.
//!
//! What is kept is the client's difference from the seal it was last planned for ([`books`]); a new seal is compared
//! with that one, so that an epoch costs what it changed. A cluster goes out before what names it and is taken back
//! after it:
//!
//! * Clusters, then their endpoints, then listeners, then tables. A listener or table that names a cluster new to the
//!   client waits until the client accepted the endpoints that were sent after that cluster, at most
//!   [`Limits::pin_ms`], then goes out as it is. The form that waits is pinned: newer ones wait behind it.
//! * A cluster that is no longer wanted stays until the client accepted listeners and tables that do not name it, and
//!   then [`Limits::grace_ms`]. In the state-of-the-world protocol what is sent until then is the union.
//! * Secrets are sent when they are asked for, one a response, and again when they change. A cluster that names one warms
//!   until the client has it, so that what names the cluster waits for both.
//! * A cluster that changed is followed by its endpoints, changed or not: Envoy warms it anew.
//! * What a client rejects is found out ([`isolation`]) and not sent again until its content
//!   changes; everything else goes on. Until then the client is kept at what it accepted before.
//!
//! *Invariant*: equal content is never sent twice to a client that has it, except as the first answer on endpoints of
//! a stream and after a changed cluster.

mod books;
mod fold;
mod gate;
mod halving;
mod isolation;
mod message;
mod open;
mod rejection;
mod send;
mod subscription;
mod tables;
mod target;

pub use books::RejectedResource;
pub use isolation::Rejections;
pub use message::{Ask, Client, Close, Limits, Protocol, Reply, Request, Response, Rule, Sequencing, TypeUrl};
pub use tables::{EntryForm, RejectedEntry};

use books::{Books, Opened, Opening, Sent};
use gate::Gate;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use subscription::{Change, Subscription};
use tables::TableVerdict;
use target::Target;
use tidegate_model::{Epoch, Locality, Millis, Name, Observation, Refusal, ResourceType};
use tidegate_xds::Sealed;

/// One value for each resource type.
#[derive(Clone, Debug, Default)]
struct PerType<T>([T; ResourceType::ALL.len()]);

impl<T> Index<ResourceType> for PerType<T> {
    type Output = T;
    fn index(&self, kind: ResourceType) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<ResourceType> for PerType<T> {
    fn index_mut(&mut self, kind: ResourceType) -> &mut T {
        &mut self.0[kind as usize]
    }
}

/// One client's stream.
#[derive(Clone, Debug)]
pub struct Session {
    protocol: Protocol,
    client: Client,
    limits: Limits,
    sequencing: Sequencing,
    /// Time of the first request.
    started: Option<Millis>,
    /// Time of the last call.
    now: Millis,
    connected: bool,
    /// What the client shall hold, once there is a seal.
    target: Target,
    sealed: bool,
    books: PerType<Books>,
    /// Of listeners and tables; the other two name nothing.
    gates: PerType<Gate>,
    /// Clusters new to the client that are not proven usable: the nonce of their endpoints, if these were sent.
    waiting: BTreeMap<Name, Option<u64>>,
    /// Clusters that were sent and whose endpoints have yet to follow.
    owed: BTreeSet<Name>,
    /// Clusters that nothing names any more, and when they are taken back.
    due: BTreeMap<Name, Millis>,
    /// Clusters that a replaced listener named, and until when its connections may use them.
    draining: BTreeMap<Name, Millis>,
    /// The secrets that clusters name, of those that were sent on this stream: also once nobody wants the cluster any more.
    shows: BTreeMap<Name, Name>,
    /// When the connections have drained that a client which comes back may have from listeners replaced before.
    all_drained: Millis,
    /// What the client rejects of tables.
    verdicts: BTreeMap<Name, TableVerdict>,
    /// A trial has told something: tables are to be composed anew.
    recompose_after: bool,
    /// What was told of rejections last.
    told: Vec<Refusal>,
    /// What is known of rejections may have changed since it was told.
    untold: bool,
    /// And since it was given away to be remembered.
    unremembered: bool,
    /// What the client may be using has changed since `due` was looked at.
    uses_changed: bool,
    /// The client brings no clusters from an earlier stream, so that it uses none but what it got on this one.
    comes_empty: bool,
    /// The client brings listeners from an earlier stream.
    brings_listeners: bool,
    /// The client holds clusters that we cannot know before it names them in a request for endpoints; since when.
    cautious: Option<Millis>,
    next_nonce: u64,
    overdue_pins: u64,
}

/// Figures of a session, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// The newest seal that it knows; none before the first.
    pub epoch: Option<Epoch>,
    /// Where the client is by that seal.
    pub locality: Locality,
    /// Listeners and tables that were sent although clusters they name were not proven usable, so far.
    pub overdue_pins: u64,
    /// Listeners and tables that wait for clusters now.
    pub pinned: usize,
    /// Clusters that are kept although they are no longer wanted, now.
    pub leaving: usize,
    /// Figures of each type, in the order of [`ResourceType::ALL`].
    pub types: [TypeStats; ResourceType::ALL.len()],
}

/// Figures of one type of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeStats {
    /// Whether the client asked for the type.
    pub subscribed: bool,
    /// Version of the last response, empty if none.
    pub sent_version: String,
    /// Version of the last response that the client accepted, empty if none.
    pub acked_version: String,
    /// Responses without an answer.
    pub pending: usize,
    /// Resources in which the client differs from the newest seal.
    pub behind: usize,
    /// Resources that the client rejected and that are parked until their content changes.
    pub rejected: Vec<Name>,
    /// Responses that the client rejected on this stream.
    pub nacks: u64,
}

impl Session {
    /// A session with a client whose first request is yet to be handed in.
    #[must_use]
    pub fn new(protocol: Protocol, client: Client, limits: Limits) -> Self {
        Session::remembering(protocol, client, limits, &Rejections::default())
    }

    /// As [`Session::new`], with what the client is known to reject from earlier streams. It counts for the types of
    /// which the client brings something: who brings nothing is a new process, and everything is tried again.
    #[must_use]
    pub fn remembering(protocol: Protocol, client: Client, limits: Limits, known: &Rejections) -> Self {
        let mut session = Session::blank(protocol, client, limits);
        session.recall(known);
        session
    }

    fn blank(protocol: Protocol, client: Client, limits: Limits) -> Self {
        Session {
            protocol,
            client,
            limits,
            sequencing: Sequencing::default(),
            started: None,
            now: 0,
            connected: false,
            target: Target::default(),
            sealed: false,
            books: PerType::default(),
            gates: PerType::default(),
            waiting: BTreeMap::new(),
            owed: BTreeSet::new(),
            due: BTreeMap::new(),
            draining: BTreeMap::new(),
            shows: BTreeMap::new(),
            all_drained: 0,
            verdicts: BTreeMap::new(),
            recompose_after: false,
            told: Vec::new(),
            untold: false,
            unremembered: false,
            uses_changed: false,
            comes_empty: false,
            brings_listeners: false,
            cautious: None,
            next_nonce: 1,
            overdue_pins: 0,
        }
    }

    /// The same with another order of what is sent.
    #[must_use]
    pub fn with_sequencing(self, sequencing: Sequencing) -> Self {
        Session { sequencing, ..self }
    }

    /// The client at the other end.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Takes a request.
    pub fn on_request(&mut self, request: Request, now: Millis) -> Vec<Reply> {
        self.tick(now);
        self.started.get_or_insert(self.now);
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.connected, true) {
            out.push(Reply::Observe(Observation::Connected {
                client: self.client.id.clone(),
                gateway: self.client.gateway.clone(),
                delta: self.protocol == Protocol::Delta,
            }));
        }
        let kind = match &request.type_url {
            TypeUrl::Served(kind) => *kind,
            TypeUrl::Other(url) => {
                out.extend(self.answer_unserved(url.clone(), request));
                return out;
            }
        };
        self.take_answer(kind, &request.nonce, request.error, &mut out);
        self.take_subscription(kind, request.ask);
        let names = self.books[kind].subscription.names().len();
        if names > self.limits.max_names {
            let (client, limit) = (self.client.id.clone(), self.limits.max_names);
            out.push(Reply::Close(Close::TooManyNames { client, type_url: kind.url(), names, limit }));
            return out;
        }
        self.flush(&mut out);
        self.tell(&mut out);
        out
    }

    /// Takes a newer seal. Call it only when the transport has taken what was sent before: what a slow client misses
    /// between two calls is never made.
    pub fn on_sealed(&mut self, sealed: Arc<Sealed>, now: Millis) -> Vec<Reply> {
        self.tick(now);
        let mut out = Vec::new();
        let target = self.composed(&Target::new(sealed, &self.client));
        self.retarget(target);
        self.flush(&mut out);
        self.tell(&mut out);
        out
    }

    /// The client runs elsewhere than it said: from now on it gets what is for clients there.
    pub fn on_locality(&mut self, locality: Locality, now: Millis) -> Vec<Reply> {
        self.tick(now);
        self.client.locality = locality;
        let mut out = Vec::new();
        if self.sealed {
            self.retarget(self.target.elsewhere(&self.client));
            self.flush(&mut out);
            self.tell(&mut out);
        }
        out
    }

    /// Does what is due. Call it at [`Session::deadline`].
    pub fn on_timer(&mut self, now: Millis) -> Vec<Reply> {
        self.tick(now);
        let mut out = Vec::new();
        self.flush(&mut out);
        out
    }

    /// The stream has ended.
    pub fn on_close(&mut self) -> Vec<Reply> {
        let connected = std::mem::replace(&mut self.connected, false);
        let client = self.client.id.clone();
        if connected { vec![Reply::Observe(Observation::Disconnected { client })] } else { Vec::new() }
    }

    /// When [`Session::on_timer`] has something to do, if nothing else happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        let pins = self.gates.0.iter().flat_map(|gate| gate.pins.values()).map(|pin| pin.deadline);
        let settled = (self.uses_changed || self.listeners_wait()).then(|| self.settled_at());
        let cautious = self.cautious.map(|since| since + self.limits.pin_ms);
        pins.chain(self.due.values().copied()).chain(settled).chain(cautious).filter(|at| *at > self.now).min()
    }

    /// Figures for people.
    #[must_use]
    pub fn stats(&self) -> SessionStats {
        let figures = |kind: ResourceType| {
            let books = &self.books[kind];
            TypeStats {
                subscribed: books.opened != Opened::No,
                sent_version: books.sent_version.clone(),
                acked_version: books.acked_version.clone(),
                pending: books.inflight.len(),
                behind: books.behind.len(),
                rejected: self.rejected_names(kind),
                nacks: books.nacks,
            }
        };
        SessionStats {
            epoch: self.sealed.then(|| self.target.epoch()),
            locality: self.target.locality().clone(),
            overdue_pins: self.overdue_pins,
            pinned: self.pinned(),
            leaving: self.leaving().count(),
            types: ResourceType::ALL.map(figures),
        }
    }

    fn pinned(&self) -> usize {
        self.gates.0.iter().map(|gate| gate.pins.len()).sum()
    }

    fn tick(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// When a client that reconnects has asked for all that it holds.
    fn settled_at(&self) -> Millis {
        self.started.unwrap_or(self.now) + self.limits.pin_ms
    }

    /// A type that is not served has no resources. Only a question is answered, so that no loop can arise.
    fn answer_unserved(&mut self, url: Name, request: Request) -> Option<Reply> {
        let (question, removed) = match request.ask {
            Ask::Sotw { .. } => (request.nonce.is_empty(), BTreeSet::new()),
            Ask::Delta { subscribe, .. } => {
                let names: BTreeSet<Name> = subscribe.into_iter().filter(|name| *name != "*").collect();
                (request.nonce.is_empty() || !names.is_empty(), names)
            }
        };
        // Envoy answers a push of a type that it never asked for with an empty URL.
        if url.is_empty() || !question {
            return None;
        }
        Some(Reply::Send(Response {
            type_url: TypeUrl::Other(url),
            nonce: self.nonce().to_string(),
            version: fold::Fold::default().to_string(),
            resources: Vec::new(),
            removed: removed.into_iter().collect(),
        }))
    }

    fn nonce(&mut self) -> u64 {
        let nonce = self.next_nonce;
        self.next_nonce += 1;
        nonce
    }

    /// Takes the acceptance or rejection in a request. A stale nonce says nothing.
    fn take_answer(&mut self, kind: ResourceType, nonce: &str, error: Option<String>, out: &mut Vec<Reply>) {
        let Ok(nonce) = nonce.parse::<u64>() else { return };
        let mut answered = self.books[kind].answered(nonce);
        let Some(mut last) = answered.pop() else { return };
        if error.is_some() && self.is_whole(kind) {
            // While a cluster warms only the last response is answered, and it holds whatever the earlier ones brought:
            // who is to blame may have come with any of them.
            answered.into_iter().rev().for_each(|earlier| last.absorb(earlier));
        } else {
            // Requests come in the order in which responses were processed: who answers this one has accepted the earlier.
            answered.iter().for_each(|sent| self.accept(kind, sent));
        }
        match error {
            None => {
                let (client, epoch) = (self.client.id.clone(), last.epoch);
                out.push(Reply::Observe(Observation::Acked { client, kind, epoch }));
                self.accept(kind, &last);
            }
            Some(detail) => out.push(Reply::Observe(self.reject(kind, last, &detail))),
        }
    }

    /// Whether each response of this type holds everything.
    fn is_whole(&self, kind: ResourceType) -> bool {
        self.protocol == Protocol::Sotw && matches!(kind, ResourceType::Cluster | ResourceType::Listener)
    }

    fn accept(&mut self, kind: ResourceType, sent: &Sent) {
        self.accept_trial(kind, sent);
        let books = &mut self.books[kind];
        books.acked_version.clone_from(&sent.version);
        books.holds_unlisted = false;
        match kind {
            ResourceType::Cluster | ResourceType::Secret => {}
            ResourceType::Endpoints => {
                self.waiting.retain(|_, endpoints| endpoints.is_none_or(|nonce| nonce > sent.nonce));
            }
            ResourceType::Listener => {
                let drained = self.now + self.limits.drain_ms;
                for cluster in self.gates[kind].accept(sent.nonce) {
                    self.draining.insert(cluster, drained);
                }
                self.uses_changed = true;
            }
            ResourceType::Table => {
                self.gates[kind].accept(sent.nonce);
                self.uses_changed = true;
            }
        }
    }

    fn take_subscription(&mut self, kind: ResourceType, ask: Ask) {
        let first = !self.books[kind].subscription.seen();
        let target = &self.target;
        let share = |name: Name| target.get(kind, &name).map_or(name, |resource| resource.name.clone());
        let subscription = &mut self.books[kind].subscription;
        let (change, opening) = match ask {
            Ask::Sotw { version, names } => {
                (subscription.replace(kind, &names, share), Opening { version, ..Opening::default() })
            }
            Ask::Delta { subscribe, unsubscribe, initial } => {
                (subscription.update(kind, subscribe, unsubscribe, share), Opening { initial, ..Opening::default() })
            }
        };
        match &self.books[kind].opened {
            Opened::No => {
                self.imply_clusters(kind, &opening);
                self.books[kind].opened = Opened::Asked(opening);
                self.open(kind);
            }
            Opened::Asked(_) => {}
            Opened::Yes => {
                if first {
                    self.learn_listed(kind, &opening);
                }
                self.apply(kind, change);
                if self.protocol == Protocol::Sotw && self.books[kind].subscription.asks_for_nothing() {
                    self.books[kind].forget_unanswered();
                }
            }
        }
    }

    /// A client that warms a cluster sends no request for clusters, also after a reconnect: its first request is one for
    /// endpoints. It is served clusters all the same, or a cluster that can never warm could never be replaced.
    fn imply_clusters(&mut self, kind: ResourceType, opening: &Opening) {
        let clusters = &mut self.books[ResourceType::Cluster];
        if clusters.opened != Opened::No {
            return;
        }
        let implied = match kind {
            ResourceType::Cluster => false,
            ResourceType::Endpoints => true,
            ResourceType::Listener | ResourceType::Secret | ResourceType::Table => opening.is_warm(),
        };
        if implied {
            clusters.subscription = Subscription::implied();
            clusters.opened = Opened::Asked(Opening { implied: true, ..Opening::default() });
            self.open(ResourceType::Cluster);
        }
    }
}
