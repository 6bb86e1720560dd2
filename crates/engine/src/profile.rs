//! What the operators of the dataflow cost, for benches and tools.
//!
//! Timely logs when it schedules an operator and when that returns. Logging slows an epoch by a fifth or more, so it is
//! a choice at the start and never on in earnest; and it needs a clock, which whoever asks brings along.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use timely::logging::{StartStop, TimelyEvent, TimelyEventBuilder};
use timely::worker::Worker;

/// One operator of the dataflow and what it has cost since the profile was last taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Its name: that of the arrangement or reduction where it has one.
    pub name: String,
    /// Where it is: indexes from the outermost scope inwards. Unique.
    pub address: Vec<usize>,
    /// How often it was scheduled.
    pub calls: u64,
    /// How long it ran.
    pub busy: Duration,
}

/// The log of one worker.
pub(crate) struct Log(Rc<RefCell<Seen>>);

/// What the log has said so far.
#[derive(Default)]
struct Seen {
    operators: BTreeMap<usize, Operator>,
    started: BTreeMap<usize, Duration>,
}

impl Log {
    /// Logs from now on. Dataflows that stand already are not in it.
    pub(crate) fn register(worker: &Worker) -> Self {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let sink = Rc::clone(&seen);
        let mut registry = worker.log_register().expect("a worker that was given a clock has a log");
        registry.insert::<TimelyEventBuilder, _>("timely", move |_time, events| {
            let mut seen = sink.borrow_mut();
            for (at, event) in events.iter_mut().flat_map(|events| events.drain(..)) {
                seen.take(at, event);
            }
        });
        Log(seen)
    }

    /// Every operator, with its costs since the last call. Scopes are not operators: their time is that of what is in
    /// them.
    pub(crate) fn take(&self, worker: &Worker) -> Vec<Operator> {
        worker.log_register().expect("as when the log was registered").flush();
        let mut seen = self.0.borrow_mut();
        let is_scope = |address: &[usize]| {
            seen.operators
                .values()
                .any(|other| other.address.len() > address.len() && other.address.starts_with(address))
        };
        let operators = seen.operators.values().filter(|operator| !is_scope(&operator.address)).cloned().collect();
        for operator in seen.operators.values_mut() {
            (operator.calls, operator.busy) = (0, Duration::ZERO);
        }
        operators
    }
}

impl Seen {
    fn take(&mut self, at: Duration, event: TimelyEvent) {
        match event {
            TimelyEvent::Operates(made) => {
                let operator = Operator { name: made.name, address: made.addr, calls: 0, busy: Duration::ZERO };
                self.operators.insert(made.id, operator);
            }
            TimelyEvent::Schedule(schedule) => match schedule.start_stop {
                StartStop::Start => _ = self.started.insert(schedule.id, at),
                StartStop::Stop => {
                    let started = self.started.remove(&schedule.id);
                    if let (Some(started), Some(operator)) = (started, self.operators.get_mut(&schedule.id)) {
                        operator.calls += 1;
                        operator.busy += at.saturating_sub(started);
                    }
                }
            },
            TimelyEvent::Channels(_)
            | TimelyEvent::PushProgress(_)
            | TimelyEvent::Messages(_)
            | TimelyEvent::Shutdown(_)
            | TimelyEvent::CommChannels(_)
            | TimelyEvent::Park(_)
            | TimelyEvent::Text(_) => {}
        }
    }
}
