use crate::fixture::{accepts, facts, refuses, rows, with};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::EndpointState::{Draining, Ready};
use tidegate_model::{EndpointState, Fact, SliceFact, Transport};

fn base() -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "cart-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "cart"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "nodeName": "n1", "zone": "z1"}]})
}

fn slice(body: Value) -> Arc<SliceFact> {
    match &facts(body)[0] {
        Fact::Slice(slice) => slice.clone(),
        other => panic!("{other:?}"),
    }
}

fn members(body: Value) -> Vec<(String, EndpointState)> {
    slice(body).endpoints.iter().map(|endpoint| (endpoint.address.to_string(), endpoint.state)).collect()
}

fn with_conditions(conditions: Value) -> Value {
    with(base(), "/endpoints/0/conditions", conditions)
}

#[test]
fn a_slice_is_read_whole() {
    let slice = slice(base());
    assert_eq!(slice.name.as_str(), "shop/cart-1");
    assert_eq!(slice.service.as_ref().map(|name| name.as_str()), Some("shop/cart"));
    assert_eq!((&*slice.ports[0].name, slice.ports[0].port, slice.ports[0].transport), ("http", 8080, Transport::Tcp));
    let endpoint = &slice.endpoints[0];
    assert_eq!((endpoint.node.as_deref(), endpoint.zone.as_deref()), (Some("n1"), Some("z1")));
}

#[test]
fn conditions_that_are_not_given_count_as_the_api_says() {
    let table = [
        (json!(null), Some(Ready)),
        (json!({}), Some(Ready)),
        (json!({"ready": null, "serving": null, "terminating": null}), Some(Ready)),
        (json!({"ready": true}), Some(Ready)),
        (json!({"ready": false}), None),
        (json!({"ready": false, "serving": false}), None),
        (json!({"ready": false, "serving": true}), None),
        (json!({"ready": false, "serving": true, "terminating": true}), Some(Draining)),
        (json!({"ready": false, "serving": false, "terminating": true}), None),
        (json!({"ready": false, "terminating": true}), None),
        (json!({"terminating": true}), Some(Ready)),
        // An address that is published although it is not ready.
        (json!({"ready": true, "serving": false, "terminating": true}), Some(Ready)),
    ];
    for (conditions, expected) in table {
        let found = members(with_conditions(conditions.clone()));
        assert_eq!(found.first().map(|(_, state)| *state), expected, "{conditions}");
    }
}

#[test]
fn endpoints_that_are_not_ready_are_left_out_and_the_draining_stay() {
    let endpoints = json!([
        {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": false}},
        {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": true, "terminating": true}}]);
    let found = members(with(base(), "/endpoints", endpoints));
    assert_eq!(found, [("10.0.0.1".to_owned(), Ready), ("10.0.0.3".to_owned(), Draining)]);
}

#[test]
fn a_port_without_number_is_no_port_and_a_port_without_name_has_the_empty_name() {
    assert_eq!(slice(with(base(), "/ports", json!([]))).ports, []);
    assert_eq!(slice(with(base(), "/ports", json!(null))).ports, []);
    let ports = json!([{"name": "http", "port": null}, {"port": 8080, "protocol": "UDP"}]);
    let slice = slice(with(base(), "/ports", ports));
    let found: Vec<_> = slice.ports.iter().map(|port| (&*port.name, port.port, port.transport)).collect();
    assert_eq!(found, [("", 8080, Transport::Udp)]);
    accepts(&base(), &[("/ports/0/port", json!(null)), ("/ports/0/name", json!("")), ("/ports/0/name", json!(null))]);
}

#[test]
fn two_ports_of_a_slice_may_differ_from_the_target_of_the_service() {
    let slice = slice(with(base(), "/ports", json!([{"name": "a", "port": 8080}, {"name": "b", "port": 8081}])));
    assert_eq!(slice.ports.iter().map(|port| (&*port.name, port.port)).collect::<Vec<_>>(), [("a", 8080), ("b", 8081)]);
}

#[test]
fn an_endpoint_without_pod_and_node_is_a_member() {
    let body = with(base(), "/endpoints", json!([{"addresses": ["10.0.0.9"]}]));
    assert_eq!(members(body), [("10.0.0.9".to_owned(), Ready)]);
}

#[test]
fn only_the_label_associates_a_slice_with_a_service() {
    let owner = json!([{"apiVersion": "v1", "kind": "Service", "name": "cart", "uid": "1"}]);
    let body = with(with(base(), "/metadata/labels", json!(null)), "/metadata/ownerReferences", owner);
    let body = with(body, "/metadata/name", json!("cart"));
    assert_eq!(slice(body.clone()).service, None);
    let moved = with(body.clone(), "/metadata/labels", json!({"kubernetes.io/service-name": "other"}));
    assert_eq!(slice(moved).service.clone().unwrap().as_str(), "shop/other");
    let empty = with(body, "/metadata/labels", json!({"kubernetes.io/service-name": ""}));
    assert_eq!(slice(empty).service, None);
}

#[test]
fn addresses_are_in_canonical_text() {
    let body = with(base(), "/addressType", json!("IPv6"));
    let body = with(
        body,
        "/endpoints",
        json!([{"addresses": ["FD00:0:0::1"]}, {"addresses": ["fe80::1"]}, {"addresses": ["::1"]}]),
    );
    let found: Vec<_> = members(body).into_iter().map(|(address, _)| address).collect();
    assert_eq!(found, ["fd00::1", "fe80::1", "::1"]);
}

#[test]
fn addresses_of_this_machine_are_taken() {
    for address in ["127.0.0.1", "127.9.9.9", "169.254.0.1"] {
        assert_eq!(members(with(base(), "/endpoints/0/addresses/0", json!(address))).len(), 1, "{address}");
    }
}

#[test]
fn names_are_no_endpoints_and_this_is_said() {
    let body = with(base(), "/addressType", json!("FQDN"));
    let body = with(body, "/endpoints/0/addresses/0", json!("a.example.com"));
    assert_eq!(members(body.clone()), []);
    let said = rows(&facts(body));
    assert_eq!(said.iter().map(|f| &*f.field).collect::<Vec<_>>(), ["addressType"]);
}

#[test]
fn of_several_addresses_the_first_counts() {
    let body = with(base(), "/endpoints/0/addresses", json!(["10.0.0.1", "10.0.0.2"]));
    assert_eq!(members(body), [("10.0.0.1".to_owned(), Ready)]);
}

#[test]
fn a_slice_that_is_being_deleted_counts_until_it_is_gone() {
    let body = with(base(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let body = with(body, "/metadata/finalizers", json!(["a.b/c"]));
    assert_eq!(slice(body), slice(base()));
}

#[test]
fn what_is_wrong_is_left_out_and_the_rest_is_used() {
    let two = with(base(), "/endpoints/1", json!({"addresses": ["10.0.0.2"]}));
    let table = [
        ("/endpoints/1/addresses/0", json!("10.0.0"), "endpoints[1].addresses[0]", "is no IPv4 address"),
        ("/endpoints/1/addresses/0", json!("010.0.0.1"), "endpoints[1].addresses[0]", "is no IPv4 address"),
        ("/endpoints/1/addresses/0", json!("fd00::1"), "endpoints[1].addresses[0]", "correct it or addressType"),
        ("/endpoints/1/addresses/0", json!("backend"), "endpoints[1].addresses[0]", "is no IPv4 address"),
        ("/endpoints/1/addresses/0", json!(1), "endpoints[1].addresses[0]", "must be a string"),
        ("/endpoints/1/addresses", json!([null]), "endpoints[1].addresses[0]", "is required"),
        ("/endpoints/1/addresses", json!([]), "endpoints[1].addresses", "must hold an address"),
        ("/endpoints/1/addresses", json!(null), "endpoints[1].addresses", "is required"),
        ("/endpoints/1/conditions", json!({"ready": "yes"}), "endpoints[1].conditions.ready", "must be true or false"),
    ];
    refuses(&two, false, &table);
    for (pointer, value, ..) in table {
        assert_eq!(members(with(two.clone(), pointer, value)), [("10.0.0.1".to_owned(), Ready)], "{pointer}");
    }
}

#[test]
fn every_other_rule_of_a_slice_can_be_broken() {
    refuses(
        &base(),
        false,
        &[
            ("/addressType", json!(null), "addressType", "is required"),
            ("/addressType", json!("ipv4"), "addressType", "use one of them"),
            ("/ports/0/port", json!(70000), "ports[0].port", "out of range"),
            ("/ports/0/protocol", json!("ICMP"), "ports[0].protocol", "use one of them"),
            ("/ports/1", json!({"name": "http", "port": 1}), "ports[1].name", "the first counts"),
            ("/endpoints", json!(vec![json!({"addresses": ["10.0.0.1"]}); 1001]), "endpoints", "1000 are allowed"),
            ("/endpoints", json!({}), "endpoints", "must be a list"),
            (
                "/metadata/labels",
                json!({"kubernetes.io/service-name": 1}),
                "metadata.labels[kubernetes.io/service-name]",
                "must be a string",
            ),
        ],
    );
}
