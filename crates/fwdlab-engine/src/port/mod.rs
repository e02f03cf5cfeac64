//! Ports and paths: an interface in a network namespace, and the path between two of them.
//!
//! A port is only a name until an engine opens it. Engines work in the namespace of the port, on
//! their own thread, so the namespace of other threads never changes. Start with [`PathSpec`].

mod sys;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::{fs, thread};

use fwdlab_model::{dpdk, memif};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};

pub(crate) use self::sys::Interfaces;
use crate::error::EngineError;

/// An interface, and the network namespace it is in (a path such as `/run/netns/gen`; `None` is our
/// own).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// Path of the namespace.
    pub netns: Option<PathBuf>,
    /// Name of the interface in that namespace.
    pub interface: String,
}

impl PortSpec {
    /// Returns true for the name of a memif port: a socket instead of a network interface.
    pub fn is_memif(&self) -> bool {
        self.interface.starts_with(memif::PREFIX)
    }

    /// Returns true for the name of a network interface of the kernel.
    pub fn is_interface(&self) -> bool {
        !self.is_memif() && !self.is_dpdk()
    }

    /// Returns true for the name of a DPDK port: a device of DPDK instead of a network interface.
    pub fn is_dpdk(&self) -> bool {
        self.interface.starts_with(dpdk::PREFIX)
    }
}

/// A path through a device under test: frames go into `tx`, and should come out at `rx`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSpec {
    /// The tester's sending port.
    pub tx: PortSpec,
    /// The tester's receiving port.
    pub rx: PortSpec,
}

/// Moves the calling thread into a network namespace. Does not affect other threads.
///
/// # Errors
/// If the namespace does not exist or may not be entered.
pub fn enter(netns: &Option<PathBuf>) -> Result<(), EngineError> {
    let Some(path) = netns else { return Ok(()) };
    let action = || format!("enter the network namespace {}", path.display());
    let file = fs::File::open(path).map_err(|e| EngineError::system(action(), e))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|e| EngineError::system(action(), e))
}

/// Runs `work` on a new thread inside a namespace and returns its result.
///
/// # Errors
/// If the namespace cannot be entered, or `work` fails.
pub fn within<T: Send>(
    netns: &Option<PathBuf>,
    work: impl FnOnce() -> Result<T, EngineError> + Send,
) -> Result<T, EngineError> {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                enter(netns)?;
                work()
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Pins the calling thread to a set of CPUs; an empty set changes nothing.
///
/// # Errors
/// If a CPU does not exist or may not be used.
pub fn pin(cpus: &[usize]) -> Result<(), EngineError> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set)
        .map_err(|e| EngineError::system(format!("pin a thread to CPUs {cpus:?}"), e))
}

/// Returns the index of an interface in the calling thread's namespace.
pub(crate) fn interface_index(name: &str) -> Result<u32, EngineError> {
    // the directory under /sys belongs to the namespace in which it was mounted, so use a system
    // call instead
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )
    .map_err(|e| EngineError::system("open a socket", e))?;
    rustix::net::netdevice::name_to_index(socket, name)
        .map_err(|e| EngineError::system(format!("find interface {name}"), e))
}
