//! From [`ir`](crate::ir) to encoded resources: pure functions, one shape for each thing.
//!
//! *Invariants*: equal values encode to equal bytes. Every field rule that Envoy checks holds, whatever the values are
//! (one breach would reject a whole response). What would drain connections or warm clusters again when it changes does
//! not depend on values: the HTTP filters, the filter chain's name, the load-balancing config.
//!
//! Facts about Envoy in comments here were measured on Envoy 1.40.

mod cluster;
mod cors;
mod headers;
mod listener;
mod path;
mod retry;
mod route;
mod secret;
mod session;
mod stream;
mod table;
mod tls;

pub use cluster::{cluster, endpoints};
pub use listener::listener;
pub use route::{entry, matches_the_same, unavailable};
pub use secret::{secret, secret_digest, secret_ref};
pub use table::{misdirected, table, table_version, virtual_host};

use tidegate_model::Millis;
use tidegate_proto::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use tidegate_proto::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, SocketAddress, address, socket_address,
};
use tidegate_proto::google::protobuf::Duration;

/// The longest time that is said to Envoy, ten years: far below what its durations can hold.
const MAX_MILLIS: Millis = 10 * 365 * 24 * 3600 * 1000;

fn duration(millis: Millis) -> Duration {
    let millis = millis.min(MAX_MILLIS);
    let seconds = i64::try_from(millis / 1000).expect("ten years of seconds fit");
    let nanos = i32::try_from(millis % 1000).expect("below 1000") * 1_000_000;
    Duration { seconds, nanos }
}

fn address(ip: &str, port: u16) -> Address {
    let socket = SocketAddress {
        address: ip.to_owned(),
        port_specifier: Some(socket_address::PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    };
    Address { address: Some(address::Address::SocketAddress(socket)) }
}

fn udp_address(ip: &str, port: u16) -> Address {
    let mut address = address(ip, port);
    if let Some(address::Address::SocketAddress(socket)) = &mut address.address {
        socket.protocol = socket_address::Protocol::Udp.into();
    }
    address
}

/// "Over the stream that this resource came on". Envoy gives up waiting after its default of 15 s, which matters only
/// if we stop between two messages: then the listeners and clusters that are complete go on without the one that is not.
fn ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    }
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod stream_tests;
