//! How a card stamps frames: which of those that arrive, and whether those that leave
//! (`SIOCGHWTSTAMP`, `SIOCSHWTSTAMP`).
//!
//! The setting belongs to the port, not to a socket, and outlives the process: a caller that
//! changes it must save the old one first (the lab does). Start with [`read`].

use serde::{Deserialize, Serialize};

use super::sys;
use crate::error::EngineError;
use crate::port::{PortSpec, within};

/// `struct hwtstamp_config`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Setting {
    /// For bonds; 0 otherwise.
    pub flags: i32,
    /// `HWTSTAMP_TX_*`: 0 off, 1 on.
    pub tx_type: i32,
    /// `HWTSTAMP_FILTER_*`: 0 none, 1 all frames.
    pub rx_filter: i32,
}

impl Setting {
    /// All frames in both directions.
    pub const ALL: Setting = Setting {
        flags: 0,
        tx_type: libc::HWTSTAMP_TX_ON as i32,
        rx_filter: libc::HWTSTAMP_FILTER_ALL as i32,
    };
}

/// Returns the setting of a port's card.
///
/// # Errors
/// If the card has no timestamps, or there is no such port.
pub fn read(port: &PortSpec) -> Result<Setting, EngineError> {
    ask(
        port,
        "read the timestamping configuration of",
        sys::read_card,
    )
}

/// Changes the setting of a port's card; returns the one that the driver chose, which may stamp
/// more than requested.
///
/// # Errors
/// If the card cannot, or without CAP_NET_ADMIN.
pub fn set(port: &PortSpec, setting: Setting) -> Result<Setting, EngineError> {
    ask(port, "set the timestamping configuration of", |interface| {
        sys::set_card(interface, setting)
    })
}

fn ask(
    port: &PortSpec,
    action: &str,
    ask: impl FnOnce(&str) -> std::io::Result<Setting> + Send,
) -> Result<Setting, EngineError> {
    within(&port.netns, || {
        ask(&port.interface)
            .map_err(|e| EngineError::system(format!("{action} {}", port.interface), e))
    })
}
