//! What can be asked on the command line.

pub mod values;

use crate::command::{
    bootstrap, completions, profile, reference, replay, report, serve, standalone, translate, version,
};
use clap::{Parser, Subcommand};

/// A Kubernetes Gateway API control plane for Envoy.
#[derive(Clone, Debug, Parser)]
#[command(name = "tidegate", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Serve the Gateways of a directory of manifests to Envoys
    Serve(serve::ServeArgs),
    /// Serve a directory of manifests and run an Envoy for each Gateway on this machine
    Standalone(standalone::StandaloneArgs),
    /// Translate a directory of manifests once: print what Envoys would get, or what is wrong
    Translate(translate::TranslateArgs),
    /// Run a recorded log again and compare every epoch
    Replay(replay::ReplayArgs),
    /// Probe the endpoints of a Service and keep an EndpointReport of their health
    Report(report::ReportArgs),
    /// Measure what things cost here: operations, memory, operators of the dataflow
    Profile(profile::ProfileArgs),
    /// Measure one part of a profile, for the process that asks for it
    #[command(hide = true)]
    ProfilePart(profile::PartArgs),
    /// Print an Envoy bootstrap for one Gateway
    Bootstrap(bootstrap::BootstrapArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the version
    Version(version::VersionArgs),
    /// Print tables for the documentation
    #[command(hide = true)]
    Reference(reference::ReferenceArgs),
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or stopped by SIGTERM or SIGINT
  1  failed while running: a port in use, an unreadable log, a replay that differs, manifests with errors, a task that
     ended
  2  the command line cannot be used: an unknown flag, a value that makes no sense, a directory that is not there

Environment:
  TIDEGATE_LOG  what is logged to stderr, for example info (default), debug, or info,tidegate_ads=debug,h2=debug
  ENVOY_BIN     the Envoy that standalone runs, instead of one on PATH or an installed one";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_examples_in_its_help() {
        for sub in Cli::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Examples:\n"), "{} has no examples", sub.get_name());
        }
    }
}
