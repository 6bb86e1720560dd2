//! What an Envoy rejects is kept from it alone, among a thousand that are good. Translation makes nothing that an Envoy
//! rejects, as far as is known, so the seals here are made by hand.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::ONE_AT_A_TIME;
use bytes::Bytes;
use prost::Message;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::http::Call;
use testkit::{Echo, Identity, ports};
use tidegate_ads::Metrics;
use tidegate_envoy::{AdsAddress, Binary, Bootstrap, Options, Process};
use tidegate_model::{
    HeaderModifier, Hostname, HttpMatch, ListenerKey, Name, NamespacedName, Observation, PathMatch, Refusal,
    ResourceType, Transport, Upstream,
};
use tidegate_proto::envoy::config::cluster::v3::Cluster;
use tidegate_proto::envoy::config::core::v3::address::Address;
use tidegate_proto::envoy::config::core::v3::socket_address::PortSpecifier;
use tidegate_proto::envoy::config::endpoint::v3::ClusterLoadAssignment;
use tidegate_proto::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use tidegate_xds::row::EncodedEntry;
use tidegate_xds::{Resource, Row, Sealed, Store, Variants, encode, ir};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(30);

/// How many hosts, each with an entry and a cluster of its own.
const HOSTS: usize = 1_000;

/// The one that is bad.
const BAD: usize = 617;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// An expression that is none: the rejection of the table does not say where.
    Expression,
    /// A cluster that breaks a field rule: the whole response is rejected.
    Cluster,
    /// An endpoint that breaks a field rule.
    Endpoint,
}

fn gateway() -> NamespacedName {
    NamespacedName::new("shop", "edge")
}

fn host(number: usize) -> String {
    format!("h{number}.example")
}

/// A Gateway whose `number`th host answers for the path, from the backend.
fn rows(port: u16, backend: SocketAddr, path: &str, wrong: Wrong) -> BTreeSet<Row> {
    let (gateway, table) = (gateway(), Name::from("http"));
    let chain = ir::Chain {
        hostname: Hostname::any(),
        to: ir::Way::Requests(table.clone()),
        certificates: Vec::new(),
        clients: None,
        listeners: vec![ListenerKey::of_gateway(&gateway, "web")],
    };
    let (addresses, family) = (vec!["127.0.0.1".into()], ir::Family::Http);
    let listener = ir::Listener { name: "web".into(), addresses, port, family, chains: vec![chain] };
    let mut rows = BTreeSet::from([
        Row::Gateway(gateway.clone()),
        Row::Listener(gateway.clone(), Arc::new(encode::listener(&listener))),
        Row::Table(gateway.clone(), table.clone()),
    ]);
    for number in 0..HOSTS {
        let wrong = if number == BAD { wrong } else { Wrong::Nothing };
        let name = Name::from(format!("c{number}"));
        let hostname = Hostname::new(&host(number));
        let content = encode::virtual_host(&hostname, vec![entry(number, &name, path, wrong)]);
        rows.insert(Row::VirtualHost(gateway.clone(), table.clone(), hostname, Arc::new(content)));
        rows.insert(Row::Member(gateway.clone(), name.clone()));
        rows.insert(Row::Cluster(name.clone(), Variants::any(cluster(&name, wrong))));
        rows.insert(Row::Endpoints(name.clone(), Variants::any(endpoints(&name, backend, wrong))));
    }
    rows
}

fn entry(number: usize, cluster: &Name, path: &str, wrong: Wrong) -> EncodedEntry {
    let path = match wrong {
        Wrong::Expression => PathMatch::Regex("/(".into()),
        Wrong::Nothing | Wrong::Cluster | Wrong::Endpoint => PathMatch::Prefix(path.into()),
    };
    let target = ir::Target {
        cluster: cluster.clone(),
        weight: 1,
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    };
    encode::entry(&ir::Entry {
        id: format!("HTTPRoute shop/r{number} rule 0 match 0").into(),
        matcher: HttpMatch { path, headers: Vec::new(), query: Vec::new(), method: None },
        action: ir::Action::Forward(ir::Forward { targets: vec![target], ..ir::Forward::default() }),
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    })
}

fn cluster(name: &Name, wrong: Wrong) -> Resource {
    let good = encode::cluster(&ir::Cluster {
        name: name.clone(),
        transport: Transport::Tcp,
        upstream: Upstream::Http1,
        tls: None,
    });
    if wrong != Wrong::Cluster {
        return good;
    }
    let mut message = Cluster::decode(good.bytes).unwrap();
    message.connect_timeout.as_mut().unwrap().seconds = 0;
    message.connect_timeout.as_mut().unwrap().nanos = 0;
    Resource::new(name.clone(), Bytes::from(message.encode_to_vec()))
}

fn endpoints(name: &Name, backend: SocketAddr, wrong: Wrong) -> Resource {
    let endpoint = ir::Endpoint { address: backend.ip().to_string().into(), port: backend.port(), draining: false };
    let (region, zone, sub_zone) = Default::default();
    let locality = ir::Locality { region, zone, sub_zone, priority: 0, endpoints: vec![endpoint] };
    let good = encode::endpoints(&ir::Assignment { cluster: name.clone(), localities: vec![locality] });
    if wrong != Wrong::Endpoint {
        return good;
    }
    let mut message = ClusterLoadAssignment::decode(good.bytes).unwrap();
    let Some(HostIdentifier::Endpoint(endpoint)) = &mut message.endpoints[0].lb_endpoints[0].host_identifier else {
        panic!("an endpoint has an address");
    };
    let Some(Address::SocketAddress(address)) = &mut endpoint.address.as_mut().unwrap().address else {
        panic!("the address is one of a socket");
    };
    address.port_specifier = Some(PortSpecifier::PortValue(1 << 20));
    Resource::new(name.clone(), Bytes::from(message.encode_to_vec()))
}

/// An ADS server and one Envoy.
struct Stage {
    store: Store,
    rows: BTreeSet<Row>,
    epoch: u64,
    seals: watch::Sender<Option<Arc<Sealed>>>,
    observations: mpsc::Receiver<Observation>,
    refusals: Vec<Refusal>,
    config: tidegate_ads::Config,
    ads: SocketAddr,
    port: u16,
    stop: oneshot::Sender<()>,
    server: JoinSet<()>,
}

impl Stage {
    async fn serve(config: tidegate_ads::Config, ads: SocketAddr, port: u16) -> Self {
        let listener = TcpListener::bind(ads).await.unwrap();
        let ads = listener.local_addr().unwrap();
        let (seals, sealed) = watch::channel(None);
        let (observe, observations) = mpsc::channel(1 << 16);
        let mut server = JoinSet::new();
        let began = Instant::now();
        let clock = Arc::new(move || u64::try_from(began.elapsed().as_millis()).unwrap());
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let serving = tidegate_ads::serve(listener, sealed, observe, clock, config.clone(), stopped);
        server.spawn(async move { serving.await.unwrap() });
        let (store, rows, refusals) = (Store::new(), BTreeSet::new(), Vec::new());
        Stage { store, rows, epoch: 0, seals, observations, refusals, config, ads, port, stop, server }
    }

    fn publish(&mut self, rows: BTreeSet<Row>) {
        let gone = self.rows.difference(&rows).map(|row| (row.clone(), -1));
        let come = rows.difference(&self.rows).map(|row| (row.clone(), 1));
        let sealed = self.store.seal(self.epoch, self.epoch, gone.chain(come).collect());
        self.epoch += 1;
        self.rows = rows;
        self.seals.send_replace(Some(sealed));
    }

    async fn ask(&self, number: usize, path: &str) -> Option<u16> {
        let call = Call::get(SocketAddr::from(([127, 0, 0, 1], self.port)), &host(number), path);
        call.send().await.ok().map(|response| response.status.as_u16())
    }

    /// Waits until the client has all that it can have of the newest seal, and nothing is under way.
    async fn settled(&mut self) {
        let began = Instant::now();
        loop {
            while let Ok(observation) = self.observations.try_recv() {
                if let Observation::Refuses { refusals, .. } = observation {
                    self.refusals = refusals;
                }
            }
            let clients = self.config.clients.snapshot();
            let is_settled = |stats: &tidegate_ads::ClientStats| {
                let session = &stats.session;
                // Of a cluster that is refused nobody asks for the endpoints.
                let refused: usize = session.types.iter().map(|of| of.rejected.len()).sum();
                session.epoch.map(|epoch| epoch + 1) == Some(self.epoch)
                    && session.pinned == 0
                    && session.types.iter().all(|of| of.pending == 0 && of.behind <= refused)
            };
            if clients.first().is_some_and(|stats| is_settled(stats)) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "never settled: {clients:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What is refused, by type, name and entries.
    fn refused(&self) -> Vec<(ResourceType, String, Vec<String>)> {
        let texts = |names: &[Name]| names.iter().map(ToString::to_string).collect();
        self.refusals.iter().map(|one| (one.kind, one.name.to_string(), texts(&one.entries))).collect()
    }
}

fn config() -> tidegate_ads::Config {
    tidegate_ads::Config { grace_ms: 0, ..tidegate_ads::Config::default() }
}

async fn play(wrong: Wrong, kind: ResourceType, refused_name: &str, sotw: bool) {
    let _turn = ONE_AT_A_TIME.lock().await;
    let binary = Binary::find_or_install(&|line| eprintln!("{line}")).await;
    let binary = binary.unwrap_or_else(|error| panic!("these tests need an envoy: {error}"));
    let echo = Echo::start("127.0.0.1:0".parse().unwrap(), Identity::new("shop", "cart", "cart-1")).await.unwrap();
    let port = ports::free();
    let mut stage = Stage::serve(config(), "127.0.0.1:0".parse().unwrap(), port).await;
    let ads = AdsAddress::Tcp { host: "127.0.0.1".to_owned(), port: stage.ads.port() };
    let bootstrap = Bootstrap { sotw, ..Bootstrap::new(gateway(), ads) };
    let options = Options { log_level: "critical".to_owned(), ..Options::default() };
    let rows = |path: &str, wrong: Wrong| rows(port, echo.address(), path, wrong);
    stage.publish(rows("/one", wrong));
    let envoy = Process::start(&binary, &bootstrap.to_yaml(), &options).await.unwrap();
    stage.settled().await;

    // Everything but the culprit is served, after at most so many more responses.
    let pushes = stage.config.metrics.pushes(kind);
    // The one that is rejected, ten to find it, what was held back, and the answer in place of a bad match.
    assert!(pushes <= 1 + 12, "{wrong:?}: {pushes} responses");
    let entry = format!("HTTPRoute shop/r{BAD} rule 0 match 0");
    assert_eq!(stage.refused(), [(kind, refused_name.to_owned(), vec![entry])]);
    for number in [0, 1, BAD - 1, BAD + 1, HOSTS - 1] {
        assert_eq!(stage.ask(number, "/one").await, Some(200), "{wrong:?} {number}");
    }
    let answer = stage.ask(BAD, "/one").await;
    let expected: &[u16] = match wrong {
        Wrong::Endpoint => &[503],
        Wrong::Cluster => &[500],
        // An expression that is none matches nothing, whatever would be answered.
        Wrong::Expression => &[404],
        Wrong::Nothing => &[200],
    };
    assert!(answer.is_some_and(|status| expected.contains(&status)), "{wrong:?}: {answer:?}");

    // The others change at once.
    let nacks = stage.config.metrics.nacks.of(kind).get();
    stage.publish(rows("/two", wrong));
    stage.settled().await;
    assert_eq!(stage.ask(7, "/two").await, Some(200), "{wrong:?}");
    assert_eq!(stage.ask(7, "/one").await, Some(404), "{wrong:?}");
    assert_eq!(stage.config.metrics.nacks.of(kind).get(), nacks, "{wrong:?}: nothing rejected is sent again");

    // Nor by another server that knows what this one knew.
    let (json, at, last) = (stage.config.remembered.to_json(), stage.ads, stage.rows.clone());
    stage.stop.send(()).unwrap();
    stage.server.join_all().await;
    let next = config();
    next.remembered.restore(&json, 0).unwrap();
    let mut stage = Stage::serve(next, at, port).await;
    stage.publish(last);
    stage.settled().await;
    let total = |metrics: &Metrics| ResourceType::ALL.iter().map(|kind| metrics.nacks.of(*kind).get()).sum::<u64>();
    assert_eq!(total(&stage.config.metrics), 0, "{wrong:?}");
    assert_eq!(stage.ask(7, "/two").await, Some(200), "{wrong:?}");

    // Once it is good it is served like any other.
    stage.publish(rows("/two", Wrong::Nothing));
    stage.settled().await;
    assert_eq!(stage.refused(), []);
    assert_eq!(stage.ask(BAD, "/two").await, Some(200), "{wrong:?}");
    drop(envoy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_entry_among_a_thousand_is_kept_from_an_envoy_alone() {
    for sotw in [false, true] {
        play(Wrong::Expression, ResourceType::Table, "http", sotw).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_cluster_among_a_thousand_is_kept_from_an_envoy_alone() {
    for sotw in [false, true] {
        play(Wrong::Cluster, ResourceType::Cluster, &format!("c{BAD}"), sotw).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_assignment_among_a_thousand_is_kept_from_an_envoy_alone() {
    for sotw in [false, true] {
        play(Wrong::Endpoint, ResourceType::Endpoints, &format!("c{BAD}"), sotw).await;
    }
}
