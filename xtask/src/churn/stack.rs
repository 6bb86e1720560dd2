//! The processes: two controllers on one directory, and two Envoys that know the addresses of both.
//!
//! That is how replicas are met in a cluster: a Service with two endpoints, of which Envoy's own load balancing takes the
//! one that is there. A proxy between them that switches would hide what a reconnect is like: which address is tried
//! next, and how long Envoy waits after a refusal.

use super::manifests::{GATEWAYS, Ports};
use super::world::{SECURE, View};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use testkit::load::{Load, Plan, Target};
use testkit::{http, ports};
use tidegate_envoy::{Binary, Bootstrap, LogTo, Options, Process};
use tidegate_model::NamespacedName;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// How long anything may take to start.
const START: Duration = Duration::from_secs(20);

/// How long Envoy lets connections of a removed listener end: short, so that ends are seen too.
const DRAIN_SECONDS: u32 = 10;

/// Every so many requests of one worker goes over a new connection.
const FRESH_EVERY: u32 = 5;

/// Of each Envoy's requests, those a second whose backend takes its time.
const SLOW_RATE: u32 = 40;

/// A directory that goes with the run, or stays.
pub(super) enum Folder {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    pub(super) fn new(keep: bool) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("tidegate-churn-").tempdir().context("cannot make a directory")?;
        if !keep {
            return Ok(Folder::Temporary(dir));
        }
        let path = dir.keep();
        println!("everything is kept in {}", path.display());
        Ok(Folder::Kept(path))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Folder::Temporary(dir) => dir.path(),
            Folder::Kept(path) => path,
        }
    }
}

/// A controller, which is killed and started again at the same addresses.
pub(super) struct Replica {
    pub(super) name: &'static str,
    program: PathBuf,
    manifests: PathBuf,
    log: PathBuf,
    ads: SocketAddr,
    admin: SocketAddr,
    child: Option<Child>,
}

/// What a controller counted since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) overdue_pins: u64,
    pub(super) nacks: u64,
    pub(super) violations: u64,
    pub(super) clients: u64,
}

impl Replica {
    /// The controller `program` on `manifests`, not yet running.
    pub(super) fn new(name: &'static str, program: &Path, manifests: &Path, folder: &Path) -> Self {
        let [ads, admin] = [(); 2].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free())));
        let (program, manifests) = (program.to_owned(), manifests.to_owned());
        let log = folder.join(format!("controller-{name}.log"));
        Replica { name, program, manifests, log, ads, admin, child: None }
    }

    pub(super) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Starts it.
    pub(super) fn start(&mut self) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--manifests").arg(&self.manifests);
        command.args(["--ads", &self.ads.to_string(), "--admin", &self.admin.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        self.child = Some(command.spawn().with_context(|| format!("cannot run {}", self.program.display()))?);
        Ok(())
    }

    /// Kills it as the kernel does when memory is short: it has no time to say anything.
    pub(super) async fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await.with_context(|| format!("cannot kill controller {}", self.name))?;
        }
        Ok(())
    }

    /// Fails if it has ended by itself.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.as_mut().map(Child::try_wait) {
            None | Some(Ok(None)) => Ok(()),
            Some(ended) => {
                let end = self.log_tail();
                bail!("controller {} has ended by itself: {ended:?}; the end of its log:\n{end}", self.name)
            }
        }
    }

    fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Waits until it serves.
    pub(super) async fn wait_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            self.check()?;
            match http::get(self.admin, "localhost", "/readyz", &[]).await {
                Ok(answer) if answer.status == 200 => return Ok(()),
                _ if began.elapsed() > START => bail!("controller {} is not ready:\n{}", self.name, self.log_tail()),
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// What it counted.
    pub(super) async fn figures(&self) -> Result<Figures> {
        let answer = http::get(self.admin, "localhost", "/metrics", &[]).await?;
        if answer.status != 200 {
            bail!("/metrics of controller {} answers {}", self.name, answer.status);
        }
        let text = answer.text();
        let sum = |name: &str| -> u64 {
            let of_it = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
            of_it.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).fold(0, |sum, value| {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small")]
                let value = value as u64;
                sum + value
            })
        };
        Ok(Figures {
            overdue_pins: sum("tidegate_overdue_pins_total"),
            nacks: sum("tidegate_nacks_total"),
            violations: sum("tidegate_violations"),
            clients: sum("tidegate_clients"),
        })
    }
}

/// Starts the Envoy of `GATEWAYS[index]`, which finds its controller at either of two addresses.
pub(super) async fn envoy(binary: &Binary, index: usize, replicas: &[Replica; 2], folder: &Path) -> Result<Process> {
    let name = GATEWAYS[index];
    let ads = replicas[0].ads.to_string().parse().context("an address of a socket is one of an ADS server")?;
    let mut bootstrap = Bootstrap::new(NamespacedName::new("churn", name), ads);
    bootstrap.sotw = name == "sotw";
    let mut config = bootstrap.to_json();
    let address = json!({ "address": "127.0.0.1", "port_value": replicas[1].ads.port() });
    let endpoints = config.pointer_mut("/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints");
    let endpoints = endpoints.and_then(|endpoints| endpoints.as_array_mut());
    let endpoints = endpoints.context("the bootstrap must name the endpoints of its ADS server")?;
    endpoints.push(json!({ "endpoint": { "address": { "socket_address": address } } }));
    let path = folder.join(format!("envoy-{name}.json"));
    fs::write(&path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    let log = LogTo::File(folder.join(format!("envoy-{name}.log")));
    let options = Options { log, drain_seconds: DRAIN_SECONDS, ..Options::default() };
    let mut envoy = Process::start(binary, &config.to_string(), &options).await?;
    envoy.wait_live(START).await?;
    Ok(envoy)
}

/// Whether an Envoy has a stream to a controller.
pub(super) async fn is_connected(envoy: &Process) -> Result<bool> {
    let stats = envoy.admin().stats("^control_plane.connected_state$").await?;
    Ok(stats.values().any(|value| *value == 1))
}

/// How many responses an Envoy rejected.
pub(super) async fn rejections(envoy: &Process) -> Result<BTreeMap<String, u64>> {
    let mut rejected = envoy.admin().stats("update_rejected$").await?;
    rejected.retain(|_, count| *count > 0);
    Ok(rejected)
}

/// The load on one Envoy: all views all the time, and requests that take their time to the hosts that stay. Targets are
/// indices of views.
pub(super) fn loads(ports: &Ports, rate: u32) -> [Load; 2] {
    let target = |view: View, path: &str| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.of(view)));
        Target { address, host: view.host(), path: path.to_owned(), tls: matches!(view, View::Secure(_)) }
    };
    let note = Some(super::manifests::MARK.parse().expect("the name of a header"));
    let quick = View::all().map(|view| target(view, "/")).collect();
    let slow_views = View::all().take(super::world::HOSTS + SECURE);
    let slow = slow_views.enumerate().map(|(index, view)| {
        let delay = 200 + index * 100 / (super::world::HOSTS + SECURE);
        target(view, &format!("/?delay={delay}ms"))
    });
    let slow = slow.collect();
    let quick_rate = rate.saturating_sub(SLOW_RATE).max(1);
    [
        Load::start(Plan {
            rate: quick_rate,
            targets: quick,
            workers: 24,
            fresh_every: FRESH_EVERY,
            note: note.clone(),
        }),
        // Three times as many workers as are busy on average.
        Load::start(Plan { rate: SLOW_RATE, targets: slow, workers: 30, fresh_every: FRESH_EVERY, note }),
    ]
}
