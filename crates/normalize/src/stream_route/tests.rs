use crate::fixture::{accepts, facts, refuses};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::{Fact, Hostname, Reason, RouteFact, RouteKind};

fn base(kind: &str) -> Value {
    let mut spec =
        json!({"parentRefs": [{"name": "edge"}], "rules": [{"backendRefs": [{"name": "db", "port": 5432}]}]});
    if kind == "TLSRoute" {
        spec["hostnames"] = json!(["db.example.com"]);
    }
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
        "metadata": {"name": "db", "namespace": "shop"}, "spec": spec})
}

fn route(body: Value) -> Arc<RouteFact> {
    match &facts(body)[0] {
        Fact::Route(route) => route.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_route_of_each_kind_has_its_backends_and_neither_matches_nor_filters() {
    for (kind, hostnames) in [("TLSRoute", vec!["db.example.com"]), ("TCPRoute", vec![]), ("UDPRoute", vec![])] {
        let route = route(base(kind));
        assert_eq!(route.key.kind.kind().as_str(), kind);
        assert!(route.key.kind.is_stream());
        assert_eq!(route.hostnames.iter().map(Hostname::as_str).collect::<Vec<_>>(), hostnames);
        assert_eq!(route.findings, []);
        let rule = &route.rules[0];
        assert_eq!((rule.matches.len(), rule.filters.len()), (0, 0));
        let backend = &rule.backends[0];
        assert_eq!((backend.target.name.as_str(), backend.target.port, backend.weight), ("shop/db", Some(5432), 1));
    }
}

#[test]
fn the_older_versions_of_the_experimental_channel_are_read_alike() {
    for (kind, version) in [("TLSRoute", "v1alpha3"), ("TCPRoute", "v1alpha2"), ("UDPRoute", "v1alpha2")] {
        let mut older = base(kind);
        older["apiVersion"] = format!("gateway.networking.k8s.io/{version}").into();
        assert_eq!(route(older), route(base(kind)));
    }
}

#[test]
fn what_an_api_server_takes_is_taken() {
    for kind in ["TLSRoute", "TCPRoute", "UDPRoute"] {
        accepts(
            &base(kind),
            &[
                ("/spec/rules/0/name", json!("first")),
                ("/spec/rules/0/backendRefs/0/weight", json!(0)),
                ("/spec/rules/0/backendRefs/1", json!({"name": "db-2", "namespace": "other", "port": 1})),
                ("/spec/rules/0/backendRefs/0", json!({"group": "example.com", "kind": "Pool", "name": "a"})),
                ("/spec/parentRefs", json!(null)),
            ],
        );
    }
    let many: Vec<String> = (0..1024).map(|number| format!("h{number}.example.com")).collect();
    accepts(
        &base("TLSRoute"),
        &[("/spec/hostnames", json!(["*.example.com", "a.b"])), ("/spec/hostnames", json!(many))],
    );
}

#[test]
fn what_an_api_server_refuses_is_a_finding() {
    let rule = json!({"backendRefs": [{"name": "db", "port": 1}]});
    let backends = vec![json!({"name": "db", "port": 1}); 17];
    for kind in ["TLSRoute", "TCPRoute", "UDPRoute"] {
        refuses(
            &base(kind),
            true,
            &[
                ("/spec/rules", json!(null), "spec.rules", "required"),
                ("/spec/rules", json!([]), "spec.rules", "empty"),
                ("/spec/rules", json!([rule.clone(), rule.clone()]), "spec.rules", "1 are allowed"),
                ("/spec/rules/0/backendRefs", json!(null), "spec.rules[0].backendRefs", "required"),
                ("/spec/rules/0/backendRefs", json!([]), "spec.rules[0].backendRefs", "empty"),
                ("/spec/rules/0/backendRefs", json!(backends.clone()), "spec.rules[0].backendRefs", "16 are allowed"),
                ("/spec/rules/0/backendRefs/0/port", json!(null), "spec.rules[0].backendRefs[0].port", "Service"),
                ("/spec/rules/0/backendRefs/0/weight", json!(-1), "spec.rules[0].backendRefs[0].weight", "range"),
                ("/spec/rules/0/name", json!("A"), "spec.rules[0].name", "section name"),
            ],
        );
    }
    let many: Vec<String> = (0..=1024).map(|number| format!("h{number}.example.com")).collect();
    refuses(
        &base("TLSRoute"),
        true,
        &[
            ("/spec/hostnames", json!(null), "spec.hostnames", "required"),
            ("/spec/hostnames", json!([]), "spec.hostnames", "empty"),
            ("/spec/hostnames", json!(many), "spec.hostnames", "1024 are allowed"),
            ("/spec/hostnames/0", json!("10.0.0.1"), "spec.hostnames[0]", "IP address"),
            ("/spec/hostnames/0", json!("a_b.example"), "spec.hostnames[0]", "hostname"),
            ("/spec/hostnames/0", json!("a.*.example"), "spec.hostnames[0]", "hostname"),
            ("/spec/hostnames/0", json!("*"), "spec.hostnames[0]", "hostname"),
        ],
    );
}

#[test]
fn what_no_version_of_the_kind_has_is_remarked_upon_and_ignored() {
    let field = |pointer, field| (pointer, json!([]), field, "remove it");
    for kind in ["TCPRoute", "UDPRoute"] {
        refuses(&base(kind), false, &[field("/spec/hostnames", "spec.hostnames")]);
    }
    let in_rule = [
        field("/spec/rules/0/matches", "spec.rules[0].matches"),
        field("/spec/rules/0/filters", "spec.rules[0].filters"),
    ];
    for kind in ["TLSRoute", "TCPRoute", "UDPRoute"] {
        refuses(&base(kind), false, &in_rule);
    }
}

#[test]
fn a_route_without_spec_is_not_valid() {
    let mut body = base("TCPRoute");
    body.as_object_mut().unwrap().remove("spec");
    let route = route(body);
    assert_eq!(route.key.kind, RouteKind::Tcp);
    assert!(route.findings.iter().any(|finding| &*finding.field == "spec" && finding.reason == Reason::Invalid));
}
