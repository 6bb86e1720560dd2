//! `tidegate bootstrap`.

use super::locality::{LocalityArgs, named};
use super::{Failure, print};
use crate::args::values;
use clap::Args;
use tidegate_envoy::{AdsAddress, Bootstrap};
use tidegate_model::NamespacedName;

/// Print an Envoy bootstrap for one Gateway, as YAML.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate bootstrap --gateway shop/public > envoy.yaml && envoy -c envoy.yaml
  tidegate bootstrap --gateway shop/public --ads tidegate.example.com:18000 --zone eu-1a --node-id edge-7
  tidegate bootstrap --gateway shop/public --ads unix:/run/tidegate.sock --sotw --admin-port 19000")]
pub struct BootstrapArgs {
    /// The Gateway whose configuration the Envoy gets
    #[arg(long, value_name = "NS/NAME", value_parser = values::namespaced_name)]
    pub gateway: NamespacedName,

    /// Where the Envoy finds tidegate: HOST:PORT, or unix:/PATH
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:18000")]
    pub ads: AdsAddress,

    /// Speak the state-of-the-world protocol instead of delta (a reconnect then costs a full push)
    #[arg(long)]
    pub sotw: bool,

    /// Port of Envoy's own admin interface on 127.0.0.1; without it Envoy has none
    #[arg(long, value_name = "PORT")]
    pub admin_port: Option<u16>,

    /// Identity of this Envoy among those of its Gateway [default: NAME.NS of the Gateway]
    #[arg(long, value_name = "ID")]
    pub node_id: Option<String>,

    /// Where it runs.
    #[command(flatten)]
    pub locality: LocalityArgs,
}

/// Prints the bootstrap.
///
/// # Errors
///
/// When a value is of no use, or stdout cannot be written.
pub fn run(args: BootstrapArgs) -> Result<(), Failure> {
    print(&config(args)?.to_yaml())
}

fn config(args: BootstrapArgs) -> Result<Bootstrap, Failure> {
    named("--node-id", args.node_id.as_deref())?;
    let mut bootstrap = Bootstrap::new(args.gateway, args.ads);
    bootstrap.sotw = args.sotw;
    bootstrap.admin_port = args.admin_port;
    bootstrap.locality = args.locality.validate()?;
    if let Some(id) = args.node_id {
        bootstrap.node_id = id;
    }
    Ok(bootstrap)
}
