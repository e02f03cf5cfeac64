//! The tester alone: two ports joined by a cable of our own, in a network namespace that no one
//! else sees; or two ports of user space.
//!
//! The namespace belongs to a thread and has no name; it disappears with this value, and with the
//! process however that ends. Start with [`BackToBack::new`] or [`user_space_pair`].

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use fwdlab_engine::{Mode, PortSpec};

use crate::error::LabError;
use crate::ports::{Port, TrafficPort, private};

/// Two ports, `a` and `b`, of one veth pair.
pub struct BackToBack {
    netns: PathBuf,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BackToBack {
    /// Makes the namespace and the pair, with this number of queues at each end.
    ///
    /// # Errors
    /// Fails without permission, or if the kernel has no veth.
    pub fn new(queues: u32) -> Result<BackToBack, LabError> {
        let (ready, made) = channel();
        let (end, wait) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let result = private::namespace_with_pair(queues);
            let _ = ready.send(result);
            // until the other end is dropped
            let _ = wait.recv();
        });
        let netns = made.recv().unwrap_or_else(|_| {
            Err(LabError::Preflight(
                "the thread of a private namespace ended".into(),
            ))
        })?;
        Ok(BackToBack {
            netns,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Returns its two ends: frames sent on the first arrive at the second.
    ///
    /// # Errors
    /// Fails if the pair is gone.
    pub fn ports(&self) -> Result<(Port, Port), LabError> {
        let port = |interface: &str| {
            Port::own_port(&PortSpec {
                netns: Some(self.netns.clone()),
                interface: interface.into(),
            })
        };
        Ok((port("a")?, port("b")?))
    }
}

/// Returns two ports of user space that are joined by a memif connection of our own, for an engine
/// that has no network interfaces: frames sent on the first, the client, arrive at the second.
/// Nothing of it is on disk. Ports of DPDK have this number of queues.
///
/// # Errors
/// Fails if the socket, a thread or the process of the engine cannot be made.
pub fn user_space_pair(mode: Mode, queues: u32) -> Result<(TrafficPort, TrafficPort), LabError> {
    static PAIRS: AtomicU32 = AtomicU32::new(0);
    let number = PAIRS.fetch_add(1, Ordering::Relaxed);
    let socket = format!("fwdlab/pair/{}/{number}", std::process::id());
    let port = |interface: String| {
        TrafficPort::own_port(&PortSpec {
            netns: None,
            interface,
        })
    };
    let of = |role: &str| match mode {
        Mode::Dpdk => {
            let device = format!("net_memif{}", 2 * number + u32::from(role == "client"));
            port(format!(
                "dpdk:{device},role={role},socket={socket},socket-abstract=yes,queues={queues}"
            ))
        }
        _ => port(format!("memif:@{socket},role={role}")),
    };
    // DPDK's server listens first
    let server = of("server")?;
    Ok((of("client")?, server))
}

impl Drop for BackToBack {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
