//! Texts that users made up, as people are shown them.

use crate::name::Name;
use std::borrow::Cow;

/// The text on one line, without what moves a cursor, colours a terminal or turns the direction of writing: nobody forges
/// another line by a name. What is escaped stays escaped, so doing it twice changes nothing.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_hidden(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// The same for a name, which is left alone where nothing is to be done.
pub(crate) fn plain_name(name: Name) -> Name {
    match plain(&name) {
        Cow::Borrowed(_) => name,
        Cow::Owned(text) => text.into(),
    }
}

/// Control characters, ends of lines and marks of direction.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, ConditionType, Finding, Reason};

    #[test]
    fn a_text_stays_on_its_line_and_leaves_the_terminal_alone() {
        assert!(matches!(plain("cart ü \"x\" \\n"), Cow::Borrowed(_)));
        let shown = plain("a\u{1b}[2Jb\r\n\u{202e}c\u{2028}");
        assert_eq!(shown, "a\\u{1b}[2Jb\\r\\n\\u{202e}c\\u{2028}");
        assert_eq!(plain(&shown), shown);
    }

    #[test]
    fn no_finding_and_no_condition_has_more_than_one_line() {
        let finding =
            Finding::new(Reason::BackendNotFound, "spec.labels[a\nb]", "Service shop/a\nERROR b is not there");
        assert_eq!(finding.to_string(), "spec.labels[a\\nb]: Service shop/a\\nERROR b is not there");
        for of in [Condition::yes, Condition::no, Condition::unknown] {
            assert_eq!(of(ConditionType::Accepted, Reason::Accepted, "a\u{1b}b").message, "a\\u{1b}b");
        }
    }
}
