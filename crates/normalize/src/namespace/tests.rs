use crate::fixture::{facts, refuses, rows};
use serde_json::{Value, json};
use tidegate_model::Fact;

fn base() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}})
}

#[test]
fn a_namespace_has_the_label_with_its_name_whatever_is_written() {
    for written in [json!({"team": "a"}), json!({"team": "a", "kubernetes.io/metadata.name": "other"})] {
        let mut body = base();
        body["metadata"]["labels"] = written;
        let facts = facts(body);
        let [Fact::Namespace(namespace)] = &facts[..] else { panic!("{facts:?}") };
        let labels: Vec<_> = namespace.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(labels, [("kubernetes.io/metadata.name", "shop"), ("team", "a")]);
    }
}

#[test]
fn a_namespace_with_a_label_that_is_no_text_has_none_at_all() {
    for (labels, field) in [(json!({"team": "a", "n": 1}), "metadata.labels[n]"), (json!(["a"]), "metadata.labels")] {
        let mut body = base();
        body["metadata"]["labels"] = labels;
        let facts = facts(body);
        assert!(matches!(&facts[0], Fact::Namespace(namespace) if namespace.labels.is_empty()));
        assert_eq!(rows(&facts).iter().map(|f| &*f.field).collect::<Vec<_>>(), [field]);
    }
}

#[test]
fn a_namespace_whose_name_is_wrong_does_not_exist() {
    refuses(&base(), false, &[("/metadata/name", json!("a.b"), "metadata.name", "is not the name of a namespace")]);
    let mut body = base();
    body["metadata"]["name"] = json!("a.b");
    assert!(matches!(&facts(body)[..], [Fact::Finding(..)]));
}
