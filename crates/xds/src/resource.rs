//! Encoded resources: bytes that are made once and shared by every client, with versions that are content hashes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use tidegate_model::Name;

/// The version of a resource: the first 16 bytes of the BLAKE3 hash of its content. Equal content has equal versions
/// in every replica and after every restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version([u8; 16]);

impl Version {
    /// The version of `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Version::from_hash(&blake3::hash(content))
    }

    /// The version of something hashed piece by piece.
    #[must_use]
    pub fn from_hash(hash: &blake3::Hash) -> Self {
        let mut short = [0; 16];
        short.copy_from_slice(&hash.as_bytes()[..16]);
        Version(short)
    }

    /// The version that is written so: 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Version(bytes))
    }

    /// The raw bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An encoded resource. Clones share the bytes. Compares by name and version alone: equal versions are equal bytes.
#[derive(Clone, Serialize, Deserialize)]
pub struct Resource {
    /// Resource name.
    pub name: Name,
    /// Content hash of `bytes`.
    pub version: Version,
    /// The encoded message.
    pub bytes: Bytes,
}

impl Resource {
    /// A resource of this name and content.
    #[must_use]
    pub fn new(name: Name, bytes: Bytes) -> Self {
        Resource { name, version: Version::of(&bytes), bytes }
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Resource {}

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Resource {
    fn cmp(&self, other: &Self) -> Ordering {
        self.version.cmp(&other.version).then_with(|| self.name.cmp(&other.name))
    }
}

impl std::hash::Hash for Resource {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.version.hash(state);
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} ({} bytes)", self.name, self.version, self.bytes.len())
    }
}

/// The forms of one named resource, for clients that differ. A client gets the variant whose condition fits it best;
/// [`When::Any`] is always there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Variants(Arc<[Variant]>);

impl Variants {
    /// One form for everybody.
    #[must_use]
    pub fn any(resource: Resource) -> Self {
        Variants(Arc::from([Variant { when: When::Any, resource }]))
    }

    /// The form for everybody who has no better one.
    #[must_use]
    pub fn default_form(&self) -> &Resource {
        &self.0[0].resource
    }

    /// The form for a client: the first other than [`When::Any`] that `is_for` holds for, else that one.
    #[must_use]
    pub fn choose(&self, is_for: impl Fn(&When) -> bool) -> &Resource {
        self.0[1..]
            .iter()
            .find(|variant| is_for(&variant.when))
            .map_or(self.default_form(), |variant| &variant.resource)
    }

    /// Every form, [`When::Any`] first.
    #[must_use]
    pub fn all(&self) -> &[Variant] {
        &self.0
    }
}

/// One form of a resource and whom it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// Whom it is for.
    pub when: When,
    /// The form.
    pub resource: Resource,
}

/// Whom a variant is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum When {
    /// Every client.
    Any,
}
