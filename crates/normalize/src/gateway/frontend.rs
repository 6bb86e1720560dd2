//! `spec.tls.frontend`: how clients of the listeners that end TLS are validated.

use crate::node::{Node, Report};
use crate::text::{GROUP, KIND, NAMESPACE, REF_NAME};
use std::collections::BTreeMap;
use tidegate_model::{CertificateRef, ClientValidationFact, FrontendFact, GroupKind, Name, NamespacedName};

/// Bounds of the API.
const MAX_PORTS: usize = 64;
const MAX_AUTHORITIES: usize = 8;

/// The settings for all ports and for single ones.
pub(super) fn frontend(gateway: &NamespacedName, field: &Node<'_>, report: &mut Report) -> FrontendFact {
    if !field.is_object(report) {
        return FrontendFact::default();
    }
    let default = field.field("default");
    default.is_required_object(report);
    let list = field.field("perPort");
    let mut ports = BTreeMap::new();
    for item in list.items(MAX_PORTS, report) {
        let (number, tls) = (item.field("port"), item.field("tls"));
        let port = if number.demand(report) { number.port(report) } else { None };
        tls.is_required_object(report);
        let own = validation(gateway, &tls.field("validation"), report);
        let Some(port) = port else { continue };
        if ports.insert(port, own).is_some() {
            report.invalid(&number, format!("{port} is there twice; write all settings of a port in one entry"));
        }
    }
    FrontendFact { default: validation(gateway, &default.field("validation"), report), ports }
}

fn validation(gateway: &NamespacedName, field: &Node<'_>, report: &mut Report) -> Option<ClientValidationFact> {
    if !field.is_object(report) {
        return None;
    }
    let list = field.field("caCertificateRefs");
    if list.demand(report) && list.items(MAX_AUTHORITIES, report).next().is_none() {
        report.invalid(&list, "must not be empty; add a reference to a ConfigMap with a CA certificate");
    }
    let authorities = list.items(MAX_AUTHORITIES, report).filter_map(|item| authority(gateway, &item, report));
    let authorities = authorities.collect();
    let mode = field.field("mode").choice(&["AllowValidOnly", "AllowInsecureFallback"], report);
    let insecure = mode == Some("AllowInsecureFallback");
    Some(ClientValidationFact { field: Name::from(field.path()), authorities, insecure })
}

/// A reference to CA certificates. Nothing of it has a default but the namespace.
fn authority(gateway: &NamespacedName, item: &Node<'_>, report: &mut Report) -> Option<CertificateRef> {
    // An empty group is the core group, but it must be written.
    let group = item.field("group").required_name(&GROUP, report);
    let kind = item.field("kind").required_name(&KIND, report);
    let name = item.field("name").required_name(&REF_NAME, report);
    let namespace = item.field("namespace").name(&NAMESPACE, report);
    let namespace = namespace.as_deref().unwrap_or(gateway.namespace());
    let group_kind = GroupKind { group: group?, kind: kind? };
    Some(CertificateRef { group_kind, name: NamespacedName::new(namespace, &name?) })
}
