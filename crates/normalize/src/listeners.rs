//! Listeners, as a Gateway and a ListenerSet have them.

use crate::node::{Node, Report, quote};
use crate::selector::selector;
use crate::text::{GROUP, HOSTNAME, KIND, NAMESPACE, PROTOCOL, REF_NAME, SECTION_NAME, is_ip};
use std::collections::BTreeSet;
use tidegate_model::{
    AllowedNamespaces, CertificateRef, GroupKind, Hostname, Kind, ListenerFact, ListenerTlsFact, Name, NamespacedName,
    ObjectKey, Protocol,
};

/// Bounds of the API.
const MAX_LISTENERS: usize = 64;
const MAX_KINDS: usize = 8;
const MAX_CERTIFICATES: usize = 64;
const MAX_TLS_OPTIONS: usize = 16;

/// The listeners of an object, each with a name of its own.
pub(crate) fn listeners(owner: &ObjectKey, list: &Node<'_>, report: &mut Report) -> Vec<ListenerFact> {
    if list.demand(report) && list.items(MAX_LISTENERS, report).next().is_none() {
        report.invalid(list, "must not be empty; add a listener");
    }
    let mut names = BTreeSet::new();
    let mut sockets = BTreeSet::new();
    let mut listeners = Vec::new();
    for item in list.items(MAX_LISTENERS, report) {
        let Some(listener) = listener(owner, &item, report) else { continue };
        if !names.insert(listener.name.clone()) {
            let message = format!("{} is there twice; give every listener its own name", quote(&listener.name));
            report.invalid(&item.field("name"), message);
        }
        if !sockets.insert((listener.port, listener.protocol.clone(), listener.hostname.clone())) {
            let message = "another listener has the same port, protocol and hostname; change one of the three";
            report.invalid(&item, message);
        }
        listeners.push(listener);
    }
    listeners
}

/// A listener; none if it cannot be told from others, which is reported.
fn listener(owner: &ObjectKey, item: &Node<'_>, report: &mut Report) -> Option<ListenerFact> {
    let name = item.field("name").required_name(&SECTION_NAME, report);
    let number = item.field("port");
    let port = if number.demand(report) { number.port(report) } else { None };
    let protocol = item.field("protocol").required_name(&PROTOCOL, report).map(protocol);
    let hostname = hostname(&item.field("hostname"), report);
    let mut terms = None;
    if let Some(protocol) = &protocol {
        if matches!(protocol, Protocol::Tcp | Protocol::Udp) && item.field("hostname").is_present() {
            report.invalid(&item.field("hostname"), "a TCP or UDP listener cannot have a hostname; remove it");
        }
        terms = tls(owner, item, protocol, report);
    }
    let allowed = item.field("allowedRoutes");
    allowed.is_object(report);
    Some(ListenerFact {
        namespaces: namespaces(
            &allowed.field("namespaces"),
            AllowedNamespaces::Same,
            &["All", "Selector", "Same"],
            report,
        ),
        kinds: kinds(&allowed.field("kinds"), report),
        name: name?,
        port: port?,
        protocol: protocol?,
        hostname,
        tls: terms,
    })
}

fn protocol(name: Name) -> Protocol {
    match &*name {
        "HTTP" => Protocol::Http,
        "HTTPS" => Protocol::Https,
        "TLS" => Protocol::Tls,
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        _ => Protocol::Other(name),
    }
}

fn hostname(field: &Node<'_>, report: &mut Report) -> Hostname {
    let Some(name) = field.name(&HOSTNAME, report) else { return Hostname::any() };
    if is_ip(&name) {
        report.unsupported(field, format!("{} is an IP address; use a hostname, or none for every host", quote(&name)));
    }
    Hostname::new(&name)
}

/// `tls`, with its rules.
fn tls(owner: &ObjectKey, item: &Node<'_>, protocol: &Protocol, report: &mut Report) -> Option<ListenerTlsFact> {
    let tls = item.field("tls");
    let present = tls.is_object(report);
    let mode = tls.field("mode");
    match protocol {
        Protocol::Http | Protocol::Tcp | Protocol::Udp if present => {
            report.invalid(&tls, "a listener of this protocol has no TLS; remove it or use the protocol HTTPS or TLS");
            return None;
        }
        Protocol::Https if present && mode.text(report).is_some_and(|mode| mode != "Terminate") => {
            report.invalid(&mode, "must be Terminate for HTTPS; remove it or use the protocol TLS");
        }
        Protocol::Tls if !present => report.invalid(&tls, "is required for the protocol TLS; add it with a mode"),
        _ => {}
    }
    if !present {
        return None;
    }
    let passthrough = mode.choice(&["Terminate", "Passthrough"], report) == Some("Passthrough");
    let list = tls.field("certificateRefs");
    let count = list.items(MAX_CERTIFICATES, report).count();
    let certificates = list.items(MAX_CERTIFICATES, report).filter_map(|item| certificate(owner, &item, report));
    let certificates = certificates.collect();
    let options = tls.field("options");
    let option_count = options.entries(report).len();
    if option_count > MAX_TLS_OPTIONS {
        report.invalid(&options, format!("has {option_count} options, {MAX_TLS_OPTIONS} are allowed; remove some"));
    }
    if !passthrough && count + option_count == 0 {
        report.invalid(&list, "mode Terminate needs a certificate; add one or use Passthrough");
    }
    Some(ListenerTlsFact { passthrough, certificates })
}

/// A reference to a certificate.
pub(crate) fn certificate(owner: &ObjectKey, item: &Node<'_>, report: &mut Report) -> Option<CertificateRef> {
    let group = item.field("group").name(&GROUP, report).unwrap_or_default();
    let kind = item.field("kind");
    let kind = if kind.is_present() { kind.name(&KIND, report) } else { Some(Kind::Secret.as_str().into()) };
    let name = item.field("name").required_name(&REF_NAME, report);
    let namespace = item.field("namespace").name(&NAMESPACE, report);
    let namespace = namespace.as_deref().unwrap_or(owner.name.namespace());
    Some(CertificateRef { group_kind: GroupKind { group, kind: kind? }, name: NamespacedName::new(namespace, &name?) })
}

/// Whose objects may attach, with the default of the field and the choices that it has. What cannot be read admits nobody.
pub(crate) fn namespaces(
    field: &Node<'_>,
    default: AllowedNamespaces,
    choices: &[&'static str],
    report: &mut Report,
) -> AllowedNamespaces {
    field.is_object(report);
    let from = field.field("from");
    if !from.is_present() {
        return default;
    }
    match from.choice(choices, report) {
        Some("All") => AllowedNamespaces::All,
        Some("Same") => AllowedNamespaces::Same,
        Some("Selector") => match selector(&field.field("selector"), report) {
            Some(selector) => AllowedNamespaces::Selector(selector),
            None => AllowedNamespaces::None,
        },
        Some(_) | None => AllowedNamespaces::None,
    }
}

fn kinds(list: &Node<'_>, report: &mut Report) -> Vec<GroupKind> {
    list.items(MAX_KINDS, report)
        .filter_map(|item| {
            let group = item.field("group").name(&GROUP, report);
            let kind = item.field("kind").required_name(&KIND, report)?;
            let group = group.unwrap_or_else(|| Name::from(Kind::Gateway.group()));
            Some(GroupKind { group, kind })
        })
        .collect()
}
