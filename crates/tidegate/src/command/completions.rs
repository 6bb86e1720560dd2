//! `tidegate completions`.

use super::{Failure, print};
use crate::args::Cli;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a completion script for a shell.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
///
/// When stdout cannot be written.
pub fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tidegate", &mut script);
    print(&String::from_utf8_lossy(&script))
}
