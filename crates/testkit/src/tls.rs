//! TLS for tests: certificates that are made on the spot, and a client that takes any.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

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

    /// A new certificate for these names, of which some may be URIs, with a new key and signed by this authority.
    ///
    /// # Panics
    ///
    /// A name is none.
    #[must_use]
    pub fn signed(names: &[&str], by: &Authority) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "a backend");
        params.subject_alt_names = names.iter().map(|name| alternative(name)).collect();
        let key = KeyPair::generate().expect("the system has random numbers");
        let certificate = params.signed_by(&key, &by.issuer).expect("the key signs");
        let der = Bytes::copy_from_slice(certificate.der());
        Pair { certificate: certificate.pem(), key: key.serialize_pem(), der }
    }

    fn of(params: CertificateParams) -> Self {
        let key = KeyPair::generate().expect("the system has random numbers");
        let certificate = params.self_signed(&key).expect("the key signs");
        let der = Bytes::copy_from_slice(certificate.der());
        Pair { certificate: certificate.pem(), key: key.serialize_pem(), der }
    }
}

fn alternative(name: &str) -> SanType {
    let text = name.try_into().expect("the names of a test are ASCII");
    if name.contains("://") { SanType::URI(text) } else { SanType::DnsName(text) }
}

/// Who signs certificates.
pub struct Authority {
    /// Its own certificate, in PEM.
    pub certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority of this name, with a new key.
    ///
    /// # Panics
    ///
    /// The system has no random numbers.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("the system has random numbers");
        let certificate = params.self_signed(&key).expect("the key signs").pem();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }
}

/// What a server saw of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Handshake {
    /// The name that was asked for.
    pub server_name: String,
    /// What is spoken over it, as was agreed upon.
    pub negotiated_protocol: String,
    /// The certificates that the client showed, in PEM, its own first.
    pub peer_certificates: Vec<String>,
}

impl Handshake {
    /// What was agreed upon.
    pub(crate) fn of<S>(stream: &tokio_rustls::server::TlsStream<S>) -> Self {
        let (_, connection) = stream.get_ref();
        let protocol = connection.alpn_protocol().unwrap_or_default();
        Handshake {
            server_name: connection.server_name().unwrap_or_default().to_owned(),
            negotiated_protocol: String::from_utf8_lossy(protocol).into_owned(),
            peer_certificates: connection.peer_certificates().unwrap_or_default().iter().map(|der| pem(der)).collect(),
        }
    }
}

/// A certificate in PEM.
#[must_use]
pub fn pem(der: &[u8]) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", BASE64_STANDARD.encode(der))
}

/// Shakes hands, asking for `name` and offering to speak these.
pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    name: &str,
    protocols: &[&[u8]],
) -> io::Result<TlsStream<S>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.dangerous();
    let mut config = builder.with_custom_certificate_verifier(Arc::new(TakesAny(provider))).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Shakes hands as a server with this certificate, and agrees to speak one of these. Asks for a certificate of the client
/// and takes any, or none.
pub(crate) fn acceptor(pair: &Pair, protocols: &[&[u8]]) -> io::Result<TlsAcceptor> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.with_client_cert_verifier(Arc::new(TakesAny(provider)));
    let chain = vec![CertificateDer::from(pair.der.to_vec())];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(io::Error::other)?;
    let mut config = builder.with_single_cert(chain, key).map_err(io::Error::other)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificate that the server showed, in DER.
pub(crate) fn certificate<S>(stream: &TlsStream<S>) -> Option<Bytes> {
    let (_, connection) = stream.get_ref();
    connection.peer_certificates()?.first().map(|leaf| Bytes::copy_from_slice(leaf))
}

/// Checks that the other side has the key of the certificate that it shows, and not what that is.
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

impl ClientCertVerifier for TakesAny {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
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
