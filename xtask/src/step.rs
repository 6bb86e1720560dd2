//! One command of a longer run: shown, timed, and told how to repeat when it fails.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Times `work`.
#[allow(clippy::disallowed_methods, reason = "the time that a developer waits is measured here and nowhere else")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let done = work();
    (done, began.elapsed())
}

/// Runs `cargo ARGUMENTS` in the root of the source tree, with its output where ours goes.
///
/// # Errors
///
/// It fails; the text is the command to repeat.
pub(crate) fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let prefix: String = environment.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    let shown = format!("{prefix}cargo {}", arguments.join(" "));
    println!("$ {shown}");
    let status = Command::new(crate::cargo())
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(crate::root())
        .status()
        .with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("failed with {status}; to repeat it:\n\n    {shown}\n");
    }
    Ok(())
}

/// Builds a program of this workspace; where it is.
///
/// # Errors
///
/// It does not build.
pub(crate) fn build(name: &str) -> Result<PathBuf> {
    cargo(&["build", "--bin", name], &[])?;
    let mut command = cargo_metadata::MetadataCommand::new();
    let metadata = command.cargo_path(crate::cargo()).current_dir(crate::root()).no_deps().exec();
    let metadata = metadata.context("cannot ask cargo where it builds to")?;
    Ok(metadata.target_directory.join("debug").join(name).into_std_path_buf())
}

/// Whether `cargo NAME` is installed.
pub(crate) fn has(name: &str) -> bool {
    Command::new(crate::cargo()).args([name, "--version"]).output().is_ok_and(|output| output.status.success())
}
