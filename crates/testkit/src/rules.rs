//! Envoy's field rules, read from the descriptors and checked on encoded messages: what breaks one is rejected by Envoy,
//! and the whole response with it.

use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};

/// The broken rules in the message of this type, each with the path of its field.
///
/// # Panics
///
/// The type is not in the pool, the bytes are not of it, or a rule is of a form that is not known here.
#[must_use]
pub fn broken(pool: &DescriptorPool, type_name: &str, bytes: &[u8]) -> Vec<String> {
    let descriptor = pool.get_message_by_name(type_name).expect("one of Envoy's types");
    let message = DynamicMessage::decode(descriptor, bytes).expect("what is encoded decodes");
    let mut found = Vec::new();
    walk(pool, &message, type_name, &mut found);
    found
}

fn walk(pool: &DescriptorPool, message: &DynamicMessage, path: &str, found: &mut Vec<String>) {
    if message.descriptor().full_name() == "google.protobuf.Any" {
        let url = text(message, "type_url");
        if let Some(inner) = url.rsplit('/').next().and_then(|name| pool.get_message_by_name(name)) {
            let value = message.get_field_by_name("value");
            let bytes = value.and_then(|value| value.as_bytes().cloned()).unwrap_or_default();
            let inner = DynamicMessage::decode(inner, bytes).expect("what is packed decodes");
            walk(pool, &inner, &format!("{path}<{url}>"), found);
        }
        return;
    }
    for field in message.descriptor().fields() {
        let path = format!("{path}.{}", field.name());
        let value = message.has_field(&field).then(|| message.get_field(&field).into_owned());
        // Rules of a field of a oneof count only if it is the one.
        let counts = value.is_some() || field.containing_oneof().is_none();
        if let Some(rules) = rules(pool, &field).filter(|_| counts) {
            check(&rules, &field, value.as_ref(), &path, found);
        }
        value.iter().for_each(|value| descend(pool, value, &path, found));
    }
    for oneof in message.descriptor().oneofs() {
        let required =
            extension(pool, &oneof.options(), "validate.required").is_some_and(|v| v.as_bool() == Some(true));
        if required && !oneof.fields().any(|field| message.has_field(&field)) {
            found.push(format!("{path}: one of {} is required", oneof.name()));
        }
    }
}

fn descend(pool: &DescriptorPool, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Message(message) => walk(pool, message, path, found),
        Value::List(items) => items.iter().for_each(|item| descend(pool, item, path, found)),
        Value::Map(entries) => entries.values().for_each(|entry| descend(pool, entry, path, found)),
        _ => {}
    }
}

fn extension(pool: &DescriptorPool, options: &DynamicMessage, name: &str) -> Option<Value> {
    let extension = pool.get_extension_by_name(name).expect("an extension of the validator");
    options.has_extension(&extension).then(|| options.get_extension(&extension).into_owned())
}

fn rules(pool: &DescriptorPool, field: &FieldDescriptor) -> Option<DynamicMessage> {
    match extension(pool, &field.options(), "validate.rules") {
        Some(Value::Message(rules)) => Some(rules),
        _ => None,
    }
}

fn text(message: &DynamicMessage, field: &str) -> String {
    message.get_field_by_name(field).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Checks the rules of one field; `value` is none if it has none, or its default where that cannot be told apart.
fn check(rules: &DynamicMessage, field: &FieldDescriptor, value: Option<&Value>, path: &str, found: &mut Vec<String>) {
    for (kind, rule) in rules.fields().filter_map(|(kind, rule)| Some((kind, rule.as_message()?.clone()))) {
        match kind.name() {
            "message" | "any" | "duration" | "timestamp" if flag(&rule, "required") && value.is_none() => {
                found.push(format!("{path} is required"));
            }
            "repeated" => {
                let len = value.and_then(Value::as_list).map_or(0, <[Value]>::len);
                bound(&rule, "min_items", len, |min| len >= min, path, found);
                bound(&rule, "max_items", len, |max| len <= max, path, found);
                let items = rule.get_field_by_name("items").and_then(|v| v.as_message().cloned());
                let items = items.expect("rules of lists have rules of items");
                for item in value.and_then(Value::as_list).into_iter().flatten() {
                    check(&items, field, Some(item), path, found);
                }
            }
            "duration" => {
                let positive = value.and_then(Value::as_message).is_none_or(|duration| {
                    ["seconds", "nanos"]
                        .iter()
                        .filter_map(|part| duration.get_field_by_name(part))
                        .any(|part| part.as_i64().unwrap_or_default() > 0 || part.as_i32().unwrap_or_default() > 0)
                });
                if rule.has_field_by_name("gt") && !positive {
                    found.push(format!("{path} must be greater"));
                }
            }
            "string" => check_text(&rule, value.and_then(Value::as_str).unwrap_or_default(), path, found),
            "uint32" => check_number(&rule, field, value, path, found),
            "enum" if flag(&rule, "defined_only") => {
                let number = value.and_then(Value::as_enum_number).unwrap_or_default();
                if matches!(field.kind(), Kind::Enum(of) if of.get_value(number).is_none()) {
                    found.push(format!("{path}: {number} is not defined"));
                }
            }
            _ => {}
        }
    }
}

fn check_text(rule: &DynamicMessage, text: &str, path: &str, found: &mut Vec<String>) {
    if text.is_empty() && flag(rule, "ignore_empty") {
        return;
    }
    let (chars, len) = (text.chars().count(), text.len());
    bound(rule, "min_len", chars, |min| chars >= min, path, found);
    bound(rule, "max_len", chars, |max| chars <= max, path, found);
    bound(rule, "min_bytes", len, |min| len >= min, path, found);
    bound(rule, "max_bytes", len, |max| len <= max, path, found);
    if rule.has_field_by_name("well_known_regex") && text.contains(['\0', '\r', '\n']) {
        found.push(format!("{path}: {text:?} has control characters"));
    }
    if rule.has_field_by_name("pattern") {
        // The one pattern among what is encoded here.
        assert_eq!(self::text(rule, "pattern"), "^[^?#]+[^?#/]$", "a pattern that this test does not know: {path}");
        if text.contains(['?', '#']) || text.ends_with('/') || chars < 2 {
            found.push(format!("{path}: {text:?} is no prefix of path elements"));
        }
    }
}

fn check_number(
    rule: &DynamicMessage,
    field: &FieldDescriptor,
    value: Option<&Value>,
    path: &str,
    found: &mut Vec<String>,
) {
    let number = match value {
        Some(Value::Message(wrapped)) => wrapped.get_field_by_name("value").and_then(|v| v.as_u32()).unwrap_or(0),
        Some(value) => value.as_u32().unwrap_or_default(),
        None if field.supports_presence() => return,
        None => 0,
    } as usize;
    bound(rule, "gt", number, |limit| number > limit, path, found);
    bound(rule, "gte", number, |limit| number >= limit, path, found);
    bound(rule, "lt", number, |limit| number < limit, path, found);
    bound(rule, "lte", number, |limit| number <= limit, path, found);
}

fn flag(rule: &DynamicMessage, name: &str) -> bool {
    rule.get_field_by_name(name).and_then(|v| v.as_bool()).unwrap_or_default()
}

fn bound(
    rule: &DynamicMessage,
    name: &str,
    actual: usize,
    holds: impl Fn(usize) -> bool,
    path: &str,
    found: &mut Vec<String>,
) {
    if rule.has_field_by_name(name) {
        let limit = rule.get_field_by_name(name);
        let limit = limit
            .and_then(|limit| limit.as_u64().or(limit.as_u32().map(u64::from)))
            .expect("bounds are numbers") as usize;
        if !holds(limit) {
            found.push(format!("{path}: {actual} breaks {name} {limit}"));
        }
    }
}
