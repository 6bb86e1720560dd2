//! What reports of health make of a Service's endpoints, for a client at one place.
//!
//! Slices are the base truth: a report lowers an endpoint or drains it, but adds none and raises none from the dead. Of what
//! several reporters say of one endpoint the worst that is current counts; what has expired counts where nobody says
//! anything current.
//!
//! | endpoint | what counts | what becomes of it |
//! |---|---|---|
//! | local | unhealthy | drains while another can be used |
//! | local | anything else | as if nothing were said, at the first priority |
//! | remote | nothing said, or current and not unhealthy | before all other remote ones |
//! | remote | expired, whatever it said | after those |
//! | remote | unhealthy | last |
//!
//! What is unhealthy by somebody who is gone is not drained for ever, and what is healthy by somebody who is gone is not
//! preferred for ever. Reports alone never leave nobody: of endpoints that are all unhealthy all are used.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{Name, ReportFact, ReportedEndpoint, ReportedState, TargetUid};

/// What there is to believe of an endpoint, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Nothing is said against it.
    Good,
    /// What was said of it has expired.
    Expired,
    /// It is unhealthy.
    Unhealthy,
}

/// The reports of one Service, by what they are about.
#[derive(Debug, Default)]
pub(crate) struct Reports<'r>(BTreeMap<&'r ReportedEndpoint, Vec<&'r ReportFact>>);

impl<'r> Reports<'r> {
    pub(crate) fn add(&mut self, entry: &'r ReportFact) {
        self.0.entry(&entry.endpoint).or_default().push(entry);
    }

    /// What counts of what is said of a port of an endpoint, by the object behind it or by its address.
    pub(crate) fn standing(&self, address: &Name, target: Option<TargetUid>, port: u16) -> Standing {
        if self.0.is_empty() {
            return Standing::Good;
        }
        let target = target.map(ReportedEndpoint::Target);
        let names = target.into_iter().chain([ReportedEndpoint::Address(address.clone())]);
        let entries = names.filter_map(|name| self.0.get(&name)).flatten();
        let said = entries.filter(|entry| entry.port.is_none_or(|of| of == port)).map(|entry| entry.state);
        counts(said)
    }
}

/// What counts of all that is said of one endpoint.
fn counts(said: impl Iterator<Item = ReportedState>) -> Standing {
    let (mut good, mut expired) = (false, false);
    for state in said {
        match state {
            ReportedState::Unhealthy => return Standing::Unhealthy,
            ReportedState::Healthy | ReportedState::Unknown => good = true,
            ReportedState::Expired => expired = true,
        }
    }
    if expired && !good { Standing::Expired } else { Standing::Good }
}

/// A member of an assignment, as a client sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Whether it is where the client is; every one is if the client is to prefer nothing.
    pub(crate) local: bool,
    /// How far away it is, if it is not local; the nearest has the smallest.
    pub(crate) tier: usize,
    /// Whether it would be used if there were no reports.
    pub(crate) used: bool,
    /// What reports say of it.
    pub(crate) standing: Standing,
}

/// What becomes of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From 0, without gaps over all candidates.
    pub(crate) priority: u32,
    /// Whether it only finishes what it has.
    pub(crate) draining: bool,
}

/// What becomes of each candidate: local ones first, the others by what is said of them, and then by how far away they
/// are.
pub(crate) fn places(candidates: &[Candidate]) -> Vec<Place> {
    let can_be_used = |candidate: &Candidate| candidate.used && candidate.standing != Standing::Unhealthy;
    let another = candidates.iter().any(can_be_used);
    let order = |candidate: &Candidate| (!candidate.local).then_some((candidate.standing, candidate.tier));
    let orders: BTreeSet<_> = candidates.iter().map(order).collect();
    let priorities: BTreeMap<_, u32> = orders.into_iter().zip(0..).collect();
    let place = |candidate: &Candidate| {
        let is_drained = candidate.local && candidate.standing == Standing::Unhealthy && another;
        Place { priority: priorities[&order(candidate)], draining: is_drained || !candidate.used }
    };
    candidates.iter().map(place).collect()
}

#[cfg(test)]
mod tests;
