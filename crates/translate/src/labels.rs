//! Namespaces as selectors see them: whose objects may attach to what.

use crate::edges::Edges;
use crate::lookup::{Rows, lookup};
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::implementations::ValSpine;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{AllowedNamespaces, Epoch, ListenerSetFact, Name, NamespaceFact};

/// The labels of a namespace, if its object is there.
pub(crate) type Labels = Option<Arc<BTreeMap<Name, Name>>>;

/// Labels by namespace.
pub(crate) type LabelsByNamespace<'s> = Arranged<'s, TraceAgent<ValSpine<Name, Labels, Epoch, isize>>>;

/// The labels of every namespace that is wanted.
pub(crate) fn labels<'s>(
    edges: &Edges,
    wanted: Rows<'s, Name>,
    namespaces: Rows<'s, NamespaceFact>,
) -> LabelsByNamespace<'s> {
    let namespaces = edges.carry("namespaces to labels", namespaces);
    let known = namespaces.map(|namespace| (namespace.name.clone(), namespace));
    lookup("namespace labels", wanted, known, |known| known.first().map(|namespace| namespace.labels.clone()))
        .arrange_by_key_named("namespace labels")
}

/// Every ListenerSet with the labels of its namespace.
pub(crate) fn of_sets<'s>(
    sets: Rows<'s, (Name, Arc<ListenerSetFact>)>,
    labels: LabelsByNamespace<'s>,
) -> Rows<'s, (Arc<ListenerSetFact>, Labels)> {
    sets.arrange_by_key_named("ListenerSets by namespace")
        .join_core(labels, |_namespace, set, labels| Some((set.clone(), labels.clone())))
}

/// Whether objects of `namespace`, which has these labels, may attach to something of namespace `home`.
pub(crate) fn admits(
    allowed: &AllowedNamespaces,
    namespace: &str,
    labels: Option<&BTreeMap<Name, Name>>,
    home: &str,
) -> bool {
    match allowed {
        AllowedNamespaces::Same => namespace == home,
        AllowedNamespaces::All => true,
        AllowedNamespaces::None => false,
        AllowedNamespaces::Selector(selector) => match labels {
            // Without any they could not be read, and the selector may want one not to be there.
            Some(labels) => !labels.is_empty() && selector.matches(labels),
            // An object in a namespace without an object of its own: only in files, where nobody writes Namespaces.
            None => selector.matches(&NamespaceFact::default_labels(&namespace.into())),
        },
    }
}
