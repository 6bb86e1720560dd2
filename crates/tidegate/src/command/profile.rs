//! `tidegate profile`: what things cost here, measured.

mod describe;

use super::replay::config;
use super::version::Output;
use super::{Failure, print};
use anyhow::Context;
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use tidegate_log::Reader;
use tidegate_profile::{Compare, Drawing, Part, Report, Runner, Size, Step, page};

/// Cells of the bar that shows how far a profile is.
const BAR: usize = 24;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Operations on a big regular cluster
    Fanout,
    /// Changes at a rate
    Churn,
    /// Routes that are attached to one Gateway
    Attached,
    /// Routes one by one to a client
    Probe,
    /// Clients that come back
    Restart,
    /// A recorded log
    Log(PathBuf),
}

/// Reads what is measured: a name, or else a file.
fn what(text: &str) -> Result<What, String> {
    Ok(match text {
        "fanout" => What::Fanout,
        "churn" => What::Churn,
        "attached" => What::Attached,
        "probe" => What::Probe,
        "restart" => What::Restart,
        "" => return Err("write fanout, churn, attached, probe, restart, or the file of a log".to_owned()),
        file => What::Log(file.into()),
    })
}

/// Another way to derive the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Clients joined in the dataflow, an assignment for each client and Service
    Naive,
    /// Everything computed anew at every change
    Recompute,
}

/// Measure what things cost here: operations, memory, operators of the dataflow.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate profile fanout
  tidegate profile fanout --compare naive,recompute --html profile.html
  tidegate profile fanout --services 50000 --zones 16 --workers 2 -o json
  tidegate profile churn --seconds 30
  tidegate profile run.log.zst --html profile.html --folded profile.folded

WHAT is one of
  fanout    what each operation costs on a big regular cluster, how that grows with Services and
            clients, what memory is for, and what operators do
  churn     pods replaced and routes edited at 1, 10 and 100 times the rate of a busy cluster
  attached  routes attached to one Gateway, 50 a second: when all is said, and how often status is written
  probe     routes one by one, each to the last byte at a client that holds its cluster and endpoints
  restart   clients that hold everything come back to a controller that was started anew
  FILE      a log of `serve --record`: what each epoch costs, and what operators do

Nothing is served, and no cluster or Envoy is asked; clients are sessions in this process. Each part
has a process of its own, so that memory is of it alone. In a release build on two cores, fanout with
both comparisons takes a few minutes, churn half a minute, the others seconds; with --quick,
all take seconds, and figures mean nothing.")]
pub struct ProfileArgs {
    /// fanout, churn, attached, probe, restart, or the file of a recorded log
    #[arg(value_name = "WHAT", value_parser = what)]
    pub what: What,

    /// Gateways [default: 10; attached and probe have one]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub gateways: Option<usize>,

    /// Services, each with one EndpointSlice [default: 10000; churn 5000, attached 1000, probe 3000]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub services: Option<usize>,

    /// Endpoints of a Service [default: 10]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub endpoints: Option<usize>,

    /// Zones that endpoints are spread over [default: 4]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub zones: Option<usize>,

    /// Routes [default: 5000; attached 1000, probe 3000]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub routes: Option<usize>,

    /// Clients, spread over the Gateways [default: 1000]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub clients: Option<usize>,

    /// Of a hundred Services, those with a traffic distribution [default: 25]
    #[arg(long, value_name = "PERCENT", value_parser = RangedU64ValueParser::<usize>::new().range(..=100))]
    pub prefer: Option<usize>,

    /// Seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Dataflow threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub workers: usize,

    /// Seconds for each rate of churn
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    pub seconds: u64,

    /// Small and short: shows that everything works, and figures mean nothing
    #[arg(long)]
    pub quick: bool,

    /// Measure other ways to derive the same beside; a list with commas. For fanout
    #[arg(long, value_name = "WAY", value_enum, value_delimiter = ',')]
    pub compare: Vec<Way>,

    /// Write a page with plots and the picture of the dataflow to this file; nothing else is needed to read it
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the time of operators as folded stacks to this file, for flame graphs. For fanout and logs
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,

    /// Form of the output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

impl ProfileArgs {
    /// How big the cluster is.
    ///
    /// # Errors
    ///
    /// When a flag is for something else than what is measured.
    pub fn validate(&self) -> Result<Size, Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        if !self.compare.is_empty() && self.what != What::Fanout {
            return usage("--compare is for fanout: leave it out, or write `tidegate profile fanout`");
        }
        let has_operators = matches!(self.what, What::Fanout | What::Log(_));
        if self.folded.is_some() && !has_operators {
            return usage("--folded is for fanout and for logs: the others do not look at operators");
        }
        // Before minutes of measuring, not after.
        writable("--html", self.html.as_deref())?;
        writable("--folded", self.folded.as_deref())?;
        let sizes = [self.gateways, self.services, self.endpoints, self.zones, self.routes, self.clients, self.prefer];
        match &self.what {
            What::Log(file) if !file.is_file() => {
                let file = file.display();
                return Err(Failure::Usage(format!(
                    "{file} is no file: write fanout, churn, attached, probe, restart, or the file of a recorded log"
                )));
            }
            What::Log(_) if self.quick || sizes.iter().any(Option::is_some) => {
                return usage("a log is as big as it is: leave out --quick and what says how big a cluster is");
            }
            What::Log(_) | What::Fanout | What::Churn | What::Attached | What::Probe | What::Restart => {}
        }
        let size = if self.quick { Size::quick() } else { self.usual() };
        Ok(Size {
            gateways: self.gateways.unwrap_or(size.gateways),
            services: self.services.unwrap_or(size.services),
            endpoints: self.endpoints.unwrap_or(size.endpoints),
            zones: self.zones.unwrap_or(size.zones),
            routes: self.routes.unwrap_or(size.routes),
            clients: self.clients.unwrap_or(size.clients),
            prefer: self.prefer.unwrap_or(size.prefer),
            seed: self.seed,
            workers: self.workers,
            count: size.count,
        })
    }

    /// The size of a profile unless somebody says otherwise.
    fn usual(&self) -> Size {
        let all = Size::default();
        match self.what {
            What::Fanout | What::Restart | What::Log(_) => all,
            What::Churn => Size { services: 5_000, ..all },
            What::Attached => Size { gateways: 1, services: 1_000, routes: 1_000, ..all },
            What::Probe => Size { gateways: 1, services: 3_000, routes: 3_000, clients: 1, ..all },
        }
    }
}

/// Measures and says what came out.
///
/// # Errors
///
/// When the command line cannot be used, a part fails, or a file cannot be read or written.
pub fn run(args: &ProfileArgs) -> Result<(), Failure> {
    let size = args.validate()?;
    let report = measure(args, &size)?;
    if let Some(file) = &args.html {
        write(file, &page::report(&report))?;
    }
    if let Some(file) = &args.folded {
        write(file, &report.drawings.iter().map(Drawing::folded).collect::<String>())?;
    }
    print(&match args.output {
        Output::Text => describe::text(&report),
        Output::Json => format!("{:#}\n", serde_json::to_value(&report).context("cannot write the report")?),
    })
}

/// Whether a file can be there.
fn writable(flag: &str, file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if file.is_dir() || !folder.is_dir() {
        let shown = file.display();
        return Err(Failure::Usage(format!(
            "{flag} {shown} cannot be written: name a file in a directory that is there"
        )));
    }
    Ok(())
}

fn measure(args: &ProfileArgs, size: &Size) -> anyhow::Result<Report> {
    let program = std::env::current_exe().context("cannot find this program, to start it for parts of the profile")?;
    let bar = std::io::stderr().is_terminal();
    let runner = Runner::of_program(program, &["profile-part"]);
    let mut runner = runner.with_progress(|step| {
        if bar {
            eprint!("\r\x1b[K{}", progress(step))
        }
    });
    let ways = args.compare.iter().map(|way| match way {
        Way::Naive => Compare::Naive,
        Way::Recompute => Compare::Recompute,
    });
    let report = match &args.what {
        What::Fanout => tidegate_profile::fanout(&mut runner, size, &ways.collect::<BTreeSet<_>>()),
        What::Churn => tidegate_profile::churn(&mut runner, size, if args.quick { 1 } else { args.seconds }),
        What::Attached => tidegate_profile::attached(&mut runner, size),
        What::Probe => tidegate_profile::probe(&mut runner, size),
        What::Restart => tidegate_profile::restart(&mut runner, size),
        What::Log(file) => {
            let header = Reader::open(file)?.header().clone();
            let config = config(&header, args.workers)?;
            let what = || format!("cannot replay {}", file.display());
            return tidegate_profile::replayed(file, &config).with_context(what);
        }
    };
    if bar {
        eprint!("\r\x1b[K");
    }
    Ok(report?)
}

/// How far it is, as a bar.
fn progress(step: &Step<'_>) -> String {
    let full = BAR * step.done / step.of.max(1);
    let bar = ["=".repeat(full), " ".repeat(BAR - full)].concat();
    format!("[{bar}] {} of {}  {} ", step.done + 1, step.of, step.what)
}

fn write(file: &std::path::Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("tidegate: wrote {}", file.display());
    Ok(())
}

/// Measure one part of a profile, for the process that asks for it.
#[derive(Clone, Debug, Args)]
pub struct PartArgs {
    /// The part, as JSON
    pub part: String,
}

/// Measures one part and prints what came of it.
///
/// # Errors
///
/// When the text is no part.
pub fn part(args: &PartArgs) -> Result<(), Failure> {
    print(&Part::answer(&args.part).map_err(|error| Failure::Usage(format!("this is no part of a profile: {error}")))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        profile: ProfileArgs,
    }

    fn size(arguments: &[&str]) -> Result<Size, String> {
        let line = Line::try_parse_from([&["profile"], arguments].concat()).map_err(|error| error.to_string())?;
        line.profile.validate().map_err(|failure| failure.to_string())
    }

    #[test]
    fn each_profile_has_its_size_and_flags_change_it() {
        assert_eq!(size(&["fanout"]).unwrap(), Size::default());
        assert_eq!(size(&["attached"]).unwrap().routes, 1_000);
        assert_eq!(size(&["churn", "--routes", "7"]).unwrap(), Size { services: 5_000, routes: 7, ..Size::default() });
        assert_eq!(size(&["probe", "--quick", "--zones", "2"]).unwrap(), Size { zones: 2, ..Size::quick() });
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_flag() {
        for (arguments, text) in [
            (["churn", "--compare", "naive"], "--compare is for fanout"),
            (["probe", "--folded", "x"], "--folded is for fanout"),
            (["fanout", "--services", "0"], "--services"),
            (["fanout", "--services", "18446744073709551615"], "--services"),
            (["fanout", "--html", "/nowhere/page.html"], "--html /nowhere/page.html cannot be written"),
            (["fanout", "--folded", "/"], "--folded / cannot be written"),
            (["fanout", "--prefer", "101"], "--prefer"),
            (["fanout", "--compare", "istio"], "--compare"),
            (["fanuot", "--seed", "1"], "fanuot is no file"),
            (["/dev/null", "--routes", "3"], "/dev/null is no file"),
        ] {
            let refused = size(&arguments).unwrap_err();
            assert!(refused.contains(text), "{arguments:?}: {refused}");
        }
        let log = tempfile::NamedTempFile::new().unwrap();
        let refused = size(&[log.path().to_str().unwrap(), "--routes", "3"]).unwrap_err();
        assert!(refused.contains("a log is as big as it is"), "{refused}");
    }

    #[test]
    fn the_bar_grows() {
        let at = |done: usize| progress(&Step { done, of: 4, what: "memory" });
        assert_eq!(at(0), format!("[{}] 1 of 4  memory ", " ".repeat(BAR)));
        assert!(at(2).starts_with(&format!("[{} ", "=".repeat(BAR / 2))));
    }
}
