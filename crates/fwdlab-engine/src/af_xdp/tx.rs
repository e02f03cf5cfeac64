//! The AF_XDP sender: frames in shared memory, one socket for each used queue of each path's port.
//!
//! In copy mode the kernel works only inside the wake-up call, on one batch of frames per call. It
//! stops early if the driver drops a frame (EBUSY; the frame is consumed and is a `tx_dropped` of
//! the port) or cannot take it (EAGAIN; it stays in the ring). So every frame that has left the
//! ring was given to the driver: `sent = tx_packets + tx_dropped`, and frames still in the ring at
//! the end are not sent. With zero-copy, a frame is sent when the device has returned it.
//!
//! A single thread serves all queues: there is one schedule and one order of frames, exact to the
//! frame. Writing a frame costs 1 % of what the kernel needs to send one in copy mode; with
//! zero-copy a second queue lets the driver work on another CPU. Frames of one flow stay on one
//! queue. Several threads have a queue, a socket and memory each, and share nothing.

use std::os::fd::OwnedFd;
use std::time::Duration;
use std::{io, thread};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::memory::FrameMemory;
use super::metadata;
use super::socket::{ENTRIES, Given, Queue};
use super::sys::{CHUNK_BYTES, receive_ring, transmit_queues};
use crate::error::EngineError;
use crate::generator::{Capabilities, Copies, Mode, Schedule, Sender, Timestamps};
use crate::netdev::{Offers, XdpPass, check_queues};
use crate::port::{PathSpec, PortSpec, interface_index, within};
use crate::sender::counters::Counters;
use crate::sender::source::{Outline, Signed, Source};
use crate::sender::thread::{BATCH, SocketSender, Transmit};
use crate::stamps::{self, Kind, Log, Origin, Stamped};
use crate::traffic::share::Share;

/// The kernel releases a queue some time after its socket is closed, and returns EBUSY until then.
const RELEASE_TRIES: u32 = 50;
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

/// How long the end of a trial waits for frames that the driver does not take at once, and how long
/// the next one waits for frames that are still in the DUT.
const END_TRIES: u32 = 20;
const END_PAUSE: Duration = Duration::from_millis(1);

/// Options of the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Number of queues of each port; `None`: all with zero-copy, and one without, where a second
    /// gains nothing.
    pub queues: Option<u16>,
    /// Whether the device reads frames in place.
    pub zero_copy: ZeroCopy,
    /// Poll the driver from the sender's own system calls instead of by interrupts. Only useful if
    /// the driver defers those (`napi_defer_hard_irqs`, `gro_flush_timeout`), and without effect on
    /// veth.
    pub busy_poll: Option<BusyPoll>,
    /// Use the time that the kernel writes into the metadata of frames as software stamps, if no
    /// device writes it. For experiments only; it is not a departure (see
    /// [`Origin::FREED`](crate::stamps::Origin::FREED)).
    pub freed_stamps: bool,
}

/// Whether to use zero-copy, which needs driver support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroCopy {
    /// If the driver supports it.
    #[default]
    Try,
    /// Never.
    Never,
    /// Fail without it.
    Require,
}

/// How to poll the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusyPoll {
    /// Time of one poll, in microseconds.
    pub wait_us: u32,
    /// Number of frames per poll; more than 64 needs CAP_NET_ADMIN.
    pub budget: u32,
}

/// Opens the sender on the sending ports of all paths, in the best mode that they support.
///
/// # Errors
/// If an interface does not exist, the kernel has no AF_XDP, another AF_XDP socket uses the queue,
/// or without CAP_NET_RAW.
pub fn sender(paths: &[PathSpec], cpus: &[usize]) -> Result<impl Sender + use<>, EngineError> {
    sender_with(paths, cpus, Options::default())
}

/// Opens the sender with these options.
///
/// # Errors
/// As [`sender`]; zero-copy is required and the driver has none; the port has fewer queues.
pub fn sender_with(
    paths: &[PathSpec],
    cpus: &[usize],
    options: Options,
) -> Result<impl Sender + use<>, EngineError> {
    let transmit = XdpTransmit::open(paths, options, 0)?;
    Ok(SocketSender::new(paths.len(), cpus, transmit))
}

/// Opens the sender with several threads, each with its own queue and memory.
///
/// # Errors
/// As [`sender`]; if a port has fewer queues, or its veth peer receives from fewer.
pub fn senders(
    paths: &[PathSpec],
    cpus: &[usize],
    senders: u32,
) -> Result<impl Sender + use<>, EngineError> {
    let options = Options {
        // a thread serves one queue, or all of them if it is the only one
        queues: (senders > 1).then_some(1),
        ..Options::default()
    };
    let shares = Share::all(senders)?;
    if senders > 1 {
        for PathSpec { tx, .. } in paths {
            let queues = within(&tx.netns, || Ok(count_queues(&tx.interface)))?;
            if queues < senders {
                return Err(EngineError::Unsupported {
                    engine: Mode::AfXdp.name(),
                    action: format!(
                        "send with {senders} threads into {}, which has {queues} queues to send into; see ethtool -l",
                        tx.interface
                    ),
                });
            }
        }
        check_queues(Mode::AfXdp.name(), paths, senders)?;
    }
    let transmits = (shares.iter()).map(|share| XdpTransmit::open(paths, options, share.sender));
    let transmits = transmits.collect::<Result<_, _>>()?;
    Ok(SocketSender::with_threads(paths.len(), cpus, transmits))
}

struct XdpTransmit {
    ports: Vec<Port>,
    /// Index of the path that was used last.
    current: usize,
}

/// One path's port: memory, and a socket for each queue.
struct Port {
    spec: PortSpec,
    options: Options,
    /// Number of the first queue.
    first: u32,
    memory: FrameMemory,
    slots: usize,
    /// Chunks that each queue gives to a driver that may receive in place; 0: none. Drivers such as
    /// ice and i40e take as many as their receive ring has entries, and lose their own buffers if
    /// they get fewer.
    given: u32,
    /// Closed after a trial that left frames in a ring: they must not leave with the next.
    queues: Vec<Queue>,
    wanted: usize,
    zero_copy: bool,
    /// Drivers such as ixgbe, i40e and ice read frames in place only while they have a program.
    /// `None` in copy mode, and if there is a program already.
    pass: Option<XdpPass>,
    offers: Offers,
    /// Departures, if requested.
    departing: Option<Departing>,
}

/// The departures of a port's frames, from their metadata.
struct Departing {
    signed: Option<Signed>,
    log: Log,
}

impl Departing {
    fn note(&mut self, completed: Option<(Option<u64>, &[u8])>) {
        let Some((time, frame)) = completed else {
            return;
        };
        let number = self.signed.and_then(|signed| signed.number(frame));
        match (time, number) {
            (Some(at_ns), Some((stream, number))) => self.log.push(Stamped {
                stream,
                number,
                at_ns,
            }),
            (None, Some(_)) => self.log.missing += 1,
            (_, None) => {}
        }
    }
}

impl XdpTransmit {
    /// Opens the ports, each from this queue on.
    fn open(paths: &[PathSpec], options: Options, first: u32) -> Result<XdpTransmit, EngineError> {
        let ports = paths
            .iter()
            .map(|path| Port::open(&path.tx, options, first));
        Ok(XdpTransmit {
            ports: ports.collect::<Result<_, _>>()?,
            current: 0,
        })
    }
}

impl Port {
    fn open(spec: &PortSpec, options: Options, first: u32) -> Result<Port, EngineError> {
        let existing = within(&spec.netns, || Ok(count_queues(&spec.interface)))?;
        if let Some(queues) = options.queues
            && !(1..=existing).contains(&u32::from(queues))
        {
            return Err(EngineError::Frames(format!(
                "{} has {existing} queues to send into, not {queues}; see ethtool -l",
                spec.interface
            )));
        }
        let queues = options.queues.map_or(existing as usize, usize::from);
        let slots = ENTRIES as usize * queues;
        let offers = within(&spec.netns, || {
            Ok(Offers::query(interface_index(&spec.interface)?))
        })?;
        let copies = options.zero_copy == ZeroCopy::Never || offers.zero_copy == Some(false);
        let given = match copies {
            true => 0,
            // a driver may report any length, the kernel's rings are powers of two
            false => within(&spec.netns, || Ok(count_buffers(&spec.interface)))?,
        };
        let mut port = Port {
            spec: spec.clone(),
            options,
            first,
            memory: FrameMemory::new(slots, given as usize * queues)?,
            slots,
            given,
            queues: vec![],
            wanted: 1,
            zero_copy: false,
            pass: (!copies).then(|| XdpPass::open(spec).ok()).flatten(),
            offers,
            departing: None,
        };
        port.reopen()?;
        port.zero_copy = port.queues.iter().all(|queue| queue.zero_copy);
        port.pass = port.pass.filter(|_| port.zero_copy);
        port.wanted = match options.queues {
            Some(queues) => queues.into(),
            None if port.zero_copy => existing as usize,
            None => 1,
        };
        port.reopen()?;
        Ok(port)
    }

    /// Opens the sockets that are not open.
    fn reopen(&mut self) -> Result<(), EngineError> {
        if self.queues.len() >= self.wanted {
            return Ok(());
        }
        if self.queues.is_empty() {
            self.memory.reclaim();
        }
        let Port {
            spec,
            options,
            memory,
            queues,
            wanted: requested,
            departing,
            slots,
            given,
            first: first_queue,
            ..
        } = self;
        let region = memory.region();
        let with_metadata = departing.is_some();
        within(&spec.netns, || {
            let interface = interface_index(&spec.interface)?;
            while queues.len() < *requested {
                let own = queues.len() as u32;
                let number = *first_queue + own;
                let first = queues.first();
                let given = (*given > 0).then_some(Given {
                    first_chunk: *slots + (own * *given) as usize,
                    entries: *given,
                });
                let queue = open_patiently(|| {
                    let metadata = with_metadata;
                    Queue::open(interface, number, region, options, first, metadata, given)
                });
                queues.push(queue.map_err(|e| refused(&spec.interface, number, *options, e))?);
            }
            Ok(())
        })
    }

    /// Takes back the returned frames; returns how many of this trial have not been sent.
    fn unsent(&mut self) -> u64 {
        let mut unsent = 0;
        for queue in &mut self.queues {
            while let Some(start) = queue.complete() {
                if let Some(departing) = &mut self.departing {
                    departing.note(self.memory.completed(start));
                }
                self.memory.release(start);
            }
            unsent += queue.unsent();
        }
        unsent
    }

    #[inline]
    fn fill<S: Source>(&mut self, frames: &mut S, counters: &Counters) {
        let mut taken = 0;
        while taken < BATCH && frames.has_next() {
            let queue = match self.queues.len() {
                0 => return,
                1 => 0,
                queues => self.memory.lane(frames) as usize % queues,
            };
            let queue = &mut self.queues[queue];
            let room = queue.has_room();
            let Some((start, slot)) = room.then(|| self.memory.take(frames)).flatten() else {
                counters.ring_was_full();
                break;
            };
            queue.push(start, slot.bytes, slot.stream);
            taken += 1;
        }
        self.queues.iter().for_each(Queue::publish);
    }

    /// Lets the kernel send the frames in the rings, until they are empty or nothing moves.
    fn drain(&mut self, counters: &Counters) -> Result<(), EngineError> {
        let mut unsent = self.unsent();
        while unsent > 0 {
            for queue in &mut self.queues {
                if queue.unsent() > 0 {
                    queue.wake(counters).map_err(|e| {
                        EngineError::system(format!("send into {}", self.spec.interface), e)
                    })?;
                }
            }
            let before = std::mem::replace(&mut unsent, self.unsent());
            if unsent == before {
                break;
            }
        }
        Ok(())
    }

    /// Returns why the device does not report departures.
    fn against_departures(&self, kind: Kind) -> Option<String> {
        let refuse = |words: &str| Some(format!("{} {words}", self.spec.interface));
        match kind {
            Kind::User => None,
            Kind::Software if self.options.freed_stamps => None,
            Kind::Software => refuse(
                "has no socket through which the kernel reports when the driver takes a frame; use --engine af-packet",
            ),
            Kind::Hardware if !self.offers.tx_timestamp => {
                refuse("offers none in metadata (netdev: no tx-timestamp in xsk-features)")
            }
            Kind::Hardware if !self.zero_copy => refuse(
                "is in copy mode, where the kernel records when it freed a frame, not when the frame left",
            ),
            Kind::Hardware => None,
        }
    }

    /// Counts the sent frames.
    fn publish(&mut self, path: usize, counters: &Counters) {
        let sent = self.queues.iter_mut().map(|queue| queue.count(counters));
        counters.set_sent(path, sent.sum());
    }
}

fn open_patiently(open: impl Fn() -> io::Result<Queue>) -> io::Result<Queue> {
    let mut tries = RELEASE_TRIES;
    loop {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries > 0 => {
                tries -= 1;
                thread::sleep(RELEASE_PAUSE);
            }
            result => return result,
        }
    }
}

/// Returns the error of a socket in the port's namespace, with its cause and remedy.
fn refused(port: &str, queue: u32, options: Options, source: io::Error) -> EngineError {
    let other = "use --engine af-packet";
    let remedy = match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "run as root, or with CAP_NET_RAW".into(),
        Some(libc::EBUSY) => {
            format!("another AF_XDP socket uses this queue: end its program, or {other}")
        }
        Some(libc::ENETDOWN) => format!("the port is down: ip link set {port} up"),
        Some(libc::EAFNOSUPPORT) => {
            format!("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): {other}")
        }
        Some(libc::EOPNOTSUPP) if options.zero_copy == ZeroCopy::Require => {
            "this driver has no zero-copy mode: use copy mode".into()
        }
        Some(libc::EOPNOTSUPP) => format!("this driver has no AF_XDP: {other}"),
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            "memory is short, or limited: free some, or raise ulimit -l".into()
        }
        Some(libc::EINVAL) => format!(
            "the queue may not exist, or the MTU may be too large for the driver (ethtool -l {port}; ip link show {port}); or {other}"
        ),
        _ => String::new(),
    };
    EngineError::NoXdpSocket {
        port: port.into(),
        queue,
        driver: stamps::sys::driver(port).unwrap_or_else(|_| "an unknown driver".into()),
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        source,
        remedy: match remedy.as_str() {
            "" => remedy,
            remedy => format!("; {remedy}"),
        },
    }
}

/// Returns the number of queues that a port can send into; 1 if the driver does not report it.
fn count_queues(interface: &str) -> u32 {
    let queues = ask_driver(|socket| transmit_queues(socket, interface));
    queues.unwrap_or(1).max(1)
}

/// Returns the number of buffers that a driver wants for each receive queue, as a power of two.
fn count_buffers(interface: &str) -> u32 {
    /// If the driver does not report it: the longest receive ring of most drivers.
    const UNKNOWN: u32 = 4096;
    let ring = ask_driver(|socket| receive_ring(socket, interface)).filter(|&ring| ring > 0);
    ring.unwrap_or(UNKNOWN).clamp(64, 32768).next_power_of_two()
}

fn ask_driver(question: impl FnOnce(&OwnedFd) -> io::Result<u32>) -> Option<u32> {
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).ok()?;
    question(&socket).ok()
}

impl Transmit for XdpTransmit {
    fn capabilities(&self) -> Capabilities {
        let zero_copy = self.ports.iter().all(|port| port.zero_copy);
        let queues = self.ports.iter().map(|port| port.wanted).min();
        let summary = if zero_copy {
            "AF_XDP: the device reads frames where they are, one thread"
        } else {
            "AF_XDP: the kernel copies batches of up to 64 frames, one thread"
        };
        Capabilities {
            copies: match zero_copy {
                true => Copies::ZeroCopy,
                false => Copies::ByKernel,
            },
            queues: queues.unwrap_or(1) as u16,
            need_wakeup: true,
            busy_poll: self
                .ports
                .iter()
                .any(|port| port.options.busy_poll.is_some()),
            profiles: true,
            hot_load: true,
            timestamps: match (self.ports.iter())
                .all(|port| port.against_departures(Kind::Hardware).is_none())
            {
                true => Timestamps::SoftwareAndDevice,
                false => Timestamps::Software,
            },
            metadata: (self.ports.first()).map_or(Offers::default(), |port| port.offers),
            ..Capabilities::plain(Mode::AfXdp, summary)
        }
    }

    fn arm(&mut self, outline: &Outline) -> Result<(), EngineError> {
        let with_metadata = self.ports.iter().any(|port| port.departing.is_some());
        let most = CHUNK_BYTES - if with_metadata { metadata::ROOM } else { 0 };
        if outline.buffer_len > most {
            return Err(EngineError::Unsupported {
                engine: Mode::AfXdp.name(),
                action: format!(
                    "send frames of more than {most} bytes without FCS, and one has {}",
                    outline.buffer_len
                ),
            });
        }
        for port in &mut self.ports {
            if let Some(departing) = &mut port.departing {
                departing.signed = Some(outline.signed);
            }
            // frames still in the DUT would be returned as slots that have moved
            let mut patience = END_TRIES;
            port.unsent();
            while port.queues.iter().any(|queue| queue.in_flight() > 0) {
                if patience == 0 {
                    port.queues.clear();
                    break;
                }
                patience -= 1;
                thread::sleep(END_PAUSE);
                port.unsent();
            }
            port.memory
                .arm(outline, port.slots, port.departing.is_some());
            port.reopen()?;
        }
        Ok(())
    }

    fn begin(&mut self, _: &Schedule) -> Result<(), EngineError> {
        for port in &mut self.ports {
            port.reopen()?;
            if let Some(departing) = &mut port.departing {
                departing.log = Log::new(departing.log.origin);
            }
            port.memory.begin();
            port.queues.iter_mut().for_each(Queue::begin);
        }
        Ok(())
    }

    fn send<S: Source>(
        &mut self,
        path: usize,
        frames: &mut S,
        counters: &Counters,
    ) -> Result<(), EngineError> {
        if path != self.current {
            let last = &mut self.ports[self.current];
            last.drain(counters)?;
            last.publish(self.current, counters);
            self.current = path;
        }
        let port = &mut self.ports[path];
        // learns which buffers are free again
        port.drain(counters)?;
        port.fill(frames, counters);
        port.drain(counters)?;
        port.publish(path, counters);
        Ok(())
    }

    fn end(&mut self, counters: &Counters) -> Result<(), EngineError> {
        let mut result = Ok(());
        for (path, port) in self.ports.iter_mut().enumerate() {
            let mut drained = port.drain(counters);
            // a dropped frame may be returned only after the DUT has finished with those before it
            let mut patience = END_TRIES;
            while drained.is_ok() && port.unsent() > 0 && patience > 0 {
                patience -= 1;
                thread::sleep(END_PAUSE);
                drained = port.drain(counters);
            }
            let unsent = port.unsent();
            port.publish(path, counters);
            counters.set_refused(path, unsent);
            if unsent > 0 || drained.is_err() {
                port.queues.clear();
            }
            result = result.and(drained);
        }
        result
    }

    fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        for port in &mut self.ports {
            if let Some(reason) = port.against_departures(kind) {
                return Err(EngineError::Unsupported {
                    engine: Mode::AfXdp.name(),
                    action: format!("provide {} timestamps: {reason}", kind.name()),
                });
            }
            let origin = match (kind, stamps::Offers::query(&port.spec)?.clock) {
                (Kind::User, _) => None,
                (Kind::Hardware, Some(clock)) => Some(Origin::card_metadata(clock)),
                (Kind::Software | Kind::Hardware, _) => Some(Origin::FREED),
            };
            if origin.is_none() && port.departing.is_none() {
                continue;
            }
            port.departing = origin.map(|origin| Departing {
                signed: None,
                log: Log::new(origin),
            });
            // register the memory again, with or without metadata
            port.queues.clear();
            port.reopen()?;
        }
        Ok(())
    }

    fn departures(&mut self) -> Option<Log> {
        let ports = self.ports.iter_mut();
        let mut logs = ports.filter_map(|port| {
            port.unsent();
            let in_flight: u64 = port.queues.iter().map(Queue::in_flight).sum();
            let mut log = port.departing.as_ref()?.log.clone();
            log.missing += in_flight;
            Some(log)
        });
        let first = logs.next()?;
        Some(logs.fold(first, Log::and))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Schedule;
    use crate::load::LoadPlan;
    use crate::pacer::StallPolicy;
    use crate::sender::source::TestSource;
    use crate::traffic::{Frames, TestFrames};
    use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr};

    /// A completion ring written by the test: the device took five frames and reports the
    /// departures of three.
    #[test]
    fn completions_become_departures_by_the_numbers_of_their_frames() {
        let template = FrameTemplate::new(&FrameSpec {
            source: MacAddr([2, 0, 0, 0, 1, 1]),
            destination: MacAddr([2, 0, 0, 0, 0, 1]),
            version: IpVersion::V4,
            frame_size: 64,
        });
        let frames = TestFrames {
            template: template.unwrap(),
            flows: FlowSet::default_v4(3).unwrap(),
            nonce: 9,
        };
        let outline = Outline::from_frames(&Frames::Test(frames.clone()), Share::WHOLE).unwrap();
        let mut memory = FrameMemory::new(8, 0).unwrap();
        memory.arm(&outline, 8, true);
        let schedule = Schedule {
            load: LoadPlan::FlatOut,
            frames: Some(100),
            at_most: Duration::from_secs(1),
            stall_policy: StallPolicy::Skip,
            path: 0,
        };
        let mut source = TestSource::new(&frames, &schedule, Share::WHOLE);
        source.set_time(1);
        let mut departing = Departing {
            signed: Some(outline.signed),
            log: Log::new(Origin::card_metadata(0)),
        };
        // two rounds: the second one reuses the buffers of the first
        for round in 0..2_u64 {
            let taken: Vec<usize> = (0..5)
                .map(|_| memory.take(&mut source).unwrap().0)
                .collect();
            let completions: Vec<usize> = [3, 0, 4, 1, 2].map(|at| taken[at]).into();
            for (at, &start) in (0_u64..).zip(&completions) {
                assert_eq!(start % 64, 0);
                let (time, frame) = memory.completed(start).unwrap();
                assert_eq!((time, frame.len()), (None, 60), "an old answer is gone");
                if at < 3 {
                    memory.answer(start, 1000 * (round + 1) + at);
                }
                departing.note(memory.completed(start));
                memory.release(start);
            }
        }
        let found: Vec<(u64, u64)> = (departing.log.times.iter())
            .map(|stamped| (stamped.number, stamped.at_ns))
            .collect();
        assert_eq!(
            found,
            [
                (3, 1000),
                (0, 1001),
                (4, 1002),
                (8, 2000),
                (5, 2001),
                (9, 2002)
            ]
        );
        assert_eq!(departing.log.missing, 4);
        memory.arm(&outline, 8, false);
        assert_eq!(memory.completed(0), None, "no metadata, no answer");
    }
}
