//! The timer wheel: deadlines of facts with a lifetime, turned into logged events when they pass.
//!
//! Events and not future-dated updates: the batcher of a dataflow merges everything that is pending at every epoch,
//! while a wheel costs nothing until something is due.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tidegate_log::Event;
use tidegate_model::{Millis, ObjectKey};
use tidegate_normalize::Deadline;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::{self, Expired};

/// The longest single wait. What is due later is looked at again then, so that a wall clock that was set is noticed.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Deadlines by object.
#[derive(Default)]
pub(crate) struct Timers {
    queue: DelayQueue<Deadline>,
    keys: BTreeMap<ObjectKey, Vec<delay_queue::Key>>,
}

impl Timers {
    /// Replaces the deadlines of `key`.
    pub(crate) fn set(&mut self, key: ObjectKey, deadlines: Vec<Deadline>, now: Millis) {
        for old in self.keys.remove(&key).unwrap_or_default() {
            self.queue.try_remove(&old);
        }
        let keys: Vec<_> = deadlines.into_iter().map(|deadline| self.insert(deadline, now)).collect();
        if !keys.is_empty() {
            self.keys.insert(key, keys);
        }
    }

    /// How many deadlines are pending.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Waits for the next deadline; for ever if there is none. Loses nothing when dropped while it waits.
    pub(crate) async fn wait(&mut self) -> Deadline {
        if self.queue.is_empty() {
            return std::future::pending().await;
        }
        let due = poll_fn(|context| self.queue.poll_expired(context)).await;
        self.taken(due.expect("a queue that is not empty has a next deadline"))
    }

    /// What is due at `now`, as events: `first`, which was waited for, and whatever else has passed.
    pub(crate) async fn due(&mut self, first: Option<Deadline>, now: Millis) -> Vec<Event> {
        let mut passed: Vec<Deadline> = first.into_iter().collect();
        while let Some(deadline) = self.poll_due().await {
            passed.push(deadline);
        }
        let mut events = Vec::new();
        for deadline in passed {
            if deadline.at > now {
                // It waited its longest, or the clock was set back.
                let object = deadline.key.clone();
                let key = self.insert(deadline, now);
                self.keys.entry(object).or_default().push(key);
            } else {
                events.push(Event::Expired { key: deadline.key, renewed: deadline.renewed });
            }
        }
        events
    }

    /// The next deadline that has passed, without waiting.
    async fn poll_due(&mut self) -> Option<Deadline> {
        let poll = poll_fn(|context| match self.queue.poll_expired(context) {
            Poll::Ready(due) => Poll::Ready(due),
            Poll::Pending => Poll::Ready(None),
        });
        let due = poll.await?;
        Some(self.taken(due))
    }

    /// Forgets the key of what left the queue: the queue gives it to another deadline.
    fn taken(&mut self, due: Expired<Deadline>) -> Deadline {
        let key = due.key();
        let deadline = due.into_inner();
        if let Entry::Occupied(mut keys) = self.keys.entry(deadline.key.clone()) {
            keys.get_mut().retain(|other| *other != key);
            if keys.get().is_empty() {
                keys.remove();
            }
        }
        deadline
    }

    fn insert(&mut self, deadline: Deadline, now: Millis) -> delay_queue::Key {
        // At least a millisecond, so that what is due but not yet past cannot spin.
        let wait = Duration::from_millis(deadline.at.saturating_sub(now).max(1));
        self.queue.insert(deadline, wait.min(LONGEST_WAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::Kind;

    fn key() -> ObjectKey {
        ObjectKey::new(Kind::Service, "shop", "a")
    }

    fn deadline(at: Millis) -> Deadline {
        Deadline { key: key(), at, renewed: at - 10 }
    }

    #[tokio::test]
    async fn a_deadline_passes_once_and_a_replaced_one_never() {
        let mut timers = Timers::default();
        timers.set(key(), vec![deadline(20)], 0);
        timers.set(key(), vec![deadline(30)], 10);
        let first = timers.wait().await;
        assert_eq!(first.at, 30);
        assert_eq!(timers.due(Some(first), 30).await, [Event::Expired { key: key(), renewed: 20 }]);
        assert_eq!((timers.len(), timers.keys.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_deadline_that_the_clock_has_not_reached_is_waited_for_again() {
        let mut timers = Timers::default();
        timers.set(key(), vec![deadline(20)], 10);
        let first = timers.wait().await;
        assert_eq!(timers.due(Some(first), 15).await, []);
        let again = timers.wait().await;
        assert_eq!(timers.due(Some(again), 20).await.len(), 1);
        timers.set(key(), vec![deadline(20)], 10);
        timers.set(key(), Vec::new(), 10);
        assert_eq!((timers.len(), timers.keys.len()), (0, 0));
    }
}
