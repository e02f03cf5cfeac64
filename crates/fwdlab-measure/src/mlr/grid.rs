//! The loads of a search: integers on a logarithmic scale, fine enough for the narrowest goal.

/// Rounds downwards in the width of every goal, but loses no more than 1 % of it.
const ROUNDING: (f64, f64) = (0.99, 0.999_999);

/// Maximum number of loads in a grid: with more, the goal's width is absurd.
const MOST_STEPS: f64 = 1e8;

/// Loads from the smallest (index 0) to the largest.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    min: f64,
    max: f64,
    last: u32,
}

impl Grid {
    /// Returns the coarsest grid whose steps fit into every width without wasting more than 1 % of
    /// it.
    pub(super) fn new(min: f64, max: f64, widths: &[f64]) -> Result<Grid, String> {
        let span = (max / min).ln();
        let steps_of = |width: f64, n: f64| -(1.0 - width).ln() / (span / n);
        let mut n: f64 = 1.0;
        loop {
            let mut next: Option<f64> = None;
            for &width in widths {
                let u = steps_of(width, n);
                let used = u.floor() / u;
                if !(ROUNDING.0..=ROUNDING.1).contains(&used) {
                    let requested = (u.floor() + 1.0) / ROUNDING.1 / u * n;
                    next = Some(next.unwrap_or(n + 1.0).max(requested));
                }
            }
            let Some(requested) = next else {
                return Ok(Grid {
                    min,
                    max,
                    last: n as u32,
                });
            };
            n = requested.ceil();
            if n > MOST_STEPS {
                return Err(format!(
                    "no grid between {min} and {max} frames per second fits the widths {widths:?}"
                ));
            }
        }
    }

    /// Returns the index of the largest load.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Returns the load in frames per second; indices beyond the largest load return the largest.
    pub fn load(&self, index: u32) -> f64 {
        if index == 0 {
            self.min
        } else if index >= self.last {
            self.max
        } else {
            self.min * (self.max / self.min).powf(f64::from(index) / f64::from(self.last))
        }
    }

    /// Returns the index of the largest load that is no larger than this; the smallest if none is.
    pub fn floor(&self, pps: f64) -> u32 {
        if pps <= self.min || pps.is_nan() {
            return 0;
        }
        if pps >= self.max {
            return self.last;
        }
        let guess = (pps / self.min).ln() / (self.max / self.min).ln() * f64::from(self.last);
        let mut index = guess as u32;
        while index > 0 && self.load(index) > pps {
            index -= 1;
        }
        while index < self.last && self.load(index + 1) <= pps {
            index += 1;
        }
        index
    }

    /// Converts a relative width to whole steps.
    pub(super) fn width(&self, width: f64) -> u32 {
        let step = (self.max / self.min).ln() / f64::from(self.last);
        (-(1.0 - width).ln() / step) as u32
    }
}

/// Returns a load between two others that leaves one side a power of two of `width`, if possible.
/// Needs `high - low > width`.
pub(super) fn middle(low: u32, high: u32, width: u32) -> u32 {
    let distance = high - low;
    let double = 2 * u64::from(width);
    if u64::from(distance) == double {
        return low + width;
    }
    if u64::from(distance) < double {
        return if width.is_multiple_of(2) && distance > width / 2 {
            middle(low, high, width / 2)
        } else {
            low + distance / 2
        };
    }
    let (mut small, mut large) = (width, distance - width);
    let (doubled, rest) = loop {
        let doubled = small.saturating_mul(2);
        let rest = distance.saturating_sub(doubled);
        if rest <= doubled {
            break (doubled, rest);
        }
        (small, large) = (doubled, rest);
    };
    if u64::from(small) * u64::from(large) > u64::from(doubled) * u64::from(rest) {
        low + small
    } else {
        low + rest
    }
}

/// Moves a load far enough from the known bounds that its trial adds information; `None` if there
/// is no such load.
pub(super) fn limit(
    load: u32,
    width: u32,
    lower: Option<u32>,
    upper: Option<u32>,
    last: u32,
) -> Option<u32> {
    let load = load.min(last);
    match (lower, upper) {
        (None, None) => adjust(load, width, (0, true), (last, true)),
        (None, Some(upper)) => {
            if upper == 0 || load >= upper {
                return None;
            }
            adjust(load, width, (0, true), (upper, false))
        }
        (Some(lower), None) => {
            if lower >= last || load <= lower {
                return None;
            }
            adjust(load, width, (lower, false), (last, true))
        }
        (Some(lower), Some(upper)) => {
            if lower >= load || load >= upper {
                return None;
            }
            adjust(load, width, (lower, false), (upper, false))
        }
    }
}

/// `min` and `max` are the ends of the range, each with whether the load may equal it.
fn adjust(load: u32, width: u32, min: (u32, bool), max: (u32, bool)) -> Option<u32> {
    let ((min, min_is_free), (max, max_is_free)) = (min, max);
    if u64::from(width) >= u64::from(max) - u64::from(min) {
        return if min_is_free {
            Some(min)
        } else {
            max_is_free.then_some(max)
        };
    }
    let (mut low, mut high) = (min + width, max - width);
    if low > high {
        low = middle(min, max, width);
        high = low;
    }
    Some(if load < low {
        if min_is_free { min } else { low }
    } else if load > high {
        if max_is_free { max } else { high }
    } else {
        load
    })
}
