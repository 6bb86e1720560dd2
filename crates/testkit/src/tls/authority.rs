//! Certificate authorities for tests.

use super::Pair;
use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use std::sync::atomic::{AtomicU64, Ordering};

/// A certificate authority with a key of its own.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate in PEM.
    pub certificate: String,
}

impl Authority {
    /// A new one. Its name is like that of no other: two of one name would be taken for one another.
    ///
    /// # Panics
    ///
    /// The system has no random numbers.
    #[must_use]
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("authority {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("the system has random numbers");
        let certificate = params.self_signed(&key).expect("the key signs").pem();
        Authority { issuer: Issuer::new(params, key), certificate }
    }

    /// A new certificate for these names, of which some may be URIs, with a new key, signed by this authority.
    ///
    /// # Panics
    ///
    /// A name is none.
    #[must_use]
    pub fn sign(&self, names: &[&str]) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "signed");
        params.subject_alt_names = names.iter().map(|name| alternative(name)).collect();
        let key = KeyPair::generate().expect("the system has random numbers");
        let certificate = params.signed_by(&key, &self.issuer).expect("the key of the authority signs");
        let der = Bytes::copy_from_slice(certificate.der());
        Pair { certificate: certificate.pem(), key: key.serialize_pem(), der }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}

fn alternative(name: &str) -> SanType {
    let text = name.try_into().expect("the names of a test are ASCII");
    if name.contains("://") { SanType::URI(text) } else { SanType::DnsName(text) }
}
