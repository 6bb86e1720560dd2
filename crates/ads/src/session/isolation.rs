//! What a rejection does: the culprit is found and kept at what the client accepted before, and everything else goes on.
//!
//! * Secrets and tables are sent one a response. A rejected secret is not sent again. A rejected table is halved over
//!   its entries ([`tables`](super::tables)).
//! * Clusters and listeners: what the rejection names is the culprit, and the good rest is applied. If it names nobody,
//!   a field rule was broken and nothing was applied: halved over the changes of the response.
//! * Endpoints: what is named; else halved too, but there any part of the rest may have been applied.

use super::books::{Held, RejectedResource, Sent, SentChange};
use super::rejection;
use super::tables::{EntryForm, RejectedEntry};
use super::target::Target;
use super::{Reply, Rule, Session};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{ListenerKey, Name, Observation, Refusal, ResourceType};

/// What a client rejects. Outlives its streams, and us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejections {
    /// Versions of resources, by type and name, the newest last.
    pub resources: BTreeMap<(ResourceType, Name), Vec<RejectedResource>>,
    /// Forms of entries, by table.
    pub entries: BTreeMap<Name, BTreeMap<EntryForm, RejectedEntry>>,
}

impl Rejections {
    /// Whether nothing is rejected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.entries.is_empty()
    }
}

/// Whom a rejection blames, and what else it tells.
struct Blame {
    /// The culprits if it names them, else everybody who may be.
    blamed: BTreeSet<Name>,
    /// It names nobody: a field rule was broken, and of clusters and listeners nothing was applied.
    nothing_applied: bool,
    /// Trials cannot tell who it is.
    blind: bool,
    /// The response was sent before the last answer was known.
    stale: bool,
}

/// Longest part of a rejection that is looked at, in bytes.
const MAX_READ_DETAIL: usize = 1 << 16;

impl Session {
    /// The client rejected a response: it keeps what it had of the resources that it blames, and may have applied the
    /// others or not.
    pub(super) fn reject(&mut self, kind: ResourceType, sent: Sent, detail: &str) -> Observation {
        let bounded = &detail[..detail.floor_char_boundary(MAX_READ_DETAIL)];
        let detail: Name = rejection::clean(bounded).into();
        let version_of = |change: &SentChange| Some((change.name.clone(), change.version?.to_string().into()));
        let resources: Vec<(Name, Name)> = sent.changes.iter().filter_map(version_of).collect();
        let blame = self.blame(kind, &sent, bounded, resources.iter().map(|(name, _)| name));
        self.books[kind].nacks += 1;
        self.books[kind].judged_below = self.next_nonce;
        let epoch = sent.epoch;
        let (client, gateway) = (self.client.id.clone(), self.client.gateway.clone());
        let observation = Observation::Rejected { client, gateway, kind, epoch, resources, detail: detail.clone() };
        if self.tells_nothing_new(kind, &sent, &blame) {
            let is_good = |change: &SentChange| !blame.blamed.contains(&change.name);
            let changes = sent.changes.into_iter().filter(is_good).collect();
            self.accept(kind, &Sent { changes, ..sent });
            return observation;
        }
        match kind {
            ResourceType::Listener | ResourceType::Table => {
                self.reject_tables(kind, &sent, &blame, &detail);
                self.gates[kind].reject(sent.nonce, blame.nothing_applied);
                // What waits may hold what was rejected just now: it is planned anew.
                blame.blamed.iter().for_each(|name| drop(self.gates[kind].pins.remove(name)));
                self.uses_changed = true;
            }
            ResourceType::Endpoints => {
                // Proves nothing; what is sent next may.
                self.waiting.values_mut().filter(|nonce| **nonce == Some(sent.nonce)).for_each(|nonce| *nonce = None);
            }
            // What was to be taken back may still be there.
            ResourceType::Cluster => self.uses_changed = true,
            ResourceType::Secret => {}
        }
        let suspects: BTreeSet<Name> =
            sent.changes.into_iter().filter_map(|change| self.take_back(kind, change, &blame, &detail)).collect();
        if !suspects.is_empty() {
            self.books[kind].suspects_detail = detail.clone();
            // What has changed since is no suspect, though it may have been the culprit.
            let with_others = suspects.len() < blame.blamed.len();
            let culprits = self.books[kind].suspects.rejected(suspects, with_others);
            self.convict(kind, culprits);
        }
        if kind == ResourceType::Table {
            self.recompose();
        }
        observation
    }

    /// Whether only that was rejected which was known to be, and was repeated all the same so that the client keeps what it
    /// has: all the rest is applied. Sent again, it would be answered so again, for ever.
    fn tells_nothing_new(&self, kind: ResourceType, sent: &Sent, blame: &Blame) -> bool {
        let is_known = |name: &Name| {
            let mut changes = sent.changes.iter().filter(|change| change.name == *name);
            let version = changes.next().and_then(|change| change.version);
            version.is_some_and(|version| self.books[kind].is_unknown_and_rejected(name, version))
        };
        self.is_whole(kind) && !blame.nothing_applied && !blame.stale && blame.blamed.iter().all(is_known)
    }

    /// Whom a rejection blames.
    fn blame<'a>(
        &'a self,
        kind: ResourceType,
        sent: &Sent,
        detail: &str,
        carried: impl Iterator<Item = &'a Name> + Clone,
    ) -> Blame {
        let books = &self.books[kind];
        let whole = self.is_whole(kind);
        // Sent before the last answer was known: a complete response repeats what was rejected, that explains it; and what
        // is tried by now it does not tell.
        let stale = sent.nonce < books.judged_below;
        let explained = stale && (whole || books.suspects.is_on());
        // What the client has cannot be repeated in the trials if it is not known.
        let blind = whole && sent.changes.iter().any(|change| matches!(change.before, Held::Unknown | Held::Listed(_)));
        // A complete response repeats what was sent before, also what turned out to be bad since.
        let repeated = books.rejected.keys().filter(|_| whole);
        let named = rejection::named(detail, carried.clone().chain(repeated));
        let nothing_applied = named.is_empty();
        let blamed = match (nothing_applied, explained) {
            (false, _) => named,
            (true, false) => carried.cloned().collect(),
            (true, true) => BTreeSet::new(),
        };
        Blame { blamed, nothing_applied, blind, stale }
    }

    /// Takes one change of a rejected response back, as far as the client did not apply it. Returns its name if it is a
    /// suspect.
    fn take_back(&mut self, kind: ResourceType, change: SentChange, blame: &Blame, detail: &Name) -> Option<Name> {
        let SentChange { name, version, before } = change;
        let is_blamed = blame.blamed.contains(&name);
        let accepted = before.form().cloned();
        let before = match kind {
            // Anything between none and all of the others was applied.
            ResourceType::Endpoints | ResourceType::Secret | ResourceType::Table if !is_blamed => Held::Unknown,
            ResourceType::Endpoints if blame.nothing_applied && blame.blamed.len() > 1 => Held::Unknown,
            ResourceType::Cluster | ResourceType::Listener if !blame.nothing_applied && !is_blamed => {
                // Removals are applied.
                version?;
                Held::Unknown
            }
            ResourceType::Cluster
            | ResourceType::Endpoints
            | ResourceType::Listener
            | ResourceType::Secret
            | ResourceType::Table => before,
        };
        let is_convicted = is_blamed && !blame.nothing_applied;
        if self.books[kind].rebase(&name, &before) {
            if is_convicted && kind != ResourceType::Table {
                // It is known to be bad also if it is on its way again, or went and may come back.
                let rejected = RejectedResource { version: version?, detail: detail.clone(), kept: accepted };
                self.park(kind, &name, rejected);
            }
            return None;
        }
        let whole = self.is_whole(kind);
        let by_name = matches!(kind, ResourceType::Secret | ResourceType::Table);
        let let_go = by_name && !self.books[kind].subscription.covers(&name);
        match self.books[kind].inflight.front_mut() {
            Some(later) if whole && !is_convicted => {
                // It is repeated there, and comes with that if that is accepted.
                let is_new = matches!(before, Held::Nothing | Held::Unknown);
                later.changes.push(SentChange { name: name.clone(), version, before });
                if kind == ResourceType::Cluster && version.is_some() {
                    self.await_endpoints(&name, is_new);
                }
            }
            // Let go before it was judged.
            Some(_) | None if let_go => {}
            Some(_) | None => {
                let wanted = self.target.get(kind, &name);
                self.books[kind].put(&name, before, wanted);
            }
        }
        let as_wanted = self.target.get(kind, &name).map(|wanted| wanted.version) == version;
        if kind == ResourceType::Endpoints && self.is_refused(kind, &name) && !as_wanted {
            // What was sent in place of what it rejects may have been lost with the rest, and a cluster warms until it comes.
            self.owed.insert(name.clone());
        }
        let version = version.filter(|_| is_blamed)?;
        let is_wanted = self.target.get(kind, &name).is_some_and(|wanted| wanted.version == version);
        match kind {
            // Judged by its entries.
            ResourceType::Table => None,
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Listener
                if blame.nothing_applied && !blame.blind =>
            {
                if !is_wanted {
                    return None;
                }
                self.books[kind].suspects_kept.extend(accepted.map(|accepted| (name.clone(), accepted)));
                Some(name)
            }
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Listener | ResourceType::Secret => {
                self.park(kind, &name, RejectedResource { version, detail: detail.clone(), kept: accepted });
                self.acquit(kind, &BTreeSet::from([name]));
                None
            }
        }
    }

    /// A table is judged by its entries; one that has no new entry is bad as a whole.
    fn reject_tables(&mut self, kind: ResourceType, sent: &Sent, blame: &Blame, detail: &Name) {
        if kind != ResourceType::Table {
            return;
        }
        for change in sent.changes.iter().filter(|change| blame.blamed.contains(&change.name)) {
            let Some(version) = change.version else { continue };
            let gate = &self.gates[kind];
            let Some(table) = gate.sent_table(&change.name, sent.nonce).cloned() else { continue };
            let verdict = self.verdicts.entry(change.name.clone()).or_default();
            if blame.stale && verdict.is_trying() {
                continue;
            }
            let accepted = gate.accepted_table(&change.name).map(|table| &**table);
            if !verdict.reject(&table, accepted, detail.clone()) {
                let kept = accepted.map(|table| table.resource().clone());
                self.park(kind, &change.name, RejectedResource { version, detail: detail.clone(), kept });
            }
            self.learned();
        }
    }

    /// The client accepted a response: whoever was tried with it is good. Call it before the gate learns of it.
    pub(super) fn accept_trial(&mut self, kind: ResourceType, sent: &Sent) {
        match kind {
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Listener => {
                if self.books[kind].suspects.is_on() {
                    let tried = sent.changes.iter().map(|change| change.name.clone()).collect();
                    let culprits = self.books[kind].suspects.accepted(&tried);
                    self.convict(kind, culprits);
                }
            }
            ResourceType::Table => {
                let mut tried = false;
                for change in &sent.changes {
                    let Some(verdict) = self.verdicts.get_mut(&change.name) else { continue };
                    let gate = &self.gates[kind];
                    let before = gate.accepted_table(&change.name).map(|table| &**table);
                    if let Some(table) = gate.sent_table(&change.name, sent.nonce) {
                        tried |= verdict.is_trying();
                        verdict.accept(table, before);
                    }
                }
                if tried {
                    self.learned();
                    self.recompose_after = true;
                }
            }
            ResourceType::Secret => {}
        }
    }

    /// Forgets suspects whose content changes. Call it before it does.
    pub(super) fn acquit(&mut self, kind: ResourceType, changed: &BTreeSet<Name>) {
        if self.books[kind].suspects.is_on() {
            self.books[kind].suspects.retain(|suspect| !changed.contains(suspect));
            self.convict(kind, BTreeSet::new());
        }
    }

    fn convict(&mut self, kind: ResourceType, culprits: BTreeSet<Name>) {
        for name in &culprits {
            let Some(version) = self.target.get(kind, name).map(|wanted| wanted.version) else { continue };
            let books = &self.books[kind];
            let (detail, kept) = (books.suspects_detail.clone(), books.suspects_kept.get(name).cloned());
            self.park(kind, name, RejectedResource { version, detail, kept });
        }
        let books = &mut self.books[kind];
        if !books.suspects.is_on() {
            books.suspects_kept.clear();
        }
    }

    fn park(&mut self, kind: ResourceType, name: &Name, rejected: RejectedResource) {
        if !self.has(Rule::Isolation) {
            return;
        }
        self.books[kind].park(name, rejected);
        if kind == ResourceType::Endpoints {
            // Nothing better will prove the cluster usable: with rejected endpoints it is active, and has none.
            self.waiting.remove(name);
        }
        self.learned();
    }

    /// What the client rejects may have changed.
    fn learned(&mut self) {
        self.untold = true;
        self.unremembered = true;
    }

    /// The target with what the client rejects of its tables replaced.
    pub(super) fn composed(&mut self, target: &Target) -> Target {
        let mut composed = BTreeMap::new();
        let gate = &self.gates[ResourceType::Table];
        self.verdicts.retain(|name, verdict| {
            if let Some(wanted) = target.sealed_table(name) {
                let accepted = gate.accepted_table(name).map(|table| &**table);
                let table = verdict.compose(wanted, accepted, |cluster| target.is_member(cluster));
                if !std::sync::Arc::ptr_eq(&table, wanted) {
                    composed.insert(name.clone(), table);
                }
            }
            !verdict.is_empty()
        });
        let rejects = |kind: &ResourceType| !self.books[*kind].rejected.is_empty();
        self.untold |= !self.verdicts.is_empty() || ResourceType::ALL.iter().any(rejects);
        target.with(composed)
    }

    /// What the client rejects of tables has changed.
    pub(super) fn recompose(&mut self) {
        self.recompose_after = false;
        if self.sealed {
            let target = self.target.clone();
            let target = self.composed(&target);
            self.retarget(target);
        }
    }

    /// Begins with what is known from earlier streams.
    pub(super) fn recall(&mut self, known: &Rejections) {
        for ((kind, name), versions) in &known.resources {
            versions.iter().for_each(|version| self.books[*kind].park(name, version.clone()));
        }
        for (table, entries) in &known.entries {
            let verdict = self.verdicts.entry(table.clone()).or_default();
            entries.iter().for_each(|(form, entry)| verdict.remember(form.clone(), entry.clone()));
        }
        self.untold = !known.is_empty();
    }

    /// Who brings nothing of a type is a new process: it may accept what the one before did not.
    pub(super) fn forget_rejections(&mut self, kind: ResourceType) {
        let knows = !self.books[kind].rejected.is_empty() || (kind == ResourceType::Table && !self.verdicts.is_empty());
        if knows {
            self.books[kind].rejected.clear();
            if kind == ResourceType::Table {
                self.verdicts.clear();
                self.recompose_after = true;
            }
            self.learned();
        }
    }

    /// Names of what the client shall have and rejects.
    pub(super) fn rejected_names(&self, kind: ResourceType) -> Vec<Name> {
        let parked = |name: &&Name| {
            let wanted = self.target.get(kind, name);
            wanted.is_some_and(|wanted| self.books[kind].is_parked(name, wanted))
        };
        let mut names: BTreeSet<Name> = self.books[kind].rejected.keys().filter(parked).cloned().collect();
        if kind == ResourceType::Table {
            let refused = |name: &Name| self.target.sealed_table(name).map(|table| self.verdicts[name].refused(table));
            let verdicts = self.verdicts.keys();
            names.extend(verdicts.filter(|name| refused(name).is_some_and(|mut all| all.next().is_some())).cloned());
        }
        names.into_iter().collect()
    }

    /// Says what the client refuses of what it shall have, and what is to be remembered, if that has changed.
    pub(super) fn tell(&mut self, out: &mut Vec<Reply>) {
        if !std::mem::take(&mut self.untold) || !self.sealed {
            return;
        }
        let refusals = self.refusals();
        if refusals != self.told {
            self.told.clone_from(&refusals);
            let (client, gateway) = (self.client.id.clone(), self.client.gateway.clone());
            out.push(Reply::Observe(Observation::Refuses { client, gateway, refusals }));
        }
        if std::mem::take(&mut self.unremembered) {
            out.push(Reply::Remember(self.rejections()));
        }
    }

    fn refusals(&self) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        for kind in ResourceType::ALL {
            for name in self.books[kind].rejected.keys() {
                let Some(wanted) = self.target.get(kind, name) else { continue };
                let Some(rejected) = self.books[kind].rejection(name, wanted) else { continue };
                let (listeners, entries) = self.concerned(kind, name);
                let (name, detail) = (name.clone(), rejected.detail.clone());
                refusals.push(Refusal { kind, name, listeners, entries, detail });
            }
        }
        for (name, verdict) in &self.verdicts {
            let Some(table) = self.target.sealed_table(name) else { continue };
            let mut by_detail: BTreeMap<&Name, BTreeSet<Name>> = BTreeMap::new();
            for (form, entry) in verdict.refused(table) {
                by_detail.entry(&entry.detail).or_default().insert(form.id.clone());
            }
            for (detail, entries) in by_detail {
                let entries = entries.into_iter().collect();
                let (kind, name, detail) = (ResourceType::Table, name.clone(), detail.clone());
                refusals.push(Refusal { kind, name, listeners: Vec::new(), entries, detail });
            }
        }
        refusals
    }

    /// The listeners and the entries that suffer when the client refuses this resource.
    fn concerned(&self, kind: ResourceType, name: &Name) -> (Vec<ListenerKey>, Vec<Name>) {
        match kind {
            ResourceType::Cluster | ResourceType::Endpoints => (Vec::new(), self.target.entries_with(name)),
            ResourceType::Listener | ResourceType::Secret | ResourceType::Table => {
                (self.target.owners(kind, name), Vec::new())
            }
        }
    }

    fn rejections(&self) -> Rejections {
        let mut all = Rejections::default();
        for kind in ResourceType::ALL {
            let books = self.books[kind].rejected.iter();
            all.resources.extend(books.map(|(name, versions)| ((kind, name.clone()), versions.clone())));
        }
        for (name, verdict) in &self.verdicts {
            let entries: BTreeMap<_, _> =
                verdict.rejected().map(|(form, entry)| (form.clone(), entry.clone())).collect();
            if !entries.is_empty() {
                all.entries.insert(name.clone(), entries);
            }
        }
        all
    }
}
