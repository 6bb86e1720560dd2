//! What a rejection says: which of the sent resources it blames, and what of its text may be kept.

use std::collections::BTreeSet;
use tidegate_model::Name;

/// Longest text that is kept of a rejection, in bytes.
const MAX_DETAIL: usize = 512;

/// The resources that a rejection names, out of those that were sent.
pub(crate) fn named<'a>(detail: &str, sent: impl Iterator<Item = &'a Name>) -> BTreeSet<Name> {
    sent.filter(|name| names(detail, name)).cloned().collect()
}

/// Whether `name` stands in `detail` as a whole word.
fn names(detail: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '~');
    !name.is_empty()
        && detail.match_indices(name).any(|(start, _)| {
            let before = detail[..start].chars().next_back();
            let mut after = detail[start + name.len()..].chars();
            // A full stop that ends a sentence does not belong to a name.
            let after = match after.next() {
                Some('.') => after.next(),
                other => other,
            };
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
}

/// The first line of a rejection, without the resource that field-rule failures dump (of secrets it holds the
/// certificate), bounded in length.
pub(crate) fn clean(detail: &str) -> String {
    let line = detail.lines().next().unwrap_or_default();
    let dump = ["{", "-----BEGIN", "[type.googleapis.com/", "inline_bytes", "inline_string"];
    let mut end = dump.iter().filter_map(|mark| line.find(mark)).min().unwrap_or(line.len());
    if let Some(rule) = line.find("constraint validation failed") {
        // "... (RuleName: what is wrong): the dumped message"
        end = line[rule..].find("): ").map_or(end, |close| end.min(rule + close + 1));
    }
    end = end.min(MAX_DETAIL);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blamed(detail: &str, sent: &[&str]) -> Vec<String> {
        let sent: Vec<Name> = sent.iter().map(|name| Name::from(*name)).collect();
        named(detail, sent.iter()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rejection_blames_the_names_that_it_holds_as_whole_words() {
        let detail = "Error adding/updating cluster(s) shop/cart/80: bad certificate, shop/b/81.";
        assert_eq!(
            blamed(detail, &["shop/cart/80", "shop/cart/8", "cart/80", "shop/b/81"]),
            ["shop/b/81", "shop/cart/80"]
        );
    }

    #[test]
    fn a_rejection_may_name_nobody() {
        assert_eq!(blamed("no", &["a", "b"]), [""; 0]);
    }

    #[test]
    fn dumped_material_does_not_stay_in_the_detail() {
        let detail = "Proto constraint validation failed (SecretValidationError.Name: too short): name: \"x\" private";
        assert_eq!(clean(detail), "Proto constraint validation failed (SecretValidationError.Name: too short)");
        assert_eq!(clean("bad cluster { name: secret }"), "bad cluster");
        assert_eq!(clean("bad -----BEGIN CERTIFICATE-----"), "bad");
        assert_eq!(clean("first line\nsecond line"), "first line");
        assert_eq!(clean("tab\there"), "tab here");
        let long = "ä".repeat(1000);
        assert!(clean(&long).len() <= MAX_DETAIL);
    }
}
