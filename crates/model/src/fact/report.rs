//! What reporters say of the health of endpoints.

use crate::name::{Name, NamespacedName};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// One entry of an EndpointReport: what its reporter says of one endpoint of a Service.
///
/// *Invariant*: no time stands here. While an entry is renewed before its end its fact stays as it is, so that renewals
/// are no work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReportFact {
    /// The Service, in the namespace of the report.
    pub service: NamespacedName,
    /// The endpoint.
    pub endpoint: ReportedEndpoint,
    /// The number of its port; none: all its ports.
    pub port: Option<u16>,
    /// What is said of it.
    pub state: ReportedState,
    /// The report: namespace and name.
    pub report: NamespacedName,
}

/// What an entry of a report is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReportedEndpoint {
    /// The endpoint behind which this object stands, whatever its address.
    Target(TargetUid),
    /// Whatever endpoint has this IP address, in canonical text.
    Address(Name),
}

/// What is believed of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReportedState {
    /// `Healthy`, and current.
    Healthy,
    /// `Unknown`, and current.
    Unknown,
    /// `Unhealthy`, and current.
    Unhealthy,
    /// Not renewed in time, or never: whatever it said, it is not believed any more.
    Expired,
}

/// The UID of the object behind an endpoint, as a digest. Slices hold one for every endpoint of a cluster, and the text
/// would be the largest part of most. Within one Service two are the same by accident once in 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TargetUid(NonZeroU64);

impl TargetUid {
    /// The digest of a UID (FNV-1a).
    #[must_use]
    pub fn of(uid: &str) -> Self {
        let digest = uid
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        TargetUid(NonZeroU64::new(digest).unwrap_or(NonZeroU64::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_told_apart_and_an_endpoint_without_one_costs_nothing_more() {
        let uid = "3f1c7c1e-0a51-4f0e-9d0c-1f4b8f0f2f11";
        assert_eq!(TargetUid::of(uid), TargetUid::of(uid));
        assert_ne!(TargetUid::of(uid), TargetUid::of("3f1c7c1e-0a51-4f0e-9d0c-1f4b8f0f2f12"));
        assert_eq!(size_of::<Option<TargetUid>>(), size_of::<u64>());
    }
}
