//! Clusters that a client may have and that are wanted no more.
//!
//! A state-of-the-world client that comes back, from another replica or after its stream broke, may use clusters which
//! ceased to be wanted meanwhile. It says their names alone, and a complete response that leaves one out takes it away at
//! once. A replica that saw them go can repeat them until the client has let go of what names them. One that has just
//! started can too, unless they were spoken to over TLS: then the name does not say all that a cluster is.

use imbl::{OrdMap, ordset::DiffItem};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_model::{Millis, Name, NamespacedName};
use tidegate_xds::{Resource, Sealed, encode, ir};

/// How long they are kept: Envoy tries to reach a control plane again after at most half of this.
const KEPT_MS: Millis = 60_000;

/// How many are kept; of more the oldest are forgotten.
const MAX_KEPT: usize = 20_000;

/// Those of one Gateway, by name. Clones share them.
pub(crate) type DepartedClusters = OrdMap<Name, DepartedCluster>;

/// A cluster that ceased to be wanted.
#[derive(Clone, Debug)]
pub(crate) struct DepartedCluster {
    /// Its last form.
    pub(crate) form: Resource,
    /// When it went.
    at: Millis,
}

impl DepartedCluster {
    /// One that had this form until now.
    pub(crate) fn new(form: Resource, now: Millis) -> Self {
        DepartedCluster { form, at: now }
    }
}

/// The last form of a cluster: as it went, or as its name says that it was.
pub(crate) fn last_form(departed: &DepartedClusters, name: &Name) -> Option<Resource> {
    let seen = departed.get(name).map(|cluster| cluster.form.clone());
    seen.or_else(|| Some(encode::cluster(&ir::Cluster::of_plain_name(name)?)))
}

/// Those of all Gateways. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Departed(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    newest: Option<Arc<Sealed>>,
    gateways: OrdMap<NamespacedName, DepartedClusters>,
    /// When each went, oldest first.
    order: VecDeque<(Millis, NamespacedName, Name)>,
}

impl Departed {
    /// Compares a seal with the newest that was noted. An older one says nothing. Costs what changed.
    pub(crate) fn note(&self, sealed: &Arc<Sealed>, now: Millis) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).note(sealed, now);
    }

    /// Those of a Gateway.
    pub(crate) fn of(&self, gateway: &NamespacedName, now: Millis) -> DepartedClusters {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.forget(now);
        inner.gateways.get(gateway).cloned().unwrap_or_default()
    }
}

impl Inner {
    fn note(&mut self, sealed: &Arc<Sealed>, now: Millis) {
        let Some(before) = self.newest.replace(Arc::clone(sealed)) else { return };
        if before.epoch >= sealed.epoch {
            self.newest = Some(before);
            return;
        }
        for (gateway, old) in &before.gateways {
            let new = sealed.gateways.get(gateway).map(|view| view.members.clone()).unwrap_or_default();
            for item in old.members.diff(&new) {
                match item {
                    DiffItem::Add(name) => {
                        if let Some(clusters) = self.gateways.get_mut(gateway) {
                            clusters.remove(name);
                        }
                    }
                    DiffItem::Remove(name) => {
                        let Some(cluster) = before.clusters.get(name) else { continue };
                        let departed = DepartedCluster::new(cluster.default_form().clone(), now);
                        self.gateways.entry(gateway.clone()).or_default().insert(name.clone(), departed);
                        self.order.push_back((now, gateway.clone(), name.clone()));
                    }
                }
            }
        }
        self.forget(now);
    }

    fn forget(&mut self, now: Millis) {
        while let Some((at, gateway, name)) = self.order.front()
            && (at + KEPT_MS <= now || self.order.len() > MAX_KEPT)
        {
            if let Some(clusters) = self.gateways.get_mut(gateway) {
                // One that came back and went again is in the order once more.
                if clusters.get(name).is_some_and(|cluster| cluster.at == *at) {
                    clusters.remove(name);
                }
                if clusters.is_empty() {
                    self.gateways.remove(gateway);
                }
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
impl Departed {
    /// Of how many Gateways something is kept.
    pub(crate) fn gateways(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).gateways.len()
    }
}
