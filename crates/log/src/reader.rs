//! Reading a log: epochs, one after the other, in constant memory but for the epoch itself.
//!
//! A process that dies while it records leaves a *torn tail*: the last line, or the compressed stream, has no end.
//! That is not an error; the epochs before it are whole, and [`Reader::tail`] says what was lost. Anything wrong
//! *before* the end is [`Error::Damaged`]: nothing after it can be trusted, so nothing after it is read.

use crate::event::{Event, Seal};
use crate::format::{Error, FORMAT, HEADER_MAX, Header, LINE_MAX, ZSTD_MAGIC};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

/// The events of one batch and the seal that closed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Epoch {
    /// What happened, in order.
    pub events: Vec<Event>,
    /// None only for the last epoch of a log that ended before it was sealed: some of its events may be missing.
    pub seal: Option<Seal>,
}

/// How a log ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// How many events after the last seal could be read.
    pub unsealed: u64,
    /// Where the log breaks off, if it does.
    pub torn: Option<Torn>,
}

/// The place where a log breaks off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The line that has no end, from 1.
    pub line: u64,
    /// Where it begins, in bytes of the (decompressed) text.
    pub offset: u64,
    /// What is missing.
    pub reason: String,
}

impl Tail {
    /// Whether the log ended with a seal, and was closed.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Tail::default()
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.torn {
            None if self.unsealed == 0 => f.write_str("the log is whole"),
            None => write!(f, "the log ends with {} events that were not sealed", self.unsealed),
            Some(Torn { line, offset, reason }) => {
                write!(f, "the log breaks off at line {line} (byte {offset}): {reason}; ")?;
                write!(f, "{} events after the last seal were read", self.unsealed)
            }
        }
    }
}

/// Reads one log: first its header, then as an iterator its epochs. After an error it yields nothing more.
pub struct Reader {
    path: PathBuf,
    header: Header,
    input: Box<dyn BufRead + Send>,
    /// The line that is read next, and where it begins.
    line: u64,
    offset: u64,
    buffer: Vec<u8>,
    last_epoch: Option<tidegate_model::Epoch>,
    torn: Option<Torn>,
    tail: Option<Tail>,
    failed: bool,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("line", &self.line).finish_non_exhaustive()
    }
}

/// A line of a log.
enum Line {
    Header,
    Seal(Seal),
    Event(Event),
}

/// What the input gave.
enum Text {
    /// A line with its end.
    Whole,
    /// What stands behind the last end of line; the reason says what broke off.
    Rest(&'static str),
    /// Nothing more.
    End,
}

impl Reader {
    /// Opens a log, compressed or not, whatever its name; `-` is the standard input.
    ///
    /// # Errors
    ///
    /// [`Error::Open`], and those of [`Reader::new`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if path == Path::new("-") {
            return Reader::new("standard input", io::stdin());
        }
        let file = File::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        Reader::new(path, file)
    }

    /// Reads a log from anything, compressed or not; `name` stands in errors.
    ///
    /// # Errors
    ///
    /// [`Error::NotALog`] or [`Error::UnknownFormat`] for what is something else, [`Error::Read`].
    pub fn new(name: impl Into<PathBuf>, input: impl Read + Send + 'static) -> Result<Self, Error> {
        let path = name.into();
        let read = |source| Error::Read { path: path.clone(), line: 1, offset: 0, source };
        let mut input = decompressed(input).map_err(read)?;
        let mut buffer = Vec::new();
        let text = match read_line(&mut input, HEADER_MAX, &mut buffer) {
            Ok(text) => text,
            Err(source) if source.raw_os_error().is_some() => return Err(read(source)),
            Err(source) => return Err(Error::NotALog { path, reason: source.to_string() }),
        };
        let header = read_header(&path, &text, &buffer)?;
        Ok(Reader {
            path,
            header,
            input,
            line: 2,
            offset: buffer.len() as u64,
            buffer,
            last_epoch: None,
            torn: None,
            tail: None,
            failed: false,
        })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How the log ended, once every epoch was read without an error.
    #[must_use]
    pub fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
    }

    fn next_epoch(&mut self) -> Result<Option<Epoch>, Error> {
        let mut events = Vec::new();
        loop {
            let (line, offset) = (self.line, self.offset);
            match self.next_line()? {
                Some(Line::Event(event)) => events.push(event),
                Some(Line::Seal(seal)) => {
                    self.check_seal(&seal, events.len() as u64).map_err(|reason| self.damaged(line, offset, reason))?;
                    return Ok(Some(Epoch { events, seal: Some(seal) }));
                }
                Some(Line::Header) => {
                    let reason = "a second header: logs cannot be joined end to end".to_owned();
                    return Err(self.damaged(line, offset, reason));
                }
                None => {
                    self.tail = Some(Tail { unsealed: events.len() as u64, torn: self.torn.take() });
                    return Ok((!events.is_empty()).then_some(Epoch { events, seal: None }));
                }
            }
        }
    }

    fn check_seal(&mut self, seal: &Seal, events: u64) -> Result<(), String> {
        if seal.events != events {
            return Err(format!("the seal of epoch {} counts {} events, {events} are there", seal.epoch, seal.events));
        }
        match self.last_epoch.replace(seal.epoch) {
            Some(last) if last >= seal.epoch => Err(format!("epoch {} follows epoch {last}", seal.epoch)),
            _ => Ok(()),
        }
    }

    /// The next line, or none at the end, which may be a torn one.
    fn next_line(&mut self) -> Result<Option<Line>, Error> {
        if self.torn.is_some() {
            return Ok(None);
        }
        let (line, offset) = (self.line, self.offset);
        self.buffer.clear();
        let text = match read_line(&mut self.input, LINE_MAX, &mut self.buffer) {
            Ok(text) => text,
            Err(source) if source.raw_os_error().is_some() => {
                return Err(Error::Read { path: self.path.clone(), line, offset, source });
            }
            Err(source) => return Err(self.damaged(line, offset, source.to_string())),
        };
        self.line += 1;
        self.offset += self.buffer.len() as u64;
        let parsed = match text {
            Text::End => return Ok(None),
            Text::Whole | Text::Rest(_) => parse(&self.buffer),
        };
        match (parsed, text) {
            (Ok(parsed), _) => Ok(Some(parsed)),
            // A JSON object is never the beginning of a longer one, so what does parse is whole even without its end
            // of line, and only what does not parse is torn.
            (Err(_), Text::Rest(reason)) => {
                self.torn = Some(Torn { line, offset, reason: reason.to_owned() });
                Ok(None)
            }
            (Err(reason), Text::Whole | Text::End) => Err(self.damaged(line, offset, reason)),
        }
    }

    fn damaged(&self, line: u64, offset: u64, reason: String) -> Error {
        Error::Damaged { path: self.path.clone(), line, offset, reason }
    }
}

impl Iterator for Reader {
    type Item = Result<Epoch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.tail.is_some() {
            return None;
        }
        let epoch = self.next_epoch();
        self.failed = epoch.is_err();
        epoch.transpose()
    }
}

/// Looks at the first bytes instead of the name: a log may come through a pipe, or be renamed.
fn decompressed(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let mut magic = Vec::new();
    input.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut magic)?;
    let compressed = magic == ZSTD_MAGIC;
    let input = BufReader::new(Cursor::new(magic).chain(input));
    if compressed {
        Ok(Box::new(BufReader::new(zstd::stream::read::Decoder::with_buffer(input)?)))
    } else {
        Ok(Box::new(input))
    }
}

/// Reads up to and with the next end of line, at most `max` bytes.
fn read_line(input: &mut dyn BufRead, max: usize, buffer: &mut Vec<u8>) -> io::Result<Text> {
    let broken_off = match input.take(max as u64 + 1).read_until(b'\n', buffer) {
        Ok(_) => false,
        // What the decoder says when a frame has no end.
        Err(source) if source.kind() == io::ErrorKind::UnexpectedEof => true,
        Err(source) => return Err(source),
    };
    if buffer.last() == Some(&b'\n') {
        Ok(Text::Whole)
    } else if buffer.len() > max {
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("a line of more than {max} bytes")))
    } else if !buffer.is_empty() {
        Ok(Text::Rest("the last line has no end"))
    } else if broken_off {
        Ok(Text::Rest("the compressed stream has no end"))
    } else {
        Ok(Text::End)
    }
}

fn read_header(path: &Path, text: &Text, line: &[u8]) -> Result<Header, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct HeaderLine {
        tidegate: Value,
    }
    let not_a_log = |reason: String| Error::NotALog { path: path.to_owned(), reason };
    if line.is_empty() {
        return Err(not_a_log("it is empty".to_owned()));
    }
    let header = match serde_json::from_slice::<HeaderLine>(line) {
        Ok(HeaderLine { tidegate }) => tidegate,
        Err(_) if matches!(text, Text::Rest(_)) && line.starts_with(b"{\"tidegate\"") => {
            return Err(not_a_log("it breaks off within its header, so nothing was recorded".to_owned()));
        }
        Err(_) => return Err(not_a_log(r#"its first line is not a header, {"tidegate":{"format":...}}"#.to_owned())),
    };
    let found = header.get("format").and_then(Value::as_u64);
    let found = found.ok_or_else(|| not_a_log("its header has no format number".to_owned()))?;
    if found != u64::from(FORMAT) {
        let version = header.get("version").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        return Err(Error::UnknownFormat { path: path.to_owned(), found, version });
    }
    serde_json::from_value(header).map_err(|error| not_a_log(format!("its header is damaged: {error}")))
}

fn parse(line: &[u8]) -> Result<Line, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SealLine {
        seal: Seal,
    }
    match tag(line) {
        Some(b"tidegate") => Ok(Line::Header),
        Some(b"seal") => serde_json::from_slice(line).map(|SealLine { seal }| Line::Seal(seal)),
        Some(_) | None => serde_json::from_slice(line).map(Line::Event),
    }
    .map_err(|error| describe(&error))
}

/// The first field name of an object, without parsing the object.
fn tag(line: &[u8]) -> Option<&[u8]> {
    let inside = line.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = inside.iter().position(|&byte| byte == b'"')?;
    Some(&inside[..end])
}

/// The parser counts lines too, but it only ever sees one.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    format!("{message} (column {})", error.column())
}
