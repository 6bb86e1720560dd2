//! The command line as a person meets it: help, completions, bootstraps, and what is said about mistakes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn tidegate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(args).output().expect("the binary was built for this test")
}

/// Exit code, stdout, stderr.
fn run(args: &[&str]) -> (i32, String, String) {
    let output = tidegate(args);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let (code, out, _) = run(&["--help"]);
    assert_eq!(code, 0);
    assert!(out.contains("Exit codes:") && out.contains("TIDEGATE_LOG"), "{out}");
    for sub in
        ["serve", "standalone", "translate", "replay", "report", "profile", "bootstrap", "completions", "version"]
    {
        assert!(out.contains(sub), "{sub} is not in\n{out}");
        let (code, out, _) = run(&[sub, "--help"]);
        assert!(code == 0 && out.contains("Examples:"), "{sub}: {out}");
    }
}

#[test]
fn completions_name_the_subcommands_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = run(&["completions", shell]);
        assert!(code == 0 && out.contains("bootstrap") && out.contains("manifests"), "{shell}");
    }
}

#[test]
fn version_is_the_packages_and_json_on_request() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(run(&["version"]), (0, format!("tidegate {version}\n"), String::new()));
    let json: serde_json::Value = serde_json::from_str(&run(&["version", "-o", "json"]).1).unwrap();
    assert_eq!(json["version"], version);
    assert_eq!(json["kinds"][0], "GatewayClass");
}

#[test]
fn a_bootstrap_names_gateway_server_and_protocol() {
    let (code, out, _) =
        run(&["bootstrap", "--gateway", "shop/public", "--ads", "10.1.2.3:18000", "--zone", "a", "--sotw"]);
    let bootstrap: serde_json::Value = serde_saphyr::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(bootstrap["node"]["metadata"]["gateway"], "shop/public");
    assert_eq!(bootstrap["node"]["locality"]["zone"], "a");
    assert_eq!(bootstrap["dynamic_resources"]["ads_config"]["api_type"], "GRPC");
    assert!(out.contains("10.1.2.3") && bootstrap.get("admin").is_none(), "{out}");
    let (_, out, _) = run(&["bootstrap", "--gateway", "shop/public", "--admin-port", "19000", "--node-id", "edge-7"]);
    let bootstrap: serde_json::Value = serde_saphyr::from_str(&out).unwrap();
    assert_eq!(bootstrap["admin"]["address"]["socket_address"]["port_value"], 19000);
    assert_eq!(bootstrap["dynamic_resources"]["ads_config"]["api_type"], "DELTA_GRPC");
    assert_eq!(bootstrap["node"]["id"], "edge-7");
}

/// Each mistake: exit code 2, and a text that names what is wrong and what to do.
#[test]
fn mistakes_are_refused_with_the_flag_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let inside = format!("{path}/run.log");
    let cases: &[(&[&str], &[&str])] = &[
        (&["serve"], &["--manifests"]),
        (&["serve", "--manifests", "/no/such/dir"], &["--manifests /no/such/dir does not exist", "directory of YAML"]),
        (&["serve", "--manifests", "/dev/null"], &["--manifests /dev/null is not a directory"]),
        (&["serve", "--manifests", path, "--ads", "localhost"], &["--ads", "IP:PORT"]),
        (&["serve", "--manifests", path, "--grace", "5"], &["--grace", "add a unit"]),
        (&["serve", "--manifests", path, "--usable-addresses", "10.0.0.1/24"], &["--usable-addresses", "10.0.0.0/24"]),
        (&["serve", "--manifests", path, "--workers", "0"], &["--workers", "1..=64"]),
        (&["profile", "fanuot"], &["fanuot is no file", "fanout, churn, attached"]),
        (&["profile", "churn", "--compare", "naive"], &["--compare is for fanout"]),
        (&["serve", "--manifests", path, "--controller", "me"], &["--controller", "example.com/gateway-controller"]),
        (&["serve", "--manifests", path, "--ads", "127.0.0.1:1", "--admin", "127.0.0.1:1"], &["different ports"]),
        (&["serve", "--manifests", path, "--record", "/no/such/run.log"], &["--record /no/such/run.log", "/no/such"]),
        (&["serve", "--manifests", path, "--record", &inside], &["--record", "record somewhere else"]),
        (&["standalone", "/no/such/dir"], &["/no/such/dir does not exist", "directory of YAML"]),
        (&["standalone", path, "--envoy-log-level", "loud"], &["--envoy-log-level", "warning"]),
        (&["translate", "/dev/null"], &["/dev/null is not a directory"]),
        (&["translate", path, "-o", "text"], &["--output text", "--status"]),
        (&["translate", path, "--status", "--type", "table"], &["--status", "--type"]),
        (&["translate", path, "--gateway", "web"], &["--gateway", "NAMESPACE/NAME"]),
        (&["bootstrap", "--gateway", "public"], &["--gateway", "NAMESPACE/NAME"]),
        (&["bootstrap", "--gateway", "shop/public", "--ads", "here"], &["--ads", "HOST:PORT"]),
        (&["bootstrap", "--gateway", "shop/public", "--zone", ""], &["--zone is empty"]),
        (&["bootstrap", "--gateway", "shop/public", "--kube-node", " "], &["--kube-node is empty"]),
        (&["serv"], &["serve"]),
    ];
    for (args, expected) in cases {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        for text in *expected {
            assert!(err.contains(text), "{args:?}: {text:?} is not in\n{err}");
        }
    }
}

#[test]
fn an_unreadable_log_filter_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "--manifests", dir.path().to_str().unwrap()])
        .env("TIDEGATE_LOG", "tidegate=nonsense")
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && err.contains("TIDEGATE_LOG=tidegate=nonsense cannot be read"), "{err}");
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    for (flag, other) in [("--ads", "--admin"), ("--admin", "--ads")] {
        let (code, _, err) =
            run(&["serve", "--manifests", dir.path().to_str().unwrap(), flag, &address, other, "127.0.0.1:0"]);
        assert_eq!(code, 1, "{err}");
        assert!(err.contains(&format!("{flag} {address}")) && err.contains("in use"), "{err}");
    }
}

#[test]
fn replaying_what_is_no_log_fails_and_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("foreign.log");
    std::fs::write(&file, "once upon a time\n").unwrap();
    for path in [file.to_str().unwrap(), "/no/such.log"] {
        let (code, _, err) = run(&["replay", path, "--verify"]);
        assert!(code == 1 && err.contains(path), "{err}");
    }
}

/// Everything small: what is measured means nothing, but each figure is there, and each file is what it says.
#[test]
fn a_profile_is_a_table_json_a_page_and_folded_stacks() {
    let dir = tempfile::tempdir().unwrap();
    let (html, folded) = (dir.path().join("profile.html"), dir.path().join("profile.folded"));
    let (html, folded) = (html.to_str().unwrap(), folded.to_str().unwrap());
    let (code, out, err) = run(&[
        "profile",
        "fanout",
        "--quick",
        "--compare",
        "naive,recompute",
        "-o",
        "json",
        "--html",
        html,
        "--folded",
        folded,
    ]);
    assert_eq!(code, 0, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let names: Vec<&str> =
        report["operations"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    for name in ["endpoint change", "client connect", "route retarget", "service add", "service remove"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for figure in ["p50_us", "p99_us"] {
        assert!(report["operations"][0][figure].as_f64() > Some(0.0), "{figure}");
    }
    assert!(report["cold_start_ms"].as_f64() > Some(0.0) && report["rss_bytes"].as_f64() > Some(0.0));
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("lower routes"));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    for line in std::fs::read_to_string(folded).unwrap().lines() {
        let (frames, count) = line.rsplit_once(' ').unwrap();
        assert!(frames.split(';').count() == 3 && count.parse::<u64>().is_ok(), "{line}");
    }
}

#[test]
fn every_other_profile_says_what_it_measured() {
    for (what, text) in [
        ("churn", "route edit at 100 x"),
        ("attached", "status writes of the Gateway"),
        ("probe", "route to last byte"),
        ("restart", "warm client reconnects"),
    ] {
        let (code, out, err) = run(&["profile", what, "--quick"]);
        assert!(code == 0 && out.contains(text) && out.contains("cold start"), "{what}: {out}{err}");
    }
}
