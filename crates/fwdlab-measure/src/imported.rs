//! Summarises the records of a set per test case.
//!
//! A function of the records, so that it can be recomputed from `trials.jsonl`. Start with
//! [`cases`].

use std::collections::BTreeMap;

use fwdlab_model::import::{ImportedCase, ImportedRecord, ImportedSeries};

use fwdlab_stats::Sample;

/// Maximum number of different warnings reported for a test case; all are in the records.
const WARNINGS: usize = 6;

/// Returns one summary per test case, in the order of their first records.
pub fn cases(records: &[ImportedRecord]) -> Vec<ImportedCase> {
    let mut order: Vec<&str> = Vec::new();
    let mut groups: BTreeMap<&str, Vec<&ImportedRecord>> = BTreeMap::new();
    for record in records {
        let group = groups.entry(&record.test_case).or_default();
        if group.is_empty() {
            order.push(&record.test_case);
        }
        group.push(record);
    }
    order.into_iter().map(|name| case(&groups[name])).collect()
}

fn case(runs: &[&ImportedRecord]) -> ImportedCase {
    let valid = || runs.iter().filter(|run| run.validity.is_valid());
    let ours = series(valid().filter_map(|run| run.forwarding_rate_pps));
    // The archive's own rule has no validity.
    let legacy = series(runs.iter().filter_map(|run| run.forwarding_rate_legacy_pps));
    let rule_difference_percent = ours
        .median_pps
        .zip(legacy.median_pps)
        .filter(|(_, legacy)| *legacy > 0.0)
        .map(|(ours, legacy)| 100.0 * (ours / legacy - 1.0));
    let with_loss = || valid().filter(|run| run.frame_loss_ratio.is_some());
    let sum = |of: fn(&ImportedRecord) -> Option<u64>| -> f64 {
        with_loss().filter_map(|run| of(run)).sum::<u64>() as f64
    };
    let sent = sum(|run| run.frames_sent);
    ImportedCase {
        test_case: runs[0].test_case.clone(),
        labels: runs[0].labels.clone(),
        rule_difference_percent,
        throughput_l2_bps: middle(valid().filter_map(|run| run.throughput_l2_bps)),
        offered_load_pps: middle(valid().filter_map(|run| run.offered_load_pps)),
        frame_loss_ratio: (sent > 0.0).then(|| 1.0 - sum(|run| run.frames_received) / sent),
        ip_version: agreed(runs, |run| run.ip_version),
        frame_size_bytes: agreed(runs, |run| run.frame_size_bytes),
        flows: agreed(runs, |run| run.flows),
        iterations_invalid: runs.iter().filter(|run| !run.validity.is_valid()).count() as u32,
        warnings: warnings(runs),
        ours,
        legacy,
    }
}

/// Returns values with their median, smallest and largest.
fn series(values: impl Iterator<Item = f64>) -> ImportedSeries {
    let iterations_pps: Vec<f64> = values.collect();
    let sample = Sample::new(iterations_pps.clone()).ok();
    ImportedSeries {
        median_pps: sample.as_ref().map(Sample::median),
        min_pps: sample.as_ref().map(Sample::min),
        max_pps: sample.as_ref().map(Sample::max),
        iterations_pps,
    }
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    series(values).median_pps
}

/// Returns the value that all runs with a value agree on.
fn agreed<T: PartialEq>(
    runs: &[&ImportedRecord],
    of: fn(&ImportedRecord) -> Option<T>,
) -> Option<T> {
    let mut said = runs.iter().filter_map(|run| of(run));
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

/// Returns reasons and warnings of the runs, with duplicates merged.
fn warnings(runs: &[&ImportedRecord]) -> Vec<String> {
    let mut reported: Vec<(&str, Vec<u32>)> = Vec::new();
    for run in runs {
        for text in run.validity.reasons.iter().chain(&run.warnings) {
            match reported.iter_mut().find(|(known, _)| known == text) {
                Some((_, who)) => who.push(run.iteration),
                None => reported.push((text, vec![run.iteration])),
            }
        }
    }
    let more = reported.len().saturating_sub(WARNINGS);
    let mut texts: Vec<String> = reported
        .into_iter()
        .take(WARNINGS)
        .map(|(text, who)| match who.len() {
            all if all == runs.len() => format!("all runs: {text}"),
            1 => format!("run {}: {text}", who[0]),
            some => format!("{some} of {} runs: {text}", runs.len()),
        })
        .collect();
    if more > 0 {
        texts.push(format!("{more} more warnings in trials.jsonl"));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_model::result::Validity;

    fn record(
        iteration: u32,
        ours: Option<f64>,
        legacy: f64,
        totals: Option<(u64, u64)>,
    ) -> ImportedRecord {
        let reason = ours.is_none().then(|| "short".to_owned());
        serde_json::from_value(serde_json::json!({
            "imported_from": "netbenches", "test_case": "a", "iteration": iteration,
            "forwarding_rate_pps": ours, "forwarding_rate_legacy_pps": legacy,
            "samples": 9, "samples_legacy": 9, "sources": [], "warnings": ["slow"],
            "frames_sent": totals.map(|t| t.0), "frames_received": totals.map(|t| t.1),
            "frame_loss_ratio": totals.map(|(s, r)| (s - r) as f64 / s as f64),
            "flows": if iteration == 9 { 1 } else { 2000 }, "frame_size_bytes": 64,
            "validity": Validity { reasons: reason.into_iter().collect() },
        }))
        .unwrap()
    }

    #[test]
    fn one_case() {
        let runs = [
            record(1, Some(110.0), 100.0, Some((1000, 500))),
            record(2, None, 90.0, Some((1000, 0))),
            record(9, Some(112.0), 104.0, None),
        ];
        let [case] = &cases(&runs)[..] else { panic!() };
        assert_eq!(case.ours.median_pps, Some(111.0));
        assert_eq!(
            (case.legacy.min_pps, case.legacy.median_pps),
            (Some(90.0), Some(100.0))
        );
        assert_eq!(case.rule_difference_percent.map(f64::round), Some(11.0));
        assert_eq!(case.frame_loss_ratio, Some(0.5));
        assert_eq!(
            (case.iterations_invalid, case.flows, case.frame_size_bytes),
            (1, None, Some(64))
        );
        assert_eq!(case.warnings, ["all runs: slow", "run 2: short"]);
    }
}
