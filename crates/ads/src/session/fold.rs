//! A hash over the set of resources that a client holds, kept up to date by what changes.

use std::fmt;
use tidegate_xds::Version;

/// Four lanes added with wrap-around over the BLAKE3 hash of each (name, version). Addition, not exclusive or: equal
/// content under two names must not cancel out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fold([u64; 4]);

impl Fold {
    /// The fold of these resources.
    pub(crate) fn of<'a>(resources: impl IntoIterator<Item = (&'a str, Version)>) -> Self {
        let mut fold = Fold::default();
        resources.into_iter().for_each(|(name, version)| fold.add(name, version));
        fold
    }

    /// Adds a resource to the set.
    pub(crate) fn add(&mut self, name: &str, version: Version) {
        self.combine(name, version, u64::wrapping_add);
    }

    /// Takes a resource out of the set.
    pub(crate) fn remove(&mut self, name: &str, version: Version) {
        self.combine(name, version, u64::wrapping_sub);
    }

    fn combine(&mut self, name: &str, version: Version, operation: fn(u64, u64) -> u64) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(version.as_bytes()).update(name.as_bytes());
        let hash = hasher.finalize();
        for (lane, bytes) in self.0.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            *lane = operation(*lane, u64::from_le_bytes(word));
        }
    }
}

/// What is sent as `version_info`: never empty, also for the empty set.
impl fmt::Display for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0; 32];
        for (place, lane) in bytes.chunks_exact_mut(8).zip(self.0) {
            place.copy_from_slice(&lane.to_le_bytes());
        }
        fmt::Display::fmt(&Version::of(&bytes), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_changes_does_not_matter_and_removal_undoes_addition() {
        let (a, b) = (Version::of(b"a"), Version::of(b"b"));
        let mut fold = Fold::of([("x", a), ("y", b)]);
        assert_eq!(fold, Fold::of([("y", b), ("x", a)]));
        fold.remove("y", b);
        assert_eq!(fold, Fold::of([("x", a)]));
        fold.remove("x", a);
        assert_eq!(fold, Fold::default());
    }

    #[test]
    fn two_resources_that_swap_their_content_change_the_fold() {
        let (a, b) = (Version::of(b"a"), Version::of(b"b"));
        assert_ne!(Fold::of([("x", a), ("y", b)]).to_string(), Fold::of([("x", b), ("y", a)]).to_string());
        assert_ne!(Fold::of([("x", a), ("y", a)]), Fold::default());
    }
}
