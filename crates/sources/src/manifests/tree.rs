//! Which manifest files are in a directory tree, without reading them.
//!
//! Links are followed, in the tree and out of it, as mounted ConfigMaps need (`route.yaml -> ..data/route.yaml`,
//! `..data -> ..2026_01_01`). Nothing but a regular file is ever opened: a pipe would block, a device never ends. A
//! directory within itself is not entered again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How deep directories may be nested.
pub const DEPTH_MAX: usize = 32;

/// How many manifest files a tree may hold: at 200 bytes of bookkeeping each, 20 MB.
pub const FILES_MAX: usize = 100_000;

/// What tells one file or directory from another, whatever its name: device and inode.
pub type Identity = (u64, u64);

/// What changes when a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which file it is.
    pub identity: Identity,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Stamp {
            identity: (metadata.dev(), metadata.ino()),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The manifest files of a tree.
#[derive(Debug, Default)]
pub struct Tree {
    /// The directory itself.
    pub root: Identity,
    /// The files, by path.
    pub files: BTreeMap<PathBuf, Stamp>,
    /// Directories in it, itself included.
    pub directories: BTreeSet<PathBuf>,
    /// What is there and cannot be looked at, with the reason. What is known below it stays as it is.
    pub unreadable: BTreeMap<PathBuf, String>,
}

impl Tree {
    /// Looks at the tree.
    ///
    /// # Errors
    ///
    /// If `root` itself is no directory that can be listed.
    pub fn scan(root: &Path) -> io::Result<Tree> {
        let metadata = fs::metadata(root)?;
        let entries = fs::read_dir(root)?;
        let identity = (metadata.dev(), metadata.ino());
        let mut tree = Tree { root: identity, ..Tree::default() };
        tree.directories.insert(root.to_owned());
        tree.enter(root, entries, &mut vec![identity]);
        Ok(tree)
    }

    /// Whether nothing can be said about `path`, because a directory above it cannot be read.
    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.unreadable.contains_key(above))
    }

    fn enter(&mut self, directory: &Path, entries: fs::ReadDir, above: &mut Vec<Identity>) {
        for entry in entries {
            match entry {
                Ok(entry) => self.visit(entry.path(), above),
                Err(error) => {
                    self.unreadable.insert(directory.to_owned(), format!("cannot be listed: {error}"));
                    return;
                }
            }
        }
    }

    fn visit(&mut self, path: PathBuf, above: &mut Vec<Identity>) {
        if is_ignored(&path) {
            return;
        }
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            // A link to nothing is unreadable, anything else that is not there went away since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if is_manifest(&path) && fs::symlink_metadata(&path).is_ok() {
                    self.unreadable.insert(path, "a link to a file that is not there".to_owned());
                }
                return;
            }
            Err(error) => {
                self.unreadable.insert(path, format!("cannot be read: {error}"));
                return;
            }
        };
        if metadata.is_dir() {
            self.descend(path, &metadata, above);
        } else if metadata.is_file() && is_manifest(&path) {
            if self.files.len() < FILES_MAX {
                self.files.insert(path, Stamp::of(&metadata));
            } else {
                let reason = format!("more than {FILES_MAX} manifest files; join some");
                self.unreadable.insert(path, reason);
            }
        }
    }

    fn descend(&mut self, path: PathBuf, metadata: &Metadata, above: &mut Vec<Identity>) {
        let identity = (metadata.dev(), metadata.ino());
        if above.contains(&identity) {
            self.unreadable.insert(path, "a link to a directory that it lies in; it is not followed".to_owned());
            return;
        }
        if above.len() >= DEPTH_MAX {
            self.unreadable.insert(path, format!("directories are nested deeper than {DEPTH_MAX}"));
            return;
        }
        match fs::read_dir(&path) {
            Ok(entries) => {
                above.push(identity);
                self.enter(&path, entries, above);
                above.pop();
                self.directories.insert(path);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => drop(self.unreadable.insert(path, format!("cannot be listed: {error}"))),
        }
    }
}

/// Hidden files and directories (editors, version control, the innards of a ConfigMap), and Emacs' locks and autosaves.
fn is_ignored(path: &Path) -> bool {
    path.file_name().is_none_or(|name| {
        let name = name.as_encoded_bytes();
        name.starts_with(b".") || name.starts_with(b"#")
    })
}

/// Whether the name is that of a manifest. Backups and temporary files end in something else (`~`, `.swp`, `.tmp`).
fn is_manifest(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(root: &Path) -> Vec<String> {
        let tree = Tree::scan(root).unwrap();
        tree.files.keys().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect()
    }

    #[test]
    fn manifests_are_found_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("shop/deep")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("dir.yaml")).unwrap();
        for name in [
            "a.yaml",
            "b.yml",
            "c.json",
            "D.YAML",
            "shop/e.yaml",
            "shop/deep/f.yaml",
            "README.md",
            "a.yaml~",
            ".a.yaml.swp",
            "a.yaml.tmp",
            "#a.yaml",
            ".#a.yaml",
            "4913",
            ".hidden.yaml",
            ".git/g.yaml",
            "dir.yaml/h.yaml",
        ] {
            fs::write(root.join(name), "").unwrap();
        }
        assert_eq!(
            names(root),
            ["D.YAML", "a.yaml", "b.yml", "c.json", "dir.yaml/h.yaml", "shop/deep/f.yaml", "shop/e.yaml"]
        );
    }

    #[test]
    fn a_mounted_config_map_shows_each_file_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join("..2026_01_01")).unwrap();
        fs::write(root.join("..2026_01_01/route.yaml"), "").unwrap();
        symlink("..2026_01_01", root.join("..data")).unwrap();
        symlink("..data/route.yaml", root.join("route.yaml")).unwrap();
        assert_eq!(names(root), ["route.yaml"]);
    }

    #[test]
    fn links_that_lead_nowhere_or_in_circles_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join("sub")).unwrap();
        symlink("..", root.join("sub/up")).unwrap();
        symlink("nothing", root.join("gone.yaml")).unwrap();
        symlink("self.yaml", root.join("self.yaml")).unwrap();
        symlink("nothing", root.join("gone.txt")).unwrap();
        let tree = Tree::scan(root).unwrap();
        assert!(tree.files.is_empty());
        let unreadable: Vec<&PathBuf> = tree.unreadable.keys().collect();
        assert_eq!(unreadable, [&root.join("gone.yaml"), &root.join("self.yaml"), &root.join("sub/up")]);
        assert!(tree.hides(&root.join("sub/up/x.yaml")));
        assert!(!tree.hides(&root.join("sub/x.yaml")));
    }

    #[test]
    fn what_is_no_regular_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket.yaml")).unwrap();
        symlink("/dev/zero", dir.path().join("zero.yaml")).unwrap();
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }
}
