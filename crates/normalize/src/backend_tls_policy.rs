//! BackendTLSPolicy: which Services are to be reached over TLS, and whom to take for them.

use crate::metadata::Metadata;
use crate::node::{Node, Report, quote};
use crate::text::{GROUP, HOSTNAME, KIND, PRECISE_HOSTNAME, QUALIFIED_KEY, REF_NAME, SECTION_NAME, URI, any, is_ip};
use std::sync::Arc;
use tidegate_model::{
    AuthorityRefs, BackendTlsFact, CertificateRef, Fact, Finding, GroupKind, Kind, Name, NamespacedName, ObjectKey,
    PolicyTarget, Reason, SubjectName,
};

/// Bounds of the API.
const MAX_TARGETS: usize = 16;

/// How many targets are read.
const READ_TARGETS: usize = 256;

const MAX_AUTHORITIES: usize = 8;
const MAX_NAMES: usize = 5;
const MAX_OPTIONS: usize = 16;

/// The one set of CA certificates that is known by a name.
const SYSTEM: &str = "System";

/// The policy, always: whatever is wrong with it, what it is about must not be reached without it.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    let metadata = Metadata::read(key, root, report);
    let spec = root.field("spec");
    spec.is_required_object(report);
    let targets = targets(key, &spec, report);
    let validation = spec.field("validation");
    validation.is_required_object(report);
    let hostname = hostname(&validation.field("hostname"), report);
    let authorities = authorities(key, &validation, report);
    let names = names(&validation.field("subjectAltNames"), report);
    options(&spec.field("options"), report);
    vec![Fact::BackendTls(Arc::new(BackendTlsFact {
        name: key.name.clone(),
        generation: metadata.generation,
        created: metadata.created,
        targets,
        hostname,
        names,
        authorities,
        findings: report.carry(),
    }))]
}

fn group_kind(item: &Node<'_>, report: &mut Report) -> Option<GroupKind> {
    let group = item.field("group");
    // Empty is the core group; absent is nothing.
    let group = if group.demand(report) { group.name(&GROUP, report) } else { None };
    let kind = item.field("kind").required_name(&KIND, report);
    Some(GroupKind { group: group?, kind: kind? })
}

/// The targets that are Services. Whether a Service has a port of the name is not known here.
fn targets(key: &ObjectKey, spec: &Node<'_>, report: &mut Report) -> Vec<PolicyTarget> {
    let (list, single) = (spec.field("targetRefs"), spec.field("targetRef"));
    if single.is_present() {
        report.invalid(&single, "is of a version that is no more; write it as an entry of targetRefs, which is a list");
    } else if list.demand(report) && list.items(MAX_TARGETS, report).next().is_none() {
        report.invalid(&list, "must not be empty; add a Service");
    }
    // More than are allowed: what is too much must not be reached in plaintext for that.
    let items = list.items(READ_TARGETS, &mut Report::default());
    let of_lists = read_targets(key, items, report);
    // Written as if there were one alone.
    let alone = [list, single].into_iter().filter(|node| node.is_object(&mut Report::default()));
    of_lists.into_iter().chain(alone.filter_map(|node| meant(key, &node, None))).collect()
}

/// What an entry is about, or could be: a Service unless it clearly says something else. It is nothing that an API server
/// would take where group or kind are missing, and closes what it may have meant.
fn meant(key: &ObjectKey, item: &Node<'_>, port: Option<Name>) -> Option<PolicyTarget> {
    let ignored = &mut Report::default();
    let is =
        |field: &str, wanted: &str| item.field(field).text(&mut Report::default()).is_none_or(|text| text == wanted);
    let name = item.field("name").name(&REF_NAME, ignored)?;
    let service = NamespacedName::new(key.name.namespace(), &name);
    let is_service = is("group", Kind::Service.group()) && is("kind", Kind::Service.as_str());
    is_service.then(|| PolicyTarget { field: item.path().into(), service, port })
}

fn read_targets<'i>(key: &ObjectKey, items: impl Iterator<Item = Node<'i>>, report: &mut Report) -> Vec<PolicyTarget> {
    let mut seen: Vec<(GroupKind, Name, Option<Name>)> = Vec::new();
    let mut targets = Vec::new();
    for item in items {
        let group_kind = group_kind(&item, report);
        let name = item.field("name").required_name(&REF_NAME, report);
        let section = item.field("sectionName");
        let port = section.name(&SECTION_NAME, report);
        targets.extend(meant(key, &item, port.clone()));
        let (Some(group_kind), Some(name)) = (group_kind, name) else { continue };
        for (_, _, other) in seen.iter().filter(|(kind, other, _)| *kind == group_kind && *other == name) {
            match (other, &port) {
                (Some(other), Some(port)) if other != port => {}
                (Some(_), Some(_)) | (None, None) => {
                    report.invalid(&item, "another entry has the same target; name another port, or remove one")
                }
                (Some(_), None) | (None, Some(_)) => {
                    report.invalid(&section, "is required where several entries have one target; name a port in each")
                }
            }
        }
        if !group_kind.is(Kind::Service) {
            let message = format!("{group_kind} cannot be reached over TLS and this is ignored; use a Service");
            report.remark(Finding::new(Reason::UnsupportedValue, &item.path(), message));
        }
        seen.push((group_kind, name, port));
    }
    targets
}

fn hostname(field: &Node<'_>, report: &mut Report) -> Name {
    let hostname = field.required_name(&PRECISE_HOSTNAME, report).unwrap_or_default();
    if is_ip(&hostname) {
        let message = format!("{} is an IP address, which nobody can ask for; use a name", quote(&hostname));
        report.unsupported(field, message);
    }
    hostname
}

/// Exactly one of the two ways of saying it.
fn authorities(key: &ObjectKey, validation: &Node<'_>, report: &mut Report) -> AuthorityRefs {
    let (list, known) = (validation.field("caCertificateRefs"), validation.field("wellKnownCACertificates"));
    let count = list.items(MAX_AUTHORITIES, report).count();
    let refs = list.items(MAX_AUTHORITIES, report).filter_map(|item| {
        let group_kind = group_kind(&item, report);
        let name = item.field("name").required_name(&REF_NAME, report);
        Some(CertificateRef { group_kind: group_kind?, name: NamespacedName::new(key.name.namespace(), &name?) })
    });
    let refs = refs.collect();
    // Empty is as good as absent.
    let well_known = known.name(&any(0, 253), report).filter(|name| !name.is_empty());
    match (&well_known, count) {
        (Some(_), 1..) => report.invalid(&known, "cannot stand beside caCertificateRefs; remove one of the two"),
        (None, 0) => {
            report.invalid(&list, "is required; name a ConfigMap with CA certificates, or use wellKnownCACertificates");
        }
        (Some(name), 0) if *name != SYSTEM => {
            report.unsupported(&known, format!("{} is not known; use {SYSTEM}, or caCertificateRefs", quote(name)));
        }
        (Some(_) | None, _) => {}
    }
    if well_known.is_some() && count == 0 { AuthorityRefs::System } else { AuthorityRefs::Refs(refs) }
}

fn names(list: &Node<'_>, report: &mut Report) -> Vec<SubjectName> {
    let mut names = Vec::new();
    for item in list.items(MAX_NAMES, report) {
        let kind = item.field("type");
        let kind = if kind.demand(report) { kind.choice(&["Hostname", "URI"], report) } else { None };
        let (host, uri) = (item.field("hostname"), item.field("uri"));
        let (wanted, other) = match kind {
            Some("Hostname") => (&host, &uri),
            Some(_) => (&uri, &host),
            None => continue,
        };
        if other.is_present() {
            report.invalid(other, "is not for this type of name; remove it");
        }
        let name = if kind == Some("Hostname") {
            wanted.required_name(&HOSTNAME, report).map(SubjectName::Host)
        } else {
            wanted.required_name(&URI, report).map(SubjectName::Uri)
        };
        names.extend(name.filter(|name| !names.contains(name)));
    }
    names
}

/// Nothing here knows an option.
fn options(map: &Node<'_>, report: &mut Report) {
    let entries = map.entries(report);
    if entries.len() > MAX_OPTIONS {
        report.invalid(map, format!("has {} options, {MAX_OPTIONS} are allowed; remove some", entries.len()));
    }
    for (key, entry) in entries {
        if let Err(message) = QUALIFIED_KEY.check(key) {
            report.invalid(&entry, message);
        } else if entry.name(&any(0, 4096), report).is_some() {
            report.remark(Finding::new(
                Reason::UnsupportedValue,
                &entry.path(),
                "is not known and is ignored; remove it",
            ));
        }
    }
}

#[cfg(test)]
mod tests;
