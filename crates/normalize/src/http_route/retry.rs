//! When a request is tried again.

use super::timeout;
use crate::node::{Node, Report};
use tidegate_model::RetryFact;

/// Statuses that the API lets a rule name.
const MIN_CODE: i64 = 400;
const MAX_CODE: i64 = 599;

/// More than there are statuses to name.
const MAX_CODES: usize = 256;

pub(super) fn retry(node: &Node<'_>, report: &mut Report) -> Option<RetryFact> {
    if !node.is_object(report) {
        return None;
    }
    let list = node.field("codes");
    let mut codes: Vec<u16> = Vec::new();
    for item in list.items(MAX_CODES, report) {
        if item.demand(report) {
            codes.extend(item.integer(MIN_CODE, MAX_CODE, report).and_then(|code| u16::try_from(code).ok()));
        }
    }
    codes.sort_unstable();
    codes.dedup();
    let field = node.field("attempts");
    let attempts = field.integer(i64::MIN, i64::MAX, report).map(u32::try_from);
    if let Some(Err(_)) = attempts {
        report.unsupported(&field, "is no number of tries; use a number from 0");
    }
    Some(RetryFact { codes, attempts: attempts.and_then(Result::ok), backoff: timeout(&node.field("backoff"), report) })
}
