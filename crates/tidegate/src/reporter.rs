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
use probe::Probe;
use std::time::Duration;
use tidegate_model::Millis;
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
            Ok(endpoints) => reporter.watch(endpoints),
            Err(error) => tracing::warn!(%error, "cannot look for endpoints; going on with those that are known"),
        }
        let endpoints = reporter.endpoints().cloned().collect();
        for (endpoint, is_well) in probe::all(&probe, endpoints, timeout).await {
            reporter.note(&endpoint, is_well);
        }
        loop {
            let now = clock();
            if now >= next {
                break;
            }
            let until = match reporter.due(now, file.stored().as_ref()) {
                Due::Now => {
                    match file.write(&reporter.object(now)) {
                        Ok(()) => tracing::info!(file = %file.path.display(), "{}", reporter.summary()),
                        Err(error) => {
                            reporter.failed(now);
                            tracing::warn!(%error, file = %file.path.display(), "cannot write the report; trying again");
                        }
                    }
                    continue;
                }
                Due::At(at) => at.min(next),
            };
            // Not longer than a round, whatever was done to the clock.
            let wait = Duration::from_millis(until.saturating_sub(now)).min(interval);
            tokio::time::sleep(wait).await;
        }
    }
}
