//! A small shop, as manifests.

use serde_json::{Value, json};
use tidegate_engine::Config;
use tidegate_log::{Event, Object};
use tidegate_model::{Kind, ObjectKey};

const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

pub(crate) fn config(workers: usize) -> Config {
    Config { workers, ..Config::default() }
}

pub(crate) fn apply(body: Value) -> Event {
    Event::Apply(Object::new(body).expect("the test's objects have keys"))
}

pub(crate) fn delete(event: &Event) -> Event {
    match event {
        Event::Apply(object) => Event::Delete(object.key.clone()),
        other => panic!("{other:?} applies nothing"),
    }
}

pub(crate) fn synced() -> Vec<Event> {
    Kind::ALL.into_iter().map(Event::Synced).collect()
}

pub(crate) fn gateway_key() -> ObjectKey {
    ObjectKey::new(Kind::Gateway, "shop", "public")
}

pub(crate) fn class() -> Event {
    apply(json!({
        "apiVersion": GATEWAY_API, "kind": "GatewayClass", "metadata": { "name": "tidegate", "generation": 1 },
        "spec": { "controllerName": tidegate_model::CONTROLLER_NAME },
    }))
}

pub(crate) fn gateway() -> Event {
    apply(json!({
        "apiVersion": GATEWAY_API, "kind": "Gateway",
        "metadata": { "namespace": "shop", "name": "public", "generation": 1 },
        "spec": { "gatewayClassName": "tidegate",
                  "listeners": [{ "name": "http", "port": 8080, "protocol": "HTTP" }] },
    }))
}

pub(crate) fn route(name: &str, path: &str, service: &str) -> Event {
    apply(json!({
        "apiVersion": GATEWAY_API, "kind": "HTTPRoute",
        "metadata": { "namespace": "shop", "name": name, "generation": 1 },
        "spec": { "parentRefs": [{ "name": "public" }],
                  "rules": [{ "matches": [{ "path": { "type": "PathPrefix", "value": path } }],
                              "backendRefs": [{ "name": service, "port": 80 }] }] },
    }))
}

pub(crate) fn service(name: &str) -> Event {
    apply(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "shop", "name": name },
        "spec": { "ports": [{ "name": "http", "port": 80 }] },
    }))
}

pub(crate) fn slice(service: &str, addresses: &[&str]) -> Event {
    let endpoints: Vec<Value> = addresses.iter().map(|address| json!({ "addresses": [address] })).collect();
    apply(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "namespace": "shop", "name": format!("{service}-1"),
                      "labels": { "kubernetes.io/service-name": service } },
        "ports": [{ "name": "http", "port": 8000 }],
        "endpoints": endpoints,
    }))
}

pub(crate) fn grant(name: &str) -> Event {
    apply(json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": { "namespace": "shop", "name": name },
        "spec": { "from": [{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "web" }],
                  "to": [{ "group": "", "kind": "Service" }] },
    }))
}

/// The whole shop: two routes to two services.
pub(crate) fn shop() -> Vec<Event> {
    vec![
        class(),
        gateway(),
        route("cart", "/cart", "cart"),
        service("cart"),
        slice("cart", &["10.0.0.1", "10.0.0.2"]),
        route("web", "/", "web"),
        service("web"),
        slice("web", &["10.0.1.1"]),
    ]
}

/// The shop, then that it is all there is.
pub(crate) fn initial() -> Vec<Event> {
    shop().into_iter().chain(synced()).collect()
}

/// Batches of a life after [`initial`]: edits, removals, names used again, things that come to nothing.
pub(crate) fn life() -> Vec<Vec<Event>> {
    vec![
        vec![slice("cart", &["10.0.0.2", "10.0.0.3"])],
        vec![slice("cart", &[])],
        vec![route("cart", "/cart", "basket")],
        vec![service("basket"), slice("basket", &["10.0.2.1"])],
        shop(),
        vec![delete(&service("web")), delete(&route("web", "/", "web"))],
        vec![route("web", "/other", "cart"), grant("a"), grant("b")],
        vec![delete(&grant("a")), delete(&grant("never"))],
        vec![delete(&gateway())],
        vec![gateway(), delete(&class()), class()],
    ]
}
