//! Failures of hosts. The message contains what was tried, on which host, what the host answered,
//! and what to do next.
//!
//! Start with [`HostError`].

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A failure of a host.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.words())]
pub struct HostError {
    /// The host's name.
    pub host: String,
    /// What was tried: a command, or `read FILE`.
    pub what: String,
    /// How it failed.
    pub failure: Failure,
}

/// Kinds of failure of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// It refuses access; contains its answer.
    Refused(String),
    /// It cannot be reached, and nothing was done: why, and what to do about it.
    Unreachable(String),
    /// It lacks a program.
    Missing {
        /// The program.
        program: String,
    },
    /// The command ended without success.
    Exit {
        /// Exit status or signal, in words.
        status: String,
        /// Its standard error.
        said: String,
    },
    /// The command did not end in time.
    TimedOut {
        /// The time limit.
        after: Duration,
        /// Its standard error until then.
        said: String,
    },
    /// The connection to the host was lost: the reason, as far as known.
    Lost(String),
    /// The host was restarted and did not come back. The text contains how long, and its last
    /// output.
    NotBack(String),
    /// A file could not be read or written: why.
    File(String),
    /// It was cancelled.
    Stopped,
}

impl HostError {
    /// Creates the failure of a host that tried this.
    pub fn new(host: &str, action: impl fmt::Display, failure: Failure) -> HostError {
        HostError {
            host: host.to_owned(),
            what: action.to_string(),
            failure,
        }
    }

    fn words(&self) -> String {
        let HostError {
            host,
            what: action,
            failure,
        } = self;
        match failure {
            Failure::Refused(reason) => format!(
                "{host} refuses `{action}`{}. Check the permissions of its user there",
                said(reason)
            ),
            Failure::Unreachable(reason) => format!("cannot reach {host} for `{action}`: {reason}"),
            Failure::Missing { program } => {
                let install = match package(program) {
                    Some(package) => format!("apt-get install {package}"),
                    None => "the package that has it".into(),
                };
                format!(
                    "cannot run `{action}` on {host}: there is no program `{program}`. Install it there with: {install}"
                )
            }
            Failure::Exit {
                status,
                said: stderr,
            } => {
                format!("`{action}` failed on {host} ({status}){}", said(stderr))
            }
            Failure::TimedOut {
                after,
                said: stderr,
            } => format!(
                "`{action}` on {host} timed out after {:.0} s and was killed{}. Run it there by hand to see whether it waits for input",
                after.as_secs_f64(),
                said(stderr)
            ),
            Failure::Lost(reason) | Failure::NotBack(reason) => format!(
                "lost connection to {host} during `{action}`{}. It may or may not have completed: check that {host} is running and reachable, \
                 and start again",
                said(reason)
            ),
            Failure::File(reason) => format!("cannot {action} on {host}{}", said(reason)),
            Failure::Stopped => format!("`{action}` on {host} was stopped"),
        }
    }
}

fn said(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

/// Returns the Debian package of a program that we use.
fn package(program: &str) -> Option<&'static str> {
    match program {
        "ip" => Some("iproute2"),
        "ethtool" => Some("ethtool"),
        "nft" => Some("nftables"),
        "nsenter" | "unshare" | "taskset" => Some("util-linux"),
        "snmpd" => Some("snmpd"),
        _ => None,
    }
}
