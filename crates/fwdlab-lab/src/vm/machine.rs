//! A virtual machine that counts instructions: a kernel with the agent as its first process, and
//! nothing else.
//!
//! The emulator works everywhere, and its clock counts the executed instructions. Errors of a
//! machine that does not boot, or ends too early, contain the last lines of its console. Any number
//! of machines can continue from the saved state of one, and share its memory until they write to
//! it. Whole machines, with a disk, are [`super::computer`]s. Start with [`Machine::boot`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::statvfs;

use super::monitor::QmpCommand;
use super::qemu::{self, Accelerator, CONSOLE, LOOK, MachineFiles, QEMU, Qemu, escaped};
use crate::error::LabError;
use crate::host::wire::CHANNEL;
use crate::host::wire::connection::Connection;
use crate::host::wire::{Hello, Question};
use crate::host::{self, Failure, Host, Limit, Local, Remote};

/// A guest that has not answered within this time, without the time in which it waited for a CPU of
/// this host, does not boot: it needs 5 to 13 s of a CPU.
const BOOT: Duration = Duration::from_secs(120);

/// Files of a saved state in its directory.
const MEMORY: &str = "memory";
const DEVICES: &str = "devices";

/// The environment variable with the path of the file with the state of the devices: a path may
/// have characters that mean something to the shell that QEMU starts.
const DEVICES_FILE: &str = "FWDLAB_DEVICES";

/// What executes the guest's instructions.
pub const ACCELERATOR: Accelerator = Accelerator::Counting;

/// The kernel's command line. Unknown settings become the environment of its first process.
const COMMAND_LINE: &[&str] = &[
    "console=ttyS0 quiet panic=-1",
    // functions are at the addresses of their symbols
    "nokaslr",
    // zeroing a page with a string instruction would add 512 instructions to each frame
    "init_on_alloc=0",
    // busy loops that wait for a timer of the emulator take three of the six seconds of a boot: for
    // the local APIC, the timer of the board and the time stamp counter
    "noapictimer no_timer_check tsc=reliable cryptomgr.notests",
    // the emulator would translate a program again for every process, at its own random addresses
    "norandmaps",
    "PATH=/usr/local/bin:/usr/sbin:/usr/bin HOME=/root",
    "rdinit=/usr/bin/fwdlab -- agent",
];

/// The kernel's mitigations of processor faults: off, so that functions are as long as on a
/// processor that needs none; or automatic for the emulated processor, which has all faults and no
/// microcode against them.
const WITHOUT: &str = "mitigations=off";
const WITH: &str = "mitigations=auto";

/// What boots, and how.
#[derive(Debug, Clone)]
pub struct Boot {
    /// Name of the machine: `debian:linux-image-...`.
    pub name: String,
    /// A bzImage.
    pub kernel: PathBuf,
    /// Its initial file system, with fwdlab in it.
    pub initramfs: PathBuf,
    /// Enable the kernel's mitigations of processor faults.
    pub mitigations: bool,
    /// Number of CPUs.
    pub cpus: u32,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// A plugin of the emulator with its arguments: `PATH,out=DIR`.
    pub plugin: Option<OsString>,
    /// The directory of the machine's files while it runs; its console log, `console.log`, stays
    /// there.
    pub folder: PathBuf,
    /// How it begins.
    pub start: Start,
}

/// How a machine begins.
#[derive(Debug, Clone)]
pub enum Start {
    /// From power on.
    Cold,
    /// From power on, so that its state can be saved: its memory is a file in its directory.
    ToSave,
    /// From this state.
    Saved(Arc<SavedState>),
}

/// The state of a machine, in a directory. Dropping it removes the directory.
#[derive(Debug)]
pub struct SavedState(PathBuf);

impl Drop for SavedState {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running machine. Dropping it ends it.
#[derive(Debug)]
pub struct Machine {
    name: String,
    qemu: Qemu,
    agent: Arc<Connection>,
    hello: Hello,
    folder: PathBuf,
    remains: MachineFiles,
}

impl Machine {
    /// Boots a machine, and waits until its agent answers.
    ///
    /// # Errors
    /// There is no QEMU; the guest does not boot; the boot was stopped.
    pub fn boot(boot: &Boot, is_stopped: &dyn Fn() -> bool) -> Result<Machine, LabError> {
        let remains = MachineFiles::new(&boot.folder)?;
        if let Start::ToSave = boot.start {
            check_room(boot)?;
        }
        let _ = fs::remove_file(boot.folder.join("agent"));
        let limit = Limit {
            time: BOOT,
            is_stopped,
        };
        let hear = Box::new(|_: &str, _: &_| {});
        let qemu = Qemu::start(&boot.name, &remains, command(boot), hear, limit)?;
        let stream = qemu.connect("agent", limit)?;
        if let Start::Saved(_) = boot.start {
            // connected, so that the guest's end of the channel stays open
            let uri = format!("exec:cat \"${DEVICES_FILE}\"");
            migrate(
                &qemu,
                &remains,
                QmpCommand::MigrateIncoming { uri: &uri },
                limit,
            )
            .map_err(|reason| {
                qemu.not_up(&format!(
                    "it does not continue from its saved state: {reason}"
                ))
            })?;
        }
        let agent = Arc::new(Connection::new(stream, Box::new(remains.clone())));
        let begun = Instant::now();
        let is_over =
            || is_stopped() || begun.elapsed() > BOOT && begun.elapsed() > BOOT + remains.waited();
        let until_then = Limit {
            time: Duration::MAX,
            is_stopped: &is_over,
        };
        let hello = agent.hello(until_then).map_err(|failure| match failure {
            Failure::Stopped if is_stopped() => LabError::Interrupted,
            Failure::Stopped => qemu.not_up(&format!(
                "no answer after {:.0} s, of which it waited for a CPU for {:.0} s{}",
                begun.elapsed().as_secs_f64(),
                remains.waited().as_secs_f64(),
                remains.last_words()
            )),
            Failure::Lost(reason) => qemu.not_up(&reason),
            other => qemu.not_up(&format!("{other:?}")),
        })?;
        Ok(Machine {
            name: boot.name.clone(),
            qemu,
            agent,
            hello,
            folder: boot.folder.clone(),
            remains,
        })
    }

    /// Saves the state of a machine that was started for it, and ends the machine.
    ///
    /// # Errors
    /// QEMU cannot, or there is no room.
    pub fn save(mut self, is_stopped: &dyn Fn() -> bool) -> Result<SavedState, LabError> {
        let state = SavedState(self.folder.clone());
        let limit = Limit {
            time: BOOT,
            is_stopped,
        };
        // QEMU does not wait until the command has written everything: then there is the file
        let uri = format!(
            "exec:cat >\"${DEVICES_FILE}.part\" && mv \"${DEVICES_FILE}.part\" \"${DEVICES_FILE}\""
        );
        let not = |reason: String| {
            LabError::Preflight(format!(
                "the state of {} cannot be saved: {reason}",
                self.name
            ))
        };
        let started = Instant::now();
        let command = QmpCommand::Migrate { uri: &uri };
        migrate(&self.qemu, &self.remains, command, limit).map_err(not)?;
        while !self.folder.join(DEVICES).exists() {
            if started.elapsed() > limit.time {
                return Err(not("QEMU's command wrote no file".into()));
            }
            std::thread::sleep(LOOK);
        }
        // it has stopped, and would not answer
        self.agent = Arc::new(Connection::ended());
        Ok(state)
    }

    /// Returns the machine as a host.
    pub fn host(&self) -> Remote {
        Remote::new(&self.name, self.agent.clone())
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates a file of this host in the machine's directory.
    pub(crate) fn scratch(&self, name: &str) -> Result<File, LabError> {
        let path = self.folder.join(name);
        File::create(&path).map_err(|e| LabError::system(format!("write {}", path.display()), e))
    }

    /// Returns the release of its kernel.
    pub fn kernel(&self) -> &str {
        &self.hello.kernel
    }

    /// Returns the ticks of its processor's counter per instruction: 1 if the emulator counts
    /// instructions.
    pub fn per_instruction(&self) -> f64 {
        self.hello.per_instruction
    }

    /// Returns the output of its console so far.
    pub fn console(&self) -> String {
        self.remains.console(0)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let limit = Limit {
            time: Duration::from_millis(500),
            is_stopped: &|| false,
        };
        // the guest first, then the machine
        let _ = self.agent.query(&Question::PowerOff, &[], limit);
        self.qemu.end();
    }
}

fn command_line(mitigations: bool) -> String {
    let against = if mitigations { WITH } else { WITHOUT };
    [&[against], COMMAND_LINE].concat().join(" ")
}

/// Checks that the disk has room for all of the memory: if the machine filled the disk, other
/// machines would fail.
fn check_room(boot: &Boot) -> Result<(), LabError> {
    let free = statvfs(&boot.folder).map_or(u64::MAX, |disk| disk.f_bavail * disk.f_frsize) >> 20;
    match free < boot.memory_mib.into() {
        true => Err(LabError::Preflight(format!(
            "its state needs {} MiB in {}, where {free} MiB are free. Free more, or set TMPDIR to another folder",
            boot.memory_mib,
            boot.folder.display()
        ))),
        false => Ok(()),
    }
}

/// Moves the state of devices between a machine and a file, and waits for it.
fn migrate(
    qemu: &Qemu,
    remains: &MachineFiles,
    direction: QmpCommand<'_>,
    limit: Limit<'_>,
) -> Result<(), String> {
    let started = Instant::now();
    let query = |command| qemu.query(command).map_err(|e| e.to_string());
    query(QmpCommand::WithoutSharedMemory)?;
    query(direction)?;
    loop {
        let state = match remains.end() {
            Some(end) => return Err(format!("{end}{}", remains.last_words())),
            None => query(QmpCommand::Migration)?,
        };
        match state["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                let reason = state["error-desc"].as_str().unwrap_or("without a reason");
                return Err(format!("{reason}{}", remains.last_words()));
            }
            _ if (limit.is_stopped)() => return Err("stopped".into()),
            _ if started.elapsed() > limit.time => return Err("it takes too long".into()),
            _ => std::thread::sleep(LOOK),
        }
    }
}

fn command(boot: &Boot) -> Command {
    let mut command = qemu::command(ACCELERATOR, boot.cpus, boot.memory_mib);
    let path = |name: &str| escaped(&boot.folder.join(name));
    let state = match &boot.start {
        Start::Cold => None,
        Start::ToSave => Some((&boot.folder, "on")),
        Start::Saved(state) => {
            // first with the memory, then with the rest
            command.args(["-incoming", "defer"]);
            Some((&state.0, "off"))
        }
    };
    if let Some((folder, share)) = state {
        let memory = escaped(&folder.join(MEMORY));
        command
            .env(DEVICES_FILE, folder.join(DEVICES))
            .args(["-machine", "memory-backend=memory"])
            .arg("-object")
            .arg(format!(
                "memory-backend-file,id=memory,size={}M,mem-path={memory},share={share}",
                boot.memory_mib
            ));
    }
    command
        .arg("-no-reboot")
        .arg("-kernel")
        .arg(&boot.kernel)
        .arg("-initrd")
        .arg(&boot.initramfs)
        .args(["-append", &command_line(boot.mitigations)])
        .args([
            "-chardev",
            &format!("file,id=console,path={}", path(CONSOLE)),
        ])
        .args(["-serial", "chardev:console"])
        .args(["-device", "virtio-serial-pci"])
        .args([
            "-chardev",
            &format!("socket,id=agent,path={},server=on,wait=off", path("agent")),
        ])
        .args([
            "-device",
            &format!("virtserialport,chardev=agent,name={CHANNEL}"),
        ]);
    if let Some(plugin) = &boot.plugin {
        command.arg("-plugin").arg(plugin);
    }
    command
}

/// Checks that this machine's emulator loads a plugin, by starting an empty machine: from version 9
/// on, QEMU has another plugin interface, some builds have none, and then it would not start.
///
/// # Errors
/// It does not, with its output.
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
            Failure::Exit { said: output, .. } => format!(
                "{QEMU} does not load the plugin that counts by function (versions before 9 do): {}",
                output.trim()
            ),
            _ => error.to_string(),
        }),
    }
}
