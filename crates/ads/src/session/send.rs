//! What is sent now, and what waits.

use super::books::{Held, Sent, SentChange};
use super::fold::Fold;
use super::gate::Pin;
use super::tables::TableVerdict;
use super::target::User;
use super::{Protocol, Reply, Response, Rule, Sequencing, Session, TypeUrl};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeSet;
use tidegate_model::{Name, ResourceType};
use tidegate_xds::Resource;

/// One change to be made at the client.
struct Step {
    name: Name,
    /// `None` removes it.
    form: Option<Resource>,
    /// The form of a listener or table.
    user: Option<User>,
}

impl Session {
    /// Sends whatever can be sent.
    pub(super) fn flush(&mut self, out: &mut Vec<Reply>) {
        if !self.sealed {
            return;
        }
        if self.recompose_after {
            self.recompose();
        }
        // What was sent may have made room for more: a pinned form for the newest one. What was pinned may need clusters
        // that were held back. What nothing names any more may be due.
        loop {
            let before = (out.len(), self.pinned());
            for kind in ResourceType::ALL {
                if self.books[kind].is_open() {
                    let steps = match kind {
                        ResourceType::Cluster if self.clusters_wait() => continue,
                        ResourceType::Cluster => self.cluster_steps(),
                        ResourceType::Endpoints => self.endpoint_steps(),
                        ResourceType::Listener if self.listeners_wait() => continue,
                        ResourceType::Listener | ResourceType::Table => self.user_steps(kind),
                        ResourceType::Secret => self.secret_steps(),
                    };
                    if kind == ResourceType::Listener && self.would_repeat_what_waits() {
                        continue;
                    }
                    match kind {
                        // A rejection of several would not say which.
                        ResourceType::Secret | ResourceType::Table => {
                            steps.into_iter().for_each(|step| self.emit(kind, vec![step], out));
                            self.emit(kind, Vec::new(), out);
                        }
                        ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Listener => {
                            self.emit(kind, steps, out);
                        }
                    }
                }
            }
            if !self.settle() && (out.len(), self.pinned()) == before {
                break;
            }
        }
    }

    /// While it is not known which of several changes the client rejects, what may be sent of them; none: nothing, for
    /// the last trial is not answered. Some of everything: nobody is suspected.
    fn trial(&mut self, kind: ResourceType) -> Option<BTreeSet<Name>> {
        let (owed, books) = (&self.owed, &mut self.books[kind]);
        if kind == ResourceType::Endpoints && books.suspects.is_on() {
            // Endpoints that nobody asks for any more are not sent, so they cannot be tried.
            books.suspects.retain(|name| owed.contains(name) || books.subscription.covers(name));
        }
        if !books.suspects.is_on() {
            return None;
        }
        Some(if books.inflight.is_empty() { books.suspects.trial() } else { BTreeSet::new() })
    }

    /// Clusters that the client holds and shall not.
    pub(super) fn leaving(&self) -> impl Iterator<Item = (&Name, &Held)> {
        let behind = self.books[ResourceType::Cluster].behind.iter();
        behind.filter(|(name, _)| self.target.get(ResourceType::Cluster, name).is_none())
    }

    /// Starts the grace of every cluster that nothing names any more at the client, and stops it for the others. Returns
    /// whether some are due already.
    fn settle(&mut self) -> bool {
        if !self.uses_changed {
            return false;
        }
        let leaving: Vec<Name> = self.leaving().map(|(name, _)| name.clone()).collect();
        if leaving.is_empty() {
            self.uses_changed = false;
            self.due.clear();
            return false;
        }
        let users = [ResourceType::Listener, ResourceType::Table];
        // A client that reconnects asks for what it uses only after it asked for clusters.
        let settled =
            self.comes_empty || self.now >= self.settled_at() || users.iter().all(|kind| self.books[*kind].is_open());
        let listeners = &self.books[ResourceType::Listener];
        // While listeners are on their way the client may be about to ask for other tables than it does.
        let known = !listeners.holds_unlisted && listeners.inflight.is_empty();
        let in_use = users.map(|kind| self.gates[kind].clusters_in_use(kind, &self.target));
        self.uses_changed = !settled;
        self.draining.retain(|_, drained| *drained > self.now);
        let mut due = false;
        for name in leaving {
            let free = |clusters: &Option<BTreeSet<Name>>| clusters.as_ref().is_some_and(|all| !all.contains(&name));
            if settled && known && in_use.iter().all(free) {
                let drained = self.draining.get(&name).copied().unwrap_or_default().max(self.all_drained);
                let at = self.due.entry(name).or_insert(drained.max(self.now + self.limits.grace_ms));
                due |= *at <= self.now;
            } else {
                self.due.remove(&name);
            }
        }
        due
    }

    fn is_eager(&self) -> bool {
        self.sequencing == Sequencing::Eager
    }

    /// Whether the rule is in force. All are, but in tests.
    pub(super) fn has(&self, rule: Rule) -> bool {
        self.sequencing != Sequencing::Without(rule)
    }

    fn is_due(&self, name: &Name) -> bool {
        self.is_eager() || !self.has(Rule::RemoveAfterUse) || self.due.get(name).is_some_and(|at| *at <= self.now)
    }

    /// Whether the next response of clusters must wait, since it would take back what the client may be using.
    fn clusters_wait(&mut self) -> bool {
        if self.is_eager() {
            return false;
        }
        if let Some(cautious) = &self.cautious {
            if self.now < cautious.since + self.limits.pin_ms && !self.needs_new_cluster() {
                return true;
            }
            self.cautious = None;
        }
        // A complete response cannot hold what was never ours on this stream. It goes out early only if something that
        // waits needs it: that a cluster vanished while no controller ran is then felt.
        self.protocol == Protocol::Sotw
            && self.leaving().any(|(name, held)| *held == Held::Unknown && !self.is_due(name))
            && !self.needs_new_cluster()
    }

    /// Whether listeners wait for a client that comes back to say which tables it has: connections that drain may use one
    /// which a new listener would then serve in its old form. It says so right after it asked for listeners, if it has any.
    pub(super) fn listeners_wait(&self) -> bool {
        let kind = ResourceType::Listener;
        let names_table = |name: &Name| match self.target.user(kind, name) {
            Some(User::Listener(listener)) => !listener.tables.is_empty(),
            Some(User::Table(_)) | None => false,
        };
        self.brings_listeners
            && !self.is_eager()
            && self.now < self.settled_at()
            && !self.books[ResourceType::Table].is_open()
            && self.books[kind].behind.keys().any(|name| self.may_be_new(kind, name) && names_table(name))
    }

    /// State of the world: whether a complete response would hold a listener that waits. The client has it in a form that
    /// is not known, so it can neither be repeated nor left out.
    fn would_repeat_what_waits(&self) -> bool {
        let kind = ResourceType::Listener;
        let is_unknown =
            |name: &Name| matches!(self.books[kind].behind.get(name), Some(Held::Unknown | Held::Listed(_)));
        self.protocol == Protocol::Sotw && self.gates[kind].pins.keys().any(is_unknown)
    }

    /// Whether a listener or table waits for a cluster that the client was never sent.
    fn needs_new_cluster(&self) -> bool {
        let pins = self.gates.0.iter().flat_map(|gate| gate.pins.values());
        pins.flat_map(|pin| &pin.needs).any(|name| !self.holds_cluster(name))
    }

    fn holds_cluster(&self, name: &Name) -> bool {
        let books = &self.books[ResourceType::Cluster];
        let wanted = self.target.get(ResourceType::Cluster, name);
        books.is_open()
            && (books.behind.contains_key(name) || books.subscription.covers(name))
            && books.holds(name, wanted)
    }

    /// Tables of a listener that is, or may be, new to the client which it still has from another time, as connections that
    /// drain do: the listener would serve what they say until it is told better.
    fn stale_tables(&self, kind: ResourceType, name: &Name, user: &User) -> BTreeSet<Name> {
        match user {
            User::Listener(listener) if self.may_be_new(kind, name) => {
                listener.tables.iter().filter(|table| self.is_stale(table)).cloned().collect()
            }
            User::Listener(_) | User::Table(_) => BTreeSet::new(),
        }
    }

    /// Whether the client may hold nothing under this name. A state-of-the-world client does not say what it holds.
    fn may_be_new(&self, kind: ResourceType, name: &Name) -> bool {
        matches!(self.books[kind].behind.get(name), Some(Held::Nothing | Held::Unknown))
    }

    /// Whether the client has a table in another form than it shall, and will be told.
    fn is_stale(&self, table: &Name) -> bool {
        let kind = ResourceType::Table;
        let books = &self.books[kind];
        let Some(wanted) = self.target.get(kind, table) else { return false };
        let has = books.is_open() && books.subscription.covers(table) && books.holds(table, Some(wanted));
        has && !books.is_parked(table, wanted) && (books.behind.contains_key(table) || books.superseded(table))
    }

    /// Whether the client rejects what it shall have under this name. A cluster it will not have: nothing is to be waited for.
    pub(super) fn is_refused(&self, kind: ResourceType, name: &Name) -> bool {
        self.target.get(kind, name).is_some_and(|wanted| self.books[kind].is_parked(name, wanted))
    }

    /// Whether a cluster that is wanted no more will never be proven usable: it was not sent, its endpoints were rejected, or its
    /// secret is gone.
    fn is_lost(&self, cluster: &Name) -> bool {
        let is_gone = |secret| self.target.get(ResourceType::Secret, secret).is_none();
        let has_secret = self.has_secret_of(cluster) || !self.secret_of(cluster).is_some_and(is_gone);
        let is_proving = has_secret && self.waiting.get(cluster) != Some(&None);
        self.target.get(ResourceType::Cluster, cluster).is_none() && !(self.holds_cluster(cluster) && is_proving)
    }

    /// Whether the client can use the cluster at once.
    fn is_usable(&self, name: &Name) -> bool {
        self.holds_cluster(name) && !self.waiting.contains_key(name) && self.has_secret_of(name)
    }

    /// The secret that a cluster names as the client has it, if it names one.
    fn secret_of(&self, cluster: &Name) -> Option<&Name> {
        self.shows.get(cluster).or_else(|| self.target.secret_of(cluster))
    }

    /// Whether the client has the secret that the cluster names, if it names one: without it the cluster warms. Of one
    /// that the client rejects there is nothing to wait for.
    fn has_secret_of(&self, cluster: &Name) -> bool {
        let Some(secret) = self.secret_of(cluster) else { return true };
        let kind = ResourceType::Secret;
        let (books, wanted) = (&self.books[kind], self.target.get(kind, secret));
        let is_held = books.is_open()
            && books.subscription.covers(secret)
            && books.holds(secret, wanted)
            && !books.is_first_on_its_way(secret);
        is_held || wanted.is_some_and(|wanted| books.is_parked(secret, wanted))
    }

    fn cluster_steps(&mut self) -> Vec<Step> {
        let kind = ResourceType::Cluster;
        let trial = self.trial(kind);
        let books = &self.books[kind];
        let step = |name: &Name| {
            let form = self.target.get(kind, name).cloned();
            let now = match &form {
                Some(wanted) => !books.is_parked(name, wanted),
                None => self.is_due(name),
            };
            let now = now && trial.as_ref().is_none_or(|trial| trial.contains(name));
            now.then(|| Step { name: name.clone(), form, user: None })
        };
        books.behind.keys().filter_map(step).collect()
    }

    fn endpoint_steps(&mut self) -> Vec<Step> {
        let kind = ResourceType::Endpoints;
        let trial = self.trial(kind);
        let books = &self.books[kind];
        let names = books.behind.keys().chain(&self.owed);
        let names: BTreeSet<&Name> =
            names.filter(|name| trial.as_ref().is_none_or(|trial| trial.contains(*name))).collect();
        let step = |name: &Name| {
            let wanted = self.target.get(kind, name)?;
            let owed = self.owed.contains(name);
            let form = if let Some(rejected) = books.rejection(name, wanted) {
                // The cluster warms anew and needs endpoints: the last ones that the client accepted.
                let good = |form: &&Resource| !books.has_rejected(name, form.version);
                match books.behind.get(name).and_then(Held::form).or(rejected.kept.as_ref()).filter(good) {
                    Some(accepted) if owed => accepted.clone(),
                    // Without any it would warm for ever.
                    None if owed => empty_assignment(name.clone()),
                    Some(_) | None => return None,
                }
            } else if owed || books.subscription.covers(name) {
                wanted.clone()
            } else {
                return None;
            };
            Some(Step { name: name.clone(), form: Some(form), user: None })
        };
        names.into_iter().filter_map(step).collect()
    }

    /// Secrets that are asked for. One that is gone is not taken back: what names it goes, and then it is not asked for.
    fn secret_steps(&self) -> Vec<Step> {
        let kind = ResourceType::Secret;
        let books = &self.books[kind];
        let step = |name: &Name| {
            let wanted = self.target.get(kind, name)?;
            let now = !books.is_parked(name, wanted);
            now.then(|| Step { name: name.clone(), form: Some(wanted.clone()), user: None })
        };
        books.behind.keys().filter_map(step).collect()
    }

    /// Listeners or tables: those that are ready. The others are pinned.
    fn user_steps(&mut self, kind: ResourceType) -> Vec<Step> {
        let books = &self.books[kind];
        if books.inflight.len() >= self.limits.max_inflight {
            // A client that reads and never answers: it is up to date again when it does.
            return Vec::new();
        }
        let mut names: Vec<Name> = books.behind.keys().cloned().collect();
        if let Some(trial) = self.trial(kind) {
            names.retain(|name| trial.contains(name));
        }
        names.into_iter().filter_map(|name| self.user_step(kind, name)).collect()
    }

    fn user_step(&mut self, kind: ResourceType, name: Name) -> Option<Step> {
        let books = &self.books[kind];
        // The last trial tells what to try next.
        let is_trying = kind == ResourceType::Table && self.verdicts.get(&name).is_some_and(TableVerdict::is_trying);
        if is_trying && books.superseded(&name) {
            return None;
        }
        let Some(user) = self.target.user(kind, &name) else {
            // Envoy lets go of tables by itself, when the last connection that uses them has drained.
            let explicit = kind == ResourceType::Table
                && (self.protocol == Protocol::Sotw || books.subscription.names().contains(&name));
            return (!explicit).then_some(Step { name, form: None, user: None });
        };
        if self.gates[kind].pins.get(&name).is_some_and(|pin| pin.needs.iter().any(|cluster| self.is_lost(cluster))) {
            self.gates[kind].pins.remove(&name);
        }
        if let Some(pin) = self.gates[kind].pins.get(&name) {
            let ready = pin
                .needs
                .iter()
                .all(|cluster| self.is_usable(cluster) || self.is_refused(ResourceType::Cluster, cluster))
                && !pin.tables.iter().any(|table| self.is_stale(table));
            if !ready && pin.deadline > self.now {
                return None;
            }
            self.overdue_pins += u64::from(!ready);
            let pin = self.gates[kind].pins.remove(&name)?;
            return Some(Step { name, form: Some(pin.form.resource().clone()), user: Some(pin.form) });
        }
        if books.is_parked(&name, user.resource()) {
            return None;
        }
        let mut needs = user.clusters_beyond(self.gates[kind].newest(&name));
        needs.retain(|cluster| !self.is_usable(cluster) && !self.is_refused(ResourceType::Cluster, cluster));
        let tables = self.stale_tables(kind, &name, &user);
        if (needs.is_empty() && tables.is_empty()) || self.is_eager() || !self.has(Rule::AddBeforeUse) {
            return Some(Step { name, form: Some(user.resource().clone()), user: Some(user) });
        }
        let deadline = self.now + self.limits.pin_ms;
        if self.limits.pin_ms > 0 {
            self.gates[kind].pins.insert(name, Pin { form: user, needs, tables, deadline });
            return None;
        }
        self.overdue_pins += 1;
        Some(Step { name, form: Some(user.resource().clone()), user: Some(user) })
    }

    /// Sends one response with these changes, if there is anything to say.
    fn emit(&mut self, kind: ResourceType, steps: Vec<Step>, out: &mut Vec<Reply>) {
        let missing = self.answer_missing(kind);
        let must_answer = std::mem::take(&mut self.books[kind].must_answer);
        if steps.is_empty() && missing.is_empty() && !must_answer {
            return;
        }
        let nonce = self.nonce();
        let (mut changes, mut resources, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            changes.push(self.make_change(kind, &step, nonce));
            match step.form {
                Some(form) => resources.push(form),
                None => removed.push(step.name),
            }
        }
        for name in missing {
            if kind == ResourceType::Endpoints {
                self.endpoints_sent(&name, nonce);
            }
            match self.protocol {
                Protocol::Delta => removed.push(name),
                Protocol::Sotw => {
                    let empty = empty_assignment(name.clone());
                    let version = Some(empty.version);
                    let before = self.books[kind].put(&name, Held::Form(empty.clone()), None);
                    changes.push(SentChange { name, version, before });
                    resources.push(empty);
                }
            }
        }
        let mut unproven = false;
        if self.protocol == Protocol::Sotw {
            removed.clear();
            if self.is_whole(kind) {
                unproven = self.books[kind].behind.values().any(|held| matches!(held, Held::Unknown | Held::Listed(_)));
                resources = self.whole(kind, &mut changes);
            }
        }
        resources.sort_by(|a, b| a.name.cmp(&b.name));
        removed.sort();
        // What is repeated without knowing that the client has it does not count as held, but belongs to the response.
        let all = || Fold::of(resources.iter().map(|resource| (&*resource.name, resource.version)));
        let version = if unproven { all() } else { self.books[kind].fold }.to_string();
        let sent = Sent { nonce, epoch: self.target.epoch(), version: version.clone(), changes };
        if self.protocol == Protocol::Sotw && resources.is_empty() && self.books[kind].subscription.asks_for_nothing() {
            // Envoy takes the version of this and says nothing upon it.
            self.books[kind].sent_version.clone_from(&version);
        } else {
            self.books[kind].remember(sent, self.limits.max_inflight);
        }
        let type_url = TypeUrl::Served(kind);
        out.push(Reply::Send(Response { type_url, nonce: nonce.to_string(), version, resources, removed }));
    }

    /// Names asked for that are not there and can be answered. State of the world has no word for "not there"; for
    /// endpoints an empty assignment says it, so that a cluster that warms can end.
    fn answer_missing(&mut self, kind: ResourceType) -> BTreeSet<Name> {
        let missing = std::mem::take(&mut self.books[kind].missing);
        match (self.protocol, kind) {
            (Protocol::Delta, _) | (Protocol::Sotw, ResourceType::Endpoints) => missing,
            (
                Protocol::Sotw,
                ResourceType::Cluster | ResourceType::Listener | ResourceType::Secret | ResourceType::Table,
            ) => BTreeSet::new(),
        }
    }

    fn make_change(&mut self, kind: ResourceType, step: &Step, nonce: u64) -> SentChange {
        let name = &step.name;
        let wanted = self.target.get(kind, name);
        let books = &mut self.books[kind];
        let version = step.form.as_ref().map(|form| form.version);
        let before = books.put(name, Held::of(step.form.as_ref()), wanted);
        match kind {
            ResourceType::Cluster if step.form.is_none() => self.forget_cluster(name),
            ResourceType::Cluster => {
                match self.target.secret_of(name).cloned() {
                    Some(secret) => _ = self.shows.insert(name.clone(), secret),
                    None => _ = self.shows.remove(name),
                }
                if before == Held::Nothing || self.has(Rule::Rewarm) {
                    self.await_endpoints(name, matches!(before, Held::Nothing | Held::Unknown));
                }
            }
            ResourceType::Endpoints => self.endpoints_sent(name, nonce),
            ResourceType::Secret => {}
            ResourceType::Listener | ResourceType::Table => {
                self.gates[kind].sent(name, nonce, step.user.clone());
                self.uses_changed = true;
            }
        }
        SentChange { name: name.clone(), version, before }
    }

    /// A cluster was sent: its endpoints follow. One that is, or may be, new to the client waits to be proven usable.
    pub(super) fn await_endpoints(&mut self, cluster: &Name, is_new: bool) {
        if self.target.get(ResourceType::Endpoints, cluster).is_some() {
            self.owed.insert(cluster.clone());
            if is_new {
                self.waiting.insert(cluster.clone(), None);
            }
        }
    }

    /// The endpoints of a cluster, or that there are none, follow the cluster; accepting them proves it usable.
    fn endpoints_sent(&mut self, name: &Name, nonce: u64) {
        self.owed.remove(name);
        if let Some(endpoints) = self.waiting.get_mut(name) {
            *endpoints = Some(nonce);
        }
    }

    /// State of the world: everything that the client shall hold after this response. What it is not to get yet is
    /// there in the form that it has.
    fn whole(&mut self, kind: ResourceType, changes: &mut Vec<SentChange>) -> Vec<Resource> {
        let books = &self.books[kind];
        let wanted = self.target.names(kind).filter(|name| books.subscription.covers(name));
        let mut resources: Vec<Resource> = wanted
            .filter(|name| !books.behind.contains_key(*name))
            .filter_map(|name| self.target.get(kind, name).cloned())
            .collect();
        let mut dropped = Vec::new();
        for (name, held) in &books.behind {
            match (held, self.target.get(kind, name)) {
                (Held::Form(held), _) => resources.push(held.clone()),
                (Held::Unknown | Held::Listed(_), Some(rejected)) => {
                    // What it has is not ours to repeat. Sending what it rejected keeps it; leaving it out would not.
                    let (name, version) = (name.clone(), Some(rejected.version));
                    changes.push(SentChange { name, version, before: Held::Unknown });
                    resources.push(rejected.clone());
                }
                (Held::Unknown | Held::Listed(_), None) => dropped.push(name.clone()),
                (Held::Nothing, _) => {}
            }
        }
        for name in dropped {
            self.books[kind].end(&name, None);
            self.gates[kind].end(&name);
            if kind == ResourceType::Cluster {
                self.forget_cluster(&name);
            }
        }
        resources
    }
}

/// The endpoints of a cluster that we do not have: none.
fn empty_assignment(name: Name) -> Resource {
    /// Field number of `ClusterLoadAssignment.cluster_name`.
    const CLUSTER_NAME: u32 = 1;
    let mut bytes = BytesMut::new();
    prost::encoding::string::encode(CLUSTER_NAME, &name.to_string(), &mut bytes);
    Resource::new(name, Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoints_of_an_unknown_cluster_are_an_assignment_with_its_name_alone() {
        let empty = empty_assignment(Name::from("shop/cart/80"));
        assert_eq!(&empty.bytes[..2], [0x0a, 12]);
        assert_eq!(&empty.bytes[2..], b"shop/cart/80");
    }
}
