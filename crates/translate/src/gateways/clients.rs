//! How the clients of a listener are validated, by what the references of its Gateway lead to.

use super::Found;
use super::listeners::ListenerProblem;
use crate::authorities::Resolution;
use crate::speech::Speech;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tidegate_model::{ClientValidationFact, Finding, FrontendFact, GatewayFact, ListenerFact, Name, Reason};
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

/// Validations that validate nobody, for none of the listeners that they are for ends TLS. What is believed to be closed
/// may be open, be it only that the port is another one.
pub(super) fn idle<'l>(gateway: &GatewayFact, listeners: impl Iterator<Item = &'l ListenerFact>) -> Vec<Finding> {
    let FrontendFact { default, ports } = &gateway.frontend;
    let ending = listeners.filter(|listener| Speech::of(listener).needs_certificate());
    let ending: BTreeSet<u16> = ending.map(|listener| listener.port).collect();
    let finding = |asked: &ClientValidationFact, message: String| {
        Finding::new(Reason::UnsupportedValue, &asked.field, format!("validates nobody, {message}"))
    };
    let default = default.iter().filter(|_| ending.iter().all(|port| ports.contains_key(port)));
    let default = default.map(|asked| {
        let message = "for no listener that it is for ends TLS; add one of protocol HTTPS or TLS, or remove it";
        finding(asked, message.to_owned())
    });
    let of_ports = ports.iter().filter(|(port, _)| !ending.contains(port)).filter_map(|(port, asked)| {
        let message = format!("for no listener on port {port} ends TLS; correct the port, or remove it");
        Some(finding(asked.as_ref()?, message))
    });
    default.chain(of_ports).collect()
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
