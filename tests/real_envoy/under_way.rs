//! Requests that are under way while what answers them changes.

use crate::place::Place;
use crate::stage::Stage;
use crate::{ONE_AT_A_TIME, assert_right};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use testkit::http::Call;
use tidegate_engine::Config;
use tidegate_envoy::Binary;
use tidegate_log::Event;
use tidegate_scenarios::scenario::Scenario;
use tidegate_scenarios::scenario::controller::Controller;
use tidegate_translate::Bind;
use tokio::task::JoinSet;

/// Enough that each of two endpoints has some.
const UNDER_WAY: u64 = 8;

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(2);

/// Two endpoints have requests when one of them begins to terminate: what it has it finishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_outlives_the_readiness_of_its_endpoint() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let envoy = Binary::find_or_install(&|line| eprintln!("{line}")).await;
    let envoy = envoy.unwrap_or_else(|error| panic!("these tests need an envoy: {error}"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/b03-terminating-while-others-are-ready");
    let scenario = Scenario::read(&folder);
    let [ready, terminating] = [&scenario.epochs[0], &scenario.epochs[1]];
    for sotw in [false, true] {
        let place = Place(0);
        let mut stage = Stage::set(&envoy, &scenario, sotw, place).await;
        let mut controller = Controller::new(Config { bind: Bind::Own, ..Config::default() });
        let here = |events: &[Event]| events.iter().map(|event| place.event(event)).collect::<Vec<_>>();
        stage.publish(controller.apply(&here(&ready.events), ready.millis)).await.expect("the first epoch is accepted");
        // Long enough that the change arrives meanwhile.
        let call = Call::get(SocketAddr::from((place.listens(), 10080)), "shop.example", "/?delay=2s");
        let mut under_way = JoinSet::new();
        for _ in 0..UNDER_WAY {
            let call = call.clone();
            under_way.spawn(async move { call.send().await });
        }
        while stage.seen("shop/a") < UNDER_WAY {
            tokio::time::sleep(POLL).await;
        }
        let terminates = controller.apply(&here(&terminating.events), terminating.millis);
        stage.publish(terminates).await.expect("the second epoch is accepted");
        let early = under_way.try_join_next();
        assert!(early.is_none(), "a request ended before the change was there: {early:?}");
        let mut by = BTreeSet::new();
        while let Some(answer) = under_way.join_next().await {
            let answer = answer.expect("a request does not panic").expect("it is answered");
            assert_eq!(answer.status, 200);
            by.extend(answer.echoed().map(|echoed| echoed.identity.pod));
        }
        assert_eq!(by.len(), 2, "each endpoint had some: {by:?}");
        assert_right(&stage.rejected().await);
    }
}
