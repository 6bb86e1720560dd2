//! Tables of endpoints `a`, `m` and `z`: `H@45` is healthy by a report that was renewed at second 45, `U` unhealthy, `K`
//! unknown; `H@none` was never renewed; `-` is an endpoint that no report names; empty is no endpoint.

use super::*;
use tidegate_model::NamespacedName;

/// In seconds.
const LIFETIME: u64 = 60;

const NAMES: [&str; 3] = ["a", "m", "z"];

/// What is left of an entry at a time.
fn state(text: &str, now: u64) -> Option<ReportedState> {
    let (state, renewed) = text.split_once('@')?;
    let is_current = renewed != "none" && now < renewed.parse::<u64>().unwrap() + LIFETIME;
    Some(match state {
        _ if !is_current => ReportedState::Expired,
        "H" => ReportedState::Healthy,
        "U" => ReportedState::Unhealthy,
        "K" => ReportedState::Unknown,
        other => panic!("{other}"),
    })
}

fn entry(name: &str, port: Option<u16>, state: ReportedState) -> ReportFact {
    ReportFact {
        service: NamespacedName::parse("shop/cart"),
        endpoint: ReportedEndpoint::Target(TargetUid::of(name)),
        port,
        state,
        report: NamespacedName::parse("shop/cart-n1"),
    }
}

fn address(name: &str) -> Name {
    format!("10.0.0.{}", name.as_bytes()[0]).into()
}

fn reports(entries: &[ReportFact]) -> Reports<'_> {
    let mut reports = Reports::default();
    entries.iter().for_each(|entry| reports.add(entry));
    reports
}

/// The endpoints of a table and what becomes of them.
fn play(texts: [&str; 3], now: u64, local: bool) -> Vec<(&'static str, Place)> {
    let there: Vec<(&str, &str)> = NAMES.into_iter().zip(texts).filter(|(_, text)| !text.is_empty()).collect();
    // A report of an old object is one of a name that no endpoint has.
    let named = |name: &str, text: &str| if text.ends_with(" old") { "another".to_owned() } else { name.to_owned() };
    let entries: Vec<ReportFact> = there
        .iter()
        .filter_map(|(name, text)| Some(entry(&named(name, text), None, state(text.trim_end_matches(" old"), now)?)))
        .collect();
    let reports = reports(&entries);
    let candidate = |name: &str| {
        let standing = reports.standing(&address(name), Some(TargetUid::of(name)), 8080);
        Candidate { local, tier: 0, used: true, standing }
    };
    let candidates: Vec<Candidate> = there.iter().map(|(name, _)| candidate(name)).collect();
    there.into_iter().map(|(name, _)| name).zip(places(&candidates)).collect()
}

/// The lines of remote endpoints: `a m, then z`.
fn lines(places: &[(&str, Place)]) -> String {
    let mut lines: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (name, place) in places {
        assert!(!place.draining, "{name} is remote and drains");
        lines.entry(place.priority).or_default().push(name);
    }
    assert!(lines.keys().copied().eq(0..u32::try_from(lines.len()).unwrap()), "a gap: {lines:?}");
    lines.into_values().map(|names| names.join(" ")).collect::<Vec<_>>().join(", then ")
}

#[test]
fn remote_endpoints_are_preferred_by_what_is_current_of_them() {
    let table = [
        (["H@0", "H@0", "H@0"], 30, "a m z"),
        (["H@0", "-", "H@45"], 59, "a m z"),
        (["H@0", "", "H@45"], 61, "z, then a"),
        (["H@0", "-", "H@45"], 61, "m z, then a"),
        // Expired goes before unhealthy.
        (["U@45", "", "U@0"], 61, "z, then a"),
        (["U@50", "U@50", "U@50"], 61, "a m z"),
        (["H@0", "H@0", "H@0"], 100, "a m z"),
        (["K@50", "H@50", "H@50"], 61, "a m z"),
        (["U@50", "K@50", "H@50"], 61, "m z, then a"),
        (["H@none", "", "H@55"], 61, "z, then a"),
        (["U@none", "", "U@55"], 61, "a, then z"),
        (["H@50 old", "", "U@50"], 61, "a, then z"),
        // Renewed at 61.5, when it had expired: the entry is that of 61.
        (["H@61", "", "H@55"], 62, "a z"),
        (["U@50", "H@0", "H@50"], 61, "z, then m, then a"),
    ];
    for (texts, now, expected) in table {
        assert_eq!(lines(&play(texts, now, false)), expected, "{texts:?} at {now}");
    }
}

#[test]
fn a_local_endpoint_drains_only_while_somebody_says_so() {
    let table = [
        (["U@0", "", "H@0"], 30, "a"),
        (["U@0", "", "H@0"], 61, ""),
        (["U@none", "", "H@50"], 61, ""),
        // Renewed every 15 seconds, for as long as it is.
        (["U@585", "", "-"], 599, "a"),
        // An agent that restarts at 20 and finds it well.
        (["H@20", "", "-"], 20, ""),
        (["K@0", "H@0", "-"], 30, ""),
        // Somebody must be left.
        (["U@0", "", ""], 30, ""),
        (["U@0", "U@0", "U@0"], 30, ""),
        (["U@0", "U@0", "U@none"], 30, "a m"),
    ];
    for (texts, now, expected) in table {
        let places = play(texts, now, true);
        let draining: Vec<&str> = places.iter().filter(|(_, place)| place.draining).map(|(name, _)| *name).collect();
        assert_eq!(draining.join(" "), expected, "{texts:?} at {now}");
        assert!(places.iter().all(|(_, place)| place.priority == 0), "{texts:?} at {now}");
    }
}

/// Updates that are none: what is left of the entries is the same before and after, so no fact changes.
#[test]
fn a_renewal_of_what_is_current_and_time_alone_change_nothing_but_at_the_end_of_a_life() {
    assert_eq!(state("H@0", 15), state("H@15", 15));
    assert_eq!((state("H@15", 74), state("H@15", 75)), (Some(ReportedState::Healthy), Some(ReportedState::Expired)));
    assert_ne!(state("H@60", 61), state("H@none", 61));
    let changes = (1..600).filter(|second| state("H@0", second - 1) != state("H@0", *second));
    assert_eq!(changes.collect::<Vec<_>>(), [60]);
    assert_eq!(lines(&play(["H@30", "", "H@0"], 61, false)), lines(&play(["H@45", "", "H@0"], 61, false)));
}

fn candidate(local: bool, tier: usize, used: bool, standing: Standing) -> Candidate {
    Candidate { local, tier, used, standing }
}

#[test]
fn local_endpoints_go_first_and_the_others_by_standing_and_then_by_distance() {
    use Standing::{Expired, Good, Unhealthy};
    let candidates = [
        candidate(true, 0, true, Expired),
        candidate(false, 2, true, Good),
        candidate(false, 1, true, Good),
        candidate(false, 1, true, Expired),
        candidate(false, 1, true, Unhealthy),
        candidate(true, 0, true, Unhealthy),
    ];
    let found: Vec<_> = places(&candidates).iter().map(|place| (place.priority, place.draining)).collect();
    assert_eq!(found, [(0, false), (2, false), (1, false), (3, false), (4, false), (0, true)]);
    // A remote one that can be used is another one, and one that terminates is not.
    let far = [candidate(true, 0, true, Unhealthy), candidate(false, 3, true, Good)];
    assert_eq!(places(&far), [Place { priority: 0, draining: true }, Place { priority: 1, draining: false }]);
    let terminating = [candidate(true, 0, true, Unhealthy), candidate(true, 0, false, Good)];
    assert_eq!(places(&terminating), [Place { priority: 0, draining: false }, Place { priority: 0, draining: true }]);
    assert_eq!(places(&[]), []);
}

#[test]
fn of_several_reporters_the_worst_that_is_current_counts() {
    use ReportedState::{Expired, Healthy, Unhealthy, Unknown};
    let table = [
        (vec![], Standing::Good),
        (vec![Healthy, Unhealthy], Standing::Unhealthy),
        (vec![Unknown, Unhealthy, Expired], Standing::Unhealthy),
        (vec![Expired, Healthy], Standing::Good),
        (vec![Expired, Unknown], Standing::Good),
        (vec![Expired, Expired], Standing::Expired),
    ];
    for (said, expected) in table {
        assert_eq!(counts(said.iter().copied()), expected, "{said:?}");
        assert_eq!(counts(said.iter().rev().copied()), expected, "{said:?} reversed");
    }
}

#[test]
fn an_entry_is_matched_by_the_object_or_by_the_address_and_by_the_port() {
    let of_address = ReportFact {
        endpoint: ReportedEndpoint::Address("10.0.0.97".into()),
        ..entry("", Some(8081), ReportedState::Unhealthy)
    };
    let entries = [entry("a", Some(8080), ReportedState::Expired), of_address];
    let reports = reports(&entries);
    let standings = |target| [8080, 8081, 8082].map(|port| reports.standing(&address("a"), target, port));
    let (good, expired, unhealthy) = (Standing::Good, Standing::Expired, Standing::Unhealthy);
    assert_eq!(standings(Some(TargetUid::of("a"))), [expired, unhealthy, good]);
    assert_eq!(standings(None), [good, unhealthy, good]);
}
