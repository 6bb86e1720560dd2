//! What reporters say of the endpoints of Services.

use super::SERVICES;
use crate::random::Random;
use serde_json::{Value, json};

/// Says of most endpoints which object is behind them.
pub(super) fn identify(random: &mut Random, body: &mut Value) {
    // Only EndpointSlices have endpoints.
    for endpoint in body.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        let address = endpoint["addresses"][0].as_str().and_then(|address| address.rsplit('.').next()?.parse().ok());
        if let Some(address) = address
            && random.chance(60)
        {
            endpoint["targetRef"] = target(address);
        }
    }
}

/// The object behind the endpoint that mostly has this address.
fn target(address: usize) -> Value {
    json!({"kind": "Pod", "name": format!("pod-{address}"), "uid": format!("uid-{address}")})
}

/// A report with one time on most of its entries.
pub(super) fn report(random: &mut Random) -> Value {
    let time = format!("1970-01-01T00:00:00.{:03}000Z", random.below(60));
    let (first, count) = (random.below(6), 1 + random.below(4));
    let entry = |index| {
        let address = 1 + (first + index) % 6;
        let mut entry = json!({"state": random.pick(&["Healthy", "Unhealthy", "Unhealthy", "Unknown"])});
        if random.chance(60) {
            entry["targetRef"] = target(address);
        } else {
            entry["address"] = format!("10.0.0.{address}").into();
        }
        if random.chance(85) {
            entry["renewTime"] = time.as_str().into();
        }
        if random.chance(20) {
            entry["port"] = json!(random.pick(&[8080, 8081]));
        }
        if random.chance(3) {
            entry["state"] = "Fine".into();
        }
        entry
    };
    let endpoints: Vec<Value> = (0..count).map(entry).collect();
    json!({
        "spec": {"serviceRef": {"name": random.pick(&SERVICES)}, "reporter": "n"},
        "status": {"endpoints": endpoints},
    })
}

/// The last renewal of a report, in milliseconds.
pub(super) fn renewed(report: &Value) -> Option<u64> {
    let entries = report["status"]["endpoints"].as_array()?;
    let time = entries.iter().find_map(|entry| entry["renewTime"].as_str())?;
    time.split_once('.')?.1.get(..3)?.parse().ok()
}
