//! The current facts by object: what to retract when the object changes. Objects themselves are not kept.
//!
//! *Invariant*: what is handed on is a set. Equal facts of two objects (two grants that say the same) are one fact to
//! the dataflow, added with the first of them and retracted with the last.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{Fact, Millis, ObjectKey};
use tidegate_normalize::{Deadline, Normalized};

/// A change of the set of facts: 1 adds, -1 retracts.
pub(crate) type Change = (Fact, isize);

/// The current facts.
#[derive(Default)]
pub(crate) struct Facts {
    objects: BTreeMap<ObjectKey, Made>,
    /// How many objects say a fact that does not tell its object.
    shared: BTreeMap<Fact, usize>,
}

/// What was made of one object.
#[derive(Default)]
struct Made {
    /// Sorted, each once.
    facts: Vec<Fact>,
    /// The newest renewal of what has a lifetime, if anything has.
    renewed: Option<Millis>,
    /// What the object is reason for once that lifetime ended.
    after: Vec<Fact>,
}

impl Facts {
    /// Replaces what is known of `key` by `new` and appends what that changes.
    pub(crate) fn replace(&mut self, key: &ObjectKey, new: Normalized, changes: &mut Vec<Change>) {
        let Normalized { facts, deadlines, after } = new;
        let renewed = deadlines.iter().map(|deadline: &Deadline| deadline.renewed).max();
        self.make(key, Made { facts, renewed, after }, changes);
    }

    fn make(&mut self, key: &ObjectKey, mut new: Made, changes: &mut Vec<Change>) {
        new.facts.sort();
        new.facts.dedup();
        let old = self.objects.get(key).map_or(&[][..], |made| &made.facts);
        for (fact, diff) in difference(old, &new.facts) {
            if fact.object().as_ref() == Some(key) || self.shared_changes(&fact, diff) {
                changes.push((fact, diff));
            }
        }
        self.objects.insert(key.clone(), new);
    }

    /// Forgets `key` and appends what that retracts. Void if nothing is known of it.
    pub(crate) fn remove(&mut self, key: &ObjectKey, changes: &mut Vec<Change>) {
        let Some(made) = self.objects.remove(key) else { return };
        for fact in made.facts {
            if fact.object().as_ref() == Some(key) || self.shared_changes(&fact, -1) {
                changes.push((fact, -1));
            }
        }
    }

    /// Ends the lifetime of the facts of `key`, if `renewed` is its newest renewal: what it is reason for after that is
    /// what is left.
    pub(crate) fn expire(&mut self, key: &ObjectKey, renewed: Millis, changes: &mut Vec<Change>) {
        match self.objects.get_mut(key).filter(|made| made.renewed == Some(renewed)) {
            None => {}
            Some(made) if made.after.is_empty() => self.remove(key, changes),
            Some(made) => {
                let facts = std::mem::take(&mut made.after);
                self.make(key, Made { facts, ..Made::default() }, changes);
            }
        }
    }

    /// Whether something of `key` has a lifetime.
    pub(crate) fn has_lifetime(&self, key: &ObjectKey) -> bool {
        self.objects.get(key).is_some_and(|made| made.renewed.is_some())
    }

    /// Whether anything is known of `key`.
    pub(crate) fn knows(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// How many objects are known.
    pub(crate) fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The set of current facts.
    pub(crate) fn set(&self) -> BTreeSet<Fact> {
        self.objects.values().flat_map(|made| made.facts.iter().cloned()).collect()
    }

    /// Counts one more or less object that says `fact`; whether the set changes by it.
    fn shared_changes(&mut self, fact: &Fact, diff: isize) -> bool {
        if diff > 0 {
            let count = self.shared.entry(fact.clone()).or_default();
            *count += 1;
            return *count == 1;
        }
        let count = self.shared.get_mut(fact).expect("a fact is counted before it is retracted");
        *count -= 1;
        let gone = *count == 0;
        if gone {
            self.shared.remove(fact);
        }
        gone
    }
}

/// What turns sorted `old` into sorted `new`.
fn difference(old: &[Fact], new: &[Fact]) -> Vec<Change> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return changes,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.cmp(b),
        };
        if order.is_le()
            && let Some(fact) = old.next()
            && order.is_lt()
        {
            changes.push((fact.clone(), -1));
        }
        if order.is_ge()
            && let Some(fact) = new.next()
            && order.is_gt()
        {
            changes.push((fact.clone(), 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::{Finding, GrantFact, GroupKind, Kind, Reason};

    fn grant() -> Fact {
        Fact::Grant(GrantFact {
            namespace: "shop".into(),
            from: GroupKind::from(Kind::HttpRoute),
            from_namespace: "web".into(),
            to: GroupKind::from(Kind::Service),
            to_name: None,
        })
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::ReferenceGrant, "shop", name)
    }

    fn finding(name: &str, message: &str) -> Fact {
        Fact::Finding(key(name), Finding::new(Reason::Invalid, "", message))
    }

    fn made(facts: Vec<Fact>) -> Normalized {
        Normalized { facts, ..Normalized::default() }
    }

    #[test]
    fn an_unchanged_object_changes_nothing() {
        let (mut facts, mut changes) = (Facts::default(), Vec::new());
        facts.replace(&key("a"), made(vec![grant(), finding("a", "x")]), &mut changes);
        assert_eq!(changes.len(), 2);
        changes.clear();
        facts.replace(&key("a"), made(vec![finding("a", "x"), grant(), grant()]), &mut changes);
        assert_eq!(changes, []);
    }

    #[test]
    fn only_the_difference_of_an_edit_is_handed_on() {
        let (mut facts, mut changes) = (Facts::default(), Vec::new());
        facts.replace(&key("a"), made(vec![grant(), finding("a", "x")]), &mut changes);
        changes.clear();
        facts.replace(&key("a"), made(vec![grant(), finding("a", "y")]), &mut changes);
        changes.sort();
        assert_eq!(changes, [(finding("a", "x"), -1), (finding("a", "y"), 1)]);
    }

    #[test]
    fn equal_facts_of_two_objects_are_one_fact() {
        let (mut facts, mut changes) = (Facts::default(), Vec::new());
        facts.replace(&key("a"), made(vec![grant()]), &mut changes);
        facts.replace(&key("b"), made(vec![grant()]), &mut changes);
        assert_eq!(changes, [(grant(), 1)]);
        facts.remove(&key("a"), &mut changes);
        assert_eq!(changes.len(), 1);
        assert_eq!(facts.set(), BTreeSet::from([grant()]));
        facts.remove(&key("b"), &mut changes);
        assert_eq!(changes, [(grant(), 1), (grant(), -1)]);
        assert_eq!((facts.objects(), facts.shared.len()), (0, 0));
    }

    #[test]
    fn an_expiry_counts_only_for_the_newest_renewal() {
        let (mut facts, mut changes) = (Facts::default(), Vec::new());
        let renewed = |renewed| Normalized {
            facts: vec![finding("a", "x")],
            deadlines: vec![Deadline { key: key("a"), at: renewed + 10, renewed }],
            after: Vec::new(),
        };
        facts.replace(&key("a"), renewed(100), &mut changes);
        facts.replace(&key("a"), renewed(200), &mut changes);
        changes.clear();
        facts.expire(&key("a"), 100, &mut changes);
        assert_eq!(changes, []);
        facts.expire(&key("a"), 200, &mut changes);
        assert_eq!(changes, [(finding("a", "x"), -1)]);
        facts.expire(&key("a"), 200, &mut changes);
        assert_eq!(changes.len(), 1);
    }

    #[test]
    fn what_ends_leaves_what_comes_after_it() {
        let (mut facts, mut changes) = (Facts::default(), Vec::new());
        let ending = Normalized {
            facts: vec![finding("a", "good")],
            deadlines: vec![Deadline { key: key("a"), at: 10, renewed: 10 }],
            after: vec![finding("a", "ended")],
        };
        facts.replace(&key("a"), ending.clone(), &mut changes);
        changes.clear();
        facts.expire(&key("a"), 10, &mut changes);
        assert_eq!(facts.set(), BTreeSet::from([finding("a", "ended")]));
        assert_eq!((changes.len(), facts.has_lifetime(&key("a"))), (2, false));
        facts.replace(&key("a"), ending, &mut changes);
        assert_eq!(facts.set(), BTreeSet::from([finding("a", "good")]));
    }
}
