//! The pages over a real socket, with a view made by hand.

use super::*;
use crate::view::{BuildInfo, Counters, Readiness, Traffic, TypeCounters, Unreadable, Wire};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tidegate_model::Name;
use tidegate_xds::{GatewayView, Resource, Sealed, Variants};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Default)]
struct Fake {
    sealed: Option<Arc<Sealed>>,
    readiness: Readiness,
    profiled: bool,
}

impl View for Fake {
    fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }
    fn sealed(&self) -> Option<Arc<Sealed>> {
        self.sealed.clone()
    }
    fn objects(&self) -> Vec<Value> {
        vec![
            json!({"kind": "Gateway", "metadata": {"namespace": "shop", "name": "public"}, "status": {}}),
            json!({"kind": "HTTPRoute", "metadata": {"namespace": "shop", "name": "cart"}, "status": {}}),
            json!({"kind": "GatewayClass", "metadata": {"name": "public"}, "status": {}}),
        ]
    }
    fn problems(&self) -> Vec<Value> {
        vec![json!({"path": "a.yaml", "line": 3})]
    }
    fn clients(&self) -> Vec<Value> {
        vec![json!({"node": "gw-0"})]
    }
    fn dataflow(&self) -> Option<Value> {
        self.profiled.then(|| json!({"dataflow": []}))
    }
    fn dataflow_page(&self) -> Option<String> {
        self.profiled.then(|| "<!doctype html>".to_owned())
    }
    fn counters(&self) -> Counters {
        let traffic = BTreeMap::from([("seal", Traffic { pushes: 3, bytes: 700 })]);
        let clusters = TypeCounters { traffic, resources: 99, acks: 2, nacks: 1, ..TypeCounters::default() };
        Counters {
            now_ms: 12_500,
            seals: 7,
            wire: Wire {
                clients: BTreeMap::from([(("delta", "current"), 2), (("sotw", "behind"), 1)]),
                types: BTreeMap::from([("cds", clusters)]),
                ..Wire::default()
            },
            ..Counters::default()
        }
    }
    fn build(&self) -> BuildInfo {
        BuildInfo { version: "1.2.3", controller: "tidegate.dev/test".to_owned(), workers: 1 }
    }
}

fn sealed() -> Arc<Sealed> {
    let name = Name::from("shop/cart/80");
    let resource = Resource::new(name.clone(), bytes_of_cluster(&name));
    let view = GatewayView { members: imbl::ordset![name.clone()], ..GatewayView::default() };
    let mut sealed = Sealed { epoch: 4, millis: 10_000, ..Sealed::default() };
    sealed.clusters.insert(name, Variants::any(resource));
    sealed.gateways.insert(NamespacedName::parse("shop/public"), view);
    Arc::new(sealed)
}

/// A `Cluster` of which only field 1, the name, is set.
fn bytes_of_cluster(name: &str) -> axum::body::Bytes {
    let mut bytes = vec![0x0a, u8::try_from(name.len()).unwrap()];
    bytes.extend_from_slice(name.as_bytes());
    bytes.into()
}

/// Serves `view` and returns status code and body of one request for each of `requests`.
async fn ask(view: Fake, requests: &[&str]) -> Vec<(u16, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::task::JoinSet::from_iter([crate::serve(listener, Arc::new(view), async move {
        let _ = stopped.await;
    })]);
    let mut answers = Vec::new();
    for request in requests {
        answers.push(exchange(address, request).await);
    }
    drop(stop);
    server.join_all().await.into_iter().for_each(|ended| ended.unwrap());
    answers
}

async fn exchange(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{request} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn readiness_names_what_is_missing_until_the_first_seal() {
    let missing = vec!["Gateway: initial list not complete".to_owned()];
    let fake = Fake { readiness: Readiness { missing, ..Readiness::default() }, ..Fake::default() };
    let answers = ask(fake, &["GET /readyz", "GET /healthz", "GET /snapshot?gateway=shop/public"]).await;
    assert_eq!(answers[0].0, 503);
    assert!(answers[0].1.contains("Gateway: initial list not complete"), "{}", answers[0].1);
    assert_eq!(answers[1], (200, "ok\n".to_owned()));
    assert_eq!(answers[2].0, 503);
}

#[tokio::test]
async fn an_unreadable_kind_degrades_readiness_but_stays_200() {
    let unreadable = vec![Unreadable { kind: "HTTPRoute".to_owned(), reason: "forbidden".to_owned() }];
    let readiness = Readiness { unreadable, ..Readiness::default() };
    let answers = ask(Fake { sealed: Some(sealed()), readiness, ..Fake::default() }, &["GET /readyz"]).await;
    let body: Value = serde_json::from_str(&answers[0].1).unwrap();
    assert_eq!((answers[0].0, &body["state"], &body["epoch"]), (200, &json!("degraded"), &json!(4)));
    assert_eq!(body["unreadable"][0]["kind"], "HTTPRoute");
    assert_eq!(body["problems"][0]["line"], 3);
}

#[tokio::test]
async fn every_other_method_is_refused_everywhere() {
    let requests = ["POST /readyz", "PUT /", "DELETE /snapshot?gateway=shop/public", "HEAD /healthz", "POST /nowhere"];
    let codes: Vec<u16> = ask(Fake::default(), &requests).await.into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, [405; 5]);
    assert_eq!(ask(Fake::default(), &["GET /nowhere"]).await[0].0, 404);
}

#[tokio::test]
async fn status_is_filtered_by_kind_namespace_and_name() {
    let requests =
        ["GET /status", "GET /status?kind=httproute", "GET /status?namespace=shop&name=public", "GET /status?kond=x"];
    let answers = ask(Fake { sealed: Some(sealed()), ..Fake::default() }, &requests).await;
    let names = |body: &str| -> Vec<String> {
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["problems"][0]["path"], "a.yaml");
        let objects = body["objects"].as_array().unwrap();
        objects.iter().map(|o| format!("{}/{}", o["kind"], o["metadata"]["name"]).replace('"', "")).collect()
    };
    assert_eq!(names(&answers[0].1), ["Gateway/public", "HTTPRoute/cart", "GatewayClass/public"]);
    assert_eq!(names(&answers[1].1), ["HTTPRoute/cart"]);
    assert_eq!(names(&answers[2].1), ["Gateway/public"]);
    assert_eq!(answers[3].0, 400, "a mistyped filter must not mean no filter");
}

#[tokio::test]
async fn a_snapshot_shows_members_and_an_unknown_gateway_names_those_that_exist() {
    let requests = ["GET /snapshot?gateway=shop/public", "GET /snapshot?gateway=shop/pubic", "GET /snapshot"];
    let answers = ask(Fake { sealed: Some(sealed()), ..Fake::default() }, &requests).await;
    let body: Value = serde_json::from_str(&answers[0].1).unwrap();
    assert_eq!(body["clusters"][0]["name"], "shop/cart/80");
    assert_eq!(body["clusters"][0]["resource"]["name"], "shop/cart/80");
    assert_eq!(body["clusters"][0]["version"].as_str().map(str::len), Some(32));
    assert_eq!(answers[1].0, 404);
    assert!(
        answers[1].1.contains("shop/pubic is not served") && answers[1].1.contains("shop/public"),
        "{}",
        answers[1].1
    );
    assert_eq!(answers[2].0, 400);
}

#[tokio::test]
async fn the_dataflow_is_shown_as_json_and_as_a_page_once_it_is_logged() {
    let requests = ["GET /debug/dataflow", "GET /debug/dataflow?form=html", "GET /debug/dataflow?form=pdf"];
    let answers = ask(Fake::default(), &requests).await;
    assert!(answers[0].0 == 404 && answers[0].1.contains("--profile"), "{answers:?}");
    assert_eq!((answers[1].0, answers[2].0), (404, 400));
    let answers = ask(Fake { profiled: true, ..Fake::default() }, &requests).await;
    assert_eq!((answers[0].0, answers[0].1.trim()), (200, "{\n  \"dataflow\": []\n}"));
    assert_eq!(answers[1], (200, "<!doctype html>".to_owned()));
}

#[tokio::test]
async fn metrics_are_open_metrics_with_age_clients_and_types() {
    let answers = ask(Fake { sealed: Some(sealed()), ..Fake::default() }, &["GET /metrics"]).await;
    let lines: Vec<&str> = answers[0].1.lines().collect();
    for line in [
        "tidegate_build_info{version=\"1.2.3\",controller=\"tidegate.dev/test\",workers=\"1\"} 1",
        "tidegate_sealed_epoch 4.0",
        "tidegate_last_seal_age_seconds 2.5",
        "tidegate_seals_total 7",
        "tidegate_clients{protocol=\"delta\",state=\"current\"} 2.0",
        "tidegate_pushes_total{type=\"cds\",cause=\"seal\"} 3",
        "tidegate_pushed_bytes_total{type=\"cds\",cause=\"seal\"} 700",
        "tidegate_nacks_total{type=\"cds\"} 1",
    ] {
        assert!(lines.contains(&line), "{line} is not in\n{}", answers[0].1);
    }
    assert_eq!(lines.last(), Some(&"# EOF"));
}
