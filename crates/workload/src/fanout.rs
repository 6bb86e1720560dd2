//! A big regular cluster: Gateways, routes that fan out to Services, endpoints over zones and Nodes. For what things cost.
//!
//! Objects are not kept. Each is a function of its number, of the seed and of a few counters that the operations turn,
//! so that a cluster of 50,000 Services is a few hundred kilobytes, and an operation makes the one object it is about.
//!
//! Every Service is referenced by a route while there are at most [`Shape::max_rules`] times as many Services as routes,
//! so that nothing is cheap only because nobody asks for it. Routes and what they refer to share a namespace; their Gateway is
//! in another one.

use crate::random::Random;
use serde_json::{Value, json};
use tidegate_log::{Event, Object};
use tidegate_model::{CONTROLLER_NAME, HOSTNAME_LABEL, Kind, NamespacedName, ObjectKey, ZONE_LABEL};

const CLASS: &str = "fanout";
const GATEWAY_NAMESPACE: &str = "infra";

/// How big the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Where addresses begin.
    pub seed: u64,
    /// Namespaces of routes and Services; as many of each in all of them.
    pub namespaces: usize,
    /// Gateways.
    pub gateways: usize,
    /// Services, each with one EndpointSlice.
    pub services: usize,
    /// Endpoints of a Service.
    pub endpoints: usize,
    /// Zones that the endpoints are spread over.
    pub zones: usize,
    /// Routes, spread over the Gateways.
    pub routes: usize,
    /// Rules that a route has at most; it has as many as it takes that every Service is referenced.
    pub max_rules: usize,
    /// Routes of one Gateway that share a hostname, and so a virtual host.
    pub routes_per_host: usize,
    /// Of a hundred Services, those with a traffic distribution.
    pub preferring: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            seed: 1,
            namespaces: 100,
            gateways: 10,
            services: 10_000,
            endpoints: 10,
            zones: 4,
            routes: 5_000,
            max_rules: 16,
            routes_per_host: 4,
            preferring: 25,
        }
    }
}

/// The cluster as it stands.
#[derive(Clone, Debug)]
pub struct Fanout {
    shape: Shape,
    /// The first address of all.
    first: u32,
    /// How often the endpoints of each Service changed.
    slices: Vec<u32>,
    /// How often each route was pointed at another Service.
    routes: Vec<u32>,
    /// How often each Service was edited where nobody looks.
    notes: Vec<u32>,
    /// Which Services are there.
    there: Vec<bool>,
    /// How often the class was edited.
    class: u32,
}

impl Fanout {
    /// The cluster in its first form.
    ///
    /// # Panics
    ///
    /// If Services or routes cannot be divided evenly over the namespaces, or something is 0 that may not be.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let Shape { namespaces, gateways, services, endpoints, zones, routes, max_rules, routes_per_host, .. } = shape;
        let all = [namespaces, gateways, services, endpoints, zones, routes, max_rules, routes_per_host];
        let least = all.into_iter().min();
        assert!(least > Some(0), "a cluster has at least one of everything: {shape:?}");
        let even = services.is_multiple_of(namespaces) && routes.is_multiple_of(namespaces);
        assert!(even, "services and routes are divided evenly over the namespaces: {shape:?}");
        Fanout {
            shape,
            first: u32::try_from(Random::new(shape.seed).below(1 << 24)).expect("24 bits fit into 32"),
            slices: vec![0; services],
            routes: vec![0; routes],
            notes: vec![0; services],
            there: vec![true; services],
            class: 0,
        }
    }

    /// How big it is.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Every object as a first list, then `synced` for every kind. Made one at a time: do not collect a big one.
    pub fn list(&self) -> impl Iterator<Item = Event> + '_ {
        let Shape { namespaces, gateways, services, routes, .. } = self.shape;
        let there = move || (0..services).filter(move |index| self.there[*index]);
        std::iter::once(self.class())
            .chain((0..gateways).map(move |index| self.gateway(index)))
            .chain((0..namespaces).map(move |index| self.namespace(index)))
            .chain((0..self.nodes()).map(move |index| self.node(index)))
            .chain(there().map(move |index| self.service(index)))
            .chain(there().map(move |index| self.slice(index)))
            .chain((0..routes).map(move |index| self.route(index)))
            .chain(Kind::ALL.map(Event::Synced))
    }

    /// How many objects there are.
    #[must_use]
    pub fn objects(&self) -> usize {
        let Shape { namespaces, gateways, routes, .. } = self.shape;
        1 + gateways + namespaces + self.nodes() + routes + 2 * self.there.iter().filter(|there| **there).count()
    }

    /// One endpoint of the Service is replaced by another.
    pub fn change_endpoint(&mut self, service: usize) -> Event {
        self.slices[service] += 1;
        self.slice(service)
    }

    /// The first rule of the route refers to another Service of its namespace.
    pub fn retarget(&mut self, route: usize) -> Event {
        self.routes[route] += 1;
        self.route(route)
    }

    /// The Service and its slice go.
    pub fn remove_service(&mut self, service: usize) -> Vec<Event> {
        self.there[service] = false;
        vec![Event::Delete(self.service_key(service)), Event::Delete(self.slice_key(service))]
    }

    /// The Service and its slice are there again.
    pub fn add_service(&mut self, service: usize) -> Vec<Event> {
        self.there[service] = true;
        vec![self.service(service), self.slice(service)]
    }

    /// What a source sends of a relist in which the slices of the first `differences` Services differ from what was
    /// known: these, and nothing that is as it was.
    pub fn relist(&mut self, differences: usize) -> Vec<Event> {
        (0..differences).map(|service| self.change_endpoint(service)).collect()
    }

    /// The class is edited so that it is refused, and with it every Gateway; or back. Every route is re-derived.
    pub fn edit_class(&mut self) -> Event {
        self.class += 1;
        self.class()
    }

    /// Edits of fields that nobody reads: labels and session affinity of a Service, annotations and topology hints of
    /// its slice.
    pub fn edit_unread(&mut self, service: usize) -> Vec<Event> {
        self.notes[service] += 1;
        vec![self.service(service), self.slice(service)]
    }

    /// The Service that a rule of the route refers to.
    #[must_use]
    pub fn target(&self, route: usize, rule: usize) -> usize {
        let Shape { namespaces, services, routes, .. } = self.shape;
        let (services_each, routes_each) = (services / namespaces, routes / namespaces);
        let turns = if rule == 0 { self.routes[route] as usize } else { 0 };
        let place = (route / namespaces + rule * routes_each + turns) % services_each;
        place * namespaces + route % namespaces
    }

    /// How many rules a route has.
    #[must_use]
    pub fn rules(&self) -> usize {
        self.shape.services.div_ceil(self.shape.routes).clamp(1, self.shape.max_rules)
    }

    /// The name of a Gateway.
    #[must_use]
    pub fn gateway_name(&self, gateway: usize) -> NamespacedName {
        NamespacedName::new(GATEWAY_NAMESPACE, &format!("gw-{gateway}"))
    }

    /// The Gateway that a route attaches to.
    #[must_use]
    pub fn gateway_of(&self, route: usize) -> usize {
        route / self.shape.namespaces % self.shape.gateways
    }

    /// Whether the Service is there.
    #[must_use]
    pub fn has_service(&self, service: usize) -> bool {
        self.there[service]
    }

    /// Whether the Service has a traffic distribution. Spread over namespaces.
    #[must_use]
    pub fn prefers_zone(&self, service: usize) -> bool {
        (service * 37 + service / 100) % 100 < self.shape.preferring
    }

    /// The namespace of a route or Service.
    fn namespace_of(&self, index: usize) -> String {
        format!("ns-{}", index % self.shape.namespaces)
    }

    fn service_key(&self, index: usize) -> ObjectKey {
        ObjectKey::new(Kind::Service, &self.namespace_of(index), &format!("svc-{index}"))
    }

    fn slice_key(&self, index: usize) -> ObjectKey {
        ObjectKey::new(Kind::EndpointSlice, &self.namespace_of(index), &format!("svc-{index}-x"))
    }

    fn class(&self) -> Event {
        let mut spec = json!({"controllerName": CONTROLLER_NAME});
        if self.class % 2 == 1 {
            spec["parametersRef"] = json!({"group": "example.com", "kind": "Parameters", "name": "none"});
        }
        let metadata = json!({"name": CLASS, "generation": self.class + 1});
        apply(Kind::GatewayClass, metadata, json!({"spec": spec}))
    }

    fn gateway(&self, index: usize) -> Event {
        let name = self.gateway_name(index);
        let metadata = json!({"namespace": name.namespace(), "name": name.name(), "generation": 1});
        let listener = json!({
            "name": "http", "port": 8080, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}},
        });
        apply(Kind::Gateway, metadata, json!({"spec": {"gatewayClassName": CLASS, "listeners": [listener]}}))
    }

    fn namespace(&self, index: usize) -> Event {
        let metadata = json!({"name": self.namespace_of(index), "labels": {"team": format!("team-{}", index % 7)}});
        apply(Kind::Namespace, metadata, json!({}))
    }

    /// Some 40 endpoints each, up to 250 a zone.
    fn nodes(&self) -> usize {
        let Shape { services, endpoints, zones, .. } = self.shape;
        zones * (services * endpoints).div_ceil(zones * 40).min(250)
    }

    /// Zones take turns.
    fn node(&self, index: usize) -> Event {
        let zone = format!("zone-{}", index % self.shape.zones);
        let labels = json!({HOSTNAME_LABEL: format!("node-{index}"), ZONE_LABEL: zone});
        apply(Kind::Node, json!({"name": format!("node-{index}"), "labels": labels}), json!({}))
    }

    fn service(&self, index: usize) -> Event {
        let notes = self.notes[index];
        let key = self.service_key(index);
        let metadata = json!({
            "namespace": key.name.namespace(), "name": key.name.name(), "labels": {"note": format!("n{notes}")},
        });
        let affinity = if notes % 2 == 1 { "ClientIP" } else { "None" };
        let mut spec = json!({
            "clusterIP": "172.16.0.1", "sessionAffinity": affinity,
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        });
        if self.prefers_zone(index) {
            spec["trafficDistribution"] = "PreferClose".into();
        }
        apply(Kind::Service, metadata, json!({"spec": spec}))
    }

    fn slice(&self, index: usize) -> Event {
        let notes = self.notes[index];
        let key = self.slice_key(index);
        let metadata = json!({
            "namespace": key.name.namespace(), "name": key.name.name(),
            "labels": {"kubernetes.io/service-name": format!("svc-{index}")},
            "annotations": {"note": format!("n{notes}")},
        });
        let endpoints: Vec<Value> = (0..self.shape.endpoints).map(|place| self.endpoint(index, place)).collect();
        let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
        apply(Kind::EndpointSlice, metadata, json!({"addressType": "IPv4", "endpoints": endpoints, "ports": ports}))
    }

    fn endpoint(&self, service: usize, place: usize) -> Value {
        let Shape { services, endpoints, zones, .. } = self.shape;
        let zone = (service + place) % zones;
        let node = zone + zones * ((service * 31 + place) % (self.nodes() / zones));
        let zone = format!("zone-{zone}");
        // Changes replace one endpoint after the other; each new one has an address that no other ever had, until all
        // 16 million are used up.
        let replaced = (self.slices[service] as usize + endpoints - 1 - place) / endpoints;
        let number = replaced * services * endpoints + service * endpoints + place;
        let number = self.first.wrapping_add(u32::try_from(number & 0xFF_FFFF).expect("24 bits fit into 32"));
        let [_, a, b, c] = number.to_be_bytes();
        let mut endpoint = json!({
            "addresses": [format!("10.{a}.{b}.{c}")], "conditions": {"ready": true}, "zone": zone,
            "nodeName": format!("node-{node}"),
        });
        if self.notes[service] % 2 == 1 {
            endpoint["hints"] = json!({"forZones": [{"name": zone}]});
        }
        endpoint
    }

    fn route(&self, index: usize) -> Event {
        let Shape { namespaces, gateways, routes_per_host, .. } = self.shape;
        let gateway = self.gateway_of(index);
        let of_gateway = index / namespaces / gateways * namespaces + index % namespaces;
        let rules: Vec<Value> = (0..self.rules())
            .map(|rule| {
                let service = format!("svc-{}", self.target(index, rule));
                json!({
                    "matches": [{"path": {"type": "PathPrefix", "value": format!("/r{index}/{rule}")}}],
                    "backendRefs": [{"name": service, "port": 80}],
                })
            })
            .collect();
        let spec = json!({
            "parentRefs": [{"name": format!("gw-{gateway}"), "namespace": GATEWAY_NAMESPACE}],
            "hostnames": [format!("h{}.gw-{gateway}.example.com", of_gateway / routes_per_host)],
            "rules": rules,
        });
        let metadata = json!({
            "namespace": self.namespace_of(index), "name": format!("r-{index}"), "generation": self.routes[index] + 1,
            "creationTimestamp": format!("2024-01-01T{:02}:{:02}:{:02}Z", index / 3600 % 24, index / 60 % 60, index % 60),
        });
        apply(Kind::HttpRoute, metadata, json!({"spec": spec}))
    }
}

/// The object of this kind, as an event. It has a `uid`, as everything has that comes from an API server.
fn apply(kind: Kind, mut metadata: Value, mut body: Value) -> Event {
    metadata["uid"] = format!("{kind}-{}-{}", metadata["namespace"], metadata["name"]).replace('"', "").into();
    let version = kind.versions()[0];
    let group = kind.group();
    body["apiVersion"] = if group.is_empty() { version.into() } else { format!("{group}/{version}").into() };
    body["kind"] = kind.as_str().into();
    body["metadata"] = metadata;
    Event::Apply(Object::new(body).expect("generated objects have kind and name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn small() -> Shape {
        Shape { namespaces: 2, gateways: 2, services: 20, endpoints: 3, zones: 2, routes: 8, ..Shape::default() }
    }

    fn addresses(event: &Event) -> BTreeSet<String> {
        let Event::Apply(slice) = event else { panic!("{event:?} applies nothing") };
        let endpoints = slice.body["endpoints"].as_array().unwrap();
        endpoints.iter().map(|endpoint| endpoint["addresses"][0].to_string()).collect()
    }

    #[test]
    fn a_shape_gives_one_cluster_and_a_seed_another() {
        let list = |shape| Fanout::new(shape).list().collect::<Vec<_>>();
        assert_eq!(list(small()), list(small()));
        assert_ne!(list(small()), list(Shape { seed: 2, ..small() }));
    }

    #[test]
    fn every_object_has_its_own_key() {
        let fanout = Fanout::new(small());
        let keys: BTreeSet<ObjectKey> = fanout
            .list()
            .filter_map(|event| if let Event::Apply(object) = event { Some(object.key) } else { None })
            .collect();
        assert_eq!(keys.len(), fanout.objects());
    }

    #[test]
    fn every_service_is_referenced_from_its_own_namespace() {
        let fanout = Fanout::new(small());
        let targets = (0..8).flat_map(|route| (0..fanout.rules()).map(move |rule| (route, rule)));
        let mut found = BTreeSet::new();
        for (route, rule) in targets {
            let service = fanout.target(route, rule);
            assert_eq!(service % 2, route % 2);
            found.insert(service);
        }
        assert_eq!(found.len(), 20);
    }

    #[test]
    fn an_endpoint_change_replaces_one_address_by_a_new_one() {
        let mut fanout = Fanout::new(small());
        let mut seen = addresses(&fanout.slice(7));
        let mut before = seen.clone();
        for _ in 0..7 {
            let after = addresses(&fanout.change_endpoint(7));
            assert_eq!((after.len(), before.intersection(&after).count()), (3, 2));
            assert!(after.difference(&before).all(|address| seen.insert(address.clone())));
            before = after;
        }
    }

    #[test]
    fn a_retargeted_route_refers_to_another_service() {
        let mut fanout = Fanout::new(small());
        let before = fanout.target(3, 0);
        fanout.retarget(3);
        assert_ne!(fanout.target(3, 0), before);
    }

    #[test]
    fn a_service_that_went_is_not_listed_and_comes_back_the_same() {
        let mut fanout = Fanout::new(small());
        let all: Vec<Event> = fanout.list().collect();
        fanout.remove_service(5);
        assert_eq!(fanout.list().count(), all.len() - 2);
        fanout.add_service(5);
        assert_eq!(fanout.list().collect::<Vec<_>>(), all);
    }
}
