//! Formats numbers for people: with a unit, and with the digits that their precision justifies.
//!
//! The other direction (text to numbers) is in `fwdlab_model::units`; JSON and CSV contain plain
//! numbers in base units and do not use this module. Start with [`rate`] and [`percent`].

use jiff::Timestamp;

/// Returns the number of decimals with which `value` has `significant` digits, at most `most`.
pub(crate) fn decimals(value: f64, significant: i32, most: i32) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let magnitude = value.abs().log10().floor() as i32;
    // 9.996 with three digits is 10.00: count the digits after rounding
    let step = 10f64.powi(magnitude - significant + 1);
    let magnitude = ((value.abs() / step).round() * step * (1.0 + 1e-12))
        .log10()
        .floor() as i32;
    (significant - 1 - magnitude).clamp(0, most) as usize
}

/// Formats `value` with this number of significant digits, never in exponent form.
fn significant(value: f64, digits: i32) -> String {
    format!("{value:.*}", decimals(value, digits, 9))
}

/// The common scale of a group of numbers: a power of 1000 and its letter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prefix {
    pub(crate) divisor: f64,
    letter: &'static str,
}

/// Shown instead of a figure whose interval includes zero.
pub(crate) const NOT_DETERMINED: &str = "not determined";

impl Prefix {
    /// Returns the prefix in which the largest of `values` has one to three digits before the
    /// point.
    pub fn for_largest(values: impl IntoIterator<Item = f64>) -> Prefix {
        let largest = values
            .into_iter()
            .filter(|value| value.is_finite())
            .fold(0.0f64, |largest, value| largest.max(value.abs()));
        let (divisor, letter) = match largest {
            // rounded to four digits, these would read 1000
            v if v >= 999.95e9 => (1e12, "T"),
            v if v >= 999.95e6 => (1e9, "G"),
            v if v >= 999.95e3 => (1e6, "M"),
            v if v >= 999.95 => (1e3, "k"),
            _ => (1.0, ""),
        };
        Prefix { divisor, letter }
    }

    /// Returns the unit: `Mpps`.
    pub fn pps(self) -> String {
        format!("{}pps", self.letter)
    }

    /// Formats the number alone, with four significant digits: `598.1`.
    pub fn number(self, value: f64) -> String {
        significant(value / self.divisor, 4)
    }

    /// Formats a tick label for an axis with ticks `step` apart, without digits it does not need:
    /// `0.5`.
    pub fn tick(self, value: f64, step: f64) -> String {
        let places = decimals(step / self.divisor, 1, 9);
        format!("{:.places$}", value / self.divisor)
    }

    /// Formats a rate: `598.1 kpps`.
    pub fn rate(self, pps: f64) -> String {
        let prefix = self.suits(pps);
        format!("{} {}", prefix.number(pps), prefix.pps())
    }

    /// Returns this prefix, or the value's own if this one would show only zeros.
    fn suits(self, value: f64) -> Prefix {
        if value.abs() < self.divisor / 100.0 {
            Prefix::for_largest([value])
        } else {
            self
        }
    }

    /// Formats a rate with half of its interval, which determines the digits: `598.1 ± 4.2 kpps`.
    /// Returns [`NOT_DETERMINED`] if the interval includes zero.
    pub fn rate_with_interval(self, pps: f64, half_width_pps: f64) -> String {
        if pps > 0.0 && half_width_pps >= pps {
            return NOT_DETERMINED.into();
        }
        let prefix = self.suits(pps);
        let (value, half) = (pps / prefix.divisor, half_width_pps / prefix.divisor);
        // two digits of the interval, but at most six of the value
        let most = decimals(value, 6, 9) as i32;
        if half == 0.0 {
            // identical values do not determine the digits
            return format!("{} ± 0 {}", prefix.number(pps), prefix.pps());
        }
        let places = decimals(half, 2, most);
        format!("{value:.places$} ± {half:.places$} {}", prefix.pps())
    }
}

/// Formats a rate with the prefix that suits it: `1.234 Mpps`.
pub fn rate(pps: f64) -> String {
    Prefix::for_largest([pps]).rate(pps)
}

/// Formats a rate with half of its interval, if it has one: `598.1 ± 4.2 kpps`.
pub fn rate_with_interval(pps: f64, half_width_pps: Option<f64>) -> String {
    let prefix = Prefix::for_largest([pps]);
    match half_width_pps {
        Some(half) => prefix.rate_with_interval(pps, half),
        None => prefix.rate(pps),
    }
}

/// Formats bits per second: `1.731 Gbit/s`. The caller adds the layer.
pub fn bits_per_second(bps: f64) -> String {
    let prefix = Prefix::for_largest([bps]);
    format!("{} {}bit/s", prefix.number(bps), prefix.letter)
}

/// Formats a share in percent: `2.3 %`, `0.081 %`, `0 %`, `50.0 %`, `100 %`. A share that is
/// not exactly 0 or 100 % is never rounded to it: a frame in a million is visible.
pub fn percent(value: f64) -> String {
    let size = value.abs();
    let sign = if value < 0.0 { "-" } else { "" };
    let left = 100.0 - size;
    if size == 0.0 {
        "0 %".into()
    } else if size < 0.000_05 {
        format!("<{sign}0.0001 %")
    } else if size < 0.1 {
        format!("{sign}{size:.*} %", decimals(size, 2, 4))
    } else if left == 0.0 {
        format!("{sign}100 %")
    } else if left > 0.0 && left < 0.000_05 {
        format!(">{sign}99.9999 %")
    } else if left > 0.0 && left < 0.05 {
        format!("{sign}{size:.*} %", decimals(left, 1, 5))
    } else if size < 1000.0 {
        format!("{sign}{size:.1} %")
    } else {
        format!("{sign}{size:.0} %")
    }
}

/// Returns `part` of `whole` in percent; 0 if `whole` is 0.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 {
        0.0
    } else {
        100.0 * part / whole
    }
}

/// Formats a difference in percent with its sign and the digits that its interval justifies,
/// without the unit: `-2.1`.
pub fn difference(value_percent: f64, interval_percent: Option<[f64; 2]>) -> String {
    let half = match interval_percent {
        Some([low, high]) => (high - low).abs() / 2.0,
        None => value_percent.abs() / 10.0,
    };
    let places = match half {
        h if h >= 20.0 => 0,
        h if h >= 0.2 => 1,
        h if h >= 0.02 => 2,
        _ => 3,
    };
    let text = format!("{value_percent:+.places$}");
    // a value that rounds to zero has no sign
    if text[1..].chars().all(|c| matches!(c, '0' | '.')) {
        text[1..].to_owned()
    } else {
        text
    }
}

/// Formats the smallest difference that would show, in percent without the unit: rounded up,
/// because a smaller one would not.
pub(crate) fn detectable(percent: f64) -> String {
    let nearest = difference(percent, None);
    let places = nearest
        .split_once('.')
        .map_or(0, |(_, places)| places.len());
    let unit = 10f64.powi(places as i32);
    // what is exact in decimals is not rounded
    let up = (percent * unit * (1.0 - 1e-12)).ceil() / unit;
    format!("{up:.places$}")
}

/// Formats a tick label of a difference in percent: a sign, and the digits of `step`: `-40`,
/// `+0.5`.
pub(crate) fn difference_tick(value_percent: f64, step: f64) -> String {
    let places = decimals(step, 1, 9);
    if value_percent == 0.0 {
        "0".into()
    } else {
        format!("{value_percent:+.places$}")
    }
}

/// Describes the smallest difference that a comparison would have detected. A drop ends at 100 %: a
/// difference of ratios (`by_ratios`) is larger upwards than downwards, and a difference of means
/// may be too large for any drop to show.
pub(crate) fn would_have_shown(detectable_percent: f64, by_ratios: bool) -> String {
    /// Up to this difference, in percent, both directions are the same to two digits.
    const SAME_BOTH_WAYS: f64 = 20.0;
    let shown = |percent| format!("{} %", detectable(percent));
    match () {
        () if by_ratios && detectable_percent > SAME_BOTH_WAYS => {
            let drop = 100.0 * detectable_percent / (100.0 + detectable_percent);
            let rise = shown(detectable_percent);
            format!(
                "a drop of {} or a rise of {rise} would have shown",
                shown(drop)
            )
        }
        () if detectable_percent < 100.0 => {
            let least = shown(detectable_percent);
            format!("a difference of {least} or more would have shown")
        }
        () => "not even a drop to zero would have shown".into(),
    }
}

/// Formats the interval of a difference in percent, without the unit: `[-2.6, -1.6]`.
pub fn interval(interval_percent: [f64; 2]) -> String {
    let [low, high] = interval_percent;
    let end = |value| difference(value, Some(interval_percent));
    format!("[{}, {}]", end(low), end(high))
}

/// Formats a count with thousands separators: `1,203,877`.
pub fn count(number: impl Into<i128>) -> String {
    let number = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 frame`, `2,000 frames`.
pub fn counted(number: impl Into<i128>, noun: &str) -> String {
    let number = number.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Formats a p-value: `0.012`, `<0.001`.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "<0.001".into()
    } else {
        format!("{p:.3}")
    }
}

/// Formats a duration: `26 ms`, `1.5 s`, `2 min 05 s`, `1 h 12 min`.
pub fn seconds(s: f64) -> String {
    let whole = s.round() as u64;
    if s < 0.9995 {
        format!("{} ms", significant(s * 1e3, 3))
    } else if s < 59.95 {
        let text = format!("{s:.1}");
        format!("{} s", text.strip_suffix(".0").unwrap_or(&text))
    } else if whole < 3600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        format!("{} h {:02} min", whole / 3600, whole % 3600 / 60)
    }
}

/// Formats an energy: `1.26 uJ`, `15.0 nJ`.
pub fn energy(joules: f64) -> String {
    let (unit, per) = match joules.abs() {
        j if j >= 0.9995 => ("J", 1.0),
        j if j >= 0.9995e-3 => ("mJ", 1e3),
        j if j >= 0.9995e-6 => ("uJ", 1e6),
        _ => ("nJ", 1e9),
    };
    format!("{} {unit}", significant(joules * per, 3))
}

/// Formats a power: `19.0 W`.
pub fn watts(watts: f64) -> String {
    format!("{} W", significant(watts, 3))
}

/// Formats the expected duration of a run: `about 26 s`, or that it is a guess. A run without
/// traffic takes only as long as its computation.
pub fn estimate(s: f64, guessed: bool) -> String {
    match guessed {
        _ if s <= 0.0 => "simulated".into(),
        false => format!("about {}", seconds(s)),
        true => format!(
            "a guess of {}, because the rate of the DUT is not known yet",
            seconds(s)
        ),
    }
}

/// Returns the unit for times up to `largest_ns`, and its length in nanoseconds.
fn unit_of(largest_ns: f64) -> (&'static str, f64) {
    match largest_ns {
        ns if ns >= 0.9995e9 => ("s", 1e9),
        ns if ns >= 0.9995e6 => ("ms", 1e6),
        ns if ns >= 999.5 => ("us", 1e3),
        _ => ("ns", 1.0),
    }
}

/// Formats a short time: `887 ns`, `23.5 us`, `1.02 ms`.
pub fn delay(ns: f64) -> String {
    let (unit, divisor) = unit_of(ns);
    match unit {
        "ns" => format!("{ns:.0} ns"),
        _ => format!("{} {unit}", significant(ns / divisor, 3)),
    }
}

/// Formats a time and its interval in one unit: `23.46 [23.16, 23.91] us`.
pub(crate) fn delays(ns: [f64; 3]) -> String {
    let largest = ns.into_iter().fold(0.0, f64::max);
    let (unit, divisor) = unit_of(largest);
    let places = match unit {
        "ns" => 0,
        _ => decimals(largest / divisor, 4, 3),
    };
    let [middle, low, high] = ns.map(|ns| format!("{:.places$}", ns / divisor));
    format!("{middle} [{low}, {high}] {unit}")
}

/// Returns the smallest number of the series 1, 2, 5, 10, ... that is not below `value`.
pub(crate) fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|step| step * power >= value * (1.0 - 1e-9))
        .unwrap_or(10.0);
    // convert through text, so that 0.30000000000000004 becomes 0.3
    format!("{:.9}", step * power).parse().unwrap_or(value)
}

/// Formats a memory size: `7.8 GiB`.
pub fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    let places = usize::from(unit != "B");
    format!("{value:.places$} {unit}")
}

/// Formats a time in UTC: `2026-11-21 08:50:12 UTC`. Returns text that is not an RFC 3339 time
/// unchanged.
pub fn time(rfc3339: &str) -> String {
    match rfc3339.parse::<Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => rfc3339.to_owned(),
    }
}

/// Formats the time of day: `08:50:12`.
pub(crate) fn clock(rfc3339: &str) -> String {
    match rfc3339.parse::<Timestamp>() {
        Ok(time) => time.strftime("%H:%M:%S").to_string(),
        Err(_) => rfc3339.to_owned(),
    }
}

/// Returns the seconds between two RFC 3339 times; `None` if either is not such a time.
pub(crate) fn elapsed(from: &str, to: &str) -> Option<f64> {
    let (from, to): (Timestamp, Timestamp) = (from.parse().ok()?, to.parse().ok()?);
    Some(to.duration_since(from).as_secs_f64())
}

/// Formats a number with its noun: `1 trial`, `2 trials`.
pub fn plural(number: usize, what: &str) -> String {
    counted(number as u64, what)
}

/// Formats a number of flows: `1 flow`, `2,000 flows`.
pub(crate) fn flows(flows: u32) -> String {
    counted(flows, "flow")
}

/// Formats instructions per frame: `4,799.9`.
pub(crate) fn instructions(value: f64) -> String {
    let tenths = (value * 10.0).round() as i128;
    let (whole, tenth) = (tenths.abs() / 10, tenths.abs() % 10);
    let sign = if tenths < 0 { "-" } else { "" };
    format!("{sign}{}.{tenth}", count(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_run_takes_no_time_of_traffic() {
        assert!(estimate(26.2, false).starts_with("about 26"));
        assert_eq!(estimate(0.0, false), "simulated");
    }

    #[test]
    fn rates() {
        for (pps, text) in [
            (0.0, "0 pps"),
            (7.0, "7.000 pps"),
            (598_123.0, "598.1 kpps"),
            (999_940.0, "999.9 kpps"),
            (999_960.0, "1.000 Mpps"),
            (1_234_000.0, "1.234 Mpps"),
            (14_880_952.0, "14.88 Mpps"),
            (1.5e9, "1.500 Gpps"),
        ] {
            assert_eq!(rate(pps), text);
        }
        assert_eq!(bits_per_second(1.7312e9), "1.731 Gbit/s");
    }

    #[test]
    fn the_interval_decides_the_digits() {
        for (pps, half, text) in [
            (598_123.0, Some(4_211.0), "598.1 ± 4.2 kpps"),
            (598_123.0, Some(42_110.0), "598 ± 42 kpps"),
            (598_123.0, Some(99.6), "598.12 ± 0.10 kpps"),
            (1_234_567.0, Some(4_211.0), "1.2346 ± 0.0042 Mpps"),
            (1_234_567.0, Some(0.2), "1.23457 ± 0.00000 Mpps"),
            (598_123.0, Some(0.0), "598.1 ± 0 kpps"),
            (1_202_000.0, Some(0.0), "1.202 ± 0 Mpps"),
            (598_123.0, Some(590_000.0), "598 ± 590 kpps"),
            // no rate is negative, and one whose interval includes zero is not determined
            (303_000.0, Some(497_000.0), NOT_DETERMINED),
            (598_123.0, None, "598.1 kpps"),
        ] {
            assert_eq!(rate_with_interval(pps, half), text);
        }
    }

    #[test]
    fn shares() {
        for (value, text) in [
            (0.0, "0 %"),
            (0.000_01, "<0.0001 %"),
            (0.001_2, "0.0012 %"),
            (50.0, "50.0 %"),
            (0.081, "0.081 %"),
            (0.099_9, "0.10 %"),
            (2.34, "2.3 %"),
            (27.94, "27.9 %"),
            (99.94, "99.9 %"),
            (99.97, "99.97 %"),
            (99.999_9, "99.9999 %"),
            (99.999_96, ">99.9999 %"),
            (100.0, "100 %"),
            (101.0, "101.0 %"),
            (-2.3, "-2.3 %"),
            (12_345.6, "12346 %"),
        ] {
            assert_eq!(percent(value), text);
        }
    }

    #[test]
    fn differences() {
        let check = |value, ends: Option<[f64; 2]>, text: &str| {
            assert_eq!(difference(value, ends), text);
        };
        check(-2.13, Some([-2.6, -1.6]), "-2.1");
        check(0.2, Some([-0.6, 1.0]), "+0.2");
        check(0.01, Some([-0.6, 0.6]), "0.0");
        check(-0.01, Some([-0.6, 0.6]), "0.0");
        check(-27.94, Some([-28.0, -27.9]), "-27.94");
        check(-50.0, Some([-90.0, 10.0]), "-50");
        check(-2.13, None, "-2.1");
        assert_eq!(interval([-2.61, -1.58]), "[-2.6, -1.6]");
        assert_eq!(interval([-0.03, 0.9]), "[0.0, +0.9]");
    }

    #[test]
    fn what_would_show_is_rounded_up() {
        for (percent, text) in [
            (0.25, "0.25"),
            (0.251, "0.26"),
            (2.11, "2.2"),
            (2.1, "2.1"),
            (161.21, "161.3"),
        ] {
            assert_eq!(detectable(percent), text);
        }
    }

    #[test]
    fn a_drop_that_would_have_shown_ends_at_100_percent() {
        for (percent, by_ratios, text) in [
            (2.1, true, "a difference of 2.1 % or more would have shown"),
            (
                54.2,
                false,
                "a difference of 54.2 % or more would have shown",
            ),
            (
                161.2,
                true,
                "a drop of 61.8 % or a rise of 161.2 % would have shown",
            ),
            (161.2, false, "not even a drop to zero would have shown"),
        ] {
            assert_eq!(would_have_shown(percent, by_ratios), text);
        }
    }

    #[test]
    fn counts_times_and_the_rest() {
        assert_eq!(count(0u64), "0");
        assert_eq!(count(999u64), "999");
        assert_eq!(count(1_203_877u64), "1,203,877");
        assert_eq!(count(-1_000i64), "-1,000");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        for (s, text) in [
            (0.026, "26.0 ms"),
            (1.0, "1 s"),
            (1.5, "1.5 s"),
            (59.99, "1 min 00 s"),
            (125.0, "2 min 05 s"),
            (4320.0, "1 h 12 min"),
        ] {
            assert_eq!(seconds(s), text);
        }
        for (ns, text) in [
            (0.0, "0 ns"),
            (887.0, "887 ns"),
            (999.6, "1.00 us"),
            (23_457.0, "23.5 us"),
            (1.023e6, "1.02 ms"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(delay(ns), text);
        }
        assert_eq!(delays([501.0, 7.0, 600.0]), "501 [7, 600] ns");
        assert_eq!(
            delays([23_457.0, 23_160.0, 1.024e6]),
            "0.023 [0.023, 1.024] ms"
        );
        assert_eq!(p_value(0.0004), "<0.001");
        assert_eq!(p_value(0.0116), "0.012");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(8_323_072_000), "7.8 GiB");
        assert_eq!(time("2026-11-21T08:50:12.5Z"), "2026-11-21 08:50:12 UTC");
        assert_eq!(time("yesterday"), "yesterday");
        assert_eq!(clock("2026-11-21T08:50:12.5Z"), "08:50:12");
        assert_eq!(
            elapsed("2026-11-21T08:50:12Z", "2026-11-21T08:51:12Z"),
            Some(60.0)
        );
    }

    #[test]
    fn scales_are_1_2_5() {
        for (value, expect) in [
            (0.7, 1.0),
            (1.0, 1.0),
            (1.01, 2.0),
            (3.0, 5.0),
            (0.03, 0.05),
            (60.0, 100.0),
            (0.3, 0.5),
        ] {
            assert_eq!(round_up(value), expect, "{value}");
        }
    }

    #[test]
    fn ticks_show_no_digit_too_many() {
        let mega = Prefix::for_largest([2.0e6]);
        assert_eq!(mega.tick(1.5e6, 0.5e6), "1.5");
        assert_eq!(mega.tick(1.0e6, 1.0e6), "1");
        assert_eq!(Prefix::for_largest([800e3]).tick(200e3, 200e3), "200");
        assert_eq!(difference_tick(-40.0, 10.0), "-40");
        assert_eq!(difference_tick(0.4, 0.2), "+0.4");
        assert_eq!(difference_tick(0.0, 0.2), "0");
        assert_eq!(mega.rate(598_123.0), "0.5981 Mpps");
        assert_eq!(mega.rate(5_981.0), "5.981 kpps");
        assert_eq!(mega.rate(0.0), "0 pps");
    }
}
