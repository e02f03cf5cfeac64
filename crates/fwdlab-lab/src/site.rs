//! Sites: where test beds are built, and with what they are measured. The one door between procedures and what stands.
//!
//! Procedures ask a [`Site`] for beds, and for a rig on each, and cannot tell of what kind these are: namespaces of this machine and the
//! engine in this process, hosts far away and agents on them, or in tests nothing but values. What is measured there is decided in
//! [`crate::run`]. Start with [`Site`]; another kind of site is another [`Builder`].

#[cfg(test)]
pub(crate) mod scripted;
pub mod standing;
mod whole;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fwdlab_engine::Choice;
use fwdlab_model::campaign::{self, Kind};
use fwdlab_model::facts::Facts;
use fwdlab_model::system::System;
use fwdlab_model::test_bed;

use crate::bed::Bed;
use crate::control::Control;
use crate::error::LabError;
use crate::host::wire::Noise;
use crate::host::{Limit, Local};
use crate::placement::Placement;
use crate::ports::noise::hear;
use crate::tester::local::Chosen;
use crate::tester::{self, Rig};

/// Where beds are built. The default is this machine: namespaces joined by veth pairs, and the engine in this process.
#[derive(Debug, Clone)]
pub struct Site(Arc<dyn Builder>);

/// A bed as it is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// So many DUTs side by side.
    pub duts: usize,
    /// Frames go back through the DUT, too: that is then one.
    pub both_ways: bool,
    /// The first DUT is managed beside its test.
    pub is_managed: bool,
    /// What is applied to a DUT runs as processes of the host, on the host's files.
    pub is_unconfined: bool,
    /// Of which kind the DUTs are, and what is to be known of them.
    pub dut: &'a campaign::Dut,
    /// Who runs where.
    pub placement: &'a Placement,
}

impl Wanted<'_> {
    /// With one DUT, and nothing special.
    pub fn of_one<'a>(dut: &'a campaign::Dut, placement: &'a Placement) -> Wanted<'a> {
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

/// Builds beds, and opens what measures on them.
pub(crate) trait Builder: fmt::Debug + Send + Sync {
    /// Builds a bed whose DUTs are plain routers between its networks.
    ///
    /// # Errors
    /// It cannot be built as it is wanted; nothing of it stays behind.
    fn build(&self, wanted: &Wanted<'_>) -> Result<Bed, LabError>;

    /// Opens a rig on a bed of this site that is still plain, and says in words why it is this one.
    ///
    /// # Errors
    /// None works there, or not that one which was asked for.
    fn open(&self, bed: &Bed, choice: &Choice) -> Result<(Box<dyn Rig>, Chosen), LabError>;

    /// Who talks at the tester's ports of a bed in so much time by itself.
    ///
    /// # Errors
    /// A port cannot be listened to.
    fn hear(&self, bed: &Bed, time: Duration) -> Result<Vec<Noise>, LabError> {
        let ports = bed
            .paths()
            .iter()
            .flat_map(|path| [path.tx.clone(), path.rx.clone()]);
        hear(&ports.collect::<Vec<_>>(), time)
    }

    /// From now on, what takes long ends when this is stopped.
    fn heed(&self, _: &Control) {}

    /// Is it this machine that sends and forwards? Who else uses it is watched then.
    fn is_here(&self) -> bool;

    /// How long is waited before what a lost host has cut off is tried again, each time; nothing where no host can be lost.
    fn patience(&self) -> &[Duration] {
        &[]
    }

    /// What its DUTs are.
    fn kind(&self) -> test_bed::System {
        test_bed::System::Linux
    }

    /// The file that says what it is, where there is one.
    fn file(&self) -> Option<&str> {
        None
    }

    /// What is changed on which host, in words, where that is not this machine's embedded bed.
    fn changes(&self) -> Option<Vec<String>> {
        None
    }

    /// Can its DUT be restarted? Says why not.
    fn can_reboot(&self) -> Result<(), String> {
        Err("its DUT is no machine of its own".into())
    }

    /// Restarts the DUT while no bed stands, and waits until it is ready again. Returns which boot of it answers.
    ///
    /// # Errors
    /// It cannot be restarted, or did not come back.
    fn reboot(&self, _limit: Limit<'_>) -> Result<String, LabError> {
        self.can_reboot()
            .map_err(LabError::Preflight)
            .map(|()| String::new())
    }

    /// What is kept with a run of the machine that forwards, as far as it is known before a bed stands.
    fn facts(&self, placement: &Placement, privileged: bool) -> Facts;
}

impl Site {
    /// As [`Builder::hear`].
    pub(crate) fn hear(&self, bed: &Bed, time: Duration) -> Result<Vec<Noise>, LabError> {
        self.0.hear(bed, time)
    }

    /// As [`Builder::heed`].
    pub(crate) fn heed(&self, control: &Control) {
        self.0.heed(control);
    }

    /// As [`Builder::is_here`].
    pub(crate) fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// As [`Builder::patience`].
    pub(crate) fn patience(&self) -> &[Duration] {
        self.0.patience()
    }

    /// As [`Builder::kind`].
    pub(crate) fn kind(&self) -> test_bed::System {
        self.0.kind()
    }

    /// Whose configurations its DUTs take; nothing where that is none of these.
    pub(crate) fn system(&self) -> Option<System> {
        match self.kind() {
            test_bed::System::Linux => Some(System::Linux),
            test_bed::System::Freebsd | test_bed::System::Bsdrp => Some(System::FreeBsd),
            test_bed::System::Vpp | test_bed::System::None => None,
        }
    }

    /// As [`Builder::file`].
    pub(crate) fn file(&self) -> Option<&str> {
        self.0.file()
    }

    /// As [`Builder::changes`].
    pub(crate) fn changes(&self) -> Option<Vec<String>> {
        self.0.changes()
    }

    /// As [`Builder::can_reboot`].
    pub(crate) fn can_reboot(&self) -> Result<(), String> {
        self.0.can_reboot()
    }

    /// As [`Builder::reboot`].
    pub(crate) fn reboot(&self, limit: Limit<'_>) -> Result<String, LabError> {
        self.0.reboot(limit)
    }

    /// As [`Builder::facts`].
    pub(crate) fn facts(&self, placement: &Placement, privileged: bool) -> Facts {
        self.0.facts(placement, privileged)
    }

    /// A bed with one DUT through which frames go both ways, for somebody who drives its ports by hand.
    ///
    /// # Errors
    /// It cannot be built; nothing of it stays behind.
    pub fn both_ways(&self, placement: &Placement) -> Result<Bed, LabError> {
        self.build(&Wanted {
            both_ways: true,
            ..Wanted::of_one(&campaign::Dut::default(), placement)
        })
    }

    /// As [`Builder::build`].
    pub(crate) fn build(&self, wanted: &Wanted<'_>) -> Result<Bed, LabError> {
        self.0.build(wanted)
    }

    /// As [`Builder::open`].
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
    fn build(&self, wanted: &Wanted<'_>) -> Result<Bed, LabError> {
        let bed = match (wanted.dut.kind, wanted.both_ways) {
            (Kind::Vpp | Kind::VppHugePages, both_ways) => {
                Bed::up_vpp(wanted.dut, both_ways, wanted.placement)?
            }
            (Kind::Linux, true) => Bed::up_both_ways(wanted.placement)?,
            (Kind::Linux, false) => Bed::up(wanted.duts, wanted.placement, false)?,
        };
        let bed = bed.unconfined(wanted.is_unconfined);
        if wanted.is_managed {
            bed.add_management()?;
        }
        Ok(bed)
    }

    fn open(&self, bed: &Bed, choice: &Choice) -> Result<(Box<dyn Rig>, Chosen), LabError> {
        let addresses = bed.networks().forward();
        Ok(tester::local::open(bed.paths(), &addresses, choice)?)
    }

    fn is_here(&self) -> bool {
        true
    }

    fn facts(&self, placement: &Placement, privileged: bool) -> Facts {
        crate::facts::of(&Local, placement, privileged)
    }
}
