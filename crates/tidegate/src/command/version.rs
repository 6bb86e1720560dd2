//! `tidegate version`.

use super::{Failure, print};
use clap::{Args, ValueEnum};
use serde_json::json;

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Print the version.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  tidegate version\n  tidegate version -o json")]
pub struct VersionArgs {
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// Prints the version of the program, and what it looks for.
///
/// # Errors
///
/// When stdout cannot be written.
pub fn run(args: &VersionArgs) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    print(&match args.output {
        Output::Text => format!("tidegate {version}\n"),
        Output::Json => {
            let kinds = tidegate_model::Kind::ALL.map(tidegate_model::Kind::as_str);
            format!(
                "{:#}\n",
                json!({ "version": version, "controller": tidegate_model::CONTROLLER_NAME, "kinds": kinds })
            )
        }
    })
}
