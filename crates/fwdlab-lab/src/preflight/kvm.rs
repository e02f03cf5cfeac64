//! Checks that there is a processor for guests, and that we may use it.
//!
//! Nothing is started: counting instructions does not need it. Start with [`check`].

use std::path::Path;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::Check;

const NAME: &str = "kvm";
const DEVICE: &str = "/dev/kvm";

pub(super) fn check() -> Check {
    let device = Path::new(DEVICE);
    judge(access(device, Access::READ_OK | Access::WRITE_OK))
}

/// Judges whether the device may be read and written.
fn judge(may: Result<(), Errno>) -> Check {
    match may {
        Ok(()) => Check::ok(
            NAME,
            format!("{DEVICE} exists and is accessible; booting a guest with it was not tested"),
        ),
        Err(Errno::NOENT) => Check::skip(
            NAME,
            format!(
                "no {DEVICE}: guests are emulated; instructions are always counted in the emulator"
            ),
        ),
        Err(error) => Check::skip(
            NAME,
            format!(
                "{DEVICE} exists, but is not accessible ({error}): guests are emulated; instructions are always counted in the emulator"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn kvm_is_optional() {
        assert_eq!(judge(Ok(())).status, Status::Ok);
        assert_eq!(judge(Err(Errno::NOENT)).status, Status::Skip);
        let refused = judge(Err(Errno::ACCESS));
        assert_eq!(refused.status, Status::Skip);
        assert!(refused.finding.contains("not accessible"), "{refused:?}");
    }
}
