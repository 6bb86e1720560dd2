//! Writing a log. *Invariant*: after [`Writer::seal`] returns, a crash of this process loses nothing of that epoch; a
//! crash of the machine may lose what the operating system had not yet written (no fsync an epoch: it would cost more
//! than the derivation).

use crate::event::{Event, Seal};
use crate::format::{Error, Header, is_compressed};
use serde::Serialize;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// zstd level: 3 writes some hundred MB a second on one core, far above any storm of events.
const LEVEL: i32 = 3;

enum Output {
    Plain(BufWriter<File>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Output {
    fn write(&mut self) -> &mut dyn Write {
        match self {
            Output::Plain(file) => file,
            Output::Zstd(encoder) => encoder,
        }
    }

    fn finish(self) -> io::Result<()> {
        let mut file = match self {
            Output::Plain(file) => file,
            Output::Zstd(encoder) => encoder.finish()?,
        };
        file.flush()?;
        file.get_ref().sync_all()
    }
}

/// Writes one log.
pub struct Writer {
    path: PathBuf,
    output: Output,
    line: Vec<u8>,
    events: u64,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("path", &self.path).field("events", &self.events).finish_non_exhaustive()
    }
}

/// Lines that are no events.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Mark<'a> {
    Tidegate(&'a Header),
    Seal(&'a Seal),
}

impl Writer {
    /// Creates the file, zstd-compressed if its name ends in `.zst`, and writes the header.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] if there is such a file, [`Error::Create`] and [`Error::Write`] if the system refuses.
    pub fn create(path: impl Into<PathBuf>, header: &Header) -> Result<Self, Error> {
        let path = path.into();
        let output = match create(&path) {
            Ok(output) => output,
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => return Err(Error::Exists { path }),
            Err(source) => return Err(Error::Create { path, source }),
        };
        let mut writer = Writer { path, output, line: Vec::new(), events: 0 };
        writer.line(&Mark::Tidegate(header))?;
        writer.flush()?;
        Ok(writer)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many events were appended since the last seal.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Appends an event to the epoch that is open. It may stay in memory until [`Writer::seal`] or [`Writer::flush`].
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn append(&mut self, event: &Event) -> Result<(), Error> {
        self.line(event)?;
        self.events += 1;
        Ok(())
    }

    /// Closes the epoch and hands everything to the operating system.
    ///
    /// # Errors
    ///
    /// [`Error::SealMismatch`] if `seal` does not count the events that were appended, and [`Error::Write`].
    pub fn seal(&mut self, seal: &Seal) -> Result<(), Error> {
        if seal.events != self.events {
            let (epoch, events, sealed) = (seal.epoch, self.events, seal.events);
            return Err(Error::SealMismatch { path: self.path.clone(), epoch, events, sealed });
        }
        self.line(&Mark::Seal(seal))?;
        self.flush()?;
        self.events = 0;
        Ok(())
    }

    /// Hands everything appended to the operating system without closing the epoch, for a batch that must be on
    /// record before it is acted on.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn flush(&mut self) -> Result<(), Error> {
        let flushed = self.output.write().flush();
        flushed.map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    /// Ends the log and waits until it is on disk. A writer that is dropped instead leaves a log without an end, which
    /// reads the same but for the note that its tail is torn.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn finish(self) -> Result<(), Error> {
        let Writer { path, output, .. } = self;
        output.finish().map_err(|source| Error::Write { path, source })
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), Error> {
        self.line.clear();
        let written = serde_json::to_writer(&mut self.line, value).map_err(io::Error::from).and_then(|()| {
            self.line.push(b'\n');
            self.output.write().write_all(&self.line)
        });
        written.map_err(|source| Error::Write { path: self.path.clone(), source })
    }
}

fn create(path: &Path) -> io::Result<Output> {
    let file = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(path)?);
    if !is_compressed(path) {
        return Ok(Output::Plain(file));
    }
    let mut encoder = zstd::stream::write::Encoder::new(file, LEVEL)?;
    encoder.include_checksum(true)?;
    Ok(Output::Zstd(encoder))
}
