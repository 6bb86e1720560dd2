//! What `expect.yaml` says of one epoch.

use super::observed::{Observed, Versions};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Everything expected after one epoch; what is not mentioned is not looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Members by cluster, sorted; none: there is no such cluster. A member that only finishes what it has ends in
    /// ` draining`.
    pub members: BTreeMap<String, Option<Vec<String>>>,
    /// What a client is told, by where it says that it is (`zone z1`, `region r1, zone z1`, `host worker`, as the name of a
    /// Node; `anywhere`), then by cluster: its members, priority by priority.
    pub seen_from: BTreeMap<String, BTreeMap<String, Vec<Vec<String>>>>,
    /// Conditions by object (`HTTPRoute shop/cart`, `Gateway shop/edge`, `Gateway shop/edge listener web`; ListenerSets as
    /// Gateways) and, for routes, by parent. None: the object has no status, or the route none for that parent.
    pub conditions: BTreeMap<String, Option<BTreeMap<String, Option<Condition>>>>,
    /// Resource types (`cds`, `eds`, `lds`, `sds`, `rds`) of which no version changed in this epoch.
    pub unchanged: Vec<String>,
    /// Requests through Envoy, and their answers.
    pub requests: Vec<Request>,
}

/// What is expected under one key of an object's conditions.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Condition {
    /// `attachedRoutes` of a listener, `attachedListenerSets` of a Gateway, `observedGeneration` of an object.
    Count(u32),
    /// `listeners` and `addresses` of a Gateway or ListenerSet, `parents` of a route: these and no others. `supportedKinds` of a listener: these and maybe
    /// others, since more may be supported than a scenario knows; or none.
    Names(Vec<String>),
    /// `Status/Reason`.
    Verdict(String),
    /// The conditions of one parent of a route; none: it is not there.
    Parent(BTreeMap<String, Option<String>>),
}

/// A request and its answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// `Host` header.
    #[serde(default)]
    pub host: String,
    /// Instead of a request a connection to this port, whose other end says who it is.
    pub tcp: Option<u16>,
    /// The same over TLS, asking for `sni`.
    pub tls_tcp: Option<u16>,
    /// Instead of a request a datagram to this port.
    pub udp: Option<u16>,
    /// Path and query.
    #[serde(default = "root")]
    pub path: String,
    /// Method; GET if none.
    pub method: Option<String>,
    /// Instead of path and method: a call of a gRPC method, `package.Service/Method`.
    pub grpc: Option<String>,
    /// Headers sent.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The Gateway, `namespace/name`; the only one of the scenario if none.
    pub gateway: Option<String>,
    /// Over TLS, asking for the host, or for `sni`.
    #[serde(default)]
    pub tls: bool,
    /// The name asked for in the handshake, if it is not the host; with `tls_tcp` always.
    pub sni: Option<String>,
    /// The Secret, `namespace/name`, whose newest certificate is shown where one is asked for; none is shown if none.
    pub client_certificate: Option<String>,
    /// HTTP/2.
    #[serde(default)]
    pub http2: bool,
    /// Listener port; the lowest of the Gateway if none.
    pub port: Option<u16>,
    /// The answer to one request.
    #[serde(default)]
    pub expect: Answer,
    /// Instead: percent of the answers by backend (`shop/cart`, or `address:port`) or, of those that no backend gave, by
    /// status. Of connections and datagrams those without an answer are `refused`.
    #[serde(default)]
    pub shares: BTreeMap<String, u32>,
    /// A header whose value at the backend stands behind the backend in `shares`.
    pub shares_by: Option<String>,
    /// Beside `shares`: percent of the requests of which a backend of another Service (`shop/copy`) saw a copy.
    #[serde(default)]
    pub mirrored: BTreeMap<String, u32>,
    /// Instead: a cookie (`cookie: name`) or header (`header: name`) of the first answer goes back with the requests that
    /// follow, and all are answered by one endpoint. The start of the name of a cookie is enough.
    pub session: Option<Session>,
    /// Instead: a text that goes there and back over a WebSocket, if there is one for the asking.
    pub websocket: Option<String>,
}

/// What brings a client back.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Session {
    /// A cookie.
    Cookie(String),
    /// A header.
    Header(String),
}

/// An answer; what is not mentioned is not looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// Nobody listens on the port; or the connection is closed without a word, or the datagram is dropped.
    pub refused: bool,
    /// Whether the backend was reached over TLS.
    pub backend_tls: Option<bool>,
    /// The name that it was asked for then.
    pub backend_sni: Option<String>,
    /// What it agreed to speak over TLS: `h2` or `http/1.1`.
    pub backend_alpn: Option<String>,
    /// The Secret, `namespace/name`, whose newest certificate it was shown; empty: none.
    pub client_certificate: Option<String>,
    /// Status.
    pub status: Option<u16>,
    /// Status of a call of gRPC: 0 is OK, 12 UNIMPLEMENTED, 14 UNAVAILABLE.
    pub grpc_status: Option<u16>,
    /// Who answered: `namespace/service` or `address:port`.
    pub backend: Option<String>,
    /// `Location` header.
    pub location: Option<String>,
    /// Path and query as the backend saw them.
    pub path: Option<String>,
    /// `Host` as the backend saw it.
    pub host: Option<String>,
    /// What the backend was spoken to in: `HTTP/1.1` or `HTTP/2.0`.
    pub proto: Option<String>,
    /// Headers as the backend saw them; none: it did not.
    pub headers: BTreeMap<String, Option<String>>,
    /// Headers of the answer; none: not there.
    pub response_headers: BTreeMap<String, Option<String>>,
    /// The Secret, `namespace/name`, whose newest certificate was shown.
    pub certificate: Option<String>,
    /// Whether the client was asked for a certificate.
    pub asks_for_certificate: Option<bool>,
    /// The longest time that the answer may take, in milliseconds.
    pub within_ms: Option<u64>,
}

fn root() -> String {
    "/".to_owned()
}

impl Expect {
    /// Whether nothing at all is expected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
            && self.seen_from.is_empty()
            && self.conditions.is_empty()
            && self.unchanged.is_empty()
            && self.requests.is_empty()
    }

    /// What differs, for people; empty if nothing does. `before` are the versions of the epoch before.
    #[must_use]
    pub fn difference(&self, observed: &Observed<'_>, before: Option<&Versions>) -> Vec<String> {
        let mut wrong = Vec::new();
        for (cluster, expected) in &self.members {
            let found = observed.members(cluster);
            if found != *expected {
                wrong.push(format!("members of {cluster}: {found:?}, expected {expected:?}"));
            }
        }
        for (place, clusters) in &self.seen_from {
            for (cluster, expected) in clusters {
                let found = observed.seen_from(place, cluster);
                if found.as_ref() != Some(expected) {
                    wrong.push(format!("{cluster} seen from {place}: {found:?}, expected {expected:?}"));
                }
            }
        }
        for (object, expected) in &self.conditions {
            wrong.extend(conditions(object, expected.as_ref(), observed));
        }
        let versions = observed.versions();
        for kind in &self.unchanged {
            let before = before.unwrap_or_else(|| panic!("nothing comes before the first epoch"));
            let (old, new) = (before.get(kind), versions.get(kind));
            assert!(old.is_some(), "{kind:?} is none of cds, eds, lds, sds, rds");
            if old != new {
                wrong.push(format!("{kind} changed from {old:?} to {new:?}"));
            }
        }
        wrong
    }
}

fn conditions(
    object: &str,
    expected: Option<&BTreeMap<String, Option<Condition>>>,
    observed: &Observed<'_>,
) -> Vec<String> {
    let found = observed.conditions(object);
    let Some(expected) = expected else {
        return found.map(|found| format!("{object} has status {found:?}, expected none")).into_iter().collect();
    };
    let Some(found) = found else { return vec![format!("{object} has no status")] };
    let differs = |key: &str, expected: Option<&str>| {
        let is = found.get(key).map(String::as_str);
        (is != expected).then(|| format!("{object} {key}: {is:?}, expected {expected:?}"))
    };
    let mut wrong = Vec::new();
    for (key, value) in expected {
        match value {
            None => wrong.extend(differs(key, None)),
            Some(Condition::Count(count)) => wrong.extend(differs(key, Some(&count.to_string()))),
            Some(Condition::Names(names)) if key == "supportedKinds" && !names.is_empty() => {
                let kinds: Vec<&str> = found.get(key).map(|kinds| kinds.split(", ").collect()).unwrap_or_default();
                let lacks = names.iter().any(|name| !kinds.contains(&name.as_str()));
                wrong.extend(lacks.then(|| format!("{object} {key}: {kinds:?}, expected at least {names:?}")));
            }
            Some(Condition::Names(names)) => wrong.extend(differs(key, Some(&names.join(", ")))),
            Some(Condition::Verdict(verdict)) => wrong.extend(differs(key, Some(verdict))),
            Some(Condition::Parent(conditions)) => {
                let of_parent = |(condition, verdict): (&String, &Option<String>)| {
                    differs(&format!("{key} {condition}"), verdict.as_deref())
                };
                wrong.extend(conditions.iter().filter_map(of_parent));
            }
        }
    }
    wrong
}
