//! `tidegate translate`: what a controller would make of a directory, once and offline.
//!
//! The same code as in `serve` reads, admits, derives and renders; only the watch, the clients and the clock of
//! transitions are missing. Reading order: [`run`], then [`world`] for what is derived, [`judge`] for what counts as an
//! error, [`describe`] for people.

mod describe;

mod judge;

mod world;

use super::lifetime::LifetimeArgs;
use super::serve::check_directory;
use super::{Failure, print};
use crate::args::values;
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use judge::Judgement;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use tidegate_engine::Config;
use tidegate_model::{AddressRange, CONTROLLER_NAME, Name, NamespacedName};
use world::World;

/// Errors that are listed on stderr; `--status` has all of them.
const MAX_LISTED: usize = 20;

/// Translate a directory of manifests once: print what Envoys would get, or what is wrong.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate translate examples/shop --status
  tidegate translate examples/shop --gateway shop/edge --type listener,table
  tidegate translate examples/shop -o json | jq '.[].clusters[].name'
  tidegate translate examples/shop --status -o yaml > status.yaml

Nothing is watched, nobody is served, and no cluster is asked. The same manifests give the same
output, so it can be compared with an earlier one; only an EndpointReport says less as time goes by.

Exit codes:
  0  no error; warnings alone are none
  1  one of these errors:
     - a file cannot be read or parsed
     - an object breaks a rule of its kind, or stands there twice
     - a GatewayClass, Gateway, ListenerSet, listener, route or BackendTLSPolicy is not Accepted,
       not Programmed, has unresolved references (ResolvedRefs), or is Conflicted
     - a Gateway names a GatewayClass, or a route or ListenerSet a Gateway, that is not in DIR
     - a ListenerSet names something else than a Gateway
     - there are Gateways, and none of them is served
     - --gateway names a Gateway that is not served
  2  the command line cannot be used
A warning is anything else that is said of an object, such as a field that does not exist.")]
pub struct TranslateArgs {
    /// Directory of .yaml, .yml and .json files, read once with its subdirectories
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Print what this Gateway's Envoys would get, and nothing of the others
    #[arg(long, value_name = "NS/NAME", value_parser = values::namespaced_name, conflicts_with = "status")]
    pub gateway: Option<NamespacedName>,

    /// Print resources of these types alone; may be repeated, or a list with commas
    #[arg(long = "type", value_name = "TYPE", value_enum, value_delimiter = ',', conflicts_with = "status")]
    pub types: Vec<Type>,

    /// Print what there is to say about each object, errors first, instead of what Envoys would get
    #[arg(long)]
    pub status: bool,

    /// Form of the output [default: yaml, with --status text]
    #[arg(short, long, value_enum)]
    pub output: Option<Form>,

    /// IP addresses that Gateways may have, as in 10.0.0.0/24,2001:db8::/64; without it, whether an address can be used is
    /// not known
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = values::address_range)]
    pub usable_addresses: Vec<AddressRange>,

    /// What reports of health are believed.
    #[command(flatten)]
    pub reports: LifetimeArgs,

    /// Controller name that a GatewayClass must carry to be ours
    #[arg(long, value_name = "NAME", default_value = CONTROLLER_NAME, value_parser = values::controller_name)]
    pub controller: String,
}

/// The types of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Type {
    /// Clusters
    Cluster,
    /// Endpoints of clusters
    Endpoint,
    /// Listeners
    Listener,
    /// Secrets, by digest: key material is never printed
    Secret,
    /// Route tables
    Table,
}

impl Type {
    /// Where a snapshot has them.
    fn field(self) -> &'static str {
        match self {
            Type::Cluster => "clusters",
            Type::Endpoint => "endpoints",
            Type::Listener => "listeners",
            Type::Secret => "secrets",
            Type::Table => "tables",
        }
    }
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people, with --status
    Text,
    /// Documents
    Yaml,
    /// One value
    Json,
}

/// Translates and prints.
///
/// # Errors
///
/// When the command line cannot be used, or there is an error as the help defines it.
pub fn run(args: &TranslateArgs) -> Result<(), Failure> {
    check_directory("", &args.dir)?;
    if args.output == Some(Form::Text) && !args.status {
        return Err(Failure::Usage("--output text is for --status: write yaml or json, or add --status".to_owned()));
    }
    let world = World::derive(&args.dir, &config(args)?)?;
    let judgement = Judgement::of(&world);
    match (args.status, args.output) {
        (true, None | Some(Form::Text)) => print(&describe::text(&world, &judgement))?,
        (true, Some(form)) => print(&statuses(&world, form))?,
        (false, form) => print(&snapshots(&world, args, form.unwrap_or(Form::Yaml))?)?,
    }
    let is_told = args.status && matches!(args.output, None | Some(Form::Text));
    if !is_told {
        judgement.errors().take(MAX_LISTED).for_each(|error| eprintln!("error: {error}"));
        let more = judgement.errors().count().saturating_sub(MAX_LISTED);
        if more > 0 {
            eprintln!("error: and {more} more");
        }
    }
    let summary = judgement.summary(&world);
    if judgement.errors().next().is_some() {
        let hint =
            if is_told { String::new() } else { format!(": see tidegate translate {} --status", args.dir.display()) };
        return Err(Failure::Failed(anyhow!("{summary}{hint}")));
    }
    eprintln!("tidegate: {summary}");
    Ok(())
}

/// What is derived by. At a first look nothing is held; but whoever serves these manifests may hold, so asking for it is
/// no mistake.
fn config(args: &TranslateArgs) -> Result<Config, Failure> {
    let report_lifetime = args.reports.validate()?;
    Ok(Config {
        controller: Name::from(args.controller.as_str()),
        usable: args.usable_addresses.clone(),
        hold: Some(0),
        report_lifetime: u64::try_from(report_lifetime.as_millis()).unwrap_or(u64::MAX),
        ..Config::default()
    })
}

/// What the Envoys of each Gateway would get.
fn snapshots(world: &World, args: &TranslateArgs, form: Form) -> Result<String, Failure> {
    let served = &world.sealed.gateways;
    if let Some(gateway) = args.gateway.as_ref().filter(|gateway| !served.contains_key(*gateway)) {
        let names: Vec<&str> = served.keys().map(NamespacedName::as_str).collect();
        let names = if names.is_empty() { "none is".to_owned() } else { format!("served: {}", names.join(", ")) };
        return Err(Failure::Failed(anyhow!(
            "Gateway {gateway} is not served, {names}; tidegate translate {} --status says why",
            args.dir.display()
        )));
    }
    let wanted = served.keys().filter(|gateway| args.gateway.as_ref().is_none_or(|wanted| wanted == *gateway));
    let documents = wanted.filter_map(|gateway| tidegate_admin::snapshot::of(&world.sealed, gateway));
    let documents = documents.map(|snapshot| restricted(snapshot, &args.types)).collect();
    Ok(printed(documents, form, |of| format!("# Gateway {}\n", judge::text(&of["gateway"])), |list| list))
}

/// A snapshot without what differs from run to run, and of the resources only those types; all if none is named.
fn restricted(snapshot: Value, types: &[Type]) -> Value {
    let Value::Object(mut fields) = snapshot else { unreachable!("a snapshot has fields") };
    for name in ["epoch", "millis", "digest"] {
        fields.remove(name);
    }
    let is_wanted = |name: &str| types.is_empty() || types.iter().any(|of| of.field() == name);
    let fields: Map<String, Value> =
        fields.into_iter().filter(|(name, _)| name == "gateway" || is_wanted(name)).collect();
    fields.into()
}

/// The objects as the API would hold them.
fn statuses(world: &World, form: Form) -> String {
    printed(
        world.whole_objects(),
        form,
        |_| String::new(),
        |items| json!({ "apiVersion": "v1", "kind": "List", "items": items }),
    )
}

/// Documents as YAML, each below its title, or as one JSON value that `list` makes of them.
fn printed(
    documents: Vec<Value>,
    form: Form,
    title: impl Fn(&Value) -> String,
    list: impl FnOnce(Value) -> Value,
) -> String {
    match form {
        Form::Json => format!("{:#}\n", list(documents.into())),
        Form::Text | Form::Yaml => documents
            .iter()
            .map(|document| {
                let text = serde_saphyr::to_string(document).expect("a JSON value with text keys is a YAML document");
                format!("---\n{}{}\n", title(document), text.trim_end())
            })
            .collect(),
    }
}
