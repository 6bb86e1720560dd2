//! What is printed.

use super::change::Kind;
use super::director::{Director, Finished};
use anyhow::{Result, bail};
use comfy_table::{Table, presets};
use std::time::Duration;

/// One line while it runs.
pub(super) fn progress(now: Duration, director: &Director) -> String {
    let events = &director.events;
    let changes: u64 = events.changes.values().sum();
    let mut line = format!(
        "{:5.0} s: {changes} changes, {} outages, {} takeovers",
        now.as_secs_f64(),
        events.outages,
        events.takeovers
    );
    for judge in &director.judges {
        let counts = &judge.counts;
        line += &format!("; {}: {} requests, {} failures", judge.name, counts.requests, counts.failures);
    }
    line
}

/// Prints all of it.
///
/// # Errors
///
/// Something was wrong.
pub(super) fn finish(finished: &Finished, asked_rps: u32) -> Result<()> {
    let events = &finished.events;
    let mut table = table(&["change", "times"]);
    for kind in Kind::ALL {
        table.add_row([kind.shown().to_owned(), events.changes.get(&kind).copied().unwrap_or_default().to_string()]);
    }
    table.add_row(["all".to_owned(), events.changes.values().sum::<u64>().to_string()]);
    println!("{table}\n{}", answers(finished));
    let requests: u64 = finished.judges.iter().map(|judge| judge.counts.requests).sum();
    #[allow(clippy::cast_precision_loss, reason = "fewer than 2^52 requests were sent")]
    let rate = requests as f64 / finished.lasted.as_secs_f64();
    let (outages, takeovers) = (events.outages, events.takeovers);
    println!(
        "{requests} requests in {:.1} s, {rate:.0} a second, {} sent late\n\
         {outages} times all controllers killed and started again, {takeovers} times the serving one killed and the \
         other one there\n\
         overdue pins: {}; rejected responses: {}; broken guarantees: {}",
        finished.lasted.as_secs_f64(),
        finished.late,
        events.figures.overdue_pins,
        events.figures.nacks,
        events.figures.violations,
    );
    let described: Vec<&str> =
        finished.judges.iter().flat_map(|judge| &judge.described).map(String::as_str).take(20).collect();
    if !described.is_empty() {
        println!("\nfailures, the first of them:\n{}", described.join("\n"));
    }
    verdict(finished, rate, asked_rps)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header.iter().copied());
    table
}

fn answers(finished: &Finished) -> Table {
    let header = ["envoy", "requests", "kept conn.", "failures", "not arrived", "seen after p50", "max"];
    let mut table = table(&header);
    for judge in &finished.judges {
        let counts = &judge.counts;
        let mut arrivals = counts.arrivals.clone();
        arrivals.sort();
        let ms = |at: usize| arrivals.get(at).map_or("-".to_owned(), |took| format!("{} ms", took.as_millis()));
        let [middle, last] = [ms(arrivals.len() / 2), ms(arrivals.len().saturating_sub(1))];
        let figures = [counts.requests, counts.kept, counts.failures, counts.missing];
        let figures = figures.map(|figure| figure.to_string());
        table.add_row([judge.name.to_owned()].into_iter().chain(figures).chain([middle, last]));
    }
    table
}

/// The part of the load that must have come about at least: speed is no matter of right and wrong.
const LEAST: f64 = 20.0;

fn verdict(finished: &Finished, rate: f64, asked_rps: u32) -> Result<()> {
    let sum = |figure: fn(&super::judge::Counts) -> u64| -> u64 {
        finished.judges.iter().map(|judge| figure(&judge.counts)).sum()
    };
    let figures = &finished.events.figures;
    let wrong: Vec<String> = [
        (sum(|counts| counts.failures), "wrong answers"),
        (sum(|counts| counts.missing), "changes that did not arrive"),
        (figures.overdue_pins, "overdue pins"),
        (figures.nacks, "rejected responses"),
        (figures.violations, "broken guarantees"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    if !wrong.is_empty() {
        bail!("{}; envoy's own counts: {:?}", wrong.join(", "), finished.rejected);
    }
    if !finished.rejected.is_empty() {
        bail!("envoy rejected configuration: {:?}", finished.rejected);
    }
    let asked = f64::from(asked_rps);
    if rate < asked / LEAST {
        bail!("{rate:.0} requests a second of {asked_rps} show nothing: this machine is too slow or too busy");
    }
    if rate < asked * 0.9 {
        eprintln!(
            "only {rate:.0} requests a second of {asked_rps}: this machine is slow or busy, so this run shows less"
        );
    }
    Ok(())
}
