//! pkt-gen's frames as traffic for an engine: one stream, one template, and a program for
//! addresses, ports, sizes and numbers.
//!
//! Headers and the order of flows match the original. The payload is [`TEXT`] instead of the
//! original's text, and checksums are also correct with IPv6. Start with [`traffic`].

use std::net::IpAddr;
use std::sync::Arc;

use fwdlab_engine::traffic::{Emission, Kind, Stream, Timing, Traffic};
use fwdlab_packet::MacAddr;
use fwdlab_packet::header::{ethernet, ipv4, ipv6, udp};
use fwdlab_packet::modifier::{
    Dimension, Direction, Endian, Instruction, Program, Source, Transport, Values, Variable, Width,
};
use fwdlab_packet::permutation::Visits;
use fwdlab_packet::stack::{Layer, Size, build};

use super::arguments::{Arguments, Function};
use super::range::Range;

/// The text that the payload repeats.
const TEXT: &[u8] = b"fwdlab pkt-gen: a test frame. ";

/// The smallest Ethernet frame, without FCS.
pub const SMALLEST: u16 = 60;

/// Returns the number of bytes before the payload.
pub fn head_len(arguments: &Arguments) -> u16 {
    l3_len(arguments) + (ethernet::HEADER_LEN + udp::HEADER_LEN) as u16
}

fn l3_len(arguments: &Arguments) -> u16 {
    let len = match arguments.source.first {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    };
    len as u16
}

/// Returns a frame of the first flow with this payload.
///
/// # Errors
/// If the frame cannot be built.
pub fn frame(
    arguments: &Arguments,
    source_mac: [u8; 6],
    payload: Vec<u8>,
) -> Result<Vec<u8>, String> {
    let (source, destination) = (&arguments.source, &arguments.destination);
    let ip = match (source.first, destination.first) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Layer::Ipv4(ipv4::Repr {
            traffic_class: 0x10, // low delay
            dont_fragment: true,
            ttl: 64,
            protocol: udp::PROTOCOL,
            source,
            destination,
            ..ipv4::Repr::default()
        }),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Layer::Ipv6(ipv6::Repr {
            hop_limit: 64,
            next_header: udp::PROTOCOL,
            source,
            destination,
            ..ipv6::Repr::default()
        }),
        _ => return Err("source and destination have different IP versions".into()),
    };
    let layers = [
        Layer::Ethernet(ethernet::Repr {
            destination: MacAddr(arguments.destination_mac),
            source: MacAddr(source_mac),
            ethertype: 0,
        }),
        ip,
        Layer::Udp(udp::Repr {
            source_port: source.ports.0,
            destination_port: destination.ports.0,
            payload_len: 0,
        }),
        Layer::Payload(payload),
    ];
    build(&layers, Size::Layers)
        .map(|frame| frame.bytes)
        .map_err(|e| e.to_string())
}

/// Returns the payload for the requested frame size.
///
/// # Errors
/// If the frame size is too small.
pub fn payload(arguments: &Arguments) -> Result<Vec<u8>, String> {
    let leading = if wants_number(arguments) { 4 } else { 0 };
    let least = SMALLEST.max(head_len(arguments) + leading);
    let smallest = arguments.least_size.unwrap_or(arguments.size);
    if smallest < least {
        return Err(format!(
            "bad pktsize {smallest}: these frames need at least {least} bytes (without FCS)"
        ));
    }
    let len = usize::from(arguments.size - head_len(arguments));
    Ok(TEXT.iter().copied().cycle().take(len).collect())
}

/// Returns true if the payload starts with a number.
fn wants_number(arguments: &Arguments) -> bool {
    arguments.function == Function::TxSeq
}

/// Returns the traffic for a sender. `captured` is a frame to send instead of a generated one.
///
/// # Errors
/// If the frames cannot be built.
pub fn traffic(
    arguments: &Arguments,
    source_mac: [u8; 6],
    captured: Option<Vec<u8>>,
    seed: u64,
) -> Result<Arc<Traffic>, String> {
    let (template, program) = match captured {
        Some(frame) => (frame, Program::default()),
        None => (
            frame(arguments, source_mac, payload(arguments)?)?,
            program(arguments, seed),
        ),
    };
    program
        .machine(&template)
        .map_err(|e| e.to_string())
        .map(drop)?;
    let stream = Stream {
        id: 0,
        name: "pkt-gen".into(),
        kinds: vec![Kind {
            template,
            program,
            place: None,
        }],
        pattern: vec![0],
        timing: Timing::new(
            arguments.rate_pps.map_or(1e6, |rate| rate as f64),
            Emission::Continuous,
        ),
        path: 0,
    };
    Ok(Arc::new(Traffic {
        name: "pkt-gen".into(),
        streams: vec![stream],
    }))
}

/// Returns the program that varies the frames. Empty if all frames are equal, so that an engine
/// need not modify them.
fn program(arguments: &Arguments, seed: u64) -> Program {
    let mut writer = Writer::new(arguments, seed);
    let (source, destination) = (&arguments.source, &arguments.destination);
    // per frame: the source port increments, then the source address when the ports are through,
    // then the destination
    if arguments.random_source {
        writer.random("source", source, true);
    } else {
        writer.walk("source", source, true);
    }
    if arguments.random_destination {
        writer.random("destination", destination, false);
    } else {
        writer.walk("destination", destination, false);
    }
    if arguments.function == Function::TxSeq {
        writer.number(head_len(arguments));
    }
    if let Some(least) = arguments.least_size {
        writer.sizes(least, arguments.size - 1);
    }
    writer.finish()
}

/// A program under construction.
struct Writer {
    /// Offsets of the layers.
    ip: u16,
    udp: u16,
    version6: bool,
    seed: u64,
    dimensions: Vec<Dimension>,
    program: Program,
}

impl Writer {
    fn new(arguments: &Arguments, seed: u64) -> Writer {
        let ip = ethernet::HEADER_LEN as u16;
        Writer {
            ip,
            udp: ip + l3_len(arguments),
            version6: arguments.source.first.is_ipv6(),
            seed,
            dimensions: vec![],
            program: Program::default(),
        }
    }

    /// Returns the offset of an address, or of its group that varies, and the width.
    fn address(&self, range: &Range, source: bool) -> (u16, Width) {
        let side = u16::from(!source);
        match self.version6 {
            false => (self.ip + 12 + 4 * side, Width::Four),
            true => (
                self.ip + 8 + 16 * side + 2 * range.groups.0 as u16,
                Width::Two,
            ),
        }
    }

    fn port(&self, source: bool) -> u16 {
        self.udp + 2 * u16::from(!source)
    }

    fn write(&mut self, variable: String, offset: u16, add: i64) {
        self.program.instructions.push(Instruction::Write {
            variable,
            offset,
            add,
            endian: Endian::Big,
        });
    }

    fn walk(&mut self, side: &str, range: &Range, source: bool) {
        let (offset, width) = self.address(range, source);
        let first = match range.first {
            IpAddr::V4(address) => u64::from(u32::from(address)),
            IpAddr::V6(address) => u64::from(address.segments()[range.groups.0]),
        };
        let port = u64::from(range.ports.0);
        let both = [
            (
                "port",
                Width::Two,
                port,
                range.port_count(),
                self.port(source),
            ),
            ("address", width, first, range.addresses(), offset),
        ];
        for (what, width, first, count, offset) in both {
            if count == 1 {
                continue;
            }
            let name = format!("{side}_{what}");
            self.write(format!("flow.{name}"), offset, 0);
            self.dimensions.push(Dimension {
                name,
                width,
                values: Values::Range {
                    first,
                    step: 1,
                    count,
                },
            });
        }
    }

    fn random(&mut self, side: &str, range: &Range, source: bool) {
        let (offset, width) = self.address(range, source);
        for (what, width, offset) in [
            ("address", width, offset),
            ("port", Width::Two, self.port(source)),
        ] {
            let name = format!("{side}_{what}");
            self.write(name.clone(), offset, 0);
            self.seed = self.seed.wrapping_add(1);
            self.variable(
                name,
                width,
                Source::Random {
                    min: 0,
                    max: width.max(),
                    seed: self.seed,
                },
            );
        }
    }

    fn number(&mut self, offset: u16) {
        self.write("number".into(), offset, 0);
        let max = Width::Four.max();
        self.variable(
            "number".into(),
            Width::Four,
            Source::Counter {
                direction: Direction::Increment,
                initial: 0,
                min: 0,
                max,
                step: 1,
            },
        );
    }

    fn sizes(&mut self, min: u16, max: u16) {
        let name = || "size".to_owned();
        // IPv4 counts its header, IPv6 does not
        let (length, before) = match self.version6 {
            false => (self.ip + 2, self.ip),
            true => (self.ip + 4, self.udp),
        };
        self.write(name(), length, -i64::from(before));
        self.write(name(), self.udp + 4, -i64::from(self.udp));
        self.program
            .instructions
            .push(Instruction::Trim { variable: name() });
        self.variable(
            name(),
            Width::Two,
            Source::Random {
                min: min.into(),
                max: max.into(),
                seed: self.seed.wrapping_add(1),
            },
        );
    }

    fn variable(&mut self, name: String, width: Width, source: Source) {
        self.program.variables.push(Variable {
            name,
            width,
            source,
            split: true,
            next: None,
        });
    }

    fn finish(mut self) -> Program {
        if !self.dimensions.is_empty() {
            let dimensions = std::mem::take(&mut self.dimensions);
            self.variable(
                "flow".into(),
                Width::Four,
                Source::Grid {
                    dimensions,
                    visits: Visits::Sequential,
                },
            );
        }
        if !self.program.instructions.is_empty() {
            self.program.instructions.push(Instruction::FixTransport {
                l2_len: self.ip,
                l3_len: self.udp - self.ip,
                transport: Transport::Udp,
            });
        }
        self.program
    }
}

/// Returns the first frame of a capture file.
///
/// # Errors
/// If it is not a capture file, or has no frame that can be sent.
pub fn first_of(capture: &[u8]) -> Result<Vec<u8>, String> {
    let first = fwdlab_packet::pcap::frames(capture)
        .next()
        .ok_or("it contains no frame")?;
    let frame = first.map_err(|e| e.to_string())?;
    let mut bytes = (frame.to_send())
        .map_err(|error| format!("its first frame cannot be sent: {error}"))?
        .to_vec();
    bytes.resize(bytes.len().max(SMALLEST.into()), 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use fwdlab_packet::pcap;
    use std::collections::HashMap;

    fn arguments(line: &str) -> Arguments {
        let words: Vec<&str> = line.split(' ').collect();
        Arguments::parse(&words, 2).unwrap()
    }

    fn frames(line: &str, count: usize) -> Vec<Vec<u8>> {
        let traffic = traffic(&arguments(line), [2, 0, 0, 0, 0, 1], None, 7).unwrap();
        let kind = &traffic.streams[0].kinds[0];
        let mut machine = kind.program.machine(&kind.template).unwrap();
        let mut buffer = vec![0; machine.buffer_len()];
        (0..count)
            .map(|_| {
                let len = machine.render(&mut buffer, &fwdlab_packet::Signature::default());
                buffer[..len].to_vec()
            })
            .collect()
    }

    /// Returns addresses and ports as parsed by another library, which also checks all lengths and
    /// checksums.
    fn flow(frame: &[u8]) -> (String, u16, String, u16) {
        let parsed = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Udp(udp)) = parsed.transport else {
            panic!("UDP is expected");
        };
        let (source, destination, sum) = match parsed.net.unwrap() {
            NetSlice::Ipv4(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.calc_header_checksum(), header.header_checksum);
                assert_eq!(usize::from(header.total_len), frame.len() - 14);
                let sum = udp
                    .to_header()
                    .calc_checksum_ipv4(&header, udp.payload())
                    .unwrap();
                let (source, destination) =
                    (ip.header().source_addr(), ip.header().destination_addr());
                (source.to_string(), destination.to_string(), sum)
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header().to_header();
                assert_eq!(usize::from(header.payload_length), frame.len() - 54);
                let sum = udp
                    .to_header()
                    .calc_checksum_ipv6(&header, udp.payload())
                    .unwrap();
                let (source, destination) =
                    (ip.header().source_addr(), ip.header().destination_addr());
                (source.to_string(), destination.to_string(), sum)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(udp.checksum(), sum);
        (
            source,
            udp.source_port(),
            destination,
            udp.destination_port(),
        )
    }

    #[test]
    fn one_flow_needs_no_program() {
        let traffic = traffic(&arguments("-f tx -i x"), [2, 0, 0, 0, 0, 1], None, 0).unwrap();
        let kind = &traffic.streams[0].kinds[0];
        assert_eq!(kind.program, Program::default());
        assert_eq!(kind.template.len(), 60);
        assert_eq!(kind.template[..6], [0xff; 6]);
        assert_eq!(
            flow(&kind.template),
            ("10.0.0.1".into(), 1234, "10.1.0.1".into(), 1234)
        );
        let header = etherparse::Ipv4Header::from_slice(&kind.template[14..])
            .unwrap()
            .0;
        assert_eq!((header.time_to_live, header.dont_fragment), (64, true));
        assert_eq!(kind.template[15], 0x10);
    }

    /// pkt-gen's `update_ip` varies, in this order: source port, source address, destination port,
    /// destination address.
    #[test]
    fn flows_come_in_the_originals_order_and_equally_often() {
        let line = "-f tx -i x -s 10.0.0.1:7-10.0.0.2:8 -d 10.1.0.1:53-10.1.0.3:53";
        let seen: Vec<_> = frames(line, 24).iter().map(|f| flow(f)).collect();
        let of = |s: u8, port, d: u8| (format!("10.0.0.{s}"), port, format!("10.1.0.{d}"), 53);
        assert_eq!(
            seen[..6],
            [
                of(1, 7, 1),
                of(1, 8, 1),
                of(2, 7, 1),
                of(2, 8, 1),
                of(1, 7, 2),
                of(1, 8, 2)
            ]
        );
        assert_eq!(seen[..12], seen[12..]);
        let mut counts = HashMap::new();
        seen.iter()
            .for_each(|flow| *counts.entry(flow).or_insert(0) += 1);
        assert_eq!(counts.len(), 12);
        assert!(counts.values().all(|n| *n == 2));
    }

    #[test]
    fn ipv6_counts_in_its_group() {
        let line = "-f tx -i x -l 62 -6 -s [2001:2:0:10::1]-[2001:2:0:10::3] -d 4@[2001:2:0:8010::1]-[2001:2:0:8010:1::1]";
        let seen: Vec<_> = frames(line, 6).iter().map(|f| flow(f)).collect();
        assert_eq!(seen[2].0, "2001:2:0:10::3");
        assert_eq!(seen[3].0, "2001:2:0:10::1");
        assert_eq!(seen[3].2, "2001:2:0:8010:1::1");
        let mut all = seen.clone();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn random_addresses_ports_and_sizes_are_right_frames() {
        for line in [
            "-f tx -i x -z -Z -l 200 -l 60",
            "-f tx -i x -6 -z -l 200 -l 62",
            "-f txseq -i x -l 300 -l 60 -s 10.0.0.1-10.0.0.9",
        ] {
            let frames = frames(line, 400);
            let flows: Vec<_> = frames.iter().map(|f| flow(f)).collect();
            let sizes: Vec<usize> = frames.iter().map(Vec::len).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(
                (60..70).contains(least) && (190..300).contains(most),
                "{sizes:?}"
            );
            let mut different = flows.clone();
            different.sort();
            different.dedup();
            let expected = if line.contains("-z") { 390 } else { 9 };
            assert!(different.len() >= expected, "{line}: {}", different.len());
        }
    }

    #[test]
    fn numbers_lead_the_payload_in_network_order() {
        let frames = frames("-f txseq -i x", 300);
        for (number, frame) in (0_u32..).zip(&frames) {
            assert_eq!(frame[42..46], number.to_be_bytes());
            flow(frame);
        }
        let small = arguments("-f txseq -i x -6 -l 62");
        assert!(payload(&small).unwrap_err().contains("at least 66"));
        assert!(payload(&arguments("-f txseq -i x -6 -l 66")).is_ok());
        assert!(payload(&arguments("-f tx -i x -6 -l 62")).is_ok());
        assert!(payload(&arguments("-f tx -i x -l 59")).is_err());
        assert!(payload(&arguments("-f tx -i x -6 -l 60")).is_err());
    }

    #[test]
    fn a_captured_frame_is_sent_as_it_is() {
        let mut file = vec![];
        let writer = pcap::Writer::start(pcap::Format::Micro, 1, &mut file);
        writer.frame(&pcap::Frame::new(0, &[7; 100]), &mut file);
        assert_eq!(first_of(&file).unwrap(), [7; 100]);
        assert!(first_of(&file[..30]).is_err());
        // frames that the other readers refuse or strip
        let of = |link_type, original_len, fcs_len| {
            let mut file = vec![];
            pcap::Writer::start(pcap::Format::Ng, link_type, &mut file).frame(
                &pcap::Frame {
                    link_type,
                    original_len,
                    fcs_len,
                    ..pcap::Frame::new(0, &[7; 100])
                },
                &mut file,
            );
            first_of(&file)
        };
        assert!(of(113, 100, 0).unwrap_err().contains("link type 113"));
        assert!(of(101, 100, 0).unwrap_err().contains("link type 101"));
        assert!(of(1, 1500, 0).unwrap_err().contains("only 100 of its 1500"));
        assert!(first_of(b"nonsense").is_err());
    }
}
