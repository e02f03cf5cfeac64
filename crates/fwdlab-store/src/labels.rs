//! Labels of a run: tags and a note by the user, in a separate file next to the measurement.
//!
//! They may change at any time, even during the run, so they are not among the checksums of a
//! finished run: the file has its own. Start with [`labels`] and [`label`].

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::files::{LABELS, replace_json};
use crate::read::{CHANGED, head};
use crate::regular;
use crate::seal::{self, Seal};

/// Maximum length of a tag.
const TAG_BYTES: usize = 64;
/// Maximum length of a note.
const NOTE_BYTES: usize = 64 << 10;

/// Labels of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// Words to find it by.
    #[serde(default)]
    pub tags: BTreeSet<String>,
    /// Other information about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Returns the labels of the run in a directory; empty if there are none.
///
/// # Errors
/// [`StoreError::Damaged`] if the file has changed, [`StoreError::System`].
pub fn labels(dir: &Path) -> Result<Labels, StoreError> {
    let path = dir.join(LABELS);
    let damaged = |cause: String| StoreError::Damaged {
        path: path.clone(),
        reason: cause,
    };
    let bytes = match regular::read_io(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Labels::default()),
        Err(error) => return Err(StoreError::system("read", &path)(error)),
    };
    match seal::check(&bytes) {
        Seal::Intact => serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string())),
        Seal::Broken | Seal::None => Err(damaged(CHANGED.into())),
    }
}

/// Sets the labels of the run in a directory, replacing the previous ones.
///
/// # Errors
/// [`StoreError::BadLabel`], [`StoreError::NotARun`], [`StoreError::System`].
pub fn label(dir: &Path, labels: &Labels) -> Result<(), StoreError> {
    head(dir)?;
    for tag in &labels.tags {
        is_tag(tag).map_err(|cause| StoreError::BadLabel {
            text: tag.clone(),
            reason: cause,
        })?;
    }
    if labels.note.as_ref().is_some_and(|n| n.len() > NOTE_BYTES) {
        return Err(StoreError::BadLabel {
            text: "the note".into(),
            reason: "it is longer than 64 KiB; keep long texts in a file of your own",
        });
    }
    replace_json(&dir.join(LABELS), labels)
}

/// Checks a tag. It can be used instead of the name of a run.
fn is_tag(tag: &str) -> Result<(), &'static str> {
    let fits = |c: char| c.is_alphanumeric() || "._-+/:".contains(c);
    if tag.is_empty() {
        Err("a tag has at least one letter")
    } else if tag.len() > TAG_BYTES {
        Err("a tag is at most 64 bytes long; what is longer is a note")
    } else if !tag.starts_with(char::is_alphanumeric) || !tag.chars().all(fits) {
        Err("a tag begins with a letter or digit, and has only those and . _ - + / : after it")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_words() {
        for good in ["baseline", "v6.12", "größer", "a/b:c+d_e-f"] {
            assert_eq!(is_tag(good), Ok(()), "{good}");
        }
        let long = "x".repeat(65);
        for bad in [
            "",
            "@1",
            "-x",
            "two words",
            "a\u{1b}[31m",
            "a\nb",
            "<b>",
            &long,
        ] {
            assert!(is_tag(bad).is_err(), "{bad}");
        }
    }
}
