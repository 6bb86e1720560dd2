//! Matching, rewriting and redirecting of paths.
//!
//! Prefixes count by elements and a trailing slash means nothing: prefix `/foo` matches `/foo`, `/foo/` and `/foo/bar`,
//! not `/foobar`. Query strings are never matched and always kept.

use tidegate_model::{MethodMatch, Name, PathMatch, PathModifier};
use tidegate_proto::envoy::config::route::v3::route_match::PathSpecifier;
use tidegate_proto::envoy::r#type::matcher::v3::regex_matcher::{EngineType, GoogleRe2};
use tidegate_proto::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};
use tidegate_proto::google::protobuf::UInt32Value;

/// How a path matches.
pub(super) fn specifier(path: &PathMatch) -> PathSpecifier {
    match path {
        PathMatch::Exact(path) => PathSpecifier::Path(path.to_string()),
        PathMatch::Prefix(prefix) => match prefix.trim_end_matches('/') {
            "" => PathSpecifier::Prefix("/".to_owned()),
            // No path begins so or has these characters, so this never matches; the field rules want no such elements.
            odd if !odd.starts_with('/') || odd.contains(['?', '#']) => PathSpecifier::Prefix(odd.to_owned()),
            elements => PathSpecifier::PathSeparatedPrefix(elements.to_owned()),
        },
        PathMatch::Regex(pattern) => PathSpecifier::SafeRegex(regex(pattern)),
        PathMatch::Method(of) => method(of),
    }
}

/// The path of a gRPC method: `/package.Service/Method`.
fn method(of: &MethodMatch) -> PathSpecifier {
    let part = |part: &Option<Name>| match part {
        None => "[^/]+".to_owned(),
        Some(pattern) if of.regex => format!("(?:{pattern})"),
        Some(name) => quote(name),
    };
    match (&of.service, &of.method) {
        (None, None) => PathSpecifier::Prefix("/".to_owned()),
        (Some(service), Some(method)) if !of.regex => PathSpecifier::Path(format!("/{service}/{method}")),
        (Some(service), None) if !of.regex => PathSpecifier::Prefix(format!("/{service}/")),
        (service, method) => PathSpecifier::SafeRegex(regex(&format!("/{}/{}", part(service), part(method)))),
    }
}

/// A regular expression that must match the whole text; the field rules want it not empty.
#[allow(deprecated, reason = "the only way to raise the limit that does not depend on the client's bootstrap")]
pub(super) fn regex(pattern: &str) -> RegexMatcher {
    let pattern = if pattern.is_empty() { "^$" } else { pattern };
    let limit = GoogleRe2 { max_program_size: Some(UInt32Value { value: MAX_PROGRAM }) };
    RegexMatcher { regex: pattern.to_owned(), engine_type: Some(EngineType::GoogleRe2(limit)) }
}

/// The largest program, in instructions, that a pattern may become. Unless told otherwise Envoy refuses more than 100,
/// which `[a-z]{3,40}` exceeds, and with it the whole table. What is too much for RE2 itself is found before it gets here.
const MAX_PROGRAM: u32 = 100_000;

/// A new path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// Replaces the path.
    Full(String),
    /// Replaces what the matcher matched.
    Prefix(String),
    /// Replaces what a pattern matches.
    Pattern(RegexMatchAndSubstitute),
}

/// What `modifier` makes of a path that `matched` matched. A prefix can only be replaced where one was matched (the
/// API server sees to it); an exact path counts as its own prefix, a pattern has none.
pub(super) fn change(matched: &PathMatch, modifier: &PathModifier) -> Option<Change> {
    let change = match (modifier, matched) {
        (PathModifier::Full(path), _) | (PathModifier::Prefix(path), PathMatch::Exact(_)) => {
            Some(Change::Full(if path.is_empty() { "/".to_owned() } else { path.to_string() }))
        }
        (PathModifier::Prefix(replacement), PathMatch::Prefix(prefix)) => {
            replace_prefix(prefix.trim_end_matches('/'), replacement.trim_end_matches('/'))
        }
        (PathModifier::Prefix(_), PathMatch::Regex(_) | PathMatch::Method(_)) => None,
    };
    change.filter(is_clean)
}

/// Both without trailing slashes, so that `""` is the root.
fn replace_prefix(prefix: &str, replacement: &str) -> Option<Change> {
    match (prefix, replacement) {
        ("", "") => None,
        // The matched prefix is `/`, which has to come back.
        ("", replacement) => Some(Change::Prefix(format!("{replacement}/"))),
        // `/foo/bar` shall be `/bar` and `/foo` shall be `/`: replacing the prefix by either `/` or nothing would give
        // `//bar` or an empty path.
        (prefix, "") => Some(Change::Pattern(substitute(format!("^{}/*", quote(prefix)), "/"))),
        (_, replacement) => Some(Change::Prefix(replacement.to_owned())),
    }
}

/// A substitution that gives the whole path anew. Envoy applies it to the path without its query string.
pub(super) fn substitute_all(path: &str) -> RegexMatchAndSubstitute {
    substitute("^/.*$".to_owned(), path)
}

fn substitute(pattern: String, replacement: &str) -> RegexMatchAndSubstitute {
    // A backslash would begin a reference to a group.
    RegexMatchAndSubstitute { pattern: Some(regex(&pattern)), substitution: replacement.replace('\\', "\\\\") }
}

fn is_clean(change: &Change) -> bool {
    match change {
        Change::Full(text) | Change::Prefix(text) => super::headers::is_clean(text),
        Change::Pattern(pattern) => super::headers::is_clean(&pattern.substitution),
    }
}

/// `text` as a pattern that matches just it.
pub(super) fn quote(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_ascii_punctuation() && !matches!(c, '/' | '-' | '_') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_has_no_special_characters_left() {
        assert_eq!(quote("/a.b-c_d+(é)"), r"/a\.b-c_d\+\(é\)");
    }

    #[test]
    fn slashes_at_the_end_of_prefix_and_replacement_mean_nothing() {
        for (prefix, replacement) in [("/foo", "/xyz"), ("/foo", "/xyz/"), ("/foo/", "/xyz"), ("/foo/", "/xyz/")] {
            let matched = PathMatch::Prefix(prefix.into());
            assert_eq!(specifier(&matched), PathSpecifier::PathSeparatedPrefix("/foo".into()));
            assert_eq!(
                change(&matched, &PathModifier::Prefix(replacement.into())),
                Some(Change::Prefix("/xyz".into()))
            );
        }
    }

    #[test]
    fn a_prefix_that_is_taken_away_leaves_one_slash() {
        for replacement in ["", "/"] {
            let change = change(&PathMatch::Prefix("/foo".into()), &PathModifier::Prefix(replacement.into()));
            assert_eq!(change, Some(Change::Pattern(substitute("^/foo/*".into(), "/"))));
        }
    }

    #[test]
    fn the_root_is_a_prefix_that_gives_its_slash_back() {
        let root = PathMatch::Prefix("/".into());
        assert_eq!(specifier(&root), PathSpecifier::Prefix("/".into()));
        assert_eq!(change(&root, &PathModifier::Prefix("/xyz".into())), Some(Change::Prefix("/xyz/".into())));
        assert_eq!(change(&root, &PathModifier::Prefix("/".into())), None);
    }

    #[test]
    fn a_method_is_a_path_and_a_part_that_is_not_given_is_any() {
        let name = |text: &str| Some(Name::from(text)).filter(|name| !name.is_empty());
        let of = |service, method, regex| {
            specifier(&PathMatch::Method(MethodMatch { service: name(service), method: name(method), regex }))
        };
        assert_eq!(of("a.B", "C", false), PathSpecifier::Path("/a.B/C".into()));
        assert_eq!(of("a.B", "", false), PathSpecifier::Prefix("/a.B/".into()));
        assert_eq!(of("", "", false), PathSpecifier::Prefix("/".into()));
        assert_eq!(of("", "C", false), PathSpecifier::SafeRegex(regex("/[^/]+/C")));
        assert_eq!(of("a.*|b", "", true), PathSpecifier::SafeRegex(regex("/(?:a.*|b)/[^/]+")));
    }

    #[test]
    fn text_that_no_header_can_hold_is_left_out() {
        assert_eq!(change(&PathMatch::Prefix("/a".into()), &PathModifier::Prefix("/b\n".into())), None);
    }
}
