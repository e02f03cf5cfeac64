//! How far figures can be trusted: the rule for "too noisy", for all kinds of measurements.
//!
//! It judges each test case on its own, and a run by its test cases; the consequences (another
//! headline, exit code 5) are decided elsewhere. Start with [`of_values`]; [`of_trials`] judges
//! searches and procedures, [`of_windows`] test cases of many windows, [`of_comparison`] paired
//! differences.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::event::RebuildRecord;
use fwdlab_model::outcome::{Found, Maxfwd, Outcome};
use fwdlab_model::probe::{ApartStratum, MachineState};
use fwdlab_model::procedure::Purpose;
use fwdlab_model::result::{Noise, Summary, TrialRecord};
use fwdlab_model::search::SearchOutcome;
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::units::counted;
use fwdlab_stats::{Confidence, Sample};

use crate::gate::Gate;
use crate::{maxfwd, paired};

/// Minimum number of values for an interval. The distance of two values is random: Student's factor
/// is 12.7 for them and 4.3 for three, and `652 ± 2339 kpps` is useless.
pub const FEWEST_VALUES: usize = 3;

/// A figure is too noisy if its 95 % interval extends farther than this to either side, in percent
/// of it. Typical effects are a few percent (one firewall rule 4, a set of them 20): with ±10 % two
/// figures must differ by a fifth, and a wider interval would not show a whole firewall.
pub const WIDEST_PERCENT: f64 = 10.0;

/// Maximum variation of iterations on a steady machine, in percent (coefficient of variation).
/// Above it the verdict lists the iterations that are outliers.
pub const STEADY_PERCENT: f64 = 4.0;

/// Maximum number of such iterations to list.
const NAMED: usize = 3;

/// Minimum share of quiet windows in a test case, in percent: fewer are moments, not a state of the
/// machine.
pub const QUIET_WINDOWS_PERCENT: f64 = 10.0;

/// Minimum share of a procedure's trials with the CPU at full speed, in percent: a search relies on
/// each of its trials, and cannot select among them as one can among windows.
pub const QUIET_TRIALS_PERCENT: f64 = 50.0;

/// Maximum share of invalid trials of a procedure, in percent. Every invalid trial is repeated, so
/// a disturbance of one trial in five leaves the decision to the lucky ones.
pub const INVALID_TRIALS_PERCENT: f64 = 20.0;

/// Loads that differ by less than this, in percent, are equal for two tests of a suite: a buffer
/// absorbs in a short trial what is lost in a long one.
const SAME_LOAD_PERCENT: f64 = 2.0;

/// Returns half of the 95 % interval of the mean, Student; `None` below [`FEWEST_VALUES`].
pub fn half_width(sample: &Sample) -> Option<f64> {
    let interval = sample.mean_interval(Confidence::P95);
    let half = interval.map(|interval| interval.half_width());
    half.filter(|_| sample.n() >= FEWEST_VALUES)
}

/// Returns why repeated values are too noisy for a figure.
pub fn of_values(values: &[f64], what: &str) -> Option<String> {
    if values.len() < FEWEST_VALUES {
        let plural = if values.len() == 1 { "" } else { "s" };
        return Some(format!(
            "{} usable {what}{plural}; at least {FEWEST_VALUES} are needed to show their variation",
            values.len()
        ));
    }
    let sample = Sample::new(values.to_vec()).ok()?;
    let percent = width_percent(&sample)?;
    // NaN if every value is 0, which is perfectly certain
    (percent > WIDEST_PERCENT)
        .then(|| format!("known only to ±{percent:.0} % (limit ±{WIDEST_PERCENT:.0} %)"))
}

/// Returns half of the interval in percent of the centre of the values. If mean and median differ
/// the smaller one counts: a few iterations far below the others widen the interval, and must not
/// be judged by the others' rate.
fn width_percent(sample: &Sample) -> Option<f64> {
    let centre = sample.median().abs().min(sample.mean().abs());
    Some(100.0 * half_width(sample)? / centre)
}

/// Returns why iterations of a test case vary more than on a steady machine: the outliers, and the
/// state of the machine during them. `None` if they vary less, or the cause is unknown.
pub fn cause_of_variation(case: &TestCase) -> Option<String> {
    let figure = case.forwarding_rate()?;
    if figure.variation_percent? <= STEADY_PERCENT {
        return None;
    }
    let rate_of = |one: &Iteration| {
        let mut outcomes = one.outcomes.iter();
        let found: &Maxfwd = outcomes.find_map(|outcome| outcome.found.get())?;
        Some((one.iteration, found.forwarding_rate_pps?, found.clone()))
    };
    let mut all: Vec<(u32, f64, Maxfwd)> = case.iterations.iter().filter_map(rate_of).collect();
    let away = |pps: f64| 100.0 * (pps / figure.median - 1.0);
    all.sort_by(|a, b| away(b.1).abs().total_cmp(&away(a.1).abs()));
    let reported: Vec<String> = (all.iter())
        .filter(|(_, pps, _)| away(*pps).abs() > STEADY_PERCENT)
        .take(NAMED)
        .map(|(n, pps, found)| {
            let quiet = f64::from(found.quiet.windows) / f64::from(found.windows().max(1));
            let state = found
                .other_states
                .iter()
                .max_by_key(|one| one.stratum.windows);
            let state = state.filter(|one| one.stratum.windows > 0);
            let state = state.map_or_else(String::new, |one| {
                let apart: Vec<String> = one
                    .round_trip_ns
                    .iter()
                    .map(|ns| format!("{ns:.0}"))
                    .collect();
                match (one.moved, one.slowed) {
                    (true, _) => ", others while the CPUs changed their state".to_owned(),
                    (_, true) => ", others with the DUT's CPU slowed".to_owned(),
                    _ => format!(", others with the CPUs {} ns apart", apart.join("/")),
                }
            });
            format!(
                "iteration {n} by {:+.0} % ({:.0} % of its windows quiet{state})",
                away(*pps),
                100.0 * quiet
            )
        })
        .collect();
    (!reported.is_empty()).then(|| format!("furthest from the median: {}", reported.join(", ")))
}

/// Returns why a forwarding rate, from iterations with these rates, is unreliable.
fn rate_doubt(found: &Maxfwd, rates: &[f64]) -> Option<String> {
    let windows = found.windows();
    let quiet = 100.0 * f64::from(found.quiet.windows) / f64::from(windows.max(1));
    if windows > 0 && quiet < QUIET_WINDOWS_PERCENT {
        let reason = format!("only {quiet:.0} % of its windows were quiet");
        return Some(format!("{reason}{}", sender_stalled(found)));
    }
    of_values(rates, "iteration")
}

/// Returns that the generator is the cause, if the sender stalled in more than half of the windows:
/// then they show nothing about the DUT and its machine. Contains no figure, because stored results
/// are compared by their figures, and older ones lack this reason.
pub fn sender_stalled(found: &Maxfwd) -> &'static str {
    match 2 * found.windows_not_offered > found.windows() {
        true => {
            ", because the sender stalled in most of them: the generator did not offer the load"
        }
        false => "",
    }
}

/// Returns why the forwarding rate of a test case is unreliable, and which iterations are the
/// cause.
pub fn of_windows(found: &Maxfwd, case: &TestCase) -> Option<String> {
    let doubt = rate_doubt(found, case.rates())?;
    Some(match cause_of_variation(case) {
        Some(cause) => format!("{doubt}; {cause}"),
        None => doubt,
    })
}

/// Returns why a comparison is inconclusive. A proven difference is conclusive, however wide its
/// interval; so is a DUT that forwards nothing.
pub fn of_comparison(comparison: &Comparison) -> Option<String> {
    if comparison.forwarding_rate_pps == Some(0.0) {
        return None;
    }
    let proven = matches!(comparison.verdict, Verdict::Less | Verdict::More);
    match comparison.detectable_percent {
        _ if comparison.values_percent.len() < FEWEST_VALUES => {
            of_values(&comparison.values_percent, "rebuild")
        }
        None => Some("its values give no interval".into()),
        Some(detectable) if detectable > WIDEST_PERCENT && !proven => Some(format!(
            "a difference of {detectable:.0} % would not have shown; the limit is {WIDEST_PERCENT:.0} %"
        )),
        Some(_) => None,
    }
}

/// Returns why trials that count as a whole are unreliable.
pub fn doubts_of_trials<'a>(
    gate: Option<&Gate>,
    trials: impl Iterator<Item = &'a TrialRecord> + Clone,
) -> Vec<String> {
    let mut doubts = Vec::new();
    let trials = trials.filter(|trial| !trial.validity.is_cut_off());
    let all = trials.clone().count();
    // report missing measurements as such, not as noise
    if all == 0 {
        return doubts;
    }
    let invalid = trials.clone().filter(|t| !t.validity.is_valid()).count();
    if 100.0 * invalid as f64 > INVALID_TRIALS_PERCENT * all as f64 {
        doubts.push(format!("{invalid} of {all} trials were invalid"));
    }
    if has_no_probe(trials.clone()) {
        return doubts;
    }
    if gate.is_none() {
        doubts.push("the contention probe gave no readings".into());
        return doubts;
    }
    let (quiet, judged) = quiet_of(trials);
    if is_rarely_quiet(quiet, judged) {
        let number = match quiet {
            0 => "no trial".to_owned(),
            _ => format!("only {quiet} of {judged} trials"),
        };
        doubts.push(format!("{number} had {}", describe_state(gate)));
    }
    doubts
}

fn is_rarely_quiet(quiet: u32, judged: u32) -> bool {
    f64::from(quiet) * 100.0 < QUIET_TRIALS_PERCENT * f64::from(judged) || judged == 0
}

/// Returns true if nothing probed the DUT's machine around these trials, because it is remote or
/// has no login: then it is unknown how quiet it was, which does not count as noise.
fn has_no_probe<'a>(trials: impl Iterator<Item = &'a TrialRecord> + Clone) -> bool {
    trials.clone().next().is_some() && trials.clone().all(|trial| trial.probes.is_empty())
}

/// Returns the number of trials in the state of the machine that figures refer to, and of all that
/// were judged.
fn quiet_of<'a>(trials: impl Iterator<Item = &'a TrialRecord>) -> (u32, u32) {
    trials.fold((0, 0), |(quiet, all), trial| {
        let (of_quiet, contended) = (trial.quiet.windows, trial.contended.windows);
        let apart = ApartStratum::windows(&trial.other_states);
        (quiet + of_quiet, all + of_quiet + contended + apart)
    })
}

/// Reverts every judgement on noise, for this reason: a run that was interrupted, or is in
/// progress, has too few values because of that.
pub fn not_judged(summary: &mut Summary, reason: &str) {
    summary.noise.too_noisy = false;
    summary.noise.doubts.clear();
    summary.noise.to_do.clear();
    summary.noise.verdict = format!("not judged: {reason}");
    summary.noise.not_judged = true;
    summary
        .test_cases
        .iter_mut()
        .for_each(|case| case.doubt = None);
    let outcomes = (summary.test_cases.iter_mut()).flat_map(|case| &mut case.outcomes);
    for outcome in outcomes {
        if let Found::Paired(found) = &mut outcome.found {
            let points = found.points.iter_mut();
            points.for_each(|point| point.comparison.doubt = None);
        }
    }
}

/// Judges how quiet the machine was around trials that count as a whole, and adds other doubts
/// about the results.
pub fn of_trials(
    gate: Option<&Gate>,
    trials: &[TrialRecord],
    contradictions: Vec<String>,
) -> Noise {
    let trials = trials.iter().filter(|trial| !trial.validity.is_cut_off());
    let (quiet, all) = quiet_of(trials.clone());
    if trials.clone().next().is_none() {
        return Noise {
            verdict: "not judged: nothing was measured".into(),
            not_judged: true,
            ..noise(gate, (quiet, all), Vec::new(), String::new())
        };
    }
    let mut doubts = doubts_of_trials(gate, trials.clone());
    doubts.extend(contradictions);
    let guides = |trial: &TrialRecord| {
        let requested = trial.asked.as_ref();
        requested.is_some_and(|requested| requested.question.purpose == Purpose::Search)
    };
    let selects = match trials.clone().any(guides) {
        true => ", and a search for zero loss selects the luckiest trials",
        false => "",
    };
    if has_no_probe(trials) {
        return not_probed(doubts, NOT_PROBED);
    }
    // a doubt says how many trials were quiet
    let which = match gate.is_some() && is_rarely_quiet(quiet, all) {
        true => "The".to_owned(),
        false => format!(
            "{quiet} of {all} trials had {} before and after; the",
            describe_state(gate)
        ),
    };
    let verdict = format!(
        "{which} machine may have caused losses in the others{selects}{}",
        slowed_words(gate)
    );
    noise(gate, (quiet, all), doubts, verdict)
}

/// Returns true if every test case is doubtful by itself, regardless of the machine.
pub fn none_is_reliable(cases: &[TestCase]) -> bool {
    !cases.is_empty() && cases.iter().all(|case| case.doubt.is_some())
}

/// Reverts noise where it does not matter: for single trials that lost no frame and timed none.
pub fn without_lossless_noise(noise: Noise, outcomes: &[Outcome]) -> Noise {
    let is_lossless = |outcome: &Outcome| match &outcome.found {
        Found::Trial(found) => {
            outcome.answered && found.frame_loss_ratio <= 0.0 && found.delays.is_none()
        }
        _ => false,
    };
    if outcomes.is_empty() || !outcomes.iter().all(is_lossless) {
        return noise;
    }
    Noise {
        verdict: "no frame was lost, however quiet the machine was".into(),
        too_noisy: false,
        doubts: Vec::new(),
        ..noise
    }
}

/// Judges how quiet the machine was, for a run with these test cases of windows. It is too noisy if
/// no test case is reliable. `is_probed` is false if nothing probes the machine of the DUT.
pub fn of_cases(
    gate: Option<&Gate>,
    is_probed: bool,
    cases: &[TestCase],
    control: Option<&Comparison>,
) -> Noise {
    let found = || cases.iter().filter_map(TestCase::windows);
    let quiet = found().map(|found| found.quiet.windows).sum::<u32>();
    let windows = found().map(Maxfwd::windows).sum::<u32>();
    let doubtful: Vec<(&TestCase, &String)> = cases
        .iter()
        .filter_map(|case| Some((case, case.doubt.as_ref()?)))
        .collect();
    let mut doubts = Vec::new();
    if gate.is_none() && is_probed {
        doubts.push("the contention probe gave no readings".to_owned());
    }
    let worst = cases
        .iter()
        .filter(|case| case.doubt.is_none())
        .filter_map(|case| case.forwarding_rate()?.variation_percent)
        .fold(0.0, f64::max);
    let reported = |(case, doubt): &(&TestCase, &String)| match cases.len() {
        1 => (*doubt).clone(),
        _ => format!("{}: {doubt}", case.test_case),
    };
    let mut verdict = match is_probed {
        true => format!("{quiet} of {windows} windows had {}", describe_state(gate)),
        false => NOT_PROBED.to_owned(),
    };
    if doubtful.len() == cases.len() {
        doubts.extend(doubtful.iter().map(reported));
    } else {
        verdict += &format!(", iterations vary by up to {worst:.1} %");
        let sure = cases.iter().filter(|case| case.doubt.is_none());
        let causes = sure.filter_map(|case| Some((case, cause_of_variation(case)?)));
        for (case, cause) in causes {
            let of = match cases.len() {
                1 => String::new(),
                _ => format!("{}, ", case.test_case),
            };
            verdict += &format!("; {of}{cause}");
        }
    }
    if !doubtful.is_empty() && doubts.is_empty() {
        let reported: Vec<String> = doubtful.iter().map(reported).collect();
        verdict = format!(
            "for {} of {} test cases: {verdict}; too noisy for the rest: {}",
            cases.len() - doubtful.len(),
            cases.len(),
            reported.join("; ")
        );
    }
    verdict += &slowed_words(gate);
    if control.is_some_and(|c| matches!(c.verdict, Verdict::Less | Verdict::More)) {
        verdict.push_str(
            "; but the A/A control differs from itself, so distrust differences of that size",
        );
    }
    match is_probed {
        true => noise(gate, (quiet, windows), doubts, verdict),
        false => not_probed(doubts, &verdict),
    }
}

/// Joins the noise of several machines, each of which measured a shard. The run is too noisy if all
/// shards are; the test cases of one that is are doubtful by [`of_noisy_shard`].
pub fn of_shards<'a>(shards: impl Iterator<Item = (u32, &'a Noise)> + Clone) -> Noise {
    let all = || shards.clone().map(|(_, noise)| noise);
    let words = |(shard, noise): (u32, &Noise)| format!("shard {shard}: {}", noise.verdict);
    let own = |(shard, noise): (u32, &Noise)| {
        let doubts = noise.doubts.iter();
        doubts
            .map(move |doubt| format!("shard {shard}: {doubt}"))
            .collect::<Vec<_>>()
    };
    let too_noisy = all().all(|noise| noise.too_noisy);
    let mut to_do: Vec<String> = Vec::new();
    for words in all().flat_map(|noise| &noise.to_do) {
        if !to_do.contains(words) {
            to_do.push(words.clone());
        }
    }
    Noise {
        calibration: "each shard by the readings of its own machine".into(),
        verdict: shards.clone().map(words).collect::<Vec<_>>().join("; "),
        not_judged: all().any(|noise| noise.not_judged),
        too_noisy,
        doubts: match too_noisy {
            true => shards.clone().flat_map(own).collect(),
            false => Vec::new(),
        },
        to_do,
        ..Noise::default()
    }
}

/// Returns why the test cases of a shard on this machine are unreliable.
pub fn of_noisy_shard(noise: &Noise) -> Option<String> {
    let reason = || format!("its machine was too noisy: {}", noise.doubts.join("; "));
    noise.too_noisy.then(reason)
}

/// Returns the A/A control that is furthest from what is expected of one: one that differs from
/// itself, or one that cannot tell.
pub fn worst(controls: impl Iterator<Item = Comparison>) -> Option<Comparison> {
    controls.min_by_key(|control| match control.verdict {
        Verdict::Less | Verdict::More => 0,
        Verdict::CannotTell => 1,
        Verdict::NoDifference => 2,
    })
}

/// The verdict of a run if nothing probed the machine of the DUT.
const NOT_PROBED: &str =
    "it is not known how quiet the machine of the DUT was, because nothing probes it";

fn not_probed(doubts: Vec<String>, verdict: &str) -> Noise {
    Noise {
        calibration: "none: nothing probes the machine of the DUT".into(),
        verdict: in_words(&doubts, "", verdict),
        too_noisy: !doubts.is_empty(),
        doubts,
        ..Noise::default()
    }
}

/// Judges how trustworthy the differences of a run are.
pub fn of_rebuilds(
    cases: &[TestCase],
    control: Option<&Comparison>,
    rebuilds: &[RebuildRecord],
) -> Noise {
    let all = cases.iter().flat_map(TestCase::comparisons);
    let all: Vec<Comparison> = all.cloned().collect();
    let blocks: u32 = rebuilds.iter().map(|rebuild| rebuild.blocks).sum();
    let left_out: u32 = rebuilds.iter().map(|r| r.blocks_not_offered).sum();
    let mut of_length: BTreeMap<Reverse<u64>, usize> = BTreeMap::new();
    for length in rebuilds.iter().filter_map(|record| record.slice_s) {
        *of_length
            .entry(Reverse((1e3 * length).round() as u64))
            .or_default() += 1;
    }
    let lengths = of_length
        .iter()
        .map(|(Reverse(ms), rebuilds)| format!("{rebuilds} with slices of {ms} ms"));
    let tried = match of_length.len() {
        0 | 1 => String::new(),
        _ => format!(
            " ({}: too many longer ones were disturbed)",
            lengths.collect::<Vec<_>>().join(", ")
        ),
    };
    let output = format!(
        "{}, {} of slices; {} left out because the sender was stalled or the DUT's CPU taken{tried}",
        counted(rebuilds.len(), "rebuild"),
        counted(blocks as usize, "block"),
        counted(left_out as usize, "block")
    );
    match control {
        Some(control) => of_comparisons(&all, control, output),
        None => Noise {
            verdict: format!("no result: none of the rebuilds could be used: {output}"),
            too_noisy: true,
            doubts: vec!["none of the rebuilds could be used".into()],
            ..Noise::default()
        },
    }
}

/// Judges how quiet the machine was, for a run with comparisons: it is too noisy if no comparison
/// is conclusive.
fn of_comparisons(comparisons: &[Comparison], control: &Comparison, verdict: String) -> Noise {
    let undecided = comparisons.iter().filter_map(|c| c.doubt.as_ref());
    let mut doubts: Vec<String> = undecided.cloned().collect();
    if doubts.len() < comparisons.len() {
        doubts.clear();
    }
    doubts.dedup();
    let mut verdict = verdict;
    if matches!(control.verdict, Verdict::Less | Verdict::More) {
        verdict.push_str("; the A/A control differs from the plain DUT, as one run in twenty does by chance: repeat before believing differences of that size");
    }
    Noise {
        calibration: "not used: paired slices cancel the drift of the machine".into(),
        verdict: in_words(&doubts, "", &verdict),
        too_noisy: !doubts.is_empty(),
        doubts,
        ..Noise::default()
    }
}

fn noise(
    gate: Option<&Gate>,
    (quiet, all): (u32, u32),
    doubts: Vec<String>,
    verdict: String,
) -> Noise {
    let states = gate.map(Gate::states).unwrap_or_default();
    let fit = match states.first() {
        Some(state) if state.slowed => "steady enough",
        _ => "quiet enough",
    };
    Noise {
        not_judged: false,
        probe_threshold: gate.map(Gate::threshold),
        calibration: gate.map_or_else(|| "no readings".into(), Gate::words),
        states,
        quiet_percent: (all > 0).then(|| 100.0 * f64::from(quiet) / f64::from(all)),
        verdict: in_words(&doubts, fit, &verdict),
        too_noisy: !doubts.is_empty(),
        doubts,
        to_do: Vec::new(),
    }
}

/// Describes the state of the machine that quiet windows and trials belong to.
fn describe_state(gate: Option<&Gate>) -> String {
    let states = gate.map(Gate::states).unwrap_or_default();
    let distance = match &states[..] {
        [of, _, ..] if !of.round_trip_ns.is_empty() => {
            let distance = MachineState {
                slowed: false,
                ..of.clone()
            };
            format!(", and the CPUs {distance}")
        }
        _ => String::new(),
    };
    match states.first() {
        Some(state) if state.slowed => {
            format!("this machine's most common state (the DUT's CPU slowed{distance})")
        }
        _ => format!("the DUT's CPU at full speed{distance}"),
    }
}

/// Describes figures of a slowed CPU; empty at full speed.
fn slowed_words(gate: Option<&Gate>) -> String {
    let states = gate.map(Gate::states).unwrap_or_default();
    match states.first() {
        Some(state) if state.slowed => format!(
            "; full speed was rare, so figures are for the most common state of this machine, in which something else on the same core, \
             here or on another virtual machine, slowed the CPU to {:.1} additions/ns; at full speed the DUT forwards more",
            state.additions_per_ns
        ),
        _ => String::new(),
    }
}

/// Returns how many iterations like these determine the rate of a test case to [`WIDEST_PERCENT`];
/// `None` if these are enough, or too few to tell.
pub fn iterations_needed(case: &TestCase) -> Option<usize> {
    case.doubt.as_ref()?;
    let sample = Sample::new(case.rates().to_vec()).ok()?;
    let percent = width_percent(&sample)?;
    // NaN if nothing is forwarded
    (percent > WIDEST_PERCENT).then(|| {
        let factor = (percent / WIDEST_PERCENT).powi(2);
        (sample.n() as f64 * factor).ceil() as usize
    })
}

/// Returns true if the same number of further iterations would make a noisy test case quiet. Only
/// then a second attempt is worth its time: noise that leaves no quiet windows, or an interval
/// several times too wide, will recur.
pub fn again_helps(cases: &[TestCase]) -> bool {
    cases
        .iter()
        .any(|case| iterations_needed(case).is_some_and(|needed| needed <= 2 * case.rates().len()))
}

/// Maximum number of iterations to recommend; more would take a quarter of an hour or longer.
const MOST_ITERATIONS: usize = 100;

/// Other work on the machine's CPUs during the measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherWork {
    /// The processes, and how to stop them; `None` if they used less than a tenth of a CPU in
    /// total.
    pub processes: Option<String>,
    /// Time in interrupts, including those of test frames, in percent of one CPU.
    pub interrupts_percent: f64,
    /// Time stolen by the hypervisor, in percent of one CPU.
    pub stolen_percent: f64,
}

/// Share of one CPU from which on stolen time is reported: half of what a window may wait for its
/// CPU and still be quiet.
pub const STOLEN_PERCENT: f64 = 1.0;

/// Share of one CPU from which on interrupts are reported.
const INTERRUPTS_PERCENT: f64 = 10.0;

/// Describes time stolen by the hypervisor.
pub fn stolen(percent: f64) -> String {
    format!(
        "the hypervisor took {percent:.0} % of a CPU (steal), which cannot be stopped from here"
    )
}

/// Returns the known disturbances of a run. The hypervisor is blamed for stolen time, and for what
/// the probes saw if nothing on this machine explains it; `other` is `None` if the machine was not
/// monitored.
fn causes(summary: &Summary, other: Option<&OtherWork>) -> Vec<String> {
    let found = || summary.test_cases.iter().filter_map(TestCase::windows);
    let stalled: u32 = found().map(|found| found.windows_not_offered).sum();
    let windows: u32 = found().map(Maxfwd::windows).sum();
    let Some(other) = other else {
        if 2 * stalled > windows {
            let reason = "the sender's CPUs were busy with other work: stop other programs on the generator's machine, or give the sender \
                       CPUs of its own (cpus in [generator] of the bed file)";
            return vec![reason.into()];
        }
        let reason = "what disturbed it is not known: fwdlab accounts for the CPU time of the machine it runs on, and this was measured on \
                   another one";
        return vec![reason.into()];
    };
    let mut causes = Vec::new();
    if let Some(processes) = &other.processes {
        causes.push(format!("other processes used the CPUs: {processes}"));
    }
    if other.stolen_percent >= STOLEN_PERCENT {
        causes.push(stolen(other.stolen_percent));
    }
    if !causes.is_empty() {
        return causes;
    }
    let interrupts = match other.interrupts_percent >= INTERRUPTS_PERCENT {
        true => format!(
            "; interrupts, those of test frames included, took {:.0} % of a CPU",
            other.interrupts_percent
        ),
        false => String::new(),
    };
    let observed = match &summary.noise.states[..] {
        [of, others @ ..] if of.slowed || !others.is_empty() => {
            "but the probes saw the CPUs slowed or moved: that comes from outside, such as the neighbours of a virtual machine, and \
             cannot be stopped from here"
        }
        _ => "and the probes saw nothing: the cause is not known",
    };
    vec![format!(
        "other processes used less than a tenth of a CPU, the hypervisor took none{interrupts}; {observed}"
    )]
}

/// Returns what to do about an unreliable run; empty if it is reliable.
pub fn advice(summary: &Summary, other: Option<&OtherWork>) -> Vec<String> {
    if summary.is_quiet() {
        return Vec::new();
    }
    let mut advice = causes(summary, other);
    let compared: Vec<&Comparison> = summary.comparisons().collect();
    advice.extend(match summary.procedure.as_str() {
        maxfwd::ID => advice_on_cases(&summary.test_cases, summary.control.as_ref()),
        paired::ID => advice_on_comparisons(&compared, compared_together(&summary.test_cases)),
        _ => advice_on_trials(),
    });
    advice
}

fn advice_on_cases(cases: &[TestCase], control: Option<&Comparison>) -> Vec<String> {
    let shown = control.and_then(|control| control.detectable_percent);
    let shown = shown.map_or(String::new(), |percent| {
        format!("; even the whole iterations of this run would have shown {percent:.1} %, and slices detect smaller differences")
    });
    let mut advice = vec![format!(
        "the cost of a configuration can still be measured on the embedded test bed: fwdlab quick --vs 'COMMAND' compares it with the plain DUT in \
         alternating slices of 20 ms, which noise affects equally{shown}"
    )];
    let needed = cases.iter().filter_map(iterations_needed).max();
    if let Some(needed) = needed.filter(|needed| *needed <= MOST_ITERATIONS) {
        advice.push(format!(
            "more iterations: with this variation, -n {} would be enough",
            needed.next_multiple_of(5)
        ));
    }
    if cases.iter().any(|case| case.rates().len() < FEWEST_VALUES) {
        advice.push("longer trials find more quiet windows: --trial 5s".into());
    }
    advice
}

/// Returns the maximum number of DUTs that are compared with the plain one at the same time: those
/// with the same traffic. A sweep has one for each value; a test case without a result had at least
/// one.
fn compared_together(cases: &[TestCase]) -> usize {
    let duts = |case: &TestCase| case.comparisons().count().max(1);
    let same_traffic = |of: &TestCase| -> usize {
        let same = cases
            .iter()
            .filter(|case| case.case.stream == of.case.stream);
        same.map(duts).sum()
    };
    cases.iter().map(same_traffic).max().unwrap_or(0)
}

/// An interval narrows with the root of the number of values: computes how many rebuilds would have
/// reached [`WIDEST_PERCENT`].
fn advice_on_comparisons(comparisons: &[&Comparison], together: usize) -> Vec<String> {
    let needed = comparisons
        .iter()
        .filter(|c| c.doubt.is_some())
        .filter_map(|c| {
            let factor = (c.detectable_percent? / WIDEST_PERCENT).powi(2);
            Some((c.values_percent.len() as f64 * factor).ceil() as usize)
        })
        .max();
    // with the plain DUT and the control: all swap places with every rebuild
    let duts = together + 2;
    let needed = needed.map(|n| n.next_multiple_of(duts));
    let first = match needed.filter(|n| *n <= MOST_ITERATIONS) {
        _ if comparisons.iter().all(|c| c.values_percent.is_empty()) => {
            "try at another time: no rebuild had enough blocks of slices in which the load was offered".into()
        }
        Some(needed) => format!(
            "more rebuilds (--rebuilds {needed}, with --for increased in proportion; iterations in a campaign): with this variation they \
             would show a difference of {WIDEST_PERCENT:.0} %"
        ),
        None => format!(
            "try at another time: even {MOST_ITERATIONS} rebuilds like these would not show a difference of {WIDEST_PERCENT:.0} %"
        ),
    };
    let fewer = (together > 1).then(|| {
        format!(
            "compare fewer configurations or values at a time: a block has two slices of every DUT, {} here, and is used only if none of \
             them was disturbed",
            2 * duts
        )
    });
    fewer
        .into_iter()
        .chain([first, COUNT_INSTRUCTIONS.into()])
        .collect()
}

/// Advice for any machine.
const COUNT_INSTRUCTIONS: &str = "the instructions that a configuration costs can be counted even on a busy machine: fwdlab quick --vm \
    debian:linux-image-cloud-amd64 --vs 'COMMAND'; it does not show time spent waiting for memory";

/// Procedures rely on each of their trials.
fn advice_on_trials() -> Vec<String> {
    vec![
        "this needs all of its trials undisturbed; fwdlab quick only needs some windows, and selects the quiet ones: it \
         measures the forwarding rate under overload, and on the embedded test bed, with --vs 'COMMAND', the cost of a configuration"
            .into(),
    ]
}

/// Returns the verdict as a sentence, with doubts first, if there are any.
fn in_words(doubts: &[String], fit: &str, verdict: &str) -> String {
    match (doubts.is_empty(), fit) {
        (true, "") => verdict.to_owned(),
        // `for 5 of 6 test cases` follows without a colon
        (true, _) if verdict.starts_with("for ") => format!("{fit} {verdict}"),
        (true, _) => format!("{fit}: {verdict}"),
        (false, _) => format!("too noisy: {}. {}", doubts.join("; "), verdict),
    }
}

/// Returns goals whose load is far below what the DUT forwarded in the same search
/// ([`SearchOutcome::maximum_far_above`]).
pub fn far_below<'a>(labels: impl Iterator<Item = &'a str>, search: &SearchOutcome) -> Vec<String> {
    labels
        .zip(&search.goals)
        .filter_map(|(label, goal)| {
            let (pps, best) = (goal.relevant_lower_bound_pps?, search.maximum_far_above(goal)?);
            Some(format!(
                "{label}: {pps:.0} frames/s met it, but {best:.0} were forwarded at a higher load: this DUT loses some frames long \
                 before it is overloaded, or the trials in between were disturbed (--explain lists them)"
            ))
        })
        .collect()
}

/// Returns contradicting results of one suite: a load without loss above one that lost frames, and
/// vice versa. Loads within the resolution of a search count as equal, and so do those that differ
/// because of a buffer.
pub fn contradictions(outcomes: &[Outcome]) -> Vec<String> {
    let mut found = Vec::new();
    for outcome in outcomes {
        let Found::Throughput(throughput) = &outcome.found else {
            continue;
        };
        let Some(most) = throughput.throughput_pps.filter(|_| outcome.answered) else {
            continue;
        };
        let same = throughput
            .resolution_pps
            .max(most * SAME_LOAD_PERCENT / 100.0);
        let alike = outcomes.iter().filter(|other| {
            other.frame_size_bytes == outcome.frame_size_bytes && other.variant == outcome.variant
        });
        for other in alike {
            let Found::FrameLoss(loss) = &other.found else {
                continue;
            };
            let clean = |p: &&fwdlab_model::outcome::LossPoint| p.loss_percent == 0.0;
            let above = (loss.points.iter().filter(clean))
                .map(|point| point.load_pps)
                .filter(|load| *load > most + same)
                .fold(0.0, f64::max);
            let size = outcome.frame_size_bytes;
            if above > 0.0 {
                found.push(format!(
                    "tests contradict each other: {size} B had a throughput of {most:.0} frames/s, but lost nothing of \
                     {above:.0} in the frame loss test"
                ));
            }
            let below = (loss.points.iter().filter(|point| !clean(point)))
                .filter(|point| point.load_pps < most - same)
                .map(|point| point.load_pps)
                .fold(f64::INFINITY, f64::min);
            if below.is_finite() {
                found.push(format!(
                    "tests contradict each other: {size} B had a throughput of {most:.0} frames/s, but lost frames at \
                     {below:.0} in the frame loss test"
                ));
            }
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use fwdlab_model::campaign::Case;
    use fwdlab_model::outcome::{
        Compliance, FrameLoss, LossPoint, Paired, PairedPoint, Throughput,
    };
    use fwdlab_model::probe::Reading;
    use fwdlab_model::units::FrameSize;
    use fwdlab_model::variant::Variant;

    use super::*;
    use crate::campaign::summarise;
    use crate::maxfwd::compared;

    /// A trial without loss is a result even on the noisiest machine; one that lost a frame, or
    /// timed one, is not.
    #[test]
    fn a_trial_without_loss_needs_no_quiet_machine() {
        let outcome = |frame_loss_ratio: f64, timed: bool| Outcome {
            frame_size_bytes: FrameSize::MIN,
            variant: Variant::default(),
            found: Found::Trial(fwdlab_model::outcome::SingleTrial {
                intended_load_pps: 1e5,
                offered_load_pps: 1e5,
                forwarding_rate_pps: 1e5,
                frame_loss_ratio,
                directions: Vec::new(),
                duration_s: 1.0,
                delays: timed.then(Default::default),
                samples: Vec::new(),
            }),
            verdict: String::new(),
            answered: true,
            not_applicable: false,
            compliance: Compliance::default(),
            warnings: Vec::new(),
            trials: 1,
        };
        let noisy = || Noise {
            too_noisy: true,
            doubts: vec!["no trial had the DUT's CPU at full speed".into()],
            ..Noise::default()
        };
        let judged = |outcome| without_lossless_noise(noisy(), &[outcome]).too_noisy;
        assert!(!judged(outcome(0.0, false)));
        assert!(judged(outcome(1e-6, false)));
        assert!(judged(outcome(0.0, true)));
        assert!(without_lossless_noise(noisy(), &[]).too_noisy);
    }

    #[test]
    fn without_a_trial_no_noise_is_reported() {
        let noise = of_trials(None, &[], Vec::new());
        assert_eq!(noise.verdict, "not judged: nothing was measured");
        assert!(!noise.too_noisy && noise.doubts.is_empty(), "{noise:?}");
        assert_eq!(noise.quiet_percent, None);
        assert!(doubts_of_trials(None, [].iter()).is_empty());
    }

    #[test]
    fn two_values_have_no_interval_and_are_not_relied_on() {
        let half = |values: &[f64]| half_width(&Sample::new(values.to_vec()).unwrap());
        assert_eq!(half(&[400e3, 904e3]), None);
        assert!(half(&[400e3, 904e3, 652e3]).is_some());
        let doubt = of_values(&[746e3, 750e3], "iteration").unwrap();
        assert!(doubt.starts_with("2 usable iterations"), "{doubt}");
        assert!(of_values(&[], "iteration").is_some());
    }

    /// The case of the issue varied by 2.9 % and was used: it is quiet regardless of other work.
    #[test]
    fn the_limit_is_the_width_of_the_interval() {
        let around = |cv: f64| [-1.26, -0.63, 0.0, 0.63, 1.26].map(|z| 620e3 * (1.0 + cv * z));
        assert_eq!(of_values(&around(0.029), "iteration"), None);
        // Student, five values: ±10 % is a CV of 8.05 %
        assert_eq!(of_values(&around(0.080), "iteration"), None);
        let doubt = of_values(&around(0.082), "iteration").unwrap();
        assert!(doubt.contains("(limit ±10 %)"), "{doubt}");
        // a DUT that forwards nothing is not noisy
        assert_eq!(of_values(&[0.0; 5], "iteration"), None);
    }

    fn case(rates: Vec<f64>) -> TestCase {
        let found = |rate| Outcome {
            found: Found::Maxfwd(Box::new(Maxfwd {
                forwarding_rate_pps: Some(rate),
                ..Maxfwd::default()
            })),
            frame_size_bytes: FrameSize::MIN,
            variant: Default::default(),
            verdict: String::new(),
            answered: true,
            not_applicable: false,
            compliance: Default::default(),
            warnings: Vec::new(),
            trials: 1,
        };
        let iterations = (1..).zip(rates).map(|(iteration, rate)| Iteration {
            iteration,
            outcomes: vec![found(rate)],
            ..Iteration::default()
        });
        summarise(String::new(), &of_64_bytes(), iterations.collect())
    }

    fn of_64_bytes() -> Case {
        let ipv4 = fwdlab_model::trial::IpVersion::Ipv4;
        Case {
            configuration: "plain".into(),
            stream: fwdlab_model::trial::Stream::new(ipv4, FrameSize::MIN, 1).unwrap(),
            variant: Default::default(),
            image: None,
            dut: Default::default(),
        }
    }

    #[test]
    fn the_verdict_of_a_machine_that_nothing_probes_says_so() {
        let steady = [case(vec![700e3, 701e3, 699e3])];
        let noise = of_cases(None, false, &steady, None);
        assert!(!noise.too_noisy && noise.doubts.is_empty(), "{noise:?}");
        assert!(noise.verdict.starts_with(NOT_PROBED), "{}", noise.verdict);
        assert!(!noise.verdict.contains("full speed"), "{}", noise.verdict);
        let noise = of_cases(None, true, &steady, None);
        assert!(noise.too_noisy, "{noise:?}");
    }

    #[test]
    fn a_sender_that_stalled_is_the_cause() {
        let found = |stalled| Maxfwd {
            windows_not_offered: stalled,
            quiet: fwdlab_model::result::Stratum {
                windows: 10,
                forwarding_rate_pps: None,
            },
            ..Maxfwd::default()
        };
        assert_eq!(sender_stalled(&found(10)), "");
        let doubt = rate_doubt(&found(99), &[]).unwrap();
        assert!(
            doubt.contains("the generator did not offer the load"),
            "{doubt}"
        );
        let mut stalled = case(vec![700e3]);
        for outcome in stalled.outcomes.iter_mut().chain(
            stalled
                .iterations
                .iter_mut()
                .flat_map(|one| &mut one.outcomes),
        ) {
            outcome.found = Found::Maxfwd(Box::new(found(99)));
        }
        let summary = of(vec![stalled], Noise::default());
        let causes = causes(&summary, None).join(" ");
        assert!(causes.contains("the sender's CPUs were busy"), "{causes}");
    }

    /// From an idle machine: a CV of 18 % over ten iterations, and a median that the low ones did
    /// not move.
    #[test]
    fn a_wide_spread_is_judged_and_its_cause_named() {
        let mut rates = vec![400e3, 404e3, 408e3];
        rates.extend([700e3, 701e3, 699e3, 702e3, 698e3, 700e3, 703e3]);
        let varied = case(rates);
        assert!(varied.figures[0].variation_percent.unwrap() > 18.0);
        let doubt = varied.doubt.unwrap();
        assert!(doubt.contains("(limit ±10 %)"), "{doubt}");
        assert!(doubt.contains("iteration 1 by -43 %"), "{doubt}");
        // more iterations determine it well enough, and the verdict shows why they vary
        let rates = (0..40).map(|n| if n % 8 == 0 { 500e3 } else { 700e3 });
        let noise = of_cases(None, true, &[case(rates.collect())], None);
        assert!(
            noise
                .verdict
                .contains("vary by up to 9.9 %; furthest from the median: iteration 1 by -29 %"),
            "{noise:?}"
        );
    }

    #[test]
    fn a_second_attempt_is_made_where_it_can_help() {
        let around = |cv: f64| {
            case(
                [-1.26, -0.63, 0.0, 0.63, 1.26]
                    .map(|z| 620e3 * (1.0 + cv * z))
                    .to_vec(),
            )
        };
        // quiet; ±12 %, which twice as many bring below ±10 %; ±25 %, which they do not
        assert!(!again_helps(&[around(0.03)]));
        assert!(again_helps(&[around(0.03), around(0.10)]));
        assert!(!again_helps(&[around(0.20)]));
        assert_eq!(iterations_needed(&around(0.10)), Some(8));
        // nothing usable, or too few to tell
        assert!(!again_helps(&[case(Vec::new())]));
        assert!(!again_helps(&[case(vec![1e6, 2e6])]));
    }

    #[test]
    fn advice_names_busy_processes_and_usable_figures() {
        let noisy = case(vec![500e3, 620e3, 740e3, 560e3, 680e3]);
        let busy = OtherWork {
            processes: Some("cargo (4711) 93 % of a CPU".into()),
            ..OtherWork::default()
        };
        let noisy = of(vec![noisy], Noise::default());
        let reported = advice(&noisy, Some(&busy)).join("\n");
        for words in ["cargo (4711)", "--vs", "-n 20"] {
            assert!(reported.contains(words), "{words}: {reported}");
        }
        let quiet = case(vec![620e3, 621e3, 619e3]);
        let quiet = of(vec![quiet], Noise::default());
        assert!(advice(&quiet, Some(&busy)).is_empty());
    }

    /// "No trial had the CPU slowed" would read as praise.
    #[test]
    fn a_slowed_cpu_is_named_as_the_most_common_state() {
        let gate = |full_speed: usize| {
            let speed = |i: usize| match i < full_speed {
                true => 14.15,
                false => 7.5 + 5.0 * (i * 7 % 100) as f64 / 100.0,
            };
            let reading = |i: usize| Reading {
                additions_per_ns: speed(i),
                distances_ns: Vec::new(),
            };
            let all: Vec<Reading> = (0..700).map(reading).collect();
            describe_state(Some(&Gate::calibrate(&all).unwrap()))
        };
        let slowed = "this machine's most common state (the DUT's CPU slowed)";
        assert_eq!(gate(140), slowed);
        assert_eq!(gate(600), "the DUT's CPU at full speed");
    }

    /// The hypervisor is blamed for stolen time, and for what the probes saw if nothing here
    /// explains it; for nothing else.
    #[test]
    fn only_unexplained_noise_is_attributed_to_the_outside() {
        let noisy = |states: &[bool]| {
            let state = |&slowed: &bool| MachineState {
                slowed,
                additions_per_ns: 4.0,
                percent: 50.0,
                ..MachineState::default()
            };
            let noise = Noise {
                states: states.iter().map(state).collect(),
                ..Noise::default()
            };
            of(vec![case(vec![500e3, 620e3, 740e3, 560e3, 680e3])], noise)
        };
        let (still, moved) = (noisy(&[false]), noisy(&[false, true]));
        let other = |processes: Option<&str>, interrupts_percent, stolen_percent| OtherWork {
            processes: processes.map(str::to_owned),
            interrupts_percent,
            stolen_percent,
        };
        let reported =
            |summary: &Summary, other: Option<&OtherWork>| causes(summary, other).join("\n");
        let outside =
            |reported: &str| reported.contains("outside") || reported.contains("hypervisor took");
        let busy = reported(&moved, Some(&other(Some("rustc (7) 59 %"), 0.0, 0.0)));
        assert!(busy.contains("rustc (7)") && !outside(&busy), "{busy}");
        let both = reported(&moved, Some(&other(Some("rustc (7) 59 %"), 0.0, 7.0)));
        assert!(both.contains("rustc (7)") && both.contains("7 % of a CPU (steal)"));
        let observed = reported(&moved, Some(&other(None, 0.0, 0.0)));
        assert!(
            observed.contains("probes saw the CPUs") && observed.contains("outside"),
            "{observed}"
        );
        let nothing = reported(&still, Some(&other(None, 23.0, 0.0)));
        assert!(
            nothing.contains("not known") && nothing.contains("23 %"),
            "{nothing}"
        );
        assert!(!nothing.contains("outside"), "{nothing}");
        let elsewhere = reported(&moved, None);
        assert!(
            elsewhere.contains("not known") && !outside(&elsewhere),
            "{elsewhere}"
        );
    }

    pub(crate) fn of(test_cases: Vec<TestCase>, noise: Noise) -> Summary {
        Summary {
            format: 0,
            run: String::new(),
            procedure: match test_cases.first() {
                Some(case) if case.windows().is_some() => maxfwd::ID,
                Some(_) => paired::ID,
                None => "",
            }
            .into(),
            test_cases,
            control: None,
            imported: Vec::new(),
            noise,
            warnings: Vec::new(),
            imix_estimate_l2_bps: None,
            thresholds: Vec::new(),
        }
    }

    /// A test case compared by slices.
    fn compared_case(comparison: Comparison) -> TestCase {
        let mut case = case(vec![1.0]);
        case.figures.clear();
        case.doubt.clone_from(&comparison.doubt);
        let found = Paired {
            reference: "plain".into(),
            parameter: None,
            points: vec![PairedPoint {
                value: None,
                comparison,
                cost_ns: None,
                cost_interval_ns: None,
            }],
            slope: None,
        };
        case.outcomes[0].found = Found::Paired(found);
        case
    }

    /// An interval of nine values is half as wide with 36, and 36 are multiples of three places.
    #[test]
    fn comparisons_and_searches_have_something_to_do_too() {
        let ratios = [-0.3, 0.3, -0.2, 0.2, 0.1, -0.1, 0.25, -0.25, 0.0];
        let mut undecided = compared("x", &ratios, 0.0);
        undecided.detectable_percent = Some(20.0);
        undecided.doubt = of_comparison(&undecided);
        let reported = |c: &Comparison| {
            let noise = of_comparisons(std::slice::from_ref(c), c, String::new());
            advice(&of(vec![compared_case(c.clone())], noise), None).join("\n")
        };
        let words = reported(&undecided);
        assert!(words.contains("--rebuilds 36"), "{words}");
        undecided.detectable_percent = Some(80.0);
        let words = reported(&undecided);
        assert!(words.contains("even 100 rebuilds"), "{words}");
        // counting instructions does not need a quiet machine, and is recommended at the same time
        assert!(words.contains("--vm"), "{words}");
        let mut none = compared("x", &[], 0.0);
        none.doubt = of_comparison(&none);
        let none = reported(&none);
        assert!(
            none.contains("no rebuild had enough blocks") && none.contains("--vm"),
            "{none}"
        );
        // with a second configuration a block has eight slices, any of which may be disturbed; also
        // if none of the two has a result
        let both = [undecided.clone(), undecided.clone()];
        let noise = of_comparisons(&both, &undecided, String::new());
        let cases = both.clone().map(compared_case).to_vec();
        let words = advice(&of(cases, noise), None).join("\n");
        assert!(
            words.contains("fewer configurations") && words.contains("8 here"),
            "{words}"
        );
        let mut cases = both.clone().map(compared_case).to_vec();
        cases.iter_mut().for_each(|case| case.outcomes.clear());
        let noise = of_comparisons(&[], &undecided, String::new());
        let noise = Noise {
            too_noisy: true,
            ..noise
        };
        let words = advice(&of(cases, noise), None).join("\n");
        assert!(words.contains("8 here"), "{words}");
        // those with other traffic have their own blocks
        let mut cases = both.clone().map(compared_case).to_vec();
        cases[1].case.stream.frame_size_bytes = FrameSize::new(512).unwrap();
        let noise = of_comparisons(&both, &undecided, String::new());
        let words = advice(&of(cases, noise), None).join("\n");
        assert!(!words.contains("fewer configurations"), "{words}");
        let decided = compared("x", &[0.001, -0.001, 0.0, 0.002], 0.0);
        assert_eq!(reported(&decided), "");
        let noise = Noise {
            too_noisy: true,
            ..Noise::default()
        };
        let cargo = OtherWork {
            processes: Some("cargo".into()),
            ..OtherWork::default()
        };
        let search = advice(&of(Vec::new(), noise), Some(&cargo)).join("\n");
        assert!(search.contains("cargo") && search.contains("fwdlab quick"));
    }

    #[test]
    fn rebuilds_that_needed_short_slices_are_counted() {
        let rebuild = |slice_s| RebuildRecord {
            rebuild: 1,
            started_at: String::new(),
            compared: Vec::new(),
            places: Vec::new(),
            blocks: 20,
            blocks_not_offered: 2,
            slice_s: Some(slice_s),
            forwarding_rate_pps: Vec::new(),
            difference_percent: Vec::new(),
            frames_sent: 0,
            frames_received: 0,
            ledgers: Vec::new(),
            validity: fwdlab_model::result::Validity::default(),
        };
        let control = compared("control", &[0.0, 1e-4, -1e-4], 0.0);
        let says = |lengths: &[f64]| {
            let rebuilds: Vec<RebuildRecord> = lengths.iter().copied().map(rebuild).collect();
            of_rebuilds(&[], Some(&control), &rebuilds).verdict
        };
        let reported = says(&[0.02, 0.005, 0.005]);
        let words = "3 rebuilds, 60 blocks of slices; 6 blocks left out";
        assert!(reported.contains(words), "{reported}");
        let words = "1 with slices of 20 ms, 2 with slices of 5 ms";
        assert!(reported.contains(words), "{reported}");
        assert!(!says(&[0.02]).contains("with slices"));
        let none = of_rebuilds(&[], None, &[rebuild(0.02)]);
        assert!(none.too_noisy && none.verdict.starts_with("no result"));
    }

    #[test]
    fn a_proven_difference_is_decided_however_wide_its_interval() {
        let judged = |ratios: &[f64]| of_comparison(&compared("x", ratios, 0.0));
        let wide: Vec<f64> = (0..6).map(|n| -0.9 + 0.1 * f64::from(n)).collect();
        assert_eq!(judged(&wide), None);
        let undecided = [-0.3, 0.3, -0.2, 0.2, 0.0];
        let doubt = judged(&undecided).unwrap();
        assert!(doubt.contains("would not have shown"), "{doubt}");
        assert_eq!(judged(&[0.001, -0.001, 0.0, 0.002]), None);
        // two values prove nothing, however close they are
        let two = compared("x", &[-0.5, -0.5001], 0.0);
        assert_eq!(
            (two.verdict, two.interval_percent),
            (Verdict::CannotTell, None)
        );
        assert!(of_comparison(&two).is_some());
    }

    fn throughput(pps: f64) -> Found {
        Found::Throughput(Throughput {
            line_rate_pps: None,
            max_load_pps: 148.8e3,
            throughput_pps: Some(pps),
            percent: None,
            l2_bps: None,
            lossy_pps: Some(pps * 1.01),
            resolution_pps: pps * 0.01,
            confirmations_failed: 0,
            tester_bound: false,
        })
    }

    fn losses(points: &[(f64, f64)]) -> Found {
        let points = points.iter().map(|&(load_pps, loss_percent)| LossPoint {
            percent: 100.0 * load_pps / 148.8e3,
            load_pps,
            loss_percent,
            forwarding_rate_pps: load_pps * (1.0 - loss_percent / 100.0),
        });
        Found::FrameLoss(FrameLoss {
            max_load_pps: 148.8e3,
            points: points.collect(),
            ended_clean: true,
            collapse_ratio: None,
        })
    }

    fn outcome(found: Found) -> Outcome {
        Outcome {
            frame_size_bytes: FrameSize::MIN,
            variant: Variant::default(),
            verdict: String::new(),
            answered: true,
            not_applicable: false,
            compliance: Compliance::default(),
            warnings: Vec::new(),
            trials: 1,
            found,
        }
    }

    #[test]
    fn tests_that_contradict_each_other_are_named() {
        let suite = |pps, points: &[(f64, f64)]| {
            contradictions(&[outcome(throughput(pps)), outcome(losses(points))])
        };
        // a real case: throughput 124.0 kpps, and no loss at full rate
        let reported = suite(124.0e3, &[(148.8e3, 0.0), (133.9e3, 0.0)]);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(
            reported[0].contains("124000") && reported[0].contains("148800"),
            "{reported:?}"
        );
        let reported = suite(124.0e3, &[(148.8e3, 17.0), (104.2e3, 0.01), (89.3e3, 0.0)]);
        assert!(
            reported.len() == 1 && reported[0].contains("104200"),
            "{reported:?}"
        );
        // what a buffer absorbs, or is within the resolution, is not a contradiction
        assert!(suite(124.0e3, &[(148.8e3, 17.0), (125.1e3, 0.0), (119.0e3, 0.0)]).is_empty());
    }
}
