//! One command of a longer run: shown, timed, and told how to repeat when it fails.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
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
    let shown = shown(arguments, environment);
    println!("$ {shown}");
    finish(command(arguments, environment), &shown)
}

/// The same with everything on standard error, for commands whose own output is for programs.
///
/// # Errors
///
/// It fails; the text is the command to repeat.
pub(crate) fn cargo_aside(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let shown = shown(arguments, environment);
    eprintln!("$ {shown}");
    let mut command = command(arguments, environment);
    command.stdout(std::io::stderr());
    finish(command, &shown)
}

fn shown(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let prefix: String = environment.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    format!("{prefix}cargo {}", arguments.join(" "))
}

fn command(arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(crate::cargo());
    command.args(arguments).current_dir(crate::root());
    std::env::vars_os().map(|(name, _)| name).filter(|name| is_of_this_package(name)).for_each(|name| {
        command.env_remove(name);
    });
    command.envs(environment.iter().copied());
    command
}

fn finish(mut command: Command, shown: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("failed with {status}; to repeat it:\n\n    {shown}\n");
    }
    Ok(())
}

/// Whether cargo set a variable for this very program. Build scripts look at some of these (ring's does), so what they
/// build would be built again whenever cargo is called by hand after us, or by us after that.
fn is_of_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Builds a program of this workspace; where it is.
///
/// # Errors
///
/// It does not build.
pub(crate) fn build(name: &str) -> Result<PathBuf> {
    cargo(&["build", "--bin", name], &[])?;
    Ok(built()?.join(name))
}

/// Builds an example of a package of this workspace; where it is.
///
/// # Errors
///
/// It does not build.
pub(crate) fn build_example(package: &str, name: &str) -> Result<PathBuf> {
    cargo(&["build", "--package", package, "--example", name], &[])?;
    Ok(built()?.join("examples").join(name))
}

/// Where programs are built to.
fn built() -> Result<PathBuf> {
    let mut command = cargo_metadata::MetadataCommand::new();
    let metadata = command.cargo_path(crate::cargo()).current_dir(crate::root()).no_deps().exec();
    let metadata = metadata.context("cannot ask cargo where it builds to")?;
    Ok(metadata.target_directory.join("debug").into_std_path_buf())
}

/// Whether `cargo NAME` is installed.
pub(crate) fn has(name: &str) -> bool {
    Command::new(crate::cargo()).args([name, "--version"]).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_who_runs_is_not_handed_on_and_what_says_how_to_build_is() {
        let of_this = ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"];
        assert!(of_this.iter().all(|name| is_of_this_package(OsStr::new(name))));
        let of_all = ["CARGO", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_TERM_COLOR", "PATH"];
        assert!(!of_all.iter().any(|name| is_of_this_package(OsStr::new(name))));
    }
}
