//! Figures as people read them.

/// Text that stands in a page.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A figure with its unit, in three digits: `us` and `ms` as the unit of time that fits, `B` likewise.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ms" => quantity(value * 1e3, "us"),
        "us" if value.abs() < 1e3 => format!("{} µs", digits(value)),
        "us" if value.abs() < 1e6 => format!("{} ms", digits(value / 1e3)),
        "us" => format!("{} s", digits(value / 1e6)),
        "B" => bytes(value),
        "" => count(value),
        _ => format!("{} {unit}", digits(value)),
    }
}

fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KB", "MB"] {
        if value.abs() < 1024.0 {
            return format!("{} {unit}", digits(value));
        }
        value /= 1024.0;
    }
    format!("{} GB", digits(value))
}

/// A count: whole ones in groups of three digits.
fn count(value: f64) -> String {
    if value.fract().abs() > 1e-9 {
        return digits(value);
    }
    let plain = format!("{value:.0}");
    let first = plain.len() % 3;
    let mut grouped = String::new();
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && index % 3 == first {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Three digits, or all before the point.
pub(crate) fn digits(value: f64) -> String {
    let places = match value.abs() {
        0.0 => 0,
        small if small < 0.1 => 3,
        small if small < 10.0 => 2,
        small if small < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_the_unit_that_fits() {
        for (value, unit, text) in [
            (0.0, "us", "0 µs"),
            (412.4, "us", "412 µs"),
            (1_634.0, "us", "1.63 ms"),
            (4_400.0, "ms", "4.4 s"),
            (48.0 * 1024.0, "B", "48 KB"),
            (900.0 * 1024.0 * 1024.0, "B", "900 MB"),
            (1.5 * 1024.0 * 1024.0 * 1024.0, "B", "1.5 GB"),
            (50_000.0, "", "50,000"),
            (999.0, "", "999"),
            (2.5, "", "2.5"),
            (149.7, "1/s", "150 1/s"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
    }
}
