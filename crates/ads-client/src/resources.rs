//! What resources name.

use bytes::Bytes;
use prost::Message;
use std::collections::BTreeSet;
use tidegate_proto::envoy::config::cluster::v3::{Cluster, cluster};
use tidegate_proto::envoy::config::core::v3::transport_socket;
use tidegate_proto::envoy::config::listener::v3::{Listener, filter};
use tidegate_proto::envoy::config::route::v3::{RouteConfiguration, route, route_action};
use tidegate_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use tidegate_proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;

/// Whether the cluster gets its endpoints by EDS.
pub(crate) fn has_eds(bytes: &Bytes) -> bool {
    let cluster = Cluster::decode(bytes.clone()).unwrap_or_default();
    match cluster.cluster_discovery_type {
        Some(cluster::ClusterDiscoveryType::Type(kind)) => kind == i32::from(cluster::DiscoveryType::Eds),
        Some(cluster::ClusterDiscoveryType::ClusterType(_)) | None => false,
    }
}

/// The tables that a listener names.
pub(crate) fn tables_of_listener(bytes: &Bytes) -> BTreeSet<String> {
    let listener = Listener::decode(bytes.clone()).unwrap_or_default();
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    let configs = chains.flat_map(|chain| &chain.filters).filter_map(|filter| match &filter.config_type {
        Some(filter::ConfigType::TypedConfig(any)) => {
            tidegate_proto::unpack::<HttpConnectionManager>(any).ok().flatten()
        }
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
        transport_socket::ConfigType::TypedConfig(any) => {
            tidegate_proto::unpack::<DownstreamTlsContext>(any).ok().flatten()
        }
    });
    let common = contexts.filter_map(|context| context.common_tls_context);
    common.flat_map(|tls| tls.tls_certificate_sds_secret_configs).map(|secret| secret.name).collect()
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
