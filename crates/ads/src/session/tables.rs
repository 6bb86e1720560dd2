//! Tables without the entries that a client rejects.
//!
//! A table is sent alone, so a rejection is about its entries: those that it has and the table that the client accepted
//! last has not. The culprit keeps the form that the client accepted before, as long as the clusters of that are still
//! there; else it answers 500, and if even that is rejected (the match itself is bad) it is left out. The rest of the
//! table flows.
//!
//! *Invariant*: a composed table names only clusters that the target has.

use crate::session::halving::Halving;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{Hostname, INVALID_CLUSTER, Name};
use tidegate_xds::row::{EncodedEntry, VirtualHost};
use tidegate_xds::{Table, Version, encode};

/// One form of one entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryForm {
    /// The virtual host in which it stands.
    pub host: Hostname,
    /// What it was made of.
    pub id: Name,
    /// Hash of the encoded entry.
    pub version: Version,
}

impl EntryForm {
    fn of(host: &Hostname, entry: &EncodedEntry) -> Self {
        EntryForm { host: host.clone(), id: entry.id.clone(), version: Version::of(&entry.bytes) }
    }
}

/// How many rejected forms are remembered of one table; the first in order are forgotten, and then tried again.
const MAX_REJECTED: usize = 1024;

/// A form of an entry that a client rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedEntry {
    /// Why, in the words of the client.
    pub detail: Name,
    /// The form that the client accepted before, if there was one.
    pub kept: Option<EncodedEntry>,
}

/// What a client rejects of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableVerdict {
    rejected: BTreeMap<EntryForm, RejectedEntry>,
    suspects: Halving<EntryForm>,
    /// The answer in place of the entry that was rejected last: tried alone, for it may be rejected too.
    answer: Option<EntryForm>,
    /// That entry, until its answer is made.
    culprit: Option<EntryForm>,
    /// Why the last response was rejected.
    detail: Name,
}

/// The entries of a virtual host that the client accepted last.
type Accepted<'a> = Option<&'a Table>;

impl TableVerdict {
    /// Nothing is rejected and nobody is suspected.
    pub(crate) fn is_empty(&self) -> bool {
        self.rejected.is_empty() && !self.is_trying()
    }

    /// Whether a trial is under way or due.
    pub(crate) fn is_trying(&self) -> bool {
        self.suspects.is_on() || self.answer.is_some()
    }

    /// What is known from an earlier stream.
    pub(crate) fn remember(&mut self, form: EntryForm, entry: RejectedEntry) {
        self.rejected.insert(form, entry);
        while self.rejected.len() > MAX_REJECTED {
            self.rejected.pop_first();
        }
    }

    /// The client rejected the table `sent`. False if no entry of it can be blamed: the table as a whole is bad.
    pub(crate) fn reject(&mut self, sent: &Table, accepted: Accepted<'_>, detail: Name) -> bool {
        let tried = new_forms(&sent.hosts, accepted);
        if tried.is_empty() {
            return false;
        }
        self.detail = detail;
        // The answer that is tried alone is nobody's accomplice.
        let culprits = if self.answer.is_some() { tried } else { self.suspects.rejected(tried, false) };
        culprits.into_iter().for_each(|culprit| self.blame(culprit, accepted));
        true
    }

    /// The client accepted the table `sent`, when it had `before`.
    pub(crate) fn accept(&mut self, sent: &Table, before: Accepted<'_>) {
        if self.suspects.is_on() {
            let culprits = self.suspects.accepted(&new_forms(&sent.hosts, before));
            culprits.into_iter().for_each(|culprit| self.blame(culprit, before));
        }
    }

    fn blame(&mut self, culprit: EntryForm, accepted: Accepted<'_>) {
        let kept = accepted.and_then(|table| entry_of(table, &culprit.host, &culprit.id)).cloned();
        self.answer = None;
        self.culprit = Some(culprit.clone());
        self.remember(culprit, RejectedEntry { detail: self.detail.clone(), kept });
    }

    /// The table that the client shall get while it rejects what it does: `wanted` itself if that is all good.
    pub(crate) fn compose(
        &mut self,
        wanted: &Arc<Table>,
        accepted: Accepted<'_>,
        exists: impl Fn(&Name) -> bool,
    ) -> Arc<Table> {
        let mut hosts = wanted.hosts.clone();
        for host in self.rejected.keys().map(|form| form.host.clone()).collect::<BTreeSet<_>>() {
            if let Some(content) = wanted.hosts.get(&host) {
                let good = self.without_rejected(&host, content, &exists);
                hosts.insert(host, good);
            }
        }
        if let Some(culprit) = self.culprit.take() {
            let content = hosts.get(&culprit.host).into_iter().flat_map(|content| &content.entries);
            let answer =
                content.filter(|entry| entry.id == culprit.id).map(|entry| EntryForm::of(&culprit.host, entry));
            self.answer = answer.last();
        }
        if !self.is_trying() {
            return table(wanted, hosts);
        }
        let new = new_forms(&hosts, accepted);
        self.suspects.retain(|suspect| new.contains(suspect));
        self.answer = self.answer.take().filter(|answer| new.contains(answer));
        let trial = match &self.answer {
            Some(answer) => BTreeSet::from([answer.clone()]),
            None if self.suspects.is_on() => self.suspects.trial(),
            None => return table(wanted, hosts),
        };
        let held_back: BTreeSet<EntryForm> = new.difference(&trial).cloned().collect();
        for host in held_back.iter().map(|form| form.host.clone()).collect::<BTreeSet<_>>() {
            match hosts.get(&host).and_then(|content| without(&held_back, &host, content, accepted, &exists)) {
                Some(rest) => hosts.insert(host, rest),
                None => hosts.remove(&host),
            };
        }
        table(wanted, hosts)
    }

    /// The rejected entries that `wanted` has, and why: what of this verdict matters now.
    pub(crate) fn refused<'a>(&'a self, wanted: &'a Table) -> impl Iterator<Item = (&'a EntryForm, &'a RejectedEntry)> {
        self.rejected.iter().filter(|(form, _)| {
            let entries = wanted.hosts.get(&form.host).into_iter().flat_map(|host| &host.entries);
            entries.filter(|entry| entry.id == form.id).any(|entry| Version::of(&entry.bytes) == form.version)
        })
    }

    /// Everything that is remembered.
    pub(crate) fn rejected(&self) -> impl Iterator<Item = (&EntryForm, &RejectedEntry)> {
        self.rejected.iter()
    }

    /// The host with the kept form, or another answer, in place of each rejected entry.
    fn without_rejected(
        &self,
        host: &Hostname,
        content: &VirtualHost,
        exists: impl Fn(&Name) -> bool,
    ) -> Arc<VirtualHost> {
        let replace = |entry: &EncodedEntry| {
            let Some(rejected) = self.rejected.get(&EntryForm::of(host, entry)) else { return Some(entry.clone()) };
            let kept = rejected.kept.as_ref().filter(|kept| can_be_served(kept, &exists)).cloned();
            kept.or_else(|| {
                let answer = encode::unavailable(entry);
                (!self.rejected.contains_key(&EntryForm::of(host, &answer))).then_some(answer)
            })
        };
        Arc::new(encode::virtual_host(host, content.entries.iter().filter_map(replace).collect()))
    }
}

/// The forms that `hosts` have and the accepted table has not. Costs what differs.
fn new_forms(hosts: &OrdMap<Hostname, Arc<VirtualHost>>, accepted: Accepted<'_>) -> BTreeSet<EntryForm> {
    let nothing = OrdMap::new();
    let base = accepted.map_or(&nothing, |table| &table.hosts);
    let mut new = BTreeSet::new();
    for item in base.diff(hosts) {
        let (host, old, content) = match item {
            DiffItem::Add(host, content) => (host, None, content),
            DiffItem::Update { old: (_, old), new: (host, content) } => (host, Some(old), content),
            DiffItem::Remove(..) => continue,
        };
        let known: BTreeSet<EntryForm> =
            old.into_iter().flat_map(|old| &old.entries).map(|entry| EntryForm::of(host, entry)).collect();
        new.extend(content.entries.iter().map(|entry| EntryForm::of(host, entry)).filter(|form| !known.contains(form)));
    }
    new
}

/// The host with what the client had in place of what is held back; none if nothing of it is left and it is new: then
/// requests for it go where they went before.
fn without(
    held_back: &BTreeSet<EntryForm>,
    host: &Hostname,
    content: &VirtualHost,
    accepted: Accepted<'_>,
    exists: impl Fn(&Name) -> bool,
) -> Option<Arc<VirtualHost>> {
    let entry = |entry: &EncodedEntry| {
        if held_back.contains(&EntryForm::of(host, entry)) {
            let before = accepted.and_then(|table| entry_of(table, host, &entry.id));
            before.filter(|before| can_be_served(before, &exists)).cloned()
        } else {
            Some(entry.clone())
        }
    };
    let entries: Vec<EncodedEntry> = content.entries.iter().filter_map(entry).collect();
    let is_new = accepted.is_none_or(|table| !table.hosts.contains_key(host));
    if entries.is_empty() && is_new { None } else { Some(Arc::new(encode::virtual_host(host, entries))) }
}

fn entry_of<'a>(table: &'a Table, host: &Hostname, id: &Name) -> Option<&'a EncodedEntry> {
    table.hosts.get(host)?.entries.iter().find(|entry| entry.id == *id)
}

fn can_be_served(entry: &EncodedEntry, exists: impl Fn(&Name) -> bool) -> bool {
    entry.clusters.iter().all(|cluster| *cluster == INVALID_CLUSTER || exists(cluster))
}

/// A table of these hosts; `wanted` itself if it has the same.
fn table(wanted: &Arc<Table>, hosts: OrdMap<Hostname, Arc<VirtualHost>>) -> Arc<Table> {
    if wanted.hosts.ptr_eq(&hosts) { Arc::clone(wanted) } else { Arc::new(Table::new(wanted.name.clone(), hosts)) }
}
