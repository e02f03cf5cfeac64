//! Judges whether the results of a campaign meet its thresholds.
//!
//! A figure meets an absolute threshold if its interval (of a mean at 95 %, or of counts) is on the
//! right side of it, and misses it if the interval is on the wrong side. If the interval contains
//! the threshold the check is inconclusive, and an inconclusive check fails. Thresholds relative to
//! another run or configuration use [`compare`] and the rule of [`Limit`], as `compare --fail-if`
//! does. Start with [`judge`].

use fwdlab_model::campaign::{Amount, Reference, Threshold};
use fwdlab_model::outcome::{Better, Unit};
use fwdlab_model::result::Summary;
use fwdlab_model::series::{FORWARDING_RATE, Series, metric};
use fwdlab_model::test_case::{CaseFigure, TestCase};
use fwdlab_model::threshold::Judged;
use fwdlab_stats::{Confidence, Sample};

use crate::compare::{self, FEWEST_VALUES, Limit, Options, SOURCE, Source};
use crate::exact::from_outcome;
use crate::name::value;

/// Advice if a threshold could not be judged.
pub const ADVICE: &str = "more iterations see smaller differences";

/// Judges thresholds. `own` is the run as series; `references` has, at the index of each threshold,
/// the run that it refers to; `allowance` is that of [`Options`].
pub fn judge(
    thresholds: &[Threshold],
    cases: &[TestCase],
    own: &Source,
    references: &[Option<Source>],
    allowance: f64,
) -> Vec<Judged> {
    let each = thresholds.iter().enumerate();
    each.map(|(n, threshold)| {
        let own_cases = cases
            .iter()
            .filter(|case| threshold.is_of(&case.case.planned_id()));
        let (own_cases, doubtful): (Vec<&TestCase>, Vec<&TestCase>) =
            own_cases.partition(|case| case.doubt.is_none());
        let mut judged = match &threshold.not_slower_than {
            None => by_itself(threshold, &own_cases),
            Some(reference) => {
                let run = references.get(n).and_then(Option::as_ref);
                relative_to(threshold, reference, &own_cases, own, run, allowance)
            }
        };
        let doubtful = doubtful.into_iter().filter_map(|case| {
            let doubt = case.doubt.as_ref()?;
            Some(format!("{}: {doubt}", case.test_case))
        });
        judged.not_judged.extend(doubtful);
        judged.concluded(false)
    })
    .collect()
}

/// Returns the verdicts on thresholds, as sentences.
pub(crate) fn sentences(summary: &Summary) -> Vec<String> {
    let all = summary.thresholds.iter();
    all.flat_map(|judged| judged.lines(ADVICE)).collect()
}

/// Describes a threshold in words.
pub fn words(threshold: &Threshold) -> String {
    let of = threshold.case.as_deref().unwrap_or("every test case");
    let figure = match &threshold.figure {
        Some(figure) => format!(", {}", metric(figure)),
        None => String::new(),
    };
    let rule = match threshold {
        Threshold {
            at_least: Some(amount),
            ..
        } => format!("at least {}", shown(amount)),
        Threshold {
            at_most: Some(amount),
            ..
        } => format!("at most {}", shown(amount)),
        Threshold {
            not_slower_than: Some(reference),
            ..
        } => {
            let by = (1e4 * reference.by.0).round() / 1e2;
            let run = || Some(("run", reference.run.as_deref()?));
            let than = reference.label().or_else(run);
            let than = than.map_or(String::new(), |(what, name)| format!("{what} {name}"));
            format!("not slower than {than} by more than {by} %")
        }
        _ => String::new(),
    };
    format!("{of}{figure}: {rule}")
}

fn shown(amount: &Amount) -> String {
    match amount.unit {
        Some(unit) => value(unit, amount.number),
        None => amount.to_string(),
    }
}

/// Returns the figure of a test case that a threshold refers to.
fn figure<'a>(threshold: &Threshold, case: &'a TestCase) -> Option<&'a CaseFigure> {
    let mut figures = case.figures.iter().enumerate();
    figures
        .find(|(n, figure)| threshold.applies_to_figure(&figure.name, *n == 0))
        .map(|(_, figure)| figure)
}

fn no_figure(threshold: &Threshold, case: &TestCase) -> String {
    let reason = match (&threshold.figure, case.figures.is_empty()) {
        (_, true) => "it has no result".to_owned(),
        (requested, false) => {
            let there_is = case.figures.iter().map(|figure| metric(&figure.name));
            let there_is = there_is.collect::<Vec<_>>().join(", ");
            let requested = requested.as_deref().unwrap_or_default();
            format!("it has no `{requested}`, but {there_is}")
        }
    };
    format!("{}: {reason}", case.test_case)
}

/// Judges an absolute threshold by the intervals of the figures.
fn by_itself(threshold: &Threshold, cases: &[&TestCase]) -> Judged {
    let mut judged = Judged::new(words(threshold));
    let (amount, wants_more): (Amount, bool) = match (threshold.at_least, threshold.at_most) {
        (Some(amount), _) => (amount, true),
        (None, Some(amount)) => (amount, false),
        (None, None) => return judged,
    };
    for case in cases {
        let Some(figure) = figure(threshold, case) else {
            judged.not_judged.push(no_figure(threshold, case));
            continue;
        };
        let name = format!("{}, {}", case.test_case, figure.name);
        let Some(limit) = amount.in_unit(figure.unit) else {
            let unit = figure.unit.symbol();
            judged
                .not_judged
                .push(format!("{name}: it is in {unit}, and {amount} is not"));
            continue;
        };
        let Some([low, high]) = interval(case, figure) else {
            let n = figure.values.len();
            judged
                .not_judged
                .push(format!("{name}: cannot tell from {n} values"));
            continue;
        };
        let shown = |number| value(figure.unit, number);
        let between = format!("{} to {}", shown(low), shown(high));
        let (is_reached, is_missed) = match wants_more {
            true => (low >= limit, high < limit),
            false => (high <= limit, low > limit),
        };
        match (is_reached, is_missed) {
            (true, _) => judged.kept += 1,
            (_, true) => judged.failed.push(format!("{name}: {between}")),
            _ => judged.inconclusive.push(format!(
                "{name}: the threshold lies within its interval, {between}"
            )),
        }
    }
    judged
}

/// Returns the interval of a figure: that of the counts themselves, or the 95 % interval of the
/// mean of its values.
pub(crate) fn interval(case: &TestCase, figure: &CaseFigure) -> Option<[f64; 2]> {
    if figure.unit == Unit::Instructions {
        return case
            .outcomes
            .iter()
            .find_map(from_outcome)
            .map(|found| found.interval);
    }
    let sample = Sample::new(figure.values.clone()).ok();
    let sample = sample.filter(|sample| sample.n() >= FEWEST_VALUES)?;
    let interval = sample.mean_interval(Confidence::P95)?;
    Some([interval.low, interval.high])
}

/// Returns the id of a series' test case, as campaigns write it, without one of its labels.
fn case_of(series: &Series, without: &str) -> String {
    let label = |key: &str| {
        let value = series.labels.get(key).filter(|_| key != without);
        value.map(String::as_str)
    };
    let configuration = label("configuration").unwrap_or("plain");
    let kind = label("dut_kind").filter(|kind| *kind != "linux");
    let after: String = [kind, label("image")]
        .into_iter()
        .flatten()
        .map(|what| format!("@{what}"))
        .collect();
    format!("{configuration}/{}{after}", series.test_case)
}

/// Returns the only image of a run, if it has exactly one.
fn only_image(source: &Source) -> Option<&String> {
    let mut images = source
        .series
        .iter()
        .map(|series| series.labels.get("image"));
    let first = images.next()??;
    images.all(|image| image == Some(first)).then_some(first)
}

/// Judges a threshold relative to another run or configuration, by the rule of comparisons.
fn relative_to(
    threshold: &Threshold,
    reference: &Reference,
    cases: &[&TestCase],
    own: &Source,
    run: Option<&Source>,
    allowance: f64,
) -> Judged {
    let mut judged = Judged::new(words(threshold));
    // the metric to compare, which direction is better, and the test cases that have it
    let mut figures: Vec<(String, Better, Vec<String>)> = Vec::new();
    for case in cases {
        let is_reference = match reference.label() {
            Some(("image", name)) => case.case.image.as_deref() == Some(name),
            Some((_, name)) => case.case.configuration == name,
            None => false,
        };
        if is_reference {
            continue;
        }
        let (name, better) = match (figure(threshold, case), case.slices()) {
            // a comparison of rates yields differences
            (Some(_), Some(_)) if threshold.figure.is_none() => {
                (FORWARDING_RATE.to_owned(), Better::Higher)
            }
            (Some(figure), _) => (metric(&figure.name), figure.better),
            (None, Some(_))
                if threshold.figure.as_deref().map(metric).as_deref() == Some(FORWARDING_RATE) =>
            {
                (FORWARDING_RATE.to_owned(), Better::Higher)
            }
            (None, _) => {
                judged.not_judged.push(no_figure(threshold, case));
                continue;
            }
        };
        let id = case.case.id();
        match figures.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., ids)) => ids.push(id),
            None => figures.push((name, better, vec![id])),
        }
    }
    for (metric, better, ids) in figures {
        let of = |source: &Source, keeps: &dyn Fn(&Series) -> bool| Source {
            name: source.name.clone(),
            series: source
                .series
                .iter()
                .filter(|one| keeps(one))
                .cloned()
                .collect(),
        };
        let is_wanted = |series: &Series| ids.contains(&case_of(series, ""));
        let alike = |label: &str| -> Vec<String> {
            let wanted = own.series.iter().filter(|series| is_wanted(series));
            wanted.map(|series| case_of(series, label)).collect()
        };
        let (sources, by, baseline) = match (reference.label(), run) {
            (Some((label, name)), _) => {
                let alike = alike(label);
                let is_baseline = |series: &Series| {
                    series.labels.get(label).is_some_and(|own| own == name)
                        && alike.contains(&case_of(series, label))
                };
                let keeps = |series: &Series| is_wanted(series) || is_baseline(series);
                (vec![of(own, &keeps)], label, name.to_owned())
            }
            (None, Some(run)) => {
                // the image of a pull request may have another name than that of its base
                let label = match (only_image(own), only_image(run)) {
                    (Some(_), Some(_)) => "image",
                    _ => "",
                };
                let alike = alike(label);
                let is_alike = |series: &Series| alike.contains(&case_of(series, label));
                let mut run = of(run, &is_alike);
                if run.name == own.name {
                    run.name += " (before)";
                }
                let baseline = run.name.clone();
                (vec![run, of(own, &is_wanted)], SOURCE, baseline)
            }
            (None, None) => {
                let reason = format!("{}: its run is not here", ids.join(", "));
                judged.not_judged.push(reason);
                continue;
            }
        };
        let below = better == Better::Higher;
        let limit = Limit {
            metric: metric.clone(),
            below,
            percent: 100.0 * reference.by.0 * if below { -1.0 } else { 1.0 },
        };
        let options = Options {
            by: Some(by.into()),
            baseline: Some(baseline),
            allowance,
            ..Options::new(metric)
        };
        match compare::compare(&sources, &options) {
            Err(error) => judged.not_judged.push(error.to_string()),
            Ok(outcome) => {
                let found = limit.judge(&outcome, false);
                judged.failed.extend(found.failed);
                judged.not_judged.extend(found.not_judged);
                judged.inconclusive.extend(found.inconclusive);
                judged.kept += found.kept;
            }
        }
    }
    judged
}
