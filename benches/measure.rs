//! Arguments, processes and tables.

use std::process::Command;

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

/// Runs this bench again with these options, `--child` and these arguments; returns what it [`say`]s, in order.
///
/// # Panics
///
/// If that process fails or says anything else.
#[must_use]
pub fn in_own_process(options: &[&str], arguments: &[&str]) -> Vec<f64> {
    let program = std::env::current_exe().expect("a running program is somewhere");
    let output =
        Command::new(program).args(options).arg("--child").args(arguments).output().expect("a bench can start itself");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the process for {arguments:?} failed: {errors}");
    let text = String::from_utf8(output.stdout).expect("figures are text");
    text.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{line:?} is no figure"))).collect()
}

/// Hands figures to the process that called [`in_own_process`].
pub fn say(figures: &[f64]) {
    figures.iter().for_each(|figure| println!("{figure}"));
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
