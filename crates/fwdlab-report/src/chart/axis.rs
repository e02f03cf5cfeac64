//! An axis of a chart: the positions of values along it, and its tick labels.
//!
//! There is one constructor per kind of values; `scale` chooses the distance of ticks. Start with
//! [`Axis`].

use super::{Curve, Scale, values};
use crate::number::{
    Prefix, count, delay, difference, difference_tick, energy, percent, rate, seconds,
};

/// Smallest distance between the labels of frame sizes, in percent of the width.
const APART: f64 = 7.0;

/// Share of a logarithmic axis between zero and its smallest value, in percent.
pub(super) const LINEAR: f64 = 12.0;

/// The end of the title of an axis without zero.
const NOT_ZERO: &str = "; does not begin at zero";

/// The end of the title of a logarithmic axis.
const LOGARITHMIC: &str = ", logarithmic";

/// Width of a drawing on a narrow page, and of a character of a label, in pixels. Labels are at
/// least one character apart.
const NARROW: f64 = 360.0;
const CHARACTER: f64 = 6.5;

/// The kind of a value, which determines its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A rate, in frames per second.
    Rate,
    /// A share, in percent.
    Percent,
    /// A difference, in percent.
    Difference,
    /// A time in nanoseconds, shown in the unit that suits it.
    Delay,
    /// A short time, shown in nanoseconds.
    Nanoseconds,
    /// A number of frames.
    Frames,
    /// A number of bytes.
    Bytes,
    /// A time, in seconds.
    Seconds,
    /// An energy, in joules.
    Energy,
    /// A share of the frames as its number of nines: 1 is 90 %, 2 is 99 %.
    Nines,
    /// A plain number.
    Number,
}

impl Quantity {
    /// Returns the unit of plain values, as files show it next to them.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::Rate => "frames/s",
            Quantity::Percent | Quantity::Difference => "%",
            Quantity::Delay | Quantity::Nanoseconds => "ns",
            Quantity::Frames => "frames",
            Quantity::Bytes => "bytes",
            Quantity::Seconds => "s",
            Quantity::Energy => "J",
            Quantity::Nines => "nines",
            Quantity::Number => "",
        }
    }

    /// Formats a value.
    pub fn words(self, value: f64) -> String {
        match self {
            Quantity::Rate => rate(value),
            Quantity::Percent => percent(value),
            Quantity::Difference => format!("{} %", difference(value, None)),
            Quantity::Delay => delay(value),
            Quantity::Nanoseconds => format!("{value:.1} ns"),
            Quantity::Frames => format!("{value:.0} frames"),
            Quantity::Bytes => format!("{value:.0} B"),
            Quantity::Seconds => seconds(value),
            Quantity::Energy => energy(value),
            Quantity::Nines => {
                let percent = 100.0 - 100.0 * 0.1f64.powf(value);
                format!("{} %", short((percent * 1e6).round() / 1e6))
            }
            Quantity::Number => short(value),
        }
    }
}

/// The positions of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Places {
    /// Proportional to the value.
    Linear(Scale),
    /// Proportional to the logarithm of the value.
    Logarithmic {
        /// Smallest value above zero.
        low: f64,
        /// Largest value.
        high: f64,
        /// The axis begins at zero: from there to `low` it is linear.
        zero: bool,
    },
}

/// An axis with its title and its ticks.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The title, with the unit.
    pub title: String,
    /// The positions of values.
    pub places: Places,
    /// Values and their labels; a label may be empty.
    pub ticks: Vec<(f64, String)>,
    /// The kind of the values.
    pub quantity: Quantity,
}

impl Axis {
    /// Returns the title as it is printed: a logarithmic axis says so.
    pub fn heading(&self) -> String {
        match self.places {
            Places::Logarithmic { .. } => format!("{}{LOGARITHMIC}", self.title),
            _ => self.title.clone(),
        }
    }

    pub(crate) fn linear(title: &str, scale: Scale, number: impl Fn(f64) -> String) -> Axis {
        Axis {
            title: title.to_owned(),
            ticks: scale.ticks().map(|tick| (tick, number(tick))).collect(),
            places: Places::Linear(scale),
            quantity: Quantity::Number,
        }
    }

    /// Sets the kind of the values.
    pub(crate) fn reading(self, quantity: Quantity) -> Axis {
        Axis { quantity, ..self }
    }

    /// Removes labels that overlap on a narrow page: keeps all, every second, every third.
    pub(crate) fn with_room(mut self) -> Axis {
        let longest = self
            .ticks
            .iter()
            .map(|(_, number)| number.chars().count())
            .max();
        let wide = CHARACTER * (longest.unwrap_or(0) + 1) as f64;
        let apart = NARROW / self.ticks.len().saturating_sub(1).max(1) as f64;
        let every = (wide / apart).ceil().max(1.0) as usize;
        for (n, (_, number)) in self.ticks.iter_mut().enumerate() {
            if n % every != 0 {
                number.clear();
            }
        }
        self
    }

    /// An axis from 0 to 100 %, as RFC 2544 §26.3 requires.
    pub(crate) fn whole_percent(title: &str) -> Axis {
        Axis::linear(title, Scale::covering([0.0, 100.0], 10), |tick| {
            format!("{tick:.0}")
        })
        .reading(Quantity::Percent)
    }

    /// An axis of rates below rows; the title contains the unit.
    pub(crate) fn rates_along(title: &str, values: impl IntoIterator<Item = f64>) -> Axis {
        let scale = Scale::covering(values.into_iter().chain([0.0]), 6);
        Axis::of_rates(title, scale)
    }

    /// An axis of differences in percent, around zero. It ends at -100 %, the largest possible
    /// loss.
    pub(crate) fn differences(title: &str, values: impl IntoIterator<Item = f64>) -> Axis {
        let scale = Scale::covering(values.into_iter().chain([0.0]), 7).not_below(-100.0);
        Axis::linear(title, scale, |value| difference_tick(value, scale.step()))
            .reading(Quantity::Difference)
    }

    /// An axis of rates, from zero.
    pub(crate) fn rates(curves: &[Curve]) -> Axis {
        let scale = Scale::covering(values(curves).chain([0.0]), 5);
        Axis::of_rates("frames per second", scale)
    }

    /// A horizontal axis of loads, from zero.
    pub(crate) fn loads(title: &str, curves: &[Curve]) -> Axis {
        let points = curves.iter().flat_map(|curve| &curve.points);
        let scale = Scale::covering(points.map(|(load, _)| *load).chain([0.0]), 8);
        Axis::of_rates(title, scale)
    }

    /// An axis of rates that are close together; it does not begin at zero.
    pub(crate) fn close_rates(curves: &[Curve]) -> Axis {
        Axis::of_rates("frames per second", Scale::covering(values(curves), 5))
    }

    /// An axis of loads that are close together; it does not begin at zero.
    pub(crate) fn close_loads(title: &str, curves: &[Curve]) -> Axis {
        let points = curves.iter().flat_map(|curve| &curve.points);
        Axis::of_rates(title, Scale::covering(points.map(|(load, _)| *load), 8))
    }

    /// An axis of rates over this scale; the title contains the unit.
    pub(crate) fn of_rates(title: &str, scale: Scale) -> Axis {
        let prefix = Prefix::for_largest([scale.high()]);
        let from = if scale.low() > 0.0 { NOT_ZERO } else { "" };
        let title = format!("{title}, {}{from}", prefix.pps());
        Axis::linear(&title, scale, |tick| prefix.tick(tick, scale.step())).reading(Quantity::Rate)
    }

    /// An axis of shares in percent, from zero.
    pub(crate) fn percents(title: &str, curves: &[Curve]) -> Axis {
        let scale = Scale::covering(values(curves).chain([0.0]), 4);
        Axis::linear(title, scale, short).reading(Quantity::Percent)
    }

    /// An axis of plain numbers, from zero.
    pub(crate) fn numbers(title: &str, curves: &[Curve]) -> Axis {
        let scale = Scale::covering(values(curves).chain([0.0]), 5);
        Axis::linear(title, scale, short)
    }

    /// An axis of plain numbers that are close together; it does not begin at zero.
    pub(crate) fn close_numbers(title: &str, curves: &[Curve]) -> Axis {
        let scale = Scale::covering(values(curves), 5);
        let from = if scale.low() > 0.0 { NOT_ZERO } else { "" };
        Axis::linear(&format!("{title}{from}"), scale, short)
    }

    /// A logarithmic axis of times.
    pub(crate) fn delays(curves: &[Curve]) -> Axis {
        let number = |ns: f64| match ns == 0.0 {
            true => "0".into(),
            false => delay(ns).replace(".00", "").replace(".0 ", " "),
        };
        Axis::logarithmic("delay", curves, number).reading(Quantity::Delay)
    }

    /// A logarithmic axis of losses in percent: small losses decide a no-drop rate.
    pub(crate) fn losses(title: &str, curves: &[Curve]) -> Axis {
        Axis::logarithmic(title, curves, short).reading(Quantity::Percent)
    }

    /// A logarithmic axis of the values of curves. If any of them is zero, the axis begins at zero.
    fn logarithmic(title: &str, curves: &[Curve], number: impl Fn(f64) -> String) -> Axis {
        let all = || values(curves).filter(|value| *value > 0.0);
        let high = match all().fold(0.0, f64::max) {
            0.0 => 1.0,
            high => high,
        };
        let low = all().fold(high, f64::min);
        let (mut ticks, mut power) = (Vec::new(), 10f64.powf(low.log10().floor()));
        while power <= high * 10.0 {
            ticks.extend([1.0, 2.0, 5.0].map(|step| step * power));
            power *= 10.0;
        }
        let first = ticks.iter().rposition(|tick| *tick <= low).unwrap_or(0);
        let last = ticks.iter().position(|tick| *tick >= high * (1.0 - 1e-9));
        let last = last.unwrap_or(ticks.len() - 1).max(first + 1);
        let ticks = &ticks[first..=last];
        // over many powers of ten, only those are labelled
        let is_few = ticks.len() <= 7;
        let number = |tick: f64| match is_few || (tick.log10().fract().abs() < 1e-6) {
            true => number(tick),
            false => String::new(),
        };
        let zero = values(curves).any(|value| value <= 0.0);
        let of_zero = zero.then(|| (0.0, "0".to_owned()));
        let others = ticks.iter().map(|tick| (*tick, number(*tick)));
        Axis {
            title: title.to_owned(),
            places: Places::Logarithmic {
                low: ticks[0],
                high: ticks[ticks.len() - 1],
                zero,
            },
            ticks: of_zero.into_iter().chain(others).collect(),
            quantity: Quantity::Number,
        }
    }

    /// A logarithmic axis of the values of a parameter, which are its ticks.
    pub(crate) fn logarithmic_parameter(title: &str, curves: &[Curve]) -> Axis {
        let all: Vec<f64> = places(curves).map(|value| value.max(1.0)).collect();
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(low * 2.0, f64::max);
        let mut axis = Axis {
            title: title.to_owned(),
            places: Places::Logarithmic {
                low,
                high,
                zero: false,
            },
            ticks: Vec::new(),
            quantity: Quantity::Number,
        };
        axis.ticks = axis.ticks_at(all, |value| count(value as u64));
        axis
    }

    /// Returns a tick at each value; those that have no room have no label, but the largest and the
    /// smallest have one.
    fn ticks_at(&self, mut values: Vec<f64>, number: impl Fn(f64) -> String) -> Vec<(f64, String)> {
        values.sort_by(f64::total_cmp);
        values.dedup();
        let mut free = f64::INFINITY;
        let smallest = values.first().copied().unwrap_or_default();
        let ticks = values.into_iter().rev().map(|value| {
            let is_apart = self.percent(value) - self.percent(smallest) >= APART;
            let has_room = value == smallest || is_apart && free - self.percent(value) >= APART;
            if has_room {
                free = self.percent(value);
            }
            let number = if has_room {
                number(value)
            } else {
                String::new()
            };
            (value, number)
        });
        ticks.collect()
    }

    /// An axis of frame sizes from 0 to the largest, to scale: what grows with every byte is a
    /// straight line.
    pub(crate) fn sizes(curves: &[Curve]) -> Axis {
        let sizes: Vec<f64> = places(curves).collect();
        let scale = Scale::covering(sizes.iter().copied().chain([0.0]), 8);
        let mut axis = Axis {
            title: "frame size, bytes".into(),
            ticks: Vec::new(),
            places: Places::Linear(scale),
            quantity: Quantity::Bytes,
        };
        axis.ticks = axis.ticks_at(sizes, short);
        axis
    }

    /// An axis of the values of a parameter, from zero.
    pub(crate) fn parameter(title: &str, curves: &[Curve]) -> Axis {
        let points = curves.iter().flat_map(|curve| &curve.points);
        let all = points.map(|(value, _)| *value);
        // whole numbers: two cores have no eighths
        let most = all.clone().fold(1.0, f64::max).min(8.0);
        Axis::linear(
            title,
            Scale::covering(all.chain([0.0]), most as u32),
            |tick| count(tick as u64),
        )
    }

    /// An axis of successive runs, from the first to this one.
    pub(crate) fn runs(last: usize) -> Axis {
        let last = last as f64;
        let scale = Scale::covering([1.0, last], (last - 1.0).clamp(1.0, 8.0) as u32);
        Axis::linear("run", scale, |run| match run {
            0.0 => String::new(),
            _ => count(run as u64),
        })
    }

    /// An axis of percentiles on which every further nine has the same room.
    pub(crate) fn percentiles(curves: &[Curve]) -> Axis {
        let most = (places(curves).fold(1.0, f64::max) - 1e-9).ceil();
        let scale = Scale::covering([0.0, most], most as u32);
        Axis::linear("percentile", scale, |nines| Quantity::Nines.words(nines))
            .reading(Quantity::Nines)
    }

    /// An axis of the time since the start.
    pub(crate) fn time(curves: &[Curve]) -> Axis {
        let all = curves.iter().flat_map(|curve| &curve.points);
        let longest = all.map(|(s, _)| *s).fold(0.0, f64::max);
        let (unit, divisor) = match longest {
            s if s > 3.0 * 3600.0 => ("hours", 3600.0),
            s if s > 300.0 => ("minutes", 60.0),
            _ => ("seconds", 1.0),
        };
        let scale = Scale::covering([0.0, longest / divisor], 8);
        Axis {
            title: format!("time, {unit}"),
            ticks: scale.ticks().map(|t| (t * divisor, short(t))).collect(),
            places: Places::Linear(scale.times(divisor)),
            quantity: Quantity::Seconds,
        }
    }

    /// Returns the smallest and the largest value of the axis.
    pub(crate) fn ends(&self) -> (f64, f64) {
        match self.places {
            Places::Linear(scale) => (scale.low(), scale.high()),
            Places::Logarithmic {
                high, zero: true, ..
            } => (0.0, high),
            Places::Logarithmic { low, high, .. } => (low, high),
        }
    }

    /// Returns the position of a value, in percent from the left or from the bottom.
    pub(crate) fn percent(&self, value: f64) -> f64 {
        match &self.places {
            Places::Linear(scale) => scale.percent(value),
            Places::Logarithmic { low, high, zero } => {
                let from = if *zero { LINEAR } else { 0.0 };
                let percent = match value < *low {
                    true => from * value / low,
                    false => from + (100.0 - from) * (value / low).ln() / (high / low).ln(),
                };
                percent.clamp(0.0, 100.0)
            }
        }
    }
}

/// Returns the positions of all points and gaps.
pub(super) fn places(curves: &[Curve]) -> impl Iterator<Item = f64> {
    let of = |curve: &'_ Curve| {
        let points = curve.points.iter().map(|(at, _)| *at);
        points
            .chain(curve.gaps.iter().map(|(at, _)| *at))
            .collect::<Vec<_>>()
    };
    curves.iter().flat_map(of)
}

/// Formats a number without trailing zeros.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Vec<Curve> {
        vec![Curve::new("x", points.to_vec())]
    }

    #[test]
    fn a_logarithmic_axis_holds_the_values() {
        let check = |low: f64, high: f64, numbers: &[&str]| {
            let axis = Axis::delays(&curve(&[(1.0, low), (2.0, high)]));
            let reported = axis.ticks.iter().map(|(_, number)| number.as_str());
            assert_eq!(reported.collect::<Vec<_>>(), numbers);
            let (from, to) = (axis.percent(low), axis.percent(high));
            assert!((0.0..=100.0).contains(&from) && from < to && to <= 100.0);
        };
        check(23e3, 51e3, &["20 us", "50 us", "100 us"]);
        check(900.0, 1e3, &["500 ns", "1 us"]);
        check(
            20e3,
            1.05e6,
            &[
                "20 us", "50 us", "100 us", "200 us", "500 us", "1 ms", "2 ms",
            ],
        );
        let same = Axis::delays(&curve(&[(1.0, 15e3)]));
        assert_eq!(same.ticks.len(), 2);
        assert!(!Axis::delays(&curve(&[(1.0, 0.0)])).ticks.is_empty());
    }

    #[test]
    fn there_is_no_run_before_the_first() {
        let first = |last: usize| Axis::runs(last).ticks.swap_remove(0);
        assert_eq!(first(8), (1.0, "1".into()));
        assert_eq!(first(200), (0.0, String::new()));
    }

    #[test]
    fn every_nine_of_a_percentile_has_the_same_room() {
        let nines = [0.5, 0.9, 0.9999].map(|share: f64| (-(1.0 - share).log10(), 1.0));
        let axis = Axis::percentiles(&curve(&nines));
        let reported: Vec<&str> = axis.ticks.iter().map(|(_, words)| &words[..]).collect();
        assert_eq!(reported, ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
        assert_eq!(axis.quantity.words(nines[0].0), "50 %");
        assert_eq!(axis.percent(nines[2].0).round(), 100.0);
    }

    #[test]
    fn zero_has_a_place_of_its_own_on_a_logarithmic_axis() {
        let axis = Axis::losses("lost", &curve(&[(1.0, 0.0), (2.0, 0.0004), (3.0, 90.0)]));
        assert_eq!(axis.ticks[0], (0.0, "0".into()));
        let places = [0.0, 0.0002, 0.0004, 0.5, 90.0].map(|loss| axis.percent(loss));
        assert_eq!(places[..2], [0.0, LINEAR]);
        assert!(places.is_sorted_by(|a, b| a + 1.0 < *b), "{places:?}");
    }

    #[test]
    fn numbers_that_would_touch_on_a_narrow_page_are_left_out() {
        let reported = |number: &dyn Fn(f64) -> String| {
            let axis = Axis::linear("x", Scale::covering([0.0, 6.0], 6), number).with_room();
            axis.ticks
                .into_iter()
                .map(|(_, number)| number)
                .collect::<Vec<_>>()
        };
        // times of a few microseconds, in seconds
        assert_eq!(
            reported(&|tick| format!("{:.6} s", tick / 1e6)),
            [
                "0.000000 s",
                "",
                "0.000002 s",
                "",
                "0.000004 s",
                "",
                "0.000006 s"
            ]
        );
        assert_eq!(reported(&short), ["0", "1", "2", "3", "4", "5", "6"]);
        let long = reported(&|tick| format!("{tick:.20}"));
        assert_eq!(long.iter().filter(|number| !number.is_empty()).count(), 3);
    }

    #[test]
    fn sizes_lie_where_their_bytes_are_and_their_numbers_have_room() {
        let axis = Axis::sizes(&curve(&[
            (1518.0, 1.0),
            (66.0, 1.0),
            (64.0, 1.0),
            (128.0, 2.0),
        ]));
        let places = [64.0, 128.0, 1518.0].map(|size| axis.percent(size));
        assert_eq!(places.map(|place| place.round()), [4.0, 8.0, 95.0]);
        let reported: Vec<&str> = axis
            .ticks
            .iter()
            .map(|(_, reported)| reported.as_str())
            .collect();
        assert_eq!(reported, ["1518", "", "", "64"]);
    }
}
