//! Backends that a scenario asks for by name alone, where nothing about their objects matters.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_model::NamespacedName;

/// A document that stands for Services, each with one endpoint.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Wish {
    /// `namespace/name` of each.
    backends: Vec<String>,
    /// The ports of each Service.
    #[serde(default = "ports")]
    ports: Vec<Port>,
    /// The Secret with the certificate that the endpoints have: they are reached over TLS alone.
    served_with: Option<String>,
    /// The last part of the first one's address; the next one has the next.
    #[serde(default = "first")]
    first: u8,
}

/// A port of a Service; its endpoint listens on the port that many higher.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Port {
    port: u16,
    app_protocol: Option<String>,
    #[serde(default = "tcp")]
    protocol: String,
}

/// What lies between the port of a Service and that of its endpoint, so that neither passes for the other.
const HIGHER: u16 = 10_000;

/// The annotation of a slice that says with which Secret's certificate its endpoints are reached over TLS.
pub const SERVED_WITH: &str = "tidegate.test/served-with";

fn ports() -> Vec<Port> {
    vec![Port { port: 8080, app_protocol: None, protocol: tcp() }]
}

fn first() -> u8 {
    1
}

fn tcp() -> String {
    "TCP".to_owned()
}

/// The objects that the document stands for.
pub(super) fn make(document: &Value) -> Vec<Value> {
    let wish: Wish = serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{document}: {error}"));
    let each = wish.backends.iter().zip(wish.first..);
    each.flat_map(|(name, last)| objects(&NamespacedName::parse(name), last, &wish)).collect()
}

fn objects(name: &NamespacedName, last: u8, Wish { ports, served_with, .. }: &Wish) -> [Value; 2] {
    let (namespace, name) = (name.namespace(), name.name());
    let port = |port: &Port, number: u16| {
        let name = format!("p{}", port.port);
        let mut value = json!({ "name": name, "port": number, "protocol": port.protocol });
        if let Some(app) = &port.app_protocol {
            value["appProtocol"] = json!(app);
        }
        value
    };
    let own: Vec<Value> = ports.iter().map(|one| port(one, one.port)).collect();
    let theirs: Vec<Value> = ports.iter().map(|one| port(one, one.port + HIGHER)).collect();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": namespace },
        "spec": { "ports": own },
    });
    let labels = json!({ "kubernetes.io/service-name": name });
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": format!("{name}-1"), "namespace": namespace, "labels": labels },
        "ports": theirs,
        "endpoints": [{ "addresses": [format!("127.20.0.{last}")], "conditions": { "ready": true } }],
    });
    if let Some(secret) = served_with {
        slice["metadata"]["annotations"] = json!({ SERVED_WITH: secret });
    }
    [service, slice]
}
