//! The backend, the requests and the load against each other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use testkit::http::{Call, get};
use testkit::load::{Load, Outcome, Plan, Target};
use testkit::{Echo, Identity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

async fn echo(pod: &str) -> Echo {
    Echo::start(ANY, Identity::new("shop", "store", pod)).await.unwrap()
}

#[tokio::test]
async fn a_backend_says_what_it_saw_and_who_it_is() {
    let echo = echo("store-0").await;
    let response = get(echo.address(), "shop.example", "/a?b=c", &[("X-One", "1"), ("x-one", "2")]).await.unwrap();
    assert_eq!(response.status, StatusCode::OK);
    assert_eq!(response.header("content-type").as_deref(), Some("application/json"));
    let echoed = response.echoed().unwrap();
    assert_eq!((echoed.path.as_str(), echoed.host.as_str(), echoed.method.as_str()), ("/a?b=c", "shop.example", "GET"));
    assert_eq!(echoed.proto, "HTTP/1.1");
    assert_eq!(echoed.header("X-One").as_deref(), Some("1,2"));
    assert_eq!(echoed.identity, Identity::new("shop", "store", "store-0"));
    assert_eq!(echo.requests(), 1);
}

#[tokio::test]
async fn a_backend_speaks_http_2_on_the_same_port() {
    let echo = echo("store-0").await;
    let call = Call { http2: true, method: Method::POST, ..Call::get(echo.address(), "shop.example", "/a") };
    let echoed = call.send().await.unwrap().echoed().unwrap();
    assert_eq!(
        (echoed.proto.as_str(), echoed.host.as_str(), echoed.method.as_str()),
        ("HTTP/2.0", "shop.example", "POST")
    );
}

#[tokio::test]
async fn a_request_steers_its_answer() {
    let echo = echo("store-0").await;
    let orders = [("X-Echo-Set-Header", "x-a:1, x-b: two,nonsense"), ("X-Echo-Set-Header", "x-a:3")];
    let response = get(echo.address(), "h", "/status/418", &orders).await.unwrap();
    assert_eq!(response.status, StatusCode::IM_A_TEAPOT);
    assert_eq!((response.header("x-a"), response.header("x-b")), (Some("1,3".to_owned()), Some("two".to_owned())));
    let began = tokio::time::Instant::now();
    get(echo.address(), "h", "/?delay=80ms", &[]).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(80));
}

#[tokio::test]
async fn a_request_can_fail_until_it_was_made_often_enough() {
    let echo = echo("store-0").await;
    let ask = |path: &'static str| get(echo.address(), "h", path, &[]);
    let path = "/retry?uuid=1&succeedAfter=1&responseCode=503";
    assert_eq!(ask(path).await.unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(path).await.unwrap().status, StatusCode::OK);
    assert!(ask("/retry?uuid=2&succeedAfter=1").await.is_err());
    assert_eq!(ask("/retry?uuid=2&succeedAfter=1").await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_websocket_gives_back_what_it_gets() {
    let echo = echo("store-0").await;
    let answer = testkit::websocket::exchange(echo.address(), "h", "/ws", "hello").await.unwrap();
    assert_eq!(answer, Ok("hello".to_owned()));
}

#[tokio::test]
async fn a_call_of_grpc_is_answered_with_what_was_seen() {
    let echo = echo("store-0").await;
    let call = |method: &str| Call::grpc(echo.address(), "shop.example", method).with_header("x-a", "1");
    let response = call("shop.Cart/Echo").send().await.unwrap();
    assert_eq!((response.status, response.grpc_status()), (StatusCode::OK, Some(0)));
    let echoed = response.echoed().unwrap();
    assert_eq!((echoed.path.as_str(), echoed.host.as_str()), ("/shop.Cart/Echo", "shop.example"));
    assert_eq!(echoed.header("x-a").as_deref(), Some("1"));
    assert_eq!(echoed.identity, Identity::new("shop", "store", "store-0"));
    assert_eq!(call("shop.Cart/EchoThree").send().await.unwrap().grpc_status(), Some(12));
}

#[tokio::test]
async fn a_dropped_backend_is_gone() {
    let echo = echo("store-0").await;
    let address = echo.address();
    drop(echo);
    // The task that owns the port ends at the runtime's next turn.
    while get(address, "h", "/", &[]).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let error = get(address, "h", "/x", &[]).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("connecting to http://h/x at {address} failed")), "{error}");
}

#[tokio::test]
async fn load_keeps_its_rate_and_takes_turns() {
    let echo = echo("store-0").await;
    let target =
        |path: &str| Target { address: echo.address(), host: "h".to_owned(), path: path.to_owned(), tls: false };
    let targets = vec![target("/"), target("/status/503")];
    let load = Load::start(Plan { rate: 400, targets, workers: 8, fresh_every: 4, note: Some(CONTENT_TYPE) });
    while load.now() < Duration::from_millis(500) {
        tokio::task::yield_now().await;
    }
    let taken = load.take();
    let report = load.stop().await;
    let answers: Vec<_> = taken.into_iter().chain(report.answers).collect();
    assert!((180..=220).contains(&answers.len()), "{}", answers.len());
    assert_eq!(echo.requests(), answers.len() as u64);
    let fresh = answers.iter().filter(|answer| answer.fresh).count();
    assert!((35..=60).contains(&fresh), "{fresh}");
    // All but the fresh ones and the first of each worker.
    let kept = answers.iter().filter(|answer| answer.opened < answer.sent).count();
    assert_eq!(kept, answers.len() - fresh - 8);
    for answer in &answers {
        let status = [200, 503][answer.target];
        let (service, pod) = ("shop/store".to_owned(), "store-0".to_owned());
        assert_eq!(answer.outcome, Outcome::Backend { status, service, pod, proto: "HTTP/1.1".to_owned() });
        assert_eq!(answer.noted.as_deref(), Some("application/json"));
        assert!(!answer.fresh || answer.opened >= answer.sent, "{answer:?}");
    }
}

#[tokio::test]
async fn load_tells_a_proxy_and_a_broken_connection_from_a_backend() {
    let listener = tokio::net::TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut servers = tokio::task::JoinSet::new();
    servers.spawn(async move {
        let mut buffer = [0; 1024];
        let (mut first, _) = listener.accept().await.unwrap();
        assert_ne!(first.read(&mut buffer).await.unwrap(), 0);
        first.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
        assert_ne!(first.read(&mut buffer).await.unwrap(), 0);
        drop(first);
        loop {
            drop(listener.accept().await.unwrap());
        }
    });
    let targets = vec![Target { address, host: "h".to_owned(), path: "/".to_owned(), tls: false }];
    let load = Load::start(Plan { rate: 100, targets, workers: 1, fresh_every: 0, note: None });
    while load.answered() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let answers = load.stop().await.answers;
    assert_eq!(answers[0].outcome, Outcome::Proxy { status: 503, body: "no".to_owned() });
    assert!(matches!(&answers[1].outcome, Outcome::Failed(why) if why.starts_with("answering")), "{answers:?}");
}
