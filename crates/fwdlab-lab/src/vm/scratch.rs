//! The directory for files of running machines: it belongs to this process, and is removed with it.
//!
//! The next process removes directories of processes that died. Start with [`Scratch::new`].

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::LabError;

const PREFIX: &str = "fwdlab-vm-";

/// A directory for machines of this process. Dropping it removes it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a directory.
    ///
    /// # Errors
    /// It cannot be created: no room, or no permission.
    pub fn new() -> Result<Scratch, LabError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let parent = std::env::temp_dir();
        sweep(&parent);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|e| LabError::system(format!("make {}", folder.display()), e))?;
        Ok(Scratch(folder))
    }

    /// Links or copies a file into this directory, where no other process removes it; returns its
    /// new path.
    ///
    /// # Errors
    /// It does not exist, or there is no room for a copy and it cannot be linked.
    pub fn keep(&self, file: &Path) -> Result<PathBuf, LabError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let kept = self.0.join(format!("kept-{number}"));
        fs::hard_link(file, &kept)
            .or_else(|_| fs::copy(file, &kept).map(drop))
            .map_err(|e| {
                LabError::system(format!("keep {} while it is used", file.display()), e)
            })?;
        Ok(kept)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a machine's directory, without creating it.
    pub fn folder(&self, machine: u32) -> PathBuf {
        self.0.join(machine.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes what dead processes of this user left behind.
fn sweep(parent: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
            pid.parse::<u32>().ok()
        });
        let is_ours = entry
            .metadata()
            .is_ok_and(|m| m.is_dir() && m.uid() == user);
        if let Some(pid) = pid
            && is_ours
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leftovers_of_dead_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir_all(path.join("1")).unwrap();
            path
        };
        let dead = make("fwdlab-vm-4194305-0");
        let alive = make(&format!("fwdlab-vm-{}-0", std::process::id()));
        let other = make("fwdlab-vm-x");
        sweep(parent.path());
        assert_eq!(
            [dead, alive, other].map(|p| p.exists()),
            [false, true, true]
        );
    }
}
