//! Envoy as `docs/design/wire-model.md` describes it: it applies the types at different moments, warms clusters and
//! listeners, drains what it replaces and acknowledges when Envoy would. A value: it is cloned at every branch.

mod apply;
mod ask;

use super::catalog::{Catalog, Form};
use crate::session::{Protocol, Request, Response, TypeUrl};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{Name, ResourceType};
use tidegate_xds::{Resource, Version};

/// A cluster. Routes can use it while some form of it is active.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub(super) active: Option<Resource>,
    /// A newer form, or the first one, that waits for endpoints.
    pub(super) warming: Option<Resource>,
}

/// A listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Listener {
    pub(super) active: Option<Form>,
    /// A newer form, or the first one, that waits for its tables and secrets.
    pub(super) warming: Option<Form>,
}

/// One type on the current stream, and what of it outlives the stream.
#[derive(Clone, Debug, Default)]
struct Channel {
    /// Asked for on this stream.
    asked: bool,
    /// Names that the server was told.
    told: BTreeSet<Name>,
    /// Nonce of the last response that was processed on this stream.
    nonce: String,
    /// A response was processed, on any stream.
    answered: bool,
    /// State of the world: version of the last response that was accepted, on any stream.
    version: String,
    /// Incremental: versions of what was accepted, on any stream.
    listed: BTreeMap<Name, String>,
}

/// How a response is judged. The number says which of its resources is the bad one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All of it is good.
    Good,
    /// A field rule: nothing is applied and nobody named.
    Refused(u8),
    /// One is bad and is named; the others and the removals are applied. Clusters and listeners.
    Named(u8),
    /// One is bad and is not named; what stands before it is applied. Endpoints and secrets.
    Partial(u8),
    /// One entry of a table is bad. Tables come alone.
    Entry(u8),
}

/// A form that the client rejects, always.
#[derive(Clone, Debug)]
pub(super) struct Bad {
    pub(super) version: Version,
    verdict: Verdict,
}

/// The client.
#[derive(Clone, Debug)]
pub(super) struct Envoy {
    protocol: Protocol,
    pub(super) clusters: BTreeMap<Name, Cluster>,
    pub(super) endpoints: BTreeMap<Name, Resource>,
    pub(super) listeners: BTreeMap<Name, Listener>,
    pub(super) secrets: BTreeMap<Name, Option<Resource>>,
    /// `None`: the first form was rejected, which ends the wait of a listener as well.
    pub(super) tables: BTreeMap<Name, Option<Form>>,
    /// Replaced or removed forms of listeners whose connections are still open.
    pub(super) draining: Vec<Form>,
    channels: [Channel; ResourceType::ALL.len()],
    /// Clusters were complete once: listeners are asked for, acknowledgements wait for warming.
    initialized: bool,
    /// Answers on clusters that wait for warming: nonce and error.
    withheld: Vec<(String, Option<String>)>,
    pub(super) bad: BTreeMap<(ResourceType, Name), Bad>,
    /// Secrets whose last form was rejected: the identical one again is accepted, and the old one stays.
    deaf: BTreeSet<(Name, Version)>,
    /// Entries of tables that the client rejects, always.
    pub(super) bad_entries: BTreeSet<Version>,
}

/// What processing a response did, for the judge.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What is said upon it.
    pub(super) requests: Vec<Request>,
    /// Clusters that are gone.
    pub(super) lost: Vec<Name>,
    /// Names of the rejected response, if it was: all of them if the client does not say which is bad.
    pub(super) rejected: Vec<Name>,
}

impl Envoy {
    /// An Envoy that holds nothing.
    pub(super) fn new(protocol: Protocol) -> Self {
        Envoy {
            protocol,
            clusters: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            listeners: BTreeMap::new(),
            secrets: BTreeMap::new(),
            tables: BTreeMap::new(),
            draining: Vec::new(),
            channels: Default::default(),
            initialized: false,
            withheld: Vec::new(),
            bad: BTreeMap::new(),
            deaf: BTreeSet::new(),
            bad_entries: BTreeSet::new(),
        }
    }

    /// Opens a stream, in place of the last one if there was one; what is held stays.
    ///
    /// `lost` are the types of what was on its way. In the state of the world the version of tables and secrets may then
    /// tell of names that were let go, and a client that asks for one anew would not be answered: a limit of the protocol,
    /// named in `docs/design/wire-model.md`; here such a client brings no version.
    pub(super) fn connect(&mut self, lost: &BTreeSet<ResourceType>) -> Vec<Request> {
        self.withheld.clear();
        for channel in &mut self.channels {
            let old = std::mem::take(channel);
            *channel =
                Channel { answered: old.answered, version: old.version, listed: old.listed, ..Channel::default() };
        }
        if self.protocol == Protocol::Sotw {
            for kind in [ResourceType::Secret, ResourceType::Table] {
                let lacks = self.wanted(kind).into_iter().any(|name| match kind {
                    ResourceType::Secret => !self.secrets.contains_key(&name),
                    _ => !self.tables.contains_key(&name),
                });
                if lacks && lost.contains(&kind) {
                    self.channels[kind as usize].version.clear();
                }
            }
        }
        let mut out = Vec::new();
        // A client that warms a cluster asks for clusters only when it is done.
        if !self.is_warming() {
            out.push(self.first(ResourceType::Cluster));
        }
        if !self.wanted(ResourceType::Endpoints).is_empty() {
            out.push(self.first(ResourceType::Endpoints));
        }
        if self.initialized {
            out.push(self.first(ResourceType::Listener));
        }
        for kind in [ResourceType::Table, ResourceType::Secret] {
            if !self.wanted(kind).is_empty() {
                out.push(self.first(kind));
            }
        }
        out
    }

    /// The verdicts that the client may come to. What it holds already it does not judge again.
    pub(super) fn verdicts(&self, response: &Response, catalog: &Catalog) -> Vec<Verdict> {
        let kind = kind_of(response);
        let mut verdicts = Vec::new();
        if let (ResourceType::Table, [table]) = (kind, &response.resources[..]) {
            // What is good in one table is good in all.
            let new = |entry: &Version| !self.tables.values().flatten().any(|held| held.names.entries.contains(entry));
            let entries = (0..)
                .zip(&catalog.form(kind, table).names.entries)
                .filter(|(_, entry)| new(entry))
                .map(|(at, _)| at)
                .collect::<Vec<u8>>();
            return entries.into_iter().map(Verdict::Entry).collect();
        }
        for (index, resource) in response.resources.iter().enumerate() {
            let index = u8::try_from(index).unwrap();
            let known = self.holds(kind, resource) || self.bad.contains_key(&(kind, resource.name.clone()));
            if known || !self.judges(kind, &resource.name) {
                continue;
            }
            verdicts.push(Verdict::Refused(index));
            verdicts.push(match kind {
                ResourceType::Cluster | ResourceType::Listener => Verdict::Named(index),
                ResourceType::Endpoints | ResourceType::Secret | ResourceType::Table => Verdict::Partial(index),
            });
        }
        verdicts
    }

    /// Processes a response. What was rejected before is rejected again, except secrets: they are then accepted, and the
    /// old ones stay.
    pub(super) fn process(&mut self, response: &Response, verdict: Verdict, catalog: &Catalog) -> Outcome {
        let kind = kind_of(response);
        let verdict = self.remembered(kind, response, verdict, catalog);
        if let (Verdict::Entry(at), [table]) = (verdict, &response.resources[..]) {
            self.bad_entries.insert(catalog.form(kind, table).names.entries[usize::from(at)]);
        }
        let bad = match verdict {
            Verdict::Good => None,
            Verdict::Entry(_) => Some(0),
            Verdict::Refused(index) | Verdict::Named(index) | Verdict::Partial(index) => Some(usize::from(index)),
        };
        if let Some(bad) = bad.filter(|_| kind != ResourceType::Table) {
            let Resource { name, version, .. } = response.resources[bad].clone();
            self.bad.entry((kind, name)).or_insert(Bad { version, verdict });
        }
        let mut outcome = Outcome::default();
        let error = bad.map(|bad| match verdict {
            Verdict::Named(_) => format!("Error in {}: no good", response.resources[bad].name),
            Verdict::Good | Verdict::Refused(_) | Verdict::Partial(_) | Verdict::Entry(_) => "no good".to_owned(),
        });
        outcome.rejected = match verdict {
            Verdict::Good => Vec::new(),
            Verdict::Named(index) => vec![response.resources[usize::from(index)].name.clone()],
            Verdict::Refused(_) | Verdict::Partial(_) | Verdict::Entry(_) => {
                response.resources.iter().map(|it| it.name.clone()).collect()
            }
        };
        let channel = &mut self.channels[kind as usize];
        channel.nonce.clone_from(&response.nonce);
        channel.answered = true;
        if error.is_none() {
            channel.version.clone_from(&response.version);
            response.removed.iter().for_each(|name| drop(channel.listed.remove(name)));
            let versions = response.resources.iter().map(|it| (it.name.clone(), it.version.to_string()));
            channel.listed.extend(versions);
        }
        let rewarmed = self.apply(kind, response, verdict, catalog, &mut outcome);
        self.promote();
        if self.protocol == Protocol::Sotw && response.resources.is_empty() && self.asks_for_nothing(kind) {
            // It takes the version, and says nothing.
            return outcome;
        }
        outcome.requests = self.answer(kind, error, rewarmed);
        outcome
    }

    /// The connections of replaced listeners are closed.
    pub(super) fn drained(&mut self) -> Vec<Request> {
        self.draining.clear();
        self.subscribe_to_named()
    }

    fn remembered(&self, kind: ResourceType, response: &Response, verdict: Verdict, catalog: &Catalog) -> Verdict {
        if let (ResourceType::Table, [table]) = (kind, &response.resources[..]) {
            let entries = &catalog.form(kind, table).names.entries;
            let bad = entries.iter().position(|entry| self.bad_entries.contains(entry));
            return bad.map_or(verdict, |at| Verdict::Entry(u8::try_from(at).unwrap()));
        }
        for (index, resource) in response.resources.iter().enumerate() {
            let known = self.bad.get(&(kind, resource.name.clone())).filter(|bad| bad.version == resource.version);
            let deaf = kind == ResourceType::Secret && self.deaf.contains(&(resource.name.clone(), resource.version));
            let Some(known) = known.filter(|_| !deaf && self.judges(kind, &resource.name)) else { continue };
            let index = u8::try_from(index).unwrap();
            return match known.verdict {
                Verdict::Good => Verdict::Good,
                Verdict::Refused(_) => Verdict::Refused(index),
                Verdict::Named(_) => Verdict::Named(index),
                Verdict::Partial(_) => Verdict::Partial(index),
                Verdict::Entry(_) => Verdict::Entry(index),
            };
        }
        verdict
    }

    /// Endpoints that no cluster asks for are ignored. What breaks a field rule would be rejected all the same; such is
    /// never sent.
    fn judges(&self, kind: ResourceType, name: &Name) -> bool {
        kind != ResourceType::Endpoints || self.clusters.contains_key(name)
    }

    /// Whether this form is active, or about to be.
    fn holds(&self, kind: ResourceType, resource: &Resource) -> bool {
        let held = match kind {
            ResourceType::Cluster => self.clusters.get(&resource.name).and_then(Cluster::newest),
            ResourceType::Endpoints => self.endpoints.get(&resource.name),
            ResourceType::Listener => {
                self.listeners.get(&resource.name).and_then(Listener::newest).map(|form| &form.resource)
            }
            ResourceType::Secret => self.secrets.get(&resource.name).and_then(Option::as_ref),
            ResourceType::Table => self.tables.get(&resource.name).and_then(Option::as_ref).map(|form| &form.resource),
        };
        held.is_some_and(|held| held.version == resource.version)
    }

    pub(super) fn is_warming(&self) -> bool {
        self.clusters.values().any(|cluster| cluster.warming.is_some())
    }

    /// What serves traffic, with the clusters that it names.
    pub(super) fn users(&self) -> impl Iterator<Item = &Form> {
        let active = self.listeners.values().filter_map(|listener| listener.active.as_ref());
        let listeners: Vec<&Form> = active.chain(&self.draining).collect();
        let tables: BTreeSet<&Name> = listeners.iter().flat_map(|listener| &listener.names.tables).collect();
        let tables = tables.into_iter().filter_map(|table| self.tables.get(table)?.as_ref());
        listeners.into_iter().chain(tables)
    }

    /// Whether routes can use the cluster.
    pub(super) fn is_active(&self, cluster: &Name) -> bool {
        self.clusters.get(cluster).is_some_and(|cluster| cluster.active.is_some())
    }

    /// Whether the client rejects an entry of this table.
    pub(super) fn rejects_entry(&self, table: &Form) -> bool {
        table.names.entries.iter().any(|entry| self.bad_entries.contains(entry))
    }

    /// The version that was last accepted of a type, on any stream; empty if none.
    pub(super) fn accepted_version(&self, kind: ResourceType) -> &str {
        &self.channels[kind as usize].version
    }
}

impl Cluster {
    fn newest(&self) -> Option<&Resource> {
        self.warming.as_ref().or(self.active.as_ref())
    }
}

impl Listener {
    fn newest(&self) -> Option<&Form> {
        self.warming.as_ref().or(self.active.as_ref())
    }
}

/// The type of a response.
pub(super) fn kind_of(response: &Response) -> ResourceType {
    match &response.type_url {
        TypeUrl::Served(kind) => *kind,
        TypeUrl::Other(url) => panic!("nobody asked for {url}"),
    }
}
