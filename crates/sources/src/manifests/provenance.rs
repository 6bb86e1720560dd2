//! Which file an object came from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use tidegate_model::ObjectKey;

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: Arc<Path>,
    /// The line where the object begins, from 1.
    pub line: u64,
}

/// Where every object stands, shared with whoever wants to tell. Clones see the same map. It runs ahead of the sealed
/// epochs by what the engine has not taken yet.
#[derive(Clone, Debug, Default)]
pub struct Provenance(Arc<RwLock<BTreeMap<ObjectKey, Place>>>);

impl Provenance {
    /// Where the object stands, none if no file has it.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Place> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Takes over what changed; none means the object is gone.
    pub(super) fn update(&self, places: impl IntoIterator<Item = (ObjectKey, Option<Place>)>) {
        let mut map = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (key, place) in places {
            match place {
                Some(place) => drop(map.insert(key, place)),
                None => drop(map.remove(&key)),
            }
        }
    }
}
