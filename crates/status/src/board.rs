//! The board: the status of every object, derived and observed.

use crate::clients::Clients;
use crate::render;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{
    Condition, ConditionStatus, ConditionType, DerivedStatus, Kind, Millis, Name, NamespacedName, ObjectKey,
    Observation, ParentFact, ParentStatus, StatusBody,
};

/// The status of every object: what was derived at the newest seal, joined with what clients answered.
#[derive(Debug, Default)]
pub struct Board {
    objects: BTreeMap<ObjectKey, Entry>,
    clients: Clients,
    /// Why Gateways are not served here, from whoever runs their proxies.
    hindrances: BTreeMap<NamespacedName, Condition>,
}

/// Where in an object's status a condition stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// `status.conditions`.
    Object(ConditionType),
    /// `status.listeners[].conditions`.
    Listener(Name, ConditionType),
    /// `status.parents[].conditions`.
    Parent(ParentFact, ConditionType),
    /// `status.ancestors[].conditions`.
    Ancestor(NamespacedName, ConditionType),
}

/// What is said of an object from outside: it is not programmed although the seal holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Of the object as a whole.
    pub(crate) object: Option<Condition>,
    /// Of a Gateway: by listener.
    pub(crate) listeners: BTreeMap<Name, Condition>,
    /// Of a route: by Gateway.
    pub(crate) gateways: BTreeMap<NamespacedName, Condition>,
}

/// One object.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) derived: Arc<DerivedStatus>,
    observed: Observed,
    /// The status of each condition, and since when.
    since: BTreeMap<Place, (ConditionStatus, Millis)>,
}

impl Board {
    /// A board without objects.
    #[must_use]
    pub fn new() -> Self {
        Board::default()
    }

    /// Takes the changes of a seal: the new derived status of each object that changed, or none if it has none any more.
    /// `millis` is when the batch of the seal was taken.
    pub fn derive(
        &mut self,
        changes: impl IntoIterator<Item = (ObjectKey, Option<Arc<DerivedStatus>>)>,
        millis: Millis,
    ) {
        for (key, derived) in changes {
            let Some(derived) = derived else {
                self.objects.remove(&key);
                continue;
            };
            let observed = self.observed(&key);
            let old = self.objects.remove(&key).map(|entry| entry.since).unwrap_or_default();
            self.objects.insert(key, Entry::new(derived, observed, &old, millis));
        }
    }

    /// Takes what a client told us at `millis`.
    pub fn observe(&mut self, observation: &Observation, millis: Millis) {
        for key in self.clients.observe(observation) {
            self.refresh(&key, millis);
        }
    }

    /// Takes why a Gateway is not programmed at `millis` although its configuration is sealed: its proxies cannot run,
    /// or must not. None takes that back. Goes before what clients say, for then there is no client.
    pub fn hinder(&mut self, gateway: &NamespacedName, hindrance: Option<Condition>, millis: Millis) {
        let before = match &hindrance {
            Some(condition) => self.hindrances.insert(gateway.clone(), condition.clone()),
            None => self.hindrances.remove(gateway),
        };
        if before != hindrance {
            self.refresh(&ObjectKey { kind: Kind::Gateway, name: gateway.clone() }, millis);
        }
    }

    /// What is said of an object from outside now.
    fn observed(&self, key: &ObjectKey) -> Observed {
        let mut observed = self.clients.observed(key);
        if key.kind == Kind::Gateway
            && let Some(hindrance) = self.hindrances.get(&key.name)
        {
            observed.object = Some(hindrance.clone());
        }
        observed
    }

    /// Joins an object with what is said of it from outside now.
    fn refresh(&mut self, key: &ObjectKey, millis: Millis) {
        let observed = self.observed(key);
        if let Some(entry) = self.objects.get_mut(key).filter(|entry| entry.observed != observed) {
            *entry = Entry::new(Arc::clone(&entry.derived), observed, &entry.since, millis);
        }
    }

    /// Every object that has a status or findings, by kind, namespace and name: a list of
    /// `{apiVersion, kind, metadata, status, findings}`. `controller` is what routes name in `controllerName`.
    #[must_use]
    pub fn render(&self, controller: &str) -> Value {
        self.objects.iter().map(|(key, entry)| render::object(key, entry, controller)).collect()
    }

    /// One object of [`Board::render`].
    #[must_use]
    pub fn status_of(&self, key: &ObjectKey, controller: &str) -> Option<Value> {
        self.objects.get(key).map(|entry| render::object(key, entry, controller))
    }
}

impl Entry {
    /// Conditions whose status is as in `old` keep their times.
    fn new(
        derived: Arc<DerivedStatus>,
        observed: Observed,
        old: &BTreeMap<Place, (ConditionStatus, Millis)>,
        millis: Millis,
    ) -> Self {
        let mut entry = Entry { derived, observed, since: BTreeMap::new() };
        let since = entry.places().into_iter().map(|(place, condition)| {
            let status = entry.effective(&place, condition).status;
            let kept = old.get(&place).filter(|(before, _)| *before == status);
            let since = kept.map_or(millis, |(_, since)| *since);
            (place, (status, since))
        });
        entry.since = since.collect();
        entry
    }

    /// Every condition and where it stands.
    fn places(&self) -> Vec<(Place, &Condition)> {
        fn at(
            conditions: &[Condition],
            place: impl Fn(ConditionType) -> Place,
        ) -> impl Iterator<Item = (Place, &Condition)> {
            conditions.iter().map(move |condition| (place(condition.kind), condition))
        }
        match &self.derived.body {
            StatusBody::Class(conditions) => at(conditions, Place::Object).collect(),
            StatusBody::Gateway { conditions, listeners } => {
                let listeners = listeners
                    .iter()
                    .flat_map(|listener| at(&listener.conditions, |kind| Place::Listener(listener.name.clone(), kind)));
                at(conditions, Place::Object).chain(listeners).collect()
            }
            StatusBody::Route(parents) => {
                let conditions = parents
                    .iter()
                    .flat_map(|parent| self.of_parent(parent).map(move |condition| (&parent.parent, condition)));
                conditions
                    .map(|(parent, condition)| (Place::Parent(parent.clone(), condition.kind), condition))
                    .collect()
            }
            StatusBody::Policy(ancestors) => {
                let of_ancestor = ancestors.iter().flat_map(|ancestor| {
                    at(&ancestor.conditions, |kind| Place::Ancestor(ancestor.gateway.clone(), kind))
                });
                of_ancestor.collect()
            }
            StatusBody::None => Vec::new(),
        }
    }

    /// The conditions towards one parent: the derived ones, and what clients say.
    pub(crate) fn of_parent<'a>(&'a self, parent: &'a ParentStatus) -> impl Iterator<Item = &'a Condition> {
        parent.conditions.iter().chain(self.observed.gateways.get(&parent.parent.name))
    }

    /// The condition at `place`: as derived, unless clients refuse.
    pub(crate) fn effective<'a>(&'a self, place: &Place, derived: &'a Condition) -> &'a Condition {
        let refusal = match place {
            Place::Object(ConditionType::Programmed) => self.observed.object.as_ref(),
            Place::Listener(listener, ConditionType::Programmed) => self.observed.listeners.get(listener),
            Place::Object(_) | Place::Listener(..) | Place::Parent(..) | Place::Ancestor(..) => None,
        };
        refusal.filter(|_| derived.status == ConditionStatus::True).unwrap_or(derived)
    }

    /// Since when the condition at `place` has its status, in milliseconds since the Unix epoch.
    pub(crate) fn since(&self, place: &Place) -> Millis {
        self.since.get(place).map_or(0, |(_, since)| *since)
    }
}
