//! How old a stream may become.
//!
//! An old stream ends so that its client connects anew, maybe to another replica. Not all at once: after a restart all
//! streams are as old as each other. And not in the middle of anything: only a client that has answered everything is
//! sent away, unless it takes too long.

use std::time::Duration;
use tidegate_model::Millis;

/// How long a stream of full age waits for its client to answer.
const PATIENCE_MS: Millis = 10_000;

/// The end of one stream's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Age {
    /// When it is old.
    old_at: Millis,
}

impl Age {
    /// That of the stream with this number: `age` from now, up to a tenth less or more. There is no random source: the
    /// hash of number and time spreads as well, and tells the same in a test.
    pub(super) fn new(age: Duration, stream: u64, now: Millis) -> Self {
        let age = Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX / 4);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&stream.to_le_bytes()).update(&now.to_le_bytes());
        let mut word = [0; 8];
        word.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        let spread = age / 5;
        let offset = u64::from_le_bytes(word) % (spread + 1);
        Age { old_at: now.saturating_add(age - age / 10).saturating_add(offset) }
    }

    /// Whether the stream ends now. `settled` says whether nothing is under way.
    pub(super) fn is_over(self, settled: bool, now: Millis) -> bool {
        now >= if settled { self.old_at } else { self.old_at.saturating_add(PATIENCE_MS) }
    }

    /// When to look again, if nothing happens before.
    pub(super) fn deadline(self, now: Millis) -> Millis {
        if now < self.old_at { self.old_at } else { self.old_at.saturating_add(PATIENCE_MS) }
    }
}

/// After what age of a connection the transport says that no further stream may be opened on it: before any stream that
/// was opened first on it ends, so that its client does not come back by the same way.
pub(super) fn of_connection(age: Duration) -> Duration {
    age - age / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_spread_over_a_tenth_to_either_side() {
        let age = Duration::from_secs(1800);
        let ages: Vec<Millis> = (0..1000).map(|stream| Age::new(age, stream, 5_000).old_at - 5_000).collect();
        assert!(ages.iter().all(|age| (1_620_000..=1_980_000).contains(age)));
        let early = ages.iter().filter(|age| **age < 1_800_000).count();
        assert!((400..600).contains(&early), "{early} of 1000 end in the earlier half");
        assert!(
            ages.iter().all(|age| *age >= u64::try_from(of_connection(Duration::from_secs(1800)).as_millis()).unwrap())
        );
    }

    #[test]
    fn an_old_stream_waits_for_what_is_under_way_but_not_for_ever() {
        let age = Age { old_at: 1_000 };
        assert_eq!((age.is_over(true, 999), age.deadline(999)), (false, 1_000));
        assert_eq!((age.is_over(true, 1_000), age.is_over(false, 1_000)), (true, false));
        assert_eq!((age.deadline(1_000), age.is_over(false, 11_000)), (11_000, true));
    }
}
