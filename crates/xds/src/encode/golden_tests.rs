//! The shape of everything that is encoded, as canonical JSON, and that an independent reader understands it.

use super::*;
use crate::ir::{
    Action, Assignment, Chain, ClientValidation, Cluster, Endpoint, Entry, Family, Forward, Listener, Locality,
    Redirect, Target, Way,
};
use crate::resource::Resource;
use prost::Message;
use serde_json::{Value, json};
use tidegate_model::{
    HeaderModifier, Hostname, HttpMatch, Name, PathMatch, PathModifier, ResourceType, SubjectName, Transport, Upstream,
    ValueMatch, ValuePattern,
};

const ROUTE: &str = "envoy.config.route.v3.Route";

fn json_of(resource_type: ResourceType, resource: &Resource) -> Value {
    tidegate_proto::json::to_json(resource_type.url(), &resource.bytes).unwrap()
}

fn prefix(path: &str) -> HttpMatch {
    HttpMatch { path: PathMatch::Prefix(path.into()), headers: vec![], query: vec![], method: None }
}

fn target(cluster: &str, weight: u32) -> Target {
    Target {
        cluster: cluster.into(),
        weight,
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    }
}

fn forward(targets: Vec<Target>) -> Forward {
    Forward { targets, ..Forward::default() }
}

fn plain(action: Action) -> Entry {
    Entry {
        id: "shop/cart/0/0".into(),
        matcher: prefix("/cart"),
        action,
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    }
}

fn route(entry: &Entry) -> Value {
    tidegate_proto::json::to_json(ROUTE, &super::entry(entry).bytes).unwrap()
}

fn set(name: &str, value: &str) -> HeaderModifier {
    HeaderModifier { set: vec![(name.into(), value.into())], ..HeaderModifier::default() }
}

#[test]
fn a_listener_has_one_chain_with_a_constant_filter_list() {
    let chain = Chain {
        hostname: Hostname::any(),
        to: Way::Requests("shop/public/http-80".into()),
        certificates: Vec::new(),
        clients: None,
        listeners: Vec::new(),
    };
    let addresses = vec!["0.0.0.0".into()];
    let listener = Listener { name: "http-80".into(), addresses, port: 80, family: Family::Http, chains: vec![chain] };
    let row = super::listener(&listener);
    assert_eq!(row.tables, ["shop/public/http-80"]);
    let value = json_of(ResourceType::Listener, &row.resource);
    assert_eq!(value["address"], json!({ "socket_address": { "address": "0.0.0.0", "port_value": 80 } }));
    let manager = &value["filter_chains"][0]["filters"][0]["typed_config"];
    assert_eq!(
        manager["rds"],
        json!({ "config_source": { "ads": {}, "resource_api_version": "V3" }, "route_config_name": "shop/public/http-80" })
    );
    let filters: Vec<_> = manager["http_filters"].as_array().unwrap().iter().collect();
    let names: Vec<_> = filters.iter().map(|filter| filter["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "envoy.filters.http.cors",
            "envoy.filters.http.ext_authz",
            "envoy.filters.http.stateful_session",
            "tidegate.location.write",
            "tidegate.location.read",
            "envoy.filters.http.router"
        ]
    );
    let enabled = filters.iter().filter(|filter| filter["disabled"] != json!(true));
    assert_eq!(enabled.count(), 1, "only the router is enabled");
    let mut rest = manager.clone();
    rest.as_object_mut().unwrap().retain(|key, _| !["rds", "http_filters", "@type"].contains(&key.as_str()));
    let expected = json!({
        "stat_prefix": "http",
        "use_remote_address": true,
        "internal_address_config": { "cidr_ranges": [{ "address_prefix": "0.0.0.0", "prefix_len": 32 }] },
        "normalize_path": true,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "server_header_transformation": "PASS_THROUGH",
        "upgrade_configs": [{ "upgrade_type": "websocket", "enabled": false }],
    });
    assert_eq!(rest, expected);
}

#[test]
fn a_listener_with_tls_has_a_chain_for_each_hostname_with_its_secrets() {
    let chain = |host: &str, secrets: &[&str]| Chain {
        hostname: Hostname::new(host),
        to: Way::Requests(format!("https/443/{}", Hostname::new(host)).into()),
        certificates: secrets.iter().map(|name| (*name).into()).collect(),
        clients: None,
        listeners: Vec::new(),
    };
    let chains = vec![chain("", &["shop/b"]), chain("*.a.example", &["shop/c", "shop/b"])];
    let addresses = vec!["127.0.0.1".into(), "::1".into()];
    let row = super::listener(&Listener { name: "tls/443".into(), addresses, port: 443, family: Family::Tls, chains });
    assert_eq!(row.tables, ["https/443/*", "https/443/*.a.example"]);
    assert_eq!(row.secrets, ["shop/b", "shop/c"]);
    let value = json_of(ResourceType::Listener, &row.resource);
    assert_eq!(
        value["additional_addresses"],
        json!([{ "address": { "socket_address": { "address": "::1", "port_value": 443 } } }])
    );
    assert_eq!(value["listener_filters"][0]["name"], "envoy.filters.listener.tls_inspector");
    let chains = &value["filter_chains"];
    assert_eq!((&chains[0]["name"], &chains[0]["filter_chain_match"]), (&json!("*"), &json!({})));
    assert_eq!(chains[1]["filter_chain_match"], json!({ "server_names": ["*.a.example"] }));
    let sds = json!({ "ads": {}, "resource_api_version": "V3" });
    assert_eq!(
        chains[1]["transport_socket"]["typed_config"]["common_tls_context"],
        json!({
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_certificate_sds_secret_configs": [
                { "name": "shop/c", "sds_config": sds },
                { "name": "shop/b", "sds_config": sds },
            ],
        })
    );
}

#[test]
fn clients_are_asked_for_a_certificate_where_there_is_something_to_check_it_by() {
    let context = |clients: Option<ClientValidation>| {
        let to = Way::Requests("https/443/*".into());
        let certificates = vec!["shop/a".into()];
        let chain = Chain { hostname: Hostname::any(), to, certificates, clients, listeners: Vec::new() };
        let (name, addresses) = ("tls/443".into(), vec!["127.0.0.1".into()]);
        let listener = Listener { name, addresses, port: 443, family: Family::Tls, chains: vec![chain] };
        let value = json_of(ResourceType::Listener, &super::listener(&listener).resource);
        value["filter_chains"][0]["transport_socket"]["typed_config"].clone()
    };
    let validated = |required| {
        let context = context(Some(ClientValidation { authorities: "PEM".into(), required }));
        (context["require_client_certificate"].clone(), context["common_tls_context"]["validation_context"].clone())
    };
    assert_eq!(validated(true), (json!(true), json!({ "trusted_ca": { "inline_string": "PEM" } })));
    let insecure = json!({ "trusted_ca": { "inline_string": "PEM" }, "trust_chain_verification": "ACCEPT_UNTRUSTED" });
    assert_eq!(validated(false), (json!(false), insecure));
    let plain = context(None);
    assert!(plain.get("require_client_certificate").is_none(), "{plain}");
    assert!(plain["common_tls_context"].get("validation_context").is_none(), "{plain}");
}

#[test]
fn a_secret_is_a_digest_until_it_is_sent() {
    let one = super::secret_ref("shop/b".into(), "d1");
    assert_eq!(super::secret_digest(&one), "d1");
    assert_ne!(one.version, super::secret_ref("shop/b".into(), "d2").version);
    assert_ne!(one.version, super::secret_ref("shop/c".into(), "d1").version);
    let bytes = super::secret(&"shop/b".into(), b"chain", b"key");
    let sent = Resource::new("shop/b".into(), bytes);
    assert_eq!(
        json_of(ResourceType::Secret, &sent),
        json!({
            "name": "shop/b",
            "tls_certificate": {
                "certificate_chain": { "inline_bytes": "Y2hhaW4=" },
                "private_key": { "inline_bytes": "a2V5" },
            },
        })
    );
}

#[test]
fn a_host_of_another_listener_is_misdirected() {
    let host = super::misdirected(&Hostname::new("a.example"));
    let value = tidegate_proto::json::to_json(ROUTE, &host.entries[0].bytes).unwrap();
    assert_eq!((&value["match"], &value["direct_response"]), (&json!({ "prefix": "/" }), &json!({ "status": 421 })));
}

#[test]
fn an_entry_with_one_target_names_its_cluster_and_has_no_timeout() {
    let entry = plain(Action::Forward(forward(vec![target("shop/cart/80", 7), target("shop/old/80", 0)])));
    let expected = json!({
        "name": "shop/cart/0/0",
        "match": { "path_separated_prefix": "/cart" },
        "route": {
            "cluster": "shop/cart/80",
            "cluster_not_found_response_code": "INTERNAL_SERVER_ERROR",
            "timeout": "0s",
        },
    });
    assert_eq!(route(&entry), expected);
    assert_eq!(super::entry(&entry).clusters, ["shop/cart/80"]);
}

#[test]
fn every_match_is_encoded() {
    let matched = |name: &str, value: ValuePattern| ValueMatch { name: name.into(), value };
    let mut entry = plain(Action::Respond(404));
    entry.matcher = HttpMatch {
        path: PathMatch::Regex("/a.*".into()),
        headers: vec![
            matched("x-a", ValuePattern::Exact("1".into())),
            matched("x-b", ValuePattern::Regex("2+".into())),
        ],
        query: vec![matched("q", ValuePattern::Exact("3".into()))],
        method: Some("GET".into()),
    };
    let expected = json!({
        "safe_regex": { "google_re2": { "max_program_size": 100_000 }, "regex": "/a.*" },
        "headers": [
            { "name": ":method", "string_match": { "exact": "GET" } },
            { "name": "x-a", "string_match": { "exact": "1" } },
            { "name": "x-b", "string_match": { "safe_regex": { "google_re2": { "max_program_size": 100_000 }, "regex": "2+" } } },
        ],
        "query_parameters": [{ "name": "q", "string_match": { "exact": "3" } }],
    });
    assert_eq!(route(&entry)["match"], expected);
    entry.matcher = HttpMatch { path: PathMatch::Exact("/".into()), headers: vec![], query: vec![], method: None };
    assert_eq!(route(&entry)["match"], json!({ "path": "/" }));
}

#[test]
fn a_match_that_no_request_can_have_matches_nothing() {
    let mut entry = plain(Action::Respond(404));
    entry.matcher.query = vec![ValueMatch { name: "q".repeat(2000).into(), value: ValuePattern::Exact("".into()) }];
    let value = route(&entry);
    assert_eq!(value["match"]["headers"], json!([{ "name": ":method", "string_match": { "exact": "" } }]));
    assert_eq!(value["match"]["query_parameters"], Value::Null);
}

#[test]
fn weights_are_kept_and_the_header_changes_of_targets_follow_those_of_the_rule() {
    let mut targets = vec![target("shop/a/80", 3), target("tidegate/invalid", 1), target("shop/zero/80", 0)];
    let mut entry = plain(Action::Forward(forward(targets.clone())));
    entry.request_headers = set("X-Who", "rule");
    let value = route(&entry);
    let clusters = json!([{ "name": "shop/a/80", "weight": 3 }, { "name": "tidegate/invalid", "weight": 1 }]);
    assert_eq!(value["route"]["weighted_clusters"]["clusters"], clusters);
    assert_eq!(value["request_headers_to_add"][0]["header"], json!({ "key": "x-who", "value": "rule" }));

    targets[0].request_headers =
        HeaderModifier { add: vec![("x-who".into(), "target".into())], ..HeaderModifier::default() };
    entry.action = Action::Forward(forward(targets));
    let value = route(&entry);
    assert_eq!(value["request_headers_to_add"], Value::Null);
    let rule = json!({ "header": { "key": "x-who", "value": "rule" }, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD" });
    let clusters = &value["route"]["weighted_clusters"]["clusters"];
    assert_eq!(
        clusters[0]["request_headers_to_add"],
        json!([rule, { "header": { "key": "x-who", "value": "target" } }])
    );
    assert_eq!(clusters[1]["request_headers_to_add"], json!([rule]));
    assert_eq!(super::entry(&entry).clusters, ["shop/a/80", "tidegate/invalid"]);
}

#[test]
fn weights_beyond_32_bits_are_scaled_down_together() {
    let targets = vec![target("a", u32::MAX), target("b", u32::MAX), target("c", 1)];
    let value = route(&plain(Action::Forward(forward(targets))));
    let weights: Vec<u64> = value["route"]["weighted_clusters"]["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cluster| cluster["weight"].as_u64().unwrap())
        .collect();
    assert!(weights.iter().sum::<u64>() <= u64::from(u32::MAX), "{weights:?}");
    assert_eq!((weights[0], weights[2]), (weights[1], 1));
}

#[test]
fn no_target_at_all_answers_500() {
    let entry = plain(Action::Forward(forward(vec![target("a", 0)])));
    assert_eq!(route(&entry)["direct_response"], json!({ "status": 500 }));
    assert!(super::entry(&entry).clusters.is_empty());
}

#[test]
fn header_changes_that_envoy_refuses_or_misreads_are_not_sent() {
    let mut entry = plain(Action::Respond(200));
    entry.response_headers = HeaderModifier {
        set: vec![
            ("Host".into(), "x".into()),
            (":path".into(), "/".into()),
            ("x-share".into(), "100%".into()),
            ("x-both".into(), "1".into()),
            ("x-line".into(), "a\nb".into()),
            ("x-empty".into(), "".into()),
        ],
        add: vec![],
        remove: vec!["host".into(), "X-Both".into()],
    };
    let value = route(&entry);
    let action = "OVERWRITE_IF_EXISTS_OR_ADD";
    let expected = json!([
        { "header": { "key": "x-share", "value": "100%%" }, "append_action": action },
        { "header": { "key": "x-empty" }, "append_action": action, "keep_empty_value": true },
    ]);
    assert_eq!(value["response_headers_to_add"], expected);
    assert_eq!(value["response_headers_to_remove"], json!(["x-both"]));
}

#[test]
fn rewrites_timeouts_and_upgrades_are_encoded() {
    let mut to = forward(vec![target("a", 1)]);
    to.hostname = Some("backend.example.com".into());
    to.path = Some(PathModifier::Prefix("/v2/".into()));
    to.timeout = Some(600_000);
    to.try_timeout = Some(1500);
    to.websocket = true;
    let expected = json!({
        "cluster": "a",
        "cluster_not_found_response_code": "INTERNAL_SERVER_ERROR",
        "host_rewrite_literal": "backend.example.com",
        "prefix_rewrite": "/v2",
        "timeout": "600s",
        "idle_timeout": "3600s",
        "retry_policy": { "num_retries": 0, "per_try_timeout": "1.500s" },
        "upgrade_configs": [{ "upgrade_type": "websocket", "enabled": true }],
    });
    assert_eq!(route(&plain(Action::Forward(to.clone())))["route"], expected);

    to = Forward { path: Some(PathModifier::Full("/one\\two".into())), websocket: false, try_timeout: Some(0), ..to };
    let value = route(&plain(Action::Forward(to.clone())));
    let whole = json!({ "pattern": { "google_re2": { "max_program_size": 100_000 }, "regex": "^/.*$" }, "substitution": r"/one\\two" });
    assert_eq!(value["route"]["regex_rewrite"], whole);
    assert_eq!(value["route"]["idle_timeout"], json!("600s"), "a longer timeout is not cut short by silence");
    assert_eq!(value["route"]["retry_policy"], Value::Null);

    to.path = Some(PathModifier::Prefix("/".into()));
    let stripped = json!({ "pattern": { "google_re2": { "max_program_size": 100_000 }, "regex": "^/cart/*" }, "substitution": "/" });
    assert_eq!(route(&plain(Action::Forward(to)))["route"]["regex_rewrite"], stripped);
}

fn redirect(hostname: Option<Name>, port: Option<u16>, path: Option<PathModifier>) -> Action {
    Action::Redirect(Redirect { scheme: Some("https".into()), hostname, port, path, status: 308 })
}

#[test]
fn a_redirect_shows_a_port_only_if_one_is_given() {
    let value = route(&plain(redirect(None, None, None)));
    assert_eq!(value["redirect"], json!({ "scheme_redirect": "https", "response_code": "PERMANENT_REDIRECT" }));
    let enabled = json!({ "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {} });
    let filters = json!({ "tidegate.location.read": enabled, "tidegate.location.write": enabled });
    assert_eq!(value["typed_per_filter_config"], filters);

    for (hostname, port) in [(None, Some(8443)), (Some("x.com".into()), None), (Some("x.com".into()), Some(8443))] {
        let value = route(&plain(redirect(hostname.clone(), port, None)));
        assert_eq!(value["redirect"].get("host_redirect").cloned(), hostname.map(|name| json!(name)));
        assert_eq!(value["redirect"].get("port_redirect").cloned(), port.map(|port| json!(port)));
        assert_eq!(value["typed_per_filter_config"], Value::Null);
    }
}

#[test]
fn a_redirect_changes_paths_as_a_rewrite_does() {
    let redirect = |path: PathModifier| route(&plain(redirect(None, Some(8443), Some(path))))["redirect"].clone();
    assert_eq!(redirect(PathModifier::Full("/new".into()))["path_redirect"], json!("/new"));
    assert_eq!(redirect(PathModifier::Prefix("/new/".into()))["prefix_rewrite"], json!("/new"));
    let stripped = json!({ "pattern": { "google_re2": { "max_program_size": 100_000 }, "regex": "^/cart/*" }, "substitution": "/" });
    assert_eq!(redirect(PathModifier::Prefix("".into()))["regex_rewrite"], stripped);
}

#[test]
fn a_cluster_takes_its_endpoints_from_the_same_stream() {
    let cluster = |upstream| {
        let cluster = Cluster { name: "shop/a/80".into(), transport: Transport::Tcp, upstream, tls: None };
        json_of(ResourceType::Cluster, &super::cluster(&cluster))
    };
    let options = |protocol: &str| {
        json!({ "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": { protocol: {} },
        } })
    };
    let most = u32::MAX;
    let expected = json!({
        "name": "shop/a/80",
        "type": "EDS",
        "eds_cluster_config": { "eds_config": { "ads": {}, "resource_api_version": "V3" } },
        "connect_timeout": "5s",
        "lb_policy": "LEAST_REQUEST",
        "common_lb_config": { "healthy_panic_threshold": {}, "update_merge_window": "0s" },
        "circuit_breakers": { "thresholds": [{
            "max_connections": most, "max_pending_requests": most, "max_requests": most, "max_retries": most,
        }] },
        "ignore_health_on_host_removal": true,
        "typed_extension_protocol_options": options("http_protocol_options"),
    });
    assert_eq!(cluster(Upstream::Http1), expected);
    assert_eq!(cluster(Upstream::WebSocket), expected);
    assert_eq!(cluster(Upstream::H2c)["typed_extension_protocol_options"], options("http2_protocol_options"));
}

fn assignment(endpoints: &[(&str, bool)]) -> Assignment {
    let endpoint =
        |(address, draining): &(&str, bool)| Endpoint { address: (*address).into(), port: 8080, draining: *draining };
    let locality = Locality {
        region: "".into(),
        zone: "z1".into(),
        sub_zone: "".into(),
        priority: 0,
        endpoints: endpoints.iter().map(endpoint).collect(),
    };
    Assignment { cluster: "shop/a/80".into(), localities: vec![locality] }
}

#[test]
fn an_assignment_is_sorted_and_says_who_is_draining() {
    let value =
        json_of(ResourceType::Endpoints, &super::endpoints(&assignment(&[("10.0.0.2", true), ("10.0.0.1", false)])));
    let endpoint = |address: &str, status: &str| {
        json!({
            "endpoint": { "address": { "socket_address": { "address": address, "port_value": 8080 } } },
            "health_status": status,
        })
    };
    let expected = json!({
        "cluster_name": "shop/a/80",
        "endpoints": [{
            "locality": { "zone": "z1" },
            "lb_endpoints": [endpoint("10.0.0.1", "HEALTHY"), endpoint("10.0.0.2", "DRAINING")],
        }],
        "policy": { "overprovisioning_factor": 1_000_000 },
    });
    assert_eq!(value, expected);
}

#[test]
fn an_assignment_without_endpoints_is_said() {
    let empty = Assignment { cluster: "a".into(), localities: vec![] };
    let value = json_of(ResourceType::Endpoints, &super::endpoints(&empty));
    assert_eq!(value, json!({ "cluster_name": "a", "policy": { "overprovisioning_factor": 1_000_000 } }));
}

#[test]
fn a_virtual_host_is_the_concatenation_of_its_entries() {
    let entries = vec![
        super::entry(&plain(Action::Respond(404))),
        super::entry(&plain(Action::Forward(forward(vec![target("a", 1)])))),
    ];
    for host in ["", "*.example.com", "a.example.com"] {
        let host = Hostname::new(host);
        let encoded = virtual_host(&host, entries.clone());
        let message = tidegate_proto::envoy::config::route::v3::VirtualHost::decode(encoded.bytes.clone()).unwrap();
        assert_eq!(message.domains, [host.as_str()]);
        assert_eq!(message.routes.len(), 2);
        assert_eq!(message.encode_to_vec(), encoded.bytes, "as the encoder of the whole message writes it");
        assert_eq!(encoded.entries, entries);
    }
}

#[test]
fn equal_values_have_equal_bytes() {
    let redirect = plain(redirect(None, None, None));
    for _ in 0..20 {
        assert_eq!(super::entry(&redirect), super::entry(&redirect.clone()));
    }
}

#[test]
fn a_cluster_over_tls_checks_whom_it_talks_to() {
    let socket = |tls| {
        let cluster =
            Cluster { name: "a".into(), transport: Transport::Tcp, upstream: Upstream::Http1, tls: Some(tls) };
        json_of(ResourceType::Cluster, &super::cluster(&cluster))["transport_socket"]["typed_config"].clone()
    };
    let tls = crate::ir::UpstreamTls {
        sni: "a.example".into(),
        names: Vec::new(),
        authorities: crate::ir::Authorities::Inline("pem".into()),
        certificate: None,
    };
    let expected = json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": "a.example",
        "common_tls_context": {
            "tls_params": { "tls_maximum_protocol_version": "TLSv1_3" },
            "validation_context": {
                "trusted_ca": { "inline_string": "pem" },
                "match_typed_subject_alt_names": [{ "san_type": "DNS", "matcher": { "exact": "a.example" } }],
            },
        },
    });
    assert_eq!(socket(tls.clone()), expected);
    let named = socket(crate::ir::UpstreamTls {
        names: vec![SubjectName::Uri("spiffe://a".into())],
        authorities: crate::ir::Authorities::System,
        certificate: Some("shop/cert".into()),
        ..tls
    });
    let common = &named["common_tls_context"];
    let validation = json!({
        "trusted_ca": { "filename": "/etc/ssl/certs/ca-certificates.crt" },
        "match_typed_subject_alt_names": [{ "san_type": "URI", "matcher": { "exact": "spiffe://a" } }],
    });
    assert_eq!(common["validation_context"], validation);
    let secret = json!([{ "name": "shop/cert", "sds_config": { "ads": {}, "resource_api_version": "V3" } }]);
    assert_eq!(common["tls_certificate_sds_secret_configs"], secret);
}

#[test]
fn an_independent_reader_understands_what_is_encoded() {
    use envoy_types::pb::envoy::config as reader;
    let endpoints = super::endpoints(&assignment(&[("10.0.0.1", false)]));
    let read = <reader::endpoint::v3::ClusterLoadAssignment as Message>::decode(&endpoints.bytes[..]).unwrap();
    assert_eq!(read.endpoints[0].lb_endpoints.len(), 1);
    let (name, upstream) = ("shop/a/80".into(), Upstream::H2c);
    let cluster = super::cluster(&Cluster { name, transport: Transport::Tcp, upstream, tls: None });
    let read = <reader::cluster::v3::Cluster as Message>::decode(&cluster.bytes[..]).unwrap();
    assert_eq!((&*read.name, read.typed_extension_protocol_options.len()), ("shop/a/80", 1));
    let host =
        virtual_host(&Hostname::any(), vec![super::entry(&plain(Action::Forward(forward(vec![target("a", 1)]))))]);
    let table = super::table("http-80", &[&host]);
    let read = <reader::route::v3::RouteConfiguration as Message>::decode(&table[..]).unwrap();
    assert!(read.ignore_port_in_host_matching);
    assert_eq!((&*read.name, read.virtual_hosts[0].routes.len()), ("http-80", 1));
}

mod extended;
