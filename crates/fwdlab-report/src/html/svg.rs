//! Drawing helpers: a linear scale with ticks of 1, 2 or 5, and one row of a chart.
//!
//! Rows are as wide as the page lets them be: places along the scale are percentages, everything across it is in pixels,
//! so that text and dots keep their size at every width. What is drawn is decided in `charts`. Start with [`Scale`].

use super::markup::Markup;
use crate::number::round_up;

/// A linear scale whose ends are ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    /// The scale that holds `values`, with about `ticks` ticks. Values that are not finite are left out.
    pub fn covering(values: impl IntoIterator<Item = f64>, ticks: u32) -> Scale {
        let (low, high) = values
            .into_iter()
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let (low, high) = match () {
            () if low > high => (0.0, 1.0),
            () if low == high => (low.min(0.0), if high > 0.0 { high } else { high + 1.0 }),
            () => (low, high),
        };
        let step = round_up((high - low) / f64::from(ticks));
        Scale {
            low: (low / step + 1e-9).floor() * step,
            high: (high / step - 1e-9).ceil() * step,
            step,
        }
    }

    /// The same with every value so many times as large.
    pub fn times(self, factor: f64) -> Scale {
        Scale {
            low: self.low * factor,
            high: self.high * factor,
            step: self.step * factor,
        }
    }

    /// Distance of two ticks.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// The left end.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// The right end.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// The ticks, from the left.
    pub fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let (low, step) = (self.low, self.step);
        let count = ((self.high - self.low) / step).round() as u32;
        // Through multiples of the step, so that zero is exactly zero.
        let first = (low / step).round();
        (0..=count).map(move |index| (first + f64::from(index)) * step)
    }

    /// Where a value lies, in percent of the width; values outside lie at the ends.
    pub fn percent(&self, value: f64) -> f64 {
        (100.0 * (value - self.low) / (self.high - self.low)).clamp(0.0, 100.0)
    }

    fn x(&self, value: f64) -> String {
        format!("{:.3}%", self.percent(value))
    }
}

/// One row of a chart while it is drawn.
pub(super) struct Row<'a> {
    m: &'a mut Markup,
    scale: Scale,
    height: f64,
}

/// Draws a row `height` pixels high: grid lines first, then what `draw` adds. `words` tell it to those who cannot see.
pub(super) fn row(
    m: &mut Markup,
    scale: Scale,
    height: f64,
    words: &str,
    draw: impl FnOnce(&mut Row<'_>),
) {
    let pixels = format!("{height}");
    m.within(
        "svg",
        &[
            ("class", "row"),
            ("height", &pixels),
            ("role", "img"),
            ("aria-label", words),
        ],
        |m| {
            let mut row = Row { m, scale, height };
            for tick in scale.ticks() {
                row.upright(
                    tick,
                    0.0,
                    0.0,
                    if tick == 0.0 { "zero" } else { "grid" },
                    "",
                );
            }
            draw(&mut row);
        },
    );
}

/// The axis below the rows: the ticks and their numbers.
pub(super) fn axis(m: &mut Markup, scale: Scale, number: impl Fn(f64) -> String) {
    m.within(
        "svg",
        &[
            ("class", "row axis"),
            ("height", "22"),
            ("aria-hidden", "true"),
        ],
        |m| {
            for tick in scale.ticks() {
                let x = scale.x(tick);
                m.shape(
                    "line",
                    &[
                        ("class", "grid"),
                        ("x1", &x),
                        ("x2", &x),
                        ("y1", "0"),
                        ("y2", "5"),
                    ],
                );
                m.leaf("text", &[("x", &x), ("y", "18")], &number(tick));
            }
        },
    );
}

impl Row<'_> {
    /// Height in pixels.
    pub fn height(&self) -> f64 {
        self.height
    }

    /// A vertical line at `value`, `above` and `below` pixels short of the edges.
    pub fn upright(&mut self, value: f64, above: f64, below: f64, class: &str, title: &str) {
        let x = self.scale.x(value);
        let (top, bottom) = (format!("{above}"), format!("{}", self.height - below));
        self.titled(
            "line",
            &[
                ("class", class),
                ("x1", &x),
                ("x2", &x),
                ("y1", &top),
                ("y2", &bottom),
            ],
            title,
        );
    }

    /// A box from one value to another, `thick` pixels high, in the middle of the row.
    pub fn bar(&mut self, from: f64, to: f64, thick: f64, class: &str, title: &str) {
        let x = self.scale.x(from.min(to));
        let width = format!(
            "{:.3}%",
            (self.scale.percent(to) - self.scale.percent(from)).abs()
        );
        let (y, thick) = (
            format!("{}", (self.height - thick) / 2.0),
            format!("{thick}"),
        );
        self.titled(
            "rect",
            &[
                ("class", class),
                ("x", &x),
                ("width", &width),
                ("y", &y),
                ("height", &thick),
            ],
            title,
        );
    }

    /// A line from the smallest to the largest value, with caps.
    pub fn whisker(&mut self, from: f64, to: f64, class: &str) {
        let middle = format!("{}", self.height / 2.0);
        let (x1, x2) = (self.scale.x(from), self.scale.x(to));
        self.m.shape(
            "line",
            &[
                ("class", class),
                ("x1", &x1),
                ("x2", &x2),
                ("y1", &middle),
                ("y2", &middle),
            ],
        );
        let cap = self.height / 2.0 - 6.0;
        for end in [from, to] {
            self.upright(end, cap, cap, class, "");
        }
    }

    /// A dot at `value`, `y` pixels from the top.
    pub fn dot(&mut self, value: f64, y: f64, class: &str, title: &str) {
        let (x, y) = (self.scale.x(value), format!("{y:.1}"));
        self.titled(
            "circle",
            &[("class", class), ("cx", &x), ("cy", &y), ("r", "3.2")],
            title,
        );
    }

    /// One dot per value, from the top in their order, so that values that lie together do not hide each other and a
    /// drift shows as a slope.
    pub fn dots(&mut self, values: &[f64], class: &str, title: impl Fn(usize, f64) -> String) {
        let room = self.height - 12.0;
        for (index, &value) in values.iter().enumerate() {
            let y = 6.0 + room * (index as f64 + 0.5) / values.len() as f64;
            self.dot(value, y, class, &title(index, value));
        }
    }

    /// A word at the right end.
    pub fn at_end(&mut self, text: &str, class: &str) {
        let y = format!("{}", self.height / 2.0 + 4.0);
        self.m
            .leaf("text", &[("class", class), ("x", "100%"), ("y", &y)], text);
    }

    fn titled(
        &mut self,
        tag: &'static str,
        attributes: super::markup::Attributes<'_>,
        title: &str,
    ) {
        if title.is_empty() {
            self.m.shape(tag, attributes);
        } else {
            self.m
                .within(tag, attributes, |m| m.leaf("title", &[], title));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_1_2_5_and_hold_the_values() {
        let check = |low: f64, high: f64, expect: &[f64]| {
            let scale = Scale::covering([low, high], 5);
            let ticks: Vec<f64> = scale.ticks().collect();
            assert_eq!(ticks.len(), expect.len(), "{ticks:?}");
            for (tick, expect) in ticks.iter().zip(expect) {
                assert!((tick - expect).abs() <= 1e-9 * expect.abs(), "{ticks:?}");
            }
        };
        check(0.0, 1.8e6, &[0.0, 0.5e6, 1.0e6, 1.5e6, 2.0e6]);
        check(0.0, 1.0, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(-2.9, 1.2, &[-3.0, -2.0, -1.0, 0.0, 1.0, 2.0]);
        check(-38.0, 31.0, &[-40.0, -20.0, 0.0, 20.0, 40.0]);
        check(5.0, 5.0, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }

    #[test]
    fn no_values_and_no_numbers_still_give_a_scale() {
        for values in [
            vec![],
            vec![f64::NAN],
            vec![0.0],
            vec![-3.0],
            vec![f64::INFINITY, 7.0],
        ] {
            let scale = Scale::covering(values.clone(), 5);
            assert!(scale.ticks().count() >= 2, "{values:?}: {scale:?}");
            assert!((0.0..=100.0).contains(&scale.percent(0.0)));
        }
    }
}
