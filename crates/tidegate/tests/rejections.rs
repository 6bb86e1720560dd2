//! A real Envoy rejects a listener, because its port is taken. Its status says so, everything else is served and keeps
//! changing, and a controller that starts anew knows it and does not send it again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/running.rs"]
mod running;

use running::{PATIENCE, Running};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use testkit::http::Call;
use testkit::{Echo, Identity, ports};
use tidegate_envoy::{AdsAddress, Binary, Bootstrap, Options, Process};
use tidegate_model::NamespacedName;
use tokio::runtime::Runtime;
use tokio::time::Instant;

fn gateway(web: u16, taken: u16, backend: SocketAddr) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{ name: tidegate }}
spec: {{ controllerName: tidegate.dev/gateway-controller }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: edge, namespace: shop }}
spec:
  gatewayClassName: tidegate
  listeners:
  - {{ name: web, port: {web}, protocol: HTTP }}
  - {{ name: taken, port: {taken}, protocol: HTTP }}
---
apiVersion: v1
kind: Service
metadata: {{ name: cart, namespace: shop }}
spec: {{ ports: [{{ port: 80, targetPort: {port} }}] }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: cart-1, namespace: shop, labels: {{ kubernetes.io/service-name: cart }} }}
addressType: IPv4
ports: [{{ port: {port} }}]
endpoints: [{{ addresses: [{ip}] }}]
",
        port = backend.port(),
        ip = backend.ip()
    )
}

fn route(name: &str, path: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{ name: {name}, namespace: shop }}
spec:
  parentRefs: [{{ name: edge }}]
  rules:
  - matches: [{{ path: {{ type: PathPrefix, value: {path} }} }}]
    backendRefs: [{{ name: cart, port: 80 }}]
"
    )
}

/// Writes a file in one step, as an editor does.
fn write(dir: &Path, name: &str, text: &str) {
    let new = dir.join(format!(".{name}.new"));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, dir.join(name)).unwrap();
}

struct Scene {
    runtime: Runtime,
    dir: tempfile::TempDir,
    ads: String,
    web: u16,
}

impl Scene {
    fn serve(&self) -> Running {
        let state = self.dir.path().join("state");
        let more = ["--ads", &self.ads, "--state-dir", state.to_str().unwrap()];
        Running::start(&["serve", "--manifests"], &self.dir.path().join("manifests"), &more, &[])
    }

    /// The status code of a request for the path.
    fn ask(&self, path: &str) -> Option<u16> {
        self.ask_at(self.web, path)
    }

    fn ask_at(&self, port: u16, path: &str) -> Option<u16> {
        let call = Call::get(SocketAddr::from(([127, 0, 0, 1], port)), "shop.example", path);
        self.runtime.block_on(call.send()).ok().map(|response| response.status.as_u16())
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The condition of this type among these.
fn condition(conditions: &Value, kind: &str) -> Option<Value> {
    conditions.as_array()?.iter().find(|condition| condition["type"] == kind).cloned()
}

/// Status of `Programmed` of the Gateway's listeners, by name.
fn of_listeners(running: &Running) -> Value {
    let status = running.json("/status");
    let Some(gateway) = status["objects"].as_array().unwrap().iter().find(|object| object["kind"] == "Gateway") else {
        return Value::Null;
    };
    let listeners = gateway["status"]["listeners"].as_array().unwrap().iter();
    listeners
        .map(|listener| {
            let programmed = condition(&listener["conditions"], "Programmed").unwrap();
            (listener["name"].as_str().unwrap().to_owned(), programmed["status"].clone())
        })
        .collect::<serde_json::Map<String, Value>>()
        .into()
}

fn nacks(running: &Running) -> u64 {
    let (_, text) = running.get("/metrics");
    let lines = text.lines().filter(|line| line.contains("nacks_total{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

fn play(sotw: bool) {
    let runtime = Runtime::new().unwrap();
    let envoy = runtime.block_on(Binary::find_or_install(&|line| eprintln!("{line}")));
    let envoy = envoy.unwrap_or_else(|error| panic!("these tests need an envoy: {error}"));
    let echo = Echo::start("127.0.0.1:0".parse().unwrap(), Identity::new("shop", "cart", "cart-1"));
    let echo = runtime.block_on(echo).unwrap();
    let occupied = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let taken = occupied.local_addr().unwrap().port();
    let scene = Scene {
        runtime,
        dir: tempfile::tempdir().unwrap(),
        ads: format!("127.0.0.1:{}", ports::free()),
        web: ports::free(),
    };
    let manifests = scene.dir.path().join("manifests");
    std::fs::create_dir(&manifests).unwrap();
    write(&manifests, "gateway.yaml", &gateway(scene.web, taken, echo.address()));
    let good: Vec<String> = (0..100).map(|number| route(&format!("r{number}"), &format!("/r{number}"))).collect();
    write(&manifests, "routes.yaml", &good.join("---\n"));

    let running = scene.serve();
    let (host, port) = scene.ads.split_once(':').unwrap();
    let ads = AdsAddress::Tcp { host: host.to_owned(), port: port.parse().unwrap() };
    let bootstrap = Bootstrap { sotw, ..Bootstrap::new(NamespacedName::new("shop", "edge"), ads) };
    let options = Options { log_level: "warning".to_owned(), ..Options::default() };
    let process = scene.runtime.block_on(Process::start(&envoy, &bootstrap.to_yaml(), &options)).unwrap();

    until("the first routes are served", || scene.ask("/r7") == Some(200));
    let refused = json!({ "taken": "False", "web": "True" });
    until("the listener is refused", || of_listeners(&running) == refused);

    let mut changed = good.clone();
    changed[7] = route("r7", "/seven");
    write(&manifests, "routes.yaml", &changed.join("---\n"));
    until("a change is served", || scene.ask("/seven") == Some(200));
    assert_eq!(scene.ask("/r7"), Some(404));
    assert_eq!(nacks(&running), 1);
    assert_eq!(running.end().0, Some(0));

    // Another controller knows it from the file: it does not send again what was rejected.
    let running = scene.serve();
    until("the new controller says it too", || of_listeners(&running) == refused);
    changed[8] = route("r8", "/eight");
    write(&manifests, "routes.yaml", &changed.join("---\n"));
    until("changes are served", || scene.ask("/eight") == Some(200));
    assert_eq!(nacks(&running), 0, "nothing rejected is sent again");
    assert_eq!(of_listeners(&running), refused);

    // Another form of it, that can be served.
    let other = ports::free();
    write(&manifests, "gateway.yaml", &gateway(scene.web, other, echo.address()));
    until("nothing more is said of it", || of_listeners(&running) == json!({ "taken": "True", "web": "True" }));
    until("it is served", || scene.ask_at(other, "/eight") == Some(200));
    drop(process);
}

#[test]
fn a_rejection_is_said_where_it_belongs_and_remembered_by_the_delta_protocol() {
    play(false);
}

#[test]
fn a_rejection_is_said_where_it_belongs_and_remembered_by_the_state_of_the_world_protocol() {
    play(true);
}
