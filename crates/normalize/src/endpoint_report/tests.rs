use super::*;
use crate::fixture::{accepts, object, refuses, rows};
use crate::normalize;
use serde_json::json;
use tidegate_model::ReportedState::{Expired, Healthy, Unhealthy, Unknown};

fn base() -> Value {
    report(json!([{"address": "10.0.0.1", "state": "Healthy", "renewTime": "1970-01-01T00:00:00.000000Z"}]))
}

fn report(endpoints: Value) -> Value {
    json!({"apiVersion": "tidegate.dev/v1alpha1", "kind": "EndpointReport",
        "metadata": {"name": "cart-n1", "namespace": "shop"},
        "spec": {"serviceRef": {"name": "cart"}, "reporter": "n1"},
        "status": {"endpoints": endpoints}})
}

/// At so many milliseconds.
fn at(now: Millis, endpoints: Value) -> Normalized {
    normalize(&object(report(endpoints)), &Moment { now, ..Moment::default() })
}

fn said(facts: &[Fact]) -> Vec<ReportFact> {
    let said = facts.iter().filter_map(|fact| if let Fact::Report(said) = fact { Some(said.clone()) } else { None });
    said.collect()
}

fn states(facts: &[Fact]) -> Vec<ReportedState> {
    said(facts).into_iter().map(|said| said.state).collect()
}

#[test]
fn an_entry_is_about_a_target_or_an_address() {
    let found = at(
        0,
        json!([
            {"targetRef": {"kind": "Pod", "name": "a", "uid": "u-1"}, "address": "10.0.0.1", "state": "Unknown"},
            {"address": "2001:DB8:0::1", "port": 8080, "state": "Healthy", "renewTime": "1970-01-01T00:00:01Z"},
        ]),
    );
    let name = NamespacedName::parse;
    let fact = |endpoint, port, state| ReportFact {
        service: name("shop/cart"),
        endpoint,
        port,
        state,
        report: name("shop/cart-n1"),
    };
    let target = ReportedEndpoint::Target(TargetUid::of("u-1"));
    let address = ReportedEndpoint::Address("2001:db8::1".into());
    assert_eq!(said(&found.facts), [fact(target, None, Expired), fact(address, Some(8080), Healthy)]);
    assert_eq!(rows(&found.facts), []);
}

#[test]
fn an_entry_is_current_for_its_lifetime_to_the_microsecond() {
    let entry = |time: &str| json!([{"address": "10.0.0.1", "state": "Unhealthy", "renewTime": time}]);
    let table = [
        ("1970-01-01T00:00:00.000000Z", 59_999, Some(60_000)),
        ("1970-01-01T00:00:00.000000Z", 60_000, None),
        ("1970-01-01T00:00:00.000001Z", 60_000, Some(60_001)),
        ("1970-01-01T00:00:00.001000Z", 60_000, Some(60_001)),
        ("1970-01-01T00:00:00.001000Z", 60_001, None),
        ("1970-01-01T01:00:00.001+01:00", 60_000, Some(60_001)),
        // Ahead of us: current, and no longer for it.
        ("1970-01-01T00:10:00Z", 0, Some(660_000)),
        ("1969-12-31T23:59:59Z", 0, Some(60_000)),
        ("1969-12-31T23:59:59Z", 60_000, None),
    ];
    for (time, now, end) in table {
        let found = at(now, entry(time));
        assert_eq!(states(&found.facts), [if end.is_some() { Unhealthy } else { Expired }], "{time} at {now}");
        assert_eq!(found.deadlines().map(|deadline| deadline.at).collect::<Vec<_>>(), Vec::from_iter(end), "{time}");
    }
    let silent = at(0, json!([{"address": "10.0.0.1", "state": "Healthy"}]));
    assert_eq!((states(&silent.facts), silent.endings), (vec![Expired], vec![]));
}

#[test]
fn entries_of_one_renewal_end_together() {
    let entry = |last: u8, second: u8| {
        json!({"address": format!("10.0.0.{last}"), "state": "Healthy",
            "renewTime": format!("1970-01-01T00:00:0{second}.000000Z")})
    };
    let found = at(0, json!([entry(1, 1), entry(2, 2), entry(3, 1)]));
    let ends: Vec<_> =
        found.endings.iter().map(|end| (end.deadline.renewed, end.ends.len(), states(&end.after))).collect();
    assert_eq!(ends, [(1000, 2, vec![Expired, Expired]), (2000, 1, vec![Expired])]);
}

#[test]
fn a_renewal_gives_the_same_facts() {
    let at_second = |second: u8| {
        json!([{"address": "10.0.0.1", "state": "Unknown",
        "renewTime": format!("1970-01-01T00:00:{second}.000000Z")}])
    };
    let (one, two) = (at(20_000, at_second(10)), at(20_000, at_second(20)));
    assert_eq!(states(&one.facts), [Unknown]);
    assert_eq!(one.facts, two.facts);
    assert_ne!(one.endings, two.endings);
}

#[test]
fn what_is_right_is_taken_without_a_word() {
    accepts(
        &base(),
        &[
            ("/status", Value::Null),
            ("/status/endpoints", json!([])),
            ("/status/endpoints/0/renewTime", Value::Null),
            ("/status/endpoints/0/port", json!(65535)),
            ("/status/endpoints/0/address", json!("::1")),
            ("/status/endpoints/0/targetRef", json!({"uid": "u"})),
        ],
    );
}

#[test]
fn what_is_wrong_is_said_on_the_report() {
    refuses(
        &base(),
        false,
        &[
            ("/spec", Value::Null, "spec", "is required"),
            ("/spec/serviceRef", Value::Null, "spec.serviceRef", "is required"),
            ("/spec/serviceRef/name", json!("Cart"), "spec.serviceRef.name", "is not the name of a Service"),
            ("/spec/serviceRef/namespace", json!("web"), "spec.serviceRef.namespace", "is no field of this kind"),
            ("/spec/reporter", json!(""), "spec.reporter", "must not be empty"),
            ("/status/endpoint", json!([]), "status.endpoint", "is no field of this kind"),
            ("/status/endpoints/0/renewtime", json!("x"), "status.endpoints[0].renewtime", "remove it"),
            ("/status/endpoints/0/address", json!("cart"), "status.endpoints[0].address", "is no IP address"),
            ("/status/endpoints/0/address", Value::Null, "status.endpoints[0]", "names no endpoint"),
            ("/status/endpoints/0/targetRef", json!({}), "status.endpoints[0].targetRef.uid", "is required"),
            ("/status/endpoints/0/port", json!(0), "status.endpoints[0].port", "out of range"),
            ("/status/endpoints/0/state", json!("Bad"), "status.endpoints[0].state", "is none of Healthy"),
            ("/status/endpoints/0/state", Value::Null, "status.endpoints[0].state", "is required"),
            ("/status/endpoints/0/renewTime", json!("soon"), "status.endpoints[0].renewTime", "is no time"),
            (
                "/status/endpoints/1",
                json!({"address": "10.0.0.1", "state": "Unhealthy"}),
                "status.endpoints[1]",
                "the first counts",
            ),
        ],
    );
}

#[test]
fn a_bad_entry_harms_no_other() {
    let now = "1970-01-01T00:00:00Z";
    let found = at(
        0,
        json!([
            {"address": "10.0.0.1", "state": "Healthy", "renewTime": now},
            {"address": "10.0.0.2", "state": "Fine", "renewTime": now},
            {"address": "10.0.0.3", "state": "Healthy", "renewTime": "soon"},
            {"address": "10.0.0.4", "state": "Healthy", "port": "http", "renewTime": now},
            null,
            {"address": "10.0.0.1", "state": "Unhealthy", "renewTime": now},
            {"address": "10.0.0.5", "state": "Unhealthy", "renewTime": now},
        ]),
    );
    assert_eq!(states(&found.facts), [Healthy, Expired, Unhealthy]);
}
