//! What is kept, and for how long.

use crate::certificate::Material;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use tidegate_model::{Millis, Name, ObjectKey};

/// How long material stays that no Secret holds and no seal names any more: a slow client may still be planned for the
/// seal before the newest one. In milliseconds.
const KEEP_MS: Millis = 60_000;

/// Material by digest. Clones share it.
///
/// Material is kept while a Secret holds it or the newest seal names it, and a minute longer.
#[derive(Clone, Default)]
pub struct Vault(Arc<Mutex<Shelves>>);

#[derive(Default)]
struct Shelves {
    materials: BTreeMap<Name, Shelf>,
    /// Which Secret holds what.
    holders: BTreeMap<ObjectKey, Name>,
    /// What the newest seal names.
    sealed: BTreeSet<Name>,
}

struct Shelf {
    material: Arc<Material>,
    /// How many Secrets hold it.
    holders: usize,
    /// Since when nobody needs it.
    idle: Option<Millis>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({} materials)", self.len())
    }
}

impl Vault {
    /// An empty vault.
    #[must_use]
    pub fn new() -> Self {
        Vault::default()
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// The Secret holds this from now on; `None`: nothing.
    pub fn hold(&self, secret: &ObjectKey, material: Option<Material>) {
        let mut shelves = self.shelves();
        let before = match &material {
            Some(material) => shelves.holders.insert(secret.clone(), material.digest.clone()),
            None => shelves.holders.remove(secret),
        };
        if let Some(material) = material {
            let digest = material.digest.clone();
            let fresh = || Shelf { material: Arc::new(material), holders: 0, idle: None };
            shelves.materials.entry(digest).or_insert_with(fresh).holders += 1;
        }
        if let Some(shelf) = before.and_then(|digest| shelves.materials.get_mut(&digest)) {
            shelf.holders -= 1;
        }
    }

    /// A seal names these and no others. Whatever has been idle for long enough at `now` is dropped.
    pub fn sealed(&self, digests: impl IntoIterator<Item = Name>, now: Millis) {
        self.shelves().sealed = digests.into_iter().collect();
        self.sweep(now);
    }

    /// Drops whatever has been idle for long enough at `now`.
    pub fn sweep(&self, now: Millis) {
        let shelves = &mut *self.shelves();
        let sealed = &shelves.sealed;
        shelves.materials.retain(|digest, shelf| {
            if shelf.holders > 0 || sealed.contains(digest) {
                shelf.idle = None;
                return true;
            }
            now < *shelf.idle.get_or_insert(now) + KEEP_MS
        });
    }

    /// The material of this digest.
    #[must_use]
    pub fn get(&self, digest: &str) -> Option<Arc<Material>> {
        self.shelves().materials.get(digest).map(|shelf| shelf.material.clone())
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shelves().materials.len()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::Kind;

    fn material(digest: &str) -> Material {
        Material { digest: digest.into(), chain: "chain".into(), key: "key".into() }
    }

    fn secret(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Secret, "shop", name)
    }

    #[test]
    fn material_stays_while_a_secret_or_a_seal_needs_it_and_a_minute_longer() {
        let vault = Vault::new();
        vault.hold(&secret("a"), Some(material("one")));
        vault.hold(&secret("b"), Some(material("one")));
        vault.sealed(["one".into()], 0);
        vault.hold(&secret("a"), Some(material("two")));
        vault.hold(&secret("b"), None);
        vault.sweep(KEEP_MS * 2);
        assert!(vault.get("one").is_some(), "the seal names it");
        vault.sealed(["two".into()], 1_000_000);
        vault.sweep(1_000_000 + KEEP_MS - 1);
        assert!(vault.get("one").is_some(), "a client may be behind");
        vault.sweep(1_000_000 + KEEP_MS);
        assert_eq!((vault.get("one"), vault.len()), (None, 1));
    }

    #[test]
    fn material_that_comes_back_is_not_dropped() {
        let vault = Vault::new();
        vault.hold(&secret("a"), Some(material("one")));
        vault.hold(&secret("a"), None);
        vault.sweep(0);
        vault.hold(&secret("a"), Some(material("one")));
        vault.sweep(KEEP_MS * 3);
        vault.hold(&secret("a"), Some(material("one")));
        vault.hold(&secret("a"), None);
        vault.sweep(KEEP_MS * 4);
        assert!(vault.get("one").is_some());
        vault.sweep(KEEP_MS * 5);
        assert!(vault.is_empty());
    }

    #[test]
    fn nothing_shows_what_is_kept() {
        let vault = Vault::new();
        vault.hold(&secret("a"), Some(material("one")));
        assert_eq!(format!("{vault:?} {:?}", vault.get("one")), "Vault(1 materials) Some(Material(one))");
    }
}
