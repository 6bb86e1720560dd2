//! What a control plane owes a client, checked after every message.

use crate::message::{Item, Response};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::ResourceType;

/// Something that a control plane must not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Violation {
    /// A route that is in use names a cluster that the client cannot use yet, or no longer.
    #[error("table {table} is in use and names cluster {cluster}, which is not usable")]
    UnusableCluster {
        /// The table.
        table: String,
        /// The cluster.
        cluster: String,
    },
    /// A listener names a cluster that the client cannot use yet, or no longer.
    #[error("listener {listener} names cluster {cluster}, which is not usable")]
    UnusableClusterOfListener {
        /// The listener.
        listener: String,
        /// The cluster.
        cluster: String,
    },
    /// One version stood for two contents.
    #[error("{kind} {name}: version {version} was sent with two contents")]
    VersionReused {
        /// Short name of the type.
        kind: &'static str,
        /// The resource, or `*` for a complete response.
        name: String,
        /// The version.
        version: String,
    },
    /// Content was sent that the client has.
    #[error("{kind} {name} was sent again though the client has it")]
    Needless {
        /// Short name of the type.
        kind: &'static str,
        /// The resource, or `*` for a complete response.
        name: String,
    },
    /// A name stood twice in one response.
    #[error("{kind} {name} stands twice in one response")]
    Duplicate {
        /// Short name of the type.
        kind: &'static str,
        /// The resource.
        name: String,
    },
    /// A nonce was empty or was used before on this stream.
    #[error("{kind}: nonce {nonce:?} is empty or was used before")]
    Nonce {
        /// Short name of the type.
        kind: &'static str,
        /// The nonce.
        nonce: String,
    },
    /// A resource was sent that the client did not ask for and does not need.
    #[error("{kind} {name} was sent though nobody asked for it")]
    Unasked {
        /// Short name of the type.
        kind: &'static str,
        /// The resource.
        name: String,
    },
    /// A response that cannot be read.
    #[error("{kind}: {reason}")]
    Unreadable {
        /// Short name of the type.
        kind: &'static str,
        /// Why.
        reason: String,
    },
}

/// What was seen, of all streams of a client and of this one.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Content by (type, name, version).
    versions: BTreeMap<(ResourceType, String, String), Bytes>,
    /// Nonces of this stream.
    nonces: BTreeSet<String>,
}

impl Memory {
    /// A new stream.
    pub(crate) fn reconnect(&mut self) {
        self.nonces.clear();
    }

    /// Checks what every response must keep to, whatever the client holds.
    pub(crate) fn check(&mut self, kind: ResourceType, response: &Response, items: &[Item]) -> Vec<Violation> {
        let short = kind.short();
        let mut violations = Vec::new();
        let nonce = response.nonce().to_owned();
        if nonce.is_empty() || !self.nonces.insert(nonce.clone()) {
            violations.push(Violation::Nonce { kind: short, nonce });
        }
        let mut names = BTreeSet::new();
        let all = items.iter().map(|item| &item.name).chain(response.removed());
        for name in all.filter(|name| !names.insert(*name)) {
            violations.push(Violation::Duplicate { kind: short, name: name.clone() });
        }
        for item in items {
            // In the state-of-the-world protocol one version names all that the client then holds.
            let version = match response {
                Response::Sotw(_) => response.version().to_owned(),
                Response::Delta(_) => item.version.clone(),
            };
            self.check_version(kind, item.name.clone(), version, item.bytes.clone(), &mut violations);
        }
        if matches!(response, Response::Sotw(_)) && is_whole(kind) {
            let whole = whole(items);
            self.check_version(kind, "*".to_owned(), response.version().to_owned(), whole, &mut violations);
        }
        violations
    }

    fn check_version(
        &mut self,
        kind: ResourceType,
        name: String,
        version: String,
        content: Bytes,
        violations: &mut Vec<Violation>,
    ) {
        let known = self.versions.entry((kind, name.clone(), version.clone())).or_insert_with(|| content.clone());
        if *known != content {
            violations.push(Violation::VersionReused { kind: kind.short(), name, version });
        }
    }
}

/// Whether a state-of-the-world response of this type holds everything.
pub(crate) fn is_whole(kind: ResourceType) -> bool {
    match kind {
        ResourceType::Cluster | ResourceType::Listener => true,
        ResourceType::Endpoints | ResourceType::Secret | ResourceType::Table => false,
    }
}

/// One text for the content of a complete response, whatever its order.
fn whole(items: &[Item]) -> Bytes {
    let sorted: BTreeMap<&String, &Bytes> = items.iter().map(|item| (&item.name, &item.bytes)).collect();
    let mut all = Vec::new();
    for (name, bytes) in sorted {
        all.extend((name.len() as u64).to_le_bytes());
        all.extend(name.as_bytes());
        all.extend((bytes.len() as u64).to_le_bytes());
        all.extend(bytes);
    }
    all.into()
}
