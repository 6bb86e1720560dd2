//! Key material stays where it belongs: after a run with TLS, a rotation and bad Secrets, through a real Envoy, no page,
//! no log line at any level and no byte of the recording shows any of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/running.rs"]
mod running;

use running::{PATIENCE, Running};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use testkit::http::Call;
use testkit::ports;
use testkit::tls::Pair;
use tidegate_envoy::Binary;
use tokio::runtime::Runtime;
use tokio::time::Instant;

fn gateway(port: u16) -> String {
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
  addresses: [{{ value: 127.0.0.1 }}]
  listeners:
  - {{ name: web, port: {port}, protocol: HTTPS, hostname: a.example, tls: {{ certificateRefs: [{{ name: web }}] }} }}
  - {{ name: bad, port: {port}, protocol: HTTPS, hostname: b.example, tls: {{ certificateRefs: [{{ name: bad }}] }} }}
"
    )
}

fn secret(name: &str, certificate: &str, key: &str) -> String {
    let indented = |pem: &str| pem.lines().map(|line| format!("    {line}\n")).collect::<String>();
    // With the copy of everything that `kubectl apply` leaves behind.
    let copy = format!("kubectl.kubernetes.io/last-applied-configuration: {:?}", format!("{certificate}{key}"));
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n  namespace: shop\n  annotations:\n    {copy}\n\
         type: kubernetes.io/tls\nstringData:\n  tls.crt: |\n{}  tls.key: |\n{}",
        indented(certificate),
        indented(key)
    )
}

/// Waits until the certificate is the one that new handshakes get.
fn shows(runtime: &Runtime, port: u16, pair: &Pair) {
    let call = Call {
        tls: Some("a.example".to_owned()),
        ..Call::get(SocketAddr::from(([127, 0, 0, 1], port)), "a.example", "/")
    };
    let began = Instant::now();
    while runtime.block_on(call.send()).ok().and_then(|answer| answer.certificate) != Some(pair.der.clone()) {
        assert!(began.elapsed() < PATIENCE, "the certificate is not served");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Pieces that nobody but the one who holds the material can know.
fn needles(pairs: &[&Pair]) -> Vec<String> {
    let mut needles = Vec::new();
    for pair in pairs {
        for pem in [&pair.certificate, &pair.key] {
            let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
            // The beginning is the same for all keys of a kind.
            let windows = body.as_bytes()[40..].windows(20).step_by(7);
            needles.extend(windows.map(|window| String::from_utf8(window.to_vec()).unwrap()));
        }
        let hex: String = pair.der.iter().map(|byte| format!("{byte:02x}")).collect();
        needles.extend((200..hex.len() - 24).step_by(48).map(|at| hex[at..at + 24].to_owned()));
    }
    needles
}

#[test]
fn no_key_material_is_in_the_log_the_pages_or_the_recording() {
    let runtime = Runtime::new().unwrap();
    let envoy = runtime.block_on(Binary::find_or_install(&|line| eprintln!("{line}"))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("manifests");
    std::fs::create_dir(&dir).unwrap();
    let write = |file: &str, text: &str| std::fs::write(dir.join(file), text).unwrap();
    let (first, second, other) = (Pair::new(&["a.example"]), Pair::new(&["a.example"]), Pair::new(&["b.example"]));
    let port = ports::free();
    write("gateway.yaml", &gateway(port));
    write("web.yaml", &secret("web", &first.certificate, &first.key));
    write("bad.yaml", &secret("bad", &other.certificate, &first.key));
    let recording = folder.path().join("run.jsonl");
    let more = ["--record", recording.to_str().unwrap(), "--envoy-log-level", "debug"];
    let running = Running::start(&["standalone"], &dir, &more, &[("ENVOY_BIN", &envoy.path)]);
    shows(&runtime, port, &first);

    write("web.yaml", &secret("web", &second.certificate, &second.key));
    shows(&runtime, port, &second);
    // Files that are not whole, each in its own way.
    write("bad.yaml", &secret("bad", &other.certificate, &other.key[..80]));
    write("broken.yaml", &secret("broken", &other.certificate, &other.key).replace("  tls.key: |\n", "tls.key:\n"));
    write("text.yaml", &other.key);
    let began = Instant::now();
    while !running.get("/status").1.contains("broken.yaml") || !running.get("/status").1.contains("text.yaml") {
        assert!(began.elapsed() < PATIENCE, "the broken files are not reported");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }

    let pages = ["/status", "/metrics", "/clients", "/readyz", "/snapshot?gateway=shop/edge"];
    let pages: Vec<(&str, String)> = pages.map(|page| (page, running.get(page).1)).into();
    assert!(pages[4].1.contains("shop/web"), "the snapshot names the secret: {}", pages[4].1);
    let (code, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    let recorded = std::fs::read_to_string(&recording).unwrap();
    assert!(recorded.contains("\"kind\":\"Secret\"") && recorded.contains("\"digest\""), "{recorded}");
    let texts = pages.into_iter().chain([("log", log), ("recording", recorded)]);
    let needles = needles(&[&first, &second, &other]);
    for (name, text) in texts {
        for needle in &needles {
            assert!(!text.contains(needle.as_str()), "{name} shows {needle}");
        }
    }
    verify(&recording);
}

#[test]
fn an_expired_certificate_is_served_and_said_by_the_controller_and_offline() {
    let runtime = Runtime::new().unwrap();
    let envoy = runtime.block_on(Binary::find_or_install(&|line| eprintln!("{line}"))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("manifests");
    std::fs::create_dir(&dir).unwrap();
    let (port, pair) = (ports::free(), Pair::expired(&["a.example"]));
    std::fs::write(dir.join("gateway.yaml"), gateway(port)).unwrap();
    std::fs::write(dir.join("web.yaml"), secret("web", &pair.certificate, &pair.key)).unwrap();
    let running = Running::start(&["standalone"], &dir, &[], &[("ENVOY_BIN", &envoy.path)]);
    shows(&runtime, port, &pair);
    let said = "expired on 2020-01-01T00:00:00Z";
    let began = Instant::now();
    while !running.get("/status").1.contains(said) {
        assert!(began.elapsed() < PATIENCE, "the end of the certificate is not said");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let offline = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("translate").arg(&dir).arg("--status").output();
    let offline = String::from_utf8(offline.unwrap().stdout).unwrap();
    assert!(offline.contains(said), "{offline}");
}

/// The recording holds all that a replay needs.
fn verify(recording: &Path) {
    let replay = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("replay").arg(recording).arg("--verify").output();
    let replay = replay.unwrap();
    assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stderr));
}
