//! What the cross-crate tests share: sealed values as rows, the comparison with the reference, and scenarios.
//!
//! *Comes in*: sealed values and facts, the files in `scenarios/`. *Goes out*: nothing but test results. *Start at*
//! `incremental.rs`, then `README.md`, which says what a scenario is.

pub mod scenario;

use std::collections::BTreeSet;
use tidegate_model::{Fact, Name};
use tidegate_translate::{Config, reference};
use tidegate_xds::{Row, Sealed};

/// Everything in a sealed value, as the rows it was made of.
#[must_use]
pub fn rows_of(sealed: &Sealed) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    for (gateway, view) in &sealed.gateways {
        rows.insert(Row::Gateway(gateway.clone()));
        rows.extend(view.listeners.values().map(|listener| Row::Listener(gateway.clone(), listener.clone())));
        rows.extend(view.secrets.values().map(|secret| Row::Secret(gateway.clone(), secret.clone())));
        rows.extend(view.members.iter().map(|cluster| Row::Member(gateway.clone(), cluster.clone())));
        for (name, table) in &view.tables {
            rows.insert(Row::Table(gateway.clone(), name.clone()));
            let hosts = table.hosts.iter();
            rows.extend(
                hosts.map(|(host, v)| Row::VirtualHost(gateway.clone(), name.clone(), host.clone(), v.clone())),
            );
        }
    }
    rows.extend(sealed.clusters.iter().map(|(name, variants)| Row::Cluster(name.clone(), variants.clone())));
    rows.extend(sealed.endpoints.iter().map(|(name, variants)| Row::Endpoints(name.clone(), variants.clone())));
    rows.extend(sealed.status.iter().map(|(object, status)| Row::Status(object.clone(), status.clone())));
    rows
}

/// Where a sealed value and the reference differ, for people; empty if they are equal.
#[must_use]
pub fn difference(sealed: &Sealed, facts: &BTreeSet<Fact>) -> Vec<String> {
    let config = Config::new(Name::from(tidegate_model::CONTROLLER_NAME));
    let expected = reference::translate(&config, facts);
    let found = rows_of(sealed);
    let missing = expected.difference(&found).map(|row| format!("missing: {row:?}"));
    let extra = found.difference(&expected).map(|row| format!("not expected: {row:?}"));
    missing.chain(extra).collect()
}
