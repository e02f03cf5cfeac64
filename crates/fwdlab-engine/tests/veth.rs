//! Engines and the kernel: every sender and receiver over veth, through a Linux router in its own
//! namespace.
//!
//! Needs root, `ip`, `ethtool` and for one test `nft`. Tests that cannot run here print `SKIPPED`
//! and the reason on stderr.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::af_packet::{Foreign, PacketCount, SinglePort};
use fwdlab_engine::netdev::XdpPass;
use fwdlab_engine::xdp_count::XdpCount;
use fwdlab_engine::{
    Choice, DropMonitor, EngineError, Expected, Frames, LoadPlan, Mode, Reading, ReceiveCounts,
    Receiver, Schedule, SignaturePlace, StallPolicy, TestFrames, Tester,
};
use fwdlab_model::procedure::Stretch;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, MacAddr, Signature};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use crate::bed::{ADDRESSES, Bed, PATIENCE, Transmitted, allowed, bed, skip, wait_until};

#[path = "veth/traffic.rs"]
mod traffic;

const FRAMES: u64 = 20_000;
const LOAD_PPS: f64 = 50_000.0;
const FLOWS: u32 = 256;

fn stream(ip_version: IpVersion, extra_bytes: u16) -> Stream {
    let smallest = ip_version.smallest_frame().bytes();
    Stream::new(
        ip_version,
        FrameSize::new(smallest + extra_bytes).unwrap(),
        FLOWS,
    )
    .unwrap()
}

fn tester(bed: &Bed, mode: Option<Mode>) -> Option<Tester> {
    let prove = Some(stream(IpVersion::Ipv4, 0));
    open(
        bed,
        Choice {
            way_back: None,
            traffic: Vec::new(),
            mode,
            first: None,
            cpus: vec![],
            senders: 1,
            prove,
        },
    )
}

/// A tester for a slow DUT, without a self-test, because such a DUT may lose frames at any load.
fn overloading(bed: &Bed, mode: Mode) -> Option<Tester> {
    open(
        bed,
        Choice {
            way_back: None,
            traffic: Vec::new(),
            mode: Some(mode),
            first: None,
            cpus: vec![SENDER_CPU],
            senders: 1,
            prove: None,
        },
    )
}

fn open(bed: &Bed, choice: Choice) -> Option<Tester> {
    allowed(Tester::open(&bed.paths(), &ADDRESSES, &choice)).map(|(tester, _)| tester)
}

fn paced(frames: u64) -> Schedule {
    Schedule {
        load: Some(LOAD_PPS).into(),
        frames: Some(frames),
        at_most: Duration::from_secs(10),
        stall_policy: StallPolicy::Skip,
        path: 0,
    }
}

/// Waits until the sender has finished, then for the rest of the frames.
fn finish(tester: &mut Tester) -> Reading {
    wait_until(|| tester.is_done());
    tester.stop().unwrap()
}

#[test]
fn every_frame_of_every_sender_arrives() {
    let Some(bed) = bed(1) else { return };
    for mode in Mode::ALL {
        let Some(mut tester) = tester(&bed, Some(mode)) else {
            continue;
        };
        for (version, extra_bytes) in [
            (IpVersion::Ipv4, 0),
            (IpVersion::Ipv6, 0),
            (IpVersion::Ipv4, 1454),
        ] {
            let case = format!("{} {version} +{extra_bytes}", mode.name());
            let before = bed.transmitted(0);
            tester.arm(&stream(version, extra_bytes)).unwrap();
            tester.start(paced(FRAMES)).unwrap();
            let reading = finish(&mut tester);
            assert_eq!(reading.sent, [FRAMES], "{case}");
            assert_eq!(reading.received, [FRAMES], "{case}");
            let counts = tester.receive_counts(0).unwrap();
            assert_eq!((counts.wrong_length, counts.late), (0, 0), "{case}");
            let port = bed.transmitted_of(0, before, FRAMES);
            assert_eq!((port.packets, port.dropped), (FRAMES, 0), "{case}");
        }
    }
}

/// With any engine, a load that changes over time sends as many frames as its integral; frames that
/// the sender could not send are counted.
#[test]
fn a_ramp_is_its_integral() {
    let Some(bed) = bed(1) else { return };
    let stretch = |ms: u64, from_pps, to_pps| Stretch {
        duration_ns: ms * 1_000_000,
        from_pps,
        to_pps,
    };
    let load = LoadPlan::from_stretches(vec![
        stretch(200, 0.0, 50_000.0),
        stretch(50, 0.0, 0.0),
        stretch(150, 40_000.0, 10_000.0),
    ]);
    for mode in Mode::ALL {
        let Some(mut tester) = tester(&bed, Some(mode)) else {
            continue;
        };
        for stall_policy in [StallPolicy::Skip, StallPolicy::CatchUp { most_pps: None }] {
            let before = bed.transmitted(0);
            tester.arm(&stream(IpVersion::Ipv4, 0)).unwrap();
            tester
                .start(Schedule {
                    load: load.clone(),
                    frames: None,
                    at_most: Duration::from_millis(400),
                    stall_policy,
                    path: 0,
                })
                .unwrap();
            assert!(tester.set_load(1e4).is_err(), "{}", mode.name());
            let reading = finish(&mut tester);
            let case = format!("{} {}: {reading:?}", mode.name(), stall_policy.name());
            assert_eq!(reading.sent[0] + reading.not_sent, 5000 + 3750, "{case}");
            assert_eq!(reading.received, reading.sent, "{case}");
            let port = bed.transmitted_of(0, before, reading.sent[0]);
            assert_eq!(port.packets, reading.sent[0], "{case}");
        }
    }
}

/// The host may stall a sender at any time: frames that it could not send are counted exactly.
#[test]
fn the_mean_rate_is_the_intended_load() {
    let Some(bed) = bed(1) else { return };
    let time = Duration::from_millis(400);
    for mode in Mode::ALL {
        let Some(mut tester) = tester(&bed, Some(mode)) else {
            continue;
        };
        tester.arm(&stream(IpVersion::Ipv4, 0)).unwrap();
        let schedule = Schedule {
            frames: None,
            at_most: time,
            ..paced(0)
        };
        tester.start(schedule).unwrap();
        wait_until(|| tester.is_done());
        // the sender reads the clock for the last time after the end
        thread::sleep(Duration::from_millis(50));
        let reading = tester.stop().unwrap();
        let due = reading.sent[0] + reading.not_sent;
        let off = due as f64 - LOAD_PPS * time.as_secs_f64();
        assert!(off.abs() <= 1.0, "{}: {off} frames off", mode.name());
    }
}

/// Overload, with a slow DUT on another CPU than the sender: the hardest case for every count.
#[test]
fn sent_is_what_the_port_sent_and_dropped_even_when_the_dut_is_overloaded() {
    let Some(bed) = bed(1) else { return };
    let Some(_pass) = slow_dut(&bed, 1000) else {
        return;
    };
    for mode in Mode::ALL {
        let Some((reading, port)) = overload(&bed, mode) else {
            continue;
        };
        let case = format!("{}: {reading:?} {port:?}", mode.name());
        assert!(port.dropped > 0, "no overload: {case}");
        // at full speed no frames are owed, and frames that veth refuses count as dropped
        assert_eq!((reading.sent[0], reading.not_sent), (OVERLOAD, 0), "{case}");
    }
}

/// With a queueing discipline, veth (Linux 6.16 and later) stops its queue instead of dropping.
/// Refused frames have then not been sent, and no counter of the port includes them.
#[test]
fn frames_that_a_stopped_queue_refuses_are_not_sent() {
    let Some(bed) = bed(1) else { return };
    if let Err(reason) = bed.in_tester("tc qdisc add dev tx0 root pfifo") {
        return skip(reason);
    }
    let Some(_pass) = slow_dut(&bed, 1000) else {
        return;
    };
    for mode in [Mode::AfXdp, Mode::AfPacket] {
        let Some((reading, port)) = overload(&bed, mode) else {
            continue;
        };
        let case = format!("{}: {reading:?} {port:?}", mode.name());
        assert_eq!(reading.sent[0] + reading.not_sent, OVERLOAD, "{case}");
        if mode == Mode::AfXdp {
            // it retried until the port took the frame
            assert_eq!(port.dropped, 0, "{case}");
        } else if port.dropped > 0 {
            skip("this kernel's veth does not stop its queue");
        } else {
            assert!(reading.not_sent > 0, "{case}");
        }
    }
}

/// A queue that stays stopped for longer than the sender waits at the end.
#[test]
fn frames_still_in_an_xdp_ring_at_the_end_are_not_sent() {
    let Some(bed) = bed(1) else { return };
    if let Err(reason) = bed.in_tester("tc qdisc add dev tx0 root pfifo") {
        return skip(reason);
    }
    let Some(_pass) = slow_dut(&bed, 60_000) else {
        return;
    };
    let Some(mut tester) = overloading(&bed, Mode::AfXdp) else {
        return;
    };
    let mut left = 0;
    // at least twice with frames left; if the host stalls the sender at the end, the ring may be
    // empty
    for round in 0.. {
        let before = bed.transmitted(0);
        tester.arm(&stream(IpVersion::Ipv4, 0)).unwrap();
        tester
            .start(Schedule {
                load: None.into(),
                at_most: Duration::from_millis(200),
                frames: None,
                stall_policy: StallPolicy::Skip,
                path: 0,
            })
            .unwrap();
        let reading = finish(&mut tester);
        // the DUT still processes its queue
        let sent = reading.sent[0];
        wait_until(|| bed.transmitted(0).since(before).packets >= sent);
        wait_until(|| tester.receive_counts(0).unwrap().received >= sent);
        let port = bed.transmitted(0).since(before);
        let counts = tester.receive_counts(0).unwrap();
        let case = format!("{reading:?} {port:?} {counts:?}");
        if port.dropped > 0 {
            return skip("this kernel's veth does not stop its queue");
        }
        // and frames left from an earlier trial did not arrive in this one
        assert_eq!(port.packets, sent, "{case}");
        assert_eq!((counts.received, counts.late), (sent, 0), "{case}");
        left += usize::from(reading.not_sent > 0);
        if left == 2 {
            break;
        }
        assert!(round < 20, "nothing was left in the ring: {case}");
    }
}

const OVERLOAD: u64 = 50_000;

/// The CPU of senders that overload a slow DUT, and another one for the DUT: on the same CPU its
/// thread would wake up before the sender and take every frame immediately.
const SENDER_CPU: usize = 0;
const SLOW_DUT_CPU: usize = 1;

/// Makes the DUT slow, and makes its NAPI thread, on its own CPU, take the frames of socket senders
/// too, so that its queue fills.
fn slow_dut(bed: &Bed, rules: u32) -> Option<XdpPass> {
    if thread::available_parallelism().unwrap().get() <= SLOW_DUT_CPU {
        skip("sender and DUT need a CPU each");
        return None;
    }
    let others = napi_threads();
    bed.in_dut(0, "echo 1 > /sys/class/net/eth0/threaded")
        .unwrap();
    let rules = format!(
        "nft add table ip slow && \
        nft add chain ip slow forward '{{ type filter hook forward priority 0; }}' && \
        for i in $(seq {rules}); do echo add rule ip slow forward ip saddr 192.0.2.1 drop; done | nft -f -"
    );
    if let Err(reason) = bed.in_dut(0, &rules) {
        skip(format!("the DUT cannot be made slow: {reason}"));
        return None;
    }
    // with XDP, the port's NAPI has a thread
    let pass = allowed(XdpPass::open(&bed.dut_port(0)))?;
    let mut cpu = CpuSet::new();
    cpu.set(SLOW_DUT_CPU);
    let threads = napi_threads();
    let mut ours = threads.difference(&others).peekable();
    assert!(ours.peek().is_some(), "no thread of the DUT's NAPI");
    for thread in ours {
        sched_setaffinity(Pid::from_raw(*thread), &cpu).unwrap();
    }
    Some(pass)
}

/// Returns the kernel threads for interfaces with the name of a DUT's, in any namespace.
fn napi_threads() -> BTreeSet<i32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let is_napi = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name.starts_with("napi/eth0"))
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(is_napi)
        .collect()
}

/// Sends at full speed, and checks what must always hold.
fn overload(bed: &Bed, mode: Mode) -> Option<(Reading, Transmitted)> {
    let mut tester = overloading(bed, mode)?;
    let before = bed.transmitted(0);
    tester.arm(&stream(IpVersion::Ipv4, 0)).unwrap();
    tester
        .start(Schedule {
            load: None.into(),
            ..paced(OVERLOAD)
        })
        .unwrap();
    let reading = finish(&mut tester);
    let port = bed.transmitted_of(0, before, reading.sent[0]);
    wait_until(|| tester.receive_counts(0).unwrap().received >= port.packets);
    let counts = tester.receive_counts(0).unwrap();
    let case = format!("{}: {reading:?} {port:?} {counts:?}", mode.name());
    assert_eq!(reading.sent[0], port.total(), "{case}");
    assert_eq!(counts.received, port.packets, "{case}");
    Some((reading, port))
}

/// Every renewal is a pause in which nothing is due: only the time between renewals counts.
#[test]
fn a_renewed_sender_continues_without_catching_up_the_pause() {
    const LOAD_PPS: f64 = 1e6;
    let Some(bed) = bed(1) else { return };
    for mode in Mode::ALL {
        let Some(mut tester) = tester(&bed, Some(mode)) else {
            continue;
        };
        tester.arm(&stream(IpVersion::Ipv4, 0)).unwrap();
        let started = Instant::now();
        tester
            .start(Schedule {
                load: Some(LOAD_PPS).into(),
                frames: None,
                at_most: Duration::from_secs(20),
                stall_policy: StallPolicy::Skip,
                path: 0,
            })
            .unwrap();
        let mut renewed = 0;
        for _ in 0..40 {
            let before = tester.read().unwrap().sent[0];
            let pause = tester.renew().unwrap();
            renewed += u32::from(pause > Duration::ZERO);
            // continues, however busy the host is
            wait_until(|| tester.read().unwrap().sent[0] > before + 1000);
        }
        let reading = tester.stop().unwrap();
        let due = LOAD_PPS * started.elapsed().as_secs_f64();
        let case = format!("{}: {reading:?}, at most {due} due", mode.name());
        assert!(
            ((reading.sent[0] + reading.not_sent) as f64) < due,
            "{case}"
        );
        assert_eq!(
            renewed,
            if mode == Mode::XdpLive { 40 } else { 0 },
            "{case}"
        );
    }
}

#[test]
fn frames_on_the_wire_are_those_of_the_template() {
    const ROUNDS: u64 = 4;
    let Some(bed) = bed(1) else { return };
    for mode in Mode::ALL {
        let Some(mut tester) = tester(&bed, Some(mode)) else {
            continue;
        };
        for (version, extra_bytes) in [
            (IpVersion::Ipv4, 0),
            (IpVersion::Ipv4, 1),
            (IpVersion::Ipv6, 0),
            (IpVersion::Ipv6, 1434),
        ] {
            let stream = stream(version, extra_bytes);
            let capture = Capture::open(&bed);
            tester.arm(&stream).unwrap();
            tester
                .start(Schedule {
                    load: Some(capture.load_pps).into(),
                    ..paced(ROUNDS * u64::from(FLOWS))
                })
                .unwrap();
            let captured = capture.take((ROUNDS * u64::from(FLOWS)) as usize);
            finish(&mut tester);
            assert_eq!(captured.len() as u64, ROUNDS * u64::from(FLOWS));
            let frames = frames(&stream, tester.nonce());
            let mut sent_per_flow = HashMap::new();
            for (sequence, captured) in (0..).zip(captured) {
                let case = format!("{} {stream:?} frame {sequence}", mode.name());
                let flow = frames.flows.flow(sequence % frames.flows.len());
                // departure times are tested elsewhere
                let at = match version {
                    IpVersion::Ipv4 => fwdlab_packet::signature::OFFSET_IPV4_UDP,
                    IpVersion::Ipv6 => fwdlab_packet::signature::OFFSET_IPV6_UDP,
                };
                let signature = Signature {
                    nonce: frames.nonce,
                    sequence,
                    timestamp_ns: Signature::read(&captured[at..]).unwrap().timestamp_ns,
                    stream: 0,
                };
                let mut expected = vec![0; frames.template.buffer_len()];
                frames.template.write(&mut expected, &flow, &signature);
                assert_eq!(captured, expected, "{case}");
                *sent_per_flow
                    .entry(check_with_etherparse(&captured))
                    .or_insert(0) += 1;
            }
            assert_eq!(sent_per_flow.len(), FLOWS as usize);
            assert!(sent_per_flow.values().all(|&frames| frames == ROUNDS));
        }
    }
}

/// Frames of the tester that arrive at the DUT's port.
struct Capture {
    socket: OwnedFd,
    /// A load that fits into the socket's buffer.
    load_pps: f64,
    /// Thousands of frames fit, too.
    has_room: bool,
}

impl Capture {
    fn open(bed: &Bed) -> Capture {
        let everything = NonZeroU32::new(u32::from((libc::ETH_P_ALL as u16).to_be())).unwrap();
        let socket = fwdlab_engine::port::within(&bed.dut_port(0).netns, || {
            Ok(rustix::net::socket_with(
                AddressFamily::PACKET,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(Protocol::from_raw(everything)),
            )
            .unwrap())
        })
        .unwrap();
        let room = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20);
        Capture {
            socket,
            // in a user namespace there is room for some 200 frames, and this test may be too slow
            // for them
            load_pps: if room.is_ok() { LOAD_PPS } else { 5000.0 },
            has_room: room.is_ok(),
        }
    }

    /// Returns this many frames, and those that are already queued then. It is as patient as
    /// [`wait_until`], because on a busy host the sender may not have begun yet.
    fn take(&self, count: usize) -> Vec<Vec<u8>> {
        let mut frames = vec![];
        let mut last = Instant::now();
        while frames.len() < count && last.elapsed() < PATIENCE {
            match self.next() {
                Some(frame) => {
                    frames.push(frame);
                    last = Instant::now();
                }
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
        frames.extend(std::iter::from_fn(|| self.next()));
        frames
    }

    /// Returns the next queued frame.
    fn next(&self) -> Option<Vec<u8>> {
        let mut frame = [0; 2048];
        loop {
            let (bytes, _) =
                rustix::net::recv(&self.socket, &mut frame[..], RecvFlags::DONTWAIT).ok()?;
            // the socket also receives from the DUT's other port
            if frame[..6] == ADDRESSES.destination_mac && frame[6..12] == ADDRESSES.source_mac {
                return Some(frame[..bytes].to_vec());
            }
        }
    }
}

fn frames(stream: &Stream, nonce: u16) -> TestFrames {
    let (version, flows) = match stream.ip_version {
        IpVersion::Ipv4 => (
            fwdlab_packet::IpVersion::V4,
            FlowSet::default_v4(stream.flows),
        ),
        IpVersion::Ipv6 => (
            fwdlab_packet::IpVersion::V6,
            FlowSet::default_v6(stream.flows),
        ),
    };
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr(ADDRESSES.source_mac),
        destination: MacAddr(ADDRESSES.destination_mac),
        version,
        frame_size: stream.frame_size_bytes.bytes(),
    });
    TestFrames {
        template: template.unwrap(),
        flows: flows.unwrap(),
        nonce,
    }
}

/// Checks both checksums with another implementation, and returns the flow as text.
fn check_with_etherparse(frame: &[u8]) -> String {
    use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
    let headers = PacketHeaders::from_ethernet_slice(frame).unwrap();
    let Some(TransportHeader::Udp(udp)) = &headers.transport else {
        panic!("not UDP: {headers:?}");
    };
    let payload = headers.payload.slice();
    let ports = (udp.source_port, udp.destination_port);
    match &headers.net {
        Some(NetHeaders::Ipv4(ip, _)) => {
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            assert_eq!(udp.checksum, udp.calc_checksum_ipv4(ip, payload).unwrap());
            format!("{:?} {:?} {ports:?}", ip.source, ip.destination)
        }
        Some(NetHeaders::Ipv6(ip, _)) => {
            assert_eq!(udp.checksum, udp.calc_checksum_ipv6(ip, payload).unwrap());
            format!("{:?} {:?} {ports:?}", ip.source, ip.destination)
        }
        other => panic!("not IP: {other:?}"),
    }
}

#[test]
fn receivers_distinguish_frames_of_this_trial_from_late_ones() {
    let Some(bed) = bed(1) else { return };
    let path = &bed.paths()[0];
    let stream = stream(IpVersion::Ipv6, 0);
    type Open = fn(&fwdlab_engine::PortSpec) -> Result<Box<dyn Receiver>, EngineError>;
    let receivers: [Open; 2] = [
        |port| Ok(Box::new(XdpCount::open(port)?)),
        |port| Ok(Box::new(PacketCount::open(port)?)),
    ];
    for open in receivers {
        let Some(mut receiver) = allowed(open(&path.rx)) else {
            continue;
        };
        let mut sender = allowed(fwdlab_engine::af_packet::sender(
            std::slice::from_ref(path),
            &[],
        ))
        .unwrap();
        let buffer_bytes = stream.frame_size_bytes.buffer_bytes();
        let mut count = |nonce, expected| -> ReceiveCounts {
            use fwdlab_engine::Sender;
            sender.arm(&Frames::Test(frames(&stream, nonce))).unwrap();
            let expected = Expected {
                nonce: expected,
                buffer_bytes: Some(buffer_bytes),
                place: SignaturePlace::UdpPayload,
                analysis: None,
            };
            receiver.expect(&expected).unwrap();
            sender.start(paced(1000)).unwrap();
            wait_until(|| sender.is_done());
            sender.stop().unwrap();
            let mut counts = ReceiveCounts::default();
            let begin = Instant::now();
            while counts.received + counts.late < 1000 && begin.elapsed().as_millis() < 100 {
                counts = receiver.counts().unwrap();
            }
            counts
        };
        let of_this_trial = count(7, 7);
        assert_eq!((of_this_trial.received, of_this_trial.late), (1000, 0));
        let of_the_trial_before = count(6, 7);
        assert_eq!(
            (of_the_trial_before.received, of_the_trial_before.late),
            (0, 1000)
        );
        let of_nobody = count(8, 7);
        assert_eq!((of_nobody.received, of_nobody.late), (0, 0));
        assert_eq!(count(7, 7).received, 1000, "{}", receiver.name());
    }
}

#[test]
fn live_frames_are_rejected_where_the_peer_runs_no_napi() {
    let Some(bed) = bed(1) else { return };
    bed.in_dut(0, "ethtool -K eth0 gro off").unwrap();
    let choice = Choice {
        way_back: None,
        traffic: Vec::new(),
        mode: None,
        first: None,
        cpus: vec![],
        senders: 1,
        prove: Some(stream(IpVersion::Ipv4, 0)),
    };
    let Some((tester, rejected)) = allowed(Tester::open(&bed.paths(), &ADDRESSES, &choice)) else {
        return;
    };
    assert_eq!(tester.mode(), Mode::AfXdp);
    if tester.receiver_name() != "xdp" {
        skip("no XDP here, so live frames were not even tried");
        return;
    }
    let [live] = &rejected[..] else {
        panic!("{rejected:?}");
    };
    assert_eq!(live.engine, "xdp-live");
    assert!(
        matches!(
            live.reason,
            EngineError::PathNotProven {
                sent: 1..,
                received: 0,
                ..
            }
        ),
        "{live:?}"
    );
}

/// Frames that the kernel or another program sends through our port are counted separately, and
/// frames that we push through its queues are not.
#[test]
fn foreign_frames_are_distinguished() {
    let Some(bed) = bed(1) else { return };
    let port = &bed.paths()[0].tx;
    let Some(foreign) = allowed(Foreign::open(port)) else {
        return;
    };
    let (ours, theirs) = (
        SinglePort::open_to_send(port).unwrap(),
        SinglePort::open(port).unwrap(),
    );
    for _ in 0..7 {
        ours.send(&[2; 60]).unwrap();
    }
    for bytes in [60, 100, 200] {
        theirs.send(&vec![2; bytes]).unwrap();
    }
    let counts = foreign.counts().unwrap();
    assert_eq!((counts.frames, counts.bytes), (3, 360));
}

#[test]
fn drops_have_the_kernels_names() {
    let Some(bed) = bed(1) else { return };
    if let Err(reason) = bed.in_dut(0, "nft list tables") {
        return skip(reason);
    }
    let Some(mut monitor) = allowed(DropMonitor::open()) else {
        return;
    };
    let Some(mut tester) = tester(&bed, None) else {
        return;
    };
    bed.in_dut(
        0,
        "nft add table ip shut && nft add chain ip shut forward '{ type filter hook forward priority 0; policy drop; }'",
    )
    .unwrap();
    for frames in [1000, 10] {
        tester.arm(&stream(IpVersion::Ipv4, 0)).unwrap();
        monitor.expect(tester.nonce()).unwrap();
        tester.start(paced(frames)).unwrap();
        let reading = finish(&mut tester);
        assert_eq!((reading.sent[0], reading.received[0]), (frames, 0));
        assert_eq!(
            monitor.counts().unwrap(),
            [("netfilter drop".to_owned(), frames)]
        );
    }
    // frames of another trial are dropped, too, and not counted
    monitor.expect(tester.nonce()).unwrap();
    tester.arm(&stream(IpVersion::Ipv4, 0)).unwrap();
    tester.start(paced(1000)).unwrap();
    assert_eq!(finish(&mut tester).received, [0]);
    assert_eq!(monitor.counts().unwrap(), []);
}

/// In the second tier, because they take long.
mod slow {
    use super::*;

    #[test]
    fn select_steers_frames() {
        let Some(bed) = bed(2) else { return };
        for mode in Mode::ALL {
            let Some(mut tester) = tester(&bed, Some(mode)) else {
                continue;
            };
            tester.arm(&stream(IpVersion::Ipv4, 0)).unwrap();
            // on a busy host the test itself may wait for a CPU: slowly, so that frames are left
            // then
            let slowly = Schedule {
                load: Some(LOAD_PPS / 4.0).into(),
                ..paced(FRAMES)
            };
            tester.start(slowly).unwrap();
            wait_until(|| tester.read().unwrap().sent[0] > FRAMES / 4);
            tester.select(1).unwrap();
            let reading = finish(&mut tester);
            assert_eq!(reading.sent[0] + reading.sent[1], FRAMES);
            assert!(reading.sent[1] > FRAMES / 4, "{}: {reading:?}", mode.name());
            assert_eq!(reading.received, reading.sent, "{}", mode.name());
            assert!(tester.select(2).is_err());
        }
    }
}
