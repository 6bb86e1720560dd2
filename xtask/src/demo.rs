//! The whole product on one machine: the real binary on a copy of `examples/shop`, a real Envoy, backends in this
//! process. Every answer of a table is checked, then the manifests are edited under load and every answer of the load
//! is checked too. Nothing is assumed to have happened: each step asks until it sees the effect.
//!
//! Reading order: [`shop`] is the directory that is edited, [`stack`] the processes, [`table`] the answers at rest,
//! [`steps`] the changes under load, [`judge`] what counts as right while something changes.

mod judge;
mod shop;
mod stack;
mod steps;
mod table;

use crate::step;
use anyhow::{Context, Result, bail};
use stack::{Programs, Stack};
use std::path::Path;
use std::time::Duration;
use tidegate_envoy::Binary;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// How long anything may take to show its effect before the demo gives up. Most take a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the demo does.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check everything with both protocols, change things under load, and end
    #[arg(long)]
    once: bool,
    /// Keep the directory with manifests, logs and recording
    #[arg(long)]
    keep: bool,
    /// The state-of-the-world protocol alone; default: delta, and with --once both
    #[arg(long)]
    sotw: bool,
}

/// Builds what is needed and runs the demo until it is done or interrupted. Whatever was started ends with it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let tidegate = step::build("tidegate")?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    runtime.block_on(async {
        let mut interrupt = Interrupt::new()?;
        let everything = async {
            let envoy = Binary::find_or_install(&|line| println!("{line}")).await?;
            println!("envoy {} at {}", envoy.version, envoy.path.display());
            anyhow::Ok(Programs { tidegate, envoy })
        };
        let programs = tokio::select! {
            programs = everything => programs,
            () = interrupt.wait() => bail!("interrupted"),
        }?;
        if !args.once {
            return stay(&programs, args, &mut interrupt).await;
        }
        let protocols: &[bool] = if args.sotw { &[true] } else { &[false, true] };
        for sotw in protocols {
            tokio::select! {
                done = once(&programs, *sotw, args.keep) => done?,
                () = interrupt.wait() => bail!("interrupted"),
            }
        }
        println!("\nevery answer was right");
        Ok(())
    })
}

/// One protocol, start to end: table, changes under load, recording.
async fn once(programs: &Programs, sotw: bool, keep: bool) -> Result<()> {
    println!("\n=== {} protocol", protocol(sotw));
    let mut stack = Stack::start(programs, sotw, keep).await?;
    if let Err(error) = check(&stack).await {
        println!("{}", stack.logs());
        return Err(error);
    }
    stack.stop().await?;
    replay(&programs.tidegate, &stack.recording()).await
}

async fn check(stack: &Stack) -> Result<()> {
    table::check(stack).await?;
    steps::run(stack).await?;
    stack.check_rejections().await
}

/// Stays up for somebody to play with.
async fn stay(programs: &Programs, args: &Args, interrupt: &mut Interrupt) -> Result<()> {
    let mut stack = tokio::select! {
        stack = Stack::start(programs, args.sotw, args.keep) => stack?,
        () = interrupt.wait() => bail!("interrupted"),
    };
    table::check(&stack).await?;
    println!("{}", stack.what_to_try());
    tokio::select! {
        () = interrupt.wait() => {}
        ended = stack.ended() => bail!("{ended}\n{}", stack.logs()),
    }
    println!();
    stack.stop().await?;
    replay(&programs.tidegate, &stack.recording()).await
}

/// A recording proves itself: twice, and with another number of workers.
async fn replay(tidegate: &Path, recording: &Path) -> Result<()> {
    println!("\nreplaying the recording: every epoch's digest must be the same again");
    for workers in ["1", "1", "2"] {
        let began = Instant::now();
        let mut command = tokio::process::Command::new(tidegate);
        command.arg("replay").arg(recording).args(["--verify", "--workers", workers]).kill_on_drop(true);
        let output = command.output().await.context("cannot run tidegate replay")?;
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        if !output.status.success() {
            bail!("tidegate replay {} --verify --workers {workers} failed:\n{said}", recording.display());
        }
        println!("--workers {workers}: equal, {:.2} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}

fn protocol(sotw: bool) -> &'static str {
    if sotw { "state-of-the-world" } else { "delta" }
}

/// Asks until the answer is good.
///
/// # Errors
///
/// It is not within [`PATIENCE`]; the text is what was awaited and the last answer.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if began.elapsed() > PATIENCE => {
                return Err(error.context(format!("waited {} s for {what}", PATIENCE.as_secs())));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Ctrl-C, a closed terminal, or a polite kill.
struct Interrupt([tokio::signal::unix::Signal; 3]);

impl Interrupt {
    fn new() -> Result<Self> {
        let on = |kind| signal(kind).context("cannot listen for signals");
        Ok(Interrupt([on(SignalKind::interrupt())?, on(SignalKind::terminate())?, on(SignalKind::hangup())?]))
    }

    async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
