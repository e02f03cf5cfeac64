//! A network namespace for one test, with two ports joined by a cable: `pa` and `pb`.
//!
//! It is removed when the value is dropped. Nothing in it sends frames by itself. Start with
//! [`Wire::new`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use etherparse::PacketBuilder;
use fwdlab_packet::pcap::{self, Format, Frame, Writer};
use serde_json::Value;

use crate::support::{CommandResult, Lab, Started, own_run, tool, try_tool};

pub const MAC_A: &str = "02:00:00:00:00:0a";
pub const MAC_B: &str = "02:00:00:00:00:0b";

pub struct Wire {
    pub name: String,
}

/// Returns a lab and a wire for a test that needs root; otherwise reports that it is skipped.
pub fn wired() -> Option<(Lab, Wire)> {
    let lab = Lab::root()?;
    Some((lab, Wire::new()))
}

impl Wire {
    /// Creates the namespace, with both ports up and without addresses.
    pub fn new() -> Wire {
        own_run();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fwtest-{}-{number}", std::process::id());
        tool(&["ip", "netns", "add", &name]);
        let wire = Wire { name };
        wire.exec("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
        wire.ip(&format!(
            "link add name pa address {MAC_A} type veth peer name pb address {MAC_B}"
        ));
        // live frames need NAPI at the other end of a veth: without it, every start would wait for
        // them in vain and use the next engine
        wire.exec("ethtool -K pa gro on; ethtool -K pb gro on");
        wire.ip("link set pa up");
        wire.ip("link set pb up");
        wire
    }

    #[track_caller]
    pub fn ip(&self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        tool(&[&["ip", "-n", &self.name], &words[..]].concat())
    }

    #[track_caller]
    pub fn exec(&self, script: &str) -> String {
        tool(&["ip", "netns", "exec", &self.name, "sh", "-c", script])
    }

    /// Returns the arguments that run the program on the ports of this namespace.
    pub fn arguments<'a>(&'a self, words: &'a str) -> Vec<&'a str> {
        let mut all: Vec<&str> = words.split_whitespace().collect();
        all.extend(["--netns", &self.name]);
        all
    }

    pub fn run(&self, lab: &Lab, words: &str) -> CommandResult {
        lab.run(&self.arguments(words))
    }

    pub fn start(&self, lab: &Lab, words: &str) -> Started {
        lab.start(&self.arguments(words))
    }

    /// Runs the program, and returns its output as JSON. A busy machine may keep it from its load
    /// (code 5).
    #[track_caller]
    pub fn json(&self, lab: &Lab, words: &str) -> Value {
        let mut arguments = self.arguments(words);
        arguments.push("--json");
        lab.run(&arguments).measured().document()
    }

    /// Returns what is attached: XDP programs and packet sockets.
    pub fn attached(&self) -> String {
        let programs = self.ip("link show");
        let programs: Vec<&str> = programs
            .lines()
            .filter(|line| line.contains("xdp"))
            .collect();
        let sockets =
            self.exec("tail -n +2 /proc/net/packet; grep fwdlab/port /proc/net/unix; true");
        format!("{}{sockets}", programs.join("\n"))
    }

    /// Returns a port's counter, as kept by the kernel.
    pub fn counter(&self, port: &str, direction: &str, name: &str) -> u64 {
        let text = self.ip(&format!("-j -s link show dev {port}"));
        let json: Value = serde_json::from_str(&text).unwrap();
        json[0]["stats64"][direction][name].as_u64().unwrap()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = try_tool(&["ip", "netns", "delete", &self.name]);
    }
}

/// Returns a field of all frames in a capture file, as read by tshark, or several fields separated
/// by tabs; `None` without tshark, which takes a second to start.
pub fn tshark(file: &Path, fields: &str, filter: &str) -> Option<Vec<String>> {
    try_tool(&["sh", "-c", "command -v tshark"]).ok()?;
    let line = "tshark -o udp.check_checksum:TRUE -o ip.check_checksum:TRUE -T fields -r";
    let mut words: Vec<&str> = line.split(' ').collect();
    words.push(file.to_str().unwrap());
    words.extend(fields.split(' ').flat_map(|field| ["-e", field]));
    let text = tool(&[&words[..], &["-Y", filter]].concat());
    Some(text.lines().map(str::to_owned).collect())
}

/// Returns times and bytes of all frames in a capture file, with our own reader.
pub fn frames(file: &Path) -> Vec<(u64, Vec<u8>)> {
    let bytes = std::fs::read(file).unwrap();
    pcap::frames(&bytes)
        .map(|frame| {
            let frame = frame.unwrap();
            (frame.timestamp_ns, frame.bytes.to_vec())
        })
        .collect()
}

/// Writes a capture file.
pub fn capture_file(lab: &Lab, name: &str, frames: &[(u64, Vec<u8>)]) -> PathBuf {
    let mut file = Vec::new();
    let writer = Writer::start(Format::Ng, pcap::ETHERNET, &mut file);
    for (at, bytes) in frames {
        writer.frame(&Frame::new(*at, bytes), &mut file);
    }
    let path = lab.path().join(name);
    std::fs::write(&path, file).unwrap();
    path
}

/// Returns a UDP frame over IPv4 from 198.18.0.2, as another program would build it: without a
/// signature.
pub fn frame(destination: [u8; 4], number: u8, payload: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb])
        .ipv4([198, 18, 0, 2], destination, 64)
        .udp(2000, 2000);
    let mut frame = Vec::new();
    builder.write(&mut frame, &vec![number; payload]).unwrap();
    frame
}
