//! Everything that must hold before a change is merged. One profile and one target directory serve all steps, so that
//! nothing is compiled twice.

use crate::{step, tidy};
use anyhow::{Context, Result};
use std::time::Duration;

/// One step: its name, the cargo tool it needs if that may be missing, and what it does.
struct Step {
    name: &'static str,
    tool: Option<&'static str>,
    run: fn() -> Result<()>,
}

/// Cheap ones first.
const STEPS: [Step; 7] = [
    Step { name: "format", tool: Some("fmt"), run: || step::cargo(&["fmt", "--all", "--check"], &[]) },
    Step { name: "tidy", tool: None, run: tidy::run },
    Step { name: "lints", tool: Some("clippy"), run: lints },
    Step { name: "docs", tool: None, run: docs },
    Step { name: "tests", tool: None, run: || step::cargo(&["test", "--workspace"], &[]) },
    Step { name: "demo", tool: None, run: || step::cargo(&["xtask", "demo", "--once"], &[]) },
    Step { name: "churn", tool: None, run: || step::cargo(&["xtask", "churn", "--seconds", "20"], &[]) },
];

fn lints() -> Result<()> {
    step::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
}

fn docs() -> Result<()> {
    // Module pages are for those who read the code, so they may point at private modules.
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    step::cargo(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", flags)])
}

/// Runs all steps, up to the first that fails.
pub(crate) fn run() -> Result<()> {
    let mut spent: Vec<(&str, Option<Duration>)> = Vec::new();
    for Step { name, tool, run } in &STEPS {
        println!("\n=== {name}");
        if let Some(tool) = tool.filter(|tool| !step::has(tool)) {
            println!(
                "!!! NOT CHECKED: this toolchain has no `cargo {tool}`. Get it with: rustup component add rustfmt clippy"
            );
            spent.push((name, None));
            continue;
        }
        let (done, took) = step::timed(run);
        done.with_context(|| format!("{name} failed after {:.1} s", took.as_secs_f64()))?;
        spent.push((name, Some(took)));
    }
    println!("\n=== all steps passed");
    for (name, took) in &spent {
        match took {
            Some(took) => println!("{name:>8} {:6.1} s", took.as_secs_f64()),
            None => println!("{name:>8} NOT CHECKED"),
        }
    }
    let total: Duration = spent.iter().filter_map(|(_, took)| *took).sum();
    println!("{:>8} {:6.1} s", "total", total.as_secs_f64());
    Ok(())
}
