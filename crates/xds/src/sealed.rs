//! The sealed store: persistent maps, so that a seal is cheap to keep and the difference of two seals costs what
//! changed (`imbl::OrdMap::diff`).

use crate::digest::Digest;
use crate::resource::{Resource, Variants, Version};
use crate::row::{Listener, Row, VirtualHost};
use imbl::{OrdMap, OrdSet};
use std::sync::{Arc, OnceLock};
use tidegate_model::{DerivedStatus, Epoch, Hostname, Millis, Name, NamespacedName, ObjectKey};

/// Everything derived, complete at one epoch. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Sealed {
    /// The epoch.
    pub epoch: Epoch,
    /// When its batch was taken.
    pub millis: Millis,
    /// Clusters that somebody references, by name; shared by all Gateways.
    pub clusters: OrdMap<Name, Variants>,
    /// Endpoint assignments, by cluster name; exactly those of `clusters`.
    pub endpoints: OrdMap<Name, Variants>,
    /// What is each Gateway's own.
    pub gateways: OrdMap<NamespacedName, GatewayView>,
    /// Derived status by object.
    pub status: OrdMap<ObjectKey, Arc<DerivedStatus>>,
    /// Multiset hash of all published resources and derived conditions.
    pub digest: Digest,
}

/// What one Gateway's clients get.
#[derive(Clone, Debug, Default)]
pub struct GatewayView {
    /// Listeners by resource name.
    pub listeners: OrdMap<Name, Arc<Listener>>,
    /// Tables by name.
    pub tables: OrdMap<Name, Arc<Table>>,
    /// Names of the clusters (and endpoint assignments) that are its clients' share of [`Sealed::clusters`].
    pub members: OrdSet<Name>,
}

/// One route configuration, kept as virtual hosts.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: Name,
    /// Hash over the versions of its virtual hosts.
    pub version: Version,
    /// Virtual hosts by domain.
    pub hosts: OrdMap<Hostname, Arc<VirtualHost>>,
    encoded: OnceLock<Resource>,
}

impl Table {
    /// A table of these virtual hosts.
    #[must_use]
    pub fn new(name: Name, hosts: OrdMap<Hostname, Arc<VirtualHost>>) -> Self {
        let _ = (&name, &hosts);
        unimplemented!()
    }

    /// The encoded `RouteConfiguration`, concatenated from the encoded virtual hosts once, when first asked for.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        self.encoded.get_or_init(|| unimplemented!())
    }
}

/// Turns the changed rows of each epoch into the next [`Sealed`].
#[derive(Debug, Default)]
pub struct Store {}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Store::default()
    }

    /// Applies the changes of one epoch (they need not be consolidated) and seals it.
    pub fn seal(&mut self, epoch: Epoch, millis: Millis, changes: Vec<(Row, isize)>) -> Arc<Sealed> {
        let _ = (epoch, millis, changes);
        unimplemented!()
    }
}
