//! A test bed: network namespaces with a Linux router in each path, removed when the value is
//! dropped. Also the message of tests that cannot run here.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::{Addresses, EngineError, PathSpec, PortSpec};

const PREFIX: &str = "fwdlab-enginetest";

/// Addresses, the same on all paths.
pub const ADDRESSES: Addresses = Addresses::between([2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 0, 1]);

/// One bed at a time: they share two CPUs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static BEDS: AtomicUsize = AtomicUsize::new(0);

/// Prints that a test, or a part of it, cannot run here, bypassing the capture of the test runner.
pub fn skip(reason: impl Display) {
    let name = thread::current().name().unwrap_or("?").to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: {reason}");
}

/// Returns a bed with this number of paths, or skips the test.
pub fn bed(paths: usize) -> Option<Bed> {
    if !rustix::process::geteuid().is_root() {
        skip("not root");
        return None;
    }
    Bed::new(paths).map_err(skip).ok()
}

/// Returns the result of an engine, or skips the test if only privileges are missing (as in a
/// container); other errors fail the test.
pub fn allowed<T>(result: Result<T, EngineError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.to_string().contains("not permitted") => {
            skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// How long something may take on a busy host before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for something that takes seconds at most.
pub fn wait_until(mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "it takes too long");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A namespace for the tester with ports `tx<n>` and `rx<n>`, and one for each DUT with `eth0` and
/// `eth1`.
pub struct Bed {
    names: Vec<String>,
    _only: MutexGuard<'static, ()>,
}

impl Bed {
    /// Builds a bed with this number of paths; the error describes what is missing here.
    pub fn new(paths: usize) -> Result<Bed, String> {
        let only = ONE_AT_A_TIME
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        remove_left_over();
        let bed = BEDS.fetch_add(1, Ordering::Relaxed);
        let base = format!("{PREFIX}-{}-{bed}", std::process::id());
        let tester = format!("{base}-t");
        let mut bed = Bed {
            names: vec![tester.clone()],
            _only: only,
        };
        run(&format!("ip netns add {tester}"))?;
        // neighbour discovery would add frames
        within(
            &tester,
            "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
        )?;
        for path in 0..paths {
            let dut = format!("{base}-d{path}");
            bed.names.push(dut.clone());
            run(&format!("ip netns add {dut}"))?;
            for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                within(&dut, &format!("echo 1 > /proc/sys/net/{setting}"))?;
            }
            for [ours, its, mac_ours, mac_its] in [
                [
                    format!("tx{path}"),
                    "eth0".into(),
                    "02:00:00:00:01:01".into(),
                    "02:00:00:00:00:01".into(),
                ],
                [
                    format!("rx{path}"),
                    "eth1".into(),
                    "02:00:00:00:01:02".into(),
                    "02:00:00:00:00:02".into(),
                ],
            ] {
                run(&format!(
                    "ip link add {ours} netns {tester} address {mac_ours} type veth \
                     peer name {its} netns {dut} address {mac_its}"
                ))?;
                run(&format!("ip -n {dut} link set {its} up"))?;
                run(&format!("ip -n {tester} link set {ours} up"))?;
            }
            for line in [
                "address add 198.18.0.1/16 dev eth0",
                "address add 198.19.0.1/24 dev eth1",
                "neighbour add 198.19.0.2 lladdr 02:00:00:00:01:02 dev eth1 nud permanent",
                "route add 198.19.0.0/16 via 198.19.0.2",
                "address add 2001:2::1/49 dev eth0 nodad",
                "address add 2001:2:0:8000::1/64 dev eth1 nodad",
                "neighbour add 2001:2:0:8000::2 lladdr 02:00:00:00:01:02 dev eth1 nud permanent",
                "route add 2001:2:0:8000::/49 via 2001:2:0:8000::2",
            ] {
                run(&format!("ip -n {dut} {line}"))?;
            }
            // GRO makes the port run NAPI, without which live frames disappear
            within(&dut, "ethtool -K eth0 gro on")?;
        }
        Ok(bed)
    }

    /// A veth pair with eight queues between the tester and the DUT, which counts what arrives;
    /// `None` if it cannot be made.
    pub fn wide_pair(&self, receive_queues: u32) -> Option<(PathSpec, PortSpec)> {
        let peer = PortSpec {
            interface: "wide1".into(),
            ..self.dut_port(0)
        };
        let netns = peer.netns.as_ref().unwrap().file_name().unwrap();
        let made = self.in_tester(&format!(
            "ip link delete wide0 2>/dev/null; \
             ip link add wide0 address 02:00:00:00:03:01 numtxqueues 8 numrxqueues 8 type veth \
             peer name wide1 netns {} numtxqueues 8 numrxqueues {receive_queues} && ip link set wide0 up",
            netns.display()
        ));
        let made = made.and_then(|_| self.in_dut(0, "ip link set wide1 up"));
        let tx = PortSpec {
            interface: "wide0".into(),
            ..self.paths()[0].tx.clone()
        };
        let path = PathSpec { rx: tx.clone(), tx };
        made.map(|_| (path, peer)).map_err(skip).ok()
    }

    /// Returns what the kernel counted at the two ends of the wide pair: sent and dropped;
    /// received.
    pub fn counted_at_wide_pair(&self) -> (Transmitted, u64) {
        let packets = |text: String, way: &str, counter: &str| {
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            json[0]["stats64"][way][counter].as_u64().unwrap()
        };
        let ours = self.in_tester("ip -j -s link show dev wide0").unwrap();
        let sent = Transmitted {
            packets: packets(ours.clone(), "tx", "packets"),
            dropped: packets(ours, "tx", "dropped"),
        };
        let its = self.in_dut(0, "ip -j -s link show dev wide1").unwrap();
        (sent, packets(its, "rx", "packets"))
    }

    /// Returns what was counted there since then, once it includes this number of frames.
    pub fn counted_at_wide_pair_since(
        &self,
        (sent_before, received_before): (Transmitted, u64),
        frames: u64,
    ) -> (Transmitted, u64) {
        let mut counted = None;
        wait_until(|| {
            let (sent, received) = self.counted_at_wide_pair();
            let (sent, received) = (sent.since(sent_before), received - received_before);
            counted = Some((sent, received));
            sent.total() >= frames && received >= sent.packets
        });
        counted.unwrap()
    }

    pub fn paths(&self) -> Vec<PathSpec> {
        let port = |interface| PortSpec {
            netns: Some(file(&self.names[0])),
            interface,
        };
        (0..self.names.len() - 1)
            .map(|path| PathSpec {
                tx: port(format!("tx{path}")),
                rx: port(format!("rx{path}")),
            })
            .collect()
    }

    /// Returns the port on which a path's DUT receives.
    pub fn dut_port(&self, path: usize) -> PortSpec {
        PortSpec {
            netns: Some(file(&self.names[1 + path])),
            interface: "eth0".into(),
        }
    }

    /// Runs a shell command in the namespace of a path's DUT.
    pub fn in_dut(&self, path: usize, command: &str) -> Result<String, String> {
        within(&self.names[1 + path], command)
    }

    /// Runs a shell command in the tester's namespace.
    pub fn in_tester(&self, command: &str) -> Result<String, String> {
        within(&self.names[0], command)
    }

    /// Returns what the tester's port sent and dropped, as shown by `ip`.
    pub fn transmitted(&self, path: usize) -> Transmitted {
        let text = run(&format!(
            "ip -n {} -j -s link show dev tx{path}",
            self.names[0]
        ))
        .unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let counter = |name| json[0]["stats64"]["tx"][name].as_u64().unwrap();
        Transmitted {
            packets: counter("packets"),
            dropped: counter("dropped"),
        }
    }

    /// Returns what became of `sent` frames, and of more if the sender counted too few. veth counts
    /// a frame when its peer takes it, so the last ones are counted late if the DUT has no CPU
    /// time.
    pub fn transmitted_of(&self, path: usize, before: Transmitted, sent: u64) -> Transmitted {
        wait_until(|| self.transmitted(path).since(before).total() >= sent);
        self.transmitted_at_rest(path).since(before)
    }

    /// Returns the counters as soon as they have not changed for 50 ms; fails if they never do.
    pub fn transmitted_at_rest(&self, path: usize) -> Transmitted {
        let mut last = self.transmitted(path);
        wait_until(|| {
            thread::sleep(Duration::from_millis(50));
            let earlier = std::mem::replace(&mut last, self.transmitted(path));
            last.total() == earlier.total()
        });
        last
    }
}

/// Counters of an interface.
#[derive(Debug, Clone, Copy)]
pub struct Transmitted {
    pub packets: u64,
    pub dropped: u64,
}

impl Transmitted {
    pub fn total(self) -> u64 {
        self.packets + self.dropped
    }

    pub fn since(self, before: Transmitted) -> Transmitted {
        Transmitted {
            packets: self.packets - before.packets,
            dropped: self.dropped - before.dropped,
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for name in &self.names {
            // some may not exist yet
            let _ = run(&format!("ip netns delete {name}"));
        }
    }
}

fn file(netns: &str) -> PathBuf {
    Path::new("/run/netns").join(netns)
}

/// Removes beds of test processes that were killed.
fn remove_left_over() {
    let Ok(names) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for name in names
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
    {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let process = rest.split('-').nth(1).unwrap_or_default();
        if !process.is_empty() && !Path::new("/proc").join(process).exists() {
            let _ = run(&format!("ip netns delete {name}"));
        }
    }
}

fn within(netns: &str, command: &str) -> Result<String, String> {
    output(Command::new("ip").args(["netns", "exec", netns, "sh", "-c", command]))
}

fn run(command: &str) -> Result<String, String> {
    let mut words = command.split_whitespace();
    output(Command::new(words.next().unwrap()).args(words))
}

fn output(command: &mut Command) -> Result<String, String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8(output.stdout).unwrap()),
        Ok(output) => Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
