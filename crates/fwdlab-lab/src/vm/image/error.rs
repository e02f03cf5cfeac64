//! What can go wrong with images: what was tried, on what, what the system answered, and what to try next.
//!
//! It knows no words of the commands that show it. Start with [`ImageError`].

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
        /// What the system answered.
        source: io::Error,
    },
    /// A program of this machine failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// No image has this name.
    #[error("there is no image `{name}`: {why}")]
    Unknown {
        /// As asked.
        name: String,
        /// What was looked for, and which names there are.
        why: String,
    },
    /// A file is there, and is no image that can be used.
    #[error("{path} cannot be used as an image: {why}")]
    NotUsable {
        /// The file.
        path: String,
        /// What it is instead, and what would be right.
        why: String,
    },
    /// A package could not be fetched.
    #[error("cannot get {what}: {why}")]
    NotFetched {
        /// Which package.
        what: String,
        /// What was tried, and what came of it.
        why: String,
    },
    /// Something in the cache is not what was put there; it has been removed.
    #[error(
        "{what} in the cache {folder} was damaged and is removed; it is made anew when you try again"
    )]
    Damaged {
        /// What it was.
        what: String,
        /// The cache.
        folder: String,
    },
    /// A program that the guest needs is nowhere.
    #[error("the guest needs the program `{program}`: {why}")]
    NoProgram {
        /// Its name.
        program: String,
        /// Where it was looked for, and what to do.
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
