//! Writes the executive summary: what a reader must know, in sentences made from figures.
//!
//! Each sentence names the figures of the run that support it, and is left out if they are missing;
//! nothing is estimated here. Start with [`sentences`].

use std::collections::BTreeMap;

use fwdlab_model::comparison::Comparison;
use fwdlab_model::link::MeanSize;
use fwdlab_model::management::{AtLoad, Management};
use fwdlab_model::outcome::{Energy, Meter};
use fwdlab_model::result::{RunInfo, Summary};
use fwdlab_model::test_case::{CaseFigure, TestCase};

use crate::headline;
use crate::link;
use crate::name::label;
use crate::number::{delay, energy as joule, percent, plural, rate, rate_with_interval, watts};
use crate::procedures::shown;
use crate::sentence::{Evidence, Sentence};
use crate::shape::{Shape, is_in_instructions};
use crate::table::capital;
use crate::words;
use crate::{answer, campaign};

/// From this share of the line rate, in percent, the line rate counts as reached: the sender's
/// clock explains the rest.
const REACHED: f64 = 99.5;

/// Figures to use as the rate of a test case that has no forwarding rate, and what qualifies them:
/// a DUT may forward more with loss.
const RATES: [(&str, &str); 5] = [
    ("throughput", " without loss"),
    ("ndr", " without loss"),
    ("receive rate", ""),
    ("max forwarding rate", ""),
    ("loss begins", " without loss"),
];

/// Up to this number of test cases get a sentence each; above it, only the best and the worst do.
const TOLD: usize = 6;

/// Busy share from which a CPU counts as forwarding (the limit of `findings`).
const AT_WORK: f64 = 0.1;

/// Returns the sentences of the summary.
pub fn sentences(info: &RunInfo, summary: &Summary) -> Vec<Sentence> {
    let mut reported = Vec::new();
    let cases = &summary.test_cases;
    reported.extend(cores(info, cases));
    reported.extend(line_rates(info, cases));
    reported.extend(energy(cases));
    reported.extend(managed(cases));
    reported.extend(answer::first_of(answer::answers(info, cases), TOLD));
    reported.extend(verdicts(summary));
    let headline = headline::from_summary(info, summary).answer;
    reported.retain(|one| one.words != headline);
    reported
}

/// Returns the figure of a test case that is used as its rate, and what qualifies it.
fn rate_figure(case: &TestCase) -> Option<(&CaseFigure, &'static str)> {
    let named = |(name, which)| {
        let figure = case.figures.iter().find(|figure| figure.name == name)?;
        Some((figure, which))
    };
    let forwarded = case.forwarding_rate().map(|figure| (figure, ""));
    let found = forwarded.or_else(|| RATES.into_iter().find_map(named));
    found.filter(|(figure, _)| !figure.values.is_empty())
}

/// Returns the median rate of a test case, in frames per second, and half of its interval.
fn rate_of(case: &TestCase) -> Option<(f64, Option<f64>)> {
    let (figure, _) = rate_figure(case)?;
    Some((figure.median, figure.interval_half_width))
}

/// Returns true if the generator was the limit, so the rate is a lower bound.
fn is_limited(case: &TestCase) -> bool {
    case.figures
        .iter()
        .any(|figure| figure.generator_limited > 0)
}

/// Compares the rates of one flow and of many flows, and adds the number of CPUs if it is known.
/// Uses the smallest frames, which are the hardest.
fn cores(info: &RunInfo, cases: &[TestCase]) -> Option<Sentence> {
    if cases.iter().any(|case| case.case.variant.shard.is_some()) {
        // measured on several machines
        return None;
    }
    let of_flows = |requested: &dyn Fn(&TestCase) -> bool| {
        let mut found: Vec<(usize, &TestCase)> = (cases.iter().enumerate())
            .filter(|(_, case)| {
                requested(case) && case.case.variant.profile.is_none() && rate_of(case).is_some()
            })
            .collect();
        found.sort_by_key(|(_, case)| case.case.stream.frame_size_bytes);
        found.first().copied()
    };
    let in_words = |case: &TestCase| {
        let (pps, half) = rate_of(case).unwrap_or_default();
        let bound = if is_limited(case) { "at least " } else { "" };
        let (_, which) = rate_figure(case).unzip();
        let which = which.unwrap_or_default();
        format!("{bound}{}{which}", rate_with_interval(pps, half))
    };
    let with = |case: &TestCase| {
        let flows = plural(case.case.stream.flows as usize, "flow");
        format!("{} with {flows}", in_words(case))
    };
    let cpus = dut_cpus(info, cases);
    let who = match cpus {
        Some(1) => "one CPU forwards".to_owned(),
        Some(cpus) => format!("a DUT of {cpus} CPUs forwards"),
        None => "it forwards".to_owned(),
    };
    // if there are several configurations, name this one
    let beginning = |case: &TestCase| {
        let own = &case.case.configuration;
        match cases.iter().all(|other| other.case.configuration == *own) {
            true => "At".to_owned(),
            false => format!("{own}: at"),
        }
    };
    let one = of_flows(&|case| case.case.stream.flows == 1);
    let Some((at, one)) = one else {
        // without a test case of one flow, the sentence makes sense only for a single CPU
        let (at, case) = of_flows(&|_| true).filter(|_| cpus == Some(1))?;
        let size = case.case.stream.frame_size_bytes;
        return Some(Sentence::for_cases(
            format!("{} {size} bytes {who} {}", beginning(case), with(case)),
            [at],
        ));
    };
    let most = cases.iter().map(|case| case.case.stream.flows).max()?;
    let same_but_flows = |case: &TestCase| {
        let like = |own: &TestCase| {
            let mut like = own.case.clone();
            like.stream.flows = most;
            like
        };
        most > 1 && case.case.stream.flows == most && case.case == like(one)
    };
    let size = one.case.stream.frame_size_bytes;
    let carried = match (cpus, at_work(one)) {
        (Some(all), Some(1)) if all > 1 => ", which one of them carries",
        _ => "",
    };
    let at_size = format!("{} {size} bytes", beginning(one));
    let reported = format!("{at_size} {who} {}{carried}", with(one));
    Some(match of_flows(&same_but_flows) {
        Some((beside, many)) => {
            Sentence::for_cases(format!("{reported}, and {}", with(many)), [at, beside])
        }
        None => Sentence::for_cases(reported, [at]),
    })
}

/// Returns the number of CPUs that the DUT may use, if it is this machine's kernel and they were
/// chosen.
fn dut_cpus(info: &RunInfo, cases: &[TestCase]) -> Option<usize> {
    let is_ours = |case: &TestCase| case.case.dut.is_linux() && case.case.image.is_none();
    let chosen = info.parameters.get("dut_cpus")?.as_array()?.len();
    (cases.iter().all(is_ours) && !info.facts.is_simulated() && chosen > 0).then_some(chosen)
}

/// Returns the number of CPUs that forwarded, if it was read.
fn at_work(case: &TestCase) -> Option<usize> {
    let each = case.iterations.iter().filter_map(|one| {
        let read = one
            .telemetry
            .as_ref()
            .filter(|read| !read.cpus.is_empty())?;
        let works = |cpu: &&fwdlab_model::telemetry::CpuShare| {
            cpu.forwards && cpu.softirq_ratio + cpu.system_ratio >= AT_WORK
        };
        Some(read.cpus.iter().filter(works).count())
    });
    each.max()
}

/// Lists the test cases that reach the line rate, and by how much the others miss it.
fn line_rates(info: &RunInfo, cases: &[TestCase]) -> Vec<Sentence> {
    struct Share {
        at: usize,
        label: String,
        percent: f64,
        missing_pps: f64,
    }
    let speed = link::link_speed(info);
    let mut all: Vec<Share> = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let both = if case.case.variant.both_directions {
            ", in each direction"
        } else {
            ""
        };
        let mut outcomes = case.outcomes.iter();
        let of_outcomes = outcomes.find_map(|outcome| shown(&outcome.found).line_rate_pps());
        let of_link = || {
            let (pps, _) = rate_of(case)?;
            let line = speed?.line_rate_pps(MeanSize::from(case.case.stream.frame_size_bytes));
            Some((line, pps))
        };
        if let Some((line, pps)) = of_outcomes.or_else(of_link) {
            all.push(Share {
                at,
                label: format!("{}{both}", label(case, cases)),
                percent: 100.0 * pps / line,
                missing_pps: line - pps,
            });
        }
    }
    let of = speed.map_or("line rate".to_owned(), |speed| {
        format!("line rate of {}", link::words(speed))
    });
    let (reached, mut missed): (Vec<Share>, Vec<Share>) =
        all.into_iter().partition(|one| one.percent >= REACHED);
    // if the generator did not fill the line, the DUT did not miss it
    missed.retain(|one| !is_limited(&cases[one.at]));
    let mut reported = Vec::new();
    if !reached.is_empty() {
        let names: Vec<&str> = reached.iter().map(|one| &one.label[..]).collect();
        let names = match names.len() <= TOLD {
            true => names.join("; "),
            false => format!(
                "{} of {}",
                names.len(),
                plural(names.len() + missed.len(), "test case")
            ),
        };
        reported.push(Sentence::for_cases(
            format!("{} reached: {names}", capital(&of)),
            reached.iter().map(|one| one.at),
        ));
    }
    let sentence = |one: &Share| {
        let words = format!(
            "{}: {of} missed by {}, {} of it reached",
            one.label,
            rate(one.missing_pps),
            percent(one.percent)
        );
        Sentence::for_cases(words, [one.at])
    };
    if missed.len() <= TOLD {
        reported.extend(missed.iter().map(sentence));
        return reported;
    }
    reported.push(Sentence::for_cases(
        format!(
            "{} missed in {}",
            capital(&of),
            plural(missed.len(), "test case")
        ),
        missed.iter().map(|one| one.at),
    ));
    let by_share = |a: &&Share, b: &&Share| a.percent.total_cmp(&b.percent);
    for (which, one) in [
        ("The worst", missed.iter().min_by(by_share)),
        ("The nearest", missed.iter().max_by(by_share)),
    ] {
        reported.extend(one.map(|one| Sentence {
            words: format!("{which}: {}", sentence(one).words),
            ..sentence(one)
        }));
    }
    reported
}

/// Returns the energy per frame of each meter. Meters may overlap, and all include idle power.
fn energy(cases: &[TestCase]) -> Vec<Sentence> {
    let mut reported = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let mut answered = case.outcomes.iter().filter(|outcome| outcome.answered);
        if let Some(found) = answered.find_map(|outcome| outcome.found.get::<Energy>()) {
            // idle trials have energy but no frames
            let label = label(case, cases);
            let metered = found.meters.iter().filter_map(metered);
            let metered =
                metered.map(|words| Sentence::for_cases(format!("{label}: {words}"), [at]));
            reported.extend(metered.take(TOLD.saturating_sub(reported.len())));
            continue;
        }
        let mut meters: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
        for telemetry in case
            .iterations
            .iter()
            .filter_map(|one| one.telemetry.as_ref())
        {
            for (meter, joules) in &telemetry.energy_joules {
                let sum = meters.entry(meter).or_default();
                sum.0 += joules;
                sum.1 += telemetry.frames_received;
            }
        }
        let each = meters
            .iter()
            .filter(|(_, (joules, frames))| *joules > 0.0 && *frames > 0);
        let each = each.map(|(meter, (joules, frames))| {
            format!("{} by {meter}", joule(joules / *frames as f64))
        });
        let each: Vec<String> = each.collect();
        if !each.is_empty() && reported.len() < TOLD {
            let label = label(case, cases);
            reported.push(Sentence::for_cases(
                format!(
                    "{label}: a frame took {}, idle power included",
                    each.join(", ")
                ),
                [at],
            ));
        }
    }
    reported
}

/// Returns the idle power and the energy per frame of a meter.
fn metered(meter: &Meter) -> Option<String> {
    let each = meter.joules_per_frame?;
    let beyond = meter.marginal_joules_per_frame.map_or(String::new(), |j| {
        format!(", {} of them beyond idling", joule(j))
    });
    let powers = match (meter.idle_watts, meter.full_watts) {
        (Some(idle), Some(full)) => format!("; {} idle, {} at full load", watts(idle), watts(full)),
        _ => String::new(),
    };
    Some(format!(
        "a frame costs {} by {}{beyond}{powers}",
        joule(each),
        meter.name
    ))
}

/// Returns how the management of flooded DUTs answered, over all iterations.
fn managed(cases: &[TestCase]) -> Vec<Sentence> {
    let mut reported = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let outcomes = case.iterations.iter().flat_map(|one| &one.outcomes);
        let answered = outcomes.filter(|outcome| outcome.answered);
        let found: Vec<&Management> = answered.filter_map(|outcome| outcome.found.get()).collect();
        let kinds = found.first().map_or(&[][..], |first| &first.requests);
        for (n, kind) in kinds.iter().enumerate() {
            let all = || found.iter().filter_map(|one| one.requests.get(n));
            let flood = || all().filter_map(|one| one.at.last());
            let requested: u64 = flood().map(|at| at.asked).sum();
            let missing: u64 = flood().map(|at| at.wrong + at.lost).sum();
            let longest = |at: Option<&AtLoad>| Some(at?.round_trip_s?.max);
            let most = |longest: f64, s: f64| longest.max(s);
            let rest = all()
                .filter_map(|one| longest(one.at.first()))
                .fold(0.0, most);
            let slowest = flood().filter_map(|at| longest(Some(at))).fold(0.0, most);
            let answers = match missing {
                0 => format!("answered all {requested} requests"),
                _ => format!("left {missing} of {requested} requests without a good answer"),
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
                None => "; afterwards no recovery was seen".to_owned(),
                Some(0.0) => String::new(),
                Some(s) => format!("; recovered {} after the flood", delay(1e9 * s)),
            };
            let words = format!(
                "{}: in the flood `{}` {answers}{slowest}{recovery}",
                label(case, cases),
                kind.request
            );
            reported.push(Sentence::for_cases(words, [at]));
        }
    }
    reported.truncate(TOLD);
    reported
}

/// Returns proven differences, and thresholds that were kept or missed.
fn verdicts(summary: &Summary) -> Vec<Sentence> {
    let mut reported = Vec::new();
    let cases = &summary.test_cases;
    let is_slices = Shape::from_summary(summary) == Shape::Slices;
    // each with the index of its test case
    let real: Vec<(usize, Comparison)> = match is_slices {
        true => (cases.iter().enumerate())
            .flat_map(|(at, case)| case.comparisons().map(move |one| (at, one.clone())))
            .collect(),
        false => campaign::named_differences(cases),
    };
    match real.as_slice() {
        [] => {}
        // the headline has the command of a comparison, but not the name of a test case
        few if few.len() <= TOLD => reported.extend(few.iter().map(|(at, one)| {
            let words = match is_slices {
                true => capital(&words::finding(one)),
                false => format!("{}: {}", one.configuration, words::finding(one)),
            };
            Sentence::for_cases(words, [*at])
        })),
        many => {
            let compared: Vec<&Comparison> = many.iter().map(|(_, one)| one).collect();
            reported.push(Sentence::for_cases(words::tally(&compared), 0..cases.len()));
        }
    }
    let failed: Vec<usize> = (cases.iter().enumerate())
        .filter(|(_, case)| case.failures().next().is_some())
        .map(|(at, _)| at)
        .collect();
    if !failed.is_empty() {
        let words = format!(
            "{} of {} had iterations without a result",
            failed.len(),
            plural(cases.len(), "test case")
        );
        reported.push(Sentence::for_cases(words, failed));
    }
    let all = summary.thresholds.len();
    let missed = summary.thresholds.iter().filter(|one| !one.passed).count();
    let thresholds = match (all, missed) {
        (0, _) => None,
        (_, 0) => Some(format!("{} kept", plural(all, "threshold"))),
        _ => Some(format!(
            "{missed} of {} not passed",
            plural(all, "threshold")
        )),
    };
    reported.extend(thresholds.map(|words| Sentence::new(words, Evidence::Thresholds)));
    if summary.noise.too_noisy {
        let words = "The machine was too noisy for these figures to be relied on";
        reported.push(Sentence::new(words, Evidence::Noise));
    }
    if is_in_instructions(cases) {
        let words =
            "Instructions were counted, not timed: other work on the machine changes nothing";
        reported.push(Sentence::for_cases(words.into(), 0..cases.len()));
    }
    reported.retain(|sentence| !sentence.words.is_empty());
    reported
}
