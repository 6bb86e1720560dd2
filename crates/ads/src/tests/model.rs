//! The session against a model of Envoy, in every order in which the two can speak.
//!
//! `docs/design/wire-model.md` says what the model holds and what was found. The tests explore small scripts whole;
//! `TIDEGATE_MODEL=full` explores the large ones, which takes about ten minutes. `TIDEGATE_RUNS` is the number of random
//! runs.

mod canonical;
mod catalog;
mod envoy;
mod explore;
mod judge;
mod run;
mod scripts;

use super::harness::BOTH;
use crate::session::{Limits, Protocol};
use explore::{describe, explore};
use run::{Setup, State};
use scripts::Script;

/// Time never helps: what waits for an acknowledgement waits for ever without it.
const PATIENT: Limits = Limits { grace_ms: 5_000, pin_ms: 100_000_000, max_inflight: 64, max_names: 1_000 };

/// What may go wrong in an exploration.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    rejections: u8,
    reconnects: u8,
    halts: bool,
    cold: bool,
}

fn is_full() -> bool {
    std::env::var("TIDEGATE_MODEL").is_ok_and(|size| size == "full")
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
    let most = if is_full() { 4_000_000 } else { 100_000 };
    let report = explore(&setup, start.clone(), most);
    println!(
        "{} {protocol} {trouble:?} pin {}: {} states, {} steps, {} at rest, depth {}, whole: {}",
        script.name, limits.pin_ms, report.states, report.steps, report.at_rest, report.depth, report.complete
    );
    if let Some((events, reason)) = &report.found {
        panic!("{} {protocol} {trouble:?}: {reason}\n{}", script.name, describe(&setup, &start, events));
    }
    assert!(report.at_rest > 0);
}

#[test]
fn whatever_overtakes_what_nothing_is_served_wrong() {
    for script in [
        scripts::flap(),
        scripts::rewarm(),
        scripts::shop(),
        scripts::listeners(),
        scripts::churn(),
        scripts::secrets(),
    ] {
        for protocol in BOTH {
            explore_whole(&script, protocol, PATIENT, Trouble::default());
        }
    }
}
