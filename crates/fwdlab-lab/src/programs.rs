//! Finds programs of this machine, also outside an ordinary user's `PATH`.
//!
//! It runs none of them. Start with [`find`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Debian's folders of administrators' programs.
const ALSO: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Returns the path of a program of this machine.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path())
        .map(|folder| folder.join(program))
        .find(|candidate| is_program(candidate))
}

/// Returns PATH with the folders of administrators' programs, which an ordinary user's PATH often
/// lacks.
pub(crate) fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(ALSO.map(PathBuf::from));
    // fails only if a folder's name contains a colon, and these come from such a list
    std::env::join_paths(folders).unwrap_or(path)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_searched_for() {
        assert!(find("sh").is_some());
        assert_eq!(find("fwdlab-no-such-program"), None);
        assert!(!is_program(Path::new("/proc/self/status")));
    }
}
