use super::*;
use crate::churn::change::Kind;
use crate::churn::world::{Backend, HOSTS, Route, SECURE};
use tidegate_workload::Random;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn answer(target: usize, sent: u64, took: u64, mark: u32, outcome: Outcome) -> Answer {
    let [sent, took] = [sent, took].map(ms);
    let noted = (mark > 0).then(|| mark.to_string());
    Answer { target, sent, took, fresh: true, opened: sent, certificate: None, noted, outcome }
}

fn from(service: &str, proto: &str) -> Outcome {
    let [service, proto] = [service, proto].map(str::to_owned);
    Outcome::Backend { status: 200, service, pod: String::new(), proto }
}

fn proxy(status: u16) -> Outcome {
    Outcome::Proxy { status, body: String::new() }
}

/// Host 0 goes from shared Service 0 (mark 1) to one of its own (mark 99) at 100 ms.
fn replaced() -> (Judge, World) {
    let mut world = World::new();
    let mut judge = Judge::new("test", &world);
    world.hosts[0] = Route { mark: 99, backends: vec![(Backend::Own { owner: 0, number: 9 }, 1)] };
    assert!(judge.tells(&world));
    judge.begin(ms(100), &world, "host-0 to its own");
    (judge, world)
}

const OLD: (&str, u32) = ("churn/pool-0", 1);
const NEW: (&str, u32) = ("churn/own-0", 99);

/// Failures after an answer of host 0 over HTTP/1.1.
fn failures(judge: &mut Judge, sent: u64, (service, mark): (&str, u32)) -> u64 {
    judge.take(Duration::ZERO, vec![answer(0, sent, 5, mark, from(service, "HTTP/1.1"))]);
    judge.counts.failures
}

#[test]
fn old_and_new_answers_are_right_until_the_new_one_was_seen() {
    let (mut judge, _) = replaced();
    assert_eq!(failures(&mut judge, 50, OLD), 0);
    assert_eq!(failures(&mut judge, 150, OLD), 0);
    assert_eq!(failures(&mut judge, 200, NEW), 0);
    assert_eq!(judge.counts.arrivals, [ms(105)]);
    assert_eq!(failures(&mut judge, 204, OLD), 0, "sent before the new one was seen");
    assert_eq!(failures(&mut judge, 206, OLD), 1);
}

#[test]
fn an_answer_must_come_by_its_own_route_and_in_the_protocol_of_its_service() {
    let (mut judge, _) = replaced();
    assert_eq!(failures(&mut judge, 150, (OLD.0, NEW.1)), 1, "the old backend by the new route");
    judge.take(Duration::ZERO, vec![answer(0, 150, 5, 1, from(OLD.0, "HTTP/2.0"))]);
    assert_eq!(judge.counts.failures, 2);
}

#[test]
fn errors_of_the_proxy_and_broken_connections_are_never_right_at_a_host_that_is_there() {
    let (mut judge, _) = replaced();
    let outcomes = [proxy(503), proxy(500), proxy(404), Outcome::Failed("reset".to_owned())];
    judge.take(Duration::ZERO, outcomes.map(|outcome| answer(0, 150, 5, 0, outcome)).into());
    assert_eq!(judge.counts.failures, 4);
    assert_eq!(judge.described.len(), 4);
}

#[test]
fn a_host_that_comes_may_be_missing_until_it_was_seen_and_one_that_goes_from_its_removal_on() {
    let mut world = World::new();
    let mut judge = Judge::new("test", &world);
    let guest = HOSTS + SECURE;
    let missing = |judge: &mut Judge, sent| {
        judge.take(Duration::ZERO, vec![answer(guest, sent, 5, 0, proxy(404))]);
        judge.counts.failures
    };
    world.guests[0] = Some(Route { mark: 99, backends: vec![(Backend::Own { owner: HOSTS, number: 1 }, 1)] });
    judge.begin(ms(100), &world, "guest-0 comes");
    assert_eq!(missing(&mut judge, 150), 0);
    let there = |sent| vec![answer(guest, sent, 5, 99, from("churn/own-20", "HTTP/1.1"))];
    judge.take(Duration::ZERO, there(200));
    assert_eq!(missing(&mut judge, 210), 1);
    world.guests[0] = None;
    assert!(judge.tells(&world));
    judge.begin(ms(300), &world, "guest-0 goes");
    judge.take(Duration::ZERO, there(310));
    assert_eq!(missing(&mut judge, 320), 1);
    judge.take(Duration::ZERO, there(330));
    assert_eq!(judge.counts.failures, 2, "it is gone and came back");
}

#[test]
fn a_change_that_does_not_arrive_is_counted_once_and_the_time_without_a_controller_does_not_count() {
    let (mut judge, _) = replaced();
    judge.polled(ms(1_000), true);
    judge.polled(ms(20_000), false);
    judge.count_missing();
    assert_eq!(judge.counts.missing, 0);
    judge.polled(ms(30_000), true);
    judge.count_missing();
    judge.count_missing();
    assert_eq!(judge.counts.missing, 2, "with TLS and without");
}

#[test]
fn what_has_not_arrived_at_the_end_is_missing_even_if_no_controller_was_there() {
    let (mut judge, _) = replaced();
    judge.end();
    assert_eq!(judge.counts.missing, 2, "with TLS and without");
}

#[test]
fn a_change_back_to_what_may_still_be_seen_is_not_made() {
    let mut world = World::new();
    let mut judge = Judge::new("test", &world);
    let mut random = Random::new(1);
    let mut toggle = || {
        let _said = Kind::Protocol.make(&mut world, &mut random);
        world.clone()
    };
    let first = toggle();
    assert!(judge.tells(&first));
    judge.begin(ms(100), &first, "once");
    assert!(!judge.tells(&World { written: first.written, ..World::new() }));
}
