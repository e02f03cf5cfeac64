//! A chart as a value: what to draw, independent of how. Like a table, it is built once and
//! rendered in every format.
//!
//! `render` has a file per format: [`svg`], [`png`], [`gnuplot`], [`terminal`], and `html` for
//! pages; each takes a [`Chart`] and returns the output. The figures themselves are in the tables.
//! `charts` lists the charts of a run. Start with [`Chart`].

mod axis;
mod render;
mod scale;

pub(crate) use axis::{Axis, Places, Quantity};
pub(crate) use render::html;
#[cfg(feature = "png")]
pub use render::png;
pub(crate) use render::terminal;
pub use render::{gnuplot, svg};
pub(crate) use scale::Scale;

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// File name without extension: lower-case letters, digits and `-`. Unique within a report.
    pub name: String,
    /// The title; empty if the surrounding text says what the chart shows.
    pub title: String,
    /// The content.
    pub plot: Plot,
}

/// The two kinds of charts.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// One row per measured object.
    Rows(Rows),
    /// Curves over a load, a time or a parameter.
    Curves(Curves),
}

/// Rows along a common axis, from the top.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The axis below the rows.
    pub axis: Axis,
    /// The meaning of the marks.
    pub legend: Vec<(Tone, String)>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Values to compare all rows with.
    pub references: Vec<Reference>,
}

/// A row: its name, its marks, its figure as text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Common name of this row and the following ones; set only in the first of them.
    pub group: String,
    /// Name of the row.
    pub label: String,
    /// True if the name is a command.
    pub is_code: bool,
    /// The figure, or why there is none: failed, not measured.
    pub value: String,
    /// The meaning of the figure, in a few words.
    pub verdict: String,
    /// True for the A/A control, which is not a result.
    pub is_control: bool,
    /// True if the row is one of several of the same object and drawn low.
    pub is_thin: bool,
    /// The marks.
    pub marks: Vec<Mark>,
    /// A value beyond the right end of the axis, as text.
    pub beyond: String,
}

/// A mark in a row, with the text of its tooltip.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A bar from zero, or between two values.
    Bar {
        /// Start of the bar.
        from: f64,
        /// End of the bar.
        to: f64,
        /// Meaning of the bar.
        tone: Tone,
        /// Tooltip.
        words: String,
    },
    /// A line from the smallest to the largest value.
    Span {
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// A dot per value, in order.
    Dots {
        /// The values.
        values: Vec<f64>,
        /// Meaning of the dots.
        tone: Tone,
        /// Tooltips, one per value.
        words: Vec<String>,
    },
    /// A line at one value.
    Line {
        /// The value.
        at: f64,
        /// Meaning of the line.
        tone: Tone,
        /// Tooltip.
        words: String,
    },
}

/// A labelled value for comparison, such as a line rate or the rate that an IMIX requires.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// The value on the axis: in a chart of curves, of the horizontal axis for moments and of the
    /// vertical axis for references.
    pub at: f64,
    /// The label.
    pub label: String,
}

/// The meaning of a mark, which determines its colour and shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A median.
    Median,
    /// A median of less than half of the iterations.
    Partial,
    /// The range from the smallest to the largest value.
    Span,
    /// A measurement.
    Dot,
    /// A measurement in quiet windows.
    Quiet,
    /// A measurement in all windows.
    Ungated,
    /// A measurement in contended windows.
    Contended,
    /// An offered load, or a value by another rule, such as an archive's.
    Offered,
    /// A mean.
    Mean,
    /// A confidence interval without a verdict.
    Interval,
    /// A confidence interval below zero.
    Less,
    /// A confidence interval above zero.
    More,
    /// A confidence interval that proves that there is no difference.
    Same,
    /// A confidence interval that is inconclusive.
    Unknown,
    /// Received frames.
    Received,
    /// Frames lost before the DUT or at its input.
    LostAtInput,
    /// Frames lost between two meters.
    LostBetween,
    /// Frames lost inside the DUT.
    LostInDut,
    /// Frames lost at the DUT's output.
    LostAtOutput,
    /// Frames lost by the receiver.
    LostByReceiver,
    /// Frames lost at an unknown place.
    Unexplained,
}

/// Curves over a common axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// The horizontal axis.
    pub across: Axis,
    /// The vertical axis.
    pub up: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Moments to mark on the horizontal axis.
    pub moments: Vec<Reference>,
    /// Values to mark on the vertical axis.
    pub references: Vec<Reference>,
    /// Parts of the horizontal axis to shade.
    pub bands: Vec<Band>,
    /// Height of the graph.
    pub size: Size,
}

/// A labelled part of the horizontal axis, such as loads that the generator cannot offer.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Start of the part.
    pub from: f64,
    /// End of the part.
    pub to: f64,
    /// The label.
    pub label: String,
}

/// The height of a graph of curves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Size {
    /// A full graph.
    #[default]
    Whole,
    /// One of several graphs next to each other.
    Low,
    /// A low graph below another one with the same horizontal axis.
    Strip,
    /// A heat map: a row of cells per curve, a column per position.
    Cells,
}

/// A cell of a heat map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeatCell {
    /// The value, or why there is none.
    pub text: String,
    /// Tooltip: where it is, its value, and its remark.
    pub words: String,
    /// The class of its colour: `h0` for the smallest value to `h6` for the largest.
    pub class: &'static str,
    /// True if the value needs a remark.
    pub is_hatched: bool,
}

/// Most lines with reasons of gaps below a chart; tables have all.
const GAPS: usize = 6;

/// Classes of the cells of a heat map, from the smallest value to the largest.
const HEAT: [&str; 7] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6"];

/// A curve: its name and its points, from left to right.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Name of the curve.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// 95 % intervals, one per point; empty if there are none.
    pub intervals: Vec<Option<(f64, f64)>>,
    /// Points that need a remark, which are drawn hollow: their horizontal positions, and why.
    pub hollow: Vec<(f64, String)>,
    /// Positions whose value is a lower bound.
    pub at_least: Vec<f64>,
    /// Positions without a value, where the line is interrupted, and why.
    pub gaps: Vec<(f64, String)>,
    /// How the points are joined.
    pub line: Line,
}

/// How the points of a curve are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Solid lines.
    Solid,
    /// Dashed lines, for expected rather than measured values.
    Dashed,
    /// Steps: each value holds until the next.
    Steps,
    /// No lines.
    None,
}

impl Chart {
    pub(crate) fn rows(
        name: &str,
        axis: Axis,
        legend: Vec<(Tone, String)>,
        rows: impl IntoIterator<Item = Row>,
    ) -> Chart {
        let rows: Vec<Row> = rows.into_iter().collect();
        let mut legend = legend;
        if rows.iter().any(Row::is_hatched) {
            let words = "median of less than half of the iterations";
            legend.insert(1, (Tone::Partial, words.into()));
        }
        Chart {
            name: name.to_owned(),
            title: String::new(),
            plot: Plot::Rows(Rows {
                axis,
                legend,
                rows,
                references: Vec::new(),
            }),
        }
    }

    /// Sets the title.
    pub(crate) fn titled(self, title: impl Into<String>) -> Chart {
        Chart {
            title: title.into(),
            ..self
        }
    }

    /// Sets the values to compare all rows with.
    pub(crate) fn with_references(mut self, references: Vec<Reference>) -> Chart {
        if let Plot::Rows(rows) = &mut self.plot {
            rows.references = references;
        }
        self
    }

    pub(crate) fn curves(name: &str, title: impl Into<String>, curves: Curves) -> Chart {
        Chart {
            name: name.to_owned(),
            title: title.into(),
            plot: Plot::Curves(curves),
        }
    }

    /// Describes the chart in a sentence, for screen readers.
    pub fn screen_reader_text(&self) -> String {
        let (what, names) = match &self.plot {
            Plot::Rows(rows) => (
                rows.axis.heading(),
                rows.rows.iter().map(Row::name).collect::<Vec<_>>(),
            ),
            Plot::Curves(curves) => (
                format!("{} over {}", curves.up.heading(), curves.across.heading()),
                curves.curves.iter().map(|c| c.name.clone()).collect(),
            ),
        };
        let title = match self.title.as_str() {
            "" => String::new(),
            title => format!("{title}, "),
        };
        format!("{title}{what}: {}.", names.join(", "))
    }
}

impl Row {
    /// Returns the full name: group and label.
    pub fn name(&self) -> String {
        match (self.group.as_str(), self.label.as_str()) {
            ("", label) => label.to_owned(),
            (group, "") => group.to_owned(),
            (group, label) => format!("{group}, {label}"),
        }
    }

    /// Describes the row in a sentence.
    pub fn screen_reader_text(&self) -> String {
        let parts = [
            self.value.as_str(),
            self.verdict.as_str(),
            self.beyond.as_str(),
        ];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{}: {}", self.name(), parts.join(", "))
    }

    /// Returns the marks of values: a bar to the median, their range, and a dot for each.
    pub(crate) fn of_values(
        median: Option<f64>,
        values: &[f64],
        words: impl Fn(f64) -> String,
        each: &str,
    ) -> Vec<Mark> {
        let mut marks = Vec::new();
        if let Some(median) = median {
            let low = values.iter().copied().fold(median, f64::min);
            let high = values.iter().copied().fold(median, f64::max);
            marks.push(Mark::Bar {
                from: 0.0,
                to: median,
                tone: Tone::Median,
                words: format!("median {}", words(median)),
            });
            marks.push(Mark::Span { low, high });
        }
        marks.push(Mark::dots(values, Tone::Dot, |n, value| {
            format!("{each} {}: {}", n + 1, words(value))
        }));
        marks
    }

    /// Hatches the bar if the median is from less than half of the iterations.
    pub(crate) fn hatched(mut self, values: usize, iterations: usize) -> Row {
        let Some(remark) = partial(values, iterations) else {
            return self;
        };
        for mark in &mut self.marks {
            if let Mark::Bar { tone, words, .. } = mark
                && *tone == Tone::Median
            {
                *tone = Tone::Partial;
                *words += &format!(", {remark}");
            }
        }
        self
    }

    fn is_hatched(&self) -> bool {
        let is_partial =
            |mark: &Mark| matches!(mark, Mark::Bar { tone, .. } if *tone == Tone::Partial);
        self.marks.iter().any(is_partial)
    }
}

impl Mark {
    pub(crate) fn dots(values: &[f64], tone: Tone, words: impl Fn(usize, f64) -> String) -> Mark {
        Mark::Dots {
            words: values
                .iter()
                .enumerate()
                .map(|(n, v)| words(n, *v))
                .collect(),
            values: values.to_vec(),
            tone,
        }
    }
}

/// Returns the remark for a figure from less than half of the iterations.
pub(crate) fn partial(values: usize, iterations: usize) -> Option<String> {
    (2 * values < iterations).then(|| format!("from {values} of {iterations} iterations"))
}

/// Returns the legend for the marks of [`Row::of_values`].
pub(crate) fn legend_of_values(each: &str) -> Vec<(Tone, String)> {
    vec![
        (Tone::Median, "median".into()),
        (Tone::Span, "smallest to largest".into()),
        (Tone::Dot, format!("one {each}, first at the top")),
    ]
}

impl Curve {
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Curve {
        Curve {
            name: name.into(),
            points,
            intervals: Vec::new(),
            hollow: Vec::new(),
            at_least: Vec::new(),
            gaps: Vec::new(),
            line: Line::Solid,
        }
    }

    /// Makes the lines dashed, for expected values.
    pub(crate) fn dashed(self) -> Curve {
        Curve {
            line: Line::Dashed,
            ..self
        }
    }

    /// Removes the lines between points.
    pub(crate) fn points_only(self) -> Curve {
        Curve {
            line: Line::None,
            ..self
        }
    }
}

/// Returns all values of the curves.
pub(crate) fn values(curves: &[Curve]) -> impl Iterator<Item = f64> {
    let points = curves.iter().flat_map(|curve| &curve.points);
    points.map(|(_, value)| *value)
}

impl Curves {
    pub(crate) fn new(across: Axis, up: Axis, curves: Vec<Curve>) -> Curves {
        Curves {
            across,
            up,
            curves,
            moments: Vec::new(),
            references: Vec::new(),
            bands: Vec::new(),
            size: Size::Whole,
        }
    }

    pub(crate) fn moments(self, moments: Vec<Reference>) -> Curves {
        Curves { moments, ..self }
    }

    pub(crate) fn references(self, references: Vec<Reference>) -> Curves {
        Curves { references, ..self }
    }

    pub(crate) fn bands(self, bands: Vec<Band>) -> Curves {
        Curves { bands, ..self }
    }

    pub(crate) fn size(self, size: Size) -> Curves {
        Curves { size, ..self }
    }

    /// Returns why there are gaps, each in a line.
    pub(crate) fn gap_notes(&self) -> Vec<String> {
        let gaps = |curve: &Curve| -> Vec<String> {
            let note = |(at, reason): &(f64, String)| {
                let at = self.across.quantity.words(*at);
                format!("{}, {at}: {reason}", curve.name)
            };
            curve.gaps.iter().map(note).collect()
        };
        let mut notes: Vec<String> = self.curves.iter().flat_map(gaps).collect();
        if notes.len() > GAPS {
            let more = notes.split_off(GAPS - 1).len();
            notes.push(format!("{more} more without a figure"));
        }
        notes
    }

    /// Returns the columns of a heat map, with their names.
    pub(crate) fn columns(&self) -> Vec<(f64, String)> {
        let mut all: Vec<f64> = axis::places(&self.curves).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let named = all
            .into_iter()
            .map(|at| (at, self.across.quantity.words(at)));
        named.collect()
    }

    /// Returns the value of a curve at a position as text.
    pub(crate) fn words(&self, curve: &Curve, at: f64, value: f64) -> String {
        let text = self.up.quantity.words(value);
        match curve.at_least.contains(&at) {
            true => format!(">= {text}"),
            false => text,
        }
    }

    /// Returns the cell of a curve at a position; `None` if nothing was planned there.
    pub(crate) fn cell(&self, curve: &Curve, at: f64) -> Option<HeatCell> {
        let place = format!("{}, {}", curve.name, self.across.quantity.words(at));
        if let Some((_, reason)) = curve.gaps.iter().find(|(gap, _)| *gap == at) {
            return Some(HeatCell {
                text: reason.split(": ").next().unwrap_or(reason).to_owned(),
                words: format!("{place}: {reason}"),
                class: "gap",
                is_hatched: false,
            });
        }
        let (_, value) = curve.points.iter().find(|(own, _)| *own == at)?;
        let low = values(&self.curves).fold(f64::INFINITY, f64::min);
        let high = values(&self.curves).fold(f64::NEG_INFINITY, f64::max);
        let share = (value - low) / (high - low).max(f64::MIN_POSITIVE);
        let remark = curve.hollow.iter().find(|(own, _)| *own == at);
        let text = self.words(curve, at, *value);
        let remark = remark.map(|(_, words)| format!(", {words}"));
        Some(HeatCell {
            words: format!("{place}: {text}{}", remark.as_deref().unwrap_or_default()),
            text,
            class: HEAT[(share * (HEAT.len() - 1) as f64).round() as usize],
            is_hatched: remark.is_some(),
        })
    }
}

impl Reference {
    pub(crate) fn new(at: f64, label: impl Into<String>) -> Reference {
        Reference {
            at,
            label: label.into(),
        }
    }
}

/// Numbers charts that have the same name.
pub(crate) fn number_duplicates(all: &mut [Chart]) {
    for n in 0..all.len() {
        let name = all[n].name.clone();
        let before = all[..n].iter().filter(|c| {
            let rest = c.name.strip_prefix(&name);
            rest.is_some_and(|rest| {
                rest.is_empty()
                    || rest
                        .strip_prefix('-')
                        .is_some_and(|r| r.parse::<u32>().is_ok())
            })
        });
        match before.count() {
            0 => {}
            count => all[n].name = format!("{name}-{}", count + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_few_iterations_is_hatched_and_explained() {
        let tones = |iterations: usize| {
            let row = Row {
                marks: Row::of_values(Some(2.0), &[2.0, 3.0], |v| v.to_string(), "iteration"),
                ..Row::default()
            };
            let axis = Axis::linear("x", Scale::covering([0.0, 3.0], 3), |v| v.to_string());
            let legend = legend_of_values("iteration");
            let chart = Chart::rows("x", axis, legend, [row.hatched(2, iterations)]);
            let Plot::Rows(rows) = chart.plot else {
                panic!("no rows");
            };
            rows.legend
                .into_iter()
                .map(|(tone, _)| tone)
                .collect::<Vec<_>>()
        };
        assert!(!tones(4).contains(&Tone::Partial));
        assert_eq!(tones(5)[..2], [Tone::Median, Tone::Partial]);
    }
}
