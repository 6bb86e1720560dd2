//! What the clients of one Gateway get, as canonical JSON.

use serde_json::{Value, json};
use tidegate_model::{NamespacedName, ResourceType};
use tidegate_xds::{Resource, Sealed, Variants, When};

/// The snapshot of `gateway`: clusters, endpoints, listeners, secrets and tables by name, each with its version. `None` if the
/// Gateway is not served.
///
/// The order is by name and the JSON is canonical, so equal snapshots are equal texts.
#[must_use]
pub fn of(sealed: &Sealed, gateway: &NamespacedName) -> Option<Value> {
    let view = sealed.gateways.get(gateway)?;
    let members = |map: &imbl::OrdMap<tidegate_model::Name, Variants>, kind: ResourceType| -> Vec<Value> {
        view.members.iter().filter_map(|name| map.get(name)).flat_map(|variants| forms(kind, variants)).collect()
    };
    let listeners: Vec<Value> =
        view.listeners.values().map(|listener| resource(ResourceType::Listener, &listener.resource)).collect();
    let tables: Vec<Value> =
        view.tables.values().map(|table| resource(ResourceType::Table, table.resource())).collect();
    Some(json!({
        "gateway": gateway,
        "epoch": sealed.epoch,
        "millis": sealed.millis,
        "digest": sealed.digest.to_string(),
        "clusters": members(&sealed.clusters, ResourceType::Cluster),
        "endpoints": members(&sealed.endpoints, ResourceType::Endpoints),
        "listeners": listeners,
        "secrets": view.secrets.values().map(secret).collect::<Vec<_>>(),
        "tables": tables,
    }))
}

/// Every form of a resource that differs by client.
fn forms(kind: ResourceType, variants: &Variants) -> Vec<Value> {
    variants
        .all()
        .iter()
        .map(|variant| {
            let mut form = resource(kind, &variant.resource);
            match &variant.when {
                When::Any => {}
                When::Locality(prefix) => form["for"] = json!(prefix.to_string()),
            }
            form
        })
        .collect()
}

/// A secret without its material, which nothing outside the wire to a client ever has.
fn secret(secret: &Resource) -> Value {
    let digest = tidegate_xds::encode::secret_digest(secret);
    json!({ "name": secret.name, "version": secret.version.to_string(), "digest": digest })
}

fn resource(kind: ResourceType, resource: &Resource) -> Value {
    let body = tidegate_proto::json::to_json(kind.url(), &resource.bytes)
        .unwrap_or_else(|error| json!({ "undecodable": error.to_string() }));
    json!({ "name": resource.name, "version": resource.version.to_string(), "resource": body })
}
