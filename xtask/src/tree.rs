//! The files of the project: everything under the root that a clone would hold.
//!
//! Walks the folders rather than asking git, so that it works in a source archive and in tests. Start with [`files`].

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Folders that hold nothing of ours: built, measured or kept by git.
const NOT_OURS: [&str; 5] = [".git", "target", "runs", "node_modules", "corpus"];

/// One text file of the project.
#[derive(Debug)]
pub struct File {
    /// Path below the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// The name of the file alone.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Is it Rust?
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate it belongs to, as we speak of it: `stats` for `crates/fwdlab-stats/src/sample.rs`.
    pub fn crate_name(&self) -> Option<&str> {
        let folder = self.path.strip_prefix("crates/")?.split('/').next()?;
        Some(ours(folder))
    }

    /// Is it part of its library or program, not of its tests, benchmarks or examples?
    pub fn is_source(&self) -> bool {
        self.path.split('/').nth(2) == Some("src")
    }
}

/// How we speak of a package or its folder: without what all of them begin with.
pub fn ours(package: &str) -> &str {
    package.strip_prefix("fwdlab-").unwrap_or(package)
}

/// All text files of the project, in order of their paths. Files that are not UTF-8 are left out.
pub fn files(root: &Path) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("list {}", folder.display()))?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            // in a worktree of git's, .git is a file
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
