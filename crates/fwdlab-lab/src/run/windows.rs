//! Campaigns by windows: the maximum forwarding rate of every test case, each iteration one long trial on a bed of its own.
//!
//! Windows of 20 ms count when the machine was quiet beside them; which were is drawn from the readings of the whole run, so results are
//! known at its end. The first test case is measured once more in every iteration, as A/A control. Start with [`Running::by_windows`].

use std::collections::BTreeMap;
use std::time::Duration;

use fwdlab_measure::campaign::{Turn, failure_of};
use fwdlab_measure::gate::{Gate, of_run};
use fwdlab_measure::maxfwd::{Planned, RETRIES, control, summarise};
use fwdlab_measure::trust;
use fwdlab_model::campaign::{self, Case};
use fwdlab_model::campaign_outcome::Iteration;
use fwdlab_model::event::EventKind;
use fwdlab_model::file::FileError;
use fwdlab_model::outcome::{Compliance, Found, Maxfwd, Outcome};
use fwdlab_model::probe::{ApartStratum, Reading};
use fwdlab_model::result::{CaseSummary, Noise, TrialRecord};

use super::campaign::{Parameters, Running};
use super::device::{OVERHEAD, erect};
use super::forwarding::{Progress, Raw, calibrate, gated, keep_windows, overload, record, trial};
use super::trial::{Bench, Overload};
use super::{Measured, Run, configure, open_tester, timestamp};
use crate::error::LabError;

/// A bed, an engine that proves itself, a configuration.
const BED: Duration = Duration::from_millis(800);

/// Says what windows cannot measure.
pub(super) fn check(parameters: &Parameters) -> Result<(), FileError> {
    let campaign = parameters.campaign();
    if campaign.is_simulated() {
        let why = "windows are chosen by probes of a real machine; on a simulated DUT say forwarding-rate or mrr";
        return Err(campaign.error(&["procedure", "id"], why));
    }
    if campaign.sweep.is_some() {
        let why = "windows tell what comes out, and machines are faster or slower from one bed to the next: sweep by paired slices";
        return Err(campaign.error(&["procedure", "sweep"], why));
    }
    let mut variants = campaign.cases.iter().map(|case| &case.variant);
    if variants.any(|variant| variant.both_directions || !variant.modifiers.is_empty()) {
        let why =
            "windows measure one direction of an unmodified DUT: leave directions and modifier out";
        return Err(campaign.error(&["matrix"], why));
    }
    Ok(())
}

/// What one iteration of a test case takes: trials, and time.
pub(super) fn estimate(p: &campaign::Maxfwd) -> (u32, Duration) {
    (1, p.duration.0 + BED + OVERHEAD)
}

/// The control is measured as if it were one more test case.
fn case_of(turn: Turn, cases: &[Case]) -> (usize, bool) {
    match turn.case < cases.len() {
        true => (turn.case, false),
        false => (0, true),
    }
}

/// All trials so far, and what was read beside them.
struct Trials {
    calibration: Vec<Reading>,
    readings: Vec<Reading>,
    raw: Vec<(usize, Raw)>,
    loads: BTreeMap<usize, Overload>,
}

impl Running<'_> {
    /// Makes every iteration; all is judged at the end, also when it was stopped.
    pub(super) fn by_windows(
        &mut self,
        p: &campaign::Maxfwd,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        let campaign = self.parameters.campaign();
        let first = self.common_of(p, 0);
        let mut trials = Trials {
            calibration: calibrate(&first, &mut run.info.facts),
            readings: Vec::new(),
            raw: Vec::new(),
            loads: BTreeMap::new(),
        };
        let mut failures: BTreeMap<(usize, u32), String> = BTreeMap::new();
        let mut result = Ok(());
        for (done, turn) in self.plan.turns.iter().enumerate() {
            if self.control.is_stopped() {
                break;
            }
            match self.windows(p, *turn, done as u32, &mut trials, run) {
                Ok(()) | Err(LabError::Interrupted) => {}
                Err(error @ LabError::Store(_)) => {
                    result = Err(error);
                    break;
                }
                Err(error) => {
                    let (case, control) = case_of(*turn, &campaign.cases);
                    if !control {
                        failures.insert((case, turn.iteration), error.to_string());
                    }
                }
            }
        }
        self.judge(trials, &failures, run, measured)?;
        result
    }

    fn common_of(&self, p: &campaign::Maxfwd, case: usize) -> super::Parameters {
        let case = &self.parameters.campaign().cases[case];
        super::Parameters {
            load: p.load.map(|load| load.0),
            trial: p.duration.0,
            ..self.parameters.common(vec![case.stream.clone()], case)
        }
    }

    /// One iteration of one test case; again where it is invalid.
    fn windows(
        &mut self,
        p: &campaign::Maxfwd,
        turn: Turn,
        done: u32,
        trials: &mut Trials,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        let campaign = self.parameters.campaign();
        let (case, control) = case_of(turn, &campaign.cases);
        let common = self.common_of(p, case);
        let stream = &common.streams[0];
        let variant = &common.traffic.variants[0];
        for attempt in 0..=RETRIES {
            let (bed, _) = erect(&common)?;
            let (mut tester, words) = open_tester(&bed, &common)?;
            if !run.has_bed {
                run.bed_ready(&bed, &words)?;
            }
            if let Some(configuration) = &common.configuration {
                let control = self.control;
                configure(
                    &bed,
                    0,
                    tester.as_mut(),
                    stream,
                    configuration,
                    control,
                    run,
                )?;
            }
            let mut bench = Bench {
                bed: &bed,
                tester: tester.as_mut(),
                traffic: common.traffic.frames(stream, variant)?,
                count_reasons: false,
                placement: &common.placement,
                control: self.control,
            };
            let known = match trials.loads.get(&case) {
                Some(known) => *known,
                None => {
                    let found = overload(&common, &mut bench, stream)?;
                    *trials.loads.entry(case).or_insert(found)
                }
            };
            bench.count_reasons = known.loses_inside && common.privileged;
            let planned = Planned {
                case,
                iteration: turn.iteration,
                control,
                attempt,
                opens_block: true,
            };
            let steps = self.plan.turns.len() as u32;
            let progress = Progress {
                planned: &planned,
                stream,
                iterations: campaign.iterations,
                done,
                steps,
                left: self.plan.cases[turn.case].1 * (steps - done),
            };
            let started_at = timestamp();
            let gate = of_run(&trials.calibration, &trials.readings);
            let load = known.load_pps;
            let made = trial(
                &mut bench,
                stream,
                load,
                common.trial,
                gate.as_ref(),
                &progress,
                run,
            )?;
            let Some((windows, counted)) = made else {
                return Err(LabError::Interrupted);
            };
            trials
                .readings
                .extend(windows.iter().map(|w| w.after.clone()));
            let number = trials.raw.len();
            let record = TrialRecord {
                test_case: self.plan.names[turn.case].clone(),
                variant: variant.clone(),
                ..record(
                    bench.tester,
                    &planned,
                    number,
                    started_at,
                    stream,
                    load,
                    &windows,
                    &counted,
                )
            };
            keep_windows(run, &record, &windows)?;
            let record = gated(record, &windows, gate.as_ref());
            run.writer.trial(&record)?;
            run.tell(EventKind::TrialFinished {
                record: Box::new(record.clone()),
            })?;
            let valid = record.validity.is_valid();
            trials.raw.push((case, Raw { record, windows }));
            if valid {
                break;
            }
        }
        Ok(())
    }

    /// What all trials say, by the readings of the whole run.
    fn judge(
        &mut self,
        trials: Trials,
        failures: &BTreeMap<(usize, u32), String>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        let campaign = self.parameters.campaign();
        self.gate = of_run(&trials.calibration, &trials.readings);
        let gate = self.gate.as_ref();
        let judged: Vec<(usize, TrialRecord)> = trials
            .raw
            .into_iter()
            .map(|(case, raw)| (case, gated(raw.record, &raw.windows, gate)))
            .collect();
        for (index, case) in campaign.cases.iter().enumerate() {
            for number in 1..=campaign.iterations {
                let mut made = judged.iter().filter(|(of, record)| {
                    *of == index && record.iteration == number && !record.control
                });
                let last = made.next_back().map(|(_, record)| record);
                let outcomes: Vec<Outcome> = last.into_iter().map(|r| outcome(case, r)).collect();
                let failure = match failures.get(&(index, number)) {
                    Some(why) => Some(why.clone()),
                    None if outcomes.is_empty() => continue,
                    None => failure_of(&outcomes),
                };
                let iteration = Iteration {
                    iteration: number,
                    outcomes,
                    failure,
                };
                run.tell(EventKind::IterationFinished {
                    test_case: case.id(),
                    iteration: Box::new(iteration.clone()),
                })?;
                self.made[index].push(iteration);
            }
        }
        let of_first: Vec<TrialRecord> = (judged.iter().filter(|(of, _)| *of == 0))
            .map(|(_, record)| record.clone())
            .collect();
        self.compared = control(&campaign.cases[0].stream, &of_first);
        measured.trials = judged.into_iter().map(|(_, record)| record).collect();
        run.writer.judged_again(&measured.trials)?;
        Ok(())
    }

    /// The trials of a test case together: its windows, and whether they were enough.
    pub(super) fn of_windows(&self, case: &Case, trials: &[TrialRecord]) -> CaseSummary {
        let id = case.id();
        let own: Vec<TrialRecord> = (trials.iter().filter(|trial| trial.test_case == id))
            .cloned()
            .collect();
        let mut summary = summarise(std::slice::from_ref(&case.stream), &own).remove(0);
        summary.test_case = id;
        summary
    }

    /// How much the rates can be trusted.
    pub(super) fn noise_of_windows(&self, trials: &[TrialRecord]) -> Noise {
        let cases = self.parameters.campaign().cases.iter();
        let all: Vec<CaseSummary> = cases.map(|case| self.of_windows(case, trials)).collect();
        let gate: Option<&Gate> = self.gate.as_ref();
        trust::of_cases(gate, &all, self.compared.as_ref())
    }
}

fn outcome(case: &Case, record: &TrialRecord) -> Outcome {
    let apart = ApartStratum::windows(&record.apart);
    let valid = record.validity.is_valid();
    let found = Maxfwd {
        forwarding_rate_pps: record.forwarding_rate_pps.filter(|_| valid),
        forwarding_rate_ungated_pps: record.forwarding_rate_ungated_pps,
        offered_load_pps: record.offered_load_pps,
        windows: record.quiet.windows,
        windows_not_quiet: record.contended.windows + apart,
        windows_not_offered: record.windows_not_offered,
        not_saturated: record.not_saturated,
    };
    let verdict = match (valid, found.forwarding_rate_pps) {
        (false, _) => record.validity.reasons.join("; "),
        (true, None) => format!("too few quiet windows: {}", found.windows),
        (true, Some(_)) => "measured".into(),
    };
    Outcome {
        frame_size_bytes: case.stream.frame_size_bytes,
        variant: case.variant.clone(),
        answered: found.forwarding_rate_pps.is_some(),
        found: Found::Maxfwd(found),
        verdict,
        compliance: Compliance::default(),
        warnings: Vec::new(),
        trials: 1,
    }
}
