//! A QEMU process: its start, its monitor, its end, and what can be read afterwards.
//!
//! Does not know guests: [`super::machine`] and [`super::computer`] decide about the hardware and
//! the software of a machine. Start with [`Qemu::start`].

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libc::SIGKILL;
use serde_json::Value;

use super::monitor::{EventCallback, Monitor, QmpCommand};
use crate::error::LabError;
use crate::host::local::ENDED_TOGETHER;
use crate::host::wire::connection::EndReason;
use crate::host::{self, Host, Limit, Local};
use crate::sys::die_with_parent;

/// The program, and the Debian package that contains it.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
pub(crate) const PACKAGE: &str = "qemu-system-x86";

/// Grace period of a machine that was asked to end.
const END: Duration = Duration::from_secs(3);

/// Time between two checks while waiting.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Number of lines of a console that are shown with an error.
const LAST_LINES: usize = 12;

/// The longest path of a socket: `sun_path` in unix(7), without the terminating zero.
const LONGEST_SOCKET: usize = 107;

/// The longest name of a socket in a machine's directory, with its slash.
const LONGEST_NAME: usize = "/console".len();

/// Messages with which kernels panic: Linux, and the BSDs.
const PANICS: [&str; 2] = ["Kernel panic - not syncing", "Fatal trap "];
const PANIC_AT_BEGIN: &str = "panic: ";

/// Files of a machine in its directory.
pub(super) const CONSOLE: &str = "console.log";
const LOG: &str = "qemu.log";
/// Output of the firmware before anything else runs, if it has no other console.
pub(super) const FIRMWARE: &str = "bios.log";

/// What executes a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// The emulator with one thread, whose clock advances by 1 ns for every instruction.
    Counting,
    /// The emulator at full speed.
    Emulated,
    /// This machine's own processor.
    Kvm,
}

/// A description for results.
impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Accelerator::Counting => "QEMU's emulator, which counts instructions",
            Accelerator::Emulated => "QEMU's emulator",
            Accelerator::Kvm => "KVM",
        })
    }
}

/// The emulator carries out string instructions byte by byte: they would count once per byte. A
/// restart took 18 to 27 s with them, and 15 s without.
const EMULATED_CPU: &str = "max,-erms,-fsrm";

impl Accelerator {
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Accelerator::Counting => &[
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
                "-cpu",
                EMULATED_CPU,
            ],
            // when a restarted system overwrites its old code, the emulator discards its
            // translations of it, page by page; with a buffer for translations of this size (MiB),
            // a router that had been in use restarts in 17 s, not in 45 s
            Accelerator::Emulated => &[
                "-accel",
                "tcg,thread=multi,tb-size=128",
                "-cpu",
                EMULATED_CPU,
            ],
            Accelerator::Kvm => &["-accel", "kvm", "-cpu", "host"],
        }
    }
}

/// Returns the version of the emulator, as it prints it.
///
/// # Errors
/// Why it does not run.
pub(crate) fn version() -> Result<String, String> {
    let limit = Limit {
        time: Duration::from_secs(10),
        is_stopped: &|| false,
    };
    let printed = Local.run(&host::Command::new(QEMU, &["--version"]), limit);
    let printed = printed.map_err(|error| error.to_string())?.text();
    Ok(printed.lines().next().unwrap_or_default().trim().to_owned())
}

/// Returns the command line of a machine without any default devices.
pub(super) fn command(accelerator: Accelerator, cpus: u32, memory_mib: u32) -> Command {
    let mut command = Command::new(QEMU);
    command
        .args(["-nodefaults", "-no-user-config", "-display", "none"])
        .args(["-name", "fwdlab"])
        .args(accelerator.arguments())
        .args(["-smp", &cpus.to_string()])
        .args(["-m", &memory_mib.to_string()]);
    command
}

/// Escapes a path as a value in an option of QEMU, where a single comma would begin the next
/// option.
pub(super) fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

/// A QEMU process. A separate thread starts it and waits for it, because the process dies with the
/// thread that started it. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Qemu {
    name: String,
    folder: PathBuf,
    waiting: Option<JoinHandle<()>>,
    remains: MachineFiles,
    monitor: Option<Monitor>,
}

#[derive(Debug, Default)]
struct State {
    pid: Option<u32>,
    /// True if we asked it to end, or killed it.
    is_ended_by_us: bool,
    /// How it ended.
    ended: Option<String>,
}

impl Qemu {
    /// Starts the process, and waits until its monitor answers; then its sockets in the directory
    /// exist, too.
    ///
    /// # Errors
    /// There is no QEMU; it refuses its options; the start was stopped.
    pub fn start(
        name: &str,
        remains: &MachineFiles,
        mut command: Command,
        hear: EventCallback,
        limit: Limit<'_>,
    ) -> Result<Qemu, LabError> {
        let folder = remains.folder.clone();
        let system =
            |action: &str, e: io::Error| LabError::system(format!("{action} for {name}"), e);
        let socket = folder.join("qmp");
        let _ = fs::remove_file(&socket);
        let log = File::create(folder.join(LOG)).map_err(|e| system("write a log", e))?;
        command
            .args([
                "-qmp",
                &format!("unix:{},server=on,wait=off", escaped(&socket)),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        die_with_parent(&mut command);
        *remains.state() = State::default();
        let (started, is_started) = channel();
        let waiting = {
            let state = remains.state.clone();
            std::thread::Builder::new()
                .name("fwdlab-vm".into())
                .spawn(move || run(command, &state, &started))
                .map_err(|e| LabError::system("start a thread", e))?
        };
        let start_time = is_started.recv().unwrap_or(Ok(()));
        start_time.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => LabError::Preflight(format!(
                "virtual machines need {QEMU}, and there is no such program. Install it with: apt-get install {PACKAGE}"
            )),
            _ => LabError::system(format!("start {QEMU}"), e),
        })?;
        let mut qemu = Qemu {
            name: name.to_owned(),
            folder,
            waiting: Some(waiting),
            remains: remains.clone(),
            monitor: None,
        };
        let stream = qemu.connect("qmp", limit)?;
        let monitor = Monitor::on(stream, hear);
        qemu.monitor = Some(monitor.map_err(|e| match qemu.has_ended_soon() {
            true => qemu.not_up(&qemu.remains.words()),
            false => qemu.not_up(&e.to_string()),
        })?);
        Ok(qemu)
    }

    /// Sends a command to QEMU.
    ///
    /// # Errors
    /// It refuses, or has ended.
    pub fn query(&self, action: QmpCommand<'_>) -> io::Result<Value> {
        let monitor = self
            .monitor
            .as_ref()
            .expect("it exists once it has started");
        monitor.query(action)
    }

    /// Connects to a socket in the directory.
    ///
    /// # Errors
    /// QEMU ended, or the wait was stopped.
    pub fn connect(&self, socket: &str, limit: Limit<'_>) -> Result<UnixStream, LabError> {
        let socket = self.folder.join(socket);
        let started = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                return Ok(stream);
            }
            if self.remains.has_ended() {
                return Err(self.not_up(&self.remains.words()));
            }
            if (limit.is_stopped)() {
                return Err(LabError::Interrupted);
            }
            if started.elapsed() > limit.time {
                return Err(self.not_up("QEMU does not start"));
            }
            std::thread::sleep(LOOK);
        }
    }

    pub fn not_up(&self, cause: &str) -> LabError {
        LabError::NotUp {
            image: self.name.clone(),
            reason: cause.to_owned(),
        }
    }

    /// Ends it: first on request, then by force.
    pub fn end(&mut self) {
        if let Some(monitor) = &self.monitor
            && !self.remains.has_ended()
        {
            self.remains.state().is_ended_by_us = true;
            // it may be gone before it answers
            let _ = monitor.query(QmpCommand::Quit);
        }
        self.has_ended_soon();
        self.kill();
    }

    fn has_ended_soon(&self) -> bool {
        let started = Instant::now();
        while !self.remains.has_ended() && started.elapsed() < END {
            std::thread::sleep(LOOK);
        }
        self.remains.has_ended()
    }

    /// Ends it at once, like pulling its power cord.
    pub fn kill(&mut self) {
        let mut state = self.remains.state();
        if let (Some(pid), None) = (state.pid, &state.ended) {
            state.is_ended_by_us = true;
            crate::sys::kill_group(pid);
        }
        drop(state);
        if let Some(waiting) = self.waiting.take() {
            let _ = waiting.join();
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts the process, reports that, and waits for its end.
fn run(mut command: Command, state: &Mutex<State>, started: &Sender<io::Result<()>>) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child: Child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            lock().ended = Some("it was not started".into());
            let _ = started.send(Err(e));
            return;
        }
    };
    lock().pid = Some(child.id());
    let _ = started.send(Ok(()));
    let status = child.wait();
    let is_ended_by_us = {
        let mut state = lock();
        state.pid = None;
        state.is_ended_by_us
    };
    // QEMU ends with code 0 if it is asked to end by a signal
    if !is_ended_by_us {
        std::thread::sleep(ENDED_TOGETHER);
    }
    let words = status.map_or_else(|e| e.to_string(), |status| end(status, is_ended_by_us));
    lock().ended = Some(words);
}

fn end(status: ExitStatus, is_ended_by_us: bool) -> String {
    match status.signal() {
        Some(SIGKILL) if !is_ended_by_us => format!(
            "{status}: it was killed, most likely by this host, which had no memory left. Give machines less memory, or stop other programs"
        ),
        _ => status.to_string(),
    }
}

/// What can be read about a machine while it runs and after its end, in its directory.
#[derive(Debug, Clone)]
pub(super) struct MachineFiles {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
    /// Length of the console output at the last start, in bytes.
    began: Arc<AtomicUsize>,
}

impl MachineFiles {
    /// Creates the directory of a machine.
    ///
    /// # Errors
    /// It cannot be created, or its path is too long for sockets.
    pub fn new(folder: &Path) -> Result<MachineFiles, LabError> {
        check_socket(folder, LONGEST_NAME)?;
        let made = fs::create_dir_all(folder);
        made.map_err(|e| LabError::system(format!("make {}", folder.display()), e))?;
        Ok(MachineFiles {
            folder: folder.to_owned(),
            state: Arc::default(),
            began: Arc::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Returns how the process ended, if it has.
    pub fn end(&self) -> Option<String> {
        self.state().ended.clone()
    }

    /// Returns how long it waited for a CPU of this host so far: of its threads, the one that
    /// waited longest. Zero if the kernel does not count that, or it has ended.
    pub fn waited(&self) -> Duration {
        let Some(pid) = self.state().pid else {
            return Duration::ZERO;
        };
        let threads = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        let waits = threads.flatten().filter_map(|thread| {
            let counts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            counts.split(' ').nth(1)?.parse().ok()
        });
        Duration::from_nanos(waits.max().unwrap_or(0))
    }

    /// Marks a new start: earlier output of the console belongs to the previous one.
    pub fn begins(&self) {
        self.began.store(self.console_bytes(), Ordering::Relaxed);
    }

    /// Returns the offset of the last start in the console output, in bytes.
    pub fn began(&self) -> usize {
        self.began.load(Ordering::Relaxed)
    }

    /// Returns the length of the console output so far, in bytes.
    pub fn console_bytes(&self) -> usize {
        fs::metadata(self.folder.join(CONSOLE)).map_or(0, |file| file.len() as usize)
    }

    /// Returns the console output from this byte on.
    pub fn console(&self, from: usize) -> String {
        let bytes = fs::read(self.folder.join(CONSOLE)).unwrap_or_default();
        text(bytes.get(from..).unwrap_or_default())
    }

    /// Returns the panic message of its kernel since the last start, if any.
    pub fn panic(&self) -> Option<String> {
        panic_in(&self.console(self.began()))
    }

    /// Returns the last lines of its console since the last start, and of QEMU itself.
    pub fn last_words(&self) -> String {
        let read = |name| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let qemu = read(LOG);
        let mut console = self.console(self.began());
        let panic = panic_in(&console);
        if console.trim().is_empty() {
            console = read(FIRMWARE).replace('\r', "");
        }
        let mut lines: Vec<&str> = console.lines().chain(qemu.lines()).collect();
        lines.retain(|line| !line.trim().is_empty());
        let panic = panic.map_or(String::new(), |line| format!("; {line}"));
        let advice = match qemu.contains("cannot set up guest memory") {
            true => "; this host has too little memory: give the machine less",
            false => "",
        };
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        match last.is_empty() {
            true => "; its console said nothing".into(),
            false => format!(
                "{panic}{advice}; its console ended with:\n  {}",
                last.join("\n  ")
            ),
        }
    }
}

impl EndReason for MachineFiles {
    fn words(&self) -> String {
        // the stream ends a moment before the process
        let started = Instant::now();
        while !self.has_ended() && started.elapsed() < END {
            std::thread::sleep(LOOK);
        }
        let how = match self.end() {
            Some(status) => format!("the machine ended ({status})"),
            None => "its agent ended".into(),
        };
        format!("{how}{}", self.last_words())
    }
}

/// Returns bytes of a console as readable text.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\r', "")
}

/// Returns the line with which a kernel reports a panic.
pub(super) fn panic_in(console: &str) -> Option<String> {
    let is_panic = |line: &&str| {
        line.starts_with(PANIC_AT_BEGIN) || PANICS.iter().any(|sign| line.contains(sign))
    };
    let line = console.lines().find(is_panic)?;
    Some(line.trim().to_owned())
}

/// Checks the length of a socket's path.
///
/// # Errors
/// With `more` additional bytes, the path is too long.
pub(super) fn check_socket(path: &Path, more: usize) -> Result<(), LabError> {
    let length = path.as_os_str().len() + more;
    match length <= LONGEST_SOCKET {
        true => Ok(()),
        false => Err(LabError::Preflight(format!(
            "sockets of a machine cannot be in {}: their path would have {length} bytes, and may have {LONGEST_SOCKET}. Set TMPDIR to another folder",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_of_several_kernels_are_known() {
        let linux =
            "x\n[    3.1] Kernel panic - not syncing: sysrq triggered crash\n[    3.2] CPU: 0";
        assert!(panic_in(linux).unwrap().ends_with("triggered crash"));
        assert!(panic_in("ok\npanic: page fault\ncpuid = 0\n").is_some());
        assert_eq!(panic_in("what to do in a panic: keep calm\nlogin:"), None);
    }

    /// A scheduler that ends it also ends this program, within that time.
    #[test]
    fn a_machine_that_others_ended_is_judged_later() {
        for (script, expected) in [("kill -9 $$", "no memory left"), ("exit 0", "status: 0")] {
            let state = Mutex::new(State::default());
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let begun = Instant::now();
            run(command, &state, &channel().0);
            assert!(begun.elapsed() >= ENDED_TOGETHER, "{script}");
            let state = state.into_inner().unwrap();
            assert!(state.ended.unwrap().contains(expected), "{script}");
            assert_eq!(state.pid, None, "another process may have the number now");
        }
    }

    #[test]
    fn time_in_which_others_had_the_cpu_is_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let files = MachineFiles::new(folder.path()).unwrap();
        assert_eq!(files.waited(), Duration::ZERO, "before its start");
        let spin = || {
            Command::new("sh")
                .args(["-c", "ulimit -t 60; while :; do :; done"])
                .spawn()
        };
        let only = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..1024).find(|&cpu| only.is_set(cpu)).unwrap();
        let mut one = rustix::thread::CpuSet::new();
        one.set(cpu);
        // both on one CPU
        let mut loops = [spin().unwrap(), spin().unwrap()];
        for child in &loops {
            let pid = rustix::process::Pid::from_child(child);
            rustix::thread::sched_setaffinity(Some(pid), &one).unwrap();
        }
        files.state().pid = Some(loops[0].id());
        let begun = Instant::now();
        while files.waited() < Duration::from_millis(100) {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "it is not counted"
            );
            std::thread::sleep(LOOK);
        }
        assert!(files.waited() < begun.elapsed());
        for child in &mut loops {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The kernel kills the largest process when memory runs out. A scheduler kills this program,
    /// too.
    #[test]
    fn a_guest_killed_by_the_kernel_ran_out_of_memory() {
        let killed = ExitStatus::from_raw(9);
        assert!(end(killed, false).contains("no memory left"));
        assert!(!end(killed, true).contains("memory"));
        assert!(!end(ExitStatus::from_raw(256), false).contains("memory"));
    }

    #[test]
    fn a_path_too_long_for_sockets_is_reported() {
        let folder = Path::new("/tmp").join("x".repeat(100));
        let reason = MachineFiles::new(&folder).unwrap_err().to_string();
        assert!(reason.contains("113 bytes, and may have 107"), "{reason}");
        assert!(!folder.exists());
    }
}
