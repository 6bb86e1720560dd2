//! What the client says, and in which order.

use super::Envoy;
use crate::session::{Ask, Protocol, Request, TypeUrl};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{Name, ResourceType};

impl Envoy {
    /// What is asked for by name now; nothing for the types that are asked for whole.
    pub(super) fn wanted(&self, kind: ResourceType) -> BTreeSet<Name> {
        let listeners = || {
            let live = self.listeners.values().flat_map(|listener| [&listener.active, &listener.warming]);
            live.flatten().chain(&self.draining)
        };
        match kind {
            ResourceType::Cluster | ResourceType::Listener => BTreeSet::new(),
            ResourceType::Endpoints => self.clusters.keys().cloned().collect(),
            ResourceType::Secret => listeners().flat_map(|form| form.names.secrets.iter().cloned()).collect(),
            ResourceType::Table => listeners().flat_map(|form| form.names.tables.iter().cloned()).collect(),
        }
    }

    /// Whether the server was told of names, and that all of them were let go.
    pub(super) fn asks_for_nothing(&self, kind: ResourceType) -> bool {
        let channel = &self.channels[kind as usize];
        is_named(kind) && channel.asked && channel.told.is_empty()
    }

    /// The first request of a type on this stream.
    pub(super) fn first(&mut self, kind: ResourceType) -> Request {
        let wanted = self.wanted(kind);
        let channel = &mut self.channels[kind as usize];
        channel.asked = true;
        channel.told.clone_from(&wanted);
        if is_named(kind) {
            channel.listed.retain(|name, _| wanted.contains(name));
        }
        let initial = channel.listed.clone();
        match self.protocol {
            Protocol::Sotw => self.sotw(kind, None),
            Protocol::Delta => delta(kind, wanted.into_iter().collect(), Vec::new(), initial),
        }
    }

    fn sotw(&self, kind: ResourceType, error: Option<String>) -> Request {
        let channel = &self.channels[kind as usize];
        let names = channel.told.iter().map(ToString::to_string).collect();
        let ask = Ask::Sotw { version: channel.version.clone(), names };
        Request { type_url: TypeUrl::Served(kind), nonce: channel.nonce.clone(), error, ask }
    }

    /// Tells the server what is asked for now, if that changed; `repeat` tells it anyway.
    fn subscribe(&mut self, kind: ResourceType, repeat: bool) -> Option<Request> {
        let wanted = self.wanted(kind);
        if !self.channels[kind as usize].asked {
            return (!wanted.is_empty()).then(|| self.first(kind));
        }
        let channel = &mut self.channels[kind as usize];
        let told = std::mem::replace(&mut channel.told, wanted.clone());
        channel.listed.retain(|name, _| wanted.contains(name));
        match self.protocol {
            Protocol::Sotw => (told != wanted || repeat).then(|| self.sotw(kind, None)),
            Protocol::Delta if told == wanted => None,
            Protocol::Delta => {
                let added = wanted.difference(&told).cloned().collect();
                let removed = told.difference(&wanted).cloned().collect();
                Some(delta(kind, added, removed, BTreeMap::new()))
            }
        }
    }

    /// What the listeners name now.
    pub(super) fn subscribe_to_named(&mut self) -> Vec<Request> {
        self.promote();
        let secrets = self.subscribe(ResourceType::Secret, false);
        secrets.into_iter().chain(self.subscribe(ResourceType::Table, false)).collect()
    }

    /// What follows a response: subscriptions first, then the answer.
    pub(super) fn answer(&mut self, kind: ResourceType, error: Option<String>, rewarmed: bool) -> Vec<Request> {
        let nonce = self.channels[kind as usize].nonce.clone();
        let mut out = Vec::new();
        match kind {
            ResourceType::Cluster => {
                out.extend(self.subscribe(ResourceType::Endpoints, rewarmed));
                self.withheld.push((nonce, error));
                if !self.initialized {
                    // While it starts it does not wait for warming to acknowledge.
                    self.answer_clusters(&mut out);
                }
                self.after_warming(&mut out);
            }
            ResourceType::Endpoints => {
                self.after_warming(&mut out);
                out.push(self.acknowledge(kind, nonce, error));
            }
            ResourceType::Listener | ResourceType::Secret | ResourceType::Table => {
                // A table may have let a listener go active whose older form named others; these drain first.
                out.extend(self.subscribe_to_named());
                out.push(self.acknowledge(kind, nonce, error));
            }
        }
        out
    }

    fn acknowledge(&self, kind: ResourceType, nonce: String, error: Option<String>) -> Request {
        match self.protocol {
            Protocol::Sotw => self.sotw(kind, error),
            Protocol::Delta => {
                let request = delta(kind, Vec::new(), Vec::new(), BTreeMap::new());
                Request { nonce, error, ..request }
            }
        }
    }

    fn after_warming(&mut self, out: &mut Vec<Request>) {
        if self.is_warming() {
            return;
        }
        self.answer_clusters(out);
        if !self.channels[ResourceType::Cluster as usize].asked {
            out.push(self.first(ResourceType::Cluster));
        }
        if !self.initialized && self.channels[ResourceType::Cluster as usize].answered {
            self.initialized = true;
            out.push(self.first(ResourceType::Listener));
        }
    }

    fn answer_clusters(&mut self, out: &mut Vec<Request>) {
        let mut withheld = std::mem::take(&mut self.withheld);
        let kind = ResourceType::Cluster;
        match self.protocol {
            Protocol::Sotw => {
                // Only the last nonce.
                if let Some((_, error)) = withheld.pop() {
                    self.channels[kind as usize].asked = true;
                    out.push(self.sotw(kind, error));
                }
            }
            Protocol::Delta => {
                if !withheld.is_empty() && !self.channels[kind as usize].asked {
                    out.push(self.first(kind));
                }
                out.extend(withheld.into_iter().map(|(nonce, error)| self.acknowledge(kind, nonce, error)));
            }
        }
    }
}

fn is_named(kind: ResourceType) -> bool {
    match kind {
        ResourceType::Cluster | ResourceType::Listener => false,
        ResourceType::Endpoints | ResourceType::Secret | ResourceType::Table => true,
    }
}

fn delta(kind: ResourceType, subscribe: Vec<Name>, unsubscribe: Vec<Name>, initial: BTreeMap<Name, String>) -> Request {
    let ask = Ask::Delta { subscribe, unsubscribe, initial };
    Request { type_url: TypeUrl::Served(kind), nonce: String::new(), error: None, ask }
}
