//! Whatever the values, no field rule of Envoy is broken: the rules are read from the descriptors and checked on what
//! is encoded, for values far outside of what normalization lets through.

use super::*;
use crate::ir::{Action, Assignment, Chain, Cluster, Endpoint, Entry, Forward, Listener, Locality, Redirect, Target};
use proptest::prelude::*;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};
use tidegate_model::{
    HeaderModifier, Hostname, HttpMatch, Name, PathMatch, PathModifier, Upstream, ValueMatch, ValuePattern,
};

/// The broken rules in the message of this type.
fn broken(type_name: &str, bytes: &[u8]) -> Vec<String> {
    let descriptor = tidegate_proto::json::pool().get_message_by_name(type_name).expect("one of Envoy's types");
    let message = DynamicMessage::decode(descriptor, bytes).expect("what is encoded decodes");
    let mut found = Vec::new();
    walk(&message, type_name, &mut found);
    found
}

fn walk(message: &DynamicMessage, path: &str, found: &mut Vec<String>) {
    if message.descriptor().full_name() == "google.protobuf.Any" {
        let url = text(message, "type_url");
        if let Some(inner) =
            url.rsplit('/').next().and_then(|name| tidegate_proto::json::pool().get_message_by_name(name))
        {
            let bytes = message.get_field_by_name("value").unwrap().as_bytes().unwrap().clone();
            walk(&DynamicMessage::decode(inner, bytes).unwrap(), &format!("{path}<{url}>"), found);
        }
        return;
    }
    for field in message.descriptor().fields() {
        let path = format!("{path}.{}", field.name());
        let value = message.has_field(&field).then(|| message.get_field(&field).into_owned());
        // Rules of a field of a oneof count only if it is the one.
        let counts = value.is_some() || field.containing_oneof().is_none();
        if let Some(rules) = rules(&field).filter(|_| counts) {
            check(&rules, &field, value.as_ref(), &path, found);
        }
        value.iter().for_each(|value| descend(value, &path, found));
    }
    for oneof in message.descriptor().oneofs() {
        let required = extension(&oneof.options(), "validate.required").is_some_and(|v| v.as_bool() == Some(true));
        if required && !oneof.fields().any(|field| message.has_field(&field)) {
            found.push(format!("{path}: one of {} is required", oneof.name()));
        }
    }
}

fn descend(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Message(message) => walk(message, path, found),
        Value::List(items) => items.iter().for_each(|item| descend(item, path, found)),
        Value::Map(entries) => entries.values().for_each(|entry| descend(entry, path, found)),
        _ => {}
    }
}

fn extension(options: &DynamicMessage, name: &str) -> Option<Value> {
    let extension = tidegate_proto::json::pool().get_extension_by_name(name).expect("an extension of the validator");
    options.has_extension(&extension).then(|| options.get_extension(&extension).into_owned())
}

fn rules(field: &FieldDescriptor) -> Option<DynamicMessage> {
    match extension(&field.options(), "validate.rules") {
        Some(Value::Message(rules)) => Some(rules),
        _ => None,
    }
}

fn text(message: &DynamicMessage, field: &str) -> String {
    message.get_field_by_name(field).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Checks the rules of one field; `value` is none if it has none, or its default where that cannot be told apart.
fn check(rules: &DynamicMessage, field: &FieldDescriptor, value: Option<&Value>, path: &str, found: &mut Vec<String>) {
    for (kind, rule) in rules.fields().filter_map(|(kind, rule)| Some((kind, rule.as_message()?.clone()))) {
        match kind.name() {
            "message" | "any" | "duration" | "timestamp" if flag(&rule, "required") && value.is_none() => {
                found.push(format!("{path} is required"));
            }
            "repeated" => {
                let len = value.and_then(Value::as_list).map_or(0, <[Value]>::len);
                bound(&rule, "min_items", len, |min| len >= min, path, found);
                bound(&rule, "max_items", len, |max| len <= max, path, found);
                let items = rule.get_field_by_name("items").and_then(|v| v.as_message().cloned()).unwrap();
                for item in value.and_then(Value::as_list).into_iter().flatten() {
                    check(&items, field, Some(item), path, found);
                }
            }
            "duration" => {
                let positive = value.and_then(Value::as_message).is_none_or(|duration| {
                    ["seconds", "nanos"].iter().any(|part| {
                        let part = duration.get_field_by_name(part).unwrap();
                        part.as_i64().unwrap_or_default() > 0 || part.as_i32().unwrap_or_default() > 0
                    })
                });
                if rule.has_field_by_name("gt") && !positive {
                    found.push(format!("{path} must be greater"));
                }
            }
            "string" => check_text(&rule, value.and_then(Value::as_str).unwrap_or_default(), path, found),
            "uint32" => check_number(&rule, field, value, path, found),
            "enum" if flag(&rule, "defined_only") => {
                let number = value.and_then(Value::as_enum_number).unwrap_or_default();
                if matches!(field.kind(), Kind::Enum(of) if of.get_value(number).is_none()) {
                    found.push(format!("{path}: {number} is not defined"));
                }
            }
            _ => {}
        }
    }
}

fn check_text(rule: &DynamicMessage, text: &str, path: &str, found: &mut Vec<String>) {
    if text.is_empty() && flag(rule, "ignore_empty") {
        return;
    }
    let (chars, len) = (text.chars().count(), text.len());
    bound(rule, "min_len", chars, |min| chars >= min, path, found);
    bound(rule, "max_len", chars, |max| chars <= max, path, found);
    bound(rule, "min_bytes", len, |min| len >= min, path, found);
    bound(rule, "max_bytes", len, |max| len <= max, path, found);
    if rule.has_field_by_name("well_known_regex") && text.contains(['\0', '\r', '\n']) {
        found.push(format!("{path}: {text:?} has control characters"));
    }
    if rule.has_field_by_name("pattern") {
        // The one pattern among what is encoded here.
        assert_eq!(self::text(rule, "pattern"), "^[^?#]+[^?#/]$", "a pattern that this test does not know: {path}");
        if text.contains(['?', '#']) || text.ends_with('/') || chars < 2 {
            found.push(format!("{path}: {text:?} is no prefix of path elements"));
        }
    }
}

fn check_number(
    rule: &DynamicMessage,
    field: &FieldDescriptor,
    value: Option<&Value>,
    path: &str,
    found: &mut Vec<String>,
) {
    let number = match value {
        Some(Value::Message(wrapped)) => wrapped.get_field_by_name("value").and_then(|v| v.as_u32()).unwrap_or(0),
        Some(value) => value.as_u32().unwrap_or_default(),
        None if field.supports_presence() => return,
        None => 0,
    } as usize;
    bound(rule, "gt", number, |limit| number > limit, path, found);
    bound(rule, "gte", number, |limit| number >= limit, path, found);
    bound(rule, "lt", number, |limit| number < limit, path, found);
    bound(rule, "lte", number, |limit| number <= limit, path, found);
}

fn flag(rule: &DynamicMessage, name: &str) -> bool {
    rule.get_field_by_name(name).and_then(|v| v.as_bool()).unwrap_or_default()
}

fn bound(
    rule: &DynamicMessage,
    name: &str,
    actual: usize,
    holds: impl Fn(usize) -> bool,
    path: &str,
    found: &mut Vec<String>,
) {
    if rule.has_field_by_name(name) {
        let limit = rule.get_field_by_name(name).unwrap();
        let limit = limit.as_u64().or(limit.as_u32().map(u64::from)).expect("bounds are numbers") as usize;
        if !holds(limit) {
            found.push(format!("{path}: {actual} breaks {name} {limit}"));
        }
    }
}

#[test]
fn the_rules_are_read() {
    use prost::Message;
    use tidegate_proto::envoy::config::route::v3::{Route, RouteMatch, route_match::PathSpecifier};
    let empty = Route::default().encode_to_vec();
    let found = broken("envoy.config.route.v3.Route", &empty).join("\n");
    assert!(found.contains("match is required") && found.contains("one of action"), "{found}");
    let path_specifier = Some(PathSpecifier::PathSeparatedPrefix("/a/".into()));
    let odd = Route { r#match: Some(RouteMatch { path_specifier, ..Default::default() }), ..Default::default() };
    let found = broken("envoy.config.route.v3.Route", &odd.encode_to_vec()).join("\n");
    assert!(found.contains("is no prefix of path elements"), "{found}");
    assert!(!broken("envoy.config.cluster.v3.Cluster", &[]).is_empty());
    assert!(!broken("envoy.config.route.v3.VirtualHost", &[]).is_empty());
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        3 => "[a-z/:?#%*. \\\\-]{0,6}".prop_map(Name::from),
        1 => prop::sample::select(vec!["", "/", "/a", "/a/", "a\nb", "\0", "host", ":path", "é"]).prop_map(Name::from),
        1 => Just(Name::from("x".repeat(20_000))),
    ]
}

fn modifier() -> impl Strategy<Value = HeaderModifier> {
    let pairs = || prop::collection::vec((name(), name()), 0..3);
    (pairs(), pairs(), prop::collection::vec(name(), 0..3)).prop_map(|(set, add, remove)| HeaderModifier {
        set,
        add,
        remove,
    })
}

fn value_matches() -> impl Strategy<Value = Vec<ValueMatch>> {
    let pattern = prop_oneof![name().prop_map(ValuePattern::Exact), name().prop_map(ValuePattern::Regex)];
    prop::collection::vec((name(), pattern).prop_map(|(name, value)| ValueMatch { name, value }), 0..3)
}

fn matcher() -> impl Strategy<Value = HttpMatch> {
    let path = prop_oneof![
        name().prop_map(PathMatch::Exact),
        name().prop_map(PathMatch::Prefix),
        name().prop_map(PathMatch::Regex)
    ];
    (path, value_matches(), value_matches(), prop::option::of(name()))
        .prop_map(|(path, headers, query, method)| HttpMatch { path, headers, query, method })
}

fn path() -> impl Strategy<Value = Option<PathModifier>> {
    prop::option::of(prop_oneof![name().prop_map(PathModifier::Full), name().prop_map(PathModifier::Prefix)])
}

fn action() -> impl Strategy<Value = Action> {
    let cluster = prop_oneof![Just(Name::from("shop/a/80")), Just(Name::from("shop/b/80"))];
    let target = (cluster, any::<u32>(), modifier(), modifier()).prop_map(|(cluster, weight, request, response)| {
        Target { cluster, weight, request_headers: request, response_headers: response }
    });
    let time = || prop::option::of(any::<u64>());
    let forward =
        (prop::collection::vec(target, 0..4), prop::option::of(name()), path(), time(), time(), any::<bool>())
            .prop_map(|(targets, hostname, path, timeout, try_timeout, websocket)| {
                Action::Forward(Forward { targets, hostname, path, timeout, try_timeout, websocket })
            });
    let redirect = (prop::option::of(name()), prop::option::of(name()), any::<Option<u16>>(), path(), any::<u16>())
        .prop_map(|(scheme, hostname, port, path, status)| {
            Action::Redirect(Redirect { scheme, hostname, port, path, status })
        });
    prop_oneof![3 => forward, 2 => redirect, 1 => any::<u16>().prop_map(Action::Respond)]
}

fn entry() -> impl Strategy<Value = Entry> {
    (name(), matcher(), action(), modifier(), modifier()).prop_map(|(id, matcher, action, request, response)| Entry {
        id,
        matcher,
        action,
        request_headers: request,
        response_headers: response,
    })
}

fn locality() -> impl Strategy<Value = Locality> {
    let endpoint = (any::<[u8; 4]>(), any::<u16>(), any::<bool>()).prop_map(|(ip, port, draining)| Endpoint {
        address: std::net::Ipv4Addr::from(ip).to_string().into(),
        port,
        draining,
    });
    (name(), name(), any::<u32>(), prop::collection::vec(endpoint, 0..4))
        .prop_map(|(region, zone, priority, endpoints)| Locality { region, zone, priority, endpoints })
}

proptest! {
    #[test]
    fn no_table_breaks_a_rule(entries in prop::collection::vec(entry(), 0..4)) {
        let host = virtual_host(&Hostname::any(), entries.iter().map(super::entry).collect());
        let table = table("http-80", &[&host]);
        prop_assert_eq!(broken("envoy.config.route.v3.RouteConfiguration", &table), Vec::<String>::new());
    }

    #[test]
    fn no_assignment_breaks_a_rule(localities in prop::collection::vec(locality(), 0..4)) {
        let endpoints = endpoints(&Assignment { cluster: "shop/a/80".into(), localities });
        prop_assert_eq!(broken("envoy.config.endpoint.v3.ClusterLoadAssignment", &endpoints.bytes), Vec::<String>::new());
    }
}

#[test]
fn no_cluster_breaks_a_rule() {
    for upstream in [Upstream::Http1, Upstream::H2c, Upstream::WebSocket] {
        let cluster = cluster(&Cluster { name: "shop/a/80".into(), upstream });
        assert_eq!(broken("envoy.config.cluster.v3.Cluster", &cluster.bytes), [""; 0]);
    }
}

#[test]
fn no_listener_breaks_a_rule() {
    for certificates in [Vec::new(), vec!["shop/cert".into()]] {
        for hostname in ["", "a.example", "*.example"].map(Hostname::new) {
            let chains = vec![Chain { hostname, table: "http-80".into(), certificates: certificates.clone() }];
            let addresses = vec!["0.0.0.0".into(), "::1".into()];
            let listener = listener(&Listener { name: "http-80".into(), addresses, port: 80, chains });
            assert_eq!(broken("envoy.config.listener.v3.Listener", &listener.resource.bytes), [""; 0]);
        }
    }
    let secret = secret(&"shop/cert".into(), b"chain", b"key");
    assert_eq!(broken("envoy.extensions.transport_sockets.tls.v3.Secret", &secret), [""; 0]);
}
