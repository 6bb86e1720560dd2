//! A reporter: probes the endpoints of one Service and keeps an EndpointReport of what it found.
//!
//! *Start at* [`decide`], which is all that is decided, without I/O and with the time given; [`probe`] asks endpoints,
//! [`place`] finds them in manifests and keeps the file, [`run`] goes round.

pub(crate) mod decide;

pub(crate) mod place;

pub(crate) mod probe;

use crate::clock::Clock;
use decide::{Due, Reporter};
use place::{File, Whereabouts};
use probe::{Answer, Probe};
use std::time::Duration;
use tidegate_model::{Millis, plain};
use tokio_util::sync::CancellationToken;

/// A validated configuration.
#[derive(Clone, Debug)]
pub struct ReporterConfig {
    pub(crate) reporter: Reporter,
    pub(crate) whereabouts: Whereabouts,
    pub(crate) probe: Probe,
    /// How often every endpoint is probed.
    pub(crate) interval: Duration,
    /// How long an endpoint may take to answer; not longer than the interval.
    pub(crate) timeout: Duration,
    pub(crate) file: File,
}

/// Goes round until asked to stop. What goes wrong with a file is logged and tried again: a reporter that ends is one that
/// is not believed any more.
pub(crate) async fn run(config: ReporterConfig, clock: Clock, stop: CancellationToken) -> anyhow::Result<()> {
    stop.run_until_cancelled_owned(rounds(config, clock)).await;
    Ok(())
}

async fn rounds(config: ReporterConfig, clock: Clock) {
    let ReporterConfig { mut reporter, whereabouts, probe, interval, timeout, file } = config;
    let interval_ms = Millis::try_from(interval.as_millis()).unwrap_or(Millis::MAX);
    loop {
        let next = clock().saturating_add(interval_ms);
        match whereabouts.find() {
            Ok(found) => {
                if let Some(problem) = &found.problem {
                    let text = "not all manifests can be read; going on with the endpoints that are known besides";
                    tracing::warn!(problem = %plain(problem), "{text}");
                }
                reporter.watch(found.endpoints, found.problem.is_none());
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(error = %plain(&error), "cannot look for endpoints; going on with those that are known");
            }
        }
        let endpoints = reporter.endpoints().cloned().collect();
        for (endpoint, answer) in probe::all(&probe, endpoints, timeout).await {
            match answer {
                Answer::Well => reporter.note(&endpoint, true),
                Answer::Unwell => reporter.note(&endpoint, false),
                Answer::Unasked(error) => {
                    tracing::warn!(%error, endpoint = %endpoint.socket(), "cannot ask an endpoint for want of something here");
                }
            }
        }
        // At least once a round, however long it took.
        loop {
            let now = clock();
            let until = match reporter.due(now, file.stored().as_ref()) {
                Due::Now => {
                    write(&mut reporter, &file, now);
                    continue;
                }
                Due::At(at) => at.min(next),
            };
            if now >= next {
                break;
            }
            // Not longer than a round, whatever was done to the clock.
            let wait = Duration::from_millis(until.saturating_sub(now)).min(interval);
            tokio::time::sleep(wait).await;
        }
    }
}

/// Writes the report. What a controller would not read as it was written counts as not written, and is not tried again at
/// once.
fn write(reporter: &mut Reporter, file: &File, now: Millis) {
    let shown = file.path.display();
    match file.write(&reporter.object(now)) {
        Ok(()) if reporter.due(now, file.stored().as_ref()) == Due::Now => {
            reporter.failed(now);
            let text = "what was written is no report that a controller takes: see tidegate translate; trying again";
            tracing::warn!(file = %shown, "{text}");
        }
        Ok(()) => tracing::info!(file = %shown, "{}", reporter.summary()),
        Err(error) => {
            reporter.failed(now);
            let error = format!("{error:#}");
            tracing::warn!(error = %plain(&error), file = %shown, "cannot write the report; trying again");
        }
    }
}
