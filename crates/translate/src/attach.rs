//! Attachment: which listeners take which route, and for which hosts. Status and traffic both come from here.

use crate::edges::Edges;
use crate::gateways::ListenerState;
use crate::lookup::{Rows, lookup};
use crate::names::Socket;
use crate::origin::Origin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{
    AllowedNamespaces, Hostname, Kind, Name, NamespaceFact, NamespacedName, ParentFact, Reason, RouteFact, RouteKey,
};

/// A route's wish to attach to one parent: the part of the route that attachment looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ParentAsk {
    pub(crate) route: RouteKey,
    /// Position in `spec.parentRefs`.
    pub(crate) index: u32,
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
    pub(crate) gateway: NamespacedName,
    /// `metadata.creationTimestamp` of the route.
    pub(crate) created: i64,
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
    pub(crate) listener: Name,
    pub(crate) listener_host: Hostname,
    pub(crate) socket: Socket,
    /// How what comes in goes on to backends.
    pub(crate) origin: Origin,
    /// The domains that it serves the route under: none if the listener is not usable, or where a more specific
    /// listener of the port owns the domain (isolation).
    pub(crate) hosts: Vec<Hostname>,
}

/// The wishes of a route: its parents that are Gateways. Other parents are somebody else's.
pub(crate) fn asks(route: &RouteFact) -> Vec<ParentAsk> {
    let hostnames: Arc<[Hostname]> = if route.hostnames.is_empty() {
        Arc::from([Hostname::any()])
    } else {
        route.hostnames.iter().cloned().collect()
    };
    let gateways = (0..).zip(&route.parents).filter(|(_, parent)| parent.group_kind.is(Kind::Gateway));
    gateways
        .map(|(index, parent)| ParentAsk {
            route: route.key.clone(),
            index,
            parent: parent.clone(),
            hostnames: hostnames.clone(),
            created: route.created,
            invalid: !route.findings.is_empty(),
        })
        .collect()
}

/// Every wish towards a Gateway of ours, answered.
pub(crate) fn attachments<'s>(
    edges: &Edges,
    asks: Rows<'s, ParentAsk>,
    namespaces: Rows<'s, NamespaceFact>,
    listeners: Rows<'s, (NamespacedName, Arc<Vec<ListenerState>>)>,
) -> Rows<'s, (RouteKey, Attachment)> {
    let asks = edges.carry("routes to attachment", asks);
    let namespaces = edges.carry("namespaces to labels", namespaces);
    let listeners = edges.carry("listeners to attachment", listeners);
    let by_namespace = asks.map(|ask| (Name::from(ask.route.name.namespace()), ask));
    let wanted = by_namespace.clone().map(|(namespace, _)| namespace);
    let known = namespaces.map(|namespace| (namespace.name.clone(), namespace));
    let labels = lookup("namespace labels", wanted, known, |known| known.first().map(|n| n.labels.clone()));
    by_namespace
        .arrange_by_key_named("parent asks by namespace")
        .join_core(labels.arrange_by_key_named("namespace labels"), |_namespace, ask, labels| {
            Some((ask.parent.name.clone(), (ask.clone(), labels.clone())))
        })
        .arrange_by_key_named("parent asks by gateway")
        .join_core(listeners.arrange_by_key_named("listeners by gateway"), |gateway, (ask, labels), listeners| {
            let attachment = Attachment {
                index: ask.index,
                gateway: gateway.clone(),
                created: ask.created,
                outcome: attach(ask, labels.as_deref(), gateway, listeners),
            };
            Some((ask.route.clone(), attachment))
        })
}

/// Which of the listeners take the route. `labels` are those of the route's namespace, if its object is there.
pub(crate) fn attach(
    ask: &ParentAsk,
    labels: Option<&BTreeMap<Name, Name>>,
    gateway: &NamespacedName,
    listeners: &[ListenerState],
) -> Outcome {
    if ask.invalid {
        return Outcome::Refused(Reason::Invalid, "the route is not valid".into());
    }
    let named = listeners.iter().filter(|listener| {
        ask.parent.section.as_ref().is_none_or(|section| *section == listener.name)
            && ask.parent.port.is_none_or(|port| port == listener.port)
    });
    let (mut any_named, mut any_allowed, mut bindings) = (false, false, Vec::new());
    for listener in named {
        any_named = true;
        if !allows(listener, ask, labels, gateway) {
            continue;
        }
        any_allowed = true;
        let common: Vec<Hostname> = ask.hostnames.iter().filter_map(|host| listener.hostname.intersect(host)).collect();
        if !common.is_empty() {
            bindings.extend(bind(listener, common, listeners));
        }
    }
    if !bindings.is_empty() {
        return Outcome::Bound(bindings);
    }
    refusal(ask, gateway, any_named, any_allowed)
}

fn refusal(ask: &ParentAsk, gateway: &NamespacedName, any_named: bool, any_allowed: bool) -> Outcome {
    if !any_named {
        let section = ask.parent.section.as_ref().map(|s| format!(" named {s}")).unwrap_or_default();
        let port = ask.parent.port.map(|p| format!(" on port {p}")).unwrap_or_default();
        let message = format!("Gateway {gateway} has no listener{section}{port}");
        return Outcome::Refused(Reason::NoMatchingParent, message.into());
    }
    if !any_allowed {
        let message = format!(
            "no listener of Gateway {gateway} allows {} routes from namespace {}; see its allowedRoutes and protocol",
            ask.route.kind.kind(),
            ask.route.name.namespace()
        );
        return Outcome::Refused(Reason::NotAllowedByListeners, message.into());
    }
    let hosts = ask.hostnames.iter().map(Hostname::as_str).collect::<Vec<_>>().join(", ");
    let message = format!("no listener of Gateway {gateway} has a hostname in common with {hosts}");
    Outcome::Refused(Reason::NoMatchingListenerHostname, message.into())
}

/// Whether the listener allows routes of this kind from this namespace.
fn allows(
    listener: &ListenerState,
    ask: &ParentAsk,
    labels: Option<&BTreeMap<Name, Name>>,
    gateway: &NamespacedName,
) -> bool {
    let namespace = ask.route.name.namespace();
    let namespace_allowed = match &listener.namespaces {
        AllowedNamespaces::Same => namespace == gateway.namespace(),
        AllowedNamespaces::All => true,
        AllowedNamespaces::None => false,
        AllowedNamespaces::Selector(selector) => match labels {
            Some(labels) => selector.matches(labels),
            // An object in a namespace without an object of its own: only in files, where nobody writes Namespaces.
            None => selector.matches(&NamespaceFact::default_labels(&namespace.into())),
        },
    };
    namespace_allowed && listener.kinds.iter().any(|kind| kind.is(ask.route.kind.kind()))
}

/// A listener with the domains that it serves. None for one without a socket, which takes no kind of route.
fn bind(listener: &ListenerState, common: Vec<Hostname>, listeners: &[ListenerState]) -> Option<Binding> {
    let socket = listener.socket()?;
    let mut hosts: Vec<Hostname> = if listener.usable {
        common.into_iter().filter(|host| owner(host, socket, listeners) == Some(&listener.name)).collect()
    } else {
        Vec::new()
    };
    hosts.sort();
    hosts.dedup();
    Some(Binding {
        listener: listener.name.clone(),
        listener_host: listener.hostname.clone(),
        socket,
        origin: listener.origin.clone(),
        hosts,
    })
}

/// The listener of the socket that what comes in for `host` goes to: the most specific one.
fn owner<'l>(host: &Hostname, socket: Socket, listeners: &'l [ListenerState]) -> Option<&'l Name> {
    let of_socket = listeners.iter().filter(|l| l.claims && l.socket() == Some(socket) && l.hostname.covers(host));
    of_socket.max_by_key(|l| l.hostname.specificity()).map(|l| &l.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speech::Speech;
    use tidegate_model::{GroupKind, LabelSelector, RouteKind};

    fn listener(name: &str, port: u16, hostname: &str, namespaces: AllowedNamespaces) -> ListenerState {
        ListenerState {
            name: name.into(),
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
        }
    }

    fn ask(namespace: &str, section: Option<&str>, port: Option<u16>, hosts: &[&str]) -> ParentAsk {
        ParentAsk {
            route: RouteKey { kind: RouteKind::Http, name: NamespacedName::new(namespace, "r") },
            index: 0,
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
        match attach(ask, None, &NamespacedName::parse("infra/gw"), listeners) {
            Outcome::Refused(reason, _) => Err(reason),
            Outcome::Bound(bindings) => Ok(bindings
                .into_iter()
                .map(|b| (b.listener.to_string(), b.hosts.iter().map(Hostname::to_string).collect()))
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
        assert!(outcome(&ask("shop", None, None, &["a.com"]), &listeners).is_ok());
        assert_eq!(outcome(&ask("shop2", None, None, &["a.com"]), &listeners), Err(Reason::NotAllowedByListeners));
    }
}
