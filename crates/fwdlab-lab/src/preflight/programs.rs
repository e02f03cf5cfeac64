//! Checks that the programs we run are installed.
//!
//! Not clang and the BPF headers: only the build needs them, the compiled programs are inside ours.
//! Start with [`PROGRAMS`].

use std::path::PathBuf;

use super::Check;
use crate::programs::find;

/// Program, the Debian package that contains it, and what does not work without it; `None` if
/// nothing works.
const PROGRAMS: [(&str, &str, Option<&str>); 3] = [
    ("ip", "iproute2", None),
    ("ethtool", "ethtool", None),
    (
        "nft",
        "nftables",
        Some("configurations with nftables rules"),
    ),
];

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
}
