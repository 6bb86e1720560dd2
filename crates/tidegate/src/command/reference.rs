//! `tidegate reference`: the tables of the documentation, made from what is implemented. Hidden: `cargo xtask docs`
//! calls it.

use super::{Failure, print};
use crate::args::Cli;
use anyhow::Context;
use clap::{Arg, Args, Command, CommandFactory, ValueEnum};
use std::fmt::Write;

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// Every command and its flags
    Cli,
    /// Every metric
    Metrics,
}

/// Print tables for the documentation.
#[derive(Clone, Debug, Args)]
pub struct ReferenceArgs {
    /// Which
    #[arg(value_enum)]
    pub table: Table,
}

/// Prints a table as Markdown.
///
/// # Errors
///
/// When stdout cannot be written.
pub fn run(args: &ReferenceArgs) -> Result<(), Failure> {
    print(&match args.table {
        Table::Cli => cli(Cli::command()),
        Table::Metrics => metrics()?,
    })
}

/// Every subcommand that is not hidden.
fn cli(mut command: Command) -> String {
    command.build();
    let mut page = String::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let usage = sub.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let about = sub.get_long_about().or(sub.get_about()).map(ToString::to_string).unwrap_or_default();
        let _always_fits =
            write!(page, "\n## tidegate {}\n\n{}.\n\n    {usage}\n", sub.get_name(), about.trim_end_matches('.'));
        let rows: String = sub.get_arguments().filter(|arg| is_own(arg)).map(row).collect();
        if !rows.is_empty() {
            page.push_str("\n| flag | default | meaning |\n|---|---|---|\n");
            page.push_str(&rows);
        }
        page.extend(sub.get_after_help().map(|help| after_help(&help.to_string())));
    }
    page.push_str(
        &command
            .get_after_help()
            .map(|help| format!("\n## Everywhere\n{}", after_help(&help.to_string())))
            .unwrap_or_default(),
    );
    page
}

/// Whether it is more than `--help` and `--version`, which everything has.
fn is_own(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
}

fn row(arg: &Arg) -> String {
    let default =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect::<Vec<_>>();
    let default = match (arg.is_required_set(), default.is_empty() || !arg.get_action().takes_values()) {
        (true, _) => "required".to_owned(),
        (false, true) => String::new(),
        (false, false) => default.join(", "),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    format!("| `{}` | {default} | {} |\n", flag(arg), help.replace('|', "\\|"))
}

/// How it is written, as in `-o, --output text\|json`.
fn flag(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    if !arg.get_action().takes_values() {
        return names;
    }
    let possible: Vec<String> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let value = match arg.get_value_names() {
        _ if !possible.is_empty() => possible.join("\\|"),
        Some(names) => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        None => arg.get_id().as_str().to_uppercase(),
    };
    format!("{names} {value}").trim_start().to_owned()
}

/// Paragraphs of text and, indented, of code.
fn after_help(text: &str) -> String {
    let mut page = String::new();
    let mut code = false;
    for line in text.lines() {
        let indented = line.starts_with(' ');
        if indented != code {
            page.push('\n');
            code = indented;
        } else if !indented && page.is_empty() {
            page.push('\n');
        }
        if indented {
            page.push_str("  ");
        }
        page.push_str(line);
        page.push('\n');
    }
    // An empty line between code and text is one, wherever it came from.
    page.replace("\n\n\n", "\n\n")
}

fn metrics() -> Result<String, Failure> {
    let mut page = "| metric | type | meaning |\n|---|---|---|\n".to_owned();
    for metric in tidegate_admin::reference::metrics().context("cannot write the metrics")? {
        let labels = if metric.labels.is_empty() { String::new() } else { format!("{{{}}}", metric.labels.join(",")) };
        let _always_fits = writeln!(page, "| `{}{labels}` | {} | {} |", metric.name, metric.kind, metric.help);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_serve_is_in_its_table() {
        let page = cli(Cli::command());
        for text in [
            "## tidegate serve\n",
            "| `--manifests DIR` | required |",
            "| `--ads ADDR` | `127.0.0.1:18000` |",
            "| `-o, --output text\\|json` | `text` |",
            "\n    tidegate serve --manifests examples/minimal\n",
        ] {
            assert!(page.contains(text), "{text:?} is not in\n{page}");
        }
        assert!(!page.contains("tidegate reference"), "{page}");
    }
}
