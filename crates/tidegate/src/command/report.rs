//! `tidegate report`.

use super::Failure;
use super::serve::{asked_to_stop, check_directory, on_runtime};
use crate::args::values;
use crate::clock;
use crate::logging::{self, LogFormat};
use crate::reporter::decide::{Reporter, Thresholds};
use crate::reporter::place::{File, Whereabouts};
use crate::reporter::probe::Probe;
use crate::reporter::{self, ReporterConfig};
use crate::supervise::Supervisor;
use clap::builder::RangedU64ValueParser;
use clap::{ArgGroup, Args};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_model::NamespacedName;

/// The shortest interval of probes: more often they are a load of their own.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Probe the endpoints of a Service and keep an EndpointReport of their health.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("where").required(true).args(["endpoints", "manifests"])))]
#[command(after_help = "Examples:
  tidegate report --service shop/cart --reporter node-a --manifests /etc/tidegate --node node-a \\
    --file /etc/tidegate/report-cart-node-a.yaml
  tidegate report --service shop/cart --reporter checker --endpoint 10.0.0.1:8080,10.0.0.2:8080 \\
    --http /healthz --interval 2s --file /etc/tidegate/report-cart.yaml

The file is one of the manifests that a controller serves. Every write sets the time on every entry;
one that would say what stands there already is left out until --report-renew is over, so a
controller that is told nothing new has nothing to do. If this command ends, what it said expires.")]
pub struct ReportArgs {
    /// The Service whose endpoints are probed
    #[arg(long, value_name = "NS/NAME", value_parser = values::namespaced_name)]
    pub service: NamespacedName,

    /// Who reports: another name for every reporter of a Service, such as that of the node
    #[arg(long, value_name = "NAME", value_parser = values::label)]
    pub reporter: String,

    /// File of the report, ending in .yaml, .yml or .json; it is replaced in one step
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,

    /// Endpoints to probe, as in 10.0.0.1:8080,10.0.0.2:8080; may be repeated
    #[arg(long = "endpoint", value_name = "IP:PORT", value_delimiter = ',', value_parser = values::listen_address)]
    pub endpoints: Vec<SocketAddr>,

    /// Probe the endpoints in the EndpointSlices of the Service in this directory, looked for at every round
    #[arg(long, value_name = "DIR")]
    pub manifests: Option<PathBuf>,

    /// Of the endpoints in --manifests, only those on this node
    #[arg(long, value_name = "NAME", conflicts_with = "endpoints")]
    pub node: Option<String>,

    /// Path that must be answered with a status from 200 to 399; without it, taking a connection is enough
    #[arg(long, value_name = "PATH")]
    pub http: Option<String>,

    /// How often every endpoint is probed, as in 500ms or 5s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::duration)]
    pub interval: Duration,

    /// How long an answer may take; not longer than --interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    pub timeout: Duration,

    /// Failures in a row that make an endpoint unhealthy
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    pub unhealthy_after: u32,

    /// Good answers in a row that make an unhealthy endpoint healthy
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    pub healthy_after: u32,

    /// How often the report is renewed while it says the same; at most half of the controllers' --report-lifetime
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::duration)]
    pub report_renew: Duration,

    /// Name of the EndpointReport, in the namespace of the Service [default: SERVICE-REPORTER]
    #[arg(long, value_name = "NAME", value_parser = values::label)]
    pub name: Option<String>,

    /// Form of the log lines on stderr; TIDEGATE_LOG says which are written
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

impl ReportArgs {
    /// What is run.
    ///
    /// # Errors
    ///
    /// When a value makes no sense.
    pub fn validate(self) -> Result<ReporterConfig, Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        if self.interval < MIN_INTERVAL {
            return usage("--interval is shorter than 100ms: leave the endpoints the time for something else");
        }
        if self.timeout.is_zero() || self.timeout > self.interval {
            return usage("--timeout must be longer than 0 and not longer than --interval");
        }
        if self.report_renew < self.interval {
            return usage("--report-renew is shorter than --interval: nothing new is known so soon");
        }
        check_file(&self.file)?;
        let probe = match self.http {
            None => Probe::Tcp,
            Some(path) if path.starts_with('/') && path.chars().all(|c| c.is_ascii_graphic()) => Probe::Http(path),
            Some(path) => return Err(Failure::Usage(format!("--http {path:?} is no path: write it as in /healthz"))),
        };
        let whereabouts = match self.manifests {
            None => Whereabouts::given(&self.endpoints),
            Some(dir) => {
                check_directory("--manifests ", &dir)?;
                Whereabouts::Manifests { dir, service: self.service.clone(), node: self.node }
            }
        };
        let name = self.name.unwrap_or_else(|| format!("{}-{}", self.service.name(), self.reporter));
        let name = NamespacedName::new(self.service.namespace(), &name);
        let renew_ms = u64::try_from(self.report_renew.as_millis()).unwrap_or(u64::MAX);
        let thresholds = Thresholds { healthy: self.healthy_after, unhealthy: self.unhealthy_after };
        let reporter = Reporter::new(name.clone(), self.service, self.reporter, renew_ms, thresholds);
        let (interval, timeout, file) = (self.interval, self.timeout, File { path: self.file });
        if let Some(why) = file.other(&name) {
            let shown = file.path.display();
            return Err(Failure::Usage(format!(
                "--file {shown} {why} that is not the EndpointReport {name}: name a file of its own, it would be lost"
            )));
        }
        Ok(ReporterConfig { reporter, whereabouts, probe, interval, timeout, file })
    }
}

fn check_file(file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    if !file.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known)) {
        return Err(Failure::Usage(format!("--file {shown} is no manifest by its name: let it end in .yaml or .json")));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::Usage(format!("--file {shown}: the directory {} does not exist", folder.display())));
    }
    Ok(())
}

/// Probes and reports until SIGTERM or SIGINT.
///
/// # Errors
///
/// When the command line cannot be used.
pub fn run(args: ReportArgs) -> Result<(), Failure> {
    logging::start(args.log_format).map_err(Failure::Usage)?;
    let config = args.validate()?;
    on_runtime(async {
        let asked = asked_to_stop()?;
        let mut supervisor = Supervisor::new();
        supervisor.spawn("report", reporter::run(config, clock::system(), supervisor.stop()));
        supervisor.run(asked).await
    })
}
