//! Searching for loads: carries out what `fwdlab_measure::mlr` asks for, on a simulated DUT or on the embedded test bed.
//!
//! Both are a [`Device`] that makes one trial; everything else (records, events, repeating what was invalid, the outcome)
//! is the same for both. Start with [`Parameters`] and [`start`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fwdlab_engine::sim::{self, Dut};
use fwdlab_measure::conservation::{balance, objections};
use fwdlab_measure::gate::{Gate, judge_trial};
use fwdlab_measure::mlr::outcome::{self, OFFERED_SHARE};
use fwdlab_measure::mlr::typed::Named;
use fwdlab_measure::mlr::{self, ID, Planned, Search};
use fwdlab_measure::procedure::ended_too_early;
use fwdlab_measure::trust;
use fwdlab_model::event::{Event, EventKind};
use fwdlab_model::link::LinkLoad;
use fwdlab_model::procedure::{Purpose, Question};
use fwdlab_model::result::{HoldUps, Noise, Stratum, Summary, TrialRecord, Validity};
use fwdlab_model::search::{SearchOutcome, SearchTrial};
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;

use super::device::{self, Device, Made, OVERHEAD, doubts, simulated_noise};
use super::largest::{Bounds, Largest};
use super::{Control, Measured, Run, carry_out, manage, timestamp};
use crate::error::LabError;

/// An invalid trial is made so many times more.
const REPEATS: u32 = 2;

/// The largest load of the estimate of a search whose own is not known yet.
const TYPICAL_MAX_PPS: f64 = 5e6;

/// Everything that decides what a search does; every default is resolved, but the largest load.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// What every run needs; of the streams only the first is used.
    pub common: super::Parameters,
    /// The goals, at least one.
    pub goals: Vec<Named>,
    /// Smallest load in frames per second.
    pub min_load_pps: f64,
    /// Largest load; `None` is what the tester can offer, at most the line rate.
    pub max: Option<LinkLoad>,
    /// A first trial whose result is not used; zero for none.
    pub warm_up: Duration,
    /// The search ends when its trials took longer.
    pub time_limit: Duration,
    /// Trials end as soon as they are bad for every goal, see [`Search::ending`].
    pub early_end: bool,
    /// Search on this simulated DUT instead of the test bed.
    pub dut: Option<Dut>,
}

/// Runs the search. The run directory is made first; on success the caller adds the report and calls [`Run::finish`].
///
/// # Errors
/// See [`LabError`]; [`LabError::Preflight`] says what is wrong with the question, before any traffic when the largest
/// load is given. The test bed is gone in any case.
pub fn start<'a>(
    parameters: &Parameters,
    runs: &Path,
    control: &Control,
    listener: &'a mut dyn FnMut(&Event),
) -> Result<(Run<'a>, Measured), LabError> {
    let run = Run::open(
        &parameters.common,
        "throughput",
        parameters.as_values(),
        runs,
        listener,
    )?;
    carry_out(run, |run, measured| match &parameters.dut {
        Some(dut) => on_simulation(parameters, dut, control, run, measured),
        None => on_bed(parameters, control, run, measured),
    })
}

/// The largest load, where it is known before any traffic.
///
/// # Errors
/// A simulated tester without a limit was given none, or what was asked for is more than the line carries.
pub fn largest_load(parameters: &Parameters) -> Result<Option<f64>, String> {
    match &parameters.dut {
        Some(dut) => match parameters.on(dut) {
            Ok(largest) => Ok(Some(largest.limit.max_load_pps)),
            Err(error) => Err(error.to_string()),
        },
        None => parameters.bounds().asked_pps(parameters.common.mean_size()),
    }
}

/// Says what is wrong with a search whose largest load is `max_load_pps`.
///
/// # Errors
/// The goals contradict themselves, the smallest load is not below the largest, or the width is less than a frame.
pub fn check(parameters: &Parameters, max_load_pps: f64) -> Result<(), String> {
    search(parameters, max_load_pps)?;
    outcome::check_width(&parameters.goals, parameters.min_load_pps)
}

fn on_simulation(
    parameters: &Parameters,
    dut: &Dut,
    control: &Control,
    run: &mut Run<'_>,
    measured: &mut Measured,
) -> Result<(), LabError> {
    let largest = parameters.on(dut)?;
    let estimate = estimate(parameters, largest.limit.max_load_pps, Duration::ZERO);
    let noise = simulated_noise(dut, Vec::new());
    let question = Asked {
        parameters,
        largest,
        estimate,
    };
    let traffic = &parameters.common.traffic;
    device::on_simulation(dut, traffic, estimate.0, control, run, |device, run| {
        question.seek(device, control, run, measured, None, |_, _| noise)
    })
}

fn on_bed(
    parameters: &Parameters,
    control: &Control,
    run: &mut Run<'_>,
    measured: &mut Measured,
) -> Result<(), LabError> {
    let common = &parameters.common;
    let stream = &common.streams[0];
    let (size, mean) = (stream.frame_size_bytes, common.mean_size());
    let bounds = parameters.bounds();
    let typical = TYPICAL_MAX_PPS.max(parameters.min_load_pps * 2.0);
    let assumed = bounds.likely(size, mean, typical)?.limit.max_load_pps;
    let estimate = estimate(parameters, assumed, OVERHEAD);
    device::on_bed(common, estimate, control, run, |device, gate, run| {
        let largest = bounds.largest(size, mean, || device.sustained_in_all(stream, run))?;
        check(parameters, largest.limit.max_load_pps).map_err(LabError::Preflight)?;
        if control.is_stopped() {
            return Err(LabError::Interrupted);
        }
        let question = Asked {
            parameters,
            largest,
            estimate,
        };
        let gate = gate.as_ref();
        question.seek(device, control, run, measured, gate, |gate, trials| {
            trust::of_trials(gate, trials, Vec::new())
        })
    })
}

fn search(parameters: &Parameters, max_load_pps: f64) -> Result<Search, String> {
    Search::new(&mlr::Question {
        goals: parameters.goals.iter().map(|n| n.goal.clone()).collect(),
        min_load_pps: parameters.min_load_pps,
        max_load_pps,
        warm_up_ns: parameters.warm_up.as_nanos() as u64,
        time_limit_ns: parameters.time_limit.as_nanos() as u64,
    })
}

/// Trials and time of this search on a DUT without noise that forwards something in the middle of the range.
fn estimate(parameters: &Parameters, max_load_pps: f64, overhead: Duration) -> (u32, Duration) {
    let Ok(mut search) = search(parameters, max_load_pps) else {
        return (0, Duration::ZERO);
    };
    let capacity = (parameters.min_load_pps * max_load_pps).sqrt();
    let (mut trials, mut time) = (0, Duration::ZERO);
    while let Some(planned) = search.next_trial() {
        let duration = Duration::from_nanos(planned.duration_ns) + overhead;
        let loss = 1.0 - (capacity / planned.load_pps).min(1.0);
        search.record(loss, duration.as_nanos() as u64);
        trials += 1;
        time += duration;
    }
    (trials, time)
}

/// A search with everything known.
struct Asked<'a> {
    parameters: &'a Parameters,
    largest: Largest,
    estimate: (u32, Duration),
}

impl Asked<'_> {
    /// Makes trial after trial; what was found is in `measured` even when it fails or is interrupted.
    fn seek(
        &self,
        device: &mut dyn Device,
        control: &Control,
        run: &mut Run<'_>,
        measured: &mut Measured,
        gate: Option<&Gate>,
        noise: impl FnOnce(Option<&Gate>, &[TrialRecord]) -> Noise,
    ) -> Result<(), LabError> {
        let max_load_pps = self.largest.limit.max_load_pps;
        let mut search = search(self.parameters, max_load_pps).map_err(LabError::Preflight)?;
        device.begin(self.variant(), run)?;
        // the smallest load at which the generator fell short
        let mut short_from: Option<f64> = None;
        let result = (|| {
            while let Some(planned) = search.next_trial() {
                let Some(trial) =
                    self.valid(&planned, device, control, run, &mut search, measured, gate)?
                else {
                    return Ok(());
                };
                if trial {
                    short_from =
                        Some(short_from.map_or(planned.load_pps, |p: f64| p.min(planned.load_pps)));
                }
            }
            Ok(())
        })();
        let goals = &self.parameters.goals;
        let simulated = self.parameters.dut.is_some();
        let mut warnings = match simulated {
            true => Vec::new(),
            false => doubts(&self.parameters.common),
        };
        warnings.extend(self.largest.warning(&self.parameters.bounds()));
        warnings.extend(outcome::inversions(&search, goals));
        warnings.extend(manage::doubts(&measured.trials));
        let gate = gate.map(|gate| gate.judge_run(&mut measured.trials));
        let trials = &measured.trials;
        let held_up = trials.iter().filter(|t| {
            let lossy = t
                .search
                .as_ref()
                .is_some_and(|s| !s.warm_up && s.loss_ratio > 0.0);
            t.validity.is_valid() && lossy && t.ledger.frames_lost == 0
        });
        match held_up.count() {
            0 => {}
            trials => warnings.push(format!(
                "trials in which the DUT lost nothing and the generator was held up: {trials}; what it did not send counts as \
                 lost, so that the DUT may do more"
            )),
        }
        let grid = search.grid();
        let found = SearchOutcome {
            variant: self.variant().clone(),
            min_load_pps: grid.load(0),
            max_load_pps: grid.load(grid.last()),
            max_load_source: self.largest.source.clone(),
            max_load_index: grid.last(),
            trials: trials.len() as u32,
            trials_invalid: trials.iter().filter(|t| !t.validity.is_valid()).count() as u32,
            traffic_s: trials.iter().map(|t| t.duration_s).sum(),
            goals: outcome::goals(&search, goals, short_from),
            course: outcome::course(&search),
            failure: outcome::failure(&search, goals),
            shortened: {
                let mut shortened =
                    outcome::shortened(goals, self.parameters.common.line, simulated);
                shortened.extend(self.variant().deviations());
                shortened
            },
        };
        let labels = goals.iter().map(|named| named.label.as_str());
        warnings.extend(trust::far_below(labels, &found));
        measured.summary = Some(Summary {
            format: RUN_FORMAT,
            run: run.info.id.clone(),
            procedure: ID.into(),
            test_cases: Vec::new(),
            control: None,
            comparisons: Vec::new(),
            imported: Vec::new(),
            cases: Vec::new(),
            outcomes: Vec::new(),
            search: Some(found),
            noise: noise(gate.as_ref(), trials),
            warnings,
            imix_estimate_l2_bps: None,
        });
        result
    }

    /// The only series.
    fn variant(&self) -> &'_ Variant {
        &self.parameters.common.traffic.variants[0]
    }

    /// Makes a trial that counts, repeating it while it is invalid. Says whether the generator fell short in it; `None`
    /// when the run was stopped.
    #[expect(
        clippy::too_many_arguments,
        reason = "everything that a trial touches, once"
    )]
    fn valid(
        &self,
        planned: &Planned,
        device: &mut dyn Device,
        control: &Control,
        run: &mut Run<'_>,
        search: &mut Search,
        measured: &mut Measured,
        gate: Option<&Gate>,
    ) -> Result<Option<bool>, LabError> {
        let stream = &self.parameters.common.streams[0];
        let mut spent = Duration::ZERO;
        let mut repeats = 0;
        let mut ending = search.ending(planned).filter(|_| self.parameters.early_end);
        loop {
            if control.is_stopped() {
                return Ok(None);
            }
            if self.parameters.dut.is_none() {
                run.tell(self.progress(planned, measured.trials.len() as u32))?;
            }
            let started_at = timestamp();
            let question = Question {
                ending,
                ..Question::constant(
                    stream.frame_size_bytes,
                    planned.load_pps,
                    planned.duration_ns,
                    Purpose::Search,
                    "",
                )
            };
            let Some(made) = device.trial(stream, &question)? else {
                return Ok(None);
            };
            spent += made.took;
            let names = device.names();
            let mut record = self.record(planned, &made, names, started_at);
            judge_trial(&mut record, gate);
            record.trial = measured.trials.len() as u32 + 1;
            record.iteration = repeats + 1;
            if let Some(too_early) = ended_too_early(&question, &made.answer) {
                record.validity.reasons.push(too_early);
                ending = None;
            }
            // frames that a trial lost before its early end are enough for all of it, however many more were sent
            let short = !made.answer.ended_early
                && (record.ledger.frames_sent as f64)
                    < OFFERED_SHARE * record.ledger.frames_intended.unwrap_or(0) as f64;
            if short && made.may_catch_up && repeats < REPEATS {
                record.validity.reasons.push(format!(
                    "the generator fell short: it sent {} of {} frames",
                    record.ledger.frames_sent,
                    record.ledger.frames_intended.unwrap_or(0)
                ));
            }
            let valid = record.validity.is_valid();
            if valid {
                let loss_ratio = record.search.as_ref().map_or(1.0, |s| s.loss_ratio);
                search.record(loss_ratio, spent.as_nanos() as u64);
                let says = outcome::says(search, planned, &self.parameters.goals, loss_ratio);
                if let Some(search) = &mut record.search {
                    search.says = says;
                    if short {
                        search.reason.push_str("; more than the generator can offer, what it did not send counts as lost");
                    }
                }
            }
            let reasons = record.validity.reasons.join("; ");
            run.writer.trial(&record)?;
            run.tell(EventKind::TrialFinished {
                record: Box::new(record.clone()),
            })?;
            measured.trials.push(record);
            if made.is_broken {
                device.mend(run)?;
            }
            if valid {
                return Ok(Some(short));
            }
            repeats += 1;
            if repeats > REPEATS {
                return Err(LabError::Search {
                    trials: repeats,
                    load_pps: planned.load_pps,
                    reasons,
                });
            }
        }
    }

    fn progress(&self, planned: &Planned, done: u32) -> EventKind {
        let (steps, time) = self.estimate;
        let per_trial = time.as_secs_f64() / f64::from(steps.max(1));
        EventKind::Progress {
            activity: format!(
                "{:.0} frames/s for {} s: {}",
                planned.load_pps,
                planned.duration_ns as f64 / 1e9,
                outcome::reason(planned, &self.parameters.goals)
            ),
            done,
            // noise makes a search longer than its estimate
            steps: steps.max(done + 1),
            left_s: per_trial * f64::from(steps.saturating_sub(done).max(1)),
            offered_load_pps: None,
            forwarding_rate_pps: None,
            estimate: None,
        }
    }

    fn record(
        &self,
        planned: &Planned,
        made: &Made,
        names: (&str, &str),
        started_at: String,
    ) -> TrialRecord {
        let counters = made.counters.clone();
        let ended_early = made.answer.ended_early;
        let duration_ns = match ended_early {
            true => made.answer.duration_ns,
            false => planned.duration_ns,
        };
        let duration_s = duration_ns as f64 / 1e9;
        let intended = counters.generator_sent + counters.generator_not_sent;
        let ledger = balance(&counters, Some(intended));
        let sent = ledger.frames_sent;
        let mut reasons = made.answer.objections.clone();
        if self.parameters.dut.is_none() {
            reasons.extend(objections(&ledger, &counters));
        }
        let stream = &self.parameters.common.streams[0];
        TrialRecord {
            test_case: self.variant().id(stream),
            procedure: ID.into(),
            iteration: 1,
            trial: 0,
            control: false,
            started_at,
            variant: self.variant().clone(),
            directions: made.answer.directions.clone(),
            stream: self.variant().stream(stream),
            engine: names.0.into(),
            hold_ups: (self.parameters.dut.is_none()).then_some(HoldUps::Forgive),
            receiver: names.1.into(),
            duration_s,
            intended_load_pps: Some(planned.load_pps),
            // in a trial that a held up generator made longer, too
            offered_load_pps: planned.load_pps * sent as f64 / intended.max(1) as f64,
            not_saturated: false,
            forwarding_rate_pps: None,
            forwarding_rate_ungated_pps: None,
            quiet: Stratum::default(),
            contended: Stratum::default(),
            apart: Vec::new(),
            probes: made.probes.clone(),
            windows_not_offered: 0,
            frame_loss_ratio: match sent {
                0 => 0.0,
                sent => ledger.frames_lost as f64 / sent as f64,
            },
            asked: None,
            search: Some(SearchTrial {
                load_index: planned.load_index,
                load_pps: planned.load_pps,
                duration_ns: planned.duration_ns,
                loss_ratio: outcome::loss_ratio(
                    made.answer.frames_intended,
                    made.answer.frames_sent,
                    made.answer.frames_received,
                    planned.load_pps,
                ),
                ended_early,
                warm_up: planned.warm_up,
                management: made.answer.management.clone(),
                reason: outcome::reason(planned, &self.parameters.goals),
                says: Vec::new(),
            }),
            ledger,
            counters,
            validity: Validity { reasons },
        }
    }
}

impl Parameters {
    fn bounds(&self) -> Bounds {
        Bounds {
            asked: self.max,
            line: self.common.line,
        }
    }

    fn on(&self, dut: &Dut) -> Result<Largest, LabError> {
        let size = self.common.streams[0].frame_size_bytes;
        self.bounds().on(dut, size, self.common.mean_size())
    }

    fn as_values(&self) -> BTreeMap<String, serde_json::Value> {
        let mut values = self.common.as_values();
        values.retain(|name, _| !matches!(name.as_str(), "load" | "iterations" | "trial_s"));
        let mut set = |name: &str, value: serde_json::Value| {
            values.insert(name.to_owned(), value);
        };
        let goals = self.goals.iter().map(|n| n.goal.to_string());
        set("procedure", ID.into());
        set("goals", goals.collect::<Vec<_>>().into());
        set("min_load_pps", self.min_load_pps.into());
        set("max_load_pps", self.bounds().as_value());
        set("warm_up_s", self.warm_up.as_secs_f64().into());
        set("time_limit_s", self.time_limit.as_secs_f64().into());
        set("early_end", self.early_end.into());
        set("waits_s", 0.0.into());
        if let Some(dut) = &self.dut {
            for real in ["generator_cpus", "dut_cpus"] {
                values.remove(real);
            }
            values.insert("engine".into(), sim::NAME.into());
            values.insert("dut".into(), dut.to_string().into());
        }
        values
    }
}
