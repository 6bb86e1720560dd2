//! The documents of one file: YAML or JSON text to objects, each with the line it begins at.
//!
//! JSON goes through the YAML parser too, of which it is a subset: one way, with positions, limits and the refusal of
//! duplicate fields. Parser errors never quote the file, which may be a link to something that is none of ours.

use crate::config_map::keep_bundle;
use crate::secret::{Refusal, take_material};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{Spanned, UserMessageFormatter};
use std::fmt;
use tidegate_log::Object;
use tidegate_model::{Kind, plain};
use tidegate_vault::Material;

/// The largest file that is read, in bytes: ten of the largest objects an API server would take.
pub const FILE_MAX: usize = 16 << 20;

/// How deep fields may be nested. Objects stay below 30, CRDs below 60, and what is taken must fit a log line, whose
/// reader stops at 128.
const DEPTH_MAX: usize = 100;

/// Nodes of one document: a list of 10,000 routes of 100 fields each, twice.
const NODES_MAX: usize = 2_000_000;

/// How much aliases may add to a document, in parser events. Nobody writes hundreds of aliases by hand, and nine
/// levels of nine would be 400 million.
const ALIASED_MAX: usize = 100_000;

/// Documents of one file.
const DOCUMENTS_MAX: usize = 100_000;

/// The longest name of a kind or version that a message shows, in characters.
const NAME_MAX: usize = 80;

/// The longest message of the parser that is shown, in characters: some hold a field's name.
const MESSAGE_MAX: usize = 300;

/// The group whose kinds are all known: another one there is a slip of the pen, and to take it for a kind that is
/// merely not read would remove the object that it was.
const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// The kinds of that group, read or not.
const GATEWAY_API_KINDS: [&str; 10] = [
    "GatewayClass",
    "Gateway",
    "ListenerSet",
    "HTTPRoute",
    "GRPCRoute",
    "TLSRoute",
    "TCPRoute",
    "UDPRoute",
    "BackendTLSPolicy",
    "ReferenceGrant",
];

/// What stands in a file.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The objects of kinds that are read, in order.
    pub objects: Vec<Located>,
    /// What is wrong. Not empty: the file is not whole.
    pub mistakes: Vec<Mistake>,
    /// Kinds that are not read, as `apiVersion kind`.
    pub unknown: Vec<String>,
}

/// An object and where it begins.
#[derive(Debug)]
pub struct Located {
    /// The object, without `metadata.generation`.
    pub object: Object,
    /// What was taken out of it, if it is a Secret that holds a certificate.
    pub material: Option<Material>,
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
}

/// Something wrong in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1; 0 if unknown.
    pub line: u64,
    /// Column in characters, from 1; 0 if unknown.
    pub column: u64,
    /// The field, if it is about one.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// Reads a file. Cannot fail: what cannot be read is a mistake.
#[must_use]
pub fn parse(contents: &[u8]) -> Parsed {
    let mut parsed = Parsed::default();
    if let Err(error) = std::str::from_utf8(contents)
        && !contents.starts_with(&[0xff, 0xfe])
        && !contents.starts_with(&[0xfe, 0xff])
    {
        let before = &contents[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let message = "not UTF-8 text".to_owned();
        parsed.mistakes.push(Mistake { line, column: 1, field: String::new(), message });
        return parsed;
    }
    let mut reader = contents;
    for document in serde_saphyr::read_with_options::<_, Spanned<Body>>(&mut reader, options()) {
        match document {
            Ok(document) => expand(document, &mut parsed),
            Err(error) => parsed.mistakes.push(syntax(&error)),
        }
    }
    parsed
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(FILE_MAX),
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 2 * NODES_MAX,
            max_aliases: 10_000,
            max_documents: DOCUMENTS_MAX,
            max_total_scalar_bytes: 2 * FILE_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASED_MAX,
        },
        with_snippet: false,
    }
}

fn syntax(error: &serde_saphyr::Error) -> Mistake {
    let rendered = match error.without_snippet() {
        // Its text says no more than that; the cause is a text that cannot be decoded, or the bound on a file.
        serde_saphyr::Error::IOError { cause } => format!("the text cannot be read: {cause}"),
        error => error.render_with_formatter(&UserMessageFormatter),
    };
    let message = shown(rendered.split(" at line ").next().unwrap_or(&rendered), MESSAGE_MAX);
    let (line, column) = error.location().map_or((0, 0), |location| (location.line(), location.column()));
    Mistake { line, column, field: String::new(), message }
}

/// A text of the file as it stands in a message: on one line, and no longer than `max` characters.
fn shown(text: &str, max: usize) -> String {
    let cut = text.char_indices().nth(max).map_or(text.len(), |(end, _)| end);
    let dots = if cut < text.len() { "..." } else { "" };
    format!("{}{dots}", plain(&text[..cut]))
}

/// A document, with the positions of list items kept.
enum Body {
    Fields(Map<String, Value>, Option<Items>),
    Other,
}

/// The value of the field `items`.
enum Items {
    List(Vec<Spanned<Value>>),
    Other(Value),
}

fn expand(document: Spanned<Body>, parsed: &mut Parsed) {
    let (line, column) = (document.referenced.line(), document.referenced.column());
    let mistake =
        |field: &str, message: &str| Mistake { line, column, field: field.to_owned(), message: message.to_owned() };
    let (mut fields, items) = match document.value {
        Body::Fields(fields, items) => (fields, items),
        Body::Other => {
            parsed.mistakes.push(mistake(
                "",
                "a document that is not an object with apiVersion, kind and metadata; write one, or remove it",
            ));
            return;
        }
    };
    let of = fields.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    match (of, items) {
        (Some(of), Some(Items::List(items))) => {
            let api_version = fields.get("apiVersion").cloned();
            for (index, item) in items.into_iter().enumerate() {
                let (line, column) = (item.referenced.line(), item.referenced.column());
                let value = with_type(item.value, &of, api_version.as_ref());
                take(value, line, column, &format!("items[{index}]"), parsed);
            }
        }
        (Some(of), None | Some(Items::Other(Value::Null))) if of.is_empty() => {}
        (Some(of), Some(Items::Other(_))) if of.is_empty() => {
            parsed.mistakes.push(mistake("items", "items of a List is not a list"));
        }
        (_, items) => {
            match items {
                Some(Items::List(list)) => {
                    let list = list.into_iter().map(|item| item.value).collect();
                    fields.insert("items".to_owned(), Value::Array(list));
                }
                Some(Items::Other(value)) => drop(fields.insert("items".to_owned(), value)),
                None => {}
            }
            take(Value::Object(fields), line, column, "", parsed);
        }
    }
}

/// Items of a typed list (`kind: ServiceList`), as the API returns them, do not repeat what they are.
fn with_type(mut item: Value, of: &str, api_version: Option<&Value>) -> Value {
    if let Some(fields) = item.as_object_mut()
        && !of.is_empty()
        && !fields.contains_key("kind")
    {
        fields.insert("kind".to_owned(), Value::from(of));
        if let Some(api_version) = api_version {
            fields.entry("apiVersion").or_insert_with(|| api_version.clone());
        }
    }
    item
}

/// Takes one object. `within` is the list item that it stands in, empty for a document of its own.
fn take(mut body: Value, line: u64, column: u64, within: &str, parsed: &mut Parsed) {
    let mistake = |field: &str, message: String| {
        let dot = if within.is_empty() || field.is_empty() { "" } else { "." };
        Mistake { line, column, field: format!("{within}{dot}{field}"), message }
    };
    let kind = match known_kind(&body) {
        Ok(Ok(kind)) => kind,
        Ok(Err(unknown)) => return parsed.unknown.push(unknown),
        Err(Misnamed { field, message, meant }) => {
            let name = body.pointer("/metadata/name").and_then(Value::as_str);
            let name = name.map(|name| format!("{}: ", shown(name, NAME_MAX))).unwrap_or_default();
            parsed.mistakes.push(mistake(field, format!("{name}{message}")));
            // What it guards must not be open for a slip of the pen.
            let Some(kind) = meant.filter(|kind| kind.guards()) else { return };
            rename(&mut body, kind);
            kind
        }
    };
    complete(&mut body, kind);
    let refused = |kind: Kind, body: &Value, Refusal { field, message }: &Refusal| {
        let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("without a name");
        mistake(field, format!("{kind} {}: {field} {message}", shown(name, NAME_MAX)))
    };
    let material = match kind {
        Kind::Secret => match take_material(&mut body) {
            Ok(material) => material,
            Err(refusal) => return parsed.mistakes.push(refused(kind, &body, &refusal)),
        },
        Kind::ConfigMap => match keep_bundle(&mut body) {
            Ok(()) => None,
            Err(refusal) => return parsed.mistakes.push(refused(kind, &body, &refusal)),
        },
        _ => None,
    };
    match Object::new(body) {
        Ok(object) => parsed.objects.push(Located { object, material, line, column }),
        Err(message) => {
            // Its texts begin with the field.
            let field = message.split(' ').next().unwrap_or_default().to_owned();
            let advice = if message.ends_with("is missing") { "; add it" } else { "" };
            parsed.mistakes.push(mistake(&field, format!("{kind}: {message}{advice}")));
        }
    }
}

/// An object that does not say what it is in words that are known.
struct Misnamed {
    /// The field at fault.
    field: &'static str,
    message: String,
    /// What it most likely is.
    meant: Option<Kind>,
}

impl Misnamed {
    fn new(field: &'static str, message: impl Into<String>) -> Self {
        Misnamed { field, message: message.into(), meant: None }
    }
}

/// Makes an object say that it is of this kind.
fn rename(body: &mut Value, kind: Kind) {
    let version = kind.versions()[0];
    let slash = if kind.group().is_empty() { "" } else { "/" };
    body["apiVersion"] = format!("{}{slash}{version}", kind.group()).into();
    body["kind"] = kind.as_str().into();
}

/// The kind; within it, what it says of itself if that is a kind that is not read.
fn known_kind(body: &Value) -> Result<Result<Kind, String>, Misnamed> {
    if !body.is_object() {
        return Err(Misnamed::new("", "not an object with apiVersion, kind and metadata; write one, or remove it"));
    }
    let text = |field: &'static str| match body.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
        None | Some(Value::Null) => Err(Misnamed::new(field, format!("{field} is missing; add it"))),
        Some(_) => Err(Misnamed::new(field, format!("{field} is not a text; put it in quotes"))),
    };
    let (kind, api_version) = (text("kind")?, text("apiVersion")?);
    if let Some(known) = Kind::of(api_version, kind) {
        return Ok(Ok(known));
    }
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let (shown_version, shown_kind) = (shown(api_version, NAME_MAX), shown(kind, NAME_MAX));
    let near = Kind::ALL.into_iter().find(|k| k.as_str().eq_ignore_ascii_case(kind) && k.group() == group);
    if let Some(near) = near {
        if near.as_str() != kind {
            let message = format!("there is no kind {shown_kind}; write kind: {near}");
            return Err(Misnamed { field: "kind", message, meant: Some(near) });
        }
        let slash = if group.is_empty() { "" } else { "/" };
        let read: Vec<String> = near.versions().iter().map(|version| format!("{group}{slash}{version}")).collect();
        let message = format!("{kind} of {shown_version} is not read; write apiVersion: {}", read.join(" or "));
        return Err(Misnamed { field: "apiVersion", message, meant: Some(near) });
    }
    if group == GATEWAY_API && !GATEWAY_API_KINDS.contains(&kind) && !kind.ends_with("List") {
        let kinds = GATEWAY_API_KINDS.join(", ");
        return Err(Misnamed::new("kind", format!("{group} has no kind {shown_kind}; correct it to one of {kinds}")));
    }
    if kind == "List" {
        return Err(Misnamed::new("kind", "a List within a List is not read; put its items into the outer one"));
    }
    Ok(Err(format!("{shown_version} {shown_kind}")))
}

/// What an API server would have filled in or dropped.
fn complete(body: &mut Value, kind: Kind) {
    let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    // Counted here, as an API server counts it, whatever was exported with the object.
    metadata.remove("generation");
    if kind.is_cluster_scoped() {
        metadata.remove("namespace");
    } else if metadata.get("namespace").is_none_or(Value::is_null) {
        metadata.insert("namespace".to_owned(), Value::from("default"));
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
        let (mut fields, mut items) = (Map::new(), None);
        while let Some(name) = map.next_key::<String>()? {
            if name == "items" {
                items = Some(map.next_value()?);
            } else {
                fields.insert(name, map.next_value()?);
            }
        }
        Ok(Body::Fields(fields, items))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Body, A::Error> {
        while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(Body::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Body, E> {
        Ok(Body::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Body, E> {
        Ok(Body::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Body, E> {
        Ok(Body::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Body, E> {
        Ok(Body::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Body, E> {
        Ok(Body::Other)
    }

    fn visit_unit<E>(self) -> Result<Body, E> {
        Ok(Body::Other)
    }
}

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemsVisitor)
    }
}

struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Items;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Items, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Items::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Items, A::Error> {
        Value::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(Items::Other)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Items, E> {
        Ok(Items::Other(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Items, E> {
        Ok(Items::Other(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Items, E> {
        Ok(Items::Other(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Items, E> {
        Ok(Items::Other(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Items, E> {
        Ok(Items::Other(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Items, E> {
        Ok(Items::Other(Value::Null))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<(u64, String, String)> {
        parse(text.as_bytes()).mistakes.into_iter().map(|m| (m.line, m.field, m.message)).collect()
    }

    fn keys(text: &str) -> Vec<(String, u64)> {
        let parsed = parse(text.as_bytes());
        assert_eq!(parsed.mistakes, []);
        parsed.objects.iter().map(|located| (located.object.key.to_string(), located.line)).collect()
    }

    const CART: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: cart, namespace: shop}\n";

    #[test]
    fn documents_are_found_with_their_lines() {
        let text = format!(
            "# a comment\n{CART}---\n---\n# nothing\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n"
        );
        assert_eq!(keys(&text), [("Service shop/cart".into(), 2), ("Namespace shop".into(), 9)]);
    }

    #[test]
    fn lists_are_expanded_item_by_item() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: b}\n";
        assert_eq!(keys(text), [("Service default/a".into(), 4), ("Namespace b".into(), 7)]);
        assert_eq!(
            keys("apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: a}\n"),
            [("Service default/a".into(), 4)]
        );
        assert_eq!(keys("apiVersion: v1\nkind: List\nitems: []\n---\napiVersion: v1\nkind: List\n"), []);
    }

    #[test]
    fn json_is_read_even_without_spaces_and_on_one_long_line() {
        let item = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"n","namespace":"shop","annotations":{"text":"\ud83d\ude00\/\u00fc\t"}},"spec":{"ports":[{"port":80},{"port":8.1e1}]}}"#;
        let items: Vec<String> = (0..200).map(|n| item.replace("\"n\"", &format!("\"n{n}\""))).collect();
        let text = format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{}]}}", items.join(","));
        let parsed = parse(text.as_bytes());
        assert_eq!(parsed.mistakes, []);
        assert_eq!(parsed.objects.len(), 200);
        let body: Value = serde_json::from_str(&items[7]).unwrap();
        assert_eq!(*parsed.objects[7].object.body, body);
        let pretty = serde_json::to_string_pretty(&body).unwrap().replace("  ", "\t");
        assert_eq!(*parse(pretty.as_bytes()).objects[0].object.body, body);
    }

    #[test]
    fn the_namespace_is_filled_in_and_the_generation_is_not_believed() {
        let text = "apiVersion: v1\nkind: Service\nmetadata: {name: a, generation: 7}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b, namespace: c}\n";
        let parsed = parse(text.as_bytes());
        assert_eq!(parsed.objects[0].object.body["metadata"], serde_json::json!({"name": "a", "namespace": "default"}));
        assert_eq!(parsed.objects[1].object.body["metadata"], serde_json::json!({"name": "b"}));
    }

    #[test]
    fn a_mistake_names_its_line_and_field() {
        for (text, line, field, part) in [
            ("a: [1,2\n", 1, "", "unclosed"),
            ("ok: 1\nkind: \"x\n", 2, "", "unclosed"),
            ("\na:\n\t- b\n", 3, "", "tab"),
            ("a: 1\na: 2\n", 2, "", "duplicate"),
            ("just text\n", 1, "", "not an object"),
            ("- a\n- b\n", 1, "", "not an object"),
            ("17\n", 1, "", "not an object"),
            ("spec: {}\n", 1, "kind", "kind is missing"),
            ("# x\nkind: Service\n", 2, "apiVersion", "apiVersion is missing"),
            ("apiVersion: 1\nkind: Service\n", 1, "apiVersion", "apiVersion is not a text"),
            ("apiVersion: v1\nkind: Service\n", 1, "metadata.name", "Service: metadata.name is missing"),
            ("apiVersion: v1\nkind: Service\nmetadata: {name: 7}\n", 1, "metadata.name", "quotes"),
            ("apiVersion: v1\nkind: Service\nmetadata: {name: A}\n", 1, "metadata.name", "is not a name"),
            ("apiVersion: v1\nkind: List\nitems: {}\n", 1, "items", "not a list"),
            ("apiVersion: v1\nkind: List\nitems:\n- kind: Service\n", 4, "items[0].apiVersion", "missing"),
            ("apiVersion: v1\nkind: List\nitems:\n- 7\n", 4, "items[0]", "not an object"),
            ("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List}\n", 4, "items[0].kind", "within"),
            (
                "apiVersion: gateway.networking.k8s.io/v1alpha2\nkind: HTTPRoute\n",
                1,
                "apiVersion",
                "write apiVersion: gateway.networking.k8s.io/v1 or gateway.networking.k8s.io/v1beta1",
            ),
            ("apiVersion: v2\nkind: Service\n", 1, "apiVersion", "write apiVersion: v1"),
            ("apiVersion: gateway.networking.k8s.io/v1\nkind: HttpRoute\n", 1, "kind", "write kind: HTTPRoute"),
        ] {
            let found = mistakes(text);
            assert_eq!(found.len(), 1, "{text:?}: {found:?}");
            assert_eq!((found[0].0, found[0].1.as_str()), (line, field), "{text:?}: {found:?}");
            assert!(found[0].2.contains(part), "{text:?}: {found:?} should contain {part:?}");
            assert!(!found[0].2.contains("at line"), "{found:?}");
            assert!(!found[0].2.contains("Policy"), "{found:?}");
        }
    }

    #[test]
    fn what_a_message_shows_of_the_file_is_short_and_on_one_line() {
        let long = "x".repeat(70_000);
        for text in [
            format!("apiVersion: {long}\nkind: Service\n---\napiVersion: {long}/v1\nkind: {long}\n"),
            format!("apiVersion: gateway.networking.k8s.io/v1\nkind: {long}\n---\n{long}: 1\n{long}: 2\n"),
            "apiVersion: \"v1\\n\\0\"\nkind: Service\n---\napiVersion: \"a/v1\\n\\0\"\nkind: \"a\\nb\"\n".to_owned(),
        ] {
            let parsed = parse(text.as_bytes());
            let said = parsed.mistakes.into_iter().map(|mistake| mistake.message).chain(parsed.unknown);
            for text in said {
                assert!(text.len() < 600 && !text.contains(char::is_control), "{text:?}");
            }
        }
    }

    #[test]
    fn a_text_that_cannot_be_decoded_is_named_as_such() {
        // The mark of UTF-16 and nothing behind it.
        let found = parse(b"\xff\xfe").mistakes;
        assert_eq!(found.len(), 1);
        assert!(found[0].message.starts_with("the text cannot be read: "), "{found:?}");
    }

    #[test]
    fn one_bad_document_hides_no_other() {
        let parsed = parse(format!("kind: Service\n---\n{CART}---\nspec: {{}}\n").as_bytes());
        assert_eq!(parsed.objects.len(), 1);
        assert_eq!(parsed.mistakes.len(), 2);
        let cut_off = parse(format!("{CART}---\nspec: [\n").as_bytes());
        assert_eq!((cut_off.objects.len(), cut_off.mistakes.len()), (1, 1));
    }

    #[test]
    fn other_kinds_are_told_apart_from_mistakes() {
        let parsed =
            parse(b"apiVersion: apps/v1\nkind: Deployment\n---\napiVersion: serving.knative.dev/v1\nkind: Service\n");
        assert_eq!(parsed.mistakes, []);
        assert_eq!(parsed.unknown, ["apps/v1 Deployment", "serving.knative.dev/v1 Service"]);
        let parsed = parse(b"apiVersion: gateway.networking.k8s.io/v1\nkind: Gatewy\n");
        assert_eq!(parsed.mistakes.len(), 1);
        assert_eq!((parsed.mistakes[0].line, parsed.mistakes[0].field.as_str()), (1, "kind"));
        assert!(parsed.mistakes[0].message.contains("has no kind Gatewy"), "{:?}", parsed.mistakes[0]);
    }

    #[test]
    fn bombs_are_defused() {
        let mut laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for pair in "abcdefgh".as_bytes().windows(2) {
            let (of, name) = (char::from(pair[0]), char::from(pair[1]));
            laughs += &format!("{name}: &{name} [{}]\n", vec![format!("*{of}"); 9].join(","));
        }
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 1000].join(","));
        let deep = "a: {b: ".to_owned() + &"{a: ".repeat(200);
        let deeper = "[".repeat(1 << 20);
        let block: String = (0..2000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        for bomb in [laughs, long, deep, deeper, block] {
            let found = mistakes(&bomb);
            assert_eq!(found.len(), 1, "{found:?}");
        }
    }

    #[test]
    fn what_is_nested_deeper_than_a_log_can_hold_is_refused() {
        for depth in 90..140 {
            let text = format!("{CART}spec: {}{}\n", "[".repeat(depth), "]".repeat(depth));
            for located in parse(text.as_bytes()).objects {
                let line = serde_json::to_string(&tidegate_log::Event::Apply(located.object)).unwrap();
                serde_json::from_str::<tidegate_log::Event>(&line).unwrap();
            }
        }
    }

    #[test]
    fn text_in_another_encoding_is_named() {
        assert_eq!(mistakes("").len(), 0);
        let parsed = parse(b"a: 1\nb: \xff\n");
        assert_eq!((parsed.mistakes[0].line, parsed.mistakes[0].message.as_str()), (2, "not UTF-8 text"));
        let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain(CART.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(parse(&utf16).objects.len(), 1);
    }
}
