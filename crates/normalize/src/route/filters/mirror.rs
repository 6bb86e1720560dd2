//! `RequestMirror`: copies of requests.

use crate::node::{Node, Report};
use crate::route::target;
use tidegate_model::{MirrorFact, ObjectKey};

const PERCENT: u32 = 100;

/// The mirror; none if its backend cannot be named. What the backend is, is looked up as that of any other reference.
pub(super) fn mirror(route: &ObjectKey, node: &Node<'_>, report: &mut Report) -> Option<MirrorFact> {
    let backend = node.field("backendRef");
    let target = if backend.is_required_object(report) { target(route, &backend, report) } else { None };
    let (percent, fraction) = (node.field("percent"), node.field("fraction"));
    if percent.is_present() && fraction.is_present() {
        report.invalid(&percent, "percent and fraction exclude each other; remove one of them");
    }
    let percent = number(&percent, 0, PERCENT, report).unwrap_or(PERCENT);
    let (numerator, denominator) = share(&fraction, report).unwrap_or((percent, PERCENT));
    Some(MirrorFact { target: target?, numerator, denominator })
}

/// Numerator and denominator, if a fraction is given.
fn share(node: &Node<'_>, report: &mut Report) -> Option<(u32, u32)> {
    if !node.is_object(report) {
        return None;
    }
    let field = node.field("numerator");
    let denominator = number(&node.field("denominator"), 1, u32::MAX >> 1, report).unwrap_or(PERCENT);
    let numerator = if field.demand(report) { number(&field, 0, u32::MAX >> 1, report) } else { None }?;
    if numerator > denominator {
        report.invalid(&field, format!("{numerator} is more than the denominator {denominator}; use at most that"));
        return None;
    }
    Some((numerator, denominator))
}

fn number(field: &Node<'_>, min: u32, max: u32, report: &mut Report) -> Option<u32> {
    field.integer(min.into(), max.into(), report).and_then(|number| u32::try_from(number).ok())
}
