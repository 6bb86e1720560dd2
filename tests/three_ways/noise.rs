//! A scenario's changes in another order, among changes that must not matter.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use tidegate_log::{Event, Object};
use tidegate_model::ObjectKey;
use tidegate_scenarios::scenario::Scenario;
use tidegate_workload::Random;

/// The changes of `scenario` in random batches: those of one object in their order, everything else shuffled; between
/// them objects of nobody's come, change and go, and once everything is listed again.
pub(crate) fn batches(scenario: &Scenario, seed: u64) -> Vec<Vec<Event>> {
    let mut random = Random::new(seed ^ 0x0DD5);
    let mut changes = interleaved(scenario, &mut random);
    let bodies = noise();
    for body in &bodies {
        let object = Object::new(body.clone()).expect("noise is well formed");
        let from = random.below(changes.len() + 1);
        let to = from + random.below(changes.len() + 1 - from);
        changes.insert(to, Event::Delete(object.key.clone()));
        changes.insert(from, Event::Apply(object));
    }
    let relist_at = random.below(changes.len());
    let (mut batches, mut batch, mut live) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (index, change) in changes.into_iter().enumerate() {
        note(&mut live, &change);
        batch.push(change);
        if random.chance(60) {
            batches.push(std::mem::take(&mut batch));
        }
        if index == relist_at {
            batches.push(std::mem::take(&mut batch));
            let mut again: Vec<Event> = live.values().cloned().map(Event::Apply).collect();
            random.shuffle(&mut again);
            batches.push(again);
        }
    }
    batches.push(batch);
    batches
}

fn note(live: &mut BTreeMap<ObjectKey, Object>, change: &Event) {
    match change {
        Event::Apply(object) => _ = live.insert(object.key.clone(), object.clone()),
        Event::Delete(key) => _ = live.remove(key),
        other => unreachable!("only objects change here, not {other:?}"),
    }
}

/// A random merge of the changes of each object.
fn interleaved(scenario: &Scenario, random: &mut Random) -> Vec<Event> {
    let mut by_object: BTreeMap<ObjectKey, Vec<Event>> = BTreeMap::new();
    let mut slots = Vec::new();
    for event in scenario.changes() {
        let key = match event {
            Event::Apply(object) => &object.key,
            Event::Delete(key) => key,
            other => unreachable!("an input holds only objects, not {other:?}"),
        };
        slots.push(key.clone());
        by_object.entry(key.clone()).or_default().push(event.clone());
    }
    by_object.values_mut().for_each(|events| events.reverse());
    random.shuffle(&mut slots);
    let next = |key| by_object.get_mut(key).and_then(Vec::pop).expect("a slot for each change");
    slots.iter().map(next).collect()
}

/// Objects in a namespace of their own: a whole small world that refers to nothing else, and dangling references.
fn noise() -> Vec<Value> {
    let meta = |name: &str| json!({ "name": name, "namespace": "noise" });
    let gateway_api = "gateway.networking.k8s.io/v1";
    let slice_meta = json!({ "name": "n1", "namespace": "noise", "labels": { "kubernetes.io/service-name": "n" } });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "noise", "labels": { "team": "x" } } }),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": meta("n"), "spec": { "ports": [{ "port": 80 }] } }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice_meta, "addressType": "IPv4",
            "ports": [{ "port": 8080 }], "endpoints": [{ "addresses": ["10.99.0.1"] }],
        }),
        json!({
            "apiVersion": gateway_api, "kind": "GatewayClass", "metadata": { "name": "noise" },
            "spec": { "controllerName": "tidegate.dev/gateway-controller" },
        }),
        json!({
            "apiVersion": gateway_api, "kind": "Gateway", "metadata": meta("n"),
            "spec": {
                "gatewayClassName": "noise", "listeners": [{ "name": "web", "port": 10099, "protocol": "HTTP" }],
            },
        }),
        json!({
            "apiVersion": gateway_api, "kind": "HTTPRoute", "metadata": meta("n"),
            "spec": {
                "parentRefs": [{ "name": "n" }, { "name": "nobody" }],
                "rules": [{ "backendRefs": [{ "name": "n", "port": 80 }, { "name": "gone", "port": 80 }] }],
            },
        }),
        json!({
            "apiVersion": gateway_api, "kind": "GRPCRoute", "metadata": meta("n"),
            "spec": {
                "parentRefs": [{ "name": "n" }], "hostnames": ["noise.example"],
                "rules": [{ "matches": [{ "method": { "service": "noise.N" } }], "backendRefs": [{ "name": "n", "port": 80 }] }],
            },
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant", "metadata": meta("n"),
            "spec": {
                "from": [{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "elsewhere" }],
                "to": [{ "group": "", "kind": "Service" }],
            },
        }),
    ]
}
