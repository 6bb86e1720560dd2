//! Whatever the values, no field rule of Envoy is broken: the rules are read from the descriptors and checked on what
//! is encoded, for values far outside of what normalization lets through.

use super::*;
use crate::ir::{
    Action, Assignment, Authorities, Chain, ClientValidation, Cluster, Endpoint, Entry, Family, Forward, Listener,
    Locality, Mirror, Redirect, Session, Share, Stream, Target, UpstreamTls, Way,
};
use proptest::prelude::*;
use testkit::rules;
use tidegate_model::{
    CorsFact, HeaderModifier, Hostname, HttpMatch, ListenerKey, MethodMatch, Name, NamespacedName, PathMatch,
    PathModifier, RetryFact, SessionCarrier, SubjectName, Transport, Upstream, ValueMatch, ValuePattern,
};
use tidegate_proto::envoy::config::core::v3::transport_socket;

/// The broken rules in the message of this type.
fn broken(type_name: &str, bytes: &[u8]) -> Vec<String> {
    rules::broken(tidegate_proto::json::pool(), type_name, bytes)
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
        name().prop_map(PathMatch::Regex),
        (prop::option::of(name()), prop::option::of(name()), any::<bool>())
            .prop_map(|(service, method, regex)| PathMatch::Method(MethodMatch { service, method, regex })),
    ];
    (path, value_matches(), value_matches(), prop::option::of(name()))
        .prop_map(|(path, headers, query, method)| HttpMatch { path, headers, query, method })
}

fn path() -> impl Strategy<Value = Option<PathModifier>> {
    prop::option::of(prop_oneof![name().prop_map(PathModifier::Full), name().prop_map(PathModifier::Prefix)])
}

fn targets() -> impl Strategy<Value = Vec<Target>> {
    let cluster = prop_oneof![Just(Name::from("shop/a/80")), Just(Name::from("shop/b/80"))];
    let target = (cluster, any::<u32>(), modifier(), modifier()).prop_map(|(cluster, weight, request, response)| {
        Target { cluster, weight, request_headers: request, response_headers: response }
    });
    prop::collection::vec(target, 0..4)
}

fn mirrors() -> impl Strategy<Value = Vec<Mirror>> {
    let mirror = (name(), any::<u32>()).prop_map(|(cluster, per_million)| Mirror { cluster, per_million });
    prop::collection::vec(mirror, 0..3)
}

fn retry() -> impl Strategy<Value = RetryFact> {
    let codes = prop::collection::vec(any::<u16>(), 0..3);
    (codes, any::<Option<u32>>(), any::<Option<u64>>()).prop_map(|(codes, attempts, backoff)| RetryFact {
        codes,
        attempts,
        backoff,
    })
}

fn session() -> impl Strategy<Value = Session> {
    let cookie = any::<Option<u64>>().prop_map(|lifetime| SessionCarrier::Cookie { lifetime });
    let carrier = prop_oneof![cookie, Just(SessionCarrier::Header)];
    (name(), carrier, name()).prop_map(|(name, carrier, path)| Session { name, carrier, path })
}

fn cors() -> impl Strategy<Value = CorsFact> {
    let names = || prop::collection::vec(name(), 0..3);
    (names(), names(), names(), names(), any::<u32>(), any::<bool>()).prop_map(
        |(origins, methods, headers, exposed, max_age_s, credentials)| CorsFact {
            origins,
            methods,
            headers,
            exposed,
            max_age_s,
            credentials,
        },
    )
}

fn forward() -> impl Strategy<Value = Forward> {
    let time = || prop::option::of(any::<u64>());
    let plain = (targets(), prop::option::of(name()), path(), time(), time(), any::<[bool; 2]>());
    let extended = (mirrors(), prop::option::of(retry()), prop::option::of(session()), prop::option::of(cors()));
    (plain, extended).prop_map(
        |((targets, hostname, path, timeout, try_timeout, [websocket, grpc]), (mirrors, retry, session, cors))| {
            Forward {
                targets,
                mirrors,
                hostname,
                path,
                timeout,
                try_timeout,
                retry,
                session,
                cors: cors.map(Box::new),
                websocket,
                grpc,
            }
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let forward = forward().prop_map(Action::Forward);
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
    (name(), name(), name(), any::<u32>(), prop::collection::vec(endpoint, 0..4)).prop_map(
        |(region, zone, sub_zone, priority, endpoints)| Locality { region, zone, sub_zone, priority, endpoints },
    )
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
    let long = "a".repeat(253);
    let tls = |names: Vec<SubjectName>, authorities, certificate: Option<&str>| {
        Some(UpstreamTls { sni: long.as_str().into(), names, authorities, certificate: certificate.map(Name::from) })
    };
    let names = vec![SubjectName::Host("*.a.example".into()), SubjectName::Uri("spiffe://a/b".into())];
    let forms = [
        None,
        tls(Vec::new(), Authorities::System, None),
        tls(names.clone(), Authorities::Inline("pem".into()), Some("shop/cert")),
    ];
    for (upstream, tls) in [Upstream::Http1, Upstream::H2c, Upstream::WebSocket].into_iter().zip(forms) {
        let cluster =
            cluster(&Cluster { name: "shop/a/80".into(), transport: Transport::Tcp, upstream, tls: tls.clone() });
        assert_eq!(broken("envoy.config.cluster.v3.Cluster", &cluster.bytes), [""; 0]);
        let context = tls.map(|tls| super::tls::upstream(&tls).config_type);
        if let Some(Some(transport_socket::ConfigType::TypedConfig(context))) = context {
            let name = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
            assert_eq!(broken(name, &context.value), [""; 0]);
        }
    }
}

#[test]
fn no_listener_breaks_a_rule() {
    let clients = |required| Some(ClientValidation { authorities: "PEM".into(), required });
    let with_tls = [None, clients(true), clients(false)].map(|clients| (vec!["shop/cert".into()], clients));
    for (certificates, clients) in [(Vec::new(), None)].into_iter().chain(with_tls) {
        for hostname in ["", "a.example", "*.example"].map(Hostname::new) {
            let chains = vec![Chain {
                hostname,
                to: Way::Requests("http-80".into()),
                certificates: certificates.clone(),
                clients: clients.clone(),
                listeners: Vec::new(),
            }];
            let addresses = vec!["0.0.0.0".into(), "::1".into()];
            let family = if certificates.is_empty() { Family::Http } else { Family::Tls };
            let listener = listener(&Listener { name: "http-80".into(), addresses, port: 80, family, chains });
            assert_eq!(broken("envoy.config.listener.v3.Listener", &listener.resource.bytes), [""; 0]);
        }
    }
    let secret = secret(&"shop/cert".into(), b"chain", b"key");
    assert_eq!(broken("envoy.extensions.transport_sockets.tls.v3.Secret", &secret), [""; 0]);
}

#[test]
fn no_listener_of_streams_breaks_a_rule() {
    let share = |weight| Share { cluster: "shop/a/80".into(), weight };
    for family in [Family::Tls, Family::Tcp, Family::Udp] {
        for weights in [vec![], vec![1], vec![70, 30], vec![u32::MAX; 16], vec![1, 1_000_000, 1]] {
            let shares = weights.into_iter().map(share).collect();
            let to = Way::Stream(Stream { id: "TCPRoute shop/a rule 0".into(), shares });
            let listeners = vec![ListenerKey::of_gateway(&NamespacedName::new("shop", "edge"), "a")];
            let (hostname, certificates) = (Hostname::any(), Vec::new());
            let chain = Chain { hostname, to, certificates, clients: None, listeners };
            let addresses = vec!["0.0.0.0".into(), "::1".into()];
            let listener = Listener { name: "a".into(), addresses, port: 80, family, chains: vec![chain] };
            let listener = super::listener(&listener);
            assert_eq!(broken("envoy.config.listener.v3.Listener", &listener.resource.bytes), [""; 0]);
        }
    }
    let datagrams =
        cluster(&Cluster { name: "a~udp".into(), transport: Transport::Udp, upstream: Upstream::Http1, tls: None });
    assert_eq!(broken("envoy.config.cluster.v3.Cluster", &datagrams.bytes), [""; 0]);
}
