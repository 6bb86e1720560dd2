//! The board as its callers see it.

use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::{
    AddressFact, ClientId, Condition, ConditionType, DerivedStatus, Finding, GroupKind, Kind, ListenerKey,
    ListenerStatus, Name, NamespacedName, ObjectKey, Observation, ParentFact, ParentStatus, Reason, Refusal,
    ResourceType, StatusBody,
};
use tidegate_status::Board;

const CONTROLLER: &str = "example.com/ours";

fn gateway_key() -> ObjectKey {
    ObjectKey::new(Kind::Gateway, "shop", "public")
}

fn gateway(generation: i64, programmed: Condition) -> Arc<DerivedStatus> {
    let listener = ListenerStatus {
        name: "http".into(),
        supported_kinds: vec![GroupKind::from(Kind::HttpRoute)],
        attached_routes: 2,
        conditions: vec![Condition::yes(ConditionType::Programmed, Reason::Programmed, "")],
    };
    Arc::new(DerivedStatus {
        generation,
        body: StatusBody::Gateway {
            conditions: vec![Condition::yes(ConditionType::Accepted, Reason::Accepted, "taken"), programmed],
            addresses: vec![AddressFact { kind: "IPAddress".into(), value: Some("192.0.2.7".into()) }],
            listeners: vec![listener],
            attached_sets: None,
        },
        findings: Vec::new(),
    })
}

fn programmed() -> Condition {
    Condition::yes(ConditionType::Programmed, Reason::Programmed, "")
}

fn client(stream: u64) -> ClientId {
    ClientId { stream, node: "envoy".into() }
}

fn connected(stream: u64) -> Observation {
    Observation::Connected { client: client(stream), gateway: gateway_key().name, delta: true }
}

/// The client refuses this of the Gateway.
fn refuses(stream: u64, refusals: Vec<Refusal>) -> Observation {
    Observation::Refuses { client: client(stream), gateway: gateway_key().name, refusals }
}

fn table(listeners: &[&str], entries: &[&str]) -> Refusal {
    Refusal {
        kind: ResourceType::Table,
        name: "http/8080".into(),
        listeners: listeners.iter().map(|name| ListenerKey::of_gateway(&gateway_key().name, name)).collect(),
        entries: entries.iter().map(|id| (*id).into()).collect(),
        detail: "bad\nregex".into(),
    }
}

/// `status.conditions[1]` of the Gateway: status and transition time.
fn programmed_of(board: &Board) -> (String, String) {
    let object = board.status_of(&gateway_key(), CONTROLLER).expect("the Gateway is on the board");
    let condition = &object["status"]["conditions"][1];
    assert_eq!(condition["type"], "Programmed");
    let text = |field: &str| condition[field].as_str().expect("conditions are texts").to_owned();
    (text("status"), text("lastTransitionTime"))
}

fn is(status: &str, time: &str) -> (String, String) {
    (status.to_owned(), format!("1970-01-01T00:00:{time}Z"))
}

#[test]
fn a_gateway_has_the_shape_of_the_api() {
    let mut board = Board::new();
    board.derive([(gateway_key(), Some(gateway(3, programmed())))], 5_000);
    let condition = |kind: &str, message: &str| {
        json!({ "type": kind, "status": "True", "reason": kind, "message": message, "observedGeneration": 3,
                "lastTransitionTime": "1970-01-01T00:00:05Z" })
    };
    let expected = json!([{
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": { "namespace": "shop", "name": "public", "generation": 3 },
        "status": {
            "conditions": [condition("Accepted", "taken"), condition("Programmed", "")],
            "addresses": [{ "type": "IPAddress", "value": "192.0.2.7" }],
            "listeners": [{
                "name": "http",
                "supportedKinds": [{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute" }],
                "attachedRoutes": 2,
                "conditions": [condition("Programmed", "")],
            }],
        },
        "findings": [],
    }]);
    assert_eq!(board.render(CONTROLLER), expected);
}

#[test]
fn a_route_repeats_its_parent_as_written() {
    let parent = |namespace_ref: Option<Name>, section: Option<Name>, port| ParentStatus {
        parent: ParentFact {
            group_kind: GroupKind::from(Kind::Gateway),
            name: NamespacedName::new("shop", "public"),
            namespace_ref,
            section,
            port,
        },
        gateway: NamespacedName::new("shop", "public"),
        conditions: vec![Condition::no(ConditionType::Accepted, Reason::NoMatchingParent, "no")],
    };
    let body =
        StatusBody::Route(vec![parent(None, None, None), parent(Some("shop".into()), Some("http".into()), Some(80))]);
    let status = DerivedStatus { generation: 1, body, findings: Vec::new() };
    let key = ObjectKey::new(Kind::HttpRoute, "shop", "cart");
    let mut board = Board::new();
    board.derive([(key.clone(), Some(Arc::new(status)))], 0);
    let object = board.status_of(&key, CONTROLLER).unwrap();
    let parents = &object["status"]["parents"];
    let gateway = json!({ "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public" });
    assert_eq!(parents[0]["parentRef"], gateway);
    assert_eq!(parents[0]["controllerName"], CONTROLLER);
    assert_eq!(parents[0]["conditions"][0]["reason"], "NoMatchingParent");
    let mut whole = gateway;
    whole["namespace"] = json!("shop");
    whole["sectionName"] = json!("http");
    whole["port"] = json!(80);
    assert_eq!(parents[1]["parentRef"], whole);
}

#[test]
fn a_kind_without_status_shows_its_findings_alone() {
    let finding = Finding::new(Reason::UnknownField, "spec.prots", "is no field; did you mean ports?");
    let status = DerivedStatus { generation: 0, body: StatusBody::None, findings: vec![finding] };
    let mut board = Board::new();
    board.derive([(ObjectKey::new(Kind::Service, "shop", "cart"), Some(Arc::new(status)))], 0);
    let expected = json!([{
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "namespace": "shop", "name": "cart" },
        "findings": [{ "reason": "UnknownField", "field": "spec.prots", "message": "is no field; did you mean ports?" }],
    }]);
    assert_eq!(board.render(CONTROLLER), expected);
}

#[test]
fn a_transition_time_changes_with_the_status_and_never_else() {
    let mut board = Board::new();
    let no = |message: &str| Condition::no(ConditionType::Programmed, Reason::Invalid, message);
    let mut at = |seconds: u64, generation, condition| {
        board.derive([(gateway_key(), Some(gateway(generation, condition)))], seconds * 1000);
        programmed_of(&board)
    };
    assert_eq!(at(1, 1, programmed()), is("True", "01"));
    assert_eq!(at(2, 2, programmed()), is("True", "01"));
    assert_eq!(at(3, 3, no("a")), is("False", "03"));
    assert_eq!(at(4, 4, no("b")), is("False", "03"));
    assert_eq!(at(5, 5, programmed()), is("True", "05"));
    board.derive([(gateway_key(), None)], 6_000);
    assert_eq!(board.render(CONTROLLER), json!([]));
    board.derive([(gateway_key(), Some(gateway(1, programmed())))], 7_000);
    assert_eq!(programmed_of(&board), is("True", "07"));
}

#[test]
fn what_a_client_refuses_makes_gateway_and_listener_not_programmed_until_it_refuses_it_no_more() {
    let mut board = Board::new();
    board.derive([(gateway_key(), Some(gateway(1, programmed())))], 1_000);
    board.observe(&connected(1), 1_000);
    board.observe(&refuses(1, vec![table(&["http"], &[])]), 2_000);
    assert_eq!(programmed_of(&board), is("False", "02"));
    let object = board.status_of(&gateway_key(), CONTROLLER).unwrap();
    for condition in [&object["status"]["conditions"][1], &object["status"]["listeners"][0]["conditions"][0]] {
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Programmed"), &json!("False")));
        assert_eq!(condition["reason"], "Rejected");
        assert_eq!(condition["message"], "proxy envoy rejected rds http/8080: bad regex");
    }
    // Neither an acceptance of something else nor a new seal clears it.
    board.observe(&Observation::Acked { client: client(1), kind: ResourceType::Table, epoch: 9 }, 3_000);
    board.derive([(gateway_key(), Some(gateway(2, programmed())))], 3_000);
    assert_eq!(programmed_of(&board), is("False", "02"));
    board.observe(&refuses(1, Vec::new()), 4_000);
    assert_eq!(programmed_of(&board), is("True", "04"));
}

#[test]
fn a_refused_entry_shows_on_its_route_alone() {
    let route = ObjectKey::new(Kind::HttpRoute, "shop", "cart");
    let status = || {
        let parent = |name: &str| ParentStatus {
            parent: ParentFact {
                group_kind: GroupKind::from(Kind::Gateway),
                namespace_ref: None,
                name: NamespacedName::new("shop", name),
                section: None,
                port: None,
            },
            gateway: NamespacedName::new("shop", name),
            conditions: vec![Condition::yes(ConditionType::Accepted, Reason::Accepted, "")],
        };
        let body = StatusBody::Route(vec![parent("public"), parent("other")]);
        Arc::new(DerivedStatus { generation: 4, body, findings: Vec::new() })
    };
    let mut board = Board::new();
    board.derive([(gateway_key(), Some(gateway(1, programmed()))), (route.clone(), Some(status()))], 1_000);
    let parents = |board: &Board| board.status_of(&route, CONTROLLER).unwrap()["status"]["parents"].clone();
    let before = parents(&board);
    let entries = ["HTTPRoute shop/cart rule 0 match 0", "HTTPRoute shop/cart rule 1 match 0"];
    board.observe(&refuses(1, vec![table(&[], &entries)]), 2_000);
    board.observe(&refuses(2, vec![table(&[], &entries[..1])]), 3_000);
    let shown = parents(&board);
    assert_eq!(shown[1], before[1], "the other Gateway's proxies accept it");
    let expected = json!({
        "type": "tidegate.dev/Programmed",
        "status": "False",
        "reason": "Rejected",
        "message": "proxy envoy rejected rds http/8080: bad regex (and 1 more)",
        "observedGeneration": 4,
        "lastTransitionTime": "1970-01-01T00:00:02Z",
    });
    assert_eq!(shown[0]["conditions"][1], expected);
    assert_eq!(programmed_of(&board), is("True", "01"), "the rest of the Gateway is served");
    // It stays with a new seal of the route, and leaves with the last client that refuses it.
    board.derive([(route.clone(), Some(status()))], 5_000);
    assert_eq!(parents(&board)[0]["conditions"][1]["lastTransitionTime"], "1970-01-01T00:00:02Z");
    board.observe(&refuses(1, Vec::new()), 6_000);
    assert_eq!(parents(&board)[0]["conditions"].as_array().unwrap().len(), 2);
    board.observe(&Observation::Disconnected { client: client(2) }, 7_000);
    assert_eq!(parents(&board), before);
}

#[test]
fn a_refusal_leaves_with_its_client() {
    let mut board = Board::new();
    board.observe(&connected(1), 0);
    board.observe(&connected(2), 0);
    board.observe(&refuses(1, vec![table(&["http"], &[])]), 0);
    board.derive([(gateway_key(), Some(gateway(1, programmed())))], 1_000);
    assert_eq!(programmed_of(&board), is("False", "01"));
    board.observe(&Observation::Disconnected { client: client(2) }, 2_000);
    assert_eq!(programmed_of(&board), is("False", "01"));
    board.observe(&Observation::Disconnected { client: client(1) }, 3_000);
    assert_eq!(programmed_of(&board), is("True", "03"));
}

#[test]
fn a_hindrance_makes_a_gateway_not_programmed_until_it_is_taken_back() {
    let mut board = Board::new();
    let programmed_is = |board: &Board| -> (Value, Value) {
        let object = board.status_of(&gateway_key(), CONTROLLER).unwrap();
        let condition = &object["status"]["conditions"][1];
        (condition["status"].clone(), condition["lastTransitionTime"].clone())
    };
    let hindrance = Condition::no(ConditionType::Programmed, Reason::AddressNotUsable, "port 80 is taken");
    // It may be known before the status is derived, and outlives a new status.
    board.hinder(&gateway_key().name, Some(hindrance.clone()), 1000);
    for generation in 1..3 {
        board.derive([(gateway_key(), Some(gateway(generation, programmed())))], 2000);
        assert_eq!(programmed_is(&board), (json!("False"), json!("1970-01-01T00:00:02Z")));
    }
    board.hinder(&gateway_key().name, Some(hindrance), 5000);
    board.hinder(&gateway_key().name, None, 6000);
    assert_eq!(programmed_is(&board), (json!("True"), json!("1970-01-01T00:00:06Z")));
}

fn set_key() -> ObjectKey {
    ObjectKey::new(Kind::ListenerSet, "team", "more")
}

fn set() -> Arc<DerivedStatus> {
    let listener = ListenerStatus {
        name: "http".into(),
        supported_kinds: Vec::new(),
        attached_routes: 0,
        conditions: vec![programmed()],
    };
    let (gateway, listeners) = (gateway_key().name, vec![listener]);
    let body = StatusBody::ListenerSet { gateway, conditions: vec![programmed()], listeners };
    Arc::new(DerivedStatus { generation: 1, body, findings: Vec::new() })
}

/// `Programmed` of the ListenerSet and of its listener: status and reason.
fn programmed_of_set(board: &Board) -> [String; 2] {
    let object = board.status_of(&set_key(), CONTROLLER).expect("the ListenerSet is on the board");
    let text = |condition: &Value| format!("{}/{}", condition["status"], condition["reason"]).replace('"', "");
    [text(&object["status"]["conditions"][0]), text(&object["status"]["listeners"][0]["conditions"][0])]
}

#[test]
fn a_refused_listener_of_a_set_shows_on_the_set_and_not_on_its_gateway() {
    let mut board = Board::new();
    board.derive([(gateway_key(), Some(gateway(1, programmed()))), (set_key(), Some(set()))], 1_000);
    board.observe(&connected(1), 1_000);
    let listeners = vec![ListenerKey { parent: set_key(), name: "http".into() }];
    board.observe(&refuses(1, vec![Refusal { listeners, ..table(&[], &[]) }]), 2_000);
    assert_eq!(programmed_of_set(&board), ["False/Rejected", "False/Rejected"]);
    assert_eq!(programmed_of(&board), is("True", "01"));
    board.observe(&refuses(1, Vec::new()), 3_000);
    assert_eq!(programmed_of_set(&board), ["True/Programmed", "True/Programmed"]);
}

#[test]
fn what_hinders_a_gateway_hinders_its_sets() {
    let mut board = Board::new();
    let hindrance = Condition::no(ConditionType::Programmed, Reason::AddressNotUsable, "taken");
    board.hinder(&gateway_key().name, Some(hindrance), 1_000);
    board.derive([(gateway_key(), Some(gateway(1, programmed()))), (set_key(), Some(set()))], 1_000);
    assert_eq!(programmed_of_set(&board), ["False/ParentNotProgrammed", "True/Programmed"]);
    board.hinder(&gateway_key().name, None, 2_000);
    assert_eq!(programmed_of_set(&board), ["True/Programmed", "True/Programmed"]);
}
