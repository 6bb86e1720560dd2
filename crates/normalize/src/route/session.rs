//! `sessionPersistence`: which endpoint the requests of one client go to.

use crate::duration;
use crate::node::{Node, Report, quote};
use crate::text::{SESSION_NAME, any};
use tidegate_model::{Finding, Millis, Reason, SessionCarrier, SessionFact};

/// The session persistence of a rule, if it asks for one.
pub(crate) fn session(node: &Node<'_>, report: &mut Report) -> Option<SessionFact> {
    if !node.is_object(report) {
        return None;
    }
    let kind = node.field("type").choice(&["Cookie", "Header"], report).unwrap_or("Cookie");
    let name_field = node.field("sessionName");
    let name = name_field.name(&any(0, 128), report).filter(|name| !name.is_empty());
    if let Some(Err(message)) = name.as_ref().map(|name| SESSION_NAME.check(name)) {
        report.unsupported(&name_field, message);
    }
    let absolute_field = node.field("absoluteTimeout");
    let absolute = lifetime(&absolute_field, report);
    let idle_field = node.field("idleTimeout");
    if lifetime(&idle_field, report).is_some() {
        ignored(&idle_field, "a session does not end by being idle", report);
    }
    let config = node.field("cookieConfig");
    config.is_object(report);
    let permanent = config.field("lifetimeType").choice(&["Permanent", "Session"], report) == Some("Permanent");
    if permanent && !absolute_field.is_present() {
        report.invalid(&absolute_field, "is required for a permanent cookie; add it or make the lifetimeType Session");
    }
    if kind == "Header" && config.is_present() {
        report.unsupported(&config, "a session that is kept by a header has no cookie; remove it or change the type");
    }
    let carrier = match kind {
        "Header" => SessionCarrier::Header,
        _ => SessionCarrier::Cookie { lifetime: absolute.filter(|_| permanent) },
    };
    if absolute.is_some() && !(permanent && kind == "Cookie") {
        ignored(&absolute_field, "only a permanent cookie ends after a time", report);
    }
    Some(SessionFact { name, carrier })
}

/// A session that lasts longer than it was asked to is no reason not to serve the rule.
fn ignored(field: &Node<'_>, why: &str, report: &mut Report) {
    let message = format!("is not supported here and ignored: {why}; remove it");
    report.remark(Finding::new(Reason::UnsupportedValue, &field.path(), message));
}

fn lifetime(field: &Node<'_>, report: &mut Report) -> Option<Millis> {
    let text = field.name(&any(1, 63), report)?;
    let millis = duration::millis(&text);
    if millis.is_none() {
        report.invalid(field, format!("{} is no duration; write it as 1h, 90s or 1h30m", quote(&text)));
    }
    millis
}
