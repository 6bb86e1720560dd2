//! One Secret: from its entries to a verdict and, if that is good, to material.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tidegate_model::Name;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The type of a Secret that holds a certificate and its key.
pub const TLS_TYPE: &str = "kubernetes.io/tls";

/// The entry that holds the certificate chain, leaf first.
pub const CERTIFICATE_ENTRY: &str = "tls.crt";

/// The entry that holds the private key.
pub const KEY_ENTRY: &str = "tls.key";

/// Certificates of one chain. Nobody's clients follow longer ones.
const CHAIN_MAX: usize = 16;

/// What a digest is a digest of, so that it equals no hash made elsewhere.
const CONTEXT: &str = "tidegate 2026-11-30 certificate chain and key";

/// `TLSFeature` (RFC 7633): with it in a certificate, Envoy demands a stapled OCSP response, which nobody gives it here.
const TLS_FEATURE: &str = "1.3.6.1.5.5.7.1.24";

/// What there is to say about a Secret's material without showing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// A certificate with its key, which can be served.
    Certificate(Certificate),
    /// Why it cannot be served, and what to do.
    Problem(String),
}

/// What may be known of a certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Digest of chain and key.
    pub digest: Name,
    /// DNS names that the certificate is for, in lower case, sorted.
    pub names: Vec<String>,
    /// End of its validity, in seconds since the Unix epoch.
    pub not_after: i64,
}

/// A certificate chain and its key, as they are sent. Shows nothing of itself but its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    /// Digest of both: see [`Certificate::digest`].
    pub digest: Name,
    /// The chain in PEM, leaf first, encoded anew.
    pub chain: Bytes,
    /// The key in PEM, encoded anew.
    pub key: Bytes,
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Material({})", self.digest)
    }
}

/// Judges the entries of a Secret of the type [`TLS_TYPE`].
#[must_use]
pub fn judge(entries: &BTreeMap<String, Vec<u8>>) -> (Verdict, Option<Material>) {
    match certificate(entries) {
        Ok((certificate, material)) => (Verdict::Certificate(certificate), Some(material)),
        Err(problem) => (Verdict::Problem(problem), None),
    }
}

fn certificate(entries: &BTreeMap<String, Vec<u8>>) -> Result<(Certificate, Material), String> {
    let entry = |name: &str| entries.get(name).ok_or_else(|| format!("has no {name}; add it"));
    let chain = chain(entry(CERTIFICATE_ENTRY)?)?;
    let key = key(entry(KEY_ENTRY)?)?;
    let leaf = x509(&chain[0], 0)?;
    let signing = any_supported_type(&key).map_err(|_| {
        format!(
            "{KEY_ENTRY} holds a key that is not supported; use RSA of 2048 to 4096 bits, ECDSA P-256 or \
             P-384, or Ed25519"
        )
    })?;
    if CertifiedKey::new(chain.clone(), signing).keys_match().is_err() {
        return Err(format!(
            "the key in {KEY_ENTRY} is not that of the first certificate in {CERTIFICATE_ENTRY}; put both of one pair in, \
             the chain with its own certificate first"
        ));
    }
    let digest = digest(&chain, &key);
    let names = names(&leaf);
    let not_after = leaf.validity().not_after.timestamp();
    let label = match &key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    let chain: String = chain.iter().map(|one| pem("CERTIFICATE", one)).collect();
    let material = Material { digest: digest.clone(), chain: chain.into(), key: pem(label, key.secret_der()).into() };
    Ok((Certificate { digest, names, not_after }, material))
}

/// The certificates of the chain, each of which can be decoded.
fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|_| {
            format!("{CERTIFICATE_ENTRY} is not whole PEM; put certificates in as -----BEGIN CERTIFICATE-----")
        })?;
    if chain.is_empty() {
        return Err(format!("{CERTIFICATE_ENTRY} holds no certificate; put one in as -----BEGIN CERTIFICATE-----"));
    }
    if chain.len() > CHAIN_MAX {
        return Err(format!("{CERTIFICATE_ENTRY} holds {} certificates, {CHAIN_MAX} are allowed", chain.len()));
    }
    for (index, one) in chain.iter().enumerate() {
        let parsed = x509(one, index)?;
        let staple = parsed.extensions().iter().any(|extension| extension.oid.to_id_string() == TLS_FEATURE);
        if index == 0 && staple {
            return Err(format!(
                "the certificate in {CERTIFICATE_ENTRY} demands OCSP stapling, which is not supported; have it issued without"
            ));
        }
    }
    Ok(chain)
}

fn x509<'a>(der: &'a CertificateDer<'_>, index: usize) -> Result<X509Certificate<'a>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], parsed)) => Ok(parsed),
        Ok(_) | Err(_) => {
            Err(format!("certificate {} of {CERTIFICATE_ENTRY} cannot be decoded; correct it", index + 1))
        }
    }
}

fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let mut keys: Vec<PrivateKeyDer<'static>> = PrivateKeyDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("{KEY_ENTRY} is not whole PEM; put the private key in as -----BEGIN PRIVATE KEY-----"))?;
    let encrypted = String::from_utf8_lossy(text).contains("ENCRYPTED");
    match (keys.pop(), keys.len()) {
        (Some(key), 0) => Ok(key),
        (Some(_), more) => Err(format!("{KEY_ENTRY} holds {} keys; leave the one of the certificate", more + 1)),
        (None, _) if encrypted => Err(format!("{KEY_ENTRY} is encrypted; put it in without a passphrase")),
        (None, _) => Err(format!("{KEY_ENTRY} holds no private key; put one in as -----BEGIN PRIVATE KEY-----")),
    }
}

fn digest(chain: &[CertificateDer<'_>], key: &PrivateKeyDer<'_>) -> Name {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    for part in chain.iter().map(AsRef::as_ref).chain([key.secret_der()]) {
        // Length first: no part can pass for the end of another.
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher.finalize().to_hex().to_string().into()
}

/// The DNS names of the certificate; the common name counts only where there is no other, as in Envoy.
fn names(leaf: &X509Certificate<'_>) -> Vec<String> {
    let alternatives = leaf.subject_alternative_name().ok().flatten();
    let mut names: BTreeSet<String> = BTreeSet::new();
    match alternatives {
        Some(alternatives) => names.extend(alternatives.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })),
        None => names.extend(
            leaf.subject().iter_common_name().filter_map(|name| name.as_str().ok()).map(str::to_ascii_lowercase),
        ),
    }
    names.into_iter().collect()
}

/// PEM with lines of 64 characters.
fn pem(label: &str, der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests;
