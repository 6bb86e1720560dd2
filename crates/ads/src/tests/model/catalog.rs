//! What the resources of a script name.

use super::super::world::GATEWAY;
use prost::Message;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use tidegate_model::{INVALID_CLUSTER, Name, NamespacedName, ResourceType};
use tidegate_proto::envoy::config::route::v3::{RouteConfiguration, route, route_action};
use tidegate_xds::{Resource, Sealed, Version};

/// The names in a resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) clusters: BTreeSet<Name>,
    pub(super) tables: BTreeSet<Name>,
    pub(super) secrets: BTreeSet<Name>,
    /// Of a table: hashes of its entries, each with its virtual host.
    pub(super) entries: Vec<Version>,
}

/// A resource as a client holds it.
#[derive(Clone)]
pub(super) struct Form {
    pub(super) resource: Resource,
    pub(super) names: Arc<Names>,
}

/// As the resource: equal versions name the same.
impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.resource, f)
    }
}

/// Finds what resources name; each version is looked at once.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    known: RefCell<BTreeMap<(ResourceType, Version), Arc<Names>>>,
}

impl Catalog {
    /// Listeners are taken from the seals, which say what these name.
    pub(super) fn of(seals: &[Arc<Sealed>]) -> Self {
        let gateway = NamespacedName::parse(GATEWAY);
        let mut known = BTreeMap::new();
        for listener in
            seals.iter().filter_map(|seal| seal.gateways.get(&gateway)).flat_map(|view| view.listeners.values())
        {
            let set = |names: &[Name]| names.iter().cloned().collect();
            let names = Names {
                entries: Vec::new(),
                clusters: listener.clusters().cloned().collect(),
                tables: set(&listener.tables),
                secrets: set(&listener.secrets),
            };
            known.insert((ResourceType::Listener, listener.resource.version), Arc::new(names));
        }
        Catalog { known: RefCell::new(known) }
    }

    /// The resource with its names.
    pub(super) fn form(&self, kind: ResourceType, resource: &Resource) -> Form {
        let mut known = self.known.borrow_mut();
        let names = known.entry((kind, resource.version)).or_insert_with(|| match kind {
            ResourceType::Table => Arc::new(of_table(resource)),
            ResourceType::Listener => panic!("a listener that no seal has: {resource:?}"),
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Secret => Arc::default(),
        });
        Form { resource: resource.clone(), names: names.clone() }
    }
}

fn of_table(resource: &Resource) -> Names {
    let table = RouteConfiguration::decode(resource.bytes.clone()).unwrap();
    let (mut clusters, mut entries) = (BTreeSet::new(), Vec::new());
    let routes = table.virtual_hosts.iter().flat_map(|host| host.routes.iter().map(move |route| (host, route)));
    for (host, route) in routes {
        entries.push(Version::of(&[host.domains.join(" ").as_bytes(), &route.encode_to_vec()].concat()));
        let route = route.clone();
        let Some(route::Action::Route(action)) = route.action else { continue };
        match action.cluster_specifier {
            Some(route_action::ClusterSpecifier::Cluster(name)) => {
                clusters.insert(Name::from(name));
            }
            Some(route_action::ClusterSpecifier::WeightedClusters(weighted)) => {
                clusters.extend(weighted.clusters.into_iter().map(|cluster| Name::from(cluster.name)));
            }
            Some(_) | None => {}
        }
    }
    clusters.remove(INVALID_CLUSTER);
    Names { clusters, entries, ..Names::default() }
}
