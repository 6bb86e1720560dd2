//! Certificates that Gateways show to backends. One is sent to clients as long as a cluster of theirs shows it, and no
//! longer: what nobody names must not leave the vault.

use crate::edges::Edges;
use crate::gateways::GatewayState;
use crate::lookup::Rows;
use crate::names::{Backend, ClientKey};
use serde::{Deserialize, Serialize};
use tidegate_model::{Name, NamespacedName};
use tidegate_xds::{Resource, Row, encode};

/// A certificate of a Gateway: the Gateway and the name of the secret.
type IdentityKey = (NamespacedName, Name);

/// What is known of a certificate. What it is sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum IdentityInput {
    /// The secret.
    Secret(Resource),
    /// A cluster shows it.
    Shown(Name),
}

/// Every certificate that is shown, and by which clusters.
pub(crate) fn rows<'s>(
    edges: &Edges,
    gateways: Rows<'s, GatewayState>,
    members: Rows<'s, (NamespacedName, Backend)>,
) -> Rows<'s, Row> {
    let secrets = edges.carry("certificates towards backends", gateways.flat_map(|state| secret(&state)));
    let shown = edges.carry("clusters with certificates", members.flat_map(|(_, backend)| shown(&backend)));
    let rows = secrets.concat(shown).reduce_named("certificates that are shown", |key, input, output| {
        let rows = shown_rows(key, input.iter().map(|(input, _)| *input));
        output.extend(rows.into_iter().map(|row| (row, 1)));
    });
    rows.map(|(_key, row)| row)
}

/// The certificate that the Gateway shows, if it has one that its listeners do not have besides: of those every one is
/// sent anyway.
pub(crate) fn secret(state: &GatewayState) -> Option<(IdentityKey, IdentityInput)> {
    let (name, digest) = state.own.client.as_ref()?.served.first()?;
    let listeners = state.listeners().filter(|(listener, ..)| listener.usable);
    let listed = listeners.flat_map(|(_, own, _)| &own.served).any(|(other, _)| other == name);
    let key = (state.fact.name.clone(), name.clone());
    (!listed).then(|| (key, IdentityInput::Secret(encode::secret_ref(name.clone(), digest))))
}

/// That a cluster shows a certificate, if it does.
pub(crate) fn shown(backend: &Backend) -> Option<(IdentityKey, IdentityInput)> {
    let ClientKey { gateway, secret } = backend.cluster.tls.as_ref()?.client.as_ref()?;
    Some(((gateway.clone(), secret.clone()), IdentityInput::Shown(backend.cluster.name())))
}

/// What comes of one certificate.
pub(crate) fn shown_rows<'i>(
    (gateway, name): &IdentityKey,
    inputs: impl Iterator<Item = &'i IdentityInput>,
) -> Vec<Row> {
    let (mut secret, mut rows) = (None, Vec::new());
    for input in inputs {
        match input {
            IdentityInput::Secret(resource) => secret = Some(Row::Secret(gateway.clone(), resource.clone())),
            IdentityInput::Shown(cluster) => rows.push(Row::Shows(gateway.clone(), cluster.clone(), name.clone())),
        }
    }
    if !rows.is_empty() {
        rows.extend(secret);
    }
    rows
}
