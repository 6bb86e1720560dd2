//! HTTPRoute: parents, hostnames and rules.
//!
//! A route with findings is accepted by no parent, so what its rules say then only serves to evaluate references; rules
//! are kept as far as they can be read.

mod matches;

mod retry;

use crate::duration;
use crate::node::{Node, Report, quote};
use crate::route::filters::{self, Place};
use crate::route::{self, Contents};
use crate::text::{SECTION_NAME, any};
use tidegate_model::{Fact, Filter, HttpMatch, Millis, ObjectKey, PathMatch, PathModifier, RouteKind, RuleFact};

/// Bound of the API.
const MAX_TOTAL_MATCHES: usize = 128;

/// The route, always: its parents write its status.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    route::facts(RouteKind::Http, key, root, report, |spec, report| Contents {
        hostnames: route::hostnames(&spec.field("hostnames"), report),
        rules: rules(key, &spec.field("rules"), report),
    })
}

fn rules(key: &ObjectKey, list: &Node<'_>, report: &mut Report) -> Vec<RuleFact> {
    if !list.is_present() {
        return vec![RuleFact { matches: vec![matches::default()], ..RuleFact::default() }];
    }
    let rules = route::rules(list, report, |item, report| rule(key, item, report));
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
    let filters = filters::filters(key, &filter_list, filters::HTTP, Place::Rule, report);
    let backend_list = item.field("backendRefs");
    let backends = route::backends(key, &backend_list, report, |backend, report| {
        filters::filters(key, &backend.field("filters"), filters::HTTP, Place::Backend, report)
    });
    if !backends.is_empty() && filters.iter().any(|filter| matches!(filter, Filter::Redirect(_))) {
        let message =
            "a rule that redirects sends nothing to a backend; remove backendRefs or the RequestRedirect filter";
        report.invalid(&backend_list, message);
    }
    if filters.iter().any(replaces_prefix) && !one_prefix(&matches) {
        let message = "ReplacePrefixMatch needs a rule with exactly one match, of type PathPrefix; split the rule";
        report.invalid(&filter_list, message);
    }
    let (request_timeout, backend_timeout) = timeouts(&item.field("timeouts"), report);
    RuleFact {
        name: item.field("name").name(&SECTION_NAME, report),
        matches,
        filters,
        backends,
        request_timeout,
        backend_timeout,
        retry: retry::retry(&item.field("retry"), report),
        session: route::session(&item.field("sessionPersistence"), report),
    }
}

fn replaces_prefix(filter: &Filter) -> bool {
    let path = match filter {
        Filter::Redirect(redirect) => &redirect.path,
        Filter::Rewrite(rewrite) => &rewrite.path,
        Filter::RequestHeaders(_)
        | Filter::ResponseHeaders(_)
        | Filter::Mirror(_)
        | Filter::Cors(_)
        | Filter::Refused(_) => &None,
    };
    matches!(path, Some(PathModifier::Prefix(_)))
}

fn one_prefix(matches: &[HttpMatch]) -> bool {
    matches!(matches, [HttpMatch { path: PathMatch::Prefix(_), .. }])
}

fn timeouts(node: &Node<'_>, report: &mut Report) -> (Option<Millis>, Option<Millis>) {
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

fn timeout(field: &Node<'_>, report: &mut Report) -> Option<Millis> {
    let text = field.name(&any(1, 63), report)?;
    let millis = duration::millis(&text);
    if millis.is_none() {
        report.invalid(field, format!("{} is no duration; write it as 10s, 500ms or 1h30m", quote(&text)));
    }
    millis
}

#[cfg(test)]
mod tests;
