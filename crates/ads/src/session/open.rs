//! Where a client starts, and what changes when its subscription or the seal does.

use super::books::{Held, Opened, Opening, RejectedResource};
use super::fold::Fold;
use super::gate::Accepted;
use super::target::{Target, User};
use super::{Cautious, Change, Protocol, Rule, Session};
use crate::departed::{self, DepartedCluster};
use tidegate_model::{Name, ResourceType};
use tidegate_xds::Resource;

impl Session {
    /// Begins to serve a type that was asked for, if there is a seal.
    pub(super) fn open(&mut self, kind: ResourceType) {
        if !self.sealed || !matches!(self.books[kind].opened, Opened::Asked(_)) {
            return;
        }
        let Opened::Asked(opening) = std::mem::replace(&mut self.books[kind].opened, Opened::Yes) else { return };
        if !opening.is_warm() {
            self.forget_rejections(kind);
        }
        self.comes_empty |= kind == ResourceType::Cluster && !opening.is_warm();
        self.brings_listeners |= kind == ResourceType::Listener && opening.is_warm();
        if kind == ResourceType::Listener && opening.initial.keys().any(|name| self.may_name_clusters(name)) {
            self.all_drained = self.now + self.limits.drain_ms;
        }
        match kind {
            ResourceType::Cluster | ResourceType::Listener => self.open_whole(kind, &opening),
            ResourceType::Endpoints => self.open_endpoints(&opening),
            ResourceType::Secret | ResourceType::Table => self.open_named(kind, &opening),
        }
        self.uses_changed = true;
    }

    /// Whether a listener that the client brings may name clusters itself, so that connections which drain since it was
    /// replaced use clusters that the client does not say. A state-of-the-world client does not list what it brings; it
    /// would be kept from every change to a cluster, since a complete response cannot hold what is not known any more.
    fn may_name_clusters(&self, listener: &Name) -> bool {
        match self.target.user(ResourceType::Listener, listener) {
            Some(User::Listener(listener)) => listener.clusters().next().is_some(),
            Some(User::Table(_)) | None => true,
        }
    }

    /// Clusters or listeners.
    fn open_whole(&mut self, kind: ResourceType, opening: &Opening) {
        let names = self.covered(kind);
        let warm = opening.is_warm();
        if self.protocol == Protocol::Delta && !opening.implied {
            self.begin_listed(kind, names, opening);
            let books = &mut self.books[kind];
            books.must_answer = !warm && (books.subscription.is_wildcard() || !books.subscription.names().is_empty());
            return;
        }
        if !opening.implied && self.brings_all(kind, &names, opening) {
            return;
        }
        // A cluster that the client does not hold must not be taken for one that it does: it would be used at once.
        let unknown = warm && kind == ResourceType::Listener;
        for name in &names {
            let held = match self.rejection(kind, name) {
                // Repeated, what the client rejects would have everything rejected again.
                Some(rejected) => Held::of(rejected.kept.as_ref()),
                None if unknown => Held::Unknown,
                None => Held::Nothing,
            };
            self.begin(kind, name, held);
        }
        let books = &mut self.books[kind];
        books.must_answer = self.protocol == Protocol::Sotw;
        books.holds_unlisted = warm;
        if warm && kind == ResourceType::Cluster {
            self.cautious = Some(Cautious { since: self.now, brought: opening.version.clone() });
            if self.books[ResourceType::Endpoints].is_open() {
                self.learn_clusters();
            }
        } else if kind == ResourceType::Cluster {
            self.departed.clear();
        }
    }

    /// The first request for endpoints is answered in full, whatever the client brings: a cluster may be warming.
    fn open_endpoints(&mut self, opening: &Opening) {
        let kind = ResourceType::Endpoints;
        let members: Vec<Name> = self.target.names(kind).cloned().collect();
        for name in &members {
            self.begin(kind, name, Held::Nothing);
        }
        // Who asked for clusters first warms none. What it holds and we do not know is about to be taken back, and must
        // keep its endpoints until then.
        let warms_none = self.books[ResourceType::Cluster].subscription.seen();
        let books = &mut self.books[kind];
        let target = &self.target;
        let missing = books.subscription.names().iter().filter(|name| target.get(kind, name).is_none());
        let missing = missing.filter(|name| match self.protocol {
            Protocol::Sotw => opening.version.is_empty() || !warms_none,
            Protocol::Delta => !opening.initial.contains_key(*name),
        });
        books.missing = missing.cloned().collect();
        books.must_answer = self.protocol == Protocol::Sotw && !books.subscription.names().is_empty();
        if self.cautious.is_some() {
            self.learn_clusters();
        }
    }

    /// Secrets or tables.
    fn open_named(&mut self, kind: ResourceType, opening: &Opening) {
        let names = self.covered(kind);
        match self.protocol {
            Protocol::Delta => {
                self.begin_listed(kind, names, opening);
                let books = &mut self.books[kind];
                let unknown =
                    |name: &&Name| self.target.get(kind, name).is_none() && !opening.initial.contains_key(*name);
                books.missing = books.subscription.names().iter().filter(unknown).cloned().collect();
            }
            Protocol::Sotw => {
                // Who was sent listeners asks for what these name, which its version does not tell of.
                let anew = self.books[ResourceType::Listener].has_sent;
                if !anew && self.brings_all(kind, &names, opening) {
                    return;
                }
                for name in &names {
                    self.begin(kind, name, if opening.is_warm() { Held::Unknown } else { Held::Nothing });
                }
                if opening.is_warm() && kind == ResourceType::Table {
                    // Tables that we do not have may name any cluster until the client lets go of them.
                    let gone = self.books[kind].subscription.names().iter();
                    let gone: Vec<Name> = gone.filter(|name| self.target.get(kind, name).is_none()).cloned().collect();
                    for name in &gone {
                        self.gates[kind].begin(name, Accepted::Unknown);
                        // Connections that drain may use it, in a form that a listener which comes back must not serve.
                        self.books[kind].begin(name, Held::Unknown, None);
                    }
                }
            }
        }
    }

    /// Names that the client asks for and shall hold.
    fn covered(&self, kind: ResourceType) -> Vec<Name> {
        let subscription = &self.books[kind].subscription;
        self.target.names(kind).filter(|name| subscription.covers(name)).cloned().collect()
    }

    /// State of the world: whether the client brings exactly these. If so it is up to date.
    fn brings_all(&mut self, kind: ResourceType, names: &[Name], opening: &Opening) -> bool {
        if opening.version.is_empty() {
            return false;
        }
        let forms: Vec<(&Name, Resource)> =
            names.iter().filter_map(|name| Some((name, self.kept(kind, name)?))).collect();
        if Fold::of(forms.iter().map(|(name, form)| (&***name, form.version))).to_string() != opening.version {
            return false;
        }
        let forms: Vec<(Name, Resource)> = forms.into_iter().map(|(name, form)| (name.clone(), form)).collect();
        for name in names.iter().filter(|name| forms.iter().all(|(kept, _)| kept != *name)) {
            self.begin(kind, name, Held::Nothing);
        }
        for (name, form) in forms {
            self.begin(kind, &name, Held::Form(form));
        }
        self.books[kind].sent_version.clone_from(&opening.version);
        self.books[kind].acked_version.clone_from(&opening.version);
        true
    }

    /// What is known of the client's rejection of what it shall have under this name.
    fn rejection(&self, kind: ResourceType, name: &Name) -> Option<&RejectedResource> {
        self.books[kind].rejection(name, self.target.get(kind, name)?)
    }

    /// What a client that is up to date holds: of what it rejects the form that it accepted before.
    fn kept(&self, kind: ResourceType, name: &Name) -> Option<Resource> {
        match self.rejection(kind, name) {
            Some(rejected) => rejected.kept.clone(),
            None => self.target.get(kind, name).cloned(),
        }
    }

    /// Delta: the client says what it brings.
    fn begin_listed(&mut self, kind: ResourceType, names: Vec<Name>, opening: &Opening) {
        for name in names {
            let held = opening.initial.get(&name).map_or(Held::Nothing, |version| Held::Listed(version.into()));
            self.begin(kind, &name, held);
        }
        self.learn_listed(kind, opening);
    }

    /// What the client lists and shall not hold is taken back in its time. What was thought unknown before it said so
    /// is what it says, unless a response that it has not answered speaks of it.
    pub(super) fn learn_listed(&mut self, kind: ResourceType, opening: &Opening) {
        if kind == ResourceType::Endpoints {
            return;
        }
        for (name, version) in &opening.initial {
            let wanted = self.target.get(kind, name);
            let books = &mut self.books[kind];
            if books.superseded(name) {
                continue;
            }
            let listed = Held::Listed(version.into());
            match books.behind.get(name) {
                None if wanted.is_none() && books.subscription.covers(name) => self.begin(kind, name, listed),
                Some(Held::Unknown) => {
                    books.put(name, listed, wanted);
                }
                None | Some(_) => {}
            }
        }
    }

    /// A request for endpoints names the clusters that the client holds, and the version that it brought says whether
    /// these are the forms of now, or of what was wanted last. If it does not, what is wanted no more may have been held in
    /// its last form all the same: a complete response can then hold it until the client uses it no more.
    fn learn_clusters(&mut self) {
        let kind = ResourceType::Cluster;
        let Some(Cautious { brought, .. }) = self.cautious.take() else { return };
        let gone = std::mem::take(&mut self.departed);
        let names: Vec<Name> = self.books[ResourceType::Endpoints].subscription.names().iter().cloned().collect();
        let last = |session: &Self, name: &Name| match session.target.get(kind, name) {
            Some(_) => session.kept(kind, name),
            None => departed::last_form(&gone, name),
        };
        let forms: Vec<(Name, Option<Resource>)> =
            names.into_iter().map(|name| (name.clone(), last(self, &name))).collect();
        let versions = forms.iter().filter_map(|(name, form)| Some((&**name, form.as_ref()?.version)));
        let is_known = forms.iter().all(|(_, form)| form.is_some()) && Fold::of(versions).to_string() == brought;
        for (name, form) in forms {
            let wanted = self.target.get(kind, &name);
            let books = &mut self.books[kind];
            if is_known {
                books.put(&name, Held::of(form.as_ref()), wanted);
            } else if books.held(&name, wanted) == Held::Nothing {
                let form = form.filter(|_| wanted.is_none());
                books.put(&name, form.map_or(Held::Unknown, Held::Form), wanted);
                // It may be the one that warms: proven usable by endpoints that the client accepts on this stream.
                if wanted.is_some() {
                    self.waiting.insert(name, None);
                }
            }
        }
        if is_known {
            let books = &mut self.books[kind];
            (books.must_answer, books.holds_unlisted) = (false, false);
            books.sent_version.clone_from(&brought);
            books.acked_version = brought;
        }
        self.uses_changed = true;
    }

    /// Clusters that cease to be wanted before the client has said which it holds.
    fn see_departures(&mut self, newer: &Target) {
        let kind = ResourceType::Cluster;
        let has_said = self.books[kind].is_open() && self.cautious.is_none();
        if has_said || self.protocol == Protocol::Delta {
            return;
        }
        for name in self.target.changed(newer, kind) {
            if let (Some(last), None) = (self.target.get(kind, &name), newer.get(kind, &name)) {
                self.departed.insert(name, DepartedCluster::new(last.clone(), self.now));
            }
        }
    }

    fn begin(&mut self, kind: ResourceType, name: &Name, held: Held) {
        match kind {
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Secret => {}
            ResourceType::Listener | ResourceType::Table => {
                let accepted = match &held {
                    Held::Nothing => Accepted::Nothing,
                    Held::Unknown => Accepted::Unknown,
                    Held::Listed(_) | Held::Form(_) => match self.target.user(kind, name) {
                        Some(user) if held.is(Some(user.resource())) => Accepted::Form(user),
                        Some(_) | None => Accepted::Unknown,
                    },
                };
                self.gates[kind].begin(name, accepted);
            }
        }
        self.books[kind].begin(name, held, self.target.get(kind, name));
    }

    /// The subscription changed.
    pub(super) fn apply(&mut self, kind: ResourceType, change: Change) {
        let whole = matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        let more = change.wildcard_added || !change.added.is_empty();
        if whole && more {
            self.books[kind].must_answer = true;
        }
        if change.wildcard_added && kind != ResourceType::Endpoints {
            let names: Vec<Name> = self.target.names(kind).cloned().collect();
            let books = &self.books[kind];
            let tracked = |name: &Name| books.subscription.names().contains(name) && !change.added.contains(name);
            let new: Vec<Name> = names.into_iter().filter(|name| !tracked(name)).collect();
            new.iter().for_each(|name| self.begin(kind, name, Held::Nothing));
        }
        if change.wildcard_removed {
            let behind = self.books[kind].behind.keys();
            let names: Vec<Name> = self.target.names(kind).chain(behind).cloned().collect();
            names.iter().for_each(|name| self.uncover(kind, name));
        }
        for name in &change.removed {
            self.uncover(kind, name);
        }
        for name in &change.added {
            self.cover(kind, name, !self.books[kind].subscription.is_wildcard());
        }
        for name in &change.again {
            let wanted = self.target.get(kind, name);
            if wanted.is_some() {
                self.books[kind].put(name, Held::Unknown, wanted);
            } else {
                self.cover(kind, name, false);
            }
        }
    }

    fn cover(&mut self, kind: ResourceType, name: &Name, new: bool) {
        if self.target.get(kind, name).is_none() {
            if !self.books[kind].behind.contains_key(name) {
                self.books[kind].missing.insert(name.clone());
            }
        } else if new && kind != ResourceType::Endpoints {
            self.begin(kind, name, Held::Nothing);
        }
    }

    fn uncover(&mut self, kind: ResourceType, name: &Name) {
        if self.books[kind].subscription.covers(name) {
            return;
        }
        let wanted = self.target.get(kind, name);
        // State of the world: the version that the client would bring to another stream must not tell of what it lets go.
        let by_name = matches!(kind, ResourceType::Secret | ResourceType::Table);
        self.books[kind].must_answer |=
            by_name && self.protocol == Protocol::Sotw && self.books[kind].holds(name, wanted);
        match kind {
            ResourceType::Endpoints if wanted.is_some() => {
                self.books[kind].put(name, Held::Nothing, wanted);
            }
            ResourceType::Endpoints => self.books[kind].end(name, None),
            ResourceType::Secret => self.books[kind].end(name, wanted),
            ResourceType::Cluster => {
                self.books[kind].end(name, wanted);
                self.forget_cluster(name);
            }
            ResourceType::Listener | ResourceType::Table => {
                self.books[kind].end(name, wanted);
                self.gates[kind].end(name);
                self.uses_changed = true;
            }
        }
    }

    /// The client does not hold the cluster any more, so it lets go of its endpoints too.
    pub(super) fn forget_cluster(&mut self, name: &Name) {
        self.owed.remove(name);
        self.waiting.remove(name);
        self.shows.remove(name);
        self.due.remove(name);
        let kind = ResourceType::Endpoints;
        if self.target.get(kind, name).is_none() {
            self.books[kind].end(name, None);
        }
    }

    /// A newer seal.
    pub(super) fn retarget(&mut self, newer: Target) {
        if !self.sealed {
            self.sealed = true;
            self.target = newer;
            ResourceType::ALL.into_iter().for_each(|kind| self.open(kind));
            return;
        }
        self.see_departures(&newer);
        for kind in ResourceType::ALL {
            if !self.books[kind].is_open() {
                continue;
            }
            let changed = self.target.changed(&newer, kind);
            self.acquit(kind, &changed);
            for name in changed {
                let books = &mut self.books[kind];
                if kind != ResourceType::Endpoints && !books.subscription.covers(&name) {
                    continue;
                }
                let wanted = newer.get(kind, &name);
                books.retarget(&name, self.target.get(kind, &name), wanted);
                if wanted.is_some() {
                    books.missing.remove(&name);
                }
                match kind {
                    ResourceType::Cluster => {
                        self.due.remove(&name);
                        self.uses_changed = true;
                    }
                    ResourceType::Endpoints | ResourceType::Secret => {}
                    ResourceType::Listener | ResourceType::Table => {
                        let current = !self.books[kind].behind.contains_key(&name);
                        if wanted.is_none() || current || !self.has(Rule::Pinning) {
                            self.gates[kind].pins.remove(&name);
                        }
                        if let Some(user) = newer.user(kind, &name).filter(|_| current) {
                            self.gates[kind].learn(&name, user);
                        }
                        self.uses_changed = true;
                    }
                }
            }
        }
        self.target = newer;
    }
}
