//! Ports by name: a sender and a receiver on one name share one connection.
//!
//! Start with [`open`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Options;
use super::port::{Port, WeakPort};
use crate::error::EngineError;
use crate::port::PortSpec;

/// The ports that are open in this process.
static OPEN: Mutex<Option<HashMap<Options, WeakPort>>> = Mutex::new(None);

/// Opens the port with this name, or returns the open one. Does not wait for its peer.
///
/// # Errors
/// If it is not the name of a memif port, or cannot be opened.
pub fn open(spec: &PortSpec) -> Result<Port, EngineError> {
    let options = Options::named(&spec.interface).map_err(|reason| EngineError::Memif {
        socket: spec.interface.clone().into(),
        reason,
    })?;
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
