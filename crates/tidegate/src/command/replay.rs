//! `tidegate replay`.

use super::version::Output;
use super::{Failure, print};
use anyhow::{Context, anyhow};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use comfy_table::{Table, presets};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::PathBuf;
use tidegate_engine::{Bind, Config, ReplayReport};
use tidegate_log::{Header, Reader};
use tidegate_model::{AddressRange, Kind, Millis, Name, REPORT_LIFETIME_MS};

/// How many epochs pass between two notes of progress.
const PROGRESS_EVERY: u64 = 256;

/// Run a recorded log again and compare every epoch with what was sealed then.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate replay run.log.zst --verify
  tidegate replay run.log.zst --verify --workers 2 -o json
  zstdcat run.log.zst | tidegate replay - --verify

Exit code 1 says that the log cannot be read or, with --verify, that an epoch differs.")]
pub struct ReplayArgs {
    /// The log, compressed or not; - reads stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Fail when an epoch does not come out as it was recorded
    #[arg(long)]
    pub verify: bool,

    /// Dataflow threads; any number gives the same result
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub workers: usize,

    /// Form of the output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// Replays and prints what came out.
///
/// # Errors
///
/// When the log cannot be read or, if asked to verify, an epoch differs.
pub fn run(args: ReplayArgs) -> Result<(), Failure> {
    let reader = Reader::open(&args.file).map_err(anyhow::Error::new)?;
    let header = reader.header().clone();
    let config = config(&header, args.workers)?;
    let show_progress = std::io::stderr().is_terminal();
    let progress = |report: &ReplayReport| {
        if show_progress && report.epochs.is_multiple_of(PROGRESS_EVERY) {
            eprint!("\rreplayed {} epochs, {} events ", report.epochs, report.events);
        }
    };
    let file = args.file.display();
    let replayed = tidegate_engine::replay(reader, &config, progress).with_context(|| format!("cannot replay {file}"));
    if show_progress {
        eprint!("\r\x1b[K");
    }
    let report = replayed?;
    print(&match args.output {
        Output::Text => text(&args, &header, &report),
        Output::Json => format!("{:#}\n", to_json(&args, &header, &report)),
    })?;
    match report.first_difference {
        Some(difference) if args.verify => Err(Failure::Failed(anyhow!(
            "epoch {} of {file} differs: recorded {}, derived {}; either the log was changed, or this version derives \
             something else than {}",
            difference.epoch,
            difference.expected,
            difference.found,
            header.version
        ))),
        _ => Ok(()),
    }
}

/// What the recorder was told, as far as it changes what is derived.
pub(super) fn config(header: &Header, workers: usize) -> anyhow::Result<Config> {
    let setting = |name: &str| header.settings.get(name).cloned().unwrap_or_default();
    let unknown = |name: &str| format!("the log was recorded with a setting `{name}` that this version does not know");
    let bind: Option<Bind> = serde_json::from_value(setting("bind")).with_context(|| unknown("bind"))?;
    let hold = serde_json::from_value(setting("retarget-hold")).with_context(|| unknown("retarget-hold"))?;
    let usable: Option<Vec<AddressRange>> =
        serde_json::from_value(setting("usable-addresses")).with_context(|| unknown("usable-addresses"))?;
    let lifetime: Option<Millis> =
        serde_json::from_value(setting("report-lifetime")).with_context(|| unknown("report-lifetime"))?;
    let controller = Name::from(header.controller.as_str());
    let (bind, usable) = (bind.unwrap_or_default(), usable.unwrap_or_default());
    let report_lifetime = lifetime.unwrap_or(REPORT_LIFETIME_MS);
    Ok(Config { controller, bind, usable, hold, report_lifetime, workers })
}

fn text(args: &ReplayArgs, header: &Header, report: &ReplayReport) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut row = |what: &str, value: String| {
        table.add_row([what, value.as_str()]);
    };
    row("log", args.file.display().to_string());
    row("recorded by", format!("tidegate {}", header.version));
    row("controller", header.controller.clone());
    row("workers", args.workers.to_string());
    row("epochs", report.epochs.to_string());
    row("events", report.events.to_string());
    row("facts at the end", report.facts.to_string());
    row("digests equal", format!("{} of {}", report.equal, report.epochs));
    if let Some(difference) = &report.first_difference {
        row("first difference", format!("epoch {}", difference.epoch));
    }
    if let Some(tail) = report.tail.as_ref().filter(|tail| !tail.is_clean()) {
        row("tail", format!("{tail}; not replayed, nobody was shown what follows from it"));
    }
    if !report.assumed.is_empty() {
        let kinds: Vec<&str> = report.assumed.iter().map(|kind| kind.as_str()).collect();
        row("taken as empty", format!("{}: the recording does not know them", kinds.join(", ")));
    }
    format!("{}\n", table.trim_fmt())
}

fn to_json(args: &ReplayArgs, header: &Header, report: &ReplayReport) -> Value {
    let difference = report.first_difference.as_ref().map(
        |difference| json!({ "epoch": difference.epoch, "recorded": difference.expected, "derived": difference.found }),
    );
    json!({
        "log": args.file.display().to_string(),
        "recordedBy": header.version,
        "controller": header.controller,
        "workers": args.workers,
        "epochs": report.epochs,
        "events": report.events,
        "facts": report.facts,
        "equal": report.equal,
        "difference": difference,
        "unsealed": report.unsealed,
        "tail": report.tail.as_ref().map(ToString::to_string),
        "assumed": report.assumed.iter().map(|kind| Kind::as_str(*kind)).collect::<Vec<_>>(),
    })
}
