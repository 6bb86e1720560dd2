//! Mirrors, other origins, retries, sessions.

use super::{base, first_filter, refuses_settings, route};
use crate::fixture::{accepts, facts, refuses, rows, with};
use serde_json::{Value, json};
use tidegate_model::{CorsFact, Filter, MirrorFact, RetryFact, SessionCarrier, SessionFact};

const RETRY: &str = "/spec/rules/0/retry";
const SESSION: &str = "/spec/rules/0/sessionPersistence";

fn mirror(settings: Value) -> MirrorFact {
    let mut settings = settings;
    settings["backendRef"] = json!({"name": "copy", "namespace": "store", "port": 80});
    match first_filter(json!({"type": "RequestMirror", "requestMirror": settings})) {
        Filter::Mirror(mirror) => mirror,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mirror_takes_all_or_a_share() {
    let share = |settings| {
        let mirror = mirror(settings);
        assert_eq!((mirror.target.name.as_str(), mirror.target.port), ("store/copy", Some(80)));
        (mirror.numerator, mirror.denominator)
    };
    assert_eq!(share(json!({})), (100, 100));
    assert_eq!(share(json!({"percent": 0})), (0, 100));
    assert_eq!(share(json!({"fraction": {"numerator": 3}})), (3, 100));
    assert_eq!(share(json!({"fraction": {"numerator": 1, "denominator": 7}})), (1, 7));
}

#[test]
fn every_rule_of_a_mirror_can_be_broken() {
    let backend = json!({"name": "a", "port": 80});
    let fraction = |fraction: Value| json!({"backendRef": backend, "fraction": fraction});
    refuses_settings(
        "RequestMirror",
        "requestMirror",
        &[
            (json!({}), "backendRef", "is required"),
            (json!({"backendRef": {"port": 80}}), "backendRef.name", "is required"),
            (json!({"backendRef": {"name": "a"}}), "backendRef.port", "is required for a Service"),
            (json!({"backendRef": backend, "percent": 101}), "percent", "from 0 to 100"),
            (
                json!({"backendRef": backend, "percent": 1, "fraction": {"numerator": 1}}),
                "percent",
                "exclude each other",
            ),
            (fraction(json!({})), "fraction.numerator", "is required"),
            (fraction(json!({"numerator": 2, "denominator": 1})), "fraction.numerator", "more than the denominator"),
            (fraction(json!({"numerator": 0, "denominator": 0})), "fraction.denominator", "out of range"),
        ],
    );
    let two = json!([{"type": "RequestMirror", "requestMirror": {"backendRef": backend}},
        {"type": "RequestMirror", "requestMirror": {"backendRef": backend}}]);
    accepts(&base(), &[("/spec/rules/0/filters", two)]);
}

#[test]
fn other_origins_are_read_with_their_defaults() {
    let cors = |settings: Value| match first_filter(json!({"type": "CORS", "cors": settings})) {
        Filter::Cors(cors) => cors,
        other => panic!("{other:?}"),
    };
    let nothing = CorsFact {
        origins: vec![],
        methods: vec![],
        headers: vec![],
        exposed: vec![],
        max_age_s: 5,
        credentials: false,
    };
    assert_eq!(cors(json!({})), nothing);
    let all = cors(json!({"allowOrigins": ["https://a.com:443", "http://*.b.com:443", "http://c:80"],
        "allowMethods": ["GET", "PUT"], "allowHeaders": ["*"], "exposeHeaders": ["x-a", "*"], "maxAge": 60,
        "allowCredentials": true}));
    assert_eq!(all.origins, ["https://a.com", "http://*.b.com:443", "http://c"]);
    assert_eq!((all.methods.len(), &*all.headers[0], all.exposed.len()), (2, "*", 2));
    assert_eq!((all.max_age_s, all.credentials), (60, true));
}

#[test]
fn every_rule_of_other_origins_can_be_broken() {
    refuses_settings(
        "CORS",
        "cors",
        &[
            (json!({"allowOrigins": ["*", "https://a"]}), "allowOrigins", "alone"),
            (json!({"allowOrigins": ["a.com"]}), "allowOrigins[0]", "is not an origin"),
            (json!({"allowOrigins": ["http://a", "http://a"]}), "allowOrigins[1]", "is there twice"),
            (json!({"allowMethods": ["*", "GET"]}), "allowMethods", "alone"),
            (json!({"allowMethods": ["get"]}), "allowMethods", "use one of them"),
            (json!({"allowHeaders": ["*", "a"]}), "allowHeaders", "alone"),
            (json!({"exposeHeaders": ["a b"]}), "exposeHeaders[0]", "is not a header name"),
            (json!({"maxAge": 0}), "maxAge", "out of range"),
            (json!({"allowCredentials": "yes"}), "allowCredentials", "must be true or false"),
        ],
    );
}

#[test]
fn retries_are_read_and_every_rule_of_them_can_be_broken() {
    let read = |value: Value| route(with(base(), RETRY, value)).rules[0].retry.clone();
    assert_eq!(read(json!(null)), None);
    assert_eq!(read(json!({})), Some(RetryFact::default()));
    let all = read(json!({"codes": [503, 500, 503], "attempts": 0, "backoff": "100ms"}));
    assert_eq!(all, Some(RetryFact { codes: vec![500, 503], attempts: Some(0), backoff: Some(100) }));
    refuses(
        &base(),
        true,
        &[
            (RETRY, json!([]), "spec.rules[0].retry", "must be an object"),
            (RETRY, json!({"codes": [399]}), "spec.rules[0].retry.codes[0]", "from 400 to 599"),
            (RETRY, json!({"codes": [null]}), "spec.rules[0].retry.codes[0]", "is required"),
            (RETRY, json!({"attempts": "1"}), "spec.rules[0].retry.attempts", "must be a whole number"),
            (RETRY, json!({"backoff": "soon"}), "spec.rules[0].retry.backoff", "is no duration"),
        ],
    );
}

#[test]
fn sessions_are_read_and_every_rule_of_them_can_be_broken() {
    let read = |value: Value| route(with(base(), SESSION, value)).rules[0].session.clone();
    let cookie = |lifetime| Some(SessionFact { name: None, carrier: SessionCarrier::Cookie { lifetime } });
    assert_eq!(read(json!(null)), None);
    assert_eq!(read(json!({})), cookie(None));
    let permanent = json!({"absoluteTimeout": "1h", "cookieConfig": {"lifetimeType": "Permanent"}});
    assert_eq!(read(permanent), cookie(Some(3_600_000)));
    let header = read(json!({"type": "Header", "sessionName": "x-session"}));
    assert_eq!(header, Some(SessionFact { name: Some("x-session".into()), carrier: SessionCarrier::Header }));
    let field = |name: &str| format!("spec.rules[0].sessionPersistence.{name}");
    refuses(
        &base(),
        true,
        &[
            (SESSION, json!({"type": "Query"}), &field("type"), "use one of them"),
            (SESSION, json!({"sessionName": "x".repeat(129)}), &field("sessionName"), "128 are allowed"),
            (
                SESSION,
                json!({"cookieConfig": {"lifetimeType": "Permanent"}}),
                &field("absoluteTimeout"),
                "is required for a permanent cookie",
            ),
            (
                SESSION,
                json!({"cookieConfig": {"lifetimeType": "Short"}}),
                &field("cookieConfig.lifetimeType"),
                "use one",
            ),
            (SESSION, json!({"idleTimeout": "1"}), &field("idleTimeout"), "is no duration"),
        ],
    );
    // What is not kept is said, and the session is kept all the same.
    for name in ["idleTimeout", "absoluteTimeout"] {
        let facts = facts(with(base(), SESSION, json!({name: "1h"})));
        assert_eq!(rows(&facts).iter().map(|row| row.field.to_string()).collect::<Vec<_>>(), [field(name)]);
    }
}
