//! Errors of images: what was tried, on what, the answer of the system, and what to try next.
//!
//! Does not mention the commands that show them. Start with [`ImageError`].

use std::fmt::Display;
use std::io;
use std::path::Path;

use crate::host::HostError;

/// Why there is no such image or initial file system.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file operation failed.
    #[error("cannot {what}: {source}{}", advice(.source))]
    System {
        /// What was tried and on what.
        what: String,
        /// The answer of the system.
        source: io::Error,
    },
    /// A program of this machine failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// No image has this name.
    #[error("there is no image `{name}`: {why}")]
    Unknown {
        /// The requested name.
        name: String,
        /// What was searched, and which names exist.
        why: String,
    },
    /// A file exists, but is not a usable image.
    #[error("{path} cannot be used as an image: {why}")]
    NotUsable {
        /// The file.
        path: String,
        /// What it is instead, and what is expected.
        why: String,
    },
    /// A package could not be downloaded.
    #[error("cannot get {what}: {why}")]
    NotFetched {
        /// The package.
        what: String,
        /// What was tried, and the result.
        why: String,
    },
    /// Something in the cache was damaged; it has been removed.
    #[error(
        "{what} in the cache {folder} was damaged and has been removed; it is created again when you retry"
    )]
    Damaged {
        /// Its description.
        what: String,
        /// The cache.
        folder: String,
    },
    /// A program that the guest needs was not found.
    #[error("the guest needs the program `{program}`: {why}")]
    NoProgram {
        /// Its name.
        program: String,
        /// Where it was searched, and what to do.
        why: String,
    },
}

impl ImageError {
    pub(crate) fn system(what: impl Display, source: impl Into<io::Error>) -> ImageError {
        ImageError::System {
            what: what.to_string(),
            source: source.into(),
        }
    }

    pub(crate) fn not_usable(path: &Path, why: impl Into<String>) -> ImageError {
        ImageError::NotUsable {
            path: path.display().to_string(),
            why: why.into(),
        }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ". Make room there, or let FWDLAB_CACHE name a folder on a larger disk"
        }
        _ => "",
    }
}
