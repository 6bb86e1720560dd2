use super::*;
use crate::fixture::{object, rows};
use crate::{Moment, normalize};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
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
    assert_eq!(ending.ends, vec![], "it is used all the same");
    let said = rows(&found.facts);
    assert!(said.len() == 1 && said[0].message.contains("holds a private key"), "{said:?}");
    assert_eq!(rows(&ending.after)[0].reason, Reason::CertificateExpired);
    let (text, mark) = (format!("{one}{two}"), format!("{one}{BUNDLE_KEY_MARK}\n"));
    assert_eq!(rows(&config_map("data", json!({"ca.crt": text})).facts), vec![]);
    assert_eq!(rows(&config_map("data", json!({"ca.crt": mark})).facts), said);
    let binary = config_map("binaryData", json!({"ca.crt": BASE64_STANDARD.encode(&one)}));
    assert!(read(&binary).is_ok_and(|pem| pem.contains(&one.replace("\r\n", "\n")[..40])));
}

#[test]
fn a_certificate_that_is_no_authoritys_is_used_and_said() {
    let (key, leaf_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "an authority");
    let authority = params.self_signed(&key).unwrap().pem();
    let leaf = CertificateParams::new(vec!["leaf.example".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&leaf_key, &Issuer::new(params, key)).unwrap().pem();
    let found = config_map("data", json!({"ca.crt": format!("{authority}{leaf}")}));
    assert!(read(&found).is_ok());
    let said = rows(&found.facts);
    assert!(said.len() == 1 && said[0].message.starts_with("certificate number 2 is that of no CA"), "{said:?}");
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
