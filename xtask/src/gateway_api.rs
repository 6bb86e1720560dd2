//! The conformance tests of the Gateway API, row by row, as our own scenarios play them: a table of what passes.
//!
//! [`rows`] knows which rows there are, [`results`] what became of them. The scenarios are played by the tests of the
//! package `tidegate-scenarios`; here they are only chosen and counted.

mod results;

pub(crate) mod rows;

use crate::step;
use anyhow::{Context, Result, bail};
use comfy_table::{Table, presets};
use results::{Results, Verdict};
use rows::Row;
use serde_json::{Value, json};
use std::path::Path;

/// The tests that play scenarios, for cargo. All of the workspace: with fewer packages it would choose other features,
/// and build everything once more.
const TESTS: [&str; 6] = ["test", "--workspace", "--test", "three_ways", "--test", "real_envoy"];

/// How the names of those tests of them begin that play scenarios.
const ONLY: &str = "every_";

/// Which rows, and how to show them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only rows whose names begin with this
    name: Option<String>,
    /// How to print the rows
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: Output,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Plays the rows and prints what became of each.
///
/// # Errors
///
/// They cannot be played, or a row that counts and has a scenario fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = args.name.as_deref().unwrap_or_default();
    let rows = rows::read(crate::root())?;
    let rows: Vec<&Row> = rows.iter().filter(|row| row.name.starts_with(wanted)).collect();
    if rows.is_empty() {
        bail!("no row begins with {wanted:?}; tests/gateway_api/rows.yaml has them all");
    }
    let results = if rows.iter().any(|row| row.scenario.is_some()) { play(wanted)? } else { Results::default() };
    let judged: Vec<(&Row, Verdict)> = rows.iter().map(|row| (*row, results.of(row))).collect();
    match args.output {
        Output::Table => println!("{}\n{}", table(&judged), totals(&judged)),
        Output::Json => println!("{}", to_json(&judged)),
    }
    let failed = judged.iter().filter(|(row, verdict)| row.counts() && matches!(verdict, Verdict::Failed(_))).count();
    if failed > 0 {
        bail!("{failed} rows fail; see above");
    }
    Ok(())
}

/// Builds the tests, plays the rows that begin with `wanted`, and reads what the tests say of each.
fn play(wanted: &str) -> Result<Results> {
    step::cargo_aside(&[&TESTS[..], &["--no-run"]].concat(), &[])?;
    let folder = tempfile::tempdir().context("cannot make a folder for the report")?;
    let report = folder.path().join("report.jsonl");
    let named = format!("{}/{wanted}", rows::FOLDER_NAME);
    let path = report.to_str().context("the temporary folder has a name that is no text")?;
    let environment = [("TIDEGATE_SCENARIO", named.as_str()), ("TIDEGATE_REPORT", path)];
    let played = step::cargo_aside(&[&TESTS[..], &["--no-fail-fast", "--", ONLY]].concat(), &environment);
    let results = read_results(&report)?;
    // A test that fails for a row is what the table is for; one that fails for anything else has to be said.
    if let Err(error) = played
        && !results.any_failed()
    {
        return Err(error.context("the tests failed, but for no row"));
    }
    Ok(results)
}

fn read_results(report: &Path) -> Result<Results> {
    match std::fs::read_to_string(report) {
        Ok(text) => Results::parse(&text).context("cannot understand the report of the tests"),
        Err(_) => Ok(Results::default()),
    }
}

fn table(judged: &[(&Row, Verdict)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(["row", "features", "result"]);
    for (row, verdict) in judged {
        table.add_row([row.name.clone(), row.features.join("\n"), verdict.to_string()]);
    }
    table
}

fn totals(judged: &[(&Row, Verdict)]) -> String {
    let count = |holds: fn(&Verdict) -> bool| judged.iter().filter(|(_, verdict)| holds(verdict)).count();
    let not_counted = judged.iter().filter(|(row, _)| !row.counts()).count();
    let missing = judged.iter().filter(|(row, verdict)| row.counts() && matches!(verdict, Verdict::Missing)).count();
    let passed = count(|verdict| matches!(verdict, Verdict::Passed));
    let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
    format!(
        "{} rows: {passed} passed, {failed} failed, {missing} have no scenario yet, {not_counted} do not count",
        judged.len()
    )
}

fn to_json(judged: &[(&Row, Verdict)]) -> Value {
    let row = |(row, verdict): &(&Row, Verdict)| {
        let wrong = match verdict {
            Verdict::Failed(wrong) => wrong.as_slice(),
            Verdict::Passed | Verdict::Missing | Verdict::NotCounted(_) => &[],
        };
        json!({
            "name": row.name, "features": row.features, "about": row.about, "counts": row.counts(),
            "not_counted": row.not_counted, "result": verdict.word(), "wrong": wrong,
        })
    };
    judged.iter().map(row).collect()
}
