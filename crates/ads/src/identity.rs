//! Who a node says that it is.

use tidegate_model::{Name, NamespacedName};
use tidegate_proto::envoy::config::core::v3::Node;
use tidegate_proto::google::protobuf::value::Kind;

/// A node that does not say which Gateway it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The first request of the stream has no node.
    #[error("the first request of the stream has no node: set node.id, and node.metadata.gateway to namespace/name")]
    NoNode,
    /// The node names no Gateway.
    #[error("node {node:?} names no Gateway: set node.metadata.gateway, or node.cluster, to namespace/name")]
    NoGateway {
        /// `node.id`.
        node: String,
    },
}

/// Node id and Gateway of a client: `node.metadata.gateway`, else `node.cluster`, each `namespace/name`.
pub(crate) fn identify(node: Option<&Node>) -> Result<(Name, NamespacedName), Error> {
    let node = node.ok_or(Error::NoNode)?;
    let metadata = node.metadata.as_ref().and_then(|metadata| metadata.fields.get("gateway"));
    let stated = match metadata.and_then(|value| value.kind.as_ref()) {
        Some(Kind::StringValue(gateway)) => Some(gateway.as_str()),
        Some(_) | None => None,
    };
    let gateway = stated.unwrap_or(&node.cluster);
    match gateway.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok((Name::from(&node.id), NamespacedName::new(namespace, name)))
        }
        Some(_) | None => Err(Error::NoGateway { node: node.id.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tidegate_proto::google::protobuf::{Struct, Value};

    fn node(cluster: &str, metadata: Option<Kind>) -> Node {
        let fields = metadata.map(|kind| BTreeMap::from([("gateway".to_owned(), Value { kind: Some(kind) })]));
        Node {
            id: "envoy-0".to_owned(),
            cluster: cluster.to_owned(),
            metadata: fields.map(|fields| Struct { fields }),
            ..Node::default()
        }
    }

    #[test]
    fn metadata_names_the_gateway_and_else_the_cluster_does() {
        let both = node("other/cluster", Some(Kind::StringValue("shop/public".to_owned())));
        let expected = (Name::from("envoy-0"), NamespacedName::new("shop", "public"));
        assert_eq!(identify(Some(&both)), Ok(expected.clone()));
        assert_eq!(identify(Some(&node("shop/public", None))), Ok(expected.clone()));
        assert_eq!(identify(Some(&node("shop/public", Some(Kind::BoolValue(true))))), Ok(expected));
    }

    #[test]
    fn a_node_that_names_no_gateway_is_refused_with_what_to_do() {
        assert_eq!(identify(None), Err(Error::NoNode));
        for cluster in ["", "public", "/public", "shop/"] {
            let refused = identify(Some(&node(cluster, None))).unwrap_err().to_string();
            assert!(refused.contains("set node.metadata.gateway"), "{refused}");
        }
    }
}
