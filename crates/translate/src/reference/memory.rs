//! The oracle of the retarget hold: what stood there at the epoch before, and one loop over everything that is wanted.

use super::rows;
use crate::Config;
use crate::hold::{self, EntryKey, Previous, World};
use crate::names::Backend;
use crate::rank::Ranked;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{DerivedStatus, Fact, Held, Millis, NamespacedName, ObjectKey, RouteKey};
use tidegate_xds::Row;

/// What was published at the epoch before, entry by entry. Empty before the first one.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    published: BTreeMap<EntryKey, Previous>,
}

/// What all routes want; [`Memory::hold`] makes of it what is published.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) entries: BTreeMap<EntryKey, (RouteKey, Vec<Arc<Ranked>>)>,
    pub(super) uses: BTreeSet<(NamespacedName, Backend)>,
    pub(super) statuses: BTreeMap<ObjectKey, Arc<DerivedStatus>>,
    pub(super) held: BTreeSet<Held>,
}

impl Memory {
    /// Every row that follows from `facts` in a batch taken at `millis`. To be called at every epoch, since each is the
    /// past of the next.
    #[must_use]
    pub fn translate(&mut self, config: &Config, facts: &BTreeSet<Fact>, millis: Millis) -> BTreeSet<Row> {
        rows(config, facts, self, millis)
    }

    /// Puts held entries in the place of those that are wanted, and remembers what is published.
    pub(super) fn hold(&mut self, wanted: &mut Wanted, world: World) {
        let before = std::mem::take(&mut self.published);
        for (key, (route, entries)) in &mut wanted.entries {
            let hold = match (before.get(key), entries.as_slice()) {
                (Some(previous), [only]) => hold::decide(&world, route, previous, only),
                _ => None,
            };
            if let Some(hold) = &hold {
                *entries = vec![hold.ranked(&entries[0])];
                wanted.held.insert(hold.held(route, key));
            }
            if let [only] = entries.as_slice() {
                self.published.insert(key.clone(), (only.entry.clone(), hold.map(|hold| hold.since)));
            }
            let used = entries.iter().flat_map(|ranked| &ranked.uses);
            wanted.uses.extend(used.map(|backend| (key.host.gateway.clone(), backend.clone())));
        }
        for (object, status) in &mut wanted.statuses {
            let held: Vec<&Held> = wanted.held.iter().filter(|held| held.object == *object).collect();
            *status = hold::with_held(status, &held);
        }
    }
}
