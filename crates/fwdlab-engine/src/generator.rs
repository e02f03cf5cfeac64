//! The doors of the crate: a [`Sender`] puts frames on ports, a [`Receiver`] counts what comes back.
//!
//! Both know frames, ports and time, and nothing of test beds, searches or printing. What they send is in
//! [`crate::traffic`], what they look for and find in [`crate::analysis`]. Every engine is one implementation;
//! [`crate::Tester`] puts a sender and its receivers together and chooses between engines.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::analysis::{Analysis, Expected, ReceiveCounts};
use crate::error::EngineError;
use crate::histogram::Histogram;
use crate::load::LoadPlan;
use crate::netdev::Offers;
use crate::pacer::{CATCH_UP_US, HoldUps};
use crate::stamps::{Kind, Log, no_stamps};
use crate::sys::monotonic_ns;
use crate::traffic::Frames;

/// Which engine, by the name that appears in every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// XDP live frames: a BPF program sends from inside the kernel's test run.
    XdpLive,
    /// AF_XDP socket, copy mode.
    AfXdp,
    /// AF_PACKET socket, `sendmmsg` past the queueing discipline.
    AfPacket,
    /// Frames are written and go nowhere: how fast that is. Only when asked for.
    Memory,
}

impl Mode {
    /// All senders that reach a port, fastest first: the order in which they are tried.
    pub const ALL: [Mode; 3] = [Mode::XdpLive, Mode::AfXdp, Mode::AfPacket];

    /// The sender of that name; `None`: there is none, or it is to be chosen (`auto`).
    pub fn named(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::XdpLive => "xdp-live",
            Mode::AfXdp => "af-xdp",
            Mode::AfPacket => "af-packet",
            Mode::Memory => "memory",
        }
    }
}

/// Which receiver, by the name that appears in every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// An XDP program at the driver.
    Xdp,
    /// A packet socket.
    AfPacket,
}

impl Counting {
    /// All, the one of lowest cost first.
    pub const ALL: [Counting; 2] = [Counting::Xdp, Counting::AfPacket];

    /// The name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Counting::Xdp => "xdp",
            Counting::AfPacket => "af-packet",
        }
    }
}

/// What an engine is and can do here, for results and for the choice between engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The engine.
    pub mode: Mode,
    /// One line for people.
    pub summary: &'static str,
    /// Needs CAP_BPF and CAP_NET_ADMIN outside of any user namespace.
    pub needs_privileges: bool,
    /// Who copies a frame on its way to the device.
    pub copies: Copies,
    /// Queues of each port that it sends into.
    pub queues: u16,
    /// The kernel says when it wants to be told about new frames; otherwise it is told about every batch.
    pub need_wakeup: bool,
    /// The driver is polled by the sender, not by interrupts.
    pub busy_poll: bool,
    /// Sends what a profile says, any frames at any times; otherwise only test frames of one size.
    pub profiles: bool,
    /// The load can be changed while it sends.
    pub hot_load: bool,
    /// Who says when a frame left.
    pub timestamps: Timestamps,
    /// What the first port's device offers beside frames; [`Capabilities::metadata`] says what is used of it.
    pub metadata: Offers,
    /// A frame counted as sent has been given to the device driver.
    pub counts_at_driver: bool,
}

/// Who copies a frame on its way to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// The kernel, each.
    ByKernel,
    /// Nobody: the device reads it where it was written.
    ZeroCopy,
    /// Nobody: it is written into the kernel's own memory.
    InKernel,
    /// Nobody, for it goes nowhere.
    Nowhere,
}

/// Where the departure times come from that frames carry or senders report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamps {
    /// Frames carry no time.
    None,
    /// The intended departure, or flat out the time of writing, CLOCK_MONOTONIC.
    Software,
    /// That, and the device can say when a frame really left.
    SoftwareAndDevice,
}

impl Capabilities {
    /// A sender that runs somewhere else, with what it says of itself there.
    pub const fn of(mode: Mode, summary: &'static str) -> Capabilities {
        Capabilities::plain(mode, summary)
    }

    /// An engine that can do little: test frames through one queue, copied by the kernel. Others say where they differ.
    pub(crate) const fn plain(mode: Mode, summary: &'static str) -> Capabilities {
        Capabilities {
            mode,
            summary,
            needs_privileges: false,
            copies: Copies::ByKernel,
            queues: 1,
            need_wakeup: false,
            busy_poll: false,
            profiles: false,
            hot_load: false,
            timestamps: Timestamps::None,
            metadata: Offers {
                tx_timestamp: false,
                tx_checksum: false,
                tx_launch_time: false,
                rx_timestamp: false,
            },
            counts_at_driver: true,
        }
    }

    /// What can be had of the device beside sending, and whether it is used: name, offered, and what for or why not.
    pub fn metadata(&self) -> [(&'static str, bool, &'static str); 4] {
        let offers = self.metadata;
        let departures = match (offers.tx_timestamp, self.copies) {
            (false, _) => "not used: the device does not offer it",
            (true, Copies::ZeroCopy) => "used for departures of --timestamps hardware",
            (true, _) => "not used: in copy mode the kernel records when it freed a frame",
        };
        [
            ("tx-timestamp", offers.tx_timestamp, departures),
            (
                "tx-checksum",
                offers.tx_checksum,
                "not used: checksums are already in the frames, and cost next to nothing there",
            ),
            (
                "tx-launch-time",
                offers.tx_launch_time,
                "not used: it needs a queueing discipline and the card's clock; the sender paces frames",
            ),
            (
                "xdp-rx-timestamp",
                offers.rx_timestamp,
                "not used for latencies: the card's arrival times come through SO_TIMESTAMPING",
            ),
        ]
    }

    /// The mode that was reached, for results: `af-xdp copy, 2 queues, need-wakeup`.
    pub fn reached(&self) -> String {
        let mut words = self.mode.name().to_owned();
        match self.copies {
            Copies::ByKernel if self.mode == Mode::AfXdp => words.push_str(" copy"),
            Copies::ZeroCopy => words.push_str(" zero-copy"),
            Copies::ByKernel | Copies::InKernel | Copies::Nowhere => {}
        }
        if self.queues != 1 {
            words.push_str(&format!(", {} queues", self.queues));
        }
        if self.need_wakeup {
            words.push_str(", need-wakeup");
        }
        if self.busy_poll {
            words.push_str(", busy-poll");
        }
        if self.timestamps == Timestamps::SoftwareAndDevice {
            words.push_str(", device timestamps");
        }
        words
    }
}

/// When frames leave.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The intended load over time.
    pub load: LoadPlan,
    /// Send so many frames and no more.
    pub frames: Option<u64>,
    /// No frame is planned for later than this after the start.
    pub at_most: Duration,
    /// What becomes of frames that are missed because the sender is held up. None leaves more than 100 ms after the end.
    pub hold_ups: HoldUps,
    /// Index of the path that gets the first frames.
    pub path: usize,
}

impl Schedule {
    /// A frame that leaves no later than this after it was due was not missed. Who has so many frames sent in a time lets the schedule
    /// last so much longer, or the last ones of a short burst are cut off.
    pub const CATCH_UP: Duration = Duration::from_micros(CATCH_UP_US as u64);
}

/// What a sender has done since [`Sender::start`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendCounts {
    /// Frames given to the port of each path.
    pub sent: Vec<u64>,
    /// Frames that were due but could not be sent: the sender was held up or refused.
    pub not_sent: u64,
    /// Frames that were missed because the sender was held up, and sent later: part of `sent`.
    pub made_up: u64,
    /// Frames sent of each stream of the traffic, in its order; empty for [`Frames::Test`].
    pub streams: Vec<u64>,
    /// How often frames were due and the ring or the queue had no room for one.
    pub ring_full: u64,
    /// System calls that told the kernel to send.
    pub wakeups: u64,
    /// Bytes of the frames sent, without FCS, where nobody knows before which these are.
    pub bytes: Option<u64>,
    /// For how long its threads were ready to run and something else had their CPUs, in nanoseconds, as far as the kernel says.
    pub waited_ns: u64,
}

impl SendCounts {
    /// Frames sent on all paths.
    pub fn total(&self) -> u64 {
        self.sent.iter().sum()
    }
}

/// When a sender sent, CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Course {
    /// Its schedule began.
    pub begun_ns: u64,
    /// It had sent all that it was to send; `None`: it has not, was stopped, or its time was over before.
    pub ended_ns: Option<u64>,
    /// From the first frame to the last by times that only the sender knows, those of a recording.
    pub planned_ns: Option<u64>,
}

/// Puts frames on ports, from a thread of its own.
pub trait Sender: Send {
    /// What this engine is and can.
    fn capabilities(&self) -> Capabilities;

    /// Prepares the frames of the next trial. Nothing is sent.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: this engine cannot send such frames, another may. Other errors: none can.
    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError>;

    /// Starts to send and returns at once.
    ///
    /// # Errors
    /// The sender is not armed, still running, or the system refuses.
    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError>;

    /// From the next [`start`](Self::start) on it leaves its CPU to others while nothing is due for long: for senders that share one. Frames leave
    /// some microseconds less exactly.
    fn share_cpu(&mut self) {}

    /// As [`Sender::start`], and the schedule's clock starts at `begin_ns` of CLOCK_MONOTONIC: for senders that begin together.
    ///
    /// # Errors
    /// As [`Sender::start`]; [`EngineError::Unsupported`]: not this engine.
    fn start_at(&mut self, _schedule: Schedule, _begin_ns: u64) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: self.capabilities().mode.name(),
            what: "begin at a certain time".into(),
        })
    }

    /// Sends from now on into another path; takes effect within a batch.
    ///
    /// # Errors
    /// There is no such path, or the system refuses.
    fn select(&mut self, path: usize) -> Result<(), EngineError>;

    /// Pauses for the returned time and goes on with memory newly taken from the system, where the sender takes memory
    /// from it; the frames of the pause are not due. Where frames lie in memory decides how often the caches of the CPUs
    /// collide, and so by some 2 % how fast the DUT is: one trial should see more than one arrangement.
    ///
    /// # Errors
    /// The sender does not run, or the system refuses.
    fn renew(&mut self) -> Result<Duration, EngineError> {
        Ok(Duration::ZERO)
    }

    /// Sends with another intended load from now on, in frames per second, without a gap. Of what was missed before becomes what
    /// [`HoldUps`] says. For somebody who watches and decides; a load that is known before is a [`LoadPlan`].
    ///
    /// # Errors
    /// The sender does not run, was started flat out or with stretches, or cannot.
    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError>;

    /// Sends each stream of the traffic, in its order, at another rate from now on, in frames per second at most; 0 holds it until
    /// it gets another. For somebody who steers streams one by one; [`set_load`](Self::set_load) scales all of them alike.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: not this engine, or not with such frames. The sender does not run at one load.
    fn set_rates(&mut self, _rates: &[f64]) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: self.capabilities().mode.name(),
            what: "change the rate of a stream while it sends".into(),
        })
    }

    /// By how much frames left later than intended since the start: one value for each look at the clock that found frames
    /// due, that of the oldest. `None` when flat out.
    ///
    /// # Errors
    /// The counters cannot be read.
    fn lateness(&self) -> Result<Option<Histogram>, EngineError>;

    /// When it began and ended; `None`: it does not say. Known until it is stopped.
    fn course(&self) -> Option<Course> {
        None
    }

    /// Counts since the start; cheap, at any time.
    ///
    /// # Errors
    /// The counters cannot be read.
    fn counts(&self) -> Result<SendCounts, EngineError>;

    /// The same, and when that was by the clock of the machine that sends, CLOCK_MONOTONIC in nanoseconds.
    ///
    /// # Errors
    /// As [`Sender::counts`].
    fn counts_at(&self) -> Result<(SendCounts, u64), EngineError> {
        let counts = self.counts()?;
        Ok((counts, monotonic_ns()))
    }

    /// Ends sending, waits for the thread, and returns the final counts.
    ///
    /// # Errors
    /// The thread failed.
    fn stop(&mut self) -> Result<SendCounts, EngineError>;

    /// The same, and when that was by the clock of the machine that sends.
    ///
    /// # Errors
    /// As [`Sender::stop`].
    fn stop_at(&mut self) -> Result<(SendCounts, u64), EngineError> {
        let counts = self.stop()?;
        Ok((counts, monotonic_ns()))
    }

    /// Has everything been sent, or the time run out?
    fn is_done(&self) -> bool;

    /// Takes such departures of all frames in the trials to come, for [`departures`](Self::departures).
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: not this engine, or not on these ports.
    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        match kind {
            Kind::User => Ok(()),
            _ => Err(no_stamps(self.capabilities().mode.name(), kind)),
        }
    }

    /// The departures of the last trial, once it was stopped; `None` where none were asked for.
    fn departures(&mut self) -> Option<Log> {
        None
    }
}

/// Counts the frames that come back on one port.
pub trait Receiver: Send {
    /// The name in results.
    fn name(&self) -> &'static str;

    /// Such frames are expected from now on; counts start at zero.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: this receiver cannot find such signatures or make this analysis. Other errors: the
    /// system refuses.
    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError>;

    /// Counts since [`Receiver::expect`]; cheap, at any time.
    ///
    /// # Errors
    /// The counters cannot be read.
    fn counts(&mut self) -> Result<ReceiveCounts, EngineError>;

    /// The same, and when that was by the clock of the machine that receives, CLOCK_MONOTONIC in nanoseconds.
    ///
    /// # Errors
    /// As [`Receiver::counts`].
    fn counts_at(&mut self) -> Result<(ReceiveCounts, u64), EngineError> {
        let at_ns = monotonic_ns();
        Ok((self.counts()?, at_ns))
    }

    /// Will it never say anything again, as one on a machine that was lost? Nobody should send to it any longer.
    fn is_lost(&self) -> bool {
        false
    }

    /// What the analysis found since [`Receiver::expect`]; `None` when none was asked for.
    ///
    /// # Errors
    /// The counters cannot be read.
    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError>;

    /// Takes such arrivals of all frames that are analysed in the trials to come, for [`arrivals`](Self::arrivals).
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: not this receiver, or not on this port.
    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        match kind {
            Kind::User => Ok(()),
            _ => Err(no_stamps(self.name(), kind)),
        }
    }

    /// The arrivals since [`Receiver::expect`], after [`Receiver::analysis`]; `None` where none were asked for.
    fn arrivals(&mut self) -> Option<Log> {
        None
    }
}
