//! What has listeners and takes routes: a Gateway, or a ListenerSet that adds to one.

use super::certificates::{Certificates, Found, certificates};
use super::listeners::{ListenerProblem, ListenerState};
use super::sentence;
use crate::labels;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{Finding, GatewayFact, Kind, ListenerFact, ListenerKey, ListenerSetFact, Name, ObjectKey, Reason};

/// A Gateway or ListenerSet with the verdict on each of its listeners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ParentState {
    pub(crate) key: ObjectKey,
    /// `metadata.generation`.
    pub(crate) generation: i64,
    /// What is wrong with it by itself.
    pub(crate) findings: Vec<Finding>,
    /// Why nothing of it is used, if so. Then none of its listeners is usable.
    pub(crate) refused: Option<(Reason, Name)>,
    pub(crate) listeners: Arc<Vec<ListenerState>>,
    /// The certificates of each listener. Apart from the listeners, so that a rotation re-derives no route.
    pub(crate) certificates: Arc<Vec<Certificates>>,
}

impl ParentState {
    pub(super) fn of_gateway(
        gateway: &GatewayFact,
        refused: Option<(Reason, Name)>,
        problems: Vec<Option<ListenerProblem>>,
        found: &Found<'_>,
    ) -> Self {
        let key = ObjectKey { kind: Kind::Gateway, name: gateway.name.clone() };
        let (listeners, certificates) = judged(&key, refused.is_none(), &gateway.listeners, problems, found);
        let (generation, findings) = (gateway.generation, gateway.findings.clone());
        ParentState { key, generation, findings, refused, listeners, certificates }
    }

    pub(super) fn of_set(
        set: &ListenerSetFact,
        refused: Option<(Reason, Name)>,
        problems: Vec<Option<ListenerProblem>>,
        found: &Found<'_>,
    ) -> Self {
        let key = set.key();
        let (listeners, certificates) = judged(&key, refused.is_none(), &set.listeners, problems, found);
        let (generation, findings) = (set.generation, set.findings.clone());
        ParentState { key, generation, findings, refused, listeners, certificates }
    }

    /// Whether a ListenerSet counts as attached: it is not refused, and some listener of it can be served.
    pub(crate) fn is_attached(&self) -> bool {
        self.refused.is_none() && self.listeners.iter().any(|listener| listener.fit)
    }
}

/// The verdict on listeners of one object, and their certificates.
fn judged(
    key: &ObjectKey,
    accepted: bool,
    listeners: &[ListenerFact],
    problems: Vec<Option<ListenerProblem>>,
    found: &Found<'_>,
) -> (Arc<Vec<ListenerState>>, Arc<Vec<Certificates>>) {
    let own: Vec<Certificates> =
        (0..).zip(listeners).map(|(index, listener)| certificates(key, index, listener, found)).collect();
    let judged = listeners.iter().zip(problems).zip(&own).map(|((listener, problem), own)| {
        let key = ListenerKey { parent: key.clone(), name: listener.name.clone() };
        ListenerState::new(key, listener, problem, accepted, !own.served.is_empty())
    });
    (Arc::new(judged.collect()), Arc::new(own))
}

/// Why nothing of a ListenerSet is used. `accepted` says whether its Gateway is, `labels` are those of its namespace.
pub(super) fn refusal(
    set: &ListenerSetFact,
    gateway: &GatewayFact,
    accepted: bool,
    labels: Option<&BTreeMap<Name, Name>>,
) -> Option<(Reason, Name)> {
    if let Some(first) = set.findings.first() {
        return Some((first.reason, sentence(&set.findings)));
    }
    let namespace = set.name.namespace();
    if !labels::admits(&gateway.allowed_sets, namespace, labels, gateway.name.namespace()) {
        let message = format!(
            "Gateway {} admits no ListenerSet of namespace {namespace}; see its spec.allowedListeners",
            gateway.name
        );
        return Some((Reason::NotAllowed, message.into()));
    }
    let message = || format!("Gateway {} is not accepted; its status says why", gateway.name);
    (!accepted).then(|| (Reason::ParentNotAccepted, message().into()))
}
