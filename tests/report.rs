//! What became of each scenario, for a program that runs the tests: one line of JSON a scenario and way.

use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;

/// The variable that names the file.
const VARIABLE: &str = "TIDEGATE_REPORT";

/// Adds a line to the file that `TIDEGATE_REPORT` names, if it names one: the scenario, how it was played, and what was
/// wrong.
///
/// # Panics
///
/// The file cannot be written.
pub fn note(scenario: &str, way: &str, wrong: &[String]) {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let line = json!({ "scenario": scenario, "way": way, "passed": wrong.is_empty(), "wrong": wrong });
    let file = OpenOptions::new().create(true).append(true).open(&path);
    // One call a line, so that lines of threads and of programs do not mix.
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// What a panic says.
#[must_use]
pub fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    text.unwrap_or_else(|| "it panicked".to_owned())
}
