use crate::fixture::{accepts, carried, facts, refuses, rows, with};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::{
    Fact, Filter, Finding, GroupKind, HeaderModifier, HttpMatch, PathMatch, PathModifier, Reason, RedirectFact,
    RouteFact, ValueMatch, ValuePattern,
};

mod extended;

fn base() -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"parentRefs": [{"name": "edge"}], "hostnames": ["shop.example.com"],
            "rules": [{"matches": [{"path": {"value": "/cart"}}], "backendRefs": [{"name": "cart", "port": 80}]}]}})
}

fn route(body: Value) -> Arc<RouteFact> {
    match &facts(body)[0] {
        Fact::Route(route) => route.clone(),
        other => panic!("{other:?}"),
    }
}

fn first_match(value: Value) -> HttpMatch {
    let route = route(with(base(), "/spec/rules/0/matches/0", value));
    assert_eq!(route.findings, []);
    route.rules[0].matches[0].clone()
}

fn first_filter(value: Value) -> Filter {
    let body = with(base(), "/spec/rules/0/filters", json!([value]));
    let route = route(with(body, "/spec/rules/0/backendRefs", json!(null)));
    assert_eq!(route.findings, []);
    route.rules[0].filters[0].clone()
}

#[test]
fn a_route_has_the_defaults_of_an_api_server() {
    let route = route(base());
    let parent = &route.parents[0];
    assert_eq!(parent.group_kind, GroupKind::new("gateway.networking.k8s.io", "Gateway"));
    assert_eq!(
        (parent.name.as_str(), &parent.namespace_ref, &parent.section, parent.port),
        ("shop/edge", &None, &None, None)
    );
    assert_eq!(route.hostnames[0].as_str(), "shop.example.com");
    assert_eq!(route.rules[0].matches[0].path, PathMatch::Prefix("/cart".into()));
    let backend = &route.rules[0].backends[0];
    assert_eq!(backend.target.group_kind, GroupKind::new("", "Service"));
    assert_eq!((backend.target.name.as_str(), backend.target.port, backend.weight), ("shop/cart", Some(80), 1));
    assert_eq!((route.generation, route.created, route.findings.len()), (1, 0, 0));
}

#[test]
fn rules_and_matches_that_are_not_given_match_everything() {
    let everything = |rules: Value| {
        let route = route(with(base(), "/spec/rules", rules));
        assert_eq!(route.findings, []);
        route.rules.iter().map(|rule| rule.matches.clone()).collect::<Vec<_>>()
    };
    let all = vec![super::matches::default()];
    assert_eq!(everything(json!(null)), std::slice::from_ref(&all));
    assert_eq!(everything(json!([{}])), std::slice::from_ref(&all));
    assert_eq!(everything(json!([{"matches": []}])), std::slice::from_ref(&all));
    assert_eq!(everything(json!([{"matches": [{}]}])), std::slice::from_ref(&all));
    assert_eq!(everything(json!([])), Vec::<Vec<HttpMatch>>::new());
}

#[test]
fn a_reference_into_another_namespace_is_resolved_and_repeated_as_written() {
    let body = with(
        base(),
        "/spec/parentRefs/0",
        json!({"name": "edge", "namespace": "infra", "sectionName": "http", "port": 80}),
    );
    let route = route(with(body, "/spec/rules/0/backendRefs/0/namespace", json!("store")));
    let parent = &route.parents[0];
    assert_eq!((parent.name.as_str(), parent.namespace_ref.as_deref()), ("infra/edge", Some("infra")));
    assert_eq!((parent.section.as_deref(), parent.port), (Some("http"), Some(80)));
    assert_eq!(route.rules[0].backends[0].target.name.as_str(), "store/cart");
}

#[test]
fn every_part_of_a_match_is_read() {
    let found = first_match(json!({
        "path": {"type": "Exact", "value": "/a%20b"}, "method": "GET",
        "headers": [{"name": "X-A", "value": "1"}, {"name": "x-a", "value": "2"}, {"name": "B", "type": "RegularExpression", "value": "a+"}],
        "queryParams": [{"name": "q", "value": "1"}, {"name": "Q", "type": "RegularExpression", "value": ".*"}]}));
    let exact = |name: &str, value: &str| ValueMatch { name: name.into(), value: ValuePattern::Exact(value.into()) };
    let regex = |name: &str, value: &str| ValueMatch { name: name.into(), value: ValuePattern::Regex(value.into()) };
    // Of header names that are equal but for their case the first counts; query parameters are told apart by case.
    assert_eq!(found.headers, [exact("x-a", "1"), regex("b", "a+")]);
    assert_eq!(found.query, [exact("q", "1"), regex("Q", ".*")]);
    assert_eq!((found.path, found.method.as_deref()), (PathMatch::Exact("/a%20b".into()), Some("GET")));
    let regex = first_match(json!({"path": {"type": "RegularExpression", "value": "/v[0-9]+"}}));
    assert_eq!(regex.path, PathMatch::Regex("/v[0-9]+".into()));
    assert_eq!(first_match(json!({"path": {"type": "Exact"}})).path, PathMatch::Exact("/".into()));
}

#[test]
fn a_bound_of_the_retarget_hold_is_read_and_a_bad_one_remarked_upon() {
    let annotated = |value: &str| with(base(), "/metadata/annotations", json!({"tidegate.dev/retarget-hold": value}));
    let millis = |value| route(annotated(value)).retarget_hold;
    assert_eq!(route(base()).retarget_hold, None);
    assert_eq!([millis("5s"), millis("0s"), millis("500ms"), millis("1h")], [5000, 0, 500, 3_600_000].map(Some));
    for bad in ["", "5", "soon", "-1s", "1h1ms"] {
        let facts = facts(annotated(bad));
        assert_eq!(route(annotated(bad)).retarget_hold, None, "{bad}");
        assert_eq!(carried(&facts), [], "{bad}: the route is served all the same");
        let row = &rows(&facts)[0];
        assert_eq!(row.field, "metadata.annotations[tidegate.dev/retarget-hold]");
        assert_eq!(row.reason, Reason::UnsupportedValue);
        assert!(row.message.contains("from 0s to 1h"), "{row}");
    }
}

#[test]
fn every_filter_is_read() {
    let headers =
        json!({"set": [{"name": "X-A", "value": "1"}], "add": [{"name": "b", "value": "2"}], "remove": ["c"]});
    let modifier = HeaderModifier {
        set: vec![("X-A".into(), "1".into())],
        add: vec![("b".into(), "2".into())],
        remove: vec!["c".into()],
    };
    let request = json!({"type": "RequestHeaderModifier", "requestHeaderModifier": headers});
    assert_eq!(first_filter(request), Filter::RequestHeaders(modifier.clone()));
    let response = json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": headers});
    assert_eq!(first_filter(response), Filter::ResponseHeaders(modifier));
    let plain = RedirectFact { scheme: None, hostname: None, port: None, path: None, status: 302 };
    assert_eq!(first_filter(json!({"type": "RequestRedirect", "requestRedirect": {}})), Filter::Redirect(plain));
    let full = json!({"scheme": "https", "hostname": "a.b", "port": 8443, "statusCode": 308,
        "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/x"}});
    let expected = RedirectFact {
        scheme: Some("https".into()),
        hostname: Some("a.b".into()),
        port: Some(8443),
        path: Some(PathModifier::Prefix("/x".into())),
        status: 308,
    };
    assert_eq!(first_filter(json!({"type": "RequestRedirect", "requestRedirect": full})), Filter::Redirect(expected));
    let rewrite = json!({"hostname": "a.b", "path": {"type": "ReplaceFullPath", "replaceFullPath": "/y"}});
    let Filter::Rewrite(found) = first_filter(json!({"type": "URLRewrite", "urlRewrite": rewrite})) else { panic!() };
    assert_eq!((found.hostname.as_deref(), found.path), (Some("a.b"), Some(PathModifier::Full("/y".into()))));
    for prefix in ["", "/", "/x/"] {
        let path = json!({"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": prefix}});
        let Filter::Rewrite(found) = first_filter(json!({"type": "URLRewrite", "urlRewrite": path})) else { panic!() };
        assert_eq!(found.path, Some(PathModifier::Prefix(prefix.into())));
    }
}

#[test]
fn weights_timeouts_and_backend_filters_are_read() {
    let backends = json!([{"name": "a", "port": 80, "weight": 0}, {"name": "b", "port": 80, "weight": 1_000_000, "filters": [
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x", "value": "b"}]}}]}]);
    let body = with(base(), "/spec/rules/0/backendRefs", backends);
    let route = route(with(body, "/spec/rules/0/timeouts", json!({"request": "1s", "backendRequest": "500ms"})));
    let rule = &route.rules[0];
    assert_eq!(rule.backends.iter().map(|b| (b.weight, b.filters.len())).collect::<Vec<_>>(), [(0, 0), (1_000_000, 1)]);
    assert_eq!((rule.request_timeout, rule.backend_timeout), (Some(1000), Some(500)));
}

#[test]
fn what_an_api_server_accepts_is_accepted() {
    let filters = "/spec/rules/0/filters";
    let parents = "/spec/parentRefs";
    accepts(
        &base(),
        &[
            ("/apiVersion", json!("gateway.networking.k8s.io/v1beta1")),
            ("/spec/hostnames", json!(["*.example.com", "localhost"])),
            (parents, json!([{"name": "a"}, {"name": "b"}, {"name": "a", "namespace": "n"}])),
            (parents, json!([{"name": "a", "sectionName": "x"}, {"name": "a", "sectionName": "y", "port": 80}])),
            (parents, json!([{"name": "a", "port": 80}, {"name": "a", "port": 81}])),
            (parents, json!([{"group": "", "kind": "Service", "name": "a"}, {"name": "a"}])),
            ("/spec/rules/0/name", json!("first")),
            ("/spec/rules/0/timeouts", json!({"request": "0s", "backendRequest": "10s"})),
            ("/spec/rules/0/timeouts", json!({"backendRequest": "1h30m"})),
            ("/spec/rules/0/backendRefs/0", json!({"group": "a.b", "kind": "Bucket", "name": "x"})),
            ("/spec/rules/0/matches/0/path", json!({"type": "RegularExpression", "value": "/a//b#"})),
            (
                filters,
                json!([{"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}]),
            ),
            (filters, json!([{"type": "URLRewrite", "urlRewrite": {}}])),
            ("/spec/rules/1", json!({"filters": [{"type": "RequestRedirect", "requestRedirect": {"port": 8443}}]})),
        ],
    );
}

#[test]
fn every_rule_of_parents_and_hostnames_can_be_broken() {
    let parents = "/spec/parentRefs";
    refuses(
        &base(),
        true,
        &[
            ("/spec", json!("x"), "spec", "must be an object"),
            (parents, json!({}), "spec.parentRefs", "must be a list"),
            (parents, json!([{}]), "spec.parentRefs[0].name", "is required"),
            (
                parents,
                json!([{"name": "a", "namespace": "A"}]),
                "spec.parentRefs[0].namespace",
                "is not the name of a namespace",
            ),
            (parents, json!([{"name": "a", "group": "a/v1"}]), "spec.parentRefs[0].group", "without its version"),
            (parents, json!([{"name": "a", "kind": ""}]), "spec.parentRefs[0].kind", "must not be empty"),
            (
                parents,
                json!([{"name": "a", "sectionName": "X"}]),
                "spec.parentRefs[0].sectionName",
                "is not a section name",
            ),
            (parents, json!([{"name": "a", "port": 0}]), "spec.parentRefs[0].port", "from 1 to 65535"),
            (
                parents,
                json!([{"name": "a"}, {"name": "a", "namespace": "shop"}]),
                "spec.parentRefs[1]",
                "the same parent",
            ),
            (
                parents,
                json!([{"name": "a"}, {"name": "a", "sectionName": "x"}]),
                "spec.parentRefs[1]",
                "the same parent",
            ),
            (
                parents,
                json!([{"name": "a", "sectionName": "x"}, {"name": "a", "sectionName": "x"}]),
                "spec.parentRefs[1]",
                "the same parent",
            ),
            (
                parents,
                json!([{"name": "a", "sectionName": "x"}, {"name": "a", "port": 80}]),
                "spec.parentRefs[1]",
                "the same parent",
            ),
            (
                parents,
                json!((0..33).map(|n| json!({"name": format!("g{n}")})).collect::<Vec<_>>()),
                "spec.parentRefs",
                "32 are allowed",
            ),
            ("/spec/hostnames/0", json!("Shop.example.com"), "spec.hostnames[0]", "is not a hostname"),
            ("/spec/hostnames/0", json!("10.0.0.1"), "spec.hostnames[0]", "is an IP address"),
            ("/spec/hostnames/0", json!("a*.example.com"), "spec.hostnames[0]", "whole first label"),
            ("/spec/hostnames/0", json!("a.example.com:80"), "spec.hostnames[0]", "is not a hostname"),
            ("/spec/hostnames/0", json!("x".repeat(254)), "spec.hostnames[0]", "253 are allowed"),
            ("/spec/hostnames", json!(vec![json!("a.b"); 17]), "spec.hostnames", "16 are allowed"),
        ],
    );
}

#[test]
fn every_rule_of_a_path_can_be_broken() {
    let path = "/spec/rules/0/matches/0/path";
    let value = "spec.rules[0].matches[0].path.value";
    let exact = |text: &str| json!({"type": "Exact", "value": text});
    refuses(
        &base(),
        true,
        &[
            (path, exact("cart"), value, "does not begin with '/'"),
            (path, exact("/a//b"), value, "contains \"//\""),
            (path, exact("/a/./b"), value, "contains \"/./\""),
            (path, exact("/a/../b"), value, "contains \"/../\""),
            (path, exact("/a%2Fb"), value, "contains \"%2F\""),
            (path, exact("/a%2fb"), value, "contains \"%2f\""),
            (path, exact("/a#b"), value, "contains \"#\""),
            (path, exact("/a/.."), value, "ends with \"/..\""),
            (path, exact("/a/."), value, "ends with \"/.\""),
            (path, exact("/a?b"), value, "no path has"),
            (path, exact("/a%2"), value, "no path has"),
            (path, exact("/ä"), value, "no path has"),
            (path, exact(&format!("/{}", "a".repeat(1024))), value, "shorten it"),
            (path, json!({"value": ""}), value, "does not begin with '/'"),
            (path, json!({"value": 1}), value, "must be a string"),
            (path, json!("/cart"), "spec.rules[0].matches[0].path", "must be an object, not a string"),
            (
                path,
                json!({"type": "Prefix", "value": "/"}),
                "spec.rules[0].matches[0].path.type",
                "use Exact, PathPrefix",
            ),
            (path, json!({"type": "RegularExpression", "value": "/("}), value, "is not a regular expression"),
            (path, json!({"type": "RegularExpression", "value": ""}), value, "is an empty regular expression"),
        ],
    );
}

#[test]
fn every_rule_of_methods_headers_and_parameters_can_be_broken() {
    let headers = "/spec/rules/0/matches/0/headers";
    let query = "/spec/rules/0/matches/0/queryParams";
    refuses(
        &base(),
        true,
        &[
            ("/spec/rules/0/matches/0/method", json!("get"), "spec.rules[0].matches[0].method", "use one of them"),
            ("/spec/rules/0/matches/0/method", json!("CONNECT"), "spec.rules[0].matches[0].method", "is not served"),
            (headers, json!([{"value": "1"}]), "spec.rules[0].matches[0].headers[0].name", "is required"),
            (
                headers,
                json!([{"name": ":path", "value": "1"}]),
                "spec.rules[0].matches[0].headers[0].name",
                "is not a header name",
            ),
            (headers, json!([{"name": "a"}]), "spec.rules[0].matches[0].headers[0].value", "is required"),
            (
                headers,
                json!([{"name": "a", "value": ""}]),
                "spec.rules[0].matches[0].headers[0].value",
                "must not be empty",
            ),
            (
                headers,
                json!([{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]),
                "spec.rules[0].matches[0].headers[1].name",
                "is there twice",
            ),
            (
                headers,
                json!([{"name": "a", "value": "1", "type": "Prefix"}]),
                "spec.rules[0].matches[0].headers[0].type",
                "use one of them",
            ),
            (
                headers,
                json!([{"name": "a", "value": "[", "type": "RegularExpression"}]),
                "spec.rules[0].matches[0].headers[0].value",
                "is not a regular",
            ),
            (
                query,
                json!([{"name": "a b", "value": "1"}]),
                "spec.rules[0].matches[0].queryParams[0].name",
                "is not a header name",
            ),
            (
                query,
                json!([{"name": "a", "value": "1"}, {"name": "a", "value": "1"}]),
                "spec.rules[0].matches[0].queryParams[1].name",
                "is there twice",
            ),
            (
                query,
                json!([{"name": "a", "value": "*", "type": "RegularExpression"}]),
                "spec.rules[0].matches[0].queryParams[0].value",
                "is not a regular",
            ),
            ("/spec/rules/0/matches", json!(vec![json!({}); 65]), "spec.rules[0].matches", "64 are allowed"),
            (
                "/spec/rules",
                json!(vec![json!({"matches": vec![json!({}); 50]}); 3]),
                "spec.rules",
                "has 150 matches in all",
            ),
        ],
    );
}

#[test]
fn every_rule_of_a_list_of_filters_can_be_broken() {
    let filters = "/spec/rules/0/filters";
    let first = "spec.rules[0].filters[0]";
    let kind = "spec.rules[0].filters[0].type";
    let modifier = json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["a"]}});
    let both = json!([{"type": "URLRewrite", "urlRewrite": {}}, {"type": "RequestRedirect", "requestRedirect": {}}]);
    let stray = json!([{"type": "URLRewrite", "urlRewrite": {}, "requestMirror": {}}]);
    refuses(
        &base(),
        true,
        &[
            (filters, json!([{}]), kind, "is required"),
            (filters, json!([null]), first, "is required"),
            (filters, json!([{"type": "URLRewrite"}]), "spec.rules[0].filters[0].urlRewrite", "is required"),
            (filters, stray, "spec.rules[0].filters[0].requestMirror", "has no requestMirror"),
            (filters, json!([modifier, modifier]), "spec.rules[0].filters[1].type", "is there twice"),
            (filters, json!(vec![modifier; 17]), "spec.rules[0].filters", "16 are allowed"),
            (filters, both, "spec.rules[0].filters", "exclude each other"),
        ],
    );
}

/// A table of settings of one filter: what they are, which field of them is reported, and how.
fn refuses_settings(kind: &str, settings: &str, table: &[(Value, &str, &str)]) {
    for (value, field, text) in table {
        let filters = json!([{"type": kind, settings: value}]);
        let field = format!("spec.rules[0].filters[0].{settings}.{field}");
        refuses(&base(), true, &[("/spec/rules/0/filters", filters, &field, text)]);
    }
}

#[test]
fn every_rule_of_a_header_modifier_can_be_broken() {
    let set = |name: &str, value: &str| json!({"set": [{"name": name, "value": value}]});
    let twice = json!({"set": [{"name": "a", "value": "1"}], "add": [{"name": "A", "value": "1"}]});
    let many: Vec<_> = (0..17).map(|n| format!("h{n}")).collect();
    for (kind, settings) in
        [("RequestHeaderModifier", "requestHeaderModifier"), ("ResponseHeaderModifier", "responseHeaderModifier")]
    {
        refuses_settings(
            kind,
            settings,
            &[
                (set("Host", "a"), "set[0].name", "use a URLRewrite filter"),
                (set(":path", "a"), "set[0].name", "use a URLRewrite filter"),
                (set("a b", "a"), "set[0].name", "is not a header name"),
                (set("a", "x\ny"), "set[0].value", "control characters"),
                (set("a", ""), "set[0].value", "must not be empty"),
                (json!({"set": [{"name": "a"}]}), "set[0].value", "is required"),
                (json!({"add": [{"value": "a"}]}), "add[0].name", "is required"),
                (json!({"remove": ["HOST"]}), "remove[0]", "Host"),
                (json!({"remove": ["a", "A"]}), "remove[1]", "one action a header"),
                (json!({"remove": many}), "remove", "16 are allowed"),
                (twice.clone(), "add[0].name", "one action a header"),
            ],
        );
    }
}

#[test]
fn every_rule_of_a_redirect_or_rewrite_can_be_broken() {
    refuses_settings(
        "RequestRedirect",
        "requestRedirect",
        &[
            (json!({"statusCode": 300}), "statusCode", "is no redirect"),
            (json!({"scheme": "ftp"}), "scheme", "use one of them"),
            (json!({"hostname": "*.a"}), "hostname", "without wildcard"),
            (json!({"hostname": "1.2.3.4"}), "hostname", "is an IP address"),
            (json!({"port": 0}), "port", "from 1 to 65535"),
        ],
    );
    let both = json!({"path": {"type": "ReplaceFullPath", "replaceFullPath": "/", "replacePrefixMatch": "/"}});
    let break_in = json!({"path": {"type": "ReplaceFullPath", "replaceFullPath": "/\r"}});
    refuses_settings(
        "URLRewrite",
        "urlRewrite",
        &[
            (json!({"path": {}}), "path.type", "is required"),
            (json!({"path": {"type": "Replace"}}), "path.type", "is no change of a path"),
            (json!({"path": {"type": "ReplaceFullPath"}}), "path.replaceFullPath", "is required"),
            (both, "path.replacePrefixMatch", "remove it"),
            (break_in, "path.replaceFullPath", "control characters"),
        ],
    );
    let redirect = json!([{"type": "RequestRedirect", "requestRedirect": {}}]);
    let field = "spec.rules[0].backendRefs";
    refuses(&base(), true, &[("/spec/rules/0/filters", redirect, field, "remove backendRefs")]);
}

#[test]
fn replacing_a_prefix_needs_exactly_one_prefix() {
    let filter = json!([{"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/x"}}}]);
    let base = with(base(), "/spec/rules/0/filters", filter);
    let matches = "/spec/rules/0/matches";
    accepts(
        &base,
        &[(matches, json!([{"path": {"value": "/a"}}])), (matches, json!(null)), (matches, json!([{"method": "GET"}]))],
    );
    let field = "spec.rules[0].filters";
    refuses(
        &base,
        true,
        &[
            (matches, json!([{"path": {"value": "/a"}}, {"path": {"value": "/b"}}]), field, "exactly one match"),
            (matches, json!([{"path": {"type": "Exact", "value": "/a"}}]), field, "exactly one match"),
        ],
    );
}

#[test]
fn every_other_rule_of_a_rule_can_be_broken() {
    let backend = "/spec/rules/0/backendRefs/0";
    let timeouts = "/spec/rules/0/timeouts";
    refuses(
        &base(),
        true,
        &[
            ("/spec/rules", json!({}), "spec.rules", "must be a list"),
            ("/spec/rules", json!([null]), "spec.rules[0]", "is required"),
            ("/spec/rules", json!(vec![json!({}); 17]), "spec.rules", "16 are allowed"),
            ("/spec/rules", json!([{"name": "a"}, {"name": "a"}]), "spec.rules[1].name", "is there twice"),
            ("/spec/rules/0/name", json!("A"), "spec.rules[0].name", "is not a section name"),
            (backend, json!({"port": 80}), "spec.rules[0].backendRefs[0].name", "is required"),
            (backend, json!({"name": "a"}), "spec.rules[0].backendRefs[0].port", "is required for a Service"),
            (
                backend,
                json!({"name": "a", "port": "http"}),
                "spec.rules[0].backendRefs[0].port",
                "must be a whole number",
            ),
            (
                backend,
                json!({"name": "a", "port": 80, "weight": -1}),
                "spec.rules[0].backendRefs[0].weight",
                "from 0 to 1000000",
            ),
            (
                backend,
                json!({"name": "a", "port": 80, "weight": 1_000_001}),
                "spec.rules[0].backendRefs[0].weight",
                "out of range",
            ),
            (
                backend,
                json!({"name": "a", "port": 80, "namespace": "a/b"}),
                "spec.rules[0].backendRefs[0].namespace",
                "is not the name",
            ),
            (
                backend,
                json!({"name": "a", "port": 80, "kind": "a b"}),
                "spec.rules[0].backendRefs[0].kind",
                "is not a kind",
            ),
            (
                "/spec/rules/0/backendRefs",
                json!(vec![json!({"name": "a", "port": 80}); 17]),
                "spec.rules[0].backendRefs",
                "16 are allowed",
            ),
            (timeouts, json!({"request": "1"}), "spec.rules[0].timeouts.request", "is no duration"),
            (timeouts, json!({"request": 1}), "spec.rules[0].timeouts.request", "must be a string"),
            (timeouts, json!({"backendRequest": "1.5s"}), "spec.rules[0].timeouts.backendRequest", "is no duration"),
            (
                timeouts,
                json!({"request": "1s", "backendRequest": "2s"}),
                "spec.rules[0].timeouts.backendRequest",
                "longer than",
            ),
        ],
    );
}

/// What keeps a rule, or a backend of it, from being served.
fn refused(route: &RouteFact) -> Vec<Finding> {
    let rule = &route.rules[0];
    let of_backends = rule.backends.iter().flat_map(|backend| &backend.filters);
    let refused = |filter: &Filter| if let Filter::Refused(finding) = filter { Some(finding.clone()) } else { None };
    rule.filters.iter().chain(of_backends).filter_map(refused).collect()
}

#[test]
fn a_filter_that_cannot_be_applied_refuses_what_it_stands_at_and_nothing_else() {
    let first = |place: &str, value: Value| {
        let facts = facts(with(base(), &format!("/spec/rules/0/{place}"), json!([value])));
        assert_eq!((carried(&facts), rows(&facts)), (vec![], vec![]), "the rest of the route is served");
        let [Fact::Route(route)] = &facts[..] else { panic!("{facts:?}") };
        let refused = refused(route);
        assert_eq!(refused.len(), 1, "{refused:?}");
        let finding = refused[0].clone();
        (finding.reason, finding.field.to_string(), finding.message.to_string())
    };
    let extension = json!({"type": "ExtensionRef", "extensionRef": {"group": "a.b", "kind": "C", "name": "d"}});
    let auth = json!({"type": "ExternalAuth", "externalAuth": {"protocol": "GRPC", "grpc": {},
        "backendRef": {"name": "a", "port": 80}}});
    let mirror = json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "a", "port": 80}}});
    let table = [
        ("filters", extension.clone(), Reason::InvalidKind, "filters[0].extensionRef", "no kind of extension"),
        ("filters", auth, Reason::UnsupportedValue, "filters[0].type", "not supported; remove it"),
        ("filters", json!({"type": "RateLimit"}), Reason::UnsupportedValue, "filters[0].type", "no known filter"),
    ];
    for (place, value, reason, field, text) in table {
        let (found, at, message) = first(place, value);
        assert_eq!((found, at), (reason, format!("spec.rules[0].{field}")));
        assert!(message.contains(text), "{message}");
    }
    let backend = "backendRefs/0/filters";
    let cors = json!({"type": "CORS", "cors": {}});
    let rewrite = json!({"type": "URLRewrite", "urlRewrite": {}});
    for value in [mirror, cors, rewrite] {
        let (reason, at, message) = first(backend, value);
        assert_eq!((reason, &*at), (Reason::UnsupportedValue, "spec.rules[0].backendRefs[0].filters[0].type"));
        assert!(message.contains("move it to the filters of the rule"), "{message}");
    }
    assert_eq!(first(backend, extension).0, Reason::InvalidKind);
}

#[test]
fn what_else_is_not_supported_refuses_the_route() {
    let table = [
        ("/spec/rules/0/matches/0/path/type", json!("Glob"), "spec.rules[0].matches[0].path.type", "use Exact"),
        ("/spec/rules/0/retry", json!({"attempts": -1}), "spec.rules[0].retry.attempts", "use a number from 0"),
        (
            "/spec/rules/0/sessionPersistence",
            json!({"sessionName": "a b"}),
            "spec.rules[0].sessionPersistence.sessionName",
            "is not a name of a session",
        ),
        (
            "/spec/rules/0/sessionPersistence",
            json!({"type": "Header", "cookieConfig": {}}),
            "spec.rules[0].sessionPersistence.cookieConfig",
            "has no cookie",
        ),
    ];
    refuses(&base(), true, &table);
    for (pointer, value, ..) in table {
        let facts = facts(with(base(), pointer, value));
        assert_eq!(
            carried(&facts).iter().map(|f| f.reason).collect::<Vec<_>>(),
            [Reason::UnsupportedValue],
            "{pointer}"
        );
        assert_eq!(rows(&facts), [], "{pointer}");
    }
}

#[test]
fn parents_and_hostnames_stay_when_the_rest_is_broken() {
    for rules in [json!("x"), json!([1]), json!([{"matches": 5, "backendRefs": "a"}])] {
        let route = route(with(base(), "/spec/rules", rules.clone()));
        assert!(!route.findings.is_empty(), "{rules}");
        assert_eq!((route.parents.len(), route.hostnames.len()), (1, 1), "{rules}");
        assert!(route.rules.iter().all(|rule| !rule.matches.is_empty()), "{rules}");
    }
    let two = with(base(), "/spec/parentRefs", json!([{"name": "a"}, {"port": 1}, {"name": "b", "port": "x"}]));
    assert_eq!(route(two).parents.iter().map(|p| p.name.to_string()).collect::<Vec<_>>(), ["shop/a", "shop/b"]);
}

#[test]
fn a_default_gateway_is_not_supported_and_said() {
    let facts = facts(with(base(), "/spec/useDefaultGateways", json!("All")));
    assert_eq!(carried(&facts), []);
    assert_eq!(rows(&facts).iter().map(|f| &*f.field).collect::<Vec<_>>(), ["spec.useDefaultGateways"]);
}
