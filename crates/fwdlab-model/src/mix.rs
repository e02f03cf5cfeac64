//! Mixes of frame sizes: the well-known ones, what a link carries of them, and the order in which
//! they are sent.
//!
//! A mix is sizes with weights, including the FCS; a single size is a mix of one. [`crate::link`]
//! converts bits and frames per second of a mix, [`crate::genome`] parses sequences (RFC 6985).
//! Start with [`Mix`] and [`NAMED`].

use std::fmt;
use std::str::FromStr;

use crate::genome::Genome;
use crate::link::{Directions, Layer, LinkSpeed, MeanSize};
use crate::units::{FrameSize, UnitError};

/// A named mix: sizes with weights, and their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedMix {
    /// The name.
    pub name: &'static str,
    /// Frame sizes in bytes (including the FCS) and weights, in the order in which they are sent.
    pub parts: &'static [(u32, u64)],
    /// Its source.
    pub source: &'static str,
}

/// The simple IMIX: IP packets of 40 (46 with padding), 576 and 1500 bytes, as
/// `(frame size, weight)` pairs.
pub const SIMPLE_IMIX: &[(u32, u64)] = &[(64, 7), (594, 4), (1518, 1)];

/// The named mixes. Weights with two decimals in the source are multiplied by a hundred here.
pub const NAMED: [NamedMix; 10] = [
    NamedMix {
        name: "imix",
        parts: SIMPLE_IMIX,
        source: "simple IMIX: IP packets of 40, 576 and 1500 bytes; TRex imix.py",
    },
    NamedMix {
        name: "imix570",
        parts: &[(64, 7), (570, 4), (1518, 1)],
        source: "Open Traffic Generator \"imix\", CSIT IPv4",
    },
    NamedMix {
        name: "imix6",
        parts: &[(78, 7), (570, 4), (1518, 1)],
        source: "CSIT IPv6",
    },
    NamedMix {
        name: "imix-trexbench",
        parts: &[(68, 7), (590, 4), (1514, 1)],
        source: "TRex bench.py size=imix, which is not imix.py",
    },
    NamedMix {
        name: "imix512",
        parts: &[(64, 7), (512, 4), (1518, 1)],
        source: "RFC 6985 genome aaaaaaaddddg",
    },
    NamedMix {
        name: "bimodal",
        parts: &[(64, 44), (1518, 37)],
        source: "a measurement of 2006, sizes in between distributed over the two",
    },
    NamedMix {
        name: "ipsec-imix",
        parts: &[(90, 5867), (92, 200), (594, 2366), (1418, 1567)],
        source: "Open Traffic Generator \"ipsec_imix\"",
    },
    NamedMix {
        name: "tcp-imix",
        parts: &[(90, 5867), (92, 200), (594, 2366), (1518, 1567)],
        source: "Open Traffic Generator \"tcp_imix\"",
    },
    NamedMix {
        name: "standard-imix",
        parts: &[(58, 5867), (62, 200), (594, 2366), (1518, 1567)],
        source: "Open Traffic Generator \"standard_imix\"; its small frames are below Ethernet's smallest",
    },
    NamedMix {
        name: "ipv6-imix",
        parts: &[(60, 5867), (496, 200), (594, 2366), (1518, 1567)],
        source: "Open Traffic Generator \"ipv6_imix\"; its small frames are below Ethernet's smallest",
    },
];

/// Frames of one size, or of several in fixed proportions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    name: String,
    parts: Vec<Part>,
    padded: Vec<Padded>,
}

/// The frames of one size in a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Their size, including the FCS.
    pub size_bytes: u32,
    /// Number of these frames among those of all weights together.
    pub weight: u64,
}

/// A requested size that does not exist on Ethernet: its frames are padded to the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padded {
    /// The requested size.
    pub size_bytes: u32,
}

impl fmt::Display for Padded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requested, smallest) = (self.size_bytes, FrameSize::MIN);
        write!(
            f,
            "{requested} bytes are padded to {smallest}, the smallest frame with its FCS"
        )
    }
}

impl Mix {
    /// Largest frame in bytes.
    pub const LARGEST_BYTES: u32 = 65_535;

    const HEAVIEST: u64 = 1_000_000_000_000;

    /// Creates a mix of `(frame size, weight)` pairs. Sizes below the smallest frame are padded,
    /// see [`Mix::padded`].
    ///
    /// # Errors
    /// If a size is 0 or above [`Mix::LARGEST_BYTES`], or the weights are all 0 or above 10^12
    /// together.
    pub fn new(name: &str, pairs: impl IntoIterator<Item = (u32, u64)>) -> Result<Mix, UnitError> {
        let smallest = u32::from(FrameSize::MIN.bytes());
        let mut mix = Mix {
            name: name.to_owned(),
            parts: Vec::new(),
            padded: Vec::new(),
        };
        for (size_bytes, weight) in pairs {
            if !(1..=Self::LARGEST_BYTES).contains(&size_bytes) {
                let reason = format!(
                    "a frame has 1 to {} bytes, including the FCS",
                    Self::LARGEST_BYTES
                );
                return Err(UnitError::new(name, "mix of frame sizes", reason));
            }
            if size_bytes < smallest {
                mix.padded.push(Padded { size_bytes });
            }
            let size_bytes = size_bytes.max(smallest);
            mix.parts.push(Part { size_bytes, weight });
        }
        mix.parts.retain(|part| part.weight > 0);
        let total = (mix.parts.iter()).fold(0u64, |sum, part| sum.saturating_add(part.weight));
        if (1..=Self::HEAVIEST).contains(&total) {
            Ok(mix)
        } else {
            let reason = "the sum of the weights must be 1 to 10^12";
            Err(UnitError::new(name, "mix of frame sizes", reason))
        }
    }

    /// Returns one of [`NAMED`]; underscores count as hyphens.
    pub fn named(name: &str) -> Option<Mix> {
        let name = name.to_ascii_lowercase().replace('_', "-");
        let named = NAMED.iter().find(|named| named.name == name)?;
        Mix::new(named.name, named.parts.iter().copied()).ok()
    }

    /// Returns the simple IMIX.
    pub fn imix() -> Mix {
        Mix::named("imix").expect("it is in the list")
    }

    /// Returns its name: a size, a name, or a genome.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns sizes and weights.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns requested sizes that had to be padded, which readers of the figures should know.
    pub fn padded(&self) -> &[Padded] {
        &self.padded
    }

    /// Returns the size, if all frames have the same.
    pub fn single_size(&self) -> Option<u32> {
        let first = self.parts.first()?.size_bytes;
        let all = self.parts.iter().all(|part| part.size_bytes == first);
        all.then_some(first)
    }

    /// Returns the mean frame size.
    pub fn mean(&self) -> MeanSize {
        let frames = self.parts.iter().map(|part| part.weight).sum();
        let bytes = (self.parts.iter())
            .map(|part| part.weight * u64::from(part.size_bytes))
            .sum();
        MeanSize::new(bytes, frames).expect("a mix has frames, each larger than its header")
    }

    /// Iterates over the frame sizes of one round in the order in which they are sent, always the
    /// same: part by part, in lowest terms.
    ///
    /// The order is part of the load: a burst of small frames differs from a shuffle.
    /// [`Mix::genome`] prints it.
    pub fn pattern(&self) -> impl Iterator<Item = u32> {
        let divisor = self.common_divisor();
        (self.parts.iter())
            .flat_map(move |part| (0..part.weight / divisor).map(|_| part.size_bytes))
    }

    /// Returns the pattern in the language of RFC 6985; `None` if it has more unusual sizes than
    /// there are capital letters.
    pub fn genome(&self) -> Option<Genome> {
        let divisor = self.common_divisor();
        let runs = self
            .parts
            .iter()
            .map(|part| (part.size_bytes, part.weight / divisor));
        Genome::from_runs(runs).ok()
    }

    fn common_divisor(&self) -> u64 {
        let divisor = (self.parts.iter()).fold(0, |divisor, part| gcd(divisor, part.weight));
        divisor.max(1)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl From<&Genome> for Mix {
    /// Returns the proportions of a sequence, without its order.
    fn from(genome: &Genome) -> Mix {
        Mix::new(&genome.to_string(), genome.sizes())
            .expect("a genome has at least one frame and its sizes are in range")
    }
}

impl FromStr for Mix {
    type Err = UnitError;

    /// `64`, `imix` and the other names, or a genome: `7a4dg`, `7a4Ag A=594`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let typed = text.trim();
        if let Some(mix) = Mix::named(typed) {
            return Ok(mix);
        }
        let refused = |reason: String| UnitError::new(text, "frame size or mix", reason);
        if !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_digit()) {
            let largest = Self::LARGEST_BYTES;
            let bytes = (typed.parse().ok())
                .filter(|bytes| (1..=largest).contains(bytes))
                .ok_or_else(|| {
                    refused(format!(
                        "a frame has 64 to {largest} bytes, including the FCS"
                    ))
                })?;
            return Mix::new(&bytes.to_string(), [(bytes, 1)]);
        }
        match typed.parse::<Genome>() {
            Ok(genome) => Ok(Mix::from(&genome)),
            Err(error) => Err(refused(format!(
                "use a size such as 64, a genome (RFC 6985) such as 7a4dg, or one of {}; as a genome, {error}",
                NAMED.map(|named| named.name).join(", ")
            ))),
        }
    }
}

/// Returns the estimated layer-2 bandwidth of a simple IMIX at a forwarding rate measured with
/// smallest frames, in bit/s.
///
/// An estimate: it assumes that the DUT's cost does not depend on the frame size
/// (docs/methodology.md, "Frame mixes"), and ignores the link; [`ImixEstimate`] includes it.
pub fn imix_estimate_l2_bps(pps: f64) -> f64 {
    Mix::imix().mean().bps(Layer::L2, pps)
}

/// The rate of a simple IMIX if the DUT forwards as many of its frames as of those it was measured
/// with.
///
/// An estimate, and must be labelled as one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImixEstimate {
    /// Frames per second: those of the measurement, or the line rate if that is less.
    pub pps: f64,
    /// Bits per second of these frames.
    pub l2_bps: f64,
    /// True if the line is the limit.
    pub line_limited: bool,
}

impl ImixEstimate {
    /// Estimates from a rate measured with other frames.
    pub fn from_rate(pps: f64, link: LinkSpeed) -> ImixEstimate {
        let line_rate = link.line_rate_pps(Mix::imix().mean());
        let capped = pps.min(line_rate);
        ImixEstimate {
            pps: capped,
            l2_bps: imix_estimate_l2_bps(capped),
            line_limited: pps > line_rate,
        }
    }
}

/// How talks compute the simple IMIX: without padding, FCS and gap, so that a link seems to carry
/// more of it than it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TalkFormula {
    /// IP packets of 40, 576 and 1500 bytes: 340.33 bytes per packet.
    IpPackets,
    /// Frames of 54, 590 and 1514 bytes without FCS, the small one not padded: 354.33 bytes per
    /// frame.
    Ethernet,
}

impl TalkFormula {
    /// Returns the bytes of twelve packets.
    fn bytes_of_12(self) -> u32 {
        match self {
            TalkFormula::IpPackets => 7 * 40 + 4 * 576 + 1500,
            TalkFormula::Ethernet => 7 * 54 + 4 * 590 + 1514,
        }
    }

    /// Converts packets per second to bits per second by the formula.
    pub fn bps(self, pps: f64) -> f64 {
        pps * f64::from(self.bytes_of_12()) / 12.0 * 8.0
    }

    /// Returns the packets per second that fill the link by the formula, rounded to the nearest.
    pub fn link_full_pps(self, link: LinkSpeed, directions: Directions) -> u64 {
        let bps = link.bps() as f64 * directions as u32 as f64;
        (bps / self.bps(1.0)).round() as u64
    }
}

/// The rate that a router needs so that a link, and not the router, is the limit: a row of the
/// "minimum router" table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinimumRouter {
    /// The link.
    pub link: LinkSpeed,
    /// Frames per second of 64 bytes, one way.
    pub smallest_pps: u64,
    /// The same in both directions together.
    pub smallest_both_ways_pps: u64,
    /// Frames per second of the simple IMIX, one way.
    pub imix_pps: u64,
    /// The same in both directions together.
    pub imix_both_ways_pps: u64,
    /// The simple IMIX as computed in talks ([`TalkFormula::Ethernet`]): more than the line
    /// carries.
    pub imix_talk_pps: u64,
    /// The same in both directions together.
    pub imix_talk_both_ways_pps: u64,
}

/// The links of the table.
pub const MINIMUM_ROUTER_LINKS: [LinkSpeed; 7] = [
    LinkSpeed::megabits(1_000),
    LinkSpeed::megabits(2_500),
    LinkSpeed::megabits(5_000),
    LinkSpeed::megabits(10_000),
    LinkSpeed::megabits(25_000),
    LinkSpeed::megabits(40_000),
    LinkSpeed::megabits(100_000),
];

impl MinimumRouter {
    /// Returns the row for a link.
    pub fn for_link(link: LinkSpeed) -> MinimumRouter {
        let imix = Mix::imix().mean();
        let talk = TalkFormula::Ethernet;
        MinimumRouter {
            link,
            smallest_pps: link.line_rate_whole(FrameSize::MIN, Directions::One),
            smallest_both_ways_pps: link.line_rate_whole(FrameSize::MIN, Directions::Both),
            imix_pps: link.line_rate_whole(imix, Directions::One),
            imix_both_ways_pps: link.line_rate_whole(imix, Directions::Both),
            imix_talk_pps: talk.link_full_pps(link, Directions::One),
            imix_talk_both_ways_pps: talk.link_full_pps(link, Directions::Both),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN_GIGABIT: LinkSpeed = LinkSpeed::megabits(10_000);

    /// Means and line rates of docs/methodology.md, "Frame mixes".
    #[test]
    fn named_mixes() {
        for (name, mean, pps) in [
            ("imix", 361.8333, 3_273_679),
            ("imix570", 353.8333, 3_343_736),
            ("imix6", 362.0000, 3_272_251),
            ("imix-trexbench", 362.5000, 3_267_973),
            ("imix512", 334.5000, 3_526_093),
            ("bimodal", 728.1728, 1_670_736),
            ("ipsec-imix", 417.3840, 2_857_900),
            ("tcp_imix", 433.0540, 2_759_053),
        ] {
            let mix = Mix::named(name).unwrap();
            let bytes = mix.mean().bytes();
            assert_eq!(format!("{bytes:.4}"), format!("{mean:.4}"), "{name}");
            let rate = TEN_GIGABIT.line_rate_whole(mix.mean(), Directions::One);
            assert_eq!(rate, pps, "{name}");
            assert!(
                (mix.mean().l3_bytes() - (bytes - 18.0)).abs() < 1e-9,
                "{name}"
            );
            assert!(mix.padded().is_empty(), "{name}");
        }
        assert!(NAMED.iter().all(|named| Mix::named(named.name).is_some()));
    }

    #[test]
    fn sizes_below_the_minimum_are_padded_and_reported() {
        let sizes = |name: &str| -> Vec<u32> {
            let mix = Mix::named(name).unwrap();
            mix.padded()
                .iter()
                .map(|padded| padded.size_bytes)
                .collect()
        };
        assert_eq!(sizes("standard-imix"), [58, 62]);
        assert_eq!(sizes("ipv6-imix"), [60]);
        let mix = Mix::named("ipv6-imix").unwrap();
        assert_eq!(mix.parts()[0].size_bytes, 64);
        // an IPv4 packet that is only a header, in a frame: 38 bytes with FCS, 64 on the wire
        let mix: Mix = "38".parse().unwrap();
        assert_eq!(mix.mean(), FrameSize::MIN.into());
        assert_eq!(
            mix.padded()[0].to_string(),
            "38 bytes are padded to 64, the smallest frame with its FCS"
        );
    }

    #[test]
    fn patterns_are_one_round_in_order() {
        let pattern = |name: &str| Mix::named(name).unwrap().pattern().collect::<Vec<_>>();
        assert_eq!(pattern("imix")[6..], [64, 594, 594, 594, 594, 1518]);
        assert_eq!(pattern("bimodal").len(), 81);
        assert_eq!(pattern("ipsec-imix").len(), 10_000);
        let twice = Mix::new("x", [(64, 14), (1518, 2)]).unwrap();
        assert_eq!(twice.pattern().count(), 8);
        let genome = |name: &str| Mix::named(name).unwrap().genome().unwrap().to_string();
        assert_eq!(genome("imix512"), "7a4dg");
        assert_eq!(genome("imix"), "7a4Ag A=594");
        let many = Mix::new("x", (100..200).map(|size| (size, 1))).unwrap();
        assert_eq!(many.genome(), None);
    }

    #[test]
    fn mixes_as_people_type_them() {
        let mean = |text: &str| text.parse::<Mix>().unwrap().mean().bytes();
        assert_eq!(mean("64"), 64.0);
        assert_eq!(mean("9000"), 9000.0);
        assert_eq!(mean("7a4dg"), 334.5);
        assert_eq!(mean("aaaaaaaddddg"), 334.5);
        assert_eq!(mean("7a4Ag A=594"), mean("imix"));
        assert_eq!(mean("IMIX"), mean("imix"));
        let typed: Mix = " 1518 ".parse().unwrap();
        assert_eq!((typed.name(), typed.single_size()), ("1518", Some(1518)));
        assert_eq!(Mix::imix().single_size(), None);
        for text in [
            "",
            "0",
            "65536",
            "99999999999999999999",
            "-64",
            "64b!",
            "imix7",
            "6.4",
            "A",
        ] {
            let error = text.parse::<Mix>().unwrap_err().to_string();
            assert!(error.contains("64"), "{text}: {error}");
        }
    }

    #[test]
    fn mixes_that_are_none() {
        for pairs in [
            vec![],
            vec![(64, 0)],
            vec![(0, 1)],
            vec![(65_536, 1)],
            vec![(64, u64::MAX), (1518, 1)],
        ] {
            assert!(Mix::new("x", pairs.clone()).is_err(), "{pairs:?}");
        }
    }

    /// Frames per second that fill a link with IMIX: two formulas of talks, and what the line
    /// carries (docs/methodology.md, "Frame mixes").
    #[test]
    fn estimates() {
        for (formula, factor, gigabit_pps) in [
            (TalkFormula::IpPackets, 2722.6667, 367_287),
            (TalkFormula::Ethernet, 2834.6667, 352_775),
        ] {
            assert!((formula.bps(1.0) - factor).abs() < 1e-4);
            let link = LinkSpeed::megabits(1_000);
            assert_eq!(formula.link_full_pps(link, Directions::One), gigabit_pps);
        }
        assert_eq!(
            MinimumRouter::for_link(LinkSpeed::megabits(1_000)).imix_pps,
            327_367
        );
        assert!((imix_estimate_l2_bps(1e6) - 2.8946667e9).abs() < 100.0);
        let small = ImixEstimate::from_rate(1e6, TEN_GIGABIT);
        assert_eq!((small.pps, small.line_limited), (1e6, false));
        let large = ImixEstimate::from_rate(14.88e6, TEN_GIGABIT);
        assert!(large.line_limited);
        assert_eq!(large.pps.floor(), 3_273_679.0);
        assert!(large.l2_bps < 9.4765e9);
    }

    /// The talk's table: 1.48 M, 3 M, 350 K, 700 K for 1G; ten times that for 10G.
    #[test]
    fn minimum_routers() {
        let row = MinimumRouter::for_link(LinkSpeed::megabits(1_000));
        assert_eq!(
            (row.smallest_pps, row.smallest_both_ways_pps),
            (1_488_095, 2_976_190)
        );
        assert_eq!(
            (row.imix_talk_pps, row.imix_talk_both_ways_pps),
            (352_775, 705_550)
        );
        let row = MinimumRouter::for_link(TEN_GIGABIT);
        assert_eq!(
            (row.smallest_pps, row.smallest_both_ways_pps),
            (14_880_952, 29_761_904)
        );
        assert_eq!(
            (row.imix_talk_pps, row.imix_talk_both_ways_pps),
            (3_527_752, 7_055_503)
        );
        assert_eq!(
            (row.imix_pps, row.imix_both_ways_pps),
            (3_273_679, 6_547_359)
        );
    }
}
