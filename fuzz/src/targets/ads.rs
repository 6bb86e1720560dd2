//! What clients send. Whatever it is: no crash, no loop, no more than a bounded answer; nonces that are new, names once and
//! in order, frames that decode to what was said. Clients that behave as Envoy does are never served wrong, at any
//! pace, and in the end hold what was sealed last.

use super::Seen;
use crate::choices::Choices;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use tidegate_ads::Remembered;
use tidegate_ads::messages::{encode, fill, from_delta, from_sotw};
use tidegate_ads::session::{Ask, Client, Close, Limits, Protocol, Reply, Request, Session, TypeUrl};
use tidegate_ads_client as client;
use tidegate_ads_client::{Envoy, Options, Rejection, Violation};
use tidegate_engine::{Applied, Config, Core};
use tidegate_model::{ClientId, Locality, Millis, Name, NamespacedName, ResourceType};
use tidegate_proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use tidegate_vault::Material;
use tidegate_workload::World;
use tidegate_xds::Sealed;

/// Seals of one history, and the Gateway that has most to serve.
struct History {
    seals: Vec<Arc<Sealed>>,
    gateway: NamespacedName,
}

fn histories() -> &'static [History] {
    static HISTORIES: OnceLock<Vec<History>> = OnceLock::new();
    HISTORIES.get_or_init(|| (0..4).map(history).collect())
}

/// A history in which some Gateway is served: that of the first seed from this one on that has one.
fn history(seed: u64) -> History {
    (seed..).find_map(history_of).expect("some world is served")
}

fn history_of(seed: u64) -> Option<History> {
    let mut core = Core::new(&Config::default());
    let mut world = World::new(seed);
    let mut batch = world.list();
    let mut seals = Vec::new();
    for millis in 0..24 {
        match core.apply(&batch, millis) {
            Applied::Sealed(sealed) => seals.push(sealed),
            Applied::Pending { .. } => unreachable!("every kind is synced by the first batch"),
        }
        batch = world.step();
    }
    let mut served: BTreeMap<NamespacedName, usize> = BTreeMap::new();
    for (gateway, view) in seals.iter().flat_map(|sealed| &sealed.gateways) {
        *served.entry(gateway.clone()).or_default() += view.members.len() + 1;
    }
    let most = served.into_iter().max_by_key(|(_, members)| *members).map(|(gateway, _)| gateway);
    most.map(|gateway| History { seals, gateway })
}

/// A session and what it owes whoever is at the other end.
struct Served<'h> {
    session: Session,
    protocol: Protocol,
    history: &'h History,
    limits: Limits,
    now: Millis,
    sealed: usize,
    nonces: BTreeSet<String>,
    issued: Vec<(TypeUrl, String)>,
    closed: bool,
    last: String,
}

impl<'h> Served<'h> {
    fn new(protocol: Protocol, history: &'h History, limits: Limits) -> Self {
        let id = ClientId { stream: 1, node: Name::from("envoy") };
        let client = Client { id, gateway: history.gateway.clone(), locality: Locality::default() };
        Served {
            session: Session::new(protocol, client, limits),
            protocol,
            history,
            limits,
            now: 1_000_000,
            sealed: 0,
            nonces: BTreeSet::new(),
            issued: Vec::new(),
            closed: false,
            last: String::new(),
        }
    }

    fn seal(&mut self, skip: usize, seen: &mut Seen) -> Vec<client::Response> {
        self.sealed = (self.sealed + skip).min(self.history.seals.len() - 1);
        let sealed = self.history.seals[self.sealed].clone();
        let replies = self.session.on_sealed(sealed, self.now);
        self.take(replies, seen)
    }

    fn request(&mut self, request: Request, seen: &mut Seen) -> Vec<client::Response> {
        let replies = self.session.on_request(request, self.now);
        self.take(replies, seen)
    }

    fn pass(&mut self, millis: Millis, seen: &mut Seen) -> Vec<client::Response> {
        self.now += millis;
        let replies = self.session.on_timer(self.now);
        self.take(replies, seen)
    }

    fn take(&mut self, replies: Vec<Reply>, seen: &mut Seen) -> Vec<client::Response> {
        let mut sent = Vec::new();
        assert!(replies.len() <= 64, "{} replies to one message", replies.len());
        for reply in replies {
            match reply {
                Reply::Send(response) => {
                    self.note(
                        &format!(
                            "{:?} {} -{}",
                            response.type_url,
                            response.resources.len().min(2),
                            response.removed.len().min(2)
                        ),
                        seen,
                    );
                    assert!(self.nonces.insert(response.nonce.clone()), "nonce {} comes twice", response.nonce);
                    let names: Vec<&Name> = response.resources.iter().map(|resource| &resource.name).collect();
                    assert!(names.is_sorted_by(|one, two| one < two), "not in order, or twice: {names:?}");
                    let gone = |name: &&Name| names.contains(name);
                    assert!(!response.removed.iter().any(|name| gone(&name)), "sent and removed: {response:?}");
                    assert!(self.protocol == Protocol::Delta || response.removed.is_empty(), "{response:?}");
                    self.issued.push((response.type_url.clone(), response.nonce.clone()));
                    sent.push(self.frame(&response));
                }
                Reply::Observe(observation) => {
                    let text = format!("{observation:?}");
                    self.note(text.split_whitespace().next().unwrap_or_default(), seen);
                }
                Reply::Remember(rejections) => {
                    let known = Remembered::default();
                    let client = self.session.client().clone();
                    known.put(&client, rejections.clone());
                    let other = Remembered::default();
                    other.restore(&known.to_json(), self.now).expect("what is written is read");
                    assert_eq!(*other.get(&client), rejections);
                }
                Reply::Close(Close::TooManyNames { names, limit, .. }) => {
                    assert!(names > limit && limit == self.limits.max_names);
                    self.note("close", seen);
                    self.closed = true;
                }
            }
        }
        if let Some(at) = self.session.deadline() {
            assert!(at > self.now, "the timer is due at once, again and again");
        }
        sent
    }

    /// Notes what was said together with what was said before it.
    fn note(&mut self, text: &str, seen: &mut Seen) {
        seen.note(&format!("{} {} > {text}", self.protocol, self.last));
        text.clone_into(&mut self.last);
    }

    /// The response, over the wire.
    fn frame(&self, response: &tidegate_ads::session::Response) -> client::Response {
        let material = |digest: &str| {
            let material = Material { digest: digest.into(), chain: digest.to_owned().into(), key: "key".into() };
            Some(Arc::new(material))
        };
        let (response, _none_missing) = fill(response.clone(), material);
        let frame = encode(self.protocol, &response).concat();
        let (prefix, message) = frame.split_at(5);
        assert_eq!((prefix[0], prefix[1..].to_vec()), (0, (message.len() as u32).to_be_bytes().to_vec()));
        let names = response.resources.len();
        match self.protocol {
            Protocol::Sotw => {
                let decoded = DiscoveryResponse::decode(message).expect("a frame decodes");
                assert_eq!((decoded.resources.len(), &decoded.nonce), (names, &response.nonce));
                client::Response::Sotw(decoded)
            }
            Protocol::Delta => {
                let decoded = DeltaDiscoveryResponse::decode(message).expect("a frame decodes");
                assert_eq!((decoded.resources.len(), &decoded.nonce), (names, &response.nonce));
                client::Response::Delta(decoded)
            }
        }
    }
}

fn protocol(choices: &mut Choices<'_>) -> Protocol {
    *choices.pick(&[Protocol::Sotw, Protocol::Delta])
}

/// Any messages: as protobuf in any bytes, or of fields that are each one of what could be there.
pub(super) fn messages(input: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut choices = Choices::new(input);
    let protocol = protocol(&mut choices);
    let limits = Limits {
        grace_ms: *choices.pick(&[5_000, 0]),
        max_inflight: *choices.pick(&[64, 1]),
        max_names: *choices.pick(&[1_000, 3]),
        ..Limits::default()
    };
    let histories = histories();
    let mut served = Served::new(protocol, choices.pick(histories), limits);
    for _ in 0..200 {
        if choices.is_over() || served.closed {
            break;
        }
        match choices.below(8) {
            0 => drop(served.seal(choices.below(3), &mut seen)),
            1 => {
                let millis = *choices.pick(&[1, 999, 1_000, 5_000, 60_000, 1 << 50]);
                // Clocks are set, but not to the end of the world.
                served.now = served.now.min(1 << 60);
                served.pass(millis, &mut seen);
            }
            2 => {
                let length = choices.below(200);
                let bytes: Vec<u8> = (0..length).map(|_| choices.byte()).collect();
                if let Some(request) = decoded(protocol, &bytes) {
                    served.request(request, &mut seen);
                }
            }
            3 => served.now = served.now.saturating_sub(10_000),
            _ => {
                let request = made_up(&served, &mut choices);
                served.request(request, &mut seen);
            }
        }
    }
    served.session.on_close();
    served.note(&format!("{:?}", served.session.stats().types.map(|kind| kind.subscribed)), &mut seen);
    seen
}

/// A request in any bytes, if they are one.
fn decoded(protocol: Protocol, bytes: &[u8]) -> Option<Request> {
    match protocol {
        Protocol::Sotw => DiscoveryRequest::decode(bytes).ok().map(|message| from_sotw(message).1),
        Protocol::Delta => DeltaDiscoveryRequest::decode(bytes).ok().map(|message| from_delta(message).1),
    }
}

/// A request that may say anything, by way of its message.
fn made_up(served: &Served<'_>, choices: &mut Choices<'_>) -> Request {
    let kind = *choices.pick(&[CDS, EDS, LDS, RDS]);
    let type_url = match choices.below(16) {
        15 => String::new(),
        14 => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret".to_owned(),
        13 => "nothing".to_owned(),
        _ => kind.url().to_owned(),
    };
    let latest = served.issued.iter().rev().filter(|(url, _)| url.as_str() == type_url);
    let nonce = match choices.below(8) {
        0..=3 => latest.map(|(_, nonce)| nonce.clone()).next().unwrap_or_default(),
        4 => latest.map(|(_, nonce)| nonce.clone()).nth(choices.below(4)).unwrap_or_default(),
        5 => choices.pick(&["0", "-1", "18446744073709551616", "x", "99999999"]).to_string(),
        6 => served.issued.last().map(|(_, nonce)| nonce.clone()).unwrap_or_default(),
        _ => String::new(),
    };
    let names = names(served, kind, choices);
    let error = choices.chance(20).then(|| error(&names, choices));
    let ask = match served.protocol {
        Protocol::Sotw => Ask::Sotw { version: choices.pick(&["", "1", "\u{0}"]).to_string(), names },
        Protocol::Delta => {
            let of = |names: Vec<String>| names.iter().map(Name::from).collect::<Vec<Name>>();
            let initial = self::names(served, kind, choices);
            Ask::Delta {
                subscribe: of(names),
                unsubscribe: of(self::names(served, kind, choices)),
                initial: initial.into_iter().map(|name| (Name::from(name), version(choices))).collect(),
            }
        }
    };
    Request { type_url: TypeUrl::new(&type_url), nonce, error, ask }
}

fn version(choices: &mut Choices<'_>) -> String {
    choices.pick(&["", "1", "00000000000000000000000000000000"]).to_string()
}

/// A rejection: of nobody, of some, or of much more than there is.
fn error(names: &[String], choices: &mut Choices<'_>) -> String {
    match choices.below(4) {
        0 => String::new(),
        1 => names.join(", "),
        2 => format!("{}.", "é".repeat(70_000)),
        _ => "Proto constraint validation failed (A.B: ): {\u{0}\n".to_owned(),
    }
}

/// Names that are there, that were, and that never were.
fn names(served: &Served<'_>, kind: ResourceType, choices: &mut Choices<'_>) -> Vec<String> {
    let there = served.history.seals[served.sealed].names(&served.history.gateway, kind);
    let mut names = Vec::new();
    for _ in 0..choices.below(6) {
        names.push(match choices.below(6) {
            0 => "*".to_owned(),
            1 => String::new(),
            2 => choices.pick(&["x", "\u{0}", "tidegate/invalid", "shop/a/80", "é"]).to_string(),
            3 => "n".repeat(10_000),
            _ if there.is_empty() => "nothing".to_owned(),
            _ => choices.pick(&there).to_string(),
        });
    }
    names
}

use ResourceType::{Cluster as CDS, Endpoints as EDS, Listener as LDS, Table as RDS};

/// A client that behaves as Envoy does, at any pace.
pub(super) fn clients(input: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut choices = Choices::new(input);
    let protocol = protocol(&mut choices);
    let (patient, rejects) = (choices.chance(50), choices.chance(25));
    let pin_ms = if patient { 100_000_000 } else { 1_000 };
    let limits =
        Limits { grace_ms: *choices.pick(&[5_000, 0]), pin_ms, drain_ms: 0, max_inflight: 64, max_names: 1_000 };
    let histories = histories();
    let mut peers = Peers::new(protocol, choices.pick(histories), limits);
    for _ in 0..200 {
        if choices.is_over() {
            break;
        }
        peers.act(&mut choices, rejects, &mut seen);
        peers.check(patient, rejects);
    }
    peers.finish(&mut seen);
    peers.check(patient, rejects);
    if !rejects {
        peers.check_held();
    }
    seen
}

/// A response in one line.
fn told(response: &client::Response) -> String {
    let url = response.type_url().rsplit('.').next().unwrap_or_default();
    let contents: Vec<String> = match response {
        client::Response::Sotw(response) => {
            response.resources.iter().map(|any| blake3::hash(&any.value).to_hex()[..6].to_owned()).collect()
        }
        client::Response::Delta(response) => response.resources.iter().map(|one| one.name.clone()).collect(),
    };
    let version = response.version();
    format!("{url} {} {contents:?} -{:?}", &version[..6.min(version.len())], response.removed())
}

/// A session, an Envoy and the two wires between them.
struct Peers<'h> {
    served: Served<'h>,
    envoy: Envoy,
    to_client: VecDeque<client::Response>,
    to_server: VecDeque<client::Request>,
    reconnected: bool,
    /// What was delivered, for people.
    trace: Vec<String>,
}

impl<'h> Peers<'h> {
    fn new(protocol: Protocol, history: &'h History, limits: Limits) -> Self {
        let spoken = match protocol {
            Protocol::Sotw => client::Protocol::Sotw,
            Protocol::Delta => client::Protocol::Delta,
        };
        let mut envoy = Envoy::new(Options::new(spoken, "envoy", history.gateway.as_str()));
        let to_server = envoy.connect().into();
        let served = Served::new(protocol, history, limits);
        Peers { served, envoy, to_client: VecDeque::new(), to_server, reconnected: false, trace: Vec::new() }
    }

    fn act(&mut self, choices: &mut Choices<'_>, rejects: bool, seen: &mut Seen) {
        match choices.below(16) {
            0..=3 => {
                let sent = self.served.seal(choices.below(3), seen);
                self.to_client.extend(sent);
            }
            4..=7 => (0..1 + choices.below(4)).for_each(|_| _ = self.deliver_request(seen)),
            8..=11 => (0..1 + choices.below(4)).for_each(|_| _ = self.deliver_response()),
            12 | 13 => {
                let sent = self.served.pass(1 + choices.below(1_500) as u64, seen);
                self.to_client.extend(sent);
            }
            14 if rejects => self.dislike(choices),
            14 => {}
            _ => self.reconnect(seen),
        }
    }

    fn deliver_request(&mut self, seen: &mut Seen) -> bool {
        let Some(request) = self.to_server.pop_front() else { return false };
        let (_, request) = match request {
            client::Request::Sotw(request) => from_sotw(request),
            client::Request::Delta(request) => from_delta(request),
        };
        let sent = self.served.request(request, seen);
        self.to_client.extend(sent);
        true
    }

    fn deliver_response(&mut self) -> bool {
        let Some(response) = self.to_client.pop_front() else { return false };
        self.trace.push(told(&response));
        let rejected = self.envoy.rejections();
        self.to_server.extend(self.envoy.receive(&response));
        if self.envoy.rejections() > rejected {
            self.trace.push("rejected".to_owned());
        }
        true
    }

    /// From now on the client rejects a resource, or nothing any more.
    fn dislike(&mut self, choices: &mut Choices<'_>) {
        let kind = *choices.pick(&[CDS, EDS, LDS, RDS]);
        let there = self.served.history.seals[self.served.sealed].names(&self.served.history.gateway, kind);
        let options = self.envoy.options();
        options.rejections.clear();
        if !there.is_empty() && choices.chance(70) {
            let (name, named) = (choices.pick(&there).to_string(), choices.chance(50));
            options.rejections.push(Rejection { kind, name, containing: None, named });
        }
    }

    fn reconnect(&mut self, seen: &mut Seen) {
        let (sealed, now) = (self.served.sealed, self.served.now);
        self.served.session.on_close();
        self.served = Served::new(self.served.protocol, self.served.history, self.served.limits);
        (self.served.sealed, self.served.now) = (sealed, now);
        self.to_client.clear();
        self.to_server = self.envoy.connect().into();
        self.reconnected = true;
        let sent = self.served.seal(0, seen);
        self.to_client.extend(sent);
    }

    /// Delivers everything, then lets what is due come.
    fn finish(&mut self, seen: &mut Seen) {
        self.envoy.options().rejections.clear();
        let sent = self.served.seal(1, seen);
        self.to_client.extend(sent);
        let end = self.served.now + 200_000_000;
        self.run(seen);
        for _ in 0..1_000 {
            let Some(at) = self.served.session.deadline().filter(|at| *at <= end) else { return };
            let sent = self.served.pass(at - self.served.now, seen);
            self.to_client.extend(sent);
            self.run(seen);
        }
        panic!("the timer never comes to rest");
    }

    fn run(&mut self, seen: &mut Seen) {
        for _ in 0..10_000 {
            if !self.deliver_request(seen) && !self.deliver_response() {
                return;
            }
        }
        panic!("session and client never come to rest");
    }

    fn check(&self, patient: bool, rejects: bool) {
        let bound_felt = !patient || self.served.session.stats().overdue_pins > 0;
        // What vanished while a client was away is not known in state of the world, nor what a client may have applied of
        // what it rejected.
        let may_be_felt = bound_felt || rejects || self.reconnected;
        let allowed = |violation: &&Violation| match violation {
            Violation::UnusableCluster { .. } | Violation::UnusableClusterOfListener { .. } => may_be_felt,
            Violation::Needless { .. } => rejects || self.reconnected,
            // Endpoints follow a cluster before it is known that the client rejects it.
            Violation::Unasked { .. } => rejects,
            Violation::VersionReused { .. }
            | Violation::Duplicate { .. }
            | Violation::Nonce { .. }
            | Violation::Unreadable { .. } => false,
        };
        let others: Vec<&Violation> = self.envoy.violations().iter().filter(|v| !allowed(v)).collect();
        assert!(others.is_empty(), "{}: {others:?}, after\n{}", self.served.protocol, self.trace.join("\n"));
    }

    /// The client holds what was sealed last, byte for byte.
    fn check_held(&self) {
        let sealed = &self.served.history.seals[self.served.sealed];
        let gateway = &self.served.history.gateway;
        for kind in ResourceType::ALL {
            let held = self.envoy.holds(kind);
            let names = sealed.names(gateway, kind);
            let wanted: BTreeMap<String, _> = names
                .iter()
                .filter_map(|name| Some((name.to_string(), sealed.resource(gateway, kind, name)?.bytes)))
                .collect();
            let names = |map: &BTreeMap<String, _>| map.keys().cloned().collect::<Vec<String>>();
            assert_eq!(names(&held), names(&wanted), "{} {}", self.served.protocol, kind.short());
            // In place of a secret's content a seal has a digest of it.
            assert!(
                kind == ResourceType::Secret || held == wanted,
                "{} {}: other content",
                self.served.protocol,
                kind.short()
            );
        }
    }
}
