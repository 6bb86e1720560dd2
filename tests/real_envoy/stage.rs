//! What stands around one scenario: its backends, an ADS server, and an Envoy for each Gateway that is asked.

use crate::place::Place;
use bytes::Bytes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::tls::{Client, Pair};
use testkit::{Echo, Identity, StreamEcho};
use tidegate_ads::{ClientStats, Clients};
use tidegate_envoy::{AdsAddress, Binary, Bootstrap, Options, Process};
use tidegate_log::Event;
use tidegate_model::{Kind, Locality, NamespacedName, ObjectKey};
use tidegate_scenarios::scenario::backends::SERVED_WITH;
use tidegate_scenarios::scenario::expect::{Answer, Request};
use tidegate_scenarios::scenario::{Certificate, Scenario};
use tidegate_vault::Vault;
use tidegate_xds::Sealed;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Longest wait for an Envoy to have what was published. Some milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(2);

/// How often an address is asked for that may still be taken, and how long apart.
const FREE_TRIES: usize = 100;
const FREE_WAIT: Duration = Duration::from_millis(50);

/// Everything that runs for one scenario; ends when dropped.
pub(crate) struct Stage {
    /// Where it stands.
    pub(crate) place: Place,
    /// The Gateways that are asked, in order; the first is the one that requests without a Gateway go to.
    pub(crate) gateways: Vec<NamespacedName>,
    envoys: BTreeMap<NamespacedName, Process>,
    seals: watch::Sender<Option<Arc<Sealed>>>,
    clients: Clients,
    vault: Vault,
    /// What the newest certificate of each Secret is.
    certificates: BTreeMap<ObjectKey, Certificate>,
    backends: Backends,
    _server: JoinSet<()>,
}

impl Stage {
    /// Starts it all for a scenario, with nothing published yet.
    pub(crate) async fn set(envoy: &Binary, scenario: &Scenario, sotw: bool, place: Place) -> Self {
        let gateways = gateways(scenario);
        let at = |gateway: &NamespacedName| scenario.settings.locality(gateway);
        let mut stage = Stage::bare(envoy, &scenario.name(), gateways, at, sotw, place).await;
        stage.backends = backends(scenario, place).await;
        stage
    }

    /// An ADS server with nothing published yet, an Envoy for each Gateway, which is where `at` says, and no backends.
    pub(crate) async fn bare(
        envoy: &Binary,
        name: &str,
        gateways: Vec<NamespacedName>,
        at: impl Fn(&NamespacedName) -> Locality,
        sotw: bool,
        place: Place,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let ads = listener.local_addr().expect("a bound listener has an address");
        let (seals, sealed) = watch::channel(None);
        let clients = Clients::default();
        // No grace: what is no longer used shall be gone when the next epoch is looked at.
        let vault = Vault::new();
        let config = tidegate_ads::Config {
            grace_ms: 0,
            drain_ms: 0,
            clients: clients.clone(),
            vault: vault.clone(),
            ..tidegate_ads::Config::default()
        };
        let mut server = JoinSet::new();
        server.spawn(async move {
            let began = Instant::now();
            let clock = Arc::new(move || u64::try_from(began.elapsed().as_millis()).expect("a test ends in time"));
            // Nobody takes the observations: what clients answered is read off their sessions.
            let (observe, _observations) = mpsc::channel(1);
            let served = tidegate_ads::serve(listener, sealed, observe, clock, config, std::future::pending());
            served.await.expect("loopback does not fail");
        });
        let mut envoys = BTreeMap::new();
        for gateway in &gateways {
            let ads = AdsAddress::Tcp { host: ads.ip().to_string(), port: ads.port() };
            let bootstrap = Bootstrap { sotw, locality: at(gateway), ..Bootstrap::new(gateway.clone(), ads) };
            let options = Options { drain_seconds: 1, log_level: "warning".to_owned(), ..Options::default() };
            let process = Process::start(envoy, &bootstrap.to_yaml(), &options).await;
            envoys.insert(gateway.clone(), process.unwrap_or_else(|error| panic!("{name}: {error}")));
        }
        let (certificates, backends) = (BTreeMap::new(), Backends::default());
        Stage { place, gateways, envoys, seals, clients, vault, certificates, backends, _server: server }
    }

    /// Keeps certificates, as a source does before it says a word of them.
    pub(crate) fn keep(&mut self, certificates: &[Certificate]) {
        for certificate in certificates {
            self.vault.hold(&certificate.secret, certificate.material.clone());
            self.certificates.insert(certificate.secret.clone(), certificate.clone());
        }
    }

    /// The newest certificate of a Secret, `namespace/name`.
    pub(crate) fn certificate(&self, secret: &str) -> Option<&Certificate> {
        let key = ObjectKey { kind: Kind::Secret, name: NamespacedName::parse(secret) };
        self.certificates.get(&key)
    }

    /// The certificate that an answer shall come with, in DER.
    pub(crate) fn shown(&self, expected: &Answer) -> Option<&Bytes> {
        let secret = expected.certificate.as_deref()?;
        let certificate = self.certificate(secret);
        Some(&certificate.unwrap_or_else(|| panic!("no certificate was made for {secret}")).der)
    }

    /// The client that makes a request.
    pub(crate) fn client(&self, request: &Request) -> Client {
        let pair = |secret: &String| {
            let certificate = self.certificate(secret).and_then(|certificate| certificate.pair.clone());
            certificate.unwrap_or_else(|| panic!("no certificate was made for {secret}"))
        };
        Client::new(request.client_certificate.as_ref().map(pair))
    }

    /// How many requests the backends of a Service, `namespace/name`, have seen.
    pub(crate) fn seen(&self, service: &str) -> u64 {
        let is_of = |identity: &Identity| format!("{}/{}", identity.namespace, identity.service) == service;
        self.backends.requests.iter().filter(|echo| is_of(echo.identity())).map(Echo::requests).sum()
    }

    /// Publishes a seal and waits until every Envoy has acknowledged all of it.
    pub(crate) async fn publish(&mut self, sealed: Arc<Sealed>) -> Result<(), String> {
        let epoch = sealed.epoch;
        self.seals.send_replace(Some(sealed));
        let until = Instant::now() + PATIENCE;
        loop {
            let clients = self.clients.snapshot();
            let is_there = |gateway: &NamespacedName| {
                let mut of_gateway = clients.iter().filter(|client| client.client.gateway == *gateway);
                of_gateway.any(|client| has_all(client, epoch))
            };
            if self.gateways.iter().all(is_there) {
                break;
            }
            if Instant::now() > until {
                let logs = self.logs();
                return Err(format!("not acknowledged in {PATIENCE:?}: {clients:#?}\n{logs}"));
            }
            tokio::time::sleep(POLL).await;
        }
        for envoy in self.envoys.values_mut() {
            envoy.wait_live(PATIENCE).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The ends of what the Envoys said.
    pub(crate) fn logs(&self) -> String {
        self.envoys.values().map(Process::log_tail).collect::<Vec<_>>().join("\n")
    }

    /// What the Envoys rejected since they started.
    pub(crate) async fn rejected(&self) -> Vec<String> {
        let mut rejected = Vec::new();
        for (gateway, envoy) in &self.envoys {
            let stats = envoy.admin().stats("update_rejected$").await.expect("a running envoy says its statistics");
            assert!(!stats.is_empty(), "envoy counts rejections under another name");
            let counted = stats.into_iter().filter(|(_, count)| *count > 0);
            rejected.extend(counted.map(|(name, count)| format!("the envoy of {gateway} says {name}: {count}")));
        }
        rejected
    }
}

/// Whether the client has accepted everything of the epoch.
fn has_all(client: &ClientStats, epoch: u64) -> bool {
    let session = &client.session;
    session.epoch == Some(epoch)
        && session.pinned == 0
        && session.leaving == 0
        && session.types.iter().all(|of_type| of_type.pending == 0 && of_type.behind == 0)
}

/// The Gateways that requests name; if one names none, the first Gateway of the input comes first.
fn gateways(scenario: &Scenario) -> Vec<NamespacedName> {
    let requests = || scenario.epochs.iter().flat_map(|epoch| &epoch.expect.requests);
    let named: BTreeSet<NamespacedName> =
        requests().filter_map(|request| request.gateway.as_deref()).map(NamespacedName::parse).collect();
    let first = scenario.changes().find_map(|event| match event {
        Event::Apply(object) if object.key.kind == Kind::Gateway => Some(object.key.name.clone()),
        _ => None,
    });
    let unnamed = requests().any(|request| request.gateway.is_none());
    let first = first.filter(|first| unnamed && !named.contains(first));
    first.into_iter().chain(named).collect()
}

/// What runs at the addresses of slices.
#[derive(Default)]
struct Backends {
    requests: Vec<Echo>,
    streams: Vec<StreamEcho>,
}

/// What a port of a slice says that is spoken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spoken {
    Http,
    /// `appProtocol: tcp`: lines.
    Lines,
    /// `appProtocol: tls`: lines over TLS.
    TlsLines,
    /// `protocol: UDP`.
    Datagrams,
}

impl Spoken {
    fn on(port: &Value) -> Spoken {
        match (port["protocol"].as_str(), port["appProtocol"].as_str()) {
            (Some("UDP"), _) => Spoken::Datagrams,
            (_, Some("tcp")) => Spoken::Lines,
            (_, Some("tls")) => Spoken::TlsLines,
            _ => Spoken::Http,
        }
    }
}

/// The first certificate of each Secret, by `namespace/name`: what backends have to the end.
fn pairs(scenario: &Scenario) -> BTreeMap<&str, &Pair> {
    let mut pairs = BTreeMap::new();
    for certificate in scenario.epochs.iter().flat_map(|epoch| &epoch.certificates) {
        if let Some(pair) = &certificate.pair {
            pairs.entry(certificate.secret.name.as_str()).or_insert(pair);
        }
    }
    pairs
}

/// A backend at every loopback address that a slice ever names, under that name.
async fn backends(scenario: &Scenario, place: Place) -> Backends {
    let mut identities: BTreeMap<(SocketAddr, Spoken), (Identity, Option<&Pair>)> = BTreeMap::new();
    let pairs = pairs(scenario);
    for event in scenario.changes() {
        let Event::Apply(object) = event else { continue };
        if object.key.kind != Kind::EndpointSlice {
            continue;
        }
        let service = object.body.pointer("/metadata/labels/kubernetes.io~1service-name");
        let service = service.and_then(|name| name.as_str()).unwrap_or_default();
        let served_with = object.body["metadata"]["annotations"][SERVED_WITH].as_str();
        let pair = served_with.map(|secret| pairs[secret]);
        let list = |pointer: &str| object.body.pointer(pointer).and_then(|list| list.as_array()).cloned();
        for endpoint in list("/endpoints").unwrap_or_default() {
            for spec in list("/ports").unwrap_or_default() {
                let ip = endpoint.pointer("/addresses/0").and_then(|a| a.as_str()).and_then(|a| a.parse().ok());
                let port = spec["port"].as_u64().and_then(|port| u16::try_from(port).ok());
                let (Some(ip), Some(port)) = (ip, port) else { continue };
                let address = SocketAddr::new(ip, port);
                if address.ip().is_loopback() {
                    let namespace = object.key.name.namespace();
                    let identity = || Identity::new(namespace, service, &address.to_string());
                    identities.entry((address, Spoken::on(&spec))).or_insert_with(|| (identity(), pair));
                }
            }
        }
    }
    let mut backends = Backends::default();
    for ((address, spoken), (identity, own)) in identities {
        let address = SocketAddr::new(place.moved(address.ip()), address.port());
        if spoken == Spoken::Http {
            let start = async || match own {
                Some(pair) => Echo::start_tls(address, identity.clone(), pair).await,
                None => Echo::start(address, identity.clone()).await,
            };
            let backend = once_free(start).await;
            backends.requests.push(backend.unwrap_or_else(|error| panic!("{}: {error}", scenario.name())));
            continue;
        }
        let made = Pair::new(&["backend.example"]);
        let pair = own.or((spoken == Spoken::TlsLines).then_some(&made));
        let start = async || match spoken {
            Spoken::Datagrams => StreamEcho::udp(address, identity.clone()).await,
            Spoken::Lines | Spoken::TlsLines | Spoken::Http => StreamEcho::tcp(address, identity.clone(), pair).await,
        };
        let backend = once_free(start).await;
        backends.streams.push(backend.unwrap_or_else(|error| panic!("{}: {address}: {error}", scenario.name())));
    }
    backends
}

/// Starts a backend, as soon as the one that was there in the scenario before has let go of its address: what is dropped
/// ends a little later.
async fn once_free<T, E>(start: impl AsyncFn() -> Result<T, E>) -> Result<T, E> {
    for _ in 0..FREE_TRIES {
        if let Ok(started) = start().await {
            return Ok(started);
        }
        tokio::time::sleep(FREE_WAIT).await;
    }
    start().await
}
