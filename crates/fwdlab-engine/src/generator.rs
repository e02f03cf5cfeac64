//! The interface of the crate: a [`Sender`] sends frames into ports, a [`Receiver`] counts what
//! comes back.
//!
//! Both know frames, ports and time, and nothing of test beds, searches or printing.
//! [`crate::traffic`] defines what they send, [`crate::analysis`] what they look for and report.
//! Every engine is one implementation; [`crate::Tester`] combines a sender with its receivers and
//! chooses between engines.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::analysis::{Analysis, Expected, ReceiveCounts};
use crate::error::EngineError;
use crate::histogram::Histogram;
use crate::load::LoadPlan;
use crate::netdev::Offers;
use crate::pacer::{CATCH_UP_US, StallPolicy};
use crate::port::PortSpec;
use crate::stamps::{Kind, Log, StaticName, no_stamps, read_static_name};
use crate::sys::monotonic_ns;
use crate::traffic::Frames;

/// A sending engine, by the name that appears in every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// XDP live frames: a BPF program sends from inside the kernel's test run.
    XdpLive,
    /// AF_XDP socket, copy mode.
    AfXdp,
    /// AF_PACKET socket, `sendmmsg` past the queueing discipline.
    AfPacket,
    /// Memory shared with a program such as VPP or DPDK. Only on request.
    Memif,
    /// A driver of DPDK, in a process of its own. Only on request.
    Dpdk,
    /// Writes frames to memory without sending them, to measure how fast that is. Only on request.
    Memory,
}

impl Mode {
    /// All senders that use a network interface, fastest first: the order in which they are tried.
    pub const ALL: [Mode; 3] = [Mode::XdpLive, Mode::AfXdp, Mode::AfPacket];

    /// Returns the senders that can use a port, fastest first.
    pub fn of(port: &PortSpec) -> &'static [Mode] {
        match port {
            _ if port.is_memif() => &[Mode::Memif],
            _ if port.is_dpdk() => &[Mode::Dpdk],
            _ => &Mode::ALL,
        }
    }

    /// Returns these senders in the order in which they are tried: a preferred one first.
    pub fn in_order(all: &[Mode], first: Option<Mode>) -> Vec<Mode> {
        let first = first.filter(|first| all.contains(first));
        let others = all.iter().copied();
        let others = others.filter(|mode| Some(*mode) != first);
        first.into_iter().chain(others).collect()
    }

    /// Returns the sender with this name; `None` if there is none, or for `auto`.
    pub fn named(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns the name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::XdpLive => "xdp-live",
            Mode::AfXdp => "af-xdp",
            Mode::AfPacket => "af-packet",
            Mode::Memif => "memif",
            Mode::Dpdk => "dpdk",
            Mode::Memory => "memory",
        }
    }
}

/// A receiver, by the name that appears in every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// An XDP program at the driver.
    Xdp,
    /// A packet socket.
    AfPacket,
    /// A thread that polls the memory of a memif port.
    Memif,
    /// A thread that polls the receive queues of a DPDK port.
    Dpdk,
}

impl Counting {
    /// All receivers that use a network interface, the cheapest first.
    pub const ALL: [Counting; 2] = [Counting::Xdp, Counting::AfPacket];

    /// Returns the receiver with this name.
    pub fn named(name: &str) -> Option<Counting> {
        let all = Counting::ALL
            .into_iter()
            .chain([Counting::Memif, Counting::Dpdk]);
        all.into_iter().find(|counting| counting.name() == name)
    }

    /// Returns the name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Counting::Xdp => "xdp",
            Counting::AfPacket => "af-packet",
            Counting::Memif => "memif",
            Counting::Dpdk => "dpdk",
        }
    }

    /// Returns the receivers that can use a port, the cheapest first.
    pub fn of(port: &PortSpec) -> &'static [Counting] {
        match port {
            _ if port.is_memif() => &[Counting::Memif],
            _ if port.is_dpdk() => &[Counting::Dpdk],
            _ => &Counting::ALL,
        }
    }
}

/// The properties of an engine on this host, for results and for the choice between engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// The engine.
    pub mode: Mode,
    /// One line for people.
    #[serde(deserialize_with = "read_static_name")]
    pub summary: StaticName,
    /// Needs CAP_BPF and CAP_NET_ADMIN outside of any user namespace.
    pub needs_privileges: bool,
    /// How a frame is copied on its way to the device.
    pub copies: Copies,
    /// Number of threads that send into each port.
    pub senders: u16,
    /// Number of queues used on each port.
    pub queues: u16,
    /// The kernel requests wake-ups (need-wakeup); otherwise the sender wakes it for every batch.
    pub need_wakeup: bool,
    /// The sender polls the driver, instead of interrupts.
    pub busy_poll: bool,
    /// Supports profiles: any frames at any times; otherwise only test frames of one size.
    pub profiles: bool,
    /// The load can be changed during a trial.
    pub hot_load: bool,
    /// The source of departure times.
    pub timestamps: Timestamps,
    /// Metadata support of the first port's device; [`Capabilities::metadata`] shows what is used
    /// of it.
    pub metadata: Offers,
    /// True if a frame counted as sent has reached a driver of the kernel, which counts it, too.
    pub counts_at_driver: bool,
}

/// How a frame is copied on its way to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Copies {
    /// The kernel copies every frame.
    ByKernel,
    /// No copy: the device reads the frame where it was written.
    ZeroCopy,
    /// No copy: the frame is written into the kernel's own memory.
    InKernel,
    /// The kernel is not involved: the peer reads the frame where it was written.
    ByPeer,
    /// No copy: the frame is not sent.
    Nowhere,
}

/// The source of the departure times that frames carry or senders report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timestamps {
    /// Frames carry no time.
    None,
    /// The intended departure, or at full speed the time of writing; CLOCK_MONOTONIC.
    Software,
    /// As `Software`, and the device can report when a frame really left.
    SoftwareAndDevice,
}

impl Capabilities {
    /// Returns the properties of a minimal engine: test frames through one queue, copied by the
    /// kernel. Others override what differs.
    pub const fn plain(mode: Mode, summary: StaticName) -> Capabilities {
        Capabilities {
            mode,
            summary,
            needs_privileges: false,
            copies: Copies::ByKernel,
            senders: 1,
            queues: 1,
            need_wakeup: false,
            busy_poll: false,
            profiles: false,
            hot_load: false,
            timestamps: Timestamps::None,
            metadata: Offers {
                zero_copy: None,
                redirect_target: None,
                tx_timestamp: false,
                tx_checksum: false,
                tx_launch_time: false,
                rx_timestamp: false,
            },
            counts_at_driver: true,
        }
    }

    /// Returns the device's metadata features: name, whether offered, and what the feature is used
    /// for or why it is not used.
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

    /// Returns the mode in use, for results: `af-xdp copy, 2 queues, need-wakeup`.
    pub fn reached(&self) -> String {
        let mut words = self.mode.name().to_owned();
        match self.copies {
            Copies::ByKernel if self.mode == Mode::AfXdp => words.push_str(" copy"),
            Copies::ZeroCopy => words.push_str(" zero-copy"),
            Copies::ByKernel | Copies::InKernel | Copies::ByPeer | Copies::Nowhere => {}
        }
        if self.senders != 1 {
            words.push_str(&format!(", {} senders", self.senders));
        }
        if self.queues != self.senders {
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

/// The schedule of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The intended load over time.
    pub load: LoadPlan,
    /// Send at most this number of frames.
    pub frames: Option<u64>,
    /// No frame is planned for later than this after the start.
    pub at_most: Duration,
    /// How to treat frames that are missed because the sender stalls. No frame leaves more than 100
    /// ms after the end.
    pub stall_policy: StallPolicy,
    /// Index of the path that gets the first frames.
    pub path: usize,
}

impl Schedule {
    /// A frame that leaves no later than this after its due time was not missed. A caller that
    /// sends a fixed number of frames in a given time extends the schedule by this much; otherwise
    /// the last frames of a short burst are cut off.
    pub const CATCH_UP: Duration = Duration::from_micros(CATCH_UP_US as u64);
}

/// The counts of a sender since [`Sender::start`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendCounts {
    /// Frames given to the port of each path.
    pub sent: Vec<u64>,
    /// Frames that were due but were not sent, because the sender stalled or the port refused them.
    pub not_sent: u64,
    /// Frames that were missed because the sender stalled, and were sent later: part of `sent`.
    pub made_up: u64,
    /// Frames sent of each stream of the traffic, in its order; empty for [`Frames::Test`].
    pub streams: Vec<u64>,
    /// How often frames were due and the ring or the queue was full.
    pub ring_full: u64,
    /// System calls that woke the kernel to send.
    pub wakeups: u64,
    /// Bytes of the frames sent, without FCS, for frames of unknown sizes.
    pub bytes: Option<u64>,
    /// Time during which its threads were runnable but their CPUs were busy with other tasks, in
    /// nanoseconds, as far as the kernel reports it.
    pub waited_ns: u64,
    /// The counts of each of several senders of a port; empty for one sender.
    #[serde(default)]
    pub senders: Vec<SendCounts>,
}

impl SendCounts {
    /// Returns the counts of several senders of the same ports.
    pub fn of_senders(senders: Vec<SendCounts>) -> SendCounts {
        let mut all = SendCounts::default();
        for own in &senders {
            add_each(&mut all.sent, &own.sent);
            add_each(&mut all.streams, &own.streams);
            all.not_sent += own.not_sent;
            all.made_up += own.made_up;
            all.ring_full += own.ring_full;
            all.wakeups += own.wakeups;
            all.waited_ns += own.waited_ns;
        }
        SendCounts { senders, ..all }
    }

    /// Returns the frames sent on all paths.
    pub fn total(&self) -> u64 {
        self.sent.iter().sum()
    }
}

fn add_each(sums: &mut Vec<u64>, more: &[u64]) {
    sums.resize(sums.len().max(more.len()), 0);
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

/// Start and end of sending, CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendingTimes {
    /// When the schedule began.
    pub begun_ns: u64,
    /// When the last frame was sent; `None` if not all frames were sent, because it is still
    /// running, was stopped, or ran out of time.
    pub ended_ns: Option<u64>,
    /// From the first frame to the last by times that only the sender knows: those of a recording.
    pub planned_ns: Option<u64>,
}

/// Sends frames into ports, from its own thread.
pub trait Sender: Send {
    /// Returns the properties of this engine.
    fn capabilities(&self) -> Capabilities;

    /// Prepares the frames of the next trial. Sends nothing.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: this engine cannot send such frames, another may. Other
    /// errors: none can.
    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError>;

    /// Starts sending and returns immediately.
    ///
    /// # Errors
    /// If the sender is not armed or still running, or the system refuses.
    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError>;

    /// From the next [`start`](Self::start) on, yields the CPU while no frame is due for some time:
    /// for senders that share a CPU. Departures get some microseconds less precise.
    fn share_cpu(&mut self) {}

    /// Like [`Sender::start`], but the schedule's clock starts at `begin_ns` of CLOCK_MONOTONIC:
    /// for senders that begin together.
    ///
    /// # Errors
    /// As [`Sender::start`]; [`EngineError::Unsupported`] if this engine cannot.
    fn start_at(&mut self, _schedule: Schedule, _begin_ns: u64) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: self.capabilities().mode.name(),
            action: "begin at a certain time".into(),
        })
    }

    /// Sends into another path from now on; takes effect within a batch.
    ///
    /// # Errors
    /// If there is no such path, or the system refuses.
    fn select(&mut self, path: usize) -> Result<(), EngineError>;

    /// Pauses for the returned time, then continues with newly allocated memory, if the sender
    /// allocates memory from the system; no frames are due during the pause. The location of frames
    /// in memory determines how often CPU caches collide, and changes the speed of the DUT by some
    /// 2 %: one trial should cover more than one location.
    ///
    /// # Errors
    /// If the sender is not running, or the system refuses.
    fn renew(&mut self) -> Result<Duration, EngineError> {
        Ok(Duration::ZERO)
    }

    /// Changes the intended load, in frames per second, without a gap. Frames missed before are
    /// treated as [`StallPolicy`] defines. For interactive control; a load that is known in advance
    /// is a [`LoadPlan`].
    ///
    /// # Errors
    /// If the sender is not running, was started at full speed or with stretches, or cannot.
    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError>;

    /// Changes the rate of each stream of the traffic, in its order, in frames per second at most;
    /// 0 pauses a stream until its rate changes again. For control of single streams;
    /// [`set_load`](Self::set_load) scales all of them alike.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if this engine cannot, or not with such frames. Fails if the
    /// sender is not running at one load.
    fn set_rates(&mut self, _rates: &[f64]) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: self.capabilities().mode.name(),
            action: "change the rate of a stream while it sends".into(),
        })
    }

    /// Returns how much later than intended frames have left since the start: for each look at the
    /// clock that found due frames, the lateness of the oldest. `None` at full speed.
    ///
    /// # Errors
    /// If the counters cannot be read.
    fn lateness(&self) -> Result<Option<Histogram>, EngineError>;

    /// Returns when it began and ended; `None` if unknown. Valid until it is stopped.
    fn sending_times(&self) -> Option<SendingTimes> {
        None
    }

    /// Returns the counts since the start; cheap, at any time.
    ///
    /// # Errors
    /// If the counters cannot be read.
    fn counts(&self) -> Result<SendCounts, EngineError>;

    /// Like [`Sender::counts`], with the time of the reading on the sending machine,
    /// CLOCK_MONOTONIC in nanoseconds.
    ///
    /// # Errors
    /// As [`Sender::counts`].
    fn counts_at(&self) -> Result<(SendCounts, u64), EngineError> {
        let counts = self.counts()?;
        Ok((counts, monotonic_ns()))
    }

    /// Stops sending, waits for the thread, and returns the final counts.
    ///
    /// # Errors
    /// If the thread failed.
    fn stop(&mut self) -> Result<SendCounts, EngineError>;

    /// Like [`Sender::stop`], with the time of the reading on the sending machine.
    ///
    /// # Errors
    /// As [`Sender::stop`].
    fn stop_at(&mut self) -> Result<(SendCounts, u64), EngineError> {
        let counts = self.stop()?;
        Ok((counts, monotonic_ns()))
    }

    /// Returns true if everything was sent or the time is over.
    fn is_done(&self) -> bool;

    /// Records such departures of all frames in the following trials, for
    /// [`departures`](Self::departures).
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: not with this engine, or not on these ports.
    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        match kind {
            Kind::User => Ok(()),
            _ => Err(no_stamps(self.capabilities().mode.name(), kind)),
        }
    }

    /// Returns the departures of the last trial, after it was stopped; `None` if they were not
    /// requested.
    fn departures(&mut self) -> Option<Log> {
        None
    }
}

/// Counts the frames that come back on one port.
pub trait Receiver: Send {
    /// Returns the name in results.
    fn name(&self) -> &'static str;

    /// Sets the frames to expect from now on; counts restart at zero.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: this receiver cannot find such signatures or make this
    /// analysis. Other errors: the system refuses.
    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError>;

    /// Returns the counts since [`Receiver::expect`]; cheap, at any time.
    ///
    /// # Errors
    /// If the counters cannot be read.
    fn counts(&mut self) -> Result<ReceiveCounts, EngineError>;

    /// Like [`Receiver::counts`], with the time of the reading on the receiving machine,
    /// CLOCK_MONOTONIC in nanoseconds.
    ///
    /// # Errors
    /// As [`Receiver::counts`].
    fn counts_at(&mut self) -> Result<(ReceiveCounts, u64), EngineError> {
        let at_ns = monotonic_ns();
        Ok((self.counts()?, at_ns))
    }

    /// Returns true if it will never answer again, for example because the connection to its
    /// machine was lost. Stop sending to it then.
    fn is_lost(&self) -> bool {
        false
    }

    /// Returns the analysis since [`Receiver::expect`]; `None` if none was requested.
    ///
    /// # Errors
    /// If the counters cannot be read.
    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError>;

    /// Records such arrivals of all analysed frames in the following trials, for
    /// [`arrivals`](Self::arrivals).
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: not with this receiver, or not on this port.
    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        match kind {
            Kind::User => Ok(()),
            _ => Err(no_stamps(self.name(), kind)),
        }
    }

    /// Returns the arrivals since [`Receiver::expect`], after [`Receiver::analysis`]; `None` if
    /// they were not requested.
    fn arrivals(&mut self) -> Option<Log> {
        None
    }
}
