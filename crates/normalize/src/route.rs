//! What routes of every kind share: metadata, parents, hostnames, names of rules, the bound of a retarget hold.

mod backends;

pub(crate) mod filters;

mod session;

mod values;

use crate::duration;
use crate::metadata::Metadata;
use crate::node::{Node, Report, quote};
use crate::text::{GROUP, HOSTNAME, KIND, NAMESPACE, REF_NAME, SECTION_NAME, is_ip};
pub(crate) use backends::{backends, target};
pub(crate) use session::session;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    Fact, Finding, GroupKind, Hostname, Kind, Millis, Name, NamespacedName, ObjectKey, ParentFact, RETARGET_HOLD,
    RETARGET_HOLD_MAX_MS, Reason, RouteFact, RouteKey, RouteKind, RuleFact,
};
pub(crate) use values::{header_matches, value_matches};

/// Bounds of the API.
const MAX_PARENTS: usize = 32;
const MAX_HOSTNAMES: usize = 16;
const MAX_RULES: usize = 16;

/// What a kind of route reads of its spec by itself.
pub(crate) struct Contents {
    /// For which hosts; empty: those of the listener.
    pub(crate) hostnames: Vec<Hostname>,
    /// What is done with what is sent there.
    pub(crate) rules: Vec<RuleFact>,
}

/// The route, always: its parents write its status. `contents` reads what its kind has of its own.
pub(crate) fn facts(
    kind: RouteKind,
    key: &ObjectKey,
    root: &Node<'_>,
    report: &mut Report,
    contents: impl FnOnce(&Node<'_>, &mut Report) -> Contents,
) -> Vec<Fact> {
    let metadata = Metadata::read(key, root, report);
    let spec = root.field("spec");
    // A route without spec has every default, and no parent.
    spec.is_object(report);
    let parents = parents(key, &spec.field("parentRefs"), report);
    let Contents { hostnames, rules } = contents(&spec, report);
    let retarget_hold = retarget_hold(root, report);
    let scope = spec.field("useDefaultGateways");
    if scope.is_present() {
        let message = "default Gateways are not supported and this is ignored; name the Gateway in parentRefs";
        report.remark(Finding::new(Reason::UnsupportedValue, &scope.path(), message));
    }
    vec![Fact::Route(Arc::new(RouteFact {
        key: RouteKey { kind, name: key.name.clone() },
        generation: metadata.generation,
        created: metadata.created,
        parents,
        hostnames,
        rules,
        retarget_hold,
        findings: report.carry(),
    }))]
}

/// The route's own bound of a retarget hold. One that cannot be read is no reason not to serve the route: it is
/// remarked upon, and the bound of the controller holds.
fn retarget_hold(root: &Node<'_>, report: &mut Report) -> Option<Millis> {
    let metadata = root.field("metadata");
    let annotations = metadata.field("annotations");
    let field = annotations.key(RETARGET_HOLD);
    let text = field.text(report)?;
    let millis = duration::millis(text).filter(|millis| *millis <= RETARGET_HOLD_MAX_MS);
    if millis.is_none() {
        let message = format!(
            "{} is no duration from 0s to 1h, so the controller's own bound holds; write it as 5s, 500ms or 0s",
            quote(text)
        );
        report.remark(Finding::new(Reason::UnsupportedValue, &field.path(), message));
    }
    millis
}

fn parents(key: &ObjectKey, list: &Node<'_>, report: &mut Report) -> Vec<ParentFact> {
    let mut parents: Vec<ParentFact> = Vec::new();
    for item in list.items(MAX_PARENTS, report) {
        let Some(parent) = parent(key, &item, report) else { continue };
        if parents.iter().any(|other| !distinct(other, &parent)) {
            let message = "another entry names the same parent; give each its own sectionName or port, or remove one";
            report.invalid(&item, message);
        }
        parents.push(parent);
    }
    parents
}

/// A parent as far as it can be named; a section or port that is wrong is left out, with a finding.
fn parent(key: &ObjectKey, item: &Node<'_>, report: &mut Report) -> Option<ParentFact> {
    let group = item.field("group").name(&GROUP, report).unwrap_or_else(|| Name::from(Kind::Gateway.group()));
    let kind = item.field("kind").name(&KIND, report).unwrap_or_else(|| Name::from(Kind::Gateway.as_str()));
    let namespace_ref = item.field("namespace").name(&NAMESPACE, report);
    let section = item.field("sectionName").name(&SECTION_NAME, report);
    let port = item.field("port").port(report);
    let name = item.field("name").required_name(&REF_NAME, report)?;
    let namespace = namespace_ref.as_deref().unwrap_or(key.name.namespace());
    Some(ParentFact {
        group_kind: GroupKind { group, kind },
        name: NamespacedName::new(namespace, &name),
        namespace_ref,
        section,
        port,
    })
}

/// Whether two references can stand side by side: other objects, other sections, or equal sections and other ports. A
/// field that only one of them has does not make them distinct.
fn distinct(a: &ParentFact, b: &ParentFact) -> bool {
    let differ = |a: Option<&str>, b: Option<&str>| a.is_some() && b.is_some() && a != b;
    (&a.group_kind, &a.name) != (&b.group_kind, &b.name)
        || differ(a.section.as_deref(), b.section.as_deref())
        || (a.section == b.section && a.port.is_some() && b.port.is_some() && a.port != b.port)
}

/// `spec.hostnames`, each once.
pub(crate) fn hostnames(list: &Node<'_>, report: &mut Report) -> Vec<Hostname> {
    let mut hostnames = Vec::new();
    for item in list.items(MAX_HOSTNAMES, report) {
        let Some(name) = item.required_name(&HOSTNAME, report) else { continue };
        if is_ip(&name) {
            report.unsupported(
                &item,
                format!("{} is an IP address; use a hostname, or none for every host", quote(&name)),
            );
            continue;
        }
        let hostname = Hostname::new(&name);
        if !hostnames.contains(&hostname) {
            hostnames.push(hostname);
        }
    }
    hostnames
}

/// `spec.rules`, each read by `rule`, with names that differ.
pub(crate) fn rules(
    list: &Node<'_>,
    report: &mut Report,
    mut rule: impl FnMut(&Node<'_>, &mut Report) -> RuleFact,
) -> Vec<RuleFact> {
    let mut names = BTreeSet::new();
    let mut rules = Vec::new();
    for item in list.items(MAX_RULES, report) {
        let rule = rule(&item, report);
        if let Some(name) = &rule.name
            && !names.insert(name.clone())
        {
            report
                .invalid(&item.field("name"), format!("{} is there twice; give every rule its own name", quote(name)));
        }
        rules.push(rule);
    }
    rules
}
