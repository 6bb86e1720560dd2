//! Clusters and endpoint assignments.

use super::{address, ads, duration, tls};
use crate::ir;
use crate::resource::Resource;
use prost::Message;
use std::collections::BTreeMap;
use tidegate_model::{Millis, Transport, Upstream};
use tidegate_proto::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use tidegate_proto::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CommonLbConfig, DiscoveryType, EdsClusterConfig, LbPolicy,
};
use tidegate_proto::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use tidegate_proto::envoy::config::core::v3::{HealthStatus, Http1ProtocolOptions, Http2ProtocolOptions, Locality};
use tidegate_proto::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, cluster_load_assignment, lb_endpoint,
};
use tidegate_proto::envoy::extensions::upstreams::http::v3::{HttpProtocolOptions, http_protocol_options};
use tidegate_proto::envoy::r#type::v3::Percent;
use tidegate_proto::google::protobuf::UInt32Value;

/// How long a connection to an endpoint may take to come up.
const CONNECT_TIMEOUT: Millis = 5000;

/// Percent of endpoints that a priority is multiplied with when its health is judged: so much that one usable endpoint
/// carries its whole priority, and traffic leaves a locality only when its last one is gone.
const OVERPROVISIONING: u32 = 1_000_000;

/// The key of the HTTP options among a cluster's extension options.
const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// The encoded `envoy.config.cluster.v3.Cluster`.
#[must_use]
pub fn cluster(cluster: &ir::Cluster) -> Resource {
    let message = Cluster {
        name: cluster.name.to_string(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(ads()), ..EdsClusterConfig::default() }),
        connect_timeout: Some(duration(CONNECT_TIMEOUT)),
        lb_policy: LbPolicy::LeastRequest.into(),
        circuit_breakers: Some(unlimited()),
        common_lb_config: Some(CommonLbConfig {
            // Never sends to endpoints that are known to be unusable: no usable endpoint is 503.
            healthy_panic_threshold: Some(Percent { value: 0.0 }),
            // Takes a changed endpoint at once; by default Envoy collects such changes for a second.
            update_merge_window: Some(duration(0)),
            ..CommonLbConfig::default()
        }),
        // An endpoint that is gone from the assignment is gone, whatever a health check says.
        ignore_health_on_host_removal: true,
        transport_socket: cluster.tls.as_ref().map(tls::upstream),
        typed_extension_protocol_options: match cluster.transport {
            Transport::Tcp => {
                let options = tidegate_proto::pack(&http_options(cluster.upstream));
                BTreeMap::from([(HTTP_OPTIONS.to_owned(), options)])
            }
            Transport::Udp | Transport::Sctp => BTreeMap::new(),
        },
        ..Cluster::default()
    };
    Resource::new(cluster.name.clone(), message.encode_to_vec().into())
}

/// Envoy's own limits (1024 connections, 1024 requests, 3 retries) would answer 503 under load that nobody limited.
fn unlimited() -> CircuitBreakers {
    let most = Some(UInt32Value { value: u32::MAX });
    let thresholds = Thresholds {
        max_connections: most,
        max_pending_requests: most,
        max_requests: most,
        max_retries: most,
        ..Thresholds::default()
    };
    CircuitBreakers { thresholds: vec![thresholds], ..CircuitBreakers::default() }
}

fn http_options(upstream: Upstream) -> HttpProtocolOptions {
    use http_protocol_options::explicit_http_config::ProtocolConfig;
    let protocol = match upstream {
        // A WebSocket is an upgrade of HTTP/1.1.
        Upstream::Http1 | Upstream::WebSocket => ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default()),
        Upstream::H2c => ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions::default()),
    };
    let explicit = http_protocol_options::ExplicitHttpConfig { protocol_config: Some(protocol) };
    HttpProtocolOptions {
        upstream_protocol_options: Some(http_protocol_options::UpstreamProtocolOptions::ExplicitHttpConfig(explicit)),
        ..HttpProtocolOptions::default()
    }
}

/// The encoded `envoy.config.endpoint.v3.ClusterLoadAssignment`.
#[must_use]
pub fn endpoints(assignment: &ir::Assignment) -> Resource {
    let mut localities: Vec<&ir::Locality> = assignment.localities.iter().collect();
    localities.sort();
    let message = ClusterLoadAssignment {
        cluster_name: assignment.cluster.to_string(),
        endpoints: localities.into_iter().map(locality).collect(),
        policy: Some(cluster_load_assignment::Policy {
            overprovisioning_factor: Some(UInt32Value { value: OVERPROVISIONING }),
            ..cluster_load_assignment::Policy::default()
        }),
        ..ClusterLoadAssignment::default()
    };
    Resource::new(assignment.cluster.clone(), message.encode_to_vec().into())
}

fn locality(locality: &ir::Locality) -> LocalityLbEndpoints {
    let mut endpoints: Vec<&ir::Endpoint> = locality.endpoints.iter().collect();
    endpoints.sort();
    let known = [&locality.region, &locality.zone, &locality.sub_zone].iter().any(|level| !level.is_empty());
    LocalityLbEndpoints {
        locality: known.then(|| Locality {
            region: locality.region.to_string(),
            zone: locality.zone.to_string(),
            sub_zone: locality.sub_zone.to_string(),
        }),
        lb_endpoints: endpoints.into_iter().map(endpoint).collect(),
        // A field rule: at most 128.
        priority: locality.priority.min(128),
        ..LocalityLbEndpoints::default()
    }
}

fn endpoint(endpoint: &ir::Endpoint) -> LbEndpoint {
    let status = if endpoint.draining { HealthStatus::Draining } else { HealthStatus::Healthy };
    let host = Endpoint { address: Some(address(&endpoint.address, endpoint.port)), ..Endpoint::default() };
    LbEndpoint {
        health_status: status.into(),
        host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(host)),
        ..LbEndpoint::default()
    }
}
