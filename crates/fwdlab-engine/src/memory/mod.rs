//! Memory: an engine that writes frames into a ring without sending them. For benchmarks and
//! self-tests of frame writing.
//!
//! Everything before the system call is as in the socket engines: the clock, the schedule, the
//! frames and the counts. One difference: at full speed, frames of one kind are written in runs
//! ([`Source::fill`]), which would make no visible difference next to a system call. It needs no
//! port, and [`crate::Tester`] never chooses it automatically. Start with [`sender`].

use std::hint::black_box;

use rustix::net::xdp::{XdpDesc, XdpDescOptions};

use crate::error::EngineError;
use crate::generator::{Capabilities, Copies, Mode, Schedule, Sender, Timestamps};
use crate::sender::counters::Counters;
use crate::sender::counters::Tally;
use crate::sender::source::{Outline, Source};
use crate::sender::thread::{BATCH, SocketSender, Transmit};
use crate::traffic::player::{Room, Slot};
use crate::traffic::share::Share;

/// The ring and its frames fit a second-level cache: 512 frames of 2048 bytes were written in 4.6
/// ns each where 4096 needed 13.6 (DPDK's net_null, with which it is compared, cycles through a few
/// hundred).
pub const RING_BYTES: usize = 1 << 20;

/// Maximum number of frames in flight.
const MOST_SLOTS: usize = 8192;

const CAPABILITIES: Capabilities = Capabilities {
    copies: Copies::Nowhere,
    profiles: true,
    hot_load: true,
    timestamps: Timestamps::Software,
    counts_at_driver: false,
    ..Capabilities::plain(
        Mode::Memory,
        "memory: frames are written into a ring of 1 MiB and go nowhere, one thread",
    )
};

/// Opens the engine with a number of paths, none of which has a port.
pub fn sender(paths: usize, cpus: &[usize]) -> impl Sender + use<> {
    with_ring(RING_BYTES, paths, cpus)
}

/// Opens the engine with several threads.
///
/// # Errors
/// If there are too many.
pub fn senders(
    paths: usize,
    cpus: &[usize],
    senders: u32,
) -> Result<impl Sender + use<>, EngineError> {
    let shares = Share::all(senders)?;
    let transmits = shares.iter().map(|_| transmit(RING_BYTES, paths));
    Ok(SocketSender::with_threads(paths, cpus, transmits.collect()))
}

/// Opens the engine with another size of the ring, which holds at least two batches of frames.
pub fn with_ring(ring_bytes: usize, paths: usize, cpus: &[usize]) -> impl Sender + use<> {
    SocketSender::new(paths, cpus, transmit(ring_bytes, paths))
}

fn transmit(ring_bytes: usize, paths: usize) -> MemoryTransmit {
    MemoryTransmit {
        ring_bytes,
        bytes: vec![],
        slots: vec![],
        at: 0,
        is_cached: false,
        descriptors: [descriptor(0, 0); BATCH],
        sent: vec![0; paths],
    }
}

struct MemoryTransmit {
    ring_bytes: usize,
    bytes: Vec<u8>,
    /// Offset and contents of each frame of the ring.
    slots: Vec<(usize, Slot)>,
    at: usize,
    is_cached: bool,
    /// The descriptors that a device would get.
    descriptors: [XdpDesc; BATCH],
    sent: Vec<u64>,
}

/// A batch of frames being filled.
struct Batch<'a> {
    memory: &'a mut MemoryTransmit,
    taken: usize,
    streams: Tally<'a>,
}

impl Room for Batch<'_> {
    #[inline]
    fn next(&mut self) -> Option<(&mut [u8], Slot)> {
        if self.taken == BATCH {
            return None;
        }
        let (start, slot) = self.memory.slots[self.memory.at];
        Some((&mut self.memory.bytes[start..], slot))
    }

    #[inline]
    fn filled(&mut self, slot: Slot) {
        let memory = &mut *self.memory;
        let (start, held) = &mut memory.slots[memory.at];
        *held = slot;
        memory.descriptors[self.taken] = descriptor(*start, slot.bytes);
        self.streams.add(slot.stream);
        self.taken += 1;
        memory.at += 1;
        if memory.at == memory.slots.len() {
            memory.at = 0;
        }
    }
}

impl Transmit for MemoryTransmit {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn arm(&mut self, outline: &Outline) -> Result<(), EngineError> {
        let stride = outline.buffer_len.next_multiple_of(64);
        self.is_cached = outline.cycle.is_some();
        let slots: Vec<Slot> = match &outline.cycle {
            Some(cycle) => cycle.iter().map(|cached| cached.slot).collect(),
            None => vec![Slot::EMPTY; (self.ring_bytes / stride).clamp(2 * BATCH, MOST_SLOTS)],
        };
        let mut end = 0;
        self.slots.clear();
        for slot in slots {
            self.slots.push((end, slot));
            end += match self.is_cached {
                true => (slot.bytes as usize).next_multiple_of(64),
                false => stride,
            };
        }
        self.bytes = vec![0; end + 64];
        let align = self.bytes.as_ptr().align_offset(64).min(64);
        self.slots.iter_mut().for_each(|(start, _)| *start += align);
        for (cached, (start, _)) in outline.cycle.iter().flatten().zip(&self.slots) {
            self.bytes[*start..*start + cached.bytes.len()].copy_from_slice(&cached.bytes);
        }
        Ok(())
    }

    fn begin(&mut self, _: &Schedule) -> Result<(), EngineError> {
        self.at = 0;
        self.sent.fill(0);
        Ok(())
    }

    #[inline]
    fn send<S: Source>(
        &mut self,
        path: usize,
        frames: &mut S,
        counters: &Counters,
    ) -> Result<(), EngineError> {
        let is_cached = self.is_cached;
        let mut batch = Batch {
            memory: self,
            taken: 0,
            streams: counters.tally(),
        };
        match is_cached {
            false => frames.fill(&mut batch),
            true => {
                while batch.taken < BATCH && frames.has_next() {
                    frames.skip();
                    let (_, slot) = batch.memory.slots[batch.memory.at];
                    batch.filled(slot);
                }
            }
        }
        let taken = batch.taken;
        drop(batch);
        // without this the compiler sees that the frames are never read, and omits them
        black_box(&mut self.bytes);
        black_box(&self.descriptors[..taken]);
        self.sent[path] += taken as u64;
        counters.set_sent(path, self.sent[path]);
        Ok(())
    }

    fn end(&mut self, _counters: &Counters) -> Result<(), EngineError> {
        Ok(())
    }
}

fn descriptor(start: usize, bytes: u32) -> XdpDesc {
    XdpDesc {
        addr: start as u64,
        len: bytes,
        options: XdpDescOptions::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StallPolicy;
    use crate::generator::Schedule;
    use crate::load::LoadPlan;
    use crate::testing::test_frames;
    use crate::traffic::{Emission, Frames, Kind, Stream, Timing, Traffic, TrafficFrames};
    use fwdlab_model::procedure::Stretch;
    use fwdlab_packet::modifier::Program;
    use std::time::Duration;

    #[test]
    fn it_sends_the_requested_frames_at_the_requested_rate() {
        let mut sender = sender(2, &[]);
        assert!(sender.start(schedule(None)).is_err(), "not armed");
        sender.arm(&frames()).expect("room for the frames");
        sender.start(schedule(None)).expect("a thread");
        assert!(sender.set_load(1e6).is_err(), "flat out");
        while !sender.is_done() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let counts = sender.stop().expect("a thread that ends");
        assert_eq!((counts.sent, counts.not_sent), (vec![0, 100_000], 0));
        assert_eq!(sender.lateness().expect("counters"), None);

        sender.start(schedule(Some(1e6))).expect("a thread");
        while !sender.is_done() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let counts = sender.stop().expect("a thread that ends");
        assert_eq!(counts.sent, [0, 100_000]);
        let lateness = sender.lateness().expect("counters").expect("a load");
        assert!((1..=100_000).contains(&lateness.len()));
        assert!(sender.set_load(1e6).is_err(), "it is not running");
    }

    /// On a machine of any load, every intended frame was sent, or was counted as not sent.
    #[test]
    fn sent_and_not_sent_are_what_was_intended() {
        for (load_pps, stall_policy) in [
            (999.0, StallPolicy::Skip),
            (123_456.0, StallPolicy::Skip),
            (123_456.0, MAKE_UP),
            (5e6, StallPolicy::Skip),
            (5e6, MAKE_UP),
        ] {
            let mut sender = sender(1, &[]);
            sender.arm(&frames()).expect("room for the frames");
            let schedule = Schedule {
                frames: None,
                at_most: Duration::from_millis(300),
                stall_policy,
                path: 0,
                ..schedule(Some(load_pps))
            };
            sender.start(schedule).expect("a thread");
            while !sender.is_done() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let counts = sender.stop().expect("a thread that ends");
            // one at the start, and one for each gap before the end
            let intended = (load_pps * 0.3).ceil() as u64;
            assert_eq!(counts.sent[0] + counts.not_sent, intended, "{counts:?}");
        }
    }

    #[test]
    fn senders_that_still_send_have_begun_and_not_ended() {
        for count in [1, 2] {
            let mut sender = senders(1, &[], count).expect("senders");
            sender.arm(&frames()).expect("room for the frames");
            let endless = Schedule {
                frames: None,
                at_most: Duration::from_secs(600),
                path: 0,
                ..schedule(Some(1e4))
            };
            sender.start(endless).expect("threads");
            let times = loop {
                match sender.sending_times() {
                    Some(times) => break times,
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            assert_eq!(times.ended_ns, None, "{count}");
            sender.stop().expect("threads that end");
        }
    }

    /// Runs a trial to its end.
    fn counts_of(sender: &mut impl Sender, schedule: Schedule) -> crate::SendCounts {
        sender.start(schedule).expect("threads");
        while !sender.is_done() {
            std::thread::sleep(Duration::from_millis(1));
        }
        sender.stop().expect("threads that end")
    }

    /// Any number of senders: the frames of one, of each stream, whatever the load; and of every
    /// frame that is due it is known whether it was sent.
    #[test]
    fn several_senders_send_together_what_one_sends() {
        let profile = streams(&[1.0, 2.0, 5.0]);
        for frames in [frames(), Frames::Traffic(profile)] {
            for load_pps in [None, Some(2e6)] {
                let mut expected: Option<Vec<u64>> = None;
                for count in [1, 2, 3, 4, 8] {
                    let mut sender = senders(1, &[], count).expect("senders");
                    assert_eq!(sender.capabilities().senders, count as u16);
                    sender.arm(&frames).expect("room for the frames");
                    let schedule = Schedule {
                        frames: Some(10_003),
                        path: 0,
                        stall_policy: MAKE_UP,
                        ..schedule(load_pps)
                    };
                    let counts = counts_of(&mut sender, schedule.clone());
                    assert_eq!((counts.total(), counts.not_sent), (10_003, 0), "{count}");
                    let of_streams = expected.get_or_insert(counts.streams.clone());
                    assert_eq!(counts.streams, *of_streams, "{count} senders");
                    let own: u64 = counts.senders.iter().map(|own| own.total()).sum();
                    assert_eq!(own, if count > 1 { 10_003 } else { 0 });
                    assert!(sender.sending_times().is_some_and(|t| t.ended_ns.is_some()));

                    let Some(load_pps) = load_pps else { continue };
                    let counts = counts_of(
                        &mut sender,
                        Schedule {
                            frames: None,
                            at_most: Duration::from_millis(20),
                            stall_policy: StallPolicy::Skip,
                            ..schedule
                        },
                    );
                    let intended = (load_pps * 0.02) as u64;
                    let due = counts.total() + counts.not_sent;
                    // every stream has its first frame at the start
                    assert!(
                        (intended..intended + 3).contains(&due),
                        "{count}: {counts:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn too_many_senders_and_ids_without_room_for_them_are_refused() {
        for count in [0, 17] {
            let error = senders(1, &[], count).err().expect("no such number");
            assert!(
                error.to_string().contains("1 to 16 are possible"),
                "{error}"
            );
        }
        let mut traffic = streams(&[1.0]);
        std::sync::Arc::make_mut(&mut traffic.traffic).streams[0].id = 4096;
        let frames = Frames::Traffic(traffic);
        let mut sender = senders(1, &[], 2).expect("senders");
        let error = sender.arm(&frames).expect_err("no room").to_string();
        assert!(error.contains("need ids below 4096"), "{error}");
        super::sender(1, &[]).arm(&frames).expect("one sender");
    }

    /// While several senders send, all follow a new load and stop together.
    #[test]
    fn several_senders_follow_a_new_load() {
        let mut sender = senders(1, &[], 3).expect("senders");
        sender.arm(&frames()).expect("room for the frames");
        let schedule = Schedule {
            frames: None,
            at_most: Duration::from_secs(60),
            path: 0,
            ..schedule(Some(1e5))
        };
        sender.start(schedule).expect("threads");
        let total = |sender: &dyn Sender| {
            let counts = sender.counts().expect("counters");
            counts.total() + counts.not_sent
        };
        while total(&sender) < 1000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        sender.set_load(1.0).expect("they are running");
        // frames of a second: two looks that are farther apart than the gap at the old load
        let mut before = total(&sender);
        loop {
            std::thread::sleep(Duration::from_millis(5));
            let now = total(&sender);
            if now - before <= 3 {
                break;
            }
            before = now;
        }
        let counts = sender.stop().expect("threads that end");
        assert_eq!(counts.senders.len(), 3);
    }

    /// A load over time: exactly the frames of its integral, for test frames and for the streams of
    /// a profile together.
    #[test]
    fn a_load_over_time_is_its_integral() {
        let stretch = |ms: u64, from_pps, to_pps| Stretch {
            duration_ns: ms * 1_000_000,
            from_pps,
            to_pps,
        };
        let stretches = vec![
            stretch(100, 0.0, 1e6),
            stretch(50, 300_000.0, 300_000.0),
            stretch(50, 0.0, 0.0),
            stretch(100, 1e6, 123_456.0),
        ];
        let profile = Frames::Traffic(streams(&[1.0, 3.0]));
        for (frames, streams) in [(frames(), 1), (profile, 2)] {
            for stall_policy in [StallPolicy::Skip, MAKE_UP] {
                let mut sender = sender(1, &[]);
                sender.arm(&frames).expect("room for the frames");
                let schedule = Schedule {
                    load: LoadPlan::from_stretches(stretches.clone()),
                    frames: None,
                    at_most: Duration::from_millis(300),
                    stall_policy,
                    path: 0,
                };
                sender.start(schedule).expect("a thread");
                assert!(sender.set_load(1e6).is_err(), "the load is known before");
                while !sender.is_done() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let counts = sender.stop().expect("a thread that ends");
                let due = counts.sent[0] + counts.not_sent;
                let integral = 50_000.0 + 15_000.0 + 56_172.8_f64;
                // every stream has its first frame at the start
                let allowed = integral.floor() as u64..=integral.floor() as u64 + streams;
                assert!(allowed.contains(&due), "{due} of {integral}: {counts:?}");
            }
        }
    }

    #[test]
    fn streams_with_times_of_their_own_follow_one_load_only() {
        let mut own = streams(&[1.0, 3.0]);
        let traffic = std::sync::Arc::make_mut(&mut own.traffic);
        traffic.streams[1].timing.delay_ns = 1_000_000;
        let mut sender = sender(1, &[]);
        sender
            .arm(&Frames::Traffic(own))
            .expect("room for the frames");
        let mut schedule = schedule(Some(1e5));
        schedule.path = 0;
        schedule.load = LoadPlan::from_stretches(vec![Stretch {
            duration_ns: 1_000_000,
            from_pps: 1.0,
            to_pps: 1e6,
        }]);
        let reason = sender.start(schedule).expect_err("a delay").to_string();
        assert!(reason.contains("cannot scale the times"), "{reason}");
    }

    /// Streams with these shares.
    fn streams(rates: &[f64]) -> TrafficFrames {
        let stream = |(id, &rate_pps): (u16, &f64)| Stream {
            id,
            name: id.to_string(),
            kinds: vec![Kind {
                template: vec![0; 60],
                program: Program::default(),
                place: None,
            }],
            pattern: vec![0],
            timing: Timing::new(rate_pps, Emission::Continuous),
            path: 0,
        };
        let traffic = Traffic {
            name: "shares".into(),
            streams: (0..).zip(rates).map(stream).collect(),
        };
        TrafficFrames {
            traffic: traffic.into(),
            nonce: 1,
        }
    }

    const MAKE_UP: StallPolicy = StallPolicy::CatchUp { most_pps: None };

    fn frames() -> Frames {
        Frames::Test(test_frames(10))
    }

    fn schedule(load_pps: Option<f64>) -> Schedule {
        Schedule {
            load: load_pps.into(),
            frames: Some(100_000),
            at_most: Duration::from_secs(5),
            stall_policy: StallPolicy::Skip,
            path: 1,
        }
    }
}
