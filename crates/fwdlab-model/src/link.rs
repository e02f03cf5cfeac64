//! The capacity of a link: line rates, and conversion between frames per second and bits per second
//! of layers 1, 2 and 3.
//!
//! Pure arithmetic, no measured numbers; [`crate::mix`] lists mixes of sizes. Rates are for one
//! direction; frame sizes include the FCS and no VLAN tag. Start with [`RateOnLink`]; [`MeanSize`]
//! is the only property of frames that it needs, and [`Line`] the link that bounds a measurement.

use std::fmt;
use std::str::FromStr;

use crate::typed::{Numbers, typed};
use crate::units::{
    ETHERNET_OVERHEAD_BYTES, FrameSize, Load, UnitError, WIRE_OVERHEAD_BYTES, bytes_or_bits,
    decimal,
};

/// The exact mean size of frames, as a number of bytes in a number of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeanSize {
    bytes: u64,
    frames: u64,
}

impl MeanSize {
    /// Creates it from bytes (including the FCS) and frames; `None` without frames, or if a frame
    /// has fewer bytes than its header.
    pub fn new(bytes: u64, frames: u64) -> Option<MeanSize> {
        let headers = frames.checked_mul(ETHERNET_OVERHEAD_BYTES)?;
        (frames > 0 && bytes > headers).then_some(MeanSize { bytes, frames })
    }

    /// Returns the bytes and the frames of the mean.
    pub fn parts(self) -> (u64, u64) {
        (self.bytes, self.frames)
    }

    /// Returns the mean in bytes.
    pub fn bytes(self) -> f64 {
        self.bytes as f64 / self.frames as f64
    }

    /// Returns the bytes of a mean frame on the wire: with preamble, start delimiter and gap.
    pub fn l1_bytes(self) -> f64 {
        self.l1_total() as f64 / self.frames as f64
    }

    /// Returns the bytes of the IP packet in a mean frame, including padding.
    pub fn l3_bytes(self) -> f64 {
        self.l3_total() as f64 / self.frames as f64
    }

    /// Converts frames per second to bits per second of one layer.
    pub fn bps(self, layer: Layer, pps: f64) -> f64 {
        pps * self.total(layer) as f64 * 8.0 / self.frames as f64
    }

    /// Converts bits per second of one layer to frames per second.
    pub fn pps(self, layer: Layer, bps: f64) -> f64 {
        bps * self.frames as f64 / (self.total(layer) as f64 * 8.0)
    }

    fn total(self, layer: Layer) -> u128 {
        match layer {
            Layer::L1 => self.l1_total(),
            Layer::L2 => u128::from(self.bytes),
            Layer::L3 => self.l3_total(),
        }
    }

    fn l1_total(self) -> u128 {
        u128::from(self.bytes) + u128::from(self.frames) * u128::from(WIRE_OVERHEAD_BYTES)
    }

    fn l3_total(self) -> u128 {
        u128::from(self.bytes) - u128::from(self.frames) * u128::from(ETHERNET_OVERHEAD_BYTES)
    }
}

impl From<FrameSize> for MeanSize {
    fn from(size: FrameSize) -> MeanSize {
        MeanSize {
            bytes: size.bytes().into(),
            frames: 1,
        }
    }
}

/// The part of a frame that a figure in bit/s counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Everything on the wire: preamble, start delimiter, frame, gap.
    L1,
    /// The frame, including the FCS.
    L2,
    /// The IP packet: the untagged frame without header and FCS.
    L3,
}

/// The speed of a link, counted on the wire (layer 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkSpeed(u64);

impl LinkSpeed {
    const FASTEST_BPS: u64 = 10_000_000_000_000;

    /// Returns a speed in megabits per second.
    pub const fn megabits(mbps: u32) -> LinkSpeed {
        LinkSpeed(mbps as u64 * 1_000_000)
    }

    /// Returns a speed in bits per second, from 1 kbit/s to 10 Tbit/s; `None` if it is not an
    /// integer.
    pub fn from_bps(bps: f64) -> Option<LinkSpeed> {
        let is_one = (1e3..=Self::FASTEST_BPS as f64).contains(&bps) && bps.fract() == 0.0;
        is_one.then_some(LinkSpeed(bps as u64))
    }

    /// Returns the bits per second on the wire.
    pub fn bps(self) -> u64 {
        self.0
    }

    /// Returns the frames per second of a link full of these frames, one way:
    /// `link / ((S + 20) * 8)` (RFC 2544 App. B).
    pub fn line_rate_pps(self, frames: impl Into<MeanSize>) -> f64 {
        let (bits, bits_per_frame) = self.line_rate(frames.into(), 1);
        bits as f64 / bits_per_frame as f64
    }

    /// Returns the same in whole frames, rounded down as usual in this field, for one or for both
    /// directions together.
    pub fn line_rate_whole(self, frames: impl Into<MeanSize>, directions: Directions) -> u64 {
        let (bits, bits_per_frame) = self.line_rate(frames.into(), directions as u64);
        // a link of 10 Tbit/s carries fewer frames than u64 can count
        (bits / bits_per_frame) as u64
    }

    fn line_rate(self, frames: MeanSize, directions: u64) -> (u128, u128) {
        let bits = u128::from(self.0) * u128::from(directions) * u128::from(frames.frames);
        (bits, frames.l1_total() * 8)
    }

    /// Returns the number to print, and the prefix of its unit.
    fn scaled(self) -> (f64, &'static str) {
        let (divisor, prefix) = match self.0 {
            bps if bps >= 1_000_000_000_000 => (1e12, "T"),
            bps if bps >= 1_000_000_000 => (1e9, "G"),
            bps if bps >= 1_000_000 => (1e6, "M"),
            _ => (1e3, "k"),
        };
        (self.0 as f64 / divisor, prefix)
    }
}

/// The directions of a link that carry load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// One direction.
    One = 1,
    /// Both directions, counting the frames of both (full duplex).
    Both = 2,
}

impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, prefix) = self.scaled();
        write!(f, "{number}{prefix}")
    }
}

impl FromStr for LinkSpeed {
    type Err = UnitError;

    /// `10G`, `2.5G`, `100M`, `10Gbps`, `10Gbit/s`, `10GbE`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const RIGHT: &str = "for example 1G, 2.5G or 100M (bit/s on the wire)";
        let bad = |reason: &str| UnitError::new(text, "link speed", reason);
        let (number, unit) = decimal::split(text);
        let (exponent, unit) = match unit.chars().next() {
            Some('k' | 'K') => (3, &unit[1..]),
            Some('M' | 'm') => (6, &unit[1..]),
            Some('G' | 'g') => (9, &unit[1..]),
            Some('T' | 't') => (12, &unit[1..]),
            _ => return Err(bad(RIGHT)),
        };
        // 10GbE and 10GBE are names of links
        if let Some(reason) = bytes_or_bits(unit).filter(|_| !unit.eq_ignore_ascii_case("be")) {
            return Err(bad(reason));
        }
        if !["", "bps", "bit/s", "b/s", "be", "bps-l1"]
            .contains(&unit.to_ascii_lowercase().as_str())
        {
            return Err(bad(RIGHT));
        }
        let bps = decimal::parse(number, exponent).ok_or_else(|| bad(RIGHT))?;
        LinkSpeed::from_bps(bps).ok_or_else(|| bad("it must be 1k to 10T, in whole bit/s"))
    }
}

impl serde::Serialize for LinkSpeed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

typed!(LinkSpeed, Numbers::No, "the speed of a link, such as \"1G\"", {
    "description": "The speed of a link on the wire: \"1G\", \"2.5G\", \"100M\"",
    "type": "string"
});

/// The link of a measurement: in each direction no more than its line rate is offered, and loads in
/// percent refer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Its speed.
    pub speed: LinkSpeed,
    /// True for the link of a simulated tester. Otherwise it is emulated: the tester observes it on
    /// ports without a speed.
    pub simulated: bool,
}

impl Line {
    /// Returns an emulated link of this speed.
    pub const fn emulated(speed: LinkSpeed) -> Line {
        Line {
            speed,
            simulated: false,
        }
    }

    /// Returns the link of a simulated tester.
    pub const fn simulated(speed: LinkSpeed) -> Line {
        Line {
            speed,
            simulated: true,
        }
    }

    /// Returns the frames per second of the full line, one way.
    pub fn rate_pps(self, frames: impl Into<MeanSize>) -> f64 {
        self.speed.line_rate_pps(frames)
    }
}

/// `emulated link 1 Gbit/s`.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.simulated {
            "simulated"
        } else {
            "emulated"
        };
        let (number, prefix) = self.speed.scaled();
        write!(f, "{kind} link {number} {prefix}bit/s")
    }
}

/// A load for a link with a known speed: everything that [`Load`] accepts, and shares of the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkLoad {
    /// Percent of the line rate.
    Share(f64),
    /// An absolute load; [`Load::Max`] is the line rate.
    Load(Load),
}

impl LinkLoad {
    /// Returns the load in frames per second, one way.
    pub fn pps(self, frames: MeanSize, link: LinkSpeed) -> f64 {
        let line_rate = link.line_rate_pps(frames);
        match self {
            LinkLoad::Share(percent) => percent / 100.0 * line_rate,
            LinkLoad::Load(load) => load.pps(frames).unwrap_or(line_rate),
        }
    }

    /// Returns the load in frames per second for a measurement; `None` is the largest possible.
    /// `what` names it in errors.
    ///
    /// # Errors
    /// A share without a line, or more than the line carries.
    pub fn on_line(
        self,
        what: &str,
        frames: impl Into<MeanSize>,
        line: Option<Line>,
    ) -> Result<Option<f64>, String> {
        let frames = frames.into();
        let (load, line) = match (self, line) {
            (LinkLoad::Load(Load::Max), _) => return Ok(None),
            (LinkLoad::Load(load), None) => return Ok(load.pps(frames)),
            (LinkLoad::Share(_), None) => {
                return Err(format!(
                    "{what}: {self} needs a link speed, and these links are virtual: add --link 1G (in a campaign, link \
                     = \"1G\" in [bed]), or give a load such as 1Mpps"
                ));
            }
            (load, Some(line)) => (load, line),
        };
        let (pps, most) = (load.pps(frames, line.speed), line.rate_pps(frames));
        if pps > most * (1.0 + 1e-9) {
            return Err(format!(
                "{what}: {self} is more than the {line} carries: {most:.0} frames per second of {:.0} bytes",
                frames.bytes()
            ));
        }
        Ok(Some(pps.min(most)))
    }
}

impl fmt::Display for LinkLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkLoad::Share(percent) => write!(f, "{percent}%"),
            LinkLoad::Load(load) => load.fmt(f),
        }
    }
}

impl FromStr for LinkLoad {
    type Err = UnitError;

    /// `50%`, and everything that [`Load`] accepts: `max`, `14.88Mpps`, `10Gbps` (layer 1),
    /// `9.4Gbps-l2`, `5Gbps-l3`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let Some(share) = text.trim().strip_suffix('%') else {
            return Ok(LinkLoad::Load(text.parse()?));
        };
        match decimal::parse(share.trim_end(), 0) {
            Some(percent) if percent > 0.0 && percent <= 1000.0 => Ok(LinkLoad::Share(percent)),
            _ => Err(UnitError::new(
                text,
                "load",
                "a share of the line rate must be above 0% and at most 1000%",
            )),
        }
    }
}

/// A rate of frames on a link, one way, for conversions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateOnLink {
    /// Frames per second.
    pub pps: f64,
    /// The size of the frames.
    pub frames: MeanSize,
    /// The link.
    pub link: LinkSpeed,
}

impl RateOnLink {
    /// Converts a load to a rate.
    pub fn new(load: LinkLoad, frames: MeanSize, link: LinkSpeed) -> RateOnLink {
        RateOnLink {
            pps: load.pps(frames, link),
            frames,
            link,
        }
    }

    /// Returns the bits per second of one layer.
    pub fn bps(self, layer: Layer) -> f64 {
        self.frames.bps(layer, self.pps)
    }

    /// Returns the frames per second of the full link.
    pub fn line_rate_pps(self) -> f64 {
        self.link.line_rate_pps(self.frames)
    }

    /// Returns the percentage of the line: of its rate in frames or, equivalently, of its bits at
    /// layer 1.
    pub fn line_share_percent(self) -> f64 {
        100.0 * self.pps / self.line_rate_pps()
    }

    /// Returns true if the link cannot carry this. (A difference by rounding is ignored.)
    pub fn exceeds_line(self) -> bool {
        self.line_share_percent() > 100.0 * (1.0 + 1e-9)
    }

    /// Returns the nanoseconds from the start of a frame to the start of the next.
    pub fn interval_ns(self) -> f64 {
        1e9 / self.pps
    }

    /// Returns the same on the full link: the time one frame occupies the wire.
    pub fn line_interval_ns(self) -> f64 {
        1e9 / self.line_rate_pps()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: LinkSpeed = LinkSpeed::megabits(1_000);
    const TEN_GIGABIT: LinkSpeed = LinkSpeed::megabits(10_000);

    fn size(bytes: u64) -> MeanSize {
        MeanSize::new(bytes, 1).unwrap()
    }

    fn whole(link: LinkSpeed, bytes: u64) -> u64 {
        link.line_rate_whole(size(bytes), Directions::One)
    }

    fn rate(pps: f64, bytes: u64) -> RateOnLink {
        RateOnLink {
            pps,
            frames: size(bytes),
            link: TEN_GIGABIT,
        }
    }

    #[track_caller]
    fn near(value: f64, expect: f64, tolerance: f64) {
        assert!((value - expect).abs() <= tolerance, "{value}, not {expect}");
    }

    /// The table of line rates in every datasheet (docs/methodology.md, "Units and line rates").
    #[test]
    fn line_rates() {
        let links = ["1G", "2.5G", "10G", "25G", "40G", "100G"];
        #[rustfmt::skip]
        let table: [(u64, [u64; 6]); 8] = [
            (64, [1_488_095, 3_720_238, 14_880_952, 37_202_380, 59_523_809, 148_809_523]),
            (128, [844_594, 2_111_486, 8_445_945, 21_114_864, 33_783_783, 84_459_459]),
            (256, [452_898, 1_132_246, 4_528_985, 11_322_463, 18_115_942, 45_289_855]),
            (512, [234_962, 587_406, 2_349_624, 5_874_060, 9_398_496, 23_496_240]),
            (1024, [119_731, 299_329, 1_197_318, 2_993_295, 4_789_272, 11_973_180]),
            (1280, [96_153, 240_384, 961_538, 2_403_846, 3_846_153, 9_615_384]),
            (1518, [81_274, 203_185, 812_743, 2_031_859, 3_250_975, 8_127_438]),
            (9000, [13_858, 34_645, 138_580, 346_452, 554_323, 1_385_809]),
        ];
        for (bytes, rates) in table {
            for (link, pps) in links.into_iter().zip(rates) {
                assert_eq!(whole(link.parse().unwrap(), bytes), pps, "{bytes} {link}");
            }
        }
    }

    /// RFC 2544 App. B, Ethernet of 10 Mb/s.
    #[test]
    fn line_rates_of_rfc_2544() {
        let link = "10M".parse().unwrap();
        for (bytes, pps) in [
            (64, 14_880),
            (128, 8_445),
            (256, 4_528),
            (512, 2_349),
            (768, 1_586),
            (1024, 1_197),
            (1280, 961),
            (1518, 812),
        ] {
            assert_eq!(whole(link, bytes), pps, "{bytes}");
        }
    }

    /// Where talks and archives print different numbers.
    #[test]
    fn where_others_round() {
        // the archive's table prints 119732 among rounded-down numbers; the exact rate is closer to
        // that
        near(GIGABIT.line_rate_pps(size(1024)), 119_731.8, 0.05);
        near(GIGABIT.line_rate_pps(size(128)), 844_594.6, 0.05);
        near(GIGABIT.line_rate_pps(size(1518)), 81_274.4, 0.05);
        // rounded to the nearest these end in 810 and 524
        near(
            LinkSpeed::megabits(40_000).line_rate_pps(size(64)),
            59_523_809.5,
            0.05,
        );
        near(
            LinkSpeed::megabits(100_000).line_rate_pps(size(64)),
            148_809_523.8,
            0.05,
        );
        // 1514, which is claimed to include everything but the 20 bytes
        assert_eq!(whole(TEN_GIGABIT, 1514), 814_863);
        // 60/590/1514 with the weights 7:4:1, without the FCS: "3.31 M"
        let talk = MeanSize::new(7 * 60 + 4 * 590 + 1514, 12).unwrap();
        near(TEN_GIGABIT.line_rate_pps(talk), 3.31e6, 0.005e6);
        // both directions: 29.76 M; 97 % of it is 28.87 M, and the 28.3 M of the talk is 95 %
        let both = TEN_GIGABIT.line_rate_whole(size(64), Directions::Both);
        assert_eq!(both, 29_761_904);
        near(0.97 * both as f64, 28.87e6, 0.005e6);
        near(0.95 * both as f64, 28.3e6, 0.05e6);
        // 97 % of 1514 both ways
        let both = TEN_GIGABIT.line_rate_whole(size(1514), Directions::Both);
        near(0.97 * both as f64, 1.58e6, 0.005e6);
    }

    #[test]
    fn layers() {
        let full = rate(TEN_GIGABIT.line_rate_pps(size(64)), 64);
        near(full.bps(Layer::L1), 10e9, 1.0);
        near(full.bps(Layer::L2), 7.619e9, 5e5);
        near(full.bps(Layer::L3), 5.476e9, 5e5);
        near(full.line_interval_ns(), 67.2, 1e-9);
        // the overhead of 20 bytes on the smallest frame: 31.25 %
        assert_eq!(size(64).l1_bytes() / size(64).bytes(), 1.3125);
        assert_eq!(size(64).l3_bytes(), 46.0);
    }

    /// Results of a published review: L1 bit/s and share of 10G from frames per second.
    #[test]
    fn shares_of_the_line_as_published() {
        for (pps, l1_bps, percent) in [
            (622_980.0, 418.65e6, 4.19),
            (642_710.0, 431.90e6, 4.32),
            (5_010_000.0, 3.37e9, 33.67),
        ] {
            let rate = rate(pps, 64);
            // computed from rates with more digits than were printed
            near(rate.bps(Layer::L1) / l1_bps, 1.0, 1e-3);
            near(rate.line_share_percent(), percent, 0.0051);
        }
    }

    #[test]
    fn loads_on_a_link() {
        let check = |text: &str, pps: f64| {
            let load: LinkLoad = text.parse().unwrap();
            near(load.pps(size(64), TEN_GIGABIT), pps, 1e-6);
        };
        check("max", 1e10 / 672.0);
        check("100%", 1e10 / 672.0);
        check("50 %", 0.5e10 / 672.0);
        check("67.2%", 1e7);
        check("6.72Gbps", 1e7);
        check("5.12Gbps-l2", 1e7);
        check("3.68Gbps-l3", 1e7);
        check("14.88Mpps", 14_880_000.0);
        for text in [
            "0%", "%", "-5%", "1001%", "inf%", "nan%", "5e1%", "50", "line",
        ] {
            assert!(text.parse::<LinkLoad>().is_err(), "{text}");
        }
        assert!(!rate(1e10 / 672.0, 64).exceeds_line());
        assert!(rate(14_880_953.0, 64).exceeds_line());
    }

    #[test]
    fn loads_of_a_measurement() {
        let speed = |text: &str| -> LinkSpeed { text.parse().unwrap() };
        let on = |text: &str, line| {
            let load: LinkLoad = text.parse().unwrap();
            load.on_line("the load", size(64), line)
        };
        let gigabit = Some(Line::emulated(speed("1G")));
        // docs/methodology.md, "Units and line rates": 1,488,095.2 frames per second
        near(on("100%", gigabit).unwrap().unwrap(), 1e9 / 672.0, 1e-6);
        near(on("50%", gigabit).unwrap().unwrap(), 0.5e9 / 672.0, 1e-6);
        near(on("1Gbps", gigabit).unwrap().unwrap(), 1e9 / 672.0, 1e-6);
        assert_eq!(on("1488095pps", gigabit), Ok(Some(1_488_095.0)));
        assert_eq!(on("2Mpps", None), Ok(Some(2e6)));
        // the largest load that line and tester allow
        assert_eq!(on("max", gigabit), Ok(None));
        assert_eq!(on("max", None), Ok(None));
        let error = on("50%", None).unwrap_err();
        assert!(error.contains("the load: 50% needs a link speed") && error.contains("--link 1G"));
        for text in ["200%", "100.001%", "1488096pps", "1.1Gbps", "1Gbps-l2"] {
            let error = on(text, gigabit).unwrap_err();
            let words = "is more than the emulated link 1 Gbit/s carries: 1488095 frames per second of 64 bytes";
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(
            Line::simulated(speed("2.5G")).to_string(),
            "simulated link 2.5 Gbit/s"
        );
        assert_eq!(
            Line::emulated(speed("100M")).to_string(),
            "emulated link 100 Mbit/s"
        );
    }

    #[test]
    fn link_speeds() {
        for (text, bps) in [
            ("10G", 10_000_000_000),
            ("2.5G", 2_500_000_000),
            ("100 Mbit/s", 100_000_000),
            ("25GbE", 25_000_000_000),
            ("1gbps", 1_000_000_000),
            ("1.6T", 1_600_000_000_000),
            ("56k", 56_000),
        ] {
            assert_eq!(text.parse::<LinkSpeed>().unwrap().bps(), bps, "{text}");
        }
        for text in [
            "",
            "10",
            "G",
            "10Gbps-l2",
            "0G",
            "11T",
            "0.0000000001G",
            "1e1G",
            "-1G",
            "10G x",
            "1.5Mpps",
            "µG",
        ] {
            assert!(text.parse::<LinkSpeed>().is_err(), "{text}");
        }
    }

    #[test]
    fn frames_have_at_least_a_header() {
        assert_eq!(MeanSize::new(64, 0), None);
        assert_eq!(MeanSize::new(18, 1), None);
        assert_eq!(MeanSize::new(u64::MAX, u64::MAX), None);
    }

    proptest::proptest! {
        #[test]
        fn a_link_speed_reads_back_as_it_prints(bps in 1_000..=LinkSpeed::FASTEST_BPS) {
            let link = LinkSpeed(bps);
            proptest::prop_assert_eq!(link.to_string().parse::<LinkSpeed>().unwrap(), link);
        }

        #[test]
        fn a_share_reads_back_as_it_prints(percent in 0.001f64..1000.0) {
            let load = LinkLoad::Share(percent);
            proptest::prop_assert_eq!(load.to_string().parse::<LinkLoad>().unwrap(), load);
        }

        /// From frames to bits and back, at every layer.
        #[test]
        fn both_ways(pps in 1.0f64..1e12, bytes in 64u64..16_000, frames in 1u64..1_000) {
            let mean = MeanSize::new(bytes * frames + frames / 2, frames).unwrap();
            for layer in [Layer::L1, Layer::L2, Layer::L3] {
                let again = mean.pps(layer, mean.bps(layer, pps));
                proptest::prop_assert!((again / pps - 1.0).abs() < 1e-12);
            }
        }

        /// The whole rate is the exact one rounded down.
        #[test]
        fn whole_rates_are_rounded_down(bps in 1_000..=LinkSpeed::FASTEST_BPS, bytes in 64u64..16_000) {
            let link = LinkSpeed(bps);
            let pps = u128::from(whole(link, bytes));
            let bits = u128::from(bytes + 20) * 8;
            proptest::prop_assert!(pps * bits <= u128::from(bps) && u128::from(bps) < (pps + 1) * bits);
        }
    }
}
