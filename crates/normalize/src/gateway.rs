//! Gateway: addresses, infrastructure, and whose ListenerSets it admits. Its listeners are read in `listeners`.

use crate::listeners::{certificate, listeners, namespaces};
use crate::metadata::Metadata;
use crate::node::{Node, Report, quote};
use crate::text::{ADDRESS_TYPE, GROUP, HOSTNAME, KIND, LABEL_VALUE, QUALIFIED_KEY, REF_NAME, any, is_ip};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    AddressFact, AllowedNamespaces, CertificateRef, Fact, Finding, GatewayFact, GroupKind, Name, ObjectKey, Reason,
};

mod frontend;

/// Bounds of the API.
const MAX_ADDRESSES: usize = 16;
const MAX_INFRASTRUCTURE_KEYS: usize = 8;

/// The Gateway, always: somebody waits for its status.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    let metadata = Metadata::read(key, root, report);
    let spec = root.field("spec");
    spec.is_required_object(report);
    let class = spec.field("gatewayClassName").required_name(&REF_NAME, report).unwrap_or_default();
    let listeners = listeners(key, &spec.field("listeners"), report);
    let allowed_sets = allowed_sets(&spec.field("allowedListeners"), report);
    let addresses = addresses(&spec.field("addresses"), report);
    let parameters = infrastructure(&spec.field("infrastructure"), report);
    let tls = spec.field("tls");
    tls.is_object(report);
    let frontend = frontend::frontend(&key.name, &tls.field("frontend"), report);
    let client = client(key, &tls.field("backend"), report);
    not_yet(&spec, report);
    vec![Fact::Gateway(Arc::new(GatewayFact {
        name: key.name.clone(),
        generation: metadata.generation,
        created: metadata.created,
        class,
        listeners,
        allowed_sets,
        addresses,
        frontend,
        client,
        parameters,
        findings: report.carry(),
    }))]
}

/// Parts whose absence opens nothing: plaintext listeners work without them.
fn not_yet(spec: &Node<'_>, report: &mut Report) {
    let scope = spec.field("defaultScope");
    if scope.choice(&["All", "None"], report).unwrap_or("None") != "None" {
        let message = "default Gateways are not supported and this is ignored; remove it";
        report.remark(Finding::new(Reason::UnsupportedValue, &scope.path(), message));
    }
}

/// The certificate that backends are shown.
fn client(gateway: &ObjectKey, backend: &Node<'_>, report: &mut Report) -> Option<CertificateRef> {
    backend.is_object(report);
    let reference = backend.field("clientCertificateRef");
    if reference.is_object(report) { certificate(gateway, &reference, report) } else { None }
}

/// Whose ListenerSets may add listeners: nobody's unless it says so.
fn allowed_sets(field: &Node<'_>, report: &mut Report) -> AllowedNamespaces {
    field.is_object(report);
    namespaces(&field.field("namespaces"), AllowedNamespaces::None, &["All", "Selector", "Same", "None"], report)
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
            report.invalid(field, format!("{} is no IP address; correct it", quote(value)));
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
