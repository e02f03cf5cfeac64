//! The system call that gives a test its own mounts. Start with [`unshare_mounts`].
#![allow(
    unsafe_code,
    reason = "a system call that threads of one process see differently"
)]

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives this thread, and everything it starts from now on, a copy of the mounts.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: only an unshared file descriptor table is dangerous, and that stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    Ok(())
}
