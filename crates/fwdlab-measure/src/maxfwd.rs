//! Maximum forwarding rate in overload (`maxfwd`; RFC 2285 §3.6.2, forwarding rate at maximum
//! offered load).
//!
//! The load exceeds the DUT's capacity, drops are ignored, and the result is the rate that comes
//! out: the median of short windows in which the machine was quiet. Test cases are interleaved in
//! randomised blocks, and the first one is measured twice in every block as an A/A control. Not a
//! throughput in the sense of RFC 2544. Start with [`judge`] and [`iterations`].

use std::time::Duration;

use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::loss::Ledger;
use fwdlab_model::outcome::{Compliance, Found, Maxfwd, Outcome};
use fwdlab_model::probe::{ApartStratum, Reading};
use fwdlab_model::result::{Stratum, TrialRecord};
use fwdlab_model::test_case::Iteration;
use fwdlab_stats::{Assumption, Confidence, Sample, compare_pairs};

use crate::gate::{Condition, Gate, of_run};
use crate::paired::ALLOWANCE;
use crate::procedure::MAX_INVALID;
use crate::trust;
use crate::validity::{OVERLOAD_SHARE, is_lower_bound};

/// Id of the procedure in records.
pub const ID: &str = "maxfwd";

/// Minimum number of windows for a stratum's rate.
pub const MIN_WINDOWS: usize = 10;

/// A window is contended if the DUT's thread waited for its CPU for more than this share of it. If
/// the sender did, at full speed, the load was not offered.
pub const WAITED_SHARE: f64 = 0.02;

const NOT_SATURATED: &str = "the generator is the limit: less than 1.1 times the output was offered, so the DUT may forward more";

/// Counts over some 20 ms, and the probes' readings before and after.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Start of the window, in seconds since the trial began.
    pub start_s: f64,
    /// Length of the window, by the clock of the sender's counters.
    pub duration_s: f64,
    /// Time during which received frames were counted, by the clock of the receiver, which may be
    /// on another machine and is read at other times.
    pub received_s: f64,
    /// Frames sent in it.
    pub sent: u64,
    /// Frames received in it.
    pub received: u64,
    /// Seconds in which the DUT's thread was runnable while its CPU was busy with other tasks.
    pub dut_waited_s: f64,
    /// Seconds in which the sender was runnable while its CPU was busy with other tasks.
    pub sender_waited_s: f64,
    /// The probes' readings just before.
    pub before: Reading,
    /// The probes' readings just after.
    pub after: Reading,
}

impl Window {
    /// Returns the frames per second received.
    pub fn forwarding_rate_pps(&self) -> f64 {
        self.received as f64 / self.received_s
    }

    /// Returns the frames per second sent.
    pub fn offered_load_pps(&self) -> f64 {
        self.sent as f64 / self.duration_s
    }

    /// Returns true if the DUT's thread had its CPU to itself, as far as this machine's scheduler
    /// knows.
    pub fn was_undisturbed(&self) -> bool {
        self.dut_waited_s <= WAITED_SHARE * self.duration_s
    }

    /// Returns true if the intended load was really offered. At full speed: if the sender had its
    /// CPU, and sent.
    pub fn was_offered(&self, intended_pps: Option<f64>) -> bool {
        match intended_pps {
            Some(pps) => self.offered_load_pps() >= OVERLOAD_SHARE * pps,
            None => self.sent > 0 && self.sender_waited_s <= WAITED_SHARE * self.duration_s,
        }
    }
}

/// The windows of one trial, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Strata {
    /// Offered, with the machine in the state that the figures refer to.
    pub quiet: Stratum,
    /// Offered, with the machine in another state or changing state.
    pub other_states: Vec<ApartStratum>,
    /// Offered, with the DUT's CPU contended.
    pub contended: Stratum,
    /// The generator stalled.
    pub not_offered: u32,
    /// Median forwarding rate of all offered windows, regardless of other conditions.
    pub ungated_pps: Option<f64>,
    /// Median offered load of the quiet windows; of all offered ones if the quiet ones give no
    /// rate; of all if none was offered.
    pub offered_pps: f64,
}

impl Strata {
    /// Returns true if the DUT was not overloaded, so that the generator is the limit.
    pub fn is_not_saturated(&self) -> bool {
        let forwarded = self.quiet.forwarding_rate_pps.or(self.ungated_pps);
        forwarded.is_some_and(|pps| is_lower_bound(self.offered_pps, pps))
    }
}

/// Sorts windows into strata. The forwarding rate does not influence the choice. No stratum
/// forwards more than was offered in it: frames that waited since the previous window belong to
/// that window's load.
pub fn judge(windows: &[Window], gate: Option<&Gate>, intended_pps: Option<f64>) -> Strata {
    let (offered, stalled): (Vec<&Window>, Vec<&Window>) =
        windows.iter().partition(|w| w.was_offered(intended_pps));
    let condition = |w: &Window| match gate {
        _ if !w.was_undisturbed() => Condition::Contended,
        Some(gate) => gate.condition(&w.before, &w.after),
        // nothing shows that the machine of the DUT was disturbed
        None if w.after == Reading::NONE => Condition::Quiet,
        None => Condition::Contended,
    };
    let of = |requested: Condition| -> Vec<&Window> {
        let all = offered.iter().copied();
        all.filter(|w| condition(w) == requested).collect()
    };
    let (quiet, contended) = (of(Condition::Quiet), of(Condition::Contended));
    let states = gate.map(Gate::states).unwrap_or_default();
    let others = states.iter().enumerate().skip(1);
    let apart = others
        .map(|(k, state)| ApartStratum::new(state, saturated(&of(Condition::Apart(k)))))
        .chain([ApartStratum::moved(stratum(&of(Condition::Moved)))])
        .filter(|apart| apart.stratum.windows > 0);
    let of_quiet = || median(quiet.iter().map(|w| w.offered_load_pps()));
    let of_all = || median(windows.iter().map(Window::offered_load_pps));
    let of_offered = || median(offered.iter().map(|w| w.offered_load_pps()));
    let offered_pps = if quiet.len() >= MIN_WINDOWS {
        of_quiet()
    } else {
        of_offered().or_else(of_all)
    }
    .unwrap_or(0.0);
    Strata {
        quiet: stratum(&quiet),
        contended: stratum(&contended),
        other_states: apart.collect(),
        not_offered: stalled.len() as u32,
        ungated_pps: forwarded(&offered),
        offered_pps,
    }
}

fn stratum(windows: &[&Window]) -> Stratum {
    Stratum {
        windows: windows.len() as u32,
        forwarding_rate_pps: forwarded(windows).filter(|_| windows.len() >= MIN_WINDOWS),
    }
}

/// Like `stratum`, for a state in which the DUT may be faster than in the one for which the load
/// was chosen: no rate if the load was the limit.
fn saturated(windows: &[&Window]) -> Stratum {
    let all = stratum(windows);
    let offered = median(windows.iter().map(|w| w.offered_load_pps())).unwrap_or(0.0);
    Stratum {
        forwarding_rate_pps: (all.forwarding_rate_pps).filter(|pps| !is_lower_bound(offered, *pps)),
        ..all
    }
}

/// Returns the median forwarding rate of windows, at most what was offered in the same ones.
fn forwarded(windows: &[&Window]) -> Option<f64> {
    let offered = median(windows.iter().map(|w| w.offered_load_pps()))?;
    let rate = median(windows.iter().map(|w| w.forwarding_rate_pps()))?;
    Some(rate.min(offered))
}

/// Returns the median; `None` without values.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let sample = Sample::new(values.collect::<Vec<_>>()).ok();
    sample.map(|sample| sample.median())
}

/// Returns true if a trial of this length has enough quiet windows: more than a median needs, about
/// half of those in the shortest trial.
pub fn is_enough(
    windows: &[Window],
    gate: Option<&Gate>,
    intended_pps: Option<f64>,
    duration: Duration,
) -> bool {
    let requested = MIN_WINDOWS.max((duration.as_millis() / 50) as usize);
    judge(windows, gate, intended_pps).quiet.windows as usize >= requested
}

/// Returns true if an iteration of a test case needs no further trial: it has a valid one, or the
/// maximum number of attempts.
pub fn is_made(test_case: &str, iteration: u32, trials: &[TrialRecord]) -> bool {
    let of_it = |trial: &&TrialRecord| trial.test_case == test_case && trial.iteration == iteration;
    let made = trials.iter().filter(of_it);
    let valid = made.clone().any(|trial| trial.validity.is_valid());
    valid || made.count() >= MAX_INVALID as usize
}

/// Judges the windows of a trial.
pub fn judge_trial(record: &mut TrialRecord, windows: &[Window], gate: Option<&Gate>) {
    let strata = judge(windows, gate, record.intended_load_pps);
    record.not_saturated = strata.is_not_saturated();
    record.offered_load_pps = strata.offered_pps;
    record.forwarding_rate_pps = strata.quiet.forwarding_rate_pps;
    record.forwarding_rate_ungated_pps = strata.ungated_pps;
    record.quiet = strata.quiet;
    record.contended = strata.contended;
    record.other_states = strata.other_states;
    record.windows_not_offered = strata.not_offered;
}

/// The trials of a run with their windows. The gate depends on the readings around all of them, so
/// each further trial may change the results of the earlier ones.
#[derive(Debug, Clone, Default)]
pub struct Trials {
    before: Vec<Reading>,
    all: Vec<(TrialRecord, Vec<Window>)>,
}

impl Trials {
    /// Creates a run without trials, with the readings from before the first one.
    pub fn new(before: Vec<Reading>) -> Trials {
        Trials {
            before,
            all: Vec::new(),
        }
    }

    /// Adds a trial.
    pub fn push(&mut self, record: TrialRecord, windows: Vec<Window>) {
        self.all.push((record, windows));
    }

    /// Returns the number of the next trial.
    pub fn next_number(&self) -> u32 {
        self.all.len() as u32 + 1
    }

    /// Returns the gate that follows from the readings so far.
    pub fn gate(&self) -> Option<Gate> {
        let windows = self.all.iter().flat_map(|(_, windows)| windows);
        let around: Vec<Reading> = windows.map(|window| window.after.clone()).collect();
        of_run(&self.before, &around)
    }

    /// Returns all trials, judged by this gate.
    pub fn judged(&self, gate: Option<&Gate>) -> Vec<TrialRecord> {
        let judged = self.all.iter().map(|(record, windows)| {
            let mut record = record.clone();
            judge_trial(&mut record, windows, gate);
            record
        });
        judged.collect()
    }
}

/// Returns the result of each iteration of a test case from its trials in order: that of the last
/// one, because the earlier ones were invalid.
pub fn iterations<'a>(trials: impl Iterator<Item = &'a TrialRecord>) -> Vec<Iteration> {
    let mut all: Vec<Iteration> = Vec::new();
    for trial in trials {
        let found = outcome(trial);
        let failure = (!found.answered).then(|| found.verdict.clone());
        let of_valid = trial.validity.is_valid().then_some(found);
        let iteration = Iteration {
            iteration: trial.iteration,
            outcomes: of_valid.into_iter().collect(),
            failure,
            trials: vec![trial.trial],
            ..Iteration::default()
        };
        match all.last_mut() {
            Some(last) if last.iteration == trial.iteration => {
                let trials = std::mem::take(&mut last.trials);
                *last = Iteration {
                    trials: [trials, iteration.trials].concat(),
                    ..iteration
                };
            }
            _ => all.push(iteration),
        }
    }
    all
}

/// Returns the outcome of one trial.
fn outcome(trial: &TrialRecord) -> Outcome {
    let found = Maxfwd {
        forwarding_rate_pps: trial.forwarding_rate_pps,
        forwarding_rate_ungated_pps: trial.forwarding_rate_ungated_pps,
        variation_ungated_percent: None,
        offered_load_pps: Some(trial.offered_load_pps),
        not_saturated: trial.not_saturated,
        frame_loss_ratio: loss_ratio(&trial.ledger),
        ledger: trial.ledger.clone(),
        quiet: trial.quiet.clone(),
        contended: trial.contended.clone(),
        other_states: trial.other_states.clone(),
        windows_not_offered: trial.windows_not_offered,
    };
    let valid = trial.validity.is_valid();
    let verdict = match (valid, found.forwarding_rate_pps) {
        (false, _) => trial.validity.reasons.join("; "),
        (true, None) => {
            let few = format!("too few quiet windows: {}", found.quiet.windows);
            format!("{few}{}", trust::sender_stalled(&found))
        }
        (true, Some(_)) => "measured".into(),
    };
    Outcome {
        frame_size_bytes: trial.stream.frame_size_bytes,
        variant: trial.variant.clone(),
        answered: valid && found.forwarding_rate_pps.is_some(),
        not_applicable: false,
        found: Found::Maxfwd(Box::new(found)),
        verdict,
        compliance: Compliance::default(),
        warnings: Vec::new(),
        trials: 1,
    }
}

/// Combines the iterations of a test case; `None` if they do not consist of windows.
///
/// Every figure is from the iterations with a forwarding rate, or from all valid ones if none has
/// one. Only windows are counted over all valid ones.
pub(crate) fn combine(iterations: &[Iteration]) -> Option<Outcome> {
    let mut outcomes = iterations.iter().flat_map(|one| &one.outcomes);
    let valid: Vec<&Maxfwd> = (outcomes.clone())
        .filter_map(|outcome| outcome.found.get())
        .collect();
    let first = outcomes.next().filter(|_| !valid.is_empty())?;
    let with_rate: Vec<&Maxfwd> = (valid.iter().copied())
        .filter(|one| one.forwarding_rate_pps.is_some())
        .collect();
    let used = match with_rate.is_empty() {
        true => &valid,
        false => &with_rate,
    };
    let sample = |of: fn(&Maxfwd) -> Option<f64>| {
        let values: Vec<f64> = used.iter().filter_map(|one| of(one)).collect();
        Sample::new(values).ok()
    };
    let (rates, ungated) = (
        sample(|one| one.forwarding_rate_pps),
        sample(|one| one.forwarding_rate_ungated_pps),
    );
    let ledger = Ledger::total(used.iter().map(|one| &one.ledger));
    let stratum = |of: fn(&Maxfwd) -> &Stratum| Stratum {
        windows: valid.iter().map(|one| of(one).windows).sum(),
        forwarding_rate_pps: median(valid.iter().filter_map(|one| of(one).forwarding_rate_pps)),
    };
    // a rate at or below the median only shows that the DUT may forward more
    let median_pps = rates.as_ref().or(ungated.as_ref()).map(Sample::median);
    let is_at_most = |pps: Option<f64>| {
        pps.zip(median_pps)
            .is_some_and(|(pps, median)| pps <= median)
    };
    let not_saturated = used.iter().any(|one| {
        one.not_saturated && is_at_most(one.forwarding_rate_pps.or(one.forwarding_rate_ungated_pps))
    });
    let found = Maxfwd {
        forwarding_rate_pps: rates.as_ref().map(Sample::median),
        forwarding_rate_ungated_pps: ungated.as_ref().map(Sample::median),
        variation_ungated_percent: ungated.as_ref().and_then(Sample::cv).map(|cv| 100.0 * cv),
        offered_load_pps: median(used.iter().filter_map(|one| one.offered_load_pps)),
        not_saturated,
        frame_loss_ratio: loss_ratio(&ledger),
        ledger,
        quiet: stratum(|one| &one.quiet),
        contended: stratum(|one| &one.contended),
        other_states: other_strata(&valid),
        windows_not_offered: valid.iter().map(|one| one.windows_not_offered).sum(),
    };
    let warnings = rates.as_ref().map(warnings_of).into_iter().flatten();
    Some(Outcome {
        answered: found.forwarding_rate_pps.is_some(),
        not_applicable: false,
        verdict: match found.forwarding_rate_pps {
            Some(_) => "measured".into(),
            None => "no iteration had enough quiet windows".into(),
        },
        warnings: warnings
            .chain(not_saturated.then(|| NOT_SATURATED.to_owned()))
            .collect(),
        trials: valid.len() as u32,
        found: Found::Maxfwd(Box::new(found)),
        ..first.clone()
    })
}

fn loss_ratio(ledger: &Ledger) -> Option<f64> {
    (ledger.frames_sent > 0).then(|| ledger.frames_lost as f64 / ledger.frames_sent as f64)
}

/// The strata of other states over all trials, in the order in which they appear.
fn other_strata(trials: &[&Maxfwd]) -> Vec<ApartStratum> {
    let all = || trials.iter().flat_map(|r| &r.other_states);
    let mut strata: Vec<ApartStratum> = Vec::new();
    for one in all() {
        if strata.iter().all(|s| !s.is_like(one)) {
            let same = || all().filter(|s| s.is_like(one));
            let stratum = Stratum {
                windows: same().map(|s| s.stratum.windows).sum(),
                forwarding_rate_pps: median(same().filter_map(|s| s.stratum.forwarding_rate_pps)),
            };
            strata.push(ApartStratum {
                stratum,
                ..one.clone()
            });
        }
    }
    strata
}

fn warnings_of(sample: &Sample) -> Vec<String> {
    fwdlab_stats::warnings(sample)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Returns the A/A control: the first test case compared with itself, one ratio per block.
pub fn control(test_case: &str, records: &[TrialRecord]) -> Option<Comparison> {
    let again = control_of(test_case);
    let rate = |iteration: u32, name: &str| {
        records
            .iter()
            .filter(|r| r.validity.is_valid() && r.test_case == name)
            .find(|r| r.iteration == iteration)
            .and_then(|r| r.forwarding_rate_pps)
            // its logarithm must exist
            .filter(|&pps| pps > 0.0)
    };
    let last = records.iter().map(|r| r.iteration).max()?;
    let pairs: Vec<(f64, f64)> = (1..=last)
        .filter_map(|i| Some((rate(i, test_case)?, rate(i, &again)?)))
        .collect();
    let ratios: Vec<f64> = pairs
        .iter()
        .map(|(plain, again)| (again / plain).ln())
        .collect();
    Some(Comparison {
        control: true,
        plain_forwarding_rate_pps: median(pairs.iter().map(|p| p.0)),
        forwarding_rate_pps: median(pairs.iter().map(|p| p.1)),
        ..compared("control", &ratios, ALLOWANCE)
    })
}

/// Returns the name of a test case for its repetition as A/A control.
pub fn control_of(test_case: &str) -> String {
    format!("{test_case}/control")
}

/// Returns a comparison from logarithms of ratios, one per repetition; differences within the
/// allowance are not claimed.
pub(crate) fn compared(configuration: &str, ln_ratios: &[f64], allowance: f64) -> Comparison {
    let mut comparison = Comparison {
        configuration: configuration.into(),
        control: false,
        difference_percent: None,
        interval_percent: None,
        detectable_percent: None,
        spread_percent: None,
        p_value: None,
        verdict: Verdict::CannotTell,
        values_percent: ln_ratios.iter().map(|ln| 100.0 * ln.exp_m1()).collect(),
        forwarding_rate_pps: None,
        plain_forwarding_rate_pps: None,
        warnings: Vec::new(),
        doubt: None,
    };
    if let Ok(sample) = Sample::new(ln_ratios.to_vec()) {
        let outcome = compare_pairs(&sample, Assumption::Normal, allowance, Confidence::P95);
        comparison.difference_percent = Some(outcome.difference_percent);
        if ln_ratios.len() < trust::FEWEST_VALUES {
            return comparison;
        }
        comparison.interval_percent = outcome.interval_percent;
        comparison.detectable_percent = outcome.detectable_percent;
        comparison.spread_percent = outcome.spread_percent;
        comparison.p_value = outcome.p_value;
        comparison.verdict = match outcome.verdict {
            fwdlab_stats::Verdict::Less => Verdict::Less,
            fwdlab_stats::Verdict::Greater => Verdict::More,
            fwdlab_stats::Verdict::NoDifference => Verdict::NoDifference,
            fwdlab_stats::Verdict::TooFewValues => Verdict::CannotTell,
        };
    }
    comparison
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn window(rate: f64, offered: f64, probe: f64) -> Window {
        Window {
            start_s: 0.0,
            duration_s: 0.02,
            received_s: 0.02,
            sent: (offered * 0.02) as u64,
            received: (rate * 0.02) as u64,
            dut_waited_s: 0.0,
            sender_waited_s: 0.0,
            before: at(probe, &[]),
            after: at(probe, &[]),
        }
    }

    fn at(speed: f64, distances: &[f64]) -> Reading {
        Reading {
            additions_per_ns: speed,
            distances_ns: distances.to_vec(),
        }
    }

    fn gate() -> Gate {
        Gate::calibrate(&vec![at(17.5, &[]); 30]).unwrap()
    }

    /// If nothing probes the DUT's machine, offered windows count. If a probe exists and gave too
    /// few readings, they do not.
    #[test]
    fn windows_of_a_machine_that_nothing_probes_are_quiet() {
        let mut windows = vec![window(800e3, 1.8e6, 0.0); 12];
        windows.extend(vec![window(300e3, 0.9e6, 0.0); 5]);
        assert_eq!(windows[0].after, Reading::NONE);
        let strata = judge(&windows, None, Some(1.8e6));
        let counts = |of: &Strata| (of.quiet.windows, of.contended.windows, of.not_offered);
        assert_eq!(counts(&strata), (12, 0, 5));
        assert_eq!(strata.quiet.forwarding_rate_pps, Some(800e3));
        let probed = vec![window(800e3, 1.8e6, 17.5); 12];
        let strata = judge(&probed, None, Some(1.8e6));
        assert_eq!(counts(&strata), (0, 12, 0));
    }

    #[test]
    fn strata_look_at_conditions_only() {
        let mut windows = vec![window(800e3, 1.8e6, 17.5); 12];
        windows.extend(vec![window(500e3, 1.8e6, 9.0); 11]);
        let waited = Window {
            dut_waited_s: 0.001,
            ..window(700e3, 1.8e6, 17.5)
        };
        windows.push(waited);
        windows.extend(vec![window(300e3, 0.9e6, 17.5); 5]);
        let strata = judge(&windows, Some(&gate()), Some(1.8e6));
        assert_eq!(
            (
                strata.quiet.windows,
                strata.contended.windows,
                strata.not_offered
            ),
            (12, 12, 5)
        );
        assert_eq!(strata.quiet.forwarding_rate_pps, Some(800e3));
        assert_eq!(strata.contended.forwarding_rate_pps, Some(500e3));
        // the same windows with other results are in the same strata
        let doubled: Vec<Window> = windows
            .iter()
            .map(|w| Window {
                received: w.received * 2,
                ..w.clone()
            })
            .collect();
        let again = judge(&doubled, Some(&gate()), Some(1.8e6));
        assert_eq!(again.quiet.windows, 12);
        assert_eq!(again.quiet.forwarding_rate_pps, Some(1600e3));
    }

    /// Also at full speed, a window in which the sender had no CPU is no evidence about the DUT:
    /// neither of its rate nor of forwarding nothing.
    #[test]
    fn a_stalled_sender_gives_no_rate_of_the_dut() {
        let mut windows = vec![window(800e3, 5e6, 17.5); 12];
        windows.extend(vec![window(0.0, 0.0, 17.5); 13]);
        let late = Window {
            sender_waited_s: 0.01,
            ..window(400e3, 2.5e6, 17.5)
        };
        windows.extend(vec![late; 14]);
        for gate in [Some(&gate()), None] {
            let strata = judge(&windows, gate, None);
            assert_eq!(strata.not_offered, 27);
            assert_eq!(strata.ungated_pps, Some(800e3));
            assert_eq!(strata.offered_pps, 5e6);
        }
        let strata = judge(&windows[12..], Some(&gate()), None);
        assert_eq!((strata.quiet.windows, strata.contended.windows), (0, 0));
        assert_eq!(strata.ungated_pps, None);
    }

    /// A trial of one test case with these windows.
    pub(crate) fn trial(iteration: u32, windows: &[Window]) -> TrialRecord {
        let strata = judge(windows, Some(&gate()), None);
        let sum = |of: fn(&Window) -> u64| windows.iter().map(of).sum();
        let (sent, received): (u64, u64) = (sum(|w| w.sent), sum(|w| w.received));
        TrialRecord {
            test_case: "64B-1flow-ipv4".into(),
            procedure: ID.into(),
            iteration,
            trial: iteration,
            control: false,
            started_at: String::new(),
            stream: fwdlab_model::trial::Stream::new(
                fwdlab_model::trial::IpVersion::Ipv4,
                fwdlab_model::units::FrameSize::MIN,
                1,
            )
            .unwrap(),
            variant: fwdlab_model::variant::Variant::default(),
            directions: Vec::new(),
            engine: String::new(),
            stall_policy: None,
            receiver: String::new(),
            duration_s: 1.0,
            intended_load_pps: None,
            offered_load_pps: strata.offered_pps,
            not_saturated: strata.is_not_saturated(),
            forwarding_rate_pps: strata.quiet.forwarding_rate_pps,
            forwarding_rate_ungated_pps: strata.ungated_pps,
            quiet: strata.quiet,
            contended: strata.contended,
            other_states: strata.other_states,
            probes: Vec::new(),
            windows_not_offered: strata.not_offered,
            frame_loss_ratio: 1.0 - received as f64 / sent as f64,
            ledger: Ledger {
                frames_sent: sent,
                frames_received: received,
                frames_lost: sent as i64 - received as i64,
                ..Ledger::default()
            },
            counters: fwdlab_model::loss::Counters::default(),
            work: None,
            telemetry: None,
            asked: None,
            validity: fwdlab_model::result::Validity::default(),
        }
    }

    fn found(iterations: &[Iteration]) -> Maxfwd {
        match combine(iterations).unwrap().found {
            Found::Maxfwd(found) => *found,
            other => panic!("{other:?}"),
        }
    }

    /// Seen on a machine whose generator shared its CPU: one trial of five had quiet windows.
    #[test]
    fn all_columns_use_the_trials_of_the_rate() {
        let mut records = vec![trial(1, &vec![window(668e3, 1.1e6, 17.5); 12])];
        for iteration in 2..=5 {
            records.push(trial(iteration, &vec![window(400e3, 526e3, 9.0); 12]));
        }
        let iterations = iterations(records.iter());
        let failed = iterations.iter().filter(|one| one.failure.is_some());
        assert_eq!(failed.count(), 4);
        let case = found(&iterations);
        assert_eq!(case.forwarding_rate_pps, Some(668e3));
        assert_eq!(case.offered_load_pps, Some(1.1e6));
        assert_eq!(case.forwarding_rate_ungated_pps, Some(668e3));
        assert_eq!(case.ledger.frames_sent, 12 * 22_000);
        assert!((case.frame_loss_ratio.unwrap() - (1.0 - 668.0 / 1100.0)).abs() < 1e-12);
        assert_eq!((case.quiet.windows, case.contended.windows), (12, 48));
        // without any rate all trials are reported
        let case = found(&super::iterations(records[1..].iter()));
        assert_eq!(case.forwarding_rate_pps, None);
        assert_eq!(case.offered_load_pps, Some(526e3));
        assert_eq!(case.ledger.frames_sent, 4 * 12 * 10_520);
    }

    /// Random windows, with a buffer that releases frames later; no row forwards more than was
    /// offered in it.
    #[test]
    fn no_row_forwards_more_than_was_offered() {
        for seed in 0..200 {
            let mut random = crate::order::Random::new(seed);
            let mut unit = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let records: Vec<TrialRecord> = (1..=5)
                .map(|iteration| {
                    let level = 4e5 + 8e5 * unit();
                    let mut waiting = 0.0f64;
                    let windows: Vec<Window> = (0..40)
                        .map(|_| {
                            let offered = level * (0.2 + unit());
                            let out = (offered + waiting).min(7e5);
                            waiting = (offered + waiting - out).min(1e5);
                            window(out, offered, if unit() < 0.6 { 17.5 } else { 9.0 })
                        })
                        .collect();
                    trial(iteration, &windows)
                })
                .collect();
            for trial in &records {
                let rate = trial.forwarding_rate_pps.unwrap_or(0.0);
                assert!(rate <= trial.offered_load_pps, "{seed}: {trial:?}");
            }
            let case = found(&iterations(records.iter()));
            let rate = case.forwarding_rate_pps.unwrap_or(0.0);
            assert!(rate <= case.offered_load_pps.unwrap(), "{seed}: {case:?}");
        }
    }

    /// The most common class of distance gives the rate, the others are separate strata; the
    /// forwarding rate does not matter.
    #[test]
    fn windows_of_other_distances_are_strata_of_their_own() {
        let of = |distance: f64, rate| Window {
            before: at(17.5, &[distance]),
            after: at(17.5, &[distance]),
            ..window(rate, 1.8e6, 17.5)
        };
        let mut windows = vec![of(118.0, 640e3); 30];
        windows.extend(vec![of(475.0, 500e3); 20]);
        windows.push(Window {
            after: at(17.5, &[475.0]),
            ..of(118.0, 590e3)
        });
        let readings: Vec<Reading> = windows.iter().map(|w| w.after.clone()).collect();
        let gate = Gate::calibrate(&readings).unwrap();
        let strata = judge(&windows, Some(&gate), Some(1.8e6));
        assert_eq!(strata.quiet.forwarding_rate_pps, Some(640e3));
        let apart: Vec<(&[f64], u32, Option<f64>)> = strata
            .other_states
            .iter()
            .map(|s| {
                let Stratum {
                    windows,
                    forwarding_rate_pps,
                } = s.stratum;
                (&s.round_trip_ns[..], windows, forwarding_rate_pps)
            })
            .collect();
        assert_eq!(apart, [(&[475.0][..], 20, Some(500e3)), (&[], 1, None)]);
        assert_eq!(
            (strata.other_states[0].moved, strata.other_states[1].moved),
            (false, true)
        );
        // if the load was no overload in the other state, the rate that came out of it is not
        // reported
        let faster: Vec<Window> = windows
            .iter()
            .map(|w| match w.before == at(17.5, &[475.0]) {
                true => of(475.0, 1.75e6),
                false => w.clone(),
            })
            .collect();
        let apart = judge(&faster, Some(&gate), Some(1.8e6)).other_states;
        assert_eq!(apart[0].stratum.windows, 20);
        assert_eq!(apart[0].stratum.forwarding_rate_pps, None);
        // with the results swapped the same windows are chosen, although their rate is now lower
        let swapped: Vec<Window> = windows
            .iter()
            .map(|w| Window {
                received: 1_000_000 - w.received,
                ..w.clone()
            })
            .collect();
        let again = judge(&swapped, Some(&gate), Some(1.8e6));
        assert_eq!(
            (again.quiet.windows, again.other_states[0].stratum.windows),
            (30, 20)
        );
    }

    #[test]
    fn too_few_quiet_windows_give_no_rate() {
        let strata = judge(&vec![window(800e3, 1.8e6, 17.5); 9], Some(&gate()), None);
        assert_eq!(
            (strata.quiet.windows, strata.quiet.forwarding_rate_pps),
            (9, None)
        );
        assert!(strata.ungated_pps.is_some());
    }

    /// The last trial of an iteration counts, whatever failed before it.
    #[test]
    fn the_last_trial_decides_an_iteration() {
        let good = vec![window(668e3, 1.1e6, 17.5); 12];
        let mut broken = trial(1, &good);
        broken.validity.reasons.push("a link went down".into());
        let (mut again, mut second) = (trial(1, &good), trial(2, &good));
        (again.trial, second.trial) = (2, 3);
        second.validity.reasons.push("a link went down".into());
        let iterations = iterations([&broken, &again, &second].into_iter());
        let reported: Vec<(u32, &[u32], Option<&str>, usize)> = iterations
            .iter()
            .map(|one| {
                let failure = one.failure.as_deref();
                (one.iteration, &one.trials[..], failure, one.outcomes.len())
            })
            .collect();
        assert_eq!(
            reported,
            [
                (1, &[1, 2][..], None, 1),
                (2, &[3][..], Some("a link went down"), 0)
            ]
        );
    }

    /// A machine that was slow before the run and in its first trial, and at full speed in the
    /// others: the first result is withdrawn when the readings of all trials are known.
    #[test]
    fn later_trials_change_the_result_of_an_earlier_one() {
        let mut run = Trials::new(vec![at(9.0, &[]); 30]);
        let slow = vec![window(400e3, 1.1e6, 9.0); 12];
        run.push(trial(1, &slow), slow);
        let results = |run: &Trials| -> Vec<Option<f64>> {
            let judged = run.judged(run.gate().as_ref());
            let iterations = iterations(judged.iter());
            let found = iterations.iter().map(|one| match &one.outcomes[0].found {
                Found::Maxfwd(found) => found.forwarding_rate_pps,
                other => panic!("{other:?}"),
            });
            found.collect()
        };
        assert_eq!(results(&run), [Some(400e3)]);
        for iteration in 2..=8 {
            assert_eq!(run.next_number(), iteration);
            let fast = vec![window(668e3, 1.1e6, 17.5); 12];
            run.push(trial(iteration, &fast), fast);
        }
        let results = results(&run);
        assert_eq!(results[0], None);
        assert_eq!(results[1..], [Some(668e3); 7]);
    }

    #[test]
    fn an_iteration_is_made_with_a_valid_trial_or_after_three_attempts() {
        let good = vec![window(668e3, 1.1e6, 17.5); 12];
        let mut broken = trial(1, &good);
        broken.validity.reasons.push("a link went down".into());
        let is_made = |trials: &[TrialRecord]| is_made(&broken.test_case, 1, trials);
        let valid = trial(1, &good);
        assert!(is_made(std::slice::from_ref(&valid)) && is_made(&[broken.clone(), valid]));
        assert!(!is_made(&[]) && !is_made(&[trial(2, &good)]));
        for attempts in 1..=3 {
            assert_eq!(is_made(&vec![broken.clone(); attempts]), attempts == 3);
        }
    }

    #[test]
    fn a_trial_needs_more_quiet_windows_than_a_median_if_it_is_long() {
        let windows = |quiet: usize| {
            let mut all = vec![window(668e3, 1.1e6, 17.5); quiet];
            all.extend(vec![window(668e3, 1.1e6, 9.0); 30]);
            all
        };
        let is_enough = |quiet, ms| {
            let duration = Duration::from_millis(ms);
            is_enough(&windows(quiet), Some(&gate()), None, duration)
        };
        assert!(is_enough(10, 100) && !is_enough(9, 100));
        assert!(is_enough(20, 1000) && !is_enough(19, 1000));
    }

    #[test]
    fn a_generator_at_its_limit_is_reported() {
        let limited = |offered| {
            judge(
                &vec![window(800e3, offered, 17.5); 12],
                Some(&gate()),
                Some(offered),
            )
            .is_not_saturated()
        };
        assert!(limited(850e3) && !limited(900e3));
        assert!(!judge(&[], None, None).is_not_saturated());
    }
}
