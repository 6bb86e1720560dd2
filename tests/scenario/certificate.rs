//! Certificates that a scenario asks for, made on the spot: keys do not belong into a source tree.

use super::authority::Authorities;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::tls::Pair;

/// A document that stands for a Secret.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// `namespace/name` of the Secret.
    certificate: String,
    /// DNS names of the certificate, and URIs if an authority signs it.
    names: Vec<String>,
    /// The authority that signs it; itself if none.
    by: Option<String>,
    #[serde(default)]
    form: Form,
}

/// How its texts are written.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    /// As tools write it.
    #[default]
    Plain,
    /// With the line ends of another system.
    Crlf,
    /// Without an end of the last line.
    Unended,
    /// With text before and after it.
    Chatty,
    /// With another certificate behind it, as a chain has it.
    Chain,
    /// With a block behind it that is no certificate.
    GarbageInChain,
    /// With the key of another certificate.
    OtherKey,
    /// Cut off in the middle.
    CutOff,
    /// Without any content.
    Empty,
}

/// The Secret that the document stands for, and the certificate with its key.
pub(super) fn make(document: &Value, authorities: &mut Authorities) -> (Value, Pair) {
    let wish: Wish = serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{document}: {error}"));
    let names: Vec<&str> = wish.names.iter().map(String::as_str).collect();
    let pair = match &wish.by {
        Some(by) => authorities.named(by).sign(&names),
        None => Pair::new(&names),
    };
    let made = pair.clone();
    let other = Pair::new(&["other.example"]);
    let (mut certificate, mut key) = (pair.certificate.clone(), pair.key.clone());
    match wish.form {
        Form::Plain => {}
        Form::Crlf => (certificate, key) = (certificate.replace('\n', "\r\n"), key.replace('\n', "\r\n")),
        Form::Unended => (certificate, key) = (certificate.trim_end().to_owned(), key.trim_end().to_owned()),
        Form::Chatty => certificate = format!("subject: something\n{certificate}and that was it\n"),
        Form::Chain => certificate.push_str(&other.certificate),
        Form::GarbageInChain => {
            certificate.push_str("-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n");
        }
        Form::OtherKey => key = other.key,
        Form::CutOff => certificate.truncate(certificate.len() / 2),
        Form::Empty => (certificate, key) = (String::new(), String::new()),
    }
    let (namespace, name) = wish.certificate.split_once('/').expect("a Secret is namespace/name");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": namespace, "name": name },
        "type": "kubernetes.io/tls", "stringData": { "tls.crt": certificate, "tls.key": key },
    });
    (secret, made)
}
