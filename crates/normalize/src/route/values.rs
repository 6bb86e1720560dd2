//! Matches of headers and query parameters.

use crate::node::{Node, Report, quote};
use crate::regex;
use crate::text::{HEADER_NAME, TextRule, compared_value};
use std::collections::BTreeSet;
use tidegate_model::{Name, ValueMatch, ValuePattern};

/// Bound of the API.
const MAX_VALUE_MATCHES: usize = 16;

/// Matches of headers. Names of headers are equal whatever their case; the first of equal names counts.
pub(crate) fn header_matches(list: &Node<'_>, report: &mut Report) -> Vec<ValueMatch> {
    let mut seen = BTreeSet::new();
    value_matches(list, &compared_value(4096), report)
        .into_iter()
        .map(|header| ValueMatch { name: Name::from(header.name.to_ascii_lowercase()), ..header })
        .filter(|header| seen.insert(header.name.clone()))
        .collect()
}

/// Matches of headers or query parameters. A name that is there twice is an error, as the lists are keyed by name.
pub(crate) fn value_matches(list: &Node<'_>, value_rule: &TextRule, report: &mut Report) -> Vec<ValueMatch> {
    let mut names = BTreeSet::new();
    let mut matches = Vec::new();
    for item in list.items(MAX_VALUE_MATCHES, report) {
        let field = item.field("name");
        let name = field.required_name(&HEADER_NAME, report);
        let value_field = item.field("value");
        let value = value_field.required_name(value_rule, report);
        let kind = item.field("type").choice(&["Exact", "RegularExpression"], report).unwrap_or("Exact");
        let (Some(name), Some(value)) = (name, value) else { continue };
        if !names.insert(name.clone()) {
            report.invalid(&field, format!("{} is there twice; remove one of them", quote(&name)));
        }
        let value = if kind == "Exact" {
            ValuePattern::Exact(value)
        } else {
            if let Err(message) = regex::check(&value) {
                report.unsupported(&value_field, message);
            }
            ValuePattern::Regex(value)
        };
        matches.push(ValueMatch { name, value });
    }
    let mut seen = BTreeSet::new();
    matches.retain(|entry| seen.insert(entry.name.clone()));
    matches
}
