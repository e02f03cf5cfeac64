//! Follows the journal of a run, from its first event on and while it grows: for those who look at a run of another process.
//!
//! It changes nothing on disk and the run knows nothing of it. Start with [`Follower::open`].

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use fwdlab_model::event::{Event, EventKind};

use crate::error::StoreError;
use crate::files::{EVENTS, is_locked};
use crate::read::head;
use crate::regular;
use crate::seal::{self, Seal};

/// So much of a journal is read at a time: history comes in pieces.
const PIECE_BYTES: u64 = 1 << 20;

/// An event of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Followed {
    /// Where its line ends, in bytes: who goes on from here misses nothing and hears nothing twice.
    pub end: u64,
    /// What happened.
    pub event: Event,
}

/// Reads a journal as it grows.
#[derive(Debug)]
pub struct Follower {
    dir: PathBuf,
    path: PathBuf,
    /// Where the next line begins.
    at: u64,
    /// A line that is longer than one piece.
    longer: u64,
    /// Lines that were damaged.
    damaged: u64,
}

impl Follower {
    /// Follows the run in a directory from its first event on.
    ///
    /// # Errors
    /// There is no run, or it cannot be read.
    pub fn open(dir: &Path) -> Result<Follower, StoreError> {
        Follower::from(dir, 0)
    }

    /// The same from a place on that [`Followed::end`] told.
    ///
    /// # Errors
    /// As [`Follower::open`].
    pub fn from(dir: &Path, at: u64) -> Result<Follower, StoreError> {
        head(dir)?;
        Ok(Follower {
            dir: dir.to_owned(),
            path: dir.join(EVENTS),
            at,
            longer: 0,
            damaged: 0,
        })
    }

    /// The next events, in order; none when there are no more now. History comes in pieces: ask until there are none.
    ///
    /// # Errors
    /// The journal cannot be read: the run may have been removed.
    pub fn poll(&mut self) -> Result<Vec<Followed>, StoreError> {
        let cannot = || StoreError::system("read", &self.path);
        loop {
            let bytes = self.piece().map_err(cannot())?;
            let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else {
                // half a line, which is not written yet, or does not fit
                match bytes.len() as u64 == PIECE_BYTES + self.longer {
                    true => self.longer += PIECE_BYTES,
                    false => return Ok(Vec::new()),
                }
                continue;
            };
            self.longer = 0;
            let mut events = Vec::new();
            for line in bytes[..=last].split_inclusive(|byte| *byte == b'\n') {
                self.at += line.len() as u64;
                let line = &line[..line.len() - 1];
                let event = match seal::check(line) {
                    Seal::Broken => None,
                    _ => serde_json::from_slice::<Event>(line).ok(),
                };
                match event {
                    Some(event) => events.push(Followed {
                        end: self.at,
                        event,
                    }),
                    None => self.damaged += u64::from(!line.is_empty()),
                }
            }
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    fn piece(&self) -> io::Result<Vec<u8>> {
        let mut file = regular::open_io(&self.path)?;
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        file.take(PIECE_BYTES + self.longer)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Does a process write it? Ask before the last [`Follower::poll`]: what it says then is all.
    ///
    /// # Errors
    /// The lock cannot be looked at.
    pub fn is_running(&self) -> Result<bool, StoreError> {
        let lock = self.dir.join(crate::files::LOCK);
        is_locked(&self.dir).map_err(StoreError::system("look at", &lock))
    }

    /// Lines that were damaged, or of a later version of this program.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }
}

/// Is it the last event of a session?
pub fn is_last(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::RunFinished { .. } | EventKind::RunEnded { .. }
    )
}
