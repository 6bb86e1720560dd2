//! The parts that a profile is made of. Each can have a process of its own, so that what is resident is of it alone and
//! no part finds memory that another one has touched.

use crate::drawing::Drawing;
use crate::measure::{Memory, Operation};
use crate::naive::{Plan, naive};
use crate::recompute::recompute;
use crate::report::Figure;
use crate::size::Size;
use crate::{Cluster, attached, churn, client, fanout, probe, restart};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Something to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// A cold start, and what its clients hold in memory.
    Cold(Size),
    /// The operations of a fan-out.
    Operations(Size),
    /// What operators do at a cold start, at endpoint changes and at retargets.
    Drawings(Size),
    /// A plan without store and sessions.
    Naive(Plan, Size),
    /// An endpoint change by the dataflow, and by computing everything anew.
    Recompute(Size),
    /// Refreshed pods and edited routes at a rate.
    Churn {
        /// The cluster.
        size: Size,
        /// How long, in seconds.
        seconds: u64,
        /// How much faster than a pod every two seconds and a route every second.
        times: u32,
    },
    /// Routes that are attached to one Gateway.
    Attached(Size),
    /// Routes one by one, each to the last byte at a client.
    Probe(Size),
    /// Clients that come back to a controller that was started anew.
    Restart(Size),
}

/// What came of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Until the first seal, in milliseconds.
    #[serde(default)]
    pub cold_start_ms: f64,
    /// What is resident after that, in bytes; without clients.
    #[serde(default)]
    pub rss_bytes: f64,
    /// What was resident in addition once the clients were connected, in bytes.
    #[serde(default)]
    pub clients_bytes: f64,
    /// What was done.
    #[serde(default)]
    pub operations: Vec<Operation>,
    /// Bytes that a client which held nothing was sent, by type.
    #[serde(default)]
    pub sent: BTreeMap<String, usize>,
    /// What else there is to say.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// What operators did.
    #[serde(default)]
    pub drawings: Vec<Drawing>,
}

impl Outcome {
    /// The operation of this name.
    #[must_use]
    pub fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }
}

impl Part {
    /// Measures it in this process.
    #[must_use]
    pub fn run(&self) -> Outcome {
        match self {
            Part::Cold(size) => cold(size),
            Part::Operations(size) => fanout::operations(size),
            Part::Drawings(size) => fanout::drawings(size),
            Part::Naive(plan, size) => {
                let costs = naive(*plan, size);
                let (cold_start_ms, rss_bytes, operations) = (costs.cold_start_ms, costs.rss_bytes, costs.operations);
                Outcome { cold_start_ms, rss_bytes, operations, ..Outcome::default() }
            }
            Part::Recompute(size) => Outcome { operations: recompute(size), ..Outcome::default() },
            Part::Churn { size, seconds, times } => churn::at_rate(size, *seconds, *times),
            Part::Attached(size) => attached::attach(size),
            Part::Probe(size) => probe::routes(size),
            Part::Restart(size) => restart::reconnects(size),
        }
    }

    /// Runs the part that this text says, and says what came of it: what a process of its own does.
    ///
    /// # Errors
    ///
    /// If the text is no part.
    pub fn answer(text: &str) -> Result<String, serde_json::Error> {
        let part: Part = serde_json::from_str(text)?;
        serde_json::to_string(&part.run())
    }
}

fn cold(size: &Size) -> Outcome {
    let cluster = Cluster::start_on(size.shape(), &size.config(), |_| true);
    let rss_bytes = Memory::now().bytes();
    let fleet = client::fleet(&cluster, size.clients, 1);
    let clients_bytes = (Memory::now().bytes() - rss_bytes).max(0.0);
    drop(fleet);
    Outcome { cold_start_ms: cluster.cold.as_secs_f64() * 1e3, rss_bytes, clients_bytes, ..Outcome::default() }
}

/// Why a part has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its process cannot be started.
    #[error("cannot start {} for a part of the profile", .0.display())]
    Start(PathBuf, #[source] std::io::Error),
    /// Its process failed.
    #[error("a part of the profile failed ({0}): {1}")]
    Failed(String, String),
    /// What it said cannot be read.
    #[error("a part of the profile said what cannot be read")]
    Answer(#[from] serde_json::Error),
}

/// How far a profile is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Parts that are done.
    pub done: usize,
    /// Parts in all.
    pub of: usize,
    /// What is measured now.
    pub what: &'a str,
}

/// Runs parts.
pub struct Runner<'p> {
    /// The program and its arguments before the part; none measures in this process.
    program: Option<(PathBuf, Vec<String>)>,
    progress: Box<dyn FnMut(&Step<'_>) + 'p>,
    done: usize,
    of: usize,
}

impl<'p> Runner<'p> {
    /// Measures in this process: memory is then that of all parts.
    #[must_use]
    pub fn here() -> Self {
        Runner { program: None, progress: Box::new(|_| {}), done: 0, of: 0 }
    }

    /// Starts this program with these arguments and the part for each of them.
    #[must_use]
    pub fn of_program(program: PathBuf, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Runner { program: Some((program, arguments)), ..Runner::here() }
    }

    /// Calls this before each part.
    #[must_use]
    pub fn with_progress(self, progress: impl FnMut(&Step<'_>) + 'p) -> Self {
        Runner { progress: Box::new(progress), ..self }
    }

    /// So many parts will be run from now on.
    pub(crate) fn expect(&mut self, parts: usize) {
        (self.done, self.of) = (0, parts);
    }

    /// Measures a part.
    ///
    /// # Errors
    ///
    /// If its process fails.
    pub fn run(&mut self, what: &str, part: &Part) -> Result<Outcome, Error> {
        (self.progress)(&Step { done: self.done, of: self.of, what });
        self.done += 1;
        let Some((program, arguments)) = &self.program else { return Ok(part.run()) };
        let text = serde_json::to_string(part)?;
        let output = Command::new(program)
            .args(arguments)
            .arg(text)
            .output()
            .map_err(|error| Error::Start(program.clone(), error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Failed(output.status.to_string(), said));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_text_and_so_is_its_outcome() {
        let part = Part::Cold(Size { clients: 2, ..Size::quick() });
        let answer = Part::answer(&serde_json::to_string(&part).unwrap()).unwrap();
        let outcome: Outcome = serde_json::from_str(&answer).unwrap();
        assert!(outcome.cold_start_ms > 0.0 && outcome.rss_bytes > 0.0, "{outcome:?}");
        assert!(Part::answer("{}").is_err());
    }

    #[test]
    fn a_process_that_fails_is_told_with_what_it_said() {
        let mut runner = Runner::of_program("/bin/sh".into(), &["-c", "echo too small >&2; exit 3"]);
        let error = runner.run("nothing", &Part::Cold(Size::quick())).unwrap_err().to_string();
        assert!(error.contains("too small") && error.contains('3'), "{error}");
    }
}
