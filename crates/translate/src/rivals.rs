//! HTTPRoutes and GRPCRoutes of one listener that want the same hosts: rules of the two kinds are never merged, so the
//! listener takes the older route and not the other.

use crate::attach::{Attachment, Outcome};
use crate::edges::Edges;
use crate::lookup::Rows;
use crate::status::ParentInput;
use differential_dataflow::operators::ThresholdTotal;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use tidegate_model::{Hostname, ListenerKey, NamespacedName, ObjectKey, Precedence, Reason, RouteKey, RouteKind};

/// What a route wants of a listener. In the order of precedence: the older route first, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Claim {
    created: i64,
    name: NamespacedName,
    kind: RouteKind,
    /// Position in `spec.parentRefs`.
    index: u32,
    hosts: Vec<Hostname>,
}

impl Claim {
    fn route(&self) -> RouteKey {
        RouteKey { kind: self.kind, name: self.name.clone() }
    }

    fn age(&self) -> (i64, &NamespacedName) {
        (self.created, &self.name)
    }
}

/// A listener that does not take a route, and the route of the other kind that it takes instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Loss {
    /// Position in `spec.parentRefs`.
    pub(crate) index: u32,
    listener: ListenerKey,
    to: RouteKey,
    /// Why the other route has it.
    by: Precedence,
}

impl Loss {
    /// What there is to say about it.
    pub(crate) fn message(&self) -> String {
        let Loss { listener, to, by, .. } = self;
        format!(
            "{listener} takes {}, which {by}, for some of these hostnames, and never both \
             kinds of route for one; give the routes different hostnames",
            to.object()
        )
    }
}

/// What an attached route wants of listeners, if it is of a kind that has rivals.
pub(crate) fn claims((route, attachment): (RouteKey, Attachment)) -> Vec<(ListenerKey, Claim)> {
    let Outcome::Bound(bindings) = attachment.outcome else { return Vec::new() };
    let has_rivals = match route.kind {
        RouteKind::Http | RouteKind::Grpc => true,
        RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp => false,
    };
    let bindings = bindings.into_iter().filter(|binding| has_rivals && !binding.hosts.is_empty());
    bindings
        .map(|binding| {
            let claim = Claim {
                created: attachment.created,
                name: route.name.clone(),
                kind: route.kind,
                index: attachment.index,
                hosts: binding.hosts,
            };
            (binding.listener, claim)
        })
        .collect()
}

/// Every listener that does not take a route because of an older one.
pub(crate) fn losses<'s>(edges: &Edges, attachments: Rows<'s, (RouteKey, Attachment)>) -> Rows<'s, (RouteKey, Loss)> {
    let claims = edges.carry("attachments to rivals", attachments).flat_map(claims);
    // Where there is no GRPCRoute nobody has a rival, and a change costs nothing.
    let contested = claims.clone().filter(|(_, claim)| claim.kind == RouteKind::Grpc).map(|(listener, _)| listener);
    claims
        .arrange_by_key_named("claims by listener")
        .join_core(
            contested.distinct_total().map(|listener| (listener, ())).arrange_by_key_named("listeners with rivals"),
            |listener, claim, ()| Some((listener.clone(), claim.clone())),
        )
        .reduce_named("rivals", |listener, input, output| {
            output.extend(lost(listener, input.iter().map(|(claim, _)| *claim)).into_iter().map(|loss| (loss, 1)));
        })
        .map(|(_, loss)| loss)
}

/// The claims that one listener does not take. They come in the order of precedence.
pub(crate) fn lost<'c>(listener: &ListenerKey, claims: impl Iterator<Item = &'c Claim>) -> Vec<(RouteKey, Loss)> {
    let mut taken: BTreeMap<RouteKind, Taken<'_>> = BTreeMap::new();
    let mut lost = Vec::new();
    for claim in claims {
        let rivals = taken.iter().filter(|(kind, _)| **kind != claim.kind).map(|(_, taken)| taken);
        match rivals.into_iter().find_map(|rivals| rivals.meet(&claim.hosts)) {
            Some(to) => {
                let (listener, by) = (listener.clone(), Precedence::of(to.age(), claim.age()));
                lost.push((claim.route(), Loss { index: claim.index, listener, to: to.route(), by }));
            }
            None => taken.entry(claim.kind).or_default().insert(claim),
        }
    }
    lost
}

/// Hosts that routes of one kind have, and who had each first.
#[derive(Default)]
struct Taken<'c> {
    hosts: BTreeMap<Hostname, &'c Claim>,
    /// The same by every hostname that covers one of them.
    above: BTreeMap<Hostname, &'c Claim>,
}

impl<'c> Taken<'c> {
    fn insert(&mut self, claim: &'c Claim) {
        for host in &claim.hosts {
            self.hosts.entry(host.clone()).or_insert(claim);
            for wide in host.widening() {
                self.above.entry(wide).or_insert(claim);
            }
        }
    }

    /// A route that has a host in common with these.
    fn meet(&self, hosts: &[Hostname]) -> Option<&'c Claim> {
        let covering = |host: &Hostname| host.widening().iter().find_map(|wide| self.hosts.get(wide).copied());
        hosts.iter().find_map(|host| covering(host).or_else(|| self.above.get(host).copied()))
    }
}

/// The attachment without the listeners that it lost.
pub(crate) fn without<'a>(attachment: &'a Attachment, losses: &[&Loss]) -> Cow<'a, Attachment> {
    let Outcome::Bound(bindings) = &attachment.outcome else { return Cow::Borrowed(attachment) };
    let own = || losses.iter().filter(|loss| loss.index == attachment.index);
    let Some(first) = own().next() else { return Cow::Borrowed(attachment) };
    let kept = bindings.iter().filter(|binding| !own().any(|loss| loss.listener == binding.listener));
    let kept: Vec<_> = kept.cloned().collect();
    let outcome = match kept.is_empty() {
        true => Outcome::Refused(Reason::HostnameConflict, first.message().into()),
        false => Outcome::Bound(kept),
    };
    Cow::Owned(Attachment { outcome, ..attachment.clone() })
}

/// What the status of the parent counted and must not.
pub(crate) fn not_attached((_, loss): (RouteKey, Loss)) -> (ObjectKey, ParentInput) {
    (loss.listener.parent, ParentInput::Attached(loss.listener.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The routes that lose, and to whom. Claims are `kind/name host,host`, the oldest first.
    fn losers(claims: &[&str]) -> Vec<(String, String)> {
        let claims = claims.iter().zip(0..).map(|(text, created)| {
            let (route, hosts) = text.split_once(' ').unwrap();
            let (kind, name) = route.split_once('/').unwrap();
            Claim {
                created,
                name: NamespacedName::new("shop", name),
                kind: if kind == "http" { RouteKind::Http } else { RouteKind::Grpc },
                index: 0,
                hosts: hosts.split(',').map(Hostname::new).collect(),
            }
        });
        let claims: Vec<Claim> = claims.collect();
        let place = ListenerKey::of_gateway(&NamespacedName::new("infra", "edge"), "web");
        let name = |key: &RouteKey| key.name.name().to_owned();
        lost(&place, claims.iter()).iter().map(|(route, loss)| (name(route), name(&loss.to))).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn the_older_route_has_the_hosts_that_both_kinds_want() {
        assert_eq!(losers(&["http/a x.com", "grpc/b x.com"]), pairs(&[("b", "a")]));
        assert_eq!(losers(&["grpc/a x.com", "http/b y.com,x.com"]), pairs(&[("b", "a")]));
        assert_eq!(losers(&["http/a x.com", "grpc/b y.com", "http/c x.com"]), pairs(&[]));
    }

    #[test]
    fn what_decided_between_two_routes_is_said() {
        let claim = |kind, name: &str, created| Claim {
            created,
            name: NamespacedName::new("shop", name),
            kind,
            index: 0,
            hosts: vec![Hostname::new("x.com")],
        };
        let place = ListenerKey::of_gateway(&NamespacedName::new("infra", "edge"), "web");
        let (http, grpc) = (RouteKind::Http, RouteKind::Grpc);
        for (first, second, why) in [
            (claim(http, "b", 1), claim(grpc, "a", 2), "HTTPRoute shop/b, which is older, for"),
            (claim(grpc, "a", 1), claim(http, "b", 1), "GRPCRoute shop/a, which has no other creationTimestamp and comes first by name"),
            (claim(http, "a", 1), claim(grpc, "a", 1), "the kind that comes first"),
        ] {
            let lost = lost(&place, [&first, &second].into_iter());
            assert!(lost[0].1.message().contains(why), "{}", lost[0].1.message());
        }
    }

    #[test]
    fn a_wildcard_meets_what_it_covers_in_either_order() {
        assert_eq!(losers(&["http/a *.x.com", "grpc/b a.b.x.com"]), pairs(&[("b", "a")]));
        assert_eq!(losers(&["grpc/a a.b.x.com", "http/b *.x.com"]), pairs(&[("b", "a")]));
        assert_eq!(losers(&["http/a *.x.com", "grpc/b x.com"]), pairs(&[]));
        assert_eq!(losers(&["grpc/a a.x.com", "http/b *"]), pairs(&[("b", "a")]));
    }

    #[test]
    fn a_route_that_lost_stands_in_nobodys_way() {
        let found = losers(&["http/a x.com", "grpc/b x.com,y.com", "http/c y.com", "grpc/d z.com"]);
        assert_eq!(found, pairs(&[("b", "a")]));
    }
}
