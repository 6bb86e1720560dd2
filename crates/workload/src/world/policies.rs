//! What TLS towards backends is made of: policies and CA certificates.

use super::SERVICES;
use crate::random::Random;
use serde_json::{Value, json};

/// Certificates whose keys nobody has.
const AUTHORITIES: [&str; 2] = [
    "-----BEGIN CERTIFICATE-----
MIIBHzCB0qADAgECAgEBMAUGAytlcDAOMQwwCgYDVQQDDANvbmUwIBcNMjYxMTMw
MjIwMTA3WhgPMjEyNjExMDYyMjAxMDdaMA4xDDAKBgNVBAMMA29uZTAqMAUGAytl
cAMhAGcAVUC+VhJwZiZRfRk3+Tmo54lxTLxEFFEQv26tff8po1MwUTAdBgNVHQ4E
FgQUm2G0dQa3KVwKRcQSRCXZJPODgTAwHwYDVR0jBBgwFoAUm2G0dQa3KVwKRcQS
RCXZJPODgTAwDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQBawoL6rkgEAE+oVAB0
mEn3rfuqchqL7FWZr7H/0I5vB7F4rNDexbCjTFcd+QRf16Sj0YEuBq9IrhNNw4NN
NmUC
-----END CERTIFICATE-----
",
    "-----BEGIN CERTIFICATE-----
MIIBHzCB0qADAgECAgEBMAUGAytlcDAOMQwwCgYDVQQDDAN0d28wIBcNMjYxMTMw
MjIwMTA3WhgPMjEyNjExMDYyMjAxMDdaMA4xDDAKBgNVBAMMA3R3bzAqMAUGAytl
cAMhACwZi6vAkjpeHeuZjT8T8KEUau+fl19qvM/PtU0efWdPo1MwUTAdBgNVHQ4E
FgQUt28McUAWQvgTQl/UXFExrDiuJ30wHwYDVR0jBBgwFoAUt28McUAWQvgTQl/U
XFExrDiuJ30wDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQA7OAVrcpxG6JdO9c3m
d7CMihETYPHXbuKmBbvwHT96N94q+QQVZ2zLkrmah9NtTrwgQkVUCqCtNaTCac37
WB4C
-----END CERTIFICATE-----
",
];

/// A ConfigMap, mostly with CA certificates that can be used.
pub(super) fn bundle(random: &mut Random) -> Value {
    let text = match random.below(10) {
        0 => return json!({}),
        1 => "-----BEGIN CERTIFICATE-----".to_owned(),
        2 | 3 => AUTHORITIES.concat(),
        _ => (*random.pick(&AUTHORITIES)).to_owned(),
    };
    json!({"data": {"ca.crt": text}})
}

/// A BackendTLSPolicy: for a Service or one of its ports, by CA certificates that are mostly there.
pub(super) fn backend_tls(random: &mut Random) -> Value {
    // Half of them are about nothing, so that most Services stay as they are.
    let service = if random.chance(50) { *random.pick(&SERVICES) } else { "elsewhere" };
    let mut target = json!({"group": "", "kind": "Service", "name": service});
    if random.chance(35) {
        target["sectionName"] = json!(random.pick(&["http", "http", "extra", "web"]));
    }
    let mut targets = vec![target];
    if random.chance(10) {
        targets.push(json!({"group": "", "kind": "Service", "name": "nowhere"}));
    }
    let mut validation = json!({"hostname": random.pick(&["a.example", "b.example"])});
    if random.chance(20) {
        validation["wellKnownCACertificates"] = "System".into();
    } else {
        let count = 1 + usize::from(random.chance(25));
        let reference = |random: &mut Random| {
            let kind = if random.chance(5) { "Secret" } else { "ConfigMap" };
            json!({"group": "", "kind": kind, "name": random.pick(&["ca", "ca", "ca", "other-ca", "other-ca", "nowhere"])})
        };
        validation["caCertificateRefs"] = (0..count).map(|_| reference(random)).collect();
    }
    if random.chance(20) {
        validation["subjectAltNames"] = json!([{"type": "URI", "uri": "spiffe://example.com/a"}]);
    }
    if random.chance(5) {
        validation["hostname"] = "*.example".into();
    }
    json!({"spec": {"targetRefs": targets, "validation": validation}})
}
