//! Times of frames that the kernel or the card takes, at departure and at arrival: which there are, and on which clock.
//!
//! Only times of one clock are ever subtracted. Software stamps of both ends are CLOCK_REALTIME, those of a card are its own
//! clock's, which is of use where both ports have the same. How a sender or a receiver gets at stamps is its own business; it
//! hands over a [`Log`] of them, and [`Analysis::retime`](crate::analysis::Analysis::retime) puts two logs together. Start with
//! [`choose`]: what two ports offer, and which kind to take.

pub mod card;
pub mod clock;
mod control;
mod offers;
pub(crate) mod sys;

pub use self::offers::{Offers, choose};

use std::fmt;

use fwdlab_model::latency::{TimestampKind, TimestampOrigin};
use serde::{Deserialize, Serialize};

use self::control::Stamp;
use self::sys::{Failure, TxStamps};
use crate::error::EngineError;

/// Frames whose stamps are kept in one trial; each takes 24 bytes.
pub const MOST: usize = 1 << 22;

/// Who takes a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// The sender writes the intended departure into the frame; the receiver takes the arrival by itself.
    User,
    /// The kernel: when the driver takes a frame, and when a frame enters the network stack.
    Software,
    /// The card.
    Hardware,
}

impl Kind {
    /// The name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::User => "user",
            Kind::Software => "software",
            Kind::Hardware => "hardware",
        }
    }
}

/// What a time counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Clock {
    /// The clock of schedules and of XDP programs.
    Monotonic,
    /// The system's time of day.
    Realtime,
    /// The same without leap seconds.
    Tai,
    /// A card's own: `/dev/ptpN`.
    Card(u32),
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clock::Monotonic => f.write_str("CLOCK_MONOTONIC"),
            Clock::Realtime => f.write_str("CLOCK_REALTIME"),
            Clock::Tai => f.write_str("CLOCK_TAI"),
            Clock::Card(number) => write!(f, "/dev/ptp{number}"),
        }
    }
}

/// Where a time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Who takes it.
    pub kind: Kind,
    /// Where on the way of a frame.
    pub place: &'static str,
    /// What it counts on.
    pub clock: Clock,
}

impl Origin {
    /// The departure that is written into a frame.
    pub const INTENDED: Origin = Origin {
        kind: Kind::User,
        place: "intended departure",
        clock: Clock::Monotonic,
    };
    /// What XDP programs take.
    pub const XDP: Origin = Origin {
        kind: Kind::Software,
        place: "at the driver (XDP)",
        clock: Clock::Monotonic,
    };
    /// What a ring of a packet socket says where nobody asked for more.
    pub const SOCKET: Origin = Origin {
        kind: Kind::Software,
        place: "at the packet socket (TPACKET_V3), from CLOCK_REALTIME",
        clock: Clock::Monotonic,
    };
    /// What the kernel takes of frames that enter.
    pub const ENTERING: Origin = Origin {
        kind: Kind::Software,
        place: "where frames enter the kernel (SO_TIMESTAMPING)",
        clock: Clock::Realtime,
    };
    /// The same, to be compared with times of the sender's schedule.
    pub const ENTERING_MONOTONIC: Origin = Origin {
        place: "where frames enter the kernel (SO_TIMESTAMPING), from CLOCK_REALTIME",
        clock: Clock::Monotonic,
        ..Origin::ENTERING
    };
    /// What the kernel takes of frames that leave.
    pub const LEAVING: Origin = Origin {
        kind: Kind::Software,
        place: "as the driver takes the frame (SO_TIMESTAMPING)",
        clock: Clock::Realtime,
    };

    /// What a card with this clock says.
    pub const fn card(clock: u32) -> Origin {
        Origin {
            kind: Kind::Hardware,
            place: "at the card (SO_TIMESTAMPING)",
            clock: Clock::Card(clock),
        }
    }

    /// What a card with this clock writes into the metadata of an AF_XDP frame.
    pub const fn card_metadata(clock: u32) -> Origin {
        Origin {
            place: "at the card (AF_XDP metadata)",
            ..Origin::card(clock)
        }
    }
    /// What the kernel writes there in copy mode: when it freed the frame, after the driver or whoever got it from there was done
    /// with it. It is no departure, and is compared with nothing.
    pub const FREED: Origin = Origin {
        kind: Kind::Software,
        place: "as the kernel frees the frame (AF_XDP metadata in copy mode)",
        clock: Clock::Tai,
    };

    /// As results keep it.
    pub fn kept(&self) -> TimestampOrigin {
        TimestampOrigin {
            kind: match self.kind {
                Kind::User => TimestampKind::User,
                Kind::Software => TimestampKind::Software,
                Kind::Hardware => TimestampKind::Hardware,
            },
            place: self.place.to_owned(),
            clock: self.clock.to_string(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.kind.name(), self.place, self.clock)
    }
}

/// Where the two times of a latency come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origins {
    /// The earlier one.
    pub departures: Origin,
    /// The later one.
    pub arrivals: Origin,
}

impl Origins {
    /// From the departure that a frame carries.
    pub const fn from_intended(arrivals: Origin) -> Origins {
        Origins {
            departures: Origin::INTENDED,
            arrivals,
        }
    }
}

impl Default for Origins {
    fn default() -> Origins {
        Origins::from_intended(Origin::XDP)
    }
}

impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "departures: {}; arrivals: {}",
            self.departures, self.arrivals
        )
    }
}

/// The time of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamped {
    /// Its stream, as its signature says.
    pub stream: u16,
    /// Its number in that.
    pub number: u64,
    /// Nanoseconds of the log's clock.
    pub at_ns: u64,
}

/// The times of all frames of a trial at one end, in the order in which they were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Where they come from.
    pub origin: Origin,
    /// The times.
    pub times: Vec<Stamped>,
    /// Frames that left or arrived and have none.
    pub missing: u64,
    /// The clock was set meanwhile, by so much as far as that is known: no time is to be believed.
    pub step_ns: Option<i64>,
}

impl Log {
    /// An empty one.
    pub fn new(origin: Origin) -> Log {
        Log {
            origin,
            times: Vec::new(),
            missing: 0,
            step_ns: None,
        }
    }

    /// With those of another port of the same clock.
    pub(crate) fn and(mut self, other: Log) -> Log {
        self.times.extend(other.times);
        self.missing += other.missing;
        self.step_ns = self.step_ns.or(other.step_ns);
        self
    }

    /// One more, as long as there is room.
    pub(crate) fn push(&mut self, stamped: Stamped) {
        match self.times.len() < MOST {
            true => self.times.push(stamped),
            false => self.missing += 1,
        }
    }
}

/// The departures that one packet socket is told, frame by frame, in the order in which it sent them.
pub(crate) struct Departing {
    stamps: TxStamps,
    kind: Kind,
    /// Stream and number of each frame since the begin, by the number that the kernel gives it; none where it has no signature.
    sent: Vec<Option<(u16, u64)>>,
    log: Log,
    watch: Option<clock::Watch>,
}

impl Departing {
    /// Asks for the departures of a socket's frames.
    pub(crate) fn new(
        socket: &std::os::fd::OwnedFd,
        kind: Kind,
        clock: Option<u32>,
    ) -> std::io::Result<Departing> {
        let origin = match (kind, clock) {
            (Kind::Hardware, Some(clock)) => Origin::card(clock),
            _ => Origin::LEAVING,
        };
        Ok(Departing {
            stamps: TxStamps::new(socket)?,
            kind,
            sent: Vec::new(),
            log: Log::new(origin),
            watch: None,
        })
    }

    /// A trial begins: frames are numbered from 0.
    pub(crate) fn begin(&mut self) -> std::io::Result<()> {
        self.stamps.restart(self.kind)?;
        self.sent.clear();
        self.log = Log::new(self.log.origin);
        self.watch = (self.kind == Kind::Software)
            .then(clock::Watch::begin)
            .transpose()?;
        Ok(())
    }

    /// The socket has been given one more frame.
    pub(crate) fn sent(&mut self, frame: Option<(u16, u64)>) {
        if self.sent.len() < MOST {
            self.sent.push(frame);
        } else {
            self.log.missing += 1;
        }
    }

    /// Takes the stamps that are there.
    pub(crate) fn take(&mut self) -> std::io::Result<()> {
        loop {
            match self.stamps.next() {
                Ok(Some(stamp)) => self.note(stamp),
                Ok(None) => return Ok(()),
                Err(Failure::NotAStamp) => {}
                Err(Failure::System(error)) => return Err(error),
            }
        }
    }

    fn note(&mut self, stamp: Stamp) {
        let at_ns = match self.kind {
            Kind::Hardware => stamp.hardware_ns,
            _ => stamp.software_ns,
        };
        let frame = stamp.key.and_then(|key| self.sent.get_mut(key as usize));
        if let (Some(at_ns), Some((stream, number))) = (at_ns, frame.and_then(Option::take)) {
            self.log.push(Stamped {
                stream,
                number,
                at_ns,
            });
        }
    }

    /// Frames whose stamps have not come.
    pub(crate) fn open(&self) -> usize {
        self.sent.iter().filter(|frame| frame.is_some()).count()
    }

    /// All that came since the begin.
    pub(crate) fn log(&mut self) -> Log {
        let mut log = self.log.clone();
        log.missing += self.open() as u64;
        log.step_ns = self.watch.as_ref().and_then(clock::Watch::step_ns);
        log
    }
}

/// What an engine says that has no such stamps.
pub(crate) fn no_stamps(engine: &'static str, kind: Kind) -> EngineError {
    EngineError::Unsupported {
        engine,
        what: format!("provide {} timestamps; --engine af-packet can", kind.name()),
    }
}
