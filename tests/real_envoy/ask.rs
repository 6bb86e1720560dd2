//! Requests, and the comparison of their answers.

use crate::stage::Stage;
use crate::streams;
use bytes::Bytes;
use http::Method;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::http::{Call, Error, Response};
use tidegate_model::NamespacedName;
use tidegate_scenarios::scenario::expect::{Answer, Request};
use tidegate_scenarios::scenario::observed::Observed;
use tokio::time::Instant;

/// For how long an answer may still be that of the epoch before: Envoy acknowledges on its main thread, and its workers
/// take over what is new a moment later (up to 11 ms were measured on an idle machine).
const TAKE_OVER: Duration = Duration::from_secs(3);

/// Requests of which shares are taken.
pub(crate) const SAMPLE: u32 = 200;

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
        let found = if request.shares.is_empty() {
            one(&call, &request.expect, stage.shown(&request.expect), until).await
        } else {
            shares(&call, request).await
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
    let mut call = Call::get(SocketAddr::from((stage.place.listens(), port)), &request.host, &request.path);
    if let Some(method) = &request.method {
        call.method = Method::from_bytes(method.as_bytes()).expect("a method");
    }
    call.http2 = request.http2;
    call.tls = request.tls.then(|| request.sni.clone().unwrap_or_else(|| request.host.clone()));
    request.headers.iter().fold(call, |call, (name, value)| call.with_header(name, value))
}

/// Asks until the answer is the expected one or time is up.
async fn one(call: &Call, expected: &Answer, shown: Option<&Bytes>, until: Instant) -> Option<String> {
    loop {
        let began = Instant::now();
        let answer = call.send().await;
        let mut wrong = difference(&answer, expected, began.elapsed());
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

/// Counts many answers. A share may be off by four standard deviations and no more: one run in 15,000 fails by chance;
/// shares of 0 and 100 percent are exact.
async fn shares(call: &Call, request: &Request) -> Option<String> {
    let expected = &request.shares;
    let by_address = expected.keys().any(|key| key.contains(':'));
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..SAMPLE {
        let key = match call.send().await {
            Err(error) => error.to_string(),
            Ok(response) => who(&response, by_address, request.shares_by.as_deref()),
        };
        *counts.entry(key).or_default() += 1;
    }
    compare(&counts, expected)
}

/// What is wrong with shares of a sample.
pub(crate) fn compare(counts: &BTreeMap<String, u32>, expected: &BTreeMap<String, u32>) -> Option<String> {
    let is_near = |key: &str, percent: u32| {
        let share = f64::from(percent) / 100.0;
        let mean = f64::from(SAMPLE) * share;
        let deviation = (mean * (1.0 - share)).sqrt();
        (f64::from(counts.get(key).copied().unwrap_or(0)) - mean).abs() <= 4.0 * deviation
    };
    let right = expected.iter().all(|(key, percent)| is_near(key, *percent));
    let known = counts.keys().all(|key| expected.contains_key(key));
    (!right || !known).then(|| format!("of {SAMPLE} answers {counts:?}, expected percent {expected:?}"))
}

/// Who answered: a backend, by Service or address, with the header that it saw if one is named; else the status.
fn who(response: &Response, by_address: bool, header: Option<&str>) -> String {
    let Some(echoed) = response.echoed() else { return response.status.as_u16().to_string() };
    let service = format!("{}/{}", echoed.identity.namespace, echoed.identity.service);
    let who = if by_address { echoed.identity.pod.clone() } else { service };
    match header {
        Some(name) => format!("{who} {}", echoed.header(name).unwrap_or_default()),
        None => who,
    }
}
