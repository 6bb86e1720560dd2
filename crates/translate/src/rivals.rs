//! Routes of one listener that want the same hosts and cannot both have them. Rules of HTTPRoutes and GRPCRoutes are never
//! merged, so the listener takes the older route and not the other. Routes of streams stay attached and wait, which is
//! only said.

use crate::attach::{Attachment, Outcome};
use crate::edges::Edges;
use crate::lookup::Rows;
use crate::status::ParentInput;
use crate::streams;
use differential_dataflow::operators::ThresholdTotal;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tidegate_model::{Hostname, Kind, ListenerKey, NamespacedName, ObjectKey, Precedence, Reason, RouteKey, RouteKind};

/// What a route wants of a listener. In the order of precedence: the older route first, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Claim {
    created: i64,
    name: NamespacedName,
    kind: RouteKind,
    /// Position in `spec.parentRefs`.
    index: u32,
    hosts: Vec<Hostname>,
    /// How specific the hostnames of a route of streams are that lead to each of the hosts; empty for other routes.
    specificity: Vec<(u8, usize)>,
}

impl Claim {
    fn route(&self) -> RouteKey {
        RouteKey { kind: self.kind, name: self.name.clone() }
    }

    fn age(&self) -> (i64, &NamespacedName) {
        (self.created, &self.name)
    }
}

/// A listener where another route goes before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Loss {
    /// Position in `spec.parentRefs`.
    pub(crate) index: u32,
    listener: ListenerKey,
    to: RouteKey,
    /// Why the other route has it.
    by: Precedence,
    extent: Extent,
}

/// What is lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum Extent {
    /// The listener does not take the route, for it takes one of the other kind.
    Listener,
    /// The route stays attached, and what comes in for these hosts goes to the other.
    Hosts(Vec<Hostname>),
}

impl Loss {
    /// What there is to say about it.
    pub(crate) fn message(&self) -> String {
        let Loss { listener, to, by, extent, .. } = self;
        let to = to.object();
        match extent {
            Extent::Listener => format!(
                "{listener} takes {to}, which {by}, for some of these hostnames, and never both \
                 kinds of route for one; give the routes different hostnames"
            ),
            Extent::Hosts(hosts) => format!(
                "{listener} gives what comes in{} to {to}, which {by}, and nothing to this one; give the routes different \
                 listeners{}, or remove one of them",
                named(hosts),
                if to.kind == Kind::TlsRoute { " or hostnames" } else { "" },
            ),
        }
    }
}

/// Hosts as a message names them: not at all where they are all hosts, and not a long list.
fn named(hosts: &[Hostname]) -> String {
    match hosts {
        [] => String::new(),
        [only] if only.is_any() => String::new(),
        [only] => format!(" for {only}"),
        [first, more @ ..] => format!(" for {first} and {} more hosts", more.len()),
    }
}

/// What an attached route wants of listeners.
pub(crate) fn claims((route, attachment): (RouteKey, Attachment)) -> Vec<(ListenerKey, Claim)> {
    let Outcome::Bound(bindings) = attachment.outcome else { return Vec::new() };
    let bindings = bindings.into_iter().filter(|binding| !binding.hosts.is_empty());
    bindings
        .map(|binding| {
            let of_host = |host| streams::specificity(&attachment.written, &binding.listener_host, host);
            let of_streams = binding.hosts.iter().filter(|_| route.kind.is_stream());
            let claim = Claim {
                created: attachment.created,
                name: route.name.clone(),
                kind: route.kind,
                index: attachment.index,
                specificity: of_streams.map(of_host).collect(),
                hosts: binding.hosts,
            };
            (binding.listener, claim)
        })
        .collect()
}

/// Every listener where another route goes before.
pub(crate) fn losses<'s>(edges: &Edges, attachments: Rows<'s, (RouteKey, Attachment)>) -> Rows<'s, (RouteKey, Loss)> {
    let claims = edges.carry("attachments to rivals", attachments).flat_map(claims);
    // An HTTPRoute has no rival where there is no GRPCRoute, and a change of it costs nothing.
    let has_rivals = |kind: RouteKind| match kind {
        RouteKind::Http => false,
        RouteKind::Grpc | RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp => true,
    };
    let contested = claims.clone().filter(move |(_, claim)| has_rivals(claim.kind)).map(|(listener, _)| listener);
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

/// The claims that one listener does not give everything that they want. They come in the order of precedence.
pub(crate) fn lost<'c>(listener: &ListenerKey, claims: impl Iterator<Item = &'c Claim>) -> Vec<(RouteKey, Loss)> {
    let (streams, requests): (Vec<&Claim>, Vec<&Claim>) = claims.partition(|claim| claim.kind.is_stream());
    let mut lost = waiting(listener, &streams);
    let mut taken: BTreeMap<RouteKind, Taken<'_>> = BTreeMap::new();
    for claim in requests {
        let rivals = taken.iter().filter(|(kind, _)| **kind != claim.kind).map(|(_, taken)| taken);
        match rivals.into_iter().find_map(|rivals| rivals.meet(&claim.hosts)) {
            Some(to) => {
                let (listener, by) = (listener.clone(), Precedence::of(to.age(), claim.age()));
                lost.push((
                    claim.route(),
                    Loss { index: claim.index, listener, to: to.route(), by, extent: Extent::Listener },
                ));
            }
            None => taken.entry(claim.kind).or_default().insert(claim),
        }
    }
    lost
}

/// The routes of streams that wait for others: of those for one host the first is served, in the order of `streams`.
fn waiting(listener: &ListenerKey, claims: &[&Claim]) -> Vec<(RouteKey, Loss)> {
    type Rank<'c> = (Reverse<(u8, usize)>, (i64, &'c NamespacedName), RouteKind);
    let mut first: BTreeMap<&Hostname, (Rank<'_>, &Claim)> = BTreeMap::new();
    for claim in claims.iter().copied() {
        for (host, specificity) in claim.hosts.iter().zip(&claim.specificity) {
            let rank = (Reverse(*specificity), claim.age(), claim.kind);
            let best = first.entry(host).or_insert((rank, claim));
            if rank < best.0 {
                *best = (rank, claim);
            }
        }
    }
    let mut lost = Vec::new();
    for claim in claims.iter().copied() {
        let route = claim.route();
        let of_others = claim.hosts.iter().zip(&claim.specificity).filter(|(host, _)| first[host].1.route() != route);
        let of_others: Vec<(&Hostname, &(u8, usize))> = of_others.collect();
        let Some((host, specificity)) = of_others.first() else { continue };
        let ((best, ..), to) = first[host];
        let equal = best == Reverse(**specificity);
        let by = if equal { Precedence::of(to.age(), claim.age()) } else { Precedence::Hostname };
        let hosts = of_others.iter().map(|(host, _)| Hostname::clone(host)).collect();
        let extent = Extent::Hosts(hosts);
        lost.push((route, Loss { index: claim.index, listener: listener.clone(), to: to.route(), by, extent }));
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

/// The attachment without the listeners that do not take it.
pub(crate) fn without<'a>(attachment: &'a Attachment, losses: &[&Loss]) -> Cow<'a, Attachment> {
    let Outcome::Bound(bindings) = &attachment.outcome else { return Cow::Borrowed(attachment) };
    let own = || losses.iter().filter(|loss| loss.index == attachment.index && loss.extent == Extent::Listener);
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
pub(crate) fn not_attached((_, loss): (RouteKey, Loss)) -> Option<(ObjectKey, ParentInput)> {
    let Loss { listener, extent, .. } = loss;
    (extent == Extent::Listener).then_some((listener.parent, ParentInput::Attached(listener.name)))
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
                specificity: Vec::new(),
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
            specificity: Vec::new(),
        };
        let place = ListenerKey::of_gateway(&NamespacedName::new("infra", "edge"), "web");
        let (http, grpc) = (RouteKind::Http, RouteKind::Grpc);
        for (first, second, why) in [
            (claim(http, "b", 1), claim(grpc, "a", 2), "HTTPRoute shop/b, which is older, for"),
            (
                claim(grpc, "a", 1),
                claim(http, "b", 1),
                "GRPCRoute shop/a, which has no other creationTimestamp and comes first by name",
            ),
            (claim(http, "a", 1), claim(grpc, "a", 1), "the kind that comes first"),
        ] {
            let lost = lost(&place, [&first, &second].into_iter());
            assert!(lost[0].1.message().contains(why), "{}", lost[0].1.message());
        }
    }

    #[test]
    fn a_route_of_streams_that_waits_is_told_for_whom() {
        let claim = |kind, name: &str, created, hosts: &[&str], written: usize| Claim {
            created,
            name: NamespacedName::new("shop", name),
            kind,
            index: 0,
            hosts: hosts.iter().map(|host| Hostname::new(host)).collect(),
            specificity: hosts.iter().map(|_| (1, written)).collect(),
        };
        let place = ListenerKey::of_gateway(&NamespacedName::new("infra", "edge"), "db");
        let (tcp, tls) = (RouteKind::Tcp, RouteKind::Tls);
        let told = |claims: &[Claim]| -> Vec<(String, String)> {
            let lost = lost(&place, claims.iter());
            assert!(lost.iter().all(|(route, loss)| not_attached((route.clone(), loss.clone())).is_none()));
            lost.iter().map(|(route, loss)| (route.name.name().to_owned(), loss.message())).collect()
        };
        let found = told(&[claim(tcp, "b", 1, &[""], 0), claim(tcp, "c", 1, &[""], 0), claim(tcp, "a", 2, &[""], 0)]);
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["c", "a"]);
        assert!(
            found[0].1.contains("comes in to TCPRoute shop/b, which has no other creationTimestamp"),
            "{}",
            found[0].1
        );
        assert!(found[1].1.contains("TCPRoute shop/b, which is older, and nothing"), "{}", found[1].1);
        let found = told(&[claim(tls, "a", 1, &["x.com", "y.com"], 1), claim(tls, "b", 2, &["x.com", "z.com"], 9)]);
        assert_eq!(found[0].0, "a");
        assert!(
            found[0].1.contains("for x.com to TLSRoute shop/b, which has the more specific hostname"),
            "{}",
            found[0].1
        );
        assert_eq!(told(&[claim(tls, "a", 1, &["x.com"], 1), claim(tls, "b", 2, &["z.com"], 9)]), []);
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
