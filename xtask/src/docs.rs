//! The parts of the documentation that are written by programs: the command line in `docs/cli.md`, the metrics in
//! `docs/operations.md`, the features of the Gateway API in `README.md`. tidegate is asked, not linked: its commands live
//! in no library that may be known here.

use crate::gateway_api::rows;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The marks around what is written. What stands outside of them is written by hand.
const BEGIN: &str = "<!-- written by cargo xtask docs: begin -->\n";
const END: &str = "<!-- written by cargo xtask docs: end -->";

/// Who knows what stands in a table.
enum Source {
    /// tidegate, under this name.
    Tidegate(&'static str),
    /// The rows of the Gateway API's conformance tests.
    Rows,
}

/// Which page has which table.
const PAGES: [(&str, Source); 3] = [
    ("docs/cli.md", Source::Tidegate("cli")),
    ("docs/operations.md", Source::Tidegate("metrics")),
    ("README.md", Source::Rows),
];

/// Writes the tables.
pub(crate) fn run() -> Result<()> {
    for (page, old, new) in pages()? {
        if old != new {
            fs::write(crate::root().join(page), new).with_context(|| format!("cannot write {page}"))?;
            println!("{page}: written");
        }
    }
    Ok(())
}

/// The pages that do not say what the program says.
pub(crate) fn stale() -> Result<Vec<String>> {
    let stale = pages()?.into_iter().filter(|(_, old, new)| old != new);
    Ok(stale.map(|(page, ..)| format!("{page}: its tables are stale; run cargo xtask docs")).collect())
}

/// Each page: its name, its text, and what that should be.
fn pages() -> Result<Vec<(&'static str, String, String)>> {
    let tidegate = step::build("tidegate")?;
    let page = |(page, source): (&'static str, Source)| {
        let old = fs::read_to_string(crate::root().join(page)).with_context(|| format!("cannot read {page}"))?;
        let table = match source {
            Source::Tidegate(table) => ask(&tidegate, table)?,
            Source::Rows => rows::feature_table(&rows::read(crate::root())?),
        };
        let new = with_table(&old, &table).with_context(|| format!("cannot renew {page}"))?;
        Ok((page, old, new))
    };
    PAGES.into_iter().map(page).collect()
}

fn ask(tidegate: &Path, table: &str) -> Result<String> {
    let output = Command::new(tidegate).args(["reference", table]).output().context("cannot run tidegate")?;
    if !output.status.success() {
        bail!("tidegate reference {table} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("tidegate reference printed no text")
}

/// The page with this table between the marks.
fn with_table(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the mark of the begin is missing")?;
    let (_, after) = rest.split_once(END).context("the mark of the end is missing")?;
    Ok(format!("{before}{BEGIN}\n{}\n\n{END}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_replaced_between_its_marks_and_a_second_time_changes_nothing() {
        let page = format!("by hand\n\n{BEGIN}old\n{END}\n\nby hand too\n");
        let renewed = with_table(&page, "\n| new |\n").unwrap();
        assert_eq!(renewed, format!("by hand\n\n{BEGIN}\n| new |\n\n{END}\n\nby hand too\n"));
        assert_eq!(with_table(&renewed, "| new |").unwrap(), renewed);
        assert!(with_table("no marks", "").is_err());
    }
}
