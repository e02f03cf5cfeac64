//! Are the programs there that we run?
//!
//! Not clang and the BPF headers: only the build needs them, the compiled programs are inside ours. Start with
//! [`PROGRAMS`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Check;

/// Program, the Debian package that has it, and what does not work without it; `None` if nothing works.
const PROGRAMS: [(&str, &str, Option<&str>); 3] = [
    ("ip", "iproute2", None),
    ("ethtool", "ethtool", None),
    (
        "nft",
        "nftables",
        Some("configurations with nftables rules"),
    ),
];

/// Where Debian keeps administrators' programs.
const ALSO: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

pub(super) fn checks() -> Vec<Check> {
    PROGRAMS
        .iter()
        .map(|(program, package, without)| judge(program, package, *without, find(program)))
        .collect()
}

fn judge(
    program: &'static str,
    package: &str,
    without: Option<&str>,
    found: Option<PathBuf>,
) -> Check {
    let fix = format!("apt-get install {package}");
    match (found, without) {
        (Some(path), _) => Check::ok(program, path.display().to_string()),
        (None, None) => Check::fail(program, "not found: no test bed without it", fix),
        (None, Some(without)) => Check::warn(program, format!("not found: no {without}"), fix),
    }
}

/// Where a program of this machine is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path())
        .map(|folder| folder.join(program))
        .find(|candidate| is_program(candidate))
}

/// PATH, and where administrators' programs are: an ordinary user's PATH often lacks that.
pub(crate) fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(ALSO.map(PathBuf::from));
    // fails only if a folder's name holds a colon, and these come from such a list
    std::env::join_paths(folders).unwrap_or(path)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let needed = judge("ip", "iproute2", None, None);
        assert_eq!(
            (needed.status, needed.fix.as_deref()),
            (Status::Fail, Some("apt-get install iproute2"))
        );
        assert_eq!(
            judge("nft", "nftables", Some("rules"), None).status,
            Status::Warn
        );
        assert_eq!(
            judge("ip", "iproute2", None, Some("/sbin/ip".into())).status,
            Status::Ok
        );
    }

    #[test]
    fn programs_are_searched_for() {
        assert!(find("sh").is_some());
        assert_eq!(find("fwdlab-no-such-program"), None);
        assert!(!is_program(Path::new("/proc/self/status")));
    }
}
