//! The age of Gateways, which no sealed value holds, because no client gets it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tidegate_log::Event;
use tidegate_model::{Fact, Kind, NamespacedName};
use tidegate_normalize::Moment;

/// `metadata.creationTimestamp` of every Gateway, in seconds since the Unix epoch, as precedence takes it. Clones share it. It runs ahead of the seals by what the engine has not taken yet; a seal follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<NamespacedName, i64>>>);

impl Ledger {
    /// Takes what a batch says of Gateways.
    pub(crate) fn note(&self, batch: &[Event]) {
        let mut ages = self.0.lock().expect("no holder of the lock panics");
        for event in batch {
            match event {
                Event::Apply(object) if object.key.kind == Kind::Gateway => {
                    let facts = tidegate_normalize::normalize(object, &Moment::default()).facts;
                    ages.extend(facts.iter().filter_map(age));
                }
                Event::Delete(key) if key.kind == Kind::Gateway => _ = ages.remove(&key.name),
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

    /// When a Gateway was created; 0 if nothing is known of it.
    pub(crate) fn created(&self, gateway: &NamespacedName) -> i64 {
        self.0.lock().expect("no holder of the lock panics").get(gateway).copied().unwrap_or_default()
    }
}

fn age(fact: &Fact) -> Option<(NamespacedName, i64)> {
    let Fact::Gateway(gateway) = fact else { return None };
    Some((gateway.name.clone(), gateway.created))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidegate_log::Object;
    use tidegate_model::ObjectKey;

    #[test]
    fn the_age_is_noted_until_the_gateway_goes() {
        let ledger = Ledger::default();
        let body = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": { "name": "web", "namespace": "shop", "creationTimestamp": "1970-01-01T00:01:00Z" },
            "spec": {
                "gatewayClassName": "ours",
                "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }],
            },
        });
        ledger.note(&[Event::Apply(Object::new(body).unwrap())]);
        let gateway = NamespacedName::new("shop", "web");
        assert_eq!(ledger.created(&gateway), 60);
        ledger.note(&[Event::Delete(ObjectKey::new(Kind::Gateway, "shop", "web"))]);
        assert_eq!(ledger.created(&gateway), 0);
    }
}
