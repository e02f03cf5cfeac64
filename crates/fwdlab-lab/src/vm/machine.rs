//! One virtual machine: QEMU, its console, its control socket and the agent in it.
//!
//! The emulator works everywhere, and its clock is the instructions that it executed. A machine that does not come up, or
//! ends before it should, is told with the last lines of its console. Start with [`Machine::boot`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use qapi::{Qmp, qmp};

use crate::agent::connection::{Connection, Epitaph};
use crate::agent::init::CHANNEL;
use crate::agent::{Hello, Question};
use crate::error::LabError;
use crate::host::{self, Failure, Host, Limit, Local, Remote};
use crate::sys::die_with_parent;

/// The program, and the package of Debian's that has it.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";

/// A guest that has not answered by then does not come up: on a busy machine it takes some 10 s.
const BOOT: Duration = Duration::from_secs(120);

/// A machine that was asked to end is ended after this.
const END: Duration = Duration::from_secs(3);

const LOOK: Duration = Duration::from_millis(10);

/// So much of a console is shown with an error.
const LAST_LINES: usize = 12;

/// Who executes the guest's instructions, in words for results.
pub const ACCELERATOR: &str = "QEMU's emulator, which counts instructions";

/// The emulator, whose clock advances by 1 ns for every instruction.
const COUNTING: &[&str] = &[
    "-accel",
    "tcg,thread=single",
    "-icount",
    "shift=0,sleep=off",
    // string instructions would count once per byte
    "-cpu",
    "max,-erms,-fsrm",
];

/// What the guest's kernel is told. What it does not know becomes the environment of its first process.
const COMMAND_LINE: &[&str] = &[
    "console=ttyS0 quiet panic=-1",
    // functions are where their names say, and as long as on a processor that needs no mitigations
    "nokaslr mitigations=off",
    // pages of frames that are zeroed by a string instruction would be 512 of the instructions of each
    "init_on_alloc=0",
    // loops that wait for a timer of the emulator take three of the six seconds of a boot: of the local APIC, of the time stamp counter
    "noapictimer tsc=reliable cryptomgr.notests",
    "PATH=/usr/local/bin:/usr/sbin:/usr/bin HOME=/root",
    "rdinit=/usr/bin/fwdlab -- agent",
];

/// What boots, and how.
#[derive(Debug, Clone)]
pub struct Boot {
    /// Name of the machine: `debian:linux-image-...`.
    pub name: String,
    /// A bzImage.
    pub kernel: PathBuf,
    /// Its first file system, with fwdlab in it.
    pub initramfs: PathBuf,
    /// CPUs.
    pub cpus: u32,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// A plugin of the emulator with its arguments: `PATH,out=DIR`.
    pub plugin: Option<OsString>,
    /// Where files of the machine are kept while it runs, its console after that, too: `console.log`.
    pub folder: PathBuf,
}

/// A machine that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Machine {
    name: String,
    qemu: Qemu,
    agent: Arc<Connection>,
    hello: Hello,
    folder: PathBuf,
}

impl Machine {
    /// Boots a machine, and waits until its agent answers.
    ///
    /// # Errors
    /// No QEMU; the guest does not come up; nobody wants it any more.
    pub fn boot(boot: &Boot, is_stopped: &dyn Fn() -> bool) -> Result<Machine, LabError> {
        let system =
            |what: &str, e: io::Error| LabError::system(format!("{what} for {}", boot.name), e);
        fs::create_dir_all(&boot.folder).map_err(|e| system("make a folder", e))?;
        for socket in ["agent", "qmp"] {
            let _ = fs::remove_file(boot.folder.join(socket));
        }
        let qemu = Qemu::start(boot)?;
        let ended = Console {
            folder: boot.folder.clone(),
            state: qemu.state.clone(),
        };
        let limit = Limit {
            time: BOOT,
            is_stopped,
        };
        let stream = qemu.connect(&boot.folder.join("agent"), &ended, boot, limit)?;
        let agent = Arc::new(Connection::new(stream, Box::new(ended.clone())));
        let hello = agent.hello(limit).map_err(|failure| match failure {
            Failure::Stopped => LabError::Interrupted,
            Failure::Lost(why) => not_up(boot, &why),
            Failure::TimedOut { after, .. } => not_up(
                boot,
                &format!(
                    "no answer after {:.0} s{}",
                    after.as_secs_f64(),
                    ended.last_words()
                ),
            ),
            other => not_up(boot, &format!("{other:?}")),
        })?;
        Ok(Machine {
            name: boot.name.clone(),
            qemu,
            agent,
            hello,
            folder: boot.folder.clone(),
        })
    }

    /// The machine as a host.
    pub fn host(&self) -> Remote {
        Remote::new(&self.name, self.agent.clone())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file of this host that is of the machine.
    pub(crate) fn scratch(&self, name: &str) -> Result<File, LabError> {
        let path = self.folder.join(name);
        File::create(&path).map_err(|e| LabError::system(format!("write {}", path.display()), e))
    }

    /// Release of its kernel.
    pub fn kernel(&self) -> &str {
        &self.hello.kernel
    }

    /// Ticks of its processor's counter per instruction: 1 where it counts instructions.
    pub fn per_instruction(&self) -> f64 {
        self.hello.per_instruction
    }

    /// What its console has said so far.
    pub fn console(&self) -> String {
        console(&self.folder)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let limit = Limit {
            time: Duration::from_millis(500),
            is_stopped: &|| false,
        };
        // the guest first, then the machine
        let _ = self.agent.ask(&Question::PowerOff, &[], limit);
        self.qemu.end(&self.folder.join("qmp"));
    }
}

fn not_up(boot: &Boot, why: &str) -> LabError {
    LabError::NotUp {
        image: boot.name.clone(),
        why: why.to_owned(),
    }
}

/// The process. A thread of its own starts it and waits for it: it dies with the thread that started it.
#[derive(Debug)]
struct Qemu {
    waiting: Option<JoinHandle<()>>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    pid: Option<u32>,
    /// How it ended.
    ended: Option<String>,
}

impl Qemu {
    fn start(boot: &Boot) -> Result<Qemu, LabError> {
        let mut command = command(boot);
        let log = File::create(boot.folder.join("qemu.log"))
            .map_err(|e| LabError::system(format!("write the log of {}", boot.name), e))?;
        command.stderr(log);
        let state = Arc::new(Mutex::new(State::default()));
        let (started, is_started) = channel();
        let waiting = {
            let state = state.clone();
            std::thread::Builder::new()
                .name("fwdlab-vm".into())
                .spawn(move || run(command, &state, &started))
                .map_err(|e| LabError::system("start a thread", e))?
        };
        let began = is_started.recv().unwrap_or(Ok(()));
        began.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => LabError::Preflight(format!(
                "virtual machines need {QEMU}, and there is no such program. Install it with: apt-get install {PACKAGE}"
            )),
            _ => LabError::system(format!("start {QEMU}"), e),
        })?;
        Ok(Qemu {
            waiting: Some(waiting),
            state,
        })
    }

    fn has_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// Connects to a socket of QEMU's, which makes it before the guest starts.
    fn connect(
        &self,
        socket: &Path,
        console: &Console,
        boot: &Boot,
        limit: Limit<'_>,
    ) -> Result<UnixStream, LabError> {
        let began = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(socket) {
                return Ok(stream);
            }
            if self.has_ended() {
                return Err(not_up(boot, &console.words()));
            }
            if (limit.is_stopped)() {
                return Err(LabError::Interrupted);
            }
            if began.elapsed() > limit.time {
                return Err(not_up(boot, "QEMU does not start"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends it: asked for over its socket, and then by force.
    fn end(&mut self, socket: &Path) {
        let began = Instant::now();
        if !self.has_ended() {
            let _ = quit(socket);
        }
        while !self.has_ended() && began.elapsed() < END {
            std::thread::sleep(LOOK);
        }
        self.kill();
    }

    fn kill(&mut self) {
        let state = lock(&self.state);
        if let (Some(pid), None) = (state.pid, &state.ended) {
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

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the process, says so, and waits for its end.
fn run(mut command: Command, state: &Mutex<State>, started: &Sender<io::Result<()>>) {
    let mut child: Child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            lock(state).ended = Some("it was not started".into());
            let _ = started.send(Err(e));
            return;
        }
    };
    lock(state).pid = Some(child.id());
    let _ = started.send(Ok(()));
    let status = child.wait();
    lock(state).ended = Some(status.map_or_else(|e| e.to_string(), |status| status.to_string()));
}

fn quit(socket: &Path) -> io::Result<()> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(END))?;
    stream.set_write_timeout(Some(END))?;
    let mut qmp = Qmp::from_stream(&stream);
    qmp.handshake()?;
    // it may be gone before it answers
    let _ = qmp.execute(&qmp::quit {});
    Ok(())
}

fn command(boot: &Boot) -> Command {
    let mut command = Command::new(QEMU);
    let path = |name: &str| boot.folder.join(name).to_string_lossy().into_owned();
    command
        .args(["-nodefaults", "-no-user-config", "-display", "none"])
        .args(["-no-reboot", "-name", "fwdlab"])
        .args(COUNTING)
        .args(["-smp", &boot.cpus.to_string()])
        .args(["-m", &boot.memory_mib.to_string()])
        .arg("-kernel")
        .arg(&boot.kernel)
        .arg("-initrd")
        .arg(&boot.initramfs)
        .args(["-append", &COMMAND_LINE.join(" ")])
        .args(["-serial", &format!("file:{}", path("console.log"))])
        .args(["-qmp", &format!("unix:{},server=on,wait=off", path("qmp"))])
        .args(["-device", "virtio-serial-pci"])
        .args([
            "-chardev",
            &format!("socket,id=agent,path={},server=on,wait=off", path("agent")),
        ])
        .args([
            "-device",
            &format!("virtserialport,chardev=agent,name={CHANNEL}"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if let Some(plugin) = &boot.plugin {
        command.arg("-plugin").arg(plugin);
    }
    die_with_parent(&mut command);
    command
}

/// Does the emulator of this machine load this plugin? From version 9 on QEMU has another interface, and some are built without any: it
/// would not start then. A machine that has nothing in it is started and ended.
///
/// # Errors
/// No, and what it said.
pub(crate) fn takes_plugin(plugin: &Path) -> Result<(), String> {
    let folder = plugin.with_file_name("none");
    let argument = super::plugin::argument(plugin, &folder, &folder);
    let mut words = vec!["-nodefaults", "-display", "none", "-machine", "none", "-S"];
    words.extend(["-accel", "tcg", "-monitor", "stdio", "-plugin"]);
    let argument = argument.to_string_lossy();
    words.push(&argument);
    let start = host::Command::new(QEMU, &words).with_input("quit\n");
    let limit = Limit {
        time: Duration::from_secs(30),
        is_stopped: &|| false,
    };
    match Local.run(&start, limit) {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.failure {
            Failure::Exit { said, .. } => format!(
                "{QEMU} does not load the plugin that counts by function (versions before 9 do): {}",
                said.trim()
            ),
            _ => error.to_string(),
        }),
    }
}

/// What is known of the end of a machine.
#[derive(Debug, Clone)]
struct Console {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

impl Console {
    /// The last lines of its console, and of QEMU itself.
    fn last_words(&self) -> String {
        let qemu = fs::read_to_string(self.folder.join("qemu.log")).unwrap_or_default();
        let console = console(&self.folder);
        let mut lines: Vec<&str> = console.lines().chain(qemu.lines()).collect();
        lines.retain(|line| !line.trim().is_empty());
        let panic = lines.iter().find(|line| line.contains("Kernel panic"));
        let panic = panic.map_or(String::new(), |line| format!("; {}", line.trim()));
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        match last.is_empty() {
            true => "; its console said nothing".into(),
            false => format!("{panic}; its console said last:\n  {}", last.join("\n  ")),
        }
    }
}

impl Epitaph for Console {
    fn words(&self) -> String {
        // the stream ends a moment before the process
        let began = Instant::now();
        while lock(&self.state).ended.is_none() && began.elapsed() < END {
            std::thread::sleep(LOOK);
        }
        let how = match &lock(&self.state).ended {
            Some(status) => format!("the machine ended ({status})"),
            None => "its agent ended".into(),
        };
        format!("{how}{}", self.last_words())
    }
}

fn console(folder: &Path) -> String {
    let bytes = fs::read(folder.join("console.log")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\r', "")
}
