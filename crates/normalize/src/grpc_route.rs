//! GRPCRoute: hostnames, and rules by service and method.

mod matches;

use crate::node::{Node, Report};
use crate::route::filters::{self, Place};
use crate::route::{self, Contents};
use crate::text::SECTION_NAME;
use tidegate_model::{Fact, ObjectKey, RouteKind, RuleFact};

/// Bound of the API.
const MAX_TOTAL_MATCHES: usize = 128;

/// The route, always: its parents write its status.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    route::facts(RouteKind::Grpc, key, root, report, |spec, report| Contents {
        hostnames: route::hostnames(&spec.field("hostnames"), report),
        rules: rules(key, &spec.field("rules"), report),
    })
}

fn rules(key: &ObjectKey, list: &Node<'_>, report: &mut Report) -> Vec<RuleFact> {
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
    let read_filters = |list: &Node<'_>, place, report: &mut Report| {
        filters::filters(key, &list.field("filters"), filters::GRPC, place, report)
    };
    RuleFact {
        name: item.field("name").name(&SECTION_NAME, report),
        matches: matches::matches(&item.field("matches"), report),
        filters: read_filters(item, Place::Rule, report),
        backends: route::backends(key, &item.field("backendRefs"), report, |backend, report| {
            read_filters(backend, Place::Backend, report)
        }),
        session: route::session(&item.field("sessionPersistence"), report),
        ..RuleFact::default()
    }
}

#[cfg(test)]
mod tests;
