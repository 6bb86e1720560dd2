//! A reporter from outside: real sockets, a real file, and a controller that believes it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/running.rs"]
mod running;

use running::{PATIENCE, Running};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// An HTTP server that is well until it is told otherwise.
fn backend() -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, is_well) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(true)));
    let told = Arc::clone(&is_well);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap_or(0);
            assert!(read == 0 || request.starts_with(b"GET /healthz HTTP/1.1\r\n"), "not what was asked for");
            let status = if told.load(Ordering::SeqCst) { "200 OK" } else { "503 Service Unavailable" };
            let _gone = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (address, is_well)
}

/// A running reporter, killed when dropped.
struct Reporter(Child);

impl Reporter {
    fn start(dir: &Path, more: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["report", "--service", "default/hello", "--reporter", "n1", "--interval", "100ms"])
            .args(["--timeout", "100ms", "--http", "/healthz", "--report-renew", "500ms", "--file"])
            .arg(dir.join("report.yaml"))
            .args(more)
            .stderr(Stdio::null())
            .spawn();
        Reporter(child.unwrap())
    }

    /// Its exit code, once it ends by itself.
    fn wait(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }

    /// Stops it with SIGTERM; its exit code.
    fn stop(mut self) -> Option<i32> {
        Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_waited = self.0.wait();
    }
}

/// The report, as soon as it fits.
fn report(dir: &Path, fits: impl Fn(&Value) -> bool) -> Value {
    #[expect(clippy::disallowed_methods, reason = "a test against a process waits in real time")]
    let began = Instant::now();
    let mut last = Value::Null;
    while began.elapsed() < PATIENCE {
        if let Ok(text) = std::fs::read_to_string(dir.join("report.yaml")) {
            // Put in place in one step, so never half of it.
            last = serde_saphyr::from_str(&text).unwrap();
            if fits(&last) {
                return last;
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("it never fits: {last:#}");
}

fn states(report: &Value) -> Vec<&str> {
    let entries = report["status"]["endpoints"].as_array().unwrap();
    entries.iter().map(|entry| entry["state"].as_str().unwrap()).collect()
}

#[test]
fn a_reporter_says_what_it_finds_and_renews_it() {
    let dir = tempfile::tempdir().unwrap();
    let ((one, is_well), (two, _)) = (backend(), backend());
    let endpoints = format!("{one},{two}");
    let reporter = Reporter::start(dir.path(), &["--endpoint", &endpoints]);
    let first = report(dir.path(), |report| states(report) == ["Healthy", "Healthy"]);
    assert_eq!((&first["metadata"]["name"], &first["spec"]["reporter"]), (&"hello-n1".into(), &"n1".into()));
    let time = |report: &Value| report["status"]["endpoints"][0]["renewTime"].as_str().unwrap().to_owned();
    let renewed = report(dir.path(), |report| time(report) > time(&first));
    assert_eq!(states(&renewed), ["Healthy", "Healthy"]);
    is_well.store(false, Ordering::SeqCst);
    let index = usize::from(one > two);
    let changed = report(dir.path(), |report| states(report)[index] == "Unhealthy");
    assert_eq!(states(&changed)[1 - index], "Healthy");
    let times: Vec<&Value> =
        changed["status"]["endpoints"].as_array().unwrap().iter().map(|e| &e["renewTime"]).collect();
    assert_eq!(times[0], times[1], "every write sets the time of every entry");
    is_well.store(true, Ordering::SeqCst);
    report(dir.path(), |report| states(report) == ["Healthy", "Healthy"]);
    // What is lost is written again.
    std::fs::remove_file(dir.path().join("report.yaml")).unwrap();
    report(dir.path(), |report| states(report) == ["Healthy", "Healthy"]);
    assert_eq!(reporter.stop(), Some(0));
}

const MANIFESTS: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: tidegate }
spec: { controllerName: tidegate.dev/gateway-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: default }
spec:
  gatewayClassName: tidegate
  listeners: [{ name: http, port: 8080, protocol: HTTP }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: hello, namespace: default }
spec:
  parentRefs: [{ name: web }]
  rules: [{ backendRefs: [{ name: hello, port: 80 }] }]
---
apiVersion: v1
kind: Service
metadata: { name: hello, namespace: default }
spec: { ports: [{ port: 80 }] }
";

/// Two endpoints of one port, one of which is somewhere else.
fn slice(port: u16) -> String {
    format!(
        r"
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: hello-1, namespace: default, labels: {{ kubernetes.io/service-name: hello }} }}
addressType: IPv4
ports: [{{ port: {port} }}]
endpoints:
- {{ addresses: [127.0.0.1], nodeName: n1, targetRef: {{ kind: Pod, name: hello-a, uid: u-1 }} }}
- {{ addresses: [127.0.0.9], nodeName: n2, targetRef: {{ kind: Pod, name: hello-b, uid: u-2 }} }}
"
    )
}

#[test]
fn a_controller_drains_what_is_reported_until_the_reporter_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (address, is_well) = backend();
    is_well.store(false, Ordering::SeqCst);
    std::fs::write(dir.path().join("all.yaml"), MANIFESTS).unwrap();
    std::fs::write(dir.path().join("slice.yaml"), slice(address.port())).unwrap();
    let lifetime = ["--report-renew", "500ms", "--report-lifetime", "2s"];
    let serve = Running::start(&["serve", "--ads", "127.0.0.1:0", "--manifests"], dir.path(), &lifetime, &[]);
    serve.line("ready");
    let draining = || {
        let snapshot = serve.json("/snapshot?gateway=default/web");
        snapshot["endpoints"].to_string().matches("DRAINING").count()
    };
    assert_eq!(draining(), 0);
    let manifests = dir.path().to_str().unwrap();
    let reporter = Reporter::start(dir.path(), &["--manifests", manifests, "--node", "n1"]);
    let found = report(dir.path(), |report| states(report) == ["Unhealthy"]);
    assert_eq!(found["status"]["endpoints"][0]["targetRef"]["uid"], "u-1");
    while draining() == 0 {
        serve.line("published");
    }
    assert_eq!(draining(), 1);
    // Nobody says anything any more: by the time alone it is believed no longer.
    drop(reporter);
    while draining() == 1 {
        serve.line("published");
    }
    assert_eq!(serve.stop(), Some(0));
}

#[test]
fn a_round_that_takes_all_of_its_time_is_reported_too() {
    let dir = tempfile::tempdir().unwrap();
    // Takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let reporter = Reporter::start(dir.path(), &["--endpoint", &silent.local_addr().unwrap().to_string()]);
    report(dir.path(), |report| report["status"]["endpoints"][0]["state"] == "Unhealthy");
    assert_eq!(reporter.stop(), Some(0));
}

#[test]
fn a_file_with_something_else_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.yaml");
    std::fs::write(&file, "kind: Service\n---\nkind: Service\n").unwrap();
    let reporter = Reporter::start(dir.path(), &["--endpoint", "127.0.0.1:9"]);
    assert_eq!(reporter.wait(), Some(2));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kind: Service\n---\nkind: Service\n");
}
