//! A session, an Envoy and the two wires between them as one value, and what may happen next.

use super::canonical;
use super::catalog::Catalog;
use super::envoy::{Envoy, Verdict, kind_of};
use super::judge::Judge;
use crate::session::{Client, Limits, Protocol, Rejections, Reply, Request, Response, Sequencing, Session};
use crate::tests::world::GATEWAY;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use tidegate_model::{ClientId, Locality, Millis, Name, NamespacedName, ResourceType};
use tidegate_xds::{Resource, Sealed};

/// Time of the beginning. Large, so that times can be told from other numbers in a text.
pub(super) const BEGINNING: Millis = 1_000_000_000;

/// What falls due later than this never does.
const ENDLESS: Millis = 1_000_000;

/// Types that Envoy processes in the order of the stream; the other types overtake each other. Endpoints that overtook
/// their cluster would be ignored, and accepted.
fn lane(kind: ResourceType) -> usize {
    match kind {
        ResourceType::Cluster | ResourceType::Endpoints => 0,
        ResourceType::Listener => 1,
        ResourceType::Table => 2,
        ResourceType::Secret => 3,
    }
}

const LANES: usize = 4;

/// Whether this rejects all clusters or listeners of a response and names none.
fn is_broken_rule(kind: ResourceType, verdict: Verdict) -> bool {
    matches!(kind, ResourceType::Cluster | ResourceType::Listener) && matches!(verdict, Verdict::Refused(_))
}

/// What stays the same during a run.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) protocol: Protocol,
    pub(super) limits: Limits,
    /// The script: the first is there when the client connects.
    pub(super) seals: Vec<Arc<Sealed>>,
    pub(super) catalog: Catalog,
    /// How many responses the client may reject that hold nothing which it rejected before.
    pub(super) rejections: u8,
    /// How often the stream may break.
    pub(super) reconnects: u8,
    /// How often a form may be sent again on one stream after a response that holds it was rejected: halving does.
    pub(super) max_tries: u32,
    /// Time may also stop short of what falls due.
    pub(super) halts: bool,
    /// The client may find a field rule broken in clusters or listeners. None ever is; where it happens more than once, what
    /// a complete response repeats can be lost: a limit that `docs/design/wire-model.md` names.
    pub(super) breaks_rules: bool,
    pub(super) sequencing: Sequencing,
    pub(super) gateway: NamespacedName,
}

impl Setup {
    pub(super) fn new(protocol: Protocol, limits: Limits, seals: Vec<Arc<Sealed>>) -> Self {
        let catalog = Catalog::of(&seals);
        let gateway = NamespacedName::parse(GATEWAY);
        let (rejections, reconnects, halts) = (0, 0, false);
        let (max_tries, breaks_rules, sequencing) = (2, true, Sequencing::default());
        Setup {
            protocol,
            limits,
            seals,
            catalog,
            rejections,
            reconnects,
            max_tries,
            halts,
            breaks_rules,
            sequencing,
            gateway,
        }
    }

    pub(super) fn names(&self, sealed: &Sealed, kind: ResourceType) -> Vec<Name> {
        sealed.names(&self.gateway, kind)
    }

    pub(super) fn resource(&self, sealed: &Sealed, kind: ResourceType, name: &Name) -> Option<Resource> {
        sealed.resource(&self.gateway, kind, name)
    }

    /// Whether a client holds this: tables and secrets only if a listener names them.
    pub(super) fn is_used(&self, sealed: &Sealed, kind: ResourceType, name: &Name) -> bool {
        let Some(view) = sealed.gateways.get(&self.gateway) else { return false };
        match kind {
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Listener => true,
            ResourceType::Secret => view.listeners.values().any(|listener| listener.secrets.contains(name)),
            ResourceType::Table => view.listeners.values().any(|listener| listener.tables.contains(name)),
        }
    }

    fn session(&self, stream: u64, known: &Rejections) -> Session {
        let id = ClientId { stream, node: Name::from("envoy") };
        let client = Client { id, gateway: self.gateway.clone(), locality: Locality::default() };
        Session::remembering(self.protocol, client, self.limits, known).with_sequencing(self.sequencing)
    }
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The client processes the first response of this lane.
    Process(u8, Verdict),
    /// The session takes the client's next request.
    Request,
    /// The session takes the next seal.
    Seal,
    /// Time passes until something falls due.
    Due,
    /// Time passes, almost until something falls due.
    Halt,
    /// The connections of replaced listeners are closed.
    Drained,
    /// The stream breaks; what is on its way is lost.
    Reconnect,
}

/// Where a run is.
#[derive(Clone)]
pub(super) struct State {
    session: Session,
    envoy: Envoy,
    to_client: VecDeque<Response>,
    to_server: VecDeque<Request>,
    judge: Judge,
    now: Millis,
    /// How many seals the session has.
    seals: usize,
    rejections: u8,
    reconnects: u8,
    overdue: u64,
    /// What outlives the stream.
    remembered: Rejections,
    /// When the connections of replaced listeners are closed at the latest, if there are any.
    drained_at: Option<Millis>,
}

/// All that decides what comes next.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The session comes on its own.
        let State {
            session: _,
            envoy,
            to_client,
            to_server,
            judge,
            now: _,
            seals,
            rejections,
            reconnects,
            overdue: _,
            remembered,
            drained_at,
        } = self;
        write!(f, "{envoy:?}{to_client:?}{to_server:?}{judge:?}{remembered:?}{drained_at:?}")?;
        write!(f, "{seals} {rejections} {reconnects}")
    }
}

impl State {
    /// A client that has just connected to a session that has the first seal.
    pub(super) fn cold(setup: &Setup) -> Self {
        let mut envoy = Envoy::new(setup.protocol);
        let to_server = envoy.connect(&BTreeSet::new()).into();
        let mut session = setup.session(1, &Rejections::default());
        assert!(session.on_sealed(setup.seals[0].clone(), BEGINNING).is_empty());
        State {
            session,
            envoy,
            to_client: VecDeque::new(),
            to_server,
            judge: Judge::default(),
            now: BEGINNING,
            seals: 1,
            rejections: setup.rejections,
            reconnects: setup.reconnects,
            overdue: 0,
            remembered: Rejections::default(),
            drained_at: None,
        }
    }

    /// A client that has all of the first seal.
    pub(super) fn running(setup: &Setup) -> Self {
        let mut state = State::cold(setup);
        state.finish(setup).unwrap();
        state
    }

    /// Lets everything come to rest, in the plainest order.
    pub(super) fn finish(&mut self, setup: &Setup) -> Result<(), String> {
        for _ in 0..100_000 {
            let events = self.events(setup);
            let plain = |event: &&Event| match event {
                Event::Process(_, verdict) => *verdict == Verdict::Good,
                Event::Request | Event::Due | Event::Drained => true,
                Event::Seal | Event::Halt | Event::Reconnect => false,
            };
            match events.iter().find(plain) {
                Some(event) => self.step(setup, *event)?,
                None if self.session.stats().types.iter().any(|kind| kind.pending > 0) => {
                    return Err("at rest, and a response is taken for one that has yet to be answered".to_owned());
                }
                None => return Ok(()),
            }
        }
        Err("never comes to rest".to_owned())
    }

    /// What may happen next.
    pub(super) fn events(&self, setup: &Setup) -> Vec<Event> {
        let mut events = Vec::new();
        for number in 0..LANES {
            let Some(response) = self.to_client.iter().find(|it| lane(kind_of(it)) == number) else { continue };
            let number = u8::try_from(number).unwrap();
            events.push(Event::Process(number, Verdict::Good));
            if self.rejections > 0 {
                let mut verdicts = self.envoy.verdicts(response, &setup.catalog);
                let kind = kind_of(response);
                verdicts.retain(|verdict| setup.breaks_rules || !is_broken_rule(kind, *verdict));
                events.extend(verdicts.into_iter().map(|verdict| Event::Process(number, verdict)));
            }
        }
        if !self.to_server.is_empty() {
            events.push(Event::Request);
        }
        if self.seals < setup.seals.len() {
            events.push(Event::Seal);
        }
        if let Some(at) = self.session.deadline().filter(|at| *at < self.now + ENDLESS) {
            events.push(Event::Due);
            if setup.halts && at > self.now + 1 {
                events.push(Event::Halt);
            }
        }
        if !self.envoy.draining.is_empty() {
            events.push(Event::Drained);
        }
        if self.reconnects > 0 {
            events.push(Event::Reconnect);
        }
        events
    }

    /// Makes it happen, and judges.
    pub(super) fn step(&mut self, setup: &Setup, event: Event) -> Result<(), String> {
        match event {
            Event::Process(number, verdict) => self.process(setup, usize::from(number), verdict)?,
            Event::Request => {
                let request = self.to_server.pop_front().ok_or("no request")?;
                self.judge.asked(&request, self.now);
                let replies = self.session.on_request(request, self.now);
                self.take(setup, replies)?;
            }
            Event::Seal => {
                let (old, new) = (&setup.seals[self.seals - 1], &setup.seals[self.seals]);
                self.seals += 1;
                self.judge.sealed(setup, old, new, self.now);
                let replies = self.session.on_sealed(new.clone(), self.now);
                self.take(setup, replies)?;
            }
            Event::Due => {
                self.now = self.session.deadline().ok_or("nothing falls due")?;
                self.drain_in_time();
                self.judge.waited(setup, self.now);
                let replies = self.session.on_timer(self.now);
                self.take(setup, replies)?;
            }
            Event::Halt => {
                self.now = self.session.deadline().ok_or("nothing falls due")? - 1;
                self.drain_in_time();
            }
            Event::Drained => self.drain(),
            Event::Reconnect => {
                self.reconnects -= 1;
                let asked = self.to_server.drain(..).filter_map(|it| ResourceType::of_url(it.type_url.as_str()));
                let lost: BTreeSet<ResourceType> =
                    self.to_client.drain(..).map(|it| kind_of(&it)).chain(asked).collect();
                self.to_server = self.envoy.connect(&lost).into();
                self.session = setup.session(2, &self.remembered);
                self.overdue = 0;
                self.judge.connected(setup, &self.envoy, self.to_server.len(), self.now);
                let replies = self.session.on_sealed(setup.seals[self.seals - 1].clone(), self.now);
                self.take(setup, replies)?;
            }
        }
        let sealed = &setup.seals[self.seals - 1];
        self.judge.check(setup, &self.envoy, sealed, (self.now, self.to_client.is_empty()))?;
        match (self.is_silent(), self.session.deadline()) {
            (true, None) => self.judge.check_rest(setup, &self.envoy, sealed),
            (true, Some(at)) if at >= self.now + ENDLESS && self.session.stats().pinned > 0 => {
                Err("both wait, and only the bound can help".to_owned())
            }
            (true, Some(_)) | (false, _) => Ok(()),
        }
    }

    /// The connections of replaced listeners are closed.
    fn drain(&mut self) {
        self.drained_at = None;
        self.to_server.extend(self.envoy.drained());
    }

    /// No connection drains longer than it may.
    fn drain_in_time(&mut self) {
        if self.drained_at.is_some_and(|at| at <= self.now) {
            self.drain();
        }
    }

    fn process(&mut self, setup: &Setup, number: usize, verdict: Verdict) -> Result<(), String> {
        let at = self.to_client.iter().position(|it| lane(kind_of(it)) == number);
        let response = at.and_then(|at| self.to_client.remove(at)).ok_or("no response")?;
        if verdict != Verdict::Good {
            self.rejections -= 1;
        }
        let drained = self.envoy.draining.len();
        let outcome = self.envoy.process(&response, verdict, &setup.catalog);
        if self.envoy.draining.len() > drained {
            self.drained_at.get_or_insert(self.now + setup.limits.drain_ms);
        }
        self.judge.processed(setup, &response, &outcome, self.now)?;
        self.to_server.extend(outcome.requests);
        Ok(())
    }

    /// Nothing is on its way and nothing falls due.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_silent() && self.session.deadline().is_none()
    }

    fn is_silent(&self) -> bool {
        self.to_client.is_empty() && self.to_server.is_empty() && self.envoy.draining.is_empty()
    }

    fn take(&mut self, setup: &Setup, replies: Vec<Reply>) -> Result<(), String> {
        let overdue = self.session.stats().overdue_pins;
        let late = overdue > self.overdue;
        self.overdue = overdue;
        for reply in replies {
            match reply {
                Reply::Send(response) => {
                    self.judge.sent(setup, &response, &self.envoy)?;
                    if late {
                        let (envoy, wire) = (&self.envoy, &self.to_client);
                        let clusters = wire.iter().any(|it| kind_of(it) == ResourceType::Cluster);
                        self.judge.sent_overdue(setup, &response, |name| !clusters && envoy.is_active(name));
                    }
                    self.to_client.push_back(response);
                }
                Reply::Observe(_) => {}
                Reply::Remember(rejections) => self.remembered = rejections,
                Reply::Close(close) => return Err(close.to_string()),
            }
        }
        Ok(())
    }

    /// A number that two states share if the same can happen from both; with the session's own text for it.
    pub(super) fn fingerprint(&self) -> u128 {
        canonical::fingerprint(&format!("{:?}", self.session), &format!("{self:?}"), self.now)
    }

    pub(super) fn now(&self) -> Millis {
        self.now
    }

    /// What is on its way to the client, and to the session.
    pub(super) fn wires(&self) -> (&VecDeque<Response>, &VecDeque<Request>) {
        (&self.to_client, &self.to_server)
    }
}
