//! A network namespace without a name, in which two ports are joined: the tester back to back.
//!
//! It belongs to the thread that made it, so that the kernel removes it with the thread. Start with
//! [`namespace_with_pair`].

use std::path::PathBuf;

use super::sys;
use crate::error::LabError;
use crate::host::{Host, Local};

/// Moves the calling thread into a new network namespace with a veth pair `a` and `b`, each with
/// this number of queues. Returns the file of that namespace, which exists as long as the thread.
///
/// # Errors
/// Fails without permission, or if the kernel has no veth.
pub fn namespace_with_pair(queues: u32) -> Result<PathBuf, LabError> {
    sys::unshare_network().map_err(|e| LabError::system("make a network namespace", e))?;
    let off = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    // a kernel without IPv6 has nothing to switch off
    let _ = std::fs::write(off, "1");
    let queues = format!("numtxqueues {queues} numrxqueues {queues}");
    let pair = format!(
        "link add name a {queues} type veth peer name b {queues}\nlink set lo up\nlink set dev a up\nlink set dev b up\n"
    );
    Local.feed("ip", &["-batch", "-"], &pair)?;
    // NAPI at both ends, without which live frames vanish
    for port in ["a", "b"] {
        Local.query("ethtool", &["-K", port, "gro", "on"])?;
    }
    let thread = rustix::thread::gettid().as_raw_nonzero();
    Ok(PathBuf::from(format!(
        "/proc/{}/task/{thread}/ns/net",
        std::process::id()
    )))
}
