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
    /// The id is longer than any that a person could tell from another.
    #[error("node.id has {0} bytes, at most {MAX_ID_BYTES} are taken")]
    LongId(usize),
    /// A later request has another node than the first.
    #[error("the stream is one of node {node} for Gateway {gateway}, which cannot change: open another stream")]
    Changed {
        /// The first `node.id`.
        node: Name,
        /// The first Gateway.
        gateway: NamespacedName,
    },
}

/// Longest `node.id`, in bytes. It is in log lines, in the recording and on the admin port.
const MAX_ID_BYTES: usize = 1024;

/// Node id and Gateway of a client: `node.metadata.gateway`, else `node.cluster`, each `namespace/name`.
pub(crate) fn identify(node: Option<&Node>) -> Result<(Name, NamespacedName), Error> {
    let node = node.ok_or(Error::NoNode)?;
    if node.id.len() > MAX_ID_BYTES {
        return Err(Error::LongId(node.id.len()));
    }
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

/// Whether a later node of the stream is the first one. A message without content says nothing.
pub(crate) fn confirm(id: &Name, gateway: &NamespacedName, node: &Node) -> Result<(), Error> {
    if *node == Node::default() || identify(Some(node)).is_ok_and(|said| (&said.0, &said.1) == (id, gateway)) {
        return Ok(());
    }
    Err(Error::Changed { node: id.clone(), gateway: gateway.clone() })
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
        let long = Node { id: "x".repeat(1025), ..node("shop/public", None) };
        assert_eq!(identify(Some(&long)), Err(Error::LongId(1025)));
    }

    #[test]
    fn a_later_node_is_the_first_one_or_an_error() {
        let (id, gateway) = identify(Some(&node("shop/public", None))).unwrap();
        assert_eq!(confirm(&id, &gateway, &node("shop/public", None)), Ok(()));
        assert_eq!(confirm(&id, &gateway, &Node::default()), Ok(()));
        let renamed = Node { id: "envoy-1".to_owned(), ..node("shop/public", None) };
        for other in [renamed, node("shop/other", None), node("", None)] {
            let refused = confirm(&id, &gateway, &other).unwrap_err().to_string();
            assert!(refused.contains("node envoy-0 for Gateway shop/public"), "{refused}");
        }
    }
}
