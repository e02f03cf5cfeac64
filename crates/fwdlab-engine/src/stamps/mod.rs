//! Timestamps of frames by the kernel or the card, at departure and at arrival: which are
//! available, and on which clock.
//!
//! Only times of the same clock are ever subtracted. Software stamps at both ends use
//! CLOCK_REALTIME; those of a card use its own clock, which helps only if both ports share it.
//! Senders and receivers collect stamps in their own ways and return a [`Log`];
//! [`Analysis::retime`](crate::analysis::Analysis::retime) combines two logs. Start with
//! [`choose`]: what two ports offer, and which kind to use.

pub mod card;
pub mod clock;
mod control;
mod offers;
pub(crate) mod sys;

pub use self::offers::{Offers, choose};

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use fwdlab_model::latency::{TimestampKind, TimestampOrigin};
use serde::{Deserialize, Deserializer, Serialize};

use self::control::Stamp;
use self::sys::{Failure, TxStamps};
use crate::error::EngineError;

/// Maximum number of stamps kept in one trial; each takes 24 bytes.
pub const MOST: usize = 1 << 22;

/// The source of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// The sender writes the intended departure into the frame; the receiver takes the arrival
    /// itself.
    User,
    /// The kernel: when the driver takes a frame, and when a frame enters the network stack.
    Software,
    /// The card.
    Hardware,
}

impl Kind {
    /// Returns the name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::User => "user",
            Kind::Software => "software",
            Kind::Hardware => "hardware",
        }
    }
}

/// The clock of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Clock {
    /// The clock of schedules and of XDP programs.
    Monotonic,
    /// The system's time of day.
    Realtime,
    /// The time of day without leap seconds.
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

/// A name in the code. A program that receives one stores it once, for ever.
pub type StaticName = &'static str;

/// Returns a name with static lifetime. There are only a few, and each is stored once.
pub fn static_name(name: &str) -> StaticName {
    static NAMES: Mutex<BTreeSet<StaticName>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let new: StaticName = Box::leak(name.to_owned().into_boxed_str());
    names.insert(new);
    new
}

pub(crate) fn read_static_name<'a, D: Deserializer<'a>>(from: D) -> Result<StaticName, D::Error> {
    Ok(static_name(&String::deserialize(from)?))
}

/// The origin of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The source.
    pub kind: Kind,
    /// The position on the frame's path.
    #[serde(deserialize_with = "read_static_name")]
    pub place: StaticName,
    /// The clock.
    pub clock: Clock,
}

impl Origin {
    /// The departure written into a frame.
    pub const INTENDED: Origin = Origin {
        kind: Kind::User,
        place: "intended departure",
        clock: Clock::Monotonic,
    };
    /// The arrival in an XDP program.
    pub const XDP: Origin = Origin {
        kind: Kind::Software,
        place: "at the driver (XDP)",
        clock: Clock::Monotonic,
    };
    /// The arrival that a packet socket's ring reports by default.
    pub const SOCKET: Origin = Origin {
        kind: Kind::Software,
        place: "at the packet socket (TPACKET_V3), from CLOCK_REALTIME",
        clock: Clock::Monotonic,
    };
    /// The arrival at a receiver that polls memory.
    pub const POLLED: Origin = Origin {
        kind: Kind::User,
        place: "when the receiver's thread found the frame in memory",
        clock: Clock::Monotonic,
    };
    /// The kernel's arrival.
    pub const ENTERING: Origin = Origin {
        kind: Kind::Software,
        place: "where frames enter the kernel (SO_TIMESTAMPING)",
        clock: Clock::Realtime,
    };
    /// The kernel's departure.
    pub const LEAVING: Origin = Origin {
        kind: Kind::Software,
        place: "as the driver takes the frame (SO_TIMESTAMPING)",
        clock: Clock::Realtime,
    };

    /// Returns the origin of the times of a card with this clock.
    pub const fn card(clock: u32) -> Origin {
        Origin {
            kind: Kind::Hardware,
            place: "at the card (SO_TIMESTAMPING)",
            clock: Clock::Card(clock),
        }
    }

    /// Returns the origin of the times that a card with this clock writes into the metadata of an
    /// AF_XDP frame.
    pub const fn card_metadata(clock: u32) -> Origin {
        Origin {
            place: "at the card (AF_XDP metadata)",
            ..Origin::card(clock)
        }
    }
    /// The time that the kernel writes there in copy mode: when it freed the frame, after the
    /// driver or the frame's next owner was done with it. It is not a departure, and must not be
    /// compared with anything.
    pub const FREED: Origin = Origin {
        kind: Kind::Software,
        place: "as the kernel frees the frame (AF_XDP metadata in copy mode)",
        clock: Clock::Tai,
    };

    /// Converts it to its form in results.
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

/// The origins of the two times of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origins {
    /// The earlier one.
    pub departures: Origin,
    /// The later one.
    pub arrivals: Origin,
}

impl Origins {
    /// Latencies from the departure that a frame carries.
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
    /// Its stream, from its signature.
    pub stream: u16,
    /// Its number in the stream.
    pub number: u64,
    /// Nanoseconds of the log's clock.
    pub at_ns: u64,
}

/// The times of all frames of a trial at one end, in the order in which they were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Their origin.
    pub origin: Origin,
    /// The times.
    pub times: Vec<Stamped>,
    /// Frames that left or arrived without a time.
    pub missing: u64,
    /// Set if the clock was set during the trial, by this much as far as known: no time is
    /// reliable.
    pub step_ns: Option<i64>,
}

impl Log {
    /// Returns an empty log.
    pub fn new(origin: Origin) -> Log {
        Log {
            origin,
            times: Vec::new(),
            missing: 0,
            step_ns: None,
        }
    }

    /// Merges the log of another port with the same clock.
    pub(crate) fn and(mut self, other: Log) -> Log {
        self.times.extend(other.times);
        self.missing += other.missing;
        self.step_ns = self.step_ns.or(other.step_ns);
        self
    }

    /// Adds a time, if there is room.
    pub(crate) fn push(&mut self, stamped: Stamped) {
        match self.times.len() < MOST {
            true => self.times.push(stamped),
            false => self.missing += 1,
        }
    }
}

/// The departures reported to one packet socket, frame by frame, in the order of sending.
pub(crate) struct Departing {
    stamps: TxStamps,
    kind: Kind,
    /// Stream and number of each frame since the start, indexed by the number that the kernel
    /// assigns; `None` without a signature.
    sent: Vec<Option<(u16, u64)>>,
    log: Log,
    watch: Option<clock::Watch>,
}

impl Departing {
    /// Enables departures for a socket's frames.
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

    /// Begins a trial: frames are numbered from 0.
    pub(crate) fn begin(&mut self) -> std::io::Result<()> {
        self.stamps.restart(self.kind)?;
        self.sent.clear();
        self.log = Log::new(self.log.origin);
        self.watch = (self.kind == Kind::Software)
            .then(clock::Watch::begin)
            .transpose()?;
        Ok(())
    }

    /// Registers one more frame that was given to the socket.
    pub(crate) fn sent(&mut self, frame: Option<(u16, u64)>) {
        if self.sent.len() < MOST {
            self.sent.push(frame);
        } else {
            self.log.missing += 1;
        }
    }

    /// Reads the stamps that have arrived.
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

    /// Returns the number of frames whose stamps are missing.
    pub(crate) fn open(&self) -> usize {
        self.sent.iter().filter(|frame| frame.is_some()).count()
    }

    /// Returns all departures since the start.
    pub(crate) fn log(&mut self) -> Log {
        let mut log = self.log.clone();
        log.missing += self.open() as u64;
        log.step_ns = self.watch.as_ref().and_then(clock::Watch::step_ns);
        log
    }
}

/// Returns the error of an engine that does not support such stamps.
pub(crate) fn no_stamps(engine: &'static str, kind: Kind) -> EngineError {
    EngineError::Unsupported {
        engine,
        action: format!("provide {} timestamps; --engine af-packet can", kind.name()),
    }
}
