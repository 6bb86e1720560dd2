//! TLS towards endpoints.

use super::ads;
use crate::ir::{Authorities, UpstreamTls};
use tidegate_model::{Name, SubjectName};
use tidegate_proto::envoy::config::core::v3::{DataSource, TransportSocket, data_source, transport_socket};
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, SubjectAltNameMatcher, TlsParameters,
    UpstreamTlsContext,
};
use tidegate_proto::envoy::r#type::matcher::v3::{StringMatcher, string_matcher};
use tidegate_proto::pack;

/// Where the system of an Envoy keeps the CA certificates that it trusts: as in the images that Envoy comes in. One
/// without that file rejects the cluster, and nothing is sent.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The transport socket of a cluster.
///
/// There is no list of protocols: Envoy then offers what it is going to speak, HTTP/2 or HTTP/1.1, and nothing for
/// connections that it passes on as a whole. Its own highest version towards endpoints is TLS 1.2.
pub(super) fn upstream(tls: &UpstreamTls) -> TransportSocket {
    let context = UpstreamTlsContext {
        sni: tls.sni.to_string(),
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
                ..TlsParameters::default()
            }),
            tls_certificate_sds_secret_configs: tls.certificate.iter().map(certificate).collect(),
            validation_context_type: Some(ValidationContextType::ValidationContext(validation(tls))),
            ..CommonTlsContext::default()
        }),
        ..UpstreamTlsContext::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack(&context))),
    }
}

fn certificate(secret: &Name) -> SdsSecretConfig {
    SdsSecretConfig { name: secret.to_string(), sds_config: Some(ads()) }
}

fn validation(tls: &UpstreamTls) -> CertificateValidationContext {
    let trusted = match &tls.authorities {
        Authorities::System => data_source::Specifier::Filename(SYSTEM_AUTHORITIES.to_owned()),
        Authorities::Inline(pem) => data_source::Specifier::InlineString(pem.to_string()),
    };
    let asked_for = [SubjectName::Host(tls.sni.clone())];
    let names = if tls.names.is_empty() { asked_for.as_slice() } else { &tls.names };
    CertificateValidationContext {
        trusted_ca: Some(DataSource { specifier: Some(trusted), ..DataSource::default() }),
        match_typed_subject_alt_names: names.iter().map(matcher).collect(),
        ..CertificateValidationContext::default()
    }
}

/// Takes a certificate of exactly this name. Envoy lets a wildcard of a certificate stand for one label of a DNS name.
fn matcher(name: &SubjectName) -> SubjectAltNameMatcher {
    let (san_type, text) = match name {
        SubjectName::Host(host) => (SanType::Dns, host),
        SubjectName::Uri(uri) => (SanType::Uri, uri),
    };
    let exact = string_matcher::MatchPattern::Exact(text.to_string());
    SubjectAltNameMatcher {
        san_type: san_type.into(),
        matcher: Some(StringMatcher { match_pattern: Some(exact), ..StringMatcher::default() }),
        ..SubjectAltNameMatcher::default()
    }
}
