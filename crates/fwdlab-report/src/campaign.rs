//! Reports a campaign: a row per test case and figure, why iterations failed, and the sentences
//! that qualify the figures.
//!
//! Tables of a single outcome are in [`crate::procedures`]. Start with [`sections`].

use fwdlab_model::comparison::Comparison;
use fwdlab_model::event::RebuildRecord;
use fwdlab_model::loadtest;
use fwdlab_model::outcome::{Better, Outcome, Sweep, Unit};
use fwdlab_model::result::{RunInfo, Summary};
use fwdlab_model::test_case::{CaseFigure, Enough, Iteration, TestCase};

use crate::answer;
use crate::efficiency;
use crate::exact;
use crate::flame;
use crate::name::{central, label, value, with_interval};
use crate::number::{percent, plural};
use crate::procedures::{self, tables};
use crate::section::{DOUBT, FAILED, Format, Named, Section, WARNING, named};
use crate::state::State;
use crate::table::{Cell, Column, Mark, Table, shorten, table};
use crate::telemetry;
use crate::thresholds;
use crate::words::{self, all_warnings};

/// Largest number of failures of a test case that are listed one by one.
const FAILURES: usize = 3;
/// From this number of test cases on, the headline is the range of their figures.
const MANY: usize = 3;
/// Largest number of answers on a terminal.
const ANSWERS: usize = 10;
/// Width of a DUT's name in the line of a rebuild.
const DUT: usize = 40;

/// Returns the headline: the range of a figure of many test cases, or the first figure of the first
/// test case, and the number of all.
pub(crate) fn headline(cases: &[TestCase]) -> String {
    let failed = cases.iter().filter(|case| case.failures().next().is_some());
    let failed = match failed.count() {
        0 => String::new(),
        failed => format!("; {} without all results", plural(failed, "test case")),
    };
    if let Some(answer) = exact::headline(cases) {
        return format!("{answer}{failed}");
    }
    if let Some(answer) = of_slices(cases) {
        return format!("{answer}{failed}");
    }
    let (low, high, name) = match extremes(cases)[..] {
        [] => {
            let mut reasons = cases.iter().flat_map(TestCase::failures);
            let reason = reasons
                .next()
                .map_or(String::new(), |(_, why)| format!(": {why}"));
            return format!("No test case of {} has a result{reason}", cases.len());
        }
        [(case, figure)] => (figure, None, label(case, cases)),
        [(low, from), (high, to), ..] => {
            let to = format!("{} ({})", central(to), label(high, cases));
            (from, Some(to), label(low, cases))
        }
    };
    let more = match cases.len() {
        1 => String::new(),
        all => format!("; {} in all", plural(all, "test case")),
    };
    if let Some(to) = high {
        return format!(
            "{} ({name}) to {to}, {}{more}{failed}",
            central(low),
            low.name
        );
    }
    let outcomes = cases.iter().find(|case| !case.figures.is_empty());
    let outcomes = outcomes.into_iter().flat_map(|case| &case.outcomes);
    let mut sweeps = outcomes.filter_map(|one| one.found.get());
    if low.unit != Unit::Cost
        && let Some(swept) = sweeps.find_map(procedures::describe_sweep)
    {
        return format!("{name}: {swept}{more}{failed}");
    }
    format!("{name}, {}: {}{more}{failed}", low.name, with_interval(low))
}

/// Returns the test cases of the headline, each with its figure: with the smallest and the largest
/// value if many test cases have the same figure, otherwise the first.
fn extremes(cases: &[TestCase]) -> Vec<(&TestCase, &CaseFigure)> {
    let firsts = || {
        cases
            .iter()
            .filter_map(|case| Some((case, case.figures.first()?)))
    };
    let Some(first) = firsts().next() else {
        return Vec::new();
    };
    let is_same = |one: &CaseFigure| one.name == first.1.name && one.unit == first.1.unit;
    let is_swept = |case: &TestCase| {
        case.outcomes
            .iter()
            .any(|one| one.found.get::<Sweep>().is_some())
    };
    if firsts().count() < MANY || !firsts().all(|(case, one)| is_same(one) && !is_swept(case)) {
        return vec![first];
    }
    let by_median = |a: &(&TestCase, &CaseFigure), b: &(&TestCase, &CaseFigure)| {
        a.1.median.total_cmp(&b.1.median)
    };
    let ends = [firsts().min_by(by_median), firsts().max_by(by_median)];
    ends.into_iter().flatten().collect()
}

/// Returns true if a test case of the headline is in doubt.
pub(crate) fn is_headline_doubtful(cases: &[TestCase]) -> bool {
    extremes(cases).iter().any(|(case, _)| case.doubt.is_some())
}

/// Returns the headline of slices: the cost per unit, the difference of the only configuration, or
/// the number of configurations that differ.
fn of_slices(all: &[TestCase]) -> Option<String> {
    let mut found = all.iter().filter_map(|case| Some((case, case.slices()?)));
    let (case, first) = found.next()?;
    let more = match all.len() {
        1 => String::new(),
        all => format!("; {} in all", plural(all, "test case")),
    };
    if let (Some(slope), Some(parameter)) = (&first.slope, &first.parameter) {
        let cost = procedures::slope(slope, parameter);
        return Some(format!("{}: {cost}{more}", label(case, all)));
    }
    if let (1, [point]) = (all.len(), &first.points[..]) {
        let finding = words::finding(&point.comparison);
        return Some(format!("{}: {finding}", case.case.configuration));
    }
    let points = || {
        let found = all.iter().filter_map(TestCase::slices);
        found.flat_map(|found| &found.points)
    };
    let compared: Vec<&Comparison> = points().map(|point| &point.comparison).collect();
    Some(words::tally(&compared))
}

/// Returns the result of an iteration, or why it failed, in one line.
pub fn in_one_line(iteration: &Iteration) -> String {
    if let Some(reason) = &iteration.failure {
        return format!("FAILED: {reason}");
    }
    let figures = iteration.outcomes.iter().flat_map(Outcome::figures);
    let reported =
        figures.map(|figure| format!("{} {}", figure.name, value(figure.unit, figure.value)));
    reported.collect::<Vec<_>>().join(", ")
}

/// Describes a rebuild of a paired comparison: each DUT with its difference from the reference.
pub fn rebuild_in_one_line(record: &RebuildRecord) -> String {
    let differences = record.difference_percent.iter().enumerate().skip(1);
    let each = differences.map(|(n, percent)| {
        let name = match record.compared.get(n) {
            Some(dut) if dut.control => "A/A control".to_owned(),
            Some(dut) => match &dut.setting {
                Some((parameter, value)) => format!("{value} {parameter}"),
                None => shorten(
                    &dut.configuration
                        .split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" "),
                    DUT,
                ),
            },
            None => format!("DUT {n}"),
        };
        format!("{name} {percent:+.2} %")
    });
    let each = each.collect::<Vec<_>>().join("  ");
    let blocks = plural(record.blocks as usize, "block");
    match each.is_empty() {
        true => format!("rebuild {}  no result from {blocks}", record.rebuild),
        false => format!("rebuild {}  {each}  ({blocks})", record.rebuild),
    }
}

/// Returns a table with one row per test case and figure; a test case without figures has one row.
pub(crate) fn cases(all: &[TestCase]) -> Table {
    let none = [CaseFigure {
        name: String::new(),
        unit: Unit::FramesPerSecond,
        better: Better::Higher,
        values: Vec::new(),
        median: 0.0,
        interval_half_width: None,
        variation_percent: None,
        generator_limited: 0,
    }];
    let figures = all.iter().flat_map(|case| {
        let figures = match case.figures.as_slice() {
            [] => &none[..],
            figures => figures,
        };
        figures.iter().map(move |figure| (case, figure))
    });
    let name = |figure: &CaseFigure| {
        let unit = serde_json::to_value(figure.unit).unwrap_or_default();
        let unit = unit.as_str().unwrap_or_default().to_owned();
        Cell::with_values(&figure.name, [figure.name.clone(), unit])
    };
    let median = |case: &TestCase, figure: &CaseFigure| {
        let state = State::from_case(case);
        match figure.values.is_empty() {
            true => Cell::new(state.instead(), ""),
            false => Cell::new(state.beside(figure.unit, &central(figure)), figure.median),
        }
    };
    let half = |half: f64, figure: &CaseFigure| match figure.is_undetermined() {
        true => String::new(),
        false => format!("± {}", value(figure.unit, half)),
    };
    table! {
        (case, figure) in figures;
        left("test case", "test_case") => Cell::new(label(case, all), &case.test_case),
        left("figure", "figure", "unit") => name(figure),
        right("median", "median") => median(case, figure),
        right("95 %", "interval_half_width") =>
            Cell::optional(figure.interval_half_width, "", |own| half(own, figure)),
        right("CV", "variation_percent") => Cell::optional(figure.variation_percent, "", percent),
        right("used", "iterations", "iterations_failed") => used(case, figure.values.len()),
    }
}

/// Returns how many of the iterations have a value: `4/5`.
fn used(case: &TestCase, values: usize) -> Cell {
    Cell::with_values(
        format!("{values}/{}", case.iterations.len()),
        [values, case.failures().count()].map(|n| n.to_string()),
    )
}

/// Returns the main table: differences from a reference if there is one, else figures.
pub(crate) fn table(all: &[TestCase]) -> Table {
    differences(all).unwrap_or_else(|| cases(all))
}

/// Returns the differences of all test cases from the reference DUT, one row per test case and
/// value; `None` for other procedures.
pub(crate) fn differences(all: &[TestCase]) -> Option<Table> {
    if let Some(table) = exact::differences(all) {
        return Some(table);
    }
    let mut found = all
        .iter()
        .flat_map(|case| case.slices().map(|found| (case, found)));
    let (_, first) = found.next()?;
    let mut columns = vec![Column::left("test case", &["test_case"])];
    let value = first.parameter.as_ref();
    columns.extend(value.map(|parameter| Column::right(parameter, &["value"])));
    columns.extend(procedures::difference_columns());
    columns.push(Column::right("used", &["iterations", "iterations_failed"]));
    let mut table = Table::new(columns);
    for case in all {
        for point in case.slices().into_iter().flat_map(|found| &found.points) {
            let mut cells = vec![Cell::new(label(case, all), &case.test_case)];
            cells.extend(point.value.map(|value| Cell::new(value.to_string(), value)));
            cells.extend(procedures::difference_cells(point));
            cells.push(used(case, point.comparison.values_percent.len()));
            table.push(Mark::None, cells);
        }
    }
    Some(table)
}

/// Returns the same differences for a chart: the index of the test case, and a comparison named
/// after the test case and the swept value.
pub(crate) fn named_differences(all: &[TestCase]) -> Vec<(usize, Comparison)> {
    let mut named = Vec::new();
    for (at, case) in all.iter().enumerate() {
        let Some(found) = case.slices() else { continue };
        for point in &found.points {
            let value = found.parameter.as_ref().zip(point.value);
            let value = value.map_or(String::new(), |(what, value)| format!(", {what} {value}"));
            let comparison = Comparison {
                configuration: format!("{}{value}", label(case, all)),
                ..point.comparison.clone()
            };
            named.push((at, comparison));
        }
    }
    named
}

/// Returns the cost per unit of the swept parameter for each test case, measured by slices.
fn slopes(all: &[TestCase]) -> Vec<String> {
    let mut reported = Vec::new();
    for case in all {
        if let Some(found) = case.slices()
            && let (Some(slope), Some(parameter)) = (&found.slope, &found.parameter)
        {
            reported.push(format!(
                "{}: {}",
                label(case, all),
                procedures::slope(slope, parameter)
            ));
        }
    }
    reported
}

/// Returns why iterations have no result.
fn failures(all: &[TestCase]) -> Vec<String> {
    let mut reported = Vec::new();
    for case in all {
        let name = label(case, all);
        let failures: Vec<(u32, &str)> = case.failures().collect();
        if let Some((_, reason)) = failures.first()
            && failures.len() > 1
            && failures.iter().all(|(_, other)| other == reason)
        {
            let all = plural(failures.len(), "iteration");
            reported.push(format!("{name}, {all}: {reason}"));
            continue;
        }
        for (iteration, reason) in failures.iter().take(FAILURES) {
            reported.push(format!("{name}, iteration {iteration}: {reason}"));
        }
        if failures.len() > FAILURES {
            let more = failures.len() - FAILURES;
            reported.push(format!("{name}: {more} more iterations failed"));
        }
    }
    reported
}

/// Returns the verdicts on thresholds, why iterations have no result, and why measuring stopped.
pub(crate) fn verdicts(summary: &Summary) -> Vec<Named> {
    let all = &summary.test_cases;
    named("required", thresholds::sentences(summary))
        .chain(named(FAILED, failures(all)))
        .chain(named("stopped", stopped(all)))
        .collect()
}

/// Returns why iterations have no result, and why measuring stopped.
pub(crate) fn shortfalls(all: &[TestCase]) -> impl Iterator<Item = String> {
    failures(all).into_iter().chain(stopped(all))
}

/// Returns why test cases are too noisy to be reliable.
pub(crate) fn too_noisy(all: &[TestCase]) -> Vec<String> {
    let of = |case: &TestCase| Some(format!("{}: {}", label(case, all), case.doubt.as_ref()?));
    all.iter().filter_map(of).collect()
}

/// Returns when and why measuring stopped, for test cases whose number of iterations depends on
/// their results.
fn stopped(all: &[TestCase]) -> Vec<String> {
    let each = all.iter().filter_map(|case| {
        let stopped = case.stopped.as_ref()?;
        let half = match stopped.half_width_percent {
            Some(half) => format!("±{half:.2} %"),
            None => "of unknown width".into(),
        };
        let made = plural(stopped.iterations as usize, "iteration");
        let requested = (1e4 * stopped.requested_percent).round() / 1e4;
        let reason = match stopped.why {
            Enough::NarrowEnough => format!("narrow enough (±{requested} % was requested)"),
            Enough::Maximum => {
                format!("the maximum number; ±{requested} % was requested, but not reached")
            }
            Enough::JudgedAgain => format!(
                "±{requested} % was reached, but by the readings of the whole run fewer windows count"
            ),
            Enough::Stopped => format!("it ended before ±{requested} % was reached"),
        };
        let name = label(case, all);
        Some(format!(
            "{name}: after {made} its interval is {half}: {reason}"
        ))
    });
    each.collect()
}

/// Returns the warnings of the outcomes, each once.
pub(crate) fn caveats(all: &[TestCase]) -> Vec<String> {
    let mut reported: Vec<String> = Vec::new();
    for case in all {
        for doubt in procedures::caveats(&case.outcomes) {
            reported.push(format!("{}: {doubt}", label(case, all)));
        }
    }
    reported
}

/// Returns the labels of the standards, each once.
pub(crate) fn methods(all: &[TestCase]) -> Vec<String> {
    let mut reported: Vec<String> = Vec::new();
    for method in all
        .iter()
        .flat_map(|case| procedures::methods(&case.outcomes))
    {
        if !reported.contains(&method) {
            reported.push(method);
        }
    }
    reported
}

/// Returns the sections below the headline.
pub(crate) fn sections(info: &RunInfo, summary: &Summary, format: Format) -> Vec<Section> {
    let all = &summary.test_cases;
    let mut sections = vec![Section::table("", table(all))];
    let functions = exact::functions(all, exact::FUNCTIONS).into_iter();
    sections.extend(functions.map(|(title, functions)| Section::Tables {
        title,
        unit: flame::UNIT,
        tables: vec![functions],
    }));
    if format == Format::Terminal {
        sections.extend(all.iter().filter_map(|case| sweep(case, all)));
    }
    sections.extend(efficiency::sections(info, all));
    sections.push(Section::Sentences(sentences(info, summary, format)));
    sections
}

/// Returns the tables of a sweep, which are its answer, not its details.
fn sweep(case: &TestCase, all: &[TestCase]) -> Option<Section> {
    let mut outcomes = case.outcomes.iter();
    outcomes.find_map(|outcome| outcome.found.get::<Sweep>())?;
    let of = match all.len() {
        1 => String::new(),
        _ => format!("{}: ", label(case, all)),
    };
    let groups = procedures::groups(&case.outcomes);
    let tables = groups
        .iter()
        .flat_map(|group| tables::tables(group, &case.outcomes, usize::MAX));
    Some(Section::Tables {
        title: format!("{of}{}", procedures::headline(&case.outcomes)),
        unit: "",
        tables: tables
            .map(|titled| titled.table.with_repeats_hidden("frames"))
            .collect(),
    })
}

/// Returns the question of a campaign and the sentences that answer it.
pub(crate) fn campaign_answers(info: &RunInfo, all: &[TestCase]) -> Vec<Named> {
    let question = answer::question(info).map(str::to_owned);
    let answers = answer::answers(info, all).into_iter();
    named("question", question)
        .chain(named("answer", answers.map(|one| one.words)))
        .collect()
}

/// Returns what qualifies the figures: failures, noise, warnings, standards, order, engine.
fn sentences(info: &RunInfo, summary: &Summary, format: Format) -> Vec<Named> {
    let all = &summary.test_cases;
    let mut answers = campaign_answers(info, all);
    let more = answers.len().saturating_sub(ANSWERS);
    if format == Format::Terminal && more > 1 {
        answers.truncate(ANSWERS);
        answers.push(("answer".into(), format!("{more} more are in the report")));
    }
    let control = summary.control.iter().map(words::control_words);
    let counted = exact::sentences(summary).into_iter();
    answers
        .into_iter()
        .chain(named("cost", slopes(all)))
        .chain(named("control", control))
        .chain(counted.map(|(name, sentence)| (name.into(), sentence)))
        .chain(verdicts(summary))
        .chain(named(DOUBT, too_noisy(all)))
        .chain(named("found", telemetry::sentences(summary)))
        .chain(words::noise(summary))
        .chain(named(WARNING, caveats(all)))
        .chain(named(WARNING, all_warnings(summary)))
        .chain(named("method", methods(all)))
        .chain(named("method", [order_words(info)]))
        .chain(named("link", info.facts.link.clone()))
        .chain(named("engine", [info.facts.engine.clone()]))
        .collect()
}

/// Returns the number of iterations and their order.
fn order_words(info: &RunInfo) -> String {
    let of = |name: &str| {
        let value = info.parameters.get(name);
        value.map_or(String::new(), |value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        })
    };
    if info.kind == loadtest::KIND {
        let failed = of("fail_threshold").parse().unwrap_or(0.0) * 100.0;
        return format!(
            "load tests of TRex, by the arithmetic of trex-loadtest-viz: a second failed that lost more than {failed} %"
        );
    }
    if of("procedure") == "exact" {
        return format!(
            "exact, {} of every test case, each a guest; seed {}",
            plural(of("iterations").parse().unwrap_or(0), "iteration"),
            info.seed
        );
    }
    format!(
        "{}, {} of every test case, {}, seed {}; figures are medians, ± half of the 95 % interval of the mean",
        of("procedure"),
        match of("iterations_min").as_str() {
            "" => plural(of("iterations").parse().unwrap_or(0), "iteration"),
            min => format!("{min} to {} iterations", of("iterations")),
        },
        of("order"),
        info.seed
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn case(size: u32, median: f64) -> TestCase {
        let figure = json!({ "name": "ndr", "unit": "frames/s", "better": "higher", "values": [median], "median": median });
        serde_json::from_value(json!({
            "test_case": "x", "configuration": "plain", "ip_version": "ipv4", "frame_size_bytes": size,
            "flows": 1, "figures": [figure], "iterations": [], "outcomes": [],
        }))
        .unwrap()
    }

    #[test]
    fn the_headline_of_many_test_cases_is_the_range() {
        let all = [case(64, 2e6), case(512, 3e6), case(1518, 1e6)];
        let range = "1.000 Mpps (1518 B) to 3.000 Mpps (512 B), ndr; 3 test cases in all";
        assert_eq!(headline(&all), range);
        assert_eq!(
            headline(&all[..2]),
            "64 B, ndr: 2.000 Mpps; 2 test cases in all"
        );
        // the answer is in doubt if either end is
        let mut doubtful = all;
        assert!(!is_headline_doubtful(&doubtful));
        doubtful[1].doubt = Some("noise".into());
        assert!(is_headline_doubtful(&doubtful));
    }

    #[test]
    fn differences_of_a_rebuild_have_the_names_of_their_duts() {
        let dut = |configuration: &str, control: bool| {
            let stream = json!({ "ip_version": "ipv4", "frame_size_bytes": 64, "flows": 1 });
            json!({ "test_case": "x", "configuration": configuration, "control": control, "stream": stream })
        };
        let record = |differences: &[f64]| -> RebuildRecord {
            serde_json::from_value(json!({
                "rebuild": 2, "started_at": "", "places": [0, 1, 2], "blocks": 5, "blocks_not_offered": 0,
                "compared": [dut("plain", false), dut("plain", true), dut("nft add table\n  t", false)],
                "forwarding_rate_pps": [], "difference_percent": differences, "frames_sent": 0,
                "frames_received": 0, "ledgers": [], "validity": { "valid": true, "reasons": [] },
            }))
            .unwrap()
        };
        let line = rebuild_in_one_line(&record(&[0.0, 0.5, -2.25]));
        assert_eq!(
            line,
            "rebuild 2  A/A control +0.50 %  nft add table t -2.25 %  (5 blocks)"
        );
        assert_eq!(
            rebuild_in_one_line(&record(&[])),
            "rebuild 2  no result from 5 blocks"
        );
    }
}
