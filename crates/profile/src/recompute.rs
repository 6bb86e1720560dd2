//! Computing everything anew at every change, from the same facts, in three ways: the reference, which is written to be
//! read; plain loops over facts that are indexed beforehand for nothing; and the same with every encoding kept that may
//! be kept. The last two know only what this workload needs (HTTP listeners for every hostname, routes by path prefix,
//! backends of the same namespace) and derive no status, which is in their favor. Each must give what the dataflow gives.

use crate::cluster::{Cluster, changes};
use crate::measure::{Operation, Times};
use crate::size::Size;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_log::Event;
use tidegate_model::{
    EndpointState, Fact, GatewayFact, HeaderModifier, Hostname, Name, NamespacedName, PathMatch, RouteFact,
    ServiceFact, SliceFact,
};
use tidegate_normalize::{Moment, normalize};
use tidegate_xds::row::{EncodedEntry, VirtualHost};
use tidegate_xds::{Resource, Sealed, encode, ir};

/// An endpoint change by the dataflow and by each of the others, in that order: `dataflow`, `reference`, `plain loops`,
/// `plain loops, encodings kept`.
///
/// # Panics
///
/// If one of them gives something else than the dataflow.
#[must_use]
pub fn recompute(size: &Size) -> Vec<Operation> {
    let mut cluster = Cluster::start_on(size.shape(), &size.config(), |_| true);
    let services = size.services;
    let dataflow = changes(&mut cluster, size.count, services, |fanout, service| vec![fanout.change_endpoint(service)]);
    let config = tidegate_translate::Config::new(size.config().controller);
    let facts = cluster.core.facts();
    let mut reference = Times::new();
    for _ in 0..size.count.div_ceil(1_000) {
        let rows = reference.take(|| tidegate_translate::reference::translate(&config, &facts));
        assert!(rows.len() > 2 * services.min(size.routes), "the reference derives the whole");
    }
    let mut facts = Facts::new(facts);
    let plain = times(&mut cluster, &mut facts, size.count.div_ceil(100), &mut |facts| all(facts, None));
    let mut cache = Cache::default();
    let cached = times(&mut cluster, &mut facts, size.count.div_ceil(40), &mut |facts| all(facts, Some(&mut cache)));
    vec![
        dataflow.operation("dataflow"),
        reference.operation("reference"),
        plain.operation("plain loops"),
        cached.operation("plain loops, encodings kept"),
    ]
}

/// Changes endpoints and computes everything anew each time: normalize, compute, compare with what there was.
fn times(cluster: &mut Cluster, facts: &mut Facts, count: usize, compute: &mut dyn FnMut(&Facts) -> Snapshot) -> Times {
    let mut times = Times::new();
    let mut last = compute(facts);
    for round in 0..count {
        let service = round * 7 % cluster.fanout.shape().services;
        let change = cluster.fanout.change_endpoint(service);
        cluster.apply(std::slice::from_ref(&change));
        let Event::Apply(object) = &change else { panic!("{change:?} applies nothing") };
        let (snapshot, changed) = times.take(|| {
            normalize(object, &Moment::default()).facts.into_iter().for_each(|fact| facts.insert(fact));
            let snapshot = compute(facts);
            let changed = snapshot.differences(&last);
            (snapshot, changed)
        });
        assert!(changed <= 1, "at most one assignment changes, and {changed} did");
        last = snapshot;
    }
    last.assert_equals(&cluster.sealed);
    times
}

/// Facts by what they are looked up by. Keeping them so costs the recompute nothing: only what it does with them is
/// measured.
#[derive(Default)]
pub(crate) struct Facts {
    gateways: BTreeMap<NamespacedName, Arc<GatewayFact>>,
    routes: BTreeMap<NamespacedName, Arc<RouteFact>>,
    services: BTreeMap<NamespacedName, Arc<ServiceFact>>,
    /// By Service, then by name.
    slices: BTreeMap<NamespacedName, BTreeMap<NamespacedName, Arc<SliceFact>>>,
}

impl Facts {
    pub(crate) fn new(facts: BTreeSet<Fact>) -> Self {
        let mut indexed = Facts::default();
        facts.into_iter().for_each(|fact| indexed.insert(fact));
        indexed
    }

    /// Adds a fact, in place of the one about the same object.
    pub(crate) fn insert(&mut self, fact: Fact) {
        match fact {
            Fact::Gateway(gateway) => drop(self.gateways.insert(gateway.name.clone(), gateway)),
            Fact::Route(route) => drop(self.routes.insert(route.key.name.clone(), route)),
            Fact::Service(service) => drop(self.services.insert(service.name.clone(), service)),
            Fact::Slice(slice) => {
                let service = slice.service.clone().expect("every generated slice has a Service");
                self.slices.entry(service).or_default().insert(slice.name.clone(), slice);
            }
            Fact::Class(_) | Fact::Grant(_) | Fact::Namespace(_) | Fact::Finding(..) => {}
            #[allow(unreachable_patterns, reason = "kinds that the workload does not have")]
            _ => {}
        }
    }

    fn slices_of(&self, service: &NamespacedName) -> Vec<&Arc<SliceFact>> {
        self.slices.get(service).into_iter().flat_map(BTreeMap::values).collect()
    }
}

/// Encodings and what they were made of.
#[derive(Default)]
pub(crate) struct Cache {
    clusters: BTreeMap<Name, Resource>,
    endpoints: BTreeMap<Name, (Vec<Arc<SliceFact>>, Resource)>,
    entries: BTreeMap<NamespacedName, (Arc<RouteFact>, Entries)>,
    hosts: BTreeMap<HostKey, (Vec<Entries>, Arc<VirtualHost>)>,
}

/// The entries of one route.
type Entries = Arc<Vec<EncodedEntry>>;

type HostKey = (NamespacedName, Hostname);

/// Everything that clients get but listeners, which never change here.
#[derive(Default)]
pub(crate) struct Snapshot {
    clusters: BTreeMap<Name, Resource>,
    endpoints: BTreeMap<Name, Resource>,
    hosts: BTreeMap<HostKey, Arc<VirtualHost>>,
    members: BTreeSet<(NamespacedName, Name)>,
}

/// Computes everything. With a cache, nothing is encoded twice.
pub(crate) fn all(facts: &Facts, mut cache: Option<&mut Cache>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let mut routes: BTreeMap<HostKey, Vec<&Arc<RouteFact>>> = BTreeMap::new();
    for gateway in facts.gateways.values() {
        routes.insert((gateway.name.clone(), gateway.listeners[0].hostname.clone()), Vec::new());
    }
    for route in facts.routes.values() {
        for parent in route.parents.iter().filter(|parent| facts.gateways.contains_key(&parent.name)) {
            for host in &route.hostnames {
                routes.entry((parent.name.clone(), host.clone())).or_default().push(route);
            }
            for backend in route.rules.iter().flat_map(|rule| &rule.backends) {
                use_service(facts, &backend.target.name, &parent.name, &mut snapshot, cache.as_deref_mut());
            }
        }
    }
    for (key, routes) in routes {
        let host = host(&key, &routes, cache.as_deref_mut());
        snapshot.hosts.insert(key, host);
    }
    snapshot
}

fn use_service(
    facts: &Facts,
    service: &NamespacedName,
    gateway: &NamespacedName,
    snapshot: &mut Snapshot,
    cache: Option<&mut Cache>,
) {
    let Some(fact) = facts.services.get(service) else { return };
    let name = cluster_name(service);
    snapshot.members.insert((gateway.clone(), name.clone()));
    if snapshot.clusters.contains_key(&name) {
        return;
    }
    let (transport, upstream) = (fact.ports[0].transport, fact.ports[0].upstream);
    let cluster = || encode::cluster(&ir::Cluster { name: name.clone(), transport, upstream, tls: None });
    let slices = facts.slices_of(service);
    let endpoints = || encode::endpoints(&assignment(&name, &fact.ports[0].name, &slices));
    let (cluster, endpoints) = match cache {
        None => (cluster(), endpoints()),
        Some(cache) => {
            let cluster = cache.clusters.entry(name.clone()).or_insert_with(cluster).clone();
            let kept = cache.endpoints.get(&name).filter(|(of, _)| same(of.iter(), slices.iter().copied()));
            let endpoints = match kept {
                Some((_, endpoints)) => endpoints.clone(),
                None => {
                    let made = endpoints();
                    let of = slices.iter().map(|slice| Arc::clone(slice)).collect();
                    cache.endpoints.insert(name.clone(), (of, made.clone()));
                    made
                }
            };
            (cluster, endpoints)
        }
    };
    snapshot.clusters.insert(name.clone(), cluster);
    snapshot.endpoints.insert(name, endpoints);
}

fn cluster_name(service: &NamespacedName) -> Name {
    format!("{service}/80").into()
}

/// Whether these are the very same facts.
fn same<'a, T: 'a>(a: impl ExactSizeIterator<Item = &'a Arc<T>>, b: impl ExactSizeIterator<Item = &'a Arc<T>>) -> bool {
    a.len() == b.len() && a.zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

fn assignment(cluster: &Name, port_name: &Name, slices: &[&Arc<SliceFact>]) -> ir::Assignment {
    let mut zones: BTreeMap<Name, BTreeSet<ir::Endpoint>> = BTreeMap::new();
    for slice in slices {
        for port in slice.ports.iter().filter(|port| port.name == *port_name) {
            for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.state == EndpointState::Ready) {
                let member = ir::Endpoint { address: endpoint.address.clone(), port: port.port, draining: false };
                zones.entry(endpoint.zone.clone().unwrap_or_default()).or_default().insert(member);
            }
        }
    }
    let localities = zones.into_iter().map(|(zone, endpoints)| ir::Locality {
        region: Name::default(),
        sub_zone: Name::default(),
        zone,
        priority: 0,
        endpoints: endpoints.into_iter().collect(),
    });
    ir::Assignment { cluster: cluster.clone(), localities: localities.collect() }
}

/// The virtual host of these routes, in the order of precedence.
fn host(key: &HostKey, routes: &[&Arc<RouteFact>], cache: Option<&mut Cache>) -> Arc<VirtualHost> {
    let Some(cache) = cache else {
        let lists: Vec<Entries> = routes.iter().map(|route| Arc::new(entries(route))).collect();
        return assemble(&key.1, routes, &lists);
    };
    let mut lists = Vec::with_capacity(routes.len());
    for route in routes {
        let kept = cache.entries.get(&route.key.name).filter(|(of, _)| Arc::ptr_eq(of, route));
        lists.push(match kept {
            Some((_, list)) => list.clone(),
            None => {
                let list = Arc::new(entries(route));
                cache.entries.insert(route.key.name.clone(), (Arc::clone(route), list.clone()));
                list
            }
        });
    }
    match cache.hosts.get(key).filter(|(of, _)| same(of.iter(), lists.iter())) {
        Some((_, host)) => host.clone(),
        None => {
            let host = assemble(&key.1, routes, &lists);
            cache.hosts.insert(key.clone(), (lists, host.clone()));
            host
        }
    }
}

fn assemble(host: &Hostname, routes: &[&Arc<RouteFact>], lists: &[Entries]) -> Arc<VirtualHost> {
    let mut ranked = Vec::new();
    for (route, list) in routes.iter().zip(lists) {
        for (index, (rule, entry)) in route.rules.iter().zip(list.iter()).enumerate() {
            let length = path(&rule.matches[0].path).len();
            ranked.push(((Reverse(length), route.created, &route.key.name, index), entry));
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    Arc::new(encode::virtual_host(host, ranked.into_iter().map(|(_, entry)| entry.clone()).collect()))
}

fn path(path: &PathMatch) -> &Name {
    match path {
        PathMatch::Exact(path) | PathMatch::Prefix(path) | PathMatch::Regex(path) => path,
        PathMatch::Method(_) => unreachable!("there are no GRPCRoutes here"),
    }
}

/// One entry a rule.
fn entries(route: &RouteFact) -> Vec<EncodedEntry> {
    let rules = route.rules.iter().enumerate().map(|(index, rule)| {
        let target = |cluster| ir::Target {
            cluster,
            weight: 1,
            request_headers: HeaderModifier::default(),
            response_headers: HeaderModifier::default(),
        };
        let targets = rule.backends.iter().map(|backend| target(cluster_name(&backend.target.name))).collect();
        encode::entry(&ir::Entry {
            id: format!("HTTPRoute {} rule {index} match 0", route.key.name).into(),
            matcher: rule.matches[0].clone(),
            action: ir::Action::Forward(ir::Forward { targets, websocket: true, ..ir::Forward::default() }),
            request_headers: HeaderModifier::default(),
            response_headers: HeaderModifier::default(),
        })
    });
    rules.collect()
}

impl Snapshot {
    /// How many resources differ: what would have to be sent.
    pub(crate) fn differences(&self, old: &Snapshot) -> usize {
        count(&self.clusters, &old.clusters, |a, b| a.version == b.version)
            + count(&self.endpoints, &old.endpoints, |a, b| a.version == b.version)
            + count(&self.hosts, &old.hosts, |a, b| a.version == b.version)
            + self.members.symmetric_difference(&old.members).count()
    }

    /// Holds this to what the dataflow sealed.
    pub(crate) fn assert_equals(&self, sealed: &Sealed) {
        assert_eq!((self.clusters.len(), self.endpoints.len()), (sealed.clusters.len(), sealed.endpoints.len()));
        for (name, cluster) in &self.clusters {
            assert_eq!(sealed.clusters[name].default_form().version, cluster.version, "cluster {name}");
            assert_eq!(sealed.endpoints[name].default_form().version, self.endpoints[name].version, "endpoints {name}");
        }
        let mut hosts = 0;
        for (gateway, view) in &sealed.gateways {
            for (name, host) in view.tables.values().flat_map(|table| &table.hosts) {
                let mine = &self.hosts[&(gateway.clone(), name.clone())];
                assert_eq!(mine.version, host.version, "virtual host {name} of {gateway}");
                hosts += 1;
            }
            assert!(view.members.iter().all(|name| self.members.contains(&(gateway.clone(), name.clone()))));
        }
        assert_eq!(hosts, self.hosts.len());
    }
}

/// Keys that one has alone, or whose values are not the same. Both are sorted: one walk.
fn count<K: Ord, V>(new: &BTreeMap<K, V>, old: &BTreeMap<K, V>, same: impl Fn(&V, &V) -> bool) -> usize {
    let (mut new, mut old) = (new.iter().peekable(), old.iter().peekable());
    let mut differences = 0;
    loop {
        let order = match (new.peek(), old.peek()) {
            (None, None) => return differences,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => a.0.cmp(b.0),
        };
        let a = if order.is_le() { new.next() } else { None };
        let b = if order.is_ge() { old.next() } else { None };
        if !a.zip(b).is_some_and(|(a, b)| same(a.1, b.1)) {
            differences += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_what_the_dataflow_gives() {
        // Each compares itself, and panics.
        let operations = recompute(&Size::quick());
        let names: Vec<&str> = operations.iter().map(|operation| operation.name.as_str()).collect();
        assert_eq!(names, ["dataflow", "reference", "plain loops", "plain loops, encodings kept"]);
        assert!(operations.iter().all(|operation| operation.p50_us > 0.0 && operation.count > 0));
    }
}
