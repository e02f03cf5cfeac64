//! Cards that are told to stamp frames, and told back: the setting outlives a process, so it is written down before it is changed.
//!
//! The record lies in `/run/fwdlab` beside those of labs, under a lock that lives as long as we do. A record whose lock is free
//! belongs to a process that died; the next one that takes a port puts that card back. Start with [`Stamping::take`]; what a
//! setting is, `fwdlab_engine::stamps::card` knows.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use fwdlab_engine::stamps::card::{self, Setting};
use fwdlab_engine::{EngineError, PortSpec};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::LabError;

const DIRECTORY: &str = "/run/fwdlab";
const EXTENSION: &str = "card";

/// The cards of this host, or of a test.
trait Cards {
    fn read(&self, port: &PortSpec) -> Result<Setting, EngineError>;
    fn set(&self, port: &PortSpec, setting: Setting) -> Result<Setting, EngineError>;
}

/// Those that there are.
#[derive(Debug)]
struct Real;

impl Cards for Real {
    fn read(&self, port: &PortSpec) -> Result<Setting, EngineError> {
        card::read(port)
    }

    fn set(&self, port: &PortSpec, setting: Setting) -> Result<Setting, EngineError> {
        card::set(port, setting)
    }
}

/// How a card was set before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    netns: Option<PathBuf>,
    interface: String,
    flags: i32,
    tx_type: i32,
    rx_filter: i32,
}

impl Record {
    fn of(port: &PortSpec, before: Setting) -> Record {
        Record {
            netns: port.netns.clone(),
            interface: port.interface.clone(),
            flags: before.flags,
            tx_type: before.tx_type,
            rx_filter: before.rx_filter,
        }
    }

    fn put_back(&self, cards: &dyn Cards) -> Result<Setting, EngineError> {
        let port = PortSpec {
            netns: self.netns.clone(),
            interface: self.interface.clone(),
        };
        cards.set(
            &port,
            Setting {
                flags: self.flags,
                tx_type: self.tx_type,
                rx_filter: self.rx_filter,
            },
        )
    }
}

/// A card that stamps all frames, until this value is dropped.
#[derive(Debug)]
pub struct Stamping {
    _held: Held<Real>,
}

impl Stamping {
    /// Tells a port's card to stamp all frames, both ways.
    ///
    /// # Errors
    /// The card cannot, or does less than it was told; the record cannot be written. The card is as it was.
    pub fn take(port: &PortSpec) -> Result<Stamping, LabError> {
        let held = Held::take(Path::new(DIRECTORY), Real, port)?;
        Ok(Stamping { _held: held })
    }
}

#[derive(Debug)]
struct Held<C: Cards> {
    cards: C,
    record: Record,
    /// Absent where the card was set like this before.
    path: Option<PathBuf>,
    _lock: Option<File>,
}

impl<C: Cards> Held<C> {
    fn take(directory: &Path, cards: C, port: &PortSpec) -> Result<Held<C>, LabError> {
        let before = cards.read(port)?;
        let mut held = Held {
            cards,
            record: Record::of(port, before),
            path: None,
            _lock: None,
        };
        if before.tx_type == Setting::ALL.tx_type && before.rx_filter == Setting::ALL.rx_filter {
            return Ok(held);
        }
        let name = format!("{}-{}.{EXTENSION}", std::process::id(), port.interface);
        let path = directory.join(name);
        let failed = |e| LabError::system(format!("write {}", path.display()), e);
        fs::create_dir_all(directory).map_err(failed)?;
        // whoever finds it finds it whole and held
        let unseen = path.with_extension("new");
        let lock = File::create(&unseen).map_err(failed)?;
        flock(lock.as_fd(), FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| LabError::system(format!("lock {}", path.display()), e))?;
        let text = serde_json::to_vec(&held.record).expect("strings and numbers serialise");
        fs::write(&unseen, text)
            .and_then(|()| fs::rename(&unseen, &path))
            .map_err(failed)?;
        // from here on, dropping it puts the card back
        (held.path, held._lock) = (Some(path), Some(lock));
        let got = held.cards.set(port, Setting::ALL)?;
        if got.tx_type != Setting::ALL.tx_type || got.rx_filter != Setting::ALL.rx_filter {
            return Err(LabError::Preflight(format!(
                "the card of {} was asked to timestamp all frames, but set itself to transmit type {} and receive filter {} \
                 instead; its previous configuration has been restored. Use --timestamps software",
                port.interface, got.tx_type, got.rx_filter
            )));
        }
        Ok(held)
    }
}

impl<C: Cards> Drop for Held<C> {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && self.record.put_back(&self.cards).is_ok()
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Puts the cards back that processes left set which are no more.
pub(super) fn sweep() {
    sweep_in(Path::new(DIRECTORY), &Real);
}

fn sweep_in(directory: &Path, cards: &dyn Cards) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|e| e != EXTENSION) {
            continue;
        }
        let Ok(file) = File::open(&path) else {
            continue;
        };
        if flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let record: Option<Record> =
            (fs::read(&path).ok()).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        // a record that was torn was written before anything was changed; a port that is gone takes its setting with it
        if let Some(record) = record
            && let Err(EngineError::System { source, .. }) = record.put_back(cards)
            && source.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error())
        {
            continue;
        }
        let _ = fs::remove_file(&path);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::io;
    use std::rc::Rc;

    use super::*;

    /// A card that does as it is told, as far as it can.
    #[derive(Debug, Clone)]
    struct Fake {
        now: Rc<Cell<Setting>>,
        told: Rc<RefCell<Vec<Setting>>>,
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
                told: Rc::default(),
                can_all,
                refuses: Rc::default(),
            }
        }
    }

    impl Cards for Fake {
        fn read(&self, _: &PortSpec) -> Result<Setting, EngineError> {
            match self.refuses.get() {
                Some(errno) => Err(EngineError::System {
                    what: "ask".into(),
                    source: io::Error::from_raw_os_error(errno),
                }),
                None => Ok(self.now.get()),
            }
        }

        fn set(&self, port: &PortSpec, setting: Setting) -> Result<Setting, EngineError> {
            self.read(port)?;
            self.told.borrow_mut().push(setting);
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

    fn records(directory: &Path) -> usize {
        fs::read_dir(directory).map_or(0, Iterator::count)
    }

    #[test]
    fn a_card_is_put_back_when_the_value_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let card = Fake::new(true);
        let held = Held::take(directory.path(), card.clone(), &port()).unwrap();
        assert_eq!(
            (card.now.get(), records(directory.path())),
            (Setting::ALL, 1)
        );
        // another process finds it held
        sweep_in(directory.path(), &card);
        assert_eq!(
            (card.now.get(), records(directory.path())),
            (Setting::ALL, 1)
        );
        drop(held);
        assert_eq!((card.now.get(), records(directory.path())), (BEFORE, 0));
    }

    #[test]
    fn a_card_of_a_dead_process_is_put_back_by_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let card = Fake::new(true);
        let mut held = Held::take(directory.path(), card.clone(), &port()).unwrap();
        // killed: the lock is gone, and nobody has cleaned up
        held._lock = None;
        std::mem::forget(held);
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
        // a torn record, and one of a port that is gone
        fs::write(directory.path().join("7-p0.card"), b"{\"interface\":").unwrap();
        let record = serde_json::to_vec(&Record::of(&port(), BEFORE)).unwrap();
        fs::write(directory.path().join("8-p0.card"), record).unwrap();
        card.refuses.set(Some(19));
        sweep_in(directory.path(), &card);
        assert_eq!(records(directory.path()), 0);
    }

    #[test]
    fn a_card_that_cannot_is_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let card = Fake::new(false);
        let refused = Held::take(directory.path(), card.clone(), &port()).unwrap_err();
        assert!(
            refused.to_string().contains("receive filter 0"),
            "{refused}"
        );
        assert_eq!((card.now.get(), records(directory.path())), (BEFORE, 0));
        card.refuses.set(Some(95));
        assert!(Held::take(directory.path(), card.clone(), &port()).is_err());
        assert_eq!(records(directory.path()), 0);
        assert_eq!(card.told.borrow().len(), 2, "there and back");
    }

    #[test]
    fn a_card_that_stamps_already_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let card = Fake::new(true);
        card.now.set(Setting::ALL);
        drop(Held::take(directory.path(), card.clone(), &port()).unwrap());
        assert_eq!(
            (card.told.borrow().len(), records(directory.path())),
            (0, 0)
        );
    }
}
