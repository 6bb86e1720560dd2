//! What has listeners and takes routes: a Gateway, or a ListenerSet that adds to one.

use super::certificates::{Certificates, certificates};
use super::clients::{self, Clients};
use super::listeners::{ListenerProblem, ListenerState, Standing};
use super::{Found, sentence};
use crate::addresses::Addresses;
use crate::labels;
use crate::origin::Origin;
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
    /// What is wrong with it by itself, and what of a Gateway has no effect.
    pub(crate) findings: Vec<Finding>,
    /// Why nothing of it is used, if so. Then none of its listeners is usable.
    pub(crate) refused: Option<(Reason, Name)>,
    pub(crate) listeners: Arc<Vec<ListenerState>>,
    /// The certificates of each listener. Apart from the listeners, so that a rotation re-derives no route.
    pub(crate) certificates: Arc<Vec<Certificates>>,
    /// What is asked of the clients of each listener, apart for the same reason.
    pub(crate) clients: Arc<Vec<Clients>>,
    /// The certificate that backends are shown, if it is a Gateway that asks for one.
    pub(crate) client: Option<Certificates>,
    /// The addresses of the Gateway.
    pub(crate) addresses: Arc<Addresses>,
    /// Whether the Gateway lets clients pass without a valid certificate.
    pub(crate) insecure: bool,
}

/// What all listeners of a Gateway and of its ListenerSets are judged by.
pub(super) struct Common<'a> {
    pub(super) gateway: &'a GatewayFact,
    pub(super) addresses: Arc<Addresses>,
    /// How what comes in goes on to backends, where TLS is not passed on.
    pub(super) origin: Origin,
    pub(super) found: &'a Found<'a>,
}

impl ParentState {
    /// The Gateway itself; `refused` says why it is not accepted, by the problems of its listeners.
    pub(super) fn of_gateway(
        common: &Common<'_>,
        problems: Vec<Option<ListenerProblem>>,
        refused: impl Fn(&[Option<ListenerProblem>]) -> Option<(Reason, Name)>,
    ) -> Self {
        let gateway = common.gateway;
        let clients = clients::all(gateway, &gateway.listeners, common.found);
        let problems = clients::with_lost(problems, &clients);
        let blank = ParentState {
            key: ObjectKey { kind: Kind::Gateway, name: gateway.name.clone() },
            generation: gateway.generation,
            findings: gateway.findings.clone(),
            refused: refused(&problems),
            ..ParentState::blank(common)
        };
        blank.judged(common, &gateway.listeners, problems, clients)
    }

    pub(super) fn of_set(
        common: &Common<'_>,
        set: &ListenerSetFact,
        problems: Vec<Option<ListenerProblem>>,
        refused: Option<(Reason, Name)>,
    ) -> Self {
        let clients = clients::all(common.gateway, &set.listeners, common.found);
        let problems = clients::with_lost(problems, &clients);
        let blank = ParentState {
            key: set.key(),
            generation: set.generation,
            findings: set.findings.clone(),
            refused,
            ..ParentState::blank(common)
        };
        blank.judged(common, &set.listeners, problems, clients)
    }

    fn blank(common: &Common<'_>) -> Self {
        ParentState {
            key: ObjectKey { kind: Kind::Gateway, name: common.gateway.name.clone() },
            generation: 0,
            findings: Vec::new(),
            refused: None,
            listeners: Arc::default(),
            certificates: Arc::default(),
            clients: Arc::default(),
            client: None,
            addresses: common.addresses.clone(),
            insecure: common.gateway.frontend.all().any(|validation| validation.insecure),
        }
    }

    /// With the verdict on its listeners.
    fn judged(
        self,
        common: &Common<'_>,
        listeners: &[ListenerFact],
        problems: Vec<Option<ListenerProblem>>,
        clients: Vec<Clients>,
    ) -> Self {
        let own: Vec<Certificates> = (0..)
            .zip(listeners)
            .map(|(index, listener)| certificates(&self.key, index, listener, common.found))
            .collect();
        let (accepted, reachable) = (self.refused.is_none(), !self.addresses.bound.is_empty());
        let standing = Standing { accepted, reachable, origin: &common.origin };
        let judged = listeners.iter().zip(problems).zip(&own).map(|((listener, problem), own)| {
            let key = ListenerKey { parent: self.key.clone(), name: listener.name.clone() };
            ListenerState::new(key, listener, problem, &standing, !own.served.is_empty())
        });
        let listeners = Arc::new(judged.collect());
        ParentState { listeners, certificates: Arc::new(own), clients: Arc::new(clients), ..self }
    }

    /// Whether a ListenerSet counts as attached: it is not refused, and some listener of it can be served.
    pub(crate) fn is_attached(&self) -> bool {
        self.refused.is_none() && self.listeners.iter().any(|listener| listener.fit)
    }
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
