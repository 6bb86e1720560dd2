//! Canonical JSON of any message by its type name, with proto field names and every nested `Any` expanded.
//!
//! `prost-reflect` knows the mapping but refuses a message that holds an `Any` of a type it does not have. Here such a
//! value becomes `{"@type": ..., "value": <base64>}`: a dump that shows all but one thing beats no dump.

use crate::DESCRIPTORS;
use crate::any::{TYPE_URL_PREFIX, message_name};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    ReflectMessage, SerializeOptions, Value,
};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Why a conversion failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are no encoding of the type.
    #[error("cannot decode {name}: {source}")]
    Decode {
        /// Name of the message.
        name: String,
        /// What the decoder says.
        source: prost::DecodeError,
    },
    /// The JSON does not fit the type.
    #[error("cannot read {name} from json: {source}")]
    Read {
        /// Name of the message.
        name: String,
        /// What the reader says.
        source: serde_json::Error,
    },
    /// No such type here.
    #[error("no message type is called {name:?}; give a full name or a type url of an envoy message")]
    UnknownType {
        /// The name that was given.
        name: String,
    },
}

/// Descriptors of every message that this crate has, for reflection.
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> =
        LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("the build wrote what the compiler encoded"));
    &POOL
}

/// The JSON of the message of this type (a full name or a type URL) that `bytes` encode. Fields that have their
/// default value are left out; equal bytes give equal JSON. A type that is not known gives its bytes in base64.
///
/// # Errors
///
/// The bytes are no encoding of the type. (Inside a nested `Any` even that only gives the bytes.)
pub fn to_json(type_name: &str, bytes: &[u8]) -> Result<Json, Error> {
    let name = message_name(type_name);
    let Some(descriptor) = pool().get_message_by_name(name) else {
        return Ok(opaque(&format!("{TYPE_URL_PREFIX}{name}"), bytes));
    };
    match DynamicMessage::decode(descriptor, bytes) {
        Ok(message) => Ok(message_json(&message)),
        Err(source) => Err(Error::Decode { name: name.to_owned(), source }),
    }
}

/// The encoding of the message of this type (a full name or a type URL) that `value` describes. Map entries
/// stand in no particular order: decode it and encode it again where bytes are compared.
///
/// # Errors
///
/// The type is not known, or `value` has fields that it does not have, or values that do not fit.
pub fn from_json(type_name: &str, value: Json) -> Result<Vec<u8>, Error> {
    let name = message_name(type_name);
    let descriptor = pool().get_message_by_name(name).ok_or_else(|| Error::UnknownType { name: name.to_owned() })?;
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    match DynamicMessage::deserialize_with_options(descriptor, value, &options) {
        Ok(message) => Ok(message.encode_to_vec()),
        Err(source) => Err(Error::Read { name: name.to_owned(), source }),
    }
}

/// What is shown of a value that cannot be read.
fn opaque(type_url: &str, bytes: &[u8]) -> Json {
    json!({ "@type": type_url, "value": BASE64_STANDARD.encode(bytes) })
}

fn message_json(message: &DynamicMessage) -> Json {
    let descriptor = message.descriptor();
    match descriptor.full_name() {
        "google.protobuf.Any" => any_json(message),
        _ if has_own_json(&descriptor) => well_known_json(message),
        _ => {
            let fields = message.fields().map(|(field, value)| (field.name().to_owned(), field_json(&field, value)));
            Json::Object(fields.collect())
        }
    }
}

/// The well-known types that are no JSON object of their fields.
fn has_own_json(descriptor: &MessageDescriptor) -> bool {
    descriptor.package_name() == "google.protobuf"
        && matches!(
            descriptor.name(),
            "Duration"
                | "Timestamp"
                | "FieldMask"
                | "Struct"
                | "Value"
                | "ListValue"
                | "Empty"
                | "BoolValue"
                | "BytesValue"
                | "DoubleValue"
                | "FloatValue"
                | "Int32Value"
                | "Int64Value"
                | "StringValue"
                | "UInt32Value"
                | "UInt64Value"
        )
}

fn well_known_json(message: &DynamicMessage) -> Json {
    message.serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new()).unwrap_or_else(|_| {
        // A duration or timestamp out of its range has no canonical form.
        opaque(&format!("{TYPE_URL_PREFIX}{}", message.descriptor().full_name()), &message.encode_to_vec())
    })
}

fn any_json(any: &DynamicMessage) -> Json {
    let type_url = any.get_field_by_name("type_url").and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    let bytes = any.get_field_by_name("value").and_then(|v| v.as_bytes().cloned()).unwrap_or_default();
    if type_url.is_empty() {
        return json!({});
    }
    let inner = pool().get_message_by_name(message_name(&type_url));
    let Some(Ok(inner)) = inner.map(|descriptor| DynamicMessage::decode(descriptor, bytes.clone())) else {
        return opaque(&type_url, &bytes);
    };
    let own_json = has_own_json(&inner.descriptor()) || inner.descriptor().full_name() == "google.protobuf.Any";
    let mut object = Map::from_iter([("@type".to_owned(), Json::from(type_url))]);
    match message_json(&inner) {
        Json::Object(fields) if !own_json => object.extend(fields),
        value => {
            object.insert("value".to_owned(), value);
        }
    }
    Json::Object(object)
}

fn field_json(field: &FieldDescriptor, value: &Value) -> Json {
    match value {
        Value::List(items) => items.iter().map(|item| value_json(&field.kind(), item)).collect(),
        Value::Map(entries) => {
            let Kind::Message(entry) = field.kind() else { return Json::Null };
            let kind = entry.map_entry_value_field().kind();
            // By key, not as the hash map has them.
            let sorted: BTreeMap<&MapKey, &Value> = entries.iter().collect();
            Json::Object(sorted.into_iter().map(|(key, value)| (key_text(key), value_json(&kind, value))).collect())
        }
        single => value_json(&field.kind(), single),
    }
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

fn value_json(kind: &Kind, value: &Value) -> Json {
    match value {
        Value::Bool(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::U32(value) => json!(value),
        // JSON numbers are doubles: 64-bit integers are texts.
        Value::I64(value) => json!(value.to_string()),
        Value::U64(value) => json!(value.to_string()),
        Value::F32(value) => float_json(f64::from(*value)),
        Value::F64(value) => float_json(*value),
        Value::String(value) => json!(value),
        Value::Bytes(value) => json!(BASE64_STANDARD.encode(value)),
        Value::EnumNumber(number) => match kind {
            Kind::Enum(of) => of.get_value(*number).map_or_else(|| json!(number), |value| json!(value.name())),
            _ => json!(number),
        },
        Value::Message(message) => message_json(message),
        Value::List(items) => items.iter().map(|item| value_json(kind, item)).collect(),
        Value::Map(_) => Json::Null,
    }
}

fn float_json(value: f64) -> Json {
    if value.is_nan() {
        json!("NaN")
    } else if value.is_infinite() {
        json!(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(value)
    }
}
