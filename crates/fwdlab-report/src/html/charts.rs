//! The charts of the page, each a value drawn row by row, with a legend above and an axis below.
//!
//! A chart is a grid of label, drawing and value: labels are ordinary text that wraps, so long commands never collide
//! with the drawing. The tables that belong beneath them are the page's business. Start with [`forwarding_rates`].

use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::loss::Place;
use fwdlab_model::outcome::Unit;
use fwdlab_model::result::{Summary, TrialRecord};
use fwdlab_model::test_case::TestCase;

use super::markup::Markup;
use super::svg::{Scale, axis, row};
use crate::campaign;
use crate::content::{self, Fate};
use crate::number::{Prefix, count, difference, difference_tick, interval, percent, rate, share};
use crate::table::shorten;
use crate::words::{self, Labels, Rated};

/// Offered loads beyond this multiple of the largest forwarding rate are marked at the edge, so that rates stay legible.
const OFFERED_AT_MOST: f64 = 3.0;
/// Characters of a configuration in a label; the table has all of it.
const LABEL: usize = 70;

/// The frame of a chart: legend, rows, axis with its title.
pub(super) fn chart(
    m: &mut Markup,
    legend: &[(&'static str, &str)],
    rows: impl FnOnce(&mut Markup),
) {
    if !legend.is_empty() {
        m.within("div", &[("class", "legend")], |m| {
            for (class, words) in legend {
                m.within("span", &[], |m| {
                    m.within(
                        "svg",
                        &[("width", "22"), ("height", "12"), ("aria-hidden", "true")],
                        |m| {
                            swatch(m, class);
                        },
                    );
                    m.text(words);
                });
            }
        });
    }
    m.within("div", &[("class", "chart")], rows);
}

fn swatch(m: &mut Markup, class: &'static str) {
    match class {
        "dot" | "dot quiet" | "dot ungated" | "dot contended" => {
            m.shape(
                "circle",
                &[("class", class), ("cx", "11"), ("cy", "6"), ("r", "3.2")],
            );
        }
        "whisker" => {
            for (x1, y1, x2, y2) in [
                ("2", "6", "20", "6"),
                ("2", "1", "2", "11"),
                ("20", "1", "20", "11"),
            ] {
                m.shape(
                    "line",
                    &[
                        ("class", class),
                        ("x1", x1),
                        ("y1", y1),
                        ("x2", x2),
                        ("y2", y2),
                    ],
                );
            }
        }
        "offered" | "mean" => {
            m.shape(
                "line",
                &[
                    ("class", class),
                    ("x1", "11"),
                    ("y1", "0"),
                    ("x2", "11"),
                    ("y2", "12"),
                ],
            );
        }
        _ => m.shape(
            "rect",
            &[
                ("class", class),
                ("x", "2"),
                ("y", "1"),
                ("width", "18"),
                ("height", "10"),
            ],
        ),
    }
}

/// Label, drawing and value of one row.
pub(super) fn line(
    m: &mut Markup,
    class: &str,
    label: impl FnOnce(&mut Markup),
    drawing: impl FnOnce(&mut Markup),
    value: impl FnOnce(&mut Markup),
) {
    m.within("div", &[("class", class)], |m| {
        m.within("div", &[("class", "label")], label);
        m.within("div", &[("class", "drawing")], drawing);
        m.within("div", &[("class", "value")], value);
    });
}

pub(super) fn axis_line(m: &mut Markup, scale: Scale, title: &str, number: impl Fn(f64) -> String) {
    line(
        m,
        "line axis-line",
        |_| {},
        |m| {
            axis(m, scale, number);
            m.leaf("div", &[("class", "axis-title")], title);
        },
        |_| {},
    );
}

/// Forwarding rate per test case: a bar to the median, whiskers from minimum to maximum, a dot per iteration, the
/// offered load.
pub(super) fn forwarding_rates(m: &mut Markup, summary: &Summary) {
    let all = words::rated(summary);
    let labels = Labels::of(&all);
    let rates = || all.iter().flat_map(|case| case.rates.iter().copied());
    let largest = rates().fold(0.0, f64::max);
    let offered = all.iter().filter_map(|c| c.found.offered_load_pps);
    let visible = offered.filter(|pps| largest == 0.0 || *pps <= OFFERED_AT_MOST * largest);
    let scale = Scale::covering(rates().chain(visible).chain([0.0]), 6);
    let prefix = Prefix::for_largest([scale.high()]);
    let legend = [
        ("bar", "median"),
        ("whisker", "smallest to largest"),
        ("dot", "one iteration, first at the top"),
        ("offered", "offered load"),
    ];
    chart(m, &legend, |m| {
        for case in &all {
            let (values, found) = (case.rates, &case.found);
            let (low, high) = ends(values);
            let value = match (
                words::does_not_forward(&found.ledger),
                found.forwarding_rate_pps,
            ) {
                (true, _) => "does not forward".to_owned(),
                (false, None) => "no result".to_owned(),
                (false, Some(pps)) if found.not_saturated => {
                    let value = crate::number::rate_with_interval(pps, case.half_width);
                    format!("at least {value}")
                }
                (false, Some(pps)) => crate::number::rate_with_interval(pps, case.half_width),
            };
            let label = labels.label(case);
            let words = format!(
                "{label}: {value}, {}",
                found.offered_load_pps.map_or_else(
                    || "nothing offered".into(),
                    |pps| format!("{} offered", rate(pps))
                )
            );
            let draw = |m: &mut Markup| {
                row(m, scale, 46.0, &words, |row| {
                    if let Some(median) = found.forwarding_rate_pps {
                        row.bar(
                            0.0,
                            median,
                            22.0,
                            "bar",
                            &format!("median {}", rate(median)),
                        );
                        row.whisker(low, high, "whisker");
                    }
                    row.dots(values, "dot", |index, pps| {
                        format!("iteration {}: {}", index + 1, rate(pps))
                    });
                    match found.offered_load_pps {
                        Some(pps) if pps <= scale.high() => {
                            row.upright(
                                pps,
                                4.0,
                                4.0,
                                "offered",
                                &format!("offered {}", rate(pps)),
                            );
                        }
                        Some(pps) => {
                            row.at_end(&format!("offered {} \u{25b8}", rate(pps)), "beyond")
                        }
                        None => {}
                    }
                });
            };
            line(m, "line", |m| m.text(&label), draw, |m| m.text(&value));
        }
        axis_line(
            m,
            scale,
            &format!("forwarding rate, {}", prefix.pps()),
            |pps| prefix.tick(pps, scale.step()),
        );
    });
}

/// The figures of a campaign, a chart for each: per test case a bar to the median, whiskers from minimum to maximum, a dot per
/// iteration.
pub(super) fn figures(m: &mut Markup, cases: &[TestCase]) {
    let mut names: Vec<(&str, Unit)> = Vec::new();
    for figure in cases.iter().flat_map(|case| &case.figures) {
        if !names.contains(&(figure.name.as_str(), figure.unit)) {
            names.push((&figure.name, figure.unit));
        }
    }
    let legend = [
        ("bar", "median"),
        ("whisker", "smallest to largest"),
        ("dot", "one iteration, first at the top"),
    ];
    for (name, unit) in names {
        let of = |case: &TestCase| {
            let found = case.figures.iter().find(|figure| figure.name == name);
            found.map(|figure| (figure.median, figure.values.clone()))
        };
        let all = cases.iter().filter_map(of).flat_map(|(_, values)| values);
        let scale = Scale::covering(all.chain([0.0]), 6);
        let prefix = Prefix::for_largest([scale.high()]);
        let (title, tick): (String, Box<dyn Fn(f64) -> String>) = match unit {
            Unit::FramesPerSecond => (
                format!("{name}, {}", prefix.pps()),
                Box::new(|value| prefix.tick(value, scale.step())),
            ),
            _ => (
                name.to_owned(),
                Box::new(|value| match value == 0.0 {
                    true => "0".into(),
                    false => campaign::value(unit, value),
                }),
            ),
        };
        chart(m, &legend, |m| {
            for case in cases {
                let Some((median, values)) = of(case) else {
                    continue;
                };
                let label = campaign::label(case, cases);
                let value = campaign::value(unit, median);
                let words = format!("{label}, {name}: {value}");
                let draw = |m: &mut Markup| {
                    row(m, scale, 40.0, &words, |row| {
                        row.bar(0.0, median, 18.0, "bar", &format!("median {value}"));
                        let (low, high) = ends(&values);
                        row.whisker(low, high, "whisker");
                        row.dots(&values, "dot", |index, value| {
                            let value = campaign::value(unit, value);
                            format!("iteration {}: {value}", index + 1)
                        });
                    });
                };
                line(m, "line", |m| m.text(&label), draw, |m| m.text(&value));
            }
            axis_line(m, scale, &title, tick);
        });
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

/// Differences in percent around zero: interval, mean and the values behind it; the A/A control apart.
pub(super) fn differences(m: &mut Markup, compared: &[&Comparison], each: &str) {
    let all = compared.iter().flat_map(|c| {
        let ends = c.interval_percent.into_iter().flatten();
        c.values_percent.iter().copied().chain(ends)
    });
    let scale = Scale::covering(all.chain([0.0]), 7);
    let dot = format!("one {each}, first at the top");
    let legend = [
        ("interval", "95 % interval"),
        ("mean", "mean"),
        ("dot", &dot),
    ];
    chart(m, &legend, |m| {
        for comparison in compared {
            let class = if comparison.control {
                "line control"
            } else {
                "line"
            };
            let verdict = match comparison.verdict {
                Verdict::Less => "less",
                Verdict::More => "more",
                Verdict::NoDifference => "none",
                Verdict::CannotTell => "unknown",
            };
            let ends = comparison.interval_percent;
            let value = match (comparison.difference_percent, ends) {
                (Some(value), Some(ends)) => {
                    format!("{} % {}", difference(value, Some(ends)), interval(ends))
                }
                (Some(value), None) => format!("{} %", difference(value, None)),
                (None, _) => "no value".into(),
            };
            let short = words::short_verdict(comparison);
            let name = name(comparison);
            let draw = |m: &mut Markup| {
                row(
                    m,
                    scale,
                    52.0,
                    &format!("{name}: {value}, {short}"),
                    |row| {
                        if let Some([low, high]) = ends {
                            let class = format!("interval {verdict}");
                            row.bar(
                                low,
                                high,
                                26.0,
                                &class,
                                &format!("95 % interval {} %", interval([low, high])),
                            );
                        }
                        row.dots(&comparison.values_percent, "dot", |index, value| {
                            format!(
                                "{each} {}: {} %",
                                index + 1,
                                difference(value, Some([-0.05, 0.05]))
                            )
                        });
                        if let Some(mean) = comparison.difference_percent {
                            row.upright(
                                mean,
                                6.0,
                                6.0,
                                "mean",
                                &format!("mean {} %", difference(mean, ends)),
                            );
                        }
                    },
                );
            };
            line(
                m,
                class,
                |m| {
                    if comparison.control {
                        m.text("A/A control");
                    } else {
                        let title = comparison.configuration.as_str();
                        m.leaf("code", &[("title", title)], &shorten(title, LABEL));
                    }
                },
                draw,
                |m| {
                    m.text(&value);
                    m.leaf("div", &[("class", "verdict")], short);
                },
            );
        }
        let title = if compared.iter().all(|c| c.control) {
            "difference between two measurements of the same DUT, %"
        } else {
            "difference from the plain DUT, %"
        };
        axis_line(m, scale, title, |value| {
            difference_tick(value, scale.step())
        });
    });
}

fn name(comparison: &Comparison) -> &str {
    if comparison.control {
        "A/A control"
    } else {
        &comparison.configuration
    }
}

fn place_class(place: &Place) -> &'static str {
    match place {
        Place::DutInput => "place dut-input",
        Place::Between(..) | Place::In(_) => "place between",
        Place::Dut => "place dut",
        Place::DutOutput => "place dut-output",
        Place::Receiver => "place receiver",
    }
}

/// What became of all frames sent: received, and lost at every named place, in the order of the way.
pub(super) fn fates(m: &mut Markup, fates: &[Fate]) {
    let scale = Scale::covering([0.0, 100.0], 5);
    let mut legend = vec![("place received", "received")];
    let names: Vec<(Place, String)> = content::places(fates)
        .into_iter()
        .map(|place| {
            let words = format!("lost {}", place.words());
            (place, words)
        })
        .collect();
    legend.extend(
        names
            .iter()
            .map(|(place, words)| (place_class(place), words.as_str())),
    );
    if fates
        .iter()
        .any(|(_, ledger)| ledger.frames_unexplained > 0)
    {
        legend.push(("place unexplained", "unexplained"));
    }
    chart(m, &legend, |m| {
        for (name, ledger) in fates {
            let sent = ledger.frames_sent as f64;
            let mut parts = vec![(
                "place received",
                "received".to_owned(),
                ledger.frames_received,
            )];
            for loss in &ledger.losses {
                let words = format!(
                    "lost {}: {}",
                    loss.place.words(),
                    content::counter_words(loss)
                );
                parts.push((place_class(&loss.place), words, loss.frames));
            }
            parts.push((
                "place unexplained",
                "unexplained".into(),
                ledger.frames_unexplained,
            ));
            let lost = words::lost_words(ledger);
            let draw = |m: &mut Markup| {
                row(m, scale, 42.0, &format!("{name}: lost {lost}"), |row| {
                    let mut from = 0.0;
                    for (class, words, frames) in parts.iter().filter(|(.., frames)| *frames > 0) {
                        let part = share(*frames as f64, sent);
                        let title =
                            format!("{} ({} frames) {words}", percent(part), count(*frames));
                        row.bar(from, from + part, row.height() - 16.0, class, &title);
                        from += part;
                    }
                });
            };
            let value = format!(
                "{} lost",
                percent(share(ledger.frames_lost.max(0) as f64, sent))
            );
            line(
                m,
                "line",
                |m| m.leaf("span", &[("title", name)], &shorten(name, LABEL - 20)),
                draw,
                |m| m.text(if sent > 0.0 { &value } else { "nothing sent" }),
            );
        }
        axis_line(m, scale, "share of the frames sent, %", |value| {
            format!("{value}")
        });
    });
}

/// Quiet windows, all windows and contended windows of every test case, as deviations from the result.
pub(super) fn strata(m: &mut Markup, summary: &Summary, trials: &[TrialRecord]) {
    type Pick = fn(&TrialRecord) -> Option<f64>;
    let strata: [(&str, &'static str, Pick); 3] = [
        ("quiet", "dot quiet", |t| t.quiet.forwarding_rate_pps),
        ("ungated", "dot ungated", |t| t.forwarding_rate_ungated_pps),
        ("contended", "dot contended", |t| {
            t.contended.forwarding_rate_pps
        }),
    ];
    let all = words::rated(summary);
    let labels = Labels::of(&all);
    let deviations = |case: &Rated<'_>, pick: Pick| -> Vec<f64> {
        let Some(result) = case.found.forwarding_rate_pps.filter(|pps| *pps > 0.0) else {
            return Vec::new();
        };
        trials
            .iter()
            .filter(|t| t.test_case == case.case.test_case && t.validity.is_valid())
            .filter_map(pick)
            .map(|pps| 100.0 * (pps / result - 1.0))
            .collect()
    };
    let values = all.iter().flat_map(|case| {
        strata
            .iter()
            .flat_map(move |(.., pick)| deviations(case, *pick))
    });
    let scale = Scale::covering(values.chain([0.0]), 7);
    let legend = strata.map(|(name, class, _)| (class, name));
    chart(m, &legend, |m| {
        for case in &all {
            let found = &case.found;
            for (index, (name, class, pick)) in strata.iter().enumerate() {
                let values = deviations(case, *pick);
                let label = labels.label(case);
                let figure = match index {
                    0 => (found.forwarding_rate_pps, case.variation_percent),
                    1 => (
                        found.forwarding_rate_ungated_pps,
                        found.variation_ungated_percent,
                    ),
                    _ => (found.contended.forwarding_rate_pps, None),
                };
                let value = match figure {
                    (Some(pps), Some(cv)) => format!("{}, CV {}", rate(pps), percent(cv)),
                    (Some(pps), None) => rate(pps),
                    (None, _) => "-".into(),
                };
                let draw = |m: &mut Markup| {
                    row(
                        m,
                        scale,
                        26.0,
                        &format!("{label}, {name}: {value}"),
                        |row| {
                            row.dots(&values, class, |index, value| {
                                let value = difference(value, Some([-0.5, 0.5]));
                                format!("iteration {}, {name}: {value} %", index + 1)
                            });
                        },
                    );
                };
                let class = if index == 0 {
                    "line thin first"
                } else {
                    "line thin"
                };
                line(
                    m,
                    class,
                    |m| {
                        if index == 0 {
                            m.leaf("strong", &[], &label);
                            m.text(" ");
                        }
                        m.leaf("span", &[], name);
                    },
                    draw,
                    |m| m.text(&value),
                );
            }
        }
        axis_line(
            m,
            scale,
            "deviation of each iteration from the result of its test case, %",
            |value| difference_tick(value, scale.step()),
        );
    });
}
