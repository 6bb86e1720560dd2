//! What is said of each endpoint, and when it is written: a state machine without I/O, which is given the time.
//!
//! *Invariant*: whatever is written has the time of writing on every entry, so that a report is believed as a whole or not
//! at all. Nothing is written while it would say what stands there already and that is younger than the renew interval.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tidegate_model::{Kind, Millis, NamespacedName, rfc3339};

/// A write that failed is tried again after this part of the renew interval.
const RETRIES: Millis = 4;

/// A port of an endpoint, and the object behind it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) target: Option<Target>,
}

impl Endpoint {
    pub(crate) fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}

/// `targetRef` of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// What is said of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Unknown,
    Healthy,
    Unhealthy,
}

/// How many results in a row change what is said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    pub(crate) healthy: u32,
    pub(crate) unhealthy: u32,
}

/// What is known of an endpoint.
#[derive(Clone, Copy, Debug)]
struct Check {
    state: State,
    /// Results in a row that speak against the state.
    against: u32,
    last: bool,
}

/// What stands in a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    /// All that it says, without times: see [`says`].
    pub(crate) says: Value,
    /// The oldest renewal; none if an entry has none, or if there are no entries.
    pub(crate) renewed: Option<Millis>,
}

/// When there is something to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// Not before, unless something changes.
    At(Millis),
}

/// A reporter's memory.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    /// The report.
    name: NamespacedName,
    service: NamespacedName,
    reporter: String,
    renew_ms: Millis,
    thresholds: Thresholds,
    checks: BTreeMap<Endpoint, Check>,
    /// When a write failed last, if none has succeeded since.
    failed: Option<Millis>,
}

impl Reporter {
    pub(crate) fn new(
        name: NamespacedName,
        service: NamespacedName,
        reporter: String,
        renew_ms: Millis,
        thresholds: Thresholds,
    ) -> Self {
        Reporter { name, service, reporter, renew_ms, thresholds, checks: BTreeMap::new(), failed: None }
    }

    /// These are the endpoints now, and if that is not all of them those that were there before. Of these what is known stays.
    pub(crate) fn watch(&mut self, endpoints: BTreeSet<Endpoint>, all: bool) {
        self.checks.retain(|endpoint, _| !all || endpoints.contains(endpoint));
        for endpoint in endpoints {
            self.checks.entry(endpoint).or_insert(Check { state: State::Unknown, against: 0, last: false });
        }
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.checks.keys()
    }

    /// The result of a probe. The first good one of an endpoint of which nothing is known yet counts at once.
    pub(crate) fn note(&mut self, endpoint: &Endpoint, is_well: bool) {
        let Some(check) = self.checks.get_mut(endpoint) else { return };
        let (wanted, needed) = match is_well {
            true if check.state == State::Unknown => (State::Healthy, 1),
            true => (State::Healthy, self.thresholds.healthy),
            false => (State::Unhealthy, self.thresholds.unhealthy),
        };
        check.against = match check.state == wanted {
            true => 0,
            false if check.last == is_well => check.against.saturating_add(1),
            false => 1,
        };
        check.last = is_well;
        if check.against >= needed {
            *check = Check { state: wanted, against: 0, last: is_well };
        }
    }

    /// Whether there is something to write, with this in its place.
    pub(crate) fn due(&self, now: Millis, stored: Option<&Stored>) -> Due {
        let at = match stored {
            // The same is said already. If no entry says when, there are none.
            Some(Stored { says, renewed }) if *says == self.says() => match renewed {
                // From a clock that has been set back since.
                Some(renewed) if *renewed > now => now,
                Some(renewed) => renewed.saturating_add(self.renew_ms),
                None if self.checks.is_empty() => Millis::MAX,
                None => now,
            },
            Some(_) | None => now,
        };
        let retry = self.failed.map_or(0, |failed| failed.saturating_add(self.renew_ms / RETRIES).max(failed + 1));
        match at.max(retry) {
            at if at <= now => Due::Now,
            at => Due::At(at),
        }
    }

    /// A write failed. One that succeeded is seen in what is stored.
    pub(crate) fn failed(&mut self, now: Millis) {
        self.failed = Some(now);
    }

    /// The report to write, and what failed before is forgotten.
    pub(crate) fn object(&mut self, now: Millis) -> Value {
        self.failed = None;
        let time = micros(now);
        let entries: Vec<Value> = self.entries().map(|entry| with(entry, "renewTime", time.as_str().into())).collect();
        json!({
            "apiVersion": format!("{}/{}", Kind::EndpointReport.group(), Kind::EndpointReport.versions()[0]),
            "kind": Kind::EndpointReport.as_str(),
            "metadata": { "namespace": self.name.namespace(), "name": self.name.name() },
            "spec": self.spec(),
            "status": { "endpoints": entries },
        })
    }

    fn says(&self) -> Value {
        json!({ "spec": self.spec(), "endpoints": self.entries().collect::<Vec<_>>() })
    }

    fn spec(&self) -> Value {
        json!({ "serviceRef": { "name": self.service.name() }, "reporter": self.reporter })
    }

    fn entries(&self) -> impl Iterator<Item = Value> {
        let mut addresses: BTreeMap<(&Target, u16), usize> = BTreeMap::new();
        for endpoint in self.checks.keys() {
            if let Some(target) = &endpoint.target {
                *addresses.entry((target, endpoint.port)).or_default() += 1;
            }
        }
        self.checks.iter().map(move |(endpoint, check)| {
            let state = match check.state {
                State::Unknown => "Unknown",
                State::Healthy => "Healthy",
                State::Unhealthy => "Unhealthy",
            };
            let entry = json!({ "port": endpoint.port, "state": state });
            // What has an address of each family may answer at one of them alone.
            let is_one = |target: &&Target| addresses.get(&(*target, endpoint.port)) == Some(&1);
            match endpoint.target.as_ref().filter(is_one) {
                Some(Target { kind, name, uid }) => {
                    with(entry, "targetRef", json!({ "kind": kind, "name": name, "uid": uid }))
                }
                None => with(entry, "address", endpoint.address.to_string().into()),
            }
        })
    }

    /// For a log line.
    pub(crate) fn summary(&self) -> String {
        let of = |state| self.checks.values().filter(|check| check.state == state).count();
        let (healthy, unhealthy, unknown) = (of(State::Healthy), of(State::Unhealthy), of(State::Unknown));
        format!("{healthy} healthy, {unhealthy} unhealthy, {unknown} unknown")
    }
}

/// What an object says, without times, in the form in which [`Reporter`] compares it.
pub(crate) fn says(object: &Value) -> Value {
    let mut endpoints = object.pointer("/status/endpoints").cloned().unwrap_or_default();
    for entry in endpoints.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.remove("renewTime");
    }
    json!({ "spec": object["spec"], "endpoints": endpoints })
}

fn with(mut entry: Value, field: &str, value: Value) -> Value {
    entry[field] = value;
    entry
}

/// As `metav1.MicroTime` has it.
fn micros(millis: Millis) -> String {
    format!("{}.{:03}000Z", rfc3339(millis).trim_end_matches('Z'), millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENEW: Millis = 15_000;
    const ROUND: Millis = 5_000;

    fn endpoint(last: u8) -> Endpoint {
        Endpoint { address: format!("10.0.0.{last}").parse().unwrap(), port: 8080, target: None }
    }

    fn reporter() -> Reporter {
        let name = NamespacedName::parse;
        let thresholds = Thresholds { healthy: 2, unhealthy: 3 };
        let mut reporter = Reporter::new(name("shop/cart-n1"), name("shop/cart"), "n1".to_owned(), RENEW, thresholds);
        reporter.watch(BTreeSet::from([endpoint(1), endpoint(2)]), true);
        reporter
    }

    /// A reporter, its report and a virtual clock.
    struct World {
        reporter: Reporter,
        stored: Option<Stored>,
        /// When something was written.
        writes: Vec<Millis>,
    }

    impl World {
        fn new() -> Self {
            World { reporter: reporter(), stored: None, writes: Vec::new() }
        }

        /// Writes if it is due; when to look again.
        fn turn(&mut self, now: Millis) -> Millis {
            match self.reporter.due(now, self.stored.as_ref()) {
                Due::At(at) => at,
                Due::Now => {
                    let says = says(&self.reporter.object(now));
                    self.stored = Some(Stored { says, renewed: Some(now) });
                    self.writes.push(now);
                    now
                }
            }
        }

        /// Goes round until `end`; `result` is that of a probe.
        fn run(&mut self, from: Millis, end: Millis, result: impl Fn(Millis, &Endpoint) -> bool) {
            for round in (from..end).step_by(usize::try_from(ROUND).unwrap()) {
                for endpoint in [endpoint(1), endpoint(2)] {
                    self.reporter.note(&endpoint, result(round, &endpoint));
                }
                let mut now = round;
                while now < (round + ROUND).min(end) {
                    now = self.turn(now);
                }
            }
        }
    }

    #[test]
    fn ten_minutes_without_a_change_are_forty_writes() {
        let mut world = World::new();
        world.run(0, 600_000, |_, _| true);
        assert_eq!(world.writes.len(), 40);
        assert!(world.writes.iter().copied().eq((0..40).map(|write| write * RENEW)), "{:?}", world.writes);
    }

    #[test]
    fn a_change_is_written_at_once_and_moves_the_next_renewal() {
        let mut world = World::new();
        // Three failures from 20 s on: 20, 25, 30.
        world.run(0, 70_000, |now, endpoint| now < 20_000 || *endpoint != self::endpoint(2));
        assert_eq!(world.writes, [0, 15_000, 30_000, 45_000, 60_000]);
        let mut world = World::new();
        world.run(0, 70_000, |now, endpoint| now < 25_000 || *endpoint != self::endpoint(2));
        assert_eq!(world.writes, [0, 15_000, 30_000, 35_000, 50_000, 65_000]);
    }

    #[test]
    fn nothing_is_written_by_a_restart_that_finds_the_same() {
        let mut world = World::new();
        world.run(0, 20_000, |_, _| true);
        world.reporter = reporter();
        world.run(20_000, 40_000, |_, _| true);
        assert_eq!(world.writes, [0, 15_000, 30_000]);
        // One that finds something else writes it.
        world.reporter = reporter();
        world.reporter.watch(BTreeSet::from([endpoint(1)]), true);
        world.run(40_000, 41_000, |_, _| true);
        assert_eq!(world.writes.last(), Some(&40_000));
    }

    #[test]
    fn a_write_that_is_lost_is_made_again_before_the_interval_is_over() {
        let mut world = World::new();
        world.run(0, 5_000, |_, _| true);
        // Somebody took it away, or put something else there.
        world.stored = None;
        world.run(5_000, 10_000, |_, _| true);
        assert_eq!(world.writes, [0, 5_000]);
        world.reporter.failed(20_000);
        let due = world.reporter.due(20_000, None);
        assert_eq!(due, Due::At(20_000 + RENEW / 4), "a full disk is not asked all the time");
        assert_eq!(world.reporter.due(23_750, None), Due::Now);
        world.reporter.object(23_750);
        assert_eq!(world.reporter.due(23_751, None), Due::Now, "a write that went well forgets the failure");
    }

    #[test]
    fn every_entry_has_the_time_of_writing_and_says_which_endpoint_it_is_about() {
        let mut reporter = reporter();
        let target = Target { kind: "Pod".to_owned(), name: "cart-1".to_owned(), uid: "u".to_owned() };
        reporter.watch(BTreeSet::from([endpoint(1), Endpoint { target: Some(target), ..endpoint(3) }]), true);
        reporter.note(&endpoint(1), true);
        let time = "1970-01-01T00:20:34.567000Z";
        let object = reporter.object(1_234_567);
        assert_eq!(
            object["status"]["endpoints"],
            json!([
                { "address": "10.0.0.1", "port": 8080, "state": "Healthy", "renewTime": time },
                { "targetRef": { "kind": "Pod", "name": "cart-1", "uid": "u" }, "port": 8080, "state": "Unknown",
                  "renewTime": time },
            ])
        );
        let object = tidegate_log::Object::new(object).unwrap();
        assert_eq!(
            (object.key.to_string().as_str(), tidegate_normalize::admit(&object)),
            ("EndpointReport shop/cart-n1", vec![])
        );
    }

    #[test]
    fn what_has_an_address_of_each_family_is_told_by_its_addresses() {
        let mut reporter = reporter();
        let target = Some(Target { kind: "Pod".to_owned(), name: "cart-1".to_owned(), uid: "u".to_owned() });
        let of = |address: &str| Endpoint { address: address.parse().unwrap(), port: 8080, target: target.clone() };
        reporter.watch(BTreeSet::from([of("10.0.0.1"), of("fd00::1")]), true);
        let object = reporter.object(0);
        let entries = object["status"]["endpoints"].as_array().unwrap();
        let addresses: Vec<_> = entries.iter().map(|entry| entry["address"].as_str().unwrap()).collect();
        assert_eq!(addresses, ["10.0.0.1", "fd00::1"]);
        assert_eq!(tidegate_normalize::admit(&tidegate_log::Object::new(object).unwrap()), vec![]);
    }

    #[test]
    fn what_may_not_be_all_takes_nothing_away() {
        let mut reporter = reporter();
        reporter.watch(BTreeSet::from([endpoint(1)]), true);
        reporter.watch(BTreeSet::from([endpoint(2)]), false);
        assert_eq!(reporter.endpoints().count(), 2);
        reporter.watch(BTreeSet::from([endpoint(2)]), true);
        assert_eq!(reporter.endpoints().collect::<Vec<_>>(), [&endpoint(2)]);
    }

    #[test]
    fn results_in_a_row_decide() {
        let states = |results: &str| {
            let mut reporter = reporter();
            let state = |reporter: &Reporter| match reporter.checks[&endpoint(1)].state {
                State::Unknown => '?',
                State::Healthy => '+',
                State::Unhealthy => '-',
            };
            let results = results.chars().map(|result| result == 'o');
            let note = |is_well| {
                reporter.note(&endpoint(1), is_well);
                state(&reporter)
            };
            results.map(note).collect::<String>()
        };
        assert_eq!(states("o"), "+");
        assert_eq!(states("xxx"), "??-");
        assert_eq!(states("xxoxxx"), "??+++-");
        assert_eq!(states("oxxoxxxoo"), "++++++--+");
        assert_eq!(states("xxxoxoo"), "??----+");
    }

    #[test]
    fn what_a_clock_wrote_that_was_set_back_is_written_again() {
        let mut reporter = reporter();
        let says = says(&reporter.object(0));
        let stored = |renewed| Stored { says: says.clone(), renewed };
        assert_eq!(reporter.due(1_000, Some(&stored(Some(2_000)))), Due::Now);
        assert_eq!(reporter.due(1_000, Some(&stored(Some(1_000)))), Due::At(16_000));
        assert_eq!(reporter.due(1_000, Some(&stored(None))), Due::Now, "an old writer left out the times");
        reporter.watch(BTreeSet::new(), true);
        let says = self::says(&reporter.object(0));
        assert_eq!(reporter.due(1_000, Some(&Stored { says, renewed: None })), Due::At(Millis::MAX));
    }
}
