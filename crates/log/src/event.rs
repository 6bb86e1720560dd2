//! The one closed set of things that can happen.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use tidegate_model::{ClientId, Epoch, Kind, Millis, Name, NamespacedName, ObjectKey, ResourceType};

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
/// `status`. Cheap to clone.
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

impl Object {
    /// Reads the key out of an object.
    ///
    /// # Errors
    ///
    /// Says which of `apiVersion`, `kind`, `metadata.name` or `metadata.namespace` is missing or of no use.
    pub fn new(body: Value) -> Result<Self, String> {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let api_version = text("/apiVersion").ok_or("apiVersion is missing")?;
        let kind = text("/kind").ok_or("kind is missing")?;
        let known = Kind::of(api_version, kind).ok_or_else(|| format!("{api_version} {kind} is not a kind that is read"))?;
        let name = text("/metadata/name").ok_or("metadata.name is missing")?;
        let key = ObjectKey::new(known, text("/metadata/namespace").unwrap_or("default"), name);
        Ok(Object { key, body: Arc::new(body) })
    }
}
