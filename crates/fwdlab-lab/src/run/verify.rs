//! Derives the result of a stored run again from its measurements: `fwdlab runs verify` compares
//! the stored result with it, and `fwdlab runs rebuild` replaces it.
//!
//! It measures nothing and accesses no file. What cannot be derived is listed, with the reason.
//! Start with [`derive()`].

use fwdlab_measure::campaign::{divide, summarise, with_failed};
use fwdlab_measure::efficiency;
use fwdlab_measure::exact;
use fwdlab_measure::imported::cases;
use fwdlab_measure::machine::{Asked, Limit, Series, make};
use fwdlab_measure::maxfwd;
use fwdlab_measure::paired;
use fwdlab_measure::precision;
use fwdlab_measure::procedure::Session;
use fwdlab_measure::{telemetry, trust};
use fwdlab_model::campaign::{Case, PLAIN, Procedure, UntilPrecise};
use fwdlab_model::event::{Event, RebuildRecord};
use fwdlab_model::import::NETBENCHES;
use fwdlab_model::link::{Line, LinkSpeed, MeanSize};
use fwdlab_model::outcome::{Found, Outcome};
use fwdlab_model::procedure::{Answer, Question};
use fwdlab_model::result::{RunState, Summary};
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::variant::Variant;
use fwdlab_store::{StoreError, StoredRun};
use serde::Serialize;
use serde_json::{Value, json};

use super::procedure_run::with_series;
use super::{Run, so_far};

/// The parameter that contains the request to a procedure.
const ASKED: &str = "asked";

/// The format since which all procedures share one rule of validity.
const ONE_RULE: u32 = 4;

/// Numbers are equal if their relative difference is at most this: logarithms of ratios are stored
/// as percentages.
const TOLERANCE: f64 = 1e-9;

/// Number of differences that are listed one by one.
const TOLD: usize = 20;

/// The result of deriving a run again.
#[derive(Debug, Default)]
pub struct Recheck {
    /// Differences from the stored result.
    pub differences: Vec<String>,
    /// Parts that were derived, and agree.
    pub derived: Vec<String>,
    /// Parts that were not derived, with the reason.
    pub not_derived: Vec<String>,
    /// All derived parts, as stored and as derived.
    parts: Vec<Part>,
}

/// A part of a result, stored and derived.
#[derive(Debug)]
struct Part {
    name: String,
    kept: Value,
    derived: Value,
}

impl Recheck {
    /// Returns the result with the parts that are derived differently now, and their names. A part
    /// that is not a whole member of the result is left unchanged.
    ///
    /// # Errors
    /// Fails if the derived parts are no valid result, which is a bug.
    pub fn renewed(&self, summary: &Summary) -> serde_json::Result<(Summary, Vec<&str>)> {
        let mut all = serde_json::to_value(summary)?;
        let mut names = Vec::new();
        for part in &self.parts {
            let member = all.get_mut(&part.name);
            if let Some(member) = member.filter(|member| **member == part.kept) {
                *member = part.derived.clone();
                names.push(&part.name[..]);
            }
        }
        Ok((serde_json::from_value(all)?, names))
    }
}

/// Derives the result of a run again.
pub fn derive(run: &StoredRun) -> Recheck {
    derive_with(run, || run.ended_iterations())
}

/// Derives the result of a run with this journal again.
pub(super) fn derive_with(run: &StoredRun, events: impl FnOnce() -> Vec<Event>) -> Recheck {
    let mut again = Recheck::default();
    let Some(summary) = &run.summary else {
        again.not_derived.push("there is no result".into());
        return again;
    };
    if run.info.format < ONE_RULE && summary.procedure != NETBENCHES {
        let reason =
            "the result: its trials were judged by the rules of an earlier version of fwdlab";
        again.not_derived.push(reason.into());
        return again;
    }
    let is_of_records = [maxfwd::ID, paired::ID, exact::ID].contains(&&summary.procedure[..]);
    // otherwise its test cases were measured together
    let is_in_turns = run.info.kind == "campaign" && !run.info.parameters.contains_key(ASKED);
    match summary.procedure.as_str() {
        NETBENCHES => again.compare("imported", &summary.imported, &cases(&run.imported)),
        maxfwd::ID if !run.is_protected => again.not_derived.push(
            "the forwarding rates: trials of this age were kept as they were first judged".into(),
        ),
        _ if is_of_records || is_in_turns => verify_iterations(run, &events(), summary, &mut again),
        _ => verify_procedure(run, summary, &mut again),
    }
    if !summary.thresholds.is_empty() {
        let reason = "thresholds: what they are compared with may be another run";
        again.not_derived.push(reason.into());
    }
    again
}

/// Returns until when test cases were measured, and their maximum number of iterations, if an
/// interval decided.
fn precision_target(run: &StoredRun) -> Option<(UntilPrecise, u32)> {
    let of = |name: &str| run.info.parameters.get(name);
    let number = |name: &str| u32::try_from(of(name)?.as_u64()?).ok();
    let width = of("iterations_until")?.as_str()?.parse().ok()?;
    let min = number("iterations_min")?;
    Some((UntilPrecise { width, min }, number("iterations")?))
}

/// Compares stored test cases with derived ones. Earlier versions stored less in addition to the
/// figures.
fn compare_cases(
    run: &StoredRun,
    kept: &[TestCase],
    mut derived: Vec<TestCase>,
    again: &mut Recheck,
) {
    if let Some((until, most)) = precision_target(run) {
        let summary = run.summary.as_ref();
        let is_of_windows = summary.is_some_and(|summary| summary.procedure == maxfwd::ID);
        for case in &mut derived {
            let is_judged_again = is_of_windows && run.state != RunState::Interrupted;
            let stopped = precision::stopped(&case.iterations, &until, most, is_judged_again);
            case.stopped = Some(stopped);
        }
    }
    if run.trials.iter().all(|trial| trial.telemetry.is_none()) {
        // earlier versions had no findings
        for (kept, derived) in kept.iter().zip(&mut derived) {
            derived.findings.clone_from(&kept.findings);
        }
    }
    for (kept, derived) in kept.iter().zip(&mut derived) {
        if kept.case.variant.shard.is_some() && derived.doubt.is_none() {
            // the machine of its shard was too noisy
            derived.doubt.clone_from(&kept.doubt);
        }
        if run.state == RunState::Interrupted {
            // noise is not judged then: there are too few values because of the interruption
            derived.doubt.clone_from(&kept.doubt);
            let outcomes = derived.outcomes.iter_mut();
            for point in outcomes.flat_map(|outcome| match &mut outcome.found {
                Found::Paired(found) => &mut found.points[..],
                _ => &mut [],
            }) {
                point.comparison.doubt = None;
            }
        }
    }
    again.compare("test_cases", &kept, &derived);
}

/// Derives the iterations of every test case, which determine the result.
fn verify_iterations(run: &StoredRun, events: &[Event], summary: &Summary, again: &mut Recheck) {
    let mut kept = summary.test_cases.clone();
    let counts_beside = summary.procedure == paired::ID && summary.outcomes().any(is_counted);
    if counts_beside {
        // first only what was measured in time
        let outcomes = kept.iter_mut().map(|case| &mut case.outcomes);
        outcomes.for_each(|outcomes| outcomes.retain(|outcome| !is_counted(outcome)));
    }
    let mut derived = derive_cases(run, events, &summary.procedure, &kept);
    let not_derived = match summary.procedure.as_str() {
        maxfwd::ID => Some("the probe's threshold: not all of its readings are kept"),
        paired::ID => None,
        exact::ID => None,
        _ => {
            for (kept, derived) in kept.iter().zip(&mut derived) {
                // it needs the gate, whose readings are not stored
                derived.doubt.clone_from(&kept.doubt);
            }
            Some("what each iteration found: taken from the journal, not from its trials")
        }
    };
    compare_cases(run, &kept, derived, again);
    if let (maxfwd::ID, false) = (&summary.procedure[..], kept.is_empty()) {
        // one for each shard of a joined run
        let mut known = Vec::new();
        let firsts = kept.iter().filter(|case| {
            let shard = case.case.variant.shard;
            let is_first = !known.contains(&shard);
            known.push(shard);
            is_first
        });
        let controls = firsts.filter_map(|case| maxfwd::control(&case.test_case, &run.trials));
        again.compare("control", &summary.control, &trust::worst(controls));
    }
    if counts_beside {
        verify_instructions(run, summary, again);
    }
    again.not_derived.extend(not_derived.map(str::to_owned));
}

/// Derives test cases from the records of a run and its journal. `kept` are their names, and the
/// iterations that the journal or the result has.
pub(super) fn derive_cases(
    run: &StoredRun,
    events: &[Event],
    procedure: &str,
    kept: &[TestCase],
) -> Vec<TestCase> {
    let derived = kept.iter().map(|kept| {
        let iterations = iterations(run, events, procedure, kept);
        summarise(kept.test_case.clone(), &kept.case, iterations)
    });
    let mut derived: Vec<TestCase> = derived.collect();
    if procedure == exact::ID {
        exact::compare(&mut derived, reference(run), &exact::controls(&run.boots));
    }
    efficiency::keep(&mut derived, &run.trials);
    telemetry::into_cases(&mut derived, &run.trials);
    derived
}

/// Returns the iterations of a test case that follow from the records of the run; those of trials
/// that count as a whole are in its journal.
fn iterations(
    run: &StoredRun,
    events: &[Event],
    procedure: &str,
    kept: &TestCase,
) -> Vec<Iteration> {
    let name = &kept.test_case;
    let derived = match procedure {
        maxfwd::ID => maxfwd::iterations(run.trials.iter().filter(|t| t.test_case == *name)),
        paired::ID => {
            let rebuilt = kept.iterations.iter().map(|one| {
                let own = |record: &&RebuildRecord| one.trials.contains(&record.rebuild);
                let mut rebuilds = run.rebuilds.iter().filter(own);
                let derived = rebuilds
                    .find_map(|record| paired::iteration(record, one.iteration, name, &kept.case));
                // early runs do not record what a rebuild compared
                derived.unwrap_or_else(|| one.clone())
            });
            rebuilt.collect()
        }
        exact::ID => exact::iterations(&run.boots, name),
        _ => {
            return so_far::ended(events, name);
        }
    };
    let failed = kept.iterations.iter().filter(|one| one.failure.is_some());
    with_failed(derived, failed)
}

fn is_counted(outcome: &Outcome) -> bool {
    matches!(outcome.found, Found::Exact(_))
}

/// Returns the configuration that the others are compared with.
fn reference(run: &StoredRun) -> &str {
    let reference = run.info.parameters.get("reference").and_then(Value::as_str);
    reference.unwrap_or(PLAIN)
}

/// Instructions in addition to rates: the same configurations on the image of the boots, preceded
/// by the reference.
fn verify_instructions(run: &StoredRun, summary: &Summary, again: &mut Recheck) {
    let image = run.boots.first().map(|boot| boot.image.clone());
    let on_image = |configuration: &str, case: &Case| Case {
        configuration: configuration.to_owned(),
        image: image.clone(),
        ..case.clone()
    };
    let own = summary.test_cases.iter().map(|kept| &kept.case);
    let reference = reference(run);
    let first = own.clone().take(1);
    let first = first.map(|case| on_image(reference, case));
    let cases = first.chain(own.map(|case| on_image(&case.configuration, case)));
    let mut derived: Vec<TestCase> = cases
        .map(|case| summarise(case.id(), &case, exact::iterations(&run.boots, &case.id())))
        .collect();
    exact::compare(&mut derived, reference, &exact::controls(&run.boots));
    let kept = summary.test_cases.iter().map(|case| &case.outcomes);
    let kept: Vec<&Outcome> = kept.flatten().filter(|o| is_counted(o)).collect();
    let derived = derived.iter().skip(1).flat_map(|case| &case.outcomes);
    let derived: Vec<&Outcome> = derived.filter(|outcome| outcome.answered).collect();
    again.compare("instructions", &kept, &derived);
}

/// Stores the request to the procedure and its loads with the run: with the answers of its trials,
/// the procedure finds the same again.
///
/// # Errors
/// Those of the disk.
pub(super) fn keep(
    requested: &Asked,
    limits: &[Limit],
    run: &mut Run<'_>,
) -> Result<(), StoreError> {
    (run.info.parameters).insert(ASKED.into(), to_keep(requested, limits));
    // its page shows what was found so far
    run.writer.head(&run.info)
}

fn to_keep(requested: &Asked, limits: &[Limit]) -> Value {
    let limits: Vec<Value> = limits
        .iter()
        .map(|limit| {
            json!({
                "frame_size_bytes": limit.frame_size, "mean_size": limit.mean.parts(),
                "link_bps": limit.line.map(|line| line.speed.bps()),
                "link_simulated": limit.line.is_some_and(|line| line.simulated),
                "max_load_pps": limit.max_load_pps, "source": limit.source,
            })
        })
        .collect();
    let Asked {
        procedure,
        simulated,
        seed,
        series,
        ..
    } = requested;
    json!({
        "procedure": procedure.kept(), "simulated": simulated, "seed": seed,
        "of_profile": series.of_profile, "both_directions": series.both_directions,
        "single_and_random": series.single_and_random, "limits": limits,
    })
}

/// Returns what [`keep`] stored.
fn kept(run: &StoredRun) -> Option<(Asked, Vec<Limit>)> {
    let kept = run.info.parameters.get(ASKED)?;
    let is = |key: &str| kept.get(key)?.as_bool();
    let requested = Asked {
        procedure: Procedure::from_stored(kept.get("procedure")?)?,
        sweep: None,
        simulated: is("simulated")?,
        seed: kept.get("seed")?.as_u64()?,
        series: Series {
            of_profile: is("of_profile")?,
            both_directions: is("both_directions")?,
            single_and_random: is("single_and_random")?,
        },
    };
    let limit = |kept: &Value| -> Option<Limit> {
        let size = kept.get("frame_size_bytes")?.clone();
        let part = |index| kept.get("mean_size")?.get(index)?.as_u64();
        let line = match kept.get("link_bps")?.as_f64() {
            Some(bps) => Some(Line {
                speed: LinkSpeed::from_bps(bps)?,
                simulated: kept.get("link_simulated")?.as_bool()?,
            }),
            None => None,
        };
        Some(Limit {
            frame_size: serde_json::from_value(size).ok()?,
            mean: MeanSize::new(part(0)?, part(1)?)?,
            line,
            max_load_pps: kept.get("max_load_pps")?.as_f64()?,
            // older runs do not contain it
            source: (kept.get("source").and_then(Value::as_str))
                .unwrap_or("the largest load")
                .to_owned(),
        })
    };
    let limits = kept.get("limits")?.as_array()?.iter();
    Some((requested, limits.map(limit).collect::<Option<_>>()?))
}

/// Compares what a procedure found with what it finds again.
fn verify_procedure(run: &StoredRun, summary: &Summary, again: &mut Recheck) {
    match found_again(run, &summary.outcomes().collect::<Vec<_>>()) {
        None => {
            let reason = "what the procedure found: its parameters are not stored with this run";
            again.not_derived.push(reason.into());
        }
        Some(Err(difference)) => again.differences.push(difference),
        Some(Ok(outcomes)) => {
            let kept = summary.test_cases.iter();
            let cases = kept.map(|case| (case.test_case.clone(), case.case.clone()));
            let derived = divided(run, cases.collect(), outcomes);
            compare_cases(run, &summary.test_cases, derived, again);
        }
    }
}

/// Returns the test cases of a procedure that measured them together.
pub(super) fn divided(
    run: &StoredRun,
    cases: Vec<(String, Case)>,
    outcomes: Vec<Outcome>,
) -> Vec<TestCase> {
    let mut derived = divide(cases, outcomes, &run.trials);
    efficiency::keep(&mut derived, &run.trials);
    telemetry::into_cases(&mut derived, &run.trials);
    derived
}

/// Runs the procedure again with the answers that its trials gave, and returns what it finds;
/// `None` if its parameters are not stored. `stored` are the outcomes in the result.
///
/// # Errors
/// The first difference from the records.
pub(super) fn found_again(
    run: &StoredRun,
    stored: &[&Outcome],
) -> Option<Result<Vec<Outcome>, String>> {
    let (requested, limits) = kept(run)?;
    let mut outcomes = Vec::new();
    // a series that was stopped before its first trial has a result, too: that nothing is known
    let mut variants: Vec<&Variant> = Vec::new();
    let of_trials = run.trials.iter().map(|trial| &trial.variant);
    for variant in of_trials.chain(stored.iter().map(|outcome| &outcome.variant)) {
        if !variants.contains(&variant) {
            variants.push(variant);
        }
    }
    for variant in variants {
        let mut session = match make(&requested, &limits) {
            Ok(procedure) => Session::new(procedure),
            Err(reason) => return Some(Err(format!("the parameters are invalid: {reason}"))),
        };
        for record in run.trials.iter().filter(|trial| trial.variant == *variant) {
            let Some(made) = &record.asked else {
                continue;
            };
            let place = format!("trial {}", record.trial);
            let Some((question, _)) = session.next_trial() else {
                let words = "no trial is requested after the trials before it";
                return Some(Err(format!("{place}: {words}")));
            };
            let recorded = session.record(&Answer {
                // stored separately from the answer
                directions: record.directions.clone(),
                ..made.answer.clone()
            });
            let reported = |question: &Question, says: &str, reasons: &[String]| json!({ "question": question, "says": says, "reasons": reasons });
            let kept = reported(&made.question, &made.evaluation, &record.validity.reasons);
            let derived = reported(&question, &recorded.says, &recorded.validity.reasons);
            let mut found = Vec::new();
            differences(&place, &kept, &derived, &mut found);
            if !found.is_empty() {
                // what follows cannot agree either
                return Some(Err(found.swap_remove(0)));
            }
        }
        let mut found = session.outcomes();
        let own = stored.iter().filter(|stored| stored.variant == *variant);
        if found.len() < own.count() {
            // the interrupted trial, which is not stored, was the first one of its outcome
            let _ = session.next_trial();
            found = session.outcomes();
        }
        let found = found.into_iter();
        outcomes.extend(found.map(|outcome| with_series(outcome, variant)));
    }
    Some(Ok(outcomes))
}

impl Recheck {
    /// Compares a stored part of the result with the derived one.
    fn compare(&mut self, part: &str, kept: &impl Serialize, derived: &impl Serialize) {
        let value = |record: Result<Value, serde_json::Error>| record.unwrap_or(Value::Null);
        let kept = value(serde_json::to_value(kept));
        let derived = value(serde_json::to_value(derived));
        let before = self.differences.len();
        let mut found = Vec::new();
        differences(part, &kept, &derived, &mut found);
        let more = found.len().saturating_sub(TOLD);
        found.truncate(TOLD);
        self.differences.extend(found);
        if more > 0 {
            self.differences
                .push(format!("{part}: {more} more differences"));
        }
        if self.differences.len() == before {
            self.derived.push(part.to_owned());
        } else {
            let name = part.to_owned();
            self.parts.push(Part {
                name,
                kept,
                derived,
            });
        }
    }
}

/// Lists differences with their paths.
fn differences(place: &str, kept: &Value, derived: &Value, found: &mut Vec<String>) {
    match (kept, derived) {
        (Value::Object(kept), Value::Object(derived)) => {
            let mut keys: Vec<&String> = kept.keys().chain(derived.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned();
                let (kept, derived) = (of(kept), of(derived));
                let place = format!("{place}.{key}");
                match (kept, derived) {
                    (Some(kept), Some(derived)) => differences(&place, &kept, &derived, found),
                    (kept, derived) => {
                        found.push(describe_difference(&place, kept.as_ref(), derived.as_ref()))
                    }
                }
            }
        }
        (Value::Array(kept), Value::Array(derived)) if kept.len() == derived.len() => {
            for (index, (kept, derived)) in kept.iter().zip(derived).enumerate() {
                differences(&format!("{place}[{index}]"), kept, derived, found);
            }
        }
        (Value::Number(a), Value::Number(b)) if same(a.as_f64(), b.as_f64()) => {}
        (Value::String(a), Value::String(b)) if is_reworded(a, b) => {}
        _ if kept == derived => {}
        _ => found.push(describe_difference(place, Some(kept), Some(derived))),
    }
}

fn same(a: Option<f64>, b: Option<f64>) -> bool {
    let Some((a, b)) = a.zip(b) else {
        return false;
    };
    (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0)
}

/// Returns true if two sentences contain the same figures: the program that wrote the run may have
/// worded them differently.
fn is_reworded(kept: &str, derived: &str) -> bool {
    let figures = |text: &str| -> Vec<String> {
        let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.');
        let trimmed = parts.map(|part| part.trim_matches('.').to_owned());
        trimmed.filter(|part| !part.is_empty()).collect()
    };
    let is_sentence = |text: &str| text.contains(' ');
    is_sentence(kept) && is_sentence(derived) && figures(kept) == figures(derived)
}

fn describe_difference(place: &str, kept: Option<&Value>, derived: Option<&Value>) -> String {
    let text = |value: Option<&Value>| {
        let text = value.map_or("nothing".to_owned(), Value::to_string);
        match text.char_indices().nth(60) {
            Some((at, _)) => format!("{}...", &text[..at]),
            None => text,
        }
    };
    format!(
        "{place}: the result says {}, the trials say {}",
        text(kept),
        text(derived)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fwdlab_model::campaign::{Mrr, Rfc2544};
    use fwdlab_model::facts::Facts;
    use fwdlab_model::result::{Noise, RunInfo};
    use fwdlab_model::trial::{IpVersion, Stream};
    use fwdlab_model::units::FrameSize;
    use fwdlab_model::version::RUN_FORMAT;

    use super::*;

    /// A run that was stopped during its first trial has no trials, and a result that shows this.
    #[test]
    fn a_search_that_was_stopped_before_its_first_trial_follows_from_it() {
        for procedure in [
            Procedure::Mrr(Mrr::default()),
            Procedure::Throughput(Rfc2544::default()),
        ] {
            stopped_in_its_first_trial(procedure);
        }
    }

    fn stopped_in_its_first_trial(procedure: Procedure) {
        let requested = Asked {
            procedure,
            sweep: None,
            simulated: false,
            seed: 7,
            series: Series::default(),
        };
        let limit = Limit::new(FrameSize::MIN, FrameSize::MIN.into(), None, 1e6, "asked");
        let parameters = BTreeMap::from([(
            ASKED.to_owned(),
            to_keep(&requested, std::slice::from_ref(&limit)),
        )]);
        let case = Case {
            configuration: PLAIN.into(),
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 1).unwrap(),
            variant: Variant::default(),
            image: None,
            dut: Default::default(),
        };
        let mut session = Session::new(make(&requested, &[limit]).unwrap());
        assert!(session.next_trial().is_some());
        let outcomes = session.outcomes();
        assert!(!outcomes.is_empty() && outcomes.iter().all(|outcome| !outcome.answered));
        let mut summary = Summary {
            format: RUN_FORMAT,
            run: "x".into(),
            procedure: "mrr".into(),
            imix_estimate_l2_bps: None,
            thresholds: Vec::new(),
            test_cases: divide(vec![("64B".into(), case)], outcomes, &[]),
            control: None,
            imported: Vec::new(),
            noise: Noise::default(),
            warnings: Vec::new(),
        };
        trust::not_judged(&mut summary, "the run was interrupted");
        let run = StoredRun {
            path: Default::default(),
            info: RunInfo {
                format: RUN_FORMAT,
                id: "x".into(),
                kind: "mrr".into(),
                tool_version: String::new(),
                command_line: Vec::new(),
                seed: 7,
                started_at: String::new(),
                finished_at: None,
                note: None,
                state: RunState::Interrupted,
                gaps: Vec::new(),
                error: None,
                parameters,
                facts: Facts::default(),
            },
            state: RunState::Interrupted,
            summary: Some(summary),
            trials: Vec::new(),
            rebuilds: Vec::new(),
            boots: Vec::new(),
            imported: Vec::new(),
            problems: Vec::new(),
            cut_off: Vec::new(),
            is_protected: true,
        };
        let again = derive(&run);
        assert_eq!(again.differences, Vec::<String>::new());
        assert_eq!(again.derived, ["test_cases"]);
    }

    #[test]
    fn differences_are_reported_with_their_path() {
        let mut again = Recheck::default();
        let kept = serde_json::json!([{ "rate": 815000.0, "n": 5, "word": "a" }]);
        again.compare(
            "same",
            &kept,
            &serde_json::json!([{ "rate": 815000.0000001, "n": 5, "word": "a" }]),
        );
        assert_eq!(
            (again.derived.join(""), again.differences.len()),
            ("same".into(), 0)
        );
        again.compare(
            "cases",
            &kept,
            &serde_json::json!([{ "rate": 855000.0, "n": 5, "more": 1, "word": "a" }]),
        );
        assert_eq!(
            again.differences,
            [
                "cases[0].more: the result says nothing, the trials say 1",
                "cases[0].rate: the result says 815000.0, the trials say 855000.0",
            ]
        );
        again.compare(
            "words",
            &["1.5 % lost, at most.", "1 frame lost", "ndr"],
            &["lost: up to 1.5 %", "2 frames lost", "pdr"],
        );
        assert_eq!(
            again.differences.split_off(2),
            [
                "words[1]: the result says \"1 frame lost\", the trials say \"2 frames lost\"",
                "words[2]: the result says \"ndr\", the trials say \"pdr\"",
            ]
        );
        again.compare("n", &vec![0; 100], &vec![1; 100]);
        assert_eq!(again.differences.len(), 2 + TOLD + 1);
        assert_eq!(again.derived, ["same"]);
        let parts: Vec<&str> = again.parts.iter().map(|part| &part.name[..]).collect();
        assert_eq!(parts, ["cases", "words", "n"]);
    }
}
