//! Judges each row of a comparison.
//!
//! The tests themselves are in `stats`; this module selects the values and the test, and converts
//! its verdict. Start with [`judge`].

use std::collections::BTreeSet;

use fwdlab_model::comparison::Verdict;
use fwdlab_model::facts::EMULATOR;
use fwdlab_model::instructions::{BURST, GENERATOR, differing_generators, differing_losses};
use fwdlab_model::series::Series;
use fwdlab_model::stacks::Profile;
use fwdlab_stats::{
    Assumption, Confidence, EquivalenceVerdict, PairedOutcome, Sample, Side, Test, Warning,
};

use super::arrange::{Arranged, Line};
use super::{
    Cell, CompareError, Compared, Drift, Equivalence, Options, OtherTest, Outcome, Pairs, Row,
    TestChoice,
};
use crate::exact::changed;
use crate::number::{bits_per_second, difference, rate};

/// Fewest values for an interval.
pub(crate) const FEWEST_VALUES: usize = 3;

/// The square of a larger value overflows, and that of a value below the inverse is 0.
const LARGEST: f64 = 1e150;

/// Judges all arranged rows.
pub(super) fn judge(arranged: &Arranged<'_>, options: &Options) -> Result<Outcome, CompareError> {
    let columns: Vec<&str> = arranged.columns.iter().map(|c| c.name.as_str()).collect();
    let rows = arranged
        .rows
        .iter()
        .map(|line| row(line, &columns, &arranged.by, options))
        .collect::<Result<_, _>>()?;
    Ok(Outcome {
        metric: options.metric.clone(),
        unit: arranged.unit.clone(),
        by: arranged.by.clone(),
        baseline: columns[0].to_owned(),
        confidence_percent: rounded(100.0 * options.confidence.get()),
        columns: arranged.columns.clone(),
        rows,
        unmatched: arranged.unmatched.clone(),
    })
}

/// The test of counts that know their own uncertainty, and what it assumes.
pub(super) const COUNTS: &str = "counts";

/// Nothing was tested.
pub(super) const NO_TEST: &str = "none";

const COUNTS_ASSUME: &str = "that each count is within its own interval";

/// Removes floating-point errors: 99.9 rather than 99.90000000000001.
fn rounded(percent: f64) -> f64 {
    (percent * 1e9).round() / 1e9
}

/// One side of a comparison.
struct Values<'a> {
    column: &'a str,
    sample: Sample,
    series: &'a [&'a Series],
}

impl Values<'_> {
    /// Returns the number of values that are lower bounds, because the generator was the limit.
    fn generator_limited(&self) -> u32 {
        self.series.iter().map(|one| one.generator_limited).sum()
    }

    /// Returns the counts by function of the first series.
    fn functions(&self) -> Option<&Profile> {
        self.series.first().map(|one| &one.functions)
    }

    /// Returns half the width of the interval of their median; `None` if a value has none of its
    /// own. It is no narrower than the values differ.
    fn half_width(&self) -> Option<f64> {
        let median = self.sample.median();
        let values = self.sample.values().iter();
        let apart = values.map(|value| Some((value - median).abs()));
        let own = self.series.iter().map(|one| one.half_width);
        own.chain(apart)
            .try_fold(0.0, |most, half| Some(f64::max(most, half?)))
    }
}

/// Returns a comparison without a difference.
fn unknown(baseline: &Values<'_>, other: &Values<'_>) -> Compared {
    Compared {
        column: other.column.to_owned(),
        n: [baseline.sample.n(), other.sample.n()],
        generator_limited: None,
        disagreement: None,
        pairs: None,
        test: NO_TEST,
        assumption: "none",
        reason: None,
        difference: None,
        interval: None,
        difference_percent: None,
        interval_percent: None,
        detectable_percent: None,
        p_value: None,
        p_value_adjusted: None,
        verdict: Verdict::CannotTell,
        equivalence: None,
        other_tests: Vec::new(),
        functions: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Returns why the counts of a baseline and of another side are not comparable, if they are not.
/// Whole columns are judged by the labels that all of their rows share; the counts of one row may
/// differ even if their columns are alike.
pub(super) fn not_comparable(sides: [&[&Series]; 2], by: &str) -> Option<String> {
    let is_count = |side: &[&Series]| side.iter().any(|one| one.half_width.is_some());
    if !sides.into_iter().all(is_count) {
        return None;
    }
    let values = |key: &str| {
        sides.map(|side| {
            let all = side.iter().map(|one| one.labels.get(key));
            all.map(|value| value.map(String::as_str)).collect()
        })
    };
    let name = |all: &BTreeSet<Option<&str>>| -> Option<String> {
        let names = all.iter().map(|one| one.unwrap_or("an unknown one"));
        (all.iter().any(Option::is_some)).then(|| names.collect::<Vec<_>>().join(" and "))
    };
    let keys = [EMULATOR, BURST, GENERATOR].into_iter();
    // labels of the columns are expected to differ
    let mut keys = keys.filter(|key| by.split(',').all(|by| by != *key));
    let by_label = keys.find_map(|key| {
        let [one, two]: &[BTreeSet<Option<&str>>; 2] = &values(key);
        if one == two && one.len() == 1 {
            return None;
        }
        match (key, name(one), name(two)) {
            (GENERATOR, one, two) => {
                differing_generators(one.as_deref(), two.as_deref()).or_else(|| {
                    Some(format!(
                        "both have frames of different generators: {}",
                        one?
                    ))
                })
            }
            (_, Some(one), Some(two)) => Some(format!("{key} {two} against {one}")),
            _ => None,
        }
    });
    by_label.or_else(|| {
        let [baseline, other] = sides;
        let reference = baseline.first()?.frame_loss_ratio;
        let mut all = other.iter().chain(baseline);
        all.find_map(|one| differing_losses(reference, one.frame_loss_ratio))
    })
}

/// Compares counts by their own uncertainties, as `fwdlab_measure::exact` does: a difference that
/// is larger than both together is proven. `None` if they have none.
fn counts(baseline: &Values<'_>, other: &Values<'_>, options: &Options) -> Option<Compared> {
    let half = baseline.half_width()? + other.half_width()?;
    let from = baseline.sample.median();
    let difference = other.sample.median() - from;
    let percent = |value: f64| 100.0 * value / from.abs();
    let interval = [difference - half, difference + half];
    let interval_percent = interval.map(percent);
    Some(Compared {
        test: COUNTS,
        assumption: COUNTS_ASSUME,
        difference: Some(difference),
        interval: Some(interval),
        difference_percent: Some(percent(difference)),
        interval_percent: Some(interval_percent),
        // its estimate is off by at most half of the interval
        detectable_percent: Some(percent(2.0 * half)),
        verdict: match () {
            () if interval[0] > 0.0 => Verdict::More,
            () if interval[1] < 0.0 => Verdict::Less,
            () => Verdict::NoDifference,
        },
        functions: changed(baseline.functions()?, other.functions()?),
        equivalence: options.equivalence_percent.map(|margin| Equivalence {
            margin_percent: margin,
            interval_percent: Some(interval_percent),
            verdict: match interval_percent {
                [low, high] if -margin < low && high < margin => "equivalent",
                [low, high] if low > margin || high < -margin => "different",
                _ => "undecided",
            },
        }),
        ..unknown(baseline, other)
    })
}

fn row(
    line: &Line<'_>,
    columns: &[&str],
    by: &str,
    options: &Options,
) -> Result<Row, CompareError> {
    let mut sides = Vec::new();
    for (column, series) in columns.iter().zip(&line.cells) {
        sides.push(values(column, series)?);
    }
    let cell = |side: &Option<Values<'_>>| side.as_ref().map(|side| cell(side, options));
    let cells: Vec<Option<Cell>> = sides.iter().map(cell).collect();
    let mut comparisons = Vec::new();
    if let Some((Some(baseline), others)) = sides.split_first() {
        let others: Vec<&Values<'_>> = others.iter().flatten().collect();
        for other in &others {
            comparisons.push(match not_comparable([baseline.series, other.series], by) {
                Some(reason) => Compared {
                    warnings: vec![format!("{}: {reason}", other.column)],
                    disagreement: Some(reason),
                    ..unknown(baseline, other)
                },
                None => compared(line, baseline, other, others.len(), options)?,
            });
        }
    }
    adjust(&mut comparisons, options.confidence);
    Ok(Row {
        test_case: line.test_case.clone(),
        labels: line.labels.clone(),
        cells,
        comparisons,
    })
}

fn values<'a>(
    column: &'a str,
    series: &'a [&'a Series],
) -> Result<Option<Values<'a>>, CompareError> {
    let all: Vec<f64> = series
        .iter()
        .flat_map(|series| series.values.iter().copied())
        .collect();
    let beyond = |value: &f64| {
        let size = value.abs();
        !size.is_finite() || size > LARGEST || (size != 0.0 && size < 1.0 / LARGEST)
    };
    if let Some(index) = all.iter().position(beyond) {
        return Err(CompareError::Value {
            column: column.to_owned(),
            place: index + 1,
            value: all[index],
        });
    }
    Ok(Sample::new(all).ok().map(|sample| Values {
        column,
        sample,
        series,
    }))
}

fn cell(side: &Values<'_>, options: &Options) -> Cell {
    let Values {
        column,
        sample,
        series,
    } = side;
    let mean = sample.mean();
    let own = side
        .half_width()
        .map(|half| 100.0 * half / sample.median().abs());
    let half_width = sample
        .mean_interval(options.confidence)
        // two values do not show how much they vary: `652 ± 2339 kpps` (as in
        // `fwdlab_measure::trust`); and the mean of positive values is not in an interval that
        // includes zero
        .filter(|interval| interval.low > 0.0 || sample.min() <= 0.0)
        .filter(|_| mean != 0.0 && sample.n() >= FEWEST_VALUES)
        .map(|interval| 100.0 * interval.half_width() / mean.abs());
    let joined = match series {
        [_] => Vec::new(),
        several => several.iter().map(|series| origin(series)).collect(),
    };
    Cell {
        column: (*column).to_owned(),
        n: sample.n(),
        median: sample.median(),
        min: sample.min(),
        max: sample.max(),
        mean,
        stdev: sample.stdev(),
        interval_half_width_percent: own.or(half_width),
        left_out: series.iter().map(|series| series.left_out).sum(),
        joined,
        values: sample.values().to_vec(),
        warnings: cell_warnings(side),
    }
}

/// Returns the origin of a series, to distinguish it from others in its cell.
fn origin(series: &Series) -> String {
    let label = |key: &str| series.labels.get(key).cloned();
    label("run").unwrap_or_else(|| series.test_case.clone())
}

/// Returns warnings about the values that hold for any comparison.
fn cell_warnings(side: &Values<'_>) -> Vec<String> {
    let n = side.sample.n();
    let sum = |of: fn(&Series) -> u32| side.series.iter().map(|s| of(s)).sum::<u32>();
    let mut warnings = Vec::new();
    let limited = side.generator_limited();
    if limited > 0 {
        warnings.push(format!(
            "in {limited} of {n} values the generator was the limit: the DUT may forward more"
        ));
    }
    let left_out = sum(|series| series.left_out);
    if left_out > 0 {
        let plural = if left_out == 1 { "record" } else { "records" };
        warnings.push(format!(
            "{left_out} {plural} left out: invalid or without a result"
        ));
    }
    if side.series.len() > 1 {
        warnings.push(format!(
            "the values of {} series follow one another here",
            side.series.len()
        ));
    }
    if let Some(series) = side.series.first().filter(|series| series.unit == "pps")
        && let Some(size) = series.labels.get("frame_size_bytes")
        && let Ok(size) = size.parse::<f64>()
        && let Some((bps, line_rate)) = line_rate(side.sample.median(), size)
    {
        warnings.push(format!(
            "{:.1} % of the line rate of {} Ethernet ({}): if that is the link, it is the limit, not the DUT",
            100.0 * side.sample.median() / line_rate,
            bits_per_second(bps),
            rate(line_rate)
        ));
    }
    warnings
}

/// Returns the speed of Ethernet whose line rate for these frames is (almost) this rate, in bit/s
/// and frames/s.
fn line_rate(pps: f64, frame_size_bytes: f64) -> Option<(f64, f64)> {
    /// Preamble, start of frame and inter-frame gap.
    const OVERHEAD_BYTES: f64 = 20.0;
    /// Counters are not read at the same instant: a full line may measure slightly less or more.
    const NEAR: std::ops::RangeInclusive<f64> = 0.99..=1.001;
    [
        1e8, 1e9, 2.5e9, 5e9, 1e10, 2.5e10, 4e10, 5e10, 1e11, 2e11, 4e11,
    ]
    .into_iter()
    .map(|bps| (bps, bps / (8.0 * (frame_size_bytes + OVERHEAD_BYTES))))
    .find(|(_, line_rate)| NEAR.contains(&(pps / line_rate)))
}

fn compared(
    line: &Line<'_>,
    baseline: &Values<'_>,
    other: &Values<'_>,
    family: usize,
    options: &Options,
) -> Result<Compared, CompareError> {
    let limited = [baseline, other].map(Values::generator_limited);
    if limited != [0, 0] {
        // lower bounds
        return Ok(Compared {
            generator_limited: Some(limited),
            ..unknown(baseline, other)
        });
    }
    let is_free = options.test == TestChoice::Auto && !options.paired;
    if let Some(compared) = counts(baseline, other, options).filter(|_| is_free) {
        return Ok(compared);
    }
    let shared = shared_rebuilds(baseline.series, other.series);
    let pairs = match shared {
        Some(pairs) => Some(pairs),
        None if options.paired => Some(by_order(line, baseline, other)?),
        None => None,
    };
    Ok(match pairs {
        Some(pairs) => of_pairs(&pairs, other.column, family, options),
        None => {
            let mut compared = independent(baseline, other, family, options);
            compared.warnings.extend(state_warning(baseline, other));
            compared
        }
    })
}

/// Returns a warning if the machine was in different states: other processes may explain the
/// difference.
fn state_warning(baseline: &Values<'_>, other: &Values<'_>) -> Option<String> {
    let state = |side: &Values<'_>| side.series.iter().find_map(|s| s.state.clone());
    let (a, b) = (state(baseline)?, state(other)?);
    (!a.is_like(&b)).then(|| {
        format!(
            "the difference may be due to the machine: figures of {} are for CPUs {a}, those of {} for CPUs {b}",
            baseline.column, other.column
        )
    })
}

fn independent(
    baseline: &Values<'_>,
    other: &Values<'_>,
    family: usize,
    options: &Options,
) -> Compared {
    let (a, b, confidence) = (&baseline.sample, &other.sample, options.confidence);
    let choice = fwdlab_stats::choose(a, b, family, confidence);
    let (assumption, reason) = match options.test {
        TestChoice::Student => (Assumption::EqualSpread, None),
        TestChoice::Welch => (Assumption::Normal, None),
        TestChoice::Rank => (Assumption::Nothing, None),
        TestChoice::Auto => {
            let because = choice.because.iter();
            let words: Vec<String> = because
                .map(|(side, warning)| format!("{}: {warning}", named(*side, baseline, other)))
                .collect();
            let reason = (choice.assumption == Assumption::Nothing).then(|| words.join("; "));
            (choice.assumption, reason)
        }
    };
    // run each test once: ranks of a million values take time
    let mut tests = [
        Assumption::EqualSpread,
        Assumption::Normal,
        Assumption::Nothing,
    ]
    .map(|assumption| {
        (
            assumption,
            fwdlab_stats::compare(a, b, assumption, confidence),
        )
    });
    // the deciding test first; the others keep their order
    tests.sort_by_key(|(of, _)| *of != assumption);
    let [(_, main), others @ ..] = tests;
    let mut warnings: Vec<String> = main
        .warnings
        .iter()
        .map(|(side, warning)| format!("{}: {warning}", named(*side, baseline, other)))
        .collect();
    let not_normal = assumption == Assumption::Normal && !choice.because.is_empty();
    if options.test == TestChoice::Auto && not_normal && main.test != Test::Exact {
        warnings.push(
            "ranks would be the test for such values, but cannot prove anything with so few".into(),
        );
    }
    let other_tests = others
        .into_iter()
        .map(|(_, other)| other)
        .filter(|c| c.test != main.test)
        .map(|c| OtherTest {
            test: id(c.test),
            difference_percent: c.difference_percent,
            interval_percent: c.interval_percent.map(|i| [i.low, i.high]),
            p_value: c.p_value,
            verdict: verdict(c.verdict),
        })
        .collect();
    let equivalence = options.equivalence_percent.map(|margin| {
        equivalence(fwdlab_stats::equivalence(
            a, b, margin, assumption, confidence,
        ))
    });
    let interval_percent = main.interval_percent.map(|i| [i.low, i.high]);
    let disagreement = disagreement(
        a.n().min(b.n()),
        100.0 * (b.median() - a.median()) / a.median().abs(),
        main.difference_percent,
        interval_percent,
        main.test,
    );
    warnings.extend(disagreement.clone());
    let verdict = unless_contradicted(disagreement.as_ref(), verdict(main.verdict));
    Compared {
        column: other.column.to_owned(),
        n: main.n,
        generator_limited: None,
        pairs: None,
        test: id(main.test),
        assumption: assumption_of(main.test),
        reason: reason.filter(|_| main.test != Test::Exact),
        difference: Some(main.difference),
        interval: main.interval.map(|i| [i.low, i.high]),
        difference_percent: main.difference_percent,
        interval_percent,
        detectable_percent: main.detectable_percent,
        p_value: main.p_value,
        p_value_adjusted: None,
        verdict,
        disagreement,
        equivalence,
        other_tests,
        functions: Vec::new(),
        warnings,
    }
}

/// Returns a description if the medians contradict a test of means or ranks: a different sign, or a
/// difference outside its interval.
///
/// Tables show medians, which a single outlier does not change. A percentage that contradicts them
/// must not be the result.
fn disagreement(
    fewest: usize,
    of_medians: f64,
    tested: Option<f64>,
    interval: Option<[f64; 2]>,
    test: Test,
) -> Option<String> {
    let tested = tested?;
    let is_outside = interval.is_some_and(|[low, high]| of_medians < low || of_medians > high);
    let is_contrary = of_medians * tested < 0.0;
    let is_comparable = of_medians.is_finite() && fewest >= FEWEST_VALUES;
    (is_comparable && test != Test::Exact && (is_outside || is_contrary)).then(|| {
        let what = match test {
            Test::MannWhitney | Test::SignedRank => "ranks",
            Test::Student | Test::Welch | Test::PairedT | Test::Exact => "means",
        };
        format!(
            "the medians differ by {} %, the {what} by {} %",
            difference(of_medians, None),
            difference(tested, None)
        )
    })
}

/// Returns the verdict, or `CannotTell` if the medians contradict it.
fn unless_contradicted(disagreement: Option<&String>, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Less | Verdict::More if disagreement.is_some() => Verdict::CannotTell,
        verdict => verdict,
    }
}

/// Paired values, as logarithms of their ratios.
struct Paired {
    ln_ratios: Sample,
    baseline: Sample,
    why: &'static str,
    /// True if [`Options::allowance`] applies; it does not to values that were not measured in
    /// turns.
    allowance: bool,
}

/// Pairs the rebuilds that both columns have, if one run measured them in turns.
fn shared_rebuilds(a: &[&Series], b: &[&Series]) -> Option<Paired> {
    let ([a], [b]) = (a, b) else { return None };
    let (x, y) = (a.turns.as_ref()?, b.turns.as_ref()?);
    if x.run != y.run {
        return None;
    }
    let mut ln_ratios = Vec::new();
    let mut baseline = Vec::new();
    for ((rebuild, ln), value) in x.rebuilds.iter().zip(&x.ln_ratios).zip(&a.values) {
        if let Some(index) = y.rebuilds.iter().position(|other| other == rebuild) {
            ln_ratios.push(y.ln_ratios[index] - ln);
            baseline.push(*value);
        }
    }
    Some(Paired {
        ln_ratios: Sample::new(ln_ratios).ok()?,
        baseline: Sample::new(baseline).ok()?,
        why: "rebuilds of one run, measured alternately",
        allowance: true,
    })
}

fn by_order(line: &Line<'_>, a: &Values<'_>, b: &Values<'_>) -> Result<Paired, CompareError> {
    let error = |reason: String| CompareError::NotPaired {
        columns: format!("{} and {}", a.column, b.column),
        test_case: line.test_case.clone(),
        why: reason,
    };
    let (x, y) = (a.sample.values(), b.sample.values());
    if x.len() != y.len() {
        let reason = format!(
            "there are {} and {}; pairs need equal numbers",
            x.len(),
            y.len()
        );
        return Err(error(reason));
    }
    if a.sample.min() <= 0.0 || b.sample.min() <= 0.0 {
        return Err(error(
            "pairs are compared by their ratio, but not all values are positive".into(),
        ));
    }
    let ln: Vec<f64> = x.iter().zip(y).map(|(x, y)| (y / x).ln()).collect();
    Ok(Paired {
        ln_ratios: Sample::new(ln).map_err(|reason| error(reason.to_string()))?,
        baseline: a.sample.clone(),
        why: "by order (--paired)",
        allowance: false,
    })
}

fn of_pairs(pairs: &Paired, column: &str, family: usize, options: &Options) -> Compared {
    let Paired {
        ln_ratios,
        baseline,
        why: cause,
        ..
    } = pairs;
    let confidence = options.confidence;
    let allowance = if pairs.allowance {
        options.allowance
    } else {
        0.0
    };
    let by = |assumption| fwdlab_stats::compare_pairs(ln_ratios, assumption, allowance, confidence);
    let normal = by(Assumption::Normal);
    let ranks = by(Assumption::Nothing);
    let strange: Vec<String> = normal
        .warnings
        .iter()
        .filter(|warning| warning.is_not_normal())
        .map(|warning| format!("differences in percent: {warning}"))
        .collect();
    // a sign test of n values cannot have a smaller p-value; the number of comparisons multiplies
    // it
    let able = family as f64 * 0.5_f64.powi(ln_ratios.n() as i32 - 1) <= 1.0 - confidence.get();
    let (assumption, reason) = match options.test {
        TestChoice::Rank => (Assumption::Nothing, None),
        TestChoice::Auto if !strange.is_empty() && able => {
            (Assumption::Nothing, Some(strange.join("; ")))
        }
        _ => (Assumption::Normal, None),
    };
    let (main, other) = match assumption {
        Assumption::Nothing => (ranks, normal),
        _ => (normal, ranks),
    };
    let other_test = |o: &PairedOutcome| OtherTest {
        test: id(o.test),
        difference_percent: Some(o.difference_percent),
        interval_percent: o.interval_percent,
        p_value: o.p_value,
        verdict: verdict(o.verdict),
    };
    let in_percent = |warning: &Warning| format!("differences in percent: {warning}");
    let equivalence = options.equivalence_percent.map(|margin| {
        equivalence(fwdlab_stats::equivalence_of_pairs(
            ln_ratios, margin, assumption, allowance, confidence,
        ))
    });
    let disagreement = disagreement(
        main.n,
        100.0 * ln_ratios.median().exp_m1(),
        Some(main.difference_percent),
        main.interval_percent,
        main.test,
    );
    Compared {
        column: column.to_owned(),
        n: [main.n; 2],
        generator_limited: None,
        pairs: Some(Pairs {
            n: main.n,
            why: cause,
            spread_percent: main.spread_percent,
            drift_of_baseline: fwdlab_stats::drift(baseline, confidence).and_then(|drift| {
                let percent = |v: f64| 100.0 * v / baseline.median().abs();
                Some(Drift {
                    change_percent: drift.change_percent?,
                    interval_percent: [drift.interval.low, drift.interval.high].map(percent),
                })
            }),
            drift_of_differences: drift_of_differences(ln_ratios, confidence),
        }),
        test: id(main.test),
        assumption: assumption_of(main.test),
        reason,
        difference: None,
        interval: None,
        difference_percent: Some(main.difference_percent),
        interval_percent: main.interval_percent,
        detectable_percent: main.detectable_percent,
        p_value: main.p_value,
        p_value_adjusted: None,
        verdict: unless_contradicted(disagreement.as_ref(), verdict(main.verdict)),
        equivalence,
        other_tests: vec![other_test(&other)],
        functions: Vec::new(),
        warnings: (main.warnings.iter().map(in_percent))
            .chain(disagreement.clone())
            .collect(),
        disagreement,
    }
}

fn drift_of_differences(ln_ratios: &Sample, confidence: Confidence) -> Option<Drift> {
    let percents: Vec<f64> = ln_ratios
        .values()
        .iter()
        .map(|ln| 100.0 * ln.exp_m1())
        .collect();
    let drift = fwdlab_stats::drift(&Sample::new(percents).ok()?, confidence)?;
    Some(Drift {
        change_percent: drift.change,
        interval_percent: [drift.interval.low, drift.interval.high],
    })
}

/// Adjusts the p-values of several comparisons with one baseline (Holm), and their verdicts.
fn adjust(comparisons: &mut [Compared], confidence: Confidence) {
    let p_values: Vec<f64> = comparisons.iter().filter_map(|c| c.p_value).collect();
    if comparisons.len() < 2 {
        return;
    }
    let mut adjusted = fwdlab_stats::holm(&p_values).into_iter();
    for compared in comparisons.iter_mut().filter(|c| c.p_value.is_some()) {
        let p = adjusted.next();
        compared.p_value_adjusted = p;
        if compared.is_proven() && p.is_some_and(|p| p > 1.0 - confidence.get()) {
            compared.verdict = Verdict::NoDifference;
        }
    }
}

fn named<'a>(side: Side, baseline: &Values<'a>, other: &Values<'a>) -> &'a str {
    match side {
        Side::Reference => baseline.column,
        Side::Other => other.column,
    }
}

fn verdict(verdict: fwdlab_stats::Verdict) -> Verdict {
    match verdict {
        fwdlab_stats::Verdict::Less => Verdict::Less,
        fwdlab_stats::Verdict::Greater => Verdict::More,
        fwdlab_stats::Verdict::NoDifference => Verdict::NoDifference,
        fwdlab_stats::Verdict::TooFewValues => Verdict::CannotTell,
    }
}

fn equivalence(found: fwdlab_stats::Equivalence) -> Equivalence {
    Equivalence {
        margin_percent: found.margin_percent,
        interval_percent: found.interval_percent.map(|i| [i.low, i.high]),
        verdict: match found.verdict {
            EquivalenceVerdict::Equivalent => "equivalent",
            EquivalenceVerdict::Different => "different",
            EquivalenceVerdict::Undecided => "undecided",
            EquivalenceVerdict::TooFewValues => "cannot_tell",
        },
    }
}

fn id(test: Test) -> &'static str {
    match test {
        Test::Student => "student",
        Test::Welch => "welch",
        Test::MannWhitney => "mann_whitney",
        Test::Exact => "exact",
        Test::PairedT => "paired_t",
        Test::SignedRank => "signed_rank",
    }
}

/// Returns the name of a test for people.
pub(super) fn name_of(id: &str) -> &'static str {
    match id {
        "student" => "Student's t",
        "welch" => "Welch's t",
        "mann_whitney" => "Mann-Whitney U with Hodges-Lehmann",
        "exact" => "exact comparison",
        COUNTS => "intervals of counts",
        "paired_t" => "paired t",
        _ => "Wilcoxon's signed ranks",
    }
}

fn assumption_of(test: Test) -> &'static str {
    match test {
        Test::Student => "normal values, all with the same spread",
        Test::Welch => "normal values, each column with its own spread",
        Test::MannWhitney => "only that one column is the other shifted",
        Test::Exact => "no spread: the values are compared directly",
        Test::PairedT => "normal differences within pairs",
        Test::SignedRank => "only that differences within pairs are symmetric",
    }
}
