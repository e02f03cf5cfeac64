//! The management of a DUT: requests while frames flow, the result of each, and their summary by
//! load.
//!
//! Requests are values, as users type them and as they are kept; `lab` sends them, `measure`
//! interprets the results. Start with [`Request`], then [`Management`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Spread;

/// A request to the management of a DUT, as users type it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// An ICMP echo.
    Echo,
    /// A TCP connection to this port, which is closed again.
    Tcp(u16),
    /// A query of the uptime, by SNMP.
    Snmp,
    /// A login with the user's own `ssh` at this port, without a command.
    Ssh(u16),
    /// A script for `sh` on the DUT.
    Command(String),
    /// A script for `sh` at the other end of the management port, with the DUT's address in
    /// `$FWDLAB_DUT`.
    Tester(String),
}

impl Request {
    /// Parses `echo`, `tcp 179`, `snmp`, `ssh`, `ssh 2222`, `command: birdc show protocols`, or
    /// `tester: curl $FWDLAB_DUT`.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn parse(typed: &str) -> Result<Request, String> {
        let typed = typed.trim();
        let text = |of: &str| {
            let text = typed.strip_prefix(of)?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        if let Some(text) = text("command:") {
            return Ok(Request::Command(text));
        }
        if let Some(text) = text("tester:") {
            return Ok(Request::Tester(text));
        }
        let words: Vec<&str> = typed.split_whitespace().collect();
        let port = |word: &str| word.parse().ok().filter(|port| *port > 0);
        let found = match words[..] {
            ["echo"] => Some(Request::Echo),
            ["snmp"] => Some(Request::Snmp),
            ["ssh"] => Some(Request::Ssh(22)),
            ["ssh", word] => port(word).map(Request::Ssh),
            ["tcp", word] => port(word).map(Request::Tcp),
            _ => None,
        };
        found.ok_or_else(|| {
            format!(
                "`{typed}` is not a management request: use echo, 'tcp PORT', snmp, ssh or 'ssh PORT', 'command: TEXT' (run by sh \
                 on the DUT), or 'tester: TEXT' (run by sh at the other end of its management port, with the DUT's address in $FWDLAB_DUT)"
            )
        })
    }

    /// Returns true if it uses the management port.
    pub fn is_remote(&self) -> bool {
        !matches!(self, Request::Command(_))
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Echo => f.write_str("echo"),
            Request::Tcp(port) => write!(f, "tcp {port}"),
            Request::Snmp => f.write_str("snmp"),
            Request::Ssh(22) => f.write_str("ssh"),
            Request::Ssh(port) => write!(f, "ssh {port}"),
            Request::Command(text) => write!(f, "command: {text}"),
            Request::Tester(text) => write!(f, "tester: {text}"),
        }
    }
}

/// The management requests of a trial. All kinds run concurrently; each request is repeated as soon
/// as it is due and the previous one has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// The requests, as typed.
    pub requests: Vec<String>,
    /// Address of the management; absent: the management port of the test bed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Interval between requests of a kind, in nanoseconds.
    pub every_ns: u64,
    /// A request without an answer for this long is lost, in nanoseconds.
    #[serde(alias = "patience_ns")]
    pub timeout_ns: u64,
}

/// The results of all requests of a kind in a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// The request, as typed.
    pub request: String,
    /// The requests in chronological order.
    pub requests: Vec<Sent>,
    /// What was wrong with one of the requests that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The longest delay of a request by the tester itself, in nanoseconds.
    pub late_ns: u64,
}

/// The result of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// When it was sent, in nanoseconds since the trial began.
    pub at_ns: u64,
    /// Time until its result was known, in nanoseconds.
    pub took_ns: u64,
    /// The result.
    pub fate: Fate,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// A correct answer came.
    Answered,
    /// A refusal or a wrong answer came: a closed port, an exit code.
    Wrong,
    /// No answer came in time.
    Lost,
}

/// How well a DUT can be managed while it is flooded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Management {
    /// Forwarding rate in the flood, in frames per second: 100 % of the loads below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carries_pps: Option<f64>,
    /// Interval between requests of a kind, in seconds.
    pub every_s: f64,
    /// A request without an answer for this long is lost, in seconds.
    #[serde(alias = "patience_s")]
    pub timeout_s: f64,
    /// The loads in chronological order: at rest first, the flood last.
    pub loads: Vec<LoadStep>,
    /// One entry per kind of request.
    pub requests: Vec<Responsiveness>,
}

/// One load, offered for some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadStep {
    /// Name of the load: `0 %`, `50 %`, `flood`.
    pub name: String,
    /// Intended load, in frames per second.
    pub intended_load_pps: f64,
    /// Offered load, in frames per second.
    pub offered_load_pps: f64,
    /// Forwarding rate, in frames per second.
    pub forwarding_rate_pps: f64,
}

/// The answers to requests of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Responsiveness {
    /// The request, as typed.
    pub request: String,
    /// The answers at each load.
    pub at: Vec<AtLoad>,
    /// Time from the end of the flood until it answered as at rest, in seconds; absent when it was
    /// not observed to do so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// What was wrong with one of the requests that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The longest delay of a request by the tester itself, in seconds.
    pub late_s: f64,
}

/// The answers to requests of a kind at one load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtLoad {
    /// Number of requests.
    pub asked: u64,
    /// Number of correct answers.
    pub answered: u64,
    /// Number of refusals and wrong answers.
    pub wrong: u64,
    /// Number of requests without an answer in time.
    pub lost: u64,
    /// Round-trip times of correct answers, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_s: Option<Spread>,
    /// The longest time without a correct answer, in seconds.
    pub silent_s: f64,
}

impl AtLoad {
    /// Returns the share of requests without a good answer.
    pub fn missing_ratio(&self) -> f64 {
        (self.wrong + self.lost) as f64 / self.asked.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_values_are_parsed() {
        for (typed, request) in [
            ("echo", Request::Echo),
            (" tcp  179 ", Request::Tcp(179)),
            ("snmp", Request::Snmp),
            ("ssh", Request::Ssh(22)),
            ("ssh 2222", Request::Ssh(2222)),
            (
                "command: birdc show protocols",
                Request::Command("birdc show protocols".into()),
            ),
            (
                "tester: curl -s $FWDLAB_DUT",
                Request::Tester("curl -s $FWDLAB_DUT".into()),
            ),
        ] {
            assert_eq!(Request::parse(typed), Ok(request.clone()));
            assert_eq!(Request::parse(&request.to_string()), Ok(request));
        }
        for wrong in [
            "",
            "ping",
            "tcp",
            "tcp 0",
            "tcp 65536",
            "ssh x",
            "command:",
            "tester: ",
        ] {
            let error = Request::parse(wrong).unwrap_err();
            assert!(error.contains("use echo"), "{error}");
        }
    }
}
