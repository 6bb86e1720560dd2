//! Developer commands. `cargo xtask --help` lists them; each is one module.
//!
//! * [`demo`]: real Envoys serve `examples/shop`, every answer is checked, things change under load.
//! * [`churn`]: real Envoys under load while everything changes at random and controllers are killed.
//! * [`ci`]: everything that must hold before a change is merged, in one run.
//! * [`tidy`]: rules about the source tree that the compiler does not know.
//! * [`gateway_api`]: plays the rows of the Gateway API's conformance tests and says which pass.
//! * [`golden`]: writes the golden files of the scenarios anew.
//! * [`docs`]: writes the tables of the documentation anew.

mod churn;
mod ci;
mod demo;
mod docs;
mod gateway_api;
mod golden;
mod step;
mod tidy;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Developer commands of tidegate.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve examples/shop with a real Envoy and say what to try
    Demo(demo::Args),
    /// Change everything at random under load, kill controllers, and hold every answer to what was configured
    Churn(churn::Args),
    /// Run everything that must hold: format, lints, docs, tidy, tests, demo, churn
    Ci,
    /// Check crate edges, file sizes, heads, rows and the tables of the documentation
    Tidy,
    /// Write the golden files of the scenarios anew
    Golden(golden::Args),
    /// Write the tables of the documentation anew: flags, metrics and features
    Docs,
    /// Play the rows of the Gateway API's conformance tests as scenarios and say which pass
    GatewayApi(gateway_api::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Churn(args) => churn::run(&args),
        Command::Ci => ci::run(),
        Command::Tidy => tidy::run(),
        Command::Golden(args) => golden::run(&args),
        Command::Docs => docs::run(),
        Command::GatewayApi(args) => gateway_api::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the source tree.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in a folder of the workspace")
}

/// The cargo that runs this.
fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}
