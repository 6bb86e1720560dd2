//! What the operators of the dataflow cost, what they hold and what they say to each other.
//!
//! Timely logs when it schedules an operator and when that returns, and every message on a channel; differential logs
//! the batches of arrangements. Logging slows an epoch by a fifth or more, so it is a choice at the start; and it needs a
//! clock, which whoever asks brings along.
//!
//! Each worker writes into a book of its own; a [`Profiler`] reads all of them, from any thread and at any time.

use differential_dataflow::logging::{DifferentialEvent, DifferentialEventBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use timely::logging::{ChannelsEvent, MessagesEvent, StartStop, TimelyEvent, TimelyEventBuilder};
use timely::worker::Worker;

/// One operator of the dataflow, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// Its name: that of the arrangement or reduction where it has one.
    pub name: String,
    /// Where it is: indexes from the outermost scope inwards. Unique.
    pub address: Vec<usize>,
    /// How often it was scheduled since the profile was last taken.
    pub calls: u64,
    /// How long it ran since the profile was last taken.
    pub busy: Duration,
    /// Updates that its arrangement holds now; 0 if it has none.
    pub arranged: u64,
    /// Batches in which they are.
    pub batches: u64,
}

/// One way between two operators, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The address of the operator that sends.
    pub source: Vec<usize>,
    /// The address of the one that receives.
    pub target: Vec<usize>,
    /// The Rust type of what is sent.
    pub data: String,
    /// Messages since the profile was last taken.
    pub messages: u64,
    /// Updates in them.
    pub records: u64,
}

/// The whole dataflow as it has run since this was last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// By address. Scopes are not operators: their time is that of what is in them.
    pub operators: Vec<Operator>,
    /// By source and target; between operators alone.
    pub channels: Vec<Channel>,
    /// Epochs that were derived; one in which nothing changed is not.
    pub epochs: u64,
}

/// Collects what the workers of one dataflow log. Clones read the same.
#[derive(Clone, Debug)]
pub struct Profiler {
    start: Instant,
    books: Arc<Mutex<Vec<Arc<Mutex<Book>>>>>,
}

impl Profiler {
    /// Nothing is logged yet. The clock of the log begins at `start`.
    #[must_use]
    pub fn new(start: Instant) -> Self {
        Profiler { start, books: Arc::default() }
    }

    /// When its clock began.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// What the first epoch was, which is not like the others: everything is new. Empty before it.
    #[must_use]
    pub fn first(&self) -> Picture {
        self.read(|book| book.first.clone().unwrap_or_default())
    }

    /// What was logged after the first epoch and since this was last called, by every worker; from here on everything is
    /// counted from 0, but for what arrangements hold.
    #[must_use]
    pub fn take(&self) -> Picture {
        self.read(|book| book.counts.take())
    }

    /// The same, and counting goes on.
    #[must_use]
    pub fn look(&self) -> Picture {
        self.read(|book| book.counts.clone())
    }

    fn read(&self, mut counts: impl FnMut(&mut Book) -> Counts) -> Picture {
        let mut operators: BTreeMap<Vec<usize>, Operator> = BTreeMap::new();
        let mut channels: BTreeMap<(Vec<usize>, Vec<usize>, String), Channel> = BTreeMap::new();
        let mut epochs = 0;
        for book in locked(&self.books).iter() {
            let of = counts(&mut locked(book));
            of.operators.values().for_each(|of| join_operator(&mut operators, of));
            of.channels.values().for_each(|of| join_channel(&mut channels, of));
            // Every worker derives every epoch.
            epochs = epochs.max(of.epochs);
        }
        let scopes: BTreeSet<Vec<usize>> =
            operators.keys().filter_map(|address| Some(address.split_last()?.1.to_vec())).collect();
        operators.retain(|address, _| !scopes.contains(address));
        channels.retain(|(source, target, _), _| operators.contains_key(source) && operators.contains_key(target));
        Picture { operators: operators.into_values().collect(), channels: channels.into_values().collect(), epochs }
    }

    /// Logs what this worker does from now on. Dataflows that stand already are not in it.
    pub(crate) fn register(&self, worker: &Worker) -> Log {
        let book = Arc::new(Mutex::new(Book::default()));
        locked(&self.books).push(Arc::clone(&book));
        let mut registry = worker.log_register().expect("a worker that was given a clock has a log");
        let sink = Arc::clone(&book);
        registry.insert::<TimelyEventBuilder, _>("timely", move |_time, events| {
            let mut book = locked(&sink);
            events.iter_mut().flat_map(|events| events.drain(..)).for_each(|(at, event)| book.timely(at, event));
        });
        let sink = Arc::clone(&book);
        registry.insert::<DifferentialEventBuilder, _>("differential/arrange", move |_time, events| {
            let mut book = locked(&sink);
            events.iter_mut().flat_map(|events| events.drain(..)).for_each(|(_, event)| book.differential(&event));
        });
        drop(registry);
        Log { book }
    }
}

fn join_operator(all: &mut BTreeMap<Vec<usize>, Operator>, one: &Operator) {
    let of = all.entry(one.address.clone()).or_insert_with(|| Operator {
        name: one.name.clone(),
        address: one.address.clone(),
        ..Operator::default()
    });
    of.calls += one.calls;
    of.busy += one.busy;
    of.arranged += one.arranged;
    of.batches += one.batches;
}

fn join_channel(all: &mut BTreeMap<(Vec<usize>, Vec<usize>, String), Channel>, one: &Channel) {
    let key = (one.source.clone(), one.target.clone(), one.data.clone());
    let of = all.entry(key).or_insert_with(|| Channel { messages: 0, records: 0, ..one.clone() });
    of.messages += one.messages;
    of.records += one.records;
}

/// A book is plain numbers: whole whatever a thread that panicked was doing with it.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The log of one worker, held by whoever steps it.
pub(crate) struct Log {
    book: Arc<Mutex<Book>>,
}

impl Log {
    /// Puts what the worker did into the book.
    pub(crate) fn flush(&self, worker: &Worker) {
        worker.log_register().expect("as when the log was registered").flush();
    }

    /// The same, at the end of an epoch.
    pub(crate) fn end_epoch(&self, worker: &Worker) {
        self.flush(worker);
        let mut book = locked(&self.book);
        book.counts.epochs += 1;
        if book.first.is_none() {
            book.first = Some(book.counts.take());
        }
    }
}

/// What one worker has logged.
#[derive(Debug, Default)]
struct Book {
    /// Of the first epoch.
    first: Option<Counts>,
    /// Of those after it.
    counts: Counts,
    /// Operators that run, and since when.
    started: BTreeMap<usize, Duration>,
}

/// Operators and channels, by the numbers that the worker gave them.
#[derive(Clone, Debug, Default)]
struct Counts {
    operators: BTreeMap<usize, Operator>,
    channels: BTreeMap<usize, Channel>,
    epochs: u64,
}

impl Counts {
    /// These; and from here on everything is counted from 0, but for what arrangements hold.
    fn take(&mut self) -> Counts {
        let counts = self.clone();
        for operator in self.operators.values_mut() {
            (operator.calls, operator.busy) = (0, Duration::ZERO);
        }
        for channel in self.channels.values_mut() {
            (channel.messages, channel.records) = (0, 0);
        }
        self.epochs = 0;
        counts
    }
}

impl Book {
    fn timely(&mut self, at: Duration, event: TimelyEvent) {
        match event {
            TimelyEvent::Operates(made) => {
                let operator = Operator { name: made.name, address: made.addr, ..Operator::default() };
                self.counts.operators.insert(made.id, operator);
            }
            TimelyEvent::Channels(made) => _ = self.counts.channels.insert(made.id, channel(made)),
            TimelyEvent::Messages(message) => self.message(&message),
            TimelyEvent::Schedule(schedule) => match schedule.start_stop {
                StartStop::Start => _ = self.started.insert(schedule.id, at),
                StartStop::Stop => {
                    let started = self.started.remove(&schedule.id);
                    if let (Some(started), Some(operator)) = (started, self.counts.operators.get_mut(&schedule.id)) {
                        operator.calls += 1;
                        operator.busy += at.saturating_sub(started);
                    }
                }
            },
            TimelyEvent::PushProgress(_)
            | TimelyEvent::Shutdown(_)
            | TimelyEvent::CommChannels(_)
            | TimelyEvent::Park(_)
            | TimelyEvent::Text(_) => {}
        }
    }

    fn message(&mut self, message: &MessagesEvent) {
        // Both ends log it; once is enough.
        if message.is_send
            && let Some(channel) = self.counts.channels.get_mut(&message.channel)
        {
            channel.messages += 1;
            channel.records += u64::try_from(message.record_count).unwrap_or_default();
        }
    }

    /// Batches come, two become one that is at most as long, and all go with their trace.
    fn differential(&mut self, event: &DifferentialEvent) {
        let (id, batches, updates) = match event {
            DifferentialEvent::Batch(batch) => (batch.operator, 1, count(batch.length)),
            DifferentialEvent::Drop(batch) => (batch.operator, -1, -count(batch.length)),
            DifferentialEvent::Merge(merge) => match merge.complete {
                Some(length) => (merge.operator, -1, count(length) - count(merge.length1) - count(merge.length2)),
                None => return,
            },
            DifferentialEvent::MergeShortfall(_) | DifferentialEvent::TraceShare(_) | DifferentialEvent::Batcher(_) => {
                return;
            }
        };
        if let Some(operator) = self.counts.operators.get_mut(&id) {
            operator.batches = operator.batches.saturating_add_signed(batches);
            operator.arranged = operator.arranged.saturating_add_signed(updates);
        }
    }
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn channel(made: ChannelsEvent) -> Channel {
    let at = |index: usize| made.scope_addr.iter().copied().chain([index]).collect();
    let (source, target) = (at(made.source.0), at(made.target.0));
    Channel { source, target, data: made.typ, messages: 0, records: 0 }
}
