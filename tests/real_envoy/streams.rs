//! Connections and datagrams in place of requests, and the comparison of what came back.

use crate::ask;
use crate::ask::several::{SAMPLE, compare};
use crate::place::Place;
use crate::stage::Stage;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::stream::{self, Conversation, Seen};
use testkit::tls::Client;
use tidegate_scenarios::scenario::expect::{Answer, Request};
use tokio::time::Instant;

/// Connections or datagrams at a time, where shares are taken.
const AT_ONCE: usize = 50;

/// What is opened or sent.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// A connection.
    Tcp(u16),
    /// A connection over TLS, for this name.
    Tls(u16, String),
    /// A datagram, from a socket of its own.
    Udp(u16),
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Tcp(port) => write!(f, "tcp {port}"),
            Asked::Tls(port, name) => write!(f, "tls {port} for {name}"),
            Asked::Udp(port) => write!(f, "udp {port}"),
        }
    }
}

impl Asked {
    /// What the request asks for; none if it is one of HTTP.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let name = || request.sni.clone().expect("a connection over TLS asks for a name: say it as `sni`");
        let tcp = request.tcp.map(Asked::Tcp);
        tcp.or_else(|| request.tls_tcp.map(|port| Asked::Tls(port, name()))).or_else(|| request.udp.map(Asked::Udp))
    }

    /// What is wrong with what comes back.
    pub(crate) async fn judge(&self, request: &Request, stage: &Stage, until: Instant) -> Option<String> {
        if !request.shares.is_empty() {
            return self.shares(&request.shares, stage.place).await;
        }
        let shown = stage.shown(&request.expect);
        // More than Envoy passes on of a datagram by itself.
        let large = "which way? ".repeat(400);
        loop {
            let client = stage.client(request);
            let answer = self.ask(&client, &large, stage.place).await;
            let mut wrong = self.difference(&answer, &request.expect);
            wrong.extend(ask::asked(&client, &request.expect));
            if let (Some(shown), Ok((_, certificate))) = (shown, &answer)
                && certificate.as_ref() != Some(shown)
            {
                wrong.push("the certificate shown is not the newest of the Secret".to_owned());
            }
            if wrong.is_empty() {
                return None;
            }
            if Instant::now() > until {
                return Some(wrong.join("; "));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What the backend saw, and the certificate that was shown.
    async fn ask(&self, client: &Client, text: &str, place: Place) -> io::Result<(Seen, Option<Bytes>)> {
        match self {
            Asked::Tcp(_) | Asked::Tls(..) => {
                let (conversation, seen) = self.open_as(client, place).await?;
                Ok((seen, conversation.certificate))
            }
            Asked::Udp(port) => {
                let at = SocketAddr::from((place.listens(), *port));
                let seen = stream::datagram(at, text).await?;
                if seen.request.as_deref() != Some(text) {
                    return Err(io::Error::other("the backend was sent something else"));
                }
                Ok((seen, None))
            }
        }
    }

    /// Opens a connection, to be kept.
    pub(crate) async fn open(&self, place: Place) -> io::Result<(Conversation, Seen)> {
        self.open_as(&Client::default(), place).await
    }

    async fn open_as(&self, client: &Client, place: Place) -> io::Result<(Conversation, Seen)> {
        let at = |port: &u16| SocketAddr::from((place.listens(), *port));
        match self {
            Asked::Tcp(port) => Conversation::open(at(port), None).await,
            Asked::Tls(port, name) => Conversation::open_as(client, at(port), Some(name)).await,
            Asked::Udp(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Many at once, for a datagram that is dropped is only known by its time; and not all of them, or the system would
    /// drop some.
    async fn shares(&self, expected: &BTreeMap<String, u32>, place: Place) -> Option<String> {
        let by_address = expected.keys().any(|key| key.contains(':'));
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let mut asking = tokio::task::JoinSet::new();
        let mut left = SAMPLE;
        while left > 0 || !asking.is_empty() {
            while left > 0 && asking.len() < AT_ONCE {
                let asked = self.clone();
                asking.spawn(async move { asked.ask(&Client::default(), "which way?", place).await });
                left -= 1;
            }
            let Some(answer) = asking.join_next().await else { break };
            let key = match answer.expect("asking does not panic") {
                Err(_) => "refused".to_owned(),
                Ok((seen, _)) if by_address => seen.identity.pod,
                Ok((seen, _)) => format!("{}/{}", seen.identity.namespace, seen.identity.service),
            };
            *counts.entry(key).or_default() += 1;
        }
        compare(&counts, expected)
    }
}

impl Asked {
    fn difference(&self, answer: &io::Result<(Seen, Option<Bytes>)>, expected: &Answer) -> Vec<String> {
        let seen = match (answer, expected.refused) {
            // Only a datagram is dropped in silence.
            (Err(error), true) if error.kind() != io::ErrorKind::TimedOut || matches!(self, Asked::Udp(_)) => {
                return Vec::new();
            }
            (Err(error), _) => return vec![error.to_string()],
            (Ok((seen, _)), true) => return vec![format!("{:?} answered, expected nobody to", seen.identity)],
            (Ok((seen, _)), false) => seen,
        };
        let mut wrong = Vec::new();
        if let Some(backend) = &expected.backend {
            let service = format!("{}/{}", seen.identity.namespace, seen.identity.service);
            let found = if backend.contains('/') { &service } else { &seen.identity.pod };
            if found != backend {
                wrong.push(format!("backend is {found}, expected {backend}"));
            }
        }
        if expected.backend_tls.is_some_and(|tls| tls != seen.tls) {
            wrong.push(format!("the backend was reached over TLS: {}", seen.tls));
        }
        if expected.backend_sni.is_some() && expected.backend_sni != seen.server_name {
            wrong
                .push(format!("the backend was asked for {:?}, expected {:?}", seen.server_name, expected.backend_sni));
        }
        wrong
    }
}
