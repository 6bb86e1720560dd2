//! What others may rely on: equal messages have equal bytes, an independent reader understands them, and any message
//! has a JSON form.

use prost::Message;
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_proto::envoy::config::cluster::v3::Cluster;
use tidegate_proto::envoy::config::core::v3::{Metadata, TypedExtensionConfig};
use tidegate_proto::envoy::config::listener::v3::{Filter, filter};
use tidegate_proto::envoy::extensions::filters::http::router::v3::Router;
use tidegate_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_filter,
};
use tidegate_proto::google::protobuf::{Duration, UInt32Value};
use tidegate_proto::{Any, json, pack, unpack};

fn cluster(keys: impl IntoIterator<Item = u32>) -> Cluster {
    let options = keys.into_iter().map(|key| (format!("option-{key}"), pack(&UInt32Value { value: key })));
    Cluster {
        name: "shop/cart/80".to_owned(),
        connect_timeout: Some(Duration { seconds: 5, nanos: 500_000_000 }),
        typed_extension_protocol_options: options.collect(),
        ..Cluster::default()
    }
}

fn unknown() -> Any {
    Any { type_url: "type.googleapis.com/example.Unknown".to_owned(), value: vec![1, 2, 3].into() }
}

#[test]
fn a_message_with_maps_has_one_encoding() {
    let bytes = cluster(0..20).encode_to_vec();
    assert_eq!(bytes, cluster((0..20).rev()).encode_to_vec());
    let decoded = Cluster::decode(&bytes[..]).unwrap();
    assert_eq!(decoded.encode_to_vec(), bytes);
    // Keys as texts: option-10 stands before option-2.
    let keys: Vec<_> = decoded.typed_extension_protocol_options.into_keys().collect();
    assert!(keys.is_sorted(), "{keys:?}");
}

#[test]
fn an_independent_reader_understands_what_is_encoded() {
    let bytes = cluster(0..3).encode_to_vec();
    let read = envoy_types::pb::envoy::config::cluster::v3::Cluster::decode(&bytes[..]).unwrap();
    assert_eq!(read.name, "shop/cart/80");
    assert_eq!(read.connect_timeout.map(|t| (t.seconds, t.nanos)), Some((5, 500_000_000)));
    let option = &read.typed_extension_protocol_options["option-2"];
    assert_eq!(option.type_url, "type.googleapis.com/google.protobuf.UInt32Value");
    assert_eq!(option.value, UInt32Value { value: 2 }.encode_to_vec());
}

#[test]
fn a_packed_message_unpacks_as_its_own_type_only() {
    let any = pack(&cluster([1]));
    assert_eq!(any.type_url, "type.googleapis.com/envoy.config.cluster.v3.Cluster");
    assert_eq!(unpack::<Cluster>(&any).unwrap(), Some(cluster([1])));
    assert_eq!(unpack::<Router>(&any).unwrap(), None);
    let torn = Any { value: vec![0xff].into(), ..any };
    unpack::<Cluster>(&torn).unwrap_err();
}

#[test]
fn json_has_proto_names_and_expands_nested_any() {
    let router = HttpFilter {
        name: "router".to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(pack(&Router::default()))),
        ..HttpFilter::default()
    };
    let manager = HttpConnectionManager { http_filters: vec![router], ..HttpConnectionManager::default() };
    let filter = Filter { name: "http".to_owned(), config_type: Some(filter::ConfigType::TypedConfig(pack(&manager))) };
    let prefix = "type.googleapis.com/envoy.extensions.filters";
    let expected = json!({
        "name": "http",
        "typed_config": {
            "@type": format!("{prefix}.network.http_connection_manager.v3.HttpConnectionManager"),
            "http_filters": [{
                "name": "router",
                "typed_config": { "@type": format!("{prefix}.http.router.v3.Router") },
            }],
        },
    });
    assert_eq!(json::to_json("envoy.config.listener.v3.Filter", &filter.encode_to_vec()).unwrap(), expected);
}

#[test]
fn json_of_well_known_types_is_what_they_stand_for() {
    let value = json::to_json("type.googleapis.com/envoy.config.cluster.v3.Cluster", &cluster([7]).encode_to_vec());
    let expected = json!({
        "name": "shop/cart/80",
        "connect_timeout": "5.500s",
        "typed_extension_protocol_options": {
            "option-7": { "@type": "type.googleapis.com/google.protobuf.UInt32Value", "value": 7 },
        },
    });
    assert_eq!(value.unwrap(), expected);
}

#[test]
fn what_is_not_known_is_shown_in_base64() {
    let opaque = json!({ "@type": "type.googleapis.com/example.Unknown", "value": "AQID" });
    assert_eq!(json::to_json("example.Unknown", &[1, 2, 3]).unwrap(), opaque);
    let extension = TypedExtensionConfig { name: "x".to_owned(), typed_config: Some(unknown()) };
    let value = json::to_json("envoy.config.core.v3.TypedExtensionConfig", &extension.encode_to_vec()).unwrap();
    assert_eq!(value, json!({ "name": "x", "typed_config": opaque }));
    let metadata =
        Metadata { typed_filter_metadata: BTreeMap::from([("k".to_owned(), unknown())]), ..Metadata::default() };
    let value = json::to_json("envoy.config.core.v3.Metadata", &metadata.encode_to_vec()).unwrap();
    assert_eq!(value, json!({ "typed_filter_metadata": { "k": opaque } }));
    // A known type with torn bytes is shown too, one level down.
    let torn = Any { type_url: pack(&cluster([])).type_url, value: vec![0xff].into() };
    let extension = TypedExtensionConfig { name: String::new(), typed_config: Some(torn) };
    let value = json::to_json("envoy.config.core.v3.TypedExtensionConfig", &extension.encode_to_vec()).unwrap();
    assert_eq!(value["typed_config"]["value"], json!("/w=="));
    json::to_json("envoy.config.cluster.v3.Cluster", &[0xff]).unwrap_err();
}

#[test]
fn json_reads_back_as_the_message_it_was_made_of() {
    let bytes = cluster([1]).encode_to_vec();
    let value = json::to_json("envoy.config.cluster.v3.Cluster", &bytes).unwrap();
    let read = json::from_json("envoy.config.cluster.v3.Cluster", value).unwrap();
    assert_eq!(Cluster::decode(&read[..]).unwrap(), cluster([1]));
    let error = json::from_json("envoy.config.cluster.v3.Cluster", json!({ "nmae": "x" })).unwrap_err().to_string();
    assert!(error.contains("Cluster") && error.contains("nmae"), "{error}");
    json::from_json("example.Unknown", json!({})).unwrap_err();
}
