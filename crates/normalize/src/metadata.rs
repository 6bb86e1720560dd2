//! `metadata`: what every kind has.

use crate::node::{Node, Report};
use crate::text::{NAMESPACE, TextRule};
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
    /// Reads them. That the name and the namespace are names at all is the reader's of the object to know; here the
    /// namespace must be a label besides.
    pub(crate) fn read(key: &ObjectKey, root: &Node<'_>, report: &mut Report) -> Self {
        let metadata = root.field("metadata");
        if !key.kind.is_cluster_scoped()
            && let Err(message) = NAMESPACE.check(key.name.namespace())
        {
            report.invalid(&metadata.field("namespace"), message);
        }
        let generation = metadata.field("generation").integer(0, i64::MAX, report).unwrap_or(1);
        Metadata { generation, created: created(&metadata, report) }
    }
}

/// Checks the name of an object of a kind whose names are narrower than an object name.
pub(crate) fn name_holds(key: &ObjectKey, root: &Node<'_>, rule: &TextRule, report: &mut Report) -> bool {
    let checked = rule.check(key.name.name());
    if let Err(message) = &checked {
        report.invalid(&root.field("metadata").field("name"), message.as_str());
    }
    checked.is_ok()
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
