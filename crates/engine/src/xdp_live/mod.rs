//! XDP live frames: the fastest sender that needs nothing but the kernel.
//!
//! One long `BPF_PROG_TEST_RUN` in live mode runs `bpf/transmit.bpf.c` for every frame; the program writes the headers,
//! paces, counts and redirects into the port of the current path. The port's peer must run NAPI, or frames vanish without
//! any counter: [`crate::Tester`] proves every path first. Needs Linux 5.18, CAP_BPF and CAP_NET_ADMIN.

mod sys;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aya::Ebpf;
use aya::maps::xdp::DevMap;
use aya::maps::{Array, MapData};
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp};
use packet::{Addresses, IpVersion, Signature};

use self::sys::{Control, MAX_PATHS, Progress, Stream};
use crate::error::EngineError;
use crate::generator::{
    Capabilities, Copies, Frames, Mode, Schedule, SendCounts, Sender, TestFrames,
};
use crate::histogram::Histogram;
use crate::pacer::CATCH_UP_US;
use crate::port::{PathSpec, enter, interface_index, pin};
use crate::sys::{become_preferred, interrupt, monotonic_ns, prepare_interrupts};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/transmit.o"));

/// Calls of the program per batch: the kernel flushes redirected frames after each, and its pool of recycled pages is as
/// large as a batch, up to 256. A paced sender sends few frames per batch, for calls in which none is due count too. With
/// 256 the DUT forwarded 0.93 Mpps where it did 0.86 with 16.
const BATCH: u32 = 256;

/// Between starting the thread and the first frame: the kernel prepares its pages in that time.
const LEAD: Duration = Duration::from_millis(30);

const CAPABILITIES: Capabilities = Capabilities {
    needs_privileges: true,
    copies: Copies::InKernel,
    ..Capabilities::plain(
        Mode::XdpLive,
        "XDP live frames: headers written in BPF for every frame, one thread",
    )
};

/// The sender.
pub struct XdpLive {
    netns: Option<PathBuf>,
    ingress: u32,
    cpus: Vec<usize>,
    paths: usize,
    stream: Array<MapData, Stream>,
    control: Array<MapData, Control>,
    progress: Array<MapData, Progress>,
    programs: Arc<Ebpf>,
    armed: Option<(IpVersion, Vec<u8>)>,
    running: Option<Running>,
}

struct Running {
    control: Control,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), EngineError>>,
}

impl XdpLive {
    /// Loads the program and binds it to the sending ports of all paths, which must be in one namespace.
    ///
    /// # Errors
    /// No privileges, a kernel without live frames, or an interface that does not exist.
    pub fn open(paths: &[PathSpec], cpus: &[usize]) -> Result<Self, EngineError> {
        let Some(first) = paths.first().filter(|_| paths.len() <= MAX_PATHS) else {
            return Err(EngineError::Frames(format!(
                "this sender takes 1 to {MAX_PATHS} paths, not {}",
                paths.len()
            )));
        };
        let netns = first.tx.netns.clone();
        crate::port::within(&netns.clone(), || {
            let what = || "load the live-frames sender".to_owned();
            let mut programs = Ebpf::load(OBJECT).map_err(|e| EngineError::bpf(what(), &e))?;
            for name in ["transmit_v4", "transmit_v6"] {
                program(&mut programs, name)?
                    .load()
                    .map_err(|e| EngineError::bpf(what(), &e))?;
            }
            let mut ports = DevMap::try_from(take(&mut programs, "ports")?)
                .map_err(|e| EngineError::bpf(what(), &e))?;
            let mut ingress = 0;
            for (key, path) in (0..).zip(paths) {
                let index = interface_index(&path.tx.interface)?;
                ports.set(key, index, None, 0).map_err(|e| {
                    EngineError::bpf(format!("send into {}", path.tx.interface), &e)
                })?;
                ingress = index;
            }
            Ok(XdpLive {
                netns,
                ingress,
                cpus: cpus.to_vec(),
                paths: paths.len(),
                stream: array(&mut programs, "stream")?,
                control: array(&mut programs, "control")?,
                progress: array(&mut programs, "progress")?,
                programs: Arc::new(programs),
                armed: None,
                running: None,
            })
        })
    }

    fn write_control(&mut self, control: Control) -> Result<(), EngineError> {
        self.control
            .set(0, control, 0)
            .map_err(|e| EngineError::bpf("steer the live-frames sender", &e))
    }

    fn progress(&self) -> Result<Progress, EngineError> {
        self.progress
            .get(&0, 0)
            .map_err(|e| EngineError::bpf("read the live-frames sender's counters", &e))
    }
}

impl Sender for XdpLive {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError> {
        let frames = frames.test(Mode::XdpLive.name())?;
        let (stream, buffer) = stream(frames);
        self.stream
            .set(0, stream, 0)
            .map_err(|e| EngineError::bpf("hand the frames to the live-frames sender", &e))?;
        self.armed = Some((frames.flows.version(), buffer));
        Ok(())
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        let (version, buffer) = match (&self.armed, &self.running) {
            (Some(armed), None) => armed.clone(),
            (None, _) => return Err(EngineError::Frames("the sender is not armed".into())),
            (_, Some(_)) => return Err(EngineError::Frames("the sender still runs".into())),
        };
        self.progress
            .set(0, Progress::default(), 0)
            .map_err(|e| EngineError::bpf("reset the live-frames sender", &e))?;
        let start_ns = monotonic_ns() + LEAD.as_nanos() as u64;
        let control = Control {
            start_ns,
            end_ns: start_ns + schedule.at_most.as_nanos() as u64,
            gap: schedule
                .load_pps
                .map_or(0, |pps| (1e9 / pps * 65536.0).round().max(1.0) as u64),
            frames: schedule.frames.unwrap_or(0),
            path: schedule.path as u32,
            catch_up_us: CATCH_UP_US,
        };
        self.write_control(control)?;
        prepare_interrupts();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (stop, programs) = (stop.clone(), self.programs.clone());
            let (netns, cpus, ingress) = (self.netns.clone(), self.cpus.clone(), self.ingress);
            thread::Builder::new()
                .name("fwdlab-send".into())
                .spawn(move || {
                    pin(&cpus)?;
                    become_preferred();
                    enter(&netns)?;
                    send(&programs, version, ingress, &buffer, control.end_ns, &stop)
                })
                .map_err(|e| EngineError::system("start the sender thread", e))?
        };
        self.running = Some(Running {
            control,
            stop,
            thread,
        });
        Ok(())
    }

    fn select(&mut self, path: usize) -> Result<(), EngineError> {
        let Some(running) = self.running.as_mut().filter(|_| path < self.paths) else {
            return Err(EngineError::Frames(format!(
                "there is no running path {path}"
            )));
        };
        running.control.path = path as u32;
        let control = running.control;
        self.write_control(control)
    }

    fn renew(&mut self) -> Result<Duration, EngineError> {
        let Some(running) = &mut self.running else {
            return Err(EngineError::Frames("the sender does not run".into()));
        };
        running.control.start_ns = monotonic_ns() + LEAD.as_nanos() as u64;
        let control = running.control;
        self.write_control(control)?;
        // the thread begins the next test run at once; a signal that comes just between two runs is lost, and nothing is
        // but a renewal
        if let Some(running) = &self.running {
            interrupt(&running.thread);
        }
        Ok(LEAD)
    }

    fn set_load(&mut self, _load_pps: f64) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: self.capabilities().mode.name(),
            what: "change the load while it sends".into(),
        })
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        Ok(None)
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        let progress = self.progress()?;
        Ok(SendCounts {
            sent: progress.sent[..self.paths].to_vec(),
            not_sent: progress.not_sent,
            ..SendCounts::default()
        })
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        if let Some(Running {
            mut control,
            stop,
            thread,
        }) = self.running.take()
        {
            // first no more frames, then no more test run
            control.end_ns = 0;
            self.write_control(control)?;
            stop.store(true, Ordering::Release);
            while !thread.is_finished() {
                // again and again: a signal that comes just before the call would be lost
                interrupt(&thread);
                thread::sleep(Duration::from_millis(1));
            }
            thread
                .join()
                .map_err(|_| EngineError::Thread("it panicked".into()))??;
        }
        self.counts()
    }

    fn is_done(&self) -> bool {
        let Some(running) = &self.running else {
            return true;
        };
        let control = &running.control;
        let all_sent =
            control.frames > 0 && self.progress().is_ok_and(|p| p.sequence >= control.frames);
        all_sent || monotonic_ns() >= control.end_ns || running.thread.is_finished()
    }
}

impl Drop for XdpLive {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// The sender thread: test run after test run until the end. One run of 2^32 calls lasts minutes; a run is set up in
/// some 25 ms, so starting one per batch would starve the DUT.
fn send(
    programs: &Ebpf,
    version: IpVersion,
    ingress: u32,
    buffer: &[u8],
    end_ns: u64,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let name = match version {
        IpVersion::V4 => "transmit_v4",
        IpVersion::V6 => "transmit_v6",
    };
    let program: &Xdp = programs
        .program(name)
        .and_then(|p| p.try_into().ok())
        .ok_or_else(|| EngineError::Thread(format!("no program {name}")))?;
    // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
    let context: Vec<u8> = [0, buffer.len() as u32, 0, ingress, 0, 0]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    while !stop.load(Ordering::Acquire) && monotonic_ns() < end_ns {
        let result = program.test_run(TestRunOptions {
            data_in: Some(buffer),
            ctx_in: Some(&context),
            repeat: u32::MAX,
            attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
            ..TestRunOptions::new()
        });
        match result {
            Ok(_) => {}
            Err(ProgramError::SyscallError(error))
                if error.io_error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(EngineError::bpf("send live frames", &error)),
        }
    }
    Ok(())
}

/// The frames as the BPF program wants them, and a first frame.
fn stream(frames: &TestFrames) -> (Stream, Vec<u8>) {
    let (first, last) = (
        frames.flows.flow(0),
        frames.flows.flow(frames.flows.len() - 1),
    );
    let signature = Signature {
        nonce: frames.nonce,
        ..Signature::default()
    };
    let mut buffer = vec![0; frames.template.buffer_len()];
    frames.template.write(&mut buffer, &first, &signature);
    let low = |addresses: &Addresses| match addresses {
        Addresses::V4 {
            source,
            destination,
        } => (u32::from(*source), u32::from(*destination)),
        Addresses::V6 {
            source,
            destination,
        } => (u128::from(*source) as u32, u128::from(*destination) as u32),
    };
    let (source, destination) = low(&first.addresses);
    let (last_source, last_destination) = low(&last.addresses);
    let head = match frames.flows.version() {
        IpVersion::V4 => 60,
        IpVersion::V6 => 80,
    };
    let mut stream = Stream {
        head: [0; 80],
        source_base: source,
        source_count: last_source - source + 1,
        destination_base: destination,
        destination_count: last_destination - destination + 1,
        source_port_base: first.source_port,
        source_port_count: last.source_port - first.source_port + 1,
        destination_port_base: first.destination_port,
        destination_port_count: last.destination_port - first.destination_port + 1,
        ip_sum: u32::from(frames.template.partial_sums().ipv4_header),
        udp_sum: udp_sum(frames, &signature),
        timestamps: 0,
    };
    stream.head[..head].copy_from_slice(&buffer[..head]);
    (stream, buffer)
}

/// The UDP sum without what changes from frame to frame: low address words, ports, sequence, time.
fn udp_sum(frames: &TestFrames, signature: &Signature) -> u32 {
    let mut payload = [0; packet::signature::LEN];
    signature.write(&mut payload);
    let mut sum = u32::from(frames.template.partial_sums().udp);
    for pair in payload[..4].chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    if let Addresses::V6 {
        source,
        destination,
    } = frames.flows.flow(0).addresses
    {
        for address in [source, destination] {
            sum += address.segments()[..6]
                .iter()
                .map(|&word| u32::from(word))
                .sum::<u32>();
        }
    }
    (sum >> 16) + (sum & 0xffff)
}

fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp, EngineError> {
    programs
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| EngineError::Frames(format!("the object has no XDP program {name}")))
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
