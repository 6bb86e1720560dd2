//! Requests of which many are made.

use crate::stage::Stage;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::http::{Call, Response};
use tidegate_scenarios::scenario::expect::{Request, Session};
use tokio::time::Instant;

/// Requests of which shares are taken.
pub(crate) const SAMPLE: u32 = 200;

/// Requests of a session after its first. With two endpoints as near, all of them reach one by chance once in a million
/// times.
const REPEATS: u32 = 20;

/// The longest wait for copies that were made.
const COPIES: Duration = Duration::from_secs(3);

/// Counts many answers. A share may be off by four standard deviations and no more: one run in 15,000 fails by chance;
/// shares of 0 and 100 percent are exact.
pub(super) async fn shares(call: &Call, request: &Request, stage: &Stage) -> Option<String> {
    let expected = &request.shares;
    let seen = || request.mirrored.keys().map(|service| stage.seen(service)).collect::<Vec<_>>();
    let before = seen();
    let by_address = expected.keys().any(|key| key.contains(':'));
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..SAMPLE {
        let key = match call.send().await {
            Err(error) => error.to_string(),
            Ok(response) => who(&response, by_address, request.shares_by.as_deref()),
        };
        *counts.entry(key).or_default() += 1;
    }
    if let Some(wrong) = compare(&counts, expected) {
        return Some(wrong);
    }
    // Nobody waits for a copy, so the last of them may be under way.
    let until = Instant::now() + COPIES;
    loop {
        let copies: Vec<u64> = seen().into_iter().zip(&before).map(|(now, before)| now - before).collect();
        let right = request.mirrored.values().zip(&copies).all(|(percent, count)| is_near(*count, *percent));
        if right || Instant::now() > until {
            return (!right)
                .then(|| format!("of {SAMPLE} requests {copies:?} copies, expected {:?}", request.mirrored));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What is wrong with shares of a sample.
pub(crate) fn compare(counts: &BTreeMap<String, u32>, expected: &BTreeMap<String, u32>) -> Option<String> {
    let right = expected.iter().all(|(key, percent)| is_near(counts.get(key).copied().unwrap_or(0).into(), *percent));
    let known = counts.keys().all(|key| expected.contains_key(key));
    (!right || !known).then(|| format!("of {SAMPLE} answers {counts:?}, expected percent {expected:?}"))
}

fn is_near(count: u64, percent: u32) -> bool {
    let share = f64::from(percent) / 100.0;
    let mean = f64::from(SAMPLE) * share;
    let deviation = (mean * (1.0 - share)).sqrt();
    u32::try_from(count).is_ok_and(|count| (f64::from(count) - mean).abs() <= 4.0 * deviation)
}

/// Makes the first request of a session, and more with what its answer gave; all must be answered by one endpoint.
pub(super) async fn session(call: &Call, session: &Session, until: Instant) -> Option<String> {
    let wrong = loop {
        match one_session(call, session).await {
            Ok(()) => return None,
            Err(wrong) if Instant::now() > until => break wrong,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    Some(wrong)
}

async fn one_session(call: &Call, session: &Session) -> Result<(), String> {
    let first = call.send().await.map_err(|error| error.to_string())?;
    let back = match session {
        Session::Header(name) => first.header(name).map(|value| call.clone().with_header(name, &value)),
        Session::Cookie(name) => {
            let cookies = first.headers.get_all("set-cookie").iter().filter_map(|cookie| cookie.to_str().ok());
            let pairs = cookies.filter_map(|cookie| cookie.split(';').next());
            let pair = pairs.into_iter().find(|pair| pair.starts_with(name.as_str()));
            pair.map(|pair| call.clone().with_header("cookie", pair))
        }
    };
    let back = back.ok_or_else(|| format!("the answer has no {session:?}: {:?}", first.headers))?;
    let began = who(&first, true, None);
    for _ in 0..REPEATS {
        let next = back.send().await.map_err(|error| error.to_string())?;
        let now = who(&next, true, None);
        if now != began {
            return Err(format!("the session went from {began} to {now}"));
        }
    }
    Ok(())
}

/// Who answered: a backend, by Service or address, with the header that it saw if one is named; else the status.
fn who(response: &Response, by_address: bool, header: Option<&str>) -> String {
    let Some(echoed) = response.echoed() else {
        let status = response.status.as_u16().to_string();
        return response.grpc_status().map_or(status, |status| format!("grpc {status}"));
    };
    let service = format!("{}/{}", echoed.identity.namespace, echoed.identity.service);
    let who = if by_address { echoed.identity.pod.clone() } else { service };
    match header {
        Some(name) => format!("{who} {}", echoed.header(name).unwrap_or_default()),
        None => who,
    }
}
