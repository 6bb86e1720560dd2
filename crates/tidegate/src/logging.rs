//! Logs on stderr. ERROR: a human must look now. WARN: the first place to look. INFO: state changes. DEBUG: one line a
//! sealed epoch.

use clap::ValueEnum;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The environment variable that says what is logged.
pub const VARIABLE: &str = "TIDEGATE_LOG";

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// What a filter means: a bare level is about this program, not about the libraries under it, whose debug lines are one
/// for each frame on the wire.
fn directives(text: &str) -> String {
    match text.trim() {
        "" => "warn,tidegate=info".to_owned(),
        level if level.parse::<LevelFilter>().is_ok() => format!("warn,tidegate={level}"),
        other => other.to_owned(),
    }
}

/// Starts logging; the first call counts. Panics are logged as errors from then on.
///
/// # Errors
///
/// When [`VARIABLE`] cannot be read.
pub fn start(format: LogFormat) -> Result<(), String> {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let filter = EnvFilter::try_new(directives(&text)).map_err(|error| {
        format!("{VARIABLE}={text} cannot be read: {error}; write a level, or target=level pairs, as in info,tidegate_ads=debug")
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (tests) keeps the first subscriber.
    let _started = match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let (thread, epoch) = (thread.name().unwrap_or("unnamed"), tidegate_engine::epoch_in_progress());
        tracing::error!(thread, epoch, "{panic}");
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_level_is_about_this_program_alone() {
        assert_eq!(directives(""), "warn,tidegate=info");
        assert_eq!(directives("debug"), "warn,tidegate=debug");
        assert_eq!(directives("off"), "warn,tidegate=off");
        assert_eq!(directives("info,h2=debug"), "info,h2=debug");
    }
}
