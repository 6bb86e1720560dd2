//! A session and an Envoy with two wires between them, and a clock that is set by hand.

use super::world::{GATEWAY, World};
use crate::frame;
use crate::secrets;
use crate::service::{from_delta, from_sotw};
use crate::session::{Client, Limits, Protocol, Rejections, Reply, Session, SessionStats};
use prost::Message;
use std::collections::VecDeque;
use std::sync::Arc;
use tidegate_ads_client::{Envoy, Options, Protocol as Spoken, Request, Response};
use tidegate_model::{ClientId, Locality, Millis, Name, NamespacedName, Observation, ResourceType};
use tidegate_proto::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse};
use tidegate_vault::Material;
use tidegate_xds::{Sealed, encode};

pub(super) const BOTH: [Protocol; 2] = [Protocol::Sotw, Protocol::Delta];

pub(super) use ResourceType::{Cluster as CDS, Endpoints as EDS, Listener as LDS, Secret as SDS, Table as RDS};

/// One client and its stream.
pub(super) struct Harness {
    pub(super) envoy: Envoy,
    pub(super) session: Session,
    pub(super) now: Millis,
    pub(super) limits: Limits,
    /// What the session sent and the Envoy has not read.
    pub(super) to_client: VecDeque<Response>,
    /// What the Envoy sent and the session has not read.
    pub(super) to_server: VecDeque<Request>,
    pub(super) observations: Vec<Observation>,
    /// What is kept between streams.
    pub(super) rejections: Rejections,
    /// What was delivered to the Envoy since the last look: type, resources, removed.
    log: Vec<(ResourceType, Vec<String>, Vec<String>)>,
    protocol: Protocol,
    sealed: Option<Arc<Sealed>>,
    streams: u64,
}

fn session(protocol: Protocol, limits: Limits, stream: u64, locality: Locality, known: &Rejections) -> Session {
    let id = ClientId { stream, node: Name::from("envoy") };
    Session::remembering(protocol, Client { id, gateway: NamespacedName::parse(GATEWAY), locality }, limits, known)
}

impl Harness {
    /// A client that has just connected; nothing is delivered yet and nothing is sealed.
    pub(super) fn new(protocol: Protocol) -> Self {
        Harness::with(protocol, Limits::default())
    }

    pub(super) fn with(protocol: Protocol, limits: Limits) -> Self {
        Harness::at(protocol, limits, Locality::default())
    }

    /// A client that says that it runs there.
    pub(super) fn at(protocol: Protocol, limits: Limits, locality: Locality) -> Self {
        let spoken = match protocol {
            Protocol::Sotw => Spoken::Sotw,
            Protocol::Delta => Spoken::Delta,
        };
        let mut harness = Harness {
            envoy: Envoy::new(Options::new(spoken, "envoy", GATEWAY)),
            session: session(protocol, limits, 1, locality, &Rejections::default()),
            now: 1_000_000,
            limits,
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
            observations: Vec::new(),
            rejections: Rejections::default(),
            log: Vec::new(),
            protocol,
            sealed: None,
            streams: 1,
        };
        harness.to_server.extend(harness.envoy.connect());
        harness
    }

    /// A client that has everything the world has, with an empty log.
    pub(super) fn running(protocol: Protocol, world: &mut World) -> Self {
        Harness::running_with(protocol, Limits::default(), world)
    }

    pub(super) fn running_with(protocol: Protocol, limits: Limits, world: &mut World) -> Self {
        Harness::with(protocol, limits).start(world)
    }

    /// With everything the world has, and an empty log.
    pub(super) fn start(mut self, world: &mut World) -> Self {
        let harness = &mut self;
        harness.seal(world);
        harness.run();
        harness.assert_clean();
        assert!(harness.envoy.is_serving());
        harness.take_log();
        self
    }

    /// Ends the stream and opens another, maybe at another replica; the Envoy keeps what it holds. Nothing is delivered.
    pub(super) fn reconnect(&mut self, sealed: Option<Arc<Sealed>>) {
        self.streams += 1;
        let locality = self.session.client().locality.clone();
        self.session = session(self.protocol, self.limits, self.streams, locality, &self.rejections);
        let answers = self.to_client.drain(..).map(|response| ResourceType::of_url(response.type_url()));
        let lost: Vec<_> =
            answers.chain(self.to_server.drain(..).map(|it| ResourceType::of_url(it.type_url()))).collect();
        if self.protocol == Protocol::Sotw {
            // A limit of the protocol, named in `docs/design/wire-model.md`.
            lost.into_iter().flatten().for_each(|kind| self.envoy.forget_version(kind));
        }
        self.to_server.extend(self.envoy.connect());
        self.sealed = sealed;
        if let Some(sealed) = self.sealed.clone() {
            let replies = self.session.on_sealed(sealed, self.now);
            self.take(replies);
        }
    }

    /// The client ends, and another process of the same name connects.
    pub(super) fn restart_client(&mut self) {
        let mut options = self.envoy.options().clone();
        options.rejections.clear();
        self.envoy = Envoy::new(options);
        self.reconnect(self.sealed.clone());
    }

    /// Seals the world and plans for it; nothing is delivered.
    pub(super) fn seal(&mut self, world: &mut World) {
        self.plan(world.seal());
    }

    /// Plans for a seal that others get too; nothing is delivered.
    pub(super) fn plan(&mut self, sealed: Arc<Sealed>) {
        self.sealed = Some(sealed.clone());
        let replies = self.session.on_sealed(sealed, self.now);
        self.take(replies);
    }

    /// The client says that it runs elsewhere; nothing is delivered.
    pub(super) fn moves(&mut self, locality: Locality) {
        let replies = self.session.on_locality(locality, self.now);
        self.take(replies);
    }

    /// Delivers one request; false if there was none.
    pub(super) fn deliver_request(&mut self) -> bool {
        let Some(request) = self.to_server.pop_front() else { return false };
        let (_, request) = match request {
            Request::Sotw(request) => from_sotw(request),
            Request::Delta(request) => from_delta(request),
        };
        let replies = self.session.on_request(request, self.now);
        self.take(replies);
        true
    }

    /// Delivers one response; false if there was none.
    pub(super) fn deliver_response(&mut self) -> bool {
        let Some(response) = self.to_client.pop_front() else { return false };
        self.note(&response);
        self.to_server.extend(self.envoy.receive(&response));
        true
    }

    /// Delivers everything, time standing still.
    pub(super) fn run(&mut self) {
        for _ in 0..10_000 {
            if !self.deliver_request() && !self.deliver_response() {
                return;
            }
        }
        let last: Vec<String> = self.take_log().into_iter().rev().take(6).collect();
        panic!(
            "session and client never come to rest: {last:?} {:?} {:?}",
            self.observations.iter().rev().take(3).collect::<Vec<_>>(),
            self.stats().types[0]
        );
    }

    /// Lets time pass and does what falls due, in its order.
    pub(super) fn pass(&mut self, millis: Millis) {
        let end = self.now + millis;
        while let Some(at) = self.session.deadline().filter(|at| *at <= end) {
            self.now = at;
            let replies = self.session.on_timer(at);
            self.take(replies);
            self.run();
        }
        self.now = end;
    }

    /// Lets time pass without delivering anything.
    pub(super) fn pass_silently(&mut self, millis: Millis) {
        self.now += millis;
        let replies = self.session.on_timer(self.now);
        self.take(replies);
    }

    pub(super) fn stats(&self) -> SessionStats {
        self.session.stats()
    }

    /// What was delivered since the last look, as texts: `cds a b`, `cds -a` for removals.
    pub(super) fn take_log(&mut self) -> Vec<String> {
        let text = |(kind, names, removed): (ResourceType, Vec<String>, Vec<String>)| {
            let removed = removed.into_iter().map(|name| format!("-{name}"));
            let words = std::iter::once(kind.short().to_owned()).chain(names).chain(removed);
            words.collect::<Vec<_>>().join(" ")
        };
        std::mem::take(&mut self.log).into_iter().map(text).collect()
    }

    /// Nothing that the checkers look for has happened.
    pub(super) fn assert_clean(&self) {
        assert_eq!(self.envoy.violations(), [], "{}, after {:?}", self.protocol, self.log);
    }

    /// The Envoy holds exactly what was sealed last, byte for byte.
    pub(super) fn assert_current(&self) {
        let sealed = self.sealed.as_ref().unwrap();
        let gateway = NamespacedName::parse(GATEWAY);
        let locality = sealed.locality(&self.session.client().locality);
        for kind in ResourceType::ALL {
            let held = self.envoy.holds(kind);
            let names = sealed.names(&gateway, kind);
            let wanted = names.iter().map(|name| {
                let resource = sealed.resource_for(&gateway, kind, name, &locality).unwrap();
                let bytes = match kind {
                    SDS => material(&encode::secret_digest(&resource))
                        .map(|material| encode::secret(name, &material.chain, &material.key))
                        .unwrap(),
                    _ => resource.bytes,
                };
                (name.to_string(), bytes)
            });
            assert_eq!(held, wanted.collect(), "{} {}", self.protocol, kind.short());
        }
        assert_eq!(self.envoy.warming().len(), 0, "{}", self.protocol);
    }

    fn take(&mut self, replies: Vec<Reply>) {
        for reply in replies {
            match reply {
                Reply::Send(response) => {
                    let (response, missing) = secrets::fill(response, material);
                    assert_eq!(missing, [""; 0]);
                    let frame: Vec<u8> = frame::encode(self.protocol, &response).concat();
                    let (prefix, message) = frame.split_at(5);
                    assert_eq!(prefix[0], 0);
                    assert_eq!(u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize, message.len());
                    self.to_client.push_back(match self.protocol {
                        Protocol::Sotw => Response::Sotw(DiscoveryResponse::decode(message).unwrap()),
                        Protocol::Delta => Response::Delta(DeltaDiscoveryResponse::decode(message).unwrap()),
                    });
                }
                Reply::Observe(observation) => self.observations.push(observation),
                Reply::Remember(rejections) => self.rejections = rejections,
                Reply::Close(close) => panic!("closed: {close}"),
            }
        }
    }

    fn note(&mut self, response: &Response) {
        let Some(kind) = ResourceType::of_url(response.type_url()) else { return };
        let names = match response {
            Response::Sotw(response) => response.resources.iter().map(|any| name_of(kind, &any.value)).collect(),
            Response::Delta(response) => response.resources.iter().map(|resource| resource.name.clone()).collect(),
        };
        self.log.push((kind, names, response.removed().to_vec()));
    }
}

/// Material for every digest, made of it.
fn material(digest: &str) -> Option<Arc<Material>> {
    let part = |part: &str| format!("{part} of {digest}").into();
    Some(Arc::new(Material { digest: digest.into(), chain: part("chain"), key: part("key") }))
}

fn name_of(kind: ResourceType, bytes: &[u8]) -> String {
    use tidegate_proto::envoy::config::{cluster, endpoint, listener, route};
    match kind {
        CDS => cluster::v3::Cluster::decode(bytes).unwrap().name,
        EDS => endpoint::v3::ClusterLoadAssignment::decode(bytes).unwrap().cluster_name,
        LDS => listener::v3::Listener::decode(bytes).unwrap().name,
        SDS => tidegate_proto::envoy::extensions::transport_sockets::tls::v3::Secret::decode(bytes).unwrap().name,
        RDS => route::v3::RouteConfiguration::decode(bytes).unwrap().name,
    }
}
