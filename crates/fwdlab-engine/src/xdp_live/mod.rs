//! XDP live frames: the fastest sender that needs only the kernel.
//!
//! One long `BPF_PROG_TEST_RUN` in live mode runs a BPF program for every frame; the program paces,
//! writes the frame, counts and redirects into the port of the current path. There is one for test
//! frames (`bpf/transmit.bpf.c`), which iterates over the flows by itself, and one for profiles
//! (`bpf/cycle.bpf.c`), which sends precomputed frames. The port's peer must run NAPI, otherwise
//! frames vanish without any counter: [`crate::Tester`] proves every path first. Needs Linux 5.18,
//! CAP_BPF and CAP_NET_ADMIN.
//!
//! The signature contains the intended departure, not the real one: a latency from it includes our
//! own delay. At full speed it contains the time at which the frame was written, to within some 15
//! frames. [`Sender::lateness`] refers to the first frame of each batch, and measures until the
//! kernel has handed the whole batch to the port.
//!
//! The bytes behind the headers and the signature are written once into each page. If a DUT changes
//! payload in place, later frames contain the change.

mod cycle;
mod pieces;
mod several;
mod sys;
mod test_frames;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aya::maps::xdp::DevMap;
use aya::maps::{Array, MapData};
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use fwdlab_packet::IpVersion;

pub(crate) use self::several::senders;

use self::cycle::Cycle;
use self::pieces::Pieces;
use self::sys::{Control, CycleSize, Line, MAX_PATHS, Piece, Progress, Stream};
use crate::error::EngineError;
use crate::generator::{
    Capabilities, Copies, Mode, Schedule, SendCounts, Sender, SendingTimes, Timestamps,
};
use crate::histogram::{BUCKETS, Histogram};
use crate::load::LoadPlan;
use crate::netdev::{Offers, XdpPass};
use crate::pacer::{self, CATCH_UP_US, FINE, FRACTION, OVERTIME_NS, StallPolicy};
use crate::port::{Interfaces, PathSpec, PortSpec, enter, interface_index, pin, within};
use crate::sys::{
    become_preferred, interrupt, monotonic_ns, own_thread, prepare_interrupts, waited_ns,
};
use crate::traffic::share::Share;
use crate::traffic::{Frames, TestFrames, TrafficFrames};

static TRANSMIT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/transmit.o"));
static CYCLE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/cycle.o"));

/// Calls of the program per batch. At the end of a batch the kernel hands the redirected frames to
/// the port; its pool of recycled pages is as large as a batch. Calls in which no frame is due
/// count too and take some 60 ns, so with a small batch frames leave one by one and on time: 0.9 us
/// late (median) at 100 kpps, compared with 12 us late and in groups with 256. It also keeps the
/// pool small, whose lock costs the DUT time: at 1.8 Mpps offered it forwarded 1.55 Mpps with 16
/// and 1.27 Mpps with 256.
const BATCH: u32 = 16;

/// Above this load frames are close to each other anyway, and the sender needs a large pool to keep
/// up: into the same DUT, on another CPU, it offered at most 6.5 Mpps with 256 and 5.4 Mpps with
/// 16.
const LARGE_BATCH: u32 = 256;
const LARGE_BATCH_FROM_PPS: f64 = 4e6;

/// Time between the start of the thread and the first frame, in which the kernel prepares its
/// pages.
const LEAD: Duration = Duration::from_millis(30);

const CAPABILITIES: Capabilities = Capabilities {
    needs_privileges: true,
    copies: Copies::InKernel,
    profiles: true,
    hot_load: true,
    timestamps: Timestamps::Software,
    ..Capabilities::plain(
        Mode::XdpLive,
        "XDP live frames: headers or cached frames written in BPF for every frame, one thread",
    )
};

/// The longest gap, so that `interval` of bpf/schedule.h does not overflow: 19 hours in 1/65536 ns.
const LONGEST: u64 = 1 << 62;

/// The longest frame that fits a page of the kernel, in bytes without FCS: of 4096 bytes, 256 are
/// headroom, 320 are the end of an skb, and some 200 are used by live frames, which differs between
/// kernels.
const MOST_BYTES: usize = 3_072;

/// The sender.
pub struct XdpLive {
    netns: Option<PathBuf>,
    cpus: Vec<usize>,
    share: Share,
    ports: Vec<Port>,
    interfaces: Interfaces,
    test: Test,
    /// For profiles; `None` if test frames are armed.
    profile: Option<Profile>,
    armed: Option<Armed>,
    paced: bool,
    running: Option<Running>,
}

struct Port {
    name: String,
    index: u32,
    /// Drivers such as ixgbe, i40e and ice send redirected frames only while they have a program.
    _pass: Option<XdpPass>,
}

impl Port {
    fn open(spec: &PortSpec) -> Result<Port, EngineError> {
        let index = interface_index(&spec.interface)?;
        let refuses = || Offers::query(index).redirect_target == Some(false);
        let pass = refuses().then(|| XdpPass::open(spec).ok()).flatten();
        Ok(Port {
            name: spec.interface.clone(),
            index,
            _pass: pass.filter(|_| !refuses()),
        })
    }
}

/// The common parts of every sending program.
struct Loaded {
    control: Array<MapData, Control>,
    progress: Array<MapData, Progress>,
    lateness: Array<MapData, [u64; BUCKETS]>,
    pieces: Array<MapData, Piece>,
    programs: Arc<Ebpf>,
}

/// `bpf/transmit.bpf.c`.
struct Test {
    loaded: Loaded,
    stream: Array<MapData, Stream>,
}

/// `bpf/cycle.bpf.c`, with room for a number of lines and streams.
struct Profile {
    loaded: Loaded,
    cycle: Array<MapData, CycleSize>,
    lines: Array<MapData, Line>,
    streams: Array<MapData, u64>,
    room: (u32, u32),
}

#[derive(Clone)]
struct Armed {
    /// The program for one load or full speed, and the one for a load over time.
    programs: [&'static str; 2],
    /// Initial contents of every page.
    page: Vec<u8>,
}

struct Running {
    control: Control,
    load: LoadPlan,
    /// The pieces of a load over time.
    pieces: Option<Pieces>,
    stall_policy: StallPolicy,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), EngineError>>,
    /// The thread's id; 0: it has not started.
    number: Arc<AtomicU32>,
}

impl XdpLive {
    /// Frames of a burst that the kernel hands to the port at once.
    pub const BURST_BATCH: u32 = 32;

    /// Loads the program and binds it to the sending ports of all paths, which must be in one
    /// namespace.
    ///
    /// # Errors
    /// Missing privileges, a kernel without live frames, or an interface that does not exist.
    pub fn open(paths: &[PathSpec], cpus: &[usize]) -> Result<Self, EngineError> {
        XdpLive::open_share(paths, cpus, Share::WHOLE)
    }

    /// Like [`XdpLive::open`], for one of several senders of the ports.
    fn open_share(paths: &[PathSpec], cpus: &[usize], share: Share) -> Result<Self, EngineError> {
        let Some(first) = paths.first().filter(|_| paths.len() <= MAX_PATHS) else {
            return Err(EngineError::Frames(format!(
                "this sender supports 1 to {MAX_PATHS} paths, not {}",
                paths.len()
            )));
        };
        let netns = first.tx.netns.clone();
        within(&netns.clone(), || {
            let ports: Vec<Port> = paths
                .iter()
                .map(|path| Port::open(&path.tx))
                .collect::<Result<_, _>>()?;
            Ok(XdpLive {
                netns,
                cpus: cpus.to_vec(),
                share,
                test: Test::load(&ports)?,
                ports,
                interfaces: Interfaces::open()
                    .map_err(|e| EngineError::system("open a socket", e))?,
                profile: None,
                armed: None,
                paced: false,
                running: None,
            })
        })
    }

    fn loaded(&self) -> &Loaded {
        match &self.profile {
            Some(profile) => &profile.loaded,
            None => &self.test.loaded,
        }
    }

    fn loaded_mut(&mut self) -> &mut Loaded {
        match &mut self.profile {
            Some(profile) => &mut profile.loaded,
            None => &mut self.test.loaded,
        }
    }

    fn arm_test(&mut self, frames: &TestFrames) -> Result<Armed, EngineError> {
        let (stream, page) = test_frames::stream(frames, self.share)?;
        check_room(page.len())?;
        self.profile = None;
        self.test
            .stream
            .set(0, stream, 0)
            .map_err(|e| EngineError::bpf("hand the frames to the live-frames sender", &e))?;
        let programs = match frames.flows.version() {
            IpVersion::V4 => ["transmit_v4", "over_time_v4"],
            IpVersion::V6 => ["transmit_v6", "over_time_v6"],
        };
        Ok(Armed { programs, page })
    }

    fn arm_profile(&mut self, frames: &TrafficFrames) -> Result<Armed, EngineError> {
        if self.share != Share::WHOLE {
            return Err(EngineError::Unsupported {
                engine: Mode::XdpLive.name(),
                action: format!(
                    "send profiles with {} senders: use one, or af-xdp",
                    self.share.of
                ),
            });
        }
        let most = frames.traffic.streams.iter().map(|stream| stream.path);
        if let Some(path) = most.max().filter(|path| *path >= self.ports.len()) {
            return Err(EngineError::Frames(format!("there is no path {path}")));
        }
        let cycle = Cycle::new(frames)?;
        check_room(cycle.page.len())?;
        let room = (
            cycle.slots * cycle.lines,
            frames.traffic.streams.len() as u32,
        );
        let mut profile = match self.profile.take() {
            Some(profile) if profile.room == room => profile,
            other => {
                // free the memory of the old one first
                drop(other);
                within(&self.netns, || Profile::load(&self.ports, room))?
            }
        };
        profile.fill(&cycle)?;
        self.profile = Some(profile);
        Ok(Armed {
            programs: ["transmit_cycle", "over_time_cycle"],
            page: cycle.page,
        })
    }

    /// Frames into a port that is down vanish without being counted.
    fn check_ports(&self) -> Result<(), EngineError> {
        for Port { name, .. } in &self.ports {
            let runs = self
                .interfaces
                .runs(name)
                .map_err(|e| EngineError::system(format!("send into {name}"), e))?;
            if !runs {
                return Err(EngineError::system(
                    format!("send into {name}, which is down or whose other end is"),
                    rustix::io::Errno::NETDOWN,
                ));
            }
        }
        Ok(())
    }

    /// Prepares a burst of `frames` frames at full speed ([`XdpLive::burst`]); counts restart at
    /// zero.
    pub(crate) fn prepare_burst(&mut self, path: usize, frames: u32) -> Result<(), EngineError> {
        if self.armed.is_none() || !frames.is_multiple_of(XdpLive::BURST_BATCH) {
            let reason = format!("a burst of {frames} frames, or no frames");
            return Err(EngineError::Frames(reason));
        }
        self.check_ports()?;
        self.loaded_mut().reset()?;
        self.write_control(Control {
            start_ns: monotonic_ns(),
            end_ns: u64::MAX,
            path: path as u32,
            batch_mask: XdpLive::BURST_BATCH - 1,
            ..Control::default()
        })
    }

    /// Sends a prepared burst, and returns when the kernel has handed all of it to the port.
    pub(crate) fn burst(&mut self, frames: u32) -> Result<(), EngineError> {
        let Some(armed) = &self.armed else {
            return Err(EngineError::Frames("the sender is not armed".into()));
        };
        let programs = &self.loaded().programs;
        let run = test_run(
            programs,
            armed.programs[0],
            &armed.page,
            frames,
            XdpLive::BURST_BATCH,
        )?;
        run.map_err(|error| EngineError::bpf("send live frames", &error))
    }

    /// Returns this sender's gap at a load of all senders.
    fn gap(&self, load_pps: f64) -> u64 {
        gap(load_pps / f64::from(self.share.of))
    }

    /// Returns when this sender's first frame is planned after the start: the senders take turns.
    fn phase(&self, load_pps: f64) -> u64 {
        gap(load_pps)
            .saturating_mul(self.share.first(0))
            .min(LONGEST)
    }

    /// Continues at this time in other memory.
    fn renew_at(&mut self, start_ns: u64) -> Result<(), EngineError> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        running.control.start_ns = start_ns;
        let control = running.control;
        self.write_control(control)?;
        // the thread starts the next test run at once; a signal between two runs is lost, which
        // only costs a renewal
        if let Some(running) = &self.running {
            interrupt(&running.thread);
        }
        Ok(())
    }

    /// Plans no more frames.
    fn end_frames(&mut self) -> Result<(), EngineError> {
        match self.running.as_ref().map(|running| running.control) {
            None => Ok(()),
            Some(control) => self.write_control(Control {
                end_ns: 0,
                ..control
            }),
        }
    }

    fn write_control(&mut self, control: Control) -> Result<(), EngineError> {
        self.loaded_mut()
            .control
            .set(0, control, 0)
            .map_err(|e| EngineError::bpf("steer the live-frames sender", &e))
    }

    fn progress(&self) -> Result<Progress, EngineError> {
        self.loaded()
            .progress
            .get(&0, 0)
            .map_err(|e| EngineError::bpf("read the live-frames sender's counters", &e))
    }
}

impl Sender for XdpLive {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError> {
        if self.running.is_some() {
            return Err(EngineError::Frames("the sender is still running".into()));
        }
        self.armed = None;
        self.armed = Some(match frames {
            Frames::Test(frames) => self.arm_test(frames)?,
            Frames::Traffic(frames) => self.arm_profile(frames)?,
        });
        Ok(())
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        self.start_at(schedule, monotonic_ns() + LEAD.as_nanos() as u64)
    }

    /// The number of frames is this sender's own; the load is that of all senders.
    fn start_at(&mut self, schedule: Schedule, start_ns: u64) -> Result<(), EngineError> {
        let armed = match (&self.armed, &self.running) {
            (Some(armed), None) => armed.clone(),
            (None, _) => return Err(EngineError::Frames("the sender is not armed".into())),
            (_, Some(_)) => return Err(EngineError::Frames("the sender is still running".into())),
        };
        schedule.load.check()?;
        let peak_pps = schedule.load.peak_pps();
        let at_most_ns = schedule.at_most.as_nanos() as u64;
        let pieces = match &schedule.load {
            LoadPlan::Stretches(all) => {
                let length_ns = at_most_ns.min(pacer::LONGEST_NS);
                let whole = Pieces::new(all, length_ns << FRACTION);
                let (first, every) = (self.share.first(0), self.share.of.into());
                Some(whole.every(first, every))
            }
            _ => None,
        };
        self.check_ports()?;
        self.loaded_mut().reset()?;
        if let Some(profile) = &mut self.profile {
            profile.reset()?;
        }
        if let Some(pieces) = &pieces {
            self.loaded_mut().follow(pieces)?;
        }
        let batch = match peak_pps {
            Some(pps) if pps / f64::from(self.share.of) < LARGE_BATCH_FROM_PPS => BATCH,
            _ => LARGE_BATCH,
        };
        let control = Control {
            start_ns,
            end_ns: start_ns + at_most_ns,
            gap: peak_pps.map_or(0, |pps| self.gap(pps)),
            phase: peak_pps.map_or(0, |pps| self.phase(pps)),
            frames: schedule.frames.unwrap_or(0),
            path: schedule.path as u32,
            catch_up_us: CATCH_UP_US,
            batch_mask: batch - 1,
            relief: peak_pps.map_or(0, |pps| schedule.stall_policy.relief(pps)),
            end_position: pieces.as_ref().map_or(0, |pieces| pieces.end_position),
            pieces: pieces.as_ref().map_or(0, Pieces::count),
        };
        self.paced = peak_pps.is_some();
        self.write_control(control)?;
        prepare_interrupts();
        let stop = Arc::new(AtomicBool::new(false));
        let program = armed.programs[usize::from(pieces.is_some())];
        let number = Arc::new(AtomicU32::new(0));
        let thread = {
            let number = number.clone();
            let (stop, programs) = (stop.clone(), self.loaded().programs.clone());
            let (netns, cpus) = (self.netns.clone(), self.cpus.clone());
            thread::Builder::new()
                .name("fwdlab-send".into())
                .spawn(move || {
                    pin(&cpus)?;
                    become_preferred();
                    number.store(own_thread(), Ordering::Relaxed);
                    enter(&netns)?;
                    send(
                        &programs,
                        program,
                        &armed.page,
                        batch,
                        control.last_ns(),
                        &stop,
                    )
                })
                .map_err(|e| EngineError::system("start the sender thread", e))?
        };
        self.running = Some(Running {
            control,
            load: schedule.load,
            pieces,
            stall_policy: schedule.stall_policy,
            stop,
            thread,
            number,
        });
        Ok(())
    }

    fn select(&mut self, path: usize) -> Result<(), EngineError> {
        let Some(running) = self.running.as_mut().filter(|_| path < self.ports.len()) else {
            return Err(EngineError::Frames(format!(
                "there is no running path {path}"
            )));
        };
        running.control.path = path as u32;
        let control = running.control;
        self.write_control(control)
    }

    fn renew(&mut self) -> Result<Duration, EngineError> {
        let Some(running) = &self.running else {
            return Err(EngineError::Frames("the sender is not running".into()));
        };
        if running.pieces.is_some() {
            // its load over time would restart
            return Ok(Duration::ZERO);
        }
        self.renew_at(monotonic_ns() + LEAD.as_nanos() as u64)?;
        Ok(LEAD)
    }

    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        let (gap, phase) = (self.gap(load_pps), self.phase(load_pps));
        let Some(running) = self.running.as_mut() else {
            return Err(EngineError::Frames(
                "the sender does not run; start it with this load".into(),
            ));
        };
        if !matches!(running.load, LoadPlan::Constant(_)) {
            return Err(running.load.unchangeable());
        }
        running.control.gap = gap;
        running.control.phase = phase;
        running.control.relief = running.stall_policy.relief(load_pps);
        let control = running.control;
        self.write_control(control)
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        if !self.paced {
            return Ok(None);
        }
        let counts = self
            .loaded()
            .lateness
            .get(&0, 0)
            .map_err(|e| EngineError::bpf("read how late frames left", &e))?;
        let mut histogram = Histogram::default();
        for (bucket, &count) in counts.iter().enumerate() {
            histogram.add(bucket, count);
        }
        Ok(Some(histogram))
    }

    fn sending_times(&self) -> Option<SendingTimes> {
        let control = self.running.as_ref()?.control;
        let progress = self.progress().ok()?;
        // the time of the last frame is not recorded: it left one gap before the next one would
        // have
        let last = (progress.next.saturating_add(progress.lag)).saturating_sub(progress.gap);
        let has_ended = control.gap > 0 && progress.has_all(&control);
        Some(SendingTimes {
            begun_ns: control.start_ns,
            ended_ns: has_ended.then(|| control.start_ns.saturating_add(last >> FRACTION)),
            planned_ns: None,
        })
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        let progress = self.progress()?;
        Ok(SendCounts {
            sent: progress.sent[..self.ports.len()].to_vec(),
            not_sent: progress.not_sent,
            made_up: progress.made_up >> 16,
            streams: match &self.profile {
                Some(profile) => profile.sent()?,
                None => vec![],
            },
            waited_ns: (self.running.as_ref()).map_or(0, |running| {
                waited_ns(running.number.load(Ordering::Relaxed))
            }),
            ..SendCounts::default()
        })
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        if let Some(Running {
            control,
            pieces,
            stop,
            thread,
            ..
        }) = self.running.take()
        {
            let over = monotonic_ns() >= control.end_ns;
            // first stop the frames, then the test run
            self.write_control(Control {
                end_ns: 0,
                ..control
            })?;
            stop.store(true, Ordering::Release);
            while !thread.is_finished() {
                // repeatedly: a signal just before the call would be lost
                interrupt(&thread);
                thread::sleep(Duration::from_millis(1));
            }
            thread
                .join()
                .map_err(|_| EngineError::Thread("it panicked".into()))??;
            let mut progress = self.progress()?;
            progress.end(&control, pieces.as_ref(), over);
            (self.loaded_mut().progress)
                .set(0, progress, 0)
                .map_err(|e| EngineError::bpf("end the live-frames sender's counters", &e))?;
            self.check_ports()?;
        }
        self.counts()
    }

    fn is_done(&self) -> bool {
        let Some(running) = &self.running else {
            return true;
        };
        let (control, now) = (&running.control, monotonic_ns());
        now >= control.last_ns()
            || self
                .progress()
                .is_ok_and(|p| p.has_all(control) || now >= control.end_ns && p.is_over(control))
            || running.thread.is_finished()
            || self.check_ports().is_err()
    }
}

impl Drop for XdpLive {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// The sender thread: test run after test run until the end. One run of 2^32 calls lasts minutes;
/// setting up a run takes some 25 ms, so one run per batch would starve the DUT.
fn send(
    programs: &Ebpf,
    program: &str,
    page: &[u8],
    batch: u32,
    end_ns: u64,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    while !stop.load(Ordering::Acquire) && monotonic_ns() < end_ns {
        // whole batches, so that the program knows where a batch ends
        match test_run(programs, program, page, !(batch - 1), batch)? {
            Ok(()) => {}
            Err(ProgramError::SyscallError(error))
                if error.io_error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(EngineError::bpf("send live frames", &error)),
        }
    }
    Ok(())
}

impl Control {
    /// Returns the last time at which a frame may leave.
    fn last_ns(&self) -> u64 {
        let overtime = if self.relief > 0 { OVERTIME_NS } else { 0 };
        self.end_ns.saturating_add(overtime)
    }

    /// Returns the duration from start to end, in 1/65536 ns.
    fn length(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns) << FRACTION
    }
}

impl Progress {
    /// Returns true if the sender has sent all its frames.
    fn has_all(&self, control: &Control) -> bool {
        control.frames > 0 && self.sequence >= control.frames
    }

    /// Returns true if nothing more is planned before the end, which is now.
    fn is_over(&self, control: &Control) -> bool {
        let is_planned = match control.pieces {
            0 => self.next < control.length(),
            _ => self.position < control.end_position,
        };
        !is_planned || control.relief == 0
    }

    /// Accounts for the stop of the sender, after its end or before. It may not have run since, and
    /// so not have counted frames that will never leave.
    fn end(&mut self, control: &Control, pieces: Option<&Pieces>, over: bool) {
        if self.gap == 0 {
            return;
        }
        let length = control.length();
        let frames = match (over, pieces) {
            (true, Some(pieces)) => pieces.frames(self.position, u64::MAX),
            (false, Some(pieces)) => pieces.frames(self.position, self.next + self.lag),
            (true, None) => length.saturating_sub(self.next).div_ceil(self.gap),
            (false, None) => self.lag.div_ceil(self.gap),
        };
        // if all frames were sent, nothing is owed
        self.not_sent += if self.has_all(control) { 0 } else { frames };
        match pieces {
            Some(_) => self.position += frames << 16,
            None => self.next += frames * self.gap,
        }
        self.lag = 0;
    }
}

/// Makes the kernel call a program `calls` times.
fn test_run(
    programs: &Ebpf,
    program: &str,
    page: &[u8],
    calls: u32,
    batch: u32,
) -> Result<Result<(), ProgramError>, EngineError> {
    let program: &Xdp = programs
        .program(program)
        .and_then(|p| p.try_into().ok())
        .ok_or_else(|| EngineError::Thread(format!("no program {program}")))?;
    let run = program.test_run(TestRunOptions {
        data_in: Some(page),
        repeat: calls,
        attrs: TestRunAttrs::new().xdp_live_frames(batch),
        ..TestRunOptions::new()
    });
    Ok(run.map(drop))
}

/// Checks that a frame fits a page; otherwise another engine must send it.
fn check_room(bytes: usize) -> Result<(), EngineError> {
    match bytes <= MOST_BYTES {
        true => Ok(()),
        false => Err(EngineError::Unsupported {
            engine: Mode::XdpLive.name(),
            action: format!(
                "send frames of more than {MOST_BYTES} bytes without FCS, and one has {bytes}"
            ),
        }),
    }
}

/// Returns the time between frames at a load, in 1/65536 ns.
fn gap(load_pps: f64) -> u64 {
    const HALF: u128 = 1 << (FINE - 1);
    ((pacer::gap(load_pps).saturating_add(HALF) >> FINE) as u64).min(LONGEST)
}

impl Loaded {
    /// Takes the common parts out of an object whose programs, with these names, the kernel has
    /// accepted.
    fn new(mut programs: Ebpf, names: &[&str], ports: &[Port]) -> Result<Loaded, EngineError> {
        let action = || "load the live-frames sender".to_owned();
        for name in names {
            let program: &mut Xdp = programs
                .program_mut(name)
                .and_then(|program| program.try_into().ok())
                .ok_or_else(|| {
                    EngineError::Frames(format!("the object has no XDP program {name}"))
                })?;
            program.load().map_err(|e| EngineError::bpf(action(), &e))?;
        }
        let mut devices = DevMap::try_from(take(&mut programs, "ports")?)
            .map_err(|e| EngineError::bpf(action(), &e))?;
        for (key, Port { name, index, .. }) in (0..).zip(ports) {
            devices
                .set(key, *index, None, 0)
                .map_err(|e| EngineError::bpf(format!("send into {name}"), &e))?;
        }
        Ok(Loaded {
            control: array(&mut programs, "control")?,
            progress: array(&mut programs, "progress")?,
            lateness: array(&mut programs, "lateness")?,
            pieces: array(&mut programs, "pieces")?,
            programs: Arc::new(programs),
        })
    }

    /// Loads the pieces of a load over time.
    fn follow(&mut self, pieces: &Pieces) -> Result<(), EngineError> {
        let set = |(key, piece): (u32, &Piece)| self.pieces.set(key, piece, 0);
        (0..)
            .zip(&pieces.all)
            .try_for_each(set)
            .map_err(|e| EngineError::bpf("hand the load over time to the live-frames sender", &e))
    }

    fn reset(&mut self) -> Result<(), EngineError> {
        self.progress
            .set(0, Progress::default(), 0)
            .and_then(|()| self.lateness.set(0, [0; BUCKETS], 0))
            .map_err(|e| EngineError::bpf("reset the live-frames sender", &e))
    }
}

impl Test {
    fn load(ports: &[Port]) -> Result<Test, EngineError> {
        let mut programs = object(TRANSMIT, &[])?;
        Ok(Test {
            stream: array(&mut programs, "stream")?,
            loaded: Loaded::new(
                programs,
                &["transmit_v4", "transmit_v6", "over_time_v4", "over_time_v6"],
                ports,
            )?,
        })
    }
}

impl Profile {
    fn load(ports: &[Port], room: (u32, u32)) -> Result<Profile, EngineError> {
        let mut programs = object(CYCLE, &[("lines", room.0), ("streams", room.1)])?;
        Ok(Profile {
            cycle: array(&mut programs, "cycle")?,
            lines: array(&mut programs, "lines")?,
            streams: array(&mut programs, "streams")?,
            loaded: Loaded::new(programs, &["transmit_cycle", "over_time_cycle"], ports)?,
            room,
        })
    }

    fn fill(&mut self, cycle: &Cycle) -> Result<(), EngineError> {
        let error = |e| EngineError::bpf("hand the frames to the live-frames sender", &e);
        let size = CycleSize {
            slots: cycle.slots,
            lines: cycle.lines,
        };
        self.cycle.set(0, size, 0).map_err(error)?;
        let mut key = 0;
        cycle.write(|line| {
            self.lines.set(key, line, 0).map_err(error)?;
            key += 1;
            Ok(())
        })
    }

    fn reset(&mut self) -> Result<(), EngineError> {
        (0..self.room.1)
            .try_for_each(|stream| self.streams.set(stream, 0, 0))
            .map_err(|e| EngineError::bpf("reset the live-frames sender", &e))
    }

    /// Returns the frames sent of each stream.
    fn sent(&self) -> Result<Vec<u64>, EngineError> {
        (0..self.room.1)
            .map(|stream| self.streams.get(&stream, 0))
            .collect::<Result<_, _>>()
            .map_err(|e| EngineError::bpf("read the live-frames sender's counters", &e))
    }
}

/// Creates an object of which only the maps are in the kernel yet; `entries` resizes some of them.
fn object(bytes: &[u8], entries: &[(&str, u32)]) -> Result<Ebpf, EngineError> {
    let mut loader = EbpfLoader::new();
    for &(map, entries) in entries {
        loader.map_max_entries(map, entries);
    }
    loader
        .load(bytes)
        .map_err(|e| EngineError::bpf("load the live-frames sender", &e))
}

fn take(programs: &mut Ebpf, name: &str) -> Result<aya::maps::Map, EngineError> {
    programs
        .take_map(name)
        .ok_or_else(|| EngineError::Frames(format!("the object has no map {name}")))
}

fn array<V: aya::Pod>(programs: &mut Ebpf, name: &str) -> Result<Array<MapData, V>, EngineError> {
    Array::try_from(take(programs, name)?)
        .map_err(|e| EngineError::bpf(format!("open the map {name}"), &e))
}
