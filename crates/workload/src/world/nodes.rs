//! Where endpoints and clients are, and which endpoints Services prefer.

use crate::random::Random;
use serde_json::{Value, json};
use tidegate_model::{HOSTNAME_LABEL, Kind, Locality, NETWORK_LABEL, Name, REGION_LABEL, SUB_ZONE_LABEL, ZONE_LABEL};

/// Endpoints name one more, `lost`, which never is.
pub(super) const NODES: [&str; 3] = ["left", "right", "far"];

/// Says where an object is, or what of its endpoints is preferred.
pub(super) fn place(random: &mut Random, kind: Kind, metadata: &mut Value, body: &mut Value) {
    if kind == Kind::Node {
        metadata["labels"] = labels(random);
    }
    if kind == Kind::Service && random.chance(50) {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode", "PreferSameNode", "PreferMoon"];
        body["spec"]["trafficDistribution"] = json!(random.pick(&known));
    }
    if kind == Kind::Service && random.chance(15) {
        let value = random.pick(&["PreferNetwork", "PreferNetwork", "PreferSameNode", "Any", "prefer-close"]);
        metadata["annotations"] = json!({"networking.istio.io/traffic-distribution": value});
    }
    // Only EndpointSlices have endpoints.
    for endpoint in body.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        if random.chance(60) {
            endpoint["nodeName"] = json!(random.pick(&["left", "left", "right", "far", "lost"]));
        }
    }
}

/// Most Nodes say where they are, and few of them all of it.
fn labels(random: &mut Random) -> Value {
    let mut labels = json!({"note": random.pick(&["a", "b"])});
    let mut label = |name: &str, chance: usize, values: &[&str]| {
        if random.chance(chance) {
            labels[name] = json!(random.pick(values));
        }
    };
    label(REGION_LABEL, 80, &["r1", "r1", "r2"]);
    label(ZONE_LABEL, 80, &["z1", "z2"]);
    label(SUB_ZONE_LABEL, 30, &["s1", "s2"]);
    label(NETWORK_LABEL, 20, &["n1", "n2"]);
    label(HOSTNAME_LABEL, 20, &["host", "other-host"]);
    labels
}

/// Where a client of the cluster says that it runs: near some endpoints, or far from all.
#[must_use]
pub fn client(random: &mut Random) -> Locality {
    let mut level = |chance: usize, values: &[&str]| {
        if random.chance(chance) { Name::from(*random.pick(values)) } else { Name::default() }
    };
    Locality {
        network: level(20, &["n1", "n2"]),
        region: level(70, &["r1", "r1", "r2", "r3"]),
        zone: level(70, &["z1", "z2", "z3"]),
        sub_zone: level(30, &["s1", "s2"]),
        host: level(60, &["left", "left", "right", "far", "lost", "host"]),
    }
}
