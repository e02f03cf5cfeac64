//! Configurations against the plain DUT: DUTs side by side, slices in balanced order, the whole rebuilt many times.
//!
//! Configuration 0 is the plain DUT, 1 is the A/A control (plain as well), the rest are those asked for.

use std::time::{Duration, Instant};

use fwdlab_measure::conservation::{balance, objections};
use fwdlab_measure::order::{Random, mirrored};
use fwdlab_measure::paired::{ID, Rebuild, outcome, places, rebuild};
use fwdlab_measure::trust;
use fwdlab_model::comparison::Comparison;
use fwdlab_model::event::{EventKind, RebuildRecord};
use fwdlab_model::result::{Summary, Validity};
use fwdlab_model::trial::Stream;
use fwdlab_model::version::RUN_FORMAT;

use super::trial::{Bench, Counted};
use super::{Control, Measured, Parameters, Run, configure, open_tester, timestamp};
use crate::bed::Bed;
use crate::error::LabError;

/// The plain DUT and the control stand beside the configurations.
pub(super) const CONTROLS: usize = 2;

/// A load that overloads the DUT is sought so often before it is given up.
const OVERLOAD_LOOKS: u32 = 3;

/// Shortest slices' time of a rebuild that is worth building for.
const MIN_SLICES: Duration = Duration::from_millis(600);

/// Runs the comparison; what was measured is in `measured` even when it is interrupted.
pub(super) fn run(
    parameters: &Parameters,
    stop: &Control,
    run: &mut Run<'_>,
    measured: &mut Measured,
) -> Result<(), LabError> {
    run.started(parameters.rebuilds, parameters.total)?;
    let mut rebuilds = Vec::new();
    let result = rebuild_all(parameters, stop, run, measured, &mut rebuilds);
    measured.summary = Some(summary(parameters, run, &rebuilds));
    result
}

fn rebuild_all(
    parameters: &Parameters,
    stop: &Control,
    run: &mut Run<'_>,
    measured: &mut Measured,
    rebuilds: &mut Vec<Rebuild>,
) -> Result<(), LabError> {
    let stream = &parameters.streams[0];
    let configurations = CONTROLS + parameters.versus.len();
    let began = Instant::now();
    let mut random = Random::new(parameters.seed);
    let mut load = None;
    let mut overhead = Duration::from_millis(500);
    for number in 0..parameters.rebuilds as usize {
        if stop.is_stopped() {
            return Ok(());
        }
        let rebuild_began = Instant::now();
        let started_at = timestamp();
        let places = places(configurations, number);
        let bed = Bed::up(configurations, &parameters.placement, false)?;
        let bed = bed.unconfined(parameters.unconfined);
        let (mut tester, words) = open_tester(&bed, parameters)?;
        if number == 0 {
            run.bed_ready(&bed, &words)?;
        }
        let pps = match load {
            Some(pps) => pps,
            None => *load.insert(intended(parameters, stream, &bed, &mut tester, stop)?),
        };
        for (place, &configuration) in places.iter().enumerate() {
            // the one given by --set belongs to every DUT, the plain one included
            if let Some(common) = &parameters.configuration {
                configure(&bed, place, &mut tester, stream, common, stop, run)?;
            }
            if configuration >= CONTROLS {
                let wanted = &parameters.versus[configuration - CONTROLS];
                configure(&bed, place, &mut tester, stream, wanted, stop, run)?;
            }
        }
        let left = parameters.total.saturating_sub(began.elapsed());
        let share = left / (parameters.rebuilds - number as u32);
        let mut bench = Bench {
            bed: &bed,
            tester: &mut tester,
            traffic: None,
            count_reasons: false,
            placement: &parameters.placement,
            control: stop,
        };
        // the time of building comes out of the share, but for the first rebuild, which also sought the load
        let building = if number == 0 {
            overhead
        } else {
            rebuild_began.elapsed()
        };
        let slices = share
            .saturating_sub(building + overhead / 2)
            .max(MIN_SLICES);
        let mut order = || mirrored(configurations, &mut random);
        let counted = bench.slices(stream, pps, slices, &mut order, &places);
        let (blocks, counted) = match counted {
            Err(error @ LabError::Disturbed { .. }) => (
                Vec::new(),
                Counted::nothing(configurations, error.to_string()),
            ),
            counted => counted?,
        };
        if stop.is_stopped() {
            return Ok(());
        }
        drop(tester);
        drop(bed);
        overhead = building.min(Duration::from_secs(2));

        let result = rebuild(configurations, &blocks, pps);
        let mut reasons = counted.objections.clone();
        let mut ledgers = vec![Default::default(); configurations];
        for (place, &configuration) in places.iter().enumerate() {
            let counters = &counted.counters[place];
            let ledger = balance(counters, None);
            for reason in objections(&ledger, counters) {
                reasons.push(format!("{}: {reason}", name(parameters, configuration)));
            }
            ledgers[configuration] = ledger;
        }
        let record = RebuildRecord {
            rebuild: number as u32 + 1,
            started_at,
            places: places.iter().map(|&c| c as u32).collect(),
            blocks: result.blocks as u32,
            blocks_not_offered: result.not_offered as u32,
            forwarding_rate_pps: result.rates_pps.clone(),
            difference_percent: result
                .ln_ratios
                .iter()
                .map(|ln| 100.0 * ln.exp_m1())
                .collect(),
            frames_sent: ledgers.iter().map(|l| l.frames_sent).sum(),
            frames_received: ledgers.iter().map(|l| l.frames_received).sum(),
            ledgers,
            validity: Validity { reasons },
        };
        run.writer.trial(&record)?;
        run.tell(EventKind::RebuildFinished {
            record: Box::new(record.clone()),
        })?;
        if record.validity.is_valid() {
            rebuilds.push(result);
        }
        measured.rebuilds.push(record);
        let left = parameters.total.saturating_sub(began.elapsed());
        run.tell(progress(parameters, rebuilds, number as u32 + 1, left, pps))?;
    }
    Ok(())
}

/// The intended load in frames per second: as asked for, else 1.6 times of what the plain DUT forwards.
fn intended(
    parameters: &Parameters,
    stream: &Stream,
    bed: &Bed,
    tester: &mut fwdlab_engine::Tester,
    stop: &Control,
) -> Result<f64, LabError> {
    let asked = (parameters.load).map_or(Ok(None), |load| parameters.load_pps(load, stream));
    if let Some(pps) = asked.map_err(LabError::Preflight)? {
        return Ok(pps);
    }
    let mut bench = Bench {
        bed,
        tester,
        traffic: None,
        count_reasons: false,
        placement: &parameters.placement,
        control: stop,
    };
    // a busy host may keep the generator from showing what it can
    for _ in 0..OVERLOAD_LOOKS {
        if let Some(pps) = bench.overload(stream)?.load_pps {
            return match (parameters.within_line(Some(pps), stream), parameters.line) {
                (Some(most), Some(line)) if most < pps => Err(LabError::Preflight(format!(
                    "a comparison needs overload, {pps:.0} frames per second of this DUT, and the {line} carries {most:.0}. A \
                     load below saturation can be forced with --load 100%, but shows no difference"
                ))),
                _ => Ok(pps),
            };
        }
    }
    Err(LabError::Preflight(
            "the generator cannot overload this DUT, and a comparison needs overload. A load below saturation can be forced with --load 500kpps, but shows no difference".into(),
    ))
}

fn name(parameters: &Parameters, configuration: usize) -> &str {
    match configuration {
        0 => "plain",
        1 => "control",
        other => &parameters.versus[other - CONTROLS].name,
    }
}

fn progress(
    parameters: &Parameters,
    rebuilds: &[Rebuild],
    done: u32,
    left: Duration,
    pps: f64,
) -> EventKind {
    let first = outcome(name(parameters, CONTROLS), CONTROLS, rebuilds);
    let estimate = match (first.difference_percent, first.interval_percent) {
        (Some(difference), Some([low, high])) => Some(format!(
            "{}: {difference:+.1} % [{low:+.1}, {high:+.1}]",
            first.configuration
        )),
        (Some(difference), None) => Some(format!("{}: {difference:+.1} %", first.configuration)),
        _ => None,
    };
    EventKind::Progress {
        activity: format!("rebuild {done} of {} done", parameters.rebuilds),
        done,
        steps: parameters.rebuilds,
        left_s: left.as_secs_f64(),
        offered_load_pps: Some(pps),
        forwarding_rate_pps: first.plain_forwarding_rate_pps,
        estimate,
    }
}

fn summary(parameters: &Parameters, run: &Run<'_>, rebuilds: &[Rebuild]) -> Summary {
    let configurations = CONTROLS + parameters.versus.len();
    let mut all: Vec<Comparison> = (1..configurations)
        .map(|c| outcome(name(parameters, c), c, rebuilds))
        .collect();
    all[0].control = true;
    let control = all.remove(0);
    let blocks: usize = rebuilds.iter().map(|r| r.blocks).sum();
    let left_out: usize = rebuilds.iter().map(|r| r.not_offered).sum();
    let said = format!(
        "{} rebuilds, {blocks} blocks of slices; {left_out} blocks left out because the generator was held up",
        rebuilds.len()
    );
    let noise = trust::of_comparisons(&all, &control, said);
    let mut warnings = Vec::new();
    if !parameters.privileged {
        warnings.push(crate::user_namespace::MISSING.to_owned());
    }
    Summary {
        format: RUN_FORMAT,
        run: run.info.id.clone(),
        procedure: ID.into(),
        test_cases: Vec::new(),
        control: Some(control),
        comparisons: all,
        imported: Vec::new(),
        cases: Vec::new(),
        outcomes: Vec::new(),
        noise,
        warnings,
        imix_estimate_l2_bps: None,
    }
}
