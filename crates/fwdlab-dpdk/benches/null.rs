//! Our sender compared with DPDK's own generators, on a device that takes every frame and sends
//! none (net_null), in alternating turns within one run, as ratios.
//!
//! `cargo bench -p fwdlab-dpdk --features driver`, as root, best with free huge pages. All
//! contenders run all the time on one CPU and are stopped except in their turn, which lasts a tenth
//! of a second. A frame's cost is the CPU time of the busiest thread, by the kernel, over the
//! frames that the port has counted. A ratio is the median over the rounds of the ratio within a
//! round, with half of the distance between the quartiles. Ours has 2,000 flows, signatures and
//! both checksums; testpmd has neither signatures nor UDP checksums.
//!
//! Not a test: it never fails, even if a target is missed. Start with `main`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use fwdlab_engine::{Frames, LoadPlan, PortSpec, Schedule, StallPolicy, TestFrames};
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr};
use rustix::process::{Pid, Signal, kill_process};

const FLOWS: u32 = 2000;
const ROUNDS: usize = 21;
const TURN: Duration = Duration::from_millis(100);

/// A program that sends all the time, stopped except in its turn; killed when dropped.
struct Contender {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// What it is asked, and what its number of frames follows.
    question: &'static str,
    answer: &'static str,
}

impl Contender {
    fn start(
        name: &'static str,
        mut command: Command,
        (question, answer): (&'static str, &'static str),
    ) -> Result<Contender, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut contender = Contender {
            name,
            child,
            stdin,
            stdout,
            question,
            answer,
        };
        contender.frames()?;
        contender.signal(Signal::STOP);
        Ok(contender)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, signal);
    }

    /// Returns the frames that its port has sent.
    fn frames(&mut self) -> Result<u64, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.name);
        writeln!(self.stdin, "{}", self.question).map_err(failed)?;
        self.stdin.flush().map_err(failed)?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.stdout.read_line(&mut line).map_err(failed)? == 0 {
                return Err(format!("{} has ended", self.name));
            }
            let Some(at) = line.find(self.answer) else {
                continue;
            };
            let number = line[at + self.answer.len()..].split_whitespace().next();
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                return Ok(number);
            }
        }
    }

    /// Returns the CPU time of each thread, in nanoseconds.
    fn cpu_ns(&self) -> Vec<(String, u64)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let tasks = tasks.into_iter().flatten().flatten();
        let time = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            let ns = text.split(' ').next()?.parse().ok()?;
            Some((task.file_name().to_string_lossy().into_owned(), ns))
        };
        tasks.filter_map(time).collect()
    }

    /// Lets it send for a turn; returns the CPU time of a frame in nanoseconds.
    fn turn(&mut self) -> Result<f64, String> {
        self.signal(Signal::CONT);
        let frames = self.frames()?;
        let before = self.cpu_ns();
        thread::sleep(TURN);
        let frames = self.frames()? - frames;
        let after = self.cpu_ns();
        self.signal(Signal::STOP);
        let used = after.iter().filter_map(|(thread, ns)| {
            let (_, earlier) = before.iter().find(|(other, _)| other == thread)?;
            Some(ns - earlier)
        });
        Ok(used.max().unwrap_or(0) as f64 / frames.max(1) as f64)
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let litter = format!("/var/run/dpdk/bench-{}-{}", std::process::id(), self.name);
        let _ = fs::remove_dir_all(litter);
    }
}

/// The sender of this crate, in a process of its own: prints the frames sent for every line.
fn send(frame_size: u16, cpu: usize) -> Result<(), String> {
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        version: IpVersion::V4,
        frame_size,
    });
    let frames = Frames::Test(TestFrames {
        template: template.map_err(|e| e.to_string())?,
        flows: FlowSet::default_v4(FLOWS).map_err(|e| e.to_string())?,
        nonce: 1,
    });
    let port = PortSpec {
        netns: None,
        interface: "dpdk:net_null0".into(),
    };
    let failed = |e: fwdlab_engine::EngineError| e.to_string();
    let mut sender = fwdlab_dpdk::sender(&[port], &[cpu], 1).map_err(failed)?;
    sender.arm(&frames).map_err(failed)?;
    let schedule = Schedule {
        load: LoadPlan::FlatOut,
        frames: None,
        at_most: Duration::from_secs(600),
        stall_policy: StallPolicy::Skip,
        path: 0,
    };
    sender.start(schedule).map_err(failed)?;
    let mut lines = std::io::stdin().lines();
    while let Some(Ok(_)) = lines.next() {
        println!("sent {}", sender.counts().map_err(failed)?.total());
    }
    Ok(())
}

fn ours(name: &'static str, frame_size: u16, cpu: usize) -> Result<Contender, String> {
    let mut command = Command::new(env::current_exe().map_err(|e| e.to_string())?);
    command.args(["send", &frame_size.to_string(), &cpu.to_string()]);
    Contender::start(name, command, ("", "sent "))
}

fn testpmd(name: &'static str, mode: &[&str], cpu: usize) -> Result<Contender, String> {
    let mut command = Command::new("nice");
    let huge = fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
    let memory: &[&str] = match huge.trim() {
        "0" | "" => &["--no-huge", "-m", "512"],
        _ => &["--in-memory", "-m", "96"],
    };
    command
        // as our own threads
        .args(["-n", "-20", "stdbuf", "-oL", "dpdk-testpmd"])
        .arg(format!("--lcores=0@{cpu},1@{cpu}"))
        .args(["--vdev=net_null0", "--no-pci", "--no-telemetry"])
        .arg(format!("--file-prefix=bench-{}-{name}", std::process::id()))
        .args(memory)
        .args(["--", "-i", "--auto-start", "--total-num-mbufs=8192"])
        .args(mode);
    Contender::start(name, command, ("show port stats 0", "TX-packets: "))
}

/// Returns the median, and half of the distance between the quartiles.
fn spread(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
    (at(0.5), (at(0.75) - at(0.25)) / 2.0)
}

fn compare() -> Result<(), String> {
    let cpu = thread::available_parallelism().map_or(1, usize::from) - 1;
    let txonly = ["--forward-mode=txonly", "--txonly-multi-flow"];
    let flowgen = ["--forward-mode=flowgen", "--flowgen-flows=2000"];
    let mut all = [
        ours("ours, 64 bytes", 64, cpu)?,
        ours("ours, 1518 bytes", 1518, cpu)?,
        testpmd("txonly", &txonly, cpu)?,
        testpmd("flowgen", &flowgen, cpu)?,
    ];
    let mut rounds = vec![];
    for round in 0..ROUNDS {
        let mut costs = [0.0; 4];
        for turn in 0..all.len() {
            let number = match round % 2 {
                0 => turn,
                _ => all.len() - 1 - turn,
            };
            costs[number] = all[number].turn()?;
        }
        rounds.push(costs);
    }
    println!("{ROUNDS} rounds, turns of {TURN:?}, CPU {cpu}; nanoseconds of CPU time for a frame:");
    for (number, contender) in all.iter().enumerate() {
        let (median, half) = spread(rounds.iter().map(|costs| costs[number]).collect());
        println!("  {:<18} {median:>7.1} ± {half:.1}", contender.name);
    }
    println!("speed, as a ratio within a round:");
    for (words, faster, slower, target) in [
        ("ours to txonly --txonly-multi-flow", 0, 2, 1.0),
        ("ours to flowgen", 0, 3, 1.3),
        ("1518 bytes to 64 bytes", 1, 0, 0.9),
    ] {
        let ratios = rounds.iter().map(|costs| costs[slower] / costs[faster]);
        let (median, half) = spread(ratios.collect());
        println!("  {words:<36} {median:.2} ± {half:.2} (target {target})");
    }
    Ok(())
}

fn main() {
    let words: Vec<String> = env::args().collect();
    let result = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "send", size, cpu] => send(size.parse().unwrap_or(64), cpu.parse().unwrap_or(0)),
        _ => compare(),
    };
    if let Err(reason) = result {
        println!("no result: {reason}");
    }
}
