//! Gateway: listeners, addresses, infrastructure.

use crate::metadata::Metadata;
use crate::node::{Node, Report, quote};
use crate::selector::selector;
use crate::text::{
    ADDRESS_TYPE, GROUP, HOSTNAME, KIND, LABEL_VALUE, NAMESPACE, PROTOCOL, QUALIFIED_KEY, REF_NAME, SECTION_NAME, any,
    is_ip,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    AddressFact, AllowedNamespaces, CertificateRef, Fact, Finding, GatewayFact, GroupKind, Hostname, Kind,
    ListenerFact, ListenerTlsFact, Name, NamespacedName, ObjectKey, Protocol, Reason,
};

/// Bounds of the API.
const MAX_LISTENERS: usize = 64;
const MAX_ADDRESSES: usize = 16;
const MAX_KINDS: usize = 8;
const MAX_CERTIFICATES: usize = 64;
const MAX_INFRASTRUCTURE_KEYS: usize = 8;
const MAX_TLS_OPTIONS: usize = 16;

/// The Gateway, always: somebody waits for its status.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    let metadata = Metadata::read(key, root, report);
    let spec = root.field("spec");
    spec.is_required_object(report);
    let class = spec.field("gatewayClassName").required_name(&REF_NAME, report).unwrap_or_default();
    let listeners = listeners(&key.name, &spec.field("listeners"), report);
    let addresses = addresses(&spec.field("addresses"), report);
    let client = client(&key.name, &spec.field("tls"), report);
    let parameters = infrastructure(&spec.field("infrastructure"), report);
    not_yet(&spec, report);
    vec![Fact::Gateway(Arc::new(GatewayFact {
        name: key.name.clone(),
        generation: metadata.generation,
        created: metadata.created,
        class,
        listeners,
        addresses,
        client,
        parameters,
        findings: report.carry(),
    }))]
}

/// Parts whose absence opens nothing: plaintext listeners work without them.
fn not_yet(spec: &Node<'_>, report: &mut Report) {
    let listener_sets = spec.field("allowedListeners");
    let namespaces = listener_sets.field("namespaces");
    let from = namespaces.field("from").choice(&["All", "Selector", "Same", "None"], report).unwrap_or("None");
    let scope = spec.field("defaultScope");
    let scoped = scope.choice(&["All", "None"], report).unwrap_or("None") != "None";
    let tls = spec.field("tls");
    let frontend = tls.field("frontend");
    for (there, field, what) in [
        (from != "None", &listener_sets, "ListenerSets are"),
        (scoped, &scope, "default Gateways are"),
        (frontend.is_object(report), &frontend, "certificates of clients are"),
    ] {
        if there {
            let message = format!("{what} not supported and this is ignored; remove it");
            report.remark(Finding::new(Reason::UnsupportedValue, &field.path(), message));
        }
    }
}

fn listeners(gateway: &NamespacedName, list: &Node<'_>, report: &mut Report) -> Vec<ListenerFact> {
    if list.demand(report) && list.items(MAX_LISTENERS, report).next().is_none() {
        report.invalid(list, "must not be empty; add a listener");
    }
    let mut names = BTreeSet::new();
    let mut sockets = BTreeSet::new();
    let mut listeners = Vec::new();
    for item in list.items(MAX_LISTENERS, report) {
        let Some(listener) = listener(gateway, &item, report) else { continue };
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
fn listener(gateway: &NamespacedName, item: &Node<'_>, report: &mut Report) -> Option<ListenerFact> {
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
        terms = tls(gateway, item, protocol, report);
    }
    let allowed = item.field("allowedRoutes");
    allowed.is_object(report);
    Some(ListenerFact {
        namespaces: namespaces(&allowed.field("namespaces"), report),
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
fn tls(gateway: &NamespacedName, item: &Node<'_>, protocol: &Protocol, report: &mut Report) -> Option<ListenerTlsFact> {
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
    let certificates = list.items(MAX_CERTIFICATES, report).filter_map(|item| certificate(gateway, &item, report));
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

/// The certificate that backends are shown.
fn client(gateway: &NamespacedName, tls: &Node<'_>, report: &mut Report) -> Option<CertificateRef> {
    tls.is_object(report);
    let backend = tls.field("backend");
    backend.is_object(report);
    let reference = backend.field("clientCertificateRef");
    if reference.is_object(report) { certificate(gateway, &reference, report) } else { None }
}

fn certificate(gateway: &NamespacedName, item: &Node<'_>, report: &mut Report) -> Option<CertificateRef> {
    let group = item.field("group").name(&GROUP, report).unwrap_or_default();
    let kind = item.field("kind");
    let kind = if kind.is_present() { kind.name(&KIND, report) } else { Some(Kind::Secret.as_str().into()) };
    let name = item.field("name").required_name(&REF_NAME, report);
    let namespace = item.field("namespace").name(&NAMESPACE, report);
    let namespace = namespace.as_deref().unwrap_or(gateway.namespace());
    Some(CertificateRef { group_kind: GroupKind { group, kind: kind? }, name: NamespacedName::new(namespace, &name?) })
}

/// Whose routes may attach. What cannot be read admits nobody.
fn namespaces(field: &Node<'_>, report: &mut Report) -> AllowedNamespaces {
    field.is_object(report);
    let from = field.field("from");
    if !from.is_present() {
        return AllowedNamespaces::Same;
    }
    match from.choice(&["All", "Same", "Selector"], report) {
        Some("All") => AllowedNamespaces::All,
        Some("Same") => AllowedNamespaces::Same,
        Some(_) => match selector(&field.field("selector"), report) {
            Some(selector) => AllowedNamespaces::Selector(selector),
            None => AllowedNamespaces::None,
        },
        None => AllowedNamespaces::None,
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

fn addresses(list: &Node<'_>, report: &mut Report) -> Vec<AddressFact> {
    let mut seen = BTreeSet::new();
    let mut addresses = Vec::new();
    for item in list.items(MAX_ADDRESSES, report) {
        let field = item.field("value");
        let kind = item.field("type");
        let kind = if kind.is_present() { kind.name(&ADDRESS_TYPE, report) } else { Some(Name::from("IPAddress")) };
        let value = field.name(&any(0, 253), report).filter(|value| !value.is_empty());
        let Some(kind) = kind else { continue };
        if let Some(value) = &value {
            address_value(&field, &kind, value, report);
            if matches!(&*kind, "IPAddress" | "Hostname") && !seen.insert((kind.clone(), value.clone())) {
                report.invalid(&item, format!("{} is there twice; remove one of them", quote(value)));
            }
        }
        addresses.push(AddressFact { kind, value });
    }
    addresses
}

fn address_value(field: &Node<'_>, kind: &str, value: &str, report: &mut Report) {
    match kind {
        "IPAddress" if !is_ip(value) => {
            report.invalid(field, format!("{} is no IP address; correct it or use the type Hostname", quote(value)));
        }
        "Hostname" => {
            if let Err(message) = HOSTNAME.check(value) {
                report.invalid(field, message);
            }
        }
        _ => {}
    }
}

/// Checks the keys to put on what is made for the Gateway; the group and kind of its parameters.
fn infrastructure(field: &Node<'_>, report: &mut Report) -> Option<GroupKind> {
    field.is_object(report);
    for (name, value) in [("labels", &LABEL_VALUE), ("annotations", &any(0, 4096))] {
        let map = field.field(name);
        let entries = map.entries(report);
        if entries.len() > MAX_INFRASTRUCTURE_KEYS {
            let message = format!("has {} keys, {MAX_INFRASTRUCTURE_KEYS} are allowed; remove some", entries.len());
            report.invalid(&map, message);
        }
        for (key, entry) in entries {
            if let Err(message) = QUALIFIED_KEY.check(key) {
                report.invalid(&entry, message);
            }
            entry.name(value, report);
        }
    }
    let parameters = field.field("parametersRef");
    if !parameters.is_object(report) {
        return None;
    }
    let group = parameters.field("group").required_name(&GROUP, report);
    let kind = parameters.field("kind").required_name(&KIND, report);
    parameters.field("name").required_name(&REF_NAME, report);
    Some(GroupKind { group: group.unwrap_or_default(), kind: kind.unwrap_or_default() })
}

#[cfg(test)]
mod tests;
