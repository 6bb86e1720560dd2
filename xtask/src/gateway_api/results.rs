//! What became of each row.

use super::rows::Row;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Longest text about a failure in the table; all of it is in what the tests print.
const MAX_SHOWN: usize = 200;

/// One line of the report that the tests write.
#[derive(Debug, Deserialize)]
struct Line {
    scenario: String,
    way: String,
    passed: bool,
    wrong: Vec<String>,
}

/// What the tests said, by scenario.
#[derive(Debug, Default)]
pub(super) struct Results(BTreeMap<String, Vec<Line>>);

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Everything that is expected holds, every way.
    Passed,
    /// It does not; what is wrong, at least one text.
    Failed(Vec<String>),
    /// It counts and has no scenario.
    Missing,
    /// It does not count and has no scenario; why.
    NotCounted(String),
}

impl Results {
    /// Reads a report: one line of JSON a scenario and way.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut results = Results::default();
        for text in text.lines() {
            let line: Line = serde_json::from_str(text).with_context(|| format!("not a line of a report: {text}"))?;
            results.0.entry(line.scenario.clone()).or_default().push(line);
        }
        Ok(results)
    }

    /// Whether any scenario failed.
    pub(super) fn any_failed(&self) -> bool {
        self.0.values().flatten().any(|line| !line.passed)
    }

    /// What became of the row. Who was not asked has not passed.
    pub(super) fn of(&self, row: &Row) -> Verdict {
        let Some(scenario) = &row.scenario else {
            return row.not_counted.clone().map_or(Verdict::Missing, Verdict::NotCounted);
        };
        let lines = self.0.get(&scenario.name).map(Vec::as_slice).unwrap_or_default();
        let mut wrong: Vec<String> = Vec::new();
        for line in lines.iter().filter(|line| !line.passed) {
            wrong.extend(line.wrong.iter().map(|text| format!("{}: {text}", line.way)));
        }
        let was_played = |way: &str| lines.iter().any(|line| line.way == way);
        if !was_played("three ways") {
            wrong.push("it was not translated".to_owned());
        }
        if scenario.asks && !was_played("delta") {
            wrong.push("its requests were not made".to_owned());
        }
        if wrong.is_empty() { Verdict::Passed } else { Verdict::Failed(wrong) }
    }
}

impl Verdict {
    /// One word for programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed(_) => "failed",
            Verdict::Missing => "missing",
            Verdict::NotCounted(_) => "not counted",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Passed => f.write_str("passed"),
            Verdict::Failed(wrong) => {
                let first: String = wrong.iter().flat_map(|text| text.chars()).take(MAX_SHOWN).collect();
                write!(f, "FAILED: {first}")
            }
            Verdict::Missing => f.write_str("failed: no scenario yet"),
            Verdict::NotCounted(why) => write!(f, "not counted: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway_api::rows::Scenario;

    fn row(scenario: Option<bool>, not_counted: Option<&str>) -> Row {
        Row {
            name: "Row".to_owned(),
            features: Vec::new(),
            about: "something".to_owned(),
            not_counted: not_counted.map(str::to_owned),
            scenario: scenario.map(|asks| Scenario { name: "gateway_api/Row".to_owned(), asks }),
        }
    }

    fn line(way: &str, wrong: &[&str]) -> String {
        let passed = wrong.is_empty();
        serde_json::json!({ "scenario": "gateway_api/Row", "way": way, "passed": passed, "wrong": wrong }).to_string()
    }

    #[test]
    fn a_row_passes_if_every_way_does_and_none_is_missing() {
        let verdict = |lines: &[String], asks| Results::parse(&lines.join("\n")).unwrap().of(&row(Some(asks), None));
        let failed = |texts: &[&str]| Verdict::Failed(texts.iter().map(ToString::to_string).collect());
        let (translated, asked) = (line("three ways", &[]), line("delta", &[]));
        assert_eq!(verdict(&[translated.clone(), asked.clone()], true), Verdict::Passed);
        assert_eq!(verdict(std::slice::from_ref(&translated), false), Verdict::Passed);
        assert_eq!(verdict(std::slice::from_ref(&translated), true), failed(&["its requests were not made"]));
        assert_eq!(verdict(&[asked], true), failed(&["it was not translated"]));
        assert_eq!(verdict(&[translated, line("delta", &["404"])], true), failed(&["delta: 404"]));
    }

    #[test]
    fn a_row_without_scenario_is_missing_unless_it_does_not_count() {
        let none = Results::default();
        assert_eq!(none.of(&row(None, None)), Verdict::Missing);
        assert_eq!(none.of(&row(None, Some("no cluster"))), Verdict::NotCounted("no cluster".to_owned()));
    }
}
