//! Carrying out one procedure on one DUT: what `fwdlab ramp`, `rfc2544` and the like do.
//!
//! It is the same for a simulated DUT and for the embedded test bed, and knows no procedure: `measure` makes the machine when the
//! loads are known, and a course follows it. Start with [`Parameters`] and [`start`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fwdlab_engine::sim::{self, Dut};
use fwdlab_measure::ahead::{Capacities, ahead};
use fwdlab_measure::campaign::divide;
use fwdlab_measure::gate::Gate;
use fwdlab_measure::machine::{Asked, Limit, make};
use fwdlab_measure::meters;
use fwdlab_measure::trust::{self, contradictions};
use fwdlab_model::campaign::{Case, PLAIN};
use fwdlab_model::event::Event;
use fwdlab_model::link::{LinkLoad, MeanSize};
use fwdlab_model::result::{Noise, Summary};
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;

use super::course::{self, Course, Followed, Planned};
use super::device::{self, OVERHEAD, doubts, simulated_noise};
use super::largest::Bounds;
use super::{Control, Measured, Run, again, carry_out, manage};
use crate::error::LabError;

/// The largest load of an estimate, where the tester's own is not known yet.
const TYPICAL_MAX_PPS: f64 = 5e6;

/// The DUT of an estimate forwards this share of the largest load, where nothing is known of it yet.
const TYPICAL_SHARE: f64 = 0.15;

/// A bed, and an engine that proves itself.
const BED: Duration = Duration::from_millis(500);

/// The largest load that the tester can offer is sought for so long, for every frame size.
const SOUGHT: Duration = Duration::from_millis(1600);

/// Everything that decides what a run does.
pub struct Parameters {
    /// What every run needs; one stream per frame size.
    pub common: super::Parameters,
    /// What kind of run: `ramp`, `rfc2544`.
    pub kind: &'static str,
    /// The parameters of the procedure, as they are kept.
    pub values: BTreeMap<String, serde_json::Value>,
    /// Largest load; `None` is what the tester can offer, at most the line rate.
    pub max: Option<LinkLoad>,
    /// Measure this simulated DUT instead of the test bed.
    pub dut: Option<Dut>,
    /// The procedure.
    pub asked: Asked,
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
    make(&parameters.asked, &assumed(parameters)?).map(|_| ())
}

fn assumed(parameters: &Parameters) -> Result<Vec<Limit>, String> {
    let sizes = parameters.sizes().into_iter();
    likely_limits(sizes, parameters.dut.as_ref(), parameters.bounds()).map_err(|e| e.to_string())
}

/// The limits that are known of frames of these sizes and mean sizes, or likely ones.
pub(super) fn likely_limits(
    sizes: impl Iterator<Item = (FrameSize, MeanSize)>,
    dut: Option<&Dut>,
    bounds: Bounds,
) -> Result<Vec<Limit>, LabError> {
    let largest = sizes.map(|(size, mean)| match dut {
        Some(dut) => bounds.on(dut, size, mean),
        None => bounds.likely(size, mean, TYPICAL_MAX_PPS),
    });
    largest.collect()
}

fn on_simulation(
    parameters: &Parameters,
    dut: &Dut,
    control: &Control,
    run: &mut Run<'_>,
    measured: &mut Measured,
) -> Result<(), LabError> {
    let limits = assumed(parameters).map_err(LabError::Preflight)?;
    let estimate = parameters.estimated(&limits, Duration::ZERO)?;
    let traffic = &parameters.common.traffic;
    device::on_simulation(dut, traffic, estimate.0, control, run, |device, run| {
        again::keep(&parameters.asked, &limits, run);
        let course = parameters.course(limits, estimate, None, control);
        let followed = course.follow(device, run, measured)?;
        let noise = simulated_noise(dut, contradictions(&followed.outcomes));
        parameters.sum_up(run, measured, followed, Vec::new(), noise)
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
    let estimate = parameters.estimated(&likely, OVERHEAD)?;
    let before = match parameters.max {
        Some(_) => BED,
        None => BED + SOUGHT * likely.len() as u32,
    };
    let told = (estimate.0, before + estimate.1);
    device::on_bed(common, told, control, run, |device, gate, run| {
        let bounds = parameters.bounds();
        let (mut limits, mut short) = (Vec::new(), Vec::new());
        for (stream, (size, mean)) in common.streams.iter().zip(parameters.sizes()) {
            let held = || device.sustained_in_all(stream, run);
            let found = bounds.largest(size, mean, held)?;
            short.extend(bounds.warning(&found));
            limits.push(found);
        }
        again::keep(&parameters.asked, &limits, run);
        let course = parameters.course(limits, estimate, gate.as_ref(), control);
        let followed = course.follow(device, run, measured)?;
        let against = contradictions(&followed.outcomes);
        let gate = gate.map(|gate| gate.judge_run(&mut measured.trials));
        let noise = trust::of_trials(gate.as_ref(), &measured.trials, against);
        let noise = trust::of_lossless(noise, &followed.outcomes);
        parameters.sum_up(run, measured, followed, short, noise)
    })
}

/// What is known of the capacity before any trial: a simulated DUT says it.
pub(super) fn capacities(dut: Option<&Dut>, limits: &[Limit]) -> Capacities {
    let largest = limits.iter().map(|limit| limit.max_load_pps);
    let guess = || TYPICAL_SHARE * largest.fold(0.0, f64::max);
    Capacities::guess(dut.map_or_else(guess, |dut| dut.capacity_pps))
}

/// Trials and time on a DUT without noise.
pub(super) fn estimated(
    asked: &Asked,
    limits: &[Limit],
    capacities: &Capacities,
    overhead: Duration,
) -> Result<(u32, Duration), LabError> {
    let mut procedure = make(asked, limits).map_err(LabError::Preflight)?;
    let ahead = ahead(procedure.as_mut(), capacities);
    Ok((
        ahead.trials,
        Duration::from_nanos(ahead.ns) + overhead * ahead.trials,
    ))
}

impl Parameters {
    fn bounds(&self) -> Bounds {
        Bounds {
            asked: self.max,
            line: self.common.line,
        }
    }

    /// The size of the frames of each stream, and their mean size.
    fn sizes(&self) -> Vec<(FrameSize, MeanSize)> {
        let sizes = self.common.streams.iter().map(|s| s.frame_size_bytes);
        let mean = self.common.traffic.mean();
        sizes
            .map(|size| (size, mean.unwrap_or_else(|| size.into())))
            .collect()
    }

    /// The test cases: every size in every series.
    fn cases(&self) -> Vec<(String, Case)> {
        let common = &self.common;
        let configuration = common.configuration.as_ref();
        let configuration = configuration.map_or(PLAIN, |applied| &applied.name);
        let of_variant = |variant: &Variant| {
            let streams = common.streams.iter();
            let cases = streams.map(|stream| {
                let case = Case {
                    configuration: configuration.to_owned(),
                    stream: variant.stream(stream),
                    variant: variant.clone(),
                };
                (variant.id(stream), case)
            });
            cases.collect::<Vec<_>>()
        };
        common
            .traffic
            .variants
            .iter()
            .flat_map(of_variant)
            .collect()
    }

    fn course<'a>(
        &'a self,
        limits: Vec<Limit>,
        (steps, time): (u32, Duration),
        gate: Option<&'a Gate>,
        control: &'a Control,
    ) -> Course<'a> {
        Course {
            streams: &self.common.streams,
            traffic: &self.common.traffic,
            procedure: self.kind,
            asked: &self.asked,
            capacities: capacities(self.dut.as_ref(), &limits),
            limits,
            case: None,
            planned: Planned {
                steps,
                time,
                of_run: steps,
                later: Duration::ZERO,
            },
            gate,
            control,
        }
    }

    /// Trials and time of all series.
    fn estimated(&self, limits: &[Limit], overhead: Duration) -> Result<(u32, Duration), LabError> {
        let capacities = capacities(self.dut.as_ref(), limits);
        let (trials, time) = estimated(&self.asked, limits, &capacities, overhead)?;
        let series = self.common.traffic.variants.len() as u32;
        Ok((series * trials, series * time))
    }

    fn sum_up(
        &self,
        run: &Run<'_>,
        measured: &mut Measured,
        followed: Followed,
        short: Vec<String>,
        noise: Noise,
    ) -> Result<(), LabError> {
        let mut warnings = match self.dut {
            Some(_) => Vec::new(),
            None => doubts(&self.common),
        };
        warnings.extend(short);
        if let Some(profile) = &self.common.traffic.profile {
            warnings.extend(profile.notes.clone());
        }
        warnings.extend(manage::doubts(&measured.trials));
        warnings.extend(meters::remarks(&measured.trials));
        warnings.extend(course::invalid(followed.invalid, measured.trials.len()));
        measured.summary = Some(Summary {
            format: RUN_FORMAT,
            run: run.info.id.clone(),
            procedure: self.kind.into(),
            test_cases: divide(self.cases(), followed.outcomes, &measured.trials),
            control: None,
            imported: Vec::new(),
            noise,
            warnings,
            imix_estimate_l2_bps: None,
        });
        followed.result
    }

    fn as_values(&self) -> BTreeMap<String, serde_json::Value> {
        let mut values = self.common.as_values();
        values.extend(self.values.clone());
        values.insert("procedure".into(), self.kind.into());
        values.insert("max_load_pps".into(), self.bounds().as_value());
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
