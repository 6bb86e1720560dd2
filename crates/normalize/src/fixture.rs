//! Objects for tests, and tables of what is right and wrong with them.

use crate::{Moment, Normalized, normalize};
use serde_json::{Value, json};
use tidegate_log::Object;
use tidegate_model::{Fact, Finding, Millis};

/// An object of this body.
pub(crate) fn object(body: Value) -> Object {
    Object::new(body).unwrap()
}

/// The facts of this body once everything in it has ended.
pub(crate) fn facts(body: Value) -> Vec<Fact> {
    let late = Moment { now: Millis::MAX, ..Moment::default() };
    let Normalized { facts, endings } = normalize(&object(body), &late);
    assert_eq!(endings, []);
    facts
}

/// What speaks against the object: findings that a fact carries.
pub(crate) fn carried(facts: &[Fact]) -> Vec<Finding> {
    let findings = facts.iter().map(|fact| match fact {
        Fact::Class(class) => class.findings.clone(),
        Fact::Gateway(gateway) => gateway.findings.clone(),
        Fact::ListenerSet(set) => set.findings.clone(),
        Fact::Route(route) => route.findings.clone(),
        Fact::BackendTls(policy) => policy.findings.clone(),
        Fact::Grant(_)
        | Fact::Namespace(_)
        | Fact::Node(_)
        | Fact::Service(_)
        | Fact::Slice(_)
        | Fact::Secret(_)
        | Fact::Bundle(_)
        | Fact::Report(_)
        | Fact::Finding(..) => Vec::new(),
    });
    findings.flatten().collect()
}

/// What is said about the object in rows of its own.
pub(crate) fn rows(facts: &[Fact]) -> Vec<Finding> {
    facts
        .iter()
        .filter_map(|fact| if let Fact::Finding(_, finding) = fact { Some(finding.clone()) } else { None })
        .collect()
}

/// `body` with `value` at `pointer`; objects on the way are made, a list takes an index one past its end, and null
/// removes.
pub(crate) fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    let (path, last) = pointer.rsplit_once('/').unwrap();
    let mut place = &mut body;
    for step in path.split('/').skip(1) {
        let step = step.replace("~1", "/");
        place = match step.parse::<usize>() {
            Ok(index) => {
                let list = place.as_array_mut().unwrap();
                if index == list.len() {
                    list.push(json!({}));
                }
                &mut list[index]
            }
            Err(_) => {
                if !place.is_object() {
                    *place = json!({});
                }
                place.as_object_mut().unwrap().entry(step).or_insert(Value::Null)
            }
        };
    }
    let last = last.replace("~1", "/");
    match (place, last.parse::<usize>()) {
        (Value::Array(list), Ok(index)) if index == list.len() => list.push(value),
        (Value::Array(list), Ok(index)) => list[index] = value,
        (place, _) => {
            if !place.is_object() {
                *place = json!({});
            }
            let map = place.as_object_mut().unwrap();
            if value.is_null() {
                map.remove(&last);
            } else {
                map.insert(last, value);
            }
        }
    }
    body
}

/// Every change of `base` leaves nothing to say.
pub(crate) fn accepts(base: &Value, table: &[(&str, Value)]) {
    for (pointer, value) in table {
        let facts = facts(with(base.clone(), pointer, value.clone()));
        assert_eq!((carried(&facts), rows(&facts)), (vec![], vec![]), "{pointer} = {value}");
    }
}

/// Every change of `base` gives a finding of this field and text, in the fact if `in_fact`, else in a row.
pub(crate) fn refuses(base: &Value, in_fact: bool, table: &[(&str, Value, &str, &str)]) {
    for (pointer, value, field, text) in table {
        let facts = facts(with(base.clone(), pointer, value.clone()));
        let found = if in_fact { carried(&facts) } else { rows(&facts) };
        let hit = found.iter().find(|finding| &*finding.field == *field && finding.message.contains(text));
        assert!(hit.is_some(), "{pointer} = {value}: {field}: {text} is not in {found:#?}");
        let says_what_to_do =
            hit.is_some_and(|finding| finding.message.contains(';') || finding.message.contains("must be"));
        assert!(says_what_to_do, "{hit:?}");
    }
}
