//! `tidegate standalone` with real Envoys: they come and go with their Gateways, and with nothing left behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/running.rs"]
mod running;

use running::{PATIENCE, Running};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tidegate_envoy::Binary;
use tokio::time::Instant;

const CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: tidegate }
spec: { controllerName: tidegate.dev/gateway-controller }
";

/// A Gateway on a port whose every answer is a redirect to a host of its name.
fn gateway(name: &str, port: u16, more: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: {name}, namespace: shop }}
spec:
  gatewayClassName: tidegate
  listeners: [{{ name: http, port: {port}, protocol: HTTP }}]
{more}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{ name: {name}, namespace: shop }}
spec:
  parentRefs: [{{ name: {name} }}]
  rules: [{{ filters: [{{ type: RequestRedirect, requestRedirect: {{ hostname: {name}.example }} }}] }}]
"
    )
}

fn standalone(dir: &Path) -> Running {
    // Found here, where downloads are kept in the source tree; the program runs elsewhere.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let envoy = runtime.block_on(Binary::find_or_install(&|line| eprintln!("{line}"))).unwrap();
    Running::start(&["standalone"], dir, &["--drain", "2s"], &[("ENVOY_BIN", &envoy.path)])
}

/// Asks until the answer is good.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The name of the Gateway that answers, if one does.
fn ask(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    // Not to the end: Envoy waits a second for the client to close first.
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let target = lines.find_map(|line| line.strip_prefix("location: http://").map(str::to_owned))?;
    Some(target.split('.').next()?.to_owned())
}

fn serves(port: u16, name: &str) {
    until(&format!("{name} on {port}"), || ask(port).filter(|answered| answered == name));
}

/// The seat of a Gateway on `/clients`.
fn seat(running: &Running, name: &str) -> Value {
    let clients = running.json("/clients");
    let proxies = clients["proxies"].as_array().unwrap().iter();
    proxies.clone().find(|proxy| proxy["gateway"] == format!("shop/{name}")).cloned().unwrap_or_default()
}

fn live(running: &Running, name: &str) -> Value {
    until(&format!("{name} to be live"), || Some(seat(running, name)).filter(|seat| seat["state"] == "live"))
}

/// The condition `Programmed` of a Gateway.
fn programmed(running: &Running, name: &str) -> Value {
    let status = running.json(&format!("/status?kind=Gateway&name={name}"));
    let conditions = status["objects"][0]["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Programmed").unwrap_or_default()
}

fn is_alive(pid: &Value) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    // One that has ended and is not yet waited for is gone as far as anybody is concerned.
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

#[test]
fn envoys_come_with_their_gateways_are_repaired_and_all_end_with_us() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two, three] = [(); 3].map(|()| testkit::ports::free());
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(format!("{name}.yaml")), text).unwrap();
    write("class", CLASS);
    write("one", &gateway("one", one, ""));
    write("two", &gateway("two", two, ""));
    let running = standalone(dir.path());
    serves(one, "one");
    serves(two, "two");

    let first = live(&running, "one");
    let admin: u16 = first["admin"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", admin)).is_ok(), "{first}");
    assert_eq!(first["listeners"][0], format!("0.0.0.0:{one}"));
    let killed = Command::new("kill").args(["-KILL", &first["pid"].to_string()]).status().unwrap();
    assert!(killed.success());
    let second = until("another process", || Some(live(&running, "one")).filter(|seat| seat["pid"] != first["pid"]));
    assert_eq!(second["starts"], 2, "{second}");
    serves(one, "one");
    until("programmed", || Some(()).filter(|()| programmed(&running, "one")["status"] == "True"));

    write("three", &gateway("three", three, ""));
    serves(three, "three");
    std::fs::remove_file(dir.path().join("two.yaml")).unwrap();
    until("two to be gone", || ask(two).is_none().then_some(()));
    until("its seat to be gone", || seat(&running, "two").is_null().then_some(()));

    let pids = ["one", "three"].map(|name| live(&running, name)["pid"].clone());
    assert!(pids.iter().all(is_alive), "{pids:?}");
    assert_eq!(running.stop(), Some(0));
    assert!(!pids.iter().any(is_alive), "{pids:?}");
    assert!(ask(one).is_none() && ask(three).is_none());
}

#[test]
fn of_two_gateways_on_one_port_the_first_has_it_and_the_other_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let [port, other] = [(); 2].map(|()| testkit::ports::free());
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(format!("{name}.yaml")), text).unwrap();
    write("class", CLASS);
    write("b", &gateway("b", port, ""));
    let running = standalone(dir.path());
    serves(port, "b");

    // It sorts before the one that runs, and takes over.
    write("a", &gateway("a", port, ""));
    let warning = running.line_where(|entry| entry["level"] == "WARN" && entry["gateway"] == "shop/b");
    assert!(warning.to_string().contains("belongs to Gateway shop/a"), "{warning}");
    serves(port, "a");
    let condition = programmed(&running, "b");
    assert_eq!(condition["status"], "False", "{condition}");
    assert_eq!(condition["reason"], "AddressNotUsable", "{condition}");
    assert!(condition["message"].as_str().unwrap().contains(&format!("0.0.0.0:{port}")), "{condition}");
    assert_eq!(seat(&running, "b")["state"], "hindered");
    // Never a share of the connections.
    for _ in 0..50 {
        assert_eq!(ask(port).as_deref(), Some("a"));
    }

    write("b", &gateway("b", other, ""));
    serves(other, "b");
    until("programmed", || Some(()).filter(|()| programmed(&running, "b")["status"] == "True"));
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn an_address_or_a_port_that_cannot_be_had_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let free = testkit::ports::free();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    std::fs::write(dir.path().join("class.yaml"), CLASS).unwrap();
    // An address for documentation, which no machine has.
    let elsewhere = gateway("elsewhere", free, "  addresses: [{ value: 192.0.2.1 }]");
    std::fs::write(dir.path().join("elsewhere.yaml"), elsewhere).unwrap();
    std::fs::write(dir.path().join("late.yaml"), gateway("late", port, "")).unwrap();
    let running = standalone(dir.path());
    let told = |name: &str, text: &str| {
        until(text, || {
            let condition = programmed(&running, name);
            (condition["status"] == "False" && condition["message"].to_string().contains(text)).then_some(())
        });
    };
    told("elsewhere", "192.0.2.1 is no address of this machine");
    told("late", "is in use");
    assert!(ask(free).is_none());
    drop(taken);
    serves(port, "late");
    until("programmed", || Some(()).filter(|()| programmed(&running, "late")["status"] == "True"));
    assert_eq!(running.stop(), Some(0));
}
