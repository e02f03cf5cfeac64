//! Automatic checks of the layout and the invariants of ARCHITECTURE.md.
//!
//! Each check is a file with one function from values to [`Finding`]s, so that it can be tested on
//! small bad trees. What clippy can check is in the lints of the root Cargo.toml and in the
//! clippy.toml files instead. Start with [`all`].

mod comments;
mod directions;
mod english;
mod examples;
mod heads;
mod packages;
mod purity;
mod rooms;
mod traces;
mod unsafety;

use std::fmt;
use std::path::Path;

use crate::{api, schemas, tree};

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// File relative to the root, or a crate if it is not in one file.
    pub place: String,
    /// Line number from 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong, and the rule.
    pub text: String,
}

impl Finding {
    pub(crate) fn new(place: &str, line: usize, text: impl Into<String>) -> Self {
        Finding {
            place: place.into(),
            line,
            text: text.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.place, self.text),
            line => write!(f, "{}:{line}: {}", self.place, self.text),
        }
    }
}

/// Runs all checks on the tree under `root`.
pub fn all(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let files = tree::files(root)?;
    let mut findings = directions::check(&directions::metadata(root)?);
    for file in &files {
        findings.extend(traces::check(file));
        findings.extend(english::check(file));
        if file.is_rust() {
            findings.extend(comments::check(file));
            findings.extend(heads::check(file));
            findings.extend(unsafety::check(file));
            findings.extend(purity::check(file));
        }
    }
    findings.extend(rooms::check(&files));
    findings.extend(packages::check(&files));
    findings.extend(examples::check(&files));
    findings.extend(schemas::stale(root)?);
    findings.extend(api::stale(&files));
    Ok(findings)
}
