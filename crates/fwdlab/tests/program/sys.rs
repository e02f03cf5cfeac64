//! The system call by which a test has mounts of its own. Start with [`unshare_mounts`].
#![allow(
    unsafe_code,
    reason = "a system call that threads of one process see differently"
)]

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives this thread, and what it starts from now on, a copy of the mounts.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: only file descriptors are dangerous to have apart, and they stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    Ok(())
}
