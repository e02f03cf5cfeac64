//! Changes on a port while it is ours: the kernel sends nothing of its own, and longer frames fit.
//!
//! [`held_settings`](super::held_settings) restores them, also after a crash. Start with [`Ipv6`]
//! and [`Mtu`].

use std::fs;
use std::io::ErrorKind;

use fwdlab_engine::PortSpec;
use serde::{Deserialize, Serialize};

use super::held_settings::Settings;
use super::interface_facts;
use crate::error::LabError;
use crate::host::{Host, Local};

/// Whether the kernel uses IPv6 on ports, which includes multicast listener reports, router
/// solicitations and neighbour discovery.
#[derive(Debug)]
pub(super) struct Ipv6;

/// 1: IPv6 is disabled.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Disabled {
    pub(super) disable_ipv6: u8,
}

impl Settings for Ipv6 {
    type Setting = Disabled;
    const EXTENSION: &'static str = "ipv6";

    fn read(&self, port: &PortSpec) -> Result<Disabled, LabError> {
        let file = file(port);
        let text = interface_facts::within(&port.netns, || match fs::read_to_string(&file) {
            // a kernel without IPv6 has nothing to switch off
            Err(e) if e.kind() == ErrorKind::NotFound => Ok("1".into()),
            read => read.map_err(|e| LabError::system(format!("read {file}"), e)),
        })?;
        let disable_ipv6 = u8::from(text.trim() != "0");
        Ok(Disabled { disable_ipv6 })
    }

    fn set(&self, port: &PortSpec, setting: Disabled) -> Result<Disabled, LabError> {
        let file = file(port);
        interface_facts::within(&port.netns, || {
            fs::write(&file, setting.disable_ipv6.to_string())
                .map_err(|e| LabError::system(format!("write {file}"), e))
        })?;
        Ok(setting)
    }

    fn does(is: &Disabled, requested: &Disabled) -> bool {
        is.disable_ipv6 == requested.disable_ipv6
    }
}

fn file(port: &PortSpec) -> String {
    // in the namespace of the reading thread
    format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", port.interface)
}

/// The largest IP packet that ports accept, in bytes.
#[derive(Debug)]
pub(super) struct Mtu;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Bytes {
    pub(super) mtu: u32,
}

impl Settings for Mtu {
    type Setting = Bytes;
    const EXTENSION: &'static str = "mtu";

    fn read(&self, port: &PortSpec) -> Result<Bytes, LabError> {
        let facts = interface_facts::read_facts(port)?;
        Ok(Bytes { mtu: facts.mtu })
    }

    fn set(&self, port: &PortSpec, setting: Bytes) -> Result<Bytes, LabError> {
        let mtu = setting.mtu.to_string();
        interface_facts::within(&port.netns, || {
            let words = ["link", "set", "dev", &port.interface, "mtu", &mtu];
            Ok(Local.query("ip", &words)?)
        })?;
        Ok(setting)
    }

    fn does(is: &Bytes, requested: &Bytes) -> bool {
        is.mtu >= requested.mtu
    }
}
