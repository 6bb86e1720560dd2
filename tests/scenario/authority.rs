//! CA certificates that a scenario asks for, made on the spot like those that they sign.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use testkit::tls::Authority;

/// The authorities of a scenario by name, each made when it is first named.
#[derive(Default)]
pub(super) struct Authorities(BTreeMap<String, Authority>);

impl Authorities {
    pub(super) fn named(&mut self, name: &str) -> &Authority {
        self.0.entry(name.to_owned()).or_default()
    }
}

/// A document that stands for a ConfigMap.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// `namespace/name` of the ConfigMap.
    bundle: String,
    /// The authorities whose certificates are in it.
    of: Vec<String>,
    #[serde(default)]
    form: Form,
}

/// How its text is written.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    /// As tools write it.
    #[default]
    Plain,
    /// With text around it and the line ends of another system.
    Chatty,
    /// Cut off in the middle.
    CutOff,
    /// Without any content.
    Empty,
}

/// The ConfigMap that the document stands for.
pub(super) fn make(document: &Value, authorities: &mut Authorities) -> Value {
    let wish = match document["authority"].as_str() {
        Some(name) => {
            authorities.0.insert(name.to_owned(), Authority::new());
            Ok(Wish { bundle: name.to_owned(), of: vec![name.to_owned()], form: Form::Plain })
        }
        None => serde_json::from_value(document.clone()),
    };
    let wish: Wish = wish.unwrap_or_else(|error| panic!("{document}: {error}"));
    let mut text: String = wish.of.iter().map(|name| authorities.named(name).certificate.clone()).collect();
    match wish.form {
        Form::Plain => {}
        Form::Chatty => text = format!("# whom we trust\n{text}# and nobody else\n").replace('\n', "\r\n"),
        Form::CutOff => text.truncate(text.len() / 2),
        Form::Empty => text.clear(),
    }
    let (namespace, name) = wish.bundle.split_once('/').expect("a ConfigMap is namespace/name");
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": namespace, "name": name },
        "data": { "ca.crt": text },
    })
}
