use super::*;
use rcgen::{
    CertificateParams, CustomExtension, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
};

/// A self-signed pair for these names, in PEM.
fn pair(names: &[&str]) -> (String, String) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    (self_signed(names, &key), key.serialize_pem())
}

fn self_signed(names: &[&str], key: &KeyPair) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    CertificateParams::new(names).unwrap().self_signed(key).unwrap().pem()
}

fn of(chain: &str, key: &str) -> (Verdict, Option<Material>) {
    let entry = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
    judge(&BTreeMap::from([entry(CERTIFICATE_ENTRY, chain), entry(KEY_ENTRY, key)]))
}

fn good(chain: &str, key: &str) -> (Certificate, Material) {
    match of(chain, key) {
        (Verdict::Certificate(certificate), Some(material)) => (certificate, material),
        other => panic!("{other:?}"),
    }
}

fn problem(chain: &str, key: &str) -> String {
    match of(chain, key) {
        (Verdict::Problem(problem), None) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pair_is_judged_by_its_names_and_its_end() {
    let (chain, key) = pair(&["Shop.Example", "*.shop.example"]);
    let (certificate, material) = good(&chain, &key);
    assert_eq!(certificate.names, ["*.shop.example", "shop.example"]);
    assert!(certificate.not_after > 4_000_000_000, "rcgen's default is far away");
    assert_eq!((certificate.digest.len(), &certificate.digest), (64, &material.digest));
}

#[test]
fn odd_pem_of_one_pair_has_one_digest_and_is_sent_in_one_form() {
    let (chain, key) = pair(&["a.example"]);
    let plain = good(&chain, &key);
    let crlf = chain.replace('\n', "\r\n");
    let chatty = format!("subject=CN = a.example\n\n{chain}\nsome text after it");
    for chain in [chain.trim_end(), &crlf, &chatty] {
        assert_eq!(good(chain, key.trim_end()), plain);
    }
    let chain = String::from_utf8(plain.1.chain.to_vec()).unwrap();
    assert!(chain.starts_with("-----BEGIN CERTIFICATE-----\n") && chain.ends_with("-----END CERTIFICATE-----\n"));
    assert!(chain.lines().all(|line| line.len() <= 64));
    assert_eq!(good(&chain, std::str::from_utf8(&plain.1.key).unwrap()), plain);
}

#[test]
fn a_chain_stays_in_order() {
    let (leaf, key) = pair(&["a.example"]);
    let (other, _) = pair(&["ca.example"]);
    let (_, material) = good(&format!("{leaf}{other}"), &key);
    assert_eq!(std::str::from_utf8(&material.chain).unwrap().matches("BEGIN").count(), 2);
    assert!(problem(&format!("{other}{leaf}"), &key).contains("not that of the first certificate"));
}

#[test]
fn every_way_to_be_wrong_is_told_without_a_byte_of_the_material() {
    let (chain, key) = pair(&["a.example"]);
    let (other, other_key) = pair(&["b.example"]);
    let body: String = chain.lines().filter(|line| !line.starts_with('-')).collect();
    let garbage = chain.replacen("MII", "!!!", 1);
    let no_der = pem("CERTIFICATE", b"not a certificate");
    let encrypted = pem("ENCRYPTED PRIVATE KEY", b"who knows");
    for (chain, key, expected) in [
        (&*chain, &*other_key, "is not that of the first certificate"),
        (&*other, &*key, "is not that of the first certificate"),
        ("", &*key, "tls.crt holds no certificate"),
        (&*body, &*key, "tls.crt holds no certificate"),
        (&*key, &*key, "tls.crt holds no certificate"),
        (&*garbage, &*key, "tls.crt is not whole PEM"),
        (&chain[..chain.len() / 2], &*key, "tls.crt is not whole PEM"),
        (&*format!("{chain}{no_der}"), &*key, "certificate 2 of tls.crt cannot be decoded"),
        (&*chain, "", "tls.key holds no private key"),
        (&*chain, &*chain, "tls.key holds no private key"),
        (&*chain, &*encrypted, "tls.key is encrypted"),
        (&*chain, &*format!("{key}{other_key}"), "tls.key holds 2 keys"),
        (&*chain, &*pem("PRIVATE KEY", b"not a key"), "tls.key holds a key that is not supported"),
    ] {
        let problem = problem(chain, key);
        assert!(problem.contains(expected), "{problem:?} should contain {expected:?}");
        for line in chain.lines().chain(key.lines()).filter(|line| line.len() > 20 && !line.starts_with('-')) {
            assert!(!problem.contains(line), "{problem:?} shows {line:?}");
        }
    }
}

#[test]
fn a_secret_without_an_entry_is_told_what_it_lacks() {
    let nothing = BTreeMap::new();
    assert!(matches!(judge(&nothing), (Verdict::Problem(p), None) if p.contains("has no tls.crt")));
}

#[test]
fn every_kind_of_key_that_can_be_compared_is_one_that_envoy_takes() {
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        good(&self_signed(&["a.example"], &key), &key.serialize_pem());
    }
}

#[test]
fn a_certificate_that_demands_stapling_is_refused() {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    let status_request = vec![0x30, 0x03, 0x02, 0x01, 0x05];
    let staple = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], status_request);
    params.custom_extensions.push(staple);
    let chain = params.self_signed(&key).unwrap().pem();
    assert!(problem(&chain, &key.serialize_pem()).contains("demands OCSP stapling"));
}
