//! The one closed set of things that can happen.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use tidegate_model::{BUNDLE_ENTRY, ClientId, Epoch, Kind, Millis, Name, NamespacedName, ObjectKey, ResourceType};

/// Something that happened outside. The only way into the dataflow, and one line of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// The object exists, whole, in this form. Conclude: whatever was known of its key is replaced.
    Apply(Object),
    /// The object is gone. Conclude: everything made of it is retracted. Void if it was not there.
    Delete(ObjectKey),
    /// The initial list of the kind was sent whole. Conclude: what is not known of this kind does not exist.
    Synced(Kind),
    /// The kind alone cannot be read. Conclude: nothing about its objects, ever, until it is synced.
    Unreadable {
        /// The kind.
        kind: Kind,
        /// Why, for people.
        reason: String,
    },
    /// A fact with a lifetime has come to its end. Void unless `renewed` is the newest renewal of the object.
    Expired {
        /// The object whose fact expired.
        key: ObjectKey,
        /// The renewal that this expiry belongs to, in milliseconds since the Unix epoch.
        renewed: Millis,
    },
    /// A client opened a stream. Says nothing about objects.
    Connect {
        /// Who.
        client: ClientId,
        /// The Gateway whose configuration it gets.
        gateway: NamespacedName,
    },
    /// A client's stream ended. Says nothing about objects.
    Disconnect {
        /// Who.
        client: ClientId,
    },
    /// A client rejected a response. Says nothing about objects.
    Rejected {
        /// Who.
        client: ClientId,
        /// Of which type.
        resource_type: ResourceType,
        /// Names and versions of the resources in the response.
        resources: Vec<(Name, Name)>,
        /// The client's message, without dumped material.
        detail: String,
    },
}

impl Event {
    /// Whether the event says something about objects, so that translation must look at it.
    #[must_use]
    pub fn concerns_objects(&self) -> bool {
        match self {
            Event::Apply(_)
            | Event::Delete(_)
            | Event::Synced(_)
            | Event::Unreadable { .. }
            | Event::Expired { .. } => true,
            Event::Connect { .. } | Event::Disconnect { .. } | Event::Rejected { .. } => false,
        }
    }
}

/// A whole object as an API server would return it, without `managedFields`, the last-applied annotation and
/// `status` but that of an EndpointReport; of a Secret without its material, in place of which stands a verdict; of a ConfigMap with its CA
/// certificates alone. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its key, read from `body`.
    pub key: ObjectKey,
    /// `apiVersion`, `kind`, `metadata`, `spec` and whatever else the kind has.
    pub body: Arc<Value>,
}

/// The line that closes an epoch: the events since the previous seal are one batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The epoch.
    pub epoch: Epoch,
    /// When the batch was taken.
    pub millis: Millis,
    /// How many events it holds.
    pub events: u64,
    /// Multiset hash of every published resource and derived condition, in hexadecimal.
    pub digest: String,
}

impl Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.body.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Object::new(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Annotation in which `kubectl apply` keeps a second copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The longest name of an object or namespace, in bytes.
const NAME_MAX: usize = 253;

impl Object {
    /// Reads the key out of an object and strips what nothing derives from: `metadata.managedFields`, the last-applied
    /// annotation and `status`, unless it is what a reporter says. Fields are sorted by name, so that equal objects make equal lines.
    ///
    /// # Errors
    ///
    /// Says which of `apiVersion`, `kind`, `metadata.name` or `metadata.namespace` is missing or of no use.
    pub fn new(mut body: Value) -> Result<Self, String> {
        let key = read_key(&body)?;
        strip(&mut body, key.kind);
        body.sort_all_objects();
        Ok(Object { key, body: Arc::new(body) })
    }
}

/// The text at `pointer`, none if it is absent or null.
fn text<'a>(body: &'a Value, pointer: &str, field: &str) -> Result<Option<&'a str>, String> {
    match body.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Err(format!("{field} is empty")),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{field} is not a text; put it in quotes")),
    }
}

fn read_key(body: &Value) -> Result<ObjectKey, String> {
    if !body.is_object() {
        return Err("not an object with fields".to_owned());
    }
    let api_version = text(body, "/apiVersion", "apiVersion")?.ok_or("apiVersion is missing")?;
    let kind = text(body, "/kind", "kind")?.ok_or("kind is missing")?;
    let known = Kind::of(api_version, kind)
        .ok_or_else(|| format!("{} is not a kind that is read", shown(api_version, kind)))?;
    let name = text(body, "/metadata/name", "metadata.name")?.ok_or("metadata.name is missing")?;
    check_name(name, "metadata.name")?;
    let namespace = text(body, "/metadata/namespace", "metadata.namespace")?.unwrap_or("default");
    check_name(namespace, "metadata.namespace")?;
    Ok(ObjectKey::new(known, namespace, name))
}

/// A version and kind as a message shows them: on one line that somebody reads.
fn shown(api_version: &str, kind: &str) -> String {
    let all = api_version.chars().chain([' ']).chain(kind.chars());
    all.take(160).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// An RFC 1123 subdomain, as an API server demands. What is not one could not be told from `namespace/name`, or would
/// break names made of it.
fn check_name(name: &str, field: &str) -> Result<(), String> {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_alphanumeric)
            && label.ends_with(is_alphanumeric)
            && label.chars().all(|c| is_alphanumeric(c) || c == '-')
    };
    if name.len() <= NAME_MAX && name.split('.').all(is_label) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(format!(
        "{field} {shown:?} is not a name: up to {NAME_MAX} of a-z, 0-9, '-' and '.', beginning and ending with a \
         letter or digit"
    ))
}

fn strip(body: &mut Value, kind: Kind) {
    let Some(fields) = body.as_object_mut() else { return };
    if kind != Kind::EndpointReport {
        fields.remove("status");
    }
    if kind == Kind::Secret {
        // Sources take the material out and judge it. Should one forget to, it ends here.
        fields.remove("data");
        fields.remove("stringData");
    }
    if kind == Kind::ConfigMap {
        // As above: what may be anything is nobody's business.
        fields.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "data" | "binaryData"));
        for entries in ["data", "binaryData"] {
            match fields.get_mut(entries).and_then(Value::as_object_mut) {
                Some(entries) => entries.retain(|entry, _| entry == BUNDLE_ENTRY),
                None => _ = fields.remove(entries),
            }
        }
    }
    let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.remove("managedFields");
    if matches!(kind, Kind::Secret | Kind::ConfigMap) {
        metadata.remove("annotations");
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
        && annotations.remove(LAST_APPLIED).is_some()
        && annotations.is_empty()
    {
        metadata.remove("annotations");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(metadata: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": []}})
    }

    #[test]
    fn what_nothing_derives_from_is_stripped() {
        let mut body = service(&json!({
            "name": "cart",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {LAST_APPLIED: "{}"},
        }));
        body["status"] = json!({"loadBalancer": {}});
        let object = Object::new(body).unwrap();
        assert_eq!(*object.body, service(&json!({"name": "cart"})));
        assert_eq!(object.key.to_string(), "Service default/cart");
    }

    #[test]
    fn of_a_report_the_status_is_what_it_says() {
        let body = json!({
            "apiVersion": "tidegate.dev/v1alpha1", "kind": "EndpointReport", "metadata": {"name": "a"},
            "status": {"endpoints": []},
        });
        assert_eq!(*Object::new(body.clone()).unwrap().body, body);
    }

    #[test]
    fn no_material_of_a_secret_is_in_an_object() {
        let object = Object::new(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"a": "b"}, "stringData": {"a": "b"},
            "metadata": {"name": "a", "annotations": {"copy": "b"}},
        }));
        let left = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "Opaque"});
        assert_eq!(*object.unwrap().body, left);
    }

    #[test]
    fn of_a_config_map_the_ca_certificates_stay_and_nothing_else() {
        let object = |data: Value| {
            let metadata = json!({"name": "a", "annotations": {"copy": "b"}});
            let mut body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": true});
            body["data"] = data;
            Object::new(body).unwrap()
        };
        let left = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"ca.crt": "c"}});
        assert_eq!(*object(json!({"ca.crt": "c", "password": "d"})).body, left);
        assert_eq!(object(json!(["d"])).body.get("data"), None);
    }

    #[test]
    fn other_annotations_stay() {
        let body = service(&json!({"name": "cart", "annotations": {LAST_APPLIED: "{}", "team": "a"}}));
        let object = Object::new(body).unwrap();
        assert_eq!(object.body["metadata"]["annotations"], json!({"team": "a"}));
        let untouched = service(&json!({"name": "cart", "annotations": {}}));
        assert_eq!(*Object::new(untouched.clone()).unwrap().body, untouched);
    }

    #[test]
    fn every_part_of_the_key_that_is_of_no_use_is_named() {
        for (body, expected) in [
            (json!([]), "not an object"),
            (json!({"kind": "Service"}), "apiVersion is missing"),
            (json!({"apiVersion": "v1"}), "kind is missing"),
            (json!({"apiVersion": 1, "kind": "Service"}), "apiVersion is not a text"),
            (json!({"apiVersion": "v1", "kind": "Pod"}), "v1 Pod is not a kind"),
            (service(&json!({})), "metadata.name is missing"),
            (service(&json!(null)), "metadata.name is missing"),
            (service(&json!({"name": ""})), "metadata.name is empty"),
            (service(&json!({"name": 7})), "metadata.name is not a text"),
            (service(&json!({"name": "a/b"})), "metadata.name \"a/b\" is not a name"),
            (service(&json!({"name": "a..b"})), "is not a name"),
            (service(&json!({"name": "Cart"})), "is not a name"),
            (service(&json!({"name": "a".repeat(254)})), "is not a name"),
            (service(&json!({"name": "a", "namespace": "b/c"})), "metadata.namespace \"b/c\" is not a name"),
        ] {
            let error = Object::new(body).unwrap_err();
            assert!(error.contains(expected), "{error:?} should contain {expected:?}");
        }
    }

    #[test]
    fn the_lines_of_a_log_are_what_the_format_says() {
        let line = |event: &Event| serde_json::to_string(event).unwrap();
        let key = ObjectKey::new(Kind::HttpRoute, "shop", "cart");
        assert_eq!(line(&Event::Delete(key.clone())), r#"{"delete":{"kind":"HTTPRoute","name":"shop/cart"}}"#);
        assert_eq!(line(&Event::Synced(Kind::Gateway)), r#"{"synced":"Gateway"}"#);
        let object = Object::new(service(&json!({"name": "cart"}))).unwrap();
        assert_eq!(
            line(&Event::Apply(object)),
            r#"{"apply":{"apiVersion":"v1","kind":"Service","metadata":{"name":"cart"},"spec":{"ports":[]}}}"#
        );
        assert_eq!(
            line(&Event::Expired { key, renewed: 7 }),
            r#"{"expired":{"key":{"kind":"HTTPRoute","name":"shop/cart"},"renewed":7}}"#
        );
    }
}
