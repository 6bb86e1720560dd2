//! A core as a controller drives it: whatever has come to its end by the time of a batch is said in it, as timers would.

use super::{seal, synced};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_engine::{Config, Core};
use tidegate_log::{Event, Object};
use tidegate_model::{Millis, ObjectKey};
use tidegate_normalize::Deadline;
use tidegate_xds::Sealed;

/// Longer than anything that a test waits for, in milliseconds.
const REST_MS: Millis = 2 * 3_600_000;

/// The core, and what it needs to be started anew.
pub struct Controller {
    config: Config,
    /// The core itself, to look at.
    pub core: Core,
    deadlines: BTreeMap<ObjectKey, Vec<Deadline>>,
    objects: BTreeMap<ObjectKey, Object>,
    last: Millis,
}

impl Controller {
    /// One that knows nothing.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let core = Core::new(&config);
        Controller { config, core, deadlines: BTreeMap::new(), objects: BTreeMap::new(), last: 0 }
    }

    /// Forgets everything but what a first list would say again.
    pub fn restart(&mut self) {
        self.core = Core::new(&self.config);
        self.deadlines.clear();
    }

    /// Takes a batch; the first one after a start with everything that there is, and the end of every list.
    ///
    /// # Panics
    ///
    /// If it is not sealed.
    pub fn apply(&mut self, events: &[Event], millis: Millis) -> Arc<Sealed> {
        self.last = self.last.max(millis);
        let mut batch: Vec<Event> =
            self.deadlines.values_mut().flat_map(|deadlines| passed(deadlines, millis)).collect();
        let is_first = self.core.epoch().is_none();
        if is_first {
            batch.extend(self.objects.values().cloned().map(Event::Apply));
        }
        batch.extend_from_slice(events);
        if is_first {
            batch.extend(synced());
        }
        for event in events {
            match event {
                Event::Apply(object) => _ = self.objects.insert(object.key.clone(), object.clone()),
                Event::Delete(key) => _ = self.objects.remove(key),
                Event::Synced(_)
                | Event::Unreadable { .. }
                | Event::Expired { .. }
                | Event::Connect { .. }
                | Event::Disconnect { .. }
                | Event::Rejected { .. } => {}
            }
        }
        let sealed = seal(&mut self.core, &batch, millis);
        self.deadlines.extend(self.core.take_deadlines());
        let awaited = |at: Millis, key| self.deadlines.get(key).is_some_and(|all| all.iter().any(|one| one.at == at));
        let told = sealed.held.iter().all(|held| held.until > millis && awaited(held.until, &held.object));
        assert!(told, "a hold has no end: {:?}", sealed.held);
        sealed
    }

    /// Lets time pass until nothing waits for it any more.
    pub fn rest(&mut self) -> Arc<Sealed> {
        self.apply(&[], self.last + REST_MS)
    }
}

/// What has come to its end.
fn passed(deadlines: &mut Vec<Deadline>, millis: Millis) -> Vec<Event> {
    let passed = deadlines.extract_if(.., |deadline| deadline.at <= millis);
    passed.map(|deadline| Event::Expired { key: deadline.key, renewed: deadline.renewed }).collect()
}
