//! Golden files: written anew from what the code does now. The review is the difference.

use crate::step;
use anyhow::{Context, Result};
use std::process::Command;

/// Which golden files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The package whose tests write them
    #[arg(short, long, default_value = "tidegate-scenarios")]
    package: String,
    /// Only tests whose names contain this
    filter: Option<String>,
}

/// Runs the tests of the package with `UPDATE_GOLDEN=1` and says what changed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut arguments = vec!["test", "--package", &args.package];
    arguments.extend(args.filter.as_deref());
    step::cargo(&arguments, &[("UPDATE_GOLDEN", "1")])?;
    println!("\nchanged files (review them with `git diff`):");
    let status = Command::new("git").args(["status", "--short"]).current_dir(crate::root()).status();
    status.map(drop).context("cannot run git")
}
