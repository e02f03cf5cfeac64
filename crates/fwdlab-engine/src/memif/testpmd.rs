//! Trials against DPDK's testpmd, another implementation of memif, in both roles.
//!
//! A testpmd for each connection: 22.11 crashes after several clients, and if a client comes before
//! its port is started. Its own counters are the reference. Skipped, and counted, where there is
//! none. Start with [`Testpmd`].

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{slice, thread};

use super::port::Half;
use super::ring::{Incoming, Outgoing};
use super::trials::{Bed, DEADLINE, NONCE, expected, flat_out, received, send, test_frames, until};
use super::*;
use crate::generator::Schedule;
use crate::sys::become_preferred;
use crate::testing::chance::chance;
use crate::traffic::player::{Room, Slot};

/// A running testpmd with one memif port; killed when dropped.
struct Testpmd {
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    readers: Vec<thread::JoinHandle<()>>,
    /// The path at which our client looks for it.
    door: Option<PathBuf>,
    /// What DPDK leaves behind.
    litter: PathBuf,
}

/// Its counters at the end.
#[derive(Debug)]
struct Counts {
    received: u64,
    sent: u64,
    dropped: u64,
}

impl Testpmd {
    /// Starts it, if there is one.
    fn start(test: &str, bed: &Bed, role: Role, mode: &str, queues: u16) -> Option<Testpmd> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        if Command::new("dpdk-testpmd")
            .arg("--version")
            .output()
            .is_err()
        {
            println!("SKIPPED: {test}: no dpdk-testpmd (Debian's package dpdk-dev)");
            return None;
        }
        let ours = bed.options(role).socket;
        // our client must not find its server too early
        let (role, theirs) = match role {
            Role::Client => ("client", ours.clone()),
            Role::Server => ("server", ours.with_extension(number.to_string())),
        };
        let socket = theirs.display();
        let cpus = allowed_cpus();
        let prefix = format!("fwdlab-{}-{number}", std::process::id());
        let mut child = Command::new("nice")
            // as our own threads, which may use the same CPU
            .args(["-n", "-20", "stdbuf", "-oL", "dpdk-testpmd"])
            .arg(format!("--lcores=0@({cpus}),1@({cpus})"))
            .arg(format!(
                "--vdev=net_memif0,role={role},id=0,socket={socket},socket-abstract=no,rsize=10"
            ))
            .args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry"])
            .arg(format!("--file-prefix={prefix}"))
            .args([
                "--",
                "--auto-start",
                "--disable-link-check",
                "--total-num-mbufs=16384",
            ])
            .arg(format!("--forward-mode={mode}"))
            .args([format!("--rxq={queues}"), format!("--txq={queues}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nice and stdbuf, of the coreutils");
        let output = Arc::new(Mutex::new(vec![]));
        let read = |mut from: Box<dyn Read + Send>| {
            let output = output.clone();
            thread::spawn(move || {
                let mut some = [0; 4096];
                while let Ok(bytes @ 1..) = from.read(&mut some) {
                    output.lock().expect("no panic").extend(&some[..bytes]);
                }
            })
        };
        let stdout = child.stdout.take().expect("a pipe");
        let stderr = child.stderr.take().expect("a pipe");
        let readers = vec![read(Box::new(stdout)), read(Box::new(stderr))];
        let mut testpmd = Testpmd {
            child,
            output,
            readers,
            litter: Path::new("/var/run/dpdk").join(prefix),
            door: None,
        };
        until("testpmd does not start", || {
            let ended = testpmd.child.try_wait().expect("a child");
            assert!(ended.is_none(), "testpmd {ended:?}: {}", testpmd.text());
            testpmd.text().contains("Press enter to exit")
        });
        if theirs != ours {
            std::os::unix::fs::symlink(theirs, &ours).expect("a free name");
            testpmd.door = Some(ours);
        }
        Some(testpmd)
    }

    /// Returns what it has said so far.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().expect("no panic")).into_owned()
    }

    /// Waits until it is connected; fails with its last words if it has ended.
    fn connected(&mut self, port: &Port) {
        let begin = Instant::now();
        while port.wait_for_peer(Duration::from_millis(20)).is_err() {
            let ended = self.child.try_wait().expect("a child");
            if ended.is_some() || begin.elapsed() > DEADLINE {
                let status = port.status();
                let words = self.end();
                panic!("testpmd {ended:?} did not connect: {status:?}; it said: {words}");
            }
        }
    }

    /// Ends it as a key press does; returns its output.
    fn end(&mut self) -> String {
        if let Some(door) = self.door.take() {
            let _ = std::fs::remove_file(door);
        }
        if let Some(mut stdin) = self.child.stdin.take() {
            let _ = stdin.write_all(b"\n");
        }
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < DEADLINE {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        self.text()
    }

    fn counts(&mut self) -> Counts {
        let output = self.end();
        let read = |name: &str| {
            // the sum over all ports comes last
            let at = output
                .rfind(name)
                .unwrap_or_else(|| panic!("no {name} in: {output}"));
            let number = output[at + name.len()..].split_whitespace().next();
            number
                .and_then(|n| n.parse().ok())
                .unwrap_or_else(|| panic!("{name}: {output}"))
        };
        Counts {
            received: read("RX-packets: "),
            sent: read("TX-packets: "),
            dropped: read("TX-dropped: "),
        }
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.litter);
    }
}

/// Returns the CPUs of this process, as testpmd writes sets.
fn allowed_cpus() -> String {
    let set = rustix::thread::sched_getaffinity(None).expect("our own CPUs");
    let cpus = (0..1024)
        .filter(|&cpu| set.is_set(cpu))
        .map(|cpu| cpu.to_string());
    cpus.collect::<Vec<_>>().join(",")
}

/// Our role, and testpmd's.
const ROLES: [(Role, Role); 2] = [(Role::Client, Role::Server), (Role::Server, Role::Client)];

fn port(bed: &Bed, role: Role, queues: u16) -> Port {
    let options = Options {
        queues,
        ring_log2: 10,
        buffer_bytes: 2048,
        ..bed.options(role)
    };
    Port::open(&options).expect("a port")
}

/// Random bytes of random lengths, as we sent them and in the same order, through each queue.
#[test]
fn testpmd_returns_every_byte() {
    const TEST: &str = "memif::testpmd::testpmd_returns_every_byte";
    for (own, other) in ROLES {
        for queues in [1, 2] {
            let bed = Bed::new();
            let port = port(&bed, own, queues);
            let Some(mut testpmd) = Testpmd::start(TEST, &bed, other, "io", queues) else {
                return;
            };
            testpmd.connected(&port);
            let (mut out, mut back) = (Half::<Outgoing>::new(&port), Half::<Incoming>::new(&port));
            out.renew();
            back.renew();
            assert_eq!(
                (out.rings.len(), back.rings.len()),
                (queues.into(), queues.into())
            );
            let total = 2000;
            for (sender, receiver) in out.rings.iter_mut().zip(&mut back.rings) {
                if let Err(reason) = echo(sender, receiver, total) {
                    let ended = testpmd.child.try_wait();
                    let (status, words) = (port.status(), testpmd.end());
                    panic!(
                        "as {own:?}, {queues} queues: {reason}; {status:?}; testpmd {ended:?}: {words}"
                    );
                }
            }
            let all = total * u64::from(queues);
            let counts = testpmd.counts();
            assert_eq!(
                (counts.received, counts.sent, counts.dropped),
                (all, all, 0)
            );
        }
    }
}

fn echo(sender: &mut Outgoing, receiver: &mut Incoming, total: u64) -> Result<(), String> {
    // as testpmd, which would have the CPU for itself otherwise
    become_preferred();
    let mut random = chance(total);
    let (mut sent, mut returned) = (0, 0);
    let mut flying: VecDeque<Vec<u8>> = VecDeque::new();
    let begin = Instant::now();
    while returned < total {
        sender.poll(|_| {}).expect("testpmd keeps the protocol");
        // few enough that testpmd drops none
        while sent < total && flying.len() < 200 {
            let bytes = 14 + random(1505);
            let mut frame = vec![0; bytes as usize];
            for part in frame.chunks_mut(8) {
                part.copy_from_slice(&random(u64::MAX).to_ne_bytes()[..part.len()]);
            }
            let Some((buffer, _)) = sender.next() else {
                break;
            };
            buffer[..frame.len()].copy_from_slice(&frame);
            sender.filled(Slot {
                bytes: frame.len() as u32,
                stream: 0,
                kind: None,
            });
            flying.push_back(frame);
            sent += 1;
        }
        sender.publish();
        if receiver.poll().expect("testpmd keeps the protocol") == 0 {
            thread::yield_now();
        }
        receiver.frames(|frame| {
            let expected = flying.pop_front().expect("a frame of ours");
            assert_eq!(frame.len(), expected.len(), "after {returned} frames");
            let wrong = frame.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!(
                wrong,
                None,
                "of {} bytes, after {returned} frames",
                frame.len()
            );
            returned += 1;
        });
        if begin.elapsed() > DEADLINE {
            return Err(format!(
                "{returned} of {total} frames came back, {sent} were sent"
            ));
        }
    }
    assert_eq!(receiver.malformed(), 0);
    Ok(())
}

/// At full speed, to the frame: sent is what testpmd received; returned and dropped is what we
/// sent.
#[test]
fn testpmd_counts_what_we_count() {
    const TEST: &str = "memif::testpmd::testpmd_counts_what_we_count";
    for (own, other) in ROLES {
        for mode in ["rxonly", "io"] {
            let bed = Bed::new();
            let port = port(&bed, own, 1);
            let Some(mut testpmd) = Testpmd::start(TEST, &bed, other, mode, 1) else {
                return;
            };
            testpmd.connected(&port);
            let mut sender = sender(slice::from_ref(&port), &[]);
            let mut receiver = receiver(&port, &[]).expect("a receiver");
            receiver.expect(&expected(NONCE, true)).expect("a plan");
            let frames = 100_000;
            let counts = send(&mut sender, &test_frames(NONCE), flat_out(frames));
            assert_eq!((counts.sent, counts.not_sent), (vec![frames], 0));
            let returned = steady(|| received(&mut receiver).received);
            let theirs = testpmd.counts();
            assert_eq!(theirs.received, frames, "{theirs:?}");
            match mode {
                "rxonly" => assert_eq!((theirs.sent, returned), (0, 0)),
                _ => {
                    // it may have frames in its own hands, but not at its end
                    assert_eq!(theirs.sent + theirs.dropped, frames, "{theirs:?}");
                    assert!(theirs.sent > 1000, "{theirs:?}");
                    until("frames are missing", || {
                        received(&mut receiver).received == theirs.sent
                    });
                    let analysis = receiver.analysis().expect("results").expect("a plan");
                    let stream = &analysis.streams[0];
                    assert_eq!(
                        (stream.corrupt, stream.duplicates, stream.reordered),
                        (0, 0, 0)
                    );
                    assert_eq!(stream.latency.len(), theirs.sent);
                }
            }
            let others = received(&mut receiver);
            assert_eq!(
                (others.late, others.foreign, others.wrong_length),
                (0, 0, 0)
            );
        }
    }
}

/// Returns a count once it has not changed for some time.
fn steady(mut count: impl FnMut() -> u64) -> u64 {
    let (mut last, mut since) = (count(), Instant::now());
    while since.elapsed() < Duration::from_millis(200) {
        thread::sleep(Duration::from_millis(5));
        let now = count();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

/// Two testpmds, one after the other, during one trial: what they received together was sent.
#[test]
fn testpmd_may_restart_during_a_trial() {
    const TEST: &str = "memif::testpmd::testpmd_may_restart_during_a_trial";
    for (own, other) in ROLES {
        let bed = Bed::new();
        let port = port(&bed, own, 1);
        let mut sender = sender(slice::from_ref(&port), &[]);
        sender
            .arm(&test_frames(NONCE))
            .expect("room for the frames");
        let mut theirs = 0;
        for start in 0..2 {
            let Some(mut testpmd) = Testpmd::start(TEST, &bed, other, "rxonly", 1) else {
                return;
            };
            testpmd.connected(&port);
            if start == 0 {
                let schedule = Schedule {
                    frames: None,
                    ..flat_out(0)
                };
                sender.start(schedule).expect("a thread");
            }
            let before = sender.counts().expect("counts").sent[0];
            until("no frames", || {
                sender.counts().expect("counts").sent[0] > before + 10_000
            });
            theirs += testpmd.counts().received;
            until("the port did not notice", || port.status().peer.is_none());
        }
        let counts = sender.stop().expect("a sender that did not fail");
        assert_eq!(
            (&counts.sent[..], port.status().connections),
            (&[theirs][..], 2)
        );
        assert_eq!(counts.not_sent, port.status().lost_in_rings);
    }
}
