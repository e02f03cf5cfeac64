//! A whole machine, handled like a physical one: it boots its own disk, has a serial console, a
//! power cord, ports and links.
//!
//! None of our code runs in it. The user's disk never changes: the machine writes to an overlay,
//! which persists through restarts and power cycles, and is removed with the machine. No privileges
//! are needed. Its clock is that of this host, and its forwarding rate in the emulator means
//! nothing. Machines that count instructions are in [`super::machine`]. Start with
//! [`Computer::start`].

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::image::disk::Disk;
use super::monitor::QmpCommand;
use super::qemu::{
    self, Accelerator, CONSOLE, FIRMWARE, MachineFiles, Qemu, check_socket, escaped,
};
use crate::error::LabError;
use crate::host::{Host, Limit, Local, netns};
use crate::sys::{self, keep_open};

/// Time limit for the start of QEMU itself, also on a busy host.
const START: Duration = Duration::from_secs(60);

/// A console that is silent for this long has printed its last output.
const SILENCE: Duration = Duration::from_millis(300);

/// A guest that reads nothing of what is typed for this long does not listen.
const DEAF: Duration = Duration::from_secs(10);

/// How often to check for typed text or output.
const LISTEN: Duration = Duration::from_millis(20);

/// The address that QEMU's own network gives to a guest.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);

const SSH: u16 = 22;

/// QEMU's message for a port that another program uses.
const TAKEN: &str = "Could not set up host forwarding";

/// Number of frames that wait for a machine that does not fetch them: as many as the path check
/// sends, and no more than a card has.
const TAP_QUEUE: &str = "1000";

const OVERLAY: &str = "overlay.qcow2";

/// The configuration of a machine.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its name; the MAC addresses of its ports are derived from it.
    pub name: String,
    /// What it boots.
    pub system: System,
    /// Number of CPUs.
    pub cpus: u32,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// The models of its disk and its ports.
    pub devices: Devices,
    /// The address of its first port, the management port, in a /24 network: DHCP assigns it, and a
    /// system with a static address uses it. Usually [`ADDRESS`].
    pub address: Ipv4Addr,
    /// Its ports from the second on, because the first is the management port.
    pub ports: Vec<Port>,
    /// The directory of its files while it runs; its console log, `console.log`, stays there.
    pub folder: PathBuf,
}

/// What a machine boots.
#[derive(Debug, Clone)]
pub enum System {
    /// The system on its disk.
    Disk(Disk),
    /// A kernel, without a boot loader.
    Kernel {
        /// A bzImage.
        kernel: PathBuf,
        /// Its initial file system.
        initramfs: PathBuf,
        /// The kernel's command line; `console=ttyS0` enables its console.
        command_line: String,
    },
}

/// The models of a machine's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Devices {
    /// virtio, those of virtual machines, with the least overhead.
    #[default]
    Virtio,
    /// Models that every system has drivers for: an IDE disk, and Intel's e1000.
    Classic,
}

impl Devices {
    /// Returns the model of its ports.
    pub fn card(self) -> Card {
        match self {
            Devices::Virtio => Card::Virtio,
            Devices::Classic => Card::E1000,
        }
    }
}

/// A port of a machine.
#[derive(Debug, Clone)]
pub struct Port {
    /// Its model.
    pub card: Card,
    /// What it is connected to.
    pub cable: Cable,
}

/// A model of network cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Card {
    /// virtio-net; with RSS if its cable has several queues.
    Virtio,
    /// Intel 82540EM: one queue.
    E1000,
    /// Intel 82574L: two queues, of which Linux uses one.
    E1000e,
    /// VMware's card: as many queues as the machine has CPUs.
    Vmxnet3,
}

impl Card {
    /// Returns QEMU's name of the device, with the options for this number of queues.
    fn device(self, queues: usize) -> String {
        match self {
            // a vector for each queue and way, one for the configuration, one for commands
            Card::Virtio if queues > 1 => format!(
                "virtio-net-pci,mq=on,vectors={},rss=on,hash=on",
                2 * queues + 2
            ),
            Card::Virtio => "virtio-net-pci".into(),
            Card::E1000 => "e1000".into(),
            Card::E1000e => "e1000e".into(),
            Card::Vmxnet3 => "vmxnet3".into(),
        }
    }
}

/// What a port of a machine is connected to.
#[derive(Debug, Clone)]
pub enum Cable {
    /// A port of another machine.
    Machine(End),
    /// This host: a TAP device, opened once for each of its queues. Only virtio-net can have more
    /// than one.
    Host(Vec<Arc<OwnedFd>>),
}

/// Creates TAP devices with this number of queues in a network namespace, which exist as long as
/// the cables.
///
/// # Errors
/// There is no such namespace, or the devices cannot be created.
pub fn taps(namespace: &str, names: &[&str], queues: usize) -> Result<Vec<Cable>, LabError> {
    let make = || {
        let open = |name: &str| {
            let tap = sys::tap(name, queues > 1);
            tap.map_err(|e| LabError::system(format!("make the TAP device {name}"), e))
        };
        let cable = |name: &&str| {
            let files = (0..queues).map(|_| open(name).map(Arc::new));
            Ok(Cable::Host(files.collect::<Result<_, LabError>>()?))
        };
        names.iter().map(cable).collect::<Result<Vec<_>, _>>()
    };
    let cables = netns::within(namespace, make)?;
    for name in names {
        let length = ["link", "set", name, "txqueuelen", TAP_QUEUE];
        Local.query("ip", &[&["-n", namespace][..], &length].concat())?;
    }
    Ok(cables)
}

/// An end of a link between two machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    ours: PathBuf,
    theirs: PathBuf,
}

/// Returns the two ends of a link between ports of two machines. Frames are datagrams between two
/// sockets in the directory; while one machine is off, frames of the other are lost, as on a cable.
///
/// # Errors
/// The path of the directory is too long for sockets.
pub fn link(folder: &Path, name: &str) -> Result<[End; 2], LabError> {
    let [a, b] = ["a", "b"].map(|end| folder.join(format!("{name}-{end}")));
    check_socket(&a, 0)?;
    Ok([(&a, &b), (&b, &a)].map(|(ours, theirs)| End {
        ours: ours.clone(),
        theirs: theirs.clone(),
    }))
}

/// The state of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It runs, as far as can be seen from outside.
    Runs,
    /// Its kernel reported a panic.
    Panicked,
    /// It is off, switched off by its guest or by us.
    Off,
    /// The emulator ended or stopped it without a request, with a description.
    Ended(String),
}

/// The cause of a restart that we did not request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Its own system.
    Guest,
    /// The watchdog, because the system had stopped feeding it.
    Watchdog,
}

/// A whole machine. Dropping it ends it, and discards what it wrote to its disk.
#[derive(Debug)]
pub struct Computer {
    setup: Setup,
    accelerator: Accelerator,
    remains: MachineFiles,
    /// `None` while it is off.
    power: Mutex<Option<Power>>,
    /// Length of the console output that was already waited for, in bytes.
    heard: Mutex<usize>,
    /// The port of this host that is forwarded to its port 22, once there is one.
    management: Mutex<Option<u16>>,
}

#[derive(Debug)]
struct Power {
    qemu: Qemu,
    console: UnixStream,
    seen: Arc<Mutex<QemuEvents>>,
}

/// Events that QEMU reported.
#[derive(Debug, Default)]
struct QemuEvents {
    restarts: VecDeque<Restart>,
    is_panicked: bool,
    is_off: bool,
    /// Why QEMU has stopped the machine.
    stopped: Option<String>,
    /// The watchdog has fired; a restart follows.
    has_barked: bool,
}

impl Computer {
    /// Creates a machine and switches it on. [`Computer::wait_for`] waits for output on its
    /// console, which shows whether it boots.
    ///
    /// # Errors
    /// There is no QEMU; the disk is damaged or in use; this host has too little memory; the start
    /// was stopped.
    pub fn start(
        setup: Setup,
        accelerator: Accelerator,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Computer, LabError> {
        let remains = MachineFiles::new(&setup.folder)?;
        let _ = fs::remove_file(setup.folder.join(CONSOLE));
        let computer = Computer {
            remains,
            accelerator,
            power: Mutex::new(None),
            heard: Mutex::new(0),
            management: Mutex::new(None),
            setup,
        };
        computer.make_overlay()?;
        computer.power_on(is_stopped)?;
        Ok(computer)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.setup.name
    }

    /// Returns what executes its instructions.
    pub fn accelerator(&self) -> Accelerator {
        self.accelerator
    }

    /// Returns the MAC addresses of its ports, the management port first: locally administered, and
    /// always the same for the same name.
    pub fn macs(&self) -> Vec<[u8; 6]> {
        let ports = 0..=self.setup.ports.len();
        ports.map(|port| mac(&self.setup.name, port)).collect()
    }

    /// Returns the loopback address on this host that is forwarded to TCP port 22 of its management
    /// port. Through this port, the guest reaches nothing else.
    ///
    /// # Errors
    /// It is off.
    pub fn management(&self) -> Result<SocketAddrV4, LabError> {
        let port = match self.state() {
            State::Off => None,
            _ => *lock(&self.management),
        };
        let reason = "it is off, and has no port for its management";
        let port = port.ok_or_else(|| self.failed(reason))?;
        Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
    }

    /// Returns its state.
    pub fn state(&self) -> State {
        let power = lock(&self.power);
        let Some(power) = power.as_ref() else {
            return State::Off;
        };
        let observed = lock(&power.seen);
        match (self.remains.end(), &observed.stopped) {
            // the process may still be about to end
            _ if observed.is_off => State::Off,
            (Some(how), _) => State::Ended(how),
            (None, Some(reason)) => State::Ended(reason.clone()),
            _ if observed.is_panicked || self.remains.panic().is_some() => State::Panicked,
            _ => State::Runs,
        }
    }

    /// Checks that it runs; the error has the last lines of its console.
    ///
    /// # Errors
    /// It does not run.
    pub fn check(&self) -> Result<(), LabError> {
        match self.state() {
            State::Runs => Ok(()),
            other => Err(self.lost(&other)),
        }
    }

    // -- console

    /// Returns the complete output of its console.
    pub fn console(&self) -> String {
        self.remains.console(0)
    }

    /// Waits until the console has printed these words after those that were waited for last. Most
    /// systems echo what is typed.
    ///
    /// # Errors
    /// It did not within the limit, the system panicked, or the machine ended: with the last lines.
    /// The wait was stopped.
    pub fn wait_for(&self, words: &str, limit: Limit<'_>) -> Result<(), LabError> {
        let from = *lock(&self.heard);
        let action = format!("`{words}` on its console");
        let mut output = Vec::new();
        self.wait(&action, limit, &mut || {
            output.extend(self.console_since(from + output.len()));
            match find(&output, words.as_bytes()) {
                Some(end) => {
                    *lock(&self.heard) = from + end;
                    Ok(Some(()))
                }
                None if has_panicked(&output, self.remains.began().saturating_sub(from)) => {
                    Err(self.lost(&State::Panicked))
                }
                None => self.check_without_console().map(|()| None),
            }
        })
    }

    /// Types a text.
    ///
    /// # Errors
    /// It is off, or its guest does not listen.
    pub fn type_text(&self, text: &str) -> Result<(), LabError> {
        let power = lock(&self.power);
        let Some(power) = power.as_ref() else {
            return Err(self.failed("it is off: nothing can be typed"));
        };
        let mut console = &power.console;
        console.write_all(text.as_bytes()).map_err(|e| {
            // do not print the text: it may be a password
            let last = self.remains.last_words();
            self.failed(&format!("cannot type on its console: {e}{last}"))
        })
    }

    /// Types a line and its end.
    ///
    /// # Errors
    /// As for [`Computer::type_text`].
    pub fn type_line(&self, line: &str) -> Result<(), LabError> {
        self.type_text(&format!("{line}\r"))
    }

    // -- power

    /// Connects its power, which starts it. A running machine keeps running.
    ///
    /// # Errors
    /// As for [`Computer::start`].
    pub fn power_on(&self, is_stopped: &dyn Fn() -> bool) -> Result<(), LabError> {
        let mut power = lock(&self.power);
        if power.is_some() && !self.remains.has_ended() {
            return Ok(());
        }
        *power = None;
        *lock(&self.heard) = self.remains.console_bytes();
        let limit = Limit {
            time: START,
            is_stopped,
        };
        let port = *lock(&self.management);
        let started = match (self.power_with(port.unwrap_or(0), limit), port) {
            // another program took the port while the machine was off
            (Err(LabError::NotUp { reason: cause, .. }), Some(_)) if cause.contains(TAKEN) => {
                self.power_with(0, limit)?
            }
            (started, _) => started?,
        };
        let usernet = human(&started.qemu, "info usernet")
            .map_err(|e| self.failed(&format!("QEMU does not report its ports: {e}")))?;
        let port = forwarded(&usernet);
        let cause = "QEMU does not report where its port 22 is";
        *lock(&self.management) = Some(port.ok_or_else(|| self.failed(cause))?);
        let cont = started.qemu.query(QmpCommand::Continue);
        cont.map_err(|e| self.failed(&format!("it does not start: {e}")))?;
        *power = Some(started);
        Ok(())
    }

    /// Disconnects its power: it is off at once; data that it has not written is lost.
    pub fn pull(&self) {
        *lock(&self.power) = None;
    }

    /// Disconnects its power and connects it again.
    ///
    /// # Errors
    /// As for [`Computer::start`].
    pub fn power_cycle(&self, is_stopped: &dyn Fn() -> bool) -> Result<(), LabError> {
        self.pull();
        self.power_on(is_stopped)
    }

    /// Disconnects its power, and boots the user's disk in its original state.
    ///
    /// # Errors
    /// As for [`Computer::start`].
    pub fn restore(&self, is_stopped: &dyn Fn() -> bool) -> Result<(), LabError> {
        self.pull();
        self.make_overlay()?;
        self.power_on(is_stopped)
    }

    /// Presses its reset button.
    ///
    /// # Errors
    /// It is off.
    pub fn reset(&self) -> Result<(), LabError> {
        *lock(&self.heard) = self.remains.console_bytes();
        self.query("press its reset button", QmpCommand::Reset)
    }

    /// Presses its power button: a system with ACPI support shuts down.
    ///
    /// # Errors
    /// It is off.
    pub fn power_button(&self) -> Result<(), LabError> {
        self.query("press its power button", QmpCommand::PowerDown)
    }

    /// Sends a non-maskable interrupt (NMI), which makes systems print where they hang.
    ///
    /// # Errors
    /// It is off.
    pub fn nmi(&self) -> Result<(), LabError> {
        self.query("send an NMI", QmpCommand::Nmi)
    }

    /// Waits until it has restarted by itself; returns each restart since it was switched on once.
    ///
    /// # Errors
    /// It did not within the limit, or ended. The wait was stopped.
    pub fn wait_for_restart(&self, limit: Limit<'_>) -> Result<Restart, LabError> {
        self.wait("its restart", limit, &mut || {
            let power = lock(&self.power);
            let restart = (power.as_ref()).and_then(|power| lock(&power.seen).restarts.pop_front());
            drop(power);
            match restart {
                Some(restart) => Ok(Some(restart)),
                // a kernel may restart some seconds after its panic
                None => match self.state() {
                    State::Runs | State::Panicked => Ok(None),
                    other => Err(self.lost(&other)),
                },
            }
        })
    }

    /// Waits until it is off.
    ///
    /// # Errors
    /// It is not off within the limit, its kernel panicked, or the emulator ended. The wait was
    /// stopped.
    pub fn wait_until_off(&self, limit: Limit<'_>) -> Result<(), LabError> {
        self.wait("its end", limit, &mut || match self.state() {
            State::Off => Ok(Some(())),
            State::Runs => Ok(None),
            other => Err(self.lost(&other)),
        })
    }

    // -- internals

    fn wait<T>(
        &self,
        action: &str,
        limit: Limit<'_>,
        look: &mut dyn FnMut() -> Result<Option<T>, LabError>,
    ) -> Result<T, LabError> {
        let started = Instant::now();
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if (limit.is_stopped)() {
                return Err(LabError::Interrupted);
            }
            if started.elapsed() > limit.time {
                return Err(self.failed(&format!(
                    "waited {:.0} s for {action}{}",
                    limit.time.as_secs_f64(),
                    self.remains.last_words()
                )));
            }
            std::thread::sleep(LISTEN);
        }
    }

    fn console_since(&self, from: usize) -> Vec<u8> {
        let mut output = Vec::new();
        let read = fs::File::open(self.setup.folder.join(CONSOLE)).and_then(|mut file| {
            file.seek(SeekFrom::Start(from as u64))?;
            file.read_to_end(&mut output)
        });
        // the file does not exist before the first byte
        drop(read);
        output
    }

    /// Like [`Computer::check`], for callers that read the console themselves.
    fn check_without_console(&self) -> Result<(), LabError> {
        let power = lock(&self.power);
        let observed = power.as_ref().map(|power| lock(&power.seen));
        let is_well = |observed: MutexGuard<'_, QemuEvents>| {
            !observed.is_panicked && !observed.is_off && observed.stopped.is_none()
        };
        let is_well = observed.is_some_and(is_well);
        drop(power);
        match is_well && !self.remains.has_ended() {
            true => Ok(()),
            false => self.check(),
        }
    }

    /// Returns the error for a machine that is lost; first waits for its last output.
    fn lost(&self, state: &State) -> LabError {
        let mut output = self.remains.console_bytes();
        for _ in 0..10 {
            std::thread::sleep(SILENCE);
            let now = self.remains.console_bytes();
            if now == std::mem::replace(&mut output, now) {
                break;
            }
        }
        let how = match state {
            State::Runs => "it runs".to_owned(),
            State::Panicked => "its kernel panicked".to_owned(),
            State::Off => "it is off".to_owned(),
            State::Ended(how) => format!("it ended ({how})"),
        };
        self.failed(&format!("{how}{}", self.remains.last_words()))
    }

    fn failed(&self, cause: &str) -> LabError {
        LabError::Machine {
            name: self.setup.name.clone(),
            reason: cause.to_owned(),
        }
    }

    fn query(&self, action: &str, command: QmpCommand<'_>) -> Result<(), LabError> {
        let power = lock(&self.power);
        let Some(power) = power.as_ref() else {
            return Err(self.failed(&format!("cannot {action}: it is off")));
        };
        let answer = power.qemu.query(command);
        answer.map(drop).map_err(|e| {
            self.failed(&format!(
                "cannot {action}: {e}{}",
                self.remains.last_words()
            ))
        })
    }

    fn make_overlay(&self) -> Result<(), LabError> {
        let System::Disk(disk) = &self.setup.system else {
            return Ok(());
        };
        let overlay = self.setup.folder.join(OVERLAY);
        let _ = fs::remove_file(&overlay);
        disk.overlay(&overlay)
            .map_err(|e| LabError::Preflight(e.to_string()))
    }

    fn power_with(&self, port: u16, limit: Limit<'_>) -> Result<Power, LabError> {
        self.remains.begins();
        let observed = Arc::<Mutex<QemuEvents>>::default();
        let hear = {
            let (observed, remains) = (observed.clone(), self.remains.clone());
            Box::new(move |event: &str, data: &Value| {
                lock(&observed).handle_event(event, data, &remains)
            })
        };
        let Setup { name, folder, .. } = &self.setup;
        for left in ["console", FIRMWARE] {
            let _ = fs::remove_file(folder.join(left));
        }
        let qemu = Qemu::start(name, &self.remains, self.command(port), hear, limit)?;
        let console = qemu.connect("console", limit)?;
        let failed = |e| LabError::system(format!("talk with the console of {name}"), e);
        console.set_write_timeout(Some(DEAF)).map_err(failed)?;
        let mut read = console.try_clone().map_err(failed)?;
        // the log has all of it; unread data in the socket would block the guest
        let drain = move || io::copy(&mut read, &mut io::sink());
        let thread = std::thread::Builder::new().name("fwdlab-console".into());
        thread.spawn(drain).map_err(failed)?;
        Ok(Power {
            qemu,
            console,
            seen: observed,
        })
    }

    fn command(&self, port: u16) -> Command {
        let setup = &self.setup;
        let file = |name: &str| escaped(&setup.folder.join(name));
        let mut command = qemu::command(self.accelerator, setup.cpus, setup.memory_mib);
        // it starts after everything is connected, and a panic does not stop it
        command.args(["-S", "-action", "panic=none"]);
        match &setup.system {
            System::Disk(_) => {
                let kind = match setup.devices {
                    Devices::Virtio => "virtio",
                    Devices::Classic => "ide",
                };
                // only data that the guest has flushed must survive a power failure
                let disk = format!("file={},format=qcow2,if={kind}", file(OVERLAY));
                command.args(["-drive", &disk]);
            }
            System::Kernel {
                kernel,
                initramfs,
                command_line,
            } => {
                command.arg("-kernel").arg(kernel);
                command.arg("-initrd").arg(initramfs);
                command.args(["-append", command_line]);
            }
        }
        let console = format!(
            "socket,id=console,path={},server=on,wait=off,logfile={},logappend=on",
            file("console"),
            file(CONSOLE)
        );
        let firmware = format!("file,id=firmware,path={}", file(FIRMWARE));
        command
            .args(["-chardev", &console, "-serial", "chardev:console"])
            .args(["-chardev", &firmware])
            .args(["-device", "isa-debugcon,iobase=0x402,chardev=firmware"])
            // some boot loaders need a screen
            .args(["-vga", "std"])
            .args(["-device", "virtio-rng-pci"])
            .args(["-device", "pvpanic", "-device", "i6300esb"]);
        let mut cards = vec![setup.devices.card().device(1)];
        let mut networks = vec![management(setup.address, port)];
        let mut taps = Vec::new();
        for (number, Port { card, cable }) in (1..).zip(&setup.ports) {
            let (network, queues) = match cable {
                Cable::Machine(end) => {
                    let network = format!(
                        "dgram,id=net{number},local.type=unix,local.path={},remote.type=unix,remote.path={}",
                        escaped(&end.ours),
                        escaped(&end.theirs)
                    );
                    (network, 1)
                }
                Cable::Host(files) => {
                    taps.extend(files.iter().cloned());
                    let numbers: Vec<String> = files
                        .iter()
                        .map(|file| file.as_raw_fd().to_string())
                        .collect();
                    let key = if files.len() > 1 { "fds" } else { "fd" };
                    let network = format!("tap,id=net{number},{key}={}", numbers.join(":"));
                    (network, files.len())
                }
            };
            networks.push(network);
            cards.push(card.device(queues));
        }
        if !taps.is_empty() {
            keep_open(&mut command, taps);
        }
        for (number, (network, card)) in networks.iter().zip(&cards).enumerate() {
            let mac = crate::networks::mac(mac(&setup.name, number));
            // no network boot
            let device = format!("{card},netdev=net{number},mac={mac},romfile=");
            command.args(["-netdev", network, "-device", &device]);
        }
        command
    }
}

impl Drop for Computer {
    fn drop(&mut self) {
        if let Some(mut power) = lock(&self.power).take() {
            power.qemu.end();
        }
        for name in ["console", "qmp", OVERLAY] {
            let _ = fs::remove_file(self.setup.folder.join(name));
        }
        for port in &self.setup.ports {
            if let Cable::Machine(end) = &port.cable {
                let _ = fs::remove_file(&end.ours);
            }
        }
    }
}

impl QemuEvents {
    /// Handles an event; names and data as in docs/interop/qemu-qmp-ref of QEMU.
    fn handle_event(&mut self, event: &str, data: &Value, remains: &MachineFiles) {
        let by_guest = data["guest"] == true;
        match event {
            "RESET" => {
                remains.begins();
                self.is_panicked = false;
                if by_guest {
                    self.restarts.push_back(match self.has_barked {
                        true => Restart::Watchdog,
                        false => Restart::Guest,
                    });
                }
                self.has_barked = false;
            }
            "SHUTDOWN" => self.is_off = by_guest,
            "GUEST_PANICKED" => self.is_panicked = true,
            "WATCHDOG" => self.has_barked = true,
            // a write that fails because the disk is full stops the machine; other errors are
            // passed to the guest
            "BLOCK_IO_ERROR" if data["action"] == "stop" => {
                let reason = data["reason"].as_str().unwrap_or("unknown");
                self.stopped = Some(format!(
                    "QEMU stopped it: what it writes to its disk cannot be kept on this host: {reason}"
                ));
            }
            _ => {}
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if there was a panic since the last start, which is at byte `began` of the output.
fn has_panicked(output: &[u8], started: usize) -> bool {
    let since = output.get(started..).unwrap_or_default();
    qemu::panic_in(&qemu::text(since)).is_some()
}

/// Returns the offset of the end of `words` in a text.
fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    let mut places = text.windows(words.len().max(1));
    places
        .position(|place| place == words)
        .map(|at| at + words.len())
}

/// Returns a locally administered address (IEEE 802, the second bit of the first byte), derived
/// from the name of the machine and the number of the port.
fn mac(name: &str, port: usize) -> [u8; 6] {
    let sum = Sha256::digest(name);
    [0x02, sum[0], sum[1], sum[2], sum[3], port as u8]
}

/// Returns the options for a QEMU network that contains only the guest, whose port 22 is forwarded
/// from this port of this host.
fn management(guest: Ipv4Addr, port: u16) -> String {
    let [a, b, c, last] = guest.octets();
    // QEMU needs two addresses for itself
    let [host, dns] = if last < 128 { [253, 254] } else { [1, 2] };
    let net = format!("{a}.{b}.{c}");
    format!(
        "user,id=net0,restrict=on,net={net}.0/24,host={net}.{host},dns={net}.{dns},dhcpstart={guest},\
         hostfwd=tcp:127.0.0.1:{port}-{guest}:{SSH}"
    )
}

fn human(qemu: &Qemu, line: &str) -> io::Result<String> {
    let output = qemu.query(QmpCommand::Human(line))?;
    Ok(output.as_str().unwrap_or_default().to_owned())
}

/// Parses the port of this host that is forwarded from the output of `info usernet`.
fn forwarded(output: &str) -> Option<u16> {
    let line = output.lines().find(|line| line.contains("HOST_FORWARD"))?;
    // protocol, descriptor, address, port
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of QEMU 7.2.
    #[test]
    fn the_forwarded_port_is_read() {
        let output = "Hub -1 (m):\r\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n  \
            TCP[HOST_FORWARD]   9       127.0.0.1 36129       10.0.2.15    22     0     0\r\n";
        assert_eq!(forwarded(output), Some(36129));
        assert_eq!(forwarded(""), None);
    }

    #[test]
    fn addresses_are_local_and_of_one_machine_only() {
        let [a, b] = ["a", "b"].map(|name| mac(name, 1));
        assert_ne!(a, b);
        assert_eq!(a, mac("a", 1));
        assert_eq!(a[0] & 3, 2, "local, and of one port");
        assert_ne!(a, mac("a", 2));
    }

    #[test]
    fn restarts_name_their_requester() {
        let folder = tempfile::tempdir().unwrap();
        let remains = MachineFiles::new(folder.path()).unwrap();
        let mut observed = QemuEvents::default();
        let guest = serde_json::json!({ "guest": true, "reason": "guest-reset" });
        let host = serde_json::json!({ "guest": false, "reason": "host-qmp-system-reset" });
        observed.handle_event("GUEST_PANICKED", &Value::Null, &remains);
        assert!(observed.is_panicked);
        observed.handle_event("RESET", &guest, &remains);
        observed.handle_event("RESET", &host, &remains);
        observed.handle_event("WATCHDOG", &Value::Null, &remains);
        observed.handle_event("RESET", &guest, &remains);
        observed.handle_event("SHUTDOWN", &host, &remains);
        assert_eq!(observed.restarts, [Restart::Guest, Restart::Watchdog]);
        assert!(!observed.is_panicked && !observed.is_off);
        observed.handle_event("SHUTDOWN", &guest, &remains);
        assert!(observed.is_off);
        // as shown in docs/interop of QEMU
        let full = serde_json::json!({ "operation": "write", "action": "stop", "nospace": true, "reason": "No space left on device" });
        observed.handle_event("BLOCK_IO_ERROR", &full, &remains);
        assert!(observed.stopped.unwrap().contains("No space left"));
    }

    /// A panic before the last start does not count, because a kernel may restart after it.
    #[test]
    fn a_panic_is_one_of_the_system_that_runs() {
        let output = b"Kernel panic - not syncing: x\nlogin: ";
        assert!(has_panicked(output, 0));
        assert!(!has_panicked(output, 30));
        assert!(!has_panicked(output, 100));
    }
}
