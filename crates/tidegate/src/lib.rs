//! The binary: arguments, configuration, wiring, supervision.
//!
//! *Comes in*: a command line. *Goes out*: a running controller, or the answer of a one-shot command. *Must not be
//! known by* any other crate. *Start at* [`args`] for what can be asked, then [`app`], which is the whole program in
//! one function and is shared by the binary and by tests.
//!
//! Arguments go through two stages: `*Args` are typed by clap, `*Config` are validated; only a `*Config` is run. One
//! file under `command` per subcommand.
//!
//! **Invariant**: this crate decides nothing about traffic. It holds the only real clock ([`clock`]) and the only
//! place where tasks are started ([`supervise`]).

pub mod args;

pub mod command;

pub mod app;

pub mod fleet;

mod reporter;

pub mod supervise;

pub mod clock;

pub mod logging;

use clap::Parser;
use std::process::ExitCode;

/// Parses the command line and runs what it asks for.
#[must_use]
pub fn main() -> ExitCode {
    match command::run(args::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tidegate: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
