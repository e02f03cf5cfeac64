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
                "`{typed}` is nothing that management is asked: use echo, 'tcp PORT', snmp, ssh or 'ssh PORT', 'command: TEXT' (run by sh \
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

/// What management is asked in a trial: all of it side by side, each request again as soon as it is due and the one before has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// As they are typed.
    pub requests: Vec<String>,
    /// Where they go; absent: to the management port that the test bed has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// From one to the next of a kind.
    pub every_ns: u64,
    /// Without an answer for so long, a request is lost.
    pub patience_ns: u64,
}

/// What became of all requests of a kind in a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// As it was typed.
    pub request: String,
    /// One after the other.
    pub requests: Vec<Sent>,
    /// What was wrong with one that had no good answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How late a request was sent at most: the tester's own doing.
    pub late_ns: u64,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// When it was sent, in nanoseconds since the trial began.
    pub at_ns: u64,
    /// After how long it was known what becomes of it.
    pub took_ns: u64,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// A good answer came.
    Answered,
    /// An answer came, and was a refusal or wrong: a closed port, an exit code.
    Wrong,
    /// None came in time.
    Lost,
}

/// How a DUT can be managed while it is flooded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Management {
    /// What it forwards in the flood: 100 % of the loads below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carries_pps: Option<f64>,
    /// From one request to the next of a kind, in seconds.
    pub every_s: f64,
    /// Without an answer for so long a request is lost, in seconds.
    pub patience_s: f64,
    /// The loads, in the order of time: at rest first, the flood last.
    pub loads: Vec<LoadStep>,
    /// Every kind of request.
    pub requests: Vec<Responsiveness>,
}

/// One load for some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadStep {
    /// `0 %`, `50 %`, `flood`.
    pub name: String,
    /// What was to be offered.
    pub intended_load_pps: f64,
    /// What was offered.
    pub offered_load_pps: f64,
    /// What came out of the DUT.
    pub forwarding_rate_pps: f64,
}

/// How requests of a kind were answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Responsiveness {
    /// As it was typed.
    pub request: String,
    /// At each of the loads.
    pub at: Vec<AtLoad>,
    /// How long after the end of the flood it began to answer as at rest, in seconds; absent when that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// What was wrong with one that had no good answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How late the tester itself sent one at most, in seconds.
    pub late_s: f64,
}

/// Requests of a kind that were sent at one load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtLoad {
    /// Requests.
    pub asked: u64,
    /// Good answers.
    pub answered: u64,
    /// Refusals and wrong answers.
    pub wrong: u64,
    /// No answer in time.
    pub lost: u64,
    /// Round trips of good answers, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_s: Option<Spread>,
    /// The longest time without a good answer, in seconds.
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
    fn what_is_typed() {
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
