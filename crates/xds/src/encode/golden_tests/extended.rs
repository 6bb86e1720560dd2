//! Mirrors, other origins, retries, sessions.

use super::{forward, plain, route, target};
use crate::ir::{Action, Forward, Mirror, Session};
use serde_json::{Value, json};
use tidegate_model::{CorsFact, RetryFact, SessionCarrier};

fn encoded(to: Forward) -> Value {
    route(&plain(Action::Forward(to)))
}

fn regex(pattern: &str) -> Value {
    json!({ "safe_regex": { "google_re2": { "max_program_size": 100_000 }, "regex": pattern } })
}

#[test]
fn a_mirror_is_a_use_of_its_cluster_and_has_a_share_unless_it_takes_all() {
    let mirror = |cluster: &str, per_million| Mirror { cluster: cluster.into(), per_million };
    let mirrors = vec![mirror("shop/all/80", 1_000_000), mirror("shop/some/80", 333_333), mirror("shop/none/80", 0)];
    let to = Forward { mirrors, ..forward(vec![target("shop/cart/80", 1)]) };
    let entry = plain(Action::Forward(to));
    let expected = json!([
        { "cluster": "shop/all/80", "disable_shadow_host_suffix_append": true },
        {
            "cluster": "shop/some/80",
            "disable_shadow_host_suffix_append": true,
            "runtime_fraction": { "default_value": { "numerator": 333_333, "denominator": "MILLION" } },
        },
    ]);
    assert_eq!(route(&entry)["route"]["request_mirror_policies"], expected);
    assert_eq!(super::super::entry(&entry).clusters, ["shop/all/80", "shop/cart/80", "shop/some/80"]);
}

#[test]
fn a_retry_says_when_how_often_and_not_where_again() {
    let retry = RetryFact { codes: vec![500, 503], attempts: Some(3), backoff: Some(100) };
    let to = Forward { retry: Some(retry), try_timeout: Some(200), ..forward(vec![target("a", 1)]) };
    let mut expected = json!({
        "retry_on": "reset,retriable-status-codes",
        "num_retries": 3,
        "per_try_timeout": "0.200s",
        "retriable_status_codes": [500, 503],
        "retry_back_off": { "base_interval": "0.100s" },
        "host_selection_retry_max_attempts": "5",
        "retry_host_predicate": [{
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
            },
        }],
    });
    assert_eq!(encoded(to.clone())["route"]["retry_policy"], expected);
    let to = Forward { retry: Some(RetryFact { backoff: Some(0), ..RetryFact::default() }), try_timeout: None, ..to };
    let fields = expected.as_object_mut().unwrap();
    fields.remove("retriable_status_codes");
    fields.remove("per_try_timeout");
    fields.insert("retry_on".into(), "reset".into());
    fields.insert("num_retries".into(), 1.into());
    fields.insert("retry_back_off".into(), json!({ "base_interval": "0.001s" }));
    assert_eq!(encoded(to)["route"]["retry_policy"], expected);
}

#[test]
fn a_session_is_kept_by_a_cookie_or_a_header() {
    let filter = |carrier| {
        let session = Session { name: "known".into(), carrier, path: "/cart".into() };
        let value = encoded(Forward { session: Some(session), ..forward(vec![target("a", 1)]) });
        let filter = &value["typed_per_filter_config"]["envoy.filters.http.stateful_session"];
        filter["stateful_session"]["session_state"]["typed_config"].clone()
    };
    let kind = |kind: &str| format!("type.googleapis.com/envoy.extensions.http.stateful_session.{kind}SessionState");
    let cookie = |ttl: &str| {
        json!({
            "@type": kind("cookie.v3.CookieBased"), "cookie": { "name": "known", "path": "/cart", "ttl": ttl },
        })
    };
    assert_eq!(filter(SessionCarrier::Cookie { lifetime: None }), cookie("0s"));
    assert_eq!(filter(SessionCarrier::Cookie { lifetime: Some(60_000) }), cookie("60s"));
    assert_eq!(filter(SessionCarrier::Header), json!({ "@type": kind("header.v3.HeaderBased"), "name": "known" }));
}

#[test]
fn other_origins_are_told_apart_by_scheme_host_and_port() {
    let names = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect::<Vec<_>>();
    let mut cors = CorsFact {
        origins: names(&["https://a.com", "https://*.b.com:8443", "http://*", "*"]),
        methods: names(&["GET", "PUT"]),
        headers: names(&["*"]),
        exposed: names(&["x-a", "*"]),
        max_age_s: 5,
        credentials: false,
    };
    let policy = |cors: &CorsFact| {
        let value = encoded(Forward { cors: Some(Box::new(cors.clone())), ..forward(vec![target("a", 1)]) });
        value["typed_per_filter_config"]["envoy.filters.http.cors"].clone()
    };
    let expected = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy",
        "allow_origin_string_match": [
            { "exact": "https://a.com" }, regex(r"https\://[^/:]+\.b\.com\:8443"), regex(r"http\://[^/:]+"),
            regex(".*"),
        ],
        "allow_methods": "GET,PUT",
        "allow_headers": "*",
        "expose_headers": "x-a,*",
        "max_age": "5",
        "allow_credentials": false,
        "forward_not_matching_preflights": false,
    });
    assert_eq!(policy(&cors), expected);
    cors.credentials = true;
    assert_eq!(policy(&cors)["expose_headers"], "x-a", "the wildcard would be a name beside credentials");
}

#[test]
fn a_call_of_grpc_may_last_and_is_unavailable_without_its_target() {
    let value = encoded(Forward { grpc: true, ..forward(vec![target("a", 1)]) });
    // 503 is what Envoy answers unless told otherwise.
    let expected = json!({
        "cluster": "a",
        "idle_timeout": "3600s",
        "timeout": "0s",
    });
    assert_eq!(value["route"], expected);
}
