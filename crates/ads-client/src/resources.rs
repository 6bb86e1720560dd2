//! What resources name.

use bytes::Bytes;
use prost::Message;
use std::collections::BTreeSet;
use tidegate_proto::envoy::config::cluster::v3::{Cluster, cluster};
use tidegate_proto::envoy::config::core::v3::transport_socket;
use tidegate_proto::envoy::config::listener::v3::{Listener, filter, listener_filter};
use tidegate_proto::envoy::config::route::v3::{RouteConfiguration, route, route_action};
use tidegate_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use tidegate_proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use tidegate_proto::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use tidegate_proto::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use tidegate_proto::envoy::extensions::filters::udp::udp_proxy::v3::udp_proxy_config::RouteSpecifier as DatagramRoute;
use tidegate_proto::envoy::extensions::filters::udp::udp_proxy::v3::{Route, UdpProxyConfig};
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::{DownstreamTlsContext, UpstreamTlsContext};
use tidegate_proto::unpack;
use tidegate_proto::xds::r#type::matcher::v3::Matcher;
use tidegate_proto::xds::r#type::matcher::v3::matcher::{MatcherType, on_match};

/// Whether the cluster gets its endpoints by EDS.
pub(crate) fn has_eds(bytes: &Bytes) -> bool {
    let cluster = Cluster::decode(bytes.clone()).unwrap_or_default();
    match cluster.cluster_discovery_type {
        Some(cluster::ClusterDiscoveryType::Type(kind)) => kind == i32::from(cluster::DiscoveryType::Eds),
        Some(cluster::ClusterDiscoveryType::ClusterType(_)) | None => false,
    }
}

/// The secrets that a cluster names.
pub(crate) fn secrets_of_cluster(bytes: &Bytes) -> BTreeSet<String> {
    let cluster = Cluster::decode(bytes.clone()).unwrap_or_default();
    let context = cluster.transport_socket.as_ref().and_then(|socket| match socket.config_type.as_ref()? {
        transport_socket::ConfigType::TypedConfig(any) => unpack::<UpstreamTlsContext>(any).ok().flatten(),
    });
    let common = context.and_then(|context| context.common_tls_context);
    common.into_iter().flat_map(|tls| tls.tls_certificate_sds_secret_configs).map(|secret| secret.name).collect()
}

/// The tables that a listener names.
pub(crate) fn tables_of_listener(bytes: &Bytes) -> BTreeSet<String> {
    let listener = Listener::decode(bytes.clone()).unwrap_or_default();
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    let configs = chains.flat_map(|chain| &chain.filters).filter_map(|filter| match &filter.config_type {
        Some(filter::ConfigType::TypedConfig(any)) => unpack::<HttpConnectionManager>(any).ok().flatten(),
        Some(filter::ConfigType::ConfigDiscovery(_)) | None => None,
    });
    configs
        .filter_map(|manager| match manager.route_specifier {
            Some(RouteSpecifier::Rds(rds)) => Some(rds.route_config_name),
            Some(RouteSpecifier::RouteConfig(_) | RouteSpecifier::ScopedRoutes(_)) | None => None,
        })
        .collect()
}

/// The secrets that a listener names.
pub(crate) fn secrets_of_listener(bytes: &Bytes) -> BTreeSet<String> {
    let listener = Listener::decode(bytes.clone()).unwrap_or_default();
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    let contexts = chains.filter_map(|chain| match chain.transport_socket.as_ref()?.config_type.as_ref()? {
        transport_socket::ConfigType::TypedConfig(any) => unpack::<DownstreamTlsContext>(any).ok().flatten(),
    });
    let common = contexts.filter_map(|context| context.common_tls_context);
    common.flat_map(|tls| tls.tls_certificate_sds_secret_configs).map(|secret| secret.name).collect()
}

/// The clusters that a listener names directly, for the connections and datagrams that it passes on.
pub(crate) fn clusters_of_listener(bytes: &Bytes) -> BTreeSet<String> {
    let listener = Listener::decode(bytes.clone()).unwrap_or_default();
    let mut clusters = BTreeSet::new();
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    for filter in chains.flat_map(|chain| &chain.filters) {
        let Some(filter::ConfigType::TypedConfig(any)) = &filter.config_type else { continue };
        let proxy = unpack::<TcpProxy>(any).ok().flatten();
        match proxy.and_then(|proxy| proxy.cluster_specifier) {
            Some(ClusterSpecifier::Cluster(name)) => drop(clusters.insert(name)),
            Some(ClusterSpecifier::WeightedClusters(weighted)) => {
                clusters.extend(weighted.clusters.into_iter().map(|cluster| cluster.name));
            }
            None => {}
        }
    }
    for filter in &listener.listener_filters {
        let Some(listener_filter::ConfigType::TypedConfig(any)) = &filter.config_type else { continue };
        let proxy = unpack::<UdpProxyConfig>(any).ok().flatten();
        if let Some(DatagramRoute::Matcher(matcher)) = proxy.and_then(|proxy| proxy.route_specifier) {
            clusters_of_matcher(&matcher, &mut clusters);
        }
    }
    clusters
}

fn clusters_of_matcher(matcher: &Matcher, clusters: &mut BTreeSet<String>) {
    let list = match &matcher.matcher_type {
        Some(MatcherType::MatcherList(list)) => list.matchers.as_slice(),
        Some(MatcherType::MatcherTree(_)) | None => &[],
    };
    let matches = list.iter().filter_map(|matcher| matcher.on_match.as_ref()).chain(matcher.on_no_match.as_deref());
    for found in matches {
        match &found.on_match {
            Some(on_match::OnMatch::Matcher(inner)) => clusters_of_matcher(inner, clusters),
            Some(on_match::OnMatch::Action(action)) => {
                let route = action.typed_config.as_ref().and_then(|any| unpack::<Route>(any).ok().flatten());
                clusters.extend(route.map(|route| route.cluster));
            }
            None => {}
        }
    }
}

/// The clusters that a table names.
pub(crate) fn clusters_of_table(bytes: &Bytes) -> BTreeSet<String> {
    let table = RouteConfiguration::decode(bytes.clone()).unwrap_or_default();
    let mut clusters = BTreeSet::new();
    for route in table.virtual_hosts.into_iter().flat_map(|host| host.routes) {
        let Some(route::Action::Route(action)) = route.action else { continue };
        clusters.extend(action.request_mirror_policies.into_iter().map(|mirror| mirror.cluster));
        match action.cluster_specifier {
            Some(route_action::ClusterSpecifier::Cluster(name)) => {
                clusters.insert(name);
            }
            Some(route_action::ClusterSpecifier::WeightedClusters(weighted)) => {
                clusters.extend(weighted.clusters.into_iter().map(|cluster| cluster.name));
            }
            Some(_) | None => {}
        }
    }
    clusters.remove("");
    clusters
}
