//! The table of cases: each scenario of a case stands in the row of its case, and what a row names is there.

use super::files::walk;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TABLE: &str = "docs/cases.md";
const SCENARIOS: &str = "tests/scenarios";

/// Where the tests are that rows name.
const CODE: [&str; 2] = ["crates", "tests"];

/// Every breach.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let table = fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    Ok(breaches(&table, &folders(&root.join(SCENARIOS))?, &functions(root)?))
}

fn folders(of: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(of).with_context(|| format!("cannot list {}", of.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect::<Result<_>>().with_context(|| format!("cannot list {}", of.display()))
}

/// The names of all functions.
fn functions(root: &Path) -> Result<BTreeSet<String>> {
    let mut files = Vec::new();
    for folder in CODE {
        walk(&root.join(folder), &mut files)?;
    }
    let mut names = BTreeSet::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let after_fn = text.lines().filter_map(|line| line.split_once("fn ")).map(|(_, after)| after);
        names.extend(after_fn.filter_map(|after| after.split(['(', '<']).next()).map(str::to_owned));
    }
    Ok(names)
}

fn breaches(table: &str, folders: &BTreeSet<String>, functions: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut covered = BTreeSet::new();
    for (case, held_by) in table.lines().filter_map(row) {
        for word in words(held_by) {
            let is_there = match kind(word) {
                Word::Case => folders.iter().any(|folder| of_case(folder) == Some(word)),
                Word::Scenario => folders.contains(word),
                Word::Test => functions.contains(word),
                Word::Other => true,
            };
            if !is_there {
                found.push(format!("{TABLE}: {case} names {word}, which is not there"));
            }
            if case.to_lowercase() == word {
                covered.insert(word);
            }
        }
    }
    let strays = folders.iter().filter(|folder| of_case(folder).is_some_and(|case| !covered.contains(case)));
    found.extend(strays.map(|folder| format!("{TABLE}: the row of its case does not name {SCENARIOS}/{folder}")));
    found
}

/// The case of a row and what holds us to it.
fn row(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    match cells.as_slice() {
        ["", case, _what, held_by, ""] if is_case(&case.to_lowercase()) => Some((case, held_by)),
        _ => None,
    }
}

/// The case that a scenario plays, by the name of its folder.
fn of_case(folder: &str) -> Option<&str> {
    folder.split_once('-').map(|(case, _)| case).filter(|case| is_case(case))
}

/// Whether it is a lower case letter and two digits.
fn is_case(text: &str) -> bool {
    matches!(text.as_bytes(), [b'a'..=b'z', b'0'..=b'9', b'0'..=b'9'])
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').filter(|word| !word.is_empty())
}

/// What a word names.
enum Word {
    Case,
    Scenario,
    Test,
    Other,
}

/// Names of tests are sentences, so they have several underlines; prose has no hyphens where the table is concerned.
fn kind(word: &str) -> Word {
    if is_case(word) {
        Word::Case
    } else if word.contains('-') {
        Word::Scenario
    } else if word.matches('_').count() > 2 {
        Word::Test
    } else {
        Word::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(table: &str) -> Vec<String> {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        breaches(table, &set(&["a01-one", "a01-more", "b02-two", "plain-one"]), &set(&["it_is_as_it_should"]))
    }

    #[test]
    fn the_table_of_this_tree_is_complete() {
        assert_eq!(check(crate::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_a_row_names_must_be_there() {
        let fine = "| A01 | x | a01; ads `it_is_as_it_should`, plain-one |\n| B02 | a-b | b02; later: more |\n";
        assert_eq!(told(fine), Vec::<String>::new());
        assert_eq!(told(&fine.replace("plain-one", "plain-two")).len(), 1);
        assert_eq!(told(&fine.replace("as_it_should", "as_it_is")).len(), 1);
        assert_eq!(told(&format!("{fine}| C03 | x | c03 |\n")).len(), 1);
    }

    #[test]
    fn a_scenario_must_stand_in_the_row_of_its_case() {
        assert_eq!(told("| A01 | x | later |\n| B02 | x | b02 |\n").len(), 2, "both scenarios of A01");
        assert_eq!(told("| A01 | x | a01, b02 |\n").len(), 1, "B02 has no row");
    }
}
