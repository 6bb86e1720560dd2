//! Gateway API durations: one to four numbers of one to five digits with a unit, `1h30m`, `500ms`.

/// Milliseconds of a duration; none if it is not written as one. At most 4 x 99,999 h = 1.44e12 ms, so nothing
/// overflows.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0;
    let mut parts = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        parts += 1;
        if parts > 4 || !(1..=5).contains(&digits) {
            return None;
        }
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        // `ms` before `m`, which it begins with.
        let (unit, factor) = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        total += number * factor;
    }
    (parts > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_digits_and_units_and_nothing_else() {
        let table = [
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("1h30m", Some(5_400_000)),
            ("1m1ms", Some(60_001)),
            ("1s1s", Some(2000)),
            ("99999h99999h99999h99999h", Some(4 * 99_999 * 3_600_000)),
            ("", None),
            ("10", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("100000s", None),
            ("1d", None),
            ("1s ", None),
            ("1s1s1s1s1s", None),
            ("1µs", None),
            ("٣s", None),
        ];
        for (text, expected) in table {
            assert_eq!(millis(text), expected, "{text}");
        }
    }
}
