//! EndpointReport: what one reporter says of the health of a Service's endpoints, and until when it is believed.
//!
//! * An entry is *current* before its `renewTime` and the lifetime after it are over; then it has expired, and so has one
//!   that says no time. A time that lies ahead counts as current, and its life ends no later for it.
//! * Times are compared as they are written, to the microsecond; a deadline is rounded up to the next millisecond.
//! * A time that cannot be read is one that is not there. Any other value that cannot be read takes its entry out, and
//!   nothing else.
//! * An entry with both `targetRef` and `address` is about the target.

use crate::metadata::Metadata;
use crate::node::{Node, Report, quote};
use crate::text::{KIND, REF_NAME, SERVICE_NAME, any};
use crate::{Deadline, Ending, Moment, Normalized};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tidegate_model::{
    Fact, Millis, Name, NamespacedName, ObjectKey, ReportFact, ReportedEndpoint, ReportedState, TargetUid,
};

/// As many as a slice has endpoints.
const MAX_ENDPOINTS: usize = 1000;

/// One entry as it is written.
struct Entry {
    endpoint: ReportedEndpoint,
    port: Option<u16>,
    state: ReportedState,
    /// `renewTime`, rounded up to the next millisecond.
    renewed: Option<Millis>,
}

/// The entries, and what becomes of those that are current.
pub(crate) fn normalized(key: &ObjectKey, root: &Node<'_>, moment: &Moment, report: &mut Report) -> Normalized {
    Metadata::read(key, root, report);
    let spec = root.field("spec");
    spec.is_required_object(report);
    let service = spec.field("serviceRef");
    service.is_required_object(report);
    let service = service.field("name").required_name(&SERVICE_NAME, report);
    spec.field("reporter").required_name(&any(1, 253), report);
    let status = root.field("status");
    status.is_object(report);
    let entries = entries(&status.field("endpoints"), report);
    match service {
        Some(service) => said(key, &NamespacedName::new(key.name.namespace(), &service), entries, moment),
        None => Normalized::default(),
    }
}

/// What the entries say at this moment, and when they end.
fn said(key: &ObjectKey, service: &NamespacedName, entries: Vec<Entry>, moment: &Moment) -> Normalized {
    let mut facts = Vec::with_capacity(entries.len());
    let mut endings: BTreeMap<Millis, Ending> = BTreeMap::new();
    for Entry { endpoint, port, state, renewed } in entries {
        let fact = |state| {
            let (service, endpoint, report) = (service.clone(), endpoint.clone(), key.name.clone());
            Fact::Report(ReportFact { service, endpoint, port, state, report })
        };
        let end = renewed.map(|renewed| (renewed, renewed.saturating_add(moment.report_lifetime)));
        let Some((renewed, at)) = end.filter(|(_, at)| moment.now < *at) else {
            facts.push(fact(ReportedState::Expired));
            continue;
        };
        facts.push(fact(state));
        let deadline = || Deadline { key: key.clone(), at, renewed };
        let none = || Ending { deadline: deadline(), ends: Vec::new(), after: Vec::new() };
        let ending = endings.entry(renewed).or_insert_with(none);
        ending.ends.push(fact(state));
        ending.after.push(fact(ReportedState::Expired));
    }
    Normalized { facts, endings: endings.into_values().collect() }
}

fn entries(list: &Node<'_>, report: &mut Report) -> Vec<Entry> {
    let mut seen = BTreeSet::new();
    let mut entries = Vec::new();
    for item in list.items(MAX_ENDPOINTS, report) {
        let Some(entry) = entry(&item, report) else { continue };
        if seen.insert((entry.endpoint.clone(), entry.port)) {
            entries.push(entry);
        } else {
            report.invalid(&item, "another entry is about the same endpoint, the first counts; remove one of them");
        }
    }
    entries
}

fn entry(item: &Node<'_>, report: &mut Report) -> Option<Entry> {
    let endpoint = endpoint(item, report);
    let field = item.field("port");
    let port = field.port(report);
    // One that cannot be read does not stand for all ports.
    let has_port = port.is_some() || !field.is_present();
    let field = item.field("state");
    let choices = ["Healthy", "Unhealthy", "Unknown"];
    let state = if field.demand(report) { field.choice(&choices, report) } else { None };
    let renewed = renewed(&item.field("renewTime"), report);
    let (endpoint, state) = (endpoint?, state?);
    let state = match state {
        "Healthy" => ReportedState::Healthy,
        "Unhealthy" => ReportedState::Unhealthy,
        _ => ReportedState::Unknown,
    };
    has_port.then_some(Entry { endpoint, port, state, renewed })
}

fn endpoint(item: &Node<'_>, report: &mut Report) -> Option<ReportedEndpoint> {
    let (target, address) = (item.field("targetRef"), item.field("address"));
    let has_address = address.is_present();
    let address = self::address(&address, report);
    if target.is_present() {
        if !target.is_object(report) {
            return None;
        }
        target.field("kind").name(&KIND, report);
        target.field("name").name(&REF_NAME, report);
        let uid = target.field("uid").required_name(&any(1, 128), report)?;
        return Some(ReportedEndpoint::Target(TargetUid::of(&uid)));
    }
    if !has_address {
        report.invalid(item, "names no endpoint; add targetRef with a uid, or address");
    }
    address.map(ReportedEndpoint::Address)
}

/// An address in canonical text, as that of a slice.
fn address(field: &Node<'_>, report: &mut Report) -> Option<Name> {
    let text = field.text(report)?;
    let canonical = text.parse::<IpAddr>().ok().map(|address| Name::from(address.to_string()));
    if canonical.is_none() {
        report.invalid(field, format!("{} is no IP address, the entry is left out; correct it", quote(text)));
    }
    canonical
}

fn renewed(field: &Node<'_>, report: &mut Report) -> Option<Millis> {
    let text = field.text(report)?;
    let Ok(Time(time)) = Time::deserialize(&Value::from(text)) else {
        report.invalid(field, "is no time, so the entry counts as expired; write it as 2006-01-02T15:04:05.000000Z");
        return None;
    };
    let millis = (time.as_nanosecond() + 999_999).div_euclid(1_000_000);
    // Long ago is as good as longer ago.
    Some(Millis::try_from(millis).unwrap_or(0))
}

/// The fields of the kind, whatever they hold: to find those that it does not have. (`IgnoredAny` would count as one that it
/// does not have.)
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only names are asked about")]
pub(crate) struct EndpointReport {
    metadata: ObjectMeta,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only names are asked about")]
struct Spec {
    service_ref: Option<ServiceRef>,
    reporter: Option<Value>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only names are asked about")]
struct ServiceRef {
    name: Option<Value>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only names are asked about")]
struct Status {
    endpoints: Option<Vec<Reported>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only names are asked about")]
struct Reported {
    target_ref: Option<TargetRef>,
    address: Option<Value>,
    port: Option<Value>,
    state: Option<Value>,
    renew_time: Option<Value>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only names are asked about")]
struct TargetRef {
    kind: Option<Value>,
    name: Option<Value>,
    uid: Option<Value>,
}

#[cfg(test)]
mod tests;
