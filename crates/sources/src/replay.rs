//! A recorded log as a source: the batches as they were taken, with the time at which they were.

use std::path::Path;
use tidegate_log::{Epoch, Error, Event, Header, Reader, Seal, Tail};
use tidegate_model::Millis;

/// One recorded batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// When it was taken. For a batch that was not sealed, the time of the one before: the log does not tell.
    pub millis: Millis,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// What a replay of it must come to; none for the last batch of a log that broke off, which may lack events.
    pub seal: Option<Seal>,
}

/// Reads a recorded log batch by batch. After an error it yields nothing more.
#[derive(Debug)]
pub struct Replay {
    reader: Reader,
    millis: Millis,
}

impl Replay {
    /// Opens a log, compressed or not; `-` is the standard input.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, is no log, or has a format that is not read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Replay::new(Reader::open(path)?))
    }

    /// Replays what `reader` reads.
    #[must_use]
    pub fn new(reader: Reader) -> Self {
        let millis = reader.header().created;
        Replay { reader, millis }
    }

    /// What the log says about itself.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// How the log ended, once every batch was read without an error.
    #[must_use]
    pub fn tail(&self) -> Option<&Tail> {
        self.reader.tail()
    }
}

impl Iterator for Replay {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let epoch = self.reader.next()?;
        Some(epoch.map(|Epoch { events, seal }| {
            self.millis = seal.as_ref().map_or(self.millis, |seal| seal.millis);
            Batch { millis: self.millis, events, seal }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_log::Writer;
    use tidegate_model::Kind;

    #[test]
    fn batches_come_back_with_their_times() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.zst");
        let mut writer = Writer::create(&path, &Header::new("1", 5, "controller")).unwrap();
        let seal = Seal { epoch: 0, millis: 7, events: 1, digest: "d".to_owned() };
        writer.append(&Event::Synced(Kind::Gateway)).unwrap();
        writer.seal(&seal).unwrap();
        writer.append(&Event::Synced(Kind::Service)).unwrap();
        writer.finish().unwrap();
        let mut replay = Replay::open(&path).unwrap();
        assert_eq!(replay.header().controller, "controller");
        let batches: Vec<Batch> = replay.by_ref().map(Result::unwrap).collect();
        let sealed = Batch { millis: 7, events: vec![Event::Synced(Kind::Gateway)], seal: Some(seal) };
        let rest = Batch { millis: 7, events: vec![Event::Synced(Kind::Service)], seal: None };
        assert_eq!(batches, [sealed, rest]);
        assert_eq!(replay.tail().unwrap().unsealed, 1);
    }

    #[test]
    fn a_log_that_is_none_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(Replay::open(file.path()), Err(Error::NotALog { .. })));
    }
}
