use crate::fixture::{accepts, carried, facts, refuses, rows, with};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::{
    AllowedNamespaces, CertificateRef, Fact, GatewayFact, GroupKind, Kind, LabelExpression, NamespacedName, Protocol,
    Reason,
};

fn base() -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "edge", "namespace": "shop"},
        "spec": {"gatewayClassName": "public", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}})
}

fn gateway(body: Value) -> Arc<GatewayFact> {
    match &facts(body)[0] {
        Fact::Gateway(gateway) => gateway.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_gateway_has_the_defaults_of_an_api_server() {
    let body = with(base(), "/spec/addresses", json!([{"value": "10.0.0.1"}, {}]));
    let body = with(body, "/spec/listeners/0/allowedRoutes", json!({"kinds": [{"kind": "HTTPRoute"}]}));
    let gateway = gateway(body);
    assert_eq!(
        (gateway.name.as_str(), &*gateway.class, gateway.generation, gateway.created),
        ("shop/edge", "public", 1, 0)
    );
    let listener = &gateway.listeners[0];
    assert_eq!(
        (&listener.namespaces, &listener.protocol, listener.port),
        (&AllowedNamespaces::Same, &Protocol::Http, 80)
    );
    assert!(listener.hostname.is_any());
    assert_eq!(listener.kinds, [GroupKind::new("gateway.networking.k8s.io", "HTTPRoute")]);
    let addresses: Vec<_> = gateway.addresses.iter().map(|a| (&*a.kind, a.value.as_deref())).collect();
    assert_eq!(addresses, [("IPAddress", Some("10.0.0.1")), ("IPAddress", None)]);
    assert_eq!((gateway.findings.len(), &gateway.parameters), (0, &None));
}

#[test]
fn metadata_is_read() {
    let body = with(base(), "/metadata/generation", json!(4));
    let gateway = gateway(with(body, "/metadata/creationTimestamp", json!("1970-01-02T00:00:01Z")));
    assert_eq!((gateway.generation, gateway.created), (4, 86401));
    let odd = facts(with(base(), "/metadata/creationTimestamp", json!("yesterday")));
    assert_eq!((carried(&odd).len(), &*rows(&odd)[0].field), (0, "metadata.creationTimestamp"));
}

#[test]
fn namespaces_and_selectors_say_whose_routes_may_attach() {
    let allowed = |namespaces: Value| {
        gateway(with(base(), "/spec/listeners/0/allowedRoutes/namespaces", namespaces)).listeners[0].namespaces.clone()
    };
    assert_eq!(allowed(json!({"from": "All"})), AllowedNamespaces::All);
    assert_eq!(allowed(json!({"from": "Same"})), AllowedNamespaces::Same);
    assert_eq!(allowed(json!({})), AllowedNamespaces::Same);
    let found =
        allowed(json!({"from": "Selector", "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}));
    let AllowedNamespaces::Selector(selector) = found else { panic!("{found:?}") };
    assert_eq!(selector.expressions, [LabelExpression::Exists("a".into())]);
}

#[test]
fn nobody_adds_listeners_unless_the_gateway_says_so() {
    let allowed = |field: Value| gateway(with(base(), "/spec/allowedListeners", field)).allowed_sets.clone();
    let from = |from: &str| allowed(json!({"namespaces": {"from": from, "selector": {"matchLabels": {"a": "b"}}}}));
    assert_eq!(gateway(base()).allowed_sets, AllowedNamespaces::None);
    assert_eq!((allowed(json!({})), from("None")), (AllowedNamespaces::None, AllowedNamespaces::None));
    assert_eq!((from("Same"), from("All")), (AllowedNamespaces::Same, AllowedNamespaces::All));
    assert!(matches!(from("Selector"), AllowedNamespaces::Selector(_)));
}

#[test]
fn a_selector_that_cannot_be_evaluated_admits_nobody_and_spares_the_other_listeners() {
    for selector in [json!(null), json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]})] {
        let namespaces = json!({"from": "Selector", "selector": selector});
        let facts = facts(with(base(), "/spec/listeners/0/allowedRoutes/namespaces", namespaces));
        let Fact::Gateway(gateway) = &facts[0] else { panic!("{facts:?}") };
        assert_eq!((&gateway.listeners[0].namespaces, gateway.findings.len()), (&AllowedNamespaces::None, 0));
        let said = rows(&facts);
        assert!(said[0].field.starts_with("spec.listeners[0].allowedRoutes.namespaces.selector"), "{said:?}");
        assert_eq!(said[0].reason, Reason::UnsupportedValue);
    }
}

#[test]
fn what_an_api_server_accepts_is_accepted() {
    let certificates = json!({"certificateRefs": [{"name": "cert"}]});
    accepts(
        &base(),
        &[
            ("/apiVersion", json!("gateway.networking.k8s.io/v1beta1")),
            ("/spec/listeners/0/protocol", json!("INVALID")),
            ("/spec/listeners/0/protocol", json!("example.com/quic")),
            ("/spec/listeners/0/hostname", json!("*.example.com")),
            ("/spec/listeners/0", json!({"name": "s", "port": 443, "protocol": "HTTPS", "tls": certificates})),
            ("/spec/listeners/0", json!({"name": "s", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}})),
            ("/spec/listeners/0", json!({"name": "t", "port": 9000, "protocol": "TCP"})),
            ("/spec/listeners/1", json!({"name": "b", "port": 80, "protocol": "HTTP", "hostname": "b.example.com"})),
            ("/spec/listeners/1", json!({"name": "b", "port": 80, "protocol": "TCP"})),
            ("/spec/listeners/0/allowedRoutes/kinds", json!([{"kind": "InvalidRoute"}])),
            (
                "/spec/addresses",
                json!([{"type": "Hostname", "value": "a.example.com"}, {"type": "test/fake", "value": "?"}]),
            ),
            ("/spec/infrastructure/labels", json!({"a.b/c": "d"})),
            ("/spec/allowedListeners", json!({"namespaces": {"from": "None"}})),
            ("/spec/allowedListeners", json!({"namespaces": {"from": "All"}})),
            ("/spec/defaultScope", json!("None")),
        ],
    );
    let unknown = gateway(with(base(), "/spec/listeners/0/protocol", json!("INVALID")));
    assert_eq!(unknown.listeners[0].protocol, Protocol::Other("INVALID".into()));
    let parameters = json!({"group": "a.b", "kind": "C", "name": "d"});
    let with_parameters = gateway(with(base(), "/spec/infrastructure/parametersRef", parameters));
    assert_eq!(with_parameters.parameters, Some(GroupKind::new("a.b", "C")));
}

#[test]
fn every_rule_of_a_listener_can_be_broken() {
    let first = "/spec/listeners/0";
    let https = json!({"name": "s", "port": 443, "protocol": "HTTPS", "tls": {"mode": "Passthrough"}});
    let bare = json!({"name": "s", "port": 443, "protocol": "HTTPS", "tls": {}});
    let udp = json!({"name": "u", "port": 53, "protocol": "UDP", "hostname": "a.b"});
    refuses(
        &base(),
        true,
        &[
            ("/spec/listeners", json!(null), "spec.listeners", "is required"),
            ("/spec/listeners", json!([]), "spec.listeners", "must not be empty"),
            ("/spec/listeners", json!({}), "spec.listeners", "must be a list, not an object"),
            ("/spec/listeners/0/name", json!(null), "spec.listeners[0].name", "is required"),
            ("/spec/listeners/0/name", json!("HTTP"), "spec.listeners[0].name", "is not a section name"),
            ("/spec/listeners/0/port", json!(null), "spec.listeners[0].port", "is required"),
            ("/spec/listeners/0/port", json!(65536), "spec.listeners[0].port", "from 1 to 65535"),
            ("/spec/listeners/0/port", json!(80.5), "spec.listeners[0].port", "must be a whole number, not a fraction"),
            ("/spec/listeners/0/protocol", json!(null), "spec.listeners[0].protocol", "is required"),
            ("/spec/listeners/0/protocol", json!("H T"), "spec.listeners[0].protocol", "use HTTP"),
            ("/spec/listeners/0/hostname", json!("a.*.b"), "spec.listeners[0].hostname", "whole first label"),
            ("/spec/listeners/0/hostname", json!(""), "spec.listeners[0].hostname", "must not be empty"),
            ("/spec/listeners/0/hostname", json!("10.0.0.1"), "spec.listeners[0].hostname", "is an IP address"),
            ("/spec/listeners/0/tls", json!({}), "spec.listeners[0].tls", "has no TLS; remove it"),
            (first, https, "spec.listeners[0].tls.mode", "must be Terminate"),
            (first, bare, "spec.listeners[0].tls.certificateRefs", "needs a certificate"),
            (first, json!({"name": "t", "port": 1, "protocol": "TLS"}), "spec.listeners[0].tls", "is required"),
            (first, udp, "spec.listeners[0].hostname", "cannot have a hostname"),
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
            (
                "/spec/listeners/0/allowedRoutes/namespaces/from",
                json!("None"),
                "spec.listeners[0].allowedRoutes.namespaces.from",
                "use one of them",
            ),
            (
                "/spec/listeners/0/allowedRoutes/kinds",
                json!([{}]),
                "spec.listeners[0].allowedRoutes.kinds[0].kind",
                "is required",
            ),
            (
                "/spec/listeners/0/allowedRoutes/kinds",
                json!(vec![json!({"kind": "A"}); 9]),
                "spec.listeners[0].allowedRoutes.kinds",
                "8 are allowed",
            ),
            (
                "/spec/listeners",
                json!(vec![json!({"name": "a", "port": 1, "protocol": "TCP"}); 65]),
                "spec.listeners",
                "64 are allowed",
            ),
        ],
    );
}

#[test]
fn every_other_rule_of_a_gateway_can_be_broken() {
    let many: serde_json::Map<_, _> = (0..9).map(|n| (format!("k{n}"), json!("v"))).collect();
    refuses(
        &base(),
        true,
        &[
            ("/spec", json!(null), "spec", "is required"),
            ("/spec/gatewayClassName", json!(null), "spec.gatewayClassName", "is required"),
            ("/spec/gatewayClassName", json!(""), "spec.gatewayClassName", "must not be empty"),
            (
                "/spec/addresses",
                json!([{"value": "10.0.0.1"}, {"value": "10.0.0.1"}]),
                "spec.addresses[1]",
                "is there twice",
            ),
            ("/spec/addresses", json!([{"value": "10.0.0.1:80"}]), "spec.addresses[0].value", "is no IP address"),
            (
                "/spec/addresses",
                json!([{"type": "Hostname", "value": "*a"}]),
                "spec.addresses[0].value",
                "is not a hostname",
            ),
            ("/spec/addresses", json!([{"type": "IP"}]), "spec.addresses[0].type", "use IPAddress"),
            ("/spec/infrastructure/labels", json!({"-a": "b"}), "spec.infrastructure.labels[-a]", "is not a label key"),
            (
                "/spec/infrastructure/labels",
                json!({"a": "b c"}),
                "spec.infrastructure.labels[a]",
                "is not a label value",
            ),
            ("/spec/infrastructure/annotations", json!(many), "spec.infrastructure.annotations", "8 are allowed"),
            (
                "/spec/infrastructure/parametersRef",
                json!({"kind": "C"}),
                "spec.infrastructure.parametersRef.group",
                "is required",
            ),
            (
                "/spec/allowedListeners/namespaces/from",
                json!("Some"),
                "spec.allowedListeners.namespaces.from",
                "use one of them",
            ),
            ("/metadata/namespace", json!("a.b"), "metadata.namespace", "is not the name of a namespace"),
        ],
    );
}

#[test]
fn what_is_not_supported_but_opens_nothing_is_a_remark() {
    let table = [("/spec/defaultScope", json!("All"), "spec.defaultScope", "not supported")];
    refuses(&base(), false, &table);
    for (pointer, value, ..) in table {
        assert_eq!(gateway(with(base(), pointer, value)).findings, []);
    }
}

#[test]
fn clients_are_validated_by_port_or_by_default() {
    let authority = |name: &str| json!({"group": "", "kind": "ConfigMap", "name": name});
    let away = json!({"group": "a.b", "kind": "C", "name": "ca", "namespace": "other"});
    let validation = json!({"caCertificateRefs": [authority("ca"), away], "mode": "AllowInsecureFallback"});
    let tls = json!({"frontend": {
        "default": {"validation": {"caCertificateRefs": [authority("ca")]}},
        "perPort": [{"port": 8443, "tls": {"validation": validation}}, {"port": 9443, "tls": {}}],
    }});
    let frontend = gateway(with(base(), "/spec/tls", tls)).frontend.clone();
    let default = frontend.of_port(443).unwrap();
    assert_eq!((&*default.field, default.insecure), ("spec.tls.frontend.default.validation", false));
    assert_eq!((default.authorities.len(), default.authorities[0].name.as_str()), (1, "shop/ca"));
    let own = frontend.of_port(8443).unwrap();
    assert_eq!((&*own.field, own.insecure), ("spec.tls.frontend.perPort[0].tls.validation", true));
    assert_eq!(own.authorities[1].name.as_str(), "other/ca");
    assert_eq!(own.authorities[1].group_kind, GroupKind::new("a.b", "C"));
    assert_eq!(frontend.of_port(9443), None, "an entry of a port takes the place of the default");
    assert_eq!(gateway(with(base(), "/spec/tls", json!({"frontend": {"default": {}}}))).frontend.of_port(443), None);
}

#[test]
fn every_rule_of_the_validation_of_clients_can_be_broken() {
    let validation = |references: Value| json!({"default": {"validation": {"caCertificateRefs": references}}});
    let authority = json!({"group": "", "kind": "ConfigMap", "name": "ca"});
    let lacks = |field: &str| {
        let mut authority = authority.clone();
        authority[field] = json!(null);
        validation(json!([authority]))
    };
    let at = "/spec/tls/frontend";
    let references = "spec.tls.frontend.default.validation.caCertificateRefs";
    let of = |field: &str| format!("{references}[0].{field}");
    let mode = json!({"default": {"validation": {"caCertificateRefs": [authority], "mode": "Any"}}});
    let ports = |ports: Value| json!({"default": {}, "perPort": ports});
    let many: Vec<Value> = (1..=65).map(|port| json!({"port": port, "tls": {}})).collect();
    refuses(
        &base(),
        true,
        &[
            ("/spec/tls", json!([]), "spec.tls", "must be an object"),
            (at, json!({}), "spec.tls.frontend.default", "is required"),
            (at, validation(json!(null)), references, "is required"),
            (at, validation(json!([])), references, "must not be empty"),
            (at, validation(json!(vec![authority.clone(); 9])), references, "8 are allowed"),
            (at, lacks("group"), &of("group"), "is required"),
            (at, lacks("kind"), &of("kind"), "is required"),
            (at, lacks("name"), &of("name"), "is required"),
            (at, mode, "spec.tls.frontend.default.validation.mode", "AllowInsecureFallback; use one of them"),
            (at, ports(json!([{"tls": {}}])), "spec.tls.frontend.perPort[0].port", "is required"),
            (at, ports(json!([{"port": 0, "tls": {}}])), "spec.tls.frontend.perPort[0].port", "from 1 to 65535"),
            (at, ports(json!([{"port": 443}])), "spec.tls.frontend.perPort[0].tls", "is required"),
            (
                at,
                ports(json!([{"port": 443, "tls": {}}, {"port": 443, "tls": {}}])),
                "spec.tls.frontend.perPort[1].port",
                "is there twice",
            ),
            (at, ports(json!(many)), "spec.tls.frontend.perPort", "64 are allowed"),
        ],
    );
}

#[test]
fn the_certificate_that_backends_are_shown_is_read() {
    let read = |reference: Value| match &facts(with(
        base(),
        "/spec/tls",
        json!({"backend": {"clientCertificateRef": reference}}),
    ))[0]
    {
        Fact::Gateway(gateway) => gateway.client.clone(),
        other => panic!("{other:?}"),
    };
    let secret = |namespace: &str| CertificateRef {
        group_kind: Kind::Secret.into(),
        name: NamespacedName::new(namespace, "cert"),
    };
    assert_eq!(read(json!({"name": "cert"})), Some(secret("shop")));
    assert_eq!(read(json!({"name": "cert", "namespace": "infra"})), Some(secret("infra")));
    assert_eq!(read(json!(null)), None);
    refuses(
        &with(base(), "/spec/tls", json!({"backend": {"clientCertificateRef": {"name": "cert"}}})),
        true,
        &[
            ("/spec/tls/backend", json!([]), "spec.tls.backend", "must be an object"),
            (
                "/spec/tls/backend/clientCertificateRef/name",
                json!(null),
                "spec.tls.backend.clientCertificateRef.name",
                "is required",
            ),
        ],
    );
}
