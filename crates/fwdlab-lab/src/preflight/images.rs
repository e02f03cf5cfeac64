//! Checks that images for guests can be fetched, and that there is room for them.
//!
//! Nothing is fetched, and no folder is made. Start with [`checks`].

use std::path::Path;

use super::Check;
use super::disk::{self, Room};
use crate::vm::image::cache::Cache;

/// Programs that fetch kernels from the archive.
const PROGRAMS: [&str; 3] = ["apt-get", "apt-cache", "dpkg-deb"];

/// A Debian kernel with its modules takes 100 MB, the initial file system of a guest 60 MB, and
/// unpacking takes both twice.
const LITTLE: u64 = 1 << 30;

pub(super) fn checks() -> Vec<Check> {
    let missing: Vec<&str> = (PROGRAMS.into_iter())
        .filter(|program| crate::programs::find(program).is_none())
        .collect();
    let folder = Cache::place_of_user();
    vec![packages(&missing), cache(&folder, disk::room(&folder))]
}

/// Judges which programs are missing.
fn packages(missing: &[&str]) -> Check {
    const NAME: &str = "kernel packages";
    match missing {
        [] => Check::ok(NAME, format!("{} are installed", PROGRAMS.join(", "))),
        missing => Check::warn(
            NAME,
            format!(
                "{} not found: no images by debian:PACKAGE",
                missing.join(", ")
            ),
            "on Debian and Ubuntu: apt-get install apt dpkg; elsewhere give a kernel as FILE,modules=FOLDER",
        ),
    }
}

/// Judges the folder of the cache by its file system.
fn cache(folder: &Path, room: Result<Room, String>) -> Check {
    const NAME: &str = "image cache";
    const FIX: &str =
        "fwdlab image rm --unused 30, or set FWDLAB_CACHE to a folder with more space";
    let room = match room {
        Ok(room) => room,
        Err(reason) => return Check::skip(NAME, reason),
    };
    let finding = format!(
        "{} MiB free for {}",
        room.free_bytes >> 20,
        folder.display()
    );
    if room.read_only {
        let finding = format!(
            "{} is read-only: no image can be kept",
            room.folder.display()
        );
        Check::warn(
            NAME,
            finding,
            "set FWDLAB_CACHE to a folder that can be written",
        )
    } else if room.free_bytes < LITTLE {
        Check::warn(NAME, format!("{finding}: a kernel takes about 200 MB"), FIX)
    } else {
        Check::ok(NAME, finding)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn programs_and_room_are_judged() {
        assert_eq!(packages(&[]).status, Status::Ok);
        let none = packages(&["dpkg-deb"]);
        assert_eq!(none.status, Status::Warn);
        assert!(none.finding.starts_with("dpkg-deb not found"), "{none:?}");

        let judge = |free_bytes, read_only| {
            let room = Room {
                folder: "/a".into(),
                free_bytes,
                read_only,
            };
            cache(Path::new("/a/b"), Ok(room)).status
        };
        assert_eq!(judge(5 << 30, false), Status::Ok);
        assert_eq!(judge(500 << 20, false), Status::Warn);
        assert_eq!(judge(5 << 30, true), Status::Warn);
        assert_eq!(
            cache(Path::new("/a"), Err("no".into())).status,
            Status::Skip
        );
    }
}
