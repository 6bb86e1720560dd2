//! References from one object to another, of every kind: may they be followed?
//!
//! Within a namespace always; into another one only if a ReferenceGrant there permits it. What a reference leads to is
//! decided elsewhere, by the kind of what it names.

use crate::authorities::AuthorityAsk;
use crate::backends::BackendAsk;
use crate::certificates::CertificateAsk;
use crate::edges::Edges;
use crate::lookup::{Rows, lookup};
use serde::{Deserialize, Serialize};
use tidegate_model::{GrantFact, GroupKind, Kind, Name, NamespacedName};

/// One reference of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// From a route to a backend.
    Backend(BackendAsk),
    /// From a Gateway or ListenerSet to a certificate.
    Certificate(CertificateAsk),
    /// From a Gateway to CA certificates for its clients.
    Authority(AuthorityAsk),
}

impl Ask {
    /// Who refers: kind and namespace.
    fn from(&self) -> (Kind, &str) {
        match self {
            Ask::Backend(ask) => (ask.route.kind.kind(), ask.route.name.namespace()),
            Ask::Certificate(ask) => (ask.owner.kind, ask.owner.name.namespace()),
            Ask::Authority(ask) => (Kind::Gateway, ask.gateway.namespace()),
        }
    }

    /// To what.
    fn to(&self) -> (&GroupKind, &NamespacedName) {
        match self {
            Ask::Backend(ask) => (&ask.target.group_kind, &ask.target.name),
            Ask::Certificate(ask) => (&ask.target.group_kind, &ask.target.name),
            Ask::Authority(ask) => (&ask.target.group_kind, &ask.target.name),
        }
    }

    pub(crate) fn needs_grant(&self) -> bool {
        self.to().1.namespace() != self.from().1
    }

    /// Under what a grant for this reference would be filed.
    pub(crate) fn grant_key(&self) -> GrantKey {
        let ((from, from_namespace), (to, name)) = (self.from(), self.to());
        GrantKey {
            namespace: name.namespace().into(),
            from: from.into(),
            from_namespace: from_namespace.into(),
            to: to.clone(),
        }
    }

    /// Whether one of the permitted names is the one referred to.
    pub(crate) fn is_among(&self, permitted: &[Option<Name>]) -> bool {
        permitted.iter().any(|name| name.as_ref().is_none_or(|name| *name == self.to().1.name()))
    }
}

/// Everything of a grant but the name it is limited to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct GrantKey {
    namespace: Name,
    from: GroupKind,
    from_namespace: Name,
    to: GroupKind,
}

impl GrantKey {
    pub(crate) fn of(grant: &GrantFact) -> GrantKey {
        GrantKey {
            namespace: grant.namespace.clone(),
            from: grant.from.clone(),
            from_namespace: grant.from_namespace.clone(),
            to: grant.to.clone(),
        }
    }
}

/// What there is to say of a reference that must not be followed: what a ReferenceGrant would have to say.
pub(crate) fn not_permitted(ask: &Ask) -> String {
    let GrantKey { namespace, from, from_namespace, to } = ask.grant_key();
    let group = |of: &GroupKind| if of.group.is_empty() { "\"\"".to_owned() } else { of.group.to_string() };
    format!(
        "{} {} is in another namespace; a ReferenceGrant in namespace {namespace} must permit it, with from: [{{ group: {}, \
         kind: {}, namespace: {from_namespace} }}] and to: [{{ group: {}, kind: {} }}]",
        to.kind,
        ask.to().1,
        group(&from),
        from.kind,
        group(&to),
        to.kind
    )
}

/// Names that are permitted; `None` among them permits every name.
type Permitted = Vec<Option<Name>>;

/// Every reference, and whether it may be followed.
pub(crate) fn permitted<'s>(edges: &Edges, asks: Rows<'s, Ask>, grants: Rows<'s, GrantFact>) -> Rows<'s, (Ask, bool)> {
    let grants = edges.carry("grants to references", grants);
    let crossing = asks.clone().filter(Ask::needs_grant).map(|ask| (ask.grant_key(), ask));
    let wanted = crossing.clone().map(|(key, _)| key);
    let filed = grants.map(|grant| (GrantKey::of(&grant), grant.to_name));
    let permitted =
        lookup("grants", wanted, filed, |known| known.iter().map(|name| (*name).clone()).collect::<Permitted>());
    let crossing = crossing
        .arrange_by_key_named("references by grant")
        .join_core(permitted.arrange_by_key_named("grants"), |_key, ask, permitted| {
            Some((ask.clone(), ask.is_among(permitted)))
        });
    let within = asks.filter(|ask| !ask.needs_grant()).map(|ask| (ask, true));
    edges
        .carry("references within a namespace", within)
        .concat(edges.carry("references that cross namespaces", crossing))
}

/// The references to backends.
pub(crate) fn to_backend((ask, permitted): (Ask, bool)) -> Option<(BackendAsk, bool)> {
    match ask {
        Ask::Backend(ask) => Some((ask, permitted)),
        Ask::Certificate(_) | Ask::Authority(_) => None,
    }
}

/// The references to certificates.
pub(crate) fn to_certificate((ask, permitted): (Ask, bool)) -> Option<(CertificateAsk, bool)> {
    match ask {
        Ask::Certificate(ask) => Some((ask, permitted)),
        Ask::Backend(_) | Ask::Authority(_) => None,
    }
}

/// The references to CA certificates for clients.
pub(crate) fn to_authority((ask, permitted): (Ask, bool)) -> Option<(AuthorityAsk, bool)> {
    match ask {
        Ask::Authority(ask) => Some((ask, permitted)),
        Ask::Backend(_) | Ask::Certificate(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::{BackendRef, CertificateRef, ObjectKey, RouteKey, RouteKind};

    #[test]
    fn what_a_grant_must_say_is_said() {
        let route = RouteKey { kind: RouteKind::Grpc, name: NamespacedName::new("shop", "cart") };
        let name = NamespacedName::new("pay", "api");
        let target = BackendRef { group_kind: Kind::Service.into(), name: name.clone(), port: Some(80) };
        assert_eq!(
            not_permitted(&Ask::Backend(BackendAsk { route, target })),
            "Service pay/api is in another namespace; a ReferenceGrant in namespace pay must permit it, with from: [{ group: \
             gateway.networking.k8s.io, kind: GRPCRoute, namespace: shop }] and to: [{ group: \"\", kind: Service }]"
        );
        let owner = ObjectKey::new(Kind::ListenerSet, "shop", "more");
        let target = CertificateRef { group_kind: Kind::Secret.into(), name };
        let ask = CertificateAsk { gateway: NamespacedName::new("infra", "edge"), owner, target };
        assert!(
            not_permitted(&Ask::Certificate(ask))
                .contains("kind: ListenerSet, namespace: shop }] and to: [{ group: \"\", kind: Secret")
        );
    }
}
