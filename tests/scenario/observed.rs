//! What a sealed value says, in the words of `expect.yaml` and of the golden files.

use prost::Message;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{
    AddressFact, Condition, Kind, ListenerStatus, NamespacedName, ParentFact, ResourceType, StatusBody,
};
use tidegate_proto::envoy::config::core::v3::{HealthStatus, SocketAddress, address, socket_address};
use tidegate_proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint, lb_endpoint};
use tidegate_status::Board;
use tidegate_xds::{Resource, Sealed, Variant, Variants, When};

/// Versions by type (`cds`, ...), then by Gateway and name.
pub type Versions = BTreeMap<String, BTreeMap<String, String>>;

/// A sealed value to look at.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'s>(pub &'s Sealed);

impl Observed<'_> {
    /// The members of a cluster, `address:port`, sorted as texts; none if there is no such assignment.
    #[must_use]
    pub fn members(&self, cluster: &str) -> Option<Vec<String>> {
        let assignment = self.0.endpoints.get(cluster)?.default_form();
        let assignment = ClusterLoadAssignment::decode(assignment.bytes.clone()).expect("what was encoded decodes");
        let mut members: Vec<String> =
            assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints).map(member).collect();
        members.sort();
        Some(members)
    }

    /// The members of a cluster as a client there gets them, priority by priority; none if there is no such assignment.
    #[must_use]
    pub fn seen_from(&self, place: &str, cluster: &str) -> Option<Vec<Vec<String>>> {
        let locality = self.0.locality(&super::locality(place));
        Some(by_priority(self.0.endpoints.get(cluster)?.choose(&locality)))
    }

    /// Conditions of an object, `Status/Reason` by condition, with the parent in front for routes; and what else its
    /// status has: `observedGeneration`, and by kind `addresses`, `listeners`, `attachedListenerSets`, `parents`,
    /// `attachedRoutes`, `supportedKinds`.
    #[must_use]
    pub fn conditions(&self, object: &str) -> Option<BTreeMap<String, String>> {
        let (object, listener) = object.split_once(" listener ").map_or((object, None), |(o, l)| (o, Some(l)));
        let status = self.0.status.get(&super::key(object))?;
        let mut found = BTreeMap::new();
        match (&status.body, listener) {
            (StatusBody::None, _) => return None,
            (StatusBody::Class(conditions), _) => insert(&mut found, "", conditions),
            (StatusBody::Gateway { conditions, addresses, listeners, attached_sets }, None) => {
                insert(&mut found, "", conditions);
                found.insert("addresses".to_owned(), joined(addresses.iter().map(address_name)));
                found.insert("listeners".to_owned(), names(listeners));
                found.extend(attached_sets.map(|count| ("attachedListenerSets".to_owned(), count.to_string())));
            }
            (StatusBody::ListenerSet { conditions, listeners, .. }, None) => {
                insert(&mut found, "", conditions);
                found.insert("listeners".to_owned(), names(listeners));
            }
            (StatusBody::Gateway { listeners, .. } | StatusBody::ListenerSet { listeners, .. }, Some(name)) => {
                let listener = listeners.iter().find(|listener| listener.name == name)?;
                insert(&mut found, "", &listener.conditions);
                found.insert("attachedRoutes".to_owned(), listener.attached_routes.to_string());
                let kinds = listener.supported_kinds.iter().map(|kind| kind.kind.to_string());
                found.insert("supportedKinds".to_owned(), joined(kinds));
            }
            (StatusBody::Policy(ancestors), _) => {
                let names = ancestors.iter().map(|ancestor| ancestor.gateway.to_string());
                found.insert("ancestors".to_owned(), joined(names));
                for ancestor in ancestors {
                    insert(&mut found, &format!("{} ", ancestor.gateway), &ancestor.conditions);
                }
            }
            (StatusBody::Route(parents), _) => {
                found.insert("parents".to_owned(), joined(parents.iter().map(|parent| parent_name(&parent.parent))));
                for parent in parents {
                    insert(&mut found, &format!("{} ", parent_name(&parent.parent)), &parent.conditions);
                }
            }
        }
        found.insert("observedGeneration".to_owned(), status.generation.to_string());
        Some(found)
    }

    /// The version of everything that is served.
    #[must_use]
    pub fn versions(&self) -> Versions {
        let mut versions: Versions =
            ResourceType::ALL.into_iter().map(|kind| (kind.short().to_owned(), BTreeMap::new())).collect();
        for gateway in self.0.gateways.keys() {
            for kind in ResourceType::ALL {
                let of_kind = versions.entry(kind.short().to_owned()).or_default();
                for resource in self.resources(gateway, kind) {
                    of_kind.insert(format!("{gateway} {}", resource.name), resource.version.to_string());
                }
            }
            let of_endpoints = versions.entry(ResourceType::Endpoints.short().to_owned()).or_default();
            for name in self.0.names(gateway, ResourceType::Endpoints) {
                for form in self.0.endpoints[&name].all() {
                    of_endpoints.insert(format!("{gateway} {name} {:?}", form.when), form.resource.version.to_string());
                }
            }
        }
        versions
    }

    /// Everything of one type that the clients of a Gateway get.
    #[must_use]
    pub fn resources(&self, gateway: &NamespacedName, kind: ResourceType) -> Vec<Resource> {
        let names = self.0.names(gateway, kind);
        names.iter().filter_map(|name| self.0.resource(gateway, kind, name)).collect()
    }

    /// The ports that a Gateway listens on.
    #[must_use]
    pub fn ports(&self, gateway: &NamespacedName) -> BTreeSet<u16> {
        let listeners = self.resources(gateway, ResourceType::Listener);
        let decoded = listeners.iter().map(|listener| decode(ResourceType::Listener, listener));
        let port = |listener: Value| listener.pointer("/address/socket_address/port_value").and_then(Value::as_u64);
        decoded.filter_map(port).filter_map(|port| u16::try_from(port).ok()).collect()
    }

    /// What the clients of each Gateway get, as a golden file: tables whole; of listeners where they listen and what they
    /// name, of clusters their names, since the rest of both is constant.
    #[must_use]
    pub fn snapshot(&self) -> String {
        let mut whole = Map::new();
        for gateway in self.0.gateways.keys() {
            let decoded = |kind| self.resources(gateway, kind).into_iter().map(move |resource| decode(kind, &resource));
            let mut endpoints = Map::new();
            for name in self.0.names(gateway, ResourceType::Endpoints) {
                endpoints.insert(name.to_string(), self.forms(&name));
            }
            let listeners: Map<String, Value> =
                decoded(ResourceType::Listener).map(|listener| short_listener(&listener)).collect();
            let tables: Vec<Value> = decoded(ResourceType::Table).collect();
            let clusters = json!(self.0.names(gateway, ResourceType::Cluster));
            let mut view = json!({
                "clusters": clusters, "endpoints": endpoints, "listeners": listeners, "tables": tables,
            });
            let secrets = self.0.names(gateway, ResourceType::Secret);
            if !secrets.is_empty() {
                view["secrets"] = json!(secrets);
            }
            whole.insert(gateway.to_string(), view);
        }
        yaml(whole.into())
    }

    /// The members of a cluster; where clients differ, by whom they are for.
    fn forms(&self, cluster: &str) -> Value {
        let all = self.0.endpoints.get(cluster).map(Variants::all).unwrap_or_default();
        if all.len() < 2 {
            return json!(self.members(cluster));
        }
        let form = |variant: &Variant| {
            let whom = match &variant.when {
                When::Any => "any".to_owned(),
                When::Locality(prefix) => prefix.to_string(),
            };
            (whom, json!(by_priority(&variant.resource)))
        };
        all.iter().map(form).collect::<Map<_, _>>().into()
    }

    /// The status of every object, as a golden file.
    #[must_use]
    pub fn status(&self) -> String {
        let mut board = Board::new();
        let all = self.0.status.iter().map(|(key, status)| (key.clone(), Some(status.clone())));
        board.derive(all, 0);
        let mut value = board.render(tidegate_model::CONTROLLER_NAME);
        for object in value.as_array_mut().into_iter().flatten() {
            drop_times(object);
            // The same of every class, and known elsewhere.
            if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("supportedFeatures");
            }
        }
        yaml(value)
    }
}

fn insert(into: &mut BTreeMap<String, String>, prefix: &str, conditions: &[Condition]) {
    for condition in conditions {
        let verdict = format!("{}/{}", condition.status.as_str(), condition.reason);
        into.insert(format!("{prefix}{}", condition.kind.as_str()), verdict);
    }
}

fn names(listeners: &[ListenerStatus]) -> String {
    joined(listeners.iter().map(|listener| listener.name.to_string()))
}

fn joined(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// `Type value`.
fn address_name(address: &AddressFact) -> String {
    format!("{} {}", address.kind, address.value.as_deref().unwrap_or_default())
}

/// `namespace/name[section]:port` of a Gateway; of another kind with that in front, `ListenerSet namespace/name`.
fn parent_name(parent: &ParentFact) -> String {
    let kind = if parent.group_kind.is(Kind::Gateway) { String::new() } else { format!("{} ", parent.group_kind.kind) };
    let section = parent.section.as_ref().map(|section| format!("[{section}]")).unwrap_or_default();
    let port = parent.port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("{kind}{}{section}{port}", parent.name)
}

/// The members of an assignment, priority by priority, sorted as texts.
fn by_priority(assignment: &Resource) -> Vec<Vec<String>> {
    let assignment = ClusterLoadAssignment::decode(assignment.bytes.clone()).expect("what was encoded decodes");
    let mut priorities: Vec<Vec<String>> = Vec::new();
    for locality in &assignment.endpoints {
        let priority = usize::try_from(locality.priority).expect("32 bits fit");
        priorities.resize(priorities.len().max(priority + 1), Vec::new());
        priorities[priority].extend(locality.lb_endpoints.iter().map(member));
    }
    priorities.iter_mut().for_each(|members| members.sort());
    priorities
}

fn member(endpoint: &LbEndpoint) -> String {
    let Some(lb_endpoint::HostIdentifier::Endpoint(host)) = &endpoint.host_identifier else {
        panic!("a member is an endpoint: {endpoint:?}");
    };
    let Some(address::Address::SocketAddress(socket)) = host.address.as_ref().and_then(|a| a.address.as_ref()) else {
        panic!("a member has a socket address: {endpoint:?}");
    };
    let draining = if endpoint.health_status == HealthStatus::Draining as i32 { " draining" } else { "" };
    format!("{}{draining}", socket_text(socket))
}

fn socket_text(socket: &SocketAddress) -> String {
    let port = match &socket.port_specifier {
        Some(socket_address::PortSpecifier::PortValue(port)) => port.to_string(),
        other => format!("{other:?}"),
    };
    let colons = socket.address.contains(':');
    if colons { format!("[{}]:{port}", socket.address) } else { format!("{}:{port}", socket.address) }
}

fn decode(kind: ResourceType, resource: &Resource) -> Value {
    tidegate_proto::json::to_json(kind.url(), &resource.bytes).expect("what was encoded decodes")
}

/// Name, and `address:port -> table` or cluster, or with TLS what each chain names.
fn short_listener(listener: &Value) -> (String, Value) {
    let text = |pointer: &str| listener.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let address = text("/address/socket_address/address");
    let port = listener.pointer("/address/socket_address/port_value").cloned().unwrap_or_default();
    let chains = listener["filter_chains"].as_array().map(Vec::as_slice).unwrap_or_default();
    let short = match chains {
        [] => {
            let matcher = listener.pointer("/listener_filters/0/typed_config/matcher").cloned().unwrap_or_default();
            format!("{address}:{port} -> {}", datagrams(&matcher)).into()
        }
        [one] if one["filter_chain_match"].is_null() => format!("{address}:{port} -> {}", way(one)).into(),
        _ => {
            let chain = |chain: &Value| {
                let name = chain["name"].as_str().unwrap_or_default().to_owned();
                let is_table = !table(chain).is_empty();
                let mut short =
                    json!({ (if is_table { "table" } else { "stream" }): way(chain), "secrets": secrets(chain) });
                let required = chain.pointer("/transport_socket/typed_config/require_client_certificate");
                if let Some(required) = required {
                    short["requires_client_certificate"] = required.clone();
                }
                (name, short)
            };
            json!({ "address": format!("{address}:{port}"), "chains": chains.iter().map(chain).collect::<Map<_, _>>() })
        }
    };
    (text("/name"), short)
}

fn table(chain: &Value) -> &str {
    let table = chain.pointer("/filters/0/typed_config/rds/route_config_name");
    table.and_then(Value::as_str).unwrap_or_default()
}

fn secrets(chain: &Value) -> Vec<Value> {
    let configs = "/transport_socket/typed_config/common_tls_context/tls_certificate_sds_secret_configs";
    let configs = chain.pointer(configs).and_then(Value::as_array).cloned().unwrap_or_default();
    configs.iter().map(|config| config["name"].clone()).collect()
}

/// Where a chain leads: a table, a cluster, or `cluster weight` of several.
fn way(chain: &Value) -> String {
    let proxy = chain.pointer("/filters/0/typed_config").unwrap_or(&Value::Null);
    let weighted = proxy.pointer("/weighted_clusters/clusters").and_then(Value::as_array);
    match (table(chain), proxy["cluster"].as_str(), weighted) {
        ("", Some(cluster), _) => cluster.to_owned(),
        ("", None, Some(several)) => {
            let one = |share: &Value| format!("{} {}", share["name"].as_str().unwrap_or_default(), share["weight"]);
            several.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        (table, _, _) => table.to_owned(),
    }
}

/// Where datagrams go: `cluster` or, of several, `cluster` with its millionths of what is left.
fn datagrams(matcher: &Value) -> String {
    let cluster = |found: &Value| {
        found.pointer("/action/typed_config/cluster").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let some = matcher.pointer("/matcher_list/matchers").and_then(Value::as_array).cloned().unwrap_or_default();
    let fraction = "/predicate/single_predicate/custom_match/typed_config/runtime_fraction/default_value/numerator";
    let some = some
        .iter()
        .map(|one| format!("{} {}", cluster(&one["on_match"]), one.pointer(fraction).unwrap_or(&Value::Null)));
    some.chain([cluster(&matcher["on_no_match"])]).collect::<Vec<_>>().join(", ")
}

/// Times say when a run was, not what came of it.
fn drop_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("lastTransitionTime");
            fields.values_mut().for_each(drop_times);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn yaml(mut value: Value) -> String {
    value.sort_all_objects();
    serde_saphyr::to_string(&value).expect("a JSON value with string keys is a YAML document")
}
