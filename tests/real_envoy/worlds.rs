//! Random sets of objects, one after the other, through one Envoy that lives through all of them: it must take every
//! version that it is sent. `TIDEGATE_SETS=5000` plays so many, `TIDEGATE_SEED=7` from that seed on.

use crate::place::Place;
use crate::stage::Stage;
use crate::{ONE_AT_A_TIME, assert_right};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testkit::rules;
use testkit::tls::Pair;
use tidegate_engine::Config;
use tidegate_envoy::Binary;
use tidegate_log::{Event, Object};
use tidegate_model::{Kind, NamespacedName, ObjectKey, ResourceType, RouteKind};
use tidegate_scenarios::scenario::Certificate;
use tidegate_scenarios::scenario::controller::Controller;
use tidegate_sources::secret::take_material;
use tidegate_translate::Bind;
use tidegate_workload::{Random, World, world};
use tidegate_xds::Sealed;

/// How many sets are played if nobody says.
const SETS: u64 = 30;

/// The first seed if nobody says.
const SEED: u64 = 1;

/// The Gateway whose Envoy it is.
const GATEWAY: &str = "infra/edge";

/// How far the ports of a world are moved, so that nobody must be allowed to bind the low ones.
const PORTS_UP: u64 = 20_000;

/// How many certificates there are: as many as a world tells apart.
const CERTIFICATES: usize = 4;

/// How many wrong sets are told of.
const TOLD: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_envoy_takes_every_set_of_objects() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let envoy = Binary::find_or_install(&|line| eprintln!("{line}")).await;
    let envoy = envoy.unwrap_or_else(|error| panic!("these tests need an envoy: {error}"));
    let (delta, sotw) = tokio::join!(play(&envoy, false, Place(0)), play(&envoy, true, Place(1)));
    assert_right(&[delta, sotw].concat());
}

async fn play(envoy: &Binary, sotw: bool, place: Place) -> Vec<String> {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, sets) = (number("TIDEGATE_SEED", SEED), number("TIDEGATE_SETS", SETS));
    let gateway = NamespacedName::parse(GATEWAY);
    // Near some of the endpoints.
    let at = |_: &NamespacedName| world::client(&mut Random::new(first));
    let mut stage = Stage::bare(envoy, "random worlds", vec![gateway.clone()], at, sotw, place).await;
    let mut controller = Controller::new(Config { bind: Bind::Own, ..Config::default() });
    let pairs: Vec<Pair> = (0..CERTIFICATES).map(|_| Pair::new(&["example.com", "*.example.com"])).collect();
    let (mut known, mut wrong, mut listeners) = (BTreeSet::new(), Vec::new(), 0);
    for seed in first..first + sets {
        let mut events = World::new(seed).list();
        let mut certificates = Vec::new();
        events.iter_mut().for_each(|event| certificates.extend(prepare(event, place, &pairs)));
        let now: BTreeSet<ObjectKey> = events.iter().filter_map(applied).collect();
        events.extend(known.difference(&now).cloned().map(Event::Delete));
        known = now;
        stage.keep(&certificates);
        let sealed = controller.apply(&events, (seed - first + 1) * 1000);
        listeners += sealed.names(&gateway, ResourceType::Listener).len();
        wrong.extend(broken_rules(&sealed).into_iter().map(|text| format!("seed {seed}: {text}")));
        if let Err(problem) = stage.publish(sealed).await {
            wrong.push(format!("seed {seed}: {problem}"));
            break;
        }
        let rejected = stage.rejected().await;
        if !rejected.is_empty() {
            wrong.push(format!("seed {seed}: {}\n{}", rejected.join("\n"), stage.logs()));
            break;
        }
        if wrong.len() >= TOLD {
            break;
        }
    }
    let protocol = if sotw { "state of the world" } else { "delta" };
    eprintln!("{protocol}: {sets} sets from seed {first} on, with {listeners} listeners for {GATEWAY}");
    assert!(listeners as u64 > sets / 4, "hardly anything is ever served: this shows nothing");
    wrong
}

fn applied(event: &Event) -> Option<ObjectKey> {
    match event {
        Event::Apply(object) => Some(object.key.clone()),
        Event::Delete(_)
        | Event::Synced(_)
        | Event::Unreadable { .. }
        | Event::Expired { .. }
        | Event::Connect { .. }
        | Event::Disconnect { .. }
        | Event::Rejected { .. } => None,
    }
}

/// The event as it can happen here: on addresses and ports of this place, with certificates that there are.
fn prepare(event: &mut Event, place: Place, pairs: &[Pair]) -> Option<Certificate> {
    *event = place.event(event);
    let Event::Apply(object) = event else { return None };
    let mut body = Value::clone(&object.body);
    let mut certificate = None;
    if matches!(object.key.kind, Kind::Gateway | Kind::ListenerSet) {
        for list in ["/spec/listeners", "/spec/tls/frontend/perPort"] {
            body.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(move_up);
        }
    } else if RouteKind::of(object.key.kind).is_some() {
        body["spec"]["parentRefs"].as_array_mut().into_iter().flatten().for_each(move_up);
    } else if let Some(digest) = body.pointer("/material/certificate/digest").and_then(Value::as_str) {
        let which = digest.bytes().map(usize::from).sum::<usize>() % pairs.len();
        let pair = &pairs[which];
        body["stringData"] = json!({"tls.crt": pair.certificate, "tls.key": pair.key});
        let material = take_material(&mut body).expect("a good certificate is taken");
        let (secret, der) = (object.key.clone(), Bytes::clone(&pair.der));
        certificate = Some(Certificate { secret, der, pair: None, material });
    }
    *object = Object::new(body).expect("it is the same object");
    certificate
}

fn move_up(item: &mut Value) {
    if let Some(port) = item["port"].as_u64() {
        item["port"] = json!(port + PORTS_UP);
    }
}

/// The field rules of Envoy that what is sealed for any Gateway breaks.
fn broken_rules(sealed: &Sealed) -> Vec<String> {
    let pool = tidegate_proto::json::pool();
    let mut found = Vec::new();
    for gateway in sealed.gateways.keys() {
        for kind in ResourceType::ALL.into_iter().filter(|kind| *kind != ResourceType::Secret) {
            for name in sealed.names(gateway, kind) {
                let Some(resource) = sealed.resource(gateway, kind, &name) else { continue };
                let type_name = kind.url().rsplit('/').next().unwrap_or_default();
                let broken = rules::broken(pool, type_name, &resource.bytes);
                found.extend(broken.into_iter().map(|rule| format!("{gateway} {kind:?} {name}: {rule}")));
            }
        }
    }
    found
}
