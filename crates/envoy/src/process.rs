//! One Envoy as a child process: started with a bootstrap, asked through its admin interface, ended with its handle.

use crate::admin::{self, Admin};
use crate::binary::Binary;
use std::collections::VecDeque;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Pause between two looks at a starting Envoy. It is live after about 100 ms.
const POLL: Duration = Duration::from_millis(10);

/// Longest wait for the admin interface, which opens before anything of the configuration is asked for.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long an Envoy that was told to quit may take before it is killed.
const QUIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two looks at the connections that an ending Envoy still has.
const DRAIN_POLL: Duration = Duration::from_millis(50);

/// Lines of Envoy's log that an error quotes, and that are kept of a piped log.
const QUOTED_LINES: usize = 12;

/// An Envoy that did not do as told.
#[derive(Debug, Error)]
pub enum Error {
    /// Nothing was started.
    #[error("cannot start envoy {}: {source}", path.display())]
    Start {
        /// The binary, or the file that it needed.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It ended where it should have run.
    #[error("envoy ended with {status}; the end of its log:\n{log}")]
    Ended {
        /// With what.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    /// It runs, but is not there yet.
    #[error(
        "envoy is {state:?} after {waited:?} and not LIVE (PRE_INITIALIZING: its ads server does not answer); the end of \
         its log:\n{log}"
    )]
    NotLive {
        /// What `/ready` says.
        state: String,
        /// For how long.
        waited: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// The bootstrap has no admin interface, or it never opened.
    #[error(
        "envoy opened no admin interface in {ADMIN_TIMEOUT:?}; does its bootstrap have one? the end of its log:\n{log}"
    )]
    NoAdmin {
        /// The last lines of its log.
        log: String,
    },
    /// The bootstrap is refused.
    #[error("envoy refuses this bootstrap:\n{log}")]
    Invalid {
        /// What it said.
        log: String,
    },
    /// A question got no answer.
    #[error(transparent)]
    Admin(#[from] admin::Error),
}

/// Where an Envoy's log goes. Errors quote its end in either case.
#[derive(Clone, Debug, Default)]
pub enum LogTo {
    /// Nowhere else.
    #[default]
    Scratch,
    /// This file.
    File(PathBuf),
    /// Line by line to a function, which must not block for long.
    Lines(Lines),
}

/// What takes the lines of a log.
#[derive(Clone)]
pub struct Lines(Arc<dyn Fn(&str) + Send + Sync>);

impl Lines {
    /// Hands each line to `take`.
    pub fn new(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Lines(Arc::new(take))
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

/// How to run an Envoy.
#[derive(Clone, Debug)]
pub struct Options {
    /// Worker threads.
    pub concurrency: u32,
    /// `trace`, `debug`, `info`, `warning`, `error`, or `critical`.
    pub log_level: String,
    /// Where the log goes.
    pub log: LogTo,
    /// Seconds for which a changed or removed listener lets its connections end.
    pub drain_seconds: u32,
    /// Puts it into a process group of its own, so that a Ctrl-C at the terminal reaches its parent alone, who then
    /// ends it in good order. A parent that dies of the signal leaves it behind.
    pub own_group: bool,
    /// More arguments.
    pub arguments: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            concurrency: 1,
            log_level: "info".to_owned(),
            log: LogTo::Scratch,
            drain_seconds: 600,
            own_group: false,
            arguments: Vec::new(),
        }
    }
}

/// A running Envoy. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    admin: Admin,
    log: LogTail,
    started: Instant,
    /// Holds the bootstrap, the admin address and maybe the log while the process runs.
    _scratch: TempDir,
    /// Copies a piped log; ends with the process.
    _copiers: JoinSet<()>,
}

impl Process {
    /// Starts `binary` with the bootstrap text `config` (YAML or JSON) and waits until its admin interface is open.
    ///
    /// Hot restart is off: nobody uses it, and without it Envoys of one machine need no base ids to stay apart.
    ///
    /// # Errors
    ///
    /// It cannot be run, refuses the bootstrap, or the bootstrap has no admin interface.
    pub async fn start(binary: &Binary, config: &str, options: &Options) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Start { path, source }
        };
        let scratch = tempfile::tempdir().map_err(failed(&std::env::temp_dir()))?;
        let config_path = scratch.path().join("envoy.yaml");
        std::fs::write(&config_path, config).map_err(failed(&config_path))?;
        let address_path = scratch.path().join("admin-address");
        let mut command = Command::new(&binary.path);
        command
            .arg("--config-path")
            .arg(&config_path)
            .arg("--admin-address-path")
            .arg(&address_path)
            .args(["--disable-hot-restart", "--concurrency", &options.concurrency.to_string()])
            .args(["--log-level", &options.log_level, "--drain-time-s", &options.drain_seconds.to_string()])
            .args(&options.arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if options.own_group {
            command.process_group(0);
        }
        let mut log = LogTail::prepare(&options.log, scratch.path(), &mut command)?;
        let mut child = command.spawn().map_err(failed(&binary.path))?;
        let copiers = log.copy(&mut child);
        let address = admin_address(&mut child, &address_path, &mut log).await?;
        let admin = Admin::new(address);
        Ok(Process { child, admin, log, started: Instant::now(), _scratch: scratch, _copiers: copiers })
    }

    /// Its admin interface.
    #[must_use]
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// For how long it has been running.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Its process id; none once it has ended.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.log.tail()
    }

    /// Waits until it has its first configuration and serves.
    ///
    /// # Errors
    ///
    /// It ends, or is not live within `timeout`.
    pub async fn wait_live(&mut self, timeout: Duration) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.exited() {
                return Err(Error::Ended { status, log: self.log.tail() });
            }
            let state = self.admin.state().await.unwrap_or_else(|error| error.to_string());
            if state == "LIVE" {
                return Ok(());
            }
            if began.elapsed() >= timeout {
                return Err(Error::NotLive { state, waited: timeout, log: self.log.tail() });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Its status if it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it ends. May be dropped and called again.
    ///
    /// # Errors
    ///
    /// The operating system does not know the process any more.
    pub async fn wait(&mut self) -> Result<ExitStatus, Error> {
        self.child.wait().await.map_err(|source| Error::Start { path: PathBuf::from("envoy"), source })
    }

    /// Tells it to accept no more connections and to close the ones that it has after their current request.
    ///
    /// # Errors
    ///
    /// The admin interface does not answer.
    pub async fn drain(&self) -> Result<(), Error> {
        self.admin.post("/drain_listeners?graceful").await?;
        Ok(())
    }

    /// Ends it without cutting requests off: no new connections from now on, the open ones are closed after their
    /// current request, and it quits when none is left or after `limit`.
    ///
    /// # Errors
    ///
    /// The operating system does not know the process any more.
    pub async fn drain_and_stop(self, limit: Duration) -> Result<ExitStatus, Error> {
        let began = Instant::now();
        if !limit.is_zero() && self.refuse().await.is_ok() {
            while began.elapsed() < limit && self.connections().await.is_ok_and(|open| open > 0) {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        }
        self.stop().await
    }

    /// Closes the listening sockets at once, and every connection after its next answer. A graceful drain of the
    /// listeners would go on accepting.
    async fn refuse(&self) -> Result<(), Error> {
        self.admin.post("/healthcheck/fail").await?;
        self.admin.post("/drain_listeners").await?;
        Ok(())
    }

    /// Open connections of its listeners, without those of the admin interface.
    async fn connections(&self) -> Result<u64, Error> {
        let open = self.admin.stats(r"^listener\..*\.downstream_cx_active$").await?;
        Ok(open.iter().filter(|(name, _)| !name.starts_with("listener.admin.")).map(|(_, number)| number).sum())
    }

    /// Tells it to quit, and kills it if it has not within 5 s.
    ///
    /// # Errors
    ///
    /// The operating system does not know the process any more.
    pub async fn stop(mut self) -> Result<ExitStatus, Error> {
        // No answer: it is gone already, or stuck and killed below.
        let _asked = self.admin.post("/quitquitquit").await;
        if let Ok(status) = tokio::time::timeout(QUIT_TIMEOUT, self.wait()).await {
            return status;
        }
        let _killed = self.child.start_kill();
        self.wait().await
    }
}

/// Asks `binary` whether it would start with the bootstrap `config`.
///
/// # Errors
///
/// It would not; the text is Envoy's.
pub async fn validate(binary: &Binary, config: &str) -> Result<(), Error> {
    let failed = |source| Error::Start { path: binary.path.clone(), source };
    let scratch = tempfile::tempdir().map_err(failed)?;
    let path = scratch.path().join("envoy.yaml");
    std::fs::write(&path, config).map_err(failed)?;
    let mut command = Command::new(&binary.path);
    command.args(["--mode", "validate", "--log-level", "error", "--config-path"]).arg(&path).kill_on_drop(true);
    let output = command.output().await.map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Invalid { log: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}

/// Waits for the file in which Envoy says where its admin interface is.
async fn admin_address(child: &mut Child, path: &Path, log: &mut LogTail) -> Result<SocketAddr, Error> {
    let began = Instant::now();
    loop {
        let written = std::fs::read_to_string(path).unwrap_or_default();
        if let Ok(address) = written.trim().parse() {
            return Ok(address);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(Error::Ended { status, log: log.tail() });
        }
        if began.elapsed() >= ADMIN_TIMEOUT {
            return Err(Error::NoAdmin { log: log.tail() });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The end of a log, wherever it goes.
#[derive(Debug)]
enum LogTail {
    /// Read back from the file.
    File(PathBuf),
    /// Kept while it passes.
    Piped { to: Lines, last: Arc<Mutex<VecDeque<String>>> },
}

impl LogTail {
    /// Points the outputs of `command` to where the log shall go.
    fn prepare(log: &LogTo, scratch: &Path, command: &mut Command) -> Result<Self, Error> {
        let path = match log {
            LogTo::Scratch => scratch.join("envoy.log"),
            LogTo::File(path) => path.clone(),
            LogTo::Lines(to) => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                return Ok(LogTail::Piped { to: to.clone(), last: Arc::default() });
            }
        };
        let failed = |source| Error::Start { path: path.clone(), source };
        let file = File::create(&path).map_err(failed)?;
        let clone = file.try_clone().map_err(failed)?;
        command.stdout(file).stderr(clone);
        Ok(LogTail::File(path))
    }

    /// Begins to copy a piped log.
    fn copy(&mut self, child: &mut Child) -> JoinSet<()> {
        let mut copiers = JoinSet::new();
        if let LogTail::Piped { to, last } = self {
            if let Some(stdout) = child.stdout.take() {
                copiers.spawn(copy_lines(stdout, to.clone(), Arc::clone(last)));
            }
            if let Some(stderr) = child.stderr.take() {
                copiers.spawn(copy_lines(stderr, to.clone(), Arc::clone(last)));
            }
        }
        copiers
    }

    fn tail(&self) -> String {
        match self {
            LogTail::File(path) => {
                let text = std::fs::read(path).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                let lines: Vec<&str> = text.lines().collect();
                lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
            }
            LogTail::Piped { last, .. } => {
                let last = last.lock().expect("no holder of the lock panics");
                last.iter().cloned().collect::<Vec<_>>().join("\n")
            }
        }
    }
}

async fn copy_lines(from: impl AsyncRead + Unpin, to: Lines, last: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        (to.0)(&line);
        let mut last = last.lock().expect("no holder of the lock panics");
        if last.len() == QUOTED_LINES {
            last.pop_front();
        }
        last.push_back(line);
    }
}
