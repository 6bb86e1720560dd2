//! Times, memory and CPU of this process.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Memory of this process, in MB.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Resident now.
    pub resident: f64,
    /// Resident at most, so far.
    pub peak: f64,
}

impl Memory {
    /// Asks the kernel.
    ///
    /// # Panics
    ///
    /// Where there is no `/proc`.
    #[must_use]
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("costs are measured on Linux");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel reports memory");
            let number = line.trim().trim_end_matches(" kB").parse::<f64>().expect("memory is a number of kB");
            number / 1024.0
        };
        Memory { resident: field("VmRSS:"), peak: field("VmHWM:") }
    }

    /// What is resident, in bytes.
    #[must_use]
    pub fn bytes(self) -> f64 {
        self.resident * 1024.0 * 1024.0
    }
}

/// CPU time that the threads of this process have used that still run.
///
/// # Panics
///
/// Where there is no `/proc`.
#[must_use]
pub fn cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("costs are measured on Linux");
    let used = tasks.filter_map(|task| {
        // A thread may end meanwhile.
        let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(used.sum())
}

/// Durations of the same thing done many times.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Nothing measured yet.
    #[must_use]
    pub fn new() -> Self {
        Times::default()
    }

    /// Measures `work`.
    pub fn take<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.0.push(start.elapsed());
        result
    }

    /// Adds one that was measured elsewhere.
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.0.iter().sum()
    }

    /// In milliseconds, the one that `percent` of a hundred do not exceed; 0 if there are none.
    #[must_use]
    pub fn at(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    /// What there is to say about them, in microseconds.
    #[must_use]
    pub fn operation(&self, name: &str) -> Operation {
        let mean = if self.0.is_empty() { 0.0 } else { self.sum().as_secs_f64() * 1e6 / self.0.len() as f64 };
        Operation {
            name: name.to_owned(),
            count: self.0.len(),
            p50_us: self.at(50) * 1e3,
            p99_us: self.at(99) * 1e3,
            max_us: self.at(100) * 1e3,
            mean_us: mean,
            ..Operation::default()
        }
    }
}

/// What one sort of operation costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// What is done.
    pub name: String,
    /// How often it was measured.
    pub count: usize,
    /// Half of them take no longer, in microseconds.
    pub p50_us: f64,
    /// Of a hundred, 99 take no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// Facts that one adds and retracts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<f64>,
    /// Output rows that one adds and retracts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<f64>,
    /// Resources that are encoded because of one, however many clients get them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<f64>,
    /// Bytes that are sent because of one, to all clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<f64>,
    /// CPU time of one, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let mut times = Times::new();
        (1..=200).rev().for_each(|millis| times.push(Duration::from_millis(millis)));
        let operation = times.operation("wait");
        let figures = [operation.p50_us, operation.p99_us, operation.max_us].map(f64::round);
        assert_eq!(figures, [101_000.0, 199_000.0, 200_000.0]);
        assert_eq!((operation.count, operation.mean_us.round()), (200, 100_500.0));
        assert_eq!(Times::new().operation("nothing").p50_us, 0.0);
    }

    #[test]
    fn this_process_has_memory_and_has_used_time() {
        assert!(Memory::now().bytes() > 0.0 && Memory::now().peak > 0.0);
        assert!(!cpu().is_zero());
    }
}
