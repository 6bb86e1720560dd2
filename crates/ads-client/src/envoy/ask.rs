//! What the client says, and in which order.

use super::{Channel, Envoy};
use crate::message::{Protocol, Request};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::ResourceType;
use tidegate_proto::envoy::config::core::v3::Node;
use tidegate_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tidegate_proto::google::protobuf::{Struct, Value, value};
use tidegate_proto::google::rpc::Status;

/// `INVALID_ARGUMENT`.
const REJECTED: i32 = 3;

impl Envoy {
    /// What is asked for by name now; nothing for the types that are asked for whole.
    pub(super) fn wanted(&self, kind: ResourceType) -> BTreeSet<String> {
        match kind {
            ResourceType::Cluster | ResourceType::Listener => BTreeSet::new(),
            ResourceType::Endpoints => {
                let eds = self.clusters.iter().filter(|(_, cluster)| crate::resources::has_eds(&cluster.bytes));
                eds.map(|(name, _)| name.clone()).collect()
            }
            ResourceType::Secret => {
                let listeners = self.of(ResourceType::Listener);
                let named = listeners.flat_map(|(_, listener)| listener.secrets.iter().cloned());
                // A cluster asks for its secret once it has its endpoints; one that changes keeps it meanwhile.
                let clusters = self.clusters.values().filter(|cluster| cluster.assigned || cluster.usable);
                named.chain(clusters.flat_map(|cluster| cluster.secrets.iter().cloned())).collect()
            }
            ResourceType::Table => {
                let named = self.of(ResourceType::Listener).flat_map(|(_, listener)| listener.names.iter().cloned());
                named.chain(self.draining.iter().cloned()).collect()
            }
        }
    }

    /// The first request of a type on this stream.
    pub(super) fn first(&mut self, kind: ResourceType) -> Request {
        let wanted = self.wanted(kind);
        let initial = self.versions(kind);
        let channel = self.channel(kind);
        channel.asked = true;
        channel.tell(&wanted);
        match self.options.protocol {
            Protocol::Sotw => self.sotw(kind, None),
            Protocol::Delta => Request::Delta(DeltaDiscoveryRequest {
                node: self.node(),
                type_url: kind.url().to_owned(),
                resource_names_subscribe: wanted.into_iter().collect(),
                initial_resource_versions: initial,
                ..DeltaDiscoveryRequest::default()
            }),
        }
    }

    fn versions(&self, kind: ResourceType) -> BTreeMap<String, String> {
        match kind {
            ResourceType::Cluster => {
                self.clusters.iter().map(|(name, cluster)| (name.clone(), cluster.version.clone())).collect()
            }
            ResourceType::Endpoints | ResourceType::Listener | ResourceType::Secret | ResourceType::Table => {
                self.of(kind).map(|(name, held)| (name.clone(), held.version.clone())).collect()
            }
        }
    }

    fn sotw(&mut self, kind: ResourceType, error: Option<String>) -> Request {
        let node = self.node();
        let channel = &self.channels[&kind];
        Request::Sotw(DiscoveryRequest {
            version_info: channel.version.clone(),
            node,
            resource_names: channel.told.iter().cloned().collect(),
            type_url: kind.url().to_owned(),
            response_nonce: channel.nonce.clone(),
            error_detail: error.map(status),
            ..DiscoveryRequest::default()
        })
    }

    fn node(&mut self) -> Option<Node> {
        let value = Value { kind: Some(value::Kind::StringValue(self.options.gateway.clone())) };
        std::mem::replace(&mut self.fresh, false).then(|| Node {
            id: self.options.node.clone(),
            cluster: self.options.gateway.clone(),
            metadata: Some(Struct { fields: BTreeMap::from([("gateway".to_owned(), value)]) }),
            ..Node::default()
        })
    }

    /// Whether the server was told of names, and that all of them were let go.
    pub(super) fn asks_for_nothing(&self, kind: ResourceType) -> bool {
        let is_named = !matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        is_named && self.channels[&kind].asked && self.channels[&kind].told.is_empty()
    }

    /// Tells the server what is asked for now, if that changed; `repeat` tells it anyway.
    fn subscribe(&mut self, kind: ResourceType, repeat: bool) -> Option<Request> {
        let wanted = self.wanted(kind);
        if !self.channels[&kind].asked {
            return (!wanted.is_empty()).then(|| self.first(kind));
        }
        let channel = self.channel(kind);
        let told = channel.tell(&wanted);
        if told == wanted && !repeat {
            return None;
        }
        match self.options.protocol {
            Protocol::Sotw => {
                // Acknowledges the last response as well, so it is kept with the acknowledgements.
                let request = self.sotw(kind, None);
                if !self.options.hold.contains(&kind) {
                    return Some(request);
                }
                self.kept.push(request);
                None
            }
            Protocol::Delta if told == wanted => None,
            Protocol::Delta => Some(Request::Delta(DeltaDiscoveryRequest {
                node: self.node(),
                type_url: kind.url().to_owned(),
                resource_names_subscribe: wanted.difference(&told).cloned().collect(),
                resource_names_unsubscribe: told.difference(&wanted).cloned().collect(),
                ..DeltaDiscoveryRequest::default()
            })),
        }
    }

    fn acknowledge(&mut self, kind: ResourceType, nonce: String, error: Option<String>) -> Request {
        match self.options.protocol {
            Protocol::Sotw => self.sotw(kind, error),
            Protocol::Delta => Request::Delta(DeltaDiscoveryRequest {
                node: self.node(),
                type_url: kind.url().to_owned(),
                response_nonce: nonce,
                error_detail: error.map(status),
                ..DeltaDiscoveryRequest::default()
            }),
        }
    }

    /// What follows a response: subscriptions first, then acknowledgements.
    pub(super) fn answer(&mut self, kind: ResourceType, error: Option<String>, rewarmed: bool) -> Vec<Request> {
        let mut out = Vec::new();
        let nonce = self.channels[&kind].nonce.clone();
        match kind {
            ResourceType::Cluster => {
                out.extend(self.subscribe(ResourceType::Endpoints, rewarmed));
                out.extend(self.subscribe(ResourceType::Secret, false));
                self.withheld.push((nonce, error));
                if !self.initialized {
                    // While it starts it does not wait for warming to acknowledge.
                    self.acknowledge_clusters(&mut out);
                }
                self.after_warming(&mut out);
            }
            ResourceType::Endpoints => {
                out.extend(self.subscribe(ResourceType::Secret, false));
                self.after_warming(&mut out);
                self.keep_or_send(kind, nonce, error, &mut out);
            }
            ResourceType::Listener => {
                out.extend(self.subscribe(ResourceType::Secret, false));
                out.extend(self.subscribe(ResourceType::Table, false));
                self.keep_or_send(kind, nonce, error, &mut out);
            }
            ResourceType::Secret => {
                self.after_warming(&mut out);
                self.keep_or_send(kind, nonce, error, &mut out);
            }
            ResourceType::Table => self.keep_or_send(kind, nonce, error, &mut out),
        }
        out
    }

    fn after_warming(&mut self, out: &mut Vec<Request>) {
        if !self.warming().is_empty() {
            return;
        }
        self.acknowledge_clusters(out);
        if !self.channels[&ResourceType::Cluster].asked {
            out.push(self.first(ResourceType::Cluster));
        }
        if !self.initialized && self.channels[&ResourceType::Cluster].responses > 0 {
            self.initialized = true;
            out.push(self.first(ResourceType::Listener));
        }
    }

    fn acknowledge_clusters(&mut self, out: &mut Vec<Request>) {
        let mut withheld = std::mem::take(&mut self.withheld);
        if self.options.protocol == Protocol::Sotw {
            // Only the last nonce.
            withheld.drain(..withheld.len().saturating_sub(1));
        }
        for (nonce, error) in withheld {
            self.keep_or_send(ResourceType::Cluster, nonce, error, out);
        }
    }

    fn keep_or_send(&mut self, kind: ResourceType, nonce: String, error: Option<String>, out: &mut Vec<Request>) {
        let request = self.acknowledge(kind, nonce, error);
        if self.options.hold.contains(&kind) {
            self.kept.push(request);
        } else {
            out.push(request);
        }
    }
}

impl Channel {
    /// Tells the server these names; returns what it was told before.
    fn tell(&mut self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let told = std::mem::replace(&mut self.told, names.clone());
        self.told_once.extend(names.iter().cloned());
        for name in names.difference(&told) {
            *self.credit.entry(name.clone()).or_default() += 1;
        }
        told
    }
}

fn status(message: String) -> Status {
    Status { code: REJECTED, message, ..Status::default() }
}
