//! Sites: where test beds are built, and with what they are measured. The only interface between
//! procedures and test beds.
//!
//! Procedures request beds from a [`Site`], and a rig on each, and cannot tell their kind:
//! namespaces of this machine and the engine in this process, remote hosts and agents on them, or
//! in tests only values. [`crate::run`] decides what is measured there. Start with [`Site`];
//! another kind of site is another [`Builder`].

pub mod existing;
mod lock;
#[cfg(test)]
pub(crate) mod scripted;
mod whole_machine;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fwdlab_engine::Choice;
use fwdlab_model::campaign::{self, Kind};
use fwdlab_model::facts::Facts;
use fwdlab_model::system::System;
use fwdlab_model::test_bed::{self, Ends};

pub use self::lock::{Holder, Queue};
use crate::bed::Bed;
use crate::control::Control;
use crate::error::LabError;
use crate::host::wire::Noise;
use crate::host::{Limit, Local};
use crate::placement::Placement;
use crate::ports::UserPort;
use crate::ports::noise::capture_noise;
use crate::tester::local::Chosen;
use crate::tester::{self, Rig};

/// Interval of checks while waiting for another process.
const LOOK: Duration = Duration::from_millis(200);

/// Builds beds. The default is this machine: namespaces joined by veth pairs, and the engine in
/// this process.
#[derive(Debug, Clone)]
pub struct Site(Arc<dyn Builder>);

/// Requirements for a bed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Number of DUTs side by side.
    pub duts: usize,
    /// Frames also go back through the DUT, of which there is then only one.
    pub both_ways: bool,
    /// The first DUT is managed during its test.
    pub is_managed: bool,
    /// Configurations of a DUT run as processes of the host, on the host's files.
    pub is_unconfined: bool,
    /// Kind and properties of the DUTs.
    pub dut: &'a campaign::Dut,
    /// CPUs of each role.
    pub placement: &'a Placement,
}

impl Wanted<'_> {
    /// Requires one DUT without special features.
    pub fn with_one_dut<'a>(dut: &'a campaign::Dut, placement: &'a Placement) -> Wanted<'a> {
        Wanted {
            duts: 1,
            both_ways: false,
            is_managed: false,
            is_unconfined: false,
            dut,
            placement,
        }
    }
}

/// Builds beds, and opens rigs on them.
pub(crate) trait Builder: fmt::Debug + Send + Sync {
    /// Builds a bed whose DUTs are plain routers between its networks.
    ///
    /// # Errors
    /// Fails if the bed cannot be built as required; nothing of it is left behind.
    fn build(&self, wanted: &Wanted<'_>) -> Result<Bed, LabError>;

    /// Opens a rig on a bed of this site that has no configuration yet. Also returns the reason for
    /// this choice, in words.
    ///
    /// # Errors
    /// Fails if no engine works there, or not the requested one.
    fn open(&self, bed: &Bed, choice: &Choice) -> Result<(Box<dyn Rig>, Chosen), LabError>;

    /// Listens at the tester's ports of a bed for this time, and returns the unsolicited frames.
    ///
    /// # Errors
    /// Fails if a port cannot be listened to.
    fn capture_noise(&self, bed: &Bed, time: Duration) -> Result<Vec<Noise>, LabError> {
        let ports = bed
            .paths()
            .iter()
            .flat_map(|path| [path.tx.clone(), path.rx.clone()]);
        capture_noise(&ports.collect::<Vec<_>>(), time)
    }

    /// From now on, stopping this control ends long operations.
    fn set_control(&self, _: &Control) {}

    /// Takes the locks of everything that only one process at a time may use; `wait` decides
    /// whether to wait for another process.
    ///
    /// # Errors
    /// Fails if a lock cannot be taken, and with the error of `wait`.
    fn reserve(&self, _wait: lock::Wait<'_>) -> Result<(), LabError> {
        Ok(())
    }

    /// Records the run of this process with its locks.
    fn used_by(&self, _run: &str) {}

    /// Returns the tester's ports if the kernel does not know them. They are opened by the first
    /// call, and stay open as long as this site exists.
    ///
    /// # Errors
    /// As [`UserPort::take`].
    fn user_ports(&self) -> Result<Option<Arc<Ends<UserPort>>>, LabError> {
        Ok(None)
    }

    /// Returns true if this machine sends and forwards, in which case its other users are watched.
    fn is_local(&self) -> bool;

    /// Returns how long to wait before each retry after a lost host; empty if no host can be lost.
    fn patience(&self) -> &[Duration] {
        &[]
    }

    /// Returns the kind of its DUTs.
    fn kind(&self) -> test_bed::System {
        test_bed::System::Linux
    }

    /// Returns the number of CPUs that its file gives the DUT; `None` for the embedded bed, whose
    /// placement has them.
    fn dut_cpus(&self) -> Option<usize> {
        None
    }

    /// Returns the content of the file that defines it, if there is one.
    fn file(&self) -> Option<&str> {
        None
    }

    /// Returns what is changed on which host, in words, unless it is this machine's embedded bed.
    fn changes(&self) -> Option<Vec<String>> {
        None
    }

    /// Returns an error with the reason if its DUT cannot be restarted.
    fn can_reboot(&self) -> Result<(), String> {
        Err("its DUT is a part of this machine".into())
    }

    /// Restarts the DUT while no bed exists, and waits until it is ready again. Returns an id of
    /// the new boot.
    ///
    /// # Errors
    /// Fails if the DUT cannot be restarted, or did not come back.
    fn reboot(&self, _limit: Limit<'_>) -> Result<String, LabError> {
        self.can_reboot()
            .map_err(LabError::Preflight)
            .map(|()| String::new())
    }

    /// Returns the facts about the forwarding machine that are stored with a run, as far as they
    /// are known before a bed exists.
    fn facts(&self, placement: &Placement, privileged: bool) -> Facts;
}

impl Site {
    /// See [`Builder::user_ports`].
    pub(crate) fn user_ports(&self) -> Result<Option<Arc<Ends<UserPort>>>, LabError> {
        self.0.user_ports()
    }

    /// See [`Builder::capture_noise`].
    pub(crate) fn capture_noise(&self, bed: &Bed, time: Duration) -> Result<Vec<Noise>, LabError> {
        self.0.capture_noise(bed, time)
    }

    /// See [`Builder::set_control`].
    pub(crate) fn set_control(&self, control: &Control) {
        self.0.set_control(control);
    }

    /// Waits until no other process measures here, after all that came earlier, and keeps others
    /// away as long as this site exists. `show` is called a few times per second.
    ///
    /// # Errors
    /// [`LabError::Interrupted`] if it is stopped; fails if a lock cannot be taken.
    pub fn wait_for_turn(
        &self,
        control: &Control,
        show: &mut dyn FnMut(&Queue),
    ) -> Result<(), LabError> {
        self.0.reserve(&mut |queue| {
            show(queue);
            control.check()?;
            std::thread::sleep(LOOK);
            Ok(())
        })
    }

    /// See [`Builder::used_by`].
    pub(crate) fn used_by(&self, run: &str) {
        self.0.used_by(run);
    }

    /// See [`Builder::is_local`].
    pub(crate) fn is_local(&self) -> bool {
        self.0.is_local()
    }

    /// See [`Builder::patience`].
    pub(crate) fn patience(&self) -> &[Duration] {
        self.0.patience()
    }

    /// See [`Builder::kind`].
    pub(crate) fn kind(&self) -> test_bed::System {
        self.0.kind()
    }

    /// Returns the system whose configurations its DUTs accept; `None` if it is none of these.
    pub(crate) fn system(&self) -> Option<System> {
        match self.kind() {
            test_bed::System::Linux => Some(System::Linux),
            test_bed::System::Freebsd | test_bed::System::Bsdrp => Some(System::FreeBsd),
            test_bed::System::Vpp | test_bed::System::None => None,
        }
    }

    /// See [`Builder::dut_cpus`].
    pub(crate) fn dut_cpus(&self) -> Option<usize> {
        self.0.dut_cpus()
    }

    /// See [`Builder::file`].
    pub(crate) fn file(&self) -> Option<&str> {
        self.0.file()
    }

    /// See [`Builder::changes`].
    pub(crate) fn changes(&self) -> Option<Vec<String>> {
        self.0.changes()
    }

    /// See [`Builder::can_reboot`].
    pub(crate) fn can_reboot(&self) -> Result<(), String> {
        self.0.can_reboot()
    }

    /// See [`Builder::reboot`].
    pub(crate) fn reboot(&self, limit: Limit<'_>) -> Result<String, LabError> {
        self.0.reboot(limit)
    }

    /// See [`Builder::facts`].
    pub(crate) fn facts(&self, placement: &Placement, privileged: bool) -> Facts {
        self.0.facts(placement, privileged)
    }

    /// Builds a bed with one DUT that forwards in both directions, for ports that are driven by
    /// hand.
    ///
    /// # Errors
    /// Fails if the bed cannot be built; nothing of it is left behind.
    pub fn both_ways(&self, placement: &Placement) -> Result<Bed, LabError> {
        self.build(&Wanted {
            both_ways: true,
            ..Wanted::with_one_dut(&campaign::Dut::default(), placement)
        })
    }

    /// See [`Builder::build`].
    pub(crate) fn build(&self, requested: &Wanted<'_>) -> Result<Bed, LabError> {
        self.0.build(requested)
    }

    /// See [`Builder::open`].
    pub(crate) fn open(
        &self,
        bed: &Bed,
        choice: &Choice,
    ) -> Result<(Box<dyn Rig>, Chosen), LabError> {
        self.0.open(bed, choice)
    }
}

impl Default for Site {
    fn default() -> Site {
        Site(Arc::new(ThisMachine))
    }
}

/// Namespaces of this machine, and the engine in this process.
#[derive(Debug)]
struct ThisMachine;

impl Builder for ThisMachine {
    fn build(&self, requested: &Wanted<'_>) -> Result<Bed, LabError> {
        let bed = match (requested.dut.kind, requested.both_ways) {
            (Kind::Vpp | Kind::VppHugePages, both_ways) => {
                Bed::up_vpp(requested.dut, both_ways, requested.placement)?
            }
            (kind @ (Kind::Testpmd | Kind::OvsDpdk), _) => {
                let reason =
                    format!("{kind} is counted in virtual machines: set image in [matrix]");
                return Err(LabError::Preflight(reason));
            }
            (Kind::Linux, true) => Bed::up_both_ways(requested.placement)?,
            (Kind::Linux, false) => Bed::up(requested.duts, requested.placement, false)?,
        };
        let bed = bed.unconfined(requested.is_unconfined);
        if requested.is_managed {
            bed.add_management()?;
        }
        Ok(bed)
    }

    fn open(&self, bed: &Bed, choice: &Choice) -> Result<(Box<dyn Rig>, Chosen), LabError> {
        let addresses = bed.networks().forward();
        Ok(tester::local::open(bed.paths(), &addresses, choice)?)
    }

    fn is_local(&self) -> bool {
        true
    }

    fn facts(&self, placement: &Placement, privileged: bool) -> Facts {
        crate::facts::collect_facts(&Local, placement, privileged)
    }
}
