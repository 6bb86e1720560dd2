//! Who a node says that it is, and where.

use tidegate_model::{Locality, Name, NamespacedName};
use tidegate_proto::envoy::config::core::v3 as envoy;
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
    /// Where it runs is longer to say than any label.
    #[error("{field} has {length} bytes, at most {MAX_LEVEL_BYTES} are taken")]
    LongLocality {
        /// The field of the node.
        field: &'static str,
        /// Its bytes.
        length: usize,
    },
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

/// Longest level of a locality, in bytes: no name of an object is longer.
const MAX_LEVEL_BYTES: usize = 253;

/// Where a client says that it runs: region, zone and sub-zone of `node.locality`; the name of its Kubernetes Node is
/// `node.metadata.kube_node`, its network `node.metadata.network`. What is not there is not known.
pub(crate) fn locality(node: &Node) -> Result<Locality, Error> {
    let envoy::Locality { region, zone, sub_zone } = node.locality.clone().unwrap_or_default();
    let level = |field: &'static str, text: &str| match text.len() {
        0..=MAX_LEVEL_BYTES => Ok(Name::from(text)),
        length => Err(Error::LongLocality { field, length }),
    };
    Ok(Locality {
        network: level("node.metadata.network", text(node, "network").unwrap_or_default())?,
        region: level("node.locality.region", &region)?,
        zone: level("node.locality.zone", &zone)?,
        sub_zone: level("node.locality.sub_zone", &sub_zone)?,
        host: level("node.metadata.kube_node", text(node, "kube_node").unwrap_or_default())?,
    })
}

/// A text in the metadata of a node.
fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    let value = node.metadata.as_ref().and_then(|metadata| metadata.fields.get(key));
    match value.and_then(|value| value.kind.as_ref()) {
        Some(Kind::StringValue(text)) => Some(text),
        Some(_) | None => None,
    }
}

/// Node id and Gateway of a client: `node.metadata.gateway`, else `node.cluster`, each `namespace/name`.
pub(crate) fn identify(node: Option<&Node>) -> Result<(Name, NamespacedName), Error> {
    let node = node.ok_or(Error::NoNode)?;
    if node.id.len() > MAX_ID_BYTES {
        return Err(Error::LongId(node.id.len()));
    }
    let gateway = text(node, "gateway").unwrap_or(&node.cluster);
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
    fn a_node_says_where_it_runs_as_far_as_it_knows() {
        let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
        let fields = [("kube_node", text("worker-1")), ("network", text("n1"))].map(|(key, value)| (key.into(), value));
        let said = envoy::Locality { region: "r1".into(), zone: "z1".into(), sub_zone: "s1".into() };
        let whole =
            Node { locality: Some(said), metadata: Some(Struct { fields: BTreeMap::from(fields) }), ..Node::default() };
        let found = locality(&whole).unwrap();
        assert_eq!(found.levels().map(|level| &**level), ["n1", "r1", "z1", "s1", "worker-1"]);
        assert_eq!(locality(&node("shop/public", Some(Kind::BoolValue(true)))), Ok(Locality::default()));
    }

    #[test]
    fn what_no_label_could_say_is_refused() {
        let said = envoy::Locality { zone: "z".repeat(254), ..envoy::Locality::default() };
        let refused = locality(&Node { locality: Some(said), ..Node::default() }).unwrap_err();
        assert_eq!(refused.to_string(), "node.locality.zone has 254 bytes, at most 253 are taken");
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
