//! What is known of Gateways that no sealed value holds, because no client gets it: their age and their addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tidegate_log::Event;
use tidegate_model::{Fact, Kind, NamespacedName};

/// One Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// `metadata.creationTimestamp` in seconds since the Unix epoch, as precedence takes it.
    pub(crate) created: i64,
    /// `spec.addresses` of type `IPAddress` that have a value.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Every Gateway. Clones share it. It runs ahead of the seals by what the engine has not taken yet; a seal follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<NamespacedName, Note>>>);

impl Ledger {
    /// Takes what a batch says of Gateways.
    pub(crate) fn note(&self, batch: &[Event]) {
        let mut notes = self.0.lock().expect("no holder of the lock panics");
        for event in batch {
            match event {
                Event::Apply(object) if object.key.kind == Kind::Gateway => {
                    let facts = tidegate_normalize::normalize(object).facts;
                    notes.extend(facts.iter().filter_map(note));
                }
                Event::Delete(key) if key.kind == Kind::Gateway => drop(notes.remove(&key.name)),
                Event::Apply(_)
                | Event::Delete(_)
                | Event::Synced(_)
                | Event::Unreadable { .. }
                | Event::Expired { .. }
                | Event::Connect { .. }
                | Event::Disconnect { .. }
                | Event::Rejected { .. } => {}
            }
        }
    }

    /// What is known of a Gateway.
    pub(crate) fn of(&self, gateway: &NamespacedName) -> Note {
        self.0.lock().expect("no holder of the lock panics").get(gateway).cloned().unwrap_or_default()
    }
}

fn note(fact: &Fact) -> Option<(NamespacedName, Note)> {
    let Fact::Gateway(gateway) = fact else { return None };
    let ips = gateway.addresses.iter().filter(|address| &*address.kind == "IPAddress");
    let addresses = ips.filter_map(|address| address.value.as_deref()?.parse().ok()).collect();
    Some((gateway.name.clone(), Note { created: gateway.created, addresses }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidegate_log::Object;
    use tidegate_model::ObjectKey;

    #[test]
    fn age_and_addresses_are_noted_until_the_gateway_goes() {
        let ledger = Ledger::default();
        let body = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": { "name": "web", "namespace": "shop", "creationTimestamp": "1970-01-01T00:01:00Z" },
            "spec": {
                "gatewayClassName": "ours",
                "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }],
                "addresses": [{ "value": "10.0.0.5" }, { "type": "Hostname", "value": "shop.example" }],
            },
        });
        ledger.note(&[Event::Apply(Object::new(body).unwrap())]);
        let gateway = NamespacedName::new("shop", "web");
        assert_eq!(ledger.of(&gateway), Note { created: 60, addresses: vec!["10.0.0.5".parse().unwrap()] });
        ledger.note(&[Event::Delete(ObjectKey::new(Kind::Gateway, "shop", "web"))]);
        assert_eq!(ledger.of(&gateway), Note::default());
    }
}
