//! The analysis of a port without XDP: a thread that reads a capture of it.
//!
//! Frames that do not fit into the capture's ring are our loss, not the DUT's: a socket that keeps
//! nothing counts all frames, so the number counted but not analysed is known. Start with
//! [`Analysing::start`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::analysis::{Analyser, Analysis, Expected, ReceiveCounts};
use crate::capture::{Capture, Captured, Options, Statistics};
use crate::error::EngineError;
use crate::port::PortSpec;
use crate::stamps::clock::{ClockOffset, Watch};
use crate::stamps::{Kind, Log, Origin, Origins, Stamped};

/// How long the thread waits for frames before it checks whether it must stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// A frame is delivered at most some 20 ms after it arrived: if none has come for this time, no
/// more will.
const CATCH_UP: Duration = Duration::from_millis(200);

/// A running analysis. Ends when dropped.
pub(super) struct Analysing {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    found: Mutex<FoundFrame>,
    stop: AtomicBool,
    watch: Watch,
}

struct FoundFrame {
    analyser: Analyser,
    statistics: Statistics,
    failed: Option<String>,
    /// Individual arrivals, if requested.
    arrivals: Option<Log>,
}

impl Analysing {
    /// Starts to analyse the frames of a port, and records their arrivals if those of the kernel or
    /// the card are requested.
    pub(super) fn start(
        engine: &'static str,
        port: &PortSpec,
        expected: &Expected,
        stamps: Option<Origin>,
    ) -> Result<Analysing, EngineError> {
        let mut analyser = Analyser::new(engine, expected)?;
        if stamps.is_some() {
            analyser.keep_arrivals();
        }
        let watch = Watch::begin().map_err(|e| EngineError::system("watch the clock", e))?;
        let mut capture = Capture::open(
            port,
            &Options {
                promiscuous: false,
                outgoing: false,
                stamps: stamps.map_or(Kind::User, |origin| origin.kind),
                ..Options::default()
            },
        )?;
        let shared = Arc::new(Shared {
            found: Mutex::new(FoundFrame {
                analyser,
                statistics: Statistics::default(),
                failed: None,
                arrivals: stamps.map(Log::new),
            }),
            stop: AtomicBool::new(false),
            watch,
        });
        let ours = shared.clone();
        let thread = thread::Builder::new()
            .name("fwdlab-analyse".into())
            .spawn(move || {
                while !ours.stop.load(Ordering::Acquire) {
                    if let Err(error) = ours.next_block(&mut capture) {
                        ours.found().failed = Some(error.to_string());
                        return;
                    }
                }
            })
            .map_err(|e| EngineError::system("start the thread of the analysis", e))?;
        Ok(Analysing {
            shared,
            thread: Some(thread),
        })
    }

    /// Adds to the counts what only the analysis knows.
    pub(super) fn complete(&mut self, counts: &mut ReceiveCounts) -> Result<(), EngineError> {
        let found = self.shared.check()?;
        let analysed = found.analyser.counts();
        counts.wrong_length = analysed.wrong_length;
        // frames still in the ring are not dropped
        counts.dropped_by_receiver = counts
            .received
            .saturating_sub(analysed.received)
            .min(found.statistics.dropped);
        Ok(())
    }

    /// Returns the analysis, once this number of frames has gone through the ring or was dropped.
    pub(super) fn read(&mut self, received: u64) -> Result<Analysis, EngineError> {
        let mut progress = (0, Instant::now());
        loop {
            let found = self.shared.check()?;
            let through = found.analyser.counts().received + found.statistics.dropped;
            if through > progress.0 {
                progress = (through, Instant::now());
            }
            if through >= received || progress.1.elapsed() > CATCH_UP {
                return Ok(found
                    .analyser
                    .analysis(Origins::from_intended(Origin::SOCKET)));
            }
            drop(found);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Analysing {
    /// Returns the arrivals so far.
    pub(super) fn arrivals(&mut self) -> Option<Log> {
        let mut log = self.shared.found().arrivals.clone()?;
        log.step_ns = match log.origin.kind {
            Kind::Hardware => None,
            Kind::User | Kind::Software => self.shared.watch.step_ns(),
        };
        Some(log)
    }
}

impl Drop for Analysing {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn found(&self) -> MutexGuard<'_, FoundFrame> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<MutexGuard<'_, FoundFrame>, EngineError> {
        let found = self.found();
        match &found.failed {
            Some(error) => Err(EngineError::Thread(format!("the analysis ended: {error}"))),
            None => Ok(found),
        }
    }

    /// Analyses the frames of one block of the ring. The lock is contended only by an occasional
    /// reader.
    fn next_block(&self, capture: &mut Capture) -> Result<(), EngineError> {
        let mut found = None;
        capture.frames(PATIENCE, &mut |frame| {
            let (found, lookahead) =
                found.get_or_insert_with(|| (self.found(), ClockOffset::read()));
            found.take(&frame, *lookahead);
            true
        })?;
        drop(found);
        let statistics = capture.statistics()?;
        self.found().statistics = statistics;
        Ok(())
    }
}

impl FoundFrame {
    fn take(&mut self, frame: &Captured<'_>, lookahead: ClockOffset) {
        let arrival_ns = match frame.stamped {
            // on another clock than departures
            Kind::Hardware => 0,
            Kind::User | Kind::Software => lookahead.to_monotonic(frame.timestamp_ns),
        };
        self.analyser.frame(frame.bytes, arrival_ns);
        let Some(log) = &mut self.arrivals else {
            return;
        };
        for stamped in self.analyser.take_arrivals() {
            match frame.stamped == log.origin.kind {
                true => log.push(Stamped {
                    at_ns: frame.timestamp_ns,
                    ..stamped
                }),
                false => log.missing += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature};

    use rustix::net::{SendFlags, send};

    use super::super::{PacketCount, sys};
    use super::*;
    use crate::analysis::{AnalysisPlan, StreamPlan};
    use crate::generator::Receiver;
    use crate::port::{interface_index, within};
    use crate::signature::SignaturePlace;

    /// A namespace with only `lo`, removed when dropped.
    struct TestNamespace(String);

    impl TestNamespace {
        fn new() -> Option<TestNamespace> {
            let alone = TestNamespace(format!("fwdlab-enginetest-{}-lo", std::process::id()));
            let run = |arguments: &str| {
                Command::new("ip")
                    .args(arguments.split(' '))
                    .output()
                    .map_err(|e| e.to_string())
                    .and_then(|output| {
                        let error = String::from_utf8_lossy(&output.stderr).into_owned();
                        output.status.success().then_some(()).ok_or(error)
                    })
            };
            let made = run(&format!("netns add {}", alone.0))
                .and_then(|()| run(&format!("-n {} link set lo up", alone.0)));
            match made {
                Ok(()) => Some(alone),
                Err(error) => {
                    let test = thread::current().name().unwrap_or("?").to_owned();
                    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {error}");
                    None
                }
            }
        }
    }

    impl TestNamespace {
        /// Returns the frames that `lo` received, once no more come: its queue may be behind.
        fn received(&self) -> u64 {
            let count = || -> u64 {
                let output = Command::new("ip")
                    .args(["netns", "exec", &self.0])
                    .args(["cat", "/sys/class/net/lo/statistics/rx_packets"])
                    .output()
                    .unwrap();
                String::from_utf8(output.stdout)
                    .unwrap()
                    .trim()
                    .parse()
                    .unwrap()
            };
            let mut last = count();
            loop {
                thread::sleep(Duration::from_millis(50));
                let now = count();
                if now == last {
                    return now;
                }
                last = now;
            }
        }
    }

    impl Drop for TestNamespace {
        fn drop(&mut self) {
            let _ = Command::new("ip")
                .args(["netns", "delete", &self.0])
                .output();
        }
    }

    /// The reader stalls while more frames come than fit the ring: they are received and dropped by
    /// us, and are not a loss of the DUT.
    #[test]
    fn frames_that_do_not_fit_are_dropped_by_the_receiver() {
        const FRAMES: u64 = 250_000;
        let Some(alone) = TestNamespace::new() else {
            return;
        };
        let port = PortSpec {
            netns: Some(format!("/run/netns/{}", alone.0).into()),
            interface: "lo".into(),
        };
        let mut receiver = PacketCount::open(&port).unwrap();
        receiver
            .expect(&Expected {
                nonce: 77,
                buffer_bytes: None,
                place: SignaturePlace::UdpPayload,
                analysis: Some(AnalysisPlan {
                    streams: vec![StreamPlan::default()],
                }),
            })
            .unwrap();
        let shared = receiver_shared(&receiver);
        let template = FrameTemplate::new(&FrameSpec {
            source: MacAddr([2, 0, 0, 0, 1, 1]),
            destination: MacAddr([2, 0, 0, 0, 0, 1]),
            version: IpVersion::V4,
            frame_size: 256,
        })
        .unwrap();
        let flow = FlowSet::default_v4(1).unwrap().flow(0);
        let stalled = shared.found();
        within(&port.netns, || {
            let socket = sys::open().unwrap();
            sys::bind(&socket, interface_index("lo")?, 0).unwrap();
            sys::bypass_qdisc(&socket).unwrap();
            let mut frame = vec![0; template.buffer_len()];
            for sequence in 0..FRAMES {
                let signature = Signature {
                    nonce: 77,
                    sequence,
                    ..Signature::default()
                };
                template.write(&mut frame, &flow, &signature);
                send(&socket, &frame, SendFlags::empty()).unwrap();
            }
            Ok(())
        })
        .unwrap();
        drop(stalled);
        // on a busy host, `lo` itself loses frames before any socket
        let arrived = alone.received();
        let found = receiver.analysis().unwrap().unwrap();
        let counts = receiver.counts().unwrap();
        assert_eq!(counts.received, arrived);
        assert!(counts.dropped_by_receiver > 0, "all {arrived} frames fit");
        let analysed = found.streams[0].received;
        assert_eq!(analysed + counts.dropped_by_receiver, arrived);
        assert!(analysed > 0);
    }

    fn receiver_shared(receiver: &PacketCount) -> Arc<Shared> {
        receiver.analysing().expect("it analyses").shared.clone()
    }
}
