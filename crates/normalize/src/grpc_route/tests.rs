use crate::fixture::{accepts, carried, facts, refuses, rows, with};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::{Fact, Filter, MethodMatch, PathMatch, Reason, RouteFact, RouteKind};

const METHOD: &str = "/spec/rules/0/matches/0/method";

fn base() -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GRPCRoute",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"parentRefs": [{"name": "edge"}], "hostnames": ["grpc.example.com"],
            "rules": [{"matches": [{"method": {"service": "shop.Cart", "method": "Add"}}],
                "backendRefs": [{"name": "cart", "port": 80}]}]}})
}

fn route(body: Value) -> Arc<RouteFact> {
    let facts = facts(body);
    assert_eq!((carried(&facts), rows(&facts)), (vec![], vec![]));
    let [Fact::Route(route)] = &facts[..] else { panic!("{facts:?}") };
    route.clone()
}

fn first(body: Value) -> MethodMatch {
    match &route(body).rules[0].matches[0].path {
        PathMatch::Method(method) => method.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn services_methods_and_patterns_are_read() {
    let name = |text: &str| Some(text.into());
    let read = |method: Value| first(with(base(), METHOD, method));
    let exact = |service, method| MethodMatch { service, method, regex: false };
    assert_eq!(first(base()), exact(name("shop.Cart"), name("Add")));
    assert_eq!(read(json!({"type": "Exact", "service": "shop.Cart"})), exact(name("shop.Cart"), None));
    assert_eq!(read(json!({"method": "Add"})), exact(None, name("Add")));
    let pattern = MethodMatch { service: name("shop\\..*"), method: None, regex: true };
    assert_eq!(read(json!({"type": "RegularExpression", "service": "shop\\..*", "method": ""})), pattern);
    assert_eq!(first(with(base(), "/spec/rules/0/matches", json!([]))), exact(None, None));
    let headers = route(with(base(), "/spec/rules/0/matches/0/headers", json!([{"name": "X-A", "value": "1"}])));
    assert_eq!(headers.rules[0].matches[0].headers[0].name, "x-a");
    assert_eq!((headers.key.kind, headers.hostnames.len(), headers.parents.len()), (RouteKind::Grpc, 1, 1));
}

#[test]
fn a_route_without_rules_has_none() {
    assert_eq!(route(with(base(), "/spec/rules", Value::Null)).rules, []);
}

#[test]
fn every_rule_of_a_method_can_be_broken() {
    let at = |part: &str| format!("spec.rules[0].matches[0].method{part}");
    refuses(
        &base(),
        true,
        &[
            (METHOD, json!("Add"), &at(""), "must be an object"),
            (METHOD, json!({}), &at(""), "names neither"),
            (METHOD, json!({"service": "/shop.Cart"}), &at(".service"), "is not the name of a gRPC service"),
            (METHOD, json!({"service": ""}), &at(".service"), "must not be empty"),
            (METHOD, json!({"method": "Add/"}), &at(".method"), "is not the name of a gRPC method"),
            (METHOD, json!({"method": "x".repeat(1025)}), &at(".method"), "1024 are allowed"),
            (METHOD, json!({"type": "Prefix", "method": "A"}), &at(".type"), "use Exact or RegularExpression"),
            (
                METHOD,
                json!({"type": "RegularExpression", "method": "("}),
                &at(".method"),
                "is not a regular expression",
            ),
            (
                "/spec/rules",
                json!(vec![json!({"matches": vec![json!({}); 50]}); 3]),
                "spec.rules",
                "has 150 matches in all",
            ),
            ("/spec/rules", json!([null]), "spec.rules[0]", "is required"),
        ],
    );
    accepts(&base(), &[(METHOD, json!({"service": ".shop._Cart2"})), (METHOD, json!({"method": "_a1"}))]);
}

#[test]
fn a_filter_of_other_routes_is_none_of_this_kind() {
    let filters = |list: Value| route(with(base(), "/spec/rules/0/filters", list)).rules[0].filters.clone();
    let mirror = json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "copy", "port": 80}}});
    let headers = json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["a"]}});
    assert!(matches!(&filters(json!([mirror, headers]))[..], [Filter::Mirror(_), Filter::ResponseHeaders(_)]));
    let extension = json!({"type": "ExtensionRef", "extensionRef": {"group": "a.b", "kind": "C", "name": "d"}});
    let [Filter::Refused(finding)] = &filters(json!([extension]))[..] else { panic!() };
    assert_eq!(finding.reason, Reason::InvalidKind);
    let redirect = json!([{"type": "RequestRedirect"}]);
    let facts = facts(with(base(), "/spec/rules/0/filters", redirect));
    let [Fact::Route(route), ..] = &facts[..] else { panic!("{facts:?}") };
    let [Filter::Refused(finding)] = &route.rules[0].filters[..] else { panic!("{route:?}") };
    assert!(finding.message.contains("is no known filter"), "{finding}");
}
