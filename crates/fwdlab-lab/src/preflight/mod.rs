//! Checks whether this host is fit to measure, for `fwdlab doctor`: each check returns a finding
//! and the command that helps.
//!
//! Checks only look, and at most build a namespace of their own that disappears with them; they
//! change nothing and print nothing. `facts` records the facts of a run without judging them. Start
//! with [`host`]; [`labs`] and [`noise()`] need something from their caller.
//!
//! Each file covers one subject: functions that read the host, on top of functions that judge texts
//! and numbers, so that machines we do not have can be tested as texts.

pub mod beds;
mod cpu;
mod disk;
mod emulator;
mod images;
mod kernel;
mod kvm;
mod other_users;
mod privileges;
pub(crate) mod programs;
mod scratch;
mod switch;

use std::fs;
use std::path::Path;

use serde::Serialize;

pub use other_users::{Watch, labs, noise};

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Measuring works, but figures are worse or less certain.
    Warn,
    /// Measuring does not work.
    Fail,
    /// Could not be checked here, or does not matter here.
    Skip,
}

/// The finding about one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its subject, two words at most: `cpu governor`.
    pub name: &'static str,
    /// Its result.
    pub status: Status,
    /// What was found, and what follows from it.
    pub finding: String,
    /// What to do about it: a command if there is one. Every failure has one.
    pub fix: Option<String>,
}

impl Check {
    /// Returns true if measuring does not work.
    pub fn is_failure(&self) -> bool {
        self.status == Status::Fail
    }

    fn ok(name: &'static str, finding: impl Into<String>) -> Self {
        Check {
            name,
            status: Status::Ok,
            finding: finding.into(),
            fix: None,
        }
    }

    fn skip(name: &'static str, finding: impl Into<String>) -> Self {
        Check {
            name,
            status: Status::Skip,
            finding: finding.into(),
            fix: None,
        }
    }

    fn warn(name: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Self {
        Check {
            name,
            status: Status::Warn,
            finding: finding.into(),
            fix: Some(fix.into()),
        }
    }

    fn fail(name: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Self {
        Check {
            name,
            status: Status::Fail,
            finding: finding.into(),
            fix: Some(fix.into()),
        }
    }
}

/// Runs all checks of this host that need nothing from the caller, in the order in which a person
/// would look.
///
/// `runs` is the folder of runs, which need not exist yet. Takes about a second.
pub fn host(runs: &Path) -> Vec<Check> {
    let root = privileges::is_root();
    let mut checks = privileges::checks();
    checks.extend(kernel::checks());
    checks.extend(programs::checks());
    checks.extend(scratch::checks(root));
    checks.extend(cpu::checks());
    checks.extend(other_users::checks());
    checks.push(disk::check(runs));
    checks.extend(emulator::checks());
    checks.push(kvm::check());
    checks.extend(images::checks());
    checks
}

/// Reads a file of /proc or /sys, trimmed; `None` if this kernel does not have it.
fn text(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_checked_and_every_failure_has_a_fix() {
        let checks = host(Path::new("."));
        for name in [
            "privileges",
            "kernel",
            "network namespaces",
            "cpus",
            "other work",
            "disk",
            "emulator",
            "exact profiles",
            "kvm",
            "kernel packages",
            "image cache",
        ] {
            assert_eq!(
                checks.iter().filter(|check| check.name == name).count(),
                1,
                "{name}: {checks:#?}"
            );
        }
        for check in &checks {
            assert!(!check.finding.is_empty(), "{check:?}");
            assert!(
                check.status != Status::Fail || check.fix.is_some(),
                "{check:?}"
            );
        }
    }
}
