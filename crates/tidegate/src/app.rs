//! The whole controller, wired: sources > engine > ADS, status and the admin port. Shared by the binary and by tests.
//!
//! Everything that can fail at a start (an address in use, a directory that cannot be read) fails in [`build`], before
//! anything is served; afterwards only tasks run, under one [`Supervisor`].

mod follow;

mod state;

pub(crate) mod view;

mod wire;

use crate::clock::{Clock, profile_start};
use crate::fleet::ledger::Ledger;
use crate::fleet::seats::Seats;
use crate::fleet::{EnvoyConfig, Fleet};
use crate::supervise::{STOP_LIMIT, Supervisor};
use anyhow::{Context, anyhow};
use follow::Follower;
use state::State;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_ads::session::Sequencing;
use tidegate_engine::{Bind, Engine, EngineHandle, Profiler, Running};
use tidegate_log::{Header, Writer};
use tidegate_model::{AddressRange, Millis, Name, REPORT_LIFETIME_MS};
use tidegate_sources::Directory;
use tidegate_sources::manifests::Options;
use tidegate_status::Board;
use tidegate_vault::Vault;
use tidegate_xds::Sealed;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use view::AppView;

/// Batches of a source that wait for the engine, which has a bounded queue of its own behind this.
const SOURCE_QUEUE: usize = 16;

/// Observations that wait to be joined into status. A push to 10,000 clients gives 40,000 acknowledgements within a
/// second or so; what does not fit is dropped and counted, never waited for.
const OBSERVATION_QUEUE: usize = 65_536;

/// How long the engine waits, when stopping, for the ends of clients' streams, so that the recording has them.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// What clients may do. `docs/operations.md` says what happens at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Clients at a time.
    pub clients: usize,
    /// Names that each may ask for, of one type.
    pub names: usize,
    /// Size of a request.
    pub request_bytes: usize,
    /// About how old a stream may become; none: as old as it likes.
    pub stream_age: Option<Duration>,
    /// How often a quiet connection is probed.
    pub keepalive: Duration,
}

/// A validated configuration.
#[derive(Clone, Debug)]
pub struct AppConfig {
    /// Directory of manifests.
    pub manifests: PathBuf,
    /// Interval at which the directory is looked at, instead of asking the system to report changes.
    pub poll: Option<Duration>,
    /// Where Envoys connect; port 0 takes a free one.
    pub ads: SocketAddr,
    /// Where the admin port listens; port 0 takes a free one.
    pub admin: SocketAddr,
    /// File to record to.
    pub record: Option<PathBuf>,
    /// Where what clients reject is kept over a restart; nowhere if not said.
    pub state_dir: Option<PathBuf>,
    /// Dataflow workers, at least one.
    pub workers: usize,
    /// Whether they log what their operators do.
    pub profile: bool,
    /// Controller name that classes must carry.
    pub controller: String,
    /// Addresses that Gateways may have; none: nobody says.
    pub usable_addresses: Vec<AddressRange>,
    /// How long a cluster stays after its last use is gone.
    pub grace: Duration,
    /// How long Envoys drain the connections of a listener that was replaced.
    pub drain: Duration,
    /// In which order clients learn things. No flag sets it: anything but the default is for tests.
    pub sequencing: Sequencing,
    /// How long an entry may keep its previous target while the new one has no usable endpoint; none holds nothing.
    pub retarget_hold: Option<Duration>,
    /// How long an entry of an EndpointReport is believed after its renewal.
    pub report_lifetime: Duration,
    /// What clients may do.
    pub limits: ClientLimits,
    /// The Envoys to run, one for each Gateway; none if somebody else runs them.
    pub envoys: Option<EnvoyConfig>,
}

impl AppConfig {
    /// Our own Envoys share the machine, so each binds its Gateway's addresses; another's has the machine for itself.
    fn bind(&self) -> Bind {
        if self.envoys.is_some() { Bind::Own } else { Bind::All }
    }

    /// What the engine is told.
    fn for_engine(&self) -> anyhow::Result<tidegate_engine::Config> {
        let hold = self.retarget_hold.map(|bound| Millis::try_from(bound.as_millis())).transpose()?;
        let controller = Name::from(self.controller.as_str());
        let usable = self.usable_addresses.clone();
        let report_lifetime = Millis::try_from(self.report_lifetime.as_millis())?;
        let workers = self.workers;
        Ok(tidegate_engine::Config { controller, bind: self.bind(), usable, hold, report_lifetime, workers })
    }

    /// What the ADS server is told.
    fn for_ads(&self, vault: Vault) -> anyhow::Result<tidegate_ads::Config> {
        Ok(tidegate_ads::Config {
            grace_ms: u64::try_from(self.grace.as_millis())?,
            drain_ms: u64::try_from(self.drain.as_millis())?,
            sequencing: self.sequencing,
            max_clients: self.limits.clients,
            max_names: self.limits.names,
            max_request_bytes: self.limits.request_bytes,
            max_stream_age: self.limits.stream_age,
            keepalive: self.limits.keepalive,
            vault,
            ..tidegate_ads::Config::default()
        })
    }
}

/// A controller that is wired and listens, ready to [`App::run`].
pub struct App {
    /// Where Envoys connect.
    pub ads: SocketAddr,
    /// Where the admin port listens.
    pub admin: SocketAddr,
    /// The engine, for tests that wait for epochs.
    pub engine: EngineHandle,
    supervisor: Supervisor,
}

impl App {
    /// Runs until `asked` resolves, then stops gracefully.
    ///
    /// # Errors
    ///
    /// When a task ends, fails or panics.
    pub async fn run(self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        tracing::info!(ads = %self.ads, admin = %self.admin, "serving");
        self.supervisor.run(asked).await
    }
}

/// Wires a controller and starts its tasks.
///
/// # Errors
///
/// When an address is in use, or the recording cannot be created.
pub async fn build(config: AppConfig, clock: Clock) -> anyhow::Result<App> {
    let ads = bind("--ads", config.ads).await?;
    let admin = bind("--admin", config.admin).await?;
    let (ads_address, admin_address) = (ads.local_addr()?, admin.local_addr()?);
    if !ads_address.ip().is_loopback() {
        tracing::warn!(address = %ads_address, "the ADS port is plaintext and does not authenticate clients: keep it on a trusted network");
    }
    let vault = Vault::new();
    let options = Options { poll: config.poll, admission: Some(tidegate_normalize::admit), vault: vault.clone() };
    let source = Directory::open(&config.manifests, &options)?;
    let recorder = config.record.as_deref().map(|file| recorder(file, &config, &clock)).transpose()?;
    let profiler = config.profile.then(|| Profiler::new(profile_start()));
    let (engine, running) = engine(&config, &clock, recorder, profiler.clone())?;

    let mut supervisor = Supervisor::new();
    let stop = supervisor.stop();
    let drained = CancellationToken::new();
    supervisor.spawn("dataflow", dataflow(engine.clone(), running, stop.clone(), drained.clone()));

    let (observe, observations) = mpsc::channel(OBSERVATION_QUEUE);
    let board = Arc::new(Mutex::new(Board::new()));
    let follower = Follower {
        engine: engine.clone(),
        observations,
        board: Arc::clone(&board),
        clock: Arc::clone(&clock),
        vault: vault.clone(),
        last: None,
        drained: drained.drop_guard(),
    };
    supervisor.spawn("status", follower.run(stop.clone()));
    let Shown { sealed, ledger, seats } = shown(&mut supervisor, &config, &engine, &board, &clock, ads_address);

    let ads_config = config.for_ads(vault)?;
    if let Some(dir) = &config.state_dir {
        let state = State::open(dir, ads_config.remembered.clone(), clock())?;
        supervisor.spawn("state", state.run(Arc::clone(&clock), stop.clone()));
    }
    let (batches, queue) = mpsc::channel(SOURCE_QUEUE);
    let view = AppView {
        clock: Arc::clone(&clock),
        engine: engine.clone(),
        board,
        problems: source.problems(),
        provenance: source.provenance(),
        ads: ads_config.clone(),
        seats,
        profiler,
        config,
    };
    supervisor.spawn("ads", {
        let stop = stop.clone();
        async move { Ok(tidegate_ads::serve(ads, sealed, observe, clock, ads_config, stop.cancelled_owned()).await?) }
    });
    supervisor.spawn("manifests", {
        let stop = stop.clone();
        async move { Ok(source.run(batches, stop.cancelled_owned()).await?) }
    });
    supervisor.spawn("intake", intake(queue, engine.clone(), ledger, stop.clone()));
    supervisor.spawn("admin", {
        let view = Arc::new(view);
        async move { Ok(tidegate_admin::serve(admin, view, stop.cancelled_owned()).await?) }
    });
    Ok(App { ads: ads_address, admin: admin_address, engine, supervisor })
}

/// Starts the dataflow thread.
fn engine(
    config: &AppConfig,
    clock: &Clock,
    recorder: Option<Writer>,
    profiler: Option<Profiler>,
) -> anyhow::Result<(EngineHandle, Running)> {
    let engine = config.for_engine()?;
    let clock = Arc::clone(clock);
    let clock = Arc::new(move || clock());
    Ok(match profiler {
        None => Engine::start(engine, clock, recorder)?,
        Some(profiler) => Engine::start_profiled(engine, profiler, clock, recorder)?,
    })
}

/// What clients are shown, and what goes with it if we run the clients.
struct Shown {
    sealed: watch::Receiver<Option<Arc<Sealed>>>,
    ledger: Option<Ledger>,
    seats: Option<Seats>,
}

/// Clients are shown what is sealed; ours, only what this machine has room for.
fn shown(
    supervisor: &mut Supervisor,
    config: &AppConfig,
    engine: &EngineHandle,
    board: &Arc<Mutex<Board>>,
    clock: &Clock,
    ads: SocketAddr,
) -> Shown {
    let Some(envoys) = config.envoys.clone() else {
        return Shown { sealed: engine.sealed(), ledger: None, seats: None };
    };
    supervisor.set_stop_limit(STOP_LIMIT + envoys.drain);
    let fleet = Fleet::new(envoys, ads, engine.sealed(), Arc::clone(board), Arc::clone(clock));
    let shown = Shown { sealed: fleet.placed(), ledger: Some(fleet.ledger()), seats: Some(fleet.seats()) };
    supervisor.spawn("envoys", fleet.run(supervisor.stop()));
    shown
}

/// Hands what the sources say to the engine, until the sources have ended: a source whose events nobody takes would
/// call that an error.
async fn intake(
    mut queue: mpsc::Receiver<Vec<tidegate_log::Event>>,
    engine: EngineHandle,
    ledger: Option<Ledger>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    while let Some(batch) = queue.recv().await {
        if let Some(ledger) = &ledger {
            ledger.note(&batch);
        }
        // An engine that has ended is reported by its own task.
        let _ended = engine.send(batch).await;
    }
    stop.cancelled().await;
    Ok(())
}

/// Watches the dataflow thread, and ends it last: when the ends of the clients' streams are recorded.
async fn dataflow(
    engine: EngineHandle,
    running: Running,
    stop: CancellationToken,
    drained: CancellationToken,
) -> anyhow::Result<()> {
    let end = async {
        stop.cancelled().await;
        let _late = tokio::time::timeout(DRAIN_LIMIT, drained.cancelled()).await;
        engine.shutdown().await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = running.wait() => Ok(ended?),
        () = end => Ok(()),
    }
}

async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            anyhow!("{flag} {address} is in use: stop what listens there, or name another address")
        }
        _ => anyhow::Error::new(error).context(format!("cannot listen on {flag} {address}")),
    })
}

/// Starts the recording; what stood there before is kept under another name.
fn recorder(file: &Path, config: &AppConfig, clock: &Clock) -> anyhow::Result<Writer> {
    if file.exists() {
        let name = file.file_name().context("--record names no file")?;
        let mut previous = std::ffi::OsString::from("previous-");
        previous.push(name);
        let previous = file.with_file_name(previous);
        std::fs::rename(file, &previous)
            .with_context(|| format!("cannot keep the last recording {} as {}", file.display(), previous.display()))?;
        tracing::info!(file = %previous.display(), "the last recording is kept");
    }
    let mut header = Header::new(env!("CARGO_PKG_VERSION"), clock(), config.controller.as_str());
    if config.bind() != Bind::default() {
        header.settings.insert("bind".to_owned(), serde_json::to_value(config.bind())?);
    }
    if !config.usable_addresses.is_empty() {
        header.settings.insert("usable-addresses".to_owned(), serde_json::to_value(&config.usable_addresses)?);
    }
    let told = config.for_engine()?;
    if let Some(bound) = told.hold {
        header.settings.insert("retarget-hold".to_owned(), bound.into());
    }
    if told.report_lifetime != REPORT_LIFETIME_MS {
        header.settings.insert("report-lifetime".to_owned(), told.report_lifetime.into());
    }
    let writer = Writer::create(file, &header)?;
    tracing::info!(file = %file.display(), "recording");
    Ok(writer)
}
