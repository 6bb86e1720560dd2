//! What the service counts: plain atomics, read by whoever exposes them.

use crate::cause::Cause;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_model::{Epoch, Millis, ResourceType};

/// One number that goes up, or up and down.
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

    /// Adds one unless the value is `bound` already; says whether it did.
    pub(crate) fn add_below(&self, bound: u64) -> bool {
        let more = |value| (value < bound).then_some(value + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// One of each for every resource type.
#[derive(Debug, Default)]
pub struct PerType<T>([T; ResourceType::ALL.len()]);

impl<T> PerType<T> {
    /// The one of a type.
    #[must_use]
    pub fn of(&self, kind: ResourceType) -> &T {
        &self.0[kind as usize]
    }
}

/// One of each for every cause.
#[derive(Debug, Default)]
pub struct PerCause<T>([T; Cause::ALL.len()]);

impl<T> PerCause<T> {
    /// The one of a cause.
    #[must_use]
    pub fn of(&self, cause: Cause) -> &T {
        &self.0[cause as usize]
    }
}

/// What was sent.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Responses.
    pub pushes: Counter,
    /// Their bytes, framed, as handed to the transport.
    pub bytes: Counter,
}

/// How long something took, in milliseconds: how many took at most each of [`Histogram::BOUNDS`], and all longer ones.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; Histogram::BOUNDS.len() + 1],
    sum: Counter,
}

impl Histogram {
    /// Upper bounds of all buckets but the last, which has none. From what a lone change takes to what nobody waits for.
    pub const BOUNDS: [Millis; 14] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000];

    /// Counts one.
    pub(crate) fn observe(&self, took: Millis) {
        let bucket = Histogram::BOUNDS.partition_point(|bound| *bound < took);
        self.buckets[bucket].add(1);
        self.sum.add(took);
    }

    /// How many fell into each bucket, and the sum of all, in milliseconds.
    #[must_use]
    pub fn read(&self) -> ([u64; Histogram::BOUNDS.len() + 1], Millis) {
        (self.buckets.each_ref().map(Counter::get), self.sum.get())
    }
}

/// The newest seal that has something to say to anybody: what clients are compared with.
#[derive(Debug, Default)]
pub struct Newest {
    /// The epoch plus one; 0 is none.
    next: Counter,
    millis: Counter,
}

impl Newest {
    /// Its epoch and when its batch was taken. The two are read one after the other: for figures, not for decisions.
    #[must_use]
    pub fn get(&self) -> Option<(Epoch, Millis)> {
        self.next.get().checked_sub(1).map(|epoch| (epoch, self.millis.get()))
    }

    pub(crate) fn set(&self, epoch: Epoch, millis: Millis) {
        self.millis.set(millis);
        self.next.set(epoch + 1);
    }
}

/// What the service did since it started.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Streams that are open now, those that have not said who they are included.
    pub streams: Counter,
    /// Streams refused because there were too many.
    pub refused: Counter,
    /// Streams ended because a client asked for more, or said something else, than it may.
    pub closed: Counter,
    /// Streams ended because of their age.
    pub aged: Counter,
    /// Responses sent, by type and cause.
    pub traffic: PerType<PerCause<Traffic>>,
    /// Resources sent, by type.
    pub resources: PerType<Counter>,
    /// Bytes of responses that were made and that the transport has not taken, now.
    pub queued: Counter,
    /// Responses accepted, by type.
    pub acks: PerType<Counter>,
    /// Responses rejected, by type.
    pub nacks: PerType<Counter>,
    /// From the batch that brought a change to the response that carries it, by type.
    pub event_to_send: PerType<Histogram>,
    /// From the batch that brought a change to the client's acceptance of the response that carried it, by type.
    pub event_to_ack: PerType<Histogram>,
    /// Listeners and tables sent although clusters that they name were not proven usable in time.
    pub overdue_pins: Counter,
    /// Observations lost because nobody took them.
    pub observations_dropped: Counter,
    /// The newest seal.
    pub newest: Newest,
}

impl Metrics {
    /// Responses of a type that were sent, whatever the cause.
    #[must_use]
    pub fn pushes(&self, kind: ResourceType) -> u64 {
        Cause::ALL.iter().map(|cause| self.traffic.of(kind).of(*cause).pushes.get()).sum()
    }

    /// Bytes of a type that were sent, whatever the cause.
    #[must_use]
    pub fn bytes(&self, kind: ResourceType) -> u64 {
        Cause::ALL.iter().map(|cause| self.traffic.of(kind).of(*cause).bytes.get()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_a_bound_into_its_own_bucket_and_what_is_longer_into_the_last() {
        let histogram = Histogram::default();
        for took in [0, 1, 2, 60_000, 60_001] {
            histogram.observe(took);
        }
        let (buckets, sum) = histogram.read();
        assert_eq!((buckets[0], buckets[1], buckets[2], buckets[13], buckets[14]), (2, 1, 0, 1, 1));
        assert_eq!(sum, 120_004);
    }

    #[test]
    fn a_bounded_counter_stops_at_its_bound() {
        let counter = Counter::default();
        assert_eq!([counter.add_below(2), counter.add_below(2), counter.add_below(2)], [true, true, false]);
        counter.subtract(1);
        assert!(counter.add_below(2));
    }
}
