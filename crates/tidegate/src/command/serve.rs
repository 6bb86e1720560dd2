//! `tidegate serve`.

use super::Failure;
use super::lifetime::LifetimeArgs;
use super::limits::LimitArgs;
use crate::app::{self, AppConfig};
use crate::args::values;
use crate::clock;
use crate::logging::{self, LogFormat};
use anyhow::Context;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_ads::session::Sequencing;
use tidegate_model::{AddressRange, CONTROLLER_NAME};
use tokio::signal::unix::{SignalKind, signal};

/// The shortest interval between two looks at a directory.
const MIN_POLL: Duration = Duration::from_millis(200);

/// Serve the Gateways of a directory of manifests to Envoys.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate serve --manifests examples/minimal
  tidegate serve --manifests /etc/tidegate --ads 0.0.0.0:18000 --grace 10s --log-format json
  tidegate serve --manifests examples/shop --record run.log.zst
  TIDEGATE_LOG=debug tidegate serve --manifests examples/shop

Then: tidegate bootstrap --gateway NS/NAME > envoy.yaml && envoy -c envoy.yaml")]
pub struct ServeArgs {
    /// Directory of .yaml, .yml and .json files, watched with its subdirectories
    #[arg(long, value_name = "DIR")]
    pub manifests: PathBuf,

    /// Address on which Envoys connect; plaintext and without authentication, so keep it on a network you trust
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:18000", value_parser = values::listen_address)]
    pub ads: SocketAddr,

    /// How long the Envoys go on with the connections of a listener that was replaced: their --drain-time-s
    #[arg(long, value_name = "TIME", default_value = "600s", value_parser = values::duration)]
    pub envoy_drain: Duration,

    /// What every command that serves takes.
    #[command(flatten)]
    pub controller: ControllerArgs,
}

/// How to run a controller, whoever its clients are.
#[derive(Clone, Debug, Args)]
pub struct ControllerArgs {
    /// Look at the directory at this interval instead of asking the system to report changes, for network file systems
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub poll: Option<Duration>,

    /// Address of the read-only HTTP port: health, readiness, metrics, status, snapshots
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:19080", value_parser = values::listen_address)]
    pub admin: SocketAddr,

    /// Record everything that comes in to this file, for `tidegate replay`; compressed if it ends in .zst. A file that is
    /// there is kept as previous-FILE
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Directory in which to keep over a restart what proxies reject, so that nothing rejected is sent to them again
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// Dataflow threads: one is fastest for single changes, more for very large ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub workers: usize,

    /// Log what the operators of the dataflow do, for /debug/dataflow on the admin port; changes take a fifth longer or more
    #[arg(long)]
    pub profile: bool,

    /// Controller name that a GatewayClass must carry to be ours
    #[arg(long, value_name = "NAME", default_value = CONTROLLER_NAME, value_parser = values::controller_name)]
    pub controller: String,

    /// IP addresses that Gateways may have, as in 10.0.0.0/24,2001:db8::/64. A Gateway that asks for others is not
    /// programmed, and one that names none gets the first. Without this flag, whether an address can be used is not known
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = values::address_range)]
    pub usable_addresses: Vec<AddressRange>,

    /// How long a cluster stays after the last route that used it is gone, as in 500ms, 5s or 0
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::duration)]
    pub grace: Duration,

    /// When the target of a route changes to one without a usable endpoint, go on to the previous one for at most this
    /// long, as in 10s (up to 1h). Routes with the annotation tidegate.dev/retarget-hold say their own; with 0, only they
    /// are held [default: off]
    #[arg(long, value_name = "TIME", value_parser = values::retarget_hold)]
    pub retarget_hold: Option<Duration>,

    /// What reports of health are believed.
    #[command(flatten)]
    pub reports: LifetimeArgs,

    /// What clients may do.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// Form of the log lines on stderr; TIDEGATE_LOG says which are written
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

impl ServeArgs {
    /// What is run.
    ///
    /// # Errors
    ///
    /// When the directory is not there, or two flags exclude each other.
    pub fn validate(self) -> Result<AppConfig, Failure> {
        self.controller.validate("--manifests ", &self.manifests, self.ads, self.envoy_drain)
    }
}

impl ControllerArgs {
    /// What is run on the directory `manifests`, which was named by `flag`, for Envoys that drain as long as `drain`.
    ///
    /// # Errors
    ///
    /// When the directory is not there, or two flags exclude each other.
    pub fn validate(
        self,
        flag: &str,
        manifests: &Path,
        ads: SocketAddr,
        drain: Duration,
    ) -> Result<AppConfig, Failure> {
        check_directory(flag, manifests)?;
        let limits = self.limits.validate()?;
        let report_lifetime = self.reports.validate()?;
        if self.poll.is_some_and(|interval| interval < MIN_POLL) {
            return Err(Failure::Usage(
                "--poll is shorter than 200ms: a file must have the time to be written".to_owned(),
            ));
        }
        if ads == self.admin && ads.port() != 0 {
            return Err(Failure::Usage(format!("--ads and --admin are both {ads}: give them different ports")));
        }
        if let Some(file) = &self.record {
            check_recording(file, manifests)?;
        }
        // Absolute, because that is how the system reports changes below it, and unambiguous in what is said of files.
        let manifests = std::path::absolute(manifests)
            .map_err(|error| Failure::Usage(format!("{flag}{}: {error}", manifests.display())))?;
        Ok(AppConfig {
            manifests,
            poll: self.poll,
            ads,
            admin: self.admin,
            record: self.record,
            state_dir: self.state_dir,
            workers: self.workers,
            profile: self.profile,
            controller: self.controller,
            usable_addresses: self.usable_addresses,
            grace: self.grace,
            drain,
            sequencing: Sequencing::default(),
            retarget_hold: self.retarget_hold,
            report_lifetime,
            limits,
            envoys: None,
        })
    }
}

/// Whether `dir`, which was named by `flag`, is a directory.
pub(super) fn check_directory(flag: &str, dir: &Path) -> Result<(), Failure> {
    if dir.is_dir() {
        return Ok(());
    }
    let what = if dir.exists() { "is not a directory" } else { "does not exist" };
    Err(Failure::Usage(format!("{flag}{} {what}: name a directory of YAML or JSON files", dir.display())))
}

fn check_recording(file: &Path, manifests: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if file.is_dir() || file.file_name().is_none() {
        return Err(Failure::Usage(format!("--record {shown} is a directory: name a file, as in {shown}/run.log.zst")));
    }
    if !folder.is_dir() {
        return Err(Failure::Usage(format!("--record {shown}: the directory {} does not exist", folder.display())));
    }
    let (Ok(folder), Ok(manifests)) = (folder.canonicalize(), manifests.canonicalize()) else { return Ok(()) };
    if folder.starts_with(&manifests) {
        return Err(Failure::Usage(format!(
            "--record {shown} lies in the watched directory {}: record somewhere else",
            manifests.display()
        )));
    }
    Ok(())
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
///
/// When the command line cannot be used, an address is in use, or a task ends.
pub fn run(args: ServeArgs) -> Result<(), Failure> {
    logging::start(args.controller.log_format).map_err(Failure::Usage)?;
    let config = args.validate()?;
    on_runtime(async {
        let asked = asked_to_stop()?;
        app::build(config, clock::system()).await?.run(asked).await
    })
}

/// Runs a program of tasks to its end.
pub(super) fn on_runtime(program: impl Future<Output = anyhow::Result<()>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("tidegate")
        .build()
        .context("cannot start the runtime")?;
    let served = runtime.block_on(program);
    // Everything was given its time to stop; what is left (a dump being made) is not waited for.
    runtime.shutdown_background();
    served.map_err(Failure::Failed)
}

/// Resolves at the first SIGTERM or SIGINT. Handlers stand when this returns, so no signal is lost.
pub(super) fn asked_to_stop() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    Ok(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping");
    })
}
