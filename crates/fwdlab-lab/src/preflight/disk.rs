//! Checks that there is room for runs.
//!
//! [`room`] is also used for other folders. Start with [`check`].

use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};

use super::Check;

/// A quick run stores less than 10 MB; below this free space even that may fail.
const TOO_LITTLE: u64 = 100 << 20;
/// Room for some campaigns.
const LITTLE: u64 = 1 << 30;

/// The file system of a folder.
#[derive(Debug, Clone)]
pub(super) struct Room {
    /// The folder, or its nearest existing parent.
    pub folder: PathBuf,
    pub free_bytes: u64,
    pub read_only: bool,
}

/// Inspects the file system where this folder is or will be. Fails with a description of the
/// problem.
pub(super) fn room(folder: &Path) -> Result<Room, String> {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut above = absolute.ancestors();
    let there = above
        .find(|folder| folder.exists())
        .unwrap_or(Path::new("/"));
    let disk =
        statvfs(there).map_err(|error| format!("cannot check {}: {error}", there.display()))?;
    Ok(Room {
        folder: there.to_owned(),
        free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        read_only: disk.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

/// Checks the file system where `runs` is or will be.
pub(super) fn check(runs: &Path) -> Check {
    match room(runs) {
        Ok(room) => judge(
            &room.folder.display().to_string(),
            room.free_bytes,
            room.read_only,
        ),
        Err(reason) => Check::skip("disk", reason),
    }
}

fn judge(folder: &str, free_bytes: u64, read_only: bool) -> Check {
    const NAME: &str = "disk";
    let free = format!("{} MiB free in {folder}", free_bytes >> 20);
    if read_only {
        Check::fail(
            NAME,
            format!("{folder} is read-only: no run can be stored"),
            "change to a writable directory",
        )
    } else if free_bytes < TOO_LITTLE {
        Check::fail(NAME, free, "fwdlab runs rm RUN, or change to a larger disk")
    } else if free_bytes < LITTLE {
        Check::warn(NAME, free, "fwdlab runs rm RUN, or change to a larger disk")
    } else {
        Check::ok(NAME, free)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn room_is_judged() {
        assert_eq!(judge("/a", 5 << 30, false).status, Status::Ok);
        assert_eq!(judge("/a", 500 << 20, false).status, Status::Warn);
        assert_eq!(judge("/a", 0, false).status, Status::Fail);
        assert_eq!(judge("/a", 5 << 30, true).status, Status::Fail);
    }

    #[test]
    fn free_space_of_a_new_folder_is_that_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let check = check(&folder.path().join("not/yet"));
        assert!(
            check
                .finding
                .ends_with(&folder.path().display().to_string()),
            "{check:?}"
        );
        assert_eq!(super::check(Path::new("/proc/not/yet")).name, "disk");
    }
}
