//! Lists the contents of an archive: directories, the kinds of their files, and what cannot be
//! read.
//!
//! It reads names and no contents. Symbolic links to directories are not followed, so loops cannot
//! trap it. Start with [`Tree::scan`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fwdlab_store::StoreError;

use super::names::{Kind, Name};

/// An archive on disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    /// Its directory.
    pub root: PathBuf,
    /// Its directories, sorted by path.
    pub directories: BTreeMap<PathBuf, Directory>,
    /// What could not be read or was skipped, in sentences.
    pub problems: Vec<String>,
}

/// One directory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Directory {
    /// Its regular files, sorted by name.
    pub files: Vec<File>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name on disk.
    pub file_name: OsString,
    /// The name for people; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The parsed name.
    pub name: Name,
}

impl Tree {
    /// Walks through everything below `root`.
    ///
    /// # Errors
    /// [`StoreError::System`] if `root` itself cannot be read; errors below it are in `problems`.
    pub fn scan(root: &Path) -> Result<Tree, StoreError> {
        let mut tree = Tree {
            root: root.to_owned(),
            ..Tree::default()
        };
        let mut waiting = vec![PathBuf::new()];
        while let Some(relative) = waiting.pop() {
            let path = root.join(&relative);
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(source) if relative.as_os_str().is_empty() => {
                    return Err(StoreError::system("read", root)(source));
                }
                Err(source) => {
                    tree.problem("read", &relative, &source);
                    continue;
                }
            };
            let mut directory = Directory::default();
            for entry in entries {
                match entry {
                    Ok(entry) => tree.entry(&relative, &entry, &mut directory, &mut waiting),
                    Err(source) => tree.problem("read", &relative, &source),
                }
            }
            directory
                .files
                .sort_by(|a, b| a.file_name.cmp(&b.file_name));
            tree.directories.insert(relative, directory);
        }
        tree.problems.sort();
        Ok(tree)
    }

    fn entry(
        &mut self,
        relative: &Path,
        entry: &fs::DirEntry,
        directory: &mut Directory,
        waiting: &mut Vec<PathBuf>,
    ) {
        let file_name = entry.file_name();
        let path = relative.join(&file_name);
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(source) => return self.problem("look at", &path, &source),
        };
        if kind.is_dir() {
            // The data of version control is not part of the archive.
            if file_name != ".git" {
                waiting.push(path);
            }
            return;
        }
        let regular = if kind.is_symlink() {
            match fs::metadata(entry.path()) {
                Ok(metadata) if metadata.is_dir() => {
                    self.problems.push(format!(
                        "{} is a symbolic link to a directory and was not followed",
                        shown_path(&path)
                    ));
                    return;
                }
                Ok(metadata) => metadata.is_file(),
                Err(source) => return self.problem("follow", &path, &source),
            }
        } else {
            kind.is_file()
        };
        if !regular {
            self.problems
                .push(format!("{} is not a regular file", shown_path(&path)));
            return;
        }
        let text = file_name.to_string_lossy().into_owned();
        directory.files.push(File {
            name: Name::parse(&text),
            file_name,
            text,
        });
    }

    fn problem(&mut self, what: &str, path: &Path, source: &io::Error) {
        self.problems
            .push(format!("cannot {what} {}: {source}", shown_path(path)));
    }

    /// Returns files of a kind in a directory.
    pub fn files<'a>(
        &'a self,
        directory: &Path,
        kind: Kind,
    ) -> impl Iterator<Item = &'a File> + use<'a> {
        self.directories
            .get(directory)
            .into_iter()
            .flat_map(|directory| &directory.files)
            .filter(move |file| file.name.kind == kind)
    }

    /// Returns the number of files of each kind.
    pub fn counts(&self) -> BTreeMap<Kind, u64> {
        let mut counts = BTreeMap::new();
        for file in self.directories.values().flat_map(|d| &d.files) {
            *counts.entry(file.name.kind).or_default() += 1;
        }
        counts
    }
}

/// Formats a relative path for people and records: `.` for the archive itself, no control
/// characters.
pub fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    match &*text {
        "" => ".".to_owned(),
        text => text
            .chars()
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn hostile_directories() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("a/b c/RAW")).unwrap();
        fs::create_dir_all(at(".git/x")).unwrap();
        fs::write(at(".git/x/bench.x.1.receiver"), "").unwrap();
        symlink("..", at("a/up")).unwrap();
        symlink("loop", at("loop")).unwrap();
        symlink("nowhere", at("a/gone.pps")).unwrap();
        fs::write(at("a/b c/RAW/bench.x\ny.1.receiver"), "").unwrap();
        symlink(
            "b c/RAW/bench.x\ny.1.receiver",
            at("a/bench.link.1.receiver"),
        )
        .unwrap();
        let odd = OsString::from_vec(b"bench.\xff\xfe.1.receiver".to_vec());
        fs::write(root.path().join("a").join(&odd), "").unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("a/pipe.receiver"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();

        let tree = Tree::scan(root.path()).unwrap();
        let paths: Vec<String> = tree.directories.keys().map(|p| shown_path(p)).collect();
        assert_eq!(paths, [".", "a", "a/b c", "a/b c/RAW"]);
        assert_eq!(tree.counts()[&Kind::Receiver], 3);
        assert_eq!(tree.problems.len(), 4, "{:?}", tree.problems);
        for words in [
            "a/up is a symbolic link",
            "cannot follow loop",
            "cannot follow a/gone.pps",
            "a/pipe.receiver is not a regular file",
        ] {
            assert!(
                tree.problems.iter().any(|p| p.contains(words)),
                "{words}: {:?}",
                tree.problems
            );
        }
        let names: Vec<_> = tree
            .files(Path::new("a"), Kind::Receiver)
            .map(|f| &f.file_name)
            .collect();
        assert!(names.contains(&&odd));
        assert!(Tree::scan(&at("no such")).is_err());
    }
}
