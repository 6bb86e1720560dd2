//! HTTPRoute: parents, hostnames and rules.
//!
//! A route with findings is accepted by no parent, so what its rules say then only serves to evaluate references; rules
//! are kept as far as they can be read.

mod backends;

mod filters;

mod matches;

use crate::duration;
use crate::metadata::Metadata;
use crate::node::{Node, Report, quote};
use crate::text::{GROUP, HOSTNAME, KIND, NAMESPACE, REF_NAME, SECTION_NAME, any, is_ip};
use filters::Place;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    Fact, Filter, Finding, GroupKind, Hostname, HttpMatch, Kind, Millis, Name, NamespacedName, ObjectKey, ParentFact,
    PathMatch, PathModifier, RETARGET_HOLD, RETARGET_HOLD_MAX_MS, Reason, RouteFact, RouteKey, RouteKind, RuleFact,
};

/// Bounds of the API.
const MAX_PARENTS: usize = 32;
const MAX_HOSTNAMES: usize = 16;
const MAX_RULES: usize = 16;
const MAX_TOTAL_MATCHES: usize = 128;

/// The route, always: its parents write its status.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    let metadata = Metadata::read(key, root, report);
    let spec = root.field("spec");
    // A route without spec has every default, and no parent.
    spec.is_object(report);
    let parents = parents(key, &spec.field("parentRefs"), report);
    let hostnames = hostnames(&spec.field("hostnames"), report);
    let rules = rules(key, &spec.field("rules"), report);
    let retarget_hold = retarget_hold(root, report);
    let scope = spec.field("useDefaultGateways");
    if scope.is_present() {
        let message = "default Gateways are not supported and this is ignored; name the Gateway in parentRefs";
        report.remark(Finding::new(Reason::UnsupportedValue, &scope.path(), message));
    }
    vec![Fact::Route(Arc::new(RouteFact {
        key: RouteKey { kind: RouteKind::Http, name: key.name.clone() },
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

fn hostnames(list: &Node<'_>, report: &mut Report) -> Vec<Hostname> {
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

fn rules(key: &ObjectKey, list: &Node<'_>, report: &mut Report) -> Vec<RuleFact> {
    if !list.is_present() {
        return vec![RuleFact {
            name: None,
            matches: vec![matches::default()],
            filters: Vec::new(),
            backends: Vec::new(),
            request_timeout: None,
            backend_timeout: None,
        }];
    }
    let mut names = BTreeSet::new();
    let mut rules = Vec::new();
    for item in list.items(MAX_RULES, report) {
        let rule = rule(key, &item, report);
        if let Some(name) = &rule.name
            && !names.insert(name.clone())
        {
            report
                .invalid(&item.field("name"), format!("{} is there twice; give every rule its own name", quote(name)));
        }
        rules.push(rule);
    }
    let total: usize = rules.iter().map(|rule| rule.matches.len()).sum();
    if total > MAX_TOTAL_MATCHES {
        let message = format!("has {total} matches in all, {MAX_TOTAL_MATCHES} are allowed; split the route");
        report.invalid(list, message);
    }
    rules
}

fn rule(key: &ObjectKey, item: &Node<'_>, report: &mut Report) -> RuleFact {
    if item.demand(report) {
        item.is_object(report);
    }
    let matches = matches::matches(&item.field("matches"), report);
    let filter_list = item.field("filters");
    let filters = filters::filters(&filter_list, Place::Rule, report);
    let backend_list = item.field("backendRefs");
    let backends = backends::backends(key, &backend_list, report);
    if !backends.is_empty() && filters.iter().any(|filter| matches!(filter, Filter::Redirect(_))) {
        let message =
            "a rule that redirects sends nothing to a backend; remove backendRefs or the RequestRedirect filter";
        report.invalid(&backend_list, message);
    }
    if filters.iter().any(replaces_prefix) && !one_prefix(&matches) {
        let message = "ReplacePrefixMatch needs a rule with exactly one match, of type PathPrefix; split the rule";
        report.invalid(&filter_list, message);
    }
    for name in ["retry", "sessionPersistence"] {
        let field = item.field(name);
        if field.is_present() {
            report.unsupported(&field, format!("{name} is not supported yet; remove it"));
        }
    }
    let (request_timeout, backend_timeout) = timeouts(&item.field("timeouts"), report);
    let name = item.field("name").name(&SECTION_NAME, report);
    RuleFact { name, matches, filters, backends, request_timeout, backend_timeout }
}

fn replaces_prefix(filter: &Filter) -> bool {
    let path = match filter {
        Filter::Redirect(redirect) => &redirect.path,
        Filter::Rewrite(rewrite) => &rewrite.path,
        Filter::RequestHeaders(_) | Filter::ResponseHeaders(_) => &None,
    };
    matches!(path, Some(PathModifier::Prefix(_)))
}

fn one_prefix(matches: &[HttpMatch]) -> bool {
    matches!(matches, [HttpMatch { path: PathMatch::Prefix(_), .. }])
}

fn timeouts(node: &Node<'_>, report: &mut Report) -> (Option<u64>, Option<u64>) {
    node.is_object(report);
    let request = timeout(&node.field("request"), report);
    let backend_field = node.field("backendRequest");
    let backend = timeout(&backend_field, report);
    if let (Some(request), Some(backend)) = (request, backend)
        && request > 0
        && backend > request
    {
        report.invalid(&backend_field, "is longer than timeouts.request; shorten it or lengthen the other");
    }
    (request, backend)
}

fn timeout(field: &Node<'_>, report: &mut Report) -> Option<u64> {
    let text = field.name(&any(1, 63), report)?;
    let millis = duration::millis(&text);
    if millis.is_none() {
        report.invalid(field, format!("{} is no duration; write it as 10s, 500ms or 1h30m", quote(&text)));
    }
    millis
}

#[cfg(test)]
mod tests;
