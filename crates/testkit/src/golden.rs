//! Golden files: outputs that are checked in, so that their difference is part of a review.
//!
//! A difference fails the test; with `UPDATE_GOLDEN=1` in the environment the file is written instead.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Lines of context around a difference.
const CONTEXT: usize = 3;

/// Compares `actual` with the file `path`.
///
/// # Panics
///
/// They differ (or there is no such file) and `UPDATE_GOLDEN` is not `1`; or the file cannot be written.
pub fn check(path: &Path, actual: &str) {
    let update = std::env::var("UPDATE_GOLDEN").is_ok_and(|value| value == "1");
    if let Err(difference) = compare(path, actual, update) {
        panic!("{difference}");
    }
}

/// Compares, or writes if `update`.
fn compare(path: &Path, actual: &str, update: bool) -> Result<(), String> {
    let expected = fs::read_to_string(path).ok();
    if expected.as_deref() == Some(actual) {
        return Ok(());
    }
    if update {
        let parent = path.parent().unwrap_or(Path::new("."));
        return fs::create_dir_all(parent)
            .and_then(|()| fs::write(path, actual))
            .map_err(|error| format!("cannot write the golden file {}: {error}", path.display()));
    }
    let hint = "run again with UPDATE_GOLDEN=1 to accept, and review the difference";
    Err(match expected {
        None => format!("the golden file {} does not exist; {hint}. It would hold:\n{actual}", path.display()),
        Some(expected) => format!("{} differs; {hint}:\n{}", path.display(), diff(&expected, actual)),
    })
}

/// The lines between the first and the last difference, with `-` for expected and `+` for actual.
#[must_use]
pub fn diff(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let before = &old[head.saturating_sub(CONTEXT)..head];
    let after = &old[old.len() - tail..(old.len() - tail + CONTEXT).min(old.len())];
    let mut text = format!("@@ line {}\n", head + 1);
    let parts = [(' ', before), ('-', &old[head..old.len() - tail]), ('+', &new[head..new.len() - tail]), (' ', after)];
    for (mark, line) in parts.iter().flat_map(|(mark, lines)| lines.iter().map(move |line| (mark, line))) {
        writeln!(text, "{mark}{line}").expect("a String can be written to");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_its_surroundings() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nc\nd\nE\nE2\nf\ng\nh\n";
        assert_eq!(diff(old, new), "@@ line 5\n b\n c\n d\n-e\n+E\n+E2\n f\n g\n h\n");
        assert_eq!(diff("a\na\n", "a\n"), "@@ line 2\n a\n-a\n");
        assert_eq!(diff("", "a\n"), "@@ line 1\n+a\n");
    }

    #[test]
    fn a_golden_file_is_written_once_and_compared_ever_after() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/out.yaml");
        assert!(compare(&path, "one\n", false).unwrap_err().contains("does not exist"));
        compare(&path, "one\n", true).unwrap();
        compare(&path, "one\n", false).unwrap();
        assert!(compare(&path, "two\n", false).unwrap_err().contains("-one\n+two\n"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
    }
}
