//! Connections and datagrams that are passed on as a whole.

use super::duration;
use crate::ir::{Share, Stream};
use prost::{Message, Name};
use tidegate_model::{INVALID_CLUSTER, Millis};
use tidegate_proto::envoy::config::core::v3::{RuntimeFractionalPercent, UdpSocketConfig};
use tidegate_proto::envoy::config::listener::v3::{Filter, ListenerFilter, UdpListenerConfig, filter, listener_filter};
use tidegate_proto::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use tidegate_proto::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::weighted_cluster::ClusterWeight;
use tidegate_proto::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::{
    ClusterSpecifier, WeightedCluster,
};
use tidegate_proto::envoy::extensions::filters::udp::udp_proxy::v3::udp_proxy_config::RouteSpecifier;
use tidegate_proto::envoy::extensions::filters::udp::udp_proxy::v3::{Route, UdpProxyConfig};
use tidegate_proto::envoy::extensions::matching::common_inputs::network::v3::SourcePortInput;
use tidegate_proto::envoy::extensions::matching::input_matchers::runtime_fraction::v3::RuntimeFraction;
use tidegate_proto::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};
use tidegate_proto::google::protobuf::UInt64Value;
use tidegate_proto::pack;
use tidegate_proto::xds::core::v3::TypedExtensionConfig;
use tidegate_proto::xds::r#type::matcher::v3::Matcher;
use tidegate_proto::xds::r#type::matcher::v3::matcher::matcher_list::predicate::single_predicate;
use tidegate_proto::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{MatchType, SinglePredicate};
use tidegate_proto::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use tidegate_proto::xds::r#type::matcher::v3::matcher::{MatcherList, MatcherType, OnMatch, on_match};

/// How long the socket of a client may be silent before it is forgotten, and its next datagram goes wherever a new one
/// would. Each socket that is remembered is one of Envoy's own towards the backend, and many ask once and never again.
const UDP_IDLE: Millis = 30_000;

/// The largest datagram that is passed on: what UDP can carry.
const DATAGRAM_MAX: u64 = 65_535;

/// What a fraction is counted in: the finest that Envoy has.
const PARTS: u64 = 1_000_000;

/// The network filter that passes a connection on. A cluster that is not there has it closed.
pub(super) fn connections(stream: &Stream, prefix: &str) -> Filter {
    let specifier = match stream.shares.as_slice() {
        [] => ClusterSpecifier::Cluster(INVALID_CLUSTER.to_owned()),
        [only] => ClusterSpecifier::Cluster(only.cluster.to_string()),
        several => {
            let weight = |share: &Share| ClusterWeight {
                name: share.cluster.to_string(),
                // A field rule: at least 1.
                weight: share.weight.max(1),
                ..ClusterWeight::default()
            };
            ClusterSpecifier::WeightedClusters(WeightedCluster { clusters: several.iter().map(weight).collect() })
        }
    };
    let proxy = TcpProxy { stat_prefix: prefix.to_owned(), cluster_specifier: Some(specifier), ..TcpProxy::default() };
    Filter {
        name: "envoy.filters.network.tcp_proxy".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack(&proxy))),
    }
}

/// The listener filter that passes datagrams on. A cluster that is not there has them dropped.
pub(super) fn datagrams(stream: &Stream, prefix: &str) -> ListenerFilter {
    let proxy = UdpProxyConfig {
        stat_prefix: prefix.to_owned(),
        idle_timeout: Some(duration(UDP_IDLE)),
        upstream_socket_config: Some(any_size()),
        route_specifier: Some(RouteSpecifier::Matcher(split(&stream.shares))),
        ..UdpProxyConfig::default()
    };
    ListenerFilter {
        name: "envoy.filters.udp_listener.udp_proxy".to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(pack(&proxy))),
        ..ListenerFilter::default()
    }
}

/// The listener's own part of it.
pub(super) fn datagram_options() -> UdpListenerConfig {
    UdpListenerConfig { downstream_socket_config: Some(any_size()), ..UdpListenerConfig::default() }
}

/// Envoy drops what is larger than 1500 bytes unless it is told otherwise.
fn any_size() -> UdpSocketConfig {
    let max_rx_datagram_size = Some(UInt64Value { value: DATAGRAM_MAX });
    UdpSocketConfig { max_rx_datagram_size, ..UdpSocketConfig::default() }
}

/// Divides sockets of clients by a hash of their port, for Envoy knows no weights here: of those that are left each
/// share takes its part, and the last one the rest.
fn split(shares: &[Share]) -> Matcher {
    let Some((last, others)) = shares.split_last() else {
        return Matcher { on_no_match: Some(Box::new(to(INVALID_CLUSTER))), ..Matcher::default() };
    };
    let mut left: u64 = shares.iter().map(|share| u64::from(share.weight)).sum();
    let mut matchers = Vec::new();
    for (seed, share) in (0..).zip(others) {
        matchers.push(FieldMatcher {
            predicate: Some(takes(part(share.weight, left), seed)),
            on_match: Some(to(&share.cluster)),
        });
        left -= u64::from(share.weight);
    }
    let list = (!matchers.is_empty()).then_some(MatcherType::MatcherList(MatcherList { matchers }));
    Matcher { matcher_type: list, on_no_match: Some(Box::new(to(&last.cluster))) }
}

/// The part that a weight is of a whole, rounded.
fn part(weight: u32, whole: u64) -> u32 {
    let whole = whole.max(1);
    let parts = (u64::from(weight) * PARTS + whole / 2) / whole;
    u32::try_from(parts.min(PARTS)).expect("a million fits")
}

/// Whether the hash of a client's port is within the first `parts`. The seeds differ, or what one share leaves the next
/// one would never take.
fn takes(parts: u32, seed: u64) -> Predicate {
    let fraction = FractionalPercent { numerator: parts, denominator: DenominatorType::Million.into() };
    let fraction = RuntimeFractionalPercent { default_value: Some(fraction), ..RuntimeFractionalPercent::default() };
    let single = SinglePredicate {
        input: Some(extension("port", &SourcePortInput::default())),
        matcher: Some(single_predicate::Matcher::CustomMatch(extension(
            "share",
            &RuntimeFraction { runtime_fraction: Some(fraction), seed },
        ))),
    };
    Predicate { match_type: Some(MatchType::SinglePredicate(single)) }
}

fn to(cluster: &str) -> OnMatch {
    let action = extension("to", &Route { cluster: cluster.to_owned() });
    OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..OnMatch::default() }
}

fn extension<M: Message + Name>(name: &str, config: &M) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(pack(config)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_what_is_left_and_never_more_than_all() {
        assert_eq!(part(70, 100), 700_000);
        assert_eq!(part(30, 30), 1_000_000);
        assert_eq!(part(1, 3), 333_333);
        assert_eq!(part(0, 0), 0);
        assert_eq!(part(1_000_000, 16_000_000), 62_500);
    }
}
