//! Options shared by the commands that send and receive by hand: the ports, permitted dangers,
//! duration and amount.
//!
//! Start with [`Ports`] and [`Amount`].

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fwdlab_engine::stamps::Kind;
use fwdlab_engine::{PortSpec, StallPolicy};
use fwdlab_lab::ports::answering::Answering;
use fwdlab_lab::ports::{self, Danger, Port, Role, TrafficPort};
use fwdlab_model::units::{UnitError, parse_duration};

/// Heading of the options that permit ports in use.
pub const IN_USE: &str = "Ports that may be in use";

/// Where the ports are, and which dangers are accepted. The options had other names, which stay as
/// aliases.
#[derive(Debug, Clone, Args)]
pub struct Ports {
    /// Network namespace of the ports: a name, a path, or a process ID
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Use a port even if it carries the default route
    #[arg(long, alias = "even-with-default-route", help_heading = IN_USE)]
    pub allow_default_route: bool,
    /// Use a port even if it has an address that is not a test address
    #[arg(long, alias = "even-with-address", help_heading = IN_USE)]
    pub allow_address: bool,
    /// Use a port even if it carries connections or has active neighbours
    #[arg(long, alias = "even-in-use", help_heading = IN_USE)]
    pub allow_in_use: bool,
    /// Use a port even if it belongs to a bridge or bond, or has VLANs or similar devices on top
    #[arg(long, alias = "even-in-bridge", help_heading = IN_USE)]
    pub allow_in_bridge: bool,
    /// Use a port even if an XDP program is attached to it
    #[arg(long, alias = "even-with-xdp-program", help_heading = IN_USE)]
    pub allow_xdp_program: bool,
    /// Use a port even if it belongs to the test bed of a running measurement
    #[arg(long, alias = "even-in-test-bed", help_heading = IN_USE)]
    pub allow_in_test_bed: bool,
}

impl Ports {
    /// Returns the specification of a port.
    pub fn spec(&self, interface: &str) -> PortSpec {
        PortSpec {
            netns: self.netns.as_deref().map(ports::netns),
            interface: interface.into(),
        }
    }

    /// Replaces alternative interface names by the kernel's own, so that different names mean
    /// different ports, and results use one name only.
    pub fn by_own_names<'a>(&self, interfaces: impl IntoIterator<Item = &'a mut String>) {
        for interface in interfaces {
            *interface = ports::by_own_name(self.spec(interface)).interface;
        }
    }

    /// Reserves a port, unless that is dangerous.
    pub fn take(&self, port: &str, roles: &[Role]) -> anyhow::Result<TrafficPort> {
        Ok(TrafficPort::take(
            &self.spec(port),
            roles,
            &self.accepted(),
        )?)
    }

    /// As [`Ports::take`], for commands that need a network interface.
    pub fn take_interface(&self, interface: &str, roles: &[Role]) -> anyhow::Result<Port> {
        Ok(Port::take(&self.spec(interface), roles, &self.accepted())?)
    }

    fn accepted(&self) -> Vec<Danger> {
        [
            (self.allow_default_route, Danger::DefaultRoute),
            (self.allow_address, Danger::Address),
            (self.allow_in_use, Danger::InUse),
            (self.allow_in_bridge, Danger::Member),
            (self.allow_xdp_program, Danger::XdpProgram),
            (self.allow_in_test_bed, Danger::TestBed),
        ]
        .into_iter()
        .filter_map(|(accepted, danger)| accepted.then_some(danger))
        .collect()
    }
}

/// Whether a port that receives answers who has an address.
#[derive(Debug, Clone, Args)]
pub struct Answers {
    /// Do not answer ARP and neighbour discovery for test addresses (198.18.0.0/15, 2001:2::/48,
    /// documentation)
    #[arg(long)]
    pub no_answer: bool,
}

impl Answers {
    /// Answers ARP and ND on this port until the value is dropped, unless the options disable it.
    /// A memif port has no MAC address, and does not answer.
    pub fn start(&self, port: Option<&Port>) -> anyhow::Result<Option<Answering>> {
        let port = port.filter(|_| !self.no_answer);
        Ok(port.map(Answering::start).transpose()?)
    }
}

/// What becomes of frames that are missed while the sender stalls. The values had other names,
/// which stay as aliases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OnStall {
    /// They leave afterwards, with gaps a quarter shorter until the backlog is empty: the mean load
    /// is exact
    #[default]
    #[value(name = "catch-up", alias = "make-up")]
    CatchUp,
    /// They are counted as not sent: the load never exceeds the intended one
    #[value(name = "skip", alias = "forgive")]
    Skip,
}

impl OnStall {
    /// Returns the policy for the engine: catching up never exceeds the link rate.
    pub fn policy(self, most_pps: Option<f64>) -> StallPolicy {
        match self {
            OnStall::CatchUp => StallPolicy::CatchUp { most_pps },
            OnStall::Skip => StallPolicy::Skip,
        }
    }
}

/// Who takes the times of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Timestamps {
    /// The best of the following that is available on one clock
    Auto,
    /// The sender's schedule for departures, the receiver for arrivals
    User,
    /// The kernel: when the driver takes a frame, and when a frame enters
    Software,
    /// The card: when a frame goes onto the wire, and when it comes off
    Hardware,
}

impl Timestamps {
    /// Returns the requested kind; `None` for the best available.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Timestamps::Auto => None,
            Timestamps::User => Some(Kind::User),
            Timestamps::Software => Some(Kind::Software),
            Timestamps::Hardware => Some(Kind::Hardware),
        }
    }
}

/// A duration, or a number of frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// A duration.
    Time(Duration),
    /// A number of frames.
    Frames(u64),
}

impl FromStr for Amount {
    type Err = UnitError;

    /// Parses `10s`, `2m`, `1000frames`, `1e6frames` or `5Mframes`.
    fn from_str(text: &str) -> Result<Amount, UnitError> {
        let typed = text.trim();
        let Some(number) = typed
            .strip_suffix("frames")
            .or_else(|| typed.strip_suffix("frame"))
        else {
            return parse_duration(typed)
                .map(Amount::Time)
                .map_err(|mut error| {
                    error.reason = format!("{}, or 1000frames, 1e6frames, 5Mframes", error.reason);
                    error
                });
        };
        let number = number.trim();
        let (digits, factor) = match number.chars().last() {
            Some('k' | 'K') => (&number[..number.len() - 1], 1e3),
            Some('M') => (&number[..number.len() - 1], 1e6),
            Some('G') => (&number[..number.len() - 1], 1e9),
            _ => (number, 1.0),
        };
        let plain = digits
            .chars()
            .all(|c| c.is_ascii_digit() || c == '.' || c == 'e');
        let frames = digits
            .parse()
            .ok()
            .filter(|_| plain)
            .map(|n: f64| n * factor);
        match frames {
            Some(n) if (1.0..=1e15).contains(&n) && n.fract() == 0.0 => {
                Ok(Amount::Frames(n as u64))
            }
            _ => Err(UnitError {
                text: text.into(),
                what: "number of frames",
                reason: "for example 1000frames, 1e6frames or 5Mframes, at least 1".into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_as_people_type_them() {
        for (text, amount) in [
            ("10s", Amount::Time(Duration::from_secs(10))),
            ("1frame", Amount::Frames(1)),
            ("1000 frames", Amount::Frames(1000)),
            ("1e6frames", Amount::Frames(1_000_000)),
            ("2.5Mframes", Amount::Frames(2_500_000)),
        ] {
            assert_eq!(text.parse(), Ok(amount), "{text}");
        }
        for bad in [
            "",
            "10",
            "0frames",
            "-1frames",
            "frames",
            "1.5frames",
            "1e99frames",
            "infframes",
            "nanframes",
        ] {
            let error = bad.parse::<Amount>().unwrap_err().to_string();
            assert!(error.contains("frames"), "{bad}: {error}");
        }
    }
}
