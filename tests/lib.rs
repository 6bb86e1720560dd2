//! What the cross-crate tests share: sealed values as rows, the comparison with the reference, and scenarios.
//!
//! *Comes in*: sealed values and facts, the files in `scenarios/` and `gateway_api/`. *Goes out*: nothing but test
//! results. *Start at* `incremental/`, then `README.md`, which says what a scenario is.

#[cfg(test)]
mod features;

pub mod report;

pub mod scenario;

use scenario::Settings;
use std::collections::BTreeSet;
use tidegate_model::{Fact, Millis, Name};
use tidegate_translate::Config;
use tidegate_translate::reference::Memory;
use tidegate_xds::{Row, Sealed};

/// Everything in a sealed value, as the rows it was made of.
#[must_use]
pub fn rows_of(sealed: &Sealed) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    for (gateway, view) in &sealed.gateways {
        rows.insert(Row::Gateway(gateway.clone()));
        rows.extend(view.listeners.values().map(|listener| Row::Listener(gateway.clone(), listener.clone())));
        rows.extend(view.secrets.values().map(|secret| Row::Secret(gateway.clone(), secret.clone())));
        let shows = view.shows.iter();
        rows.extend(shows.map(|(cluster, secret)| Row::Shows(gateway.clone(), cluster.clone(), secret.clone())));
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
    rows.extend(sealed.kube_nodes.iter().map(|(name, locality)| Row::KubeNode(name.clone(), locality.clone())));
    rows.extend(sealed.status.iter().map(|(object, status)| Row::Status(object.clone(), status.clone())));
    rows.extend(sealed.held.iter().cloned().map(Row::Held));
    rows
}

/// The reference, with what it has to remember from epoch to epoch.
#[derive(Clone, Debug)]
pub struct Oracle {
    config: Config,
    memory: Memory,
}

impl Oracle {
    /// The reference before the first epoch; `hold` is the bound of holds in milliseconds, none holds nothing.
    #[must_use]
    pub fn new(hold: Option<Millis>) -> Self {
        let config = Config { hold, ..Config::new(Name::from(tidegate_model::CONTROLLER_NAME)) };
        Oracle { config, memory: Memory::default() }
    }

    /// The reference as a controller with these settings is held to it.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let mut oracle = Oracle::new(settings.retarget_hold_ms);
        oracle.config.usable.clone_from(&settings.usable_addresses);
        oracle
    }

    /// Where a sealed value and the reference differ, for people; empty if they are equal. With holds it must be asked
    /// at every epoch.
    pub fn difference(&mut self, sealed: &Sealed, facts: &BTreeSet<Fact>) -> Vec<String> {
        let expected = self.memory.translate(&self.config, facts, sealed.millis);
        let found = rows_of(sealed);
        let missing = expected.difference(&found).map(|row| format!("missing: {row:?}"));
        let extra = found.difference(&expected).map(|row| format!("not expected: {row:?}"));
        missing.chain(extra).collect()
    }
}

/// [`Oracle::difference`] where nothing is held.
#[must_use]
pub fn difference(sealed: &Sealed, facts: &BTreeSet<Fact>) -> Vec<String> {
    Oracle::new(None).difference(sealed, facts)
}
