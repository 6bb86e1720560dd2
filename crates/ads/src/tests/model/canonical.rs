//! One number for all states from which the same can happen. Nonces count by their order alone, and only while the
//! session remembers them; times count from now.

use super::run::BEGINNING;
use std::collections::BTreeSet;
use tidegate_model::Millis;

/// Figures for people and the clock: they decide nothing. Which seal a response was made of is only observed.
const IGNORED: [&str; 5] = ["next_nonce: ", "epoch: ", "nacks: ", "overdue_pins: ", "now: "];

/// Longer ago than this is all the same.
const LONG_AGO: Millis = 20_000;

/// The number of a state, whose session has this text and whose other parts have that one.
pub(super) fn fingerprint(session: &str, rest: &str, now: Millis) -> u128 {
    let mut nonces = BTreeSet::new();
    numbers(session, |before, number| {
        if is_nonce(before) && number < BEGINNING {
            nonces.insert(number);
        }
    });
    let mut hasher = blake3::Hasher::new();
    for text in [session, rest] {
        let mut written = 0;
        let mut end = 0;
        numbers(text, |before, number| {
            hasher.update(&text.as_bytes()[written..before.len()]);
            end = before.len() + text[before.len()..].bytes().take_while(u8::is_ascii_digit).count();
            written = end;
            if IGNORED.iter().any(|key| before.ends_with(key)) {
                return;
            }
            let (tag, value) = if number >= BEGINNING {
                (b't', (number + LONG_AGO).saturating_sub(now))
            } else if is_nonce(before) {
                let rank = if nonces.contains(&number) { nonces.range(..=number).count() } else { 0 };
                (b'n', rank as u64)
            } else {
                (b'#', number)
            };
            hasher.update(&[tag]).update(&value.to_le_bytes());
        });
        hasher.update(&text.as_bytes()[written..]);
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(short)
}

fn is_nonce(before: &str) -> bool {
    before.ends_with("nonce: ") || before.ends_with("nonce: \"") || before.ends_with("Some(")
}

/// Calls `each` with what stands before each number, and the number. Digits inside of words are none.
fn numbers(text: &str, mut each: impl FnMut(&str, u64)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = at + bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'@');
        let inside = at > 0 && is_part(bytes[at - 1]) || bytes.get(end).is_some_and(|byte| is_part(*byte));
        if !inside && let Ok(number) = text[at..end].parse() {
            each(&text[..at], number);
        }
        at = end;
    }
}

#[test]
fn states_that_differ_in_nonces_and_by_the_clock_alone_are_one() {
    let print = |nonce: u64, now: Millis| {
        let session = format!("Sent {{ nonce: {nonce}, epoch: {nonce} }} due: {{a: {}}} next_nonce: 9", now + 5);
        fingerprint(&session, &format!("Response {{ nonce: \"{nonce}\" }} nonce: \"77\""), now)
    };
    assert_eq!(print(3, BEGINNING), print(8, BEGINNING + 70));
    let other = |text: &str| fingerprint(text, "", BEGINNING);
    assert_ne!(other("nonce: 3, waiting: Some(3)"), other("nonce: 3, waiting: Some(4)"));
    assert_ne!(other("due: 1000000005"), other("due: 1000000006"));
    assert_ne!(other("count: 3"), other("count: 4"));
}
