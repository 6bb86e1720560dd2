//! The joins from facts to resources and status, and the plain reference they must equal.
//!
//! *Comes in*: [`tidegate_model::Fact`]s. *Goes out*: [`tidegate_xds::Row`]s. *Must not know*: Kubernetes clients,
//! tokio, clocks.

use tidegate_model::{Epoch, Fact, Name};
use tidegate_xds::Row;
use timely::dataflow::operators::probe::Handle as ProbeHandle;
use timely::worker::Worker;

/// What translation is told from outside.
#[derive(Clone, Debug)]
pub struct Config {
    /// `spec.controllerName` of the classes that are ours.
    pub controller: Name,
}

/// Where one worker's output rows go: batches of changes, each with its epoch.
pub type Output = std::sync::mpsc::Sender<Vec<(Row, Epoch, isize)>>;

/// The inputs of the dataflow on one worker.
pub struct Inputs {}

impl Inputs {
    /// Adds (`diff` 1) or retracts (`diff` -1) a fact at the current epoch.
    pub fn update(&mut self, fact: Fact, diff: isize) {
        let _ = (fact, diff);
        unimplemented!()
    }

    /// Moves every input on to `epoch` and flushes it.
    pub fn advance_to(&mut self, epoch: Epoch) {
        let _ = epoch;
        unimplemented!()
    }
}

/// Builds the dataflow on `worker`.
pub fn build(worker: &mut Worker, config: &Config, output: Output) -> (Inputs, ProbeHandle<Epoch>) {
    let _ = (worker, config, output);
    unimplemented!()
}
