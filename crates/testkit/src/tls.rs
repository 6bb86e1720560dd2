//! TLS for tests: certificates that are made on the spot, and a client that takes any.

use bytes::Bytes;
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

mod authority;

mod client;

pub use authority::Authority;
pub use client::Client;

/// A certificate and its key.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate in PEM.
    pub certificate: String,
    /// The key in PEM.
    pub key: String,
    /// The certificate in DER, as a client sees it.
    pub der: Bytes,
}

impl Pair {
    /// A new self-signed certificate for these names, with a new key.
    ///
    /// # Panics
    ///
    /// A name is none.
    #[must_use]
    pub fn new(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Pair::of(CertificateParams::new(names).expect("the names of a test are names"))
    }

    /// The same, with a certificate that ended in the year 2020.
    ///
    /// # Panics
    ///
    /// A name is none.
    #[must_use]
    pub fn expired(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("the names of a test are names");
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        Pair::of(params)
    }

    fn of(params: CertificateParams) -> Self {
        let key = KeyPair::generate().expect("the system has random numbers");
        let certificate = params.self_signed(&key).expect("the key signs");
        let der = Bytes::copy_from_slice(certificate.der());
        Pair { certificate: certificate.pem(), key: key.serialize_pem(), der }
    }
}

/// Shakes hands as this client, asking for `name` and offering to speak these.
pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    name: &str,
    protocols: &[&[u8]],
    client: &Client,
) -> io::Result<TlsStream<S>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.dangerous();
    let builder = builder.with_custom_certificate_verifier(Arc::new(TakesAny(provider)));
    let mut config = builder.with_client_cert_resolver(Arc::new(client.clone()));
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Shakes hands as a server with this certificate.
pub(crate) fn acceptor(pair: &Pair) -> io::Result<TlsAcceptor> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.with_no_client_auth();
    let chain = vec![CertificateDer::from(pair.der.to_vec())];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(io::Error::other)?;
    let config = builder.with_single_cert(chain, key).map_err(io::Error::other)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificate that the server showed, in DER.
pub(crate) fn certificate<S>(stream: &TlsStream<S>) -> Option<Bytes> {
    let (_, connection) = stream.get_ref();
    connection.peer_certificates()?.first().map(|leaf| Bytes::copy_from_slice(leaf))
}

/// Checks that the server has the key of the certificate that it shows, and not what that is.
#[derive(Debug)]
struct TakesAny(Arc<CryptoProvider>);

impl ServerCertVerifier for TakesAny {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
