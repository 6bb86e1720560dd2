//! Values written down as YAML or JSON, in the ways that people and programs write them, and in some that none should.

use crate::choices::Choices;
use serde_json::Value;
use std::fmt::Write;

/// What a document may say where a value stands that no JSON has.
const SCALARS: [&str; 18] = [
    ".nan",
    "-.inf",
    "0x1F",
    "0o17",
    "1_000",
    "99999999999999999999999",
    "1e999",
    "~",
    "yes",
    "2024-01-01",
    "!!binary aGk=",
    "!custom x",
    "*a",
    "&a",
    "|\n  text\n",
    ">-",
    "\"\\x00\"",
    "'",
];

/// Lines that go wrong.
const LINES: [&str; 12] = [
    "\tkey: value",
    "<<: *a",
    "- item",
    "key",
    "? key",
    "%YAML 9.9",
    "...",
    "---",
    "--- # epoch 2",
    "\"unclosed: ",
    "{",
    "a: &a [*a, *a]",
];

/// How often in a hundred something odd is written.
const ODD: usize = 1;

/// The documents of a file. `wild`: now and then something is written that the values do not say.
pub fn file(values: &[Value], wild: bool, choices: &mut Choices<'_>) -> Vec<u8> {
    let mut text = String::new();
    let json = choices.chance(25);
    for (index, value) in values.iter().enumerate() {
        if index > 0 || choices.chance(10) {
            text.push_str("---\n");
        }
        if json {
            let one =
                if choices.chance(50) { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
            text.push_str(&one.expect("a value can always be written"));
        } else {
            block(value, 0, wild, choices, &mut text);
        }
        text.push('\n');
    }
    if wild { damage(text, choices) } else { text.into_bytes() }
}

/// Writes a value in block style; lists and objects begin on a line of their own.
fn block(value: &Value, indent: usize, wild: bool, choices: &mut Choices<'_>, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                field(name, value, indent, wild, choices, out);
                if wild && choices.chance(ODD) {
                    field(name, value, indent, wild, choices, out);
                }
                if wild && choices.chance(ODD) {
                    let _ = writeln!(out, "{:indent$}{}", "", choices.pick(&LINES));
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(out, "{:indent$}-", "");
                below(item, indent, wild, choices, out);
            }
        }
        scalar => {
            let _ = writeln!(out, "{:indent$}{scalar}", "");
        }
    }
}

fn field(name: &str, value: &Value, indent: usize, wild: bool, choices: &mut Choices<'_>, out: &mut String) {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric());
    let shown = if plain { name.to_owned() } else { Value::from(name).to_string() };
    let _ = write!(out, "{:indent$}{shown}:", "");
    below(value, indent, wild, choices, out);
}

/// What stands behind a colon or a dash.
fn below(value: &Value, indent: usize, wild: bool, choices: &mut Choices<'_>, out: &mut String) {
    if wild && choices.chance(ODD) {
        let _ = writeln!(out, " {}", choices.pick(&SCALARS));
        return;
    }
    let nests = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if nests {
        out.push('\n');
        block(value, indent + 2, wild, choices, out);
    } else {
        let _ = writeln!(out, " {}", scalar(value, wild, choices));
    }
}

fn scalar(value: &Value, wild: bool, choices: &mut Choices<'_>) -> String {
    match value {
        // Without quotes it may be read as something else, or not at all.
        Value::String(text) if wild && choices.chance(5) => text.clone(),
        other => other.to_string(),
    }
}

/// Bytes lost, doubled and flipped, in other line ends and encodings.
fn damage(text: String, choices: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = match choices.below(24) {
        20 => text.replace('\n', "\r\n").into_bytes(),
        21 => text.replace('\n', "\r").into_bytes(),
        22 => [&[0xef, 0xbb, 0xbf], text.as_bytes()].concat(),
        23 => [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect(),
        _ => text.into_bytes(),
    };
    for _ in 0..choices.below(8).saturating_sub(5) {
        damage_once(&mut bytes, choices);
    }
    bytes
}

/// One accident of bytes.
pub fn damage_once(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let at = choices.below(bytes.len());
    let length = choices.below(32).min(bytes.len() - at);
    match choices.below(5) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..at + length)),
        2 => {
            let copy = bytes[at..at + length].to_vec();
            let to = choices.below(bytes.len());
            drop(bytes.splice(to..to, copy));
        }
        3 => {
            let byte = choices.byte();
            bytes.insert(at, byte);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << choices.below(8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;
    use tidegate_model::Kind;
    use tidegate_sources::manifests::document;

    #[test]
    fn what_is_written_tamely_is_read_as_it_was() {
        // Of a Secret the seeds have what a source made of it, which is not how a file has it.
        let objects = seeds::objects();
        for (index, object) in objects.iter().filter(|object| object.key.kind != Kind::Secret).enumerate() {
            let json = [255, u8::try_from(index % 256).unwrap()];
            for input in [&[][..], &json] {
                let text = file(&[(*object.body).clone()], false, &mut Choices::new(input));
                let parsed = document::parse(&text);
                assert_eq!((parsed.mistakes, parsed.objects.len()), (vec![], 1), "{}", String::from_utf8_lossy(&text));
                assert_eq!(parsed.objects[0].object.key, object.key);
            }
        }
    }
}
