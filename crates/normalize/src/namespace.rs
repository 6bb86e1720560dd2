//! Namespace.

use crate::metadata::{Metadata, name_holds};
use crate::node::{Node, Report};
use crate::text::NAMESPACE;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{Fact, Name, NamespaceFact, ObjectKey};

/// The label that an API server gives every namespace, whatever is written.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The namespace with its labels. Labels that are no strings are left out, with a finding.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    Metadata::read(key, root, report);
    if !name_holds(key, root, &NAMESPACE, report) {
        return Vec::new();
    }
    let name = Name::from(key.name.as_str());
    let metadata = root.field("metadata");
    let labels = metadata.field("labels");
    let mut map = BTreeMap::new();
    for (label, value) in labels.entries(report) {
        if let Some(text) = value.text(report) {
            map.insert(Name::from(label), Name::from(text));
        }
    }
    map.insert(Name::from(NAME_LABEL), name.clone());
    vec![Fact::Namespace(NamespaceFact { name, labels: Arc::new(map) })]
}

#[cfg(test)]
mod tests;
