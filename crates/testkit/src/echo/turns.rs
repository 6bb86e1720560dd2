//! Requests that fail some times before they succeed.

use super::query;
use http::{StatusCode, Uri};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What a request gets.
#[derive(Debug, PartialEq)]
pub(super) enum Turn {
    /// An answer.
    Answer,
    /// An answer with this status.
    Fail(StatusCode),
    /// A broken connection.
    Break,
}

/// How many requests of each uuid there were.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<BTreeMap<String, u32>>);

impl Turns {
    /// Whether this request of its uuid is one of those that shall fail.
    pub(super) fn turn(&self, uri: &Uri) -> Turn {
        let order = query(uri, "uuid").zip(query(uri, "succeedAfter").and_then(|count| count.parse::<u32>().ok()));
        let Some((uuid, failures)) = order.filter(|_| uri.path().starts_with("/retry")) else { return Turn::Answer };
        let mut counts = self.0.lock().expect("nobody panics while holding the counts");
        let count = counts.entry(uuid.to_owned()).or_default();
        *count += 1;
        match query(uri, "responseCode").and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok()) {
            _ if *count > failures => Turn::Answer,
            Some(status) => Turn::Fail(status),
            None => Turn::Break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uuid_has_turns_of_its_own() {
        let turns = Turns::default();
        let turn = |uuid: &str, rest: &str| turns.turn(&format!("/retry?uuid={uuid}&{rest}").parse().unwrap());
        let failed = Turn::Fail(StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(turn("a", "succeedAfter=2&responseCode=503"), failed);
        assert_eq!(turn("b", "succeedAfter=1"), Turn::Break);
        assert_eq!(turn("a", "succeedAfter=2&responseCode=503"), failed);
        assert_eq!([turn("a", "succeedAfter=2"), turn("b", "succeedAfter=1")], [Turn::Answer, Turn::Answer]);
        assert_eq!(turn("c", "responseCode=503"), Turn::Answer);
    }
}
