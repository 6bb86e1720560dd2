//! The incremental digest: four 64-bit lanes added with wrap-around, over the BLAKE3 hash of every row.
//!
//! Addition forgets order and undoes what was added, so the digest of a seal follows from the one before and the rows
//! that changed. It is no XOR, under which a row that stands twice would vanish.

use crate::resource::{Variants, Version, When};
use crate::row::Row;
use std::fmt;
use std::str::FromStr;

/// A multiset hash of rows. Shown as 64 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest([u64; 4]);

/// Why a text is no digest.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is no digest: 64 hexadecimal digits are")]
pub struct ParseError {
    text: String,
}

impl Digest {
    /// Adds `row` as often as `diff` says; a negative `diff` takes it away.
    pub fn add(&mut self, row: &Row, diff: isize) {
        let lanes = lanes(&row_hash(row));
        // Two's complement: multiplying by a negative number subtracts.
        let factor = diff as u64;
        for (lane, value) in self.0.iter_mut().zip(lanes) {
            *lane = lane.wrapping_add(value.wrapping_mul(factor));
        }
    }
}

impl<'a> Extend<&'a (Row, isize)> for Digest {
    fn extend<I: IntoIterator<Item = &'a (Row, isize)>>(&mut self, changes: I) {
        changes.into_iter().for_each(|(row, diff)| self.add(row, *diff));
    }
}

fn lanes(hash: &blake3::Hash) -> [u64; 4] {
    let bytes = hash.as_bytes();
    std::array::from_fn(|lane| u64::from_le_bytes(std::array::from_fn(|byte| bytes[lane * 8 + byte])))
}

/// The hash over type, scope, name and version of what the row holds. It is part of recorded logs: the texts here may
/// not change.
fn row_hash(row: &Row) -> blake3::Hash {
    match row {
        Row::Gateway(gateway) => hash(&["gateway", gateway.as_str()], &[]),
        Row::Listener(gateway, listener) => {
            let resource = &listener.resource;
            hash(&["listener", gateway.as_str(), &resource.name], &[resource.version])
        }
        Row::Table(gateway, table) => hash(&["table", gateway.as_str(), table], &[]),
        Row::VirtualHost(gateway, table, host, content) => {
            hash(&["virtual host", gateway.as_str(), table, host.as_str()], &[content.version])
        }
        Row::Secret(gateway, secret) => hash(&["secret", gateway.as_str(), &secret.name], &[secret.version]),
        Row::Member(gateway, cluster) => hash(&["member", gateway.as_str(), cluster], &[]),
        Row::Shows(gateway, cluster, secret) => hash(&["shows", gateway.as_str(), cluster, secret], &[]),
        Row::Cluster(name, variants) => variants_hash("cluster", name, variants),
        Row::Endpoints(name, variants) => variants_hash("endpoints", name, variants),
        Row::KubeNode(name, locality) => {
            let texts = ["node", name].into_iter().chain(locality.levels().map(|level| &**level));
            hash(&texts.collect::<Vec<_>>(), &[])
        }
        Row::Status(object, status) => {
            let json = serde_json::to_vec(status).expect("a status is made of texts, numbers and lists");
            hash(&["status", object.kind.as_str(), object.name.as_str()], &[Version::of(&json)])
        }
        Row::Held(held) => {
            let json = serde_json::to_vec(held).expect("a held entry is made of texts, numbers and lists");
            hash(&["held", held.gateway.as_str(), &held.table, held.host.as_str(), &held.entry], &[Version::of(&json)])
        }
    }
}

fn variants_hash(kind: &str, name: &str, variants: &Variants) -> blake3::Hash {
    let mut texts = vec![kind, name];
    for variant in variants.all() {
        match &variant.when {
            When::Any => {}
            When::Locality(prefix) => {
                texts.push("locality");
                texts.extend(prefix.levels().iter().map(|level| &**level));
            }
        }
    }
    let versions: Vec<Version> = variants.all().iter().map(|variant| variant.resource.version).collect();
    hash(&texts, &versions)
}

fn hash(texts: &[&str], versions: &[Version]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        // With its length, so that no two lists of texts run into the same bytes.
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    for version in versions {
        hasher.update(version.as_bytes());
    }
    hasher.finalize()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|lane| write!(f, "{lane:016x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut lanes = [0; 4];
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ParseError { text: text.to_owned() });
        }
        for (lane, digits) in lanes.iter_mut().enumerate().map(|(i, lane)| (lane, &text[i * 16..(i + 1) * 16])) {
            *lane = u64::from_str_radix(digits, 16).expect("checked to be hexadecimal digits");
        }
        Ok(Digest(lanes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Resource;
    use tidegate_model::NamespacedName;

    fn rows() -> Vec<Row> {
        let gateway = NamespacedName::new("shop", "public");
        let variants = |content: &'static [u8]| Variants::any(Resource::new("a".into(), content.into()));
        vec![
            Row::Gateway(gateway.clone()),
            Row::Table(gateway.clone(), "http-80".into()),
            Row::Member(gateway, "http-80".into()),
            Row::Cluster("a".into(), variants(b"1")),
            Row::Endpoints("a".into(), variants(b"1")),
            Row::Endpoints("a".into(), variants(b"2")),
        ]
    }

    #[test]
    fn rows_can_come_in_any_order_and_go_again() {
        let (mut forth, mut back) = (Digest::default(), Digest::default());
        rows().iter().for_each(|row| forth.add(row, 1));
        rows().iter().rev().for_each(|row| back.add(row, 1));
        assert_eq!(forth, back);
        assert_ne!(forth, Digest::default());
        rows().iter().for_each(|row| forth.add(row, -1));
        assert_eq!(forth, Digest::default());
    }

    #[test]
    fn rows_that_differ_in_type_scope_name_or_version_have_different_digests() {
        let digests = rows().into_iter().map(|row| {
            let mut digest = Digest::default();
            digest.add(&row, 1);
            digest.to_string()
        });
        let distinct: std::collections::BTreeSet<String> = digests.collect();
        assert_eq!(distinct.len(), rows().len());
    }

    #[test]
    fn a_row_that_stands_twice_does_not_vanish() {
        let mut digest = Digest::default();
        digest.add(&rows()[0], 2);
        assert_ne!(digest, Digest::default());
    }

    #[test]
    fn the_text_of_a_digest_reads_back() {
        let mut digest = Digest::default();
        rows().iter().for_each(|row| digest.add(row, 1));
        assert_eq!(digest.to_string().len(), 64);
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        for bad in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
            bad.parse::<Digest>().unwrap_err();
        }
    }
}
