//! Reads records of earlier versions, and converts them to the current one.
//!
//! Only renamed or moved fields are here: missing fields have defaults in their types. Version 1
//! kept a search apart from other procedures; since version 2 it is an outcome like the others, and
//! its trials are questions and answers like all. Until version 2 there were four lists of results:
//! test cases of windows, comparisons, outcomes of procedures, and test cases of campaigns; since
//! version 3 there is one. Start with [`searched`] and [`summary`].

use fwdlab_model::campaign::{Case, Kind, PLAIN};
use fwdlab_model::comparison::Comparison;
use fwdlab_model::import::NETBENCHES;
use fwdlab_model::loss::Ledger;
use fwdlab_model::outcome::{
    Better, Compliance, FORWARDING_RATE, Found, Maxfwd, Outcome, Paired, PairedPoint, Unit,
};
use fwdlab_model::procedure::{Answer, Asked, Purpose, Queries, Question};
use fwdlab_model::result::{Noise, RunInfo, Summary, TrialRecord};
use fwdlab_model::search::SearchOutcome;
use fwdlab_model::test_case::{CaseFigure, Iteration, NoResult, TestCase};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Fields that only trials of a search had in version 1.
#[derive(Deserialize)]
struct SearchTrial {
    load_pps: f64,
    duration_ns: u64,
    #[serde(default)]
    ended_early: bool,
    warm_up: bool,
    #[serde(default)]
    management: Option<Queries>,
    reason: String,
    says: Vec<String>,
}

/// Parses a trial of a search of version 1, which contained the index of its load.
pub(crate) fn searched(line: &[u8]) -> serde_json::Result<Box<TrialRecord>> {
    let mut record: Box<TrialRecord> = serde_json::from_slice(line)?;
    let search: SearchTrial = serde_json::from_slice(line)?;
    record.asked = Some(Box::new(asked(search, &record)));
    Ok(record)
}

fn asked(search: SearchTrial, record: &TrialRecord) -> Asked {
    let (ledger, counters) = (&record.ledger, &record.counters);
    let purpose = match search.warm_up {
        true => Purpose::WarmUp,
        false => Purpose::Search,
    };
    Asked {
        question: Question::constant(
            record.stream.frame_size_bytes,
            search.load_pps,
            search.duration_ns,
            purpose,
            search.reason,
        ),
        answer: Answer {
            frames_intended: ledger.frames_intended.unwrap_or(ledger.frames_sent),
            frames_sent: ledger.frames_sent,
            frames_received: ledger.frames_received,
            frames_additional: ledger.frames_additional,
            frames_foreign: counters.receiver_foreign,
            directions: record.directions.clone(),
            ended_early: search.ended_early,
            duration_ns: (1e9 * record.duration_s).round() as u64,
            management: search.management,
            ..Answer::default()
        },
        evaluation: search.says.join("; "),
        latency_log: None,
    }
}

/// Parses a summary in this format, of the run with this header.
pub(crate) fn summary(bytes: &[u8], format: u32, info: &RunInfo) -> serde_json::Result<Summary> {
    let mut summary: Summary = match format < ONE_LIST {
        true => from_four_lists(bytes, info)?,
        false => serde_json::from_slice(bytes)?,
    };
    kinds(&mut summary);
    Ok(summary)
}

/// Parses the figures of a current summary, with iterations that have no outcomes: they are most of
/// it. `None` if its series need more: these, or other records, or a conversion.
pub(crate) fn figures(bytes: &[u8]) -> Option<Summary> {
    #[derive(Deserialize)]
    struct Figures {
        format: u32,
        run: String,
        procedure: String,
        noise: Noise,
        test_cases: Vec<OfCase>,
    }
    #[derive(Deserialize)]
    struct OfCase {
        test_case: String,
        #[serde(flatten)]
        case: Case,
        figures: Vec<CaseFigure>,
        outcomes: Vec<Outcome>,
        iterations: Vec<OfIteration>,
        doubt: Option<String>,
    }
    #[derive(Deserialize)]
    struct OfIteration {
        iteration: u32,
        failure: Option<String>,
    }
    let found: Figures = serde_json::from_slice(bytes).ok()?;
    // windows have values besides their figures, rebuilds and records of an archive are values
    let is_current = (ONE_LIST..=RUN_FORMAT).contains(&found.format);
    if !is_current || ["maxfwd", "paired", NETBENCHES].contains(&&found.procedure[..]) {
        return None;
    }
    // which iterations have a value is in their outcomes
    let is_plain = |case: &OfCase| {
        case.outcomes.len() <= 1 && case.iterations.iter().all(|one| one.failure.is_none())
    };
    if !found.test_cases.iter().all(is_plain) {
        let mut whole: Summary = serde_json::from_slice(bytes).ok()?;
        kinds(&mut whole);
        return Some(whole);
    }
    let iteration = |one: OfIteration| Iteration {
        iteration: one.iteration,
        failure: one.failure,
        ..Iteration::default()
    };
    let case = |one: OfCase| TestCase {
        test_case: one.test_case,
        case: one.case,
        figures: one.figures,
        outcomes: one.outcomes,
        iterations: one.iterations.into_iter().map(iteration).collect(),
        findings: Vec::new(),
        doubt: one.doubt,
        work: None,
        stopped: None,
    };
    let mut summary = Summary {
        format: found.format,
        run: found.run,
        procedure: found.procedure,
        test_cases: found.test_cases.into_iter().map(case).collect(),
        control: None,
        imported: Vec::new(),
        noise: found.noise,
        warnings: Vec::new(),
        thresholds: Vec::new(),
        imix_estimate_l2_bps: None,
    };
    kinds(&mut summary);
    Some(summary)
}

/// Sets kinds that until 0.2.0 were only contained in texts.
fn kinds(summary: &mut Summary) {
    let noise = &mut summary.noise;
    noise.not_judged |= !noise.too_noisy && noise.verdict.starts_with("not judged");
    for case in &mut summary.test_cases {
        case.outcomes.iter_mut().for_each(applicable);
        case.iterations.iter_mut().for_each(kind);
        for figure in &mut case.figures {
            if figure.unit == Unit::Nanoseconds && figure.name.contains(", cost of") {
                figure.unit = Unit::Cost;
            }
        }
    }
}

fn applicable(outcome: &mut Outcome) {
    outcome.not_applicable |= !outcome.answered && outcome.verdict.starts_with("not applicable");
}

/// Sets the kind of an iteration's failure, which until 0.2.0 was only contained in its text.
pub(crate) fn kind(iteration: &mut Iteration) {
    iteration.outcomes.iter_mut().for_each(applicable);
    let (NoResult::Failed, Some(reason)) = (iteration.no_result, &iteration.failure) else {
        return;
    };
    let says = |words: &[&str]| words.iter().any(|one| reason.contains(one));
    iteration.no_result = match () {
        () if reason == "interrupted" => NoResult::Interrupted,
        () if reason.starts_with("hook ") => NoResult::Hook,
        () if says(&["does not come up: ", "has not come back within"]) => NoResult::DidNotBoot,
        () if says(&[
            ", which is VPP; ",
            "fwdlab does not do that on FreeBSD; ",
            "fwdlab cannot log into it; ",
        ]) =>
        {
            NoResult::NotApplicable
        }
        () => NoResult::Failed,
    };
}

/// Adds what was only kept with the trials; after that it is a current summary.
pub(crate) fn complete(summary: &mut Summary, trials: &[TrialRecord]) {
    if summary.format >= ONE_LIST {
        return;
    }
    let kept_apart = summary.format < 2;
    for case in &mut summary.test_cases {
        let Case {
            stream, variant, ..
        } = &mut case.case;
        let is_of = |trial: &&TrialRecord| {
            trial.stream.frame_size_bytes == stream.frame_size_bytes && trial.variant == *variant
        };
        let mut outcomes = case.outcomes.iter();
        let is_search =
            kept_apart && outcomes.any(|outcome| matches!(outcome.found, Found::Mlrsearch(_)));
        let own = trials.iter().find(is_of);
        if let Some(trial) = own.or(trials.first().filter(|_| is_search)) {
            *stream = trial.stream.clone();
            if is_search {
                case.test_case = variant.id(stream);
            }
            let outcomes = case.outcomes.iter_mut();
            outcomes.for_each(|outcome| outcome.frame_size_bytes = stream.frame_size_bytes);
        }
    }
    // consumers of the JSON depend on it
    summary.format = RUN_FORMAT;
}

/// The first version with a single list of test cases for all results.
const ONE_LIST: u32 = 3;

/// The four lists of results before that, and the search of version 1.
#[derive(Deserialize)]
struct FourLists {
    #[serde(default)]
    test_cases: Vec<Value>,
    #[serde(default)]
    comparisons: Vec<Comparison>,
    #[serde(default)]
    outcomes: Vec<Outcome>,
    #[serde(default)]
    cases: Vec<Value>,
    #[serde(default)]
    search: Option<SearchOutcome>,
}

fn from_four_lists(bytes: &[u8], info: &RunInfo) -> serde_json::Result<Summary> {
    let old: FourLists = serde_json::from_slice(bytes)?;
    let mut rest: Value = serde_json::from_slice(bytes)?;
    rest["test_cases"] = Value::Array(Vec::new());
    let mut summary: Summary = from_value(&rest)?;
    let cases = &mut summary.test_cases;
    for case in old.test_cases {
        cases.push(windows_case(case, info)?);
    }
    for case in old.cases {
        cases.push(campaign_case(case)?);
    }
    let real = old.comparisons.into_iter().filter(|c| !c.control);
    cases.extend(real.map(|comparison| comparison_case(comparison, info)));
    let outcomes = old.outcomes.into_iter().chain(old.search.map(outcome));
    for outcome in outcomes {
        let known = |case: &&mut TestCase| {
            case.case.stream.frame_size_bytes == outcome.frame_size_bytes
                && case.case.variant == outcome.variant
        };
        match cases.iter_mut().find(known) {
            Some(case) => add_outcome(case, outcome),
            None => {
                let stream = stream_of(outcome.frame_size_bytes, info);
                let variant = outcome.variant.clone();
                let mut case = test_case(variant.id(&stream), stream, variant, info);
                add_outcome(&mut case, outcome);
                cases.push(case);
            }
        }
    }
    Ok(summary)
}

/// Returns a test case without a result.
fn test_case(name: String, stream: Stream, variant: Variant, info: &RunInfo) -> TestCase {
    let configuration = info.parameters.get("configuration").and_then(Value::as_str);
    TestCase {
        test_case: name,
        case: Case {
            configuration: configuration.unwrap_or(PLAIN).to_owned(),
            stream,
            variant,
            image: None,
            dut: Kind::Linux,
        },
        figures: Vec::new(),
        outcomes: Vec::new(),
        iterations: Vec::new(),
        findings: Vec::new(),
        doubt: None,
        work: None,
        stopped: None,
    }
}

/// Returns the stream of this size in the run, as far as its header shows.
fn stream_of(size: FrameSize, info: &RunInfo) -> Stream {
    let ids = info.parameters.get("test_cases").and_then(Value::as_array);
    let mut streams = ids.into_iter().flatten().filter_map(|id| {
        let mut parts = id.as_str()?.split('-');
        let size = parts.next()?.strip_suffix('B')?.parse().ok()?;
        let flows = parts.next()?.trim_end_matches('s').strip_suffix("flow")?;
        Some(Stream {
            ip_version: match parts.next()? {
                "ipv6" => IpVersion::Ipv6,
                _ => IpVersion::Ipv4,
            },
            frame_size_bytes: FrameSize::new(size).ok()?,
            flows: flows.parse().ok()?,
        })
    });
    let first = streams.clone().next();
    let own = streams.find(|stream| stream.frame_size_bytes == size);
    let other = first.unwrap_or(Stream {
        ip_version: IpVersion::Ipv4,
        frame_size_bytes: size,
        flows: 1,
    });
    own.unwrap_or(Stream {
        frame_size_bytes: size,
        ..other
    })
}

fn add_outcome(case: &mut TestCase, mut outcome: Outcome) {
    applicable(&mut outcome);
    for figure in outcome.figures() {
        case.figures.push(CaseFigure {
            better: figure.better,
            name: figure.name,
            unit: figure.unit,
            values: vec![figure.value],
            median: figure.value,
            interval_half_width: None,
            variation_percent: None,
            generator_limited: 0,
        });
    }
    case.outcomes.push(outcome.clone());
    let only = match case.iterations.first_mut() {
        Some(only) => only,
        None => {
            case.iterations.push(Iteration {
                iteration: 1,
                ..Iteration::default()
            });
            &mut case.iterations[0]
        }
    };
    if outcome.fails() && only.failure.is_none() {
        only.failure = Some(outcome.verdict.clone());
    }
    only.outcomes.push(outcome);
}

/// The result of windows for a test case.
#[derive(Deserialize)]
struct OfWindows {
    test_case: String,
    #[serde(flatten)]
    stream: Stream,
    iterations_pps: Vec<f64>,
    iterations_invalid: u32,
    interval_half_width_pps: Option<f64>,
    variation_percent: Option<f64>,
    warnings: Vec<String>,
    doubt: Option<String>,
}

fn windows_case(case: Value, info: &RunInfo) -> serde_json::Result<TestCase> {
    // the combined result of all iterations had the same names
    let pooled: Maxfwd = from_value(&case)?;
    let old: OfWindows = from_value(&case)?;
    let found = |found: Maxfwd| Outcome {
        frame_size_bytes: old.stream.frame_size_bytes,
        variant: Variant::default(),
        verdict: "measured".into(),
        answered: found.forwarding_rate_pps.is_some(),
        not_applicable: false,
        found: Found::Maxfwd(Box::new(found)),
        compliance: Compliance::default(),
        warnings: Vec::new(),
        trials: 1,
    };
    let mut new = test_case(old.test_case, old.stream.clone(), Variant::default(), info);
    let rates = old.iterations_pps.iter();
    let good = rates.map(|pps| {
        let of_one = Maxfwd {
            forwarding_rate_pps: Some(*pps),
            ..Maxfwd::default()
        };
        (vec![found(of_one)], None)
    });
    let bad = (0..old.iterations_invalid)
        .map(|_| (Vec::new(), Some("invalid, or without a result".to_owned())));
    new.iterations = (1..)
        .zip(good.chain(bad))
        .map(|(iteration, (outcomes, failure))| Iteration {
            iteration,
            outcomes,
            failure,
            trials: Vec::new(),
            ..Iteration::default()
        })
        .collect();
    new.figures = pooled
        .forwarding_rate_pps
        .map(|median| CaseFigure {
            name: FORWARDING_RATE.into(),
            unit: Unit::FramesPerSecond,
            better: Better::Higher,
            values: old.iterations_pps.clone(),
            median,
            interval_half_width: old.interval_half_width_pps,
            variation_percent: old.variation_percent,
            generator_limited: 0,
        })
        .into_iter()
        .collect();
    new.outcomes = vec![Outcome {
        warnings: old.warnings.clone(),
        trials: old.iterations_pps.len() as u32,
        ..found(pooled)
    }];
    new.doubt = old.doubt;
    Ok(new)
}

/// Converts a difference measured by slices, of a command.
fn comparison_case(comparison: Comparison, info: &RunInfo) -> TestCase {
    let stream = stream_of(FrameSize::MIN, info);
    let first = info.parameters.get("test_cases");
    let first = first.and_then(|ids| ids.get(0)).and_then(Value::as_str);
    let of_size = |id: &str| id.split('B').next()?.parse().ok();
    let size = first
        .and_then(of_size)
        .and_then(|bytes| FrameSize::new(bytes).ok());
    let stream = size.map_or(stream, |size| stream_of(size, info));
    let configuration = comparison.configuration.clone();
    let values = comparison.values_percent.clone();
    let outcome = |comparison: Comparison, trials: usize| Outcome {
        frame_size_bytes: stream.frame_size_bytes,
        variant: Variant::default(),
        verdict: "measured".into(),
        answered: comparison.difference_percent.is_some(),
        not_applicable: false,
        warnings: comparison.warnings.clone(),
        found: Found::Paired(Paired {
            reference: PLAIN.into(),
            parameter: None,
            points: vec![PairedPoint {
                value: None,
                comparison,
                cost_ns: None,
                cost_interval_ns: None,
            }],
            slope: None,
        }),
        compliance: Compliance::default(),
        trials: trials as u32,
    };
    let mut case = test_case(
        format!("{configuration}/{}", stream.id()),
        stream.clone(),
        Variant::default(),
        info,
    );
    case.case.configuration = configuration;
    case.doubt.clone_from(&comparison.doubt);
    case.iterations = (1..)
        .zip(&values)
        .map(|(iteration, percent)| {
            let of_one = Comparison {
                difference_percent: Some(*percent),
                interval_percent: None,
                values_percent: vec![*percent],
                ..comparison.clone()
            };
            Iteration {
                iteration,
                outcomes: vec![outcome(of_one, 1)],
                failure: None,
                trials: vec![iteration],
                ..Iteration::default()
            }
        })
        .collect();
    case.figures = comparison
        .difference_percent
        .map(|median| CaseFigure {
            name: "difference".into(),
            unit: Unit::Percent,
            better: Better::Higher,
            values: values.clone(),
            median,
            interval_half_width: comparison
                .interval_percent
                .map(|[low, high]| (high - low) / 2.0),
            variation_percent: None,
            generator_limited: 0,
        })
        .into_iter()
        .collect();
    case.outcomes = vec![outcome(comparison, values.len())];
    case
}

/// Converts a test case of a campaign of version 2.
fn campaign_case(mut case: Value) -> serde_json::Result<TestCase> {
    complete_windows(&mut case);
    let figures = case.get_mut("figures").and_then(Value::as_array_mut);
    for figure in figures.into_iter().flatten() {
        let unit: Unit = from_value(&figure["unit"])?;
        let is_gain = figure["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("difference"));
        let better = if is_gain {
            Better::Higher
        } else {
            unit.better()
        };
        figure["better"] = serde_json::to_value(better)?;
    }
    from_value(&case)
}

/// Converts via text, because that code is compiled anyway.
fn from_value<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    serde_json::from_slice(value.to_string().as_bytes())
}

/// In version 2 windows were only numbers, and the ledger was kept with the trials.
fn complete_windows(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(complete_windows),
        Value::Object(map) if map.get("procedure") == Some(&json!("maxfwd")) => {
            if let Some(Value::Object(found)) = map.get_mut("found") {
                let windows =
                    |name: &str| json!({ "windows": found.get(name).cloned().unwrap_or(json!(0)) });
                let (quiet, contended) = (windows("windows"), windows("windows_not_quiet"));
                found.insert("quiet".into(), quiet);
                found.insert("contended".into(), contended);
                if let Ok(Value::Object(ledger)) = serde_json::to_value(Ledger::default()) {
                    found.extend(ledger);
                }
            }
        }
        Value::Object(map) => map.values_mut().for_each(complete_windows),
        _ => {}
    }
}

fn outcome(found: SearchOutcome) -> Outcome {
    let verdicts: Vec<&str> = found.goals.iter().map(|g| g.verdict.as_str()).collect();
    let is_answered = |goal: &fwdlab_model::search::GoalResult| {
        goal.regular || goal.relevant_lower_bound_index == Some(found.max_load_index)
    };
    Outcome {
        // only kept with the trials, see [`complete`]
        frame_size_bytes: FrameSize::MIN,
        variant: found.variant.clone(),
        verdict: (found.failure.clone()).unwrap_or_else(|| verdicts.join("; ")),
        answered: found.failure.is_none() && found.goals.iter().all(is_answered),
        not_applicable: false,
        compliance: Compliance {
            standard: "RFC 2544 §26.1 throughput".into(),
            shortened: found.shortened.clone(),
        },
        warnings: Vec::new(),
        trials: found.trials,
        found: Found::Mlrsearch(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of 0.1.0 continue, and are shown, according to their texts.
    #[test]
    fn failures_stored_as_text_get_their_kind() {
        for (reason, no_result) in [
            ("interrupted", NoResult::Interrupted),
            ("hook before: exit status: 1", NoResult::Hook),
            ("debian:linux does not come up: panic", NoResult::DidNotBoot),
            (
                "cannot apply x.nft on router, which is VPP; give it lines of VPP's",
                NoResult::NotApplicable,
            ),
            ("the link went down", NoResult::Failed),
        ] {
            let mut iteration = Iteration {
                failure: Some(reason.into()),
                ..Iteration::default()
            };
            kind(&mut iteration);
            assert_eq!(iteration.no_result, no_result, "{reason}");
        }
    }
}
