//! The kind of frames in a series, and other events during it: the variant of a test, kept with
//! every trial and outcome.
//!
//! A plain series is a stream of one size in one direction. RFC 2544 requires others: other
//! destinations (§12), both directions (§14), and the modifiers of §11, each a separate series that
//! is compared with the unmodified one. `engine` and `lab` implement frames and modifiers. Start
//! with [`Variant`].

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::procedure::Interval;
use crate::trial::Stream;
use crate::typed::{Numbers, typed};
use crate::units::parse_duration;

/// A variant of a series; the default is the plain one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variant {
    /// Name of the traffic profile that is offered instead of a stream of one size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Destinations of the frames.
    #[serde(default)]
    pub destinations: Destinations,
    /// The same load is offered in both directions at once; loads and rates are per direction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both_directions: bool,
    /// Other events during the test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modifiers: Vec<Modifier>,
    /// In a run that joins shards of several machines, the shard that measured it. Rates of two
    /// machines are not comparable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
}

/// The destinations of the frames of a series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Destinations {
    /// The number of flows of the stream or the profile; every flow gets the same number of frames.
    #[default]
    Flows,
    /// One pair of addresses (RFC 2544 §12).
    Single,
    /// One source, destinations drawn uniformly from 256 networks (RFC 2544 §12).
    Random,
}

/// Number of networks of [`Destinations::Random`].
pub const NETWORKS: u32 = 256;

/// Other events during the test (RFC 2544 §11).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Modifier {
    /// Every 100th frame goes to the hardware broadcast address (§11.1).
    Broadcast,
    /// An SNMP query at the start of every second, to an agent on the DUT (§11.2).
    Management,
    /// Routes that the test does not use change between two states (§11.3).
    Updates {
        /// Time between two changes, in seconds.
        interval_s: f64,
    },
    /// Filter rules: the last one permits the test frames, all before it match nothing, and
    /// everything else is denied (§11.4).
    Filters {
        /// Number of rules, including the one that permits: 1 or 25.
        rules: u32,
    },
}

/// One of this number of frames is a broadcast in [`Modifier::Broadcast`].
pub const BROADCAST_EVERY: u32 = 100;

/// Names of modifiers, for errors.
const NAMES: &str = "broadcast, management, filters=1, filters=25, updates, updates=10s, all";

/// Default time between two routing updates in seconds: that of RIP (RFC 2544 §11.3).
const UPDATES_S: f64 = 30.0;

/// The modifiers of a series, as typed: `none`, `broadcast,filters=25`, `updates=10s`, `all`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Modifiers(pub Vec<Modifier>);

impl Modifiers {
    /// Checks that a simulated DUT supports them.
    ///
    /// # Errors
    /// A message: it has no rules, routes or management.
    pub fn check_simulated(&self) -> Result<(), String> {
        match self.0.iter().find(|m| **m != Modifier::Broadcast) {
            None => Ok(()),
            Some(modifier) => Err(format!(
                "a simulated DUT has no rules, routes or management, so {modifier} does not apply; measure on the test bed"
            )),
        }
    }
}

/// The form for people: `broadcast + filters=25`.
impl fmt::Display for Modifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str("none"),
            false => {
                let all: Vec<String> = self.0.iter().map(Modifier::to_string).collect();
                f.write_str(&all.join(" + "))
            }
        }
    }
}

/// The form users type.
impl fmt::Display for Destinations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Destinations::Flows => "flows",
            Destinations::Single => "single",
            Destinations::Random => "random",
        })
    }
}

impl FromStr for Modifiers {
    type Err = String;

    fn from_str(list: &str) -> Result<Modifiers, String> {
        let mut modifiers: Vec<Modifier> = Vec::new();
        if list.trim() == "none" {
            return Ok(Modifiers(modifiers));
        }
        for text in list.split(',').map(str::trim) {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            let updates = Modifier::Updates {
                interval_s: UPDATES_S,
            };
            let more = match (name, value) {
                ("all", None) => vec![
                    Modifier::Broadcast,
                    Modifier::Management,
                    updates,
                    Modifier::Filters { rules: 25 },
                ],
                ("broadcast", None) => vec![Modifier::Broadcast],
                ("management", None) => vec![Modifier::Management],
                ("filters", Some("1")) => vec![Modifier::Filters { rules: 1 }],
                ("filters", Some("25")) => vec![Modifier::Filters { rules: 25 }],
                ("updates", None) => vec![updates],
                ("updates", Some(every)) => {
                    let every = parse_duration(every).map_err(|error| error.to_string())?;
                    vec![Modifier::Updates {
                        interval_s: every.as_secs_f64(),
                    }]
                }
                _ => return Err(format!("there is no `{text}`; there are {NAMES}")),
            };
            for modifier in more {
                let kind = std::mem::discriminant(&modifier);
                if modifiers
                    .iter()
                    .any(|known| std::mem::discriminant(known) == kind)
                {
                    return Err(format!(
                        "{modifier} conflicts with another modifier of its kind: use one of them"
                    ));
                }
                modifiers.push(modifier);
            }
        }
        Ok(Modifiers(modifiers))
    }
}

impl Serialize for Modifiers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let typed = |modifier: &Modifier| match modifier {
            Modifier::Updates { interval_s } => format!("updates={}ms", 1e3 * interval_s),
            other => other.to_string(),
        };
        match self.0.is_empty() {
            true => serializer.serialize_str("none"),
            false => {
                let all: Vec<String> = self.0.iter().map(typed).collect();
                serializer.serialize_str(&all.join(","))
            }
        }
    }
}

typed!(Modifiers, Numbers::No, "modifiers in quotes, such as \"broadcast\"", {
    "description": "Modifiers of RFC 2544 §11, separated by commas: none, broadcast, management, filters=1, filters=25, \
     updates, updates=10s, all",
    "type": "string"
});

impl Variant {
    /// Returns true for a stream of one size, one direction, and nothing else.
    pub fn is_plain(&self) -> bool {
        *self == Variant::default()
    }

    /// Returns true if this modifier is on.
    pub fn has(&self, kind: impl Fn(&Modifier) -> bool) -> bool {
        self.modifiers.iter().any(kind)
    }

    /// Returns the variant without modifiers, with which a modified series is compared.
    #[must_use]
    pub fn unmodified(&self) -> Variant {
        Variant {
            modifiers: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns the stream as sent in this series: with its own flows, one flow for a single
    /// destination, or [`NETWORKS`] flows for random ones.
    #[must_use]
    pub fn stream(&self, stream: &Stream) -> Stream {
        Stream {
            flows: match self.destinations {
                Destinations::Flows => stream.flows,
                Destinations::Single => 1,
                Destinations::Random => NETWORKS,
            },
            ..stream.clone()
        }
    }

    /// Returns the name of a stream's test case in this series: `64B-2000flows-ipv4`,
    /// `imix/both-directions`.
    pub fn id(&self, stream: &Stream) -> String {
        let name = match &self.profile {
            Some(profile) => profile.clone(),
            None => self.stream(stream).id(),
        };
        let rest = Variant {
            profile: None,
            ..self.clone()
        };
        match rest.is_plain() {
            true => name,
            false => format!(
                "{name}/{}",
                rest.to_string().replace(", ", "/").replace(' ', "-")
            ),
        }
    }

    /// Returns only what changes its frames, without changes on the DUT.
    #[must_use]
    pub fn frames(&self) -> Variant {
        let mut frames = self.clone();
        frames.modifiers.retain(|m| *m == Modifier::Broadcast);
        frames
    }

    /// Returns true if its own streams share the load, so that it cannot be offered in bursts.
    pub fn has_own_times(&self) -> bool {
        self.profile.is_some() || self.has(|m| *m == Modifier::Broadcast)
    }

    /// Returns the differences of a series from RFC 2544, for labels.
    pub fn deviations(&self) -> Vec<String> {
        let mut deviations = Vec::new();
        if let Some(profile) = &self.profile {
            deviations.push(format!("frames of the profile {profile}, not of one size"));
        }
        if self.has(|m| *m == Modifier::Management) {
            deviations.push(
                "SNMP queries over a port of their own, not as the first frames of each second on the test ports (§11.2)".into(),
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
            parts.push(Modifiers(self.modifiers.clone()).to_string());
        }
        parts.extend(self.shard.map(|shard| format!("shard {shard}")));
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

/// The direction of frames through the DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the sending port to the receiving port.
    Forward,
    /// From the receiving port to the sending port.
    Reverse,
}

/// Counts of one direction of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionCounts {
    /// The direction.
    pub direction: Direction,
    /// Frames that were due.
    pub frames_intended: u64,
    /// Frames that were sent and should come back.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Counts over time, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Interval>,
}

impl DirectionCounts {
    /// Returns frames lost or not sent over frames intended or sent, by which the direction is
    /// judged.
    pub fn loss_ratio(&self) -> f64 {
        let not_sent = self.frames_intended.saturating_sub(self.frames_sent);
        let lost = self.frames_sent.abs_diff(self.frames_received);
        (not_sent + lost) as f64 / self.frames_intended.max(self.frames_sent).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::IpVersion;
    use crate::units::FrameSize;

    #[test]
    fn modifiers_as_they_are_typed() {
        let of = |text: &str| text.parse::<Modifiers>().map(|all| all.0);
        assert_eq!(of("none"), Ok(vec![]));
        let all = of("all").unwrap();
        assert_eq!(all.len(), 4);
        assert!(Modifiers(all).check_simulated().is_err());
        assert_eq!(
            Modifiers(vec![Modifier::Broadcast]).check_simulated(),
            Ok(())
        );
        assert_eq!(
            of("filters=1, updates=10s"),
            Ok(vec![
                Modifier::Filters { rules: 1 },
                Modifier::Updates { interval_s: 10.0 }
            ])
        );
        for (text, reported) in [
            ("", "there is no ``"),
            ("filters=2", "there is no `filters=2`; there are broadcast"),
            ("broadcast,none", "there is no `none`"),
            ("filters=1,filters=25", "filters=25 conflicts with another"),
            ("updates=0s", "above 0"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(reported), "{text}: {error}");
        }
    }

    #[test]
    fn a_variant_lists_deviations_from_plain_traffic() {
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
            shard: Some(2),
        };
        assert_eq!(
            variant.to_string(),
            "profile imix, random destinations, both directions, broadcast + filters=25 + updates every 30 s, shard 2"
        );
        let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 7).unwrap();
        assert_eq!(Variant::default().id(&stream), "64B-7flows-ipv4");
        assert_eq!(
            variant.id(&stream),
            "imix/random-destinations/both-directions/broadcast-+-filters=25-+-updates-every-30-s/shard-2"
        );
        let single = Variant {
            destinations: Destinations::Single,
            ..Variant::default()
        };
        assert_eq!(single.id(&stream), "64B-1flow-ipv4/one-address-pair");
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
