//! Secrets: without material in every value that is kept, with it only on its way to a client.

use crate::resource::{Resource, Version};
use bytes::Bytes;
use prost::Message;
use tidegate_model::Name;
use tidegate_proto::envoy::config::core::v3::{DataSource, data_source};
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::{Secret, TlsCertificate, secret};

/// A secret as sealed values hold it: in place of the encoded message stands the digest of the material that it is made
/// of. The version follows from name and digest, so it is that of the message too.
#[must_use]
pub fn secret_ref(name: Name, digest: &str) -> Resource {
    let version = Version::of(format!("secret {name} {digest}").as_bytes());
    Resource { name, version, bytes: Bytes::copy_from_slice(digest.as_bytes()) }
}

/// The digest that a [`secret_ref`] holds.
#[must_use]
pub fn secret_digest(secret: &Resource) -> Name {
    String::from_utf8_lossy(&secret.bytes).into_owned().into()
}

/// The encoded `envoy.extensions.transport_sockets.tls.v3.Secret` of a certificate chain and its key, in PEM.
#[must_use]
pub fn secret(name: &Name, chain: &[u8], key: &[u8]) -> Bytes {
    let bytes = |data: &[u8]| DataSource {
        specifier: Some(data_source::Specifier::InlineBytes(data.to_vec())),
        ..DataSource::default()
    };
    let certificate = TlsCertificate {
        certificate_chain: Some(bytes(chain)),
        private_key: Some(bytes(key)),
        ..TlsCertificate::default()
    };
    Secret { name: name.to_string(), r#type: Some(secret::Type::TlsCertificate(certificate)) }.encode_to_vec().into()
}
