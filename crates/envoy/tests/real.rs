//! A real Envoy: found or installed, started, asked, stopped and started again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidegate_envoy::process::{Error, validate};
use tidegate_envoy::supervise::{Backoff, supervise};
use tidegate_envoy::{Binary, Bootstrap, LogTo, Options, Process};
use tidegate_model::{Locality, Name, NamespacedName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ECHO: &str = "type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo";

const STATIC_ONLY: &str = "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }";

async fn envoy() -> Binary {
    Binary::find_or_install(&|line| eprintln!("{line}")).await.unwrap()
}

fn bootstrap(ads: &str) -> Bootstrap {
    Bootstrap::new(NamespacedName::new("shop", "edge"), ads.parse().unwrap())
}

#[tokio::test]
async fn every_form_of_bootstrap_is_valid_to_envoy() {
    let envoy = envoy().await;
    for ads in ["127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/nowhere.sock"] {
        for sotw in [false, true] {
            for admin_port in [None, Some(0)] {
                let [network, region, zone, sub_zone, host] = ["n", "r", "zone-a", "s", "worker-1"].map(Name::from);
                let locality = Locality { network, region, zone, sub_zone, host };
                let text = Bootstrap { sotw, admin_port, locality, ..bootstrap(ads) }.to_yaml();
                validate(&envoy, &text).await.unwrap_or_else(|error| panic!("{error}\n{text}"));
            }
        }
    }
    let refused = validate(&envoy, "node: { identity: x }").await.unwrap_err();
    assert!(matches!(&refused, Error::Invalid { log } if log.contains("identity")), "{refused}");
}

#[tokio::test]
async fn envoy_has_nothing_to_warn_of_in_a_bootstrap() {
    let config = bootstrap("127.0.0.1:1").to_yaml();
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("envoy.log");
    let options = Options { log: LogTo::File(log.clone()), ..Options::default() };
    let process = Process::start(&envoy().await, &config, &options).await.unwrap();
    process.stop().await.unwrap();
    let text = std::fs::read_to_string(log).unwrap();
    // That nobody answers at port 1 is the one thing that it may complain of.
    let warnings: Vec<&str> =
        text.lines().filter(|line| line.contains("[warning]") && !line.contains("gRPC")).collect();
    assert!(warnings.is_empty() && text.contains("[info]"), "{warnings:#?}");
}

#[tokio::test]
async fn an_envoy_without_its_server_says_that_it_waits_for_it() {
    let config = bootstrap("127.0.0.1:1").to_yaml();
    let mut process = Process::start(&envoy().await, &config, &Options::default()).await.unwrap();
    let error = process.wait_live(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(&error, Error::NotLive { state, .. } if state == "PRE_INITIALIZING"), "{error}");
    let stats = process.admin().stats("^control_plane\\.connected_state$").await.unwrap();
    assert_eq!(stats.get("control_plane.connected_state"), Some(&0), "{stats:?}");
    process.stop().await.unwrap();
}

#[tokio::test]
async fn a_live_envoy_answers_drains_and_quits() {
    let mut process = Process::start(&envoy().await, STATIC_ONLY, &Options::default()).await.unwrap();
    process.wait_live(Duration::from_secs(20)).await.unwrap();
    let dump = process.admin().config_dump(None).await.unwrap();
    assert!(dump["configs"].is_array(), "{dump}");
    assert!(process.log_tail().contains("starting"), "{}", process.log_tail());
    process.drain().await.unwrap();
    let admin = process.admin().clone();
    assert!(process.stop().await.unwrap().success());
    admin.state().await.unwrap_err();
}

#[tokio::test]
async fn a_refused_bootstrap_is_quoted() {
    let error = Process::start(&envoy().await, "node: { identity: x }", &Options::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Ended { log, .. } if log.contains("identity")), "{error}");
}

#[tokio::test]
async fn a_supervised_envoy_comes_back_until_it_is_stopped() {
    let envoy = envoy().await;
    let starts = AtomicUsize::new(0);
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut stop = Some(stop);
    let start = async || {
        let process = Process::start(&envoy, STATIC_ONLY, &Options::default()).await?;
        if starts.fetch_add(1, Ordering::Relaxed) < 2 {
            process.admin().post("/quitquitquit").await?;
        } else if let Some(stop) = stop.take() {
            stop.send(()).unwrap();
        }
        Ok::<_, Error>(process)
    };
    let mut ends = Vec::new();
    let backoff = Backoff::new(Duration::from_millis(1), Duration::from_secs(60));
    let until = async { drop(stopped.await) };
    supervise(start, |text, _wait| ends.push(text.to_owned()), backoff, Duration::ZERO, until).await.unwrap();
    assert_eq!(starts.load(Ordering::Relaxed), 3);
    assert_eq!(ends.len(), 2, "{ends:?}");
}

#[tokio::test]
async fn a_drained_envoy_refuses_new_connections_and_ends_when_the_last_one_has() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let echo = format!(
        r#"{STATIC_ONLY}
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains: [{{ filters: [{{ name: echo, typed_config: {{ "@type": {ECHO} }} }}] }}]"#
    );
    let mut process = Process::start(&envoy().await, &echo, &Options::default()).await.unwrap();
    process.wait_live(Duration::from_secs(20)).await.unwrap();
    let mut open = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut answer = [0; 2];
    open.write_all(b"hi").await.unwrap();
    open.read_exact(&mut answer).await.unwrap();
    let ends = tokio::task::JoinSet::from_iter([process.drain_and_stop(Duration::from_secs(60))]);
    // New connections are refused from some moment on, and the open one lives.
    while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    open.write_all(b"ho").await.unwrap();
    open.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"ho");
    drop(open);
    let ended = tokio::time::timeout(Duration::from_secs(30), ends.join_all()).await.unwrap();
    assert!(ended[0].as_ref().unwrap().success(), "{ended:?}");
}
