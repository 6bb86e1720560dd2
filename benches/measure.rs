//! Arguments, times, memory and tables.

use std::process::Command;
use std::time::{Duration, Instant};

/// How a bench is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Small and short: figures mean nothing.
    pub quick: bool,
    /// Show what each operator costs.
    pub operators: bool,
    /// What to measure in this process, which another one started for it.
    pub child: Vec<String>,
}

impl Options {
    /// Reads the arguments of the process; what it does not know is cargo's.
    #[must_use]
    pub fn read() -> Self {
        let mut options = Options::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--operators" => options.operators = true,
                "--child" => options.child = arguments.by_ref().collect(),
                _ => {}
            }
        }
        options
    }

    /// The one number or the other.
    #[must_use]
    pub fn pick(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// Runs this bench again with `--child` and these arguments; returns what it [`say`]s, in order.
///
/// # Panics
///
/// If that process fails or says anything else.
#[must_use]
pub fn in_own_process(arguments: &[&str]) -> Vec<f64> {
    let program = std::env::current_exe().expect("a running program is somewhere");
    let output = Command::new(program).arg("--child").args(arguments).output().expect("a bench can start itself");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the process for {arguments:?} failed: {errors}");
    let text = String::from_utf8(output.stdout).expect("figures are text");
    text.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{line:?} is no figure"))).collect()
}

/// Hands figures to the process that called [`in_own_process`].
pub fn say(figures: &[f64]) {
    figures.iter().for_each(|figure| println!("{figure}"));
}

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
        let status = std::fs::read_to_string("/proc/self/status").expect("benches run on Linux");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel reports memory");
            let number = line.trim().trim_end_matches(" kB").parse::<f64>().expect("memory is a number of kB");
            number / 1024.0
        };
        Memory { resident: field("VmRSS:"), peak: field("VmHWM:") }
    }
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
}

/// What a figure should be.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Nothing: it is said for orientation.
    Free,
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

/// A table of figures, printed row by row.
#[derive(Debug)]
pub struct Report(());

impl Report {
    /// Prints the head.
    #[must_use]
    pub fn new(title: &str) -> Self {
        println!("\n{title:<58} {:>14} {:>14}  {:<9} met", "figure", "target", "of target");
        Report(())
    }

    /// Prints a figure with its unit.
    pub fn row(&self, what: &str, figure: f64, unit: &str, target: Target) {
        let shown = |value: f64| format!("{} {unit}", short(value));
        let (bound, share, met) = match target {
            Target::Free => (String::new(), String::new(), ""),
            Target::AtMost(most) => (format!("<= {}", shown(most)), short(figure / most), verdict(figure <= most)),
            Target::AtLeast(least) => (format!(">= {}", shown(least)), short(figure / least), verdict(figure >= least)),
        };
        println!("{what:<58} {:>14} {bound:>14}  {share:<9} {met}", shown(figure));
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "yes" } else { "NO" }
}

/// Three digits, or all before the point.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        small if small < 1.0 => 3,
        small if small < 10.0 => 2,
        small if small < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}
