//! Secrets on their way in: the material goes to the vault, what stays of the object is a verdict on it.
//!
//! *Invariant*: nothing that leaves here as an object or as an error holds a byte of `data` or `stringData`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tidegate_vault::{CERTIFICATE_ENTRY, KEY_ENTRY, Material, TLS_TYPE, judge};

/// The most that the entries of a Secret or ConfigMap may hold together, in bytes, as in an API server.
pub(crate) const SIZE_MAX: usize = 1 << 20;

/// What of `metadata` stays. Annotations do not: tools keep copies of whole objects in them.
pub(crate) const METADATA: [&str; 6] = ["name", "namespace", "uid", "generation", "creationTimestamp", "labels"];

/// Why an API server would refuse a Secret or a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The field, as a path from the object's root.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        // Names of entries are the user's, and a field is shown on one line.
        let field: String = field.into();
        let field = field.chars().take(120).map(|c| if c.is_control() { ' ' } else { c }).collect();
        Refusal { field, message: message.into() }
    }
}

/// Takes the material out of a Secret as a file or an API server has it. In its place stands the verdict on it, as
/// `material`, for a Secret of the type that holds certificates.
///
/// # Errors
///
/// What an API server would refuse it for. Then `body` is emptied of its material all the same.
pub fn take_material(body: &mut Value) -> Result<Option<Material>, Refusal> {
    let Some(fields) = body.as_object_mut() else { return Ok(None) };
    let (data, strings) = (fields.remove("data"), fields.remove("stringData"));
    fields.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "type"));
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| METADATA.contains(&name.as_str()));
    }
    let entries = entries(data, strings)?;
    let secret_type = match fields.get("type") {
        None | Some(Value::Null) => "Opaque",
        Some(Value::String(text)) if text.is_empty() => "Opaque",
        Some(Value::String(text)) => text,
        Some(_) => return Err(Refusal::new("type", "is not a text; put it in quotes")),
    };
    if secret_type != TLS_TYPE {
        return Ok(None);
    }
    for entry in [CERTIFICATE_ENTRY, KEY_ENTRY] {
        if !entries.contains_key(entry) {
            let message = format!("is missing, a Secret of type {TLS_TYPE} must have it; add it");
            return Err(Refusal::new(format!("data[{entry}]"), message));
        }
    }
    let (verdict, material) = judge(&entries);
    let verdict = serde_json::to_value(verdict).expect("a verdict is plain texts and numbers");
    fields.insert("material".to_owned(), verdict);
    Ok(material)
}

/// `data`, with `stringData` over it.
fn entries(data: Option<Value>, strings: Option<Value>) -> Result<BTreeMap<String, Vec<u8>>, Refusal> {
    let mut entries = BTreeMap::new();
    for (name, text) in texts("data", data)? {
        let field = format!("data[{name}]");
        // As an API server reads it: line breaks may stand anywhere.
        let text: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
        let decoded = BASE64_STANDARD.decode(text);
        entries.insert(
            name,
            decoded
                .map_err(|_| Refusal::new(field, "is not base64; encode it, or write it under stringData as it is"))?,
        );
    }
    entries.extend(texts("stringData", strings)?.into_iter().map(|(name, text)| (name, text.into_bytes())));
    let size: usize = entries.values().map(Vec::len).sum();
    if size > SIZE_MAX {
        let message = format!("holds {size} bytes, {SIZE_MAX} are allowed; take out what is not needed");
        return Err(Refusal::new("data", message));
    }
    Ok(entries)
}

/// The texts under `field`, which is an object of them.
pub(crate) fn texts(field: &str, value: Option<Value>) -> Result<Vec<(String, String)>, Refusal> {
    let entries = match value {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err(Refusal::new(field, "is not an object; write entries as name: value")),
    };
    let text = |(name, value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Null => Ok((name, String::new())),
        _ => Err(Refusal::new(format!("{field}[{name}]"), "is not a text; put it in quotes")),
    };
    entries.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(secret_type: &str, data: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": secret_type, "data": data, "immutable": true,
            "metadata": {"name": "a", "annotations": {"copy": "c2VjcmV0"}, "labels": {"team": "a"}},
        })
    }

    #[test]
    fn what_stays_of_a_secret_is_a_verdict() {
        let mut body = secret(TLS_TYPE, &json!({"tls.crt": "c2Vj\ncmV0", "tls.key": ""}));
        assert_eq!(take_material(&mut body), Ok(None));
        assert_eq!(
            body,
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": TLS_TYPE,
                "metadata": {"name": "a", "labels": {"team": "a"}},
                "material": {"problem": "tls.crt holds no certificate; put one in as -----BEGIN CERTIFICATE-----"},
            })
        );
        let mut other = secret("Opaque", &json!({"password": "c2VjcmV0"}));
        assert_eq!(take_material(&mut other), Ok(None));
        assert!(!other.to_string().contains("c2VjcmV0"), "{other}");
    }

    #[test]
    fn what_an_api_server_refuses_is_refused_without_a_byte_of_it() {
        for (data, strings, field) in [
            (json!({"tls.crt": "c2VjcmV0!"}), json!(null), "data[tls.crt]"),
            (json!({"tls.crt": 7}), json!(null), "data[tls.crt]"),
            (json!(["c2VjcmV0"]), json!(null), "data"),
            (json!(null), json!("c2VjcmV0"), "stringData"),
            (json!({"tls.crt": "c2VjcmV0"}), json!(null), "data[tls.key]"),
            (json!({}), json!({"tls.key": "c2VjcmV0"}), "data[tls.crt]"),
            (json!({}), json!({"x": "s".repeat(SIZE_MAX + 1)}), "data"),
        ] {
            let mut body = secret(TLS_TYPE, &data);
            body["stringData"] = strings;
            let refusal = take_material(&mut body).unwrap_err();
            assert_eq!(refusal.field, field);
            let shown = format!("{body} {refusal:?}");
            assert!(!shown.contains("c2VjcmV0"), "{shown}");
        }
    }
}
