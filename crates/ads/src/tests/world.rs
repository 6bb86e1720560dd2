//! Hand-made seals: a world of clusters, listeners and tables, and the rows that one change of it makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{
    HeaderModifier, Hostname, HttpMatch, INVALID_CLUSTER, ListenerKey, Locality, Name, NamespacedName, PathMatch,
    Transport, Upstream,
};
use tidegate_xds::{Row, Sealed, Store, Variants, encode, ir};

/// The Gateway that everything here belongs to.
pub(super) const GATEWAY: &str = "shop/public";

/// What shall be: edit the fields, then [`World::seal`].
pub(super) struct World {
    /// Endpoint addresses by cluster.
    pub(super) endpoints: BTreeMap<String, Vec<String>>,
    /// The same for clients of a zone, by cluster and zone, where they differ.
    pub(super) zoned: BTreeMap<(String, String), Vec<String>>,
    /// The zones of Nodes.
    pub(super) nodes: BTreeMap<String, String>,
    /// Clusters in another form than the usual one.
    pub(super) h2: BTreeSet<String>,
    /// Table by listener.
    pub(super) listeners: BTreeMap<String, String>,
    /// Digests by secret; the listener of every port names all of them.
    pub(super) secrets: BTreeMap<String, String>,
    /// Secret by cluster: a certificate that it shows to its endpoints.
    pub(super) shows: BTreeMap<String, String>,
    /// Digests of those secrets.
    pub(super) identities: BTreeMap<String, String>,
    /// Clusters by table and host.
    pub(super) tables: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// Cluster that an entry forwards to in place of the one that it is named after.
    pub(super) retargets: BTreeMap<String, String>,
    /// Clusters that a listener names directly, as one that passes connections on does.
    pub(super) direct: BTreeMap<String, Vec<String>>,
    /// Whether the Gateway is there.
    pub(super) served: bool,
    rows: BTreeSet<Row>,
    store: Store,
    epoch: u64,
}

impl World {
    /// A Gateway with the listener `http`, whose table `http` has no routes.
    pub(super) fn new() -> Self {
        World {
            endpoints: BTreeMap::new(),
            zoned: BTreeMap::new(),
            nodes: BTreeMap::new(),
            h2: BTreeSet::new(),
            listeners: BTreeMap::from([("http".to_owned(), "http".to_owned())]),
            secrets: BTreeMap::new(),
            shows: BTreeMap::new(),
            identities: BTreeMap::new(),
            tables: BTreeMap::from([("http".to_owned(), BTreeMap::new())]),
            retargets: BTreeMap::new(),
            direct: BTreeMap::new(),
            served: true,
            rows: BTreeSet::new(),
            store: Store::new(),
            epoch: 0,
        }
    }

    /// The host's routes name these clusters; a cluster that was never mentioned gets an endpoint.
    pub(super) fn route(&mut self, host: &str, clusters: &[&str]) -> &mut Self {
        self.route_in("http", host, clusters)
    }

    /// As [`World::route`], in a table of this name.
    pub(super) fn route_in(&mut self, table: &str, host: &str, clusters: &[&str]) -> &mut Self {
        for cluster in clusters.iter().filter(|cluster| **cluster != INVALID_CLUSTER) {
            self.endpoints.entry((*cluster).to_owned()).or_insert_with(|| vec!["10.0.0.1".to_owned()]);
        }
        let clusters = clusters.iter().map(|cluster| (*cluster).to_owned()).collect();
        self.tables.entry(table.to_owned()).or_default().insert(host.to_owned(), clusters);
        self
    }

    /// The host is gone.
    pub(super) fn unroute(&mut self, host: &str) -> &mut Self {
        self.tables.get_mut("http").unwrap().remove(host);
        self
    }

    /// The listener passes connections on to this cluster.
    pub(super) fn stream(&mut self, listener: &str, cluster: &str) -> &mut Self {
        self.endpoints.entry(cluster.to_owned()).or_insert_with(|| vec!["10.0.0.1".to_owned()]);
        self.direct.insert(listener.to_owned(), vec![cluster.to_owned()]);
        self
    }

    /// What forwards to the cluster forwards to another one from now on.
    pub(super) fn retarget(&mut self, cluster: &str, to: &str) -> &mut Self {
        self.endpoints.entry(to.to_owned()).or_insert_with(|| vec!["10.0.0.1".to_owned()]);
        self.retargets.insert(cluster.to_owned(), to.to_owned());
        self
    }

    /// The cluster has these endpoints.
    pub(super) fn endpoints(&mut self, cluster: &str, addresses: &[&str]) -> &mut Self {
        self.endpoints.insert(cluster.to_owned(), addresses.iter().map(|address| (*address).to_owned()).collect());
        self
    }

    /// The cluster has these endpoints for clients of the zone.
    pub(super) fn endpoints_in(&mut self, cluster: &str, zone: &str, addresses: &[&str]) -> &mut Self {
        let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        self.zoned.insert((cluster.to_owned(), zone.to_owned()), addresses);
        self
    }

    /// The Node is in the zone.
    pub(super) fn node(&mut self, node: &str, zone: &str) -> &mut Self {
        self.nodes.insert(node.to_owned(), zone.to_owned());
        self
    }

    /// The cluster shows a certificate of this name and digest.
    pub(super) fn show(&mut self, cluster: &str, secret: &str, digest: &str) -> &mut Self {
        self.shows.insert(cluster.to_owned(), secret.to_owned());
        self.identities.insert(secret.to_owned(), digest.to_owned());
        self
    }

    /// Seals what is now. Clusters that nothing names are not there.
    pub(super) fn seal(&mut self) -> Arc<Sealed> {
        let rows = self.rows_now();
        let gone = self.rows.difference(&rows).map(|row| (row.clone(), -1));
        let come = rows.difference(&self.rows).map(|row| (row.clone(), 1));
        let changes = gone.chain(come).collect();
        let sealed = self.store.seal(self.epoch, self.epoch, changes);
        assert!(self.store.violations().is_empty(), "{:?}", self.store.violations());
        self.rows = rows;
        self.epoch += 1;
        sealed
    }

    fn chains(&self, listener: &str, table: &str) -> Vec<ir::Chain> {
        let certificates = self.secrets.keys().map(Name::from).collect();
        let listeners = vec![ListenerKey::of_gateway(&NamespacedName::parse(GATEWAY), listener)];
        let to = ir::Way::Requests(Name::from(table));
        let (hostname, clients) = (Hostname::any(), None);
        let mut chains = vec![ir::Chain { hostname, to, certificates, clients, listeners: listeners.clone() }];
        if let Some(direct) = self.direct.get(listener) {
            let shares = direct.iter().map(|cluster| ir::Share { cluster: Name::from(cluster), weight: 1 }).collect();
            let id = Name::from(format!("TLSRoute shop/{listener} rule 0"));
            let to = ir::Way::Stream(ir::Stream { id, shares });
            let (hostname, certificates) = (Hostname::new("s.example"), Vec::new());
            chains.push(ir::Chain { hostname, to, certificates, clients: None, listeners });
        }
        chains
    }

    fn rows_now(&self) -> BTreeSet<Row> {
        let gateway = NamespacedName::parse(GATEWAY);
        let mut rows = BTreeSet::new();
        if !self.served {
            return rows;
        }
        rows.insert(Row::Gateway(gateway.clone()));
        let secrets = self.secrets.iter().map(|(name, digest)| encode::secret_ref(Name::from(name), digest));
        rows.extend(secrets.map(|secret| Row::Secret(gateway.clone(), secret)));
        let mut members = BTreeSet::new();
        for (index, (listener, table)) in self.listeners.iter().enumerate() {
            let direct = self.direct.get(listener).into_iter().flatten();
            members.extend(direct.filter(|cluster| **cluster != INVALID_CLUSTER).cloned());
            let is_plain = self.secrets.is_empty() && !self.direct.contains_key(listener);
            let encoded = encode::listener(&ir::Listener {
                name: Name::from(listener),
                addresses: vec![Name::from("127.0.0.1")],
                port: 8000 + u16::try_from(index).unwrap(),
                family: if is_plain { ir::Family::Http } else { ir::Family::Tls },
                chains: self.chains(listener, table),
            });
            rows.insert(Row::Listener(gateway.clone(), Arc::new(encoded)));
        }
        for (table, hosts) in &self.tables {
            rows.insert(Row::Table(gateway.clone(), Name::from(table)));
            for (host, clusters) in hosts {
                let target = |cluster: &String| self.retargets.get(cluster).unwrap_or(cluster).clone();
                members.extend(clusters.iter().map(target).filter(|cluster| *cluster != INVALID_CLUSTER));
                let hostname = Hostname::new(host);
                let entries = clusters.iter().map(|name| encode::entry(&entry(host, name, &target(name)))).collect();
                let content = Arc::new(encode::virtual_host(&hostname, entries));
                rows.insert(Row::VirtualHost(gateway.clone(), Name::from(table), hostname, content));
            }
        }
        for cluster in members {
            let name = Name::from(&cluster);
            let upstream = if self.h2.contains(&cluster) { Upstream::H2c } else { Upstream::Http1 };
            let certificate = self.shows.get(&cluster).map(Name::from);
            if let Some(secret) = &certificate {
                let digest = &self.identities[&**secret];
                rows.insert(Row::Secret(gateway.clone(), encode::secret_ref(secret.clone(), digest)));
                rows.insert(Row::Shows(gateway.clone(), name.clone(), secret.clone()));
            }
            let tls = certificate.map(over_tls);
            let encoded =
                encode::cluster(&ir::Cluster { name: name.clone(), transport: Transport::Tcp, upstream, tls });
            let endpoints = encode::endpoints(&assignment(&cluster, &self.endpoints[&cluster]));
            rows.insert(Row::Member(gateway.clone(), name.clone()));
            rows.insert(Row::Cluster(name.clone(), Variants::any(encoded)));
            let zoned = self.zoned.iter().filter(|((of, _), _)| *of == cluster);
            let zoned = zoned.map(|((_, zone), addresses)| {
                (in_zone(zone).prefix(3), encode::endpoints(&assignment(&cluster, addresses)))
            });
            rows.insert(Row::Endpoints(name, Variants::by_locality(endpoints, zoned)));
        }
        rows.extend(self.nodes.iter().map(|(node, zone)| Row::KubeNode(Name::from(node), in_zone(zone))));
        rows
    }
}

/// Somewhere in a zone.
pub(super) fn in_zone(zone: &str) -> Locality {
    Locality { zone: Name::from(zone), ..Locality::default() }
}

fn over_tls(secret: Name) -> ir::UpstreamTls {
    let (sni, certificate) = ("backend.example".into(), Some(secret));
    ir::UpstreamTls { sni, names: Vec::new(), authorities: ir::Authorities::System, certificate }
}

fn entry(host: &str, name: &str, cluster: &str) -> ir::Entry {
    let target = ir::Target {
        cluster: Name::from(cluster),
        weight: 1,
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    };
    ir::Entry {
        id: Name::from(format!("{host}/{name}")),
        matcher: HttpMatch {
            path: PathMatch::Prefix(Name::from(format!("/{name}"))),
            headers: Vec::new(),
            query: Vec::new(),
            method: None,
        },
        action: ir::Action::Forward(ir::Forward { targets: vec![target], ..ir::Forward::default() }),
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    }
}

fn assignment(cluster: &str, addresses: &[String]) -> ir::Assignment {
    let endpoint = |address: &String| ir::Endpoint { address: Name::from(address), port: 8080, draining: false };
    let mut endpoints: Vec<ir::Endpoint> = addresses.iter().map(endpoint).collect();
    endpoints.sort();
    let (region, zone, sub_zone) = Default::default();
    let locality = ir::Locality { region, zone, sub_zone, priority: 0, endpoints };
    let localities = if addresses.is_empty() { Vec::new() } else { vec![locality] };
    ir::Assignment { cluster: Name::from(cluster), localities }
}
