//! Initial completeness: what must be listed before anything is said to anybody.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::Kind;

/// Which kinds are listed. Opens once, when every kind is synced or alone unreadable, and never closes again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    synced: BTreeSet<Kind>,
    unreadable: BTreeMap<Kind, String>,
}

impl Gate {
    /// The kind was listed whole.
    pub(crate) fn synced(&mut self, kind: Kind) {
        self.unreadable.remove(&kind);
        self.synced.insert(kind);
    }

    /// The kind cannot be read. What is known of it stays: a source in trouble keeps its last facts.
    pub(crate) fn unreadable(&mut self, kind: Kind, reason: &str) {
        self.unreadable.insert(kind, reason.to_owned());
    }

    /// The kinds that are awaited, in the order of [`Kind::ALL`]; none when the gate is open. Every kind while nothing
    /// at all can be read: "everything is unreadable" is no state of the world.
    #[must_use]
    pub fn missing(&self) -> Vec<Kind> {
        let nothing = self.synced.is_empty();
        let missing = |kind: &Kind| nothing || !(self.synced.contains(kind) || self.unreadable.contains_key(kind));
        Kind::ALL.into_iter().filter(missing).collect()
    }

    /// The kinds that cannot be read now, and why.
    #[must_use]
    pub fn unreadable_kinds(&self) -> &BTreeMap<Kind, String> {
        &self.unreadable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_opens_with_the_last_kind() {
        let mut gate = Gate::default();
        for kind in Kind::ALL {
            assert!(gate.missing().contains(&kind));
            gate.synced(kind);
        }
        assert_eq!(gate.missing(), []);
    }

    #[test]
    fn an_unreadable_kind_holds_nobody_back_but_nothing_readable_holds_everybody() {
        let mut gate = Gate::default();
        Kind::ALL.into_iter().for_each(|kind| gate.unreadable(kind, "forbidden"));
        assert_eq!(gate.missing(), Kind::ALL);
        gate.synced(Kind::Gateway);
        assert_eq!(gate.missing(), []);
        assert_eq!(gate.unreadable_kinds().len(), Kind::ALL.len() - 1);
        gate.synced(Kind::Service);
        assert_eq!(gate.unreadable_kinds().len(), Kind::ALL.len() - 2);
    }
}
