use crate::fixture::{accepts, facts, refuses, rows, with};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::{AllowedNamespaces, Fact, ListenerSetFact};

fn base() -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet",
        "metadata": {"name": "more", "namespace": "shop"},
        "spec": {"parentRef": {"name": "edge"}, "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}})
}

fn set(body: Value) -> Arc<ListenerSetFact> {
    match &facts(body)[0] {
        Fact::ListenerSet(set) => set.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_listener_set_has_the_defaults_of_an_api_server() {
    let own = set(base());
    assert_eq!(
        (own.name.as_str(), own.gateway.as_str(), own.generation, own.created),
        ("shop/more", "shop/edge", 1, 0)
    );
    let listener = &own.listeners[0];
    assert_eq!((&*listener.name, listener.port, &listener.namespaces), ("http", 80, &AllowedNamespaces::Same));
    let certificate =
        json!({"name": "s", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "c"}]}});
    let body = with(base(), "/spec/parentRef/namespace", json!("infra"));
    let crossing = set(with(body, "/spec/listeners/1", certificate));
    assert_eq!(crossing.gateway.as_str(), "infra/edge");
    let tls = crossing.listeners[1].tls.as_ref().unwrap();
    assert_eq!(tls.certificates[0].name.as_str(), "shop/c", "what it names stands in its own namespace");
}

#[test]
fn what_an_api_server_accepts_is_accepted() {
    accepts(
        &base(),
        &[
            ("/spec/parentRef", json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "a"})),
            ("/spec/listeners/1", json!({"name": "t", "port": 9000, "protocol": "TCP"})),
            ("/metadata/creationTimestamp", json!("2026-01-01T00:00:00Z")),
        ],
    );
}

#[test]
fn every_rule_of_a_listener_set_can_be_broken() {
    refuses(
        &base(),
        true,
        &[
            ("/spec/listeners", json!(null), "spec.listeners", "is required"),
            ("/spec/listeners", json!([]), "spec.listeners", "must not be empty"),
            ("/spec/listeners/0/port", json!(null), "spec.listeners[0].port", "is required"),
            ("/spec/listeners/0/port", json!(0), "spec.listeners[0].port", "from 1 to 65535"),
            ("/spec/listeners/0/tls", json!({}), "spec.listeners[0].tls", "has no TLS; remove it"),
            (
                "/spec/listeners/1",
                json!({"name": "http", "port": 81, "protocol": "HTTP"}),
                "spec.listeners[1].name",
                "is there twice",
            ),
            (
                "/spec/listeners/1",
                json!({"name": "b", "port": 80, "protocol": "HTTP"}),
                "spec.listeners[1]",
                "the same port, protocol",
            ),
            ("/spec/parentRef/namespace", json!("A"), "spec.parentRef.namespace", "is not the name of a namespace"),
        ],
    );
}

#[test]
fn one_that_names_no_gateway_is_only_spoken_about() {
    let table = [
        ("/spec", json!(null), "spec", "is required"),
        ("/spec/parentRef", json!(null), "spec.parentRef", "is required"),
        ("/spec/parentRef/name", json!(null), "spec.parentRef.name", "is required"),
        ("/spec/parentRef/kind", json!("Service"), "spec.parentRef.kind", "is no parent of a ListenerSet"),
        ("/spec/parentRef/group", json!("example.com"), "spec.parentRef.kind", "name a Gateway"),
    ];
    refuses(&base(), false, &table);
    for (pointer, value, ..) in table {
        let facts = facts(with(base(), pointer, value));
        assert_eq!(facts.len(), rows(&facts).len(), "{pointer}");
    }
}
