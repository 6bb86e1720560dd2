//! Where Envoys run: flags that several subcommands have.

use super::Failure;
use clap::Args;
use tidegate_model::{Locality, Name};

/// Where an Envoy runs. Endpoints near it are preferred where their Service says so.
#[derive(Clone, Debug, Args)]
pub struct LocalityArgs {
    /// Kubernetes Node that it runs on: what the labels of that Node say goes before the other flags
    #[arg(long, value_name = "NAME")]
    pub kube_node: Option<String>,

    /// Region that it runs in, as topology.kubernetes.io/region has it
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,

    /// Zone that it runs in, as topology.kubernetes.io/zone has it
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,

    /// Part of the zone that it runs in, as topology.istio.io/subzone has it
    #[arg(long, value_name = "SUBZONE")]
    pub sub_zone: Option<String>,

    /// Network that it is on, as topology.istio.io/network has it
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
}

impl LocalityArgs {
    /// What they say.
    ///
    /// # Errors
    ///
    /// One of them is empty.
    pub fn validate(&self) -> Result<Locality, Failure> {
        Ok(Locality {
            network: named("--network", self.network.as_deref())?,
            region: named("--region", self.region.as_deref())?,
            zone: named("--zone", self.zone.as_deref())?,
            sub_zone: named("--sub-zone", self.sub_zone.as_deref())?,
            host: named("--kube-node", self.kube_node.as_deref())?,
        })
    }
}

/// The name that a flag gives, empty if it is not there.
///
/// # Errors
///
/// It names nothing.
pub fn named(flag: &str, value: Option<&str>) -> Result<Name, Failure> {
    match value {
        Some(text) if text.trim().is_empty() => {
            Err(Failure::Usage(format!("{flag} is empty: name something or leave the flag out")))
        }
        Some(text) => Ok(Name::from(text)),
        None => Ok(Name::default()),
    }
}
