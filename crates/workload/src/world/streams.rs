//! Listeners and routes of whole connections and datagrams.

use super::{HOSTS, NAMESPACES, SERVICES, backend, certificate, parent};
use crate::random::Random;
use serde_json::{Value, json};
use tidegate_model::Kind;

/// What makes of a listener one of TLS, TCP or UDP: its protocol, port and terms. TLS shares its ports with HTTPS, and
/// now and then a listener of TCP meets one of HTTP.
pub(super) fn make_listener(listener: &mut Value, random: &mut Random, index: usize) {
    let (protocol, port) = match random.below(4) {
        0 | 1 => ("TLS", *random.pick(&[443, 443, 8443])),
        2 => ("TCP", *random.pick(&[9000 + index, 9000 + index, 80])),
        _ => ("UDP", *random.pick(&[5300 + index, 443])),
    };
    listener["protocol"] = protocol.into();
    listener["port"] = json!(port);
    if protocol == "TLS" {
        listener["tls"] = match random.below(2) {
            0 => json!({"mode": "Passthrough"}),
            _ => json!({"mode": "Terminate", "certificateRefs": [certificate(random)]}),
        };
    }
}

/// The spec of a route of this kind.
pub(super) fn route(random: &mut Random, kind: Kind) -> Value {
    let parents: Vec<Value> = (0..1 + random.below(2)).map(|_| parent(random)).collect();
    let backends: Vec<Value> = (0..1 + random.below(3))
        .map(|_| if kind == Kind::UdpRoute { datagram_backend(random) } else { backend(random) })
        .collect();
    let mut rule = json!({"backendRefs": backends});
    if random.chance(20) {
        rule["name"] = "only".into();
    }
    let mut spec = json!({"parentRefs": parents, "rules": [rule]});
    if kind == Kind::TlsRoute {
        spec["hostnames"] = (0..1 + random.below(2)).map(|_| HOSTS[1 + random.below(HOSTS.len() - 1)]).collect();
    }
    json!({"spec": spec})
}

fn datagram_backend(random: &mut Random) -> Value {
    let mut backend = json!({"name": random.pick(&SERVICES), "port": random.pick(&[53, 53, 53, 80])});
    if random.chance(25) {
        backend["namespace"] = json!(random.pick(&NAMESPACES));
    }
    if random.chance(30) {
        backend["weight"] = json!(random.below(4));
    }
    backend
}
