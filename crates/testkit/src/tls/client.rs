//! What clients show of themselves.

use super::Pair;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A client: what it shows when it is asked for a certificate, and whether it was.
#[derive(Clone, Debug, Default)]
pub struct Client {
    certificate: Option<Pair>,
    asked: Arc<AtomicBool>,
}

impl Client {
    /// One that shows this certificate when it is asked for one; none: it has none to show.
    #[must_use]
    pub fn new(certificate: Option<Pair>) -> Self {
        Client { certificate, asked: Arc::default() }
    }

    /// The same, not asked yet.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Client::new(self.certificate.clone())
    }

    /// Whether a server has asked it, or a clone of it, for a certificate.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl ResolvesClientCert for Client {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        let pair = self.certificate.as_ref()?;
        let chain = vec![CertificateDer::from(pair.der.to_vec())];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).ok()?;
        CertifiedKey::from_der(chain, key, &ring::default_provider()).ok().map(Arc::new)
    }

    fn has_certs(&self) -> bool {
        true
    }
}
