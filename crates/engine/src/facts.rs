//! The current facts by object: what to retract when the object changes. Objects themselves are not kept.
//!
//! *Invariant*: what is handed on is a set. Equal facts of two objects (two grants that say the same) are one fact to
//! the dataflow, added with the first of them and retracted with the last.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{Fact, Millis, ObjectKey};
use tidegate_normalize::{Ending, Normalized};

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
    /// What becomes of those that have a lifetime.
    endings: Vec<Ending>,
}

impl Facts {
    /// Replaces what is known of `key` by `new` and appends what that changes.
    pub(crate) fn replace(&mut self, key: &ObjectKey, new: Normalized, changes: &mut Vec<Change>) {
        let Normalized { facts, endings } = new;
        self.make(key, Made { facts, endings }, changes);
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

    /// Ends the lifetime of those facts of `key` whose newest renewal is `renewed`, if there are any: what comes after them
    /// takes their place.
    pub(crate) fn expire(&mut self, key: &ObjectKey, renewed: Millis, changes: &mut Vec<Change>) {
        let Some(made) = self.objects.get_mut(key) else { return };
        let Some(index) = made.endings.iter().position(|ending| ending.deadline.renewed == renewed) else { return };
        let Ending { mut ends, after, .. } = made.endings.swap_remove(index);
        ends.sort();
        let endings = std::mem::take(&mut made.endings);
        let stays = made.facts.iter().filter(|fact| ends.binary_search(fact).is_err());
        let facts = stays.cloned().chain(after).collect();
        self.make(key, Made { facts, endings }, changes);
    }

    /// Whether something of `key` has a lifetime.
    pub(crate) fn has_lifetime(&self, key: &ObjectKey) -> bool {
        self.objects.get(key).is_some_and(|made| !made.endings.is_empty())
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
    use std::slice;
    use tidegate_model::{Finding, GrantFact, GroupKind, Kind, Reason};
    use tidegate_normalize::Deadline;

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

    fn ending(renewed: Millis, ends: &[Fact], after: &[Fact]) -> Ending {
        let deadline = Deadline { key: key("a"), at: renewed + 10, renewed };
        Ending { deadline, ends: ends.to_vec(), after: after.to_vec() }
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
        let facts_of = vec![finding("a", "x")];
        let renewed = |renewed| Normalized { endings: vec![ending(renewed, &facts_of, &[])], facts: facts_of.clone() };
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
        let object = Normalized {
            facts: vec![finding("a", "good")],
            endings: vec![ending(10, &[finding("a", "good")], &[finding("a", "ended")])],
        };
        facts.replace(&key("a"), object.clone(), &mut changes);
        changes.clear();
        facts.expire(&key("a"), 10, &mut changes);
        assert_eq!(facts.set(), BTreeSet::from([finding("a", "ended")]));
        assert_eq!((changes.len(), facts.has_lifetime(&key("a"))), (2, false));
        facts.replace(&key("a"), object, &mut changes);
        assert_eq!(facts.set(), BTreeSet::from([finding("a", "good")]));
    }

    #[test]
    fn each_renewal_ends_its_own_facts_and_leaves_the_others() {
        let (mut facts, mut changes) = (Facts::default(), Vec::new());
        let [lasting, one, two, ended] = ["lasting", "one", "two", "ended"].map(|text| finding("a", text));
        let endings =
            vec![ending(10, slice::from_ref(&one), &[]), ending(20, slice::from_ref(&two), slice::from_ref(&ended))];
        facts.replace(&key("a"), Normalized { facts: vec![lasting.clone(), one, two], endings }, &mut changes);
        facts.expire(&key("a"), 20, &mut changes);
        assert_eq!((facts.set().len(), facts.has_lifetime(&key("a"))), (3, true));
        facts.expire(&key("a"), 10, &mut changes);
        assert_eq!(facts.set(), BTreeSet::from([lasting, ended]));
        assert!(!facts.has_lifetime(&key("a")) && facts.knows(&key("a")), "an object is there as long as it is there");
    }
}
