//! The files of the project: everything under the root that a clone would contain.
//!
//! Walks the folders instead of asking git, so that it works in a source archive and in tests.
//! Start with [`files`].

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Folders without files of ours: build output, measurements, or git's own.
const NOT_OURS: [&str; 5] = [".git", "target", "runs", "node_modules", "corpus"];

/// One text file of the project.
#[derive(Debug)]
pub struct File {
    /// Path relative to the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// Returns the file name without its folders.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns true for a Rust file.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns the short name of its crate: `stats` for `crates/fwdlab-stats/src/sample.rs`.
    pub fn crate_name(&self) -> Option<&str> {
        let folder = self.path.strip_prefix("crates/")?.split('/').next()?;
        Some(short_package_name(folder))
    }

    /// Returns true if it belongs to a library or program, not to tests, benchmarks or examples.
    pub fn is_source(&self) -> bool {
        self.path.split('/').nth(2) == Some("src")
    }
}

/// Returns the short name of a package or its folder, without their common prefix.
pub fn short_package_name(package: &str) -> &str {
    package.strip_prefix("fwdlab-").unwrap_or(package)
}

/// Returns all text files of the project, sorted by path. Files that are not UTF-8 are omitted.
pub fn files(root: &Path) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("list {}", folder.display()))?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            // in a git worktree, .git is a file
            if NOT_OURS.iter().any(|&name| entry.file_name() == *name) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(fs::read(&path)?)
            {
                files.push(File {
                    path: below(root, &path),
                    text,
                });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn below(root: &Path, path: &Path) -> String {
    let below: PathBuf = path.strip_prefix(root).unwrap_or(path).into();
    below.to_string_lossy().into_owned()
}
