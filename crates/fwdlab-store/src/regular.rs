//! Opens files of runs that anyone may have created: regular files only, with a size limit.
//!
//! A FIFO would block, a device never end, a symbolic link lead anywhere. It reads bytes and does
//! not interpret them. Start with [`read_io`].

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::StoreError;

/// Maximum size of a header, a summary or a list of checksums: a thousand times the largest seen.
pub(crate) const FILE_CAP_BYTES: u64 = 256 << 20;

/// Opens a regular file for reading.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    open_io(path).map_err(StoreError::system("read", path))
}

/// Like [`open`], with the system's error.
pub(crate) fn open_io(path: &Path) -> io::Result<File> {
    // without O_NONBLOCK opening a FIFO waits for a writer
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => return Err(odd("is a symbolic link")),
        Err(error) => return Err(error.into()),
    };
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    match kind.is_file() {
        true => Ok(file),
        false => Err(odd("is a device, FIFO or socket")),
    }
}

fn odd(what: &str) -> io::Error {
    let text = format!("it {what}; files of a run are regular files");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Reads a whole regular file of at most [`FILE_CAP_BYTES`]; returns the system's error.
pub(crate) fn read_io(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // try to read one byte more than allowed, because the size may change during the read
    (open_io(path)?.take(FILE_CAP_BYTES + 1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > FILE_CAP_BYTES {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {} MiB", FILE_CAP_BYTES >> 20),
        )),
        false => Ok(bytes),
    }
}
