//! What clients refuse of what they shall have.

use crate::board::Observed;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::{
    ClientId, Condition, ConditionType, Kind, ListenerKey, Name, NamespacedName, ObjectKey, Observation, Reason,
    Refusal,
};

/// The longest message of a client that is repeated, in characters. A condition takes 32768; people read less.
const DETAIL_MAX: usize = 1024;

/// Connected clients and what they refuse.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    refusals: BTreeMap<ClientId, (NamespacedName, Vec<Refusal>)>,
    /// Who refuses something of the object, and why, by the place that it concerns.
    objects: BTreeMap<ObjectKey, BTreeMap<(Concern, ClientId), Vec<String>>>,
}

/// What of an object suffers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Concern {
    /// All of it.
    Object,
    /// A listener of a Gateway or ListenerSet.
    Listener(Name),
    /// A route at a Gateway.
    Gateway(NamespacedName),
}

impl Clients {
    /// Takes an observation; returns the objects of which something else is said by it.
    pub(crate) fn observe(&mut self, observation: &Observation) -> BTreeSet<ObjectKey> {
        match observation {
            Observation::Refuses { client, gateway, refusals } => {
                let mut changed = self.forget(client);
                changed.extend(self.learn(client, gateway, refusals));
                changed
            }
            Observation::Disconnected { client } => self.forget(client),
            // Who of the rejected response it is will be found out.
            Observation::Connected { .. } | Observation::Acked { .. } | Observation::Rejected { .. } => BTreeSet::new(),
        }
    }

    /// What is said of an object.
    pub(crate) fn observed(&self, key: &ObjectKey) -> Observed {
        let mut reasons: BTreeMap<&Concern, Vec<&String>> = BTreeMap::new();
        for ((concern, _), texts) in self.objects.get(key).into_iter().flatten() {
            reasons.entry(concern).or_default().extend(texts);
        }
        let mut observed = Observed::default();
        for (concern, texts) in reasons {
            let Some((first, others)) = texts.split_first() else { continue };
            let more = if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
            let condition = |kind| Condition::no(kind, Reason::Rejected, format!("{first}{more}"));
            match concern {
                Concern::Object => observed.object = Some(condition(ConditionType::Programmed)),
                Concern::Listener(name) => {
                    observed.listeners.insert(name.clone(), condition(ConditionType::Programmed));
                }
                Concern::Gateway(name) => {
                    observed.gateways.insert(name.clone(), condition(ConditionType::RouteProgrammed));
                }
            }
        }
        observed
    }

    fn learn(&mut self, client: &ClientId, gateway: &NamespacedName, refusals: &[Refusal]) -> BTreeSet<ObjectKey> {
        let mut changed = BTreeSet::new();
        for refusal in refusals {
            let text = format!(
                "proxy {} rejected {} {}: {}",
                client.node,
                refusal.kind.short(),
                refusal.name,
                cleaned(&refusal.detail)
            );
            for (key, concern) in concerns(gateway, refusal) {
                let said = self.objects.entry(key.clone()).or_default();
                said.entry((concern, client.clone())).or_default().push(text.clone());
                changed.insert(key);
            }
        }
        if !refusals.is_empty() {
            self.refusals.insert(client.clone(), (gateway.clone(), refusals.to_vec()));
        }
        changed
    }

    fn forget(&mut self, client: &ClientId) -> BTreeSet<ObjectKey> {
        let Some((gateway, refusals)) = self.refusals.remove(client) else { return BTreeSet::new() };
        let concerned = refusals.iter().flat_map(|refusal| concerns(&gateway, refusal));
        let mut changed = BTreeSet::new();
        for (key, concern) in concerned {
            if let Some(said) = self.objects.get_mut(&key) {
                said.remove(&(concern, client.clone()));
                if said.is_empty() {
                    self.objects.remove(&key);
                }
            }
            changed.insert(key);
        }
        changed
    }
}

/// The objects that suffer: the routes of the entries; or the listeners and what they stand in, the Gateway or its
/// ListenerSets; or the Gateway where no listener is known. The rest of a Gateway of which one route is refused is served.
fn concerns(gateway: &NamespacedName, refusal: &Refusal) -> BTreeSet<(ObjectKey, Concern)> {
    let routes = refusal.entries.iter().filter_map(|id| ObjectKey::at_start_of(id));
    let mut all: BTreeSet<(ObjectKey, Concern)> =
        routes.map(|route| (route, Concern::Gateway(gateway.clone()))).collect();
    if all.is_empty() {
        for ListenerKey { parent, name } in &refusal.listeners {
            all.insert((parent.clone(), Concern::Listener(name.clone())));
            all.insert((parent.clone(), Concern::Object));
        }
    }
    if all.is_empty() {
        all.insert((ObjectKey { kind: Kind::Gateway, name: gateway.clone() }, Concern::Object));
    }
    all
}

/// A client's message in one line of bounded length.
fn cleaned(detail: &str) -> String {
    let line = detail.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = line.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(DETAIL_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_bounded_length() {
        assert_eq!(cleaned("a\n\tb\u{7} c  "), "a b c");
        assert_eq!(cleaned(&"é".repeat(2 * DETAIL_MAX)).chars().count(), DETAIL_MAX + 3);
    }
}
