//! The subcommands, one file each: `*Args` as typed, `*Config` validated, and what is then done.

pub mod bootstrap;

pub mod completions;

pub mod lifetime;

pub mod limits;

pub mod locality;
pub mod profile;

pub mod reference;

pub mod replay;

pub mod report;

pub mod serve;

pub mod standalone;

pub mod translate;

pub mod version;

use crate::args::{Cli, Command};
use std::fmt;

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub enum Failure {
    /// The command line cannot be used; the text names the flag and says what to do.
    Usage(String),
    /// It failed while running.
    Failed(anyhow::Error),
}

impl Failure {
    /// The exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) => f.write_str(text),
            Failure::Failed(error) => write!(f, "{error:#}"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Failed(error)
    }
}

/// Runs what the command line asks for.
///
/// # Errors
///
/// See [`Failure`].
pub fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Standalone(args) => standalone::run(args),
        Command::Translate(args) => translate::run(&args),
        Command::Replay(args) => replay::run(args),
        Command::Report(args) => report::run(args),
        Command::Profile(args) => profile::run(&args),
        Command::ProfilePart(args) => profile::part(&args),
        Command::Bootstrap(args) => bootstrap::run(args),
        Command::Completions(args) => completions::run(&args),
        Command::Version(args) => version::run(&args),
        Command::Reference(args) => reference::run(&args),
    }
}

/// Prints to stdout; a reader that went away (`| head`) is no error.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(anyhow::Error::new(error).context("cannot write to stdout")))
        }
        _ => Ok(()),
    }
}
