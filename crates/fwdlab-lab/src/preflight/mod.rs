//! Is this host fit to measure? The checks behind `fwdlab doctor`, each with what was found and the command that helps.
//!
//! Checks look, and at most build a namespace of their own that is gone with them; they change nothing and print
//! nothing. Facts of a run are recorded by `facts`, without judging them. Start with [`host`]; [`labs`] and [`noise()`]
//! need something from their caller.
//!
//! Each file holds one subject: functions that read the host, above functions that judge texts and numbers, so that
//! machines we do not have can be tried as texts.

pub mod beds;
mod cpu;
mod disk;
mod emulator;
mod images;
mod kernel;
mod kvm;
mod others;
mod privileges;
pub(crate) mod programs;
mod scratch;
mod switch;

use std::fs;
use std::path::Path;

use serde::Serialize;

pub use others::{Watch, labs, noise};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Measuring works, and something makes its figures worse or less certain.
    Warn,
    /// Measuring does not work like this.
    Fail,
    /// Could not be checked here, or does not matter here.
    Skip,
}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its subject, two words at most: `cpu governor`.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found, and what follows from it.
    pub finding: String,
    /// What to do about it: a command wherever there is one. Every failure has one.
    pub fix: Option<String>,
}

impl Check {
    /// Does measuring not work like this?
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

/// All checks of this host that need nothing from the caller, in the order in which a person would look.
///
/// `runs` is where runs are kept; it need not exist yet. Takes about a second.
pub fn host(runs: &Path) -> Vec<Check> {
    let root = privileges::is_root();
    let mut checks = privileges::checks();
    checks.extend(kernel::checks());
    checks.extend(programs::checks());
    checks.extend(scratch::checks(root));
    checks.extend(cpu::checks());
    checks.extend(others::checks());
    checks.push(disk::check(runs));
    checks.extend(emulator::checks());
    checks.push(kvm::check());
    checks.extend(images::checks());
    checks
}

/// A file of /proc or /sys, trimmed; `None` where this kernel does not have it.
fn text(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_can_be_looked_at_and_every_failure_has_a_fix() {
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
