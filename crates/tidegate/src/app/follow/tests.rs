//! The follower between a real engine and a client made by hand.

use super::*;
use serde_json::json;
use tidegate_engine::{Config, Engine};
use tidegate_log::{Header, Object, Reader, Writer};
use tidegate_model::{CONTROLLER_NAME, ClientId, Kind, ListenerKey, Name, NamespacedName, Refusal, ResourceType};
use tokio::task::JoinSet;

fn world() -> Vec<Event> {
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": "ours" },
        "spec": { "controllerName": CONTROLLER_NAME },
    });
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "gatewayClassName": "ours", "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }] },
    });
    let objects = [class, gateway].map(|body| Event::Apply(Object::new(body).unwrap()));
    objects.into_iter().chain(Kind::ALL.map(Event::Synced)).collect()
}

/// The status of the Gateway's condition `Programmed`, once the board has the Gateway.
fn programmed(board: &Mutex<Board>) -> Option<String> {
    let key = ObjectKey::new(Kind::Gateway, "default", "web");
    let object = board.lock().unwrap().status_of(&key, CONTROLLER_NAME)?;
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|condition| condition["type"] == "Programmed").unwrap();
    Some(condition["status"].as_str().unwrap().to_owned())
}

async fn until(board: &Mutex<Board>, status: &str) {
    let reached = async {
        while programmed(board).as_deref() != Some(status) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reached)
        .await
        .unwrap_or_else(|_| panic!("never Programmed={status}"));
}

#[tokio::test]
async fn a_rejection_reaches_the_status_and_the_recording_until_the_client_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.log");
    let writer = Writer::create(&file, &Header::new("test", 1, CONTROLLER_NAME)).unwrap();
    let (engine, running) = Engine::start(Config::default(), Arc::new(|| 1_000), Some(writer)).unwrap();
    let (observe, observations) = mpsc::channel(8);
    let board = Arc::new(Mutex::new(Board::new()));
    let (stop, drained) = (CancellationToken::new(), CancellationToken::new());
    let follower = Follower {
        engine: engine.clone(),
        observations,
        board: Arc::clone(&board),
        clock: Arc::new(|| 2_000),
        vault: Vault::new(),
        last: None,
        drained: drained.clone().drop_guard(),
    };
    let tasks = JoinSet::from_iter([follower.run(stop.clone())]);
    engine.send(world()).await.unwrap();
    until(&board, "True").await;

    let (client, gateway) = (ClientId { stream: 1, node: "gw-0".into() }, NamespacedName::new("default", "web"));
    let connected = Observation::Connected { client: client.clone(), gateway: gateway.clone(), delta: true };
    observe.send(connected).await.unwrap();
    observe
        .send(Observation::Rejected {
            client: client.clone(),
            gateway: gateway.clone(),
            kind: ResourceType::Listener,
            epoch: 0,
            resources: vec![(Name::from("http"), Name::from("v1"))],
            detail: "port in use".into(),
        })
        .await
        .unwrap();
    let refusal = Refusal {
        kind: ResourceType::Listener,
        name: "http".into(),
        listeners: vec![ListenerKey::of_gateway(&gateway, "http")],
        entries: Vec::new(),
        detail: "port in use".into(),
    };
    let refusals = vec![refusal];
    observe.send(Observation::Refuses { client: client.clone(), gateway, refusals }).await.unwrap();
    until(&board, "False").await;
    observe.send(Observation::Disconnected { client }).await.unwrap();
    until(&board, "True").await;

    drop(observe);
    assert!(!drained.is_cancelled(), "it stays until it is asked to stop");
    stop.cancel();
    tasks.join_all().await.into_iter().for_each(|ended| ended.unwrap());
    assert!(drained.is_cancelled());
    engine.shutdown().await;
    running.wait().await.unwrap();
    let recorded: Vec<Event> = Reader::open(&file).unwrap().flat_map(|epoch| epoch.unwrap().events).collect();
    let about_clients: Vec<&Event> = recorded.iter().filter(|event| !event.concerns_objects()).collect();
    assert!(
        matches!(about_clients[..], [Event::Connect { .. }, Event::Rejected { .. }, Event::Disconnect { .. }]),
        "{about_clients:?}"
    );
}
