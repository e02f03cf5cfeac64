//! Exports charts to gnuplot: one `gnuplot.data` with a block per series, and a script per chart
//! that draws a PNG.
//!
//! Text from outside is in single quotes, in which gnuplot substitutes nothing, and has no control
//! characters. Start with [`files`].

use std::fmt::Write as _;

use crate::chart::axis::{LINEAR, short};
use crate::chart::{Axis, Chart, Curves, Line, Mark, Places, Plot, Reference, Row, Rows, Tone};
use crate::table::shorten;

/// Name of the file with all values.
pub const DATA: &str = "gnuplot.data";

/// Colours of the curves, in order; the page uses the same.
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#008a66", "#b8578a", "#a87400", "#3a9fd6", "#1c2024",
];
/// Width of a row's name, in characters.
const LABEL: usize = 44;

/// A chart as blocks of values and the commands that draw them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// Blocks of values; two empty lines separate them in the file.
    pub blocks: Vec<String>,
    /// The script.
    pub script: String,
}

/// Returns all files for these charts: names and contents.
pub fn files(charts: &[Chart]) -> Vec<(String, String)> {
    let mut data =
        String::from("# fwdlab: one block per series; in gnuplot: plot 'gnuplot.data' index N\n");
    let mut files = Vec::new();
    let mut first = 0;
    for chart in charts {
        let drawn = draw(chart, first);
        for block in &drawn.blocks {
            if first > 0 {
                data.push_str("\n\n");
            }
            data.push_str(block);
            first += 1;
        }
        files.push((format!("{}.plt", chart.name), drawn.script));
    }
    files.insert(0, (DATA.into(), data));
    files
}

/// Draws a chart; `first` is the number of its first block in the data file.
pub fn draw(chart: &Chart, first: usize) -> Drawn {
    let mut drawing = Drawing {
        first,
        blocks: Vec::new(),
        plots: Vec::new(),
    };
    let (mut script, height) = match &chart.plot {
        Plot::Rows(rows) => (drawing.rows(chart, rows), 150 + 34 * rows.rows.len()),
        Plot::Curves(curves) => (drawing.curves(chart, curves), 480),
    };
    let title = match chart.title.as_str() {
        "" => String::new(),
        title => format!("set title {}\n", quoted(title)),
    };
    let head = format!(
        "# draws {name}.png: gnuplot {name}.plt\n\
         set terminal pngcairo noenhanced size 1000,{height} font 'sans,10'\n\
         set output '{name}.png'\n\
         set style fill solid 0.6 border\n\
         set grid {grid}\n\
         {title}",
        name = chart.name,
        grid = match &chart.plot {
            Plot::Rows(_) => "xtics",
            Plot::Curves(_) => "xtics ytics",
        },
    );
    script.insert_str(0, &head);
    let plots = match drawing.plots.is_empty() {
        true => "NaN notitle".to_owned(),
        false => drawing.plots.join(", \\\n     "),
    };
    let _ = writeln!(script, "plot {plots}");
    Drawn {
        blocks: drawing.blocks,
        script,
    }
}

struct Drawing {
    first: usize,
    blocks: Vec<String>,
    plots: Vec<String>,
}

impl Drawing {
    /// Adds values with a comment, and the command that plots them.
    fn series(&mut self, about: &str, lines: &[String], using: &str) {
        if lines.is_empty() {
            return;
        }
        let index = self.first + self.blocks.len();
        self.blocks
            .push(format!("# {}\n{}\n", plain(about), lines.join("\n")));
        self.plots
            .push(format!("'{DATA}' index {index} using {using}"));
    }

    fn rows(&mut self, chart: &Chart, rows: &Rows) -> String {
        let mut tones: Vec<Tone> = Vec::new();
        let marks = || rows.rows.iter().flat_map(|row| &row.marks);
        for mark in marks() {
            let tone = match mark {
                Mark::Bar { tone, .. } | Mark::Dots { tone, .. } | Mark::Line { tone, .. } => *tone,
                Mark::Span { .. } => Tone::Span,
            };
            if !tones.contains(&tone) {
                tones.push(tone);
            }
        }
        let about = |kind: &str| format!("{}: {kind}", chart.title);
        for tone in tones {
            let (mut bars, mut spans, mut dots, mut uprights) = (vec![], vec![], vec![], vec![]);
            for (row, n) in rows.rows.iter().zip(1..) {
                for mark in &row.marks {
                    let name = plain(&row.name());
                    match mark {
                        Mark::Bar {
                            from,
                            to,
                            tone: own,
                            ..
                        } if *own == tone => {
                            bars.push(format!("{n} {from} {to} # {name}"));
                        }
                        Mark::Span { low, high } if tone == Tone::Span => {
                            spans.push(format!("{n} {low} {high} # {name}"));
                        }
                        Mark::Dots {
                            values, tone: own, ..
                        } if *own == tone => {
                            let each = values.iter().enumerate().map(|(k, value)| {
                                let y = f64::from(n) - 0.3
                                    + 0.6 * (k as f64 + 0.5) / values.len() as f64;
                                format!("{} {value} # {name}", short(y))
                            });
                            dots.extend(each);
                        }
                        Mark::Line { at, tone: own, .. } if *own == tone => {
                            uprights.push(format!("{n} {at} # {name}"));
                        }
                        _ => {}
                    }
                }
            }
            let words = rows.legend.iter().find(|(own, _)| *own == tone);
            let words = words.map_or("", |(_, words)| words.as_str());
            let title = match words {
                "" => "notitle".to_owned(),
                words => format!("title {}", quoted(words)),
            };
            let colour = colour(tone);
            let with =
                format!("2:1:2:3:($1-0.3):($1+0.3) with boxxyerror lc rgb '{colour}' {title}");
            self.series(&about(&format!("{words}: row, from, to")), &bars, &with);
            let with =
                format!("(($2+$3)/2):1:2:3 with xerrorbars pt 0 lw 1.5 lc rgb '{colour}' {title}");
            self.series(
                &about(&format!("{words}: row, smallest, largest")),
                &spans,
                &with,
            );
            let with = format!("2:1 with points pt 7 ps 0.6 lc rgb '{colour}' {title}");
            self.series(
                &about(&format!("{words}: place in the row, value")),
                &dots,
                &with,
            );
            let with =
                format!("2:($1-0.4):(0):(0.8) with vectors nohead lw 2 lc rgb '{colour}' {title}");
            self.series(&about(&format!("{words}: row, value")), &uprights, &with);
        }
        let name = |row: &Row| match row.value.as_str() {
            "" => shorten(&row.name(), LABEL),
            value => format!("{}: {value}", shorten(&row.name(), LABEL)),
        };
        let rows_named = rows
            .rows
            .iter()
            .zip(1..)
            .map(|(row, n)| format!("{} {n}", tick(&name(row))));
        let mut script = axis('x', &rows.axis);
        let ends = format!("set yrange [{}:0.4]\n", rows.rows.len() as f64 + 0.6);
        script += &ends;
        script += &format!(
            "set ytics ({})\n",
            rows_named.collect::<Vec<_>>().join(", ")
        );
        script += "set key outside below\nset style textbox opaque noborder margins 0.2,0.2\n";
        let lines = rows.references.iter().enumerate();
        script.extend(lines.map(|(n, line)| {
            format!(
                "set arrow from first {at}, graph 0 to first {at}, graph 1 nohead dt 2 lc rgb '#6a3d9a'\n\
                 set label {words} at first {at}, graph 1 right offset -0.5,{place} front boxed tc rgb '#6a3d9a'\n",
                at = line.at,
                words = quoted(&line.label),
                place = -0.7 - n as f64,
            )
        }));
        script
    }

    fn curves(&mut self, chart: &Chart, curves: &Curves) -> String {
        for (n, curve) in curves.curves.iter().enumerate() {
            let has_intervals = curve.intervals.iter().any(Option::is_some);
            let lines: Vec<String> = curve
                .points
                .iter()
                .enumerate()
                .map(|(k, (x, y))| match curve.intervals.get(k) {
                    Some(Some((low, high))) => format!("{x} {y} {low} {high}"),
                    _ if has_intervals => format!("{x} {y} {y} {y}"),
                    _ => format!("{x} {y}"),
                })
                .collect();
            let colour = COLOURS[n % COLOURS.len()];
            let many = lines.len() > 60;
            let style = match (curve.line, many) {
                (Line::None, _) => "points pt 7 ps 0.6".to_owned(),
                (Line::Dashed, _) => "lines lw 2 dt 2".to_owned(),
                (Line::Steps, _) => "steps lw 2".to_owned(),
                (Line::Solid, true) => "lines lw 2".to_owned(),
                (Line::Solid, false) if has_intervals => format!("yerrorlines lw 2 pt {}", 4 + n),
                (Line::Solid, false) => format!("linespoints lw 2 pt {}", 4 + n),
            };
            let columns = if style.starts_with("yerror") {
                "1:2:3:4"
            } else {
                "1:2"
            };
            let about = format!(
                "{}: {}: {}, {} ({})",
                chart.title,
                curve.name,
                curves.across.heading(),
                curves.up.heading(),
                curves.up.quantity.unit()
            );
            let with = format!(
                "{columns} with {style} lc rgb '{colour}' title {}",
                quoted(&curve.name)
            );
            self.series(&about, &lines, &with);
        }
        let mut script = axis('x', &curves.across) + &axis('y', &curves.up);
        script += "set key outside right\n";
        for band in &curves.bands {
            let _ = writeln!(
                script,
                "set object rect from first {from}, graph 0 to first {to}, graph 1 behind fc rgb '#eceff1' fs noborder\n\
                 set label {words} at first {from}, graph 0.05 offset 0.5,0",
                from = band.from,
                to = band.to,
                words = quoted(&band.label)
            );
        }
        for moment in &curves.moments {
            let _ = writeln!(
                script,
                "set arrow from first {at}, graph 0 to first {at}, graph 1 nohead dt 3\n\
                 set label {words} at first {at}, graph 0.96 offset 0.5,0",
                at = moment.at,
                words = quoted(&moment.label)
            );
        }
        script.extend(curves.references.iter().map(level));
        script
    }
}

/// Returns the command for a horizontal reference line.
fn level(reference: &Reference) -> String {
    format!(
        "set arrow from graph 0, first {at} to graph 1, first {at} nohead dt 2 lc rgb '#6a3d9a'\n\
         set label {words} at graph 0.01, first {at} offset 0,0.5 tc rgb '#6a3d9a'\n",
        at = reference.at,
        words = quoted(&reference.label)
    )
}

fn axis(letter: char, axis: &Axis) -> String {
    let (low, high) = axis.ends();
    let ticks = axis
        .ticks
        .iter()
        .map(|(at, number)| format!("{} {at}", tick(number)));
    let ticks: Vec<String> = ticks.collect();
    let scale = match axis.places {
        Places::Linear(_) => String::new(),
        Places::Logarithmic { zero: false, .. } => format!("set logscale {letter}\n"),
        // linear from zero to the smallest value
        Places::Logarithmic { low, high, .. } => {
            let slope = (100.0 - LINEAR) / LINEAR / (high / low).ln();
            format!(
                "set nonlinear {letter} via {letter} < {low} ? {letter} / {low} : 1 + {slope} * log({letter} / {low}) \
                 inverse {letter} < 1 ? {letter} * {low} : {low} * exp(({letter} - 1) / {slope})\n"
            )
        }
    };
    format!(
        "{scale}set {letter}label {}\nset {letter}range [{low}:{high}]\nset {letter}tics ({})\n",
        quoted(&axis.heading()),
        ticks.join(", ")
    )
}

fn colour(tone: Tone) -> &'static str {
    match tone {
        Tone::Median | Tone::Partial => "#a9cfe6",
        Tone::Span | Tone::Dot | Tone::Mean => "#1c2024",
        Tone::Quiet | Tone::More => "#0072b2",
        Tone::Ungated | Tone::LostAtOutput => "#cc79a7",
        Tone::Contended | Tone::Offered | Tone::Less | Tone::LostInDut => "#d55e00",
        Tone::Interval | Tone::Same | Tone::Unknown => "#8a939b",
        Tone::Received => "#56b4e9",
        Tone::LostAtInput => "#e69f00",
        Tone::LostBetween => "#009e73",
        Tone::LostByReceiver => "#f0e442",
        Tone::Unexplained => "#000000",
    }
}

/// Quotes a tick label, in which gnuplot interprets format specifiers.
fn tick(text: &str) -> String {
    quoted(&text.replace('%', "%%"))
}

/// Quotes text for gnuplot, in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", plain(text).replace('\'', "''"))
}

/// Removes characters that would end a line, a comment or a quoted command.
fn plain(text: &str) -> String {
    let safe = |c: char| match c {
        c if c.is_control() => ' ',
        '`' => '\'',
        c => c,
    };
    text.chars().map(safe).collect()
}
