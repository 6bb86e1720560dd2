//! Header changes.

use tidegate_model::HeaderModifier;
use tidegate_proto::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use tidegate_proto::envoy::config::core::v3::{HeaderValue, HeaderValueOption};

/// The longest header name and value that the field rules let through, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// The most headers that the field rules let one level add.
const MAX_ADDED: usize = 1000;

/// Header changes as Envoy applies them: first every removal, then the additions in order.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) add: Vec<HeaderValueOption>,
    pub(super) remove: Vec<String>,
}

/// One change after the other, as one. Envoy applies the changes of a weighted cluster *before* those of its route,
/// whatever `most_specific_header_mutations_wins` says, so what shall come after the route's changes has to be composed
/// with them here.
///
/// Changes that Envoy refuses or misreads are left out: `host` and pseudo-headers, text that no header can hold.
pub(super) fn compose<'a>(modifiers: impl IntoIterator<Item = &'a HeaderModifier>) -> Changes {
    let mut changes = Changes::default();
    for modifier in modifiers {
        for (name, value) in &modifier.set {
            let name = name.to_ascii_lowercase();
            changes.forget(&name);
            changes.push(name, value, HeaderAppendAction::OverwriteIfExistsOrAdd);
        }
        for (name, value) in &modifier.add {
            changes.push(name.to_ascii_lowercase(), value, HeaderAppendAction::AppendIfExistsOrAdd);
        }
        for name in &modifier.remove {
            let name = name.to_ascii_lowercase();
            changes.forget(&name);
            if can_change(&name) && !changes.remove.contains(&name) {
                changes.remove.push(name);
            }
        }
    }
    changes
}

/// Whether there is nothing to change.
pub(super) fn is_empty(modifier: &HeaderModifier) -> bool {
    modifier.set.is_empty() && modifier.add.is_empty() && modifier.remove.is_empty()
}

impl Changes {
    fn forget(&mut self, name: &str) {
        self.add.retain(|added| added.header.as_ref().is_none_or(|header| header.key != name));
    }

    fn push(&mut self, name: String, value: &str, action: HeaderAppendAction) {
        // A percent sign would begin a substitution.
        let value = value.replace('%', "%%");
        if can_change(&name) && is_clean(&value) && value.len() <= MAX_BYTES && self.add.len() < MAX_ADDED {
            let keep_empty_value = value.is_empty();
            let header = HeaderValue { key: name, value, ..HeaderValue::default() };
            let append_action = action.into();
            let option =
                HeaderValueOption { header: Some(header), append_action, keep_empty_value, ..Default::default() };
            self.add.push(option);
        }
    }
}

fn can_change(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_BYTES && !name.starts_with(':') && name != "host" && is_clean(name)
}

/// Whether the text can stand in a header: what the `HTTP_HEADER_VALUE` and `HTTP_HEADER_NAME` rules ask.
pub(super) fn is_clean(text: &str) -> bool {
    !text.contains(['\0', '\r', '\n'])
}
