//! How a host fails. The message has what was tried, on which host, what the host answered, and what to do next.
//!
//! Start with [`HostError`].

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a host could not do.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.words())]
pub struct HostError {
    /// The host's name.
    pub host: String,
    /// What was tried: a command, or `read FILE`.
    pub what: String,
    /// What came of it.
    pub failure: Failure,
}

/// How a host fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// It does not let us: what it said.
    Refused(String),
    /// There is no way to it, and nothing was done: why, and what to do about that.
    Unreachable(String),
    /// It has no such program.
    Missing {
        /// The program.
        program: String,
    },
    /// The command ended without success.
    Exit {
        /// How, in words.
        status: String,
        /// What it wrote to standard error.
        said: String,
    },
    /// The command did not end in time.
    TimedOut {
        /// The time it had.
        after: Duration,
        /// What it had written to standard error.
        said: String,
    },
    /// The host was lost on the way: what is known of the reason.
    Lost(String),
    /// The host was restarted and did not come back. The text says for how long, and what its last output was.
    NotBack(String),
    /// A file could not be read or written: why.
    File(String),
    /// It was cancelled.
    Stopped,
}

impl HostError {
    /// Of a host that tried this.
    pub fn new(host: &str, what: impl fmt::Display, failure: Failure) -> HostError {
        HostError {
            host: host.to_owned(),
            what: what.to_string(),
            failure,
        }
    }

    fn words(&self) -> String {
        let HostError {
            host,
            what,
            failure,
        } = self;
        match failure {
            Failure::Refused(why) => format!(
                "{host} refuses `{what}`{}. Look at what its user is allowed to do there",
                said(why)
            ),
            Failure::Unreachable(why) => format!("cannot reach {host} for `{what}`: {why}"),
            Failure::Missing { program } => {
                let install = match package(program) {
                    Some(package) => format!("apt-get install {package}"),
                    None => "the package that has it".into(),
                };
                format!(
                    "cannot run `{what}` on {host}: there is no program `{program}`. Install it there with: {install}"
                )
            }
            Failure::Exit {
                status,
                said: stderr,
            } => {
                format!("`{what}` failed on {host} ({status}){}", said(stderr))
            }
            Failure::TimedOut {
                after,
                said: stderr,
            } => format!(
                "`{what}` on {host} timed out after {:.0} s and was killed{}. Run it there by hand to see whether it waits for input",
                after.as_secs_f64(),
                said(stderr)
            ),
            Failure::Lost(why) | Failure::NotBack(why) => format!(
                "lost connection to {host} during `{what}`{}. It may or may not have completed: check that {host} is running and reachable, \
                 and start again",
                said(why)
            ),
            Failure::File(why) => format!("cannot {what} on {host}{}", said(why)),
            Failure::Stopped => format!("`{what}` on {host} was stopped"),
        }
    }
}

fn said(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

/// The Debian package of a program of ours.
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
