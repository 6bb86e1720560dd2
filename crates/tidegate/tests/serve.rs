//! A running controller, from outside: its pages, a file edit that reaches the snapshot, a recording that replays.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/running.rs"]
mod running;

use running::Running;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

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

fn slice(address: &str) -> String {
    format!(
        r"
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: hello-1, namespace: default, labels: {{ kubernetes.io/service-name: hello }} }}
addressType: IPv4
ports: [{{ port: 9000 }}]
endpoints: [{{ addresses: ['{address}'] }}]
"
    )
}

fn serve(dir: &Path, more: &[&str]) -> Running {
    Running::start(&["serve", "--ads", "127.0.0.1:0", "--manifests"], dir, more, &[])
}

/// The note that an epoch after this one is published.
fn published_after(serve: &Running, epoch: &Value) -> Value {
    serve.line_where(|entry| entry["message"] == "published" && entry["epoch"].as_u64() > epoch.as_u64())
}

fn condition<'a>(conditions: &'a Value, kind: &str) -> &'a str {
    let all = conditions.as_array().unwrap_or_else(|| panic!("no conditions: {conditions}"));
    all.iter().find(|c| c["type"] == kind).unwrap_or_else(|| panic!("no {kind} in {conditions}"))["status"]
        .as_str()
        .unwrap()
}

fn addresses(snapshot: &Value) -> String {
    snapshot["endpoints"].to_string()
}

#[test]
fn a_directory_is_served_shown_and_followed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("all.yaml"), MANIFESTS).unwrap();
    std::fs::write(dir.path().join("slice.yaml"), slice("127.0.0.10")).unwrap();
    let serve = self::serve(dir.path(), &[]);
    serve.line("ready");

    assert_eq!(serve.get("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(serve.json("/readyz")["state"], "ready");
    let route = serve.json("/status?kind=HTTPRoute&name=hello");
    let parent = &route["objects"][0]["status"]["parents"][0];
    assert_eq!(condition(&parent["conditions"], "Accepted"), "True", "{route}");
    assert_eq!(condition(&parent["conditions"], "ResolvedRefs"), "True", "{route}");
    let gateway = serve.json("/status?kind=Gateway");
    assert_eq!(condition(&gateway["objects"][0]["status"]["conditions"], "Programmed"), "True", "{gateway}");

    let before = serve.json("/snapshot?gateway=default/web");
    assert_eq!(before["clusters"][0]["name"], "default/hello/80");
    assert_eq!(before["listeners"].as_array().unwrap().len(), 1);
    assert!(addresses(&before).contains("127.0.0.10"), "{before}");

    std::fs::write(dir.path().join("slice.yaml"), slice("127.0.0.11")).unwrap();
    published_after(&serve, &before["epoch"]);
    let after = serve.json("/snapshot?gateway=default/web");
    assert!(addresses(&after).contains("127.0.0.11") && !addresses(&after).contains("127.0.0.10"), "{after}");
    assert_eq!(before["clusters"], after["clusters"], "an endpoint is no reason to change a cluster");
    assert_ne!(before["endpoints"][0]["version"], after["endpoints"][0]["version"]);

    let (code, body) = serve.get("/snapshot?gateway=default/wbe");
    assert!(code == 404 && body.contains("default/web"), "{body}");
    let metrics = serve.get("/metrics").1;
    assert!(metrics.contains("tidegate_gateways 1.0") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert_eq!(serve.stop(), Some(0));
}

#[test]
fn the_dataflow_is_shown_if_what_it_does_is_logged() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("all.yaml"), MANIFESTS).unwrap();
    let serve = self::serve(dir.path(), &["--profile"]);
    serve.line("ready");
    let shown = serve.json("/debug/dataflow");
    let [later, cold] = shown["dataflow"].as_array().unwrap().as_slice() else { panic!("{shown}") };
    assert_eq!((&cold["title"], &cold["epochs"]), (&"cold start".into(), &1.into()));
    assert_eq!(later["epochs"], 0);
    let has = |of: &Value| of["name"] == "lower routes" && of["stage"] == "lower" && of["arranged"].as_u64() > Some(0);
    assert!(cold["operators"].as_array().unwrap().iter().any(has), "{cold}");
    std::fs::write(dir.path().join("slice.yaml"), slice("127.0.0.10")).unwrap();
    published_after(&serve, &0.into());
    assert_eq!(serve.json("/debug/dataflow")["dataflow"][0]["epochs"], 1);
    let (code, page) = serve.get("/debug/dataflow?form=html");
    assert!(code == 200 && page.starts_with("<!doctype html>") && page.contains("lower routes"), "{page}");
    assert_eq!(serve.stop(), Some(0));
}

#[test]
fn a_broken_file_is_a_problem_that_is_shown_and_its_last_good_state_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("all.yaml"), MANIFESTS).unwrap();
    let serve = self::serve(dir.path(), &[]);
    serve.line("ready");
    std::fs::write(dir.path().join("all.yaml"), format!("{MANIFESTS}\n---\nkind: [unfinished\n")).unwrap();
    serve.line_where(|entry| entry["level"] == "WARN" && entry["message"].to_string().contains("all.yaml"));
    let readiness = serve.json("/readyz");
    assert!(readiness["problems"].to_string().contains("all.yaml"), "{readiness}");
    assert_eq!(serve.json("/snapshot?gateway=default/web")["clusters"][0]["name"], "default/hello/80");
    assert!(serve.get("/metrics").1.contains("tidegate_manifest_problems 1.0"));
}

#[test]
fn a_recorded_run_replays_and_a_tampered_one_names_the_epoch() {
    let (dir, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = logs.path().join("run.log");
    std::fs::write(dir.path().join("all.yaml"), MANIFESTS).unwrap();
    std::fs::write(dir.path().join("slice.yaml"), slice("127.0.0.10")).unwrap();
    let serve = self::serve(dir.path(), &["--record", log.to_str().unwrap()]);
    let first = serve.line("published");
    std::fs::write(dir.path().join("slice.yaml"), slice("127.0.0.11")).unwrap();
    let second = published_after(&serve, &first["epoch"])["epoch"].clone();
    assert_eq!(serve.stop(), Some(0));

    for workers in ["1", "2"] {
        let (code, out, err) = replay(&log, &["--workers", workers, "-o", "json"]);
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        assert_eq!(code, Some(0), "{report}");
        assert_eq!(report["equal"], report["epochs"], "{report}");
        assert_eq!(report["difference"], Value::Null, "{report}");
        assert!(report["epochs"].as_u64() >= Some(2), "{report}");
    }

    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("127.0.0.11"), "{text}");
    std::fs::write(&log, text.replace("127.0.0.11", "127.0.0.66")).unwrap();
    let (code, out, err) = replay(&log, &[]);
    assert!(code == Some(1) && out.contains("first difference"), "{out}{err}");
    assert!(err.contains(&format!("epoch {second} of")) && err.contains("differs"), "{err}");
}

#[test]
fn a_retarget_is_held_shown_recorded_and_replayed() {
    let (dir, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = logs.path().join("run.log");
    let (manifests, slices) = (dir.path().join("all.yaml"), dir.path().join("slice.yaml"));
    std::fs::write(&manifests, MANIFESTS).unwrap();
    std::fs::write(&slices, slice("127.0.0.10")).unwrap();
    let serve = self::serve(dir.path(), &["--retarget-hold", "60m", "--record", log.to_str().unwrap()]);
    let first = serve.line("published");
    let other = "\n---\napiVersion: v1\nkind: Service\nmetadata: { name: other, namespace: default }\n\
                 spec: { ports: [{ port: 80 }] }\n";
    let retargeted = MANIFESTS.replace("backendRefs: [{ name: hello", "backendRefs: [{ name: other") + other;
    std::fs::write(&manifests, retargeted).unwrap();
    let held = published_after(&serve, &first["epoch"]);
    assert!(serve.get("/metrics").1.contains("tidegate_held_entries 1.0"));
    let route = serve.json("/status?kind=HTTPRoute&name=hello");
    assert_eq!(condition(&route["objects"][0]["status"]["parents"][0]["conditions"], "tidegate.dev/Held"), "True");
    assert!(route.to_string().contains("default/other/80 has a usable endpoint"), "{route}");
    assert_eq!(serve.json("/snapshot?gateway=default/web")["clusters"][0]["name"], "default/hello/80");

    std::fs::write(&slices, slice("127.0.0.10") + "---" + &slice("127.0.0.20").replace("hello", "other")).unwrap();
    published_after(&serve, &held["epoch"]);
    assert!(serve.get("/metrics").1.contains("tidegate_held_entries 0.0"));
    assert_eq!(serve.json("/snapshot?gateway=default/web")["clusters"][0]["name"], "default/other/80");
    assert_eq!(serve.stop(), Some(0));

    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.lines().next().unwrap().contains("\"retarget-hold\":3600000"), "{text}");
    for workers in ["1", "1", "2"] {
        let (code, out, err) = replay(&log, &["--workers", workers]);
        assert_eq!(code, Some(0), "{out}{err}");
    }
}

#[test]
fn a_recording_that_is_there_is_kept_under_another_name() {
    let (dir, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = logs.path().join("run.log.zst");
    std::fs::write(&log, "the last run").unwrap();
    let serve = self::serve(dir.path(), &["--record", log.to_str().unwrap()]);
    serve.line("published");
    assert_eq!(serve.stop(), Some(0));
    assert_eq!(std::fs::read_to_string(logs.path().join("previous-run.log.zst")).unwrap(), "the last run");
    assert_eq!(replay(&log, &[]).0, Some(0));
}

/// Exit code, stdout and stderr.
fn replay(log: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["replay", log.to_str().unwrap(), "--verify"])
        .args(more)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}
