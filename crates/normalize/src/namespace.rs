//! Namespace.

use crate::metadata::{Metadata, name_holds};
use crate::node::{Node, Report};
use crate::text::NAMESPACE;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{Fact, Name, NamespaceFact, ObjectKey};

/// The label that an API server gives every namespace, whatever is written.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The namespace with its labels; without any if one of them cannot be read, for a selector may want it not to be there.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    Metadata::read(key, root, report);
    if !name_holds(key, root, &NAMESPACE, report) {
        return Vec::new();
    }
    let name = Name::from(key.name.as_str());
    let metadata = root.field("metadata");
    let labels = metadata.field("labels");
    let (mut map, mut readable) = (BTreeMap::new(), !labels.is_present() || labels.is_object(report));
    for (label, value) in labels.entries(report) {
        match value.text(report) {
            Some(text) => drop(map.insert(Name::from(label), Name::from(text))),
            None => readable &= !value.is_present(),
        }
    }
    map.insert(Name::from(NAME_LABEL), name.clone());
    let labels = if readable { Arc::new(map) } else { Arc::default() };
    vec![Fact::Namespace(NamespaceFact { name, labels })]
}

#[cfg(test)]
mod tests;
