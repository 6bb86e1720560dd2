//! Listeners.

use super::{address, ads, stream, udp_address};
use crate::ir::{self, Family, Way};
use crate::resource::Resource;
use crate::row;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::Name;
use tidegate_proto::envoy::config::common::mutation_rules::v3::{HeaderMutation, header_mutation};
use tidegate_proto::envoy::config::core::v3::data_source::Specifier;
use tidegate_proto::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use tidegate_proto::envoy::config::core::v3::{
    CidrRange, DataSource, HeaderValue, HeaderValueOption, TransportSocket, transport_socket,
};
use tidegate_proto::envoy::config::listener::v3::{
    AdditionalAddress, Filter, FilterChain, FilterChainMatch, Listener, ListenerFilter, filter, listener_filter,
};
use tidegate_proto::envoy::config::route::v3::FilterConfig;
use tidegate_proto::envoy::extensions::filters::http::cors::v3::Cors;
use tidegate_proto::envoy::extensions::filters::http::ext_authz::v3::ExtAuthz;
use tidegate_proto::envoy::extensions::filters::http::header_mutation::v3 as mutation;
use tidegate_proto::envoy::extensions::filters::http::header_to_metadata::v3 as to_metadata;
use tidegate_proto::envoy::extensions::filters::http::router::v3::Router;
use tidegate_proto::envoy::extensions::filters::http::stateful_session::v3::StatefulSession;
use tidegate_proto::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use tidegate_proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    InternalAddressConfig, PathWithEscapedSlashesAction, RouteSpecifier, ServerHeaderTransformation, UpgradeConfig,
};
use tidegate_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_filter,
};
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, SdsSecretConfig,
};
use tidegate_proto::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};
use tidegate_proto::google::protobuf::{BoolValue, UInt32Value};
use tidegate_proto::{Any, pack};

/// The upgrade that routes may let through.
pub(super) const WEBSOCKET: &str = "websocket";

/// The name of the chain without TLS, and what all of them count under: constants, for a chain that changes drains its
/// connections.
const PLAINTEXT: &str = "http";

/// The same for connections and datagrams that are passed on.
const TCP: &str = "tcp";
const UDP: &str = "udp";

/// What is spoken over TLS, the best first.
const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];

/// The filters that routes enable by the settings that they give them.
pub(super) const CORS: &str = "envoy.filters.http.cors";
pub(super) const STATEFUL_SESSION: &str = "envoy.filters.http.stateful_session";

const LOCATION_READ: &str = "tidegate.location.read";
const LOCATION_WRITE: &str = "tidegate.location.write";

/// The encoded `envoy.config.listener.v3.Listener`, with the tables, secrets and clusters that it names.
#[must_use]
pub fn listener(listener: &ir::Listener) -> row::Listener {
    let at = |ip: &Name| match listener.family {
        Family::Http | Family::Tls | Family::Tcp => address(ip, listener.port),
        Family::Udp => udp_address(ip, listener.port),
    };
    let mut addresses = listener.addresses.iter().map(at);
    let message = Listener {
        name: listener.name.to_string(),
        address: addresses.next(),
        additional_addresses: addresses
            .map(|address| AdditionalAddress { address: Some(address), ..AdditionalAddress::default() })
            .collect(),
        listener_filters: match listener.family {
            Family::Http | Family::Tcp => Vec::new(),
            Family::Tls => vec![tls_inspector()],
            Family::Udp => listener.chains.iter().filter_map(datagrams).collect(),
        },
        udp_listener_config: (listener.family == Family::Udp).then(stream::datagram_options),
        filter_chains: match listener.family {
            Family::Http | Family::Tls | Family::Tcp => {
                listener.chains.iter().map(|chain| self::chain(listener.family, chain)).collect()
            }
            Family::Udp => Vec::new(),
        },
        ..Listener::default()
    };
    let owners = listener.chains.iter().flat_map(|chain| {
        chain.listeners.iter().map(|key| row::Owner {
            listener: key.clone(),
            table: table(chain).cloned(),
            secrets: chain.certificates.clone(),
        })
    });
    let secrets: BTreeSet<&Name> = listener.chains.iter().flat_map(|chain| &chain.certificates).collect();
    row::Listener {
        resource: Resource::new(listener.name.clone(), message.encode_to_vec().into()),
        tables: listener.chains.iter().filter_map(table).cloned().collect(),
        streams: listener.chains.iter().filter_map(stream).collect(),
        secrets: secrets.into_iter().cloned().collect(),
        owners: owners.collect(),
    }
}

fn table(chain: &ir::Chain) -> Option<&Name> {
    match &chain.to {
        Way::Requests(table) => Some(table),
        Way::Stream(_) => None,
    }
}

fn stream(chain: &ir::Chain) -> Option<row::Stream> {
    match &chain.to {
        Way::Requests(_) => None,
        Way::Stream(stream) => {
            let clusters: BTreeSet<&Name> = stream.shares.iter().map(|share| &share.cluster).collect();
            Some(row::Stream { id: stream.id.clone(), clusters: clusters.into_iter().cloned().collect() })
        }
    }
}

fn datagrams(chain: &ir::Chain) -> Option<ListenerFilter> {
    match &chain.to {
        Way::Requests(_) => None,
        Way::Stream(stream) => Some(stream::datagrams(stream, UDP)),
    }
}

/// Reads the name that a client asks for, before a chain is chosen by it.
fn tls_inspector() -> ListenerFilter {
    ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(pack(&TlsInspector::default()))),
        ..ListenerFilter::default()
    }
}

fn chain(family: Family, chain: &ir::Chain) -> FilterChain {
    let plaintext = match family {
        Family::Http => PLAINTEXT,
        Family::Tls | Family::Tcp | Family::Udp => TCP,
    };
    let filters = vec![match &chain.to {
        Way::Requests(table) => Filter {
            name: "envoy.filters.network.http_connection_manager".to_owned(),
            config_type: Some(filter::ConfigType::TypedConfig(pack(&connection_manager(table)))),
        },
        Way::Stream(stream) => stream::connections(stream, TCP),
    }];
    if family != Family::Tls {
        return FilterChain { name: plaintext.to_owned(), filters, ..FilterChain::default() };
    }
    let name = chain.hostname.as_str();
    // Whoever asks for a name that no chain has, or for none, takes the chain without names.
    let names = if chain.hostname.is_any() { Vec::new() } else { vec![name.to_owned()] };
    let terminates = !chain.certificates.is_empty();
    FilterChain {
        // By what it is for, so that it stays the same chain whatever becomes of the others.
        name: name.to_owned(),
        filter_chain_match: Some(FilterChainMatch {
            server_names: names,
            // Where the handshake is passed on nobody else would notice that there is none.
            transport_protocol: if terminates { String::new() } else { "tls".to_owned() },
            ..FilterChainMatch::default()
        }),
        transport_socket: terminates.then(|| downstream_tls(chain)),
        filters,
        ..FilterChain::default()
    }
}

fn downstream_tls(chain: &ir::Chain) -> TransportSocket {
    let secret = |name: &Name| SdsSecretConfig { name: name.to_string(), sds_config: Some(ads()) };
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_certificate_sds_secret_configs: chain.certificates.iter().map(secret).collect(),
            validation_context_type: chain.clients.as_ref().map(validation),
            alpn_protocols: match chain.to {
                Way::Requests(_) => PROTOCOLS.map(str::to_owned).into(),
                // What is spoken in a stream is for its ends to know.
                Way::Stream(_) => Vec::new(),
            },
            ..CommonTlsContext::default()
        }),
        require_client_certificate: chain.clients.as_ref().map(|clients| BoolValue { value: clients.required }),
        ..DownstreamTlsContext::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack(&context))),
    }
}

/// By what a client is validated. It is asked for a certificate wherever there is something to check it by.
fn validation(clients: &ir::ClientValidation) -> ValidationContextType {
    let authorities = Specifier::InlineString(clients.authorities.to_string());
    let verification = if clients.required {
        TrustChainVerification::VerifyTrustChain
    } else {
        TrustChainVerification::AcceptUntrusted
    };
    ValidationContextType::ValidationContext(CertificateValidationContext {
        trusted_ca: Some(DataSource { specifier: Some(authorities), ..DataSource::default() }),
        trust_chain_verification: verification.into(),
        ..CertificateValidationContext::default()
    })
}

fn connection_manager(table: &str) -> HttpConnectionManager {
    HttpConnectionManager {
        stat_prefix: PLAINTEXT.to_owned(),
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
        disabled(CORS, &Cors::default()),
        disabled("envoy.filters.http.ext_authz", &ExtAuthz::default()),
        disabled(STATEFUL_SESSION, &StatefulSession::default()),
        disabled(LOCATION_WRITE, &write_location()),
        disabled(LOCATION_READ, &read_location()),
        HttpFilter {
            name: "envoy.filters.http.router".to_owned(),
            config_type: Some(http_filter::ConfigType::TypedConfig(pack(&Router::default()))),
            ..HttpFilter::default()
        },
    ]
}

fn disabled<M: Message + prost::Name>(name: &str, config: &M) -> HttpFilter {
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
