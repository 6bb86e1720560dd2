//! A log, derived again: it must come out as it went in.

use crate::Config;
use crate::epoch::{Applied, Core};
use tidegate_log::{Event, Reader, Seal, Tail};
use tidegate_model::{Epoch, Kind};

/// What a replay found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Sealed epochs that were derived again.
    pub epochs: u64,
    /// Events that were read, without those of an unsealed tail.
    pub events: u64,
    /// Epochs whose digest came out as recorded.
    pub equal: u64,
    /// The first epoch that came out otherwise.
    pub first_difference: Option<Difference>,
    /// Kinds that the recording never lists, because its recorder did not know them; taken as empty.
    pub assumed: Vec<Kind>,
    /// Events after the last seal. They are not replayed: nobody was shown what follows from them.
    pub unsealed: u64,
    /// How the log ended, once it was read to its end.
    pub tail: Option<Tail>,
    /// Facts after the last epoch.
    pub facts: usize,
}

impl ReplayReport {
    /// Whether everything came out as recorded.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.first_difference.is_none()
    }
}

/// An epoch that came out otherwise than recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The epoch.
    pub epoch: Epoch,
    /// The digest on the log.
    pub expected: String,
    /// The digest that was derived.
    pub found: String,
}

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error("cannot read the log")]
    Log(#[from] tidegate_log::Error),
    /// The seals of the log do not count on.
    #[error("the log seals epoch {found} where epoch {expected} must follow: lines are missing or were moved")]
    Epoch {
        /// What must follow.
        expected: Epoch,
        /// What the log says.
        found: Epoch,
    },
}

/// Derives every sealed epoch of a log again, with the times of the log, and compares the digests. Goes on after a
/// difference, to count. `progress` is called after every epoch.
///
/// # Errors
///
/// If the log cannot be read to its end. A torn tail is none, see [`ReplayReport::tail`].
pub fn replay(
    mut reader: Reader,
    config: &Config,
    mut progress: impl FnMut(&ReplayReport),
) -> Result<ReplayReport, ReplayError> {
    let mut core = Core::new(config);
    let mut report = ReplayReport::default();
    for epoch in &mut reader {
        let epoch = epoch?;
        if let Some(seal) = &epoch.seal {
            report.step(&mut core, &epoch.events, seal)?;
            progress(&report);
        }
    }
    report.tail = reader.tail().cloned();
    report.unsealed = report.tail.as_ref().map_or(0, |tail| tail.unsealed);
    Ok(report)
}

impl ReplayReport {
    /// Derives one more epoch of the log on `core`, which has derived those before it, and compares the digests.
    ///
    /// # Errors
    ///
    /// If the seals of the log do not count on.
    pub fn step(&mut self, core: &mut Core, events: &[Event], seal: &Seal) -> Result<(), ReplayError> {
        let expected = core.epoch().map_or(0, |epoch| epoch + 1);
        if seal.epoch != expected {
            return Err(ReplayError::Epoch { expected, found: seal.epoch });
        }
        self.events += events.len() as u64;
        let sealed = match core.apply(events, seal.millis) {
            Applied::Sealed(sealed) => sealed,
            Applied::Pending { missing } => {
                // The recorder sealed here, so it knew of no more kinds.
                let events: Vec<Event> = missing.iter().map(|kind| Event::Synced(*kind)).collect();
                self.assumed = missing;
                match core.apply(&events, seal.millis) {
                    Applied::Sealed(sealed) => sealed,
                    Applied::Pending { missing } => unreachable!("{missing:?} was just listed"),
                }
            }
        };
        self.epochs += 1;
        self.facts = core.fact_count();
        let found = sealed.digest.to_string();
        if found == seal.digest {
            self.equal += 1;
        } else if self.first_difference.is_none() {
            let expected = seal.digest.clone();
            self.first_difference = Some(Difference { epoch: seal.epoch, expected, found });
        }
        Ok(())
    }
}
