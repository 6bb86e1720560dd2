//! Names, epochs, facts, findings, derived status and observations: pure data, no behaviour beyond what a value
//! says about itself.
//!
//! *Comes in*: nothing. *Goes out*: the words every other crate speaks. *Must not know*: Kubernetes clients, tokio,
//! timely, protobuf. *Start at* [`fact`], the only things that enter the dataflow, then [`status`], what leaves it
//! besides resources.
//!
//! Modules in the order of the data: names and keys, what normalization makes of an object, what translation has to
//! say about it, what a client told us.

pub mod name;

mod plain;

pub mod kind;

pub mod hostname;

mod address;

pub mod fact;

pub mod finding;

pub mod status;

mod features;

mod held;

mod locality;

mod precedence;

pub mod observation;

mod time;

pub use address::AddressRange;
pub use fact::*;
pub use features::SUPPORTED_FEATURES;
pub use finding::{Finding, Reason};
pub use held::{Held, RETARGET_HOLD, RETARGET_HOLD_MAX_MS};
pub use hostname::Hostname;
pub use kind::{GroupKind, Kind, ListenerKey, ObjectKey};
pub use locality::{
    HOSTNAME_LABEL, LEVELS, Locality, LocalityPrefix, NETWORK_LABEL, REGION_LABEL, SUB_ZONE_LABEL, ZONE_LABEL,
};
pub use name::{Name, NamespacedName};
pub use observation::{ClientId, Observation, Refusal, ResourceType};
pub use plain::plain;
pub use precedence::Precedence;
pub use status::*;
pub use time::rfc3339;

/// Logical time of one batch of events. Epoch 0 is the initial state of every kind.
pub type Epoch = u64;

/// Wall-clock milliseconds since the Unix epoch. Only ever data: taken once per batch, then carried.
pub type Millis = u64;

/// The controller name that a GatewayClass must carry to be ours, unless configured otherwise.
pub const CONTROLLER_NAME: &str = "tidegate.dev/gateway-controller";

/// How often reporters renew what they say of endpoints, unless configured otherwise, in milliseconds.
pub const REPORT_RENEW_MS: Millis = 15_000;

/// How long a renewal of a report is believed, unless configured otherwise, in milliseconds.
pub const REPORT_LIFETIME_MS: Millis = 60_000;

/// The cluster that unresolved and errored references are rewritten to. It is never published, so that Envoy
/// answers what `cluster_not_found_response_code` says (500): fail closed.
pub const INVALID_CLUSTER: &str = "tidegate/invalid";
