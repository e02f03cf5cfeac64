//! The analysis of receivers with DUTs whose every action is known: a relay that delays,
//! duplicates, reorders, damages and drops frames by their number, and a router that drops some
//! flows.
//!
//! Needs root, `ip`, `ethtool` and for one test `nft`. Tests that cannot run here print `SKIPPED`
//! and the reason on stderr.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fwdlab_engine::af_packet::PacketCount;
use fwdlab_engine::analysis::{AnalysisPlan, Lengths, StreamAnalysis, StreamPlan};
use fwdlab_engine::stamps::Origins;
use fwdlab_engine::sys::monotonic_ns;
use fwdlab_engine::xdp_count::XdpCount;
use fwdlab_engine::{
    EngineError, Expected, Frames, PortSpec, ReceiveCounts, Receiver, Schedule, SignaturePlace,
    StallPolicy, TestFrames,
};
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::bed::{ADDRESSES, Bed, allowed, skip};

#[path = "receive/sys.rs"]
mod sys;

const NONCE: u16 = 40_000;

type Open = fn(&PortSpec) -> Result<Box<dyn Receiver>, EngineError>;

const RECEIVERS: [Open; 2] = [
    |port| Ok(Box::new(XdpCount::open(port)?)),
    |port| Ok(Box::new(PacketCount::open(port)?)),
];

fn template(version: IpVersion, frame_size: u16) -> FrameTemplate {
    FrameTemplate::new(&FrameSpec {
        source: MacAddr(ADDRESSES.source_mac),
        destination: MacAddr(ADDRESSES.destination_mac),
        version,
        frame_size,
    })
    .unwrap()
}

fn expected(buffer_bytes: usize, flows: u32) -> Expected {
    Expected {
        nonce: NONCE,
        buffer_bytes: Some(buffer_bytes as u16),
        place: SignaturePlace::UdpPayload,
        analysis: Some(AnalysisPlan {
            streams: vec![StreamPlan {
                id: 0,
                flows,
                lengths: Some(Lengths {
                    shortest: buffer_bytes as u16,
                    longest: buffer_bytes as u16,
                }),
            }],
        }),
    }
}

/// Waits until this number of frames has arrived and no more come, or until a time limit.
fn settle(receiver: &mut dyn Receiver, frames: u64) -> (ReceiveCounts, StreamAnalysis) {
    let begin = Instant::now();
    while receiver.counts().unwrap().received < frames && begin.elapsed().as_secs() < 5 {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(50));
    let analysis = receiver.analysis().unwrap().unwrap();
    assert!(
        analysis
            .timestamps
            .to_string()
            .contains("arrivals: software")
    );
    (receiver.counts().unwrap(), analysis.streams[0].clone())
}

/// Opens a packet socket on a port whose index in its namespace is known.
fn socket(port: &PortSpec, index: &str) -> OwnedFd {
    fwdlab_engine::port::within(&port.netns, || {
        let socket = rustix::net::socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        sys::bind(&socket, index.trim().parse().unwrap()).unwrap();
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20);
        Ok(socket)
    })
    .unwrap()
}

const HOLD: Duration = Duration::from_millis(5);

/// A frame that the relay sent.
#[derive(Clone, Copy)]
struct Sent {
    number: u64,
    damaged: bool,
    /// From its departure until just before the relay sent it.
    after_ns: u64,
}

/// A DUT in user space: it delays every frame, and treats some differently, depending on their
/// number.
struct Relay {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sent>>,
}

impl Relay {
    fn start(bed: &Bed) -> Relay {
        // only the relay may forward
        bed.in_dut(0, "echo 0 > /proc/sys/net/ipv4/ip_forward")
            .unwrap();
        let port = |interface: &str| PortSpec {
            netns: bed.dut_port(0).netns,
            interface: interface.into(),
        };
        let index = |interface| {
            bed.in_dut(0, &format!("cat /sys/class/net/{interface}/ifindex"))
                .unwrap()
        };
        let input = socket(&port("eth0"), &index("eth0"));
        let output = socket(&port("eth1"), &index("eth1"));
        let stop = Arc::new(AtomicBool::new(false));
        let ours = stop.clone();
        let thread = thread::spawn(move || relay(&input, &output, &ours));
        Relay { stop, thread }
    }

    /// Stops, and returns everything it sent, in order.
    fn stop(self) -> Vec<Sent> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

fn relay(input: &OwnedFd, output: &OwnedFd, stop: &AtomicBool) -> Vec<Sent> {
    let (mut queue, mut exchanged, mut log) = (VecDeque::new(), None, vec![]);
    let mut buffer = [0; 2048];
    loop {
        while let Ok((bytes, _)) = rustix::net::recv(input, &mut buffer[..], RecvFlags::empty()) {
            let now = monotonic_ns();
            let mut frame = buffer[..bytes].to_vec();
            let Some(signature) = frame.get(42..).and_then(Signature::read) else {
                continue;
            };
            if signature.nonce != NONCE {
                continue;
            }
            let number = signature.sequence;
            let damaged = number % 130 == 77;
            if damaged {
                frame[59] ^= 4;
            }
            let copies = if number % 100 == 99 { 2 } else { 1 };
            let due = now + HOLD.as_nanos() as u64;
            let sent = (due, signature, damaged, frame);
            if number % 70 == 69 {
                continue;
            }
            if number % 50 == 24 {
                exchanged = Some(sent);
                continue;
            }
            queue.extend(std::iter::repeat_n(sent, copies));
            if let Some((_, signature, damaged, frame)) = exchanged.take() {
                queue.push_back((due, signature, damaged, frame));
            }
        }
        let now = monotonic_ns();
        while let Some((due, signature, damaged, frame)) = queue.pop_front() {
            if due > now {
                queue.push_front((due, signature, damaged, frame));
                break;
            }
            log.push(Sent {
                number: signature.sequence,
                damaged,
                after_ns: monotonic_ns() - signature.timestamp_ns,
            });
            rustix::net::send(output, &frame, SendFlags::empty()).unwrap();
        }
        if stop.load(Ordering::Acquire) && queue.is_empty() {
            return log;
        }
        thread::sleep(Duration::from_micros(50));
    }
}

/// Counts by definition, for this order of arrival: duplicates, reordered frames, largest extent
/// (RFC 4737, 5560).
fn by_definition(numbers: &[u64]) -> (u64, u64, u64) {
    let (mut seen, mut arrived) = (HashSet::new(), Vec::<u64>::new());
    let (mut duplicates, mut reordered, mut extent) = (0, 0, 0);
    for &number in numbers {
        if !seen.insert(number) {
            duplicates += 1;
            continue;
        }
        if let Some(first) = arrived.iter().position(|&other| other > number) {
            reordered += 1;
            extent = extent.max(arrived.len() - first);
        }
        arrived.push(number);
    }
    (duplicates, reordered, extent as u64)
}

/// The frames leave on time or slightly late: their latency counts from when they were due.
#[test]
fn the_analysis_reports_exactly_what_the_dut_did() {
    const FRAMES: u64 = 4200;
    const GAP_NS: u64 = 250_000;
    const FLOWS: u32 = 70;
    let Some(bed) = crate::bed::bed(1) else {
        return;
    };
    let path = &bed.paths()[0];
    let template = template(IpVersion::V4, 64);
    let flows = FlowSet::default_v4(FLOWS).unwrap();
    for open in RECEIVERS {
        let Some(mut receiver) = allowed(open(&path.rx)) else {
            continue;
        };
        receiver
            .expect(&expected(template.buffer_len(), FLOWS))
            .unwrap();
        let index = bed.in_tester("cat /sys/class/net/tx0/ifindex").unwrap();
        let (relay, output) = (Relay::start(&bed), socket(&path.tx, &index));
        let start_ns = monotonic_ns();
        for sequence in 0..FRAMES {
            let timestamp_ns = start_ns + sequence * GAP_NS;
            while let Some(left_ns) = timestamp_ns.checked_sub(monotonic_ns()) {
                thread::sleep(Duration::from_nanos(left_ns));
            }
            let signature = Signature {
                nonce: NONCE,
                stream: 0,
                sequence,
                timestamp_ns,
            };
            let mut frame = vec![0; template.buffer_len()];
            let flow = flows.flow(sequence % u64::from(FLOWS));
            template.write(&mut frame, &flow, &signature);
            rustix::net::send(&output, &frame, SendFlags::empty()).unwrap();
        }
        thread::sleep(HOLD * 4);
        let log = relay.stop();
        let end_ns = monotonic_ns();
        let (counts, found) = settle(receiver.as_mut(), log.len() as u64);

        let whole: Vec<Sent> = log.iter().copied().filter(|sent| !sent.damaged).collect();
        let numbers: Vec<u64> = whole.iter().map(|sent| sent.number).collect();
        let (duplicates, reordered, extent) = by_definition(&numbers);
        // expected by number: 60 dropped; 42 duplicated, less those dropped or damaged; 84
        // reordered
        assert!(duplicates > 30 && reordered > 60, "the DUT did little");
        let name = receiver.name();
        assert_eq!(counts.received, log.len() as u64, "{name}");
        assert_eq!((counts.late, counts.dropped_by_receiver), (0, 0), "{name}");
        assert_eq!(found.received, counts.received, "{name}");
        assert_eq!(found.bytes, counts.received * 60, "{name}");
        assert_eq!(found.corrupt, (log.len() - whole.len()) as u64, "{name}");
        assert_eq!(found.duplicates, duplicates, "{name}");
        assert_eq!(found.reordered, reordered, "{name}");
        assert_eq!(found.reordering_extent, extent, "{name}");
        assert_eq!((found.older, found.early), (0, 0), "{name}");
        let arrived: HashSet<u64> = numbers.iter().copied().collect();
        assert_eq!(found.lost(FRAMES), FRAMES - arrived.len() as u64, "{name}");
        assert_eq!(found.next, arrived.iter().max().unwrap() + 1, "{name}");
        // every frame of flow 69 is dropped, and no other flow is dropped entirely
        assert_eq!(found.silent_flows().collect::<Vec<_>>(), [69], "{name}");
        for (flow, &frames) in (0..).zip(&found.flows) {
            let of_flow = arrived.iter().filter(|number| *number % 70 == flow);
            assert_eq!(frames as usize, of_flow.count(), "{name}");
        }

        // the first copies, as timed by the relay just before they left it
        let mut first = HashMap::new();
        for sent in &whole {
            first.entry(sent.number).or_insert(sent.after_ns);
        }
        let mut after_ns: Vec<u64> = first.into_values().collect();
        after_ns.sort_unstable();
        assert_eq!(found.latency.len(), after_ns.len() as u64, "{name}");
        assert!(found.latency_min_ns >= after_ns[0], "{name}");
        assert!(found.latency_min_ns >= HOLD.as_nanos() as u64, "{name}");
        assert!(
            found.latency_sum_ns >= after_ns.iter().sum::<u64>(),
            "{name}"
        );
        assert!(found.latency_max_ns <= end_ns - start_ns, "{name}");
        // half of all frames cannot have been delayed between the relay and the receiver
        let median_ns = after_ns[after_ns.len() / 2];
        let found_ns = found.latency.quantile(0.5).unwrap();
        assert!(
            found_ns >= median_ns * 99 / 100 && found_ns < median_ns + 2_000_000,
            "{name}: {found_ns} where {median_ns} is known"
        );
        let summary = found
            .latency_summary(found.lost(FRAMES), None, &Origins::default())
            .unwrap();
        assert_eq!(summary.latency_p50_ns, Some(found_ns));
        assert_eq!(summary.latency_lost_frames, found.lost(FRAMES));
    }
}

#[test]
fn flows_that_the_dut_drops_are_named() {
    const FLOWS: u32 = 1500;
    const ROUNDS: u64 = 4;
    const DROPPED: [u32; 3] = [7, 1023, 1024];
    let Some(bed) = crate::bed::bed(1) else {
        return;
    };
    let flows = FlowSet::default_v4(FLOWS).unwrap();
    let mut rules =
        "nft add table ip t && nft add chain ip t f '{ type filter hook forward priority 0; }'"
            .to_owned();
    for flow in DROPPED {
        let flow = flows.flow(flow.into());
        let fwdlab_packet::Addresses::V4 {
            source,
            destination,
        } = flow.addresses
        else {
            panic!("IPv4 is asked for");
        };
        rules += &format!(
            " && nft add rule ip t f ip saddr {source} ip daddr {destination} udp sport {} udp dport {} drop",
            flow.source_port, flow.destination_port
        );
    }
    if let Err(reason) = bed.in_dut(0, &rules) {
        return skip(reason);
    }
    let path = &bed.paths()[0];
    let template = template(IpVersion::V4, 128);
    let buffer_bytes = template.buffer_len();
    let sent = u64::from(FLOWS) * ROUNDS;
    for open in RECEIVERS {
        use fwdlab_engine::Sender;
        let Some(mut receiver) = allowed(open(&path.rx)) else {
            continue;
        };
        let mut sender = allowed(fwdlab_engine::af_packet::sender(
            std::slice::from_ref(path),
            &[],
        ))
        .unwrap();
        // twice: the second trial starts at zero
        for _ in 0..2 {
            receiver.expect(&expected(buffer_bytes, FLOWS)).unwrap();
            sender
                .arm(&Frames::Test(TestFrames {
                    template: template.clone(),
                    flows,
                    nonce: NONCE,
                }))
                .unwrap();
            sender
                .start(Schedule {
                    load: Some(20_000.0).into(),
                    frames: Some(sent),
                    at_most: Duration::from_secs(10),
                    stall_policy: StallPolicy::Skip,
                    path: 0,
                })
                .unwrap();
            while !sender.is_done() {
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(sender.stop().unwrap().total(), sent);
            let lost = ROUNDS * DROPPED.len() as u64;
            let (counts, found) = settle(receiver.as_mut(), sent - lost);
            let name = receiver.name();
            assert_eq!(counts.received, sent - lost, "{name}");
            assert_eq!(found.silent_flows().collect::<Vec<_>>(), DROPPED, "{name}");
            let whole = found.flows.iter().filter(|&&n| u64::from(n) == ROUNDS);
            assert_eq!(whole.count(), FLOWS as usize - DROPPED.len(), "{name}");
            assert_eq!((found.lost(sent), found.corrupt), (lost, 0), "{name}");
            assert_eq!((found.duplicates, found.reordered), (0, 0), "{name}");
        }
    }
}
