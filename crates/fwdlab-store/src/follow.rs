//! Follows the journal of a run, from its first event and while it grows: for monitoring a run of
//! another process.
//!
//! It changes nothing on disk, and the run does not notice it. Start with [`Follower::open`].

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use fwdlab_model::event::{Event, EventKind};

use crate::error::StoreError;
use crate::files::{EVENTS, is_locked};
use crate::read::head;
use crate::regular;
use crate::seal::{self, Seal};

/// Maximum bytes read at a time: history comes in pieces.
const PIECE_BYTES: u64 = 1 << 20;

/// An event of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Followed {
    /// End of its line, in bytes: resuming there misses nothing and repeats nothing.
    pub end: u64,
    /// The event.
    pub event: Event,
}

/// Reads a journal as it grows.
#[derive(Debug)]
pub struct Follower {
    dir: PathBuf,
    path: PathBuf,
    /// Start of the next line.
    at: u64,
    /// The extra length of a line that is longer than one piece.
    longer: u64,
    /// Number of damaged lines.
    damaged: u64,
}

impl Follower {
    /// Follows the run in a directory from its first event.
    ///
    /// # Errors
    /// If there is no run, or it cannot be read.
    pub fn open(dir: &Path) -> Result<Follower, StoreError> {
        Follower::from(dir, 0)
    }

    /// Follows the run from a position that [`Followed::end`] returned.
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

    /// Returns the next events, in order; none if there are no more at present. History comes in
    /// pieces: repeat until there are none.
    ///
    /// # Errors
    /// If the journal cannot be read: the run may have been removed.
    pub fn poll(&mut self) -> Result<Vec<Followed>, StoreError> {
        let cannot = || StoreError::system("read", &self.path);
        loop {
            let bytes = self.piece().map_err(cannot())?;
            let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else {
                // an incomplete line, which is still being written, or does not fit
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

    /// Returns true if a process is writing it. Call this before the last [`Follower::poll`], which
    /// then returns the rest.
    ///
    /// # Errors
    /// If the lock cannot be checked.
    pub fn is_running(&self) -> Result<bool, StoreError> {
        let lock = self.dir.join(crate::files::LOCK);
        is_locked(&self.dir).map_err(StoreError::system("look at", &lock))
    }

    /// Returns the number of lines that were damaged, or of a later version of this program.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }
}

/// Returns true for the last event of a session.
pub fn is_last(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::RunFinished { .. } | EventKind::RunEnded { .. }
    )
}
