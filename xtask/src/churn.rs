//! Real Envoys under constant load while everything changes at random, and controllers are killed: every answer must be
//! what was right just before or just after a change, and never an error.
//!
//! What is configured is a [`world`]; a [`change`] edits it at random; [`manifests`] saves it. Each route sets a mark on
//! its answers, each Service has backends of its own, each backend says which protocol it was spoken to, so every
//! answer shows by which form of the configuration it came. A [`track`] knows the forms that may be seen of one thing at
//! one client; the [`judge`] of each Envoy holds every answer to them. [`stack`] has the processes, [`director`] runs
//! it all.
//!
//! Nothing is polled to find out whether a change has arrived: the load itself shows it, host by host.

mod change;
mod director;
mod judge;
mod manifests;
mod report;
mod stack;
mod track;
mod world;

use crate::step;
use anyhow::{Context, Result, bail};
use director::Director;
use std::time::Duration;
use tidegate_envoy::Binary;

/// What is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long things change; what was changed last is then waited for
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    seconds: u64,
    /// Requests a second, over both Envoys
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(200..=20_000))]
    rps: u32,
    /// Which changes are made, and when
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How the controllers tell Envoys what changed
    #[arg(long, value_enum, default_value_t = Wire::Ordered)]
    wire: Wire,
    /// Keep the directory with manifests and logs
    #[arg(long)]
    keep: bool,
}

/// How changes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Wire {
    /// As the shipped program does
    Ordered,
    /// Everything at once at each seal, removals included, by a program that is built for this alone: what the order
    /// of the shipped one prevents, which must show as failures
    Eager,
}

/// Builds what is needed and runs it. Whatever was started ends with it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let program = match args.wire {
        Wire::Ordered => step::build("tidegate")?,
        Wire::Eager => step::build_example("tidegate", "eager")?,
    };
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    runtime.block_on(async {
        let churn = async {
            let envoy = Binary::find_or_install(&|line| println!("{line}")).await?;
            let Args { seed, rps, wire, .. } = args;
            println!("envoy {}, seed {seed}, {rps} requests a second, {wire:?} publication", envoy.version);
            let mut director = Director::start(&program, &envoy, args).await?;
            director.run(Duration::from_secs(args.seconds)).await?;
            report::finish(&director.finish().await?, args.rps)
        };
        tokio::select! {
            done = churn => done,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    })?;
    println!("\nevery answer was right");
    Ok(())
}
