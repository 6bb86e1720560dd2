//! The engine on its thread: natural batching, recording, publishing, timers.

use crate::epoch::{Applied, Core, epoch_in_progress};
use crate::profile::Profiler;
use crate::recorder::{Append, Recorder, Recording};
use crate::timers::Timers;
use crate::workers::panic_message;
use crate::{Config, gate::Gate};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_log::{Event, Seal, Writer};
use tidegate_model::{Epoch, Kind, Millis};
use tidegate_xds::Sealed;
use tokio::sync::{mpsc, oneshot, watch};

/// How many commands wait before senders do. A command is a whole batch of a source, so this is not about events; it
/// is also the most that one epoch takes together, so that a storm cannot put off its own seal for ever.
const QUEUE: usize = 1024;

/// The wall clock, given from outside.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Millis;
}

impl<F: Fn() -> Millis + Send + Sync> Clock for F {
    fn now(&self) -> Millis {
        self()
    }
}

/// What the dataflow thread can be asked to do.
#[derive(Debug)]
pub enum Command {
    /// Take these; they stay together in one epoch.
    Events(Vec<Event>),
    /// Take what was queued before this, then end.
    Shutdown,
}

/// Where the engine stands: for readiness and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineState {
    /// The epoch sealed last; none before epoch 0 is complete.
    pub epoch: Option<Epoch>,
    /// When the batch of that epoch was taken, in milliseconds since the Unix epoch.
    pub sealed_millis: Millis,
    /// The kinds that are awaited before anything is sealed.
    pub missing: Vec<Kind>,
    /// The kinds that cannot be read, and why.
    pub unreadable: BTreeMap<Kind, String>,
    /// Objects known.
    pub objects: usize,
    /// Facts in the dataflow.
    pub facts: usize,
    /// Events taken since the start, of every sort.
    pub events: u64,
    /// Output rows that the last epoch added or retracted.
    pub changed_rows: usize,
    /// Violations of the guarantees of a seal that stand at this epoch. Always 0, or there is a bug.
    pub violations: usize,
    /// Deadlines that are waited for.
    pub deadlines: usize,
    /// Whether what happens is recorded.
    pub recording: Recording,
}

/// Why the dataflow thread is not running.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The thread could not be started.
    #[error("cannot start the dataflow thread")]
    Start(#[source] std::io::Error),
    /// The thread panicked: a broken invariant.
    #[error("the dataflow thread panicked at epoch {}: {message}", .epoch.map_or("none".to_owned(), |e| e.to_string()))]
    Panicked {
        /// The epoch that was being derived.
        epoch: Option<Epoch>,
        /// What the panic said.
        message: String,
    },
    /// The thread has ended, so it takes no events.
    #[error("the dataflow thread has ended and takes no events")]
    Ended,
}

/// The dataflow thread, before it runs.
pub struct Engine {
    core: Core,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    timers: Timers,
    commands: mpsc::Receiver<Command>,
    sealed: watch::Sender<Option<Arc<Sealed>>>,
    state: watch::Sender<EngineState>,
    progress: Arc<AtomicU64>,
    events: u64,
    /// When the last batch was taken: batches never go back in time, whatever the clock does.
    millis: Millis,
}

/// How to talk to the running engine. The thread ends when the last clone is gone.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    commands: mpsc::Sender<Command>,
    sealed: watch::Receiver<Option<Arc<Sealed>>>,
    state: watch::Receiver<EngineState>,
    /// When the batch in progress was taken; 0 if there is none.
    progress: Arc<AtomicU64>,
}

/// The running thread, for its supervisor.
#[derive(Debug)]
pub struct Running(oneshot::Receiver<Result<(), Error>>);

impl Running {
    /// Waits until the thread has ended.
    ///
    /// # Errors
    ///
    /// If it panicked. After a shutdown, or when every handle is gone, it ends without error.
    pub async fn wait(self) -> Result<(), Error> {
        let lost = |_| Err(Error::Panicked { epoch: epoch_in_progress(), message: "no answer".to_owned() });
        self.0.await.unwrap_or_else(lost)
    }
}

impl EngineHandle {
    /// Queues events that belong together: they will be in one epoch. Waits while the queue is full.
    ///
    /// # Errors
    ///
    /// If the thread has ended.
    pub async fn send(&self, events: Vec<Event>) -> Result<(), Error> {
        self.commands.send(Command::Events(events)).await.map_err(|_| Error::Ended)
    }

    /// Queues events if there is room; else gives them back. For events that may be lost.
    ///
    /// # Errors
    ///
    /// The events, if the queue is full or the thread has ended.
    pub fn try_send(&self, events: Vec<Event>) -> Result<(), Vec<Event>> {
        self.commands.try_send(Command::Events(events)).map_err(|error| match error.into_inner() {
            Command::Events(events) => events,
            Command::Shutdown => unreachable!("what comes back is what was sent"),
        })
    }

    /// Asks the thread to end after what is queued now.
    pub async fn shutdown(&self) {
        // A thread that has ended needs no asking.
        let _ = self.commands.send(Command::Shutdown).await;
    }

    /// The newest sealed value; none before epoch 0 is complete. It is replaced at every epoch, but watchers are woken
    /// only by one that changes something; who waits for an epoch watches [`EngineHandle::state`].
    #[must_use]
    pub fn sealed(&self) -> watch::Receiver<Option<Arc<Sealed>>> {
        self.sealed.clone()
    }

    /// When the batch in progress was taken, in milliseconds since the Unix epoch: how far the frontier is behind what came
    /// in. `None` while the dataflow has nothing to do.
    #[must_use]
    pub fn in_progress(&self) -> Option<Millis> {
        Some(self.progress.load(Ordering::Relaxed)).filter(|millis| *millis > 0)
    }

    /// Batches that wait for the dataflow.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.commands.max_capacity() - self.commands.capacity()
    }

    /// Where the engine stands, new after every batch. What it tells of is published before.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<EngineState> {
        self.state.clone()
    }
}

impl Engine {
    /// Starts the dataflow thread. `recorder` is where everything that happens is written before anybody sees what
    /// follows from it.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start(
        config: Config,
        clock: Arc<dyn Clock>,
        recorder: Option<Writer>,
    ) -> Result<(EngineHandle, Running), Error> {
        Engine::start_with(
            move || Core::new(&config),
            clock,
            Recorder::new(recorder.map(|log| Box::new(log) as Box<dyn Append>)),
        )
    }

    /// The same with workers that log what their operators do, for this profiler. Slower.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start_profiled(
        config: Config,
        profiler: Profiler,
        clock: Arc<dyn Clock>,
        recorder: Option<Writer>,
    ) -> Result<(EngineHandle, Running), Error> {
        Engine::start_with(
            move || Core::profiled(&config, &profiler),
            clock,
            Recorder::new(recorder.map(|log| Box::new(log) as Box<dyn Append>)),
        )
    }

    /// Starts the thread around a core that is built on it.
    pub(crate) fn start_with(
        core: impl FnOnce() -> Core + Send + 'static,
        clock: Arc<dyn Clock>,
        recorder: Recorder,
    ) -> Result<(EngineHandle, Running), Error> {
        let (command_sender, commands) = mpsc::channel(QUEUE);
        let (sealed, sealed_watch) = watch::channel(None);
        let awaited = EngineState { missing: Gate::default().missing(), ..EngineState::default() };
        let (state, state_watch) = watch::channel(awaited);
        let progress = Arc::new(AtomicU64::new(0));
        let (done, running) = oneshot::channel();
        let handle = EngineHandle {
            commands: command_sender,
            sealed: sealed_watch,
            state: state_watch,
            progress: progress.clone(),
        };
        let live = move || {
            let run = move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
                let timers = Timers::default();
                let core = core();
                let (events, millis) = (0, 0);
                let engine =
                    Engine { core, clock, recorder, timers, commands, sealed, state, progress, events, millis };
                runtime.map_err(Error::Start).map(|runtime| runtime.block_on(engine.run()))
            };
            let panicked = |payload: Box<dyn std::any::Any + Send>| {
                Err(Error::Panicked { epoch: epoch_in_progress(), message: panic_message(payload.as_ref()) })
            };
            // A supervisor that is gone needs no answer.
            let _ = done.send(catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked));
        };
        std::thread::Builder::new().name("dataflow".to_owned()).spawn(live).map_err(Error::Start)?;
        Ok((handle, Running(running)))
    }

    /// Until told to end.
    async fn run(mut self) {
        self.report();
        self.batches().await;
        self.recorder.finish();
    }

    /// Batch after batch. Idle, it sleeps on the queue and the next deadline.
    async fn batches(&mut self) {
        loop {
            let mut queued = Vec::new();
            let mut first = None;
            tokio::select! {
                biased;
                count = self.commands.recv_many(&mut queued, QUEUE) => if count == 0 { return },
                deadline = self.timers.wait() => {
                    first = Some(deadline);
                    while queued.len() < QUEUE && let Ok(command) = self.commands.try_recv() {
                        queued.push(command);
                    }
                }
            }
            self.millis = self.millis.max(self.clock.now());
            let mut batch = self.timers.due(first, self.millis).await;
            let mut end = false;
            for command in queued {
                match command {
                    Command::Events(events) if !end => batch.extend(events),
                    Command::Events(_) => {}
                    Command::Shutdown => end = true,
                }
            }
            if !batch.is_empty() {
                self.progress.store(self.millis, Ordering::Relaxed);
                self.take(&batch);
                self.progress.store(0, Ordering::Relaxed);
            }
            if end {
                return;
            }
        }
    }

    /// Takes one batch: record, derive, seal, publish. A batch that says nothing about objects is recorded and belongs
    /// to the next epoch.
    fn take(&mut self, batch: &[Event]) {
        self.events += batch.len() as u64;
        self.recorder.append(batch);
        if batch.iter().any(Event::concerns_objects) {
            match self.core.apply(batch, self.millis) {
                Applied::Pending { missing } => tracing::debug!(events = batch.len(), ?missing, "epoch 0 waits"),
                Applied::Sealed(sealed) => self.publish(batch.len(), sealed),
            }
            for (key, deadlines) in self.core.take_deadlines() {
                self.timers.set(key, deadlines, self.millis);
            }
        }
        self.report();
    }

    /// Records the seal, then shows it.
    fn publish(&mut self, events: usize, sealed: Arc<Sealed>) {
        let (epoch, millis) = (sealed.epoch, sealed.millis);
        let digest = sealed.digest.to_string();
        tracing::debug!(
            epoch,
            events,
            facts = self.core.changed_facts(),
            rows = self.core.changed_rows(),
            digest,
            "sealed"
        );
        if epoch == 0 {
            tracing::info!(objects = self.core.object_count(), facts = self.core.fact_count(), "every kind is listed");
        }
        let violations = self.core.store().violations();
        if !violations.is_empty() {
            tracing::error!(epoch, ?violations, "the sealed values break a guarantee; this is a bug");
        }
        self.recorder.seal(Seal { epoch, millis, events: 0, digest });
        let wakes = self.core.changed_rows() > 0 || epoch == 0;
        self.sealed.send_if_modified(|newest| {
            *newest = Some(sealed);
            wakes
        });
    }

    /// Says where the engine stands.
    fn report(&mut self) {
        let sealed = self.sealed.borrow().clone();
        self.state.send_replace(EngineState {
            epoch: self.core.epoch(),
            sealed_millis: sealed.map_or(0, |sealed| sealed.millis),
            missing: self.core.missing(),
            unreadable: self.core.gate().unreadable_kinds().clone(),
            objects: self.core.object_count(),
            facts: self.core.fact_count(),
            events: self.events,
            changed_rows: self.core.changed_rows(),
            violations: self.core.store().violations().len(),
            deadlines: self.timers.len(),
            recording: self.recorder.state().clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::{Feed, Plan};
    use serde_json::json;
    use std::time::Duration;
    use tidegate_log::Object;
    use tidegate_model::Fact;

    /// The real inputs, but that they panic at a namespace called "bomb".
    struct Fragile(tidegate_translate::Inputs);

    impl Feed for Fragile {
        fn update(&mut self, fact: Fact, diff: isize) {
            assert!(!matches!(&fact, Fact::Namespace(namespace) if namespace.name == "bomb"), "a bomb came in");
            self.0.update(fact, diff);
        }
        fn tell(&mut self, millis: Millis) {
            self.0.tell(millis);
        }
        fn advance_to(&mut self, epoch: Epoch) {
            self.0.advance_to(epoch);
        }
    }

    fn fragile() -> Plan {
        let config = tidegate_translate::Config::new("ours".into());
        Arc::new(move |worker, output| {
            let (inputs, probe) = tidegate_translate::build(worker, &config, output);
            (Box::new(Fragile(inputs)), probe)
        })
    }

    async fn panic_surfaces(workers: usize) {
        let core = move || Core::with_plan(workers, &fragile());
        let (handle, running) = Engine::start_with(core, Arc::new(|| 1), Recorder::new(None)).unwrap();
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "bomb" } });
        handle.send(Kind::ALL.into_iter().map(Event::Synced).collect()).await.unwrap();
        let mut state = handle.state();
        state.wait_for(|state| state.epoch == Some(0)).await.unwrap();
        handle.send(vec![Event::Apply(Object::new(body).unwrap())]).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(60), running.wait()).await.unwrap();
        assert!(matches!(ended, Err(Error::Panicked { message, .. }) if message.contains("a bomb came in")));
        assert!(matches!(handle.send(Vec::new()).await, Err(Error::Ended)));
        assert!(state.wait_for(|state| state.epoch == Some(1)).await.is_err());
    }

    #[tokio::test]
    async fn a_panic_of_the_dataflow_thread_surfaces() {
        panic_surfaces(1).await;
    }

    #[tokio::test]
    async fn a_panic_of_a_worker_thread_surfaces() {
        panic_surfaces(3).await;
    }

    /// A log that takes an event only when it is let.
    struct Held(std::sync::mpsc::Receiver<()>);

    impl Append for Held {
        fn append(&mut self, _: &Event) -> Result<(), tidegate_log::Error> {
            // Nobody holds it any more: let it run.
            let _ = self.0.recv();
            Ok(())
        }
        fn seal(&mut self, _: &Seal) -> Result<(), tidegate_log::Error> {
            Ok(())
        }
        fn finish(self: Box<Self>) -> Result<(), tidegate_log::Error> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_batch_is_in_progress_from_when_it_was_taken_until_it_is_published() {
        let (go, held) = std::sync::mpsc::channel();
        let core = || Core::new(&Config::default());
        let (handle, running) =
            Engine::start_with(core, Arc::new(|| 77), Recorder::new(Some(Box::new(Held(held))))).unwrap();
        assert_eq!((handle.in_progress(), handle.queued()), (None, 0));
        handle.send(vec![Event::Synced(Kind::Service)]).await.unwrap();
        while handle.in_progress().is_none() {
            tokio::task::yield_now().await;
        }
        handle.send(vec![Event::Synced(Kind::Namespace)]).await.unwrap();
        assert_eq!((handle.in_progress(), handle.queued()), (Some(77), 1));
        drop(go);
        while handle.in_progress().is_some() || handle.queued() > 0 {
            tokio::task::yield_now().await;
        }
        handle.shutdown().await;
        running.wait().await.unwrap();
    }
}
