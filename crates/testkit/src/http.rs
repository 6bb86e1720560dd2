//! One request, one answer, over a connection of its own.

use crate::echo::{Echoed, grpc};
use crate::tls;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Longest wait for an answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// A request without an answer.
#[derive(Debug, Error)]
#[error("{step} {url} failed: {reason}")]
pub struct Error {
    step: &'static str,
    url: String,
    reason: String,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// What came after the body.
    pub trailers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// The certificate that the server showed, in DER.
    pub certificate: Option<Bytes>,
}

impl Response {
    /// The values of a header, joined by commas; `None` if it is not there.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let mut values = self.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let first = values.next()?.into_owned();
        Some(values.fold(first, |joined, value| joined + "," + &value))
    }

    /// What the echo backend saw, if it was one that answered.
    #[must_use]
    pub fn echoed(&self) -> Option<Echoed> {
        let is_grpc = self.header("content-type").is_some_and(|kind| kind.starts_with(grpc::CONTENT_TYPE));
        if is_grpc { grpc::decode(&self.body) } else { serde_json::from_slice(&self.body).ok() }
    }

    /// The status of a call of gRPC: after the body, or in place of one.
    #[must_use]
    pub fn grpc_status(&self) -> Option<u16> {
        let status = self.trailers.get("grpc-status").or_else(|| self.headers.get("grpc-status"))?;
        status.to_str().ok()?.parse().ok()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A request to make.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whom to connect to.
    pub address: SocketAddr,
    /// Method.
    pub method: Method,
    /// `Host` or `:authority`.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// More headers.
    pub headers: Vec<(String, String)>,
    /// HTTP/2 instead of HTTP/1.1: without TLS by prior knowledge, with it by ALPN.
    pub http2: bool,
    /// TLS, asking for this name; none for plaintext. Any certificate is taken: see [`Response::certificate`].
    pub tls: Option<String>,
    /// What is shown of the client over TLS, and whether that was asked for.
    pub client: tls::Client,
    /// Body.
    pub body: Bytes,
}

impl Call {
    /// `GET path` of `host` at `address`, HTTP/1.1.
    #[must_use]
    pub fn get(address: SocketAddr, host: &str, path: &str) -> Self {
        Call {
            address,
            method: Method::GET,
            host: host.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            http2: false,
            tls: None,
            client: tls::Client::default(),
            body: Bytes::new(),
        }
    }

    /// A call of a gRPC method, `package.Service/Method`, with an empty message.
    #[must_use]
    pub fn grpc(address: SocketAddr, host: &str, method: &str) -> Self {
        let call = Call { method: Method::POST, http2: true, ..Call::get(address, host, &format!("/{method}")) };
        let call = Call { body: grpc::EMPTY, ..call };
        call.with_header("content-type", grpc::CONTENT_TYPE).with_header("te", "trailers")
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes it.
    ///
    /// # Errors
    ///
    /// Nobody listens, the connection breaks, or there is no whole answer in [`TIMEOUT`].
    pub async fn send(&self) -> Result<Response, Error> {
        let answer = self.exchange();
        tokio::time::timeout(TIMEOUT, answer)
            .await
            .unwrap_or_else(|_| Err(self.error("answering", "no answer in time")))
    }

    async fn exchange(&self) -> Result<Response, Error> {
        let connecting = |e: &dyn std::error::Error| self.error("connecting to", &causes(e));
        let stream = TcpStream::connect(self.address).await.map_err(|e| connecting(&e))?;
        match &self.tls {
            None => self.exchange_over(stream).await,
            Some(name) => {
                let stream =
                    tls::connect(stream, name, &[self.alpn()], &self.client).await.map_err(|e| connecting(&e))?;
                let certificate = tls::certificate(&stream);
                Ok(Response { certificate, ..self.exchange_over(stream).await? })
            }
        }
    }

    async fn exchange_over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Response, Error> {
        let connecting = |e: &dyn std::error::Error| self.error("connecting to", &causes(e));
        let answering = |e: &dyn std::error::Error| self.error("answering", &causes(e));
        let io = TokioIo::new(stream);
        let mut request = Request::builder().method(self.method.clone());
        if self.http2 {
            request = request.uri(format!("{}://{}{}", self.scheme(), self.host, self.path));
        } else {
            request = request.uri(&self.path).header(http::header::HOST, &self.host);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(self.body.clone())).map_err(|e| connecting(&e))?;
        if self.http2 {
            let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await;
            let (mut sender, connection) = handshake.map_err(|e| connecting(&e))?;
            alongside(connection, async { read(sender.send_request(request).await).await }).await
        } else {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(io).await.map_err(|e| connecting(&e))?;
            alongside(connection, async { read(sender.send_request(request).await).await }).await
        }
        .map_err(|e| answering(&e))
    }

    fn alpn(&self) -> &'static [u8] {
        if self.http2 { b"h2" } else { b"http/1.1" }
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    fn error(&self, step: &'static str, reason: &str) -> Error {
        let url = format!("{}://{}{} at {}", self.scheme(), self.host, self.path, self.address);
        Error { step, url, reason: reason.to_owned() }
    }
}

/// `GET path` of `host` at `address` with `headers`, HTTP/1.1.
///
/// # Errors
///
/// Nobody listens, the connection breaks, or there is no whole answer in [`TIMEOUT`].
pub async fn get(address: SocketAddr, host: &str, path: &str, headers: &[(&str, &str)]) -> Result<Response, Error> {
    let call = Call::get(address, host, path);
    headers.iter().fold(call, |call, (name, value)| call.with_header(name, value)).send().await
}

async fn read(answer: hyper::Result<http::Response<Incoming>>) -> hyper::Result<Response> {
    let (parts, body) = answer?.into_parts();
    let collected = body.collect().await?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let body = collected.to_bytes();
    Ok(Response { status: parts.status, headers: parts.headers, trailers, body, certificate: None })
}

/// Drives a connection until the exchange on it is over, without a task of its own.
async fn alongside<T>(connection: impl Future, exchange: impl Future<Output = T>) -> T {
    let mut exchange = std::pin::pin!(exchange);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        done = &mut exchange => return done,
        _ended = &mut connection => {}
    }
    // The connection is over; what it has delivered is still to be read.
    exchange.await
}

/// An error and what is behind it, on one line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let behind = std::iter::successors(error.source(), |error| error.source());
    behind.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
