use super::*;
use crate::fixture::{accepts, carried, facts, refuses, rows, with};
use serde_json::{Value, json};

fn base() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "BackendTLSPolicy",
        "metadata": {"name": "tls", "namespace": "shop", "generation": 3},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "cart"}],
            "validation": {
                "hostname": "cart.example",
                "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}],
            },
        },
    })
}

fn policy(body: Value) -> Arc<BackendTlsFact> {
    match facts(body).swap_remove(0) {
        Fact::BackendTls(policy) => policy,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_policy_is_read_whole() {
    let names = json!([{"type": "Hostname", "hostname": "*.example"}, {"type": "URI", "uri": "spiffe://a/b"}]);
    let read = policy(with(base(), "/spec/validation/subjectAltNames", names));
    assert_eq!((read.generation, &*read.hostname, read.findings.len()), (3, "cart.example", 0));
    let cart = NamespacedName::new("shop", "cart");
    assert_eq!(read.targets, [PolicyTarget { field: "spec.targetRefs[0]".into(), service: cart, port: None }]);
    assert_eq!(read.names, [SubjectName::Host("*.example".into()), SubjectName::Uri("spiffe://a/b".into())]);
    let authority = CertificateRef { group_kind: Kind::ConfigMap.into(), name: NamespacedName::new("shop", "ca") };
    assert_eq!(read.authorities, AuthorityRefs::Refs(vec![authority]));
    let system = with(
        with(base(), "/spec/validation/caCertificateRefs", json!([])),
        "/spec/validation/wellKnownCACertificates",
        json!("System"),
    );
    assert_eq!(policy(system).authorities, AuthorityRefs::System);
}

#[test]
fn what_the_kind_allows_is_accepted() {
    let service = |name: &str, port: &str| json!({"group": "", "kind": "Service", "name": name, "sectionName": port});
    accepts(
        &base(),
        &[
            ("/spec/targetRefs", json!([service("cart", "a"), service("cart", "b"), service("pay", "a")])),
            ("/spec/validation/wellKnownCACertificates", json!("")),
            ("/spec/validation/subjectAltNames", json!([{"type": "URI", "uri": "spiffe://a"}])),
            ("/spec/validation/caCertificateRefs/0/kind", json!("Bundle")),
        ],
    );
}

#[test]
fn what_breaks_a_rule_is_told_and_the_targets_stay() {
    let target = |port: Option<&str>| {
        let mut target = json!({"group": "", "kind": "Service", "name": "cart"});
        if let Some(port) = port {
            target["sectionName"] = json!(port);
        }
        target
    };
    let validation = "spec.validation";
    refuses(
        &base(),
        true,
        &[
            ("/spec/targetRefs", json!([]), "spec.targetRefs", "must not be empty"),
            ("/spec/targetRefs", json!(null), "spec.targetRefs", "is required"),
            ("/spec/targetRefs/0/group", json!(null), "spec.targetRefs[0].group", "is required"),
            ("/spec/targetRefs", json!([target(None), target(None)]), "spec.targetRefs[1]", "the same target"),
            (
                "/spec/targetRefs",
                json!([target(Some("a")), target(Some("a"))]),
                "spec.targetRefs[1]",
                "the same target",
            ),
            ("/spec/targetRefs", json!([target(None), target(Some("a"))]), "spec.targetRefs[1].sectionName", "in each"),
            ("/spec/targetRefs", json!([target(Some("a")), target(None)]), "spec.targetRefs[1].sectionName", "in each"),
            ("/spec/validation", json!(null), validation, "is required"),
            ("/spec/validation/hostname", json!(null), "spec.validation.hostname", "is required"),
            ("/spec/validation/hostname", json!("*.example"), "spec.validation.hostname", "without wildcard"),
            ("/spec/validation/hostname", json!("10.0.0.1"), "spec.validation.hostname", "IP address"),
            ("/spec/validation/caCertificateRefs", json!([]), "spec.validation.caCertificateRefs", "is required"),
            (
                "/spec/validation/wellKnownCACertificates",
                json!("System"),
                "spec.validation.wellKnownCACertificates",
                "remove one",
            ),
            (
                "/spec/validation/subjectAltNames",
                json!([{"type": "Hostname"}]),
                "spec.validation.subjectAltNames[0].hostname",
                "is required",
            ),
            (
                "/spec/validation/subjectAltNames",
                json!([{"type": "URI", "uri": "spiffe://a", "hostname": "a.example"}]),
                "spec.validation.subjectAltNames[0].hostname",
                "not for this type",
            ),
            (
                "/spec/validation/subjectAltNames",
                json!([{"type": "URI", "uri": "urn:a"}]),
                "spec.validation.subjectAltNames[0].uri",
                "is not a URI",
            ),
            (
                "/spec/validation/subjectAltNames",
                json!([{"type": "DNS"}]),
                "spec.validation.subjectAltNames[0].type",
                "is none of",
            ),
            ("/spec/options", json!({"-": "a"}), "spec.options[-]", "a label key"),
        ],
    );
    let broken = policy(with(base(), "/spec/validation", json!(null)));
    assert_eq!(broken.targets.len(), 1, "what it is about must not be reached without it");
    let unknown = with(
        with(base(), "/spec/validation/caCertificateRefs", json!(null)),
        "/spec/validation/wellKnownCACertificates",
        json!("example.com/mine"),
    );
    assert_eq!(carried(&facts(unknown))[0].reason, Reason::UnsupportedValue);
}

#[test]
fn what_a_broken_target_may_have_meant_is_a_target() {
    let service = |name: &str| json!({"group": "", "kind": "Service", "name": name});
    let many: Vec<Value> = (0..20).map(|number| service(&format!("s{number}"))).collect();
    for (field, value, meant) in [
        ("/spec/targetRefs/0/group", json!(null), 1),
        ("/spec/targetRefs/0/kind", json!(null), 1),
        ("/spec/targetRefs/0/kind", json!(7), 1),
        ("/spec/targetRefs/0/sectionName", json!("No"), 1),
        ("/spec/targetRefs", json!({"kind": "Service", "name": "cart"}), 1),
        ("/spec/targetRef", json!({"kind": "Service", "name": "pay"}), 2),
        ("/spec/targetRefs", json!(many), 20),
        ("/spec/targetRefs/0/kind", json!("-"), 0),
        ("/spec/targetRefs/0/name", json!(null), 0),
    ] {
        let read = policy(with(base(), field, value));
        assert_eq!((read.targets.len(), read.findings.is_empty()), (meant, false), "{field}");
    }
    let single = with(with(base(), "/spec/targetRefs", json!(null)), "/spec/targetRef", service("cart"));
    let read = policy(single);
    assert_eq!((read.targets[0].service.name(), read.findings.len()), ("cart", 1));
    assert!(read.findings[0].message.contains("an entry of targetRefs"), "{}", read.findings[0]);
}

#[test]
fn what_is_only_ignored_is_remarked_upon() {
    refuses(
        &base(),
        false,
        &[
            ("/spec/targetRefs/0/kind", json!("Other"), "spec.targetRefs[0]", "use a Service"),
            ("/spec/options", json!({"example.com/a": "b"}), "spec.options[example.com/a]", "is ignored"),
            ("/spec/hostname", json!("a"), "spec.hostname", "is no field"),
        ],
    );
    assert_eq!(rows(&facts(base())), vec![]);
}
