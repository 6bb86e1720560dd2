//! Envoy as an ADS client: what it holds, what it asks for, when it acknowledges. No I/O, no clock.

mod apply;
mod ask;

use crate::check::{Memory, Violation};
use crate::message::{Item, Protocol, Request, Response};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::ResourceType;

/// How the client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which form of the protocol it speaks.
    pub protocol: Protocol,
    /// `node.id`.
    pub node: String,
    /// `namespace/name` of the Gateway that it belongs to.
    pub gateway: String,
    /// What it rejects.
    pub rejections: Vec<Rejection>,
    /// Types whose acknowledgements, and what acknowledges along with something else, are kept until [`Envoy::release`].
    pub hold: BTreeSet<ResourceType>,
    /// Whether connections of a listener that goes stay, and with them its tables.
    pub drains: bool,
}

/// A resource that the client rejects, in some of its forms or all.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// Of this type.
    pub kind: ResourceType,
    /// Of this name.
    pub name: String,
    /// Only if the encoded resource contains this text.
    pub containing: Option<String>,
    /// Whether the rejection names it. Then the good part of the response is applied; else nothing of it is.
    pub named: bool,
}

impl Options {
    /// A client that accepts everything at once.
    #[must_use]
    pub fn new(protocol: Protocol, node: &str, gateway: &str) -> Self {
        let (node, gateway) = (node.to_owned(), gateway.to_owned());
        Options { protocol, node, gateway, rejections: Vec::new(), hold: BTreeSet::new(), drains: false }
    }
}

/// A cluster at the client.
#[derive(Clone, Debug)]
struct Cluster {
    version: String,
    bytes: Bytes,
    /// Some form of it has had its endpoints: routes can use it.
    usable: bool,
    /// The newest form waits for endpoints, or for a secret after it has had them.
    warming: bool,
    /// Endpoints came for the newest form, or it was said that there are none.
    assigned: bool,
    /// Secrets that the newest form names.
    secrets: BTreeSet<String>,
}

/// Any other resource at the client.
#[derive(Clone, Debug, Default)]
struct Held {
    version: String,
    bytes: Bytes,
    /// What it names: tables of a listener, clusters of a table.
    names: BTreeSet<String>,
    /// Secrets of a listener.
    secrets: BTreeSet<String>,
    /// Clusters of a listener.
    clusters: BTreeSet<String>,
}

/// One type on the current stream, and what of it outlives the stream.
#[derive(Clone, Debug, Default)]
struct Channel {
    /// Asked for on this stream.
    asked: bool,
    /// Names that the server was told.
    told: BTreeSet<String>,
    /// Names that it was told at any time on this stream: the answer may cross their end.
    told_once: BTreeSet<String>,
    /// Nonce of the last response on this stream.
    nonce: String,
    /// How often a name may come though the client has that very content: once for each time it was asked for.
    credit: BTreeMap<String, u32>,
    /// Any response came on this stream.
    any_answer: bool,
    /// The stream began without a request: the server must guess what is held.
    implied: bool,
    /// Version of the last response that was accepted, on any stream.
    version: String,
    /// Responses, on any stream.
    responses: u64,
}

/// An Envoy.
#[derive(Debug)]
pub struct Envoy {
    options: Options,
    clusters: BTreeMap<String, Cluster>,
    /// Endpoints, listeners, secrets and tables.
    held: BTreeMap<ResourceType, BTreeMap<String, Held>>,
    channels: BTreeMap<ResourceType, Channel>,
    /// Nothing was sent on this stream yet: the node goes with the first request.
    fresh: bool,
    /// Clusters were complete once: listeners are asked for, acknowledgements wait for warming.
    initialized: bool,
    /// Acknowledgements of clusters that wait for warming: nonce and error.
    withheld: Vec<(String, Option<String>)>,
    /// Acknowledgements kept by [`Options::hold`].
    kept: Vec<Request>,
    /// Content that was rejected, by type and name.
    rejected: BTreeMap<(ResourceType, String), Bytes>,
    /// Tables of listeners that are gone, which their connections use to their end.
    draining: BTreeSet<String>,
    memory: Memory,
    violations: Vec<Violation>,
    rejections: u64,
}

impl Envoy {
    /// An Envoy that holds nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Envoy {
            options,
            clusters: BTreeMap::new(),
            held: BTreeMap::new(),
            channels: ResourceType::ALL.map(|kind| (kind, Channel::default())).into(),
            fresh: true,
            initialized: false,
            withheld: Vec::new(),
            kept: Vec::new(),
            rejected: BTreeMap::new(),
            draining: BTreeSet::new(),
            memory: Memory::default(),
            violations: Vec::new(),
            rejections: 0,
        }
    }

    /// How it behaves; may be changed at any time.
    pub fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Which form of the protocol it speaks.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.options.protocol
    }

    /// What went wrong so far, in order.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Responses that it rejected so far.
    #[must_use]
    pub fn rejections(&self) -> u64 {
        self.rejections
    }

    /// Responses of a type so far, on all streams.
    #[must_use]
    pub fn responses(&self, kind: ResourceType) -> u64 {
        self.channels[&kind].responses
    }

    /// What it holds of a type: content by name.
    #[must_use]
    pub fn holds(&self, kind: ResourceType) -> BTreeMap<String, Bytes> {
        match kind {
            ResourceType::Cluster => {
                self.clusters.iter().map(|(name, held)| (name.clone(), held.bytes.clone())).collect()
            }
            ResourceType::Endpoints | ResourceType::Listener | ResourceType::Secret | ResourceType::Table => {
                self.of(kind).map(|(name, held)| (name.clone(), held.bytes.clone())).collect()
            }
        }
    }

    /// Names of clusters whose newest form waits for endpoints or a secret.
    #[must_use]
    pub fn warming(&self) -> BTreeSet<String> {
        self.clusters.iter().filter(|(_, cluster)| cluster.warming).map(|(name, _)| name.clone()).collect()
    }

    /// Whether every listener has its tables, so that traffic is served.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        let mut listeners = self.of(ResourceType::Listener).map(|(_, listener)| listener).peekable();
        listeners.peek().is_some()
            && listeners.all(|listener| {
                listener.names.iter().all(|table| self.table(table).is_some())
                    && listener.secrets.iter().all(|secret| self.holds(ResourceType::Secret).contains_key(secret))
            })
    }

    /// Opens a stream, in place of the last one if there was one; what is held stays.
    pub fn connect(&mut self) -> Vec<Request> {
        self.fresh = true;
        self.withheld.clear();
        self.kept.clear();
        self.memory.reconnect();
        for channel in self.channels.values_mut() {
            let (version, responses) = (std::mem::take(&mut channel.version), channel.responses);
            *channel = Channel { version, responses, ..Channel::default() };
        }
        let mut out = Vec::new();
        // A client that warms a cluster asks for clusters only when it is done.
        if self.warming().is_empty() {
            out.push(self.first(ResourceType::Cluster));
        } else {
            self.channel(ResourceType::Cluster).implied = true;
        }
        if !self.wanted(ResourceType::Endpoints).is_empty() {
            out.push(self.first(ResourceType::Endpoints));
        }
        if self.initialized {
            out.push(self.first(ResourceType::Listener));
        }
        for kind in [ResourceType::Secret, ResourceType::Table] {
            if !self.wanted(kind).is_empty() {
                out.push(self.first(kind));
            }
        }
        out
    }

    /// Secrets and tables: forgets the version of the last response, as if there had been none. For what the
    /// state-of-the-world protocol cannot tell: that a name was let go while a stream broke.
    pub fn forget_version(&mut self, kind: ResourceType) {
        if matches!(kind, ResourceType::Secret | ResourceType::Table) {
            self.channel(kind).version.clear();
        }
    }

    /// Takes a response; returns what the client sends upon it.
    pub fn receive(&mut self, response: &Response) -> Vec<Request> {
        let Some(kind) = ResourceType::of_url(response.type_url()) else { return Vec::new() };
        let items = match response.items(kind) {
            Ok(items) => items,
            Err(reason) => {
                self.violations.push(Violation::Unreadable { kind: kind.short(), reason });
                return Vec::new();
            }
        };
        self.violations.extend(self.memory.check(kind, response, &items));
        self.check_needless(kind, response, &items);
        if kind == ResourceType::Cluster {
            self.expect_endpoints(response, &items);
        }
        let is_empty = items.is_empty();
        let (good, error) = self.judge(kind, items);
        let channel = self.channel(kind);
        channel.nonce = response.nonce().to_owned();
        channel.responses += 1;
        channel.any_answer = true;
        if error.is_none() {
            channel.version = response.version().to_owned();
        }
        let mut rewarmed = false;
        match (kind, good.is_empty() && error.is_some()) {
            (_, true) => {}
            (ResourceType::Cluster, _) => rewarmed = self.apply_clusters(response, good, error.is_some()),
            (ResourceType::Endpoints, _) => self.apply_endpoints(response, good),
            (ResourceType::Listener, _) => self.apply_listeners(response, good, error.is_some()),
            (ResourceType::Secret, _) => self.apply_named(kind, good),
            (ResourceType::Table, _) => self.apply_named(kind, good),
        }
        self.end_warming();
        self.check_routes();
        if self.options.protocol == Protocol::Sotw && is_empty && self.asks_for_nothing(kind) {
            // It takes the version, and says nothing.
            return Vec::new();
        }
        self.answer(kind, error, rewarmed)
    }

    /// The acknowledgements that [`Options::hold`] kept, in order.
    pub fn release(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.kept)
    }

    /// Endpoints follow every cluster that was sent as a change: what a client brings is not known to the server when it
    /// sends the first complete response of a stream, nor is it known beforehand that a change is rejected.
    fn expect_endpoints(&mut self, response: &Response, items: &[Item]) {
        let complete = matches!(response, Response::Sotw(_));
        let first = !self.channels[&ResourceType::Cluster].any_answer;
        let changed = |item: &&Item| self.clusters.get(&item.name).is_none_or(|held| held.bytes != item.bytes);
        let names: Vec<String> =
            items.iter().filter(|item| (complete && first) || changed(item)).map(|item| item.name.clone()).collect();
        let endpoints = self.channel(ResourceType::Endpoints);
        for name in names {
            *endpoints.credit.entry(name).or_default() += 1;
        }
    }

    /// What is good of a response, and why it is rejected if it is.
    fn judge(&mut self, kind: ResourceType, items: Vec<Item>) -> (Vec<Item>, Option<String>) {
        let blame = |item: &Item| {
            self.options.rejections.iter().find(|rejection| {
                let text = rejection.containing.as_ref();
                let inside = |text: &String| item.bytes.windows(text.len().max(1)).any(|part| part == text.as_bytes());
                rejection.kind == kind && rejection.name == item.name && text.is_none_or(inside)
            })
        };
        let bad: Vec<(&Item, bool)> = items.iter().filter_map(|item| Some((item, blame(item)?.named))).collect();
        if bad.is_empty() {
            return (items, None);
        }
        let named = bad.iter().all(|(_, named)| *named);
        let names: BTreeSet<String> = bad.iter().map(|(item, _)| item.name.clone()).collect();
        let contents: Vec<(String, Bytes)> =
            bad.iter().map(|(item, _)| (item.name.clone(), item.bytes.clone())).collect();
        for (name, bytes) in contents {
            if self.rejected.insert((kind, name.clone()), bytes.clone()) == Some(bytes) {
                self.violations.push(Violation::Needless { kind: kind.short(), name });
            }
        }
        self.rejections += 1;
        let list: Vec<&str> = names.iter().map(String::as_str).collect();
        let detail = if named { format!("Error in {}: no good", list.join(", ")) } else { "no good".to_owned() };
        let good =
            if named { items.into_iter().filter(|item| !names.contains(&item.name)).collect() } else { Vec::new() };
        (good, Some(detail))
    }

    fn of(&self, kind: ResourceType) -> impl Iterator<Item = (&String, &Held)> {
        self.held.get(&kind).into_iter().flatten()
    }

    fn table(&self, name: &str) -> Option<&Held> {
        self.held.get(&ResourceType::Table)?.get(name)
    }

    fn channel(&mut self, kind: ResourceType) -> &mut Channel {
        self.channels.entry(kind).or_default()
    }
}
