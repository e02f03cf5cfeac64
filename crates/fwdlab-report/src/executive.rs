//! The executive summary: what a reader must know, in sentences made from the figures.
//!
//! Each sentence stands on figures of the run and is left out where they are missing; nothing is estimated here. Start with [`sentences`].

use std::collections::BTreeMap;

use fwdlab_model::link::MeanSize;
use fwdlab_model::management::{AtLoad, Management};
use fwdlab_model::outcome::Found;
use fwdlab_model::result::{RunInfo, RunState, Summary};
use fwdlab_model::test_case::TestCase;

use crate::lines;
use crate::number::{delay, percent, rate_with_interval};
use crate::words::{self, Shape, capital, several};
use crate::{answer, campaign, exact};

/// From this share of the line rate on, in percent, it is reached: what is missing is the clock of the sender.
const REACHED: f64 = 99.5;

/// Figures that say what a test case forwards, where it has no forwarding rate.
const RATES: [&str; 5] = [
    "throughput",
    "ndr",
    "receive rate",
    "max forwarding rate",
    "loss begins",
];

/// So many test cases get a sentence each; of more the best and the worst are told.
const TOLD: usize = 6;

/// Is there nothing to worry about?
pub(crate) fn is_good(info: &RunInfo, summary: &Summary) -> bool {
    info.state == RunState::Finished
        && summary.is_quiet()
        && summary.thresholds.iter().all(|one| one.passed)
        && summary
            .test_cases
            .iter()
            .all(|case| case.failures().next().is_none())
}

/// The sentences.
pub fn sentences(info: &RunInfo, summary: &Summary) -> Vec<String> {
    let mut told = Vec::new();
    let cases = &summary.test_cases;
    told.extend(cores(cases));
    told.extend(line_rates(info, cases));
    told.extend(energy(cases));
    told.extend(managed(cases));
    told.extend(answer::sentences(cases).into_iter().take(TOLD));
    told.extend(verdicts(summary));
    told
}

/// The forwarding rate of a test case, if that is what was found: median and half of its interval.
fn rate_of(case: &TestCase) -> Option<(f64, Option<f64>)> {
    let named = |name: &str| case.figures.iter().find(|figure| figure.name == name);
    let figure = case
        .forwarding_rate()
        .or_else(|| RATES.into_iter().find_map(named))?;
    (!figure.values.is_empty()).then_some((figure.median, figure.interval_half_width))
}

/// One flow is one queue and so one core; many flows are all the cores there are.
fn cores(cases: &[TestCase]) -> Option<String> {
    let with = |wanted: &dyn Fn(u32) -> bool| {
        let mut found: Vec<&TestCase> = cases
            .iter()
            .filter(|case| {
                wanted(case.case.stream.flows)
                    && case.case.variant.profile.is_none()
                    && rate_of(case).is_some()
            })
            .collect();
        // the smallest frames are the hardest
        found.sort_by_key(|case| {
            (
                case.case.stream.frame_size_bytes,
                case.case.configuration.clone(),
            )
        });
        found.first().copied()
    };
    let one = with(&|flows| flows == 1)?;
    let most = cases.iter().map(|case| case.case.stream.flows).max()?;
    let many = with(&|flows| flows == most && flows > 1);
    let of = |case: &TestCase| {
        let (pps, half) = rate_of(case).unwrap_or_default();
        rate_with_interval(pps, half)
    };
    let size = one.case.stream.frame_size_bytes;
    Some(
        match many.filter(|many| many.case.stream.frame_size_bytes == size) {
            Some(many) => format!(
                "At {size} bytes it forwards {} with one flow, which one core carries, and {} with {}",
                of(one),
                of(many),
                several(many.case.stream.flows as usize, "flow")
            ),
            None => format!(
                "At {size} bytes it forwards {} with one flow, which one core carries",
                of(one)
            ),
        },
    )
}

/// What share of its link each test case fills, and whether that is all of it.
fn line_rates(info: &RunInfo, cases: &[TestCase]) -> Vec<String> {
    let link = lines::link(info);
    let mut all: Vec<(String, f64)> = Vec::new();
    for case in cases {
        let both = if case.case.variant.both_directions {
            ", in each direction"
        } else {
            ""
        };
        let label = format!("{}{both}", campaign::label(case, cases));
        let of_outcomes = case
            .outcomes
            .iter()
            .find_map(|outcome| match &outcome.found {
                Found::Throughput(found) => found
                    .line_rate_pps
                    .zip(found.throughput_pps)
                    .map(|(line, pps)| 100.0 * pps / line),
                Found::Ramp(ramp) => ramp.max_line_percent,
                _ => None,
            });
        let of_link = || {
            let (pps, _) = rate_of(case)?;
            let line = link?.line_rate_pps(MeanSize::from(case.case.stream.frame_size_bytes));
            Some(100.0 * pps / line)
        };
        if let Some(share) = of_outcomes.or_else(of_link) {
            all.push((label, share));
        }
    }
    if all.is_empty() {
        return Vec::new();
    }
    let of = link.map_or("line rate".to_owned(), |link| {
        format!("line rate of {}", lines::words(link))
    });
    let sentence = |(label, share): &(String, f64)| match *share >= REACHED {
        true => format!("{label}: {of} reached"),
        false => format!("{}: {of} not reached, {} of it", label, percent(*share)),
    };
    if all.len() <= TOLD {
        return all.iter().map(sentence).collect();
    }
    let reached = all.iter().filter(|(_, share)| *share >= REACHED).count();
    let by_share = |a: &&(String, f64), b: &&(String, f64)| a.1.total_cmp(&b.1);
    let mut told = vec![format!(
        "{} reached in {reached} of {}",
        capital(&of),
        several(all.len(), "test case")
    )];
    told.extend(
        all.iter()
            .min_by(by_share)
            .map(|worst| format!("The least: {}", sentence(worst))),
    );
    told.extend(
        all.iter()
            .max_by(by_share)
            .map(|best| format!("The most: {}", sentence(best))),
    );
    told
}

/// What a frame took of energy, meter by meter, where meters were read: one may be part of another, and idle power is in all.
fn energy(cases: &[TestCase]) -> Vec<String> {
    let mut told = Vec::new();
    for case in cases {
        let mut meters: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
        for telemetry in case
            .iterations
            .iter()
            .filter_map(|one| one.telemetry.as_ref())
        {
            for (meter, joules) in &telemetry.energy_joules {
                let sum = meters.entry(meter).or_default();
                sum.0 += joules;
                sum.1 += telemetry.frames_sent;
            }
        }
        let each = meters
            .iter()
            .filter(|(_, (joules, frames))| *joules > 0.0 && *frames > 0);
        let each = each.map(|(meter, (joules, frames))| {
            format!("{:.3} uJ by {meter}", joules / *frames as f64 * 1e6)
        });
        let each: Vec<String> = each.collect();
        if !each.is_empty() && told.len() < TOLD {
            let label = campaign::label(case, cases);
            told.push(format!(
                "{label}: a frame took {}, idle power included",
                each.join(", ")
            ));
        }
    }
    told
}

/// What the management of flooded DUTs answered, in all iterations.
fn managed(cases: &[TestCase]) -> Vec<String> {
    let mut told = Vec::new();
    for case in cases {
        let outcomes = case.iterations.iter().flat_map(|one| &one.outcomes);
        let answered = outcomes.filter(|outcome| outcome.answered);
        let found: Vec<&Management> = answered
            .filter_map(|outcome| match &outcome.found {
                Found::Management(found) => Some(found),
                _ => None,
            })
            .collect();
        let kinds = found.first().map_or(&[][..], |first| &first.requests);
        for (n, kind) in kinds.iter().enumerate() {
            let all = || found.iter().filter_map(|one| one.requests.get(n));
            let flood = || all().filter_map(|one| one.at.last());
            let asked: u64 = flood().map(|at| at.asked).sum();
            let missing: u64 = flood().map(|at| at.wrong + at.lost).sum();
            let longest = |at: Option<&AtLoad>| Some(at?.round_trip_s?.max);
            let most = |longest: f64, s: f64| longest.max(s);
            let rest = all()
                .filter_map(|one| longest(one.at.first()))
                .fold(0.0, most);
            let slowest = flood().filter_map(|at| longest(Some(at))).fold(0.0, most);
            let answers = match missing {
                0 => format!("answered all {asked} requests"),
                _ => format!("left {missing} of {asked} requests without a good answer"),
            };
            let slowest = match slowest > 0.0 {
                true => format!(
                    ", the slowest took {} ({} at rest)",
                    delay(1e9 * slowest),
                    delay(1e9 * rest)
                ),
                false => String::new(),
            };
            let mut recovery = all().map(|one| one.recovery_s);
            let recovery = recovery.try_fold(0.0, |longest, one| Some(most(longest, one?)));
            let recovery = match recovery {
                None => "; afterwards it was not seen to answer as at rest".to_owned(),
                Some(0.0) => String::new(),
                Some(s) => format!("; as at rest {} after the flood", delay(1e9 * s)),
            };
            told.push(format!(
                "{}: in the flood `{}` {answers}{slowest}{recovery}",
                campaign::label(case, cases),
                kind.request
            ));
        }
    }
    told.truncate(TOLD);
    told
}

/// What is proven, kept or broken.
fn verdicts(summary: &Summary) -> Vec<String> {
    let mut told = Vec::new();
    let compared: Vec<_> = words::comparisons(summary);
    let named;
    let is_slices = Shape::of(summary) == Shape::Slices;
    let real = match Shape::of(summary) {
        Shape::Slices => compared
            .into_iter()
            .filter(|c| !c.control)
            .collect::<Vec<_>>(),
        _ => {
            named = campaign::named_differences(&summary.test_cases);
            named.iter().collect()
        }
    };
    match real.as_slice() {
        [] => {}
        // the command of a comparison is above; the name of a test case is not
        few if few.len() <= TOLD => told.extend(few.iter().map(|one| match is_slices {
            true => words::finding(one),
            false => format!("{}: {}", one.configuration, words::finding(one)),
        })),
        many => told.push(words::tally(many)),
    }
    let failed = summary
        .test_cases
        .iter()
        .filter(|case| case.failures().next().is_some())
        .count();
    if failed > 0 {
        told.push(format!(
            "{failed} of {} had iterations without a result",
            several(summary.test_cases.len(), "test case")
        ));
    }
    let all = summary.thresholds.len();
    let missed = summary.thresholds.iter().filter(|one| !one.passed).count();
    match (all, missed) {
        (0, _) => {}
        (_, 0) => told.push(format!("{} kept", several(all, "threshold"))),
        _ => told.push(format!(
            "{missed} of {} not passed",
            several(all, "threshold")
        )),
    }
    if summary.noise.too_noisy {
        told.push("The machine was too noisy for these figures to be relied on".into());
    }
    if exact::is_in(&summary.test_cases) {
        told.push(
            "Instructions were counted, not timed: other work on the machine changes nothing"
                .into(),
        );
    }
    told.retain(|sentence| !sentence.is_empty());
    told
}
