//! What an Envoy is told at its start: who it is, where its ADS server is, and where it answers questions. Everything
//! else it learns from the server.

use serde_json::{Value, json};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;
use tidegate_model::{Locality, Name, NamespacedName};

/// The name of the one static cluster: the way to the ADS server.
pub const XDS_CLUSTER: &str = "xds_cluster";

/// Downstream connections that an Envoy accepts before it refuses more. Without a bound it logs a warning at start
/// and dies of its file descriptors instead.
const MAX_DOWNSTREAM_CONNECTIONS: u64 = 50_000;

/// Where an ADS server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdsAddress {
    /// A host, by address or by name, and a port.
    Tcp {
        /// IP address or DNS name.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// A text that is no [`AdsAddress`].
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not an address of an ads server; write HOST:PORT, [IPV6]:PORT or unix:/PATH")]
pub struct AddressError(String);

impl FromStr for AdsAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() { Ok(AdsAddress::Unix(path)) } else { Err(AddressError(text.to_owned())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| AddressError(text.to_owned()))?;
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        match port.parse() {
            Ok(port) if !bare.is_empty() && (bare == host) != bare.contains(':') => {
                Ok(AdsAddress::Tcp { host: bare.to_owned(), port })
            }
            _ => Err(AddressError(text.to_owned())),
        }
    }
}

impl fmt::Display for AdsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdsAddress::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            AdsAddress::Tcp { host, port } => write!(f, "{host}:{port}"),
            AdsAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl AdsAddress {
    /// The address as Envoy writes one.
    fn to_json(&self) -> Value {
        match self {
            AdsAddress::Tcp { host, port } => json!({ "socket_address": { "address": host, "port_value": port } }),
            AdsAddress::Unix(path) => json!({ "pipe": { "path": path } }),
        }
    }

    /// How Envoy finds the endpoint of the cluster: as written, or by DNS.
    fn discovery(&self) -> &'static str {
        match self {
            AdsAddress::Tcp { host, .. } if host.parse::<IpAddr>().is_err() => "STRICT_DNS",
            AdsAddress::Tcp { .. } | AdsAddress::Unix(_) => "STATIC",
        }
    }
}

/// The choices of a bootstrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// The Gateway that this Envoy serves. The server reads it from the node's metadata.
    pub gateway: NamespacedName,
    /// The ADS server.
    pub ads: AdsAddress,
    /// State-of-the-world protocol instead of delta.
    pub sotw: bool,
    /// Port of the admin interface on 127.0.0.1; 0 lets the system choose, `None` leaves it out.
    pub admin_port: Option<u16>,
    /// Identity of this Envoy among those of its Gateway.
    pub node_id: String,
    /// Where it runs, as far as that is known; the host is the name of its Kubernetes Node.
    pub locality: Locality,
}

impl Bootstrap {
    /// The defaults: delta, an admin port that the system chooses, a node id made of the Gateway's name.
    #[must_use]
    pub fn new(gateway: NamespacedName, ads: AdsAddress) -> Self {
        let node_id = format!("{}.{}", gateway.name(), gateway.namespace());
        Bootstrap { gateway, ads, sotw: false, admin_port: Some(0), node_id, locality: Locality::default() }
    }

    /// The bootstrap as a value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        const CONNECTION_LIMIT: &str =
            "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig";
        let mut whole = json!({
            "node": self.node(),
            "overload_manager": { "resource_monitors": [{
                "name": "envoy.resource_monitors.global_downstream_max_connections",
                "typed_config": {
                    "@type": format!("type.googleapis.com/{CONNECTION_LIMIT}"),
                    "max_active_downstream_connections": MAX_DOWNSTREAM_CONNECTIONS,
                },
            }] },
            // An empty layer that the admin interface can write to.
            "layered_runtime": { "layers": [{ "name": "admin", "admin_layer": {} }] },
            "dynamic_resources": self.dynamic_resources(),
            "static_resources": { "clusters": [self.xds_cluster()] },
        });
        if let Some(port) = self.admin_port {
            let address = json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } });
            whole["admin"] = json!({ "address": address });
        }
        whole
    }

    /// The bootstrap as a YAML document.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(&self.to_json()).expect("a JSON value with string keys is a YAML document")
    }

    fn node(&self) -> Value {
        let mut node = json!({
            "id": self.node_id,
            "cluster": self.gateway.as_str(),
            "metadata": { "gateway": self.gateway.as_str() },
        });
        let Locality { network, region, zone, sub_zone, host } = &self.locality;
        let mut say = |part: &str, key: &str, value: &Name| {
            if !value.is_empty() {
                node[part][key] = json!(value);
            }
        };
        say("locality", "region", region);
        say("locality", "zone", zone);
        say("locality", "sub_zone", sub_zone);
        say("metadata", "kube_node", host);
        say("metadata", "network", network);
        node
    }

    fn dynamic_resources(&self) -> Value {
        // 0 s: wait for the server as long as it takes. Anything else makes a cold Envoy serve 404 from an empty
        // configuration when the server comes late.
        let from_ads = json!({ "resource_api_version": "V3", "ads": {}, "initial_fetch_timeout": "0s" });
        json!({
            "ads_config": {
                "api_type": if self.sotw { "GRPC" } else { "DELTA_GRPC" },
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{ "envoy_grpc": { "cluster_name": XDS_CLUSTER }, "timeout": "0s" }],
            },
            "cds_config": from_ads,
            "lds_config": from_ads,
        })
    }

    fn xds_cluster(&self) -> Value {
        const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        json!({
            "name": XDS_CLUSTER,
            "type": self.ads.discovery(),
            "connect_timeout": "1s",
            "typed_extension_protocol_options": { HTTP_OPTIONS: {
                "@type": format!("type.googleapis.com/{HTTP_OPTIONS}"),
                // The keepalive notices a server that vanished without closing the connection.
                "explicit_http_config": { "http2_protocol_options": {
                    "connection_keepalive": { "interval": "30s", "timeout": "5s" },
                } },
            } },
            "load_assignment": {
                "cluster_name": XDS_CLUSTER,
                "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": self.ads.to_json() } }] }],
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bootstrap(ads: &str) -> Bootstrap {
        Bootstrap::new(NamespacedName::new("shop", "edge"), ads.parse().unwrap())
    }

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in ["127.0.0.1:18000", "tidegate.tidegate-system.svc:18000", "[::1]:18000", "unix:/run/tidegate.sock"]
        {
            assert_eq!(text.parse::<AdsAddress>().unwrap().to_string(), text);
        }
        for text in
            ["", "127.0.0.1", ":18000", "host:port", "::1:18000", "[host]:1", "unix:relative.sock", "host:70000"]
        {
            assert_eq!(text.parse::<AdsAddress>(), Err(AddressError(text.to_owned())));
        }
    }

    #[test]
    fn delta_is_the_default_and_sotw_a_choice() {
        let delta = bootstrap("127.0.0.1:18000");
        let sotw = Bootstrap { sotw: true, ..delta.clone() };
        let api = |b: &Bootstrap| b.to_json()["dynamic_resources"]["ads_config"]["api_type"].clone();
        assert_eq!((api(&delta), api(&sotw)), (json!("DELTA_GRPC"), json!("GRPC")));
    }

    #[test]
    fn the_node_names_its_gateway_and_where_it_is() {
        let [network, region, zone, sub_zone, host] = ["n1", "r1", "z1", "s1", "worker-1"].map(Name::from);
        let locality = Locality { network, region, zone, sub_zone, host };
        let node = &Bootstrap { locality, ..bootstrap("127.0.0.1:18000") }.to_json()["node"];
        assert_eq!(node["id"], json!("edge.shop"));
        assert_eq!(node["metadata"], json!({ "gateway": "shop/edge", "kube_node": "worker-1", "network": "n1" }));
        assert_eq!(node["locality"], json!({ "region": "r1", "zone": "z1", "sub_zone": "s1" }));
        assert_eq!(bootstrap("127.0.0.1:18000").to_json()["node"].get("locality"), None);
    }

    #[test]
    fn names_are_resolved_and_addresses_are_not() {
        let kind = |ads: &str| bootstrap(ads).to_json()["static_resources"]["clusters"][0]["type"].clone();
        assert_eq!(kind("10.0.0.1:1"), json!("STATIC"));
        assert_eq!(kind("[fd00::1]:1"), json!("STATIC"));
        assert_eq!(kind("unix:/a"), json!("STATIC"));
        assert_eq!(kind("tidegate.svc:1"), json!("STRICT_DNS"));
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        let bootstrap = bootstrap("127.0.0.1:18000");
        let back: Value = serde_saphyr::from_str(&bootstrap.to_yaml()).unwrap();
        assert_eq!(back, bootstrap.to_json());
        let silent = Bootstrap { admin_port: None, ..bootstrap };
        assert_eq!(silent.to_json().get("admin"), None);
    }
}
