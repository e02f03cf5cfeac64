//! Two namespaces with veth pairs between them, removed when the value is dropped.
//!
//! Each contender has its own pair, so that all can be open at the same time; only those that send
//! live frames share one. Start with [`Bed::new`].

use std::path::PathBuf;
use std::process::Command;

use fwdlab_engine::PortSpec;

const PREFIX: &str = "fwdlab-enginebench";

/// MAC addresses of the sending and the receiving port of all pairs.
pub const SOURCE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const DESTINATION_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Namespaces `...-t` with ports `t<n>` and `...-r` with ports `r<n>`.
pub struct Bed {
    base: String,
}

impl Bed {
    pub fn new() -> Result<Bed, String> {
        remove_left_over();
        let bed = Bed {
            base: format!("{PREFIX}-{}", std::process::id()),
        };
        for side in ["t", "r"] {
            let netns = bed.netns(side);
            run(&["ip", "netns", "add", &netns])?;
            // neighbour discovery would add frames
            let off = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            run(&["ip", "netns", "exec", &netns, "sh", "-c", off])?;
        }
        Ok(bed)
    }

    /// Creates another pair, and returns the sending port and the receiving port.
    pub fn pair(&self, number: usize) -> Result<(PortSpec, PortSpec), String> {
        let (tx, rx) = (format!("t{number}"), format!("r{number}"));
        let (from, to) = (self.netns("t"), self.netns("r"));
        run(&[
            "ip",
            "link",
            "add",
            &tx,
            "netns",
            &from,
            "address",
            "02:00:00:00:00:01",
            "type",
            "veth",
            "peer",
            "name",
            &rx,
            "netns",
            &to,
            "address",
            "02:00:00:00:00:02",
        ])?;
        run(&["ip", "-n", &from, "link", "set", &tx, "up"])?;
        run(&["ip", "-n", &to, "link", "set", &rx, "up"])?;
        let port = |side, interface| PortSpec {
            netns: Some(PathBuf::from("/run/netns").join(self.netns(side))),
            interface,
        };
        Ok((port("t", tx), port("r", rx)))
    }

    /// Returns the namespace of the sending ports.
    pub fn sending(&self) -> String {
        self.netns("t")
    }

    fn netns(&self, side: &str) -> String {
        format!("{}-{side}", self.base)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for side in ["t", "r"] {
            // it may not exist yet
            let _ = run(&["ip", "netns", "delete", &self.netns(side)]);
        }
    }
}

/// Removes beds of benchmarks that were killed.
fn remove_left_over() {
    let names = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        let process = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').nth(1));
        if process.is_some_and(|process| !PathBuf::from("/proc").join(process).exists()) {
            let _ = run(&["ip", "netns", "delete", &name]);
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .map_err(|e| format!("{}: {e}", words[0]))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}
