//! The order in which a campaign measures its test cases, and the summary of their iterations.
//!
//! If they are interleaved, a drift of the machine affects all test cases alike; every order comes
//! from a recorded seed. A figure's median is over iterations, and its interval is that of their
//! mean. Start with [`sequence`] and [`summarise`].

use fwdlab_model::campaign::{Case, Order};
use fwdlab_model::instructions::Exact;
use fwdlab_model::outcome::{Figure, Found, NO_RESULT, Outcome, Paired, Unit};
use fwdlab_model::result::TrialRecord;
use fwdlab_model::test_case::{CaseFigure, Iteration, TestCase};
use fwdlab_stats::{Confidence, Sample};

use crate::cost;
use crate::exact;
use crate::maxfwd;
use crate::order::{Random, blocks};
use crate::paired;
use crate::trust;

/// One iteration of one test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Index of the test case.
    pub case: usize,
    /// Number of the iteration, from 1.
    pub iteration: u32,
}

/// Returns all turns of `cases` test cases, in order.
pub fn sequence(cases: usize, iterations: u32, order: Order, seed: u64) -> Vec<Turn> {
    match order {
        Order::Interleaved | Order::Together => blocks(cases, iterations as usize, seed)
            .zip(1..)
            .flat_map(|(block, iteration)| {
                block.into_iter().map(move |case| Turn { case, iteration })
            })
            .collect(),
        Order::Grouped => (0..cases)
            .flat_map(|case| (1..=iterations).map(move |iteration| Turn { case, iteration }))
            .collect(),
    }
}

/// Returns the seed of one turn: iterations must differ, and one campaign seed determines them all.
pub fn seed_of(turn: Turn, seed: u64) -> u64 {
    // seeds that people choose are often consecutive, and so are turns: mix them first, or seeds 1
    // and 2 would share their noise
    let base = Random::new(seed).next_u64();
    let mut random =
        Random::new(base ^ (turn.case as u64).rotate_left(32) ^ u64::from(turn.iteration));
    // 53 bits, like all seeds: JSON readers that only support doubles get the same number
    random.next_u64() >> 11
}

/// Returns why an iteration has no result: the failure of its first outcome without one.
pub fn failure_of(outcomes: &[Outcome]) -> Option<String> {
    let unanswered = outcomes.iter().find(|outcome| outcome.fails());
    match (unanswered, outcomes.is_empty()) {
        (Some(outcome), _) => {
            let verdict = &outcome.verdict;
            Some(
                verdict
                    .strip_prefix(NO_RESULT)
                    .unwrap_or(verdict)
                    .to_owned(),
            )
        }
        (None, true) => Some("nothing was measured".into()),
        (None, false) => None,
    }
}

/// Adds iterations of a test case that failed, with the reason, to those that follow from its
/// records: a failure without a record, or after it, is recorded nowhere else.
pub fn with_failed<'a>(
    mut iterations: Vec<Iteration>,
    failed: impl Iterator<Item = &'a Iteration>,
) -> Vec<Iteration> {
    for one in failed {
        match iterations.iter_mut().find(|i| i.iteration == one.iteration) {
            Some(derived) if one.trials == derived.trials => {
                derived.failure.clone_from(&one.failure);
                derived.no_result = one.no_result;
                // from a hook that failed after its trial
                if one.outcomes.is_empty() {
                    derived.outcomes.clear();
                }
            }
            Some(_) => {}
            None => iterations.push(one.clone()),
        }
    }
    iterations.sort_by_key(|one| one.iteration);
    iterations
}

/// Summarises the iterations of a test case with this name.
pub fn summarise(name: String, case: &Case, iterations: Vec<Iteration>) -> TestCase {
    let mut figures: Vec<CaseFigure> = Vec::new();
    // the results of a suite are kept even if another of its tests has none
    let outcomes = iterations.iter().flat_map(|one| &one.outcomes);
    let found = outcomes.flat_map(|outcome| {
        let is_bound = outcome.found.is_tester_bound();
        outcome
            .figures()
            .into_iter()
            .map(move |one| (one, is_bound))
    });
    for (figure, is_bound) in found {
        let limited = u32::from(is_bound && figure.unit == Unit::FramesPerSecond);
        let Figure {
            name,
            unit,
            better,
            value,
        } = figure;
        match figures
            .iter_mut()
            .find(|known| known.name == name && known.unit == unit)
        {
            Some(known) => {
                known.values.push(value);
                known.generator_limited += limited;
            }
            None => figures.push(CaseFigure {
                name,
                unit,
                better,
                values: vec![value],
                median: value,
                interval_half_width: None,
                variation_percent: None,
                generator_limited: limited,
            }),
        }
    }
    for figure in &mut figures {
        let Ok(sample) = Sample::new(figure.values.clone()) else {
            continue;
        };
        figure.median = sample.median();
        figure.interval_half_width = trust::half_width(&sample);
        figure.variation_percent = sample.cv().map(|cv| 100.0 * cv);
    }
    let outcomes = match maxfwd::combine(&iterations) {
        Some(outcome) => vec![outcome],
        None => combine(&iterations),
    };
    // all iterations together may show that there is no constant cost per unit, even if none of
    // them did
    figures.retain(|figure| {
        let mut pooled = outcomes.iter().flat_map(Outcome::figures);
        figure.unit != Unit::Cost || pooled.any(|own| own.name == figure.name)
    });
    let mut summary = TestCase {
        test_case: name,
        case: case.clone(),
        figures,
        outcomes,
        iterations,
        findings: Vec::new(),
        doubt: None,
        work: None,
        stopped: None,
    };
    summary.doubt = match (summary.windows(), summary.slices()) {
        (Some(found), _) => trust::of_windows(found, &summary),
        // rates of different rebuilds are not comparable, only their differences are
        (_, Some(_)) => summary.comparisons().find_map(|one| one.doubt.clone()),
        _ => summary.figures.iter().find_map(doubt),
    };
    summary
}

/// Returns why a rate over iterations is unreliable. Too few values for an interval are reported by
/// the procedure itself; delays and times have tails that are properties of the DUT.
fn doubt(figure: &CaseFigure) -> Option<String> {
    let enough = figure.values.len() >= trust::FEWEST_VALUES;
    let judged = enough && figure.unit == Unit::FramesPerSecond;
    let reason = judged.then(|| trust::of_values(&figure.values, "iteration"));
    Some(format!("{}: {}", figure.name, reason.flatten()?))
}

/// Divides the results of one run of a procedure into test cases, by size and series. Outcomes that
/// belong to none, such as a sweep over sizes, go to the first one.
pub fn divide(
    cases: Vec<(String, Case)>,
    outcomes: Vec<Outcome>,
    trials: &[TrialRecord],
) -> Vec<TestCase> {
    let mut parts: Vec<Iteration> = cases
        .iter()
        .map(|(_, case)| {
            let own = |trial: &&TrialRecord| {
                trial.stream.frame_size_bytes == case.stream.frame_size_bytes
                    && trial.variant == case.variant
            };
            Iteration {
                iteration: 1,
                trials: trials.iter().filter(own).map(|t| t.trial).collect(),
                ..Iteration::default()
            }
        })
        .collect();
    for outcome in outcomes {
        let is_of = |(_, case): &(String, Case)| {
            let size = case.stream.frame_size_bytes;
            (size, &case.variant) == (outcome.frame_size_bytes, &outcome.variant)
        };
        let at = cases.iter().position(is_of).unwrap_or(0);
        if let Some(part) = parts.get_mut(at) {
            part.outcomes.push(outcome);
        }
    }
    let all = cases.into_iter().zip(parts);
    all.map(|((name, case), mut iteration)| {
        iteration.failure = failure_of(&iteration.outcomes);
        summarise(name, &case, vec![iteration])
    })
    .collect()
}

/// Combines sweeps of all good iterations into one; for all other procedures returns the median
/// iteration. A single iteration is returned in any case.
fn combine(iterations: &[Iteration]) -> Vec<Outcome> {
    if let [only] = iterations
        && only.failure.is_some()
    {
        return only.outcomes.clone();
    }
    let good: Vec<&Iteration> = (iterations.iter())
        .filter(|iteration| iteration.failure.is_none())
        .collect();
    let figure = |iteration: &Iteration| {
        let first = iteration.outcomes.iter().flat_map(Outcome::figures).next();
        first.map_or(0.0, |figure| figure.value)
    };
    let mut sorted = good.clone();
    sorted.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    let Some(middle) = sorted.get(good.len().saturating_sub(1) / 2) else {
        return Vec::new();
    };
    let mut outcomes = middle.outcomes.clone();
    for (n, outcome) in outcomes.iter_mut().enumerate() {
        let alike = good
            .iter()
            .filter_map(|iteration| iteration.outcomes.get(n));
        pool(outcome, alike);
    }
    outcomes
}

/// Merges the runs of several sweeps, and fits the cost again.
fn pool<'a>(outcome: &mut Outcome, all: impl Iterator<Item = &'a Outcome>) {
    if let Found::Paired(_) = outcome.found {
        return pool_pairs(outcome, all);
    }
    if let Found::Exact(_) = outcome.found {
        let found: Vec<&Exact> = all.filter_map(exact::found_of).collect();
        if let Some(pooled) = exact::combine(&found) {
            outcome.trials = found.len() as u32;
            outcome.found = Found::Exact(Box::new(pooled));
        }
        return;
    }
    let Found::Sweep(pooled) = &mut outcome.found else {
        return;
    };
    for point in &mut pooled.points {
        point.runs_pps.clear();
    }
    pooled.reference_pps.clear();
    for other in all {
        let Found::Sweep(sweep) = &other.found else {
            continue;
        };
        pooled.reference_pps.extend(&sweep.reference_pps);
        for (point, more) in pooled.points.iter_mut().zip(&sweep.points) {
            point.runs_pps.extend(&more.runs_pps);
        }
    }
    let runs: Vec<cost::Run> = pooled
        .points
        .iter()
        .flat_map(|point| point.runs_pps.iter().map(|pps| (point.value, *pps)))
        .collect();
    pooled.cost = cost::parameter_cost(&pooled.parameter, &runs);
    let reference = pooled.points.first().map(|point| point.runs_pps.clone());
    let reference = reference.and_then(|runs| Some(Sample::new(runs).ok()?.median()));
    for point in &mut pooled.points {
        let sample = Sample::new(point.runs_pps.clone()).ok();
        let interval = |sample: &Sample| sample.mean_interval(Confidence::P95);
        point.median_pps = sample.as_ref().map(Sample::median);
        point.interval_pps = sample.as_ref().and_then(interval).map(|i| (i.low, i.high));
        point.percent_of_reference = point
            .median_pps
            .zip(reference)
            .filter(|(_, reference)| *reference > 0.0)
            .map(|(pps, reference)| 100.0 * pps / reference);
    }
}

/// Combines differences, and describes them.
fn pool_pairs<'a>(outcome: &mut Outcome, all: impl Iterator<Item = &'a Outcome>) {
    let found: Vec<&Paired> = all.filter_map(|other| other.found.get()).collect();
    if let Some(pooled) = paired::pool(&found) {
        outcome.trials = found.len() as u32;
        outcome.verdict = "measured".into();
        outcome.found = Found::Paired(pooled);
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::outcome::Compliance;
    use fwdlab_model::trial::{IpVersion, Stream};
    use fwdlab_model::units::FrameSize;

    use super::*;

    #[test]
    fn orders() {
        let grouped: Vec<(usize, u32)> = sequence(2, 2, Order::Grouped, 1)
            .iter()
            .map(|turn| (turn.case, turn.iteration))
            .collect();
        assert_eq!(grouped, [(0, 1), (0, 2), (1, 1), (1, 2)]);
        let turns = sequence(5, 4, Order::Interleaved, 7);
        assert_eq!(turns, sequence(5, 4, Order::Interleaved, 7));
        for (n, block) in turns.chunks(5).enumerate() {
            let mut cases: Vec<usize> = block.iter().map(|turn| turn.case).collect();
            cases.sort_unstable();
            assert_eq!(cases, [0, 1, 2, 3, 4]);
            assert!(block.iter().all(|turn| turn.iteration == n as u32 + 1));
        }
        let of = |seed| turns.iter().map(move |turn| seed_of(*turn, seed));
        let mut seeds: Vec<u64> = (0..8).flat_map(of).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 8 * 20, "campaigns share no noise");
    }

    fn iteration(iteration: u32, pps: Option<f64>) -> Iteration {
        let outcome = Outcome {
            frame_size_bytes: FrameSize::MIN,
            variant: fwdlab_model::variant::Variant::default(),
            found: Found::Trial(fwdlab_model::outcome::SingleTrial {
                intended_load_pps: 1e6,
                offered_load_pps: 1e6,
                forwarding_rate_pps: pps.unwrap_or(0.0),
                frame_loss_ratio: 0.0,
                directions: Vec::new(),
                duration_s: 1.0,
                delays: None,
                samples: Vec::new(),
            }),
            verdict: "no result: link down".into(),
            answered: pps.is_some(),
            not_applicable: false,
            compliance: Compliance::default(),
            warnings: Vec::new(),
            trials: 1,
        };
        Iteration {
            iteration,
            failure: failure_of(std::slice::from_ref(&outcome)),
            outcomes: vec![outcome],
            trials: vec![iteration],
            ..Iteration::default()
        }
    }

    /// Of two failed iterations one has no record, and one failed after its record was complete.
    #[test]
    fn failures_without_a_record_are_added_to_what_the_records_show() {
        let derived = || vec![iteration(1, Some(1e6)), iteration(3, Some(2e6))];
        let failed = |number, trials: &[u32]| Iteration {
            iteration: number,
            failure: Some("a hook failed".into()),
            no_result: fwdlab_model::test_case::NoResult::Hook,
            trials: trials.to_vec(),
            ..Iteration::default()
        };
        let all = [failed(2, &[]), failed(3, &[3])];
        let merged = with_failed(derived(), all.iter());
        let shown: Vec<_> = (merged.iter())
            .map(|one| (one.iteration, one.failure.is_some(), one.outcomes.len()))
            .collect();
        assert_eq!(shown, [(1, false, 1), (2, true, 0), (3, true, 0)]);
        // the failure is of other trials, which were repeated
        let repeated = [failed(3, &[2])];
        assert_eq!(with_failed(derived(), repeated.iter()), derived());
    }

    /// An iteration whose load did not overload the DUT has a lower bound, and the figure counts
    /// these.
    #[test]
    fn lower_bounds_are_counted() {
        let case = Case {
            configuration: "plain".into(),
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 1).unwrap(),
            variant: fwdlab_model::variant::Variant::default(),
            image: None,
            dut: fwdlab_model::campaign::Kind::Linux,
        };
        let mrr = |n: u32, offered: u64| {
            let parameters = fwdlab_model::campaign::Mrr {
                trials: 1,
                ..fwdlab_model::campaign::Mrr::default()
            };
            let procedure = crate::mrr::Mrr::new(FrameSize::MIN, offered as f64, parameters);
            let procedure = procedure.unwrap();
            let mut session = crate::procedure::Session::new(Box::new(procedure));
            session.next_trial().unwrap();
            session.record(&fwdlab_model::procedure::Answer {
                frames_intended: offered,
                frames_sent: offered,
                frames_received: offered.min(1_000_000),
                duration_ns: 1_000_000_000,
                ..Default::default()
            });
            Iteration {
                iteration: n,
                outcomes: session.outcomes(),
                ..Iteration::default()
            }
        };
        let iterations = vec![mrr(1, 1_600_000), mrr(2, 280_000), mrr(3, 1_090_000)];
        let figure = summarise(case.id(), &case, iterations).figures.remove(0);
        assert_eq!(figure.values, [1e6, 280_000.0, 1e6]);
        assert_eq!(figure.generator_limited, 2);
    }

    /// Student's interval of 1, 2, 3, 4, 10: mean 4, standard deviation 3.5355, t(4) = 2.776.
    #[test]
    fn figures_over_iterations() {
        let case = Case {
            configuration: "plain".into(),
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 1).unwrap(),
            variant: fwdlab_model::variant::Variant::default(),
            image: None,
            dut: fwdlab_model::campaign::Kind::Linux,
        };
        let values = [Some(3.0), Some(1.0), None, Some(10.0), Some(2.0), Some(4.0)];
        let iterations = values
            .into_iter()
            .zip(1..)
            .map(|(pps, n)| iteration(n, pps));
        let outcome = summarise(case.id(), &case, iterations.collect());
        assert_eq!(outcome.test_case, "plain/64B-1flow-ipv4");
        let [figure] = &outcome.figures[..] else {
            panic!("{:?}", outcome.figures)
        };
        assert_eq!(
            (figure.name.as_str(), figure.unit),
            ("forwarding rate", Unit::FramesPerSecond)
        );
        assert_eq!(figure.values, [3.0, 1.0, 10.0, 2.0, 4.0]);
        assert_eq!(figure.median, 3.0);
        let half = figure.interval_half_width.unwrap();
        assert!((half - 2.776 * 3.5355 / 5f64.sqrt()).abs() < 1e-3, "{half}");
        assert_eq!(outcome.outcomes[0].found.rate_pps(), Some(3.0));
        assert_eq!(outcome.failures().collect::<Vec<_>>(), [(3, "link down")]);
    }
}
