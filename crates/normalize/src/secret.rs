//! Secret: what is known of the certificate in it. The material itself never comes here.

use crate::metadata::Metadata;
use crate::node::{Node, Report};
use crate::text::{HOSTNAME, any};
use crate::{Deadline, Ending, Normalized};
use std::sync::Arc;
use tidegate_model::{CertificateFact, Fact, Finding, Hostname, Millis, Name, ObjectKey, Reason, SecretFact, rfc3339};

/// The type of a Secret that holds a certificate.
const TLS_TYPE: &str = "kubernetes.io/tls";

/// DNS names of one certificate that are read.
const MAX_NAMES: usize = 1000;

/// The Secret, and what becomes of it when its certificate ends.
pub(crate) fn normalized(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Normalized {
    Metadata::read(key, root, report);
    if root.field("type").text(report) != Some(TLS_TYPE) {
        let problem = format!("is not of type {TLS_TYPE}; give it that type, with tls.crt and tls.key");
        return Normalized { facts: vec![fact(key, Err(problem.into()))], ..Normalized::default() };
    }
    let material = root.field("material");
    match certificate(&material.field("certificate"), report) {
        Some(certificate) => ending(key, certificate),
        None => {
            let problem = material.field("problem").name(&any(1, 1000), report);
            let problem = problem.unwrap_or_else(|| "comes without a verdict on what it holds".into());
            let problem = advised(&problem);
            report.remark(Finding::new(Reason::InvalidCertificateRef, "data", problem.clone()));
            Normalized { facts: vec![fact(key, Err(problem))], ..Normalized::default() }
        }
    }
}

/// The problem on one line that ends in what to do, whoever wrote it.
fn advised(problem: &str) -> Name {
    let line: String = problem.chars().take(400).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.contains("; ") { line.into() } else { format!("{line}; put in a certificate with its key").into() }
}

fn fact(key: &ObjectKey, certificate: Result<CertificateFact, Name>) -> Fact {
    Fact::Secret(Arc::new(SecretFact { name: key.name.clone(), certificate }))
}

fn certificate(node: &Node<'_>, report: &mut Report) -> Option<CertificateFact> {
    if !node.is_object(report) {
        return None;
    }
    let digest = node.field("digest").name(&any(1, 128), report)?;
    let not_after = node.field("notAfter").integer(i64::MIN, i64::MAX, report)?;
    let names = node.field("names");
    // A name that no listener can have matches none.
    let names = names.items(MAX_NAMES, report).filter_map(|name| name.text(report));
    let mut names: Vec<Hostname> = names.filter(|name| HOSTNAME.check(name).is_ok()).map(Hostname::new).collect();
    names.sort();
    names.dedup();
    Some(CertificateFact { digest, names, not_after, expired: false })
}

/// The certificate until its end, and after it: served all the same, for clients decide whether they take it, and said.
fn ending(key: &ObjectKey, certificate: CertificateFact) -> Normalized {
    let at = Millis::try_from(certificate.not_after).unwrap_or(0).saturating_mul(1000);
    let message = format!("the certificate expired on {}; renew it, it is served all the same", rfc3339(at));
    let expired = Fact::Finding(key.clone(), Finding::new(Reason::CertificateExpired, "data[tls.crt]", message));
    let after = CertificateFact { expired: true, ..certificate.clone() };
    let good = vec![fact(key, Ok(certificate))];
    let deadline = Deadline { key: key.clone(), at, renewed: at };
    let ending = Ending { deadline, ends: good.clone(), after: vec![fact(key, Ok(after)), expired] };
    Normalized { facts: good, endings: vec![ending] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{object, rows};
    use crate::{Moment, normalize};
    use serde_json::{Value, json};

    fn secret(secret_type: &str, material: Value) -> Normalized {
        let mut body = json!({"apiVersion": "v1", "kind": "Secret", "type": secret_type});
        body["metadata"] = json!({"name": "cert", "namespace": "shop"});
        body["material"] = material;
        normalize(&object(body), &Moment::default())
    }

    fn certificate(facts: &[Fact]) -> Result<CertificateFact, Name> {
        match &facts[0] {
            Fact::Secret(secret) => secret.certificate.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_certificate_is_replaced_by_an_expired_one_at_its_end() {
        let good =
            json!({"certificate": {"digest": "d", "names": ["b.example", "*.a.example", "no name"], "notAfter": 100}});
        let normalized = secret(TLS_TYPE, good);
        let now = certificate(&normalized.facts).unwrap();
        assert_eq!(now.names, [Hostname::new("*.a.example"), Hostname::new("b.example")]);
        assert_eq!((now.not_after, now.expired, normalized.facts.len()), (100, false, 1));
        let [ending] = &normalized.endings[..] else { panic!("{:?}", normalized.endings) };
        assert_eq!((ending.deadline.at, &ending.ends), (100_000, &normalized.facts));
        assert!(certificate(&ending.after).unwrap().expired);
        assert!(rows(&ending.after)[0].message.contains("expired on 1970-01-01T00:01:40Z"));
    }

    #[test]
    fn what_holds_no_certificate_says_why() {
        let other = secret("Opaque", Value::Null);
        assert!(certificate(&other.facts).unwrap_err().contains("not of type kubernetes.io/tls"));
        assert_eq!((rows(&other.facts), other.endings), (vec![], vec![]), "nobody said that it should");
        let broken = secret(TLS_TYPE, json!({"problem": "tls.key is encrypted"}));
        assert_eq!(certificate(&broken.facts), Err("tls.key is encrypted; put in a certificate with its key".into()));
        assert_eq!(rows(&broken.facts)[0].reason, Reason::InvalidCertificateRef);
        let silent = secret(TLS_TYPE, Value::Null);
        assert!(certificate(&silent.facts).unwrap_err().contains("without a verdict"));
    }
}
