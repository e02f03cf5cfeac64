//! A site whose DUT is a user's disk image, started as a whole machine, with the tester on this
//! machine.
//!
//! ```text
//!   namespace of ours          QEMU
//!     tx0  (TAP) ============== second port of the machine
//!     rx0  (TAP) ============== third port; the first is that of its management
//! ```
//!
//! The machine is started on first use and stopped with the site, and changes in it disappear with
//! it. Once started, it is a host reached by SSH like any other, and [`super::existing`] does the
//! rest. Start with [`Site::for_machine`].

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fwdlab_engine::Choice;
use fwdlab_model::facts::Facts;
use fwdlab_model::test_bed::{Devices, Ends, System, TestBed, WholeMachine};

use super::existing::ExistingHosts;
use super::lock::{Locks, Wait, bed_lock};
use super::{Builder, Site, Wanted};
use crate::bed::Bed;
use crate::control::Control;
use crate::error::LabError;
use crate::host::reboot::{REBOOT, identity};
use crate::host::registry::{Registration, Registry};
use crate::host::wire::Noise;
use crate::host::{Command, Host, Limit, Local, Ssh};
use crate::networks::mac;
use crate::placement::Placement;
use crate::tester::Rig;
use crate::tester::local::Chosen;
use crate::vm::computer::{self, ADDRESS, Computer, Port, Setup};
use crate::vm::image::disk::Disk;
use crate::vm::kvm::fastest;
use crate::vm::login::{Inside, log_in};
use crate::vm::qemu::Accelerator;
use crate::vm::scratch::Scratch;

/// The tester's ports, whose names cannot clash: they are in a namespace of ours.
const PORTS: [&str; 2] = ["tx0", "rx0"];

/// Lists ports and their MAC addresses, on Linux and on FreeBSD.
const LIST_PORTS: &str = "if [ $(uname -s) = FreeBSD ]; then \
    for i in $(ifconfig -l ether); do echo $i $(ifconfig $i | sed -n 's/^[[:space:]]*ether //p'); done; \
    else for i in /sys/class/net/*; do echo ${i##*/} $(cat $i/address); done; fi";

impl Site {
    /// Creates a site with a machine that is started on first use. `program`: this program.
    pub fn for_machine(bed: WholeMachine, disk: Disk, program: &Path) -> Site {
        Site(Arc::new(MachineSite {
            bed,
            disk,
            program: program.to_owned(),
            up: Mutex::default(),
            locks: Arc::default(),
            control: Mutex::default(),
        }))
    }
}

#[derive(Debug)]
struct MachineSite {
    bed: WholeMachine,
    disk: Disk,
    program: PathBuf,
    up: Mutex<Option<Arc<Up>>>,
    locks: Arc<Locks>,
    control: Mutex<Control>,
}

/// A running machine. Fields are dropped from top to bottom.
#[derive(Debug)]
struct Up {
    standing: ExistingHosts,
    computer: Computer,
    /// Id of the boot that was last logged into.
    system: String,
    scratch: Scratch,
    /// Removes its namespace when dropped.
    _registration: Registration,
}

impl MachineSite {
    /// Returns the machine; starts it if it is not running.
    fn up(&self) -> Result<Arc<Up>, LabError> {
        let mut up = self.up.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(up) = &*up {
            up.computer.check()?;
            return Ok(up.clone());
        }
        Ok(up.insert(Arc::new(self.start()?)).clone())
    }

    fn control(&self) -> Control {
        let control = self.control.lock();
        control.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn start(&self) -> Result<Up, LabError> {
        let control = self.control();
        let is_stopped = || control.is_stopped();
        self.reserve(&mut |queue| Err(queue.refusal()))?;
        let registry = Registry::open()?;
        registry.sweep(false)?;
        let registration = registry.register(0, false)?;
        let namespace = registration.record().namespaces[0].clone();
        Local.query("ip", &["netns", "add", &namespace])?;
        let scratch = Scratch::new()?;
        let hardware = self.bed.hardware;
        let devices = match hardware.devices {
            Devices::Virtio => computer::Devices::Virtio,
            Devices::Classic => computer::Devices::Classic,
        };
        let cables = computer::taps(&namespace, &PORTS, 1)?.into_iter();
        let setup = Setup {
            name: self.disk.path.display().to_string(),
            system: computer::System::Disk(self.disk.clone()),
            cpus: hardware.cpus,
            memory_mib: hardware.memory_mib,
            devices,
            address: ADDRESS,
            ports: cables
                .map(|cable| Port {
                    card: devices.card(),
                    cable,
                })
                .collect(),
            folder: scratch.folder(1),
        };
        let computer = Computer::start(setup, fastest().accelerator, &is_stopped)?;
        let inside = self.inside(&computer, &scratch, &is_stopped)?;
        let ssh = Ssh::ephemeral(inside.target.clone());
        let ports = ports_of(&ssh, &computer)?;
        let bed = self.as_existing(&namespace, &ports)?;
        let standing = ExistingHosts::new(bed, &self.program)
            .map_err(|error| LabError::Preflight(error.to_string()))?;
        let standing = standing.with_machine(inside.target, self.locks.clone());
        standing.set_control(&control);
        Ok(Up {
            standing,
            computer,
            system: inside.system,
            scratch,
            _registration: registration,
        })
    }

    fn inside(
        &self,
        computer: &Computer,
        scratch: &Scratch,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Inside, LabError> {
        let key = self.disk.key.as_deref();
        let inside = log_in(computer, key, &scratch.folder(2), is_stopped);
        inside.map_err(|cause| match is_stopped() {
            true => LabError::Interrupted,
            false => LabError::Machine {
                name: computer.name().to_owned(),
                reason: cause,
            },
        })
    }

    /// Returns the equivalent bed of existing hosts. Its DUT has a dummy address, which the caller
    /// replaces.
    fn as_existing(&self, namespace: &str, ports: &Ends<String>) -> Result<TestBed, LabError> {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let kind = match self.bed.kind {
            System::Freebsd => "freebsd",
            System::Bsdrp => "bsdrp",
            System::Linux | System::Vpp | System::None => "linux",
        };
        let text = format!(
            "bed = {}\nabout = {}\n[generator]\nhost = {}\nports = {{ a = {}, b = {} }}\n[dut]\nhost = \"ssh://127.0.0.1\"\nkind = \"{kind}\"\n\
             ports = {{ a = {}, b = {} }}\n",
            quoted(&self.bed.name),
            quoted(&self.bed.about),
            quoted(&format!("netns:{namespace}")),
            quoted(PORTS[0]),
            quoted(PORTS[1]),
            quoted(&ports.a),
            quoted(&ports.b),
        );
        let file = &self.bed.origin.file;
        let mut bed =
            TestBed::parse(file, &text).map_err(|error| LabError::Preflight(error.to_string()))?;
        bed.networks = self.bed.networks;
        if bed.dut.kind == System::Linux {
            bed.dut.cpus = (0..self.bed.hardware.cpus as usize).collect();
        }
        bed.dut.ready.clone_from(&self.bed.ready);
        Ok(bed)
    }

    /// Describes the accelerator, and what it means for figures.
    fn words(&self) -> String {
        let fastest = fastest();
        let doubt = match fastest.accelerator {
            Accelerator::Kvm => "",
            _ => "; its rates are those of the emulator, and of no machine",
        };
        format!("{} in {fastest}{doubt}", self.disk.path.display())
    }
}

/// Returns the machine's own names of its second and third port.
fn ports_of(ssh: &Ssh, computer: &Computer) -> Result<Ends<String>, LabError> {
    let command = Command::shell(LIST_PORTS).called("list its ports");
    let output = ssh.run(&command, Limit::OURS)?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let known: BTreeMap<&str, &str> = output
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, mac)| (mac.trim(), name))
        .collect();
    let macs = computer.macs();
    let named = |number: usize| {
        let mac = mac(macs[number]);
        let name = known.get(mac.as_str()).map(|name| (*name).to_owned());
        name.ok_or_else(|| LabError::Machine {
            name: computer.name().to_owned(),
            reason: format!(
                "its system has no port with the address {mac}: {}. Does it have a driver for them? With machine = {{ devices = \"classic\" }} they \
                 are Intel's e1000",
                output.trim().replace('\n', ", ")
            ),
        })
    };
    Ok(Ends {
        a: named(1)?,
        b: named(2)?,
    })
}

/// The network of a link, if there is one.
type LinkNetwork = Option<(Ipv4Addr, u8)>;

impl Builder for MachineSite {
    fn build(&self, requested: &Wanted<'_>) -> Result<Bed, LabError> {
        self.up()?.standing.build(requested)
    }

    fn open(&self, bed: &Bed, choice: &Choice) -> Result<(Box<dyn Rig>, Chosen), LabError> {
        self.up()?.standing.open(bed, choice)
    }

    fn capture_noise(&self, bed: &Bed, time: Duration) -> Result<Vec<Noise>, LabError> {
        self.up()?.standing.capture_noise(bed, time)
    }

    fn set_control(&self, control: &Control) {
        *self.control.lock().unwrap_or_else(PoisonError::into_inner) = control.clone();
        if let Some(up) = &*self.up.lock().unwrap_or_else(PoisonError::into_inner) {
            up.standing.set_control(control);
        }
    }

    fn reserve(&self, wait: Wait<'_>) -> Result<(), LabError> {
        self.locks.take(&[bed_lock(&self.bed.name)], wait)
    }

    fn used_by(&self, run: &str) {
        self.locks.used_by(run);
    }

    fn is_local(&self) -> bool {
        true
    }

    fn kind(&self) -> System {
        self.bed.kind
    }

    fn dut_cpus(&self) -> Option<usize> {
        Some(self.bed.hardware.cpus as usize)
    }

    fn file(&self) -> Option<&str> {
        Some(&self.bed.origin.text)
    }

    fn changes(&self) -> Option<Vec<String>> {
        let named = |given: &LinkNetwork| {
            given.map_or(String::new(), |(net, length)| format!(" ({net}/{length})"))
        };
        let Ends { a, b } = &self.bed.networks;
        Some(vec![format!(
            "a virtual machine starts {}, which is not modified, connected to {}{} and {}{} in a namespace of this machine; all of it is \
             removed when the run ends",
            self.disk.path.display(),
            PORTS[0],
            named(a),
            PORTS[1],
            named(b),
        )])
    }

    fn can_reboot(&self) -> Result<(), String> {
        Ok(())
    }

    fn reboot(&self, limit: Limit<'_>) -> Result<String, LabError> {
        let started = Instant::now();
        let up = self.up()?;
        let dut = up.standing.dut_host()?;
        // the machine may go down before it answers
        let _ = dut.run(&Command::shell(REBOOT).called("reboot"), limit);
        up.computer.wait_for_restart(limit)?;
        self.inside(&up.computer, &up.scratch, limit.is_stopped)?;
        let left = Limit {
            time: limit
                .time
                .saturating_sub(started.elapsed())
                .max(Duration::from_secs(20)),
            ..limit
        };
        let boot = identity(dut.as_ref(), left)?;
        up.standing
            .wait_until_ready(dut.as_ref(), limit.is_stopped)?;
        Ok(boot)
    }

    fn facts(&self, placement: &Placement, privileged: bool) -> Facts {
        let mut facts = match self.up() {
            Ok(up) => {
                let mut facts = up.standing.facts(placement, privileged);
                facts.placement.insert("system".into(), up.system.clone());
                facts
            }
            Err(_) => Facts::default(),
        };
        facts.placement.insert("machine".into(), self.words());
        facts
    }
}
