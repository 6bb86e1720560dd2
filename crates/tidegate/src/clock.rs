//! The one real clock. Everything else is given its time, so that tests and replays can give another one.

use std::sync::Arc;
use std::time::Instant;
use tidegate_model::Millis;

/// A wall clock: milliseconds since the Unix epoch.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// The clock of the system.
#[must_use]
pub fn system() -> Clock {
    Arc::new(wall_ms)
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that is injected everywhere else")]
fn wall_ms() -> Millis {
    // A clock before 1970 reads as 1970: times are for people and for grace periods, never for order.
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// When the log of what operators do begins.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "timely measures the real time between two events of its log")]
pub fn profile_start() -> Instant {
    Instant::now()
}
