//! How long a file may be, what a crate's head says, and what stands in no file.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file. A file that is one table may be longer, if it is named here.
const MAX_LINES: usize = 800;
const TABLES: &[&str] = &[];

/// Shortest head of a library, in lines: less does not say what comes in, what goes out and what it must not know.
const MIN_HEAD_LINES: usize = 3;

/// Beginnings of paths that exist on one machine alone.
const MACHINE_PATHS: [&str; 3] = [concat!("/", "home/"), concat!("/", "root/"), concat!("/", "Users/")];

/// Kinds of file whose text is read.
const TEXTS: [&str; 6] = ["rs", "toml", "md", "yaml", "json", "sh"];

/// Every breach, with its file.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    walk(root, &mut files)?;
    let mut breaches = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        breaches.extend(look_at(&shown, &text).into_iter().map(|breach| format!("{shown}: {breach}")));
    }
    Ok(breaches)
}

/// The breaches of one file.
fn look_at(path: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let lines = text.lines().count();
    if path.ends_with(".rs") && lines > MAX_LINES && !TABLES.contains(&path) {
        breaches.push(format!("{lines} lines are more than {MAX_LINES}; split it"));
    }
    if path.ends_with("/mod.rs") {
        breaches.push("a module is foo.rs beside foo/, not foo/mod.rs".to_owned());
    }
    let head = text.lines().take_while(|line| line.starts_with("//!")).count();
    if path.ends_with("src/lib.rs") && head < MIN_HEAD_LINES {
        breaches.push(
            "the head of a library says what comes in, what goes out, what it must not know, where to start".to_owned(),
        );
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(found) = MACHINE_PATHS.iter().find(|found| line.contains(**found)) {
            breaches.push(format!("line {}: {found} is a path of one machine", number + 1));
        }
    }
    breaches
}

/// Adds the files below `dir` whose text is read.
pub(super) fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", dir.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name == ".git" || name.starts_with("target") {
            continue;
        }
        if path.is_dir() {
            walk(&path, files)?;
        } else if path.extension().and_then(|e| e.to_str()).is_some_and(|e| TEXTS.contains(&e)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_breach() {
        assert_eq!(look_at("crates/a/src/b.rs", &"\n".repeat(MAX_LINES)), Vec::<String>::new());
        assert_eq!(look_at("crates/a/src/b.rs", &"\n".repeat(MAX_LINES + 1)).len(), 1);
        assert_eq!(look_at("crates/a/src/b/mod.rs", "").len(), 1);
        assert_eq!(look_at("crates/a/src/lib.rs", "//! One line.\n").len(), 1);
        assert_eq!(look_at("crates/a/src/lib.rs", "//! In.\n//! Out.\n//! Not.\n"), Vec::<String>::new());
        let told = look_at("README.md", &format!("fine\nsee {}me\n", MACHINE_PATHS[0]));
        assert!(told[0].starts_with("line 2: "), "{told:?}");
    }
}
