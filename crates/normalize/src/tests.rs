//! What holds for every kind.

use crate::fixture::{carried, facts, object, rows, with};
use crate::normalize;
use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_log::Object;
use tidegate_model::{Fact, Kind, Reason};

/// One valid object of every kind, with every part that is read.
fn samples() -> Vec<Value> {
    let meta = json!({"name": "a", "namespace": "shop", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"kubernetes.io/service-name": "a"}});
    let gateway = "gateway.networking.k8s.io/v1";
    vec![
        json!({"apiVersion": gateway, "kind": "GatewayClass", "metadata": meta, "spec": {"controllerName": "a.b/c"}}),
        json!({"apiVersion": gateway, "kind": "Gateway", "metadata": meta, "spec": {"gatewayClassName": "a",
            "addresses": [{"type": "IPAddress", "value": "10.0.0.1"}],
            "infrastructure": {"labels": {"a": "b"}, "parametersRef": {"group": "a", "kind": "B", "name": "c"}},
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP", "hostname": "*.a.b", "allowedRoutes": {
                "kinds": [{"kind": "HTTPRoute"}], "namespaces": {"from": "Selector", "selector": {"matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}}},
                {"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "c"}]}}]}}),
        json!({"apiVersion": gateway, "kind": "ListenerSet", "metadata": meta, "spec": {
            "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "b", "name": "a"},
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP", "hostname": "*.a.b", "allowedRoutes": {
                "kinds": [{"kind": "HTTPRoute"}], "namespaces": {"from": "All"}}},
                {"name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Terminate", "certificateRefs": [{"name": "c"}]}}]}}),
        json!({"apiVersion": gateway, "kind": "HTTPRoute", "metadata": meta, "spec": {"hostnames": ["a.b"],
            "parentRefs": [{"name": "a", "sectionName": "http", "port": 80}], "rules": [{"name": "r",
            "matches": [{"path": {"type": "PathPrefix", "value": "/a"}, "method": "GET",
                "headers": [{"name": "a", "value": "b", "type": "RegularExpression"}], "queryParams": [{"name": "a", "value": "b"}]}],
            "filters": [{"type": "URLRewrite", "urlRewrite": {"hostname": "a.b", "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}},
                {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "a", "value": "b"}], "remove": ["c"]}}],
            "backendRefs": [{"name": "a", "port": 80, "weight": 2}], "timeouts": {"request": "2s", "backendRequest": "1s"},
            "retry": {"codes": [500], "attempts": 2, "backoff": "10ms"},
            "sessionPersistence": {"absoluteTimeout": "1h", "cookieConfig": {"lifetimeType": "Permanent"}}},
            {"filters": [{"type": "CORS", "cors": {"allowOrigins": ["https://*.a.b"], "allowMethods": ["GET"], "allowHeaders": ["*"],
                "exposeHeaders": ["a"], "maxAge": 1, "allowCredentials": true}}]},
            {"filters": [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": 301}}]}]}}),
        json!({"apiVersion": gateway, "kind": "GRPCRoute", "metadata": meta, "spec": {"hostnames": ["a.b"],
            "parentRefs": [{"name": "a"}], "rules": [{"name": "r",
            "matches": [{"method": {"type": "Exact", "service": "a.B", "method": "C"}, "headers": [{"name": "a", "value": "b"}]}],
            "filters": [{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "b", "port": 80},
                "fraction": {"numerator": 1, "denominator": 3}}}],
            "backendRefs": [{"name": "a", "port": 80}], "sessionPersistence": {"type": "Header", "sessionName": "s"}}]}}),
        json!({"apiVersion": gateway, "kind": "TLSRoute", "metadata": meta, "spec": {"hostnames": ["*.a.b"],
            "parentRefs": [{"name": "a", "sectionName": "tls"}],
            "rules": [{"name": "r", "backendRefs": [{"name": "a", "port": 443, "weight": 2}]}]}}),
        json!({"apiVersion": gateway, "kind": "TCPRoute", "metadata": meta, "spec": {"parentRefs": [{"name": "a", "port": 9000}],
            "rules": [{"backendRefs": [{"name": "a", "port": 9000}, {"name": "b", "namespace": "c", "port": 1}]}]}}),
        json!({"apiVersion": gateway, "kind": "UDPRoute", "metadata": meta, "spec": {"parentRefs": [{"name": "a"}],
            "rules": [{"backendRefs": [{"name": "a", "port": 53}]}]}}),
        json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant", "metadata": meta, "spec": {
            "from": [{"group": "g.b", "kind": "HTTPRoute", "namespace": "a"}], "to": [{"group": "", "kind": "Service", "name": "a"}]}}),
        json!({"apiVersion": gateway, "kind": "BackendTLSPolicy", "metadata": meta, "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "a", "sectionName": "https"}],
            "validation": {"hostname": "a.b", "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "a"}],
                "subjectAltNames": [{"type": "Hostname", "hostname": "a.b"}, {"type": "URI", "uri": "spiffe://a/b"}]}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": meta}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"type": "ClusterIP",
            "ports": [{"name": "a", "port": 80, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"}, {"name": "b", "port": 81}]}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta, "addressType": "IPv4",
            "ports": [{"name": "a", "port": 80, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": "n", "zone": "z"}]}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}),
    ]
}

#[test]
fn there_is_a_valid_sample_of_every_kind() {
    let kinds: Vec<Kind> = samples().into_iter().map(|body| object(body).key.kind).collect();
    assert_eq!(kinds, Kind::ALL);
    for body in samples() {
        let facts = facts(body);
        assert_eq!((carried(&facts), rows(&facts)), (vec![], vec![]));
    }
}

#[test]
fn an_unknown_field_is_said_with_what_was_meant_and_does_no_harm() {
    let samples = samples();
    let table = [
        (1, "/spec/listeners/0/hostnames", json!("a.b"), "spec.listeners[0].hostnames", "remove it"),
        (1, "/spec/listners", json!([]), "spec.listners", "remove it"),
        (1, "/spec/addreses", json!([]), "spec.addreses", "remove it"),
        (2, "/spec/parentref", json!({}), "spec.parentref", "remove it"),
        (3, "/spec/rules/0/backendRef", json!([]), "spec.rules[0].backendRef", "remove it"),
        (3, "/spec/rules/1/backendrefs", json!([]), "spec.rules[1].backendrefs", "did you mean backendRefs?"),
        (3, "/spec/rules/1/macthes", json!([]), "spec.rules[1].macthes", "did you mean matches?"),
        (
            3,
            "/spec/rules/0/backendRefs/0/filter",
            json!([]),
            "spec.rules[0].backendRefs[0].filter",
            "did you mean filters?",
        ),
        (3, "/metadata/lables", json!({}), "metadata.lables", "remove it"),
        (10, "/metadata/anotations", json!({}), "metadata.anotations", "did you mean annotations?"),
        (12, "/spec/ports/1/targetport", json!(1), "spec.ports[1].targetport", "did you mean targetPort?"),
        (13, "/endpoints/0/nodename", json!("n"), "endpoints[0].nodename", "remove it"),
        (13, "/enpoints", json!([]), "enpoints", "remove it"),
        (8, "/spec/frm", json!([]), "spec.frm", "remove it"),
        (6, "/spec/hostnames", json!([]), "spec.hostnames", "remove it"),
        (
            7,
            "/spec/rules/0/backendRefs/0/wieght",
            json!(1),
            "spec.rules[0].backendRefs[0].wieght",
            "did you mean weight?",
        ),
    ];
    for (index, pointer, value, field, advice) in table {
        let base = samples[index].clone();
        let found = facts(with(base.clone(), pointer, value));
        let said: Vec<_> =
            rows(&found).iter().map(|f| (f.reason, f.field.to_string(), f.message.to_string())).collect();
        let [(Reason::UnknownField, at, message)] = &said[..] else { panic!("{pointer}: {said:?}") };
        assert_eq!(at, field);
        assert!(message.ends_with(advice), "{message} does not end with {advice}");
        let kept: Vec<_> = found.into_iter().filter(|fact| !matches!(fact, Fact::Finding(..))).collect();
        assert_eq!(kept, facts(base), "{pointer} changes nothing");
    }
}

#[test]
fn a_wrong_type_in_a_part_that_is_not_read_is_a_remark() {
    let service = samples()[12].clone();
    let found = facts(with(service, "/spec/sessionAffinity", json!(5)));
    let said = rows(&found);
    assert_eq!(
        said.iter().map(|f| (f.reason, &*f.field)).collect::<Vec<_>>(),
        [(Reason::UnsupportedValue, "spec.sessionAffinity")]
    );
    assert!(matches!(&found[0], Fact::Service(service) if service.ports.len() == 2));
}

#[test]
fn status_and_managed_fields_are_not_the_users() {
    for body in samples() {
        let body = with(body, "/status/anything", json!({"at": ["all"]}));
        let body = with(body, "/metadata/uid", json!("u"));
        assert_eq!(rows(&facts(body)), []);
    }
}

#[test]
fn a_slice_that_an_api_server_stored_has_no_unknown_fields_to_look_for() {
    let slice = with(samples()[13].clone(), "/extra", json!(1));
    assert_eq!(rows(&facts(slice.clone())).len(), 1);
    assert_eq!(rows(&facts(with(slice, "/metadata/uid", json!("u")))), []);
}

/// How to change a value that stands at some place of an object.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(Value),
    Remove,
    Rename(String),
    Repeat(usize),
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2_i64..70_000).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[a-z0-9./*:%#(\\[{}+-]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_mutation() -> impl Strategy<Value = (usize, Mutation)> {
    let mutation = prop_oneof![
        4 => any_value().prop_map(Mutation::Replace),
        2 => Just(Mutation::Remove),
        1 => "[a-zA-Z]{1,8}".prop_map(Mutation::Rename),
        1 => (2_usize..70).prop_map(Mutation::Repeat),
    ];
    (any::<usize>(), mutation)
}

/// Pointers to every value in the object but its identity.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    let identity = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"];
    if !at.is_empty() && at != "/metadata" && !identity.contains(&at) {
        out.push(at.to_owned());
    }
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                places(inner, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), out);
            }
        }
        Value::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                places(inner, &format!("{at}/{index}"), out);
            }
        }
        _ => {}
    }
}

fn mutate(body: &mut Value, pick: usize, mutation: Mutation) {
    let mut pointers = Vec::new();
    places(body, "", &mut pointers);
    if pointers.is_empty() {
        return;
    }
    let pointer = &pointers[pick % pointers.len()];
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let last = last.replace("~1", "/").replace("~0", "~");
    let Some(place) = body.pointer_mut(parent) else { return };
    match (place, mutation) {
        (Value::Object(map), Mutation::Replace(value)) => drop(map.insert(last, value)),
        (Value::Object(map), Mutation::Remove) => drop(map.remove(&last)),
        (Value::Object(map), Mutation::Rename(name)) => {
            if let Some(value) = map.remove(&last) {
                map.insert(name, value);
            }
        }
        (Value::Array(list), Mutation::Replace(value)) => list[last.parse::<usize>().unwrap()] = value,
        (Value::Array(list), Mutation::Remove) => drop(list.remove(last.parse::<usize>().unwrap())),
        (Value::Array(list), Mutation::Repeat(times)) => {
            let value = list[last.parse::<usize>().unwrap()].clone();
            list.extend(std::iter::repeat_n(value, times));
        }
        _ => {}
    }
}

/// Whether the facts name this object: by its own fact, or at least by what is said about it.
fn keeps_identity(object: &Object, facts: &[Fact]) -> bool {
    let own = facts.iter().filter(|fact| !matches!(fact, Fact::Finding(..) | Fact::Grant(_)));
    let named = facts.iter().filter_map(Fact::object).all(|key| key == object.key);
    named
        && match object.key.kind {
            // One that names no Gateway has nobody to be served by.
            Kind::ReferenceGrant | Kind::ListenerSet => !facts.is_empty(),
            _ => own.count() == 1,
        }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_object_makes_it_panic_and_every_object_keeps_its_identity(
        kind in 0..Kind::ALL.len(), mutations in prop::collection::vec(any_mutation(), 1..6)
    ) {
        let mut body = samples()[kind].clone();
        for (pick, mutation) in mutations {
            mutate(&mut body, pick, mutation);
        }
        let object = object(body);
        let result = normalize(&object);
        prop_assert!(keeps_identity(&object, &result.facts), "{:?}", result.facts);
        for finding in carried(&result.facts).iter().chain(&rows(&result.facts)) {
            prop_assert!(!finding.message.is_empty() && !finding.message.ends_with('.'), "{finding}");
        }
        prop_assert_eq!(&normalize(&object), &result);
        // The order in which the fields were written does not matter.
        let text = serde_json::to_string(&*object.body).unwrap();
        let again = Object::new(serde_json::from_str(&text).unwrap()).unwrap();
        if *again.body == *object.body {
            prop_assert_eq!(&normalize(&again), &result);
        }
    }
}

#[test]
fn what_an_api_server_takes_is_admitted_though_it_is_not_supported_here() {
    let admitted = |body: Value| crate::admit(&object(body)).iter().map(|f| f.field.to_string()).collect::<Vec<_>>();
    for body in samples() {
        assert_eq!(admitted(body), Vec::<String>::new());
    }
    let [gateway, route] = [samples()[1].clone(), samples()[3].clone()];
    let listener = "/spec/listeners/0/allowedRoutes/namespaces/selector/matchExpressions/0/operator";
    assert_eq!(admitted(with(gateway.clone(), listener, json!("Near"))), Vec::<String>::new());
    assert_eq!(admitted(with(gateway, "/spec/listeners/0/port", json!(0))), ["spec.listeners[0].port"]);
    assert_eq!(admitted(with(route.clone(), "/spec/hostnames/0", json!("10.0.0.1"))), Vec::<String>::new());
    let path = "/spec/rules/0/matches/0/headers/0/value";
    assert_eq!(admitted(with(route.clone(), path, json!("("))), Vec::<String>::new());
    assert_eq!(admitted(with(route, "/spec/nothing", json!(1))), Vec::<String>::new());
}
