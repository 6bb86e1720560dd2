//! `tidegate serve` without any order of publication: every type at once at each seal, removals included. It is here to
//! show what the order is for (`cargo xtask churn --wire eager`), and is no part of what is installed.

use anyhow::anyhow;
use clap::Parser;
use tidegate::app;
use tidegate::clock;
use tidegate::command::serve::ServeArgs;
use tidegate_ads::session::Sequencing;

/// Serves as `tidegate serve` does, in no order.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Serve the Gateways of a directory of manifests to Envoys
    Serve(ServeArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve(args) = Cli::parse().command;
    let mut config = args.validate().map_err(|failure| anyhow!("{failure}"))?;
    config.sequencing = Sequencing::Eager;
    app::build(config, clock::system()).await?.run(std::future::pending()).await
}
