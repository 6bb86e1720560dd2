//! The workers that derive: facts in at an epoch, output rows out, complete at that epoch.
//!
//! One worker steps on the calling thread. Several have a thread each; the caller sends each its share of the changes
//! and the epoch, and waits until each says that its own frontier has passed it and its rows are sent.

use crate::facts::Change;
use crate::profile::{Log, Profiler};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_model::{Epoch, Fact, Millis};
use tidegate_translate::{Inputs, Output};
use tidegate_xds::Row;
use timely::communication::WorkerGuards;
use timely::communication::allocator::{Allocator, Thread};
use timely::dataflow::operators::probe::Handle as ProbeHandle;
use timely::worker::Worker;

/// How long a worker that has nothing to do waits for its peers before it looks again whether it shall stop. Peers wake
/// it, so this bounds only how long a stop takes.
const PARK: Duration = Duration::from_millis(5);

/// The inputs of a dataflow. [`Inputs`], but for tests.
pub(crate) trait Feed {
    /// Adds or retracts a fact at the current epoch.
    fn update(&mut self, fact: Fact, diff: isize);
    /// Says when the batch of the current epoch was taken.
    fn tell(&mut self, millis: Millis);
    /// Moves every input on to `epoch`.
    fn advance_to(&mut self, epoch: Epoch);
}

impl Feed for Inputs {
    fn update(&mut self, fact: Fact, diff: isize) {
        Inputs::update(self, fact, diff);
    }

    fn tell(&mut self, millis: Millis) {
        Inputs::tell(self, millis);
    }

    fn advance_to(&mut self, epoch: Epoch) {
        Inputs::advance_to(self, epoch);
    }
}

/// Builds the dataflow on one worker.
pub(crate) type Plan = Arc<dyn Fn(&mut Worker, Output) -> (Box<dyn Feed>, ProbeHandle<Epoch>) + Send + Sync>;

/// Changes of rows at one epoch.
type Rows = Vec<(Row, Epoch, isize)>;

/// All workers of this process.
pub(crate) enum Workers {
    /// One, on the calling thread.
    Local(Local),
    /// Several, each on a thread.
    Threads(Threads),
}

impl Workers {
    /// Builds the dataflow on `count` workers, at least one. They log what they do if there is a profiler.
    pub(crate) fn new(count: usize, plan: &Plan, profiler: Option<&Profiler>) -> Self {
        if count <= 1 {
            Workers::Local(Local::new(plan, profiler))
        } else {
            Workers::Threads(Threads::new(count, plan, profiler.cloned()))
        }
    }

    /// Derives: `changes` happen at `epoch`, in a batch taken at `millis`; returns how the output rows change, complete.
    /// Epochs must grow.
    ///
    /// # Panics
    ///
    /// If the dataflow panics, on whatever thread.
    pub(crate) fn run(&mut self, epoch: Epoch, millis: Millis, changes: Vec<Change>) -> Vec<(Row, isize)> {
        let step = Step { epoch, millis, changes };
        let rows = match self {
            Workers::Local(local) => local.run(step),
            Workers::Threads(threads) => threads.run(step),
        };
        let check = |(row, time, diff)| {
            assert_eq!(time, epoch, "rows leave at the epoch of the facts that made them");
            (row, diff)
        };
        rows.try_iter().flatten().map(check).collect()
    }
}

/// One dataflow and what drives it.
struct Seat {
    feed: Box<dyn Feed>,
    probe: ProbeHandle<Epoch>,
    /// Where the inputs stand.
    at: Epoch,
}

impl Seat {
    fn new(worker: &mut Worker, plan: &Plan, rows: Output) -> Self {
        let (feed, probe) = plan(worker, rows);
        Seat { feed, probe, at: 0 }
    }

    /// Feeds one epoch. Inputs stay behind while nothing changes, so they may have to catch up first.
    fn feed(&mut self, Step { epoch, millis, changes }: Step) {
        if self.at < epoch {
            self.feed.advance_to(epoch);
        }
        for (fact, diff) in changes {
            self.feed.update(fact, diff);
        }
        self.feed.tell(millis);
        self.at = epoch + 1;
        self.feed.advance_to(self.at);
    }

    /// Whether the frontier has not yet passed what was fed.
    fn is_behind(&self) -> bool {
        self.probe.less_than(&self.at)
    }
}

/// One worker on the calling thread.
pub(crate) struct Local {
    seat: Seat,
    worker: Worker,
    rows: Receiver<Rows>,
    log: Option<Log>,
}

impl Local {
    fn new(plan: &Plan, profiler: Option<&Profiler>) -> Self {
        // Without a timer the worker has no clock: nothing here is activated after a delay.
        let allocator = Allocator::Thread(Thread::default());
        let mut worker = Worker::new(timely::WorkerConfig::default(), allocator, profiler.map(Profiler::start));
        let log = profiler.map(|profiler| profiler.register(&worker));
        let (sender, rows) = channel();
        let seat = Seat::new(&mut worker, plan, sender);
        log.iter().for_each(|log| log.flush(&worker));
        Local { seat, worker, rows, log }
    }

    fn run(&mut self, step: Step) -> &Receiver<Rows> {
        self.seat.feed(step);
        while self.seat.is_behind() {
            self.worker.step();
        }
        self.log.iter().for_each(|log| log.end_epoch(&self.worker));
        &self.rows
    }
}

/// What a worker is asked to do: to derive an epoch with its share of the changes.
struct Step {
    epoch: Epoch,
    millis: Millis,
    changes: Vec<Change>,
}

/// What a worker thread answers: passed, or the message of its panic.
type Answer = Result<(), String>;

/// The ends of the channels that one worker thread holds.
struct Ends {
    steps: Receiver<Step>,
    answers: Sender<Answer>,
    rows: Output,
}

/// Workers on threads.
pub(crate) struct Threads {
    steps: Vec<SyncSender<Step>>,
    answers: Receiver<Answer>,
    rows: Receiver<Rows>,
    stop: Arc<AtomicBool>,
    guards: Option<WorkerGuards<()>>,
}

impl Threads {
    fn new(count: usize, plan: &Plan, profiler: Option<Profiler>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (row_sender, rows) = channel();
        let (answer_sender, answers) = channel();
        let mut steps = Vec::with_capacity(count);
        let mut ends = Vec::with_capacity(count);
        for _ in 0..count {
            let (sender, receiver) = sync_channel(1);
            steps.push(sender);
            ends.push(Some(Ends { steps: receiver, answers: answer_sender.clone(), rows: row_sender.clone() }));
        }
        let (ends, plan, told) = (Mutex::new(ends), Arc::clone(plan), Arc::clone(&stop));
        let guards = timely::execute(timely::Config::process(count), move |worker| {
            let mine = ends.lock().expect("nothing panics while it holds the lock")[worker.index()].take();
            let ends = mine.expect("each worker runs once");
            let answers = ends.answers.clone();
            let work = AssertUnwindSafe(|| serve(worker, &plan, ends, profiler.as_ref(), &told));
            if let Err(payload) = catch_unwind(work) {
                told.store(true, Ordering::SeqCst);
                // The caller may be gone already; then nobody needs the message.
                let _ = answers.send(Err(panic_message(payload.as_ref())));
            }
            // Else timely would step on until every input of every peer is closed.
            worker.installed_dataflows().into_iter().for_each(|dataflow| worker.drop_dataflow(dataflow));
        });
        let guards = guards.expect("threads of one process need nothing but threads");
        Threads { steps, answers, rows, stop, guards: Some(guards) }
    }

    fn run(&mut self, Step { epoch, millis, changes }: Step) -> &Receiver<Rows> {
        let count = self.steps.len();
        let mut shares: Vec<Vec<Change>> = std::iter::repeat_with(Vec::new).take(count).collect();
        for (index, change) in changes.into_iter().enumerate() {
            shares[index % count].push(change);
        }
        for (worker, changes) in self.steps.iter().zip(shares) {
            // A worker that is gone has answered with its panic.
            let _ = worker.send(Step { epoch, millis, changes });
        }
        for _ in 0..count {
            match self.answers.recv() {
                Ok(Ok(())) => {}
                Ok(Err(message)) => panic!("a dataflow worker panicked at epoch {epoch}: {message}"),
                Err(_) => panic!("the dataflow workers are gone at epoch {epoch}"),
            }
        }
        &self.rows
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.steps.clear();
        if let Some(guards) = self.guards.take() {
            // Their panics have been answered; dropping the guards would panic again.
            guards.join();
        }
    }
}

/// The life of one worker thread: a step at a time, until nobody can ask for one or it shall stop.
fn serve(worker: &mut Worker, plan: &Plan, ends: Ends, profiler: Option<&Profiler>, stop: &AtomicBool) {
    let Ends { steps, answers, rows } = ends;
    let log = profiler.map(|profiler| profiler.register(worker));
    let mut seat = Seat::new(worker, plan, rows);
    while let Ok(step) = steps.recv() {
        seat.feed(step);
        while seat.is_behind() {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            worker.step_or_park(Some(PARK));
        }
        log.iter().for_each(|log| log.end_epoch(worker));
        if answers.send(Ok(())).is_err() {
            return;
        }
    }
}

/// The message of a panic.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
