//! Where endpoints and clients are, and which endpoints Services prefer.

use crate::random::Random;
use serde_json::{Value, json};
use tidegate_model::{HOSTNAME_LABEL, Locality, NETWORK_LABEL, Name, REGION_LABEL, SUB_ZONE_LABEL, ZONE_LABEL};

/// Endpoints name one more, `lost`, which never is.
pub(super) const NODES: [&str; 3] = ["left", "right", "far"];

/// Most Nodes say where they are, and few of them all of it.
pub(super) fn labels(random: &mut Random) -> Value {
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

pub(super) fn distribution(random: &mut Random) -> Value {
    json!(random.pick(&["PreferClose", "PreferSameZone", "PreferSameNode", "PreferSameNode", "PreferMoon"]))
}

pub(super) fn annotations(random: &mut Random) -> Value {
    let value = random.pick(&["PreferNetwork", "PreferNetwork", "PreferSameNode", "Any", "prefer-close"]);
    json!({"networking.istio.io/traffic-distribution": value})
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
