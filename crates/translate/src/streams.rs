//! Streams: what routes want done with connections and datagrams as a whole, and which of several is done.
//!
//! A stream has no entries to try one after the other. So of the routes for one host of a listener only the first in
//! order is served, whole; the others are attached all the same, and wait, which [`rivals`](crate::rivals) tells them.

use crate::attach::{Binding, Outcome};
use crate::lower::{RouteOutput, RouteParts, rule_id};
use crate::names::{Backend, Socket};
use crate::published::Lowered;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{Hostname, INVALID_CLUSTER, ListenerKey, Name, NamespacedName, RouteKind};
use tidegate_xds::ir::Share;

/// A socket of a Gateway.
pub(crate) type SocketKey = (NamespacedName, Socket);

/// What one route wants done with what comes in for one host of a listener. Of several for one host the first in order
/// counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub(crate) listener: ListenerKey,
    /// The host that clients name in their handshake; any where they name none.
    pub(crate) host: Hostname,
    rank: Rank,
    /// Names the route and its rule: `TCPRoute shop/db rule 0`.
    pub(crate) id: Name,
    pub(crate) shares: Vec<Share>,
    /// The backends behind the clusters of the shares.
    pub(crate) uses: Vec<Backend>,
}

/// Precedence; the smallest is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Rank {
    /// The more specific hostname first, as the route has it: that of the listener may have narrowed it since.
    hostname: Reverse<(u8, usize)>,
    /// The older route first.
    created: i64,
    /// Then by `{namespace}/{name}`.
    route: NamespacedName,
    kind: RouteKind,
}

/// The streams among what routes are lowered to.
pub(crate) fn wanted((_, output): Lowered) -> Option<(SocketKey, Arc<Stream>)> {
    match output {
        RouteOutput::Stream(socket, stream) => Some((socket, stream)),
        RouteOutput::Entry(..) | RouteOutput::Uses(..) | RouteOutput::Leads(_) | RouteOutput::Status(_) => None,
    }
}

/// How specific the hostnames of a route are that lead to `host` of a listener.
pub(crate) fn specificity(written: &[Hostname], listener_host: &Hostname, host: &Hostname) -> (u8, usize) {
    let leading = written.iter().filter(|own| listener_host.intersect(own).as_ref() == Some(host));
    leading.map(Hostname::specificity).max().unwrap_or_default()
}

fn share(backend: Option<&Backend>, weight: u32) -> Share {
    let cluster = backend.map_or_else(|| INVALID_CLUSTER.into(), |backend| backend.cluster.name());
    Share { cluster, weight }
}

impl RouteParts<'_> {
    /// What the route wants done wherever it is attached. The same host may be reached through several parent
    /// references: each stream once.
    pub(crate) fn streams(&self) -> BTreeSet<(SocketKey, Arc<Stream>)> {
        let mut streams = BTreeSet::new();
        // A route of streams has one rule, or it is not valid and attached nowhere.
        let Some(rule) = self.fact.rules.first() else { return streams };
        let weighted: Vec<_> = rule.backends.iter().filter(|backend| backend.weight > 0).collect();
        let id = Name::from(rule_id(&self.fact.key, rule, 0));
        for attachment in &self.attachments {
            let Outcome::Bound(bindings) = &attachment.outcome else { continue };
            for binding in bindings {
                let reached: Vec<(Option<Backend>, u32)> = weighted
                    .iter()
                    .map(|backend| (self.reached(&backend.target, &binding.origin), backend.weight))
                    .collect();
                let uses: BTreeSet<&Backend> = reached.iter().filter_map(|(backend, _)| backend.as_ref()).collect();
                let shares: Vec<Share> =
                    reached.iter().map(|(backend, weight)| share(backend.as_ref(), *weight)).collect();
                for host in &binding.hosts {
                    let stream = Stream {
                        listener: binding.listener.clone(),
                        host: host.clone(),
                        rank: self.rank(binding, host),
                        id: id.clone(),
                        shares: shares.clone(),
                        uses: uses.iter().copied().cloned().collect(),
                    };
                    streams.insert(((attachment.gateway.clone(), binding.socket), Arc::new(stream)));
                }
            }
        }
        streams
    }

    fn rank(&self, binding: &Binding, host: &Hostname) -> Rank {
        Rank {
            hostname: Reverse(specificity(&self.fact.hostnames, &binding.listener_host, host)),
            created: self.fact.created,
            route: self.fact.key.name.clone(),
            kind: self.fact.key.kind,
        }
    }
}
