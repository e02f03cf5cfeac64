//! Checks that the kernel is new enough, and that it describes its types.
//!
//! `scratch` tries what it really can do. Start with [`checks`].

use std::path::Path;

use super::{Check, text};

/// The first release with live frames in `BPF_PROG_TEST_RUN`.
const LIVE_FRAMES: (u32, u32) = (5, 18);

pub(super) fn checks() -> Vec<Check> {
    vec![
        version(&text("/proc/sys/kernel/osrelease").unwrap_or_default()),
        type_information(Path::new("/sys/kernel/btf/vmlinux").exists()),
    ]
}

/// Judges a release such as `6.1.0-18-amd64`.
fn version(release: &str) -> Check {
    const NAME: &str = "kernel";
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else {
        return Check::skip(NAME, format!("`{release}` is not a known release number"));
    };
    if (major, minor) >= LIVE_FRAMES {
        return Check::ok(NAME, format!("Linux {release}"));
    }
    let (needed_major, needed_minor) = LIVE_FRAMES;
    Check::warn(
        NAME,
        format!(
            "Linux {release}: XDP live frames need {needed_major}.{needed_minor}; slower senders may not overload the DUT"
        ),
        "install a newer kernel (Debian: apt-get install -t bookworm-backports linux-image-amd64) and reboot",
    )
}

fn type_information(exists: bool) -> Check {
    const NAME: &str = "kernel types";
    if exists {
        Check::ok(NAME, "/sys/kernel/btf/vmlinux exists")
    } else {
        Check::warn(
            NAME,
            "no /sys/kernel/btf/vmlinux: the kernel's drop reasons cannot be read",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y; those of Debian and Ubuntu have it",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn live_frames_came_with_5_18() {
        for (release, status) in [
            ("6.18.44", Status::Ok),
            ("6.1.0-18-amd64", Status::Ok),
            ("5.18.0-rc1", Status::Ok),
            ("7.0", Status::Ok),
            ("5.15.0-91-generic", Status::Warn),
            ("4.19.0", Status::Warn),
            ("", Status::Skip),
        ] {
            assert_eq!(version(release).status, status, "{release}");
        }
    }

    #[test]
    fn types_are_needed_for_reasons_only() {
        assert_eq!(type_information(true).status, Status::Ok);
        assert_eq!(type_information(false).status, Status::Warn);
    }
}
