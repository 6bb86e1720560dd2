//! The requests of every scenario through a real Envoy, by both forms of the protocol. Envoy must take every response
//! that it is sent.
//!
//! Envoy is found or installed; without one these tests fail and say what to do. `TIDEGATE_SCENARIO=b05` runs the
//! scenarios whose names contain it.

mod ask;

mod place;

mod rejections;

mod stage;

mod streams;

mod under_way;

mod worlds;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use place::{PLACES, Place};
use stage::Stage;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use streams::Asked;
use tidegate_engine::Config;
use tidegate_envoy::Binary;
use tidegate_log::Event;
use tidegate_scenarios::report;
use tidegate_scenarios::scenario::Scenario;
use tidegate_scenarios::scenario::controller::Controller;
use tidegate_scenarios::scenario::observed::Observed;
use tidegate_translate::Bind;
use tokio::sync::Mutex;

/// Scenarios are played in places of which there are so many, so that the tests take turns.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Runs the requests of `scenarios`, several scenarios at once, and returns what is wrong.
async fn play(scenarios: Vec<Scenario>, sotw: bool) -> Vec<String> {
    let _turn = ONE_AT_A_TIME.lock().await;
    let envoy = Binary::find_or_install(&|line| eprintln!("{line}")).await;
    let envoy = envoy.unwrap_or_else(|error| panic!("these tests need an envoy: {error}"));
    let free: std::sync::Mutex<Vec<Place>> = std::sync::Mutex::new((0..PLACES).map(Place).collect());
    let played = stream::iter(&scenarios).map(|scenario| async {
        let take = || free.lock().expect("nobody panics while holding places").pop();
        let place = take().expect("no more scenarios are played at once than there are places");
        let wrong = play_at(place, &envoy, scenario, sotw).await;
        free.lock().expect("nobody panics while holding places").push(place);
        wrong
    });
    played.buffered(PLACES.into()).concat().await
}

/// Plays one scenario and says how it went. One that panics is wrong like any other, and the rest goes on.
async fn play_at(place: Place, envoy: &Binary, scenario: &Scenario, sotw: bool) -> Vec<String> {
    let (began, name) = (tokio::time::Instant::now(), scenario.name());
    let played = AssertUnwindSafe(run(envoy, scenario, sotw, place)).catch_unwind().await;
    let found = played.unwrap_or_else(|panic| vec![report::said(&*panic)]);
    let result = if found.is_empty() { "ok" } else { "FAILED" };
    eprintln!("{:>6} ms {name} {result}", began.elapsed().as_millis());
    report::note(&name, if sotw { "state of the world" } else { "delta" }, &found);
    found.into_iter().map(|text| format!("{name}, {text}")).collect()
}

/// Plays one scenario epoch by epoch.
async fn run(envoy: &Binary, scenario: &Scenario, sotw: bool, place: Place) -> Vec<String> {
    let mut stage = Stage::set(envoy, scenario, sotw, place).await;
    let config = Config { bind: Bind::Own, ..scenario.settings.config() };
    let mut controller = Controller::new(config);
    let mut wrong = Vec::new();
    // A server that goes on serves no epochs that begin again: what comes before is played.
    for epoch in scenario.epochs.iter().take_while(|epoch| !epoch.restart) {
        let events: Vec<Event> = epoch.events.iter().map(|event| place.event(event)).collect();
        let sealed = controller.apply(&events, epoch.millis);
        stage.keep(&epoch.certificates);
        let problems = match stage.publish(sealed.clone()).await {
            Ok(()) => ask::all(&epoch.expect.requests, &stage, Observed(&sealed)).await,
            Err(problem) => vec![problem],
        };
        wrong.extend(problems.into_iter().map(|text| format!("epoch {}: {text}", epoch.number)));
    }
    wrong.extend(stage.rejected().await);
    wrong
}

fn with_requests() -> Vec<Scenario> {
    let asks = |scenario: &Scenario| {
        let asked = scenario.epochs.iter().position(|epoch| !epoch.expect.requests.is_empty());
        let restarts = scenario.epochs.iter().position(|epoch| epoch.restart);
        asked.is_some_and(|asked| restarts.is_none_or(|restart| asked < restart))
    };
    Scenario::all().into_iter().filter(asks).collect()
}

fn assert_right(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} answers are not as expected:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_the_expected_one_by_the_delta_protocol() {
    assert_right(&play(with_requests(), false).await);
}

/// A listener in which the streams of one host change goes on for the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_outlives_what_changes_for_other_hosts() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let envoy = Binary::find_or_install(&|line| eprintln!("{line}")).await;
    let envoy = envoy.unwrap_or_else(|error| panic!("these tests need an envoy: {error}"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/tls-routes-of-one-host");
    let scenario = Scenario::read(&folder);
    for sotw in [false, true] {
        let place = Place(0);
        let mut stage = Stage::set(&envoy, &scenario, sotw, place).await;
        let mut controller = Controller::new(Config { bind: Bind::Own, ..Config::default() });
        let [first, second] = [&scenario.epochs[0], &scenario.epochs[1]];
        let here = |events: &[Event]| events.iter().map(|event| place.event(event)).collect::<Vec<_>>();
        stage.publish(controller.apply(&here(&first.events), first.millis)).await.expect("the first epoch is accepted");
        assert_right(&ask::all(&first.expect.requests, &stage, Observed(&controller.apply(&[], 10))).await);
        let to = |name: &str| Asked::Tls(10884, name.to_owned());
        let (mut stays, seen) = to("www.example.com").open(place).await.expect("the first epoch is served");
        let (goes, _) = to("abc.example.com").open(place).await.expect("the first epoch is served");
        stage.publish(controller.apply(&here(&second.events), 20)).await.expect("the second epoch is accepted");
        goes.ended().await.expect("the connections of a chain that changed end with the drain time");
        assert_eq!(stays.ask().await.expect("its chain did not change"), seen);
    }
}

/// Where the two forms differ is in what changes, so that only scenarios in which something does are played again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_the_expected_one_by_the_state_of_the_world_protocol() {
    let changing: Vec<Scenario> = with_requests().into_iter().filter(|scenario| scenario.epochs.len() > 1).collect();
    assert_right(&play(changing, true).await);
}
