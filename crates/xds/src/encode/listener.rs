//! Listeners.

use super::{address, ads};
use crate::ir;
use crate::resource::Resource;
use crate::row;
use prost::{Message, Name};
use std::collections::BTreeMap;
use tidegate_proto::envoy::config::common::mutation_rules::v3::{HeaderMutation, header_mutation};
use tidegate_proto::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use tidegate_proto::envoy::config::core::v3::{CidrRange, HeaderValue, HeaderValueOption};
use tidegate_proto::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
use tidegate_proto::envoy::config::route::v3::FilterConfig;
use tidegate_proto::envoy::extensions::filters::http::cors::v3::Cors;
use tidegate_proto::envoy::extensions::filters::http::ext_authz::v3::ExtAuthz;
use tidegate_proto::envoy::extensions::filters::http::header_mutation::v3 as mutation;
use tidegate_proto::envoy::extensions::filters::http::header_to_metadata::v3 as to_metadata;
use tidegate_proto::envoy::extensions::filters::http::router::v3::Router;
use tidegate_proto::envoy::extensions::filters::http::stateful_session::v3::StatefulSession;
use tidegate_proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    InternalAddressConfig, PathWithEscapedSlashesAction, RouteSpecifier, ServerHeaderTransformation, UpgradeConfig,
};
use tidegate_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_filter,
};
use tidegate_proto::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};
use tidegate_proto::google::protobuf::{BoolValue, UInt32Value};
use tidegate_proto::{Any, pack};

/// The upgrade that routes may let through.
pub(super) const WEBSOCKET: &str = "websocket";

/// The name of the filter chain: a constant, for a chain whose name changes drains its connections.
const CHAIN: &str = "http";

const LOCATION_READ: &str = "tidegate.location.read";
const LOCATION_WRITE: &str = "tidegate.location.write";

/// The encoded `envoy.config.listener.v3.Listener`, with its table and no clusters.
#[must_use]
pub fn listener(listener: &ir::Listener) -> row::Listener {
    let connections = Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack(&connection_manager(&listener.table)))),
    };
    let chain = FilterChain { name: CHAIN.to_owned(), filters: vec![connections], ..FilterChain::default() };
    let message = Listener {
        name: listener.name.to_string(),
        address: Some(address(&listener.address, listener.port)),
        filter_chains: vec![chain],
        ..Listener::default()
    };
    row::Listener {
        resource: Resource::new(listener.name.clone(), message.encode_to_vec().into()),
        tables: vec![listener.table.clone()],
        clusters: Vec::new(),
    }
}

fn connection_manager(table: &str) -> HttpConnectionManager {
    HttpConnectionManager {
        stat_prefix: CHAIN.to_owned(),
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(ads()),
            route_config_name: table.to_owned(),
        })),
        http_filters: http_filters(),
        // The peer is the client: X-Forwarded-For is ours to write, and what a client says in it is not trusted.
        use_remote_address: Some(BoolValue { value: true }),
        internal_address_config: Some(nobody_is_internal()),
        normalize_path: Some(BoolValue { value: true }),
        // Both would change what a path means to the backend.
        merge_slashes: false,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::KeepUnchanged.into(),
        server_header_transformation: ServerHeaderTransformation::PassThrough.into(),
        upgrade_configs: vec![UpgradeConfig {
            upgrade_type: WEBSOCKET.to_owned(),
            enabled: Some(BoolValue { value: false }),
            ..UpgradeConfig::default()
        }],
        ..HttpConnectionManager::default()
    }
}

/// Envoy obeys `x-envoy-*` request headers of internal clients (`x-envoy-upstream-rq-timeout-ms` ends the request
/// then), and by default loopback is internal even with an empty range list. No client has this address.
fn nobody_is_internal() -> InternalAddressConfig {
    let range = CidrRange { address_prefix: "0.0.0.0".to_owned(), prefix_len: Some(UInt32Value { value: 32 }) };
    InternalAddressConfig { cidr_ranges: vec![range], ..InternalAddressConfig::default() }
}

/// Every HTTP filter that a route may ever need, disabled until a route enables it: a changed list would drain every
/// connection of the listener. Responses pass them from the last to the first.
fn http_filters() -> Vec<HttpFilter> {
    vec![
        disabled("envoy.filters.http.cors", &Cors::default()),
        disabled("envoy.filters.http.ext_authz", &ExtAuthz::default()),
        disabled("envoy.filters.http.stateful_session", &StatefulSession::default()),
        disabled(LOCATION_WRITE, &write_location()),
        disabled(LOCATION_READ, &read_location()),
        HttpFilter {
            name: "envoy.filters.http.router".to_owned(),
            config_type: Some(http_filter::ConfigType::TypedConfig(pack(&Router::default()))),
            ..HttpFilter::default()
        },
    ]
}

fn disabled<M: Message + Name>(name: &str, config: &M) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(pack(config))),
        disabled: true,
        ..HttpFilter::default()
    }
}

/// The per-route config that takes the port out of a redirect's `Location`.
///
/// Envoy keeps the port of the `Host` header in `Location` unless it is given another one, and then shows that one
/// even if it is the scheme's default (`https://h:443/`). So on the way back one filter reads `Location` without its
/// port into metadata, and the next writes that over it.
pub(super) fn without_port_in_location() -> BTreeMap<String, Any> {
    let enabled = pack(&FilterConfig { config: Some(Any::default()), ..FilterConfig::default() });
    [LOCATION_READ, LOCATION_WRITE].into_iter().map(|filter| (filter.to_owned(), enabled.clone())).collect()
}

fn read_location() -> to_metadata::Config {
    let without_port = RegexMatchAndSubstitute {
        pattern: Some(RegexMatcher {
            // Scheme, then a host in brackets (IPv6) or without a colon, then the port.
            regex: r"^([a-z]+://(?:\[[^\]]*\]|[^/?#:]*)):[0-9]+".to_owned(),
            ..RegexMatcher::default()
        }),
        substitution: r"\1".to_owned(),
    };
    let value = to_metadata::config::KeyValuePair {
        metadata_namespace: "tidegate".to_owned(),
        key: "location".to_owned(),
        regex_value_rewrite: Some(without_port),
        ..Default::default()
    };
    let rule = to_metadata::config::Rule {
        header: "location".to_owned(),
        on_header_present: Some(value),
        ..Default::default()
    };
    to_metadata::Config { response_rules: vec![rule], ..Default::default() }
}

fn write_location() -> mutation::HeaderMutation {
    let location = HeaderValueOption {
        header: Some(HeaderValue {
            key: "location".to_owned(),
            value: "%DYNAMIC_METADATA(tidegate:location)%".to_owned(),
            ..HeaderValue::default()
        }),
        append_action: HeaderAppendAction::OverwriteIfExists.into(),
        ..Default::default()
    };
    let write = HeaderMutation { action: Some(header_mutation::Action::Append(location)) };
    mutation::HeaderMutation {
        mutations: Some(mutation::Mutations { response_mutations: vec![write], ..Default::default() }),
        ..Default::default()
    }
}
