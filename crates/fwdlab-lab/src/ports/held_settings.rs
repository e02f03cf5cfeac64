//! Settings of a port that outlive a process: each is recorded before it is changed, and restored
//! when its value is dropped.
//!
//! The record is in `/run/fwdlab` with those of labs, under a lock that lives as long as this
//! process. A record whose lock is free belongs to a dead process; the next one that takes a port
//! restores that setting ([`sweep`]). The settings themselves are in `card`, `changes` and
//! `binding`. Start with [`HeldSetting::take`].

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use fwdlab_engine::{EngineError, PortSpec};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::binding::Drivers;
use super::card::Cards;
use super::changes::{Ipv6, Mtu};
use crate::error::LabError;
use crate::host::Failure;

const DIRECTORY: &str = "/run/fwdlab";

/// A kind of setting: of all ports of this host, or of a test's.
pub(super) trait Settings: Debug {
    /// Its value.
    type Setting: Clone + Debug + Serialize + DeserializeOwned;
    /// File extension of its records.
    const EXTENSION: &'static str;

    fn read(&self, port: &PortSpec) -> Result<Self::Setting, LabError>;

    /// Changes it, and returns the resulting setting.
    fn set(&self, port: &PortSpec, setting: Self::Setting) -> Result<Self::Setting, LabError>;

    /// Returns true if `is` satisfies `wanted`.
    fn does(is: &Self::Setting, wanted: &Self::Setting) -> bool;
}

/// The previous setting of a port.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record<T> {
    netns: Option<PathBuf>,
    interface: String,
    #[serde(flatten)]
    before: T,
}

impl<T: Clone> Record<T> {
    pub(super) fn new(port: &PortSpec, before: T) -> Record<T> {
        Record {
            netns: port.netns.clone(),
            interface: port.interface.clone(),
            before,
        }
    }

    fn restore<S: Settings<Setting = T>>(&self, settings: &S) -> Result<T, LabError> {
        let port = PortSpec {
            netns: self.netns.clone(),
            interface: self.interface.clone(),
        };
        settings.set(&port, self.before.clone())
    }
}

/// A port whose setting is changed until this value is dropped.
#[derive(Debug)]
pub(super) struct HeldSetting<S: Settings> {
    /// The setting that resulted from the request.
    pub(super) got: S::Setting,
    settings: S,
    record: Record<S::Setting>,
    /// `None` if the port had this setting before.
    path: Option<PathBuf>,
    pub(super) lock: Option<File>,
}

impl<S: Settings> HeldSetting<S> {
    /// Changes a setting of a port.
    ///
    /// # Errors
    /// Fails, with the port unchanged, if the setting cannot be changed or the record cannot be
    /// written.
    pub(super) fn take(
        settings: S,
        port: &PortSpec,
        requested: S::Setting,
    ) -> Result<HeldSetting<S>, LabError> {
        HeldSetting::take_in(Path::new(DIRECTORY), settings, port, requested)
    }

    pub(super) fn take_in(
        directory: &Path,
        settings: S,
        port: &PortSpec,
        requested: S::Setting,
    ) -> Result<HeldSetting<S>, LabError> {
        let before = settings.read(port)?;
        let mut held = HeldSetting {
            got: before.clone(),
            settings,
            record: Record::new(port, before.clone()),
            path: None,
            lock: None,
        };
        if S::does(&before, &requested) {
            return Ok(held);
        }
        let extension = S::EXTENSION;
        let name = format!("{}-{}.{extension}", std::process::id(), port.interface);
        let path = directory.join(name);
        let failed = |e| LabError::system(format!("write {}", path.display()), e);
        fs::create_dir_all(directory).map_err(failed)?;
        // the record becomes visible complete and locked
        let unseen = path.with_extension(format!("{extension}-new"));
        let lock = File::create(&unseen).map_err(failed)?;
        flock(lock.as_fd(), FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| LabError::system(format!("lock {}", path.display()), e))?;
        let text = serde_json::to_vec(&held.record).expect("strings and numbers serialise");
        fs::write(&unseen, text)
            .and_then(|()| fs::rename(&unseen, &path))
            .map_err(failed)?;
        // from here on, dropping it restores the setting
        (held.path, held.lock) = (Some(path), Some(lock));
        held.got = held.settings.set(port, requested)?;
        Ok(held)
    }
}

impl<S: Settings> Drop for HeldSetting<S> {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && self.record.restore(&self.settings).is_ok()
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Restores the settings that dead processes left behind.
pub(super) fn sweep() {
    let directory = Path::new(DIRECTORY);
    sweep_in(directory, &Cards);
    sweep_in(directory, &Ipv6);
    sweep_in(directory, &Mtu);
    sweep_in(directory, &Drivers::default());
}

pub(super) fn sweep_in<S: Settings>(directory: &Path, settings: &S) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|e| e != S::EXTENSION) {
            continue;
        }
        let Ok(file) = File::open(&path) else {
            continue;
        };
        if flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let record: Option<Record<S::Setting>> =
            (fs::read(&path).ok()).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        // an incomplete record was written before any change; a port that is gone has no setting to
        // restore
        if let Some(record) = record
            && record
                .restore(settings)
                .is_err_and(|error| is_forbidden(&error))
        {
            continue;
        }
        let _ = fs::remove_file(&path);
    }
}

/// Returns true if privileges were missing: another user can still restore it.
fn is_forbidden(error: &LabError) -> bool {
    match error {
        LabError::System { source, .. } | LabError::Engine(EngineError::System { source, .. }) => {
            source.kind() == io::ErrorKind::PermissionDenied
        }
        LabError::Host(error) => match &error.failure {
            Failure::Exit { said: output, .. } => output.contains("not permitted"),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use fwdlab_engine::stamps::card::Setting;

    use super::*;

    /// A card that accepts the settings it supports.
    #[derive(Debug, Clone)]
    struct Fake {
        now: Rc<Cell<Setting>>,
        settings: Rc<RefCell<Vec<Setting>>>,
        can_all: bool,
        refuses: Rc<Cell<Option<i32>>>,
    }

    const BEFORE: Setting = Setting {
        flags: 0,
        tx_type: 0,
        rx_filter: 12,
    };

    impl Fake {
        fn new(can_all: bool) -> Fake {
            Fake {
                now: Rc::new(Cell::new(BEFORE)),
                settings: Rc::default(),
                can_all,
                refuses: Rc::default(),
            }
        }
    }

    impl Settings for Fake {
        type Setting = Setting;
        const EXTENSION: &'static str = Cards::EXTENSION;

        fn read(&self, _: &PortSpec) -> Result<Setting, LabError> {
            match self.refuses.get() {
                Some(errno) => Err(EngineError::System {
                    action: "ask".into(),
                    source: io::Error::from_raw_os_error(errno),
                }
                .into()),
                None => Ok(self.now.get()),
            }
        }

        fn does(is: &Setting, requested: &Setting) -> bool {
            Cards::does(is, requested)
        }

        fn set(&self, port: &PortSpec, setting: Setting) -> Result<Setting, LabError> {
            self.read(port)?;
            self.settings.borrow_mut().push(setting);
            let made = match setting == Setting::ALL && !self.can_all {
                true => Setting {
                    rx_filter: 0,
                    ..setting
                },
                false => setting,
            };
            self.now.set(made);
            Ok(made)
        }
    }

    fn port() -> PortSpec {
        PortSpec {
            netns: Some("/run/netns/somewhere".into()),
            interface: "p0".into(),
        }
    }

    fn hold_card(directory: &Path, card: &Fake) -> Result<HeldSetting<Fake>, LabError> {
        HeldSetting::take_in(directory, card.clone(), &port(), Setting::ALL)
    }

    fn records(directory: &Path) -> usize {
        fs::read_dir(directory).map_or(0, Iterator::count)
    }

    #[test]
    fn a_card_is_put_back_when_the_value_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let card = Fake::new(true);
        let taken = hold_card(directory.path(), &card).unwrap();
        assert_eq!(
            (card.now.get(), records(directory.path())),
            (Setting::ALL, 1)
        );
        // another process sees that the setting is held
        sweep_in(directory.path(), &card);
        assert_eq!(
            (card.now.get(), records(directory.path())),
            (Setting::ALL, 1)
        );
        drop(taken);
        assert_eq!((card.now.get(), records(directory.path())), (BEFORE, 0));
    }

    #[test]
    fn a_card_of_a_dead_process_is_put_back_by_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let card = Fake::new(true);
        let mut taken = hold_card(directory.path(), &card).unwrap();
        // killed: the lock is released, and nothing was cleaned up
        taken.lock = None;
        std::mem::forget(taken);
        assert_eq!(card.now.get(), Setting::ALL);
        card.refuses.set(Some(1));
        sweep_in(directory.path(), &card);
        assert_eq!(
            records(directory.path()),
            1,
            "without permission it stays for somebody who may"
        );
        card.refuses.set(None);
        sweep_in(directory.path(), &card);
        assert_eq!((card.now.get(), records(directory.path())), (BEFORE, 0));
        // an incomplete record, and one of a port that is gone
        fs::write(directory.path().join("7-p0.card"), b"{\"interface\":").unwrap();
        let record = serde_json::to_vec(&Record::new(&port(), BEFORE)).unwrap();
        fs::write(directory.path().join("8-p0.card"), record).unwrap();
        card.refuses.set(Some(19));
        sweep_in(directory.path(), &card);
        assert_eq!(records(directory.path()), 0);
    }

    #[test]
    fn a_card_without_support_is_not_changed() {
        let directory = tempfile::tempdir().unwrap();
        let card = Fake::new(false);
        let taken = hold_card(directory.path(), &card).unwrap();
        assert_eq!(taken.got.rx_filter, 0);
        drop(taken);
        assert_eq!((card.now.get(), records(directory.path())), (BEFORE, 0));
        card.refuses.set(Some(95));
        assert!(hold_card(directory.path(), &card).is_err());
        assert_eq!(records(directory.path()), 0);
        assert_eq!(card.settings.borrow().len(), 2, "there and back");
    }

    #[test]
    fn a_card_that_stamps_already_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let card = Fake::new(true);
        card.now.set(Setting::ALL);
        drop(hold_card(directory.path(), &card).unwrap());
        assert_eq!(
            (card.settings.borrow().len(), records(directory.path())),
            (0, 0)
        );
    }
}
