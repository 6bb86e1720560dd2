//! The material of secrets, put in at the last moment: everything before this holds only a digest of it.

use crate::session::{Response, TypeUrl};
use std::sync::Arc;
use tidegate_model::{Name, ResourceType};
use tidegate_vault::Material;
use tidegate_xds::{Resource, encode};

/// The response with the material of its secrets, and the names of those whose material `find` does not have: they are
/// left out.
#[must_use]
pub fn fill(mut response: Response, find: impl Fn(&str) -> Option<Arc<Material>>) -> (Response, Vec<Name>) {
    let mut missing = Vec::new();
    if response.type_url == TypeUrl::Served(ResourceType::Secret) {
        response.resources = response
            .resources
            .into_iter()
            .filter_map(|secret| match find(&encode::secret_digest(&secret)) {
                Some(material) => {
                    let bytes = encode::secret(&secret.name, &material.chain, &material.key);
                    Some(Resource { bytes, ..secret })
                }
                None => {
                    missing.push(secret.name);
                    None
                }
            })
            .collect();
    }
    (response, missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use tidegate_proto::envoy::extensions::transport_sockets::tls::v3::Secret;

    fn response(resources: Vec<Resource>) -> Response {
        let type_url = TypeUrl::Served(ResourceType::Secret);
        Response { type_url, nonce: "1".into(), version: "v".into(), resources, removed: Vec::new() }
    }

    #[test]
    fn a_secret_is_sent_with_its_material_and_its_version_stays() {
        let secret = encode::secret_ref("shop/cert".into(), "d1");
        let lost = encode::secret_ref("shop/lost".into(), "d2");
        let find = |digest: &str| {
            let material = Material { digest: digest.into(), chain: "the chain".into(), key: "the key".into() };
            (digest == "d1").then(|| Arc::new(material))
        };
        let (filled, missing) = fill(response(vec![secret.clone(), lost]), find);
        assert_eq!(missing, ["shop/lost"]);
        assert_eq!(filled.resources, [secret]);
        let sent = Secret::decode(filled.resources[0].bytes.clone()).unwrap();
        assert_eq!(sent.name, "shop/cert");
        assert!(format!("{sent:?}").contains("TlsCertificate"));
    }
}
