//! The directory of runs: the one given by the user, else next to the lab's `fwdlab.toml`, else in
//! the user's data directory.
//!
//! It creates nothing and reads no environment: the program passes its own. Start with
//! [`runs_root`].

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Directories of runs: new runs are stored in the first, all are read. The same id in several of
/// them is the run in the first of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// Creates a list of a directory and others.
    pub fn new(first: PathBuf, others: impl IntoIterator<Item = PathBuf>) -> Roots {
        Roots(std::iter::once(first).chain(others).collect())
    }

    /// Returns the directory of new runs.
    pub fn first(&self) -> &Path {
        &self.0[0]
    }

    /// Returns all directories.
    pub fn all(&self) -> &[PathBuf] {
        &self.0
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Roots {
    fn from(root: &P) -> Roots {
        Roots(vec![root.as_ref().to_owned()])
    }
}

impl From<&Roots> for Roots {
    fn from(roots: &Roots) -> Roots {
        roots.clone()
    }
}

impl fmt::Display for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(|root| root.to_string_lossy()).collect();
        f.write_str(&all.join(" and "))
    }
}

/// The file that makes a directory a lab directory.
const LAB_FILE: &str = "fwdlab.toml";

/// The inputs that determine the directory.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The given directory: `--runs`, or `FWDLAB_RUNS`.
    pub named: Option<&'a Path>,
    /// The current directory.
    pub current_dir: &'a Path,
    /// `XDG_DATA_HOME`, as set.
    pub xdg_data_home: Option<&'a OsStr>,
    /// `HOME`, as set.
    pub home: Option<&'a OsStr>,
}

/// Returns the directory of runs; it need not exist yet.
///
/// # Errors
/// [`StoreError::NoRoot`]: none is defined. Relative and empty values of the two variables count as
/// not set (XDG Base Directory Specification: "all paths must be absolute").
pub fn runs_root(from: &Surroundings<'_>) -> Result<PathBuf, StoreError> {
    if let Some(named) = from.named.filter(|path| !path.as_os_str().is_empty()) {
        return Ok(from.current_dir.join(named));
    }
    if from.current_dir.join(LAB_FILE).is_file() {
        return Ok(from.current_dir.join("runs"));
    }
    let absolute =
        |value: Option<&OsStr>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(from.xdg_data_home)
        .or_else(|| absolute(from.home).map(|home| home.join(".local/share")))
        .map(|data| data.join("fwdlab/runs"))
        .ok_or(StoreError::NoRoot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(dir: &Path, named: Option<&str>, xdg: Option<&str>, home: Option<&str>) -> String {
        let result = runs_root(&Surroundings {
            named: named.map(Path::new),
            current_dir: dir,
            xdg_data_home: xdg.map(OsStr::new),
            home: home.map(OsStr::new),
        });
        match result {
            Ok(path) => path
                .strip_prefix(dir)
                .unwrap_or(&path)
                .display()
                .to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn named_then_lab_then_data_home_then_home() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(
            root(dir, None, None, Some("/h")),
            "/h/.local/share/fwdlab/runs"
        );
        assert_eq!(root(dir, None, Some("/d"), Some("/h")), "/d/fwdlab/runs");
        assert_eq!(
            root(dir, None, Some("rel"), Some("/h")),
            "/h/.local/share/fwdlab/runs"
        );
        assert_eq!(
            root(dir, None, Some(""), Some("/h")),
            "/h/.local/share/fwdlab/runs"
        );
        std::fs::write(dir.join("fwdlab.toml"), "").unwrap();
        assert_eq!(root(dir, None, Some("/d"), Some("/h")), "runs");
        assert_eq!(root(dir, Some("elsewhere"), Some("/d"), None), "elsewhere");
        assert_eq!(
            root(dir, Some("/elsewhere"), Some("/d"), None),
            "/elsewhere"
        );
    }

    #[test]
    fn a_missing_home_directory_comes_with_advice() {
        let dir = tempfile::tempdir().unwrap();
        for home in [None, Some(""), Some("relative")] {
            let error = root(dir.path(), None, None, home);
            assert!(
                error.contains("HOME") && error.contains("--runs DIR"),
                "{error}"
            );
        }
    }
}
