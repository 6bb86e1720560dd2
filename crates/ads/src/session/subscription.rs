//! Which resources of one type a client asks for.

use imbl::OrdSet;
use std::collections::BTreeSet;
use tidegate_model::{Name, ResourceType};

/// A client's subscription to one type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscription {
    /// Whether a request of this type was seen on the stream.
    seen: bool,
    /// Whether everything is asked for.
    wildcard: bool,
    /// Whether a wildcard came from an empty first request, so that empty requests keep it.
    legacy: bool,
    /// What is asked for by name.
    names: OrdSet<Name>,
}

/// What a request changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Everything is asked for from now on.
    pub(crate) wildcard_added: bool,
    /// Not everything is asked for any more.
    pub(crate) wildcard_removed: bool,
    /// Names asked for from now on.
    pub(crate) added: Vec<Name>,
    /// Names asked for again, although they were asked for: the client wants them sent once more.
    pub(crate) again: Vec<Name>,
    /// Names not asked for any more.
    pub(crate) removed: Vec<Name>,
}

/// The name that asks for everything.
const WILDCARD: &str = "*";

/// Whether an empty first request for this type asks for everything.
fn has_legacy_wildcard(kind: ResourceType) -> bool {
    match kind {
        ResourceType::Cluster | ResourceType::Listener => true,
        ResourceType::Endpoints | ResourceType::Secret | ResourceType::Table => false,
    }
}

impl Subscription {
    /// Everything, without a request: a client that warms a cluster holds its request back.
    pub(crate) fn implied() -> Self {
        Subscription { seen: false, wildcard: true, legacy: true, names: OrdSet::new() }
    }

    /// Whether the client asked for this type on this stream.
    pub(crate) fn seen(&self) -> bool {
        self.seen
    }

    /// Whether the resource is asked for.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// Whether everything is asked for.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// Whether what was asked for was taken back, all of it.
    pub(crate) fn asks_for_nothing(&self) -> bool {
        !self.wildcard && self.names.is_empty()
    }

    /// What is asked for by name.
    pub(crate) fn names(&self) -> &OrdSet<Name> {
        &self.names
    }

    /// Keeps the names as `all` if they are the same: of thousands of clients each asks for all there is.
    pub(crate) fn share(&mut self, all: &OrdSet<Name>) {
        if self.names.len() == all.len() && self.names == *all {
            self.names.clone_from(all);
        }
    }

    /// Takes the names of a state-of-the-world request: they replace what was asked for. `share` may give a name that
    /// is kept elsewhere already: of thousands of clients each asks for every cluster.
    pub(crate) fn replace(&mut self, kind: ResourceType, names: &[String], share: impl Fn(Name) -> Name) -> Change {
        let first = !std::mem::replace(&mut self.seen, true);
        if names.is_empty() && has_legacy_wildcard(kind) && (first || (self.wildcard && self.legacy)) {
            return self.become_wildcard(true);
        }
        if !first && !self.wildcard && self.asks_for_exactly(names) {
            return Change::default();
        }
        let mut wanted: OrdSet<Name> = names.iter().map(|name| share(Name::from(name))).collect();
        let wildcard = wanted.remove(WILDCARD).is_some();
        let mut change = if wildcard { self.become_wildcard(false) } else { self.end_wildcard() };
        change.added.extend(wanted.iter().filter(|name| !self.names.contains(*name)).cloned());
        change.removed.extend(self.names.iter().filter(|name| !wanted.contains(*name)).cloned());
        self.names = wanted;
        change
    }

    /// Whether these are the names, sorted as Envoy sends them. Nearly every request is an acknowledgement with the names of
    /// the one before: found out without a copy of any.
    fn asks_for_exactly(&self, names: &[String]) -> bool {
        names.len() == self.names.len() && names.iter().zip(&self.names).all(|(new, old)| *new == **old)
    }

    /// Takes the names of a delta request; `share` as in [`Subscription::replace`].
    pub(crate) fn update(
        &mut self,
        kind: ResourceType,
        subscribe: Vec<Name>,
        unsubscribe: Vec<Name>,
        share: impl Fn(Name) -> Name,
    ) -> Change {
        let first = !std::mem::replace(&mut self.seen, true);
        let mut change = Change::default();
        if first && subscribe.is_empty() && has_legacy_wildcard(kind) {
            change = self.become_wildcard(true);
        }
        for name in unsubscribe {
            if name == WILDCARD {
                change.wildcard_removed |= self.end_wildcard().wildcard_removed;
            } else if self.names.remove(&name).is_some() {
                change.removed.push(name);
            }
        }
        for name in subscribe.into_iter().map(share) {
            if name == WILDCARD {
                change.wildcard_added |= self.become_wildcard(false).wildcard_added;
            } else if self.names.insert(name.clone()).is_none() {
                change.added.push(name);
            } else {
                change.again.push(name);
            }
        }
        // What was taken out and put back in one request counts as asked for again.
        let back: BTreeSet<Name> = change.removed.iter().filter(|name| self.names.contains(*name)).cloned().collect();
        change.removed.retain(|name| !back.contains(name));
        change.added.retain(|name| !back.contains(name));
        change.again.extend(back);
        change
    }

    fn become_wildcard(&mut self, legacy: bool) -> Change {
        self.legacy = legacy;
        Change { wildcard_added: !std::mem::replace(&mut self.wildcard, true), ..Change::default() }
    }

    fn end_wildcard(&mut self) -> Change {
        Change { wildcard_removed: std::mem::replace(&mut self.wildcard, false), ..Change::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceType::{Cluster, Endpoints};

    fn replace(subscription: &mut Subscription, kind: ResourceType, names: &[String]) -> Change {
        subscription.replace(kind, names, |name| name)
    }

    fn update(
        subscription: &mut Subscription,
        kind: ResourceType,
        subscribe: Vec<Name>,
        unsubscribe: Vec<Name>,
    ) -> Change {
        subscription.update(kind, subscribe, unsubscribe, |name| name)
    }

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| Name::from(*text)).collect()
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_same_names_again_change_nothing_in_any_order() {
        let mut sotw = Subscription::default();
        replace(&mut sotw, Endpoints, &texts(&["a", "b"]));
        assert_eq!(replace(&mut sotw, Endpoints, &texts(&["a", "b"])), Change::default());
        assert_eq!(replace(&mut sotw, Endpoints, &texts(&["b", "a"])), Change::default());
        assert_eq!(replace(&mut sotw, Endpoints, &texts(&["a", "c"])).added, names(&["c"]));
    }

    #[test]
    fn an_empty_first_request_for_clusters_asks_for_everything_and_empty_ones_keep_it() {
        let mut sotw = Subscription::default();
        assert!(replace(&mut sotw, Cluster, &[]).wildcard_added);
        assert_eq!(replace(&mut sotw, Cluster, &[]), Change::default());
        assert!(sotw.covers("anything"));
        let mut delta = Subscription::default();
        assert!(update(&mut delta, Cluster, vec![], vec![]).wildcard_added);
        assert_eq!(update(&mut delta, Cluster, vec![], vec![]), Change::default());
    }

    #[test]
    fn an_empty_first_request_for_endpoints_asks_for_nothing() {
        let mut sotw = Subscription::default();
        assert_eq!(replace(&mut sotw, Endpoints, &[]), Change::default());
        assert!(!sotw.covers("a"));
    }

    #[test]
    fn an_empty_list_after_names_takes_everything_back() {
        for kind in ResourceType::ALL {
            let mut sotw = Subscription::default();
            replace(&mut sotw, kind, &texts(&["a", "b"]));
            let change = replace(&mut sotw, kind, &[]);
            assert_eq!(change.removed, names(&["a", "b"]));
            assert!(!sotw.covers("a") && !sotw.is_wildcard());
        }
    }

    #[test]
    fn the_explicit_wildcard_can_be_taken_back() {
        let mut delta = Subscription::default();
        assert!(update(&mut delta, Endpoints, names(&["*"]), vec![]).wildcard_added);
        let change = update(&mut delta, Endpoints, names(&["a"]), names(&["*"]));
        assert!(change.wildcard_removed);
        assert!(delta.covers("a") && !delta.covers("b"));
        let mut sotw = Subscription::default();
        assert!(replace(&mut sotw, Cluster, &texts(&["*", "a"])).wildcard_added);
        assert!(replace(&mut sotw, Cluster, &texts(&["a"])).wildcard_removed);
        assert!(sotw.covers("a") && !sotw.covers("b"));
    }

    #[test]
    fn a_name_subscribed_twice_is_asked_for_again() {
        let mut delta = Subscription::default();
        assert_eq!(update(&mut delta, Endpoints, names(&["a"]), vec![]).added, names(&["a"]));
        assert_eq!(update(&mut delta, Endpoints, names(&["a"]), vec![]).again, names(&["a"]));
        let both = update(&mut delta, Endpoints, names(&["a"]), names(&["a"]));
        assert_eq!((both.added, both.removed, both.again), (vec![], vec![], names(&["a"])));
    }
}
