//! `RequestRedirect` and `URLRewrite`: other hosts and paths.

use super::carried;
use crate::node::{Node, Report, quote};
use crate::text::{PATH_REPLACEMENT, PRECISE_HOSTNAME, any, is_ip};
use tidegate_model::{Name, PathModifier, RedirectFact, RewriteFact};

/// Redirects that the API knows.
const STATUSES: [i64; 5] = [301, 302, 303, 307, 308];

pub(super) fn redirect(node: &Node<'_>, report: &mut Report) -> RedirectFact {
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

pub(super) fn rewrite(node: &Node<'_>, report: &mut Report) -> RewriteFact {
    RewriteFact { hostname: hostname(&node.field("hostname"), report), path: path(&node.field("path"), report) }
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
