//! Label selectors.

use crate::node::{Node, Report, quote};
use crate::text::{LABEL_VALUE, QUALIFIED_KEY, TextRule, any};
use tidegate_model::{LabelExpression, LabelSelector, Name};

/// Bound on the expressions of a selector and on the values of one. An API server has none; a selector that needs more
/// should be a label.
const MAX_PARTS: usize = 256;

/// Reads a label selector. None, with findings, where it cannot be evaluated: then it must select nothing.
pub(crate) fn selector(node: &Node<'_>, report: &mut Report) -> Option<LabelSelector> {
    let mut own = Report::default();
    let mut selector = LabelSelector::default();
    if !node.is_present() {
        own.unsupported(node, "is required to select by it; add it");
    }
    if !node.is_object(&mut own) {
        return hand_over(own, report, None);
    }
    let labels = node.field("matchLabels");
    for (key, value) in labels.entries(&mut own) {
        if let Err(message) = QUALIFIED_KEY.check(key) {
            own.unsupported(&value, message);
        }
        if let Some(text) = label(&value, &LABEL_VALUE, &mut own) {
            selector.labels.insert(Name::from(key), text);
        }
    }
    let expressions = node.field("matchExpressions");
    for item in expressions.items(MAX_PARTS, &mut own) {
        selector.expressions.extend(expression(&item, &mut own));
    }
    hand_over(own, report, Some(selector))
}

/// A key or value that keeps `rule`. An API server asks only for a text, so breaking the rule is no reason to refuse.
fn label(node: &Node<'_>, rule: &TextRule, own: &mut Report) -> Option<Name> {
    let text = if node.demand(own) { node.text(own)? } else { return None };
    match rule.check(text) {
        Ok(()) => Some(Name::from(text)),
        Err(message) => {
            own.unsupported(node, message);
            None
        }
    }
}

/// What is wrong with a selector concerns the one who uses it, not the whole object: an API server accepts any operator.
fn hand_over(own: Report, report: &mut Report, selector: Option<LabelSelector>) -> Option<LabelSelector> {
    let clean = own.is_clean();
    for finding in own.rows() {
        report.remark(finding);
    }
    selector.filter(|_| clean)
}

fn expression(item: &Node<'_>, own: &mut Report) -> Option<LabelExpression> {
    let key = label(&item.field("key"), &QUALIFIED_KEY, own)?;
    let operator = item.field("operator");
    let chosen = operator.required_name(&any(1, 63), own)?;
    let list = item.field("values");
    let values: Vec<Name> = list.items(MAX_PARTS, own).filter_map(|value| label(&value, &LABEL_VALUE, own)).collect();
    let wants_values = match &*chosen {
        "In" | "NotIn" => true,
        "Exists" | "DoesNotExist" => false,
        other => {
            own.unsupported(
                &operator,
                format!("{} is no operator; use In, NotIn, Exists or DoesNotExist", quote(other)),
            );
            return None;
        }
    };
    if wants_values && values.is_empty() {
        own.unsupported(&list, format!("{chosen} needs at least one value; add it or use Exists"));
        return None;
    }
    if !wants_values && !values.is_empty() {
        own.unsupported(&list, format!("{chosen} takes no values; remove them or use In"));
        return None;
    }
    Some(match &*chosen {
        "In" => LabelExpression::In(key, values),
        "NotIn" => LabelExpression::NotIn(key, values),
        "Exists" => LabelExpression::Exists(key),
        _ => LabelExpression::DoesNotExist(key),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: &Value) -> (Option<LabelSelector>, Vec<String>) {
        let mut report = Report::default();
        let found = selector(&Node::root(value).field("selector"), &mut report);
        assert!(report.is_clean(), "a selector does not speak against the object it is in");
        (found, report.rows().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_operator_is_read() {
        let (found, said) = read(&json!({"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "k", "operator": "In", "values": ["v", ""]}, {"key": "k", "operator": "NotIn", "values": ["v"]},
            {"key": "k", "operator": "Exists"}, {"key": "k", "operator": "DoesNotExist", "values": []}]}}));
        let found = found.unwrap();
        assert_eq!(said, Vec::<String>::new());
        assert_eq!((found.labels.len(), found.expressions.len()), (1, 4));
        assert_eq!(found.expressions[0], LabelExpression::In("k".into(), vec!["v".into(), "".into()]));
    }

    #[test]
    fn an_empty_selector_selects_everything_and_a_broken_one_nothing() {
        assert_eq!(read(&json!({"selector": {}})), (Some(LabelSelector::default()), vec![]));
        let broken = [
            (json!({}), "selector: is required"),
            (json!({"selector": []}), "selector: must be an object"),
            (json!({"selector": {"matchLabels": {"a": 1}}}), "selector.matchLabels[a]: must be a string"),
            (json!({"selector": {"matchLabels": {"-": "b"}}}), "selector.matchLabels[-]: \"-\" is not a label key"),
            (
                json!({"selector": {"matchExpressions": [{"operator": "In"}]}}),
                "selector.matchExpressions[0].key: is req",
            ),
            (
                json!({"selector": {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}}),
                "selector.matchExpressions[0].operator: \"Gt\" is no operator; use In, NotIn",
            ),
            (
                json!({"selector": {"matchExpressions": [{"key": "k", "operator": "In"}]}}),
                "selector.matchExpressions[0].values: In needs at least one value",
            ),
            (
                json!({"selector": {"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["v"]}]}}),
                "selector.matchExpressions[0].values: Exists takes no values",
            ),
        ];
        for (value, expected) in broken {
            let (found, said) = read(&value);
            assert_eq!(found, None, "{value}");
            assert!(said.iter().any(|s| s.starts_with(expected)), "{said:?} has no {expected}");
        }
    }
}
