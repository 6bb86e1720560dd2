//! Supervision: every task has a name, and a task that ends before it is asked to is an error that brings the process
//! down with a message. Envoys keep their last configuration, and a restart is a cold start of under a second, so
//! stopping is safer than limping.

use anyhow::{Context, anyhow};
use std::any::Any;
use std::time::Duration;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long tasks may take to end after they were asked to: open streams get their end, a recording its last seal.
pub const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The running tasks.
#[derive(Debug)]
pub struct Supervisor {
    tasks: JoinSet<anyhow::Result<()>>,
    names: Vec<(Id, &'static str)>,
    stop: CancellationToken,
    stop_limit: Duration,
}

impl Default for Supervisor {
    fn default() -> Self {
        Supervisor { tasks: JoinSet::new(), names: Vec::new(), stop: CancellationToken::new(), stop_limit: STOP_LIMIT }
    }
}

impl Supervisor {
    /// No tasks yet.
    #[must_use]
    pub fn new() -> Self {
        Supervisor::default()
    }

    /// What tells the tasks to end.
    #[must_use]
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Gives tasks another time to end than [`STOP_LIMIT`].
    pub fn set_stop_limit(&mut self, limit: Duration) {
        self.stop_limit = limit;
    }

    /// Starts a task. It must run until [`Supervisor::stop`] is cancelled.
    pub fn spawn<F>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let handle = self.tasks.spawn(task);
        self.names.push((handle.id(), name));
    }

    /// Runs until `asked` resolves or a task ends, then stops every task.
    ///
    /// # Errors
    ///
    /// When a task ended, failed or panicked before it was asked to, or failed while it stopped: names it.
    pub async fn run(mut self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        let first = tokio::select! {
            () = asked => Ok(()),
            Some(ended) = self.tasks.join_next_with_id() => {
                let (name, outcome) = self.name_of(ended);
                Err(match outcome {
                    Ok(()) => anyhow!("the task \"{name}\" ended although nothing asked it to"),
                    Err(error) => error,
                })
            }
        };
        self.stop.cancel();
        match tokio::time::timeout(self.stop_limit, self.drain()).await {
            Ok(drained) => first.and(drained),
            Err(_) => {
                let left: Vec<&str> = self.names.iter().map(|(_, name)| *name).collect();
                tracing::warn!(
                    tasks = left.join(", "),
                    limit_s = self.stop_limit.as_secs(),
                    "tasks did not end in time"
                );
                first
            }
        }
    }

    /// Waits for every task; the first failure counts.
    async fn drain(&mut self) -> anyhow::Result<()> {
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let (_, outcome) = self.name_of(ended);
            result = result.and(outcome);
        }
        result
    }

    /// The name of an ended task, which is forgotten, and how it ended.
    fn name_of(&mut self, ended: Result<(Id, anyhow::Result<()>), JoinError>) -> (&'static str, anyhow::Result<()>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let at =
            self.names.iter().position(|(known, _)| *known == id).expect("every task was given a name at its start");
        let (_, name) = self.names.swap_remove(at);
        let outcome = match ended {
            Ok((_, outcome)) => outcome.with_context(|| format!("the task \"{name}\" failed")),
            Err(error) if error.is_panic() => {
                Err(anyhow!("the task \"{name}\" panicked: {}", panic_text(error.into_panic().as_ref())))
            }
            Err(_) => Ok(()),
        };
        (name, outcome)
    }
}

/// The text of a panic, as far as it has one.
#[must_use]
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    async fn until(stop: CancellationToken) -> anyhow::Result<()> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn stopping_when_asked_is_no_error() {
        let mut supervisor = Supervisor::new();
        supervisor.spawn("one", until(supervisor.stop()));
        supervisor.run(async {}).await.unwrap();
    }

    #[tokio::test]
    async fn a_task_that_ends_is_an_error_that_names_it_and_stops_the_others() {
        let mut supervisor = Supervisor::new();
        let stop = supervisor.stop();
        supervisor.spawn("one", until(supervisor.stop()));
        supervisor.spawn("two", async { Ok(()) });
        let error = supervisor.run(pending()).await.unwrap_err();
        assert_eq!(error.to_string(), "the task \"two\" ended although nothing asked it to");
        assert!(stop.is_cancelled());
    }

    #[tokio::test]
    async fn a_task_that_fails_or_panics_is_an_error_with_its_text() {
        let mut supervisor = Supervisor::new();
        supervisor.spawn("one", async { Err(anyhow!("disk gone")) });
        let error = supervisor.run(pending()).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "the task \"one\" failed: disk gone");

        let mut supervisor = Supervisor::new();
        supervisor.spawn("two", async { panic!("at epoch {}", 7) });
        let error = supervisor.run(pending()).await.unwrap_err();
        assert_eq!(error.to_string(), "the task \"two\" panicked: at epoch 7");
    }

    #[tokio::test]
    async fn a_failure_while_stopping_is_reported() {
        let mut supervisor = Supervisor::new();
        let stop = supervisor.stop();
        supervisor.spawn("recorder", async move {
            stop.cancelled().await;
            Err(anyhow!("cannot flush"))
        });
        let error = supervisor.run(async {}).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "the task \"recorder\" failed: cannot flush");
    }

    #[tokio::test]
    async fn a_task_that_does_not_stop_is_left_after_the_limit() {
        let mut supervisor = Supervisor { stop_limit: Duration::from_millis(1), ..Supervisor::default() };
        supervisor.spawn("stuck", pending());
        supervisor.run(async {}).await.unwrap();
    }
}
