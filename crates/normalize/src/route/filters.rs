//! Filters of a rule or of a backend reference.
//!
//! A filter that is not supported is a finding on the route: a filter must never be skipped, it may be what keeps
//! somebody out.

use crate::node::{Node, Report, quote};
use crate::text::{HEADER_NAME, HEADER_VALUE, PATH_REPLACEMENT, PRECISE_HOSTNAME, TextRule, any, has_control, is_ip};
use std::collections::BTreeSet;
use tidegate_model::{Filter, HeaderModifier, Name, PathModifier, RedirectFact, RewriteFact};

/// Bounds of the API.
const MAX_FILTERS: usize = 16;
const MAX_HEADERS: usize = 16;

/// Redirects that the API knows.
const STATUSES: [i64; 5] = [301, 302, 303, 307, 308];

/// Every type of filter, the field with its settings, and whether it may be repeated.
const TYPES: [(&str, &str, bool); 8] = [
    ("RequestHeaderModifier", "requestHeaderModifier", false),
    ("ResponseHeaderModifier", "responseHeaderModifier", false),
    ("RequestRedirect", "requestRedirect", false),
    ("URLRewrite", "urlRewrite", false),
    ("RequestMirror", "requestMirror", true),
    ("CORS", "cors", false),
    ("ExternalAuth", "externalAuth", false),
    ("ExtensionRef", "extensionRef", true),
];

/// Where a filter stands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    /// In a rule.
    Rule,
    /// In a backend reference, where only headers can be changed.
    Backend,
}

/// The filters that are supported; every other one is a finding.
pub(super) fn filters(list: &Node<'_>, place: Place, report: &mut Report) -> Vec<Filter> {
    let mut types = BTreeSet::new();
    let mut filters = Vec::new();
    for item in list.items(MAX_FILTERS, report) {
        if item.demand(report) {
            item.is_object(report);
        }
        let field = item.field("type");
        let kind = field.required_name(&any(1, 63), report);
        let Some(kind) = kind else { continue };
        let Some(&(_, settings, repeatable)) = TYPES.iter().find(|(name, ..)| kind == *name) else {
            let known: Vec<_> = TYPES.iter().take(4).map(|(name, ..)| *name).collect();
            report.unsupported(&field, format!("{} is no known filter; use {}", quote(&kind), known.join(", ")));
            continue;
        };
        if !types.insert(kind.clone()) && !repeatable {
            report.invalid(&field, format!("{kind} is there twice; put both into one filter"));
        }
        only_settings_of(&item, settings, &kind, report);
        let settings = item.field(settings);
        if settings.is_required_object(report) {
            filters.extend(filter(&field, &kind, &settings, place, report));
        }
    }
    if types.contains("RequestRedirect") && types.contains("URLRewrite") {
        report.invalid(list, "RequestRedirect and URLRewrite exclude each other; remove one of them");
    }
    filters
}

/// The union: settings of another type than the filter's are an error.
fn only_settings_of(item: &Node<'_>, own: &str, kind: &str, report: &mut Report) {
    for (_, settings, _) in TYPES {
        let field = item.field(settings);
        if settings != own && field.is_present() {
            report.invalid(&field, format!("a filter of type {kind} has no {settings}; remove it or change the type"));
        }
    }
}

fn filter(field: &Node<'_>, kind: &str, settings: &Node<'_>, place: Place, report: &mut Report) -> Option<Filter> {
    match kind {
        "RequestHeaderModifier" => Some(Filter::RequestHeaders(headers(settings, report))),
        "ResponseHeaderModifier" => Some(Filter::ResponseHeaders(headers(settings, report))),
        "RequestRedirect" | "URLRewrite" if place == Place::Backend => {
            report.unsupported(
                field,
                format!("{kind} is not supported for one backend; move it to the filters of the rule"),
            );
            None
        }
        "RequestRedirect" => Some(Filter::Redirect(redirect(settings, report))),
        "URLRewrite" => Some(Filter::Rewrite(RewriteFact {
            hostname: hostname(&settings.field("hostname"), report),
            path: path(&settings.field("path"), report),
        })),
        _ => {
            report.unsupported(field, format!("filters of type {kind} are not supported yet; remove it"));
            None
        }
    }
}

fn headers(node: &Node<'_>, report: &mut Report) -> HeaderModifier {
    // Which list a name is in; one action a name. In lower case, as names are equal whatever their case.
    let mut seen = BTreeSet::new();
    let mut modifier = HeaderModifier::default();
    for (list_name, list) in [("set", &mut modifier.set), ("add", &mut modifier.add)] {
        let field = node.field(list_name);
        for item in field.items(MAX_HEADERS, report) {
            let name = header_name(&item.field("name"), &mut seen, report);
            let value = carried(&item.field("value"), &HEADER_VALUE, report);
            list.extend(name.zip(value));
        }
    }
    let field = node.field("remove");
    for item in field.items(MAX_HEADERS, report) {
        modifier.remove.extend(header_name(&item, &mut seen, report));
    }
    modifier
}

/// A text that ends up in a header.
fn carried(field: &Node<'_>, rule: &TextRule, report: &mut Report) -> Option<Name> {
    let text = field.required_name(rule, report)?;
    if has_control(&text) {
        report.unsupported(field, format!("{} has control characters; remove them", quote(&text)));
    }
    Some(text)
}

fn header_name(field: &Node<'_>, seen: &mut BTreeSet<String>, report: &mut Report) -> Option<Name> {
    let text = field.text(report);
    if text.is_some_and(|text| text.starts_with(':') || text.eq_ignore_ascii_case("host")) {
        let message =
            "Host and pseudo headers cannot be changed like this; use a URLRewrite filter with a hostname or path";
        report.unsupported(field, message);
        return None;
    }
    let name = field.required_name(&HEADER_NAME, report)?;
    if !seen.insert(name.to_ascii_lowercase()) {
        report.unsupported(field, format!("{} has another action already; keep one action a header", quote(&name)));
        return None;
    }
    Some(name)
}

fn redirect(node: &Node<'_>, report: &mut Report) -> RedirectFact {
    let status_field = node.field("statusCode");
    let status = status_field.integer(0, 999, report).unwrap_or(302);
    if !STATUSES.contains(&status) {
        report.invalid(&status_field, format!("{status} is no redirect; use 301, 302, 303, 307 or 308"));
    }
    RedirectFact {
        scheme: node.field("scheme").choice(&["http", "https"], report).map(Name::from),
        hostname: hostname(&node.field("hostname"), report),
        port: node.field("port").port(report),
        path: path(&node.field("path"), report),
        // 302 stands in for what was reported just now; the range above keeps the number in a u16.
        status: u16::try_from(status).unwrap_or(302),
    }
}

fn hostname(field: &Node<'_>, report: &mut Report) -> Option<Name> {
    let name = field.name(&PRECISE_HOSTNAME, report)?;
    if is_ip(&name) {
        report.unsupported(field, format!("{} is an IP address; use a hostname", quote(&name)));
    }
    Some(name)
}

fn path(node: &Node<'_>, report: &mut Report) -> Option<PathModifier> {
    if !node.is_object(report) {
        return None;
    }
    let field = node.field("type");
    let kind = field.required_name(&any(1, 63), report)?;
    let (own, other) = match &*kind {
        "ReplaceFullPath" => ("replaceFullPath", "replacePrefixMatch"),
        "ReplacePrefixMatch" => ("replacePrefixMatch", "replaceFullPath"),
        unknown => {
            let message =
                format!("{} is no change of a path; use ReplaceFullPath or ReplacePrefixMatch", quote(unknown));
            report.unsupported(&field, message);
            return None;
        }
    };
    let stray = node.field(other);
    if stray.is_present() {
        report.invalid(&stray, format!("a path of type {kind} has no {other}; remove it or change the type"));
    }
    let value = carried(&node.field(own), &PATH_REPLACEMENT, report)?;
    Some(if &*kind == "ReplaceFullPath" { PathModifier::Full(value) } else { PathModifier::Prefix(value) })
}
