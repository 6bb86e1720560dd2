//! What a log looks like: its header, its bounds, and what can be wrong with one.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use tidegate_model::{Epoch, Millis};

/// The format that is written, and the only one that is read.
pub const FORMAT: u32 = 1;

/// The longest line, in bytes. An API server takes requests of up to 3 MiB, so this is twenty of the largest objects;
/// it is what a damaged or hostile file can make the reader allocate.
pub const LINE_MAX: usize = 64 << 20;

/// The longest header, in bytes: how far a file that is no log is read before it is refused.
pub const HEADER_MAX: usize = 1 << 20;

/// First bytes of a zstd frame.
pub(crate) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The first line of a log: what a replay must know besides the events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format; [`FORMAT`] in what is written.
    pub format: u32,
    /// Version of the program that wrote the log.
    pub version: String,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created: Millis,
    /// The controller name that GatewayClasses had to carry.
    pub controller: String,
    /// Other settings that change what is derived, by flag name; a replay applies them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Value>,
}

impl Header {
    /// A header of the format that is written, without other settings.
    #[must_use]
    pub fn new(version: impl Into<String>, created: Millis, controller: impl Into<String>) -> Self {
        Header {
            format: FORMAT,
            version: version.into(),
            created,
            controller: controller.into(),
            settings: BTreeMap::new(),
        }
    }
}

/// Whether a log of this name is written compressed.
#[must_use]
pub fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// What can be wrong with a log. Line numbers start at 1, offsets are bytes from the start of the text, that is, after
/// decompression.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file to write exists: a recording is never overwritten.
    #[error("log {path} exists already; name another file or move it away")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be created.
    #[error("cannot create log {path}: {source}")]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write log {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The writer was given a seal that does not close what it was given before.
    #[error("cannot seal epoch {epoch} of log {path}: {events} events were written, the seal says {sealed}")]
    SealMismatch {
        /// The file.
        path: PathBuf,
        /// The epoch.
        epoch: Epoch,
        /// How many events were appended.
        events: u64,
        /// How many the seal says.
        sealed: u64,
    },
    /// The file cannot be opened.
    #[error("cannot open log {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be read further.
    #[error("cannot read log {path} at line {line} (byte {offset}): {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The line that was being read.
        line: u64,
        /// Where it begins.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{path} is not a tidegate log: {reason}")]
    NotALog {
        /// The file.
        path: PathBuf,
        /// What is wrong with its first line.
        reason: String,
    },
    /// The file is a log of a format that is not read.
    #[error(
        "log {path} has format {found}, this version reads format {FORMAT}; replay it with the version that wrote it ({version})"
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The version that wrote it, as far as known.
        version: String,
    },
    /// The file is damaged before its end: what follows cannot be trusted.
    #[error("log {path} is damaged at line {line} (byte {offset}): {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// Where it begins.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
}
