//! Carrying out procedures: asks the machine what comes next, has a device make it, keeps and tells everything.
//!
//! It is the same for a simulated DUT and for the embedded test bed, and knows no procedure: the caller makes it when the loads are
//! known. Start with [`Parameters`] and [`start`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use engine::sim::{self, Dut};
use measure::conservation::{balance, objections};
use measure::gate::Gate;
use measure::procedure::{Procedure, Session, estimate};
use model::event::{Event, EventKind};
use model::link::{Layer, MeanSize};
use model::outcome::Outcome;
use model::procedure::{Asked, Question};
use model::result::{HoldUps, Noise, Summary, TrialRecord, Validity};
use model::trial::Stream;
use model::units::FrameSize;
use model::variant::Variant;
use model::version::RUN_FORMAT;

use super::device::{self, Device, Made, OVERHEAD, doubts, noise, simulated_noise};
use super::traffic::test_case;
use super::{Control, Measured, Run, carry_out, timestamp};
use crate::error::LabError;

/// The largest load of an estimate, where the tester's own is not known yet.
const TYPICAL_MAX_PPS: f64 = 5e6;

/// The DUT of an estimate forwards this share of the largest load.
const TYPICAL_SHARE: f64 = 0.3;

/// What can be offered in frames of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// The size; of a profile its mean, rounded.
    pub frame_size: FrameSize,
    /// The mean size.
    pub mean: MeanSize,
    /// Frames per second of the full line; `None` where there is no line.
    pub line_rate_pps: Option<f64>,
    /// What is offered at most.
    pub max_load_pps: f64,
}

/// Makes a procedure when the limits of all streams are known.
pub type Make = Box<dyn Fn(&[Limit]) -> Result<Box<dyn Procedure>, String>>;

/// Everything that decides what a run does.
pub struct Parameters {
    /// What every run needs; one stream per frame size.
    pub common: super::Parameters,
    /// What kind of run: `ramp`, `rfc2544`.
    pub kind: &'static str,
    /// The parameters of the procedure, as they are kept.
    pub values: BTreeMap<String, serde_json::Value>,
    /// Largest load in frames per second; `None` is what the tester can offer.
    pub max_load_pps: Option<f64>,
    /// Measure this simulated DUT instead of the test bed.
    pub dut: Option<Dut>,
    /// The procedure.
    pub make: Make,
}

/// Runs the procedure. The run directory is made first; on success the caller adds the report and calls [`Run::finish`].
///
/// # Errors
/// See [`LabError`]; [`LabError::Preflight`] says what is wrong with the question. The test bed is gone in any case.
pub fn start<'a>(
    parameters: &Parameters,
    runs: &Path,
    control: &Control,
    listener: &'a mut dyn FnMut(&Event),
) -> Result<(Run<'a>, Measured), LabError> {
    let values = parameters.as_values();
    let run = Run::open(&parameters.common, parameters.kind, values, runs, listener)?;
    carry_out(run, |run, measured| match &parameters.dut {
        Some(dut) => on_simulation(parameters, dut, control, run, measured),
        None => on_bed(parameters, control, run, measured),
    })
}

/// Says what is wrong with the parameters, as far as that can be known before any traffic.
///
/// # Errors
/// What is wrong, in words.
pub fn check(parameters: &Parameters) -> Result<(), String> {
    (parameters.make)(&assumed(parameters)?).map(|_| ())
}

/// The limits that are known, or likely ones.
fn assumed(parameters: &Parameters) -> Result<Vec<Limit>, String> {
    let streams = parameters.common.streams.iter();
    streams
        .map(|stream| {
            let frame_size = stream.frame_size_bytes;
            let mean = (parameters.common.traffic.mean()).unwrap_or_else(|| frame_size.into());
            let Some(dut) = &parameters.dut else {
                return Ok(Limit {
                    frame_size,
                    mean,
                    line_rate_pps: None,
                    max_load_pps: parameters.max_load_pps.unwrap_or(TYPICAL_MAX_PPS),
                });
            };
            let (max_load_pps, _) = device::simulated_limit(dut, mean, parameters.max_load_pps)?;
            let line_rate_pps = dut.link_bps.map(|bps| mean.pps(Layer::L1, bps));
            Ok(Limit {
                frame_size,
                mean,
                line_rate_pps,
                max_load_pps: line_rate_pps.map_or(max_load_pps, |line| line.min(max_load_pps)),
            })
        })
        .collect()
}

fn on_simulation(
    parameters: &Parameters,
    dut: &Dut,
    control: &Control,
    run: &mut Run<'_>,
    measured: &mut Measured,
) -> Result<(), LabError> {
    let limits = assumed(parameters).map_err(LabError::Preflight)?;
    let estimate = estimated(parameters, &limits, Duration::ZERO)?;
    let of = |_: &[TrialRecord]| simulated_noise(dut);
    let course = Course {
        parameters,
        limits,
        estimate,
        gate: None,
        control,
    };
    let traffic = &parameters.common.traffic;
    device::on_simulation(dut, traffic, estimate.0, control, run, |device, run| {
        course.follow(device, run, measured, of)
    })
}

fn on_bed(
    parameters: &Parameters,
    control: &Control,
    run: &mut Run<'_>,
    measured: &mut Measured,
) -> Result<(), LabError> {
    let common = &parameters.common;
    let likely = assumed(parameters).map_err(LabError::Preflight)?;
    let estimate = estimated(parameters, &likely, OVERHEAD)?;
    device::on_bed(common, estimate, control, run, |device, gate, run| {
        let mut limits = Vec::new();
        for stream in &common.streams {
            let max_load_pps = match parameters.max_load_pps {
                Some(max) => max,
                None => device.sustained_in_all(stream, run)?.0,
            };
            limits.push(Limit {
                frame_size: stream.frame_size_bytes,
                mean: (common.traffic.mean()).unwrap_or_else(|| stream.frame_size_bytes.into()),
                line_rate_pps: None,
                max_load_pps,
            });
        }
        let of_gate = gate.clone();
        let course = Course {
            parameters,
            limits,
            estimate,
            gate,
            control,
        };
        course.follow(device, run, measured, |trials| {
            noise(of_gate.as_ref(), trials)
        })
    })
}

/// Trials and time on a DUT without noise that forwards some of the largest load.
fn estimated(
    parameters: &Parameters,
    limits: &[Limit],
    overhead: Duration,
) -> Result<(u32, Duration), LabError> {
    let mut procedure = (parameters.make)(limits).map_err(LabError::Preflight)?;
    let most = limits
        .iter()
        .map(|limit| limit.max_load_pps)
        .fold(0.0, f64::max);
    let (trials, ns) = estimate(procedure.as_mut(), TYPICAL_SHARE * most);
    let time = Duration::from_nanos(ns) + overhead * trials;
    let series = parameters.common.traffic.variants.len() as u32;
    Ok((series * trials, series * time))
}

/// A procedure on its way on a device.
struct Course<'a> {
    parameters: &'a Parameters,
    limits: Vec<Limit>,
    estimate: (u32, Duration),
    gate: Option<Gate>,
    control: &'a Control,
}

impl Course<'_> {
    /// Makes trial after trial; what was found is in `measured` even when it fails or is interrupted.
    fn follow(
        &self,
        device: &mut dyn Device,
        run: &mut Run<'_>,
        measured: &mut Measured,
        noise: impl FnOnce(&[TrialRecord]) -> Noise,
    ) -> Result<(), LabError> {
        let (mut outcomes, mut invalid) = (Vec::new(), 0);
        let mut result = Ok(());
        for variant in &self.parameters.common.traffic.variants {
            let procedure = (self.parameters.make)(&self.limits).map_err(LabError::Preflight)?;
            let mut session = Session::new(procedure);
            result = device
                .begin(variant, run)
                .and_then(|()| self.trials(device, run, measured, &mut session, variant));
            outcomes.extend(
                session
                    .outcomes()
                    .into_iter()
                    .map(|o| of_series(o, variant)),
            );
            invalid += session.invalid();
            if result.is_err() || self.control.is_stopped() {
                break;
            }
        }
        let mut warnings = match self.parameters.dut {
            Some(_) => Vec::new(),
            None => doubts(&self.parameters.common),
        };
        if let Some(profile) = &self.parameters.common.traffic.profile {
            warnings.extend(profile.notes.clone());
        }
        if invalid > 0 {
            warnings.push(format!(
                "{invalid} of {} trials were invalid: repeated, kept, never used",
                measured.trials.len()
            ));
        }
        measured.summary = Some(Summary {
            format: RUN_FORMAT,
            run: run.info.id.clone(),
            procedure: self.parameters.kind.into(),
            test_cases: Vec::new(),
            control: None,
            comparisons: Vec::new(),
            imported: Vec::new(),
            search: None,
            outcomes,
            noise: noise(&measured.trials),
            warnings,
            imix_estimate_l2_bps: None,
        });
        result
    }

    fn trials(
        &self,
        device: &mut dyn Device,
        run: &mut Run<'_>,
        measured: &mut Measured,
        session: &mut Session,
        variant: &Variant,
    ) -> Result<(), LabError> {
        let mut spent = Duration::ZERO;
        while let Some((question, attempt)) = session.next_trial() {
            if self.control.is_stopped() {
                return Ok(());
            }
            if self.parameters.dut.is_none() {
                run.tell(self.progress(&question, measured.trials.len() as u32, spent))?;
            }
            let stream = self.stream(&question);
            let (started_at, began) = (timestamp(), SystemTime::now());
            let Some(mut made) = device.trial(&stream, &question)? else {
                return Ok(());
            };
            spent += made.took;
            let ledger = balance(&made.counters, Some(made.intended()));
            if self.parameters.dut.is_none() {
                let seen = objections(&ledger, &made.counters);
                made.answer.objections.extend(seen);
            }
            let recorded = session.record(&made.answer);
            let names = device.names();
            let trial = measured.trials.len() as u32 + 1;
            let when = (began, Duration::from_nanos(made.answer.duration_ns));
            let latency_log = run
                .writer
                .latencies(&stream.id(), trial, when, &made.latencies)?;
            let record = TrialRecord {
                trial,
                iteration: attempt,
                started_at,
                asked: Some(Box::new(Asked {
                    answer: made.answer.clone(),
                    question,
                    says: recorded.says,
                    latency_log,
                })),
                ..self.record(&stream, variant, &made, names, recorded.validity)
            };
            run.writer.trial(&record)?;
            run.tell(EventKind::TrialFinished {
                record: Box::new(record.clone()),
            })?;
            measured.trials.push(record);
        }
        Ok(())
    }

    /// The stream of this size; a sweep over flows says how many there are.
    fn stream(&self, question: &Question) -> Stream {
        let streams = &self.parameters.common.streams;
        let of_size = streams
            .iter()
            .find(|s| s.frame_size_bytes == question.frame_size_bytes);
        of_size.unwrap_or(&streams[0]).clone()
    }

    fn progress(&self, question: &Question, done: u32, spent: Duration) -> EventKind {
        let (steps, time) = self.estimate;
        EventKind::Progress {
            activity: format!(
                "{} B, {:.0} frames/s for {} s: {}",
                question.frame_size_bytes,
                question.peak_pps(),
                question.duration_ns() as f64 / 1e9,
                question.reason
            ),
            done,
            // noise makes it longer than its estimate
            steps: steps.max(done + 1),
            left_s: time.saturating_sub(spent).as_secs_f64(),
            offered_load_pps: None,
            forwarding_rate_pps: None,
            estimate: None,
        }
    }

    fn record(
        &self,
        stream: &Stream,
        variant: &Variant,
        made: &Made,
        names: (&str, &str),
        validity: Validity,
    ) -> TrialRecord {
        let answer = &made.answer;
        let duration_s = answer.duration_ns as f64 / 1e9;
        let per_second = |frames: u64| frames as f64 / duration_s.max(f64::MIN_POSITIVE);
        TrialRecord {
            test_case: test_case(&self.parameters.common.traffic, stream, variant),
            procedure: self.parameters.kind.into(),
            iteration: 1,
            trial: 0,
            control: false,
            started_at: String::new(),
            variant: variant.clone(),
            directions: answer.directions.clone(),
            stream: self.parameters.common.traffic.stream(stream, variant),
            engine: names.0.into(),
            hold_ups: (self.parameters.dut.is_none()).then_some(HoldUps::Forgive),
            receiver: names.1.into(),
            duration_s,
            intended_load_pps: Some(per_second(answer.frames_intended + answer.frames_beside)),
            offered_load_pps: per_second(answer.frames_sent + answer.frames_beside),
            not_saturated: false,
            forwarding_rate_pps: None,
            forwarding_rate_ungated_pps: Some(per_second(answer.frames_received)),
            quiet: made.window(self.gate.as_ref(), true),
            contended: made.window(self.gate.as_ref(), false),
            windows_not_offered: 0,
            frame_loss_ratio: answer.frames_lost().max(0) as f64 / answer.frames_sent.max(1) as f64,
            search: None,
            asked: None,
            ledger: balance(&made.counters, Some(made.intended())),
            counters: made.counters.clone(),
            validity,
        }
    }
}

/// An outcome with the series that it is of, and what keeps that from being what a standard asks for.
fn of_series(mut outcome: Outcome, variant: &Variant) -> Outcome {
    if !outcome.compliance.standard.is_empty() {
        outcome.compliance.shortened.extend(variant.deviations());
    }
    outcome.variant = variant.clone();
    outcome
}

impl Parameters {
    fn as_values(&self) -> BTreeMap<String, serde_json::Value> {
        let mut values = self.common.as_values();
        values.retain(|name, _| !matches!(name.as_str(), "load" | "iterations" | "trial_s"));
        values.extend(self.values.clone());
        values.insert("procedure".into(), self.kind.into());
        let most = self
            .max_load_pps
            .map_or("what the tester can offer".into(), Into::into);
        values.insert("max_load_pps".into(), most);
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
