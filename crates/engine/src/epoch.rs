//! The core: batches of events in, sealed epochs out. Synchronous and deterministic; no clock, no I/O.

use crate::Config;
use crate::facts::{Change, Facts};
use crate::gate::Gate;
use crate::profile::Profiler;
use crate::workers::{Plan, Workers};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_log::{Event, Object};
use tidegate_model::{Epoch, Fact, Kind, Millis, ObjectKey, REPORT_LIFETIME_MS};
use tidegate_normalize::{Deadline, Moment, Normalized, normalize};
use tidegate_xds::{Row, Sealed, Store};

/// The epoch that is being derived, plus one; 0 before the first. Only read by panic hooks.
static IN_PROGRESS: AtomicU64 = AtomicU64::new(0);

/// The epoch that this process derives or derived last: what a panic hook prints. With several engines in a process
/// (in tests) it is the epoch of any of them.
#[must_use]
pub fn epoch_in_progress() -> Option<Epoch> {
    IN_PROGRESS.load(Ordering::Relaxed).checked_sub(1)
}

/// What came of a batch.
#[derive(Clone, Debug)]
pub enum Applied {
    /// Epoch 0 is not complete yet: these kinds are awaited. Nothing may be concluded.
    Pending {
        /// In the order of [`Kind::ALL`].
        missing: Vec<Kind>,
    },
    /// The batch was one epoch, and this is everything that follows from all batches so far.
    Sealed(Arc<Sealed>),
}

/// Facts, dataflow and sealed store. The same batches with the same times give the same sealed values, at any number of
/// workers, on any machine.
///
/// Not `Send`: timely workers are not. Build it on the thread that is to drive it.
pub struct Core {
    facts: Facts,
    gate: Gate,
    /// Changes that wait for epoch 0 to close.
    changes: Vec<Change>,
    workers: Workers,
    store: Store,
    next: Epoch,
    deadlines: BTreeMap<ObjectKey, Vec<Deadline>>,
    /// How long an entry of an EndpointReport is believed after its renewal.
    report_lifetime: Millis,
    /// When the first hold ends, if anything is held.
    next_end: Option<Millis>,
    fact_count: usize,
    changed_facts: usize,
    changed_rows: usize,
}

impl Core {
    /// A core that knows nothing.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let core = Core::with_translation(config.workers, config.translation());
        Core { report_lifetime: config.report_lifetime, ..core }
    }

    /// A core whose translation is told more than a controller ever tells it: for tests that cut an edge.
    #[must_use]
    pub fn with_translation(workers: usize, translate: tidegate_translate::Config) -> Self {
        Core::with_plan(workers, &translation(translate))
    }

    /// A core whose workers log what their operators do, for this profiler. Slower: for benches and tools.
    #[must_use]
    pub fn profiled(config: &Config, profiler: &Profiler) -> Self {
        let plan = translation(config.translation());
        let core = Core::with_workers(Workers::new(config.workers, &plan, Some(profiler)));
        Core { report_lifetime: config.report_lifetime, ..core }
    }

    /// A core around another dataflow.
    pub(crate) fn with_plan(workers: usize, plan: &Plan) -> Self {
        Core::with_workers(Workers::new(workers, plan, None))
    }

    fn with_workers(workers: Workers) -> Self {
        Core {
            facts: Facts::default(),
            gate: Gate::default(),
            changes: Vec::new(),
            workers,
            store: Store::new(),
            next: 0,
            deadlines: BTreeMap::new(),
            report_lifetime: REPORT_LIFETIME_MS,
            next_end: None,
            fact_count: 0,
            changed_facts: 0,
            changed_rows: 0,
        }
    }

    /// Takes one batch.
    ///
    /// While kinds are awaited the batch adds to epoch 0, which closes with the batch that brings the last of them; from
    /// then on every call is one epoch, whether facts change or not. An epoch without changed facts and without a hold that
    /// ends is sealed with the values of the one before and costs no step of the dataflow. Of several events about one object in a batch the
    /// last counts. Events that do not concern objects say nothing here.
    ///
    /// `millis` is when the batch was taken; it becomes part of what is sealed.
    ///
    /// # Panics
    ///
    /// If the dataflow breaks an invariant.
    pub fn apply(&mut self, events: &[Event], millis: Millis) -> Applied {
        IN_PROGRESS.store(self.next + 1, Ordering::Relaxed);
        self.note(events, millis);
        let missing = if self.next == 0 { self.gate.missing() } else { Vec::new() };
        if !missing.is_empty() {
            return Applied::Pending { missing };
        }
        let changes = std::mem::take(&mut self.changes);
        self.changed_facts = changes.len();
        let ends = self.next_end.is_some_and(|end| end <= millis);
        let idle = changes.is_empty() && !ends;
        let rows = if idle { Vec::new() } else { self.workers.run(self.next, millis, changes) };
        self.changed_rows = rows.len();
        let holders: BTreeSet<ObjectKey> = rows.iter().filter_map(|(row, _)| holder(row)).collect();
        let sealed = self.store.seal(self.next, millis, rows);
        if !holders.is_empty() {
            self.await_ends(&holders, &sealed);
        }
        self.next += 1;
        Applied::Sealed(sealed)
    }

    /// What is held of these routes changed: their deadlines, and the first of all.
    fn await_ends(&mut self, routes: &BTreeSet<ObjectKey>, sealed: &Sealed) {
        self.next_end = sealed.held.iter().map(|held| held.until).min();
        for route in routes {
            self.deadlines.insert(route.clone(), Vec::new());
        }
        for held in sealed.held.iter().filter(|held| routes.contains(&held.object)) {
            let deadlines = self.deadlines.entry(held.object.clone()).or_default();
            let deadline = Deadline { key: held.object.clone(), at: held.until, renewed: held.since };
            if !deadlines.contains(&deadline) {
                deadlines.push(deadline);
            }
        }
    }

    /// Works the events into facts, gate and deadlines.
    fn note(&mut self, events: &[Event], millis: Millis) {
        let moment = Moment { now: millis, report_lifetime: self.report_lifetime };
        let mut last: BTreeMap<&ObjectKey, usize> = BTreeMap::new();
        for (index, event) in events.iter().enumerate() {
            match event {
                Event::Apply(Object { key, .. }) | Event::Delete(key) => _ = last.insert(key, index),
                Event::Synced(_)
                | Event::Unreadable { .. }
                | Event::Expired { .. }
                | Event::Connect { .. }
                | Event::Disconnect { .. }
                | Event::Rejected { .. } => {}
            }
        }
        let counts = |key: &ObjectKey, index: usize| last.get(key).is_none_or(|last| *last <= index);
        for (index, event) in events.iter().enumerate() {
            match event {
                Event::Apply(object) if counts(&object.key, index) => {
                    self.replace(&object.key, normalize(object, &moment));
                }
                Event::Delete(key) if counts(key, index) => self.remove(key),
                Event::Expired { key, renewed } if counts(key, index) => self.expire(key, *renewed),
                // A later event of this batch replaces what this one says.
                Event::Apply(_) | Event::Delete(_) | Event::Expired { .. } => {}
                Event::Synced(kind) => self.gate.synced(*kind),
                Event::Unreadable { kind, reason } => self.gate.unreadable(*kind, reason),
                Event::Connect { .. } | Event::Disconnect { .. } | Event::Rejected { .. } => {}
            }
        }
    }

    fn replace(&mut self, key: &ObjectKey, new: Normalized) {
        // Objects without lifetime, nearly all, never get an entry.
        if !new.endings.is_empty() || self.facts.has_lifetime(key) {
            self.deadlines.insert(key.clone(), new.deadlines().cloned().collect());
        }
        let from = self.changes.len();
        self.facts.replace(key, new, &mut self.changes);
        self.count(from);
    }

    fn remove(&mut self, key: &ObjectKey) {
        if self.facts.has_lifetime(key) {
            self.deadlines.insert(key.clone(), Vec::new());
        }
        let from = self.changes.len();
        self.facts.remove(key, &mut self.changes);
        self.count(from);
    }

    fn expire(&mut self, key: &ObjectKey, renewed: Millis) {
        let from = self.changes.len();
        self.facts.expire(key, renewed, &mut self.changes);
        self.count(from);
    }

    /// Counts the changes from index `from` on.
    fn count(&mut self, from: usize) {
        let net: isize = self.changes[from..].iter().map(|(_, diff)| diff).sum();
        self.fact_count = self.fact_count.checked_add_signed(net).expect("only what was added is retracted");
    }

    /// The deadlines that changed since they were last taken, by object; none left means that nothing expires there any
    /// more.
    pub fn take_deadlines(&mut self) -> BTreeMap<ObjectKey, Vec<Deadline>> {
        std::mem::take(&mut self.deadlines)
    }

    /// The current facts, including those that wait for epoch 0 to close. Costs a copy: for tests and tools.
    #[must_use]
    pub fn facts(&self) -> BTreeSet<Fact> {
        self.facts.set()
    }

    /// How many facts there are.
    #[must_use]
    pub fn fact_count(&self) -> usize {
        self.fact_count
    }

    /// How many objects there are.
    #[must_use]
    pub fn object_count(&self) -> usize {
        self.facts.objects()
    }

    /// Whether anything is known of the object.
    #[must_use]
    pub fn knows(&self, key: &ObjectKey) -> bool {
        self.facts.knows(key)
    }

    /// The epoch sealed last.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.next.checked_sub(1)
    }

    /// The kinds that are awaited; empty once epoch 0 is sealed.
    #[must_use]
    pub fn missing(&self) -> Vec<Kind> {
        if self.next == 0 { self.gate.missing() } else { Vec::new() }
    }

    /// What is listed and what cannot be read.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// How many facts the last epoch added or retracted.
    #[must_use]
    pub fn changed_facts(&self) -> usize {
        self.changed_facts
    }

    /// How many output rows the last epoch added or retracted; 0 means that the sealed values are those of the epoch
    /// before.
    #[must_use]
    pub fn changed_rows(&self) -> usize {
        self.changed_rows
    }

    /// The sealed store, for what its checker found.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }
}

/// The route of which the row holds an entry.
fn holder(row: &Row) -> Option<ObjectKey> {
    match row {
        Row::Held(held) => Some(held.object.clone()),
        Row::Gateway(_)
        | Row::Listener(..)
        | Row::Table(..)
        | Row::VirtualHost(..)
        | Row::Secret(..)
        | Row::Shows(..)
        | Row::Member(..)
        | Row::Cluster(..)
        | Row::Endpoints(..)
        | Row::KubeNode(..)
        | Row::Status(..) => None,
    }
}

impl Config {
    /// What translation is told of it.
    fn translation(&self) -> tidegate_translate::Config {
        let translation = tidegate_translate::Config::new(self.controller.clone());
        tidegate_translate::Config { bind: self.bind, usable: self.usable.clone(), hold: self.hold, ..translation }
    }
}

/// The whole translation as a dataflow.
fn translation(config: tidegate_translate::Config) -> Plan {
    Arc::new(move |worker, output| {
        let (inputs, probe) = tidegate_translate::build(worker, &config, output);
        (Box::new(inputs), probe)
    })
}
