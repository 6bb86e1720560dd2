//! Values made wrong: one node of an object after the other is replaced, retyped, removed, doubled, moved or stretched.

use crate::choices::Choices;
use serde_json::{Value, json};

/// Texts that are trouble somewhere.
const TEXTS: [&str; 46] = [
    "",
    " ",
    "a",
    "x-y",
    "*",
    "*.",
    "*.*.com",
    "*.com",
    "a..b",
    "-a",
    "UPPER.example.com",
    "münchen.example",
    "日本",
    "\u{1f600}",
    "\u{0}",
    "a\nb",
    "a\r\nHost: b",
    "\u{7f}",
    "\u{202e}",
    "\u{feff}",
    "0",
    "-1",
    "1e400",
    "true",
    "null",
    "~",
    "127.0.0.1",
    "256.0.0.1",
    "::1",
    "fe80::1%eth0",
    "::ffff:1.2.3.4",
    "0s",
    "99999999999h",
    "10ms",
    "1h1h",
    "/",
    "//",
    "/a/../b",
    "/%zz",
    "/a?b#c",
    "(",
    "(a{1000}){1000}",
    "[\\w",
    "kubernetes.io/h2c",
    "https",
    "HTTP",
];

/// Names of fields that some kind has.
const FIELDS: [&str; 20] = [
    "name",
    "namespace",
    "kind",
    "group",
    "port",
    "weight",
    "hostname",
    "type",
    "value",
    "path",
    "matches",
    "filters",
    "rules",
    "spec",
    "metadata",
    "labels",
    "sectionName",
    "backendRefs",
    "items",
    "",
];

/// How long a text or list gets that is stretched: beyond the bounds of names, of lists and of header values.
const LENGTHS: [usize; 6] = [2, 17, 65, 254, 4097, 70_000];

/// How deep a value is put: below, at and beyond what files and logs may nest.
const DEPTHS: [usize; 5] = [1, 2, 30, 101, 140];

/// Nodes that a value may have before it is not made larger any more.
const NODES_MAX: usize = 20_000;

/// Changes `value` in one place. `other` is where foreign parts come from.
pub fn mutate(value: &mut Value, other: &Value, choices: &mut Choices<'_>) {
    let nodes = count(value);
    let index = choices.below(nodes);
    let action = choices.below(12);
    let donor = if action == 9 { nth(other, choices.below(count(other))).clone() } else { Value::Null };
    let swap = if action == 7 { nth(value, choices.below(nodes)).clone() } else { Value::Null };
    let small = nodes < NODES_MAX;
    let node = nth_mut(value, index);
    match action {
        0 | 10 => *node = odd(choices),
        1 | 11 => *node = retyped(node.take(), choices),
        2 => remove(node, choices),
        3 if small => double(node, choices),
        4 if small => *node = nested(node.take(), *choices.pick(&DEPTHS), choices),
        5 if small => stretch(node, choices),
        6 => rename(node, choices),
        7 if small => *node = swap,
        8 => edit(node, choices),
        9 if small => *node = donor,
        _ => {}
    }
}

/// How many values there are in `value`, itself included.
#[must_use]
pub fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn nth(value: &Value, mut index: usize) -> &Value {
    if index == 0 {
        return value;
    }
    index -= 1;
    for child in children(value) {
        let nodes = count(child);
        if index < nodes {
            return nth(child, index);
        }
        index -= nodes;
    }
    value
}

fn nth_mut(value: &mut Value, mut index: usize) -> &mut Value {
    if index == 0 {
        return value;
    }
    index -= 1;
    let sizes: Vec<usize> = children(value).into_iter().map(count).collect();
    let Some(child) = sizes.iter().position(|nodes| {
        let here = index < *nodes;
        if !here {
            index -= nodes;
        }
        here
    }) else {
        return value;
    };
    let child = match value {
        Value::Array(items) => items.get_mut(child),
        Value::Object(fields) => fields.values_mut().nth(child),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    nth_mut(child.expect("it was counted"), index)
}

/// A value that nobody would write there.
fn odd(choices: &mut Choices<'_>) -> Value {
    match choices.below(16) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(*choices.pick(&[1_i64, 80, 443, 65_535, 65_536, 1_000_000, 1_000_001])),
        5 => json!(*choices.pick(&[i64::MIN, i64::MAX, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 53) + 1])),
        6 => json!(u64::MAX),
        7 => json!(*choices.pick(&[0.5, -0.0, 80.0, 1e-300, 1.797e308, 1e19])),
        8 => json!([]),
        9 => json!({}),
        10 => json!([null]),
        11 => json!({"": null}),
        12 => json!([[]]),
        13 => Value::from("x".repeat(*choices.pick(&LENGTHS))),
        _ => json!(*choices.pick(&TEXTS)),
    }
}

fn retyped(value: Value, choices: &mut Choices<'_>) -> Value {
    match (value, choices.below(3)) {
        (Value::String(text), 0) => text.parse::<i64>().map_or(json!([text]), Value::from),
        (Value::String(text), 1) => json!({ "value": text }),
        (Value::Number(number), 0 | 1) => json!(number.to_string()),
        (Value::Bool(yes), 0 | 1) => json!(yes.to_string()),
        (Value::Array(mut items), 0) if !items.is_empty() => items.swap_remove(0),
        (Value::Array(items), 1) => Value::Object(items.into_iter().map(|item| (key_of(&item), item)).collect()),
        (Value::Object(fields), 0) => Value::Array(fields.into_iter().map(|(_, value)| value).collect()),
        (Value::Object(fields), 1) => json!(serde_json::to_string(&fields).unwrap_or_default()),
        (value, _) => json!([value]),
    }
}

fn key_of(value: &Value) -> String {
    value.get("name").and_then(Value::as_str).map_or_else(|| "key".to_owned(), str::to_owned)
}

fn remove(node: &mut Value, choices: &mut Choices<'_>) {
    match node {
        Value::Array(items) if !items.is_empty() => drop(items.remove(choices.below(items.len()))),
        Value::Object(fields) if !fields.is_empty() => {
            let name = fields.keys().nth(choices.below(fields.len())).cloned();
            fields.remove(&name.unwrap_or_default());
        }
        _ => *node = Value::Null,
    }
}

fn double(node: &mut Value, choices: &mut Choices<'_>) {
    match node {
        Value::Array(items) if !items.is_empty() => {
            let item = items[choices.below(items.len())].clone();
            items.push(item);
        }
        Value::Object(fields) => {
            let value = fields.values().nth(choices.below(fields.len())).cloned().unwrap_or_default();
            fields.insert((*choices.pick(&FIELDS)).to_owned(), value);
        }
        Value::String(text) => *text = text.repeat(2),
        other => *other = json!([other.clone(), other.clone()]),
    }
}

fn nested(value: Value, depth: usize, choices: &mut Choices<'_>) -> Value {
    let in_list = choices.chance(50);
    (0..depth).fold(value, |value, _| if in_list { json!([value]) } else { json!({ "a": value }) })
}

fn stretch(node: &mut Value, choices: &mut Choices<'_>) {
    let length = *choices.pick(&LENGTHS);
    match node {
        Value::String(text) => {
            let unit = if text.is_empty() { "é".to_owned() } else { text.clone() };
            *text = unit.chars().cycle().take(length).collect();
        }
        Value::Array(items) if !items.is_empty() => {
            // Bounded by what all of it may weigh: ten of the items that there are, or a few hundred small ones.
            let nodes = items.iter().map(count).sum::<usize>().max(1);
            let length = length.min(NODES_MAX / nodes);
            *items = items.iter().cycle().take(length).cloned().collect();
        }
        Value::Object(fields) => {
            for number in 0..length.min(300) {
                fields.insert(format!("f{number}"), json!("v"));
            }
        }
        Value::Number(number) => *number = number.as_u64().unwrap_or(9).wrapping_mul(length as u64 + 7).into(),
        _ => *node = json!([]),
    }
}

fn rename(node: &mut Value, choices: &mut Choices<'_>) {
    let Value::Object(fields) = node else { return edit(node, choices) };
    let Some(name) = fields.keys().nth(choices.below(fields.len())).cloned() else { return };
    let value = fields.remove(&name).unwrap_or_default();
    let new = match choices.below(4) {
        0 => (*choices.pick(&FIELDS)).to_owned(),
        1 => name.to_uppercase(),
        2 => format!("{name}s"),
        _ => (*choices.pick(&TEXTS)).to_owned(),
    };
    fields.insert(new, value);
}

fn edit(node: &mut Value, choices: &mut Choices<'_>) {
    let text = match node {
        Value::String(text) => text,
        Value::Number(number) => {
            let step = *choices.pick(&[1_i64, -1, 65_536, -100]);
            *node = json!(number.as_i64().unwrap_or_default().wrapping_add(step));
            return;
        }
        Value::Bool(yes) => {
            *node = json!(!*yes);
            return;
        }
        Value::Null | Value::Array(_) | Value::Object(_) => return,
    };
    let chars: Vec<char> = text.chars().collect();
    let at = choices.below(chars.len() + 1);
    let (before, after) = chars.split_at(at);
    let insert = match choices.below(4) {
        0 => String::new(),
        1 => choices.pick(&['.', '/', '*', '-', ' ', ':', '%', '?', '\u{0}', '\n', 'ß', 'A']).to_string(),
        2 => (*choices.pick(&TEXTS)).to_owned(),
        _ => text.to_uppercase(),
    };
    let after = if choices.chance(50) { &after[after.len().min(1)..] } else { after };
    *text = before.iter().copied().chain(insert.chars()).chain(after.iter().copied()).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_can_be_reached() {
        let value = json!({"a": [1, {"b": 2}], "c": "d"});
        assert_eq!(count(&value), 6);
        let nodes: Vec<Value> = (0..6).map(|index| nth(&value, index).clone()).collect();
        let expected = [value.clone(), json!([1, {"b": 2}]), json!(1), json!({"b": 2}), json!(2), json!("d")];
        assert_eq!(nodes, expected);
        let mut changed = value.clone();
        (0..6).for_each(|index| assert_eq!(*nth_mut(&mut changed, index), expected[index]));
    }

    #[test]
    fn most_decisions_change_something() {
        let value = json!({"a": [1, {"b": 2}], "c": "d"});
        let changed = (0..=255_u8).filter(|byte| {
            let mut copy = value.clone();
            mutate(&mut copy, &value, &mut Choices::new(&[*byte, byte.wrapping_mul(7), 3, *byte]));
            copy != value
        });
        assert!(changed.count() > 200);
    }
}
