use crate::fixture::{accepts, facts, refuses, rows, with};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::{Fact, Reason, ServiceFact, TrafficDistribution, Transport, Upstream};

fn base() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"selector": {"app": "cart"}, "ports": [{"port": 80, "targetPort": 8080}]}})
}

fn external() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ext", "namespace": "shop"},
        "spec": {"type": "ExternalName", "externalName": "ext.example.com"}})
}

fn service(body: Value) -> Arc<ServiceFact> {
    match &facts(body)[0] {
        Fact::Service(service) => service.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_single_port_has_an_empty_name_and_tcp_and_http1() {
    let service = service(base());
    let [port] = &service.ports[..] else { panic!("{service:?}") };
    assert_eq!((&*port.name, port.port, port.transport, port.upstream), ("", 80, Transport::Tcp, Upstream::Http1));
    assert_eq!((service.name.as_str(), &service.external_name), ("shop/cart", &None));
}

#[test]
fn the_application_protocol_says_what_the_backend_speaks() {
    for (written, expected) in [
        ("kubernetes.io/h2c", Upstream::H2c),
        ("kubernetes.io/ws", Upstream::WebSocket),
        ("http", Upstream::Http1),
        ("kubernetes.io/wss", Upstream::Http1),
    ] {
        let service = service(with(base(), "/spec/ports/0/appProtocol", json!(written)));
        assert_eq!(service.ports[0].upstream, expected, "{written}");
    }
}

#[test]
fn an_external_name_needs_no_ports() {
    accepts(&external(), &[("/spec/ports", json!([{"port": 80}]))]);
    assert_eq!(service(external()).external_name, Some("ext.example.com".into()));
    let absolute = with(external(), "/spec/externalName", json!("Ext.example.com."));
    assert_eq!(service(absolute).external_name, Some("ext.example.com".into()));
    let changed = with(external(), "/spec/externalName", json!("other.example.com"));
    assert_ne!(service(changed), service(external()));
    // Without a name it is still not a Service with endpoints.
    assert_eq!(service(with(external(), "/spec/externalName", json!(null))).external_name, Some("".into()));
}

#[test]
fn an_external_name_of_another_type_means_nothing() {
    let body = with(base(), "/spec/externalName", json!("ext.example.com"));
    assert_eq!(service(body).external_name, None);
}

#[test]
fn what_an_api_server_accepts_is_accepted() {
    accepts(
        &base(),
        &[
            ("/spec/type", json!("LoadBalancer")),
            ("/spec/ports/0/protocol", json!("UDP")),
            ("/spec/ports/0/name", json!("http")),
            ("/spec/ports", json!([{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}])),
            ("/spec", json!({"clusterIP": "None"})),
            ("/spec/trafficDistribution", json!("PreferClose")),
            ("/spec/publishNotReadyAddresses", json!(true)),
            ("/spec/ports/0/targetPort", json!("web")),
        ],
    );
}

#[test]
fn a_port_that_is_wrong_is_left_out_and_the_others_are_used() {
    let two = with(base(), "/spec/ports", json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]));
    let table = [
        ("/spec/ports/1/port", json!(0), "spec.ports[1].port", "out of range"),
        ("/spec/ports/1/port", json!("81"), "spec.ports[1].port", "must be a whole number, not a string"),
        ("/spec/ports/1/port", json!(null), "spec.ports[1].port", "is required"),
        ("/spec/ports/1/port", json!(80), "spec.ports[1].port", "port 80 is there twice"),
        ("/spec/ports/1/protocol", json!("tcp"), "spec.ports[1].protocol", "use one of them"),
        ("/spec/ports/1/name", json!("a"), "spec.ports[1].name", "is there twice"),
        ("/spec/ports/1/name", json!(null), "spec.ports[1].name", "is required when"),
        ("/spec/ports/1/name", json!("B_"), "spec.ports[1].name", "is not a port name"),
    ];
    refuses(&two, false, &table);
    for (pointer, value, ..) in table {
        let service = service(with(two.clone(), pointer, value));
        assert_eq!(service.ports.iter().map(|port| &*port.name).collect::<Vec<_>>(), ["a"], "{pointer}");
    }
}

#[test]
fn every_other_rule_of_a_service_can_be_broken() {
    refuses(
        &base(),
        false,
        &[
            ("/spec", json!(null), "spec", "is required"),
            ("/spec/ports", json!([]), "spec.ports", "must not be empty"),
            ("/spec/ports", json!(80), "spec.ports", "must be a list"),
            ("/spec/type", json!("External"), "spec.type", "use one of them"),
            ("/metadata/name", json!("1cart"), "metadata.name", "with a letter first"),
        ],
    );
    refuses(
        &external(),
        false,
        &[
            ("/spec/externalName", json!(null), "spec.externalName", "is required"),
            ("/spec/externalName", json!("10.0.0.1"), "spec.externalName", "is an IP address"),
            ("/spec/externalName", json!("*.a"), "spec.externalName", "is not a hostname"),
        ],
    );
}

#[test]
fn the_field_says_which_endpoints_are_preferred_and_else_the_annotation() {
    const ANNOTATION: &str = "/metadata/annotations/networking.istio.io~1traffic-distribution";
    use TrafficDistribution::{Any, Host, Network, Zone};
    assert_eq!(service(base()).distribution, Any);
    let field = |value: &str| with(base(), "/spec/trafficDistribution", json!(value));
    let annotation = |value: &str| with(base(), ANNOTATION, json!(value));
    for (value, by_field, by_annotation) in [
        ("PreferClose", Zone, Zone),
        ("PreferSameZone", Zone, Zone),
        ("PreferSameNode", Host, Host),
        ("PreferNetwork", Any, Network),
        ("PreferSameNetwork", Any, Network),
        ("Any", Any, Any),
        ("prefer-close", Any, Any),
        ("", Any, Any),
    ] {
        assert_eq!(service(field(value)).distribution, by_field, "{value}");
        assert_eq!(service(annotation(value)).distribution, by_annotation, "{value}");
    }
    let both = with(annotation("PreferSameNode"), "/spec/trafficDistribution", json!("PreferClose"));
    assert_eq!(service(both).distribution, Zone, "the field wins");
}

#[test]
fn a_distribution_that_is_not_known_is_said_and_prefers_nothing() {
    const ANNOTATION: &str = "/metadata/annotations/networking.istio.io~1traffic-distribution";
    let field = facts(with(base(), "/spec/trafficDistribution", json!("PreferMoon")));
    let annotation = facts(with(base(), ANNOTATION, json!("PreferMoon")));
    for (facts, path) in [
        (field, "spec.trafficDistribution"),
        (annotation, "metadata.annotations[networking.istio.io/traffic-distribution]"),
    ] {
        let [finding] = &rows(&facts)[..] else { panic!("{facts:?}") };
        assert_eq!((&*finding.field, finding.reason), (path, Reason::UnsupportedValue));
        assert!(finding.message.contains("no endpoint is preferred; use one of them"), "{}", finding.message);
    }
}
