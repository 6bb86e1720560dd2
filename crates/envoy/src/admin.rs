//! Envoy's admin interface: a tiny HTTP client for the few questions that are asked.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Longest time for one question. A dump of 20,000 clusters takes below a second.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A question that got no answer.
#[derive(Debug, Error)]
#[error("cannot {method} {path} of envoy's admin interface at {address}: {reason}")]
pub struct Error {
    address: SocketAddr,
    method: Method,
    path: String,
    reason: String,
}

/// A client of one Envoy's admin interface. Clones share connections.
#[derive(Clone, Debug)]
pub struct Admin {
    address: SocketAddr,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Admin {
    /// The interface at `address`.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Admin { address, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What `/ready` says: `LIVE`, or the state that the start is in (`PRE_INITIALIZING`: no answer from ADS yet).
    ///
    /// # Errors
    ///
    /// Nobody answers.
    pub async fn state(&self) -> Result<String, Error> {
        let (_, body) = self.ask(Method::GET, "/ready").await?;
        Ok(body.trim().to_owned())
    }

    /// Counters and gauges whose names match the regular expression `filter`.
    ///
    /// # Errors
    ///
    /// Nobody answers, or the expression is refused.
    pub async fn stats(&self, filter: &str) -> Result<BTreeMap<String, u64>, Error> {
        let text = self.get(&format!("/stats?filter={}", percent_encode(filter))).await?;
        // Histograms and text readouts stand between them and are no numbers.
        Ok(text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect())
    }

    /// The configuration that Envoy holds: all of it, or one of its lists (`dynamic_active_clusters`,
    /// `dynamic_warming_clusters`, `dynamic_listeners`, `dynamic_route_configs`, ...). Includes endpoints.
    ///
    /// # Errors
    ///
    /// Nobody answers, or there is no such list.
    pub async fn config_dump(&self, list: Option<&str>) -> Result<Value, Error> {
        let path = list.map_or("/config_dump?include_eds".to_owned(), |list| format!("/config_dump?resource={list}"));
        let text = self.get(&path).await?;
        serde_json::from_str(&text).map_err(|e| self.error(Method::GET, &path, e.to_string()))
    }

    /// Any `path`, as text.
    ///
    /// # Errors
    ///
    /// Nobody answers, or the answer is not 200.
    pub async fn get(&self, path: &str) -> Result<String, Error> {
        self.asked(Method::GET, path).await
    }

    /// Any action, such as `/drain_listeners?graceful` or `/quitquitquit`.
    ///
    /// # Errors
    ///
    /// Nobody answers, or the answer is not 200.
    pub async fn post(&self, path: &str) -> Result<String, Error> {
        self.asked(Method::POST, path).await
    }

    async fn asked(&self, method: Method, path: &str) -> Result<String, Error> {
        match self.ask(method.clone(), path).await? {
            (StatusCode::OK, body) => Ok(body),
            (status, body) => Err(self.error(method, path, format!("{status}: {}", body.trim()))),
        }
    }

    async fn ask(&self, method: Method, path: &str) -> Result<(StatusCode, String), Error> {
        let error = |reason: String| self.error(method.clone(), path, reason);
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("http://{}{path}", self.address))
            .body(Empty::new())
            .map_err(|e| error(e.to_string()))?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|e| error(causes(&e)))?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(|e| error(causes(&e)))?.to_bytes();
            Ok((status, String::from_utf8_lossy(&body).into_owned()))
        };
        tokio::time::timeout(TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(error(format!("no answer in {TIMEOUT:?}"))))
    }

    fn error(&self, method: Method, path: &str, reason: String) -> Error {
        Error { address: self.address, method, path: path.to_owned(), reason }
    }
}

/// An error and what is behind it, on one line: hyper's own text says "client error" and no more.
fn causes(error: &dyn std::error::Error) -> String {
    let behind = std::iter::successors(error.source(), |error| error.source());
    behind.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_expression_survives_the_query_string() {
        assert_eq!(percent_encode("^cluster\\.a/b.*rq$"), "%5Ecluster%5C.a%2Fb.%2Arq%24");
    }

    #[tokio::test]
    async fn a_missing_envoy_is_named_with_the_question() {
        let admin = Admin::new(SocketAddr::from(([127, 0, 0, 1], 1)));
        let error = admin.state().await.unwrap_err().to_string();
        assert!(error.starts_with("cannot GET /ready of envoy's admin interface at 127.0.0.1:1: "), "{error}");
        assert!(error.contains("refused"), "{error}");
    }
}
