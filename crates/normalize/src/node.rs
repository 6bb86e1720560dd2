//! Reading an untyped object field by field: every value knows its path, and a value of the wrong type costs one
//! finding, not the object.

use crate::text::TextRule;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use tidegate_model::{Finding, Name, Reason};

/// How many findings of one severity are kept per object. The largest route allowed could give 16 rules x 64 matches
/// x 32 parts = 32,768; nobody reads them, and every one is a row of the dataflow. One more row says that some are
/// missing.
const MAX_FINDINGS: usize = 32;

/// What there is to say about the object that is being read.
#[derive(Default)]
pub(crate) struct Report {
    findings: Vec<Finding>,
    remarks: Vec<Finding>,
    /// Fields that a part of the object has a finding of its own about.
    withheld: Vec<Name>,
    carried: bool,
}

impl Report {
    /// The value breaks a rule of its kind.
    pub(crate) fn invalid(&mut self, at: &Node<'_>, message: impl Into<Name>) {
        push(&mut self.findings, Finding::new(Reason::Invalid, &at.path(), message));
    }

    /// The value is allowed but nothing here can do what it asks for.
    pub(crate) fn unsupported(&mut self, at: &Node<'_>, message: impl Into<Name>) {
        push(&mut self.findings, Finding::new(Reason::UnsupportedValue, &at.path(), message));
    }

    /// The value gives `reason` for not accepting the object.
    pub(crate) fn refuse(&mut self, reason: Reason, at: &Node<'_>, message: impl Into<Name>) {
        push(&mut self.findings, Finding::new(reason, &at.path(), message));
    }

    /// Nothing here can do what the value asks for, so the part of the object that it stands in cannot be used, and the
    /// rest can. The part carries the finding.
    pub(crate) fn withhold(&mut self, reason: Reason, at: &Node<'_>, message: impl Into<Name>) -> Finding {
        let finding = Finding::new(reason, &at.path(), message);
        self.withheld.push(finding.field.clone());
        finding
    }

    /// Something to say that does not keep the object from being used.
    pub(crate) fn remark(&mut self, finding: Finding) {
        push(&mut self.remarks, finding);
    }

    /// Whether anything speaks against the object.
    pub(crate) fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// The findings, for a fact that carries them itself; [`Report::rows`] then leaves them out.
    pub(crate) fn carry(&mut self) -> Vec<Finding> {
        self.carried = true;
        self.findings.clone()
    }

    /// Whether something is said about `path` or about what it lies in.
    pub(crate) fn covers(&self, path: &str) -> bool {
        // Decoders write the keys of a map like fields.
        let plain = |path: &str| path.replace('[', ".").replace(']', "");
        let path = plain(path);
        let said = self.findings.iter().chain(&self.remarks).map(|finding| &finding.field);
        said.chain(&self.withheld).any(|field| {
            let field = plain(field);
            path.strip_prefix(&field)
                .is_some_and(|rest| !field.is_empty() && (rest.is_empty() || rest.starts_with('.')))
        })
    }

    /// What no fact carries, in order, each once.
    pub(crate) fn rows(self) -> Vec<Finding> {
        let mut rows = if self.carried { Vec::new() } else { self.findings };
        for remark in self.remarks {
            if !rows.contains(&remark) {
                rows.push(remark);
            }
        }
        rows
    }
}

fn push(list: &mut Vec<Finding>, finding: Finding) {
    if list.contains(&finding) {
        return;
    }
    match list.len() {
        n if n < MAX_FINDINGS => list.push(finding),
        MAX_FINDINGS => {
            let message = format!("more than {MAX_FINDINGS} things are wrong; correct the ones listed to see the rest");
            list.push(Finding::new(Reason::Invalid, "", message));
        }
        _ => {}
    }
}

/// A value of an object, or the place where one could be. `null` counts as absent, as it does for an API server.
pub(crate) struct Node<'a> {
    value: Option<&'a Value>,
    step: Step<'a>,
    parent: Option<&'a Node<'a>>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Item(usize),
}

impl fmt::Display for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parent) = self.parent else { return Ok(()) };
        fmt::Display::fmt(parent, f)?;
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if matches!(parent.step, Step::Root) => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Key(key) => write!(f, "[{}]", plain(key)),
            Step::Item(index) => write!(f, "[{index}]"),
        }
    }
}

impl<'a> Node<'a> {
    /// The object itself.
    pub(crate) fn root(value: &'a Value) -> Self {
        Node { value: Some(value), step: Step::Root, parent: None }
    }

    /// The path, as `spec.rules[0].name`.
    pub(crate) fn path(&self) -> String {
        self.to_string()
    }

    /// The place of a field; absent where this is no object.
    pub(crate) fn field<'s>(&'s self, name: &'s str) -> Node<'s> {
        let value = self.value.and_then(|value| value.get(name)).filter(|value| !value.is_null());
        Node { value, step: Step::Field(name), parent: Some(self) }
    }

    /// The place of an entry of a map of free keys.
    pub(crate) fn key<'s>(&'s self, key: &'s str) -> Node<'s> {
        Node { step: Step::Key(key), ..self.field(key) }
    }

    /// Whether a value is there.
    pub(crate) fn is_present(&self) -> bool {
        self.value.is_some()
    }

    /// Whether an object is there. Something else than an object is reported.
    pub(crate) fn is_object(&self, report: &mut Report) -> bool {
        self.typed(report, "an object", |value| value.is_object().then_some(())).is_some()
    }

    /// Whether an object is there; its absence is reported too.
    pub(crate) fn is_required_object(&self, report: &mut Report) -> bool {
        self.demand(report) && self.is_object(report)
    }

    /// The entries of a list, none if it is absent; a list longer than `max` is reported and read up to there.
    pub(crate) fn items<'s>(&'s self, max: usize, report: &mut Report) -> impl Iterator<Item = Node<'s>> + use<'s, 'a> {
        let items: &[Value] = self.typed(report, "a list", |value| value.as_array()).map_or(&[], Vec::as_slice);
        if items.len() > max {
            report.invalid(self, format!("has {} entries, {max} are allowed; remove some", items.len()));
        }
        items.iter().enumerate().take(max).map(|(index, value)| Node {
            value: Some(value).filter(|value| !value.is_null()),
            step: Step::Item(index),
            parent: Some(self),
        })
    }

    /// The entries of a map of free keys, in the order of the keys.
    pub(crate) fn entries<'s>(&'s self, report: &mut Report) -> Vec<(&'s str, Node<'s>)> {
        let Some(map) = self.typed(report, "an object", |value| value.as_object()) else { return Vec::new() };
        let mut entries: Vec<_> = map
            .iter()
            .map(|(key, value)| {
                let value = Some(value).filter(|value| !value.is_null());
                (key.as_str(), Node { value, step: Step::Key(key), parent: Some(self) })
            })
            .collect();
        entries.sort_by_key(|(key, _)| *key);
        entries
    }

    /// A text.
    pub(crate) fn text(&self, report: &mut Report) -> Option<&'a str> {
        self.typed(report, "a string", |value| value.as_str())
    }

    /// A text that keeps `rule`; one that does not is reported and not returned.
    pub(crate) fn name(&self, rule: &TextRule, report: &mut Report) -> Option<Name> {
        let text = self.text(report)?;
        match rule.check(text) {
            Ok(()) => Some(Name::from(text)),
            Err(message) => {
                report.invalid(self, message);
                None
            }
        }
    }

    /// A text that must be there and keep `rule`.
    pub(crate) fn required_name(&self, rule: &TextRule, report: &mut Report) -> Option<Name> {
        if self.demand(report) { self.name(rule, report) } else { None }
    }

    /// One of `choices`; anything else is reported and not returned.
    pub(crate) fn choice<'c>(&self, choices: &[&'c str], report: &mut Report) -> Option<&'c str> {
        let text = self.text(report)?;
        let found = choices.iter().find(|choice| **choice == text).copied();
        if found.is_none() {
            report.invalid(self, format!("{} is none of {}; use one of them", quote(text), choices.join(", ")));
        }
        found
    }

    /// A whole number between `min` and `max`.
    pub(crate) fn integer(&self, min: i64, max: i64, report: &mut Report) -> Option<i64> {
        let number = self.typed(report, "a whole number", |value| value.as_i64())?;
        if (min..=max).contains(&number) {
            return Some(number);
        }
        report.invalid(self, format!("{number} is out of range; use a number from {min} to {max}"));
        None
    }

    /// A port number.
    pub(crate) fn port(&self, report: &mut Report) -> Option<u16> {
        self.integer(1, 65535, report).and_then(|port| u16::try_from(port).ok())
    }

    /// True or false.
    pub(crate) fn boolean(&self, report: &mut Report) -> Option<bool> {
        self.typed(report, "true or false", |value| value.as_bool())
    }

    /// Reports the absence of a value that must be there.
    pub(crate) fn demand(&self, report: &mut Report) -> bool {
        if !self.is_present() {
            report.invalid(self, "is required; add it");
        }
        self.is_present()
    }

    fn typed<T>(&self, report: &mut Report, wanted: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.value?;
        let found = read(value);
        if found.is_none() {
            report.invalid(self, format!("must be {wanted}, not {}", type_of(value)));
        }
        found
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A name that a user made up as a path shows it: on one line, and not longer than any name that is allowed.
pub(crate) fn plain(name: &str) -> Cow<'_, str> {
    const SHOWN: usize = 320;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}...", tidegate_model::plain(&name[..end]))),
        None => tidegate_model::plain(name),
    }
}

/// A text as a message shows it: quoted, on one line, and not longer than a line.
pub(crate) fn quote(text: &str) -> String {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_knows_its_path_and_reports_a_wrong_type_once() {
        let value = json!({"spec": {"rules": [null, {"port": "80"}], "labels": {"a.b/c": 1}}});
        let root = Node::root(&value);
        let mut report = Report::default();
        let spec = root.field("spec");
        let rules = spec.field("rules");
        let ports: Vec<_> =
            rules.items(16, &mut report).map(|rule| rule.field("port").port(&mut Report::default())).collect();
        assert_eq!(ports, [None, None]);
        let rule = rules.items(16, &mut report).nth(1).unwrap();
        assert_eq!(rule.field("port").port(&mut report), None);
        let labels = spec.field("labels");
        for (_, label) in labels.entries(&mut report) {
            label.text(&mut report);
        }
        let said: Vec<_> = report.rows().iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "spec.rules[1].port: must be a whole number, not a string",
                "spec.labels[a.b/c]: must be a string, not a number"
            ]
        );
    }

    #[test]
    fn a_name_that_a_user_made_up_is_shown_on_one_line_and_not_whole() {
        let long = "x".repeat(70_000);
        let value = json!({"labels": {"a\nb": 1, &long: 1}});
        let root = Node::root(&value);
        let mut report = Report::default();
        for (_, label) in root.field("labels").entries(&mut report) {
            label.text(&mut report);
        }
        let fields: Vec<_> = report.rows().iter().map(|finding| finding.field.to_string()).collect();
        assert_eq!(fields, ["labels[a\\nb]".to_owned(), format!("labels[{}...]", "x".repeat(320))]);
    }

    #[test]
    fn the_number_of_findings_is_bounded_and_the_last_one_says_so() {
        let value = json!((0..100).collect::<Vec<_>>());
        let root = Node::root(&value);
        let mut report = Report::default();
        for item in root.items(100, &mut report) {
            item.text(&mut report);
        }
        let rows = report.rows();
        assert_eq!(rows.len(), MAX_FINDINGS + 1);
        assert!(rows.last().unwrap().message.contains("to see the rest"));
    }

    #[test]
    fn a_finding_covers_its_field_and_what_lies_in_it() {
        let value = json!({"spec": {"retry": 1}});
        let mut report = Report::default();
        report.unsupported(&Node::root(&value).field("spec").field("retry"), "no");
        assert!(report.covers("spec.retry") && report.covers("spec.retry.attempts") && report.covers("spec.retry[0]"));
        report.invalid(&Node::root(&value).field("labels").key("a.b/c"), "no");
        assert!(report.covers("labels.a.b/c"));
        assert!(!report.covers("spec.retryOn") && !report.covers("spec"));
    }
}
