//! A small cluster that changes at random. Names come from small pools, so that references hit, miss, dangle, cross
//! namespaces and are taken up again after a deletion; every pair of kinds that can refer to each other does.

mod nodes;
mod policies;
mod reports;
mod streams;

pub use nodes::client;

use crate::random::Random;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tidegate_log::{Event, Object};
use tidegate_model::{CONTROLLER_NAME, Kind, ObjectKey, RouteKind};

const NAMESPACES: [&str; 3] = ["infra", "shop", "team-x"];
const CLASSES: [&str; 3] = ["ours", "also-ours", "foreign"];
const GATEWAYS: [&str; 2] = ["edge", "inner"];
const SETS: [&str; 2] = ["extra", "more"];
/// One namespace has ListenerSets and no routes, another one routes and no ListenerSets.
const SET_NAMESPACES: [&str; 3] = ["infra", "shop", "annex"];
const ROUTES: [&str; 4] = ["a", "b", "c", "d"];
const GRPC_ROUTES: [&str; 2] = ["b", "g"];
const STREAMS: [&str; 2] = ["s", "t"];
const SERVICES: [&str; 3] = ["cart", "web", "api"];
const SLICES: [&str; 4] = ["s1", "s2", "s3", "s4"];
const GRANTS: [&str; 2] = ["g1", "g2"];
const SECRETS: [&str; 2] = ["cert", "other-cert"];
const POLICIES: [&str; 2] = ["tls", "other-tls"];
const BUNDLES: [&str; 2] = ["ca", "other-ca"];
const REPORTS: [&str; 2] = ["n1", "n2"];
const HOSTS: [&str; 7] =
    ["", "*.example.com", "*.dev.example.com", "t.dev.example.com", "www.example.com", "example.com", "*.com"];
const ADDRESSES: [&str; 6] = [
    "IPAddress 10.0.0.1",
    "IPAddress 10.0.0.2",
    "IPAddress 10.9.9.9",
    "IPAddress",
    "Hostname a.com",
    "example.com/odd x",
];
const PATHS: [&str; 5] = ["/", "/a", "/a/b", "/a/", "/c"];

/// The cluster as it stands.
#[derive(Debug)]
pub struct World {
    random: Random,
    /// Where things are, and what is said of their health, is drawn apart: the rest is what it would be without.
    apart: Random,
    objects: BTreeMap<ObjectKey, Value>,
    /// Secrets whose certificate came to its end, with that end, and reports that were not renewed, with the renewal that was
    /// the last: a source that lists them again lets it come again.
    expired: BTreeMap<ObjectKey, u64>,
}

impl World {
    /// A cluster in which most of the possible objects exist: 30 and more.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (random, apart) = (Random::new(seed), Random::new(seed ^ 0x91ACE));
        let mut world = World { random, apart, objects: BTreeMap::new(), expired: BTreeMap::new() };
        for key in keys() {
            if world.random.chance(85) {
                world.put(&key);
            }
        }
        for key in keys_apart() {
            if world.apart.chance(85) {
                world.put(&key);
            }
        }
        // Never fewer than 30, whatever the dice say.
        for key in keys() {
            if world.objects.len() < 30 && !world.objects.contains_key(&key) {
                world.put(&key);
            }
        }
        world
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Every object, as a first list in random order, then `synced` for every kind.
    pub fn list(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = self.objects.values().map(apply).collect();
        self.random.shuffle(&mut events);
        events.extend(self.ended());
        events.extend(Kind::ALL.map(Event::Synced));
        events
    }

    /// The next batch: mostly one change; at times several at once, or a relist that repeats what is known.
    pub fn step(&mut self) -> Vec<Event> {
        match self.random.below(10) {
            0 => self.relist(),
            3 if self.random.chance(30) => self.expiry(),
            1 | 2 => {
                let count = 2 + self.random.below(4);
                let mut events: Vec<Event> = (0..count).map(|_| self.change()).collect();
                // Of one object the last word counts, so only different objects may change places.
                events.sort_by_key(key_of);
                events.dedup_by(|later, earlier| {
                    let same = key_of(later) == key_of(earlier);
                    if same {
                        std::mem::swap(later, earlier);
                    }
                    same
                });
                self.random.shuffle(&mut events);
                events
            }
            _ => vec![self.change()],
        }
    }

    /// One change: an object appears, changes or goes.
    fn change(&mut self) -> Event {
        let (keys, random) =
            if self.apart.chance(15) { (keys_apart(), &mut self.apart) } else { (keys(), &mut self.random) };
        let key = random.pick(&keys).clone();
        if self.objects.contains_key(&key) && random.chance(20) {
            self.objects.remove(&key);
            self.expired.remove(&key);
            Event::Delete(key)
        } else {
            self.put(&key);
            apply(&self.objects[&key])
        }
    }

    /// What a source sends that lost its watch: every object again, and the deletions that happened meanwhile.
    fn relist(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let victims: Vec<ObjectKey> = self.objects.keys().cloned().collect();
        for _ in 0..self.random.below(3) {
            let victim = self.random.pick(&victims).clone();
            self.expired.remove(&victim);
            if self.objects.remove(&victim).is_some() {
                events.push(Event::Delete(victim));
            }
        }
        events.extend(self.objects.values().map(apply));
        self.random.shuffle(&mut events);
        events.extend(self.ended());
        events
    }

    fn ended(&self) -> impl Iterator<Item = Event> {
        self.expired.iter().map(|(key, renewed)| Event::Expired { key: key.clone(), renewed: *renewed })
    }

    /// The certificate of some Secret comes to its end, or a report does, as the timer wheel says it.
    fn expiry(&mut self) -> Vec<Event> {
        let ends: Vec<(ObjectKey, u64)> = self
            .objects
            .iter()
            .filter_map(|(key, body)| {
                let certificate = body["material"]["certificate"]["notAfter"].as_u64().map(|seconds| seconds * 1000);
                Some((key.clone(), certificate.or_else(|| reports::renewed(body))?))
            })
            .collect();
        if ends.is_empty() {
            return vec![self.change()];
        }
        let (key, renewed) = self.random.pick(&ends).clone();
        self.expired.insert(key.clone(), renewed);
        vec![Event::Expired { key, renewed }]
    }

    fn put(&mut self, key: &ObjectKey) {
        let generation = self.objects.get(key).map_or(1, |old| old["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        let mut body = match key.kind {
            Kind::GatewayClass => class(&mut self.random, key),
            Kind::Gateway => gateway(&mut self.random),
            Kind::ListenerSet => listener_set(&mut self.random),
            Kind::HttpRoute => route(&mut self.random, rule),
            Kind::GrpcRoute => route(&mut self.random, grpc_rule),
            kind @ (Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute) => streams::route(&mut self.random, kind),
            Kind::ReferenceGrant => grant(&mut self.random),
            Kind::BackendTlsPolicy => policies::backend_tls(&mut self.random),
            Kind::Namespace | Kind::Node => json!({}),
            Kind::Service => service(&mut self.random),
            Kind::EndpointSlice => slice(&mut self.random),
            Kind::Secret => secret(&mut self.random),
            Kind::ConfigMap => policies::bundle(&mut self.random),
            Kind::EndpointReport => reports::report(&mut self.apart),
        };
        let mut metadata = json!({"name": key.name.name(), "generation": generation});
        if !key.kind.is_cluster_scoped() {
            metadata["namespace"] = key.name.namespace().into();
        }
        if key.kind == Kind::Namespace && self.random.chance(60) {
            metadata["labels"] = json!({"team": self.random.pick(&["x", "y"])});
        }
        if key.kind == Kind::EndpointSlice && self.random.chance(90) {
            metadata["labels"] = json!({"kubernetes.io/service-name": self.random.pick(&SERVICES)});
        }
        let has_age =
            RouteKind::of(key.kind).is_some() || matches!(key.kind, Kind::ListenerSet | Kind::BackendTlsPolicy);
        if has_age && self.random.chance(30) {
            metadata["creationTimestamp"] = format!("2024-05-0{}T10:00:00Z", 1 + self.random.below(3)).into();
        }
        if self.random.chance(8) && body["spec"].is_object() {
            // A mistyped field: ignored, as an API server ignores it, and remarked upon.
            body["spec"]["mistyped"] = true.into();
        }
        nodes::place(&mut self.apart, key.kind, &mut metadata, &mut body);
        reports::identify(&mut self.apart, &mut body);
        body["apiVersion"] = api_version(key.kind).into();
        body["kind"] = key.kind.as_str().into();
        body["metadata"] = metadata;
        self.objects.insert(key.clone(), body);
        self.expired.remove(key);
    }
}

fn api_version(kind: Kind) -> String {
    let version = kind.versions()[0];
    if kind.group().is_empty() { version.to_owned() } else { format!("{}/{version}", kind.group()) }
}

fn apply(body: &Value) -> Event {
    Event::Apply(Object::new(body.clone()).expect("generated objects have kind and name"))
}

fn key_of(event: &Event) -> Option<ObjectKey> {
    match event {
        Event::Apply(object) => Some(object.key.clone()),
        Event::Delete(key) => Some(key.clone()),
        Event::Synced(_)
        | Event::Unreadable { .. }
        | Event::Expired { .. }
        | Event::Connect { .. }
        | Event::Disconnect { .. }
        | Event::Rejected { .. } => None,
    }
}

/// Every object that can exist.
fn keys() -> Vec<ObjectKey> {
    let mut keys: Vec<ObjectKey> = CLASSES.iter().map(|name| ObjectKey::new(Kind::GatewayClass, "", name)).collect();
    for namespace in NAMESPACES {
        keys.push(ObjectKey::new(Kind::Namespace, "", namespace));
        let mut all =
            |kind, names: &[&str]| keys.extend(names.iter().map(|name| ObjectKey::new(kind, namespace, name)));
        all(Kind::Gateway, &GATEWAYS);
        all(Kind::HttpRoute, &ROUTES);
        all(Kind::GrpcRoute, &GRPC_ROUTES);
        all(Kind::TlsRoute, &STREAMS);
        all(Kind::TcpRoute, &STREAMS);
        all(Kind::UdpRoute, &STREAMS);
        all(Kind::Service, &SERVICES);
        all(Kind::EndpointSlice, &SLICES);
        all(Kind::ReferenceGrant, &GRANTS);
        all(Kind::BackendTlsPolicy, &POLICIES);
        all(Kind::Secret, &SECRETS);
        all(Kind::ConfigMap, &BUNDLES);
    }
    keys.push(ObjectKey::new(Kind::Namespace, "", "annex"));
    keys.extend(SECRETS.map(|name| ObjectKey::new(Kind::Secret, "annex", name)));
    for namespace in SET_NAMESPACES {
        keys.extend(SETS.map(|name| ObjectKey::new(Kind::ListenerSet, namespace, name)));
    }
    keys
}

/// The keys of objects that are drawn apart.
fn keys_apart() -> Vec<ObjectKey> {
    let nodes = nodes::NODES.map(|name| ObjectKey::new(Kind::Node, "", name));
    let reports = NAMESPACES.iter().flat_map(|at| REPORTS.map(|name| ObjectKey::new(Kind::EndpointReport, at, name)));
    nodes.into_iter().chain(reports).collect()
}

fn class(random: &mut Random, key: &ObjectKey) -> Value {
    let foreign = key.name.name() == "foreign" || random.chance(3);
    let controller = if foreign { "example.com/other" } else { CONTROLLER_NAME };
    json!({"spec": {"controllerName": controller}})
}

fn gateway(random: &mut Random) -> Value {
    let first = random.below(HOSTS.len());
    let listeners: Vec<Value> = (0..1 + random.below(4)).map(|index| listener(random, first, index)).collect();
    let class = if random.chance(90) { "ours" } else { *random.pick(&["also-ours", "foreign", "nowhere"]) };
    let mut spec = json!({"gatewayClassName": class, "listeners": listeners});
    if random.chance(75) {
        spec["allowedListeners"] = json!({"namespaces": match random.below(6) {
            0 => json!({"from": "Same"}),
            1 => json!({"from": "Selector", "selector": {"matchLabels": {"team": "x"}}}),
            2 => json!({"from": "None"}),
            _ => json!({"from": "All"}),
        }});
    }
    if random.chance(25) {
        // Different ones, as an API server wants it; what can be used of them is for the controller to say.
        let (first, second) = (random.below(ADDRESSES.len()), 1 + random.below(ADDRESSES.len() - 1));
        let addresses = (0..1 + random.below(2)).map(|index| ADDRESSES[(first + index * second) % ADDRESSES.len()]);
        spec["addresses"] = addresses.map(address).collect();
    }
    if random.chance(25) {
        spec["tls"] = json!({"frontend": frontend(random)});
    }
    if random.chance(20) {
        spec["tls"]["backend"] = json!({"clientCertificateRef": certificate(random)});
    }
    json!({"spec": spec})
}

/// How clients are validated.
fn frontend(random: &mut Random) -> Value {
    let mut own = |chance: usize| {
        if !random.chance(chance) {
            return json!({});
        }
        let authorities: Vec<Value> = (0..1 + random.below(2)).map(|_| authority(random)).collect();
        let mode = random.pick(&["AllowValidOnly", "AllowValidOnly", "AllowInsecureFallback"]);
        json!({"validation": {"caCertificateRefs": authorities, "mode": mode}})
    };
    let default = own(70);
    let port = json!({"port": 8443, "tls": own(70)});
    if random.chance(40) { json!({"default": default, "perPort": [port]}) } else { json!({"default": default}) }
}

fn authority(random: &mut Random) -> Value {
    let kind = if random.chance(90) { "ConfigMap" } else { "Secret" };
    let mut authority = json!({"group": "", "kind": kind, "name": random.pick(&BUNDLES)});
    if random.chance(25) {
        authority["namespace"] = json!(random.pick(&NAMESPACES));
    }
    authority
}

/// `type value`, or a type alone.
fn address(text: &str) -> Value {
    match text.split_once(' ') {
        Some((kind, value)) => json!({"type": kind, "value": value}),
        None => json!({"type": text}),
    }
}

/// Listeners for some Gateway; most want what one of its own or of another ListenerSet wants too.
fn listener_set(random: &mut Random) -> Value {
    let first = random.below(HOSTS.len());
    let listeners: Vec<Value> = (0..1 + random.below(3)).map(|index| listener(random, first, index)).collect();
    let mut gateway = json!({"name": random.pick(&GATEWAYS)});
    if random.chance(70) {
        gateway["namespace"] = json!(random.pick(&NAMESPACES));
    }
    if random.chance(3) {
        gateway["kind"] = "ListenerSet".into();
    }
    json!({"spec": {"parentRef": gateway, "listeners": listeners}})
}

fn listener(random: &mut Random, first: usize, index: usize) -> Value {
    // Names are l0, l1, ...: sectionName hits and misses. Ports and hostnames collide now and then.
    let mut listener = json!({
        "name": format!("l{index}"),
        "port": random.pick(&[80, 80, 81]),
        "protocol": if random.chance(97) { "HTTP" } else { "EXAMPLE" },
    });
    if random.chance(30) {
        listener["protocol"] = "HTTPS".into();
        listener["port"] = json!(random.pick(&[443, 443, 443, 8443, 80]));
        let certificates: Vec<Value> = (0..1 + random.below(2)).map(|_| certificate(random)).collect();
        listener["tls"] = json!({"certificateRefs": certificates});
    }
    if random.chance(35) {
        streams::make_listener(&mut listener, random, index);
    }
    let hostname = if random.chance(10) { *random.pick(&HOSTS) } else { HOSTS[(first + index) % HOSTS.len()] };
    if !hostname.is_empty() && matches!(listener["protocol"].as_str(), Some("HTTP" | "HTTPS" | "TLS")) {
        listener["hostname"] = hostname.into();
    }
    let namespaces = match random.below(6) {
        0 => json!({"from": "Same"}),
        1 => json!({"from": "Selector", "selector": {"matchLabels": {"team": "x"}}}),
        2 => json!({"from": "Selector", "selector": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop", "infra"]}]}}),
        _ => json!({"from": "All"}),
    };
    listener["allowedRoutes"] = json!({"namespaces": namespaces});
    if random.chance(15) {
        listener["allowedRoutes"]["kinds"] = match random.below(2) {
            0 => json!([{"kind": random.pick(&["HTTPRoute", "GRPCRoute"])}, {"kind": "TCPRoute"}]),
            _ => json!([{"kind": "TCPRoute"}]),
        };
    }
    listener
}

fn certificate(random: &mut Random) -> Value {
    let mut certificate = json!({"name": random.pick(&SECRETS)});
    if random.chance(25) {
        certificate["namespace"] = json!(random.pick(&NAMESPACES));
    }
    if random.chance(3) {
        certificate["kind"] = "ConfigMap".into();
    }
    certificate
}

/// A Secret as a source sends it: with a verdict in place of its material.
fn secret(random: &mut Random) -> Value {
    if random.chance(10) {
        return json!({"type": "Opaque"});
    }
    if random.chance(10) {
        return json!({"type": "kubernetes.io/tls", "material": {"problem": "tls.key is encrypted"}});
    }
    let names: Vec<&str> = (0..1 + random.below(2)).map(|_| HOSTS[1 + random.below(HOSTS.len() - 1)]).collect();
    let certificate = json!({
        "digest": format!("digest-{}", random.below(4)), "names": names, "notAfter": 1_900_000_000 + random.below(3),
    });
    json!({"type": "kubernetes.io/tls", "material": {"certificate": certificate}})
}

fn route(random: &mut Random, rule: fn(&mut Random) -> Value) -> Value {
    let parents: Vec<Value> = (0..1 + random.below(2)).map(|_| parent(random)).collect();
    let rules: Vec<Value> = (0..1 + random.below(3)).map(|_| rule(random)).collect();
    let mut spec = json!({"parentRefs": parents, "rules": rules});
    let hostnames: Vec<&str> =
        (0..random.below(3)).map(|_| *random.pick(&HOSTS)).filter(|host| !host.is_empty()).collect();
    if !hostnames.is_empty() {
        spec["hostnames"] = json!(hostnames);
    }
    json!({"spec": spec})
}

fn parent(random: &mut Random) -> Value {
    let mut parent = json!({"name": random.pick(&GATEWAYS)});
    let mut namespaces = NAMESPACES;
    if random.chance(30) {
        parent = json!({"kind": "ListenerSet", "name": random.pick(&SETS)});
        namespaces = SET_NAMESPACES;
    }
    if random.chance(60) {
        parent["namespace"] = json!(random.pick(&namespaces));
    }
    if random.chance(25) {
        parent["sectionName"] = format!("l{}", random.below(4)).into();
    }
    if random.chance(10) {
        parent["port"] = json!(random.pick(&[80, 81, 82]));
    }
    if random.chance(5) {
        parent["group"] = "".into();
        parent["kind"] = "Service".into();
    }
    parent
}

fn rule(random: &mut Random) -> Value {
    let mut rule = json!({});
    if random.chance(85) {
        rule["matches"] = (0..1 + random.below(2)).map(|_| matcher(random)).collect();
    }
    if random.chance(10) {
        rule["filters"] = json!([{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]);
        return rule;
    }
    if random.chance(20) {
        let value = format!("v{}", random.below(3));
        let set = json!({"set": [{"name": "x-step", "value": value}]});
        rule["filters"] = json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": set}]);
    }
    rule["backendRefs"] = (0..1 + random.below(2)).map(|_| backend(random)).collect();
    if random.chance(5) {
        rule["backendRefs"] = json!([]);
    }
    if random.chance(10) {
        rule["retry"] = json!({"attempts": random.below(3), "codes": [503]});
    }
    if random.chance(10) {
        let origin = *random.pick(&["*", "https://*.example.com", "http://example.com"]);
        let cors = json!({"allowOrigins": [origin], "allowCredentials": random.chance(50)});
        add_filter(&mut rule, json!({"type": "CORS", "cors": cors}));
    }
    extend(random, &mut rule);
    rule
}

/// A rule by methods of gRPC.
fn grpc_rule(random: &mut Random) -> Value {
    let mut rule = json!({"backendRefs": (0..1 + random.below(2)).map(|_| backend(random)).collect::<Vec<_>>()});
    if random.chance(85) {
        let mut method = json!({"service": random.pick(&["shop.Cart", "shop.Web"])});
        if random.chance(60) {
            method["method"] = json!(random.pick(&["Add", "Get"]));
        }
        if random.chance(10) {
            method = json!({"type": "RegularExpression", "method": "Get.*"});
        }
        rule["matches"] = json!([{"method": method}]);
    }
    extend(random, &mut rule);
    rule
}

/// What rules of HTTP and of gRPC can have besides: mirrors, sessions, filters that nobody can apply.
fn extend(random: &mut Random, rule: &mut Value) {
    if random.chance(15) {
        let mut mirror = json!({"backendRef": backend(random), "percent": random.pick(&[0, 50, 100])});
        // A mirror is a reference without a weight.
        mirror["backendRef"].as_object_mut().map(|reference| reference.remove("weight"));
        add_filter(rule, json!({"type": "RequestMirror", "requestMirror": mirror}));
    }
    if random.chance(10) {
        rule["sessionPersistence"] = json!({"type": random.pick(&["Cookie", "Header"])});
    }
    if random.chance(5) {
        let reference = json!({"group": "example.com", "kind": "RateLimit", "name": "slow"});
        add_filter(rule, json!({"type": "ExtensionRef", "extensionRef": reference}));
    }
}

fn add_filter(rule: &mut Value, filter: Value) {
    match rule["filters"].as_array_mut() {
        Some(filters) => filters.push(filter),
        None => rule["filters"] = json!([filter]),
    }
}

fn matcher(random: &mut Random) -> Value {
    let kind = *random.pick(&["PathPrefix", "PathPrefix", "Exact"]);
    let mut matcher = json!({"path": {"type": kind, "value": random.pick(&PATHS)}});
    if random.chance(20) {
        matcher["method"] = json!(random.pick(&["GET", "POST"]));
    }
    if random.chance(20) {
        matcher["headers"] = json!([{"name": "x-user", "value": random.pick(&["one", "two"])}]);
    }
    matcher
}

fn backend(random: &mut Random) -> Value {
    let mut backend = json!({"name": random.pick(&SERVICES), "port": random.pick(&[80, 80, 80, 80, 80, 81, 99])});
    if random.chance(25) {
        backend["namespace"] = json!(random.pick(&NAMESPACES));
    }
    if random.chance(30) {
        backend["weight"] = json!(random.below(4));
    }
    if random.chance(5) {
        backend["kind"] = "Bucket".into();
        backend["group"] = "example.com".into();
    }
    backend
}

fn grant(random: &mut Random) -> Value {
    let certificates = random.chance(30);
    let (to_kind, names): (&str, &[&str]) = match (certificates, random.chance(60)) {
        (true, true) => ("Secret", &SECRETS),
        (true, false) => ("ConfigMap", &BUNDLES),
        (false, _) => ("Service", &SERVICES),
    };
    let mut to = json!({"group": "", "kind": to_kind});
    if random.chance(50) {
        to["name"] = json!(random.pick(names));
    }
    let kind = match (random.chance(85), certificates) {
        (true, true) => *random.pick(&["Gateway", "ListenerSet"]),
        (true, false) => *random.pick(&["HTTPRoute", "HTTPRoute", "TLSRoute", "TCPRoute", "UDPRoute"]),
        (false, _) => "GRPCRoute",
    };
    let from = json!({"group": "gateway.networking.k8s.io", "kind": kind, "namespace": random.pick(&NAMESPACES)});
    json!({"spec": {"from": [from], "to": [to]}})
}

fn service(random: &mut Random) -> Value {
    if random.chance(8) {
        return json!({"spec": {"type": "ExternalName", "externalName": "elsewhere.example.com"}});
    }
    let first = *random.pick(&["http", "http", "http", "web"]);
    let mut ports = vec![json!({"name": first, "port": 80, "targetPort": 8080})];
    if random.chance(50) {
        ports.push(json!({"name": "extra", "port": 81, "targetPort": 8081}));
    }
    if random.chance(50) {
        ports.push(json!({"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353}));
    }
    if random.chance(20) {
        ports[0]["appProtocol"] = json!(random.pick(&["kubernetes.io/h2c", "kubernetes.io/ws", "http"]));
    }
    json!({"spec": {"ports": ports}})
}

fn slice(random: &mut Random) -> Value {
    let endpoints: Vec<Value> = (0..1 + random.below(4))
        .map(|_| {
            let mut endpoint = json!({"addresses": [format!("10.0.0.{}", 1 + random.below(6))]});
            if random.chance(50) {
                endpoint["conditions"] = match random.below(3) {
                    0 => json!({"ready": true}),
                    1 => json!({"ready": false, "serving": true, "terminating": true}),
                    _ => json!({"ready": false}),
                };
            }
            if random.chance(50) {
                endpoint["zone"] = json!(random.pick(&["z1", "z2"]));
            }
            endpoint
        })
        .collect();
    let mut ports =
        vec![json!({"name": random.pick(&["http", "http", "http", "web"]), "port": 8080, "protocol": "TCP"})];
    if random.chance(50) {
        ports.push(json!({"name": "extra", "port": 8081, "protocol": "TCP"}));
    }
    if random.chance(50) {
        ports.push(json!({"name": "dns", "port": 5353, "protocol": "UDP"}));
    }
    json!({"addressType": "IPv4", "endpoints": endpoints, "ports": ports})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_history() {
        let history = |seed| {
            let mut world = World::new(seed);
            let mut events = world.list();
            (0..50).for_each(|_| events.extend(world.step()));
            events
        };
        assert_eq!(history(7), history(7));
        assert_ne!(history(7), history(8));
    }

    #[test]
    fn a_world_has_thirty_objects_and_more() {
        for seed in 0..50 {
            assert!(World::new(seed).len() >= 30, "seed {seed}");
        }
    }
}
