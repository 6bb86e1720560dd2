//! What a profile says. As JSON it is what `-o json` prints; the page shows the same.

use crate::drawing::Drawing;
use crate::measure::Operation;
use crate::size::Size;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a profile says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which profile.
    pub profile: String,
    /// Where it was measured.
    pub machine: Machine,
    /// Of which cluster; none for a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// What was done.
    pub operations: Vec<Operation>,
    /// From the first list to the first seal, in milliseconds.
    pub cold_start_ms: f64,
    /// What is resident after that, in bytes.
    pub rss_bytes: f64,
    /// What one more of each thing costs.
    #[serde(default)]
    pub memory: Vec<Footprint>,
    /// Bytes that a client which held nothing was sent, by type.
    #[serde(default)]
    pub sent: BTreeMap<String, usize>,
    /// What else there is to say.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Other ways to do the same.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// Curves.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// What operators did, in several situations.
    #[serde(default)]
    pub drawings: Vec<Drawing>,
    /// What a reader must know to read the figures.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Report {
    /// A report of nothing yet.
    pub(crate) fn new(profile: &str, size: Option<Size>) -> Self {
        let machine = Machine::this();
        let notes = match machine.optimized {
            true => Vec::new(),
            false => vec![
                "This build is not optimized: figures mean little, ratios a little more. cargo build --release"
                    .to_owned(),
            ],
        };
        Report { profile: profile.to_owned(), machine, size, notes, ..Report::default() }
    }

    /// The operation of this name.
    #[must_use]
    pub fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }
}

/// Where something was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Logical CPUs.
    pub cpus: usize,
    /// Their model.
    pub model: String,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Whether the program was built for speed.
    pub optimized: bool,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn this() -> Self {
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let kilobytes = field(&read("/proc/meminfo"), "MemTotal");
        let kilobytes: u64 = kilobytes.trim_end_matches(" kB").parse().unwrap_or_default();
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            model: field(&read("/proc/cpuinfo"), "model name"),
            memory_bytes: kilobytes * 1024,
            optimized: !cfg!(debug_assertions),
        }
    }
}

/// What one more of something costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Footprint {
    /// One more of what.
    pub what: String,
    /// What is resident because of it, in bytes.
    pub bytes: f64,
    /// How that was found.
    pub how: String,
}

/// A figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Of what.
    pub what: String,
    /// How much.
    pub value: f64,
    /// Of which unit; empty for a count.
    pub unit: String,
}

impl Figure {
    pub(crate) fn new(what: &str, value: f64, unit: &str) -> Self {
        Figure { what: what.to_owned(), value, unit: unit.to_owned() }
    }
}

/// Another way to do the same, beside the dataflow as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The way.
    pub way: String,
    /// What was compared, the unit, our figure and theirs.
    pub rows: Vec<Compared>,
}

/// A row of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Of what.
    pub what: String,
    /// Of which unit.
    pub unit: String,
    /// By the plan that was taken.
    pub ours: f64,
    /// By the other one.
    pub theirs: f64,
}

impl Compared {
    /// By how much theirs is more.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.ours > 0.0 { self.theirs / self.ours } else { 0.0 }
    }
}

/// Curves over one scale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// What goes to the right.
    pub x: String,
    /// What goes up, and its unit.
    pub y: String,
    /// The unit of `y`.
    pub unit: String,
    /// The curves.
    pub lines: Vec<Line>,
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Of what.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}
