//! Restricts a port to one fwdlab at a time: a lock that the kernel releases when its process ends,
//! however it ends.
//!
//! The lock is the name of an abstract Unix socket; such names belong to a network namespace, as
//! interfaces do. Nothing is on disk. A second name next to it identifies the process that has the
//! lock. Start with [`Lock::take`].

use std::fs;
use std::os::fd::OwnedFd;

use fwdlab_engine::PortSpec;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::error::LabError;

/// The use of a port. One process may send on a port on which another one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Frames are sent there.
    Send,
    /// Frames are counted there.
    Receive,
}

/// A lock on a port, held as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _name: OwnedFd,
    _process: OwnedFd,
}

impl Lock {
    /// Takes the lock of a port. `key` identifies it in its namespace: the index of an interface.
    ///
    /// # Errors
    /// [`LabError::Preflight`]: another process has it, which the message names.
    pub fn take(spec: &PortSpec, key: &str, role: Role) -> Result<Lock, LabError> {
        let word = match role {
            Role::Send => "send",
            Role::Receive => "receive",
        };
        let name = format!("fwdlab/port/{key}/{word}");
        let failed = |e| LabError::system(format!("lock {}", spec.interface), e);
        let taken = super::interface_facts::within(&spec.netns, || match bound(&name) {
            Ok(lock) => {
                let process = bound(&format!("{name}/{}", std::process::id())).map_err(failed)?;
                Ok(Ok(Lock {
                    _name: lock,
                    _process: process,
                }))
            }
            Err(Errno::ADDRINUSE) => {
                let names = fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
                Ok(Err(holder(&names, &name)))
            }
            Err(e) => Err(failed(e)),
        })?;
        taken.map_err(|holder| {
            LabError::Preflight(format!(
                "another fwdlab {} on {}: {}. Wait until it ends, or stop it",
                match role {
                    Role::Send => "sends",
                    Role::Receive => "receives",
                },
                spec.interface,
                holder.map_or("a process that is just starting or ending".into(), process)
            ))
        })
    }
}

/// Creates a socket with this abstract name.
pub(crate) fn bound(name: &str) -> Result<OwnedFd, Errno> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    bind(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    )?;
    Ok(socket)
}

/// Returns the process that has a lock, from the names of all Unix sockets (/proc/net/unix).
fn holder(names: &str, lock: &str) -> Option<u32> {
    let prefix = format!("@{lock}/");
    names
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find_map(|name| name.strip_prefix(&prefix)?.parse().ok())
}

/// Describes a process: `process 4711 (fwdlab send --port tx0)`.
fn process(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    match words.is_empty() {
        true => format!("process {pid}"),
        false => format!("process {pid} ({})", words.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_lock_is_for_one_port_one_role_and_one_holder() {
        // indices that no interface of this host has
        let index = 0x7000_0000 | std::process::id();
        let (index, other) = (index.to_string(), (index ^ 0x0800_0000).to_string());
        let spec = PortSpec {
            netns: None,
            interface: "tx0".into(),
        };
        let lock = Lock::take(&spec, &index, Role::Send).unwrap();
        let _other = Lock::take(&spec, &other, Role::Send).unwrap();
        let _role = Lock::take(&spec, &index, Role::Receive).unwrap();
        for _ in 0..5 {
            let error = Lock::take(&spec, &index, Role::Send)
                .unwrap_err()
                .to_string();
            assert!(error.contains("sends on tx0"), "{error}");
            assert!(
                error.contains(&format!("process {} (", std::process::id())),
                "{error}"
            );
        }
        drop(lock);
        // a child that another test has just forked has the descriptors, too, until it executes
        // another program
        let started = Instant::now();
        while let Err(error) = Lock::take(&spec, &index, Role::Send) {
            assert!(started.elapsed() < Duration::from_secs(10), "{error}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
