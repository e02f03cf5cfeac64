//! Other generators: programs that stay open, and are stopped except in their turns.
//!
//! `trafgen` of netsniff-ng, `dpdk-testpmd` of DPDK, and `limit.c` next to this file, which is
//! compiled here. Start with [`Rival::start`].

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::sink::Sink;
use fwdlab_engine::sys::monotonic_ns;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::contender::{Contender, cpu_time_ns};
use crate::{GENERATOR_CPU, OTHER_CPU};

/// Time limit for a generator to get ready; testpmd takes longest.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// A running program.
pub struct Rival {
    name: String,
    child: Child,
    group: Pid,
    count: Count,
    /// A file to remove afterwards.
    litter: Option<PathBuf>,
}

/// Where its frames are counted.
pub enum Count {
    Sink(Rc<Sink>),
    /// By testpmd itself, queried over its telemetry socket.
    Telemetry(OwnedFd),
}

impl Rival {
    /// Starts a program, waits for its first frames, and stops it.
    fn start(
        name: &str,
        command: &mut Command,
        count: impl FnOnce() -> Result<Count, String>,
        litter: Option<PathBuf>,
    ) -> Result<Box<dyn Contender>, String> {
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{name}: {e}"))?;
        let group = Pid::from_child(&child);
        let count = match count() {
            Ok(count) => count,
            Err(error) => {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = child.wait();
                return Err(format!("{name}: {error}"));
            }
        };
        let mut rival = Rival {
            name: name.to_owned(),
            child,
            group,
            count,
            litter,
        };
        rival.wait_for_frames()?;
        rival.pause()?;
        Ok(Box::new(rival))
    }

    fn wait_for_frames(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        while self.frames()? == 0 {
            if let Ok(Some(status)) = self.child.try_wait() {
                let words = self.last_words();
                return Err(format!("{}: {status}: {words}", self.name));
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("{}: has sent nothing", self.name));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn last_words(&mut self) -> String {
        let mut words = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut words);
        }
        words.lines().last().unwrap_or_default().to_owned()
    }
}

impl Contender for Rival {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn continue_sending(&mut self) -> Result<(), String> {
        kill_process_group(self.group, Signal::CONT).map_err(|e| e.to_string())
    }

    fn pause(&mut self) -> Result<(), String> {
        kill_process_group(self.group, Signal::STOP).map_err(|e| e.to_string())
    }

    fn frames(&mut self) -> Result<u64, String> {
        match &self.count {
            Count::Sink(sink) => sink
                .counts()
                .map(|sunk| sunk.frames)
                .map_err(|e| e.to_string()),
            Count::Telemetry(socket) => sent_by_testpmd(socket),
        }
    }

    fn now_ns(&self) -> Result<u64, String> {
        match &self.count {
            Count::Sink(_) => Ok(monotonic_ns()),
            Count::Telemetry(_) => cpu_time_ns(&self.child.id().to_string()),
        }
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // trafgen restores what it tuned when it gets SIGINT
        let _ = kill_process_group(self.group, Signal::INT);
        let _ = kill_process_group(self.group, Signal::CONT);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) && matches!(self.child.try_wait(), Ok(None))
        {
            thread::sleep(POLL);
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
        if let Some(litter) = &self.litter {
            let _ = fs::remove_dir_all(litter);
        }
    }
}

/// Returns a command with the same priority as our own sender threads.
fn preferred(program: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "-20", program]);
    command
}

fn in_netns(netns: &str, program: &str) -> Command {
    let mut command = preferred("ip");
    command.args(["netns", "exec", netns, program]);
    command
}

/// The shortest loop around one way to send: `packet`, `xdp`, `live` or `live-written`.
pub fn limit(
    name: &str,
    way: &str,
    netns: &str,
    interface: &str,
    sink: Rc<Sink>,
) -> Result<Box<dyn Contender>, String> {
    let program = compiled_limit()?;
    let mut command = in_netns(netns, &program.to_string_lossy());
    command.args([way, interface, &GENERATOR_CPU.to_string()]);
    Rival::start(name, &mut command, || Ok(Count::Sink(sink)), None)
}

/// Compiles `limit.c` into the folder of this benchmark's own program.
fn compiled_limit() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let program = own.with_file_name("fwdlab-limit");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/veth/limit.c");
    let status = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .map_err(|e| format!("cc: {e}"))?;
    match status.success() {
        true => Ok(program),
        false => Err("limit.c does not compile here".into()),
    }
}

/// trafgen with one constant frame and one process, which binds itself to CPU 0.
///
/// Its gaps (`-t`) switch from the mapped ring to one system call per frame: 0.02 Mpps, never its
/// best.
pub fn trafgen(
    name: &str,
    options: &[&str],
    netns: &str,
    interface: &str,
    sink: Rc<Sink>,
) -> Result<Box<dyn Contender>, String> {
    let frame = "{ 2,0,0,0,0,2, 2,0,0,0,0,1, 8,0, 0x45,0,0,46,0,0,0,0,64,17,0,0, 198,18,0,1, 198,19,0,1, \
                 0,9,0,9,0,26,0,0, fill(0,18) }";
    let mut command = in_netns(netns, "trafgen");
    command
        .args([
            "--dev",
            interface,
            "--cpus",
            "1",
            "--notouch-irq",
            "--no-cpu-stats",
        ])
        .args(options)
        .arg(frame);
    Rival::start(name, &mut command, || Ok(Count::Sink(sink)), None)
}

/// testpmd as a sender only, on its own port.
pub fn testpmd(
    name: &str,
    device: &str,
    options: &[&str],
    netns: Option<&str>,
    sink: Option<Rc<Sink>>,
) -> Result<Box<dyn Contender>, String> {
    let prefix = format!(
        "fwdlab-{}-{}",
        std::process::id(),
        name.replace([' ', ','], "-")
    );
    let program = "dpdk-testpmd";
    let mut command = netns.map_or_else(|| preferred(program), |netns| in_netns(netns, program));
    let lcores = format!("{OTHER_CPU},{GENERATOR_CPU}");
    let main = OTHER_CPU.to_string();
    command.args([
        "-l",
        &lcores,
        "--main-lcore",
        &main,
        "--no-pci",
        "--file-prefix",
        &prefix,
    ]);
    command.args(["--vdev", device]);
    match huge_pages_are_free() {
        true => command.args(["--huge-unlink", "-m", "128"]),
        false => command.args(["--no-huge", "-m", "256"]),
    };
    command
        .args([
            "--",
            "--forward-mode=txonly",
            "--auto-start",
            "--nb-cores=1",
        ])
        .args(["--total-num-mbufs=16384"])
        .args(options);
    let folder = Path::new("/var/run/dpdk").join(&prefix);
    let count = || match sink {
        Some(sink) => Ok(Count::Sink(sink)),
        None => telemetry(&folder.join("dpdk_telemetry.v2")).map(Count::Telemetry),
    };
    Rival::start(name, &mut command, count, Some(folder.clone()))
}

/// Returns true if 64 pages of 2 MiB are free, which is enough for testpmd. The administrator
/// configures them.
pub fn huge_pages_are_free() -> bool {
    let free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = fs::read_to_string(free).ok();
    let is_mounted = File::open("/dev/hugepages").is_ok();
    is_mounted && free.is_some_and(|free| free.trim().parse::<u32>().is_ok_and(|free| free >= 64))
}

fn telemetry(path: &Path) -> Result<OwnedFd, String> {
    let begin = Instant::now();
    loop {
        match connect(path) {
            Ok(socket) => return Ok(socket),
            Err(error) if begin.elapsed() > PATIENCE => {
                return Err(format!("its telemetry at {}: {error}", path.display()));
            }
            Err(_) => thread::sleep(POLL),
        }
    }
}

fn connect(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    // discard its greeting
    rustix::io::read(&socket, &mut [0; 4096])?;
    Ok(socket)
}

fn sent_by_testpmd(socket: &OwnedFd) -> Result<u64, String> {
    let mut answer = [0; 16_384];
    let len = rustix::io::write(socket, b"/ethdev/stats,0")
        .and_then(|_| rustix::io::read(socket, &mut answer))
        .map_err(|e| e.to_string())?;
    let answer: serde_json::Value =
        serde_json::from_slice(&answer[..len]).map_err(|e| e.to_string())?;
    answer["/ethdev/stats"]["opackets"]
        .as_u64()
        .ok_or_else(|| format!("its telemetry says {answer}"))
}
