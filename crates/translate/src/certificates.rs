//! Certificate references of Gateways and their listeners: found in Secrets, judged by what the vault said of their material.

use crate::edges::Edges;
use crate::lookup::{Rows, lookup};
use crate::references::{Ask, not_permitted};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tidegate_model::{
    CertificateFact, CertificateRef, GatewayFact, Kind, ListenerFact, ListenerSetFact, Name, NamespacedName, ObjectKey,
    Reason, SecretFact,
};

/// One certificate reference of one Gateway or ListenerSet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct CertificateAsk {
    /// The Gateway at which it would be served.
    pub(crate) gateway: NamespacedName,
    /// What it stands in.
    pub(crate) owner: ObjectKey,
    pub(crate) target: CertificateRef,
}

/// What a certificate reference leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Resolution {
    /// A certificate with its key.
    Found(CertificateFact),
    /// Nothing that can be served.
    Failed(Reason, Name),
}

/// The references of one object and its listeners, each once. Where the handshake is passed on they mean nothing.
fn asks(
    gateway: &NamespacedName,
    owner: &ObjectKey,
    listeners: &[ListenerFact],
    client: Option<&CertificateRef>,
) -> Vec<CertificateAsk> {
    let tls = listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let tls = tls.filter(|tls| !tls.passthrough);
    let mut targets: Vec<&CertificateRef> = tls.flat_map(|tls| &tls.certificates).chain(client).collect();
    targets.sort();
    targets.dedup();
    let ask = |target: &CertificateRef| CertificateAsk {
        gateway: gateway.clone(),
        owner: owner.clone(),
        target: target.clone(),
    };
    targets.into_iter().map(ask).collect()
}

/// Those of a Gateway.
pub(crate) fn asks_of_gateway(gateway: &GatewayFact) -> Vec<CertificateAsk> {
    let owner = ObjectKey { kind: Kind::Gateway, name: gateway.name.clone() };
    asks(&gateway.name, &owner, &gateway.listeners, gateway.client.as_ref())
}

/// Those of a ListenerSet.
pub(crate) fn asks_of_set(set: &ListenerSetFact) -> Vec<CertificateAsk> {
    asks(&set.gateway, &set.key(), &set.listeners, None)
}

/// Every reference, resolved.
pub(crate) fn resolutions<'s>(
    edges: &Edges,
    asks: Rows<'s, (CertificateAsk, bool)>,
    secrets: Rows<'s, Arc<SecretFact>>,
) -> Rows<'s, (CertificateAsk, Resolution)> {
    let secrets = edges.carry("secrets to references", secrets);
    let by_secret = asks.map(|(ask, permitted)| (ask.target.name.clone(), (ask, permitted)));
    let wanted = by_secret.clone().map(|(secret, _)| secret);
    let named = secrets.map(|secret| (secret.name.clone(), secret));
    let states = lookup("secrets", wanted, named, |known| known.first().map(|secret| (*secret).clone()));
    by_secret.arrange_by_key_named("certificate asks by secret").join_core(
        states.arrange_by_key_named("secrets"),
        |_secret, (ask, permitted), secret| {
            let resolution = resolve(ask, *permitted, secret.as_deref());
            Some((ask.clone(), resolution))
        },
    )
}

/// What a reference leads to. A missing permission is told before anything that would tell what exists there.
pub(crate) fn resolve(ask: &CertificateAsk, permitted: bool, secret: Option<&SecretFact>) -> Resolution {
    let failed = |reason, message: String| Resolution::Failed(reason, message.into());
    let CertificateRef { group_kind, name } = &ask.target;
    if !group_kind.is(Kind::Secret) {
        let message = format!("{group_kind} {name} is not a kind of certificate; use a Secret");
        return failed(Reason::InvalidCertificateRef, message);
    }
    if !permitted {
        return failed(Reason::RefNotPermitted, not_permitted(&Ask::Certificate(ask.clone())));
    }
    match secret.map(|secret| &secret.certificate) {
        None => failed(
            Reason::InvalidCertificateRef,
            format!("Secret {name} does not exist; create it, or correct the name"),
        ),
        Some(Err(problem)) => failed(Reason::InvalidCertificateRef, format!("Secret {name}: {problem}")),
        Some(Ok(certificate)) => Resolution::Found(certificate.clone()),
    }
}
