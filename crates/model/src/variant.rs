//! What the frames of a series are, and what else happens meanwhile: the variant of a test, kept with every trial and outcome.
//!
//! A plain series is a stream of one size, one way. RFC 2544 asks for others beside it: other destinations (§12), both
//! directions (§14), and the modifiers of §11, each a series of its own that is compared with the unmodified one. How frames
//! and modifiers are made is in `engine` and `lab`. Start with [`Variant`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A variant of a series; the default is the plain one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variant {
    /// Name of the traffic profile whose frames are offered, instead of a stream of one size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Where frames go.
    #[serde(default)]
    pub destinations: Destinations,
    /// The same load is offered both ways; loads and rates are those of one direction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both_directions: bool,
    /// What happens beside the test frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modifiers: Vec<Modifier>,
}

/// Where the frames of a series go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Destinations {
    /// As many flows as the stream or the profile says, every flow equally often.
    #[default]
    Flows,
    /// One pair of addresses (RFC 2544 §12).
    Single,
    /// One source, destinations drawn uniformly from 256 networks (RFC 2544 §12).
    Random,
}

/// Networks of [`Destinations::Random`].
pub const NETWORKS: u32 = 256;

/// What happens beside the test frames (RFC 2544 §11).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Modifier {
    /// Every 100th frame goes to the hardware broadcast address (§11.1).
    Broadcast,
    /// An SNMP query at the begin of every second, to an agent of the DUT (§11.2).
    Management,
    /// Routes that the test does not use change between two states (§11.3).
    Updates {
        /// Time between two changes, in seconds.
        interval_s: f64,
    },
    /// Filter rules: the last one permits the test frames, all before it match nothing, all else is denied (§11.4).
    Filters {
        /// How many, with the one that permits: 1 or 25.
        rules: u32,
    },
}

/// One of so many frames is a broadcast in [`Modifier::Broadcast`].
pub const BROADCAST_EVERY: u32 = 100;

impl Variant {
    /// A stream of one size, one way, and nothing else.
    pub fn is_plain(&self) -> bool {
        *self == Variant::default()
    }

    /// Is this modifier on?
    pub fn has(&self, kind: impl Fn(&Modifier) -> bool) -> bool {
        self.modifiers.iter().any(kind)
    }

    /// The same without modifiers: what a modified series is compared with.
    #[must_use]
    pub fn unmodified(&self) -> Variant {
        Variant {
            modifiers: Vec::new(),
            ..self.clone()
        }
    }

    /// What keeps a series from being what RFC 2544 describes, for labels.
    pub fn deviations(&self) -> Vec<String> {
        let mut deviations = Vec::new();
        if let Some(profile) = &self.profile {
            deviations.push(format!("frames of the profile {profile}, not of one size"));
        }
        if self.has(|m| *m == Modifier::Management) {
            deviations.push(
                "SNMP queries over a port of their own, not as first frames of the test ports' seconds (§11.2)".into(),
            );
        }
        if self.has(|m| matches!(m, Modifier::Updates { .. })) {
            deviations.push(
                "routes changed by netlink, not by updates of a routing protocol (§11.3)".into(),
            );
        }
        deviations
    }
}

/// `random destinations, both directions, broadcast + filters=25`; empty for the plain one.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(profile) = &self.profile {
            parts.push(format!("profile {profile}"));
        }
        match self.destinations {
            Destinations::Flows => {}
            Destinations::Single => parts.push("one address pair".into()),
            Destinations::Random => parts.push("random destinations".into()),
        }
        if self.both_directions {
            parts.push("both directions".into());
        }
        if !self.modifiers.is_empty() {
            let all: Vec<String> = self.modifiers.iter().map(Modifier::to_string).collect();
            parts.push(all.join(" + "));
        }
        f.write_str(&parts.join(", "))
    }
}

impl fmt::Display for Modifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Modifier::Broadcast => f.write_str("broadcast"),
            Modifier::Management => f.write_str("management"),
            Modifier::Updates { interval_s } => write!(f, "updates every {interval_s} s"),
            Modifier::Filters { rules } => write!(f, "filters={rules}"),
        }
    }
}

/// Which way frames go through the DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the sending port to the receiving one.
    Forward,
    /// The other way.
    Reverse,
}

/// Counts of one direction of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionCounts {
    /// Which.
    pub direction: Direction,
    /// Frames that were due.
    pub frames_intended: u64,
    /// Frames that were sent, and should come back.
    pub frames_sent: u64,
    /// Frames that came back.
    pub frames_received: u64,
}

impl DirectionCounts {
    /// Frames lost or not sent over frames intended or sent: by this the direction is judged.
    pub fn loss_ratio(&self) -> f64 {
        let not_sent = self.frames_intended.saturating_sub(self.frames_sent);
        let lost = self.frames_sent.abs_diff(self.frames_received);
        (not_sent + lost) as f64 / self.frames_intended.max(self.frames_sent).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_says_what_is_not_plain() {
        assert_eq!(Variant::default().to_string(), "");
        let variant = Variant {
            profile: Some("imix".into()),
            destinations: Destinations::Random,
            both_directions: true,
            modifiers: vec![
                Modifier::Broadcast,
                Modifier::Filters { rules: 25 },
                Modifier::Updates { interval_s: 30.0 },
            ],
        };
        assert_eq!(
            variant.to_string(),
            "profile imix, random destinations, both directions, broadcast + filters=25 + updates every 30 s"
        );
        assert_eq!(variant.deviations().len(), 2);
        let managed = Variant {
            modifiers: vec![Modifier::Management],
            ..Variant::default()
        };
        assert!(managed.deviations()[0].contains("§11.2"));
        let text = serde_json::to_string(&variant).unwrap();
        assert_eq!(serde_json::from_str::<Variant>(&text).unwrap(), variant);
        assert_eq!(
            serde_json::from_str::<Variant>("{}").unwrap(),
            Variant::default()
        );
    }
}
