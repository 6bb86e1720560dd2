//! The processes of the demo: backends here, the controller and an Envoy as children. Dropping the stack ends them all.

use super::shop::Shop;
use super::{protocol, until};
use anyhow::{Context, Result, anyhow, bail};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use testkit::{Echo, http, ports};
use tidegate_envoy::{Binary, LogTo, Options, Process};
use tokio::process::{Child, Command};

/// How long the controller may take to end when it is told to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// What is run.
pub(super) struct Programs {
    pub(super) tidegate: PathBuf,
    pub(super) envoy: Binary,
}

/// Everything that is up.
pub(super) struct Stack {
    pub(super) shop: Shop,
    pub(super) envoy: Process,
    admin: SocketAddr,
    controller: Child,
    _backends: Vec<Echo>,
    folder: Folder,
}

/// A directory that goes with the stack, or stays.
enum Folder {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    fn new(keep: bool) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("tidegate-demo-").tempdir().context("cannot make a directory")?;
        if !keep {
            return Ok(Folder::Temporary(dir));
        }
        let path = dir.keep();
        println!("everything is kept in {}", path.display());
        Ok(Folder::Kept(path))
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Temporary(dir) => dir.path(),
            Folder::Kept(path) => path,
        }
    }
}

impl Stack {
    /// Starts backends, controller and Envoy, in this order, each when the one before answers.
    pub(super) async fn start(programs: &Programs, sotw: bool, keep: bool) -> Result<Self> {
        let folder = Folder::new(keep)?;
        let shop = Shop::copy_to(&folder.path().join("manifests"))?;
        let mut backends = Vec::new();
        for (address, identity) in shop.backends()? {
            backends.push(Echo::start(address, identity).await?);
        }
        let [ads, admin] = [(); 2].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free())));
        let mut controller = serve(&programs.tidegate, folder.path(), ads, admin)?;
        let log = folder.path().join("tidegate.log");
        tokio::select! {
            ready = until("the controller's first complete epoch (/readyz)", async || ready(admin).await) => ready,
            status = controller.wait() => Err(anyhow!("the controller ended: {status:?}")),
        }
        .with_context(|| tail(&log))?;
        let bootstrap = bootstrap(&programs.tidegate, ads, sotw).await?;
        fs::write(folder.path().join("envoy.yaml"), &bootstrap).context("cannot write envoy.yaml")?;
        let options = Options { log: LogTo::File(folder.path().join("envoy.log")), ..Options::default() };
        let mut envoy = Process::start(&programs.envoy, &bootstrap, &options).await?;
        envoy.wait_live(super::PATIENCE).await.with_context(|| tail(&log))?;
        println!("envoy serves shop/edge over {} from {ads}; controller's admin port: http://{admin}", protocol(sotw));
        Ok(Stack { shop, envoy, admin, controller, _backends: backends, folder })
    }

    /// Address of the listener for everybody.
    pub(super) fn web(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.shop.web))
    }

    /// Address of the listener for partners.
    pub(super) fn partners(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.shop.partners))
    }

    /// Address of the listener with TLS.
    pub(super) fn secure(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.shop.secure))
    }

    /// Where the controller records to.
    pub(super) fn recording(&self) -> PathBuf {
        self.folder.path().join("recording.jsonl.zst")
    }

    /// Whether Envoy has this cluster.
    pub(super) async fn has_cluster(&self, name: &str) -> Result<bool> {
        let clusters = self.envoy.admin().get("/clusters").await?;
        Ok(clusters.lines().any(|line| line.starts_with(&format!("{name}::"))))
    }

    /// Envoy must have accepted everything that it was sent.
    pub(super) async fn check_rejections(&self) -> Result<()> {
        let mut rejected = self.envoy.admin().stats("update_rejected$").await?;
        let updates = rejected.len();
        rejected.retain(|_, count| *count > 0);
        if updates == 0 || !rejected.is_empty() {
            bail!("envoy rejected configuration: {rejected:?} of {updates} counters");
        }
        println!("envoy rejected nothing");
        Ok(())
    }

    /// Waits until a child ends by itself, which none should. Says which.
    pub(super) async fn ended(&mut self) -> String {
        tokio::select! {
            status = self.controller.wait() => format!("the controller ended: {status:?}"),
            status = self.envoy.wait() => format!("envoy ended: {status:?}"),
        }
    }

    /// Stops the controller as a service manager does, and Envoy after it.
    pub(super) async fn stop(&mut self) -> Result<()> {
        if let (None, Some(id)) = (self.controller.try_wait()?, self.controller.id()) {
            // The shell's own kill: no other program is needed, and no unsafe code.
            let asked = Command::new("sh").args(["-c", &format!("kill -TERM {id}")]).status().await;
            asked.context("cannot run sh")?;
        }
        let status = tokio::time::timeout(STOP_TIMEOUT, self.controller.wait()).await;
        let status = status.with_context(|| format!("the controller did not end within {STOP_TIMEOUT:?}"))??;
        if !status.success() {
            bail!("the controller ended with {status}\n{}", self.logs());
        }
        // No answer: it is gone already.
        let _asked = self.envoy.admin().post("/quitquitquit").await;
        self.envoy.wait().await?;
        Ok(())
    }

    /// The ends of the logs.
    pub(super) fn logs(&self) -> String {
        ["tidegate.log", "envoy.log"].map(|name| tail(&self.folder.path().join(name))).join("\n")
    }

    /// What somebody in front of a running demo may do.
    pub(super) fn what_to_try(&self) -> String {
        let (web, secure, partners, admin) = (self.shop.web, self.shop.secure, self.shop.partners, self.admin);
        let file = |name| self.shop.path(name).display().to_string();
        format!(
            "
Everything is up. Try, in another terminal:

  curl -H 'Host: shop.example' localhost:{web}/
  curl -i -H 'Host: shop.example' localhost:{web}/old/shoes
  curl -kv --connect-to ::localhost:{secure} https://shop.example/
  curl -H 'Host: partners.shop.example' localhost:{partners}/invoices
  curl {admin}/status
  curl '{admin}/snapshot?gateway=shop/edge'
  curl {}/clusters

Edit a file and ask again; what you save is served a few milliseconds later:

  {}
      change the weights 90 and 10; let /catalog go to store-v2; add a rule
  {}
      replace its endpoints by [] : /pay answers 503, and nothing else does
  {}
      remove the grant: /pay answers 500, and the route's status says RefNotPermitted

Ctrl-C ends it, and replays what was recorded.",
            self.envoy.admin().address(),
            file("routes.yaml"),
            file("backends/pay.yaml"),
            file("payments.yaml"),
        )
    }
}

fn serve(tidegate: &Path, folder: &Path, ads: SocketAddr, admin: SocketAddr) -> Result<Child> {
    let log = File::create(folder.join("tidegate.log")).context("cannot create tidegate.log")?;
    let mut command = Command::new(tidegate);
    command
        .args(["serve", "--manifests"])
        .arg(folder.join("manifests"))
        .args(["--ads", &ads.to_string(), "--admin", &admin.to_string(), "--record"])
        .arg(folder.join("recording.jsonl.zst"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("cannot share tidegate.log")?)
        .stderr(log)
        .kill_on_drop(true);
    command.spawn().with_context(|| format!("cannot run {}", tidegate.display()))
}

async fn bootstrap(tidegate: &Path, ads: SocketAddr, sotw: bool) -> Result<String> {
    let mut command = Command::new(tidegate);
    command.args(["bootstrap", "--gateway", "shop/edge", "--ads", &ads.to_string(), "--admin-port", "0"]);
    if sotw {
        command.arg("--sotw");
    }
    let output = command.kill_on_drop(true).output().await.context("cannot run tidegate bootstrap")?;
    if !output.status.success() {
        bail!("tidegate bootstrap failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("tidegate bootstrap printed no text")
}

async fn ready(admin: SocketAddr) -> Result<()> {
    let answer = http::get(admin, "localhost", "/readyz", &[]).await?;
    if answer.status != 200 {
        bail!("/readyz says {}: {}", answer.status, answer.text().trim());
    }
    Ok(())
}

/// The last lines of a file.
fn tail(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    format!("the end of {}:\n{}", path.display(), lines[lines.len().saturating_sub(20)..].join("\n"))
}
