//! The shape of listeners that pass streams on, as canonical JSON.

use crate::ir::{Chain, Cluster, Family, Listener, Share, Stream, Way};
use crate::row;
use serde_json::{Value, json};
use tidegate_model::{Hostname, INVALID_CLUSTER, ListenerKey, NamespacedName, ResourceType, Transport, Upstream};

fn json_of(listener: &row::Listener) -> Value {
    tidegate_proto::json::to_json(ResourceType::Listener.url(), &listener.resource.bytes).unwrap()
}

/// A chain to these clusters, terminating TLS if there are secrets.
fn chain(hostname: &str, shares: &[(&str, u32)], secrets: &[&str]) -> Chain {
    let shares = shares.iter().map(|(cluster, weight)| Share { cluster: (*cluster).into(), weight: *weight }).collect();
    Chain {
        hostname: Hostname::new(hostname),
        to: Way::Stream(Stream { id: format!("TLSRoute shop/{hostname} rule 0").into(), shares }),
        certificates: secrets.iter().map(|name| (*name).into()).collect(),
        clients: None,
        listeners: vec![ListenerKey::of_gateway(&NamespacedName::new("shop", "edge"), "a")],
    }
}

fn listener(family: Family, chains: Vec<Chain>) -> row::Listener {
    super::listener(&Listener { name: "l".into(), addresses: vec!["0.0.0.0".into()], port: 9000, family, chains })
}

#[test]
fn a_connection_goes_to_a_cluster_by_its_share_and_nowhere_if_there_is_none() {
    let proxy = |shares: &[(&str, u32)]| {
        let row = listener(Family::Tcp, vec![chain("", shares, &[])]);
        let value = json_of(&row);
        assert_eq!(value["listener_filters"], Value::Null);
        let chain = &value["filter_chains"][0];
        assert_eq!((&chain["name"], &chain["filter_chain_match"]), (&json!("tcp"), &Value::Null));
        assert_eq!(chain["filters"][0]["name"], "envoy.filters.network.tcp_proxy");
        chain["filters"][0]["typed_config"].clone()
    };
    assert_eq!(proxy(&[("shop/a/1", 3)])["cluster"], "shop/a/1");
    assert_eq!(proxy(&[])["cluster"], INVALID_CLUSTER);
    assert_eq!(
        proxy(&[("shop/a/1", 70), (INVALID_CLUSTER, 30)])["weighted_clusters"],
        json!({ "clusters": [{ "name": "shop/a/1", "weight": 70 }, { "name": INVALID_CLUSTER, "weight": 30 }] })
    );
}

#[test]
fn a_handshake_that_is_passed_on_is_told_from_one_that_ends_here_by_its_name() {
    let chains =
        vec![chain("*.a.example", &[("shop/a/1", 1)], &[]), chain("b.example", &[("shop/b/1", 1)], &["shop/cert"])];
    let row = listener(Family::Tls, chains);
    assert_eq!((row.tables.len(), row.secrets.len()), (0, 1));
    let value = json_of(&row);
    assert_eq!(value["listener_filters"][0]["name"], "envoy.filters.listener.tls_inspector");
    let [passed, ended] = [&value["filter_chains"][0], &value["filter_chains"][1]];
    assert_eq!(passed["filter_chain_match"], json!({ "server_names": ["*.a.example"], "transport_protocol": "tls" }));
    assert_eq!(passed["transport_socket"], Value::Null);
    assert_eq!(ended["filter_chain_match"], json!({ "server_names": ["b.example"] }));
    let context = &ended["transport_socket"]["typed_config"]["common_tls_context"];
    assert_eq!(context["tls_certificate_sds_secret_configs"][0]["name"], "shop/cert");
    assert_eq!(context["alpn_protocols"], Value::Null);
}

#[test]
fn datagrams_are_divided_by_the_port_of_their_sender() {
    let shares = [("shop/a/1~udp", 70), ("shop/b/1~udp", 20), (INVALID_CLUSTER, 10)];
    let row = listener(Family::Udp, vec![chain("", &shares, &[])]);
    let value = json_of(&row);
    assert_eq!(value["address"]["socket_address"]["protocol"], "UDP");
    assert_eq!(value["filter_chains"], Value::Null);
    let config = &value["listener_filters"][0]["typed_config"];
    let matchers = config["matcher"]["matcher_list"]["matchers"].as_array().unwrap();
    let share = |matcher: &Value| {
        let predicate = &matcher["predicate"]["single_predicate"];
        let fraction = &predicate["custom_match"]["typed_config"];
        (
            fraction["runtime_fraction"]["default_value"]["numerator"].clone(),
            fraction["seed"].clone(),
            matcher["on_match"]["action"]["typed_config"]["cluster"].clone(),
        )
    };
    assert_eq!(share(&matchers[0]), (json!(700_000), Value::Null, json!("shop/a/1~udp")));
    assert_eq!(share(&matchers[1]), (json!(666_667), json!("1"), json!("shop/b/1~udp")));
    assert_eq!(matchers.len(), 2);
    assert_eq!(config["matcher"]["on_no_match"]["action"]["typed_config"]["cluster"], INVALID_CLUSTER);
    let only = json_of(&listener(Family::Udp, vec![chain("", &[("shop/a/1~udp", 5)], &[])]));
    let matcher = &only["listener_filters"][0]["typed_config"]["matcher"];
    assert_eq!(matcher["matcher_list"], Value::Null);
    assert_eq!(matcher["on_no_match"]["action"]["typed_config"]["cluster"], "shop/a/1~udp");
}

#[test]
fn what_a_listener_names_is_said_with_it() {
    let shares = [("shop/b/1", 1), (INVALID_CLUSTER, 1), ("shop/a/1", 1), ("shop/b/1", 2)];
    let row = listener(Family::Tcp, vec![chain("", &shares, &[])]);
    assert_eq!(row.streams[0].clusters, ["shop/a/1", "shop/b/1", INVALID_CLUSTER]);
    assert_eq!(row.clusters().map(|name| &**name).collect::<Vec<_>>(), ["shop/a/1", "shop/b/1"]);
    assert_eq!((&*row.owners[0].listener.name, &row.owners[0].table), ("a", &None));
}

#[test]
fn a_cluster_of_datagrams_knows_nothing_of_http() {
    let cluster = Cluster { name: "a~udp".into(), transport: Transport::Udp, upstream: Upstream::Http1, tls: None };
    let cluster = super::cluster(&cluster);
    let value = tidegate_proto::json::to_json(ResourceType::Cluster.url(), &cluster.bytes).unwrap();
    assert_eq!(value["typed_extension_protocol_options"], Value::Null);
    assert_eq!(value["circuit_breakers"]["thresholds"][0]["max_connections"], u32::MAX);
}
