//! Counters of the service: plain atomics, read by whoever exposes them.

use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_model::ResourceType;

/// One counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }
}

/// One counter for each resource type.
#[derive(Debug, Default)]
pub struct CounterPerType([Counter; ResourceType::ALL.len()]);

impl CounterPerType {
    /// The counter of a type.
    #[must_use]
    pub fn of(&self, kind: ResourceType) -> &Counter {
        &self.0[kind as usize]
    }
}

/// What the service did since it started.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Streams that are open now.
    pub streams: Counter,
    /// Streams refused because there were too many.
    pub refused: Counter,
    /// Responses sent, by type.
    pub pushes: CounterPerType,
    /// Resources sent, by type.
    pub resources: CounterPerType,
    /// Bytes of responses handed to the transport.
    pub bytes: Counter,
    /// Responses accepted, by type.
    pub acks: CounterPerType,
    /// Responses rejected, by type.
    pub nacks: CounterPerType,
    /// Listeners and tables sent although clusters that they name were not proven usable in time.
    pub overdue_pins: Counter,
    /// Observations lost because nobody took them.
    pub observations_dropped: Counter,
}
