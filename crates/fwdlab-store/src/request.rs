//! Requests of other processes to a running run: lines of a file in its directory.
//!
//! Anyone with write permission there may make requests. The run reads them, obeys those it can,
//! and records that in its journal. Start with [`request`], and [`Requests`] on the other side.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fwdlab_model::event::Request;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::files::{NO_LINK, REQUESTS, is_locked};
use crate::read::head;
use crate::regular;

/// Maximum size of a line and of the file.
const CAP_BYTES: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    request: Request,
}

/// Sends a request to the run in a directory, which records its reaction in its journal.
///
/// # Errors
/// [`StoreError::NotRunning`] if no process runs it, [`StoreError::System`] without permission.
pub fn request(dir: &Path, request: Request) -> Result<(), StoreError> {
    head(dir)?;
    let lock = dir.join(crate::files::LOCK);
    if !is_locked(dir).map_err(StoreError::system("look at", &lock))? {
        return Err(StoreError::NotRunning {
            path: dir.to_owned(),
        });
    }
    append(dir, request)
}

fn append(dir: &Path, request: Request) -> Result<(), StoreError> {
    let path = dir.join(REQUESTS);
    let write = || {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .custom_flags(NO_LINK)
            .open(&path)?;
        let line = serde_json::to_string(&Line { request })?;
        file.write_all(format!("{line}\n").as_bytes())
    };
    write().map_err(StoreError::system("append to", &path))
}

/// The requests to a run, in order. Requests before its creation belong to an earlier session.
#[derive(Debug)]
pub struct Requests {
    path: PathBuf,
    read: u64,
}

impl Requests {
    /// Opens the requests to the run in a directory.
    pub fn open(dir: &Path) -> Requests {
        let path = dir.join(REQUESTS);
        let read = path.symlink_metadata().map_or(0, |file| file.len());
        Requests { path, read }
    }

    /// Returns the requests since the last call. Invalid lines are ignored: they must not end a
    /// run.
    pub fn read(&mut self) -> Vec<Request> {
        let grown = |file: std::fs::Metadata| file.len() > self.read;
        if !self.path.symlink_metadata().is_ok_and(grown) {
            return Vec::new();
        }
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = regular::open_io(&self.path)?;
            file.seek(SeekFrom::Start(self.read))?;
            let mut bytes = Vec::new();
            file.take(CAP_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().unwrap_or_default();
        // the rest of an incomplete line comes with the next call
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |last| last + 1);
        self.read += whole as u64;
        let lines = bytes[..whole].split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice::<Line>(line).ok())
            .map(|line| line.request)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut requests = Requests::open(dir.path());
        assert_eq!(requests.read(), []);
        append(dir.path(), Request::Pause).unwrap();
        append(dir.path(), Request::Resume).unwrap();
        assert_eq!(requests.read(), [Request::Pause, Request::Resume]);
        assert_eq!(requests.read(), []);
        // an invalid line and an incomplete one
        let path = dir.path().join(REQUESTS);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"request\":\"fly\"}\nnonsense\n{\"request\":")
            .unwrap();
        assert_eq!(requests.read(), []);
        file.write_all(b"\"stop\"}\n").unwrap();
        assert_eq!(requests.read(), [Request::Stop]);
        // from an earlier session
        assert_eq!(Requests::open(dir.path()).read(), []);
    }

    #[test]
    fn requests_through_a_symlink_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other");
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join(REQUESTS)).unwrap();
        assert!(append(dir.path(), Request::Stop).is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"");
        std::fs::write(&other, "{\"request\":\"stop\"}\n").unwrap();
        let mut requests = Requests {
            path: dir.path().join(REQUESTS),
            read: 0,
        };
        assert_eq!(requests.read(), []);
    }
}
