//! The session against a model of Envoy, in every order in which the two can speak.
//!
//! `docs/design/wire-model.md` says what the model holds. The tests explore the small ones of the scripts whole and the
//! others as far as 2,000 states reach; `TIDEGATE_MODEL=400000` goes on to as many. `TIDEGATE_RUNS` is the number of random
//! runs.

mod canonical;
mod catalog;
mod envoy;
mod explore;
mod judge;
mod random;
mod run;
mod scripts;

use super::harness::BOTH;
use crate::session::{Limits, Protocol, Rule, Sequencing};
use explore::{describe, explore};
use run::{Setup, State};
use scripts::Script;

/// Time never helps: what waits for an acknowledgement waits for ever without it.
const PATIENT: Limits =
    Limits { grace_ms: 5_000, pin_ms: 100_000_000, drain_ms: 1_000, max_inflight: 64, max_names: 1_000 };

/// What may go wrong in an exploration.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    rejections: u8,
    reconnects: u8,
    halts: bool,
    cold: bool,
}

/// How many states an exploration visits at most.
fn most_states() -> usize {
    let size = std::env::var("TIDEGATE_MODEL").ok();
    size.map_or(2_000, |size| size.parse().expect("TIDEGATE_MODEL is a number of states"))
}

/// Explores the script whole, in one protocol.
fn explore_whole(script: &Script, protocol: Protocol, limits: Limits, trouble: Trouble) {
    let setup = Setup {
        rejections: trouble.rejections,
        reconnects: trouble.reconnects,
        halts: trouble.halts,
        ..Setup::new(protocol, limits, script.seals.clone())
    };
    let start = if trouble.cold { State::cold(&setup) } else { State::running(&setup) };
    let report = explore(&setup, start.clone(), most_states());
    println!(
        "{} {protocol} {trouble:?} pin {}: {} states, {} steps, {} at rest, depth {}, whole: {}",
        script.name, limits.pin_ms, report.states, report.steps, report.at_rest, report.depth, report.complete
    );
    if let Some((events, reason)) = &report.found {
        panic!("{} {protocol} {trouble:?}: {reason}\n{}", script.name, describe(&setup, &start, events));
    }
    assert!(report.at_rest > 0 || !report.complete, "nothing ever comes to rest");
}

const CALM: Trouble = Trouble { rejections: 0, reconnects: 0, halts: false, cold: false };

fn explore_all(limits: Limits, trouble: Trouble, protocols: &[Protocol]) {
    for script in scripts::all() {
        for protocol in protocols {
            explore_whole(&script, *protocol, limits, trouble);
        }
    }
}

#[test]
fn in_every_order_nothing_is_served_wrong() {
    explore_all(PATIENT, CALM, &BOTH);
    explore_all(Limits { grace_ms: 0, ..PATIENT }, CALM, &BOTH);
}

#[test]
fn in_every_order_a_new_client_is_served_right_from_the_beginning() {
    explore_all(PATIENT, Trouble { cold: true, ..CALM }, &BOTH);
}

#[test]
fn in_every_order_and_at_any_time_only_the_bound_is_felt_and_no_table_grows_old() {
    explore_all(Limits::default(), Trouble { halts: true, ..CALM }, &BOTH);
}

#[test]
fn in_every_order_one_rejection_harms_nothing_else() {
    explore_all(Limits::default(), Trouble { rejections: 1, ..CALM }, &BOTH);
}

#[test]
fn in_every_order_a_delta_client_may_reconnect() {
    explore_all(PATIENT, Trouble { reconnects: 1, ..CALM }, &[Protocol::Delta]);
}

#[test]
fn in_every_order_and_at_any_time_a_client_may_reconnect_and_reject() {
    explore_all(Limits::default(), Trouble { reconnects: 1, ..CALM }, &BOTH);
    explore_all(Limits::default(), Trouble { reconnects: 1, rejections: 1, ..CALM }, &BOTH);
}

/// The shortest way to what goes wrong without the rule, over all scripts and both protocols, in words.
fn harm_without(rule: Rule, limits: Limits, trouble: Trouble) -> Option<String> {
    let mut shortest: Option<(usize, String)> = None;
    for script in scripts::all() {
        for protocol in BOTH {
            let setup = Setup {
                rejections: trouble.rejections,
                halts: trouble.halts,
                sequencing: Sequencing::Without(rule),
                ..Setup::new(protocol, limits, script.seals.clone())
            };
            let start = State::running(&setup);
            let Some((events, reason)) = explore(&setup, start.clone(), 20_000).found else { continue };
            if shortest.as_ref().is_none_or(|(length, _)| events.len() < *length) {
                let text = describe(&setup, &start, &events);
                shortest = Some((events.len(), format!("{} {protocol}: {reason}\n{text}", script.name)));
            }
        }
    }
    shortest.map(|(_, text)| text)
}

#[test]
fn each_rule_is_needed() {
    for rule in Rule::ALL {
        let (limits, trouble) = match rule {
            Rule::AddBeforeUse | Rule::RemoveAfterUse | Rule::Rewarm => (PATIENT, CALM),
            Rule::Isolation => (Limits::default(), Trouble { rejections: 1, ..CALM }),
            Rule::Pinning => (Limits::default(), Trouble { halts: true, ..CALM }),
        };
        let harm = harm_without(rule, limits, trouble);
        println!("without {rule:?}: {}", harm.unwrap_or_else(|| panic!("nothing goes wrong without {rule:?}")));
    }
}
