//! The rows that a Gateway has by itself and by its ListenerSets.

use super::{GatewayState, ListenerState};
use crate::speech::Speech;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::Name;
use tidegate_xds::{Row, encode};

/// The rows that a Gateway has without routes: itself, and the tables and secrets of all its listeners.
pub(crate) fn rows(state: &GatewayState) -> Vec<Row> {
    let gateway = &state.fact.name;
    if state.own.refused.is_some() {
        return Vec::new();
    }
    let mut rows = vec![Row::Gateway(gateway.clone())];
    let mut tables: BTreeSet<Name> = BTreeSet::new();
    let mut secrets: BTreeMap<&Name, &Name> = BTreeMap::new();
    for (listener, own, _) in state.listeners().filter(|(listener, ..)| listener.usable) {
        tables.extend(listener.table());
        secrets.extend(own.served.iter().map(|(name, digest)| (name, digest)));
        rows.extend(misdirected(state, listener));
    }
    rows.extend(tables.into_iter().map(|table| Row::Table(gateway.clone(), table)));
    let secrets = secrets.into_iter().map(|(name, digest)| encode::secret_ref(name.clone(), digest));
    rows.extend(secrets.map(|secret| Row::Secret(gateway.clone(), secret)));
    rows
}

/// Virtual hosts that answer 421 on the table of an HTTPS `listener` for hosts that are another listener's: a client that
/// reuses a connection for them must open one of their own.
fn misdirected(state: &GatewayState, listener: &ListenerState) -> Vec<Row> {
    let Some(table) = listener.table().filter(|_| listener.speech == Speech::Https) else { return Vec::new() };
    let others = state
        .listeners()
        .map(|(other, ..)| other)
        .filter(|other| other.claims && other.socket() == listener.socket() && other.hostname != listener.hostname);
    let row = |other: &ListenerState| {
        let host = Arc::new(encode::misdirected(&other.hostname));
        Row::VirtualHost(state.fact.name.clone(), table.clone(), other.hostname.clone(), host)
    };
    others.map(row).collect()
}
