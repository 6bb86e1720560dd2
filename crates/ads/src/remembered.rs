//! What clients reject, kept beyond their streams and beyond this process: a rejected secret must never be sent again to
//! the process that rejected it, and nobody shall be told the same rejection at every reconnect.

use crate::session::{Client, EntryForm, RejectedEntry, RejectedResource, Rejections};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_model::{Hostname, Millis, Name, NamespacedName, ResourceType};
use tidegate_xds::row::EncodedEntry;
use tidegate_xds::{Resource, Version};
use tokio::sync::watch;

/// How long a client that left is remembered, in milliseconds. Envoy comes back within half a minute; a rollout of
/// controllers may take a few.
const GRACE: Millis = 10 * 60 * 1000;

/// Clients of which rejections are kept. Whoever is above that is tried again when it reconnects.
const MAX_CLIENTS: usize = 10_000;

/// A client's identity beyond its streams: its Gateway and its `node.id`.
type Key = (NamespacedName, Name);

/// What clients reject. Clones share it.
#[derive(Clone, Debug)]
pub struct Remembered {
    clients: Arc<Mutex<BTreeMap<Key, Page>>>,
    changes: watch::Sender<u64>,
}

#[derive(Clone, Debug)]
struct Page {
    rejections: Arc<Rejections>,
    /// When its last stream ended; none while it is connected.
    left: Option<Millis>,
}

impl Default for Remembered {
    fn default() -> Self {
        Remembered { clients: Arc::default(), changes: watch::Sender::new(0) }
    }
}

impl Remembered {
    /// What the client rejects, as far as it is known.
    #[must_use]
    pub fn get(&self, client: &Client) -> Arc<Rejections> {
        self.lock().get(&key(client)).map(|page| page.rejections.clone()).unwrap_or_default()
    }

    /// The client rejects this, and nothing else.
    pub fn put(&self, client: &Client, rejections: Rejections) {
        let key = key(client);
        let mut clients = self.lock();
        if rejections.is_empty() {
            clients.remove(&key);
        } else if clients.len() < MAX_CLIENTS || clients.contains_key(&key) {
            clients.insert(key, Page { rejections: Arc::new(rejections), left: None });
        }
        drop(clients);
        self.changes.send_modify(|number| *number += 1);
    }

    /// The client opened a stream.
    pub fn returned(&self, client: &Client) {
        if let Some(page) = self.lock().get_mut(&key(client)) {
            page.left = None;
        }
    }

    /// A stream of the client ended at `millis`.
    pub fn departed(&self, client: &Client, millis: Millis) {
        if let Some(page) = self.lock().get_mut(&key(client)) {
            page.left = Some(millis);
        }
    }

    /// Forgets who left more than [`GRACE`] before `millis`.
    pub fn sweep(&self, millis: Millis) {
        let mut clients = self.lock();
        let before = clients.len();
        clients.retain(|_, page| page.left.is_none_or(|left| left + GRACE > millis));
        let gone = clients.len() < before;
        drop(clients);
        if gone {
            self.changes.send_modify(|number| *number += 1);
        }
    }

    /// How many clients reject something.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nobody rejects anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Changes its value with every change of the remembered.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Everything, as JSON text that [`Remembered::restore`] reads. Holds no key material: of secrets it has digests.
    #[must_use]
    pub fn to_json(&self) -> String {
        let clients = self.lock();
        let clients = clients.iter().map(|((gateway, node), page)| ClientRecord::new(gateway, node, &page.rejections));
        let file = File { format: FORMAT, clients: clients.collect() };
        serde_json::to_string_pretty(&file).expect("texts and numbers are JSON")
    }

    /// Takes what [`Remembered::to_json`] wrote, by another process maybe. Everybody counts as having left at `millis`.
    ///
    /// # Errors
    ///
    /// The text is not of this format; then nothing is taken.
    pub fn restore(&self, json: &str, millis: Millis) -> Result<(), Unreadable> {
        let file: File = serde_json::from_str(json)?;
        if file.format != FORMAT {
            return Err(Unreadable::Format(file.format));
        }
        let mut read = BTreeMap::new();
        for client in file.clients.into_iter().take(MAX_CLIENTS) {
            let key = (NamespacedName::parse(&client.gateway), client.node.clone());
            read.insert(key, Page { rejections: Arc::new(client.rejections()?), left: Some(millis) });
        }
        self.lock().extend(read);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Page>> {
        // Every change is one call on the map: a panic elsewhere leaves it whole.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(client: &Client) -> Key {
    (client.gateway.clone(), client.id.node.clone())
}

/// A record of rejections that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Not JSON, or not these fields.
    #[error("not a record of rejections: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by a version that this one does not know.
    #[error("record of rejections of format {0}, this version reads {FORMAT}")]
    Format(u32),
    /// A version that is none.
    #[error("{0:?} is not a version: 32 hexadecimal digits")]
    Version(Name),
}

/// The format that is written.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    clients: Vec<ClientRecord>,
}

#[derive(Serialize, Deserialize)]
struct ClientRecord {
    gateway: Name,
    node: Name,
    resources: Vec<ResourceRecord>,
    entries: Vec<EntryRecord>,
}

#[derive(Serialize, Deserialize)]
struct ResourceRecord {
    kind: ResourceType,
    name: Name,
    version: Name,
    detail: Name,
    kept: Option<KeptRecord>,
}

/// A resource. Its version is not always the hash of its bytes: that of a table is one over its virtual hosts.
#[derive(Serialize, Deserialize)]
struct KeptRecord {
    version: Name,
    bytes: Bytes,
}

#[derive(Serialize, Deserialize)]
struct EntryRecord {
    table: Name,
    host: Hostname,
    id: Name,
    version: Name,
    detail: Name,
    kept: Option<EncodedEntry>,
}

impl ClientRecord {
    fn new(gateway: &NamespacedName, node: &Name, rejections: &Rejections) -> Self {
        let resources = rejections.resources.iter().flat_map(|((kind, name), versions)| {
            versions.iter().map(move |rejected| ResourceRecord {
                kind: *kind,
                name: name.clone(),
                version: rejected.version.to_string().into(),
                detail: rejected.detail.clone(),
                kept: rejected
                    .kept
                    .as_ref()
                    .map(|kept| KeptRecord { version: kept.version.to_string().into(), bytes: kept.bytes.clone() }),
            })
        });
        let entries = rejections.entries.iter().flat_map(|(table, entries)| {
            entries.iter().map(move |(form, rejected)| EntryRecord {
                table: table.clone(),
                host: form.host.clone(),
                id: form.id.clone(),
                version: form.version.to_string().into(),
                detail: rejected.detail.clone(),
                kept: rejected.kept.clone(),
            })
        });
        ClientRecord {
            gateway: gateway.as_str().into(),
            node: node.clone(),
            resources: resources.collect(),
            entries: entries.collect(),
        }
    }

    fn rejections(self) -> Result<Rejections, Unreadable> {
        let mut all = Rejections::default();
        for ResourceRecord { kind, name, version, detail, kept } in self.resources {
            let kept = kept.map(|KeptRecord { version, bytes }| {
                parse(version).map(|version| Resource { name: name.clone(), version, bytes })
            });
            let kept = kept.transpose()?;
            let rejected = RejectedResource { version: parse(version)?, detail, kept };
            all.resources.entry((kind, name)).or_default().push(rejected);
        }
        for EntryRecord { table, host, id, version, detail, kept } in self.entries {
            let form = EntryForm { host, id, version: parse(version)? };
            all.entries.entry(table).or_default().insert(form, RejectedEntry { detail, kept });
        }
        Ok(all)
    }
}

fn parse(version: Name) -> Result<Version, Unreadable> {
    Version::parse(&version).ok_or(Unreadable::Version(version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::{ClientId, Locality};

    fn client(stream: u64, node: &str) -> Client {
        let id = ClientId { stream, node: node.into() };
        Client { id, gateway: NamespacedName::new("shop", "public"), locality: Locality::default() }
    }

    fn rejections() -> Rejections {
        let bytes = Bytes::from_static(b"\x0a\x01r");
        let table = Resource { name: "c".into(), version: Version::of(b"of its parts"), bytes: bytes.clone() };
        let entry = EncodedEntry { id: "HTTPRoute shop/r".into(), bytes: bytes.clone(), clusters: vec!["a".into()] };
        let rejected = |kept| RejectedResource { version: Version::of(b"bad"), detail: "no good".into(), kept };
        let form = EntryForm { host: Hostname::new("a.example"), id: entry.id.clone(), version: Version::of(b"worse") };
        Rejections {
            resources: BTreeMap::from([
                ((ResourceType::Cluster, Name::from("c")), vec![rejected(Some(table)), rejected(None)]),
                ((ResourceType::Secret, Name::from("s")), vec![rejected(None)]),
            ]),
            entries: BTreeMap::from([(
                Name::from("http/80"),
                BTreeMap::from([(form, RejectedEntry { detail: "no".into(), kept: Some(entry) })]),
            )]),
        }
    }

    #[test]
    fn what_is_written_is_read_back_by_another_process() {
        let remembered = Remembered::default();
        remembered.put(&client(1, "envoy-0"), rejections());
        let other = Remembered::default();
        other.restore(&remembered.to_json(), 1_000).unwrap();
        assert_eq!(*other.get(&client(7, "envoy-0")), rejections());
        assert!(other.get(&client(1, "envoy-1")).is_empty());
        assert_eq!(other.to_json(), remembered.to_json());
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_changes_nothing() {
        let remembered = Remembered::default();
        remembered.put(&client(1, "envoy-0"), rejections());
        let json = remembered.to_json();
        let version = Version::of(b"bad").to_string();
        for bad in ["", "{}", &json.replace("\"format\": 1", "\"format\": 2"), &json.replace(&version, "zz")] {
            let other = Remembered::default();
            assert!(other.restore(bad, 0).is_err(), "{bad}");
            assert!(other.is_empty());
        }
    }

    #[test]
    fn who_left_is_forgotten_after_a_grace_and_who_rejects_nothing_at_once() {
        let remembered = Remembered::default();
        let (stays, leaves) = (client(1, "stays"), client(2, "leaves"));
        remembered.put(&stays, rejections());
        remembered.put(&leaves, rejections());
        remembered.departed(&leaves, 5_000);
        remembered.sweep(5_000 + GRACE - 1);
        assert_eq!(remembered.len(), 2);
        remembered.sweep(5_000 + GRACE);
        assert_eq!(remembered.len(), 1);
        remembered.put(&stays, Rejections::default());
        assert!(remembered.is_empty());
    }

    #[test]
    fn a_new_stream_of_the_client_ends_its_grace() {
        let remembered = Remembered::default();
        remembered.put(&client(1, "envoy"), rejections());
        remembered.departed(&client(1, "envoy"), 0);
        remembered.returned(&client(2, "envoy"));
        remembered.sweep(GRACE * 2);
        assert_eq!(remembered.len(), 1);
    }
}
