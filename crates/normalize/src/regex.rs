//! Regular expressions of users, checked before an Envoy sees them: one that RE2 refuses would make it refuse the whole
//! table of a Gateway.
//!
//! `regex-syntax` stands in for RE2. It parses nearly the same language; what it takes and RE2 does not is refused here
//! by name, and so is what the two read differently. What RE2 takes and this does not (`\Q...\E`, `\C`, octal escapes,
//! scripts beyond the listed ones) is refused too: nothing is lost that cannot be written otherwise.

use regex_syntax::ast::{
    self, Ast, ClassSetBinaryOp, ClassSetItem, ClassUnicode, ClassUnicodeKind, Flag, Flags, FlagsItemKind, GroupKind,
    HexLiteralKind, Literal, LiteralKind, RepetitionKind, RepetitionRange,
};
use regex_syntax::hir::{Class, Hir, HirKind};

/// RE2 refuses a greater repeat count, also as the product of nested ones.
const MAX_REPEAT: u32 = 1000;

/// RE2 with Envoy's 8 MiB gives up at about 87,000 instructions (two thirds of the memory, by four, by 16 bytes). The
/// estimate below is rough, hence the margin.
const MAX_INSTRUCTIONS: u64 = 20_000;

/// Scripts that both engines know by this name.
const SCRIPTS: [&str; 14] = [
    "Arabic",
    "Armenian",
    "Common",
    "Cyrillic",
    "Devanagari",
    "Georgian",
    "Greek",
    "Han",
    "Hangul",
    "Hebrew",
    "Hiragana",
    "Katakana",
    "Latin",
    "Thai",
];

/// Checks that RE2 takes `pattern`.
///
/// # Errors
///
/// What is wrong and what to do.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() {
        return Err("is an empty regular expression, which matches nothing; write one or remove the match".into());
    }
    let ast = ast::parse::Parser::new().parse(pattern).map_err(|error| unreadable(error.kind()))?;
    ast::visit(&ast, Re2 { repeats: Vec::new() })?;
    // Classes like \d are ASCII in RE2. An expression that does not parse like that names characters beyond ASCII.
    let ascii = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    let hir = match ascii {
        Ok(hir) => hir,
        Err(_) => regex_syntax::Parser::new().parse(pattern).map_err(|error| match error {
            regex_syntax::Error::Parse(error) => unreadable(error.kind()),
            regex_syntax::Error::Translate(error) => unreadable(error.kind()),
            _ => unreadable(&"it cannot be parsed"),
        })?,
    };
    if instructions(&hir) > MAX_INSTRUCTIONS {
        return Err("is a regular expression that compiles to more than a proxy takes; lower its repeat counts".into());
    }
    Ok(())
}

fn unreadable(why: &dyn std::fmt::Display) -> String {
    format!("is not a regular expression of RE2 ({why}); correct it")
}

fn refused(what: &str) -> String {
    format!("is not a regular expression of RE2 ({what}); write it without")
}

/// Walks an expression and stops at what RE2 does not have. Holds the counts of the repetitions around.
struct Re2 {
    repeats: Vec<u32>,
}

impl ast::Visitor for Re2 {
    type Output = ();
    type Err = String;

    fn finish(self) -> Result<(), String> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), String> {
        match ast {
            Ast::Flags(set) => flags(&set.flags),
            Ast::Group(group) => match &group.kind {
                GroupKind::NonCapturing(set) => flags(set),
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => Ok(()),
            },
            Ast::Literal(found) => literal(found),
            Ast::Assertion(assertion) => match assertion.kind {
                ast::AssertionKind::StartLine
                | ast::AssertionKind::EndLine
                | ast::AssertionKind::StartText
                | ast::AssertionKind::EndText
                | ast::AssertionKind::WordBoundary
                | ast::AssertionKind::NotWordBoundary => Ok(()),
                _ => Err(refused("it has a half word boundary")),
            },
            Ast::ClassUnicode(class) => unicode(class),
            Ast::Repetition(repetition) => self.enter(repetition),
            Ast::Empty(_)
            | Ast::Dot(_)
            | Ast::ClassPerl(_)
            | Ast::ClassBracketed(_)
            | Ast::Alternation(_)
            | Ast::Concat(_) => Ok(()),
        }
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), String> {
        if matches!(ast, Ast::Repetition(_)) {
            self.repeats.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        match item {
            ClassSetItem::Literal(found) => literal(found),
            ClassSetItem::Range(range) => literal(&range.start).and_then(|()| literal(&range.end)),
            ClassSetItem::Unicode(class) => unicode(class),
            ClassSetItem::Bracketed(_) => Err(refused("it has a class within a class")),
            ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) | ClassSetItem::Perl(_) | ClassSetItem::Union(_) => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), String> {
        Err(refused("it has an operator between classes"))
    }
}

impl Re2 {
    fn enter(&mut self, repetition: &ast::Repetition) -> Result<(), String> {
        if matches!(*repetition.ast, Ast::Repetition(_)) {
            return Err(refused("it repeats a repetition"));
        }
        let count = match &repetition.op.kind {
            RepetitionKind::Range(RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n)) => *n,
            RepetitionKind::Range(RepetitionRange::Bounded(_, n)) => *n,
            RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
        };
        self.repeats.push(count.max(1));
        let product = self.repeats.iter().fold(1_u32, |product, count| product.saturating_mul(*count));
        if product > MAX_REPEAT {
            return Err(format!("repeats a part of it more than {MAX_REPEAT} times; lower the repeat counts"));
        }
        Ok(())
    }
}

fn flags(flags: &Flags) -> Result<(), String> {
    for item in &flags.items {
        match item.kind {
            FlagsItemKind::Negation
            | FlagsItemKind::Flag(
                Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed,
            ) => {}
            FlagsItemKind::Flag(Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace) => {
                return Err(refused("it has a flag other than i, m, s, U"));
            }
        }
    }
    Ok(())
}

fn literal(literal: &Literal) -> Result<(), String> {
    match literal.kind {
        LiteralKind::HexFixed(HexLiteralKind::X) | LiteralKind::HexBrace(HexLiteralKind::X) => Ok(()),
        LiteralKind::HexFixed(_) | LiteralKind::HexBrace(_) => Err(refused("it has a \\u escape; \\x{...} is one")),
        LiteralKind::Superfluous if literal.c == '_' => Err(refused("it escapes '_'")),
        LiteralKind::Verbatim
        | LiteralKind::Meta
        | LiteralKind::Superfluous
        | LiteralKind::Octal
        | LiteralKind::Special(_) => Ok(()),
    }
}

fn unicode(class: &ClassUnicode) -> Result<(), String> {
    let known = match &class.kind {
        ClassUnicodeKind::OneLetter(_) => true,
        ClassUnicodeKind::Named(name) => {
            let mut letters = name.chars();
            let category = letters.next().is_some_and(|c| "LMNPSZC".contains(c))
                && letters.all(|c| c.is_ascii_lowercase())
                && name.len() <= 2;
            category || SCRIPTS.contains(&name.as_str())
        }
        ClassUnicodeKind::NamedValue { .. } => false,
    };
    if known { Ok(()) } else { Err(refused("it has a character class by a name that is not a short one")) }
}

/// About how many RE2 instructions the expression compiles to. Saturates; recursion is bounded by the parser's nest
/// limit (250).
fn instructions(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64,
        // A range beyond ASCII becomes a handful of ranges of UTF-8 bytes.
        HirKind::Class(Class::Unicode(class)) => {
            class.ranges().iter().map(|range| if range.end().is_ascii() { 1 } else { 4 }).sum::<u64>().min(400)
        }
        HirKind::Repetition(repetition) => {
            let times = u64::from(repetition.max.unwrap_or(repetition.min.saturating_add(1)).max(1));
            instructions(&repetition.sub).saturating_add(1).saturating_mul(times)
        }
        HirKind::Capture(capture) => instructions(&capture.sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(|part| instructions(part).saturating_add(1)).fold(0, u64::saturating_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_re2_takes_is_taken() {
        for pattern in [
            "/v[0-9]+/.*",
            "(?i)abc",
            "^a$",
            "(?P<x>a)(?:b|c)?",
            "[[:alpha:]]+",
            "\\d{1,1000}",
            "\\pL",
            "\\p{Lu}",
            "\\p{Greek}",
            "\\x7f\\x{10ffff}",
            "a{0,10}?",
            "(a{10}){100}",
            "\\.\\-\\/",
            "[^/]+",
            "é+",
            "[a-z&]",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn what_re2_refuses_or_reads_otherwise_is_refused() {
        for pattern in [
            "",
            "(",
            "[",
            "a**",
            "a{1001}",
            "(a{100}){100}",
            "(?=a)",
            "(?<!a)",
            "\\1",
            "(?x)a b",
            "(?R)a",
            "(?-u)a",
            "[a&&b]",
            "[a[b]]",
            "\\u0041",
            "\\u{41}",
            "\\p{Letter}",
            "\\p{scx=Greek}",
            "\\p{Emoji}",
            "\\b{start}a",
            "[b-a]",
            "\\_",
            "\\Qa\\E",
            "\\p{Nonsense}",
            "*a",
            "(a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r|s|t|ab|cd|ef){1000}",
        ] {
            let message = check(pattern).expect_err(pattern);
            assert!(message.contains(';'), "says what to do: {message}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_not_a_stack_overflow() {
        let deep = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(check(&deep).is_err());
    }
}
