//! ConfigMap: the CA certificates in it, if it is one that holds some.

use crate::metadata::Metadata;
use crate::node::{Node, Report};
use crate::{Deadline, Ending, Normalized};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    BUNDLE_ENTRY, BUNDLE_KEY_MARK, BundleFact, Fact, Finding, Millis, Name, ObjectKey, Reason, rfc3339,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::parse_x509_certificate;
use x509_parser::pem::Pem;
use x509_parser::x509::X509Version;

/// Certificates of one bundle. What browsers trust are some 150.
const MAX_CERTIFICATES: usize = 1000;

/// The label of what is read; whatever else stands between is left out.
const LABEL: &str = "CERTIFICATE";

/// The ConfigMap, and what there is to say once the first of its certificates has come to its end.
pub(crate) fn normalized(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Normalized {
    Metadata::read(key, root, report);
    let (data, binary) = (root.field("data"), root.field("binaryData"));
    let (plain, encoded) = (data.key(BUNDLE_ENTRY), binary.key(BUNDLE_ENTRY));
    let read = match (plain.text(report), encoded.text(report)) {
        (Some(text), _) => authorities(text.as_bytes()),
        (None, Some(text)) => decode(text).and_then(|bytes| authorities(&bytes)),
        (None, None) => {
            // Most ConfigMaps are about something else.
            let problem = format!("has no entry {BUNDLE_ENTRY}; put CA certificates under it");
            return plain_fact(key, Err(problem.into()));
        }
    };
    let field = if plain.is_present() { plain.path() } else { encoded.path() };
    if holds_key(plain.text(report), encoded.text(report)) {
        let message =
            "holds a private key, which whoever may read ConfigMaps may read; take it out, and make a new one";
        report.remark(Finding::new(Reason::InvalidCACertificateRef, &field, message));
    }
    match read {
        Ok(bundle) => {
            if let Some(number) = bundle.of_no_authority {
                let message = format!(
                    "certificate number {number} is that of no CA, so that nothing can be checked by it; put in the \
                     certificate of the CA that signed it"
                );
                report.remark(Finding::new(Reason::InvalidCACertificateRef, &field, message));
            }
            ending(key, &field, bundle)
        }
        Err(problem) => {
            report.remark(Finding::new(Reason::InvalidCACertificateRef, &field, problem.as_str()));
            plain_fact(key, Err(format!("{BUNDLE_ENTRY} {problem}").into()))
        }
    }
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let text: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    BASE64_STANDARD.decode(text).map_err(|_| "is not base64; encode it, or write it under data as it is".to_owned())
}

/// Certificates that can all be decoded.
struct Bundle {
    pem: String,
    /// Which of them ends first, counted from 1, and when, in seconds since the Unix epoch.
    first_end: (usize, i64),
    /// The first one by which no other can be checked.
    of_no_authority: Option<usize>,
}

/// Whether a private key stands beside the certificates, or stood there before a source took it out.
fn holds_key(plain: Option<&str>, encoded: Option<&str>) -> bool {
    let holds = |text: &str| text.contains("PRIVATE KEY-----") || text.contains(BUNDLE_KEY_MARK);
    plain.is_some_and(holds)
        || encoded.and_then(|text| decode(text).ok()).is_some_and(|bytes| holds(&String::from_utf8_lossy(&bytes)))
}

/// Whether a certificate says that it can sign nothing: it is no CA's, and not at least its own.
fn is_of_no_authority(certificate: &X509Certificate<'_>) -> bool {
    certificate.version() == X509Version::V3
        && !certificate.is_ca()
        && certificate.issuer().as_raw() != certificate.subject().as_raw()
}

fn authorities(text: &[u8]) -> Result<Bundle, String> {
    let (mut seen, mut pem, mut first_end) = (BTreeSet::new(), String::new(), None);
    let mut of_no_authority = None;
    let mut number = 0;
    for block in Pem::iter_from_buffer(text) {
        let advice = "put certificates in as -----BEGIN CERTIFICATE-----";
        let block = block.map_err(|_| format!("is not whole PEM; {advice}"))?;
        if block.label != LABEL {
            continue;
        }
        number += 1;
        if number > MAX_CERTIFICATES {
            return Err(format!("holds more than {MAX_CERTIFICATES} certificates; leave out what is not needed"));
        }
        let Ok((rest, parsed)) = parse_x509_certificate(&block.contents) else {
            return Err(format!("holds a certificate, number {number}, that cannot be decoded; correct it"));
        };
        if !rest.is_empty() {
            return Err(format!("has something behind certificate number {number}, within its block; correct it"));
        }
        let end = parsed.validity().not_after.timestamp();
        if first_end.is_none_or(|(_, first)| end < first) {
            first_end = Some((number, end));
        }
        if is_of_no_authority(&parsed) {
            of_no_authority = of_no_authority.or(Some(number));
        }
        if seen.insert(block.contents.clone()) {
            pem.push_str(&encode(&block.contents));
        }
    }
    let first_end = first_end.ok_or("holds no certificate; put one in as -----BEGIN CERTIFICATE-----")?;
    Ok(Bundle { pem, first_end, of_no_authority })
}

/// PEM with lines of 64 characters.
fn encode(der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let mut text = format!("-----BEGIN {LABEL}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("-----END {LABEL}-----\n"));
    text
}

/// The bundle, the same after the end of one of its certificates: others in it may go on, and whoever trusts by them
/// decides.
fn ending(key: &ObjectKey, field: &str, bundle: Bundle) -> Normalized {
    let (number, end) = bundle.first_end;
    let at = Millis::try_from(end).unwrap_or(0).saturating_mul(1000);
    let message = format!("certificate number {number} expired on {}; renew it, or take it out", rfc3339(at));
    let expired = Fact::Finding(key.clone(), Finding::new(Reason::CertificateExpired, field, message));
    let Normalized { facts, .. } = plain_fact(key, Ok(bundle.pem.into()));
    let deadline = Deadline { key: key.clone(), at, renewed: at };
    Normalized { facts, endings: vec![Ending { deadline, ends: Vec::new(), after: vec![expired] }] }
}

fn plain_fact(key: &ObjectKey, authorities: Result<Name, Name>) -> Normalized {
    let bundle = BundleFact { name: key.name.clone(), authorities };
    Normalized { facts: vec![Fact::Bundle(Arc::new(bundle))], ..Normalized::default() }
}

#[cfg(test)]
mod tests;
