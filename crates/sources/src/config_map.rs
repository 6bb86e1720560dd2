//! ConfigMaps on their way in: what stays of one are its CA certificates, for nothing else of it is anybody's business
//! here.

use crate::secret::{METADATA, Refusal, SIZE_MAX, texts};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tidegate_model::{BUNDLE_ENTRY, BUNDLE_KEY_MARK};

/// Takes everything out of a ConfigMap, as a file or an API server has it, but the entry [`BUNDLE_ENTRY`] of `data` or
/// `binaryData`.
///
/// # Errors
///
/// What an API server would refuse it for. Then `body` is emptied of all entries.
pub fn keep_bundle(body: &mut Value) -> Result<(), Refusal> {
    let Some(fields) = body.as_object_mut() else { return Ok(()) };
    let (data, binary) = (fields.remove("data"), fields.remove("binaryData"));
    fields.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| METADATA.contains(&name.as_str()));
    }
    let data: BTreeMap<String, String> = texts("data", data)?.into_iter().collect();
    let binary: BTreeMap<String, String> = texts("binaryData", binary)?.into_iter().collect();
    for (name, text) in &binary {
        let text: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
        if BASE64_STANDARD.decode(text).is_err() {
            let message = "is not base64; encode it, or write it under data as it is";
            return Err(Refusal::new(format!("binaryData[{name}]"), message));
        }
    }
    if let Some(name) = data.keys().find(|name| binary.contains_key(*name)) {
        return Err(Refusal::new(format!("data[{name}]"), "is under binaryData too; remove one of them"));
    }
    let size: usize = data.values().chain(binary.values()).map(String::len).sum();
    if size > SIZE_MAX {
        let message = format!("holds {size} bytes, {SIZE_MAX} are allowed; take out what is not needed");
        return Err(Refusal::new("data", message));
    }
    for (field, mut entries) in [("data", data), ("binaryData", binary)] {
        if let Some(bundle) = entries.remove(BUNDLE_ENTRY) {
            let bundle = if field == "data" { without_keys(&bundle) } else { encoded_without_keys(bundle) };
            let kept = Map::from_iter([(BUNDLE_ENTRY.to_owned(), Value::from(bundle))]);
            fields.insert(field.to_owned(), kept.into());
        }
    }
    Ok(())
}

/// A bundle without private keys: somebody put them beside the certificates, and they go no further than this. A mark
/// stands in their place.
fn without_keys(text: &str) -> String {
    let mut kept = String::new();
    let mut within = false;
    for line in text.split_inclusive('\n') {
        let begins = line.contains("-----BEGIN ");
        let key = line.contains("PRIVATE KEY-----");
        if begins && key {
            kept.push_str(BUNDLE_KEY_MARK);
            kept.push('\n');
        }
        within = if begins { key } else { within };
        if !within {
            kept.push_str(line);
        }
        within &= !line.contains("-----END ");
    }
    kept
}

/// The same for one in base64, which was decoded before without an error.
fn encoded_without_keys(encoded: String) -> String {
    let plain: String = encoded.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let decoded = BASE64_STANDARD.decode(plain).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded {
        Some(text) if text.contains("PRIVATE KEY-----") => BASE64_STANDARD.encode(without_keys(&text)),
        Some(_) | None => encoded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config_map(data: &Value, binary: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": data, "binaryData": binary,
            "metadata": {"name": "a", "annotations": {"copy": "password"}},
        })
    }

    #[test]
    fn what_stays_of_a_config_map_are_its_ca_certificates() {
        let mut body = config_map(&json!({"ca.crt": "pem", "password": "password"}), &json!({"x": "cGFzc3dvcmQ="}));
        assert_eq!(keep_bundle(&mut body), Ok(()));
        let left =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"ca.crt": "pem"}});
        assert_eq!(body, left);
        let mut binary = config_map(&json!(null), &json!({"ca.crt": "cGVt"}));
        assert_eq!(keep_bundle(&mut binary), Ok(()));
        assert_eq!(binary["binaryData"], json!({"ca.crt": "cGVt"}));
    }

    #[test]
    fn a_private_key_beside_the_certificates_goes_no_further() {
        let key = "-----BEGIN EC PRIVATE KEY-----\npassword\n-----END EC PRIVATE KEY-----\n";
        for (text, left) in [
            (format!("a\n{key}b\n"), format!("a\n{BUNDLE_KEY_MARK}\nb\n")),
            ("-----BEGIN PRIVATE KEY-----\npassword".to_owned(), format!("{BUNDLE_KEY_MARK}\n")),
            (
                format!("-----BEGIN PRIVATE KEY-----\npassword\n{key}-----BEGIN CERTIFICATE-----\nb"),
                format!("{BUNDLE_KEY_MARK}\n{BUNDLE_KEY_MARK}\n-----BEGIN CERTIFICATE-----\nb"),
            ),
        ] {
            let mut body = config_map(&json!({"ca.crt": text}), &json!(null));
            assert_eq!(keep_bundle(&mut body), Ok(()));
            assert_eq!(body["data"]["ca.crt"], left);
            let mut body = config_map(&json!(null), &json!({"ca.crt": BASE64_STANDARD.encode(text)}));
            assert_eq!(keep_bundle(&mut body), Ok(()));
            assert_eq!(body["binaryData"]["ca.crt"], BASE64_STANDARD.encode(left));
        }
    }

    #[test]
    fn what_an_api_server_refuses_is_refused_without_a_byte_of_it() {
        for (data, binary, field) in [
            (json!(["password"]), json!(null), "data"),
            (json!({"a": 7, "b": "password"}), json!(null), "data[a]"),
            (json!(null), json!({"a": "password!"}), "binaryData[a]"),
            (json!({"a": "password"}), json!({"a": "cGVt"}), "data[a]"),
            (json!({"a": "s".repeat(SIZE_MAX + 1)}), json!(null), "data"),
        ] {
            let mut body = config_map(&data, &binary);
            let refusal = keep_bundle(&mut body).unwrap_err();
            assert_eq!(refusal.field, field);
            let shown = format!("{body} {refusal:?}");
            assert!(!shown.contains("password"), "{shown}");
        }
    }
}
