//! Facts about the host and the test bed at the start of a run.
//!
//! Facts are recorded, not judged (`doctor` judges). A fact that could not be read is absent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::probe::MachineState;

/// The entry of [`Facts::placement`] with the version of the emulator that counted instructions.
pub const EMULATOR: &str = "emulator";

/// The entry of [`Facts::placement`] with the name of the test bed and its description.
pub const TEST_BED: &str = "test bed";

/// The entries of [`Facts::placement`] about images that were booted: the name of one follows.
pub const IMAGE: &str = "image ";

/// Facts of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// Operating system of the DUT's host, such as `FreeBSD`; absent for Linux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Kernel release, such as `6.18.0`.
    pub kernel: String,
    /// Kernel command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_command_line: Option<String>,
    /// CPU model name.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: u32,
    /// Threads per core, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_per_core: Option<u32>,
    /// Frequency governor of the DUT's CPU, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_governor: Option<String>,
    /// The CPU has the hypervisor flag.
    pub virtual_machine: bool,
    /// Vulnerabilities and mitigations from `/sys/devices/system/cpu/vulnerabilities`: name, state.
    pub mitigations: BTreeMap<String, String>,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Clock source of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    /// fwdlab runs as root of the host, not of a user namespace.
    pub privileged: bool,
    /// What runs on which CPU, and what could not be pinned.
    pub placement: BTreeMap<String, String>,
    /// States of the machine, starting with the one that the figures come from. At the start of a
    /// run they come from a short reading, in a finished run from all its readings. Empty if the
    /// CPU ran at full speed and no distance between CPUs could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<MachineState>,
    /// Sysctls set in the namespaces: `namespace:name`, value.
    pub sysctls: BTreeMap<String, String>,
    /// Maker, model and firmware of the host: `Dell Inc. PowerEdge R640, BIOS 2.10.2 (02/24/2021)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The hosts of the tester, if they are not the DUT's: what they are, and kernel, CPU and
    /// machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub testers: BTreeMap<String, String>,
    /// The cards of a test bed of hosts: those of the DUT first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<Card>,
    /// Driver of the ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The link whose line rate limits all loads, if any: `emulated link 1 Gbit/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Offloads of the DUT's ports: `port:feature`, `on` or `off`.
    pub offloads: BTreeMap<String, String>,
    /// The engine, and briefly why it was chosen.
    pub engine: String,
    /// Faster engines that are not available here, with the system's error.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub engines_rejected: BTreeMap<String, String>,
}

/// A port of a host, and the card behind it. What could not be read is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// The part of the test bed that the host is: `DUT`, `generator`, `receiver`.
    pub host: String,
    /// Name of the port.
    pub port: String,
    /// Name of the card, by the host's list of cards or by its driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// PCI vendor and device: `8086:1572`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_id: Option<String>,
    /// Driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of the driver, or of the kernel that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Firmware version, as the driver reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Link speed, in Mbit/s (L1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
    /// Receive queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_queues: Option<u32>,
    /// Send queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_queues: Option<u32>,
    /// NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
}

/// How many facts about the host and the user a page or an archive contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShownFacts {
    /// The facts that are needed to judge the figures.
    #[default]
    Brief,
    /// Also the kernel's command line, which may contain disks, hosts and keys of the machine, and
    /// directories.
    Full,
}

impl ShownFacts {
    /// Returns a word of a command, or the value of a parameter; with `Brief`, without its
    /// directories, which often contain names of people. `--runs=/people/ann/runs` becomes
    /// `--runs=runs`; a word with blanks is a command of its own and is kept.
    pub fn word(self, word: &str) -> String {
        let (before, path) = match word.split_once("=/") {
            Some((before, path)) if !before.contains('/') => (format!("{before}="), path),
            _ => (String::new(), word.strip_prefix('/').unwrap_or_default()),
        };
        let is_path = !path.is_empty() && !word.contains(char::is_whitespace);
        match (self, path.trim_end_matches('/').rsplit('/').next()) {
            (ShownFacts::Brief, Some(last)) if is_path && !last.is_empty() => {
                format!("{before}{last}")
            }
            _ => word.to_owned(),
        }
    }
}

impl Facts {
    /// Returns the names of the images that were booted.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        let names = self.placement.keys();
        names.filter_map(|name| name.strip_prefix(IMAGE))
    }

    /// Returns the operating system and its release: `Linux 6.18.0`.
    pub fn release(&self) -> String {
        let system = self.system.as_deref().unwrap_or("Linux");
        format!("{system} {}", self.kernel)
    }

    /// Returns true if nothing was sent because the DUT was simulated.
    pub fn is_simulated(&self) -> bool {
        self.engine.starts_with("sim:")
    }

    /// Returns true if the DUT's host was read; a black box, or a host that does not answer, has no
    /// facts.
    pub fn is_known(&self) -> bool {
        !self.kernel.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_left_out_of_words() {
        for (typed, brief) in [
            ("/people/ann/lab/x.toml", "x.toml"),
            ("--runs=/people/ann/runs/", "--runs=runs"),
            ("lab/x.toml", "lab/x.toml"),
            ("1/2", "1/2"),
            ("/", "/"),
            ("a/b=/c/d", "a/b=/c/d"),
            ("nft -f /etc/x.nft", "nft -f /etc/x.nft"),
            ("", ""),
        ] {
            assert_eq!(ShownFacts::Brief.word(typed), brief);
            assert_eq!(ShownFacts::Full.word(typed), typed);
        }
    }
}
