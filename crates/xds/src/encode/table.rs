//! Tables and virtual hosts: put together from what is already encoded.
//!
//! A message is the concatenation of its fields, so a table is built from the bytes of its virtual hosts, and a virtual
//! host from those of its entries, without decoding any: a changed route costs the length of its table in copied bytes
//! and nothing else.

use crate::ir;
use crate::resource::Version;
use crate::row::{EncodedEntry, VirtualHost};
use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use tidegate_model::{HeaderModifier, Hostname, HttpMatch, PathMatch};
use tidegate_proto::envoy::config::route::v3 as envoy;
use tidegate_proto::google::protobuf::BoolValue;

/// `VirtualHost.routes`.
const ROUTES: u32 = 3;
/// `RouteConfiguration.virtual_hosts`.
const VIRTUAL_HOSTS: u32 = 2;

/// The encoded `envoy.config.route.v3.VirtualHost` of these entries, in this order.
#[must_use]
pub fn virtual_host(name: &Hostname, entries: Vec<EncodedEntry>) -> VirtualHost {
    let head = envoy::VirtualHost {
        name: name.to_string(),
        domains: vec![name.as_str().to_owned()],
        ..envoy::VirtualHost::default()
    };
    let mut bytes = Vec::with_capacity(head.encoded_len() + parts_len(entries.iter().map(|entry| &entry.bytes)));
    bytes.extend(head.encode_to_vec());
    for entry in &entries {
        put_part(ROUTES, &entry.bytes, &mut bytes);
    }
    VirtualHost { version: Version::of(&bytes), bytes: bytes.into(), entries }
}

/// A virtual host that answers every request with 421: its hosts are another listener's.
#[must_use]
pub fn misdirected(name: &Hostname) -> VirtualHost {
    let matcher = HttpMatch { path: PathMatch::Prefix("/".into()), headers: vec![], query: vec![], method: None };
    let entry = ir::Entry {
        id: "misdirected".into(),
        matcher,
        action: ir::Action::Respond(421),
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    };
    virtual_host(name, vec![super::entry(&entry)])
}

/// The encoded `envoy.config.route.v3.RouteConfiguration` of these virtual hosts, in this order.
#[must_use]
pub fn table(name: &str, hosts: &[&VirtualHost]) -> Bytes {
    let (head, tail) = (table_head(name), table_tail());
    let mut bytes = Vec::with_capacity(head.len() + parts_len(hosts.iter().map(|host| &host.bytes)) + tail.len());
    bytes.extend(head);
    for host in hosts {
        put_part(VIRTUAL_HOSTS, &host.bytes, &mut bytes);
    }
    bytes.extend(tail);
    bytes.into()
}

/// The version of [`table`] of the same, from the versions of its parts alone.
#[must_use]
pub fn table_version<'a>(name: &str, hosts: impl Iterator<Item = &'a VirtualHost>) -> Version {
    let mut hasher = blake3::Hasher::new();
    // Versions have one length, so what is not one cannot be mistaken for one if its length is told.
    for part in [table_head(name), table_tail()] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(&part);
    }
    for host in hosts {
        hasher.update(host.version.as_bytes());
    }
    Version::from_hash(&hasher.finalize())
}

fn table_head(name: &str) -> Vec<u8> {
    envoy::RouteConfiguration { name: name.to_owned(), ..envoy::RouteConfiguration::default() }.encode_to_vec()
}

/// What all tables have in common; field numbers after that of the virtual hosts.
fn table_tail() -> Vec<u8> {
    let tail = envoy::RouteConfiguration {
        // A cluster that is not there answers 500 on its own routes; it must not make Envoy refuse the table.
        validate_clusters: Some(BoolValue { value: false }),
        ignore_port_in_host_matching: true,
        ..envoy::RouteConfiguration::default()
    };
    tail.encode_to_vec()
}

fn put_part(field: u32, part: &[u8], to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(part.len() as u64, to);
    to.extend_from_slice(part);
}

/// The length of the parts with their tags (of one byte) and lengths.
fn parts_len<'a>(parts: impl Iterator<Item = &'a Bytes>) -> usize {
    parts.map(|part| 1 + encoded_len_varint(part.len() as u64) + part.len()).sum()
}
