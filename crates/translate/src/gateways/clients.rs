//! How the clients of a listener are validated, by what the references of its Gateway lead to.

use super::Found;
use super::listeners::ListenerProblem;
use crate::authorities::Resolution;
use crate::speech::Speech;
use serde::{Deserialize, Serialize};
use tidegate_model::{Finding, GatewayFact, ListenerFact, Name};
use tidegate_xds::ir::ClientValidation;

/// What is asked of the clients of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Clients {
    /// How they are validated; none: they are not, or there is nothing to do it by.
    pub(crate) validation: Option<ClientValidation>,
    /// Whether they should be, and there is nothing to do it by: then nobody is served.
    pub(crate) lost: bool,
    /// References that lead nowhere.
    pub(crate) failed: Vec<Finding>,
}

/// What is asked of the clients of each of these listeners, be they the Gateway's own or a ListenerSet's.
pub(super) fn all(gateway: &GatewayFact, listeners: &[ListenerFact], found: &Found<'_>) -> Vec<Clients> {
    listeners.iter().map(|listener| clients(gateway, listener, found)).collect()
}

/// The problems of listeners, with those whose clients cannot be validated.
pub(super) fn with_lost(problems: Vec<Option<ListenerProblem>>, clients: &[Clients]) -> Vec<Option<ListenerProblem>> {
    let lost = |own: &Clients| own.lost.then_some(ListenerProblem::NoAuthority);
    problems.into_iter().zip(clients).map(|(problem, own)| problem.or_else(|| lost(own))).collect()
}

/// What is asked of the clients of a listener. All listeners of a port that end TLS ask for the same: a connection that is
/// used again for a host of another one has been validated as that one wants it.
fn clients(gateway: &GatewayFact, listener: &ListenerFact, found: &Found<'_>) -> Clients {
    let asked = gateway.frontend.of_port(listener.port);
    let Some(asked) = asked.filter(|_| Speech::of(listener).needs_certificate()) else { return Clients::default() };
    let mut own = Clients::default();
    let mut bundles: Vec<&str> = Vec::new();
    for (index, target) in asked.authorities.iter().enumerate() {
        match found.authorities.get(target) {
            Some(Resolution::Found(bundle)) => bundles.push(bundle),
            Some(Resolution::Failed(reason, message)) => {
                let field = format!("{}.caCertificateRefs[{index}]", asked.field);
                own.failed.push(Finding::new(*reason, &field, message.clone()));
            }
            // Between a reference and its answer lies no epoch.
            None => {}
        }
    }
    if bundles.is_empty() {
        own.lost = true;
    } else {
        let authorities = Name::from(bundles.concat());
        own.validation = Some(ClientValidation { authorities, required: !asked.insecure });
    }
    own
}
