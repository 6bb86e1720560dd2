//! What clients rejected and have not yet made good.

use std::collections::BTreeMap;
use tidegate_model::{
    ClientId, Condition, ConditionType, Epoch, Name, NamespacedName, Observation, Reason, ResourceType,
};

/// The longest message of a client that is repeated, in characters. A condition takes 32768; people read less.
const DETAIL_MAX: usize = 1024;

/// How many resource names are listed of a rejected response.
const NAMES_MAX: usize = 5;

/// Connected clients and their rejections.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    connected: BTreeMap<ClientId, NamespacedName>,
    rejections: BTreeMap<NamespacedName, BTreeMap<(ClientId, ResourceType), Rejection>>,
}

/// A response that a client refused.
#[derive(Debug)]
struct Rejection {
    epoch: Epoch,
    resources: Vec<Name>,
    detail: String,
}

impl Clients {
    /// Takes an observation; returns the Gateway whose refusal may have changed by it.
    pub(crate) fn observe(&mut self, observation: &Observation) -> Option<NamespacedName> {
        match observation {
            Observation::Connected { client, gateway, delta: _ } => {
                self.connected.insert(client.clone(), gateway.clone());
                None
            }
            Observation::Acked { client, kind, epoch } => {
                let gateway = self.connected.get(client)?.clone();
                // An epoch that was rejected may reach a client in several responses: only a later one clears it.
                let is_over = self.rejections.get(&gateway)?.get(&(client.clone(), *kind))?.epoch < *epoch;
                is_over.then(|| self.clear(&gateway, |key| *key == (client.clone(), *kind)))?
            }
            Observation::Rejected { client, gateway, kind, epoch, resources, detail } => {
                self.connected.insert(client.clone(), gateway.clone());
                let resources = resources.iter().map(|(name, _)| name.clone()).collect();
                let rejection = Rejection { epoch: *epoch, resources, detail: cleaned(detail) };
                self.rejections.entry(gateway.clone()).or_default().insert((client.clone(), *kind), rejection);
                Some(gateway.clone())
            }
            Observation::Disconnected { client } => {
                let gateway = self.connected.remove(client)?;
                self.clear(&gateway, |(other, _)| other == client)
            }
        }
    }

    /// Forgets rejections; the Gateway if there was one.
    fn clear(
        &mut self,
        gateway: &NamespacedName,
        is_over: impl Fn(&(ClientId, ResourceType)) -> bool,
    ) -> Option<NamespacedName> {
        let rejections = self.rejections.get_mut(gateway)?;
        let before = rejections.len();
        rejections.retain(|key, _| !is_over(key));
        let changed = rejections.len() < before;
        if rejections.is_empty() {
            self.rejections.remove(gateway);
        }
        changed.then(|| gateway.clone())
    }

    /// What a rejection says about its Gateway: not programmed.
    pub(crate) fn refusal(&self, gateway: &NamespacedName) -> Option<Condition> {
        let rejections = self.rejections.get(gateway)?;
        let ((client, kind), Rejection { epoch, resources, detail }) = rejections.first_key_value()?;
        let mut names: Vec<&str> = resources.iter().take(NAMES_MAX).map(Name::as_str).collect();
        if resources.len() > NAMES_MAX {
            names.push("...");
        }
        let names = names.join(", ");
        let mut message = format!("proxy {client} rejected {} [{names}] of epoch {epoch}: {detail}", kind.short());
        if rejections.len() > 1 {
            message.push_str(&format!(" (and {} more rejected responses)", rejections.len() - 1));
        }
        Some(Condition::no(ConditionType::Programmed, Reason::Rejected, message))
    }
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
