//! Assembly of virtual hosts: the entries of a domain in order, followed by those of every wider domain of the same
//! listener.
//!
//! Envoy picks one virtual host by domain and never looks at another. The Gateway API wants a request that no rule of
//! the most specific hostname matches to be served by a less specific one of the same listener. So a virtual host
//! carries the entries of the wider domains too, after its own. What another, more specific listener of the port owns
//! is not there at all (isolation): each domain has one owner, decided in attachment.

use crate::edges::Edges;
use crate::gateways::GatewayState;
use crate::lookup::Rows;
use crate::names::HostKey;
use crate::rank::Ranked;
use differential_dataflow::operators::ThresholdTotal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::Hostname;
use tidegate_xds::row::EncodedEntry;
use tidegate_xds::{Row, encode};

/// What a virtual host is made of. The marker sorts first: the virtual host of a listener exists without entries,
/// or its requests would fall to a less specific listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum HostInput {
    Exists,
    /// An entry, and how far the domain it was written for is from this one.
    Entry(u32, Arc<Ranked>),
}

/// A domain of a table and the hostname of the listener that owns it.
pub(crate) type Domain = (HostKey, Hostname);

/// The domains that the listeners of a Gateway and its ListenerSets own whatever routes there are.
pub(crate) fn listener_domains(state: &GatewayState) -> Vec<Domain> {
    let usable = state.listeners().map(|(listener, ..)| listener).filter(|listener| listener.usable);
    let domain = |listener: &crate::gateways::ListenerState| {
        let (table, host) = (listener.table()?, listener.hostname.clone());
        Some((HostKey { gateway: state.fact.name.clone(), table, host: host.clone() }, host))
    };
    usable.filter_map(domain).collect()
}

/// Every virtual host.
pub(crate) fn virtual_hosts<'s>(
    edges: &Edges,
    listeners: Rows<'s, Domain>,
    entries: Rows<'s, (HostKey, Hostname, Arc<Ranked>)>,
) -> Rows<'s, Row> {
    let of_entries = entries.clone().map(|(key, listener_host, _)| (key, listener_host));
    let domains = edges
        .carry("domains of listeners", listeners)
        .concat(edges.carry("domains of entries", of_entries))
        .distinct_total();
    let exists = domains.clone().map(|(key, _)| (key, HostInput::Exists));
    let wants = domains.flat_map(|domain| {
        let wider = wider(&domain);
        wider.into_iter().map(move |(from, distance)| (from, (domain.0.host.clone(), distance)))
    });
    let placed = entries.map(|(key, _, ranked)| (key, ranked)).arrange_by_key_named("entries by domain").join_core(
        wants.arrange_by_key_named("domains by wider domain"),
        |from, ranked, (host, distance)| {
            Some((from.with_host(host.clone()), HostInput::Entry(*distance, ranked.clone())))
        },
    );
    let exists = edges.carry("virtual hosts without entries", exists);
    let placed = edges.carry("entries of virtual hosts", placed);
    exists
        .concat(placed)
        .reduce_named("virtual hosts", |key, input, output| {
            let entries = input.iter().filter_map(|(input, _)| match input {
                HostInput::Exists => None,
                HostInput::Entry(_, ranked) => Some(&ranked.entry),
            });
            output.push((virtual_host(&key.host, entries), 1));
        })
        .map(|(key, host)| Row::VirtualHost(key.gateway, key.table, key.host, host))
}

/// The domains whose entries a domain carries, itself first: every wider one that its listener still covers.
pub(crate) fn wider((key, listener_host): &Domain) -> Vec<(HostKey, u32)> {
    let covered = key.host.widening().into_iter().filter(|host| listener_host.covers(host));
    covered.zip(0..).map(|(host, distance)| (key.with_host(host), distance)).collect()
}

/// Encodes a virtual host. `entries` are in order; a route that reaches it on two ways is there once.
pub(crate) fn virtual_host<'e>(
    host: &Hostname,
    entries: impl Iterator<Item = &'e EncodedEntry>,
) -> Arc<tidegate_xds::row::VirtualHost> {
    let mut seen = BTreeSet::new();
    let entries = entries.filter(|entry| seen.insert(&entry.id)).cloned().collect();
    Arc::new(encode::virtual_host(host, entries))
}
