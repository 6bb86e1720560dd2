//! `CORS`: pages of other origins.

use crate::node::{Node, Report, quote};
use crate::text::{HEADER_NAME, ORIGIN, TextRule, any};
use tidegate_model::{CorsFact, Name};

/// Bounds of the API.
const MAX_ENTRIES: usize = 64;
const MAX_METHODS: usize = 9;

/// For how many seconds a browser remembers an answer unless the filter says otherwise.
const MAX_AGE_S: u32 = 5;

const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "*"];

pub(super) fn cors(node: &Node<'_>, report: &mut Report) -> CorsFact {
    let origins = set(&node.field("allowOrigins"), MAX_ENTRIES, &ORIGIN, true, report);
    let method_field = node.field("allowMethods");
    let methods = set(&method_field, MAX_METHODS, &any(1, 63), true, report);
    for method in methods.iter().filter(|method| !METHODS.contains(&&***method)) {
        let message = format!("{} is none of {}; use one of them", quote(method), METHODS.join(", "));
        report.invalid(&method_field, message);
    }
    let max_age = node.field("maxAge").integer(1, i32::MAX.into(), report);
    CorsFact {
        origins: origins.iter().map(|origin| without_implied_port(origin)).collect(),
        methods,
        headers: set(&node.field("allowHeaders"), MAX_ENTRIES, &HEADER_NAME, true, report),
        exposed: set(&node.field("exposeHeaders"), MAX_ENTRIES, &HEADER_NAME, false, report),
        max_age_s: max_age.and_then(|age| u32::try_from(age).ok()).unwrap_or(MAX_AGE_S),
        credentials: node.field("allowCredentials").boolean(report).unwrap_or(false),
    }
}

/// A list of different texts. `*`, which is all of them, may have to stand alone.
fn set(list: &Node<'_>, max: usize, rule: &TextRule, alone: bool, report: &mut Report) -> Vec<Name> {
    let mut texts: Vec<Name> = Vec::new();
    for item in list.items(max, report) {
        let Some(text) = item.required_name(rule, report) else { continue };
        if texts.contains(&text) {
            report.invalid(&item, format!("{} is there twice; remove one of them", quote(&text)));
        } else {
            texts.push(text);
        }
    }
    if alone && texts.len() > 1 && texts.iter().any(|text| *text == "*") {
        report.invalid(list, "has \"*\" beside others, which it includes; write \"*\" alone or leave it out");
    }
    texts
}

/// Browsers leave out the port that the scheme implies.
fn without_implied_port(origin: &str) -> Name {
    let stripped = [("http://", ":80"), ("https://", ":443")]
        .into_iter()
        .find_map(|(scheme, port)| origin.strip_suffix(port).filter(|rest| rest.starts_with(scheme)));
    Name::from(stripped.unwrap_or(origin))
}
