//! Filters of a rule or of a backend reference.
//!
//! A filter that nothing here can apply is never skipped, it may be what keeps somebody out: it is kept as
//! [`Filter::Refused`], and what it stands at fails closed.

mod cors;

mod mirror;

mod redirect;

use crate::node::{Node, Report, quote};
use crate::text::{HEADER_NAME, HEADER_VALUE, TextRule, any, has_control};
use std::collections::BTreeSet;
use tidegate_model::{Filter, HeaderModifier, Name, ObjectKey, Reason};

/// Bounds of the API.
const MAX_FILTERS: usize = 16;
const MAX_HEADERS: usize = 16;

/// A type of filter.
pub(crate) struct FilterType {
    /// Its name.
    name: &'static str,
    /// The field with its settings.
    settings: &'static str,
    /// Whether it may be repeated.
    repeatable: bool,
}

const fn once(name: &'static str, settings: &'static str) -> FilterType {
    FilterType { name, settings, repeatable: false }
}

const fn repeatable(name: &'static str, settings: &'static str) -> FilterType {
    FilterType { name, settings, repeatable: true }
}

/// Every type that an HTTPRoute knows.
pub(crate) const HTTP: &[FilterType] = &[
    once("RequestHeaderModifier", "requestHeaderModifier"),
    once("ResponseHeaderModifier", "responseHeaderModifier"),
    once("RequestRedirect", "requestRedirect"),
    once("URLRewrite", "urlRewrite"),
    repeatable("RequestMirror", "requestMirror"),
    once("CORS", "cors"),
    once("ExternalAuth", "externalAuth"),
    repeatable("ExtensionRef", "extensionRef"),
];

/// Every type that a GRPCRoute knows.
pub(crate) const GRPC: &[FilterType] = &[
    once("RequestHeaderModifier", "requestHeaderModifier"),
    once("ResponseHeaderModifier", "responseHeaderModifier"),
    repeatable("RequestMirror", "requestMirror"),
    repeatable("ExtensionRef", "extensionRef"),
];

/// Where a filter stands.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// In a rule.
    Rule,
    /// In a backend reference, where only headers can be changed.
    Backend,
}

/// The filters of a list, in order, of the types that the kind of `route` knows.
pub(crate) fn filters(
    route: &ObjectKey,
    list: &Node<'_>,
    known: &[FilterType],
    place: Place,
    report: &mut Report,
) -> Vec<Filter> {
    let mut types = BTreeSet::new();
    let mut filters = Vec::new();
    for item in list.items(MAX_FILTERS, report) {
        if item.demand(report) {
            item.is_object(report);
        }
        let field = item.field("type");
        let Some(name) = field.required_name(&any(1, 63), report) else { continue };
        let Some(kind) = known.iter().find(|kind| name == kind.name) else {
            let names: Vec<&str> = known.iter().map(|kind| kind.name).collect();
            let message = format!("{} is no known filter; use one of {}", quote(&name), names.join(", "));
            filters.push(Filter::Refused(report.withhold(Reason::UnsupportedValue, &field, message)));
            continue;
        };
        if !types.insert(kind.name) && !kind.repeatable {
            report.invalid(&field, format!("{name} is there twice; put both into one filter"));
        }
        only_settings_of(&item, kind, known, report);
        let settings = item.field(kind.settings);
        if settings.is_required_object(report) {
            filters.extend(filter(route, &field, kind.name, &settings, place, report));
        }
    }
    if types.contains("RequestRedirect") && types.contains("URLRewrite") {
        report.invalid(list, "RequestRedirect and URLRewrite exclude each other; remove one of them");
    }
    filters
}

/// The union: settings of another type than the filter's are an error.
fn only_settings_of(item: &Node<'_>, own: &FilterType, known: &[FilterType], report: &mut Report) {
    for FilterType { settings, .. } in known {
        let field = item.field(settings);
        if *settings != own.settings && field.is_present() {
            let message = format!("a filter of type {} has no {settings}; remove it or change the type", own.name);
            report.invalid(&field, message);
        }
    }
}

/// One filter; none if its settings cannot be read, which is reported.
fn filter(
    route: &ObjectKey,
    field: &Node<'_>,
    kind: &str,
    settings: &Node<'_>,
    place: Place,
    report: &mut Report,
) -> Option<Filter> {
    let filter = match kind {
        "RequestHeaderModifier" => Filter::RequestHeaders(headers(settings, report)),
        "ResponseHeaderModifier" => Filter::ResponseHeaders(headers(settings, report)),
        "RequestRedirect" => Filter::Redirect(redirect::redirect(settings, report)),
        "URLRewrite" => Filter::Rewrite(redirect::rewrite(settings, report)),
        "RequestMirror" => Filter::Mirror(mirror::mirror(route, settings, report)?),
        "CORS" => Filter::Cors(cors::cors(settings, report)),
        "ExtensionRef" => {
            let message = "no kind of extension is known here; remove the filter";
            return Some(Filter::Refused(report.withhold(Reason::InvalidKind, settings, message)));
        }
        _ => {
            let message = format!("filters of type {kind} are not supported; remove it");
            return Some(Filter::Refused(report.withhold(Reason::UnsupportedValue, field, message)));
        }
    };
    let everywhere = matches!(filter, Filter::RequestHeaders(_) | Filter::ResponseHeaders(_));
    if place == Place::Rule || everywhere {
        return Some(filter);
    }
    let message = format!("{kind} is not supported for one backend; move it to the filters of the rule");
    Some(Filter::Refused(report.withhold(Reason::UnsupportedValue, field, message)))
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
