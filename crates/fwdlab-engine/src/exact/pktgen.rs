//! The kernel's own packet generator, for kernels without live frames: bursts of UDP frames with a
//! number of flows, sent by a kernel thread.
//!
//! It uses /proc/net/pktgen; the caller must have loaded the module. Its frames have no signature,
//! so every frame that arrives counts. They are `sk_buff`s from the start, which live frames become
//! at the DUT: the router takes some 470 instructions less, and a rule takes the same (321.0 ± 7.0
//! and 323.0 ± 2.4, on Linux 6.1). Start with [`Pktgen::arm`]; every call must be made in the
//! namespace of the ports.

use std::fs;
use std::path::Path;

use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_packet::{Addresses as Pair, FlowSet};

use crate::error::EngineError;
use crate::traffic::Addresses;

/// The directory of the calling thread's namespace.
const FOLDER: &str = "/proc/thread-self/net/pktgen";

/// The thread of the only CPU.
const THREAD: &str = "kpktgend_0";

/// The generator.
pub(super) struct Pktgen {
    /// Sending ports.
    ports: Vec<String>,
    /// The commands for every device.
    frames: Vec<String>,
}

impl Pktgen {
    pub(super) fn new(ports: Vec<String>) -> Pktgen {
        Pktgen {
            ports,
            frames: Vec::new(),
        }
    }

    /// Prepares frames of a stream.
    ///
    /// # Errors
    /// If there is no such set of flows.
    pub(super) fn arm(
        &mut self,
        stream: &Stream,
        addresses: &Addresses,
    ) -> Result<(), EngineError> {
        self.frames = commands(stream, addresses)?;
        Ok(())
    }

    /// Prepares a burst of `count` frames.
    ///
    /// # Errors
    /// If this kernel has no pktgen, or it refuses.
    pub(super) fn prepare(&self, path: usize, count: u32) -> Result<(), EngineError> {
        let port = self.port(path)?;
        write_command(THREAD, "rem_device_all")?;
        write_command(THREAD, &format!("add_device {port}"))?;
        for command in &self.frames {
            write_command(port, command)?;
        }
        write_command(port, &format!("count {count}"))
    }

    /// Sends the prepared burst; returns when all of it has been handed to the port.
    pub(super) fn burst(&self) -> Result<(), EngineError> {
        write_command("pgctrl", "start")
    }

    /// Returns the frames of the last burst that the port took.
    ///
    /// # Errors
    /// If pktgen does not report them.
    pub(super) fn sent(&self, path: usize) -> Result<u64, EngineError> {
        let port = self.port(path)?;
        let file = Path::new(FOLDER).join(port);
        let text = fs::read_to_string(&file)
            .map_err(|e| EngineError::system(format!("read {}", file.display()), e))?;
        sent(&text).ok_or_else(|| {
            EngineError::Frames(format!(
                "pktgen does not report the number of frames sent: {text}"
            ))
        })
    }

    fn port(&self, path: usize) -> Result<&str, EngineError> {
        let port = self.ports.get(path).map(String::as_str);
        port.ok_or_else(|| EngineError::Frames(format!("there is no path {path}")))
    }
}

/// Writes a command into a file of pktgen.
fn write_command(file: &str, command: &str) -> Result<(), EngineError> {
    let path = Path::new(FOLDER).join(file);
    fs::write(&path, format!("{command}\n")).map_err(|e| {
        let action = match e.kind() {
            std::io::ErrorKind::NotFound => {
                "which the module pktgen has (CONFIG_NET_PKTGEN): is it loaded? Write"
            }
            _ => "write",
        };
        EngineError::system(
            format!(
                "generate frames by {}, {action} `{command}`",
                path.display()
            ),
            e,
        )
    })
}

/// `     pkts-sofar: 20000  errors: 0`.
fn sent(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == "pkts-sofar:")?;
    words.next()?.parse().ok()
}

/// Returns the commands for a device, except for the number of frames.
///
/// Each dimension cycles independently in pktgen. There are as many source ports as flows, and the
/// other dimensions divide that number: so the number of flows is exact. An IPv6 frame has one pair
/// of addresses.
fn commands(stream: &Stream, addresses: &Addresses) -> Result<Vec<String>, EngineError> {
    let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    let mut commands = vec![
        "clone_skb 0".to_owned(),
        "delay 0".to_owned(),
        format!("pkt_size {}", stream.frame_size_bytes.buffer_bytes()),
        format!("dst_mac {}", mac(addresses.destination_mac)),
        format!("src_mac {}", mac(addresses.source_mac)),
    ];
    let wrong = |e: &dyn std::fmt::Display| EngineError::Frames(e.to_string());
    let flows = match stream.ip_version {
        IpVersion::Ipv4 => {
            let (source, destination) = addresses.ipv4;
            FlowSet::from_v4(stream.flows, source, destination).map_err(|e| wrong(&e))?
        }
        IpVersion::Ipv6 => {
            let (source, destination) = addresses.ipv6;
            FlowSet::from_v6(stream.flows, source, destination).map_err(|e| wrong(&e))?
        }
    };
    let (first, last) = (flows.flow(0), flows.flow(flows.len() - 1));
    match (first.addresses, last.addresses) {
        (
            Pair::V4 {
                source,
                destination,
            },
            Pair::V4 {
                source: last_source,
                destination: last_destination,
            },
        ) => commands.extend([
            format!("src_min {source}"),
            format!("src_max {last_source}"),
            format!("dst_min {destination}"),
            format!("dst_max {last_destination}"),
        ]),
        (
            Pair::V6 {
                source,
                destination,
            },
            _,
        ) => commands.extend([
            "flag IPV6".to_owned(),
            format!("src6 {source}"),
            format!("dst6 {destination}"),
        ]),
        (Pair::V4 { .. }, Pair::V6 { .. }) => {
            return Err(EngineError::Frames("flows of two IP versions".into()));
        }
    }
    // the upper end is never sent
    let port = u32::from(first.source_port);
    let first_port = port.min(u32::from(u16::MAX) - stream.flows.min(60_000));
    commands.extend([
        format!("udp_src_min {first_port}"),
        format!("udp_src_max {}", first_port + stream.flows),
        format!("udp_dst_min {}", first.destination_port),
        format!("udp_dst_max {}", first.destination_port),
    ]);
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use fwdlab_model::units::FrameSize;

    use super::*;

    #[test]
    fn pktgen_is_configured_with_the_flows_of_a_stream() {
        let addresses = Addresses {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            ipv4: ("198.18.0.2".parse().unwrap(), "198.19.0.2".parse().unwrap()),
            ipv6: (
                "2001:2::2".parse().unwrap(),
                "2001:2:0:8000::2".parse().unwrap(),
            ),
        };
        let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 2000).unwrap();
        let reported = commands(&stream, &addresses).unwrap();
        for command in [
            "pkt_size 60",
            "dst_mac 02:00:00:00:00:02",
            "dst_min 198.19.0.2",
        ] {
            assert!(reported.iter().any(|one| one == command), "{reported:?}");
        }
        let number = |key: &str| -> u32 {
            let mut found = reported.iter().filter_map(|one| one.strip_prefix(key));
            found.next().unwrap().trim().parse().unwrap()
        };
        assert_eq!(number("udp_src_max") - number("udp_src_min"), 2000);
        for flows in [1, 60_000] {
            let many = Stream::new(IpVersion::Ipv4, FrameSize::MIN, flows).unwrap();
            assert!(commands(&many, &addresses).is_ok());
        }
        let six = Stream::new(IpVersion::Ipv6, FrameSize::new(128).unwrap(), 4).unwrap();
        let reported = commands(&six, &addresses).unwrap();
        assert!(
            reported.iter().any(|one| one == "flag IPV6"),
            "{reported:?}"
        );
    }

    #[test]
    fn the_sent_count_is_parsed_from_pktgen_output() {
        let output =
            "Params: count 20000  min_pkt_size: 60\nCurrent:\n     pkts-sofar: 19999  errors: 1\n";
        assert_eq!(sent(output), Some(19_999));
        assert_eq!(sent("Result: Idle"), None);
    }
}
