//! Logs on stderr. ERROR: a human must look now. WARN: the first place to look. INFO: state changes. DEBUG: one line a
//! sealed epoch.

use clap::ValueEnum;
use std::fmt;
use std::io::IsTerminal;
use tidegate_model::plain;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

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

/// The fields of a line for people. Whatever users wrote stays on its line, be it a name in a manifest or that of a file; the
/// other form is JSON, which says it by itself.
fn fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    let write = |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
        let value = format!("{value:?}");
        match (field.name(), writer.has_ansi_escapes()) {
            ("message", _) => write!(writer, "{}", plain(&value)),
            (name, false) => write!(writer, "{name}={}", plain(&value)),
            (name, true) => write!(writer, "\u{1b}[3m{name}\u{1b}[0m={}", plain(&value)),
        }
    };
    debug_fn(write).delimited(" ")
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
        LogFormat::Text => builder.fmt_fields(fields()).with_ansi(std::io::stderr().is_terminal()).try_init(),
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
    use std::sync::{Arc, Mutex};

    /// What is written, for tests.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_user_wrote_stays_on_its_line() {
        let written = Written::default();
        let writer = written.clone();
        let builder =
            tracing_subscriber::fmt().fmt_fields(fields()).with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(builder.finish(), || {
            tracing::warn!(object = %"a\n2026 INFO forged", quoted = "b\nc", count = 1, "{}", "message\u{1b}[2J\nof two");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(
            text.trim_end().ends_with(r#"message\u{1b}[2J\nof two object=a\n2026 INFO forged quoted="b\nc" count=1"#),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn a_bare_level_is_about_this_program_alone() {
        assert_eq!(directives(""), "warn,tidegate=info");
        assert_eq!(directives("debug"), "warn,tidegate=debug");
        assert_eq!(directives("off"), "warn,tidegate=off");
        assert_eq!(directives("info,h2=debug"), "info,h2=debug");
    }
}
