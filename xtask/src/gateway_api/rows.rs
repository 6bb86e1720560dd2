//! The rows: the conformance tests of the Gateway API that are about gateways, and which of them have a scenario here.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Where the rows lie, under `tests/`.
pub(super) const FOLDER_NAME: &str = "gateway_api";

/// Features that stand for a whole kind. Whoever has the kind has them; all others are taken or left one by one.
const CORE: [&str; 7] = ["Gateway", "ReferenceGrant", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"];

/// One conformance test.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// Its short name, also that of its folder.
    pub(super) name: String,
    /// The features that it needs beside `Gateway`.
    #[serde(default)]
    pub(super) features: Vec<String>,
    /// What it shows.
    pub(super) about: String,
    /// Why it does not count, if it does not.
    pub(super) not_counted: Option<String>,
    /// The scenario that plays it.
    #[serde(skip)]
    pub(super) scenario: Option<Scenario>,
}

/// The scenario of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scenario {
    /// Its name, as tests know it.
    pub(super) name: String,
    /// Whether it makes requests, which need an Envoy.
    pub(super) asks: bool,
}

impl Row {
    /// Whether it counts.
    pub(super) fn counts(&self) -> bool {
        self.not_counted.is_none()
    }

    /// The features that it speaks for. One that nobody needs to have speaks for itself; only if there is none such,
    /// the row is about kinds.
    fn speaks_for(&self) -> Vec<&str> {
        let own = || self.features.iter().map(String::as_str);
        let extended: Vec<&str> = own().filter(|feature| !CORE.contains(feature)).collect();
        match (extended.is_empty(), self.features.is_empty()) {
            (false, _) => extended,
            (true, false) => own().collect(),
            (true, true) => vec![CORE[0]],
        }
    }
}

/// Every row, in the order of the file.
pub(crate) fn read(root: &Path) -> Result<Vec<Row>> {
    let folder = root.join("tests").join(FOLDER_NAME);
    let path = folder.join("rows.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut rows: Vec<Row> =
        serde_saphyr::from_str(&text).with_context(|| format!("cannot understand {}", path.display()))?;
    for row in &mut rows {
        row.scenario = scenario(&folder.join(&row.name), &row.name)?;
    }
    Ok(rows)
}

/// The scenario in this folder, if it is there.
fn scenario(folder: &Path, row: &str) -> Result<Option<Scenario>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let path = folder.join("expect.yaml");
    let expect = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let asks = expect.lines().any(|line| line.trim_start().starts_with("requests:"));
    Ok(Some(Scenario { name: format!("{FOLDER_NAME}/{row}"), asks }))
}

/// What is wrong with the rows: names that are there twice, folders that are no row.
pub(crate) fn breaches(root: &Path) -> Result<Vec<String>> {
    let rows = read(root)?;
    let folder = root.join("tests").join(FOLDER_NAME);
    let mut folders = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.is_dir() {
            folders.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    folders.sort();
    Ok(odd(&rows, &folders))
}

fn odd(rows: &[Row], folders: &[String]) -> Vec<String> {
    let mut names = BTreeSet::new();
    let twice = rows.iter().filter(|row| !names.insert(row.name.as_str()));
    let mut found: Vec<String> =
        twice.map(|row| format!("tests/{FOLDER_NAME}/rows.yaml: {} is there twice", row.name)).collect();
    let strays = folders.iter().filter(|folder| !names.contains(folder.as_str()));
    found.extend(strays.map(|folder| {
        format!("tests/{FOLDER_NAME}/{folder}: no row of rows.yaml has this name; rename it, or put it into scenarios/")
    }));
    found
}

/// The table of features: which are supported, and how many of their rows have a scenario. A row that has one passes, or
/// the tests of this very tree fail; so that every row that counts has one is all that needs to be known.
pub(crate) fn feature_table(rows: &[Row]) -> String {
    let mut table = "| feature | supported | rows that pass |\n|---|---|---|\n".to_owned();
    for (feature, rows) in by_feature(rows) {
        let counted: Vec<&&Row> = rows.iter().filter(|row| row.counts()).collect();
        let passing = counted.iter().filter(|row| row.scenario.is_some()).count();
        let supported = if passing == counted.len() && passing > 0 { "yes" } else { "no" };
        writeln!(table, "| {feature} | {supported} | {passing} of {} |", counted.len()).expect("a text takes text");
    }
    table
}

/// The rows of each feature: kinds first, then the others by name.
fn by_feature(rows: &[Row]) -> Vec<(&str, Vec<&Row>)> {
    let mut features: BTreeMap<(usize, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        for feature in row.speaks_for() {
            let place = CORE.iter().position(|core| *core == feature).unwrap_or(CORE.len());
            features.entry((place, feature)).or_default().push(row);
        }
    }
    features.into_iter().map(|((_, feature), rows)| (feature, rows)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, features: &[&str], has_scenario: bool) -> Row {
        let scenario = has_scenario.then(|| Scenario { name: format!("gateway_api/{name}"), asks: false });
        let features = features.iter().map(ToString::to_string).collect();
        Row { name: name.to_owned(), features, about: "something".to_owned(), not_counted: None, scenario }
    }

    #[test]
    fn a_feature_is_supported_if_every_row_that_speaks_for_it_has_a_scenario() {
        let rows = [
            row("A", &[], true),
            row("B", &["HTTPRoute"], true),
            row("C", &["HTTPRoute", "HTTPRouteCORS"], false),
            row("D", &["HTTPRoute", "ReferenceGrant"], true),
            row("E", &["ReferenceGrant"], false),
            Row { not_counted: Some("no cluster".to_owned()), ..row("F", &["Pods"], false) },
        ];
        let lines = [
            "| feature | supported | rows that pass |",
            "|---|---|---|",
            "| Gateway | yes | 1 of 1 |",
            "| ReferenceGrant | no | 1 of 2 |",
            "| HTTPRoute | yes | 2 of 2 |",
            "| HTTPRouteCORS | no | 0 of 1 |",
            "| Pods | no | 0 of 0 |",
        ];
        assert_eq!(feature_table(&rows), lines.join("\n") + "\n");
    }

    #[test]
    fn a_row_that_is_there_twice_and_a_folder_that_is_no_row_are_found() {
        let rows = [row("A", &[], true), row("B", &[], false), row("A", &[], true)];
        let found = odd(&rows, &["A".to_owned(), "C".to_owned()]);
        assert!(found[0].ends_with("A is there twice") && found[1].starts_with("tests/gateway_api/C: "), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn the_rows_of_this_tree_can_be_read() {
        let rows = read(crate::root()).unwrap();
        assert_eq!(rows.len(), 131);
        assert_eq!(breaches(crate::root()).unwrap(), Vec::<String>::new());
        let known = |row: &Row| row.features.iter().all(|feature| !feature.is_empty() && feature != CORE[0]);
        assert!(rows.iter().all(|row| known(row) && !row.about.is_empty()));
    }
}
