//! Names of memif ports, for everything that knows ports by the name of an interface.
//!
//! `memif:/run/vpp/memif.sock,id=1,queues=2` is a port like `eth0`, except that it has no network
//! namespace. A sender and a receiver on one name share one connection. Start with
//! [`Options::named`] and [`open`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::port::{Port, WeakPort};
use super::{Options, Role};
use crate::error::EngineError;
use crate::port::{MEMIF, PortSpec};

/// How long an opened port waits for its peer, which may start at the same time.
const PEER_PATIENCE: Duration = Duration::from_secs(10);

impl Options {
    /// Reads the name of a port: `memif:SOCKET` and, each after a comma, `role=client` or `server`,
    /// `id=N`, `queues=N`, `ring=N` in frames, `buffer=N` in bytes, `secret=TEXT`.
    ///
    /// # Errors
    /// What is wrong with it, and what is right.
    pub fn named(name: &str) -> Result<Options, String> {
        let wrong = |action: &str| {
            Err(format!(
                "{name}: {action}; a memif port is named \
                 memif:SOCKET[,role=client|server][,id=N][,queues=N][,ring=N][,buffer=N][,secret=TEXT]"
            ))
        };
        let mut parts = name.strip_prefix(MEMIF).unwrap_or_default().split(',');
        let socket = parts.next().unwrap_or_default();
        if socket.is_empty() {
            return wrong("no path of a socket");
        }
        let mut options = Options::new(socket, Role::Client);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let number = value.parse::<u32>().ok();
            match (key, value, number) {
                ("role", "client", _) => options.role = Role::Client,
                ("role", "server", _) => options.role = Role::Server,
                ("id", _, Some(id)) => options.id = id,
                ("queues", _, Some(queues @ 1..=0xffff)) => options.queues = queues as u16,
                ("ring", _, Some(frames)) if frames.is_power_of_two() => {
                    options.ring_log2 = frames.trailing_zeros() as u8;
                }
                ("buffer", _, Some(bytes)) => options.buffer_bytes = bytes,
                ("secret", secret, _) if !secret.is_empty() => options.secret = secret.into(),
                _ => return wrong(&format!("{part} is not valid there")),
            }
        }
        Ok(options)
    }
}

/// The ports that are open in this process.
static OPEN: Mutex<Option<HashMap<Options, WeakPort>>> = Mutex::new(None);

/// Opens the port with this name, or returns the open one, and waits for its peer.
///
/// # Errors
/// If it is not the name of a memif port, cannot be opened, or has no peer.
pub(crate) fn open(spec: &PortSpec) -> Result<Port, EngineError> {
    let port = open_alone(spec)?;
    port.wait_for_peer(PEER_PATIENCE)?;
    Ok(port)
}

/// As [`open`], without waiting.
pub(crate) fn open_alone(spec: &PortSpec) -> Result<Port, EngineError> {
    let options = Options::named(&spec.interface).map_err(EngineError::Frames)?;
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(port) = all.get(&options).and_then(WeakPort::port) {
        return Ok(port);
    }
    let port = Port::open(&options)?;
    all.retain(|_, port| port.port().is_some());
    all.insert(options, port.weak());
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports() {
        let named = |name: &str| Options::named(name);
        let plain = Options::new("/run/m.sock", Role::Client);
        assert_eq!(named("memif:/run/m.sock"), Ok(plain));
        let whole = "memif:@abstract,role=server,id=7,queues=4,ring=512,buffer=9216,secret=xyz";
        assert_eq!(
            named(whole),
            Ok(Options {
                id: 7,
                secret: "xyz".into(),
                queues: 4,
                ring_log2: 9,
                buffer_bytes: 9216,
                ..Options::new("@abstract", Role::Server)
            })
        );
        for wrong in [
            "memif:",
            "eth0",
            "memif:/x,role=master",
            "memif:/x,ring=1000",
            "memif:/x,ring=0",
            "memif:/x,queues=0",
            "memif:/x,queues=65537",
            "memif:/x,id=-1",
            "memif:/x,secret=",
            "memif:/x,zero-copy",
        ] {
            let error = named(wrong).expect_err(wrong);
            assert!(error.contains("memif:SOCKET[,role="), "{error}");
        }
    }
}
