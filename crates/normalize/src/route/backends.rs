//! Where a rule sends what it takes.

use crate::node::{Node, Report};
use crate::text::{GROUP, KIND, NAMESPACE, REF_NAME};
use tidegate_model::{BackendFact, BackendRef, Filter, GroupKind, Kind, Name, NamespacedName, ObjectKey};

/// Bounds of the API.
const MAX_BACKENDS: usize = 16;
const MAX_WEIGHT: i64 = 1_000_000;

/// The backend references that can be named. The others are findings on the route. `filters` reads those of one.
pub(crate) fn backends(
    route: &ObjectKey,
    list: &Node<'_>,
    report: &mut Report,
    filters: impl Fn(&Node<'_>, &mut Report) -> Vec<Filter>,
) -> Vec<BackendFact> {
    let mut backends = Vec::new();
    for item in list.items(MAX_BACKENDS, report) {
        let target = target(route, &item, report);
        // 1 unless given; 0 is meaningful and takes the backend out of the split.
        let weight = item.field("weight").integer(0, MAX_WEIGHT, report).unwrap_or(1);
        let filters = filters(&item, report);
        let weight = u32::try_from(weight).unwrap_or(1);
        backends.extend(target.map(|target| BackendFact { target, weight, filters }));
    }
    backends
}

/// What a reference to a backend names, if it can be told.
pub(crate) fn target(route: &ObjectKey, item: &Node<'_>, report: &mut Report) -> Option<BackendRef> {
    let group = item.field("group").name(&GROUP, report).unwrap_or_default();
    let kind = item.field("kind").name(&KIND, report).unwrap_or_else(|| Name::from(Kind::Service.as_str()));
    let namespace = item.field("namespace").name(&NAMESPACE, report);
    let name = item.field("name").required_name(&REF_NAME, report);
    let group_kind = GroupKind { group, kind };
    let port_field = item.field("port");
    let port = port_field.port(report);
    if !port_field.is_present() && group_kind.is(Kind::Service) {
        report.invalid(&port_field, "is required for a Service; add the port of the Service");
    }
    let namespace = namespace.as_deref().unwrap_or(route.name.namespace());
    Some(BackendRef { group_kind, name: NamespacedName::new(namespace, &name?), port })
}
