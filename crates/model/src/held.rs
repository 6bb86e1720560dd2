//! Entries that keep a previous target for a while.

use crate::Millis;
use crate::hostname::Hostname;
use crate::kind::ObjectKey;
use crate::name::{Name, NamespacedName};
use serde::{Deserialize, Serialize};

/// The annotation of a route with its own bound of the retarget hold.
pub const RETARGET_HOLD: &str = "tidegate.dev/retarget-hold";

/// The longest bound of a retarget hold, in milliseconds: an hour. Whoever waits longer for endpoints waits for somebody
/// to look, and for that the truth (503) is better.
pub const RETARGET_HOLD_MAX_MS: Millis = 3_600_000;

/// An entry that goes on in its previous form, because what it shall go to now has no usable endpoint yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Held {
    /// The route that the entry was made of.
    pub object: ObjectKey,
    /// The Gateway whose clients have it.
    pub gateway: NamespacedName,
    /// The table.
    pub table: Name,
    /// The virtual host.
    pub host: Hostname,
    /// The name of the entry.
    pub entry: Name,
    /// The clusters that it still goes to, sorted.
    pub keeps: Vec<Name>,
    /// The clusters that it waits for, sorted; [`INVALID_CLUSTER`](crate::INVALID_CLUSTER) is a reference that does not
    /// resolve.
    pub waits_for: Vec<Name>,
    /// When the hold began, in milliseconds since the Unix epoch.
    pub since: Millis,
    /// When it ends at the latest.
    pub until: Millis,
}
