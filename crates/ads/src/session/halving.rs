//! Which of several changes does a client reject? Found out by trying half of the suspects at a time.
//!
//! A rejection names nobody where a field rule is broken, and tables, which are sent alone, are rejected for any of
//! their entries. One culprit among `n` costs `log2(n)` trials, rounded up, and one more for what was held back
//! meanwhile; every further culprit costs as much again.

use std::collections::BTreeSet;

/// The suspects. Whoever is not among them is tried when there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Halving<K> {
    suspects: BTreeSet<K>,
    /// Whether one of them at least is bad, as far as is known. If not, the last one is tried too before it is blamed.
    certain: bool,
    /// Some were let go since the last rejection: the trial under way may hold all who are left, and be one all the same.
    fewer: bool,
}

impl<K> Default for Halving<K> {
    fn default() -> Self {
        Halving { suspects: BTreeSet::new(), certain: true, fewer: false }
    }
}

impl<K: Ord + Clone> Halving<K> {
    /// Whether somebody is suspected. Then nothing but a trial may be sent.
    pub(crate) fn is_on(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// What to try next: the first half.
    pub(crate) fn trial(&self) -> BTreeSet<K> {
        self.suspects.iter().take(self.suspects.len().div_ceil(2)).cloned().collect()
    }

    /// All of these together were rejected, maybe for something that is not among them. Returns the culprit, once there
    /// can be no other; or everybody who may be, if the trial was none, because it could not leave the others out: then
    /// there is no way to tell.
    pub(crate) fn rejected(&mut self, tried: BTreeSet<K>, with_others: bool) -> BTreeSet<K> {
        if self.suspects.is_empty() {
            *self = Halving { suspects: tried, certain: !with_others, fewer: false };
            return self.culprit();
        }
        let common: BTreeSet<K> = tried.intersection(&self.suspects).cloned().collect();
        if common.is_empty() {
            return tried;
        }
        let fewer = std::mem::take(&mut self.fewer);
        if with_others && common.len() == self.suspects.len() {
            self.certain = false;
            return BTreeSet::new();
        }
        if !fewer && common.len() == self.suspects.len() {
            return std::mem::take(self).suspects;
        }
        self.certain |= common == tried && !with_others;
        self.suspects = common;
        self.culprit()
    }

    /// These were accepted. Returns the culprit if there is no other suspect any more.
    pub(crate) fn accepted(&mut self, tried: &BTreeSet<K>) -> BTreeSet<K> {
        let before = self.suspects.len();
        self.suspects.retain(|suspect| !tried.contains(suspect));
        if self.suspects.len() < before { self.culprit() } else { BTreeSet::new() }
    }

    /// Forgets suspects that are wanted no more. The culprit may be among them.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(&K) -> bool) {
        let before = self.suspects.len();
        self.suspects.retain(is_wanted);
        if self.suspects.len() < before {
            (self.certain, self.fewer) = (false, true);
        }
    }

    fn culprit(&mut self) -> BTreeSet<K> {
        match self.suspects.len() {
            0 => std::mem::take(self).suspects,
            1 if self.certain => std::mem::take(self).suspects,
            _ => BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a client that rejects whatever holds one of `bad`; returns the culprits found and the responses used.
    fn play(count: u32, bad: &[u32]) -> (BTreeSet<u32>, u32) {
        let (mut found, mut responses) = (BTreeSet::new(), 0);
        let mut open: BTreeSet<u32> = (0..count).collect();
        let mut halving = Halving::default();
        while !open.is_empty() {
            let tried = if halving.is_on() { halving.trial() } else { open.clone() };
            responses += 1;
            let culprits = if tried.iter().any(|key| bad.contains(key)) {
                halving.rejected(tried, false)
            } else {
                open.retain(|key| !tried.contains(key));
                halving.accepted(&tried)
            };
            open.retain(|key| !culprits.contains(key));
            found.extend(culprits);
        }
        (found, responses)
    }

    #[test]
    fn one_culprit_costs_the_logarithm_wherever_it_stands() {
        for count in [1_u32, 2, 3, 7, 64, 1_000] {
            for bad in [0, count / 2, count - 1] {
                let (found, responses) = play(count, &[bad]);
                assert_eq!(found, BTreeSet::from([bad]));
                // The first response, the trials, and what was held back.
                let trials = count.next_power_of_two().trailing_zeros();
                assert!(responses <= 1 + trials + 1, "{count}: {responses}");
            }
        }
    }

    #[test]
    fn several_culprits_are_all_found() {
        for bad in [&[0, 1][..], &[0, 99], &[3, 50, 51, 98], &[]] {
            assert_eq!(play(100, bad).0, bad.iter().copied().collect());
        }
        let everybody: Vec<u32> = (0..16).collect();
        assert_eq!(play(16, &everybody).0.len(), 16);
    }

    #[test]
    fn the_last_suspect_is_tried_if_another_may_have_been_it() {
        let mut halving = Halving::default();
        assert_eq!(halving.rejected(BTreeSet::from([1, 2]), false), BTreeSet::new());
        halving.retain(|key| *key != 1);
        assert_eq!(halving.trial(), BTreeSet::from([2]));
        let mut guilty = halving.clone();
        assert_eq!(guilty.rejected(BTreeSet::from([2]), false), BTreeSet::from([2]));
        assert_eq!(halving.accepted(&BTreeSet::from([2])), BTreeSet::new());
        assert!(!halving.is_on() && !guilty.is_on());
        // The culprit may be one that was sent anew meanwhile, again and again.
        assert_eq!(halving.rejected(BTreeSet::from([1]), true), BTreeSet::new());
        assert_eq!(halving.rejected(BTreeSet::from([1]), true), BTreeSet::new());
        assert_eq!(halving.trial(), BTreeSet::from([1]));
    }

    #[test]
    fn a_trial_that_holds_all_who_are_left_convicts_nobody_yet() {
        let mut halving = Halving::default();
        halving.rejected(BTreeSet::from([1, 2, 3]), false);
        assert_eq!(halving.trial(), BTreeSet::from([1, 2]));
        halving.retain(|key| *key != 3);
        assert_eq!(halving.rejected(BTreeSet::from([1, 2]), false), BTreeSet::new());
        assert_eq!(halving.trial(), BTreeSet::from([1]));
        assert_eq!(halving.accepted(&BTreeSet::from([1])), BTreeSet::from([2]));
    }

    /// Whatever is rejected, the suspects get fewer.
    #[test]
    fn a_trial_that_held_others_too_comes_to_an_end() {
        let mut halving = Halving::default();
        halving.rejected(BTreeSet::from([1, 2, 3, 4]), false);
        assert_eq!(halving.rejected(BTreeSet::from([1, 2, 9]), false), BTreeSet::new());
        assert_eq!(halving.rejected(BTreeSet::from([1, 2, 9]), false), BTreeSet::from([1, 2]));
        assert!(!halving.is_on());
        halving.rejected(BTreeSet::from([1, 2]), false);
        assert_eq!(halving.rejected(BTreeSet::from([7, 8]), false), BTreeSet::from([7, 8]));
    }
}
