//! What the certificate references of listeners lead to, listener by listener.

use super::Found;
use crate::certificates::Resolution;
use crate::names::secret_name;
use crate::speech::Speech;
use serde::{Deserialize, Serialize};
use tidegate_model::{CertificateFact, CertificateRef, Finding, Hostname, ListenerFact, Name, ObjectKey, Reason};

/// What became of certificate references, of a listener or of a Gateway as a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Certificates {
    /// Resource names of those that are served, in order, with the digests of their material.
    pub(crate) served: Vec<(Name, Name)>,
    /// Why the others are not.
    pub(crate) failed: Vec<Finding>,
    /// What else there is to say.
    pub(crate) remarks: Vec<Finding>,
}

/// What the certificate references of a listener of `owner` lead to.
pub(super) fn certificates(
    owner: &ObjectKey,
    index: usize,
    listener: &ListenerFact,
    found: &Found<'_>,
) -> Certificates {
    let mut own = Certificates::default();
    let speech = Speech::of(listener);
    if !speech.needs_certificate() {
        return own;
    }
    let targets = listener.tls.iter().flat_map(|tls| &tls.certificates);
    for (at, target) in targets.enumerate() {
        let field = format!("spec.listeners[{index}].tls.certificateRefs[{at}]");
        match found.certificates.get(&(owner, target)) {
            Some(Resolution::Found(certificate)) => {
                own.remarks.extend(certificate_remarks(&field, &listener.hostname, target, certificate));
                let served = (secret_name(&target.name), certificate.digest.clone());
                if !own.served.contains(&served) {
                    own.served.push(served);
                }
            }
            Some(Resolution::Failed(reason, message)) => {
                own.failed.push(Finding::new(*reason, &field, message.clone()))
            }
            // Between a reference and its answer lies no epoch.
            None => {}
        }
    }
    if own.served.is_empty() && own.failed.is_empty() {
        let field = format!("spec.listeners[{index}].tls.certificateRefs");
        let message = "TLS that ends here needs a certificate; add one";
        own.failed.push(Finding::new(Reason::InvalidCertificateRef, &field, message));
    }
    own
}

/// What the reference to the certificate that backends are shown leads to.
pub(super) fn client(owner: &ObjectKey, target: &CertificateRef, found: &Found<'_>) -> Certificates {
    let mut own = Certificates::default();
    let field = "spec.tls.backend.clientCertificateRef";
    match found.certificates.get(&(owner, target)) {
        Some(Resolution::Found(certificate)) => {
            own.remarks.extend(expired(field, target, certificate));
            own.served.push((secret_name(&target.name), certificate.digest.clone()));
        }
        Some(Resolution::Failed(reason, message)) => {
            let reason = match reason {
                Reason::InvalidCertificateRef => Reason::InvalidClientCertificateRef,
                other => *other,
            };
            own.failed.push(Finding::new(reason, field, message.clone()));
        }
        // Between a reference and its answer lies no epoch.
        None => {}
    }
    own
}

fn expired(field: &str, target: &CertificateRef, certificate: &CertificateFact) -> Option<Finding> {
    let message = format!("the certificate of Secret {} expired; renew it", target.name);
    certificate.expired.then(|| Finding::new(Reason::CertificateExpired, field, message))
}

/// What a user wants to know of a certificate that is served.
fn certificate_remarks(
    field: &str,
    hostname: &Hostname,
    target: &CertificateRef,
    certificate: &CertificateFact,
) -> Vec<Finding> {
    let mut remarks: Vec<Finding> = expired(field, target, certificate).into_iter().collect();
    if !certificate.names.iter().any(|name| is_for(name, hostname)) {
        let names = certificate.names.iter().map(Hostname::as_str).collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { "no DNS name".to_owned() } else { names };
        let message = format!(
            "the certificate of Secret {} is for {names}, not for {hostname}; use another, or change the hostname",
            target.name
        );
        remarks.push(Finding::new(Reason::CertificateHostnameMismatch, field, message));
    }
    remarks
}

/// Whether a certificate of this name can be right for some host of a listener. A wildcard in a certificate stands for
/// one label only; which hosts of a wider listener are asked for, nobody knows.
fn is_for(name: &Hostname, hostname: &Hostname) -> bool {
    if name.is_wildcard() && !hostname.is_any() && !hostname.is_wildcard() {
        return hostname.as_str().split_once('.').is_some_and(|(_, parent)| name.as_str()[2..] == *parent);
    }
    name.covers(hostname) || hostname.covers(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_for_a_listener_that_it_can_be_right_for() {
        let fits = |name: &str, hostname: &str| is_for(&Hostname::new(name), &Hostname::new(hostname));
        assert!(fits("a.example", "a.example") && fits("*.example", "a.example") && fits("a.example", ""));
        assert!(fits("*.example", "*.example") && fits("a.example", "*.example") && fits("*.a.example", "*.example"));
        assert!(!fits("*.example", "a.b.example"), "a wildcard of a certificate is one label");
        assert!(!fits("a.example", "b.example") && !fits("example", "*.example"));
    }
}
