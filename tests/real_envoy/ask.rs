//! Requests, and the comparison of their answers.

pub(crate) mod several;

use crate::stage::Stage;
use crate::streams;
use http::Method;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::http::{Call, Error, Response};
use testkit::tls::Client;
use tidegate_model::NamespacedName;
use tidegate_scenarios::scenario::expect::{Answer, Request};
use tidegate_scenarios::scenario::observed::Observed;
use tokio::time::Instant;

/// For how long an answer may still be that of the epoch before: Envoy acknowledges on its main thread, and its workers
/// take over what is new a moment later (up to 11 ms were measured on an idle machine).
const TAKE_OVER: Duration = Duration::from_secs(3);

/// Makes every request; what is wrong with the answers.
pub(crate) async fn all(requests: &[Request], stage: &Stage, observed: Observed<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let until = Instant::now() + TAKE_OVER;
    for request in requests {
        if let Some(asked) = streams::Asked::of(request) {
            wrong.extend(asked.judge(request, stage, until).await.map(|text| format!("{asked}: {text}")));
            continue;
        }
        let call = call(request, stage, observed);
        let found = if let Some(session) = &request.session {
            several::session(&call, session, until).await
        } else if let Some(text) = &request.websocket {
            websocket(&call, text, &request.expect, until).await
        } else if request.shares.is_empty() {
            one(&call, &request.expect, stage, until).await
        } else {
            several::shares(&call, request, stage).await
        };
        wrong.extend(found.into_iter().map(|text| format!("{} {}{}: {text}", call.method, call.host, call.path)));
    }
    wrong
}

fn call(request: &Request, stage: &Stage, observed: Observed<'_>) -> Call {
    let gateway = match &request.gateway {
        Some(name) => NamespacedName::parse(name),
        None => stage.gateways.first().expect("there is an Envoy for every request").clone(),
    };
    let port = request.port.or_else(|| observed.ports(&gateway).into_iter().next());
    let port = port.unwrap_or_else(|| panic!("{gateway} listens nowhere: say which port is asked"));
    let address = SocketAddr::from((stage.place.listens(), port));
    let mut call = match &request.grpc {
        Some(method) => Call::grpc(address, &request.host, method),
        None => Call::get(address, &request.host, &request.path),
    };
    if let Some(method) = &request.method {
        call.method = Method::from_bytes(method.as_bytes()).expect("a method");
    }
    call.http2 |= request.http2;
    call.client = stage.client(request);
    call.tls = request.tls.then(|| request.sni.clone().unwrap_or_else(|| request.host.clone()));
    request.headers.iter().fold(call, |call, (name, value)| call.with_header(name, value))
}

/// Asks until the answer is the expected one or time is up.
async fn one(call: &Call, expected: &Answer, stage: &Stage, until: Instant) -> Option<String> {
    let shown = stage.shown(expected);
    loop {
        let began = Instant::now();
        let call = fresh(call);
        let answer = call.send().await;
        let mut wrong = difference(&answer, expected, began.elapsed());
        wrong.extend(asked(&call.client, expected));
        if let Ok(response) = &answer {
            wrong.extend(under(response, expected, stage));
        }
        if let (Some(shown), Ok(response)) = (shown, &answer)
            && response.certificate.as_ref() != Some(shown)
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

fn difference(answer: &Result<Response, Error>, expected: &Answer, took: Duration) -> Vec<String> {
    let response = match (answer, expected.refused) {
        (Err(_), true) => return Vec::new(),
        (Err(error), false) => return vec![error.to_string()],
        (Ok(response), true) => return vec![format!("answered {}, expected nobody to listen", response.status)],
        (Ok(response), false) => response,
    };
    let mut wrong = Vec::new();
    let mut compare = |what: &str, found: Option<String>, expected: Option<&str>| {
        if found.as_deref() != expected {
            wrong.push(format!("{what} is {found:?}, expected {expected:?}"));
        }
    };
    if let Some(status) = expected.status {
        compare("status", Some(response.status.as_u16().to_string()), Some(&status.to_string()));
    }
    if let Some(status) = expected.grpc_status {
        compare("status of gRPC", response.grpc_status().map(|s| s.to_string()), Some(&status.to_string()));
    }
    let echoed = response.echoed();
    if let Some(backend) = &expected.backend {
        let found = echoed.as_ref().map(|echoed| {
            let service = format!("{}/{}", echoed.identity.namespace, echoed.identity.service);
            if backend.contains('/') { service } else { echoed.identity.pod.clone() }
        });
        compare("backend", found, Some(backend));
    }
    if let Some(location) = &expected.location {
        compare("location", response.header("location"), Some(location));
    }
    if let Some(path) = &expected.path {
        compare("path at the backend", echoed.as_ref().map(|echoed| echoed.path.clone()), Some(path));
    }
    if let Some(host) = &expected.host {
        compare("host at the backend", echoed.as_ref().map(|echoed| echoed.host.clone()), Some(host));
    }
    if let Some(proto) = &expected.proto {
        compare("protocol at the backend", echoed.as_ref().map(|echoed| echoed.proto.clone()), Some(proto));
    }
    for (name, value) in &expected.headers {
        let found = echoed.as_ref().and_then(|echoed| echoed.header(name));
        compare(&format!("header {name} at the backend"), found, value.as_deref());
    }
    for (name, value) in &expected.response_headers {
        compare(&format!("header {name} of the answer"), response.header(name), value.as_deref());
    }
    if let Some(most) = expected.within_ms
        && took > Duration::from_millis(most)
    {
        wrong.push(format!("the answer took {took:?}, expected {most} ms at most"));
    }
    wrong
}

/// What differs in the TLS under the request, as the backend saw it.
fn under(response: &Response, expected: &Answer, stage: &Stage) -> Vec<String> {
    let found = response.echoed().and_then(|echoed| echoed.tls);
    let mut wrong = Vec::new();
    if expected.backend_tls.is_some_and(|tls| tls != found.is_some()) {
        wrong.push(format!("the backend was reached over TLS: {}", found.is_some()));
    }
    let found = found.unwrap_or_default();
    let texts = [(&expected.backend_sni, &found.server_name), (&expected.backend_alpn, &found.negotiated_protocol)];
    for (expected, found) in texts {
        if expected.as_ref().is_some_and(|expected| expected != found) {
            wrong.push(format!("under the request the backend saw {found:?}, expected {expected:?}"));
        }
    }
    if let Some(secret) = &expected.client_certificate {
        let expected = stage.certificate(secret).map(|shown| testkit::tls::pem(&shown.der));
        if found.peer_certificates.first() != expected.as_ref() {
            wrong.push(format!("the backend was shown {:?}, expected that of {secret:?}", found.peer_certificates));
        }
    }
    wrong
}

/// The same call, by a client that was not asked yet, with a number that no other has in place of `{n}` in its path.
fn fresh(call: &Call) -> Call {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
    Call { path: call.path.replace("{n}", &number), client: call.client.fresh(), ..call.clone() }
}

/// What is wrong with whether the client was asked for a certificate.
pub(crate) fn asked(client: &Client, expected: &Answer) -> Option<String> {
    let was_asked = client.was_asked();
    let wrong = expected.asks_for_certificate.is_some_and(|asks| asks != was_asked);
    wrong.then(|| format!("the client was asked for a certificate: {was_asked}"))
}

/// Asks for a WebSocket until the text comes back, or the expected status instead of one.
async fn websocket(call: &Call, text: &str, expected: &Answer, until: Instant) -> Option<String> {
    loop {
        let answer = testkit::websocket::exchange(call.address, &call.host, &call.path, text).await;
        let right = match &answer {
            Ok(Ok(back)) => expected.status.is_none_or(|status| status == 101) && back == text,
            Ok(Err(status)) => expected.status == Some(*status),
            Err(_) => false,
        };
        if right {
            return None;
        }
        if Instant::now() > until {
            return Some(format!("over a WebSocket came {answer:?}"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
