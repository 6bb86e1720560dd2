//! Attachment: which listeners take which route, and for which hosts. Status and traffic both come from here.

use crate::gateways::{Doors, ListenerState};
use crate::labels::{LabelsByNamespace, admits};
use crate::lookup::Rows;
use crate::names::Socket;
use crate::origin::Origin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{Hostname, ListenerKey, Name, NamespacedName, ObjectKey, ParentFact, Reason, RouteFact, RouteKey};

/// Listeners that a message names.
const MAX_KNOWN: usize = 4;

/// A route's wish to attach to one parent: the part of the route that attachment looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ParentAsk {
    pub(crate) route: RouteKey,
    /// Position in `spec.parentRefs`.
    pub(crate) index: u32,
    /// The Gateway or ListenerSet.
    pub(crate) key: ObjectKey,
    pub(crate) parent: ParentFact,
    pub(crate) hostnames: Arc<[Hostname]>,
    /// `metadata.creationTimestamp` of the route.
    pub(crate) created: i64,
    /// The route has findings of its own: no parent accepts it, whatever its listeners allow.
    pub(crate) invalid: bool,
}

/// The answer to a [`ParentAsk`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Attachment {
    pub(crate) index: u32,
    /// The Gateway that serves what is attached: the parent, or the one that the parent adds listeners to.
    pub(crate) gateway: NamespacedName,
    /// `metadata.creationTimestamp` of the route.
    pub(crate) created: i64,
    /// The hostnames of a route of streams as they are written, for its precedence; of other routes none.
    pub(crate) written: Arc<[Hostname]>,
    pub(crate) outcome: Outcome,
}

/// Whether a parent takes the route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// By these listeners, at least one.
    Bound(Vec<Binding>),
    /// By none.
    Refused(Reason, Name),
}

/// One listener that takes the route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Binding {
    pub(crate) listener: ListenerKey,
    pub(crate) listener_host: Hostname,
    pub(crate) socket: Socket,
    /// How what comes in goes on to backends.
    pub(crate) origin: Origin,
    /// The domains that it serves the route under: none if the listener is not usable, or where a more specific
    /// listener of the port owns the domain (isolation).
    pub(crate) hosts: Vec<Hostname>,
}

/// The wishes of a route: its parents that are Gateways or ListenerSets. Other parents are somebody else's.
pub(crate) fn asks(route: &RouteFact) -> Vec<ParentAsk> {
    let hostnames: Arc<[Hostname]> = if route.hostnames.is_empty() {
        Arc::from([Hostname::any()])
    } else {
        route.hostnames.iter().cloned().collect()
    };
    let known = (0..).zip(&route.parents).filter_map(|(index, parent)| Some((index, parent, parent.key()?)));
    known
        .map(|(index, parent, key)| ParentAsk {
            route: route.key.clone(),
            index,
            key,
            parent: parent.clone(),
            hostnames: hostnames.clone(),
            created: route.created,
            invalid: !route.findings.is_empty(),
        })
        .collect()
}

impl ParentAsk {
    /// What of the hostnames the attachment keeps.
    pub(crate) fn written(&self) -> Arc<[Hostname]> {
        if self.route.kind.is_stream() { self.hostnames.clone() } else { Arc::default() }
    }
}

/// Every wish towards a Gateway of ours or a ListenerSet of one, answered. Each sees its parent's own listeners alone.
pub(crate) fn attachments<'s>(
    asks: Rows<'s, (Name, ParentAsk)>,
    labels: LabelsByNamespace<'s>,
    listeners: Rows<'s, (ObjectKey, Doors)>,
) -> Rows<'s, (RouteKey, Attachment)> {
    asks.arrange_by_key_named("parent asks by namespace")
        .join_core(labels, |_namespace, ask, labels| Some((ask.key.clone(), (ask.clone(), labels.clone()))))
        .arrange_by_key_named("parent asks by parent")
        .join_core(listeners.arrange_by_key_named("listeners by parent"), |_parent, (ask, labels), (gateway, own)| {
            let attachment = Attachment {
                index: ask.index,
                gateway: gateway.clone(),
                created: ask.created,
                written: ask.written(),
                outcome: attach(ask, labels.as_deref(), own),
            };
            Some((ask.route.clone(), attachment))
        })
}

/// Which of the parent's listeners take the route. `labels` are those of the route's namespace, if its object is there.
pub(crate) fn attach(ask: &ParentAsk, labels: Option<&BTreeMap<Name, Name>>, listeners: &[ListenerState]) -> Outcome {
    if ask.invalid {
        return Outcome::Refused(Reason::Invalid, "the route is not valid".into());
    }
    let named = listeners.iter().filter(|listener| {
        ask.parent.section.as_ref().is_none_or(|section| *section == listener.key.name)
            && ask.parent.port.is_none_or(|port| port == listener.port)
    });
    let (mut any_named, mut any_allowed, mut bindings) = (false, false, Vec::new());
    for listener in named {
        any_named = true;
        if !allows(listener, ask, labels) {
            continue;
        }
        any_allowed = true;
        let common: Vec<Hostname> = ask.hostnames.iter().filter_map(|host| listener.hostname.intersect(host)).collect();
        if !common.is_empty() {
            bindings.extend(bind(listener, common));
        }
    }
    if !bindings.is_empty() {
        return Outcome::Bound(bindings);
    }
    refusal(ask, listeners, any_named, any_allowed)
}

fn refusal(ask: &ParentAsk, listeners: &[ListenerState], any_named: bool, any_allowed: bool) -> Outcome {
    let parent = &ask.key;
    if !any_named {
        let section = ask.parent.section.as_ref().map(|s| format!(" named {s}")).unwrap_or_default();
        let port = ask.parent.port.map(|p| format!(" on port {p}")).unwrap_or_default();
        let known = listeners.iter().map(|listener| format!("{} on port {}", listener.key.name, listener.port));
        let known = known.take(MAX_KNOWN).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none".to_owned() } else { known };
        let more = listeners.len().saturating_sub(MAX_KNOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!("{parent} has no listener{section}{port}; it has {known}{more}: correct the reference");
        return Outcome::Refused(Reason::NoMatchingParent, message.into());
    }
    if !any_allowed {
        let message = format!(
            "no listener of {parent} allows {} routes from namespace {}; see its allowedRoutes and protocol",
            ask.route.kind.kind(),
            ask.route.name.namespace()
        );
        return Outcome::Refused(Reason::NotAllowedByListeners, message.into());
    }
    let hosts = ask.hostnames.iter().map(Hostname::as_str).collect::<Vec<_>>().join(", ");
    let message = format!("no listener of {parent} has a hostname in common with {hosts}; change those of one of them");
    Outcome::Refused(Reason::NoMatchingListenerHostname, message.into())
}

/// Whether the listener allows routes of this kind from this namespace.
fn allows(listener: &ListenerState, ask: &ParentAsk, labels: Option<&BTreeMap<Name, Name>>) -> bool {
    admits(&listener.namespaces, ask.route.name.namespace(), labels, ask.key.name.namespace())
        && listener.kinds.iter().any(|kind| kind.is(ask.route.kind.kind()))
}

/// A listener with the domains that it serves. None for one without a socket, which takes no kind of route.
fn bind(listener: &ListenerState, common: Vec<Hostname>) -> Option<Binding> {
    let socket = listener.socket()?;
    let is_own = |host: &Hostname| listener.usable && !listener.narrower.iter().any(|narrower| narrower.covers(host));
    let mut hosts: Vec<Hostname> = common.into_iter().filter(is_own).collect();
    hosts.sort();
    hosts.dedup();
    Some(Binding {
        listener: listener.key.clone(),
        listener_host: listener.hostname.clone(),
        socket,
        origin: listener.origin.clone(),
        hosts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateways::isolate;
    use crate::speech::Speech;
    use tidegate_model::{AllowedNamespaces, GroupKind, Kind, LabelSelector, RouteKind};

    fn listener(name: &str, port: u16, hostname: &str, namespaces: AllowedNamespaces) -> ListenerState {
        ListenerState {
            key: ListenerKey::of_gateway(&NamespacedName::parse("infra/gw"), name),
            port,
            hostname: Hostname::new(hostname),
            namespaces,
            kinds: vec![Kind::HttpRoute.into()],
            bad_kinds: Vec::new(),
            problem: None,
            speech: Speech::Http,
            origin: Origin::default(),
            claims: true,
            usable: true,
            fit: true,
            narrower: Vec::new(),
        }
    }

    fn ask(namespace: &str, section: Option<&str>, port: Option<u16>, hosts: &[&str]) -> ParentAsk {
        ParentAsk {
            route: RouteKey { kind: RouteKind::Http, name: NamespacedName::new(namespace, "r") },
            index: 0,
            key: ObjectKey::new(Kind::Gateway, "infra", "gw"),
            parent: ParentFact {
                group_kind: GroupKind::from(Kind::Gateway),
                name: NamespacedName::parse("infra/gw"),
                namespace_ref: None,
                section: section.map(Name::from),
                port,
            },
            hostnames: hosts.iter().map(|h| Hostname::new(h)).collect(),
            created: 0,
            invalid: false,
        }
    }

    fn outcome(ask: &ParentAsk, listeners: &[ListenerState]) -> Result<Vec<(String, Vec<String>)>, Reason> {
        let mut listeners = listeners.to_vec();
        isolate(listeners.iter_mut());
        match attach(ask, None, &listeners) {
            Outcome::Refused(reason, _) => Err(reason),
            Outcome::Bound(bindings) => Ok(bindings
                .into_iter()
                .map(|b| (b.listener.name.to_string(), b.hosts.iter().map(Hostname::to_string).collect()))
                .collect()),
        }
    }

    #[test]
    fn the_refusal_names_the_first_thing_that_does_not_fit() {
        let same = [listener("web", 80, "a.com", AllowedNamespaces::Same)];
        assert_eq!(outcome(&ask("infra", Some("nope"), None, &["a.com"]), &same), Err(Reason::NoMatchingParent));
        assert_eq!(outcome(&ask("infra", Some("web"), Some(443), &["a.com"]), &same), Err(Reason::NoMatchingParent));
        assert_eq!(outcome(&ask("shop", None, None, &["a.com"]), &same), Err(Reason::NotAllowedByListeners));
        assert_eq!(outcome(&ask("infra", None, None, &["b.com"]), &same), Err(Reason::NoMatchingListenerHostname));
        assert_eq!(
            outcome(&ask("infra", None, None, &["a.com"]), &same),
            Ok(vec![("web".into(), vec!["a.com".into()])])
        );
    }

    #[test]
    fn the_more_specific_listener_of_a_port_owns_the_host() {
        let listeners = [
            listener("wide", 80, "*.example.com", AllowedNamespaces::All),
            listener("narrow", 80, "*.dev.example.com", AllowedNamespaces::All),
            listener("other-port", 81, "t.dev.example.com", AllowedNamespaces::All),
        ];
        assert_eq!(
            outcome(&ask("shop", Some("wide"), None, &["t.dev.example.com"]), &listeners),
            Ok(vec![("wide".into(), vec![])])
        );
        assert_eq!(
            outcome(&ask("shop", None, Some(80), &["t.dev.example.com"]), &listeners),
            Ok(vec![("wide".into(), vec![]), ("narrow".into(), vec!["t.dev.example.com".into()])])
        );
    }

    #[test]
    fn a_selector_sees_the_name_label_of_a_namespace_that_nobody_wrote() {
        let selector = LabelSelector {
            labels: BTreeMap::from([("kubernetes.io/metadata.name".into(), "shop".into())]),
            expressions: Vec::new(),
        };
        let listeners = [listener("web", 80, "", AllowedNamespaces::Selector(selector))];
        assert!(matches!(
            attach(&ask("shop", None, None, &["a.com"]), Some(&BTreeMap::new()), &listeners),
            Outcome::Refused(..)
        ));
        assert!(outcome(&ask("shop", None, None, &["a.com"]), &listeners).is_ok());
        assert_eq!(outcome(&ask("shop2", None, None, &["a.com"]), &listeners), Err(Reason::NotAllowedByListeners));
    }
}
