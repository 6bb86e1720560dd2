use super::*;
use crate::fixture::{object, rows};
use crate::{Moment, normalize};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

fn certificate(name: &str) -> String {
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

fn config_map(field: &str, entries: Value) -> Normalized {
    let mut body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "shop"}});
    body[field] = entries;
    normalize(&object(body), &Moment::default())
}

fn read(normalized: &Normalized) -> Result<Name, Name> {
    match &normalized.facts[0] {
        Fact::Bundle(bundle) => bundle.authorities.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn certificates_are_taken_and_nothing_else_each_once() {
    let (one, two) = (certificate("one"), certificate("two"));
    let key = KeyPair::generate().unwrap().serialize_pem();
    let written = format!("# two of them\r\n{}{key}{two}{one}", one.replace('\n', "\r\n"));
    let found = config_map("data", json!({"ca.crt": written}));
    let canonical = format!("{}{}", one.replace("\r\n", "\n"), two.replace("\r\n", "\n"));
    assert_eq!(read(&found), Ok(canonical.into()));
    let [ending] = &found.endings[..] else { panic!("{:?}", found.endings) };
    assert_eq!((rows(&found.facts), &ending.ends), (vec![], &vec![]), "it is used all the same");
    assert_eq!(rows(&ending.after)[0].reason, Reason::CertificateExpired);
    let binary = config_map("binaryData", json!({"ca.crt": BASE64_STANDARD.encode(&one)}));
    assert!(read(&binary).is_ok_and(|pem| pem.contains(&one.replace("\r\n", "\n")[..40])));
}

#[test]
fn what_holds_no_certificate_says_why() {
    let about_something_else = config_map("data", json!({}));
    assert!(read(&about_something_else).unwrap_err().contains("no entry ca.crt"));
    assert_eq!(rows(&about_something_else.facts), vec![], "nobody said that it should");
    let whole = certificate("one");
    for (text, problem) in [
        ("".to_owned(), "holds no certificate"),
        (KeyPair::generate().unwrap().serialize_pem(), "holds no certificate"),
        (whole[..whole.len() / 2].to_owned(), "is not whole PEM"),
        (whole.replacen("MII", "%%%", 1), "is not whole PEM"),
        (format!("{whole}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "number 2"),
    ] {
        let found = config_map("data", json!({"ca.crt": text}));
        let message = read(&found).unwrap_err();
        assert!(message.contains(problem) && message.contains(';'), "{message}");
        assert_eq!(rows(&found.facts)[0].reason, Reason::InvalidCACertificateRef);
    }
}
