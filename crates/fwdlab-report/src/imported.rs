//! Reports an imported result set of an archive: its tables and sentences.
//!
//! An archive records less than a run of fwdlab: missing values are left empty. The page is in
//! `html::imported`. Start with [`sections`].

use fwdlab_model::import::ImportedCase;
use fwdlab_model::result::{RunInfo, Summary};

use crate::number::{Prefix, bits_per_second, counted, percent, plural, rate};
use crate::section::{Format, Section, WARNING, named};
use crate::table::{Cell, Mark, Table, shorten, table};

/// The kind of these runs.
pub(crate) const KIND: &str = "import";
/// Width of a test case's name in the terminal, in columns; the page and CSV show all of it.
const CASE: usize = 26;
/// Columns that are too many for the terminal.
const THEIR_MIN: &str = "their min";
const THEIR_MAX: &str = "their max";
/// Number of warnings in the terminal; documents show all.
const WARNINGS: usize = 8;

/// Returns the sections below the headline.
pub(crate) fn sections(summary: &Summary, format: Format) -> Vec<Section> {
    let (mut table, mut warnings) = (cases(summary), warnings(summary));
    let mut more = None;
    if format == Format::Terminal {
        table.remove(THEIR_MIN);
        table.remove(THEIR_MAX);
        for row in &mut table.rows {
            row.cells[0].text = shorten(&row.cells[0].text, CASE);
        }
        let left_out = warnings.len().saturating_sub(WARNINGS);
        warnings.truncate(WARNINGS);
        more = (left_out > 0).then(|| {
            format!(
                "{} in report.html",
                counted(left_out as u64, "more warning")
            )
        });
    }
    let sentences = named(WARNING, warnings)
        .chain(named("", more))
        .chain(named("method", [METHOD.to_owned()]));
    vec![
        Section::table("", table),
        Section::Sentences(sentences.collect()),
    ]
}

/// Explains how the numbers were computed.
pub(crate) const METHOD: &str = "A run's value is the median of the receiver's samples. Ours: samples from 5 s after the first \
     frame received to 2 s before the last sent. Theirs, the archive's own rule: all lines of the log except the first 15 and \
     the last 10. Rules: ours against theirs. Loss: lost over sent, where the logs have both totals.";

/// Returns the headline of the set.
pub(crate) fn headline(info: &RunInfo, summary: &Summary) -> String {
    let set = info.parameters.get("set").and_then(|set| set.as_str());
    let set = set.unwrap_or("a result set");
    let medians: Vec<f64> = summary.imported.iter().filter_map(median).collect();
    let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let high = medians.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let found = match medians.len() {
        0 => "no value".to_owned(),
        1 => rate(high),
        _ => format!("{} to {}", rate(low), rate(high)),
    };
    format!(
        "Imported from {}: {set}, {}: {found}",
        summary.procedure,
        plural(summary.imported.len(), "test case")
    )
}

/// Returns the median by fwdlab's rule, or else by the archive's.
pub(crate) fn median(case: &ImportedCase) -> Option<f64> {
    case.ours.median_pps.or(case.legacy.median_pps)
}

/// Returns the warnings of the set, then those of its test cases.
pub(crate) fn warnings(summary: &Summary) -> Vec<String> {
    let of_cases = summary.imported.iter().flat_map(|case| {
        let name = name(case);
        case.warnings
            .iter()
            .map(move |text| format!("{name}: {text}"))
    });
    summary.warnings.iter().cloned().chain(of_cases).collect()
}

/// Returns the name of a test case; logs without a test case are called `runs`.
pub(crate) fn name(case: &ImportedCase) -> &str {
    match &case.test_case[..] {
        "" => "runs",
        name => name,
    }
}

/// Returns a table with one row per test case.
pub(crate) fn cases(summary: &Summary) -> Table {
    let all = || summary.imported.iter();
    let largest = all().flat_map(|case| [case.ours.max_pps, case.legacy.max_pps]);
    let prefix = Prefix::for_largest(largest.flatten());
    let number = |value| Cell::optional(value, "-", |pps| prefix.number(pps));
    let runs = |case: &ImportedCase| {
        let [ours, theirs] = [&case.ours, &case.legacy].map(|one| one.iterations_pps.len());
        ours.max(theirs)
    };
    let loss = |ratio: f64| percent(100.0 * ratio);
    let mark =
        |case: &ImportedCase| match median(case).is_none() && case.throughput_l2_bps.is_none() {
            true => Mark::Invalid,
            false => Mark::None,
        };
    let mut table = table! {
        case in all(), mark(case);
        left("test case", "test_case") => Cell::text(name(case)),
        right("runs", "runs") => Cell::new(runs(case).to_string(), runs(case)),
        right(format!("ours {}", prefix.pps()), "forwarding_rate_pps") => number(case.ours.median_pps),
        right("min", "forwarding_rate_min_pps") => number(case.ours.min_pps),
        right("max", "forwarding_rate_max_pps") => number(case.ours.max_pps),
        right("theirs", "forwarding_rate_legacy_pps") => number(case.legacy.median_pps),
        right(THEIR_MIN, "forwarding_rate_legacy_min_pps") => number(case.legacy.min_pps),
        right(THEIR_MAX, "forwarding_rate_legacy_max_pps") => number(case.legacy.max_pps),
        right("rules", "rule_difference_percent") =>
            Cell::optional(case.rule_difference_percent, "-", |p| format!("{p:+.2} %")),
        right("loss", "frame_loss_ratio") => Cell::optional(case.frame_loss_ratio, "-", loss),
        right("L2 throughput", "throughput_l2_bps") =>
            Cell::optional(case.throughput_l2_bps, "-", bits_per_second),
    };
    if all().all(|case| case.throughput_l2_bps.is_none()) {
        table.remove("L2 throughput");
    }
    if all().all(|case| case.frame_loss_ratio.is_none()) {
        table.remove("loss");
    }
    table
}

/// Returns the traffic of each test case, as a table.
pub(crate) fn traffic(summary: &Summary) -> Table {
    let label = |case: &ImportedCase, key: &str| {
        Cell::text(case.labels.get(key).map_or("", String::as_str))
    };
    table! {
        case in &summary.imported;
        left("test case", "test_case") => Cell::text(name(case)),
        left("configuration", "configuration") => label(case, "configuration"),
        left("traffic", "traffic") => label(case, "traffic"),
        right("frame bytes", "frame_size_bytes") =>
            Cell::optional(case.frame_size_bytes, "-", |bytes| bytes.to_string()),
        left("IP", "ip_version") => Cell::text(case.ip_version.map_or(String::new(), |v| v.to_string())),
        right("flows", "flows") => Cell::optional(case.flows, "-", |flows| flows.to_string()),
        right("offered", "offered_load_pps") => Cell::optional(case.offered_load_pps, "-", rate),
    }
}
