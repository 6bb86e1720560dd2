//! Encoded resources: bytes that are made once and shared by every client, with versions that are content hashes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::sync::Arc;
use tidegate_model::{Locality, LocalityPrefix, Name};

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

/// The forms of one named resource, for clients that differ. A client gets the one whose condition fits it best;
/// [`When::Any`] is always there, and first. The others follow by locality, the narrowest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Variants(Arc<[Variant]>);

impl Variants {
    /// One form for everybody.
    #[must_use]
    pub fn any(resource: Resource) -> Self {
        Variants(Arc::from([Variant { when: When::Any, resource }]))
    }

    /// One form for everybody but the clients in some localities, of which each is there once.
    #[must_use]
    pub fn by_locality(any: Resource, forms: impl IntoIterator<Item = (LocalityPrefix, Resource)>) -> Self {
        let forms = forms.into_iter().map(|(prefix, resource)| Variant { when: When::Locality(prefix), resource });
        let mut all: Vec<Variant> = std::iter::once(Variant { when: When::Any, resource: any }).chain(forms).collect();
        all[1..].sort_by(|a, b| a.when.rank().cmp(&b.when.rank()));
        Variants(all.into())
    }

    /// The form for everybody who has no better one.
    #[must_use]
    pub fn default_form(&self) -> &Resource {
        &self.0[0].resource
    }

    /// The form for a client there: that of the narrowest of its localities that has one, else the one for everybody.
    #[must_use]
    pub fn choose(&self, locality: &Locality) -> &Resource {
        let located = &self.0[1..];
        let longest = located.first().map_or(0, |variant| variant.when.levels().len());
        let levels = locality.levels();
        let form = |depth: usize| {
            let own = (Reverse(depth), levels.iter().take(depth).map(|level| &***level));
            let found = located.binary_search_by(|variant| {
                let levels = variant.when.levels();
                Reverse(levels.len()).cmp(&own.0).then_with(|| levels.iter().map(|level| &**level).cmp(own.1.clone()))
            });
            found.ok().map(|place| &located[place].resource)
        };
        (1..=longest).rev().find_map(form).unwrap_or(self.default_form())
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
    /// Clients whose locality begins so, unless there is a variant for a longer beginning of it.
    Locality(LocalityPrefix),
}

impl When {
    /// The levels that a client's locality must have.
    fn levels(&self) -> &[Name] {
        match self {
            When::Any => &[],
            When::Locality(prefix) => prefix.levels(),
        }
    }

    /// The order among those of localities.
    fn rank(&self) -> (Reverse<usize>, &[Name]) {
        (Reverse(self.levels().len()), self.levels())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locality(levels: [&str; 3]) -> Locality {
        let [region, zone, host] = levels.map(Name::from);
        Locality { region, zone, host, ..Locality::default() }
    }

    fn form(content: &str) -> Resource {
        Resource::new("a".into(), Bytes::copy_from_slice(content.as_bytes()))
    }

    #[test]
    fn a_client_gets_the_form_of_its_narrowest_locality_that_has_one() {
        let prefix = |levels, depth| locality(levels).prefix(depth);
        let forms = [
            (prefix(["r1", "", ""], 2), form("r1")),
            (prefix(["r1", "z1", ""], 3), form("r1 z1")),
            (prefix(["r1", "z2", ""], 3), form("r1 z2")),
            (prefix(["r1", "z1", "h"], 5), form("r1 z1 h")),
            (prefix(["r2", "z1", ""], 3), form("r2 z1")),
        ];
        let variants = Variants::by_locality(form("any"), forms);
        let chosen = |levels| String::from_utf8(variants.choose(&locality(levels)).bytes.to_vec()).unwrap();
        for (levels, expected) in [
            (["r1", "z1", "h"], "r1 z1 h"),
            (["r1", "z1", "i"], "r1 z1"),
            (["r1", "z2", "h"], "r1 z2"),
            (["r1", "z3", "h"], "r1"),
            (["r2", "z1", "h"], "r2 z1"),
            (["r2", "z2", "h"], "any"),
            (["", "z1", "h"], "any"),
            (["", "", ""], "any"),
        ] {
            assert_eq!(chosen(levels), expected, "{levels:?}");
        }
        assert_eq!(Variants::any(form("any")).choose(&locality(["r1", "z1", "h"])), &form("any"));
    }
}
