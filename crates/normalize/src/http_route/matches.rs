//! What a rule matches.

use crate::node::{Node, Report, quote};
use crate::regex;
use crate::route::{header_matches, value_matches};
use crate::text::{any, compared_value};
use tidegate_model::{HttpMatch, Name, PathMatch};

/// Bound of the API.
const MAX_MATCHES: usize = 64;

const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// What may not be in an exact path or a prefix: Envoy normalizes such paths away, so they would never match.
const FORBIDDEN: [&str; 6] = ["//", "/./", "/../", "%2f", "%2F", "#"];

/// The match of a rule that has none: every request.
pub(super) fn default() -> HttpMatch {
    HttpMatch { path: default_path(), headers: Vec::new(), query: Vec::new(), method: None }
}

fn default_path() -> PathMatch {
    PathMatch::Prefix(Name::from("/"))
}

/// The matches of a rule, never empty.
pub(super) fn matches(list: &Node<'_>, report: &mut Report) -> Vec<HttpMatch> {
    let mut matches: Vec<HttpMatch> = list.items(MAX_MATCHES, report).map(|item| http_match(&item, report)).collect();
    if matches.is_empty() {
        matches.push(default());
    }
    matches
}

fn http_match(item: &Node<'_>, report: &mut Report) -> HttpMatch {
    item.is_object(report);
    HttpMatch {
        headers: header_matches(&item.field("headers"), report),
        query: value_matches(&item.field("queryParams"), &compared_value(1024), report),
        path: path(&item.field("path"), report),
        method: method(&item.field("method"), report),
    }
}

fn method(field: &Node<'_>, report: &mut Report) -> Option<Name> {
    let method = field.choice(&METHODS, report)?;
    if method == "CONNECT" {
        report.unsupported(field, "CONNECT is not served; remove the match");
    }
    Some(Name::from(method))
}

fn path(node: &Node<'_>, report: &mut Report) -> PathMatch {
    node.is_object(report);
    let kind = node.field("type");
    let value = node.field("value");
    let text = if value.is_present() { value.name(&any(0, 1024), report) } else { Some(Name::from("/")) };
    let chosen = kind.text(report).unwrap_or("PathPrefix");
    let Some(text) = text else { return default_path() };
    match chosen {
        "Exact" | "PathPrefix" => {
            if let Err(message) = plain_path(&text) {
                report.invalid(&value, message);
            }
            if chosen == "Exact" { PathMatch::Exact(text) } else { PathMatch::Prefix(text) }
        }
        "RegularExpression" => {
            if let Err(message) = regex::check(&text) {
                report.unsupported(&value, message);
            }
            PathMatch::Regex(text)
        }
        other => {
            let message =
                format!("{} is no type of path match; use Exact, PathPrefix or RegularExpression", quote(other));
            report.unsupported(&kind, message);
            default_path()
        }
    }
}

/// The syntax of an exact path or a prefix.
fn plain_path(text: &str) -> Result<(), String> {
    if !text.starts_with('/') {
        return Err(format!("{} does not begin with '/'; write an absolute path", quote(text)));
    }
    if let Some(part) = FORBIDDEN.iter().find(|part| text.contains(**part)) {
        return Err(format!("{} contains {part:?}; write the path without", quote(text)));
    }
    if let Some(end) = ["/..", "/."].iter().find(|end| text.ends_with(**end)) {
        return Err(format!("{} ends with {end:?}; write the path without", quote(text)));
    }
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => tail,
            (byte, tail) if byte.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@".contains(byte) => tail,
            _ => return Err(format!("{} has a character that no path has; write it as %XX", quote(text))),
        };
    }
    Ok(())
}
