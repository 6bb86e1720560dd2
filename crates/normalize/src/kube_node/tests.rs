use crate::fixture::{facts, refuses, rows, with};
use serde_json::{Value, json};
use tidegate_model::{Fact, Locality};

fn base() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1", "labels": {
        "topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": "z1",
        "topology.istio.io/subzone": "s1", "topology.istio.io/network": "n1",
        "kubernetes.io/hostname": "host-1", "other": "x",
    }}, "spec": {"podCIDR": "10.1.0.0/24"}})
}

fn locality(body: Value) -> Locality {
    match &facts(body)[0] {
        Fact::Node(node) => node.locality.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn labels_say_where_a_node_is() {
    let found = locality(base());
    let levels: Vec<&str> = found.levels().into_iter().map(|level| &**level).collect();
    assert_eq!(levels, ["n1", "r1", "z1", "s1", "host-1"]);
}

#[test]
fn without_labels_a_node_is_a_host_of_its_own_name() {
    let found = locality(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}}));
    assert_eq!(found, Locality { host: "worker-1".into(), ..Locality::default() });
}

#[test]
fn what_is_not_about_its_place_changes_nothing() {
    for (pointer, value) in [
        ("/metadata/labels/other", json!("y")),
        ("/metadata/annotations", json!({"a": "b"})),
        ("/spec/unschedulable", json!(true)),
    ] {
        assert_eq!(facts(with(base(), pointer, value)), facts(base()), "{pointer}");
    }
    assert_ne!(facts(with(base(), "/metadata/labels/topology.kubernetes.io~1zone", json!("z2"))), facts(base()));
}

#[test]
fn a_label_that_is_none_is_left_out() {
    refuses(
        &base(),
        false,
        &[
            (
                "/metadata/labels/topology.kubernetes.io~1zone",
                json!(1),
                "metadata.labels[topology.kubernetes.io/zone]",
                "must be a string",
            ),
            (
                "/metadata/labels/topology.kubernetes.io~1zone",
                json!("z 1"),
                "metadata.labels[topology.kubernetes.io/zone]",
                "is not a label value",
            ),
            ("/metadata/labels", json!("a"), "metadata.labels", "must be an object"),
        ],
    );
    let wrong = with(base(), "/metadata/labels/topology.kubernetes.io~1zone", json!(1));
    assert_eq!(rows(&facts(wrong.clone())).len(), 1);
    assert_eq!((&*locality(wrong.clone()).zone, &*locality(wrong).region), ("", "r1"));
}
