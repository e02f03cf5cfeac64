//! Kernel timestamps on veth at both ends of a DUT, compared with times in user space: one per
//! frame, and in order.
//!
//! Needs root, `ip` and `ethtool`. Tests that cannot run here print `SKIPPED` and the reason on
//! stderr.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::af_packet::SinglePort;
use fwdlab_engine::af_xdp;
use fwdlab_engine::analysis::{AnalysisPlan, StreamPlan};
use fwdlab_engine::capture::{self, Capture};
use fwdlab_engine::rx_metadata::RxMetadata;
use fwdlab_engine::stamps::clock::ClockOffset;
use fwdlab_engine::stamps::{Kind, Log, Offers, Origin, choose};
use fwdlab_engine::sys::monotonic_ns;
use fwdlab_engine::{
    Counting, EngineError, Expected, Frames, Mode, PathSpec, PortReceiver, PortSender, Schedule,
    Sender, SignaturePlace, StallPolicy, TestFrames,
};
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature, signature};

use crate::bed::{ADDRESSES, skip};

const NONCE: u16 = 41_000;
const FRAMES: u64 = 1500;

fn frames() -> Frames {
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr(ADDRESSES.source_mac),
        destination: MacAddr(ADDRESSES.destination_mac),
        version: IpVersion::V4,
        frame_size: 64,
    });
    Frames::Test(TestFrames {
        template: template.unwrap(),
        flows: FlowSet::default_v4(7).unwrap(),
        nonce: NONCE,
    })
}

fn expected() -> Expected {
    Expected {
        nonce: NONCE,
        buffer_bytes: None,
        place: SignaturePlace::UdpPayload,
        analysis: Some(AnalysisPlan {
            streams: vec![StreamPlan::default()],
        }),
    }
}

fn schedule(frames: u64) -> Schedule {
    Schedule {
        load: Some(2000.0).into(),
        frames: Some(frames),
        at_most: Duration::from_secs(20),
        stall_policy: StallPolicy::Skip,
        path: 0,
    }
}

/// A frame received in user space: the departure time that it contains, and when it was read.
struct ReceivedFrame {
    departure_ns: u64,
    read_ns: u64,
}

/// Reads our frames from a port until the sender has finished and no more come.
fn read(port: &SinglePort, sender: &mut PortSender, frames: u64) -> HashMap<u64, ReceivedFrame> {
    let mut seen = HashMap::new();
    let mut buffer = [0; 256];
    let mut last = Instant::now();
    while (seen.len() as u64) < frames && last.elapsed() < Duration::from_secs(2) {
        let Some(len) = port
            .receive(&mut buffer, Duration::from_millis(20))
            .unwrap()
        else {
            if !sender.sender().unwrap().is_done() {
                last = Instant::now();
            }
            continue;
        };
        let read_ns = monotonic_ns();
        let at = signature::OFFSET_IPV4_UDP;
        let found = buffer[..len].get(at..).and_then(Signature::read);
        if let Some(found) = found.filter(|found| found.nonce == NONCE) {
            last = Instant::now();
            seen.insert(
                found.sequence,
                ReceivedFrame {
                    departure_ns: found.timestamp_ns,
                    read_ns,
                },
            );
        }
    }
    seen
}

fn times(log: &Log) -> HashMap<u64, u64> {
    log.times.iter().map(|s| (s.number, s.at_ns)).collect()
}

fn open(path: &PathSpec) -> (PortSender, PortReceiver) {
    let mut sender = PortSender::open(&path.tx, None, &[]).unwrap();
    sender.stamp(Kind::Software).unwrap();
    let mut receiver = PortReceiver::open(&path.rx, None).unwrap();
    receiver.stamp(Kind::Software).unwrap();
    (sender, receiver)
}

/// For each frame: intended departure <= the driver takes it <= it enters the kernel at the other
/// end <= user space reads it.
#[test]
fn stamps_are_as_many_as_frames_and_lie_between_the_times_of_user_space() {
    let Some(bed) = crate::bed::bed(1) else {
        return;
    };
    let path = &bed.paths()[0];
    let (mut sender, mut receiver) = open(path);
    // the faster engines have no timestamps, and report it
    let taken: Vec<&str> = sender.rejected().iter().map(|r| r.engine).collect();
    assert_eq!(taken, ["xdp-live", "af-xdp"]);
    let words = sender.rejected()[1].reason.to_string();
    assert!(words.contains("software timestamps"), "{words}");
    assert_eq!(receiver.rejected().len(), 1);
    let reader = SinglePort::open(&path.rx).unwrap();
    // a second trial on the same sockets counts from 0 again
    for trial in 0..2 {
        receiver.expect(&expected()).unwrap();
        sender.arm(&frames()).unwrap();
        let before = ClockOffset::read();
        sender.sender().unwrap().start(schedule(FRAMES)).unwrap();
        let seen = read(&reader, &mut sender, FRAMES);
        let counts = sender.sender().unwrap().stop().unwrap();
        let lookahead = ClockOffset::read();
        if before.step_to(lookahead).is_some() {
            return skip("somebody set the clock");
        }
        // a host that stalls for long drops frames before they are sent
        let sent = counts.total();
        assert_eq!(seen.len() as u64, sent, "trial {trial}");
        let departures = sender.sender().unwrap().departures().unwrap();
        let receiver = receiver.receiver().unwrap();
        let mut analysis = receiver.analysis().unwrap().unwrap();
        let by_user = analysis.streams[0].clone();
        let arrivals = receiver.arrivals().unwrap();
        assert_eq!(departures.origin, Origin::LEAVING);
        assert_eq!(arrivals.origin, Origin::ENTERING);
        for log in [&departures, &arrivals] {
            assert_eq!(
                (log.times.len() as u64, log.missing),
                (sent, 0),
                "trial {trial}"
            );
            assert_eq!(log.step_ns, None);
        }
        let (left, returned) = (times(&departures), times(&arrivals));
        let off = before.within_ns.min(lookahead.within_ns);
        let lookahead = before.min(lookahead);
        for (number, seen) in &seen {
            let (left, returned) = (left[number], returned[number]);
            assert!(
                lookahead.to_realtime(seen.departure_ns) <= left + off,
                "frame {number}"
            );
            assert!(left <= returned, "frame {number}: {left} {returned}");
            assert!(
                returned <= lookahead.to_realtime(seen.read_ns) + off,
                "frame {number}"
            );
        }
        analysis.retime(&departures, &arrivals).unwrap();
        let by_kernel = &analysis.streams[0];
        assert_eq!((by_kernel.latency.len(), by_kernel.early), (sent, 0));
        assert_eq!(by_user.latency.len(), sent);
        assert!(by_kernel.latency_sum_ns <= by_user.latency_sum_ns + off * sent);
        assert!(by_kernel.latency_min_ns <= by_user.latency_min_ns + off);
        assert!(by_kernel.latency_min_ns > 0);
    }
}

/// Frames that the DUT's full queue drops have a departure and no arrival; lost frames are not
/// timed.
#[test]
fn lost_frames_have_a_departure_and_no_arrival() {
    let Some(bed) = crate::bed::bed(1) else {
        return;
    };
    let path = &bed.paths()[0];
    bed.in_dut(0, "ip route add blackhole 198.19.10.3/32")
        .unwrap();
    let (mut sender, mut receiver) = open(path);
    receiver.expect(&expected()).unwrap();
    sender.arm(&frames()).unwrap();
    sender.sender().unwrap().start(schedule(700)).unwrap();
    while !sender.sender().unwrap().is_done() {
        thread::sleep(Duration::from_millis(5));
    }
    let sent = sender.sender().unwrap().stop().unwrap().total();
    thread::sleep(Duration::from_millis(50));
    let departures = sender.sender().unwrap().departures().unwrap();
    let receiver = receiver.receiver().unwrap();
    let received = receiver.counts().unwrap().received;
    let mut analysis = receiver.analysis().unwrap().unwrap();
    let arrivals = receiver.arrivals().unwrap();
    if received == sent {
        return skip("no flow goes to 198.19.10.3");
    }
    assert_eq!(departures.times.len() as u64, sent);
    assert_eq!(arrivals.times.len() as u64, received);
    analysis.retime(&departures, &arrivals).unwrap();
    assert_eq!(analysis.streams[0].latency.len(), received);
}

#[test]
fn timestamp_features_equal_those_of_ethtool() {
    let Some(bed) = crate::bed::bed(1) else {
        return;
    };
    let port = &bed.paths()[0].tx;
    let offers = Offers::query(port).unwrap();
    let output = bed.in_tester("ethtool -T tx0; ethtool -i tx0").unwrap();
    for (offered, words) in [
        (offers.tx_software, "software-transmit"),
        (offers.rx_software, "software-receive"),
        (offers.tx_hardware, "hardware-transmit"),
        (offers.rx_hardware, "hardware-receive"),
        (offers.clock.is_none(), "PTP Hardware Clock: none"),
    ] {
        assert_eq!(offered, output.contains(words), "{words}: {output}");
    }
    assert!(output.contains(&format!("driver: {}", offers.driver)));
    let gone = fwdlab_engine::PortSpec {
        interface: "nosuch0".into(),
        ..port.clone()
    };
    assert!(
        Offers::query(&gone)
            .unwrap_err()
            .to_string()
            .contains("nosuch0")
    );
}

#[test]
fn hardware_stamps_are_refused_before_anything_is_changed() {
    let Some(bed) = crate::bed::bed(1) else {
        return;
    };
    let path = &bed.paths()[0];
    let (tx, rx) = (
        Offers::query(&path.tx).unwrap(),
        Offers::query(&path.rx).unwrap(),
    );
    let words = choose(Some(Kind::Hardware), &tx, &rx)
        .unwrap_err()
        .to_string();
    for part in [
        "no hardware timestamps: tx0 (veth) has no clock of its own",
        "SIOCGHWTSTAMP says: Operation not supported",
        "Nothing was changed. Use --timestamps software",
    ] {
        assert!(words.contains(part), "{words}");
    }
    let (kind, not_taken) = choose(None, &tx, &rx).unwrap();
    assert_eq!((kind, not_taken.len()), (Kind::Software, 1));
    let error =
        fwdlab_engine::stamps::card::set(&path.tx, fwdlab_engine::stamps::card::Setting::ALL);
    assert!(error.unwrap_err().to_string().contains("tx0"));
    for mode in Mode::ALL {
        let Ok(mut sender) = PortSender::open(&path.tx, Some(mode), &[]) else {
            skip(format!("{} does not open here", mode.name()));
            continue;
        };
        let refused = sender.stamp(Kind::Hardware).unwrap_err();
        assert!(
            matches!(refused, EngineError::Unsupported { .. }),
            "{refused}"
        );
        assert!(
            refused.to_string().contains("hardware timestamps"),
            "{refused}"
        );
    }
    for counting in Counting::ALL {
        let Ok(mut receiver) = PortReceiver::open(&path.rx, Some(counting)) else {
            skip(format!("{} does not open here", counting.name()));
            continue;
        };
        let refused = receiver.stamp(Kind::Hardware).unwrap_err();
        assert!(
            refused.to_string().contains("hardware timestamps"),
            "{refused}"
        );
    }
}

/// In copy mode on veth, Linux accepts the registration of memory with metadata, sends the frames,
/// and writes a time into each: when it freed the frame, on CLOCK_TAI. That is not a departure
/// time: it is reported as what it is, and not compared with anything.
#[test]
fn metadata_in_copy_mode_is_the_time_of_release_and_no_departure() {
    let Some(bed) = crate::bed::bed(1) else {
        return;
    };
    let path = &bed.paths()[0];
    let open = |freed_stamps| {
        let options = af_xdp::Options {
            freed_stamps,
            ..af_xdp::Options::default()
        };
        af_xdp::sender_with(std::slice::from_ref(path), &[], options)
    };
    let mut receiver = PortReceiver::open(&path.rx, Some(Counting::AfPacket)).unwrap();
    receiver.stamp(Kind::Software).unwrap();
    let mut run = |sender: &mut dyn Sender| {
        receiver.expect(&expected()).unwrap();
        sender.arm(&frames()).unwrap();
        sender.start(schedule(300)).unwrap();
        while !sender.is_done() {
            thread::sleep(Duration::from_millis(5));
        }
        let sent = sender.stop().unwrap().total();
        let receiver = receiver.receiver().unwrap();
        let begin = Instant::now();
        while receiver.counts().unwrap().received < sent && begin.elapsed().as_secs() < 5 {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(receiver.counts().unwrap().received, sent);
        let analysis = receiver.analysis().unwrap().unwrap();
        (sent, analysis, receiver.arrivals().unwrap())
    };
    // a request that the device does not support is refused, and frames are sent anyway
    let mut sender = open(false).unwrap();
    let refused = sender.stamp(Kind::Hardware).unwrap_err().to_string();
    assert!(
        refused.contains("tx0 offers none in metadata (netdev: no tx-timestamp"),
        "{refused}"
    );
    let (name, is_offered, reason) = sender.capabilities().metadata()[0];
    assert_eq!((name, is_offered), ("tx-timestamp", false));
    assert!(reason.contains("does not offer"), "{reason}");
    assert!(sender.stamp(Kind::Software).is_err());
    assert!(run(&mut sender).0 > 0);
    assert_eq!(sender.departures(), None);
    drop(sender);
    let mut sender = open(true).unwrap();
    match sender.stamp(Kind::Software) {
        Err(EngineError::System { source, .. }) if source.raw_os_error() == Some(22) => {
            return skip(format!("this kernel takes no metadata: {source}"));
        }
        result => result.unwrap(),
    }
    let now = || {
        let now = rustix::time::clock_gettime_dynamic(rustix::time::DynamicClockId::Tai).unwrap();
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    for _ in 0..2 {
        let begin_ns = now();
        let (sent, mut analysis, arrivals) = run(&mut sender);
        let departures = sender.departures().unwrap();
        let end_ns = now();
        assert_eq!(departures.origin, Origin::FREED);
        if departures.times.is_empty() {
            return skip("this kernel writes no time in copy mode");
        }
        assert_eq!(
            (departures.times.len() as u64, departures.missing),
            (sent, 0)
        );
        let mut numbers: Vec<u64> = departures.times.iter().map(|s| s.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..sent).collect::<Vec<u64>>());
        for stamped in &departures.times {
            assert!((begin_ns..=end_ns).contains(&stamped.at_ns));
        }
        let refused = analysis
            .retime(&departures, &arrivals)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("CLOCK_TAI") && refused.contains("two clocks"),
            "{refused}"
        );
    }
}

/// veth accepts XDP programs that query the arrival time, but has none: for packets it returns
/// zero, for XDP frames ENODATA. Both fall back to software timestamps, with the reason.
#[test]
fn a_driver_without_arrival_times_is_reported() {
    let Some(bed) = crate::bed::bed(1) else {
        return;
    };
    let path = &bed.paths()[0];
    let port = bed.dut_port(0);
    for (mode, words) in [
        (Mode::AfPacket, "a time of zero for"),
        (Mode::XdpLive, "No data available (os error 61) for"),
    ] {
        let asking = match RxMetadata::query(&port) {
            Ok(asking) => asking,
            Err(error) => return skip(error),
        };
        let Ok(mut sender) = PortSender::open(&path.tx, Some(mode), &[]) else {
            skip(format!("{} does not open here", mode.name()));
            continue;
        };
        sender.arm(&frames()).unwrap();
        sender.sender().unwrap().start(schedule(200)).unwrap();
        while !sender.sender().unwrap().is_done() {
            thread::sleep(Duration::from_millis(5));
        }
        let sent = sender.sender().unwrap().stop().unwrap().total();
        let begin = Instant::now();
        while asking.answers().unwrap().frames() < sent && begin.elapsed().as_secs() < 5 {
            thread::sleep(Duration::from_millis(5));
        }
        let answers = asking.answers().unwrap();
        assert_eq!(
            (answers.frames(), answers.stamped),
            (sent, 0),
            "{answers:?}"
        );
        let (origin, reason) = answers.best(Offers::query(&port).unwrap().clock);
        assert_eq!(origin, Origin::XDP);
        let reason = reason.unwrap();
        assert!(
            reason.contains(&format!("{words} {sent} of {sent}")),
            "{reason}"
        );
    }
    assert!(
        !bed.in_dut(0, "ip link show eth0")
            .unwrap()
            .contains("prog/xdp")
    );
    let lo = fwdlab_engine::PortSpec {
        interface: "lo".into(),
        ..port
    };
    let refused = RxMetadata::query(&lo).err().unwrap().to_string();
    assert!(refused.contains("for lo (XDP metadata)"), "{refused}");
}

/// A capture records for each frame what took its timestamp: the kernel on entry, if requested.
#[test]
fn a_capture_has_the_stamps_of_the_kernel() {
    let Some(bed) = crate::bed::bed(1) else {
        return;
    };
    let path = &bed.paths()[0];
    let options = capture::Options {
        outgoing: false,
        stamps: Kind::Software,
        ..capture::Options::default()
    };
    let mut capture = Capture::open(&path.rx, &options).unwrap();
    let mut sender = PortSender::open(&path.tx, Some(Mode::AfPacket), &[]).unwrap();
    sender.arm(&frames()).unwrap();
    let lookahead = ClockOffset::read();
    sender.sender().unwrap().start(schedule(100)).unwrap();
    let (mut taken, begin) = (Vec::new(), Instant::now());
    while taken.len() < 100 && begin.elapsed() < Duration::from_secs(10) {
        capture
            .frames(Duration::from_millis(100), &mut |frame| {
                let found = capture::signatures(frame.bytes).find(|s| s.nonce == NONCE);
                taken.extend(found.map(|s| (frame.stamped, frame.timestamp_ns, s.timestamp_ns)));
                true
            })
            .unwrap();
    }
    let sent = sender.sender().unwrap().stop().unwrap().total();
    assert_eq!(taken.len() as u64, sent);
    if lookahead.step_to(ClockOffset::read()).is_some() {
        return skip("somebody set the clock");
    }
    for (stamped, arrival_ns, departure_ns) in taken {
        assert_eq!(stamped, Kind::Software);
        assert!(lookahead.to_realtime(departure_ns) <= arrival_ns + lookahead.within_ns);
    }
}
