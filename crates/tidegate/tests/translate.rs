//! `tidegate translate`: what it prints, what it finds, how it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit code, stdout, stderr of `tidegate translate DIR ...`.
fn translate(dir: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.arg("translate").arg(dir).args(more).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// A directory with these files.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// The documents of a YAML stream.
fn documents(text: &str) -> Vec<Value> {
    // A certificate begins and ends with dashes too, but not at the start of a line.
    let parts = text.strip_prefix("---\n").unwrap_or(text).split("\n---\n").filter(|part| !part.is_empty());
    parts.map(|part| serde_saphyr::from_str(part).unwrap_or_else(|error| panic!("{error}\n{part}"))).collect()
}

fn names(of: &Value) -> Vec<&str> {
    of.as_array().unwrap().iter().map(|resource| resource["name"].as_str().unwrap()).collect()
}

const CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: tidegate }
spec: { controllerName: tidegate.dev/gateway-controller }
";

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: shop }
spec:
  gatewayClassName: tidegate
  listeners: [{ name: http, port: 8080, protocol: HTTP }]
";

#[test]
fn the_examples_have_no_error_and_one_document_a_gateway() {
    for (name, gateway, clusters) in [
        ("minimal", "default/minimal", 1),
        ("shop", "shop/edge", 3),
        ("streams", "default/streams", 3),
        ("listener-sets", "infra/public", 2),
        ("backend-tls", "default/backend-tls", 1),
    ] {
        let (code, out, err) = translate(&example(name), &[]);
        assert_eq!(code, Some(0), "{err}");
        assert!(err.contains("1 Gateway served, no errors"), "{err}");
        assert!(out.starts_with(&format!("---\n# Gateway {gateway}\n")), "{out}");
        let documents = documents(&out);
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0]["gateway"], gateway);
        assert_eq!(names(&documents[0]["clusters"]).len(), clusters, "{:?}", names(&documents[0]["clusters"]));
        assert_eq!(names(&documents[0]["clusters"]), names(&documents[0]["endpoints"]));
        let (code, out, err) = translate(&example(name), &["--status"]);
        assert!(code == Some(0) && !out.contains("ERROR") && out.contains("ok    Gateway "), "{out}{err}");
    }
}

#[test]
fn json_and_yaml_say_the_same_and_the_same_manifests_the_same_text() {
    let (_, yaml, _) = translate(&example("shop"), &[]);
    let (_, json, _) = translate(&example("shop"), &["-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), Value::from(documents(&yaml)));
    assert_eq!(translate(&example("shop"), &[]).1, yaml);
    let status = translate(&example("shop"), &["--status", "-o", "yaml"]).1;
    assert_eq!(translate(&example("shop"), &["--status", "-o", "yaml"]).1, status);
}

#[test]
fn gateways_and_types_can_be_chosen() {
    let second = GATEWAY.replace("name: web", "name: second").replace("8080", "8081");
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", &second)]);
    let (code, out, err) = translate(dir.path(), &["-o", "json"]);
    let all: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, all.as_array().unwrap().len()), (Some(0), 2), "{err}");

    let (code, out, err) = translate(
        dir.path(),
        &["-o", "json", "--gateway", "shop/second", "--type", "listener,table", "--type", "cluster"],
    );
    let one: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(one[0]["gateway"], "shop/second");
    let fields: Vec<&str> = one[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(fields.len() == 4 && !fields.contains(&"endpoints"), "{fields:?}");
    assert_eq!(one[0]["listeners"][0]["resource"]["address"]["socket_address"]["port_value"], 8081);

    let (code, out, err) = translate(dir.path(), &["--gateway", "shop/thrid"]);
    assert!(code == Some(1) && out.is_empty() && err.contains("served: shop/second, shop/web"), "{err}");
}

#[test]
fn a_listener_set_is_told_of_like_its_gateway() {
    let set = "
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: { name: more, namespace: shop }
spec:
  parentRef: { name: web }
  listeners: [{ name: own, port: 8080, protocol: HTTP, hostname: own.example }]
";
    let open = GATEWAY.replace("spec:\n", "spec:\n  allowedListeners: { namespaces: { from: Same } }\n");
    let (code, out, err) =
        translate(directory(&[("a.yaml", CLASS), ("b.yaml", &open), ("c.yaml", set)]).path(), &["--status"]);
    assert!(code == Some(0) && out.contains("ok    ListenerSet shop/more"), "{out}{err}");
    assert!(out.contains("listener own, attached routes: 0"), "{out}");

    let (code, out, err) =
        translate(directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", set)]).path(), &["--status"]);
    assert!(code == Some(1) && out.contains("NotAllowed") && out.contains("admits no ListenerSet"), "{out}{err}");

    let lost = set.replace("name: web", "name: wbe");
    let (code, out, err) =
        translate(directory(&[("a.yaml", CLASS), ("b.yaml", &open), ("c.yaml", &lost)]).path(), &["--status"]);
    assert!(code == Some(1) && out.contains("there is no Gateway shop/wbe"), "{out}{err}");
}

#[test]
fn whether_an_address_can_be_used_is_for_a_flag_to_say() {
    let gateway = GATEWAY.replace("spec:", "spec:\n  addresses: [{ value: 192.0.2.7 }]");
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", &gateway)]);
    let (code, out, err) = translate(dir.path(), &["--status"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("warn  Gateway shop/web") && out.contains("say so with --usable-addresses"), "{out}");
    let flag = ["--status", "-o", "json", "--usable-addresses", "10.0.0.0/8,192.0.2.0/24"];
    let (code, out, err) = translate(dir.path(), &flag);
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(list["items"][1]["status"]["addresses"][0]["value"], "192.0.2.7");
    assert_eq!(list["items"][0]["status"]["supportedFeatures"][0]["name"], "BackendTLSPolicy");
    let (code, out, _) = translate(dir.path(), &["--status", "--usable-addresses", "10.0.0.0/8"]);
    assert!(code == Some(1) && out.contains("AddressNotUsable") && out.contains("use one of 10.0.0.0/8"), "{out}");
}

#[test]
fn an_experimental_kind_is_told_with_what_to_use_instead() {
    let kind = "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata: { name: a }\n";
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", kind)]);
    let (code, out, err) = translate(dir.path(), &["--status"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("XBackend\n        is not read: use a Service"), "{out}");
}

#[test]
fn status_as_documents_are_whole_objects() {
    let (code, out, err) = translate(&example("minimal"), &["--status", "-o", "json"]);
    assert_eq!(code, Some(0), "{err}");
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["kind"], "List");
    let kinds: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["GatewayClass", "Gateway", "HTTPRoute"]);
    let gateway = &list["items"][1];
    assert_eq!(gateway["spec"]["listeners"][0]["port"], 8080);
    assert_eq!(gateway["status"]["listeners"][0]["attachedRoutes"], 1);
    assert_eq!(gateway["status"]["conditions"][0]["type"], "Accepted");
    assert_eq!(gateway.get("findings"), None);
    let (_, yaml, _) = translate(&example("minimal"), &["--status", "-o", "yaml"]);
    assert_eq!(Value::from(documents(&yaml)), list["items"]);
}

/// Each file of `broken/` begins with `# expect:` and texts that the answer must have, apart from the width of columns.
#[test]
fn the_cause_of_every_broken_manifest_is_named_before_anything_that_is_fine() {
    let mut seen = 0;
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = text.lines().next().unwrap().strip_prefix("# expect: ").unwrap();
        let dir = directory(&[(name, &text)]);
        let (code, out, err) = translate(dir.path(), &["--status"]);
        assert_eq!(code, Some(1), "{name}: {out}{err}");
        let squeezed = out.split_whitespace().collect::<Vec<_>>().join(" ");
        let causes = squeezed.split(" ok ").next().unwrap();
        for word in expected.split(" | ") {
            let word = word.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(causes.contains(&word), "{name}: {word:?} does not stand before what is fine in\n{out}");
        }
        assert!(err.contains("1 error"), "{name}: {err}");
        // The other forms say it on stderr.
        let (code, _, err) = translate(dir.path(), &[]);
        assert!(code == Some(1) && err.contains("error: ") && err.contains("--status"), "{name}: {err}");
        seen += 1;
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn a_warning_alone_is_no_error() {
    let unknown = GATEWAY.replace("protocol: HTTP }", "protocol: HTTP, color: blue }");
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", &unknown)]);
    let (code, out, err) = translate(dir.path(), &["--status"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("warn  Gateway shop/web") && out.contains("color"), "{out}");
    assert!(err.contains("no errors, 1 warning"), "{err}");
}

#[test]
fn a_route_of_another_controllers_gateway_is_no_error_and_other_kinds_are_told() {
    let theirs = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: theirs }
spec: { controllerName: example.com/theirs }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: foreign, namespace: shop }
spec:
  gatewayClassName: theirs
  listeners: [{ name: http, port: 80, protocol: HTTP }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: cart, namespace: shop }
spec: { parentRefs: [{ name: foreign }] }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: cart, namespace: shop }
";
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", theirs)]);
    let (code, out, err) = translate(dir.path(), &["--status"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("note  Gateway shop/foreign") && out.contains("belongs to another controller"), "{out}");
    assert!(err.contains("not read: apps/v1 Deployment"), "{err}");
}

const SHOP: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: cart, namespace: shop }
spec:
  parentRefs: [{ name: web }]
  rules: [{ backendRefs: [{ name: cart, port: 80 }] }]
---
apiVersion: v1
kind: Service
metadata: { name: cart, namespace: shop }
spec: { ports: [{ name: http, port: 80 }] }
";

#[test]
fn a_gateway_that_serves_nothing_is_not_counted_as_served() {
    let gateway = GATEWAY.replace("spec:", "spec:\n  addresses: [{ type: Hostname, value: a.example }]");
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", &gateway)]);
    let (code, out, err) = translate(dir.path(), &["--status"]);
    assert!(code == Some(1) && out.contains("use the type IPAddress"), "{out}{err}");
    assert!(err.contains("no Gateways served"), "{err}");
    let unknown = gateway.replace("type: Hostname", "type: example.com/own");
    let (_, out, _) = translate(directory(&[("a.yaml", CLASS), ("b.yaml", &unknown)]).path(), &["--status"]);
    assert!(out.contains("type example.com/own is not supported; use IPAddress\n"), "{out}");
}

#[test]
fn a_validation_of_clients_without_a_listener_of_tls_is_told() {
    let ca = "{ caCertificateRefs: [{ group: \"\", kind: ConfigMap, name: ca }] }";
    let frontend =
        format!("{{ default: {{ validation: {ca} }}, perPort: [{{ port: 8443, tls: {{ validation: {ca} }} }}] }}");
    let gateway = GATEWAY.replace("spec:", &format!("spec:\n  tls: {{ frontend: {frontend} }}"));
    let (code, out, err) = translate(directory(&[("a.yaml", CLASS), ("b.yaml", &gateway)]).path(), &["--status"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.contains("spec.tls.frontend.default.validation: validates nobody, for no listener that it is for"),
        "{out}"
    );
    assert!(
        out.contains("spec.tls.frontend.perPort[0].tls.validation: validates nobody, for no listener on port 8443"),
        "{out}"
    );
    let https = "port: 8443, protocol: HTTPS, tls: { certificateRefs: [{ name: a }] }";
    let gateway = gateway.replace("port: 8080, protocol: HTTP", https);
    let (_, out, _) = translate(directory(&[("a.yaml", CLASS), ("b.yaml", &gateway)]).path(), &["--status"]);
    assert!(
        out.contains("default.validation: validates nobody") && !out.contains("perPort[0].tls.validation: validates"),
        "{out}"
    );
}

#[test]
fn what_was_refused_is_not_merely_missing() {
    let gateway = GATEWAY.replace("port: 8080", "port: 0");
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", &gateway), ("c.yaml", SHOP)]);
    for more in [&["--status"][..], &[]] {
        let (code, out, err) = translate(dir.path(), more);
        let told = format!("{out}{err}");
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("there is no Gateway shop/web of a class of this controller; create it"), "{told}");
        assert!(told.contains("the manifest of Gateway shop/web was refused: "), "{told}");
    }
    let refused = SHOP.replace("name: http, port: 80", "name: http, port: 0");
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", &refused)]);
    let (_, out, _) = translate(dir.path(), &["--status"]);
    assert!(out.contains("Service shop/cart does not exist; create it, or correct the name"), "{out}");
    assert!(out.contains("the manifest of Service shop/cart was refused: "), "{out}");
}

#[test]
fn a_listener_set_of_something_else_is_an_error() {
    let set = "
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: { name: more, namespace: shop }
spec:
  parentRef: { group: \"\", kind: Service, name: web }
  listeners: [{ name: own, port: 8080, protocol: HTTP, hostname: own.example }]
";
    let (code, out, err) =
        translate(directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", set)]).path(), &["--status"]);
    assert!(code == Some(1) && out.contains("ERROR ListenerSet shop/more"), "{out}{err}");
    assert!(out.contains("spec.parentRef.kind: Service is no parent of a ListenerSet"), "{out}");
}

#[test]
fn many_conflicts_of_one_object_are_summed_up() {
    let listener =
        |number: u32, host: &str| format!("  - {{ name: l{number}, port: 8080, protocol: HTTP, hostname: {host} }}\n");
    let head = GATEWAY.split("  listeners").next().unwrap();
    let alike: String = (0..64).map(|number| listener(number, "a.example")).collect();
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", &format!("{head}  listeners:\n{alike}"))]);
    let (code, out, err) = translate(dir.path(), &["--status"]);
    assert!(code == Some(1) && out.contains("27 more fields: another listener has the same port"), "{out}{err}");
    assert!(out.lines().count() < 25, "{out}");

    let apart: String = (0..63).map(|number| listener(number, &format!("a{number}.example"))).collect();
    let tcp = "  - { name: tcp, port: 8080, protocol: TCP }\n";
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", &format!("{head}  listeners:\n{apart}{tcp}"))]);
    let (code, out, err) = translate(dir.path(), &["--status"]);
    assert!(code == Some(1) && out.contains("and 63 more with the same conditions"), "{out}{err}");
    assert!(out.lines().count() < 30, "{out}");
    let missing: Vec<String> = (0..12).map(|number| format!("{{ name: a{number}, port: 80 }}")).collect();
    let route = SHOP.replace("{ name: cart, port: 80 }", &missing.join(", "));
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", &route)]);
    let (_, out, _) = translate(dir.path(), &["--status"]);
    assert!(out.contains("and 7 more\n") && out.contains("and 2 more (BackendNotFound)"), "{out}");
}

#[test]
fn a_target_that_no_route_leads_to_is_named() {
    let policy = "
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: { name: tls, namespace: shop }
spec:
  targetRefs:
  - { group: example.com, kind: Other, name: cart }
  - { group: \"\", kind: Service, name: cart, sectionName: https }
  - { group: \"\", kind: Service, name: crat }
  - { group: \"\", kind: Service, name: crat2, sectionName: https }
  validation: { hostname: a.example, wellKnownCACertificates: System }
";
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", SHOP), ("d.yaml", policy)]);
    let (code, out, err) = translate(dir.path(), &["--status"]);
    assert_eq!(code, Some(0), "{out}{err}");
    for said in [
        "spec.targetRefs[0]: example.com/Other cannot be reached over TLS",
        "spec.targetRefs[1]: no route leads to a port https of Service shop/cart, but to \"http\"; correct sectionName",
        "spec.targetRefs[2]: no route of a Gateway of this controller leads to Service shop/crat; correct its name",
        "spec.targetRefs[3]: no route of a Gateway of this controller leads to port https of Service shop/crat2; correct",
    ] {
        assert!(out.contains(said), "{said} is missing in\n{out}");
    }
}

#[test]
fn a_policy_that_is_refused_closes_its_service_at_a_start() {
    // The group of the target is missing, and so is all validation.
    let policy = "
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: { name: tls, namespace: shop }
spec: { targetRefs: [{ kind: Service, name: cart }] }
";
    let plain = directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", SHOP)]);
    assert!(translate(plain.path(), &["--type", "cluster"]).1.contains("shop/cart"));
    for policy in [policy.to_owned(), policy.replace("k8s.io/v1", "k8s.io/v1alpha3")] {
        let dir = directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c.yaml", SHOP), ("d.yaml", &policy)]);
        let (code, out, err) = translate(dir.path(), &["--type", "cluster"]);
        assert!(code == Some(1) && !out.contains("shop/cart"), "{out}{err}");
        let (code, out, _) = translate(dir.path(), &["--status"]);
        assert!(code == Some(1) && out.contains("spec.targetRefs[0].group"), "{out}");
        assert!(out.contains("closed until then"), "{out}");
    }
}

#[test]
fn no_name_in_a_manifest_forges_a_line() {
    let forged = "\"a\\nERROR forged\\u001b[2J\"";
    let manifests = format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{ name: cart, namespace: shop }}
spec:
  parentRefs: [{{ name: web }}, {{ name: {forged} }}, {{ name: web2, sectionName: a.b }}]
  rules: [{{ backendRefs: [{{ name: {forged}, port: 80 }}] }}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: web2, namespace: shop }}
spec:
  gatewayClassName: {forged}
  listeners: [{{ name: http, port: 8080, protocol: HTTP }}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: web3, namespace: shop }}
spec:
  gatewayClassName: tidegate
  tls: {{ frontend: {{ default: {{ validation: {{ caCertificateRefs: [{{ group: \"\", kind: ConfigMap, name: {forged} }}] }} }} }} }}
  listeners:
  - {{ name: http, port: 8443, protocol: HTTPS, tls: {{ certificateRefs: [{{ name: {forged} }}] }} }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {{ name: tls, namespace: shop }}
spec:
  targetRefs: [{{ group: \"\", kind: Service, name: {forged} }}]
  validation: {{ hostname: a.example, caCertificateRefs: [{{ group: \"\", kind: ConfigMap, name: {forged} }}] }}
"
    );
    let dir = directory(&[("a.yaml", CLASS), ("b.yaml", GATEWAY), ("c\nERROR d.yaml", &manifests)]);
    for more in [&["--status"][..], &[], &["--status", "-o", "yaml"]] {
        let (code, out, err) = translate(dir.path(), more);
        assert_eq!(code, Some(1), "{out}{err}");
        let told = format!("{out}\n{err}");
        assert!(
            !told.lines().any(|line| line.starts_with("ERROR forged") || line.starts_with("ERROR d.yaml")),
            "{told}"
        );
        assert!(!told.chars().any(|c| c.is_control() && c != '\n'), "{told}");
    }
}

#[test]
fn an_empty_directory_has_nothing_to_translate_and_no_error() {
    let dir = directory(&[]);
    let (code, out, err) = translate(dir.path(), &[]);
    assert!(code == Some(0) && out.is_empty() && err.contains("no objects"), "{out}{err}");
}
