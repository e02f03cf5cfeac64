//! Graphs of RFC 2544: curves over frame size or load. A curve is points in two scales with an axis below and at the left.
//!
//! What is drawn is decided in [`of`]; the tables beside the graphs have the figures. Start there.

use model::outcome::{Found, Outcome};

use super::markup::Markup;
use super::svg::Scale;

/// A curve with its name and its points.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Width and height of a graph, and the room for its axes, in pixels.
const SIZE: (f64, f64) = (640.0, 280.0);
const LEFT: f64 = 64.0;
const BELOW: f64 = 36.0;

/// The graphs that belong to these outcomes.
pub(super) fn of(m: &mut Markup, outcomes: &[Outcome]) {
    let (mut theoretical, mut measured, mut losses, mut ramps) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for outcome in outcomes {
        let size = f64::from(outcome.frame_size_bytes.bytes());
        match &outcome.found {
            Found::Throughput(found) => {
                theoretical.extend(found.line_rate_pps.map(|pps| (size, pps / 1e6)));
                measured.extend(found.throughput_pps.map(|pps| (size, pps / 1e6)));
            }
            Found::FrameLoss(found) => losses.push(Curve {
                name: format!("{size} B"),
                points: found
                    .points
                    .iter()
                    .map(|p| (p.percent, p.loss_percent))
                    .collect(),
            }),
            Found::Ramp(found) => {
                let at = |ns: u64| ns as f64 / 1e9;
                let samples = found.samples.iter();
                ramps.push(Curve {
                    name: "offered".into(),
                    points: samples
                        .clone()
                        .map(|s| (at(s.at_ns), s.offered_load_pps() / 1e6))
                        .collect(),
                });
                ramps.push(Curve {
                    name: "forwarded".into(),
                    points: samples
                        .map(|s| (at(s.at_ns), s.forwarding_rate_pps() / 1e6))
                        .collect(),
                });
            }
            _ => {}
        }
    }
    if measured.len() > 1 {
        let curves = [("theoretical", theoretical), ("measured", measured)];
        let curves = curves.map(|(name, points)| Curve {
            name: name.into(),
            points,
        });
        graph(
            m,
            "frame size in bytes",
            "million frames per second",
            &curves,
        );
    }
    if !losses.is_empty() {
        graph(m, "load in % of the full rate", "% of frames lost", &losses);
    }
    if !ramps.is_empty() {
        graph(m, "seconds", "million frames per second", &ramps);
    }
}

/// Curves in one frame.
fn graph(m: &mut Markup, below: &str, left: &str, curves: &[Curve]) {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let across = Scale::covering(all().map(|p| p.0).chain([0.0]), 8);
    let up = Scale::covering(all().map(|p| p.1).chain([0.0]), 5);
    let (width, height) = SIZE;
    let x = |value: f64| LEFT + (width - LEFT - 10.0) * across.percent(value) / 100.0;
    let y = |value: f64| (height - BELOW) - (height - BELOW - 10.0) * up.percent(value) / 100.0;
    let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    let words = format!("{left} over {below}: {}", names.join(", "));
    m.within("figure", &[], |m| {
        let view = format!("0 0 {width} {height}");
        let attributes = [
            ("viewBox", view.as_str()),
            ("role", "img"),
            ("aria-label", words.as_str()),
            ("style", "width:100%;max-width:640px;height:auto"),
        ];
        m.within("svg", &attributes, |m| {
            for tick in up.ticks() {
                let at = format!("{:.1}", y(tick));
                let (from, to) = (format!("{LEFT}"), format!("{}", width - 10.0));
                m.shape(
                    "line",
                    &[
                        ("x1", &from),
                        ("x2", &to),
                        ("y1", &at),
                        ("y2", &at),
                        ("stroke", "#8884"),
                    ],
                );
                label(m, LEFT - 6.0, y(tick) + 4.0, "end", &plain(tick));
            }
            for tick in across.ticks() {
                label(m, x(tick), height - BELOW + 16.0, "middle", &plain(tick));
            }
            label(m, (width + LEFT) / 2.0, height - 4.0, "middle", below);
            for (n, curve) in curves.iter().enumerate() {
                let points: Vec<String> = curve
                    .points
                    .iter()
                    .map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b)))
                    .collect();
                // the second is solid, the first dashed: told apart without colour
                let dashes = format!(
                    "{} {}",
                    3 + 3 * n,
                    if curves.len() > 1 && n + 1 < curves.len() {
                        3
                    } else {
                        0
                    }
                );
                let points = points.join(" ");
                m.shape(
                    "polyline",
                    &[
                        ("points", &points),
                        ("fill", "none"),
                        ("stroke", "currentColor"),
                        ("stroke-width", "1.5"),
                        ("stroke-dasharray", &dashes),
                    ],
                );
                if let Some((a, b)) = curve.points.last() {
                    label(
                        m,
                        x(*a) - 4.0,
                        y(*b) - 5.0 - 11.0 * n as f64,
                        "end",
                        &curve.name,
                    );
                }
            }
        });
        m.leaf("figcaption", &[], &words);
    });
}

/// A number without zeros that say nothing.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn label(m: &mut Markup, x: f64, y: f64, anchor: &str, text: &str) {
    let (x, y) = (format!("{x:.1}"), format!("{y:.1}"));
    let attributes = [
        ("x", x.as_str()),
        ("y", y.as_str()),
        ("text-anchor", anchor),
        ("font-size", "11"),
        ("fill", "currentColor"),
    ];
    m.leaf("text", &attributes, text);
}
