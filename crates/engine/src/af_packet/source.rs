//! Where the frames of a trial come from, and when each is due: test frames and profiles behind one face.
//!
//! A sender looks at the clock, tells a [`Source`] the time, and takes what is due, frame by frame. Nothing here knows
//! sockets. Start with [`Source`]; what a buffer holds from before is in [`Slot`].

use packet::{FrameTemplate, Order, Signature, Walk};

use crate::error::EngineError;
use crate::generator::{Frames, Schedule, TestFrames};
use crate::pacer::{FRACTION, LONGEST_NS, Pacer};
use crate::traffic::player::Player;

/// Cached frames take no more memory than this, so that they and their rings stay in a second-level cache.
pub(crate) const CACHE_BYTES: usize = 1 << 20;
/// And are no more than this: each has a descriptor, or a message header, of its own.
const CACHE_FRAMES: u64 = 16_384;

/// What is due at the end is no more than 100 us of a load, for older frames are forgiven.
const MOST_GIVEN_UP: u64 = 1 << 16;

/// The frames of one trial, one after the other, each at its time.
pub(crate) trait Source {
    /// It is `now_ns` (CLOCK_MONOTONIC): lets go of what is too late. `None`: nothing is due. Otherwise by how much the oldest
    /// frame is late; flat out, never.
    fn look(&mut self, now_ns: u64) -> Option<u64>;

    /// Is there another frame that was due at the last [`look`](Self::look)?
    fn has_next(&self) -> bool;

    /// Frames that must not overtake each other have the same lane: those of one flow.
    fn lane(&self) -> u32;

    /// Writes the next frame, which must be [there](Self::has_next).
    fn write(&mut self, buffer: &mut [u8], slot: &mut Slot);

    /// Goes on to the frame after the next: the sender has it cached.
    fn skip(&mut self);

    /// Is there nothing more to come?
    fn has_ended(&self) -> bool;

    /// The time is over: what was due before `end_ns` and was not taken will never leave.
    fn give_up(&mut self, end_ns: u64);

    /// Frames that were due and forgiven.
    fn not_sent(&self) -> u64;

    /// Another load from `now_ns` on.
    fn set_load(&mut self, load_pps: f64, now_ns: u64);
}

/// What a buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Length of its frame, in bytes without FCS.
    pub bytes: u32,
    /// Of which stream; 0 for test frames.
    pub stream: u32,
    /// Of which kind; none, when it holds no frame of this trial's.
    kind: Option<u32>,
}

impl Slot {
    /// Nothing that can be used.
    pub(crate) const EMPTY: Slot = Slot {
        bytes: 0,
        stream: 0,
        kind: None,
    };
}

/// A frame that is sent again and again as it is.
pub(crate) struct Cached {
    pub slot: Slot,
    pub bytes: Vec<u8>,
}

/// What a sender must know of frames before a trial.
pub(crate) struct Outline {
    /// Bytes of the longest.
    pub buffer_len: usize,
    /// How many streams are counted; 0 for test frames.
    pub streams: usize,
    /// All of them, where they repeat after a while and take no more than [`CACHE_BYTES`].
    pub cycle: Option<Vec<Cached>>,
}

impl Outline {
    /// Looks at the frames, and renders them if they can be cached.
    pub(crate) fn of(frames: &Frames) -> Result<Outline, EngineError> {
        match frames {
            Frames::Test(frames) => Ok(Outline {
                buffer_len: frames.template.buffer_len(),
                streams: 0,
                cycle: None,
            }),
            Frames::Traffic(frames) => {
                let mut player = Player::new(frames, None)?;
                Ok(Outline {
                    buffer_len: player.buffer_len(),
                    streams: player.streams(),
                    cycle: cycle(&mut player),
                })
            }
        }
    }
}

fn cycle(player: &mut Player) -> Option<Vec<Cached>> {
    let frames = player.cycle().filter(|&frames| frames <= CACHE_FRAMES)?;
    let mut buffer = vec![0; player.buffer_len()];
    let mut room = CACHE_BYTES;
    let mut cycle = vec![];
    for _ in 0..frames {
        let upcoming = player.upcoming()?;
        let bytes = player.take(&mut buffer, None, 0);
        // a cache line more or less, wherever it comes to lie
        room = room.checked_sub(bytes.next_multiple_of(64) + 64)?;
        cycle.push(Cached {
            slot: Slot {
                bytes: bytes as u32,
                stream: upcoming.stream,
                kind: None,
            },
            bytes: buffer[..bytes].to_vec(),
        });
    }
    Some(cycle)
}

/// Test frames.
pub(crate) struct TestSource {
    template: FrameTemplate,
    walk: Walk,
    flows: u32,
    lane: u32,
    signature: Signature,
    pacer: Option<Pacer>,
    left: u64,
    due: u64,
}

impl TestSource {
    pub(crate) fn new(frames: &TestFrames, schedule: &Schedule, start_ns: u64) -> TestSource {
        TestSource {
            template: frames.template.clone(),
            walk: frames.flows.walk(Order::Sequential),
            flows: frames.flows.len() as u32,
            lane: 0,
            signature: Signature {
                nonce: frames.nonce,
                ..Signature::default()
            },
            pacer: schedule.load_pps.map(|pps| Pacer::new(pps, start_ns)),
            left: schedule.frames.unwrap_or(u64::MAX),
            due: 0,
        }
    }
}

impl Source for TestSource {
    #[inline]
    fn look(&mut self, now_ns: u64) -> Option<u64> {
        let Some(pacer) = &mut self.pacer else {
            self.signature.timestamp_ns = now_ns;
            self.due = self.left;
            return (self.due > 0).then_some(0);
        };
        let oldest_ns = pacer.departure_ns();
        self.due = pacer.due(now_ns).min(self.left);
        (self.due > 0).then(|| now_ns.saturating_sub(oldest_ns))
    }

    #[inline]
    fn has_next(&self) -> bool {
        self.due > 0
    }

    #[inline]
    fn lane(&self) -> u32 {
        self.lane
    }

    #[inline]
    fn write(&mut self, buffer: &mut [u8], slot: &mut Slot) {
        if let Some(pacer) = &mut self.pacer {
            self.signature.timestamp_ns = pacer.departure_ns();
            pacer.taken(1);
        }
        self.due -= 1;
        self.left -= 1;
        self.lane += 1;
        if self.lane == self.flows {
            self.lane = 0;
        }
        let flow = self.walk.next().expect("a walk is endless");
        if slot.kind.is_some() {
            self.template.patch(buffer, &flow, &self.signature);
        } else {
            self.template.write(buffer, &flow, &self.signature);
            *slot = Slot {
                bytes: self.template.buffer_len() as u32,
                stream: 0,
                kind: Some(0),
            };
        }
        self.signature.sequence += 1;
    }

    fn skip(&mut self) {
        unreachable!("test frames are never the same");
    }

    fn has_ended(&self) -> bool {
        self.left == 0
    }

    fn give_up(&mut self, end_ns: u64) {
        self.look(end_ns - 1);
        if let Some(pacer) = &mut self.pacer {
            pacer.forgive(self.due);
        }
        self.left -= self.due;
        self.due = 0;
    }

    fn not_sent(&self) -> u64 {
        self.pacer.as_ref().map_or(0, Pacer::not_sent)
    }

    fn set_load(&mut self, load_pps: f64, now_ns: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.set_load(load_pps, now_ns);
        }
    }
}

/// What a profile says.
pub(crate) struct TrafficSource {
    player: Player,
    start_ns: u64,
    paced: bool,
    left: u64,
    /// The last look: frames that are due up to here leave; flat out, all.
    until: u64,
    now_ns: u64,
    given_up: u64,
}

impl TrafficSource {
    pub(crate) fn new(player: Player, schedule: &Schedule, start_ns: u64) -> TrafficSource {
        TrafficSource {
            player,
            start_ns,
            paced: schedule.load_pps.is_some(),
            left: schedule.frames.unwrap_or(u64::MAX),
            until: 0,
            now_ns: start_ns,
            given_up: 0,
        }
    }

    fn units(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.start_ns).min(LONGEST_NS) << FRACTION
    }
}

impl Source for TrafficSource {
    #[inline]
    fn look(&mut self, now_ns: u64) -> Option<u64> {
        self.now_ns = now_ns;
        if !self.paced {
            self.until = u64::MAX;
            return self.has_next().then_some(0);
        }
        self.until = self.units(now_ns);
        let late = self.until.checked_sub(self.player.due()?)?;
        self.player.forgive(self.until);
        self.has_next().then_some(late >> FRACTION)
    }

    #[inline]
    fn has_next(&self) -> bool {
        self.left > 0 && self.player.due().is_some_and(|due| due <= self.until)
    }

    #[inline]
    fn lane(&self) -> u32 {
        self.player.upcoming().map_or(0, |upcoming| upcoming.stream)
    }

    #[inline]
    fn write(&mut self, buffer: &mut [u8], slot: &mut Slot) {
        let Some(upcoming) = self.player.upcoming() else {
            return;
        };
        let timestamp_ns = if self.paced {
            self.start_ns + (upcoming.due >> FRACTION)
        } else {
            self.now_ns
        };
        self.left -= 1;
        *slot = Slot {
            bytes: self.player.take(buffer, slot.kind, timestamp_ns) as u32,
            stream: upcoming.stream,
            kind: Some(upcoming.kind),
        };
    }

    #[inline]
    fn skip(&mut self) {
        self.left -= 1;
        // what is cached never ends; flat out, its times do not matter
        if self.paced {
            self.player.skip();
        }
    }

    fn has_ended(&self) -> bool {
        self.left == 0 || self.player.due().is_none()
    }

    fn give_up(&mut self, end_ns: u64) {
        if self.paced && self.look(end_ns - 1).is_some() {
            // streams that start each other without taking any time are always due
            while self.has_next() && self.given_up < MOST_GIVEN_UP {
                self.skip();
                self.given_up += 1;
            }
        }
    }

    fn not_sent(&self) -> u64 {
        self.player.not_sent() + self.given_up
    }

    fn set_load(&mut self, load_pps: f64, now_ns: u64) {
        let now = self.units(now_ns);
        self.player.set_load(load_pps, now);
    }
}
