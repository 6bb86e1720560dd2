//! A backend that answers every request with what it saw and who it is.
//!
//! HTTP/1.1, HTTP/2 and gRPC on one port, without TLS or over it. The answer is the JSON form of [`Echoed`], so that a test reads from
//! it what a proxy did to the request and which backend it chose. A request can steer its answer:
//!
//! * header `X-Echo-Set-Header: name:value, name2:value2` sets headers of the answer;
//! * query `?delay=300ms` or `?delay=2s` answers later;
//! * path `/status/NNN` answers with that status;
//! * path `/retry?uuid=U&succeedAfter=N&responseCode=503` answers the first N requests of this uuid with that status, and
//!   without a `responseCode` breaks their connections instead.
//!
//! Where a request asks for a WebSocket it gets one, and every byte of it comes back.

pub(crate) mod grpc;

mod turns;

use crate::tls::{self, Handshake, Pair};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use turns::{Turn, Turns};

/// Who a backend says that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name of the pod.
    pub pod: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the Service that it stands behind.
    pub service: String,
}

impl Identity {
    /// Pod `pod` of `namespace/service`.
    #[must_use]
    pub fn new(namespace: &str, service: &str, pod: &str) -> Self {
        Identity { pod: pod.to_owned(), namespace: namespace.to_owned(), service: service.to_owned() }
    }
}

/// What a backend saw, and who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echoed {
    /// Path and query.
    pub path: String,
    /// `Host` or `:authority`.
    pub host: String,
    /// Method.
    pub method: String,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub proto: String,
    /// Values of each header, names in lower case.
    pub headers: BTreeMap<String, Vec<String>>,
    /// Who answers.
    #[serde(flatten)]
    pub identity: Identity,
    /// What is under the request, if it came over TLS. Not in the answer to a call of gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Handshake>,
}

impl Echoed {
    /// The values of a header, joined by commas; `None` if it was not there.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(&name.to_ascii_lowercase()).map(|values| values.join(","))
    }
}

/// A backend that cannot listen.
#[derive(Debug, Error)]
#[error("cannot listen on {address} for an echo backend: {source}")]
pub struct Error {
    address: SocketAddr,
    source: std::io::Error,
}

/// A running backend. Dropping it closes its port and all its connections.
#[derive(Debug)]
pub struct Echo {
    address: SocketAddr,
    identity: Arc<Identity>,
    requests: Arc<AtomicU64>,
    _accepting: JoinSet<()>,
}

impl Echo {
    /// Listens on `address` (port 0: any) and answers as `identity`.
    ///
    /// # Errors
    ///
    /// The address is taken or not of this machine.
    pub async fn start(address: SocketAddr, identity: Identity) -> Result<Self, Error> {
        Echo::listen(address, identity, None).await
    }

    /// The same over TLS, with this certificate.
    ///
    /// # Errors
    ///
    /// As [`Echo::start`], or the certificate has no usable key.
    pub async fn start_tls(address: SocketAddr, identity: Identity, certificate: &Pair) -> Result<Self, Error> {
        let acceptor = tls::acceptor(certificate, &[b"h2", b"http/1.1"]);
        let acceptor = acceptor.map_err(|source| Error { address, source })?;
        Echo::listen(address, identity, Some(acceptor)).await
    }

    async fn listen(address: SocketAddr, identity: Identity, acceptor: Option<TlsAcceptor>) -> Result<Self, Error> {
        let failed = |source| Error { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (identity, requests) = (Arc::new(identity), Arc::new(AtomicU64::new(0)));
        let mut accepting = JoinSet::new();
        let backend = Backend {
            identity: Arc::clone(&identity),
            requests: Arc::clone(&requests),
            turns: Arc::default(),
            upgrade: Arc::default(),
            tls: None,
        };
        accepting.spawn(accept(listener, acceptor, backend));
        Ok(Echo { address, identity, requests, _accepting: accepting })
    }

    /// Who it says that it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests it has seen.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, backend: Backend) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let _unsupported = stream.set_nodelay(true);
                let (acceptor, backend) = (acceptor.clone(), Backend { upgrade: Arc::default(), ..backend.clone() });
                connections.spawn(async move {
                    let Some(acceptor) = acceptor else { return serve(stream, backend).await };
                    // Who does not shake hands is not answered.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let tls = Some(Arc::new(Handshake::of(&stream)));
                    serve(stream, Backend { tls, ..backend }).await;
                });
            }
        }
    }
}

/// What one connection knows.
#[derive(Clone)]
struct Backend {
    identity: Arc<Identity>,
    requests: Arc<AtomicU64>,
    turns: Arc<Turns>,
    /// What the connection becomes when HTTP is over.
    upgrade: Arc<Mutex<Option<OnUpgrade>>>,
    tls: Option<Arc<Handshake>>,
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, backend: Backend) {
    let upgrade = Arc::clone(&backend.upgrade);
    let service = service_fn(move |request| {
        backend.requests.fetch_add(1, Ordering::Relaxed);
        answer(request, backend.clone())
    });
    let builder = Builder::new(TokioExecutor::new());
    // A connection that breaks is the peer's affair.
    let _broken = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
    let upgrade = upgrade.lock().ok().and_then(|mut upgrade| upgrade.take());
    let Some(upgrade) = upgrade else { return };
    if let Ok(upgraded) = upgrade.await {
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded));
        let _broken = tokio::io::copy(&mut reader, &mut writer).await;
    }
}

/// The request asked for its connection to break.
#[derive(Debug, Error)]
#[error("asked to break")]
struct Break;

/// An answer with its body.
type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn answer(mut request: Request<Incoming>, backend: Backend) -> Result<Answer, Break> {
    let is_websocket = request.headers().get(http::header::UPGRADE).is_some_and(|to| to == "websocket");
    if is_websocket && let Ok(mut upgrade) = backend.upgrade.lock() {
        *upgrade = Some(hyper::upgrade::on(&mut request));
        return Ok(switching());
    }
    let (parts, body) = request.into_parts();
    // The whole request first: an early answer would make some clients close the connection.
    let _broken = body.collect().await;
    if let Some(delay) = query(&parts.uri, "delay").and_then(parse_delay) {
        tokio::time::sleep(delay).await;
    }
    let status = match backend.turns.turn(&parts.uri) {
        Turn::Break => return Err(Break),
        Turn::Fail(status) => status,
        Turn::Answer => status_of(parts.uri.path()),
    };
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in &parts.headers {
        headers.entry(name.to_string()).or_default().push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    let host = parts.uri.authority().map(ToString::to_string);
    let host = host.or_else(|| headers.get("host").and_then(|values| values.first().cloned())).unwrap_or_default();
    let echoed = Echoed {
        path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        host,
        method: parts.method.to_string(),
        proto: format!("{:?}", parts.version),
        headers,
        identity: Identity::clone(&backend.identity),
        tls: backend.tls.as_deref().cloned(),
    };
    let kind = echoed.header("content-type").unwrap_or_default();
    if status == StatusCode::OK && kind.starts_with(grpc::CONTENT_TYPE) {
        return Ok(with_orders(grpc::answer(&echoed), &parts.headers));
    }
    let body = serde_json::to_vec(&echoed).expect("strings and maps of strings are JSON");
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(with_orders(response, &parts.headers))
}

/// The answer with the headers that its request ordered.
fn with_orders(mut response: Answer, request: &HeaderMap) -> Answer {
    for (name, value) in request.get_all("x-echo-set-header").iter().flat_map(header_orders) {
        response.headers_mut().append(name, value);
    }
    response
}

/// From here on the connection is a WebSocket.
fn switching() -> Answer {
    let mut response = Response::new(Full::default().boxed());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(http::header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}

fn status_of(path: &str) -> StatusCode {
    let asked = path.split_once("/status/").and_then(|(_, rest)| rest.split('/').next());
    asked.and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok()).unwrap_or(StatusCode::OK)
}

/// The headers that a `name:value, name:value` list orders; parts that are no header are passed over.
fn header_orders(list: &HeaderValue) -> Vec<(HeaderName, HeaderValue)> {
    let orders = list.to_str().unwrap_or_default().split(',');
    orders
        .filter_map(|order| {
            let (name, value) = order.split_once(':')?;
            Some((name.trim().parse().ok()?, HeaderValue::from_str(value.trim()).ok()?))
        })
        .collect()
}

fn query<'a>(uri: &'a http::Uri, key: &str) -> Option<&'a str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn parse_delay(text: &str) -> Option<Duration> {
    if let Some(millis) = text.strip_suffix("ms") {
        return millis.parse().ok().map(Duration::from_millis);
    }
    text.strip_suffix('s')?.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read_in_both_units() {
        assert_eq!(parse_delay("300ms"), Some(Duration::from_millis(300)));
        assert_eq!(parse_delay("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_delay("-1s"), None);
        assert_eq!(parse_delay("3"), None);
    }

    #[test]
    fn a_path_orders_a_status() {
        assert_eq!(status_of("/status/503"), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status_of("/a/status/404/b"), StatusCode::NOT_FOUND);
        assert_eq!(status_of("/status/soon"), StatusCode::OK);
    }
}
