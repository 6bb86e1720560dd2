//! Incremental equals batch: at every sealed epoch of random histories, at one and at two workers, the dataflow's rows
//! are those that the reference computes from the facts of that epoch; and a cold start from the last state gives
//! the same rows again. The same with entries that are held, against a reference that remembers as naively.
//!
//! `TIDEGATE_SEQUENCES` sets how many histories are played (40 by default), `TIDEGATE_SEED` where they begin.

use serde_json::{Value, json};
use tidegate_engine::{Applied, Config, Core};
use tidegate_log::{Event, Object};
use tidegate_model::{Kind, Name};
use tidegate_scenarios::scenario::Settings;
use tidegate_scenarios::{Oracle, difference, rows_of};
use tidegate_workload::{Random, World};
use tidegate_xds::Sealed;

const STEPS: usize = 40;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

fn sealed(applied: Applied) -> std::sync::Arc<Sealed> {
    match applied {
        Applied::Sealed(sealed) => sealed,
        Applied::Pending { missing } => panic!("still waiting for {missing:?}"),
    }
}

mod clients;
mod holds;

/// Some of the addresses that Gateways ask for can be used.
fn settings() -> Settings {
    let usable = "10.0.0.0/30".parse().expect("a range");
    Settings { usable_addresses: vec![usable], ..Settings::default() }
}

/// Plays one history and compares every epoch of it.
fn play(seed: u64, workers: usize) {
    let mut core = Core::new(&Config { workers, ..settings().config() });
    let mut world = World::new(seed);
    assert!(world.len() >= 30, "seed {seed}: too few objects");
    let mut order = Random::new(seed ^ 0x5EED);

    // The first lists arrive in pieces, kind by kind or not.
    let mut first = world.list();
    let split = order.below(first.len());
    let rest = first.split_off(split);
    assert!(
        matches!(core.apply(&first, 1), Applied::Pending { .. }),
        "seed {seed}: sealed before every kind was synced"
    );
    let complete = sealed(core.apply(&rest, 1));
    check(seed, workers, 0, &core, &complete);

    let mut last = None;
    for step in 1..=STEPS {
        let next = sealed(core.apply(&world.step(), 1 + step as u64));
        check(seed, workers, step, &core, &next);
        last = Some(next);
    }

    let last = last.expect("there are steps");
    let mut cold = Core::new(&settings().config());
    let again = sealed(cold.apply(&world.list(), 99));
    assert_eq!(rows_of(&again), rows_of(&last), "seed {seed}: a cold start gives other rows");
    assert_eq!(again.digest, last.digest, "seed {seed}: equal rows have unequal digests");
}

fn check(seed: u64, workers: usize, step: usize, core: &Core, sealed: &Sealed) {
    let difference = Oracle::of(&settings()).difference(sealed, &core.facts());
    assert!(
        difference.is_empty(),
        "seed {seed}, {workers} workers, step {step}: {} rows differ from the reference:\n{}",
        difference.len(),
        difference.join("\n")
    );
    let violations = core.store().violations();
    assert!(violations.is_empty(), "seed {seed}, step {step}: {violations:?}");
}

fn histories(workers: usize, share: u64) {
    histories_of(share, |seed| play(seed, workers));
}

/// Plays the histories, or of every `share` of them one; how many these are.
fn histories_of(share: u64, play: impl Fn(u64)) -> u64 {
    let count = (setting("TIDEGATE_SEQUENCES", 40) / share).max(1);
    let from = setting("TIDEGATE_SEED", 0);
    for seed in from..from + count {
        play(seed);
        if (seed - from + 1).is_multiple_of(500) {
            eprintln!("{} histories equal the reference", seed - from + 1);
        }
    }
    count
}

#[test]
fn every_epoch_of_random_histories_equals_the_reference() {
    histories(1, 1);
}

#[test]
fn two_workers_equal_the_reference_too() {
    histories(2, 2);
}

#[test]
fn every_kind_is_awaited_before_the_first_seal() {
    let mut core = Core::new(&Config::default());
    for kind in Kind::ALL {
        assert!(core.missing().contains(&kind));
        core.apply(&[Event::Synced(kind)], 0);
    }
    assert_eq!(core.epoch(), Some(0));
}

#[test]
fn a_route_counts_once_for_listeners_of_one_name() {
    let apply = |body| Event::Apply(Object::new(body).expect("a kind and a name"));
    let listener = json!({"name": "web", "port": 80, "protocol": "HTTP"});
    let gateway = json!({"gatewayClassName": "ours", "listeners": [listener, listener]});
    let route = json!({"parentRefs": [{"name": "edge"}], "rules": [{"backendRefs": [{"name": "cart", "port": 80}]}]});
    let of = |kind: &str, name: &str, spec: &Value| {
        let api_version = "gateway.networking.k8s.io/v1";
        apply(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}))
    };
    let class = json!({"controllerName": tidegate_model::CONTROLLER_NAME});
    let mut batch =
        vec![of("GatewayClass", "ours", &class), of("Gateway", "edge", &gateway), of("HTTPRoute", "a", &route)];
    batch.extend(Kind::ALL.map(Event::Synced));
    let mut core = Core::new(&Config::default());
    let sealed = sealed(core.apply(&batch, 0));
    assert_eq!(difference(&sealed, &core.facts()), [""; 0]);
}

/// Whether a history shows that the edge is cut: other rows than the reference, a violation, or an assertion.
fn notices(seed: u64, cut: &str, hold: Option<u64>) -> bool {
    let cut = Some(Name::from(cut));
    let play = || {
        let mut core = Core::with_translation(1, tidegate_translate::Config { cut, hold, ..translation() });
        let mut oracle = Oracle::new(hold);
        let mut world = World::new(seed);
        let mut batch = world.list();
        for step in 0..STEPS {
            if hold.is_some() {
                batch.iter_mut().for_each(holds::stage);
            }
            let next = sealed(core.apply(&batch, step as u64));
            if !oracle.difference(&next, &core.facts()).is_empty() || !core.store().violations().is_empty() {
                return true;
            }
            batch = world.step();
        }
        false
    };
    // An assertion of the store counts too.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(play)).unwrap_or(true)
}

fn translation() -> tidegate_translate::Config {
    tidegate_translate::Config::new(Name::from(tidegate_model::CONTROLLER_NAME))
}

#[test]
fn every_edge_of_the_dataflow_is_missed_when_it_is_cut() {
    let edges = tidegate_translate::EDGES.into_iter().map(|edge| (edge, None));
    let of_holds = tidegate_translate::HOLD_EDGES.into_iter().map(|edge| (edge, Some(holds::BOUND)));
    for (edge, hold) in edges.chain(of_holds) {
        let seen = (0..400).find(|seed| notices(*seed, edge, hold));
        assert!(seen.is_some(), "no history notices that this edge is cut: {edge}");
        eprintln!("noticed by history {:>2}: {edge}", seen.unwrap_or_default());
    }
    assert!(!notices(0, "none", None), "an uncut dataflow is said to differ");
    assert!(!notices(0, "none", Some(holds::BOUND)), "an uncut dataflow with holds is said to differ");
}

/// What random histories are worth: in a wasteland of dangling references every comparison holds.
#[test]
fn most_random_worlds_serve_something() {
    let (mut routed, mut with_endpoints) = (0, 0);
    for seed in 0..50 {
        let mut core = Core::new(&Config::default());
        let sealed = sealed(core.apply(&World::new(seed).list(), 0));
        routed += u32::from(sealed.gateways.values().any(|view| !view.members.is_empty()));
        // An assignment without endpoints is its name and its policy.
        let has_endpoints =
            |(name, form): (&Name, &tidegate_xds::Variants)| form.default_form().bytes.len() > name.len() + 20;
        with_endpoints += u32::from(sealed.endpoints.iter().any(has_endpoints));
    }
    assert!(routed >= 35, "only {routed} worlds of 50 route anything");
    assert!(with_endpoints >= 30, "only {with_endpoints} worlds of 50 have endpoints");
}
