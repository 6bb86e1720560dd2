use crate::fixture::{accepts, facts, refuses, with};
use serde_json::{Value, json};
use tidegate_model::{Fact, GrantFact, GroupKind, Kind};

fn base() -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": {"name": "g", "namespace": "store"},
        "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "shop"}],
            "to": [{"group": "", "kind": "Service"}]}})
}

#[test]
fn a_grant_is_every_pair_of_from_and_to() {
    let body = with(base(), "/spec/from/1", json!({"group": "a.b", "kind": "C", "namespace": "n"}));
    let facts = facts(with(body, "/spec/to/1", json!({"group": "", "kind": "Secret", "name": "s"})));
    assert_eq!(facts.len(), 4);
    let first = Fact::Grant(GrantFact {
        namespace: "store".into(),
        from: GroupKind::from(Kind::HttpRoute),
        from_namespace: "shop".into(),
        to: GroupKind::from(Kind::Service),
        to_name: None,
    });
    assert_eq!(facts[0], first);
    assert!(matches!(&facts[3], Fact::Grant(g) if g.to_name == Some("s".into()) && &*g.from_namespace == "n"));
    accepts(&base(), &[("/apiVersion", json!("gateway.networking.k8s.io/v1")), ("/spec/to/0/name", json!("x"))]);
}

#[test]
fn a_grant_with_anything_wrong_grants_nothing() {
    let table = [
        ("/spec", json!(null), "spec", "is required"),
        ("/spec/from", json!(null), "spec.from", "is required"),
        ("/spec/to", json!([]), "spec.to", "must not be empty"),
        ("/spec/to", json!({}), "spec.to", "must be a list"),
        ("/spec/from", json!([null]), "spec.from[0].kind", "is required"),
        ("/spec/from/0/group", json!(null), "spec.from[0].group", "is required"),
        ("/spec/from/0/kind", json!("HTTP Route"), "spec.from[0].kind", "is not a kind"),
        ("/spec/from/0/namespace", json!("*"), "spec.from[0].namespace", "is not the name of a namespace"),
        ("/spec/to/0/group", json!("v1/"), "spec.to[0].group", "without its version"),
        ("/spec/to/0/name", json!(""), "spec.to[0].name", "must not be empty"),
        ("/spec/to", json!(vec![json!({"group": "", "kind": "Service"}); 17]), "spec.to", "16 are allowed"),
    ];
    refuses(&base(), false, &table);
    for (pointer, value, ..) in table {
        let facts = facts(with(base(), pointer, value));
        assert!(facts.iter().all(|fact| matches!(fact, Fact::Finding(..))), "{pointer}: {facts:?}");
    }
}
