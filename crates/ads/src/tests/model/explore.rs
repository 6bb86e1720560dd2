//! Everything that can happen, in the order of its length.

use super::envoy::{Verdict, kind_of};
use super::run::{Event, Setup, State};
use crate::session::{Ask, Request, Response};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What an exploration saw.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) states: usize,
    pub(super) steps: usize,
    /// Length of the longest shortest way to a state.
    pub(super) depth: usize,
    /// States in which nothing was left to do.
    pub(super) at_rest: usize,
    /// Whether there was nothing more to see.
    pub(super) complete: bool,
    /// The shortest way to what must not be, with the reason.
    pub(super) found: Option<(Vec<Event>, String)>,
}

/// Visits every state that can be reached, the nearest first, until one is wrong or there are `max_states`.
pub(super) fn explore(setup: &Setup, start: State, max_states: usize) -> Report {
    let mut report = Report::default();
    let mut numbers = BTreeMap::from([(start.fingerprint(), 0_u32)]);
    let mut ways: Vec<(u32, Event)> = vec![(0, Event::Request)];
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut level = vec![(0_u32, start)];
    while !level.is_empty() && numbers.len() < max_states {
        let mut next = Vec::new();
        for (number, state) in level {
            report.at_rest += usize::from(state.is_at_rest());
            for event in state.events(setup) {
                let mut after = state.clone();
                report.steps += 1;
                if let Err(reason) = after.step(setup, event) {
                    report.states = numbers.len();
                    report.found = Some((way(&ways, number, Some(event)), reason));
                    return report;
                }
                let new = u32::try_from(ways.len()).unwrap();
                let to = *numbers.entry(after.fingerprint()).or_insert(new);
                edges.push((number, to));
                if to == new {
                    ways.push((number, event));
                    next.push((new, after));
                }
            }
        }
        level = next;
        report.depth += 1;
    }
    report.states = numbers.len();
    report.complete = level.is_empty();
    if report.complete
        && let Some(number) = on_a_circle(ways.len(), &edges)
    {
        report.found = Some((way(&ways, number, None), "can go on for ever".to_owned()));
    }
    report
}

fn way(ways: &[(u32, Event)], mut number: u32, last: Option<Event>) -> Vec<Event> {
    let mut events: Vec<Event> = last.into_iter().collect();
    while number != 0 {
        let (before, event) = ways[number as usize];
        events.push(event);
        number = before;
    }
    events.reverse();
    events
}

/// A state that leads back to itself, if there is one: takes away, again and again, what nothing leads to.
fn on_a_circle(states: usize, edges: &[(u32, u32)]) -> Option<u32> {
    let mut sorted = edges.to_vec();
    sorted.sort_unstable();
    let mut incoming = vec![0_u32; states];
    edges.iter().for_each(|(_, to)| incoming[*to as usize] += 1);
    let mut free: Vec<u32> = (0..).zip(&incoming).filter(|(_, count)| **count == 0).map(|(state, _)| state).collect();
    while let Some(state) = free.pop() {
        let from = sorted.partition_point(|(from, _)| *from < state);
        for (_, to) in sorted[from..].iter().take_while(|(from, _)| *from == state) {
            incoming[*to as usize] -= 1;
            if incoming[*to as usize] == 0 {
                free.push(*to);
            }
        }
    }
    (0..).zip(incoming).find(|(_, count)| *count > 0).map(|(state, _)| state)
}

/// A way in words: what happens, and what the two say upon it.
pub(super) fn describe(setup: &Setup, start: &State, events: &[Event]) -> String {
    let mut state = start.clone();
    let mut text = String::new();
    for (index, event) in events.iter().enumerate() {
        let (now, to_client, to_server) = (state.now(), state.wires().0.clone(), state.wires().1.clone());
        let result = state.step(setup, *event);
        let what = match event {
            Event::Process(_, verdict) => {
                let left = state.wires().0;
                let taken = to_client.iter().find(|it| !left.iter().any(|left| left.nonce == it.nonce));
                let how = if *verdict == Verdict::Good { "applies" } else { "rejects" };
                format!("Envoy {how} {} {verdict:?}", taken.map(response).unwrap_or_default())
            }
            Event::Request => format!("session takes {}", to_server.front().map(request).unwrap_or_default()),
            Event::Seal => "next seal".to_owned(),
            Event::Due | Event::Halt => format!("{} ms pass", state.now() - now),
            Event::Drained => "Envoy has drained".to_owned(),
            Event::Reconnect => "the stream breaks".to_owned(),
        };
        let _ = writeln!(text, "{:3}. {what}", index + 1);
        let known = |it: &&Response| !to_client.iter().any(|old| old.nonce == it.nonce) || *event == Event::Reconnect;
        for sent in state.wires().0.iter().filter(known) {
            let _ = writeln!(text, "       session sends {}", response(sent));
        }
        let kept = match event {
            Event::Request => to_server.len() - 1,
            Event::Reconnect => 0,
            Event::Process(..) | Event::Seal | Event::Due | Event::Halt | Event::Drained => to_server.len(),
        };
        for said in state.wires().1.iter().skip(kept) {
            let _ = writeln!(text, "       Envoy says {}", request(said));
        }
        if let Err(reason) = result {
            let _ = writeln!(text, "       wrong: {reason}");
        }
    }
    text
}

fn response(response: &Response) -> String {
    let names = response.resources.iter().map(|it| format!("{}@{}", it.name, &it.version.to_string()[..4]));
    let removed = response.removed.iter().map(|name| format!("-{name}"));
    let words: Vec<String> = names.chain(removed).collect();
    format!("{} #{} [{}]", kind_of(response).short(), response.nonce, words.join(" "))
}

fn request(request: &Request) -> String {
    let kind = request.type_url.as_str().rsplit('.').next().unwrap_or_default();
    let error = request.error.as_deref().map(|error| format!(" NACK {error}")).unwrap_or_default();
    match &request.ask {
        Ask::Sotw { version, names } => {
            let brought = if version.is_empty() { "new" } else { "warm" };
            format!("{kind} #{} {brought} [{}]{error}", request.nonce, names.join(" "))
        }
        Ask::Delta { subscribe, unsubscribe, initial } => {
            format!("{kind} #{} +{subscribe:?} -{unsubscribe:?} has {:?}{error}", request.nonce, initial.keys())
        }
    }
}
