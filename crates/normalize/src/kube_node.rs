//! Node: where it is. All else of it (its conditions, which change several times a minute, its addresses, its taints) is for
//! others.

use crate::metadata::Metadata;
use crate::node::{Node, Report};
use crate::text::LABEL_VALUE;
use std::sync::Arc;
use tidegate_model::{
    Fact, HOSTNAME_LABEL, Locality, NETWORK_LABEL, Name, NodeFact, ObjectKey, REGION_LABEL, SUB_ZONE_LABEL, ZONE_LABEL,
};

/// The Node, as its labels place it. A label that is no text is left out, with a finding.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    Metadata::read(key, root, report);
    let name = Name::from(key.name.name());
    let metadata = root.field("metadata");
    let labels = metadata.field("labels");
    labels.is_object(report);
    let mut level = |label: &str| labels.key(label).name(&LABEL_VALUE, report).unwrap_or_default();
    let locality = Locality {
        network: level(NETWORK_LABEL),
        region: level(REGION_LABEL),
        zone: level(ZONE_LABEL),
        sub_zone: level(SUB_ZONE_LABEL),
        host: level(HOSTNAME_LABEL),
    };
    let locality = locality.or(&Locality { host: name.clone(), ..Locality::default() });
    vec![Fact::Node(Arc::new(NodeFact { name, locality }))]
}

#[cfg(test)]
mod tests;
