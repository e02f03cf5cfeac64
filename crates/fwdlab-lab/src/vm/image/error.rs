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
    #[error("cannot {item}: {source}{}", advice(.source))]
    System {
        /// What was tried and on what.
        item: String,
        /// The answer of the system.
        source: io::Error,
    },
    /// A program of this machine failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// No image has this name.
    #[error("there is no image `{name}`: {reason}")]
    Unknown {
        /// The requested name.
        name: String,
        /// What was searched, and which names exist.
        reason: String,
    },
    /// A file exists, but is not a usable image.
    #[error("{path} cannot be used as an image: {reason}")]
    NotUsable {
        /// The file.
        path: String,
        /// What it is instead, and what is expected.
        reason: String,
    },
    /// A package could not be downloaded.
    #[error("cannot get {item}: {reason}")]
    NotFetched {
        /// The package.
        item: String,
        /// What was tried, and the result.
        reason: String,
    },
    /// Something in the cache was damaged; it has been removed.
    #[error(
        "{item} in the cache {folder} was damaged and has been removed; it is created again when you retry"
    )]
    Damaged {
        /// Its description.
        item: String,
        /// The cache.
        folder: String,
    },
    /// A program that the guest needs was not found.
    #[error("the guest needs the program `{program}`: {reason}")]
    NoProgram {
        /// Its name.
        program: String,
        /// Where it was searched, and what to do.
        reason: String,
    },
}

impl ImageError {
    pub(crate) fn system(action: impl Display, source: impl Into<io::Error>) -> ImageError {
        ImageError::System {
            item: action.to_string(),
            source: source.into(),
        }
    }

    pub(crate) fn not_usable(path: &Path, cause: impl Into<String>) -> ImageError {
        ImageError::NotUsable {
            path: path.display().to_string(),
            reason: cause.into(),
        }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ". Free some space there, or set FWDLAB_CACHE to a folder on a larger disk"
        }
        _ => "",
    }
}
