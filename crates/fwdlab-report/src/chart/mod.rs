//! A chart as a value: what is drawn, and in no word how. Like a table it is made once and rendered in every format.
//!
//! Values are made in `subject`, one file per subject; `render` has a file per format, which all take a [`Chart`] and give back what is
//! to be written: [`svg`], [`png`], [`gnuplot`], [`terminal`], and `html` for pages. Figures that people read are in the tables. Start with
//! [`Chart`], or with [`of`], which lists the charts of a run.

mod axis;
mod render;
pub mod runs;
mod scale;
mod subject;

pub(crate) use axis::{Axis, Places, Quantity};
pub(crate) use render::html;
#[cfg(feature = "png")]
pub use render::png;
pub use render::{gnuplot, svg, terminal};
pub(crate) use scale::Scale;
pub use subject::of;
pub(crate) use subject::of_campaign;
pub(crate) use subject::{comparison, differences, fates, imported, procedures, rates, strata};

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// A name for files: lower-case letters, digits and `-`. Charts of one report have different ones.
    pub name: String,
    /// What it is of; empty where what stands around it says that.
    pub title: String,
    /// What is drawn.
    pub plot: Plot,
}

/// The two kinds of charts.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// One row per thing that was measured.
    Rows(Rows),
    /// Curves over a load, a time or a parameter.
    Curves(Curves),
}

/// Rows along one axis, from the top.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The axis below them.
    pub axis: Axis,
    /// What the marks mean.
    pub legend: Vec<(Tone, String)>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Values to compare all rows with.
    pub references: Vec<Reference>,
}

/// A row: its name, its marks, its figure in words.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// What it has in common with the rows below it, where it is the first of them.
    pub group: String,
    /// Its name.
    pub label: String,
    /// The name is a command.
    pub is_code: bool,
    /// Its figure; or why there is none: failed, not measured.
    pub value: String,
    /// What the figure means, in a few words.
    pub verdict: String,
    /// It is the A/A control, which is no result.
    pub is_control: bool,
    /// It is one of several of the same thing, and low.
    pub is_thin: bool,
    /// What is drawn.
    pub marks: Vec<Mark>,
    /// A value too far to the right for the axis, in words.
    pub beyond: String,
}

/// Something that is drawn in a row, with what it says to those who point at it.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// From zero, or between two values.
    Bar {
        /// From here...
        from: f64,
        /// ...to here.
        to: f64,
        /// What it is.
        tone: Tone,
        /// In words.
        words: String,
    },
    /// From the smallest to the largest.
    Span {
        /// The smallest.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// One value each, in their order: each with its words.
    Dots {
        /// The values.
        values: Vec<f64>,
        /// What they are.
        tone: Tone,
        /// In words, as many.
        words: Vec<String>,
    },
    /// One value.
    Line {
        /// The value.
        at: f64,
        /// What it is.
        tone: Tone,
        /// In words.
        words: String,
    },
}

/// A value beside which others are seen, with its name: a line rate, what an IMIX needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// The value on the axis; of curves a moment where it lies across, a value where it lies along.
    pub at: f64,
    /// Its name.
    pub label: String,
}

/// What a mark is; renderers choose colour and shape by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A median.
    Median,
    /// From the smallest to the largest.
    Span,
    /// One measurement.
    Dot,
    /// One measurement in quiet windows.
    Quiet,
    /// One in all windows.
    Ungated,
    /// One in contended windows.
    Contended,
    /// What was offered, or what somebody else's rule says.
    Offered,
    /// A mean.
    Mean,
    /// A confidence interval of which nothing is said.
    Interval,
    /// One that lies below zero.
    Less,
    /// One that lies above zero.
    More,
    /// One that shows that there is no difference.
    Same,
    /// One that cannot tell.
    Unknown,
    /// Frames that came back.
    Received,
    /// Frames lost before the DUT, or in its input.
    LostAtInput,
    /// Frames lost between two meters.
    LostBetween,
    /// Frames lost in the DUT.
    LostInDut,
    /// Frames lost at the DUT's output.
    LostAtOutput,
    /// Frames lost by the receiver.
    LostByReceiver,
    /// Frames of which nobody knows.
    Unexplained,
}

/// Curves over one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// The axis below.
    pub across: Axis,
    /// The axis at the side.
    pub up: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Moments to point at: places on the axis below.
    pub moments: Vec<Reference>,
    /// Values to compare with: places on the axis at the side.
    pub references: Vec<Reference>,
    /// How much room it wants.
    pub size: Size,
}

/// How much room curves want.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Size {
    /// A graph of its own.
    #[default]
    Whole,
    /// One of several beside each other.
    Low,
    /// Beneath another one, over the same axis.
    Strip,
}

/// A curve with its name and its points, from the left.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// 95 % intervals of the points, as many, where there are any.
    pub intervals: Vec<Option<(f64, f64)>>,
    /// What joins the points.
    pub line: Line,
}

/// What joins the points of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Lines.
    Solid,
    /// Lines of what should be, not of what was measured.
    Dashed,
    /// Each value holds until the next.
    Steps,
    /// Nothing: each point stands for itself.
    None,
}

impl Chart {
    pub(crate) fn rows(name: &str, title: &str, rows: Rows) -> Chart {
        Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            plot: Plot::Rows(rows),
        }
    }

    pub(crate) fn curves(name: &str, title: impl Into<String>, curves: Curves) -> Chart {
        Chart {
            name: name.to_owned(),
            title: title.into(),
            plot: Plot::Curves(curves),
        }
    }

    /// The whole of it in a sentence, for those who cannot see it.
    pub fn spoken(&self) -> String {
        let (what, names) = match &self.plot {
            Plot::Rows(rows) => (
                rows.axis.title.clone(),
                rows.rows.iter().map(Row::name).collect::<Vec<_>>(),
            ),
            Plot::Curves(curves) => (
                format!("{} over {}", curves.up.title, curves.across.title),
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
    /// Its whole name.
    pub fn name(&self) -> String {
        match (self.group.as_str(), self.label.as_str()) {
            ("", label) => label.to_owned(),
            (group, "") => group.to_owned(),
            (group, label) => format!("{group}, {label}"),
        }
    }

    /// The row in a sentence.
    pub fn spoken(&self) -> String {
        let parts = [
            self.value.as_str(),
            self.verdict.as_str(),
            self.beyond.as_str(),
        ];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{}: {}", self.name(), parts.join(", "))
    }

    /// A bar to the median of values, their span, and a dot for each.
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

/// What bars, spans and dots of [`Row::of_values`] mean.
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
            line: Line::Solid,
        }
    }

    /// The same, of what should be.
    pub(crate) fn dashed(self) -> Curve {
        Curve {
            line: Line::Dashed,
            ..self
        }
    }

    /// The same without lines.
    pub(crate) fn points_only(self) -> Curve {
        Curve {
            line: Line::None,
            ..self
        }
    }
}

/// All values of curves.
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
            size: Size::Whole,
        }
    }

    pub(crate) fn moments(self, moments: Vec<Reference>) -> Curves {
        Curves { moments, ..self }
    }

    pub(crate) fn size(self, size: Size) -> Curves {
        Curves { size, ..self }
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
