use crate::fixture::{accepts, carried, facts, refuses};
use serde_json::{Value, json};
use tidegate_model::{Fact, Reason};

fn base() -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "public"},
        "spec": {"controllerName": "tidegate.dev/gateway-controller"}})
}

#[test]
fn a_class_is_its_controller() {
    let facts = facts(base());
    let [Fact::Class(class)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!((&*class.name, &*class.controller, class.generation), ("public", "tidegate.dev/gateway-controller", 1));
    accepts(&base(), &[("/spec/description", json!("for all")), ("/metadata/generation", json!(7))]);
}

#[test]
fn every_rule_of_a_class_can_be_broken() {
    refuses(
        &base(),
        true,
        &[
            ("/spec", json!(null), "spec", "is required"),
            ("/spec/controllerName", json!(null), "spec.controllerName", "is required"),
            ("/spec/controllerName", json!(1), "spec.controllerName", "must be a string, not a number"),
            ("/spec/controllerName", json!("tidegate"), "spec.controllerName", "write a domain"),
            ("/spec/description", json!("x".repeat(65)), "spec.description", "shorten it"),
            ("/metadata/generation", json!("1"), "metadata.generation", "must be a whole number"),
        ],
    );
}

#[test]
fn parameters_of_a_class_are_not_supported() {
    let mut body = base();
    body["spec"]["parametersRef"] = json!({"group": "a.b", "kind": "C", "name": "d"});
    let findings = carried(&facts(body));
    assert_eq!(
        findings.iter().map(|f| (f.reason, &*f.field)).collect::<Vec<_>>(),
        [(Reason::InvalidParameters, "spec.parametersRef")]
    );
}
