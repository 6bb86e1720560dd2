//! The life of one Gateway's Envoy: started, started again when it ends, drained when it is to go.

use super::EnvoyConfig;
use super::seats::{Seats, State};
use crate::clock::Clock;
use crate::logging::LogFormat;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_envoy::process::Error;
use tidegate_envoy::supervise::{Backoff, supervise};
use tidegate_envoy::{AdsAddress, Bootstrap, Lines, LogTo, Options, Process};
use tidegate_model::{Condition, ConditionType, NamespacedName, Reason};
use tidegate_status::Board;
use tokio_util::sync::CancellationToken;

/// How long an Envoy may take for its first configuration before that is worth a warning. It takes about 100 ms.
const LIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Keeps one Envoy running.
pub(super) struct Keeper {
    pub(super) gateway: NamespacedName,
    pub(super) config: Arc<EnvoyConfig>,
    pub(super) ads: AdsAddress,
    pub(super) seats: Seats,
    pub(super) board: Arc<Mutex<Board>>,
    pub(super) clock: Clock,
}

impl Keeper {
    /// Until `stop`; returns whose Envoy it was.
    pub(super) async fn run(self, stop: CancellationToken) -> NamespacedName {
        let keeper = Arc::new(self);
        // Every start owns what it needs: a future that borrows from the closure could not move between threads.
        let own = Arc::clone(&keeper);
        let start = move || {
            let keeper = Arc::clone(&own);
            async move { keeper.start().await }
        };
        let ended = |text: &str, wait: Duration| keeper.failed(text, wait);
        let gateway = &keeper.gateway;
        match supervise(start, ended, Backoff::default(), keeper.config.drain, stop.cancelled()).await {
            Ok(()) => tracing::info!(%gateway, "envoy has ended"),
            Err(error) => tracing::warn!(%gateway, "cannot end envoy: {error}"),
        }
        gateway.clone()
    }

    /// One start, up to the first configuration.
    async fn start(&self) -> anyhow::Result<Process> {
        let gateway = &self.gateway;
        self.seats.update(gateway, |seat| seat.state = State::Starting);
        for socket in self.seats.sockets(gateway) {
            socket.probe()?;
        }
        let locality = self.config.locality.clone();
        let bootstrap = Bootstrap { locality, ..Bootstrap::new(gateway.clone(), self.ads.clone()) };
        let mut process = Process::start(&self.config.binary, &bootstrap.to_yaml(), &self.options()).await?;
        let (admin, id) = (process.admin().address(), process.id());
        self.seats.update(gateway, |seat| {
            seat.process = Some((admin, id));
            seat.starts += 1;
        });
        match process.wait_live(LIVE_TIMEOUT).await {
            Ok(()) => {}
            // Slow is not dead: it may wait for a cluster, and a new one would wait as long.
            Err(error @ Error::NotLive { .. }) => tracing::warn!(%gateway, "{error}"),
            Err(error) => return Err(error.into()),
        }
        let listeners: Vec<String> = self.seats.sockets(gateway).iter().map(ToString::to_string).collect();
        tracing::info!(%gateway, listeners = listeners.join(", "), admin = %format!("http://{admin}"), "envoy runs");
        self.seats.update(gateway, |seat| seat.state = State::Live);
        self.hinder(None);
        Ok(process)
    }

    fn options(&self) -> Options {
        let name = self.gateway.clone();
        let lines = match self.config.log_format {
            LogFormat::Text => Lines::new(move |line| eprintln!("[{name}] {line}")),
            LogFormat::Json => {
                Lines::new(move |line| tracing::info!(target: "tidegate::envoy", gateway = %name, "{line}"))
            }
        };
        Options {
            concurrency: self.config.threads,
            log_level: self.config.log_level.clone(),
            log: LogTo::Lines(lines),
            own_group: true,
            ..Options::default()
        }
    }

    /// Notes an end that was not asked for.
    fn failed(&self, text: &str, wait: Duration) {
        tracing::warn!(gateway = %self.gateway, again_in_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), "{text}");
        self.seats.update(&self.gateway, |seat| {
            seat.process = None;
            seat.state = State::Failed(text.to_owned());
        });
        self.hinder(Some(text));
    }

    fn hinder(&self, why: Option<&str>) {
        let first_line = |why: &str| format!("its envoy does not run: {}", why.lines().next().unwrap_or_default());
        let condition = why.map(|why| Condition::no(ConditionType::Programmed, Reason::Pending, first_line(why)));
        let mut board = self.board.lock().expect("nobody panics while holding the board");
        board.hinder(&self.gateway, condition, (self.clock)());
    }
}
