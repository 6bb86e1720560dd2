//! What a real Envoy makes of what is encoded. Needs one: `ENVOY_BIN=/path/to/envoy cargo test -p tidegate-xds --test
//! envoy -- --ignored`.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use tidegate_model::{
    HeaderModifier, Hostname, HttpMatch, INVALID_CLUSTER, Name, PathMatch, PathModifier, ResourceType, Transport,
    Upstream,
};
use tidegate_xds::encode;
use tidegate_xds::ir::{
    Action, Assignment, Chain, Cluster, Endpoint, Entry, Family, Forward, Listener, Locality, Redirect, Target, Way,
};

const BACKEND: &str = "shop/echo/80";

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A backend that answers each connection's first request with that request.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

fn answer(mut stream: TcpStream) {
    let head = read_head(&mut stream);
    // Never answers these: what ends them is a timeout.
    if head.starts_with("GET /slow") {
        let _ = stream.read(&mut [0]);
        return;
    }
    let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{head}", head.len());
    let _ = stream.write_all(answer.as_bytes());
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn prefix(path: &str) -> HttpMatch {
    HttpMatch { path: PathMatch::Prefix(path.into()), headers: vec![], query: vec![], method: None }
}

fn entry(id: &str, matcher: HttpMatch, action: Action) -> Entry {
    let none = HeaderModifier::default;
    Entry { id: id.into(), matcher, action, request_headers: none(), response_headers: none() }
}

fn target(cluster: &str) -> Target {
    let none = HeaderModifier::default;
    Target { cluster: cluster.into(), weight: 1, request_headers: none(), response_headers: none() }
}

fn forward(cluster: &str) -> Forward {
    Forward { targets: vec![target(cluster)], ..Forward::default() }
}

fn listener(port: u16) -> Value {
    let chains = vec![Chain {
        hostname: Hostname::any(),
        to: Way::Requests("http".into()),
        certificates: Vec::new(),
        clients: None,
        listeners: Vec::new(),
    }];
    let addresses = vec!["127.0.0.1".into()];
    let listener = Listener { name: "http".into(), addresses, port, family: Family::Http, chains };
    let bytes = encode::listener(&listener).resource.bytes;
    tidegate_proto::json::to_json(ResourceType::Listener.url(), &bytes).unwrap()
}

fn cluster(upstream: Upstream) -> Value {
    let bytes =
        encode::cluster(&Cluster { name: BACKEND.into(), transport: Transport::Tcp, upstream, tls: None }).bytes;
    tidegate_proto::json::to_json(ResourceType::Cluster.url(), &bytes).unwrap()
}

fn assignment(port: u16) -> Value {
    let endpoints = vec![Endpoint { address: "127.0.0.1".into(), port, draining: false }];
    let locality = Locality { region: "".into(), zone: "z1".into(), sub_zone: "".into(), priority: 0, endpoints };
    let bytes = encode::endpoints(&Assignment { cluster: BACKEND.into(), localities: vec![locality] }).bytes;
    tidegate_proto::json::to_json(ResourceType::Endpoints.url(), &bytes).unwrap()
}

fn table(entries: &[Entry]) -> Value {
    let host = encode::virtual_host(&Hostname::any(), entries.iter().map(encode::entry).collect());
    tidegate_proto::json::to_json(ResourceType::Table.url(), &encode::table("http", &[&host])).unwrap()
}

/// A bootstrap with everything inline, where the table and the endpoints come by ADS otherwise.
fn inlined(port: u16, admin: u16, backend: u16, entries: &[Entry]) -> Value {
    let mut listener = listener(port);
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    manager.as_object_mut().unwrap().remove("rds");
    manager["route_config"] = table(entries);
    let mut cluster = cluster(Upstream::Http1);
    cluster.as_object_mut().unwrap().remove("eds_cluster_config");
    cluster["type"] = json!("STATIC");
    cluster["load_assignment"] = assignment(backend);
    json!({
        "admin": { "address": { "socket_address": { "address": "127.0.0.1", "port_value": admin } } },
        "static_resources": { "listeners": [listener], "clusters": [cluster] },
    })
}

fn envoy(config: &Value) -> Command {
    let binary = std::env::var_os("ENVOY_BIN").expect("ENVOY_BIN says where Envoy is");
    let mut command = Command::new(binary);
    command.args(["--concurrency", "1", "--disable-hot-restart", "--config-yaml", &config.to_string()]);
    command
}

struct Running {
    child: Child,
    port: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// An Envoy that has begun to listen.
    fn start(entries: &[Entry]) -> Running {
        let port = free_port();
        let config = inlined(port, free_port(), echo(), entries);
        let mut child = envoy(&config).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let begin: Vec<String> =
            log.by_ref().take_while(|line| !line.contains("starting main dispatch loop")).collect();
        assert!(child.try_wait().unwrap().is_none(), "envoy did not start:\n{}", begin.join("\n"));
        // Whatever else it logs has to go somewhere.
        std::thread::spawn(move || log.for_each(drop));
        Running { child, port }
    }

    /// The answer to a GET: status, `Location` if there is one, and the request as the backend saw it.
    fn get(&self, path: &str, host: &str, headers: &str) -> (u16, Option<String>, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n").unwrap();
        // Not to its end: Envoy keeps a connection that it will close open for a second.
        let head = read_head(&mut stream);
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let length = field("content-length: ").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, field("location: "), String::from_utf8(body).unwrap())
    }
}

fn first_line(request: &str) -> &str {
    request.lines().next().unwrap_or_default()
}

#[test]
#[ignore = "needs an Envoy: ENVOY_BIN"]
fn envoy_accepts_every_shape_that_is_served() {
    let ads = json!({ "api_type": "GRPC", "transport_api_version": "V3",
        "grpc_services": [{ "envoy_grpc": { "cluster_name": "xds" } }] });
    for upstream in [Upstream::Http1, Upstream::H2c, Upstream::WebSocket] {
        let config = json!({
            "node": { "id": "a", "cluster": "b" },
            "dynamic_resources": { "ads_config": ads },
            "static_resources": {
                "listeners": [listener(free_port())],
                "clusters": [cluster(upstream), { "name": "xds", "connect_timeout": "1s" }],
            },
        });
        let output = envoy(&config).args(["--mode", "validate"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(!log.contains("deprecated"), "{log}");
    }
}

/// The table of the Gateway API for `ReplacePrefixMatch`, where slashes at the ends of prefix and replacement mean
/// nothing.
fn replaced(replacement: &str, request: &str) -> String {
    let path = format!("{}{}", replacement.trim_end_matches('/'), request.strip_prefix("/foo").unwrap());
    if path.is_empty() { "/".to_owned() } else { path }
}

#[test]
#[ignore = "needs an Envoy: ENVOY_BIN"]
fn a_replaced_prefix_is_what_the_gateway_api_says_in_rewrites_and_redirects() {
    for written in ["/foo", "/foo/"] {
        for replacement in ["/xyz", "/xyz/", "/", ""] {
            let path = Some(PathModifier::Prefix(replacement.into()));
            let rewrite = Action::Forward(Forward { path: path.clone(), ..forward(BACKEND) });
            let redirect = Redirect { scheme: None, hostname: None, port: None, path, status: 302 };
            let mut by_host = prefix(written);
            by_host.method = Some("GET".into());
            by_host.headers = vec![tidegate_model::ValueMatch {
                name: "x-redirect".into(),
                value: tidegate_model::ValuePattern::Exact("1".into()),
            }];
            let entries =
                [entry("redirect", by_host, Action::Redirect(redirect)), entry("rewrite", prefix(written), rewrite)];
            let envoy = Running::start(&entries);
            for request in ["/foo", "/foo/", "/foo/bar"] {
                let case = format!("{written} -> {replacement:?}, {request}");
                let expected = replaced(replacement, request);
                let (status, _, seen) = envoy.get(&format!("{request}?q=1"), "h", "");
                assert_eq!(first_line(&seen), format!("GET {expected}?q=1 HTTP/1.1"), "{case}");
                assert_eq!(status, 200);
                let (status, location, _) = envoy.get(&format!("{request}?q=1"), "h", "x-redirect: 1\r\n");
                assert_eq!((status, location), (302, Some(format!("http://h{expected}?q=1"))), "{case}");
            }
            assert_eq!(envoy.get("/foobar", "h", "").0, 404);
        }
    }
}

#[test]
#[ignore = "needs an Envoy: ENVOY_BIN"]
fn a_redirect_shows_the_port_that_it_shall_and_no_other() {
    let redirect = |scheme: Option<&str>, hostname: Option<&str>, port| {
        let name = |text: Option<&str>| text.map(Name::from);
        Action::Redirect(Redirect { scheme: name(scheme), hostname: name(hostname), port, path: None, status: 301 })
    };
    let cases = [
        ("/a", redirect(Some("https"), None, None), "https://HOST/a"),
        ("/b", redirect(Some("https"), None, Some(8443)), "https://HOST:8443/b"),
        ("/c", redirect(None, None, None), "http://HOST/c"),
        ("/d", redirect(None, None, Some(8080)), "http://HOST:8080/d"),
        ("/e", redirect(Some("https"), Some("x.com"), None), "https://x.com/e"),
        ("/f", redirect(None, Some("x.com"), Some(8080)), "http://x.com:8080/f"),
    ];
    let entries: Vec<Entry> = cases.iter().map(|(path, action, _)| entry(path, prefix(path), action.clone())).collect();
    let envoy = Running::start(&entries);
    for (path, _, expected) in cases {
        for host in ["h", "h:80", "h:8080", "h:443", "[::1]", "[::1]:8080"] {
            let bare = if host.starts_with('[') { "[::1]" } else { "h" };
            // A colon in path and query is no port.
            let request = format!("{path}/x:1?q=http://y:2");
            let (status, location, _) = envoy.get(&request, host, "");
            let expected = format!("{}/x:1?q=http://y:2", expected.replace("HOST", bare));
            assert_eq!((status, location), (301, Some(expected)), "{path} {host}");
        }
    }
}

#[test]
#[ignore = "needs an Envoy: ENVOY_BIN"]
fn header_changes_of_a_target_come_after_those_of_the_rule() {
    let pair = |name: &str, value: &str| (Name::from(name), Name::from(value));
    let mut targets = vec![target(BACKEND), target(BACKEND)];
    for target in &mut targets {
        target.request_headers = HeaderModifier {
            set: vec![pair("x-set", "target")],
            add: vec![pair("x-add", "target")],
            remove: vec!["x-remove".into()],
        };
    }
    let mut several =
        entry("several", prefix("/several"), Action::Forward(Forward { targets: targets.clone(), ..forward("") }));
    several.request_headers = HeaderModifier {
        set: vec![pair("x-set", "rule"), pair("x-remove", "rule"), pair("x-share", "100%")],
        add: vec![pair("x-add", "rule")],
        remove: vec![],
    };
    targets.pop();
    let mut one = several.clone();
    one.matcher = prefix("/one");
    one.action = Action::Forward(Forward { targets, ..forward("") });
    let envoy = Running::start(&[several, one]);
    for path in ["/several", "/one"] {
        let (_, _, seen) = envoy.get(path, "h", "x-add: client\r\nx-set: client\r\nx-remove: client\r\n");
        let values = |name: &str| {
            let of_name = seen.lines().filter_map(|line| line.split_once(": ")).filter(|(key, _)| *key == name);
            of_name.map(|(_, value)| value.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(values("x-set"), ["target"], "{seen}");
        assert_eq!(values("x-add"), ["client", "rule", "target"], "{seen}");
        assert_eq!(values("x-remove"), [""; 0], "{seen}");
        assert_eq!(values("x-share"), ["100%"], "{seen}");
    }
}

#[test]
#[ignore = "needs an Envoy: ENVOY_BIN"]
fn timeouts_and_missing_clusters_answer_what_they_shall() {
    let limited = |timeout, try_timeout| Action::Forward(Forward { timeout, try_timeout, ..forward(BACKEND) });
    let mut full = forward(BACKEND);
    full.path = Some(PathModifier::Full("/new\\1".into()));
    full.hostname = Some("backend.example.com".into());
    let mut shared = forward(BACKEND);
    shared.targets.push(target(INVALID_CLUSTER));
    let entries = [
        entry("try", prefix("/slow/try"), limited(None, Some(200))),
        entry("whole", prefix("/slow/whole"), limited(Some(200), None)),
        entry("invalid", prefix("/invalid"), Action::Forward(forward(INVALID_CLUSTER))),
        entry("shared", prefix("/shared"), Action::Forward(shared)),
        entry("full", prefix("/full"), Action::Forward(full)),
        entry("plain", prefix("/plain"), Action::Forward(forward(BACKEND))),
        entry("none", prefix("/none"), Action::Respond(418)),
    ];
    let envoy = Running::start(&entries);
    assert_eq!(envoy.get("/slow/try", "h", "").0, 504);
    assert_eq!(envoy.get("/slow/whole", "h", "").0, 504);
    assert_eq!(envoy.get("/invalid", "h", "").0, 500);
    assert_eq!(envoy.get("/none", "h", "").0, 418);
    let shares: std::collections::BTreeSet<u16> = (0..100).map(|_| envoy.get("/shared", "h", "").0).collect();
    assert_eq!(shares, [200, 500].into());
    let (_, _, seen) = envoy.get("/full/x?q=1", "h", "");
    assert_eq!(first_line(&seen), "GET /new\\1?q=1 HTTP/1.1");
    assert!(seen.to_ascii_lowercase().contains("host: backend.example.com\r\n"), "{seen}");
    // No client can shorten a timeout, and the Host header goes through as it came.
    let (_, _, seen) = envoy.get("/plain", "h:8080", "x-envoy-upstream-rq-timeout-ms: 1\r\n");
    assert!(seen.to_ascii_lowercase().contains("host: h:8080\r\n"), "{seen}");
    assert!(!seen.contains("x-envoy-upstream-rq-timeout-ms") && !seen.contains("expected-rq-timeout"), "{seen}");
}
