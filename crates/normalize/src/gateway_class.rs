//! GatewayClass.

use crate::metadata::Metadata;
use crate::node::{Node, Report};
use crate::text::{CONTROLLER_NAME, any};
use tidegate_model::{ClassFact, Fact, Name, ObjectKey, Reason};

/// The class, always: who asks for it must be told.
pub(crate) fn facts(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Vec<Fact> {
    let metadata = Metadata::read(key, root, report);
    let spec = root.field("spec");
    spec.is_required_object(report);
    let controller = spec.field("controllerName").required_name(&CONTROLLER_NAME, report).unwrap_or_default();
    spec.field("description").name(&any(0, 64), report);
    let parameters = spec.field("parametersRef");
    if parameters.is_present() {
        report.refuse(Reason::InvalidParameters, &parameters, "parameters of a class are not supported; remove them");
    }
    vec![Fact::Class(ClassFact {
        name: Name::from(key.name.as_str()),
        generation: metadata.generation,
        controller,
        findings: report.carry(),
    })]
}

#[cfg(test)]
mod tests;
