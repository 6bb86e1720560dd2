//! What a rule matches.

use crate::node::{Node, Report, quote};
use crate::regex;
use crate::route::header_matches;
use crate::text::{GRPC_METHOD, GRPC_SERVICE, TextRule, any};
use tidegate_model::{HttpMatch, MethodMatch, Name, PathMatch};

/// Bound of the API.
const MAX_MATCHES: usize = 64;

/// The matches of a rule, never empty: without any it takes every request.
pub(super) fn matches(list: &Node<'_>, report: &mut Report) -> Vec<HttpMatch> {
    let mut matches: Vec<HttpMatch> = list.items(MAX_MATCHES, report).map(|item| grpc_match(&item, report)).collect();
    if matches.is_empty() {
        matches.push(of(MethodMatch::default()));
    }
    matches
}

fn grpc_match(item: &Node<'_>, report: &mut Report) -> HttpMatch {
    item.is_object(report);
    HttpMatch { headers: header_matches(&item.field("headers"), report), ..of(method(&item.field("method"), report)) }
}

fn of(method: MethodMatch) -> HttpMatch {
    HttpMatch { path: PathMatch::Method(method), headers: Vec::new(), query: Vec::new(), method: None }
}

fn method(node: &Node<'_>, report: &mut Report) -> MethodMatch {
    if !node.is_object(report) {
        return MethodMatch::default();
    }
    let kind = node.field("type");
    let regex = match kind.text(report).unwrap_or("Exact") {
        "Exact" => false,
        "RegularExpression" => true,
        other => {
            let message = format!("{} is no type of method match; use Exact or RegularExpression", quote(other));
            report.unsupported(&kind, message);
            false
        }
    };
    let (service, method) = (node.field("service"), node.field("method"));
    if !service.is_present() && !method.is_present() {
        report.invalid(node, "names neither a service nor a method; add one of them or remove the match");
    }
    MethodMatch {
        service: part(&service, regex, &GRPC_SERVICE, report),
        method: part(&method, regex, &GRPC_METHOD, report),
        regex,
    }
}

/// A name or a pattern for one; an empty one stands for every name.
fn part(field: &Node<'_>, regex: bool, exact: &TextRule, report: &mut Report) -> Option<Name> {
    let text = field.name(&any(0, 1024), report)?;
    let checked = match regex {
        true if text.is_empty() => Ok(()),
        true => regex::check(&text).map_err(|message| report.unsupported(field, message)),
        false => exact.check(&text).map_err(|message| report.invalid(field, message)),
    };
    checked.ok().map(|()| text).filter(|text| !text.is_empty())
}
