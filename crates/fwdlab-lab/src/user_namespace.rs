//! Without root: a user namespace in which we are root of our own network namespaces, as far as the
//! host allows.
//!
//! Namespaces, veth, forwarding and AF_PACKET work there; XDP, real-time priority and pinning of
//! kernel threads do not. The kernel removes everything with the process. Start with [`enter`].

use std::fs;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::error::LabError;
use crate::sys::unshare_user_mount_and_network;

/// What is missing without root, for people.
pub const MISSING: &str = "no root: frames are sent from a socket (AF_XDP or AF_PACKET) and may not overload the DUT as XDP \
    live frames do, the DUT's thread is neither pinned nor raised in priority, and the generator has no priority over other \
    processes. Run with sudo for the full test bed";

/// Returns true for root of the host (or of the container).
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Moves this process into user, mount and network namespaces of its own, as their root.
///
/// Call it before any thread is started: the kernel refuses it to a process with several.
///
/// # Errors
/// Fails if the host forbids user namespaces; the message contains what to do.
pub fn enter() -> Result<(), LabError> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare_user_mount_and_network().map_err(|e| {
        LabError::Preflight(format!(
            "not root, and this host does not allow user namespaces ({e}). Run with sudo, or allow them: \
             sysctl -w kernel.unprivileged_userns_clone=1 (Debian), kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
        ))
    })?;
    let write = |path: &str, text: String| {
        fs::write(path, text).map_err(|e| LabError::system(format!("write {path}"), e))
    };
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(|e| LabError::system("make mounts private", e))?;
    // names of network namespaces and our registry are below /run, which only root may write
    mount(
        "tmpfs",
        "/run",
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        None,
    )
    .map_err(|e| LabError::system("mount a private /run", e))
}
