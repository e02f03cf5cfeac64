//! `-m` of the console: a load in the units of the TRex console. They differ from ours in one
//! important point: bits per second without a layer count at layer 2.
//!
//! Arithmetic only. Start with [`Multiplier`].

use std::str::FromStr;

use fwdlab_model::link::{Layer, LinkSpeed, MeanSize};
use fwdlab_model::units::bytes_or_bits;

/// A load, or a change of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Multiplier {
    value: f64,
    unit: Unit,
    change: Option<Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Multiple of the profile's own load.
    Times,
    /// Percent of the line rate.
    Percent,
    Frames,
    Bits(Layer),
}

/// `10%+` and `10%-`; valid only for `update`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    More,
    Less,
}

/// The quantities that a multiplier refers to.
#[derive(Debug, Clone, Copy)]
pub struct MultiplierBase {
    pub mean: MeanSize,
    /// Line rate of the port, if known.
    pub link: Option<LinkSpeed>,
    /// Load in the profile, if any.
    pub own_pps: Option<f64>,
    /// Current load, if the port sends.
    pub now_pps: Option<f64>,
}

impl Multiplier {
    /// The load in the profile.
    pub const OWN: Multiplier = Multiplier {
        value: 1.0,
        unit: Unit::Times,
        change: None,
    };

    /// Divides the load evenly among several ports.
    pub fn shared(self, ports: usize) -> Multiplier {
        Multiplier {
            value: self.value / ports.max(1) as f64,
            ..self
        }
    }

    /// Returns true if this changes the current load.
    pub fn is_change(self) -> bool {
        self.change.is_some()
    }

    /// Returns the load in frames per second, at most the line rate.
    pub fn pps(self, of: &MultiplierBase) -> Result<f64, String> {
        let by = match self.unit {
            Unit::Frames => self.value,
            Unit::Bits(layer) => of.mean.pps(layer, self.value),
            Unit::Percent => {
                let link = of.link.ok_or(
                    "a percentage needs the speed of the link, and this port is virtual: start the console with --link 1G, or give \
                     a load such as 10kpps",
                )?;
                link.line_rate_pps(of.mean) * self.value / 100.0
            }
            Unit::Times => {
                let base = match self.change {
                    Some(_) => of.now_pps,
                    None => of.own_pps,
                };
                let base = base.ok_or(
                    "there is no load: give one, such as -m 10kpps (a factor, such as -m 2, multiplies the load of the profile, and this one has none)",
                )?;
                base * self.value
            }
        };
        let now = of.now_pps.unwrap_or(0.0);
        let pps = match self.change {
            None => by,
            Some(Change::More) => now + by,
            Some(Change::Less) => now - by,
        };
        let most = of
            .link
            .map_or(f64::INFINITY, |link| link.line_rate_pps(of.mean));
        match pps > 0.0 {
            true => Ok(pps.min(most)),
            false => Err("the load must be above 0: `pause` and `stop` end it".into()),
        }
    }
}

impl FromStr for Multiplier {
    type Err = String;

    /// Parses `10mpps`, `5%`, `1gbps` (layer 2), `1gbpsl1`, `2` (times the profile's own load),
    /// `10%+` or `1kpps-`.
    fn from_str(text: &str) -> Result<Multiplier, String> {
        let wrong = || {
            format!(
                "`{text}` is not a load: for example 10kpps, 1mpps, 20%, 1gbps (layer 2), 1gbpsl1, or 2 for twice the profile's own; of update also 10%+ and 10%-"
            )
        };
        if let Some(reason) = bytes_or_bits(text) {
            return Err(format!("`{text}` is not a load: {reason}"));
        }
        let typed = text.trim().to_ascii_lowercase();
        let (typed, change) = match typed.strip_suffix('+') {
            Some(rest) => (rest, Some(Change::More)),
            None => match typed.strip_suffix('-') {
                Some(rest) => (rest, Some(Change::Less)),
                None => (typed.as_str(), None),
            },
        };
        let digits = typed.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let (number, unit) = typed.split_at(digits.unwrap_or(typed.len()));
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let scaled = |unit: &str, bare: &str| {
            let prefix = unit.strip_suffix(bare)?;
            [("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9)]
                .into_iter()
                .find_map(|(name, factor)| (name == prefix).then_some(number * factor))
        };
        let kinds = [
            ("pps", Unit::Frames),
            ("bpsl1", Unit::Bits(Layer::L1)),
            ("bps-l1", Unit::Bits(Layer::L1)),
            ("bps-l2", Unit::Bits(Layer::L2)),
            ("bps", Unit::Bits(Layer::L2)),
            ("%", Unit::Percent),
        ];
        let (value, unit) = match unit.trim() {
            "" => (number, Unit::Times),
            unit => (kinds.into_iter())
                .find_map(|(bare, kind)| Some((scaled(unit, bare)?, kind)))
                .ok_or_else(wrong)?,
        };
        let is_right = value > 0.0 && value <= 1e12 && (unit != Unit::Percent || value <= 100.0);
        match is_right {
            true => Ok(Multiplier {
                value,
                unit,
                change,
            }),
            false => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pps(text: &str, of: &MultiplierBase) -> Result<f64, String> {
        text.parse::<Multiplier>()?.pps(of)
    }

    #[test]
    fn units_are_those_of_trex() {
        let of = MultiplierBase {
            mean: MeanSize::new(64, 1).unwrap(),
            link: Some(LinkSpeed::megabits(1000)),
            own_pps: Some(1000.0),
            now_pps: Some(500.0),
        };
        for (text, expected) in [
            ("10kpps", 1e4),
            ("0.5mpps", 5e5),
            ("5%", 1e9 / 672.0 * 0.05),
            ("100%", 1e9 / 672.0),
            // without a layer: layer 2
            ("5.12mbps", 1e4),
            ("6.72mbpsl1", 1e4),
            ("2", 2000.0),
            ("1kpps+", 1500.0),
            ("100pps-", 400.0),
            ("0.5-", 250.0),
            // limited to the line rate
            ("10gbps", 1e9 / 672.0),
        ] {
            let found = pps(text, &of).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-9, "{text}: {found}");
        }
    }

    #[test]
    fn impossible_commands_are_reported() {
        let of = MultiplierBase {
            mean: MeanSize::new(64, 1).unwrap(),
            link: None,
            own_pps: None,
            now_pps: Some(500.0),
        };
        for (text, words) in [
            ("", "10kpps"),
            ("fast", "10kpps"),
            ("0pps", "10kpps"),
            ("1e9pps", "10kpps"),
            ("101%", "10kpps"),
            ("5%", "--link 1G"),
            ("2", "-m 10kpps"),
            ("1kpps-", "above 0"),
        ] {
            let error = pps(text, &of).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
