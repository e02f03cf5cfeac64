//! Errors of the lab: what was tried, on what, what the system answered, and what to try next.
//!
//! Failures of hosts are in [`crate::failure`]. Start with [`LabError`].

use std::io;

use fwdlab_engine::EngineError;
use fwdlab_model::test_case::{self, NoResult};

use crate::failure::{Failure, HostError};

/// Why the lab could not do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A system call or file operation failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried and on what.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A host failed, or a command on it.
    #[error(transparent)]
    Host(HostError),
    /// A configuration could not be read.
    #[error("configuration `{name}`: {reason}")]
    Configuration {
        /// As typed.
        name: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// A user command failed that runs before, during or after what is measured.
    #[error("{0}")]
    Hook(String),
    /// A configuration could not be applied to the DUT.
    #[error("configuration `{name}` could not be applied to the DUT: {source}")]
    NotApplied {
        /// As typed.
        name: String,
        /// What failed.
        source: Box<LabError>,
    },
    /// Daemons of a configuration died: which, when, and their last output.
    #[error("{0}")]
    Daemons(String),
    /// The DUT forwards nothing, or next to nothing.
    #[error("the DUT does not forward with {configuration}: {received} of {sent} test frames came back{}", said(.reason))]
    DoesNotForward {
        /// `the plain configuration` or the configuration's name.
        configuration: String,
        /// Test frames sent.
        sent: u64,
        /// Test frames received.
        received: u64,
        /// Where they were lost, as far as counters show.
        reason: String,
    },
    /// The management of the DUT does not answer even without traffic.
    #[error(
        "no SNMP agent on the DUT: {reason}. Let one listen at {at}, UDP port 161, with SNMPv2c, community public, and sysUpTime \
         readable: start it on the DUT with --set, or install one that fwdlab starts there: apt-get install snmpd"
    )]
    NoAgent {
        /// The address of the queries.
        at: std::net::Ipv4Addr,
        /// What was tried, and the result.
        reason: String,
    },
    /// The DUT could not be reset.
    #[error("the reset `{what}` of the DUT failed: {source}")]
    NotReset {
        /// As typed.
        what: String,
        /// What failed.
        source: Box<LabError>,
    },
    /// A reset DUT did not come back.
    #[error(
        "the DUT does not forward {waited_s:.0} s after the reset `{what}`: none of {sent} test frames came back. Check what \
         the reset leaves behind; `fwdlab bed up` builds the same bed by hand"
    )]
    NotBack {
        /// As typed.
        what: String,
        /// Since the reset, in seconds.
        waited_s: f64,
        /// Test frames sent.
        sent: u64,
    },
    /// A port of the test bed went down or disappeared in a trial; the resulting failure is not a
    /// result.
    #[error("{what}; then: {source}")]
    Disturbed {
        /// Which ports, and what happened to them.
        what: String,
        /// What failed.
        source: Box<LabError>,
    },
    /// A port that is driven by hand failed.
    #[error("{what}: {reason}")]
    OnPort {
        /// What it was to do.
        what: String,
        /// What failed.
        reason: Box<LabError>,
    },
    /// The host lacks what a run needs; nothing was changed or measured.
    #[error("{0}")]
    Preflight(String),
    /// The DUT cannot do this, and a retry would not help.
    #[error("{0}")]
    Impossible(String),
    /// A value of a sweep's parameter could not be set on the DUT.
    #[error("{value} {parameter} could not be set on the DUT: {source}")]
    NotSet {
        /// The swept parameter.
        parameter: String,
        /// The value.
        value: u64,
        /// What failed.
        source: Box<LabError>,
    },
    /// A change failed, and could not be undone either.
    #[error("{source}. Some of it ({what}) may have been done and could not be undone: {left}")]
    HalfDone {
        /// What failed.
        source: Box<LabError>,
        /// What was changed.
        what: String,
        /// Why it could not be undone.
        left: Box<LabError>,
    },
    /// A virtual machine did not come up.
    #[error("{image} does not start: {reason}")]
    NotUp {
        /// Its image.
        image: String,
        /// The reason as far as known, with the last lines of its console.
        reason: String,
    },
    /// A whole virtual machine failed to do something.
    #[error("{name}: {reason}")]
    Machine {
        /// Its name.
        name: String,
        /// What was requested, and the result, with the last lines of its console.
        reason: String,
    },
    /// A DUT of this kind does not support a request.
    #[error("cannot {what} on {dut}{of_kind}; {instead}")]
    NotAsked {
        /// The DUT.
        dut: String,
        /// The request.
        what: String,
        /// Its kind, as the words after its name: `, which is VPP`.
        of_kind: &'static str,
        /// What to do instead.
        instead: String,
    },
    /// VPP does not answer, or refuses a command.
    #[error("VPP on {dut}: {reason}")]
    Vpp {
        /// Its host.
        dut: String,
        /// What was tried, and its answer.
        reason: String,
    },
    /// A user's file is wrong.
    #[error(transparent)]
    File(#[from] fwdlab_model::file::FileError),
    /// Stopped by the user.
    #[error("interrupted")]
    Interrupted,
    /// The engine failed.
    #[error(transparent)]
    Engine(EngineError),
    /// The run could not be stored.
    #[error(transparent)]
    Store(#[from] fwdlab_store::StoreError),
}

fn said(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

/// An error of a part of the tester on another host becomes that host's error.
impl From<EngineError> for LabError {
    fn from(error: EngineError) -> LabError {
        match error {
            EngineError::Elsewhere(source) => match source.downcast::<HostError>() {
                Ok(error) => LabError::from(*error),
                Err(source) => LabError::Engine(EngineError::Elsewhere(source)),
            },
            error => LabError::Engine(error),
        }
    }
}

impl From<HostError> for LabError {
    fn from(error: HostError) -> LabError {
        match error.failure {
            Failure::Stopped => LabError::Interrupted,
            _ => LabError::Host(error),
        }
    }
}

impl LabError {
    /// Returns true if a host lacks a required program.
    pub fn is_missing_program(&self) -> bool {
        matches!(self, LabError::Host(error) if matches!(error.failure, Failure::Missing { .. }))
    }

    /// Returns true if the DUT cannot do this, now or later.
    pub(crate) fn is_impossible(&self) -> bool {
        match self {
            LabError::Impossible(_) => true,
            LabError::NotApplied { source, .. } => source.is_impossible(),
            _ => false,
        }
    }

    /// Returns true if a host was lost or could not be reached, so that a retry may succeed.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            LabError::Host(error) => {
                matches!(
                    error.failure,
                    Failure::Lost(_) | Failure::NotBack(_) | Failure::Unreachable(_)
                )
            }
            LabError::NotApplied { source, .. }
            | LabError::NotReset { source, .. }
            | LabError::Disturbed { source, .. }
            | LabError::NotSet { source, .. }
            | LabError::HalfDone { source, .. } => source.is_lost(),
            _ => false,
        }
    }

    /// Returns the kind of failure of an iteration without a result because of this error.
    fn kind(&self) -> NoResult {
        match self {
            LabError::NotUp { .. } => NoResult::DidNotBoot,
            LabError::Host(error) if matches!(error.failure, Failure::NotBack(_)) => {
                NoResult::DidNotBoot
            }
            LabError::NotAsked { .. } => NoResult::NotApplicable,
            LabError::Hook(_) => NoResult::Hook,
            LabError::Interrupted => NoResult::Interrupted,
            LabError::NotApplied { source, .. }
            | LabError::NotReset { source, .. }
            | LabError::Disturbed { source, .. }
            | LabError::NotSet { source, .. }
            | LabError::HalfDone { source, .. } => source.kind(),
            _ => NoResult::Failed,
        }
    }

    pub(crate) fn system(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        LabError::System {
            what: action.into(),
            source: source.into(),
        }
    }
}

/// The record of this error in an iteration without a result.
impl From<&LabError> for test_case::Failure {
    fn from(error: &LabError) -> test_case::Failure {
        test_case::Failure {
            why: error.to_string(),
            kind: error.kind(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables and `run --resume` depend on the kind of a failure, also when another error contains
    /// it.
    #[test]
    fn an_iteration_without_a_result_has_a_kind_of_failure() {
        let not_up = LabError::NotUp {
            image: "debian:linux".into(),
            reason: "panic".into(),
        };
        let not_asked = |of_kind| LabError::NotAsked {
            dut: "router".into(),
            what: "apply x.nft".into(),
            of_kind,
            instead: "apply it by hand".into(),
        };
        let forwards_not = LabError::DoesNotForward {
            configuration: "plain".into(),
            sent: 1,
            received: 0,
            reason: String::new(),
        };
        let nested = LabError::NotApplied {
            name: "x".into(),
            source: Box::new(not_asked(", which is VPP")),
        };
        for (error, kind) in [
            (not_up, NoResult::DidNotBoot),
            (
                not_asked(": fwdlab cannot log into it"),
                NoResult::NotApplicable,
            ),
            (nested, NoResult::NotApplicable),
            (LabError::Interrupted, NoResult::Interrupted),
            (forwards_not, NoResult::Failed),
        ] {
            let kept = test_case::Failure::from(&error);
            assert_eq!((kept.kind, kept.why), (kind, error.to_string()));
        }
    }
}
