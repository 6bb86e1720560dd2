//! Keeps an Envoy running: started again when it ends, slower each time until it stays.

use crate::process::{Error, Process};
use std::fmt::Display;
use std::time::Duration;

/// How long to wait before the next start. Doubles with every start that does not last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Default for Backoff {
    /// From half a second to a minute.
    fn default() -> Self {
        Backoff::new(Duration::from_millis(500), Duration::from_secs(60))
    }
}

impl Backoff {
    /// From `shortest` to `longest`. A run of at least `longest` counts as lasting.
    #[must_use]
    pub fn new(shortest: Duration, longest: Duration) -> Self {
        Backoff { shortest, longest, next: shortest }
    }

    /// The wait after a run that lasted for `uptime`.
    pub fn after(&mut self, uptime: Duration) -> Duration {
        if uptime >= self.longest {
            self.next = self.shortest;
        }
        let wait = self.next;
        self.next = (self.next * 2).min(self.longest);
        wait
    }
}

/// Keeps what `start` starts running until `stop` is ready, then drains it for at most `drain` and ends it. `start` is
/// called for every start, so that it may make a new bootstrap; `ended` is called with every end that was not asked
/// for, and with the wait before the next start.
///
/// # Errors
///
/// Only from the last stop: a start that fails is an end like any other, and is tried again.
pub async fn supervise<E: Display>(
    mut start: impl AsyncFnMut() -> Result<Process, E>,
    mut ended: impl FnMut(&str, Duration),
    mut backoff: Backoff,
    drain: Duration,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    tokio::pin!(stop);
    loop {
        let started = tokio::select! {
            // What was being started is killed as it is dropped; it serves nobody yet.
            () = &mut stop => return Ok(()),
            started = start() => started,
        };
        let (text, uptime) = match started {
            Ok(mut process) => {
                let status = tokio::select! {
                    () = &mut stop => return process.drain_and_stop(drain).await.map(|_status| ()),
                    status = process.wait() => status,
                };
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                (ended_with(&status, &process.log_tail()), process.uptime())
            }
            Err(error) => (error.to_string(), Duration::ZERO),
        };
        let wait = backoff.after(uptime);
        ended(&text, wait);
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// An end in words, with the last words of its log if it had any.
fn ended_with(status: &str, log: &str) -> String {
    if log.is_empty() {
        return format!("envoy ended with {status}");
    }
    format!("envoy ended with {status}; the end of its log:\n{log}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_a_lasting_run_resets_them() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(5));
        let waits: Vec<u64> = (0..4).map(|_| backoff.after(seconds(0)).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5]);
        assert_eq!(backoff.after(seconds(4)), seconds(5));
        assert_eq!(backoff.after(seconds(5)), seconds(1));
        assert_eq!(backoff.after(seconds(0)), seconds(2));
    }
}
