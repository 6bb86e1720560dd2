//! `metadata`: what every kind has.

use crate::node::{Node, Report};
use crate::text::TextRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::Value;
use tidegate_model::{Finding, Name, ObjectKey, Reason};

/// The parts of `metadata` that facts carry.
pub(crate) struct Metadata {
    /// `generation`; 1 where there is none, the value that an API server begins with.
    pub(crate) generation: i64,
    /// `creationTimestamp` in seconds since the Unix epoch; 0 where there is none, so that files tie and their names
    /// decide.
    pub(crate) created: i64,
}

impl Metadata {
    /// Reads them, and checks the name of the object against the rules of its kind.
    pub(crate) fn read(key: &ObjectKey, root: &Node<'_>, name: &TextRule, report: &mut Report) -> Self {
        let metadata = root.field("metadata");
        // A cluster-scoped name with a slash in it would read as a namespace and a name.
        let written = if key.kind.is_cluster_scoped() { key.name.as_str() } else { key.name.name() };
        if let Err(message) = name.check(written) {
            report.invalid(&metadata.field("name"), message);
        }
        if !key.kind.is_cluster_scoped()
            && let Err(message) = crate::text::NAMESPACE.check(key.name.namespace())
        {
            report.invalid(&metadata.field("namespace"), message);
        }
        let generation = metadata.field("generation").integer(0, i64::MAX, report).unwrap_or(1);
        Metadata { generation, created: created(&metadata, report) }
    }
}

fn created(metadata: &Node<'_>, report: &mut Report) -> i64 {
    let field = metadata.field("creationTimestamp");
    let Some(text) = field.text(report) else { return 0 };
    match Time::deserialize(&Value::from(text)) {
        Ok(time) => time.0.as_second(),
        Err(_) => {
            let message = "is no time; write it as 2006-01-02T15:04:05Z or leave it out";
            report.remark(Finding::new(Reason::Invalid, &field.path(), message));
            0
        }
    }
}

/// The label `key` of the object, if it has a value.
pub(crate) fn label(root: &Node<'_>, key: &str, report: &mut Report) -> Option<Name> {
    let metadata = root.field("metadata");
    let labels = metadata.field("labels");
    let label = labels.key(key);
    label.text(report).filter(|text| !text.is_empty()).map(Name::from)
}
