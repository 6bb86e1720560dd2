//! The tap between what comes in and what is made of it.

use tidegate_log::{Error, Event, Seal, Writer};

/// Whether what happens is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// Nobody asked for it.
    #[default]
    Off,
    /// Every event and seal is on the log before anybody sees what follows from it.
    On,
    /// Writing failed, for this reason. Serving goes on; the log ends with its last whole epoch.
    Stopped(String),
}

/// Writes batches until the first failure.
pub(crate) struct Recorder {
    log: Option<Box<dyn Append>>,
    state: Recording,
    /// Events since the last seal.
    unsealed: u64,
}

/// What a recorder needs of a log: a [`Writer`], but for tests.
pub(crate) trait Append: Send {
    fn append(&mut self, event: &Event) -> Result<(), Error>;
    fn seal(&mut self, seal: &Seal) -> Result<(), Error>;
    fn finish(self: Box<Self>) -> Result<(), Error>;
}

impl Append for Writer {
    fn append(&mut self, event: &Event) -> Result<(), Error> {
        Writer::append(self, event)
    }

    fn seal(&mut self, seal: &Seal) -> Result<(), Error> {
        Writer::seal(self, seal)
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        Writer::finish(*self)
    }
}

impl Recorder {
    /// A recorder to `log`, or to nowhere.
    pub(crate) fn new(log: Option<Box<dyn Append>>) -> Self {
        let state = if log.is_some() { Recording::On } else { Recording::Off };
        Recorder { log, state, unsealed: 0 }
    }

    /// Whether it records.
    pub(crate) fn state(&self) -> &Recording {
        &self.state
    }

    /// Appends the events of a batch.
    pub(crate) fn append(&mut self, events: &[Event]) {
        self.unsealed += events.len() as u64;
        self.attempt(|log| events.iter().try_for_each(|event| log.append(event)));
    }

    /// Closes an epoch: `seal` with the number of its events filled in.
    pub(crate) fn seal(&mut self, mut seal: Seal) {
        seal.events = std::mem::take(&mut self.unsealed);
        self.attempt(|log| log.seal(&seal));
    }

    /// Ends the log.
    pub(crate) fn finish(mut self) {
        if let Some(Err(error)) = self.log.take().map(Append::finish) {
            tracing::error!(%error, "cannot end the recording");
        }
    }

    fn attempt(&mut self, write: impl FnOnce(&mut dyn Append) -> Result<(), Error>) {
        let Some(log) = &mut self.log else { return };
        if let Err(error) = write(log.as_mut()) {
            tracing::error!(%error, "recording stopped; serving goes on");
            self.state = Recording::Stopped(error.to_string());
            self.log = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::Kind;

    /// Takes so many calls, then fails.
    struct Failing(usize);

    impl Failing {
        fn call(&mut self) -> Result<(), Error> {
            let full = Error::Write { path: "full".into(), source: std::io::Error::other("no space left") };
            self.0 = self.0.checked_sub(1).ok_or(full)?;
            Ok(())
        }
    }

    impl Append for Failing {
        fn append(&mut self, _: &Event) -> Result<(), Error> {
            self.call()
        }
        fn seal(&mut self, seal: &Seal) -> Result<(), Error> {
            assert_eq!(seal.events, 1);
            self.call()
        }
        fn finish(self: Box<Self>) -> Result<(), Error> {
            panic!("what failed is not touched again")
        }
    }

    #[test]
    fn a_failed_write_stops_the_recording_for_good() {
        let mut recorder = Recorder::new(Some(Box::new(Failing(3))));
        let seal = Seal { epoch: 0, millis: 1, events: 0, digest: String::new() };
        recorder.append(&[Event::Synced(Kind::Gateway)]);
        recorder.seal(seal.clone());
        recorder.append(&[Event::Synced(Kind::Gateway)]);
        assert_eq!(recorder.state(), &Recording::On);
        recorder.seal(seal.clone());
        assert!(matches!(recorder.state(), Recording::Stopped(reason) if reason.contains("full")));
        recorder.append(&[]);
        recorder.seal(seal);
        recorder.finish();
    }
}
