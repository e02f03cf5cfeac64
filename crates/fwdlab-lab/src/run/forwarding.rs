//! The maximum forwarding rate of one DUT: interleaved iterations, a fresh DUT for every block.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use fwdlab_measure::conservation::{balance, objections};
use fwdlab_measure::gate::{Gate, of_run};
use fwdlab_measure::maxfwd::{ID, MIN_WINDOWS, MaxFwd, Planned, Window, control, judge, summarise};
use fwdlab_measure::trust;
use fwdlab_model::event::EventKind;
use fwdlab_model::facts::Facts;
use fwdlab_model::probe::Reading;
use fwdlab_model::result::{HoldUps, Summary, TrialRecord, Validity};
use fwdlab_model::trial::Stream;
use fwdlab_model::units::imix_estimate_l2_bps;
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;

use super::trial::{Bench, Counted, Glimpse, Overload};
use super::{Control, Measured, Parameters, Run, configure, open_tester, timestamp};
use crate::bed::Bed;
use crate::error::LabError;
use crate::tester::Rig;
use crate::witness::probe::{Probes, pairs};

/// What a trial takes beyond its windows: start, warm-up, drain, reading counters.
const OVERHEAD: Duration = Duration::from_millis(250);

/// Readings of the probe before the first trial.
const CALIBRATION_READINGS: usize = 120;

/// Progress is told so often.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// A trial with its windows: the gate is drawn from all probe readings of the run, so trials are judged at the end.
pub(super) struct Raw {
    pub record: TrialRecord,
    pub windows: Vec<Window>,
}

/// Runs the procedure; what was measured is in `measured` even when it is interrupted.
pub(super) fn run(
    parameters: &Parameters,
    stop: &Control,
    run: &mut Run<'_>,
    measured: &mut Measured,
) -> Result<(), LabError> {
    let streams = &parameters.streams;
    let mut plan = MaxFwd::new(streams.len(), parameters.iterations, true, parameters.seed);
    let per_trial = parameters.trial + OVERHEAD;
    let planned = plan.planned() as u32;
    run.started(planned, per_trial * planned)?;
    let began = Instant::now();
    let mut is_again = false;
    let calibration = calibrate(parameters, &mut run.info.facts);
    let mut readings: Vec<Reading> = Vec::new();
    let mut loads: Vec<Option<Overload>> = vec![None; streams.len()];
    let mut raw: Vec<Raw> = Vec::new();
    let result = (|| {
        let mut standing = None;
        loop {
            let Some(planned) = plan.next_trial() else {
                if is_again || !again_helps(&raw, of_run(&calibration, &readings).as_ref(), streams)
                {
                    return Ok(());
                }
                is_again = true;
                plan = MaxFwd::again(
                    streams.len(),
                    parameters.iterations,
                    true,
                    parameters.seed + 1,
                );
                run.tell(EventKind::Note {
                    text: format!(
                        "too noisy so far, but doubling the iterations may be enough: {} more trials, about {:.0} s",
                        plan.planned(),
                        (per_trial * plan.planned() as u32).as_secs_f64()
                    ),
                })?;
                continue;
            };
            if stop.is_stopped() {
                return Ok(());
            }
            if planned.opens_block || standing.is_none() {
                // the old bed goes before the new one comes
                drop(standing.take());
                standing = Some(build(parameters, &streams[0], stop, run)?);
            }
            let (bed, tester) = standing.as_mut().expect("just built");
            let mut bench = Bench {
                bed,
                tester: tester.as_mut(),
                traffic: None,
                count_reasons: false,
                placement: &parameters.placement,
                control: stop,
            };
            let stream = &streams[planned.case];
            let known = match loads[planned.case] {
                Some(known) => known,
                None => match overload(parameters, &mut bench, stream) {
                    Err(error @ LabError::Disturbed { .. }) => {
                        run.warn(format!("during the search for a load: {error}"))?;
                        plan.record(&planned, false);
                        standing = None;
                        continue;
                    }
                    found => *loads[planned.case].insert(found?),
                },
            };
            let Overload {
                load_pps: load,
                loses_inside,
            } = known;
            bench.count_reasons = loses_inside && parameters.privileged;
            let progress = Progress {
                planned: &planned,
                stream,
                iterations: parameters.iterations,
                done: (plan.planned() - plan.left().min(plan.planned() - 1)) as u32 - 1,
                steps: plan.planned() as u32,
                left: left(began.elapsed(), raw.len(), per_trial, plan.left() + 1),
            };
            let started_at = timestamp();
            let gate = of_run(&calibration, &readings);
            let trial = trial(
                &mut bench,
                stream,
                load,
                parameters.trial,
                gate.as_ref(),
                &progress,
                run,
            )?;
            let Some((windows, counted)) = trial else {
                return Ok(());
            };
            readings.extend(windows.iter().map(|w| w.after.clone()));
            let record = record(
                bench.tester,
                &planned,
                raw.len(),
                started_at,
                stream,
                load,
                &windows,
                &counted,
            );
            plan.record(&planned, record.validity.is_valid());
            if !record.validity.is_valid() {
                // whatever disturbed it may have changed the DUT: a link that went down took its routes along
                standing = None;
            }
            keep_windows(run, &record, &windows)?;
            // the gate as known now; in the end all are judged by the final one
            let record = gated(record, &windows, gate.as_ref());
            run.writer.trial(&record)?;
            run.tell(EventKind::TrialFinished {
                record: Box::new(record.clone()),
            })?;
            raw.push(Raw { record, windows });
        }
    })();

    let gate = of_run(&calibration, &readings);
    measured.trials = raw
        .into_iter()
        .map(|raw| gated(raw.record, &raw.windows, gate.as_ref()))
        .collect();
    let trials = &measured.trials;
    measured.summary = Some(summary(parameters, run, gate.as_ref(), trials));
    if result.is_ok() {
        // the result follows from the trials that are kept
        run.writer.judged_again(&measured.trials)?;
    }
    result
}

/// The load of a stream: as was asked for, or one that overloads the DUT; never above the line.
pub(super) fn overload(
    parameters: &Parameters,
    bench: &mut Bench<'_>,
    stream: &Stream,
) -> Result<Overload, LabError> {
    let found = match parameters.load {
        // whether frames are lost inside is then not known before; a configuration may do it
        Some(load) => Overload {
            load_pps: parameters
                .load_pps(load, stream)
                .map_err(LabError::Preflight)?,
            loses_inside: parameters.configuration.is_some(),
        },
        None => bench.overload(stream)?,
    };
    Ok(Overload {
        load_pps: parameters.within_line(found.load_pps, stream),
        ..found
    })
}

/// The time for so many trials, from what those that were made took with everything around them: building, looking for the load,
/// repeating, and waiting for quiet windows. `planned` is what one takes where nothing disturbs it.
fn left(elapsed: Duration, made: usize, planned: Duration, trials: usize) -> Duration {
    // the first ones look for their loads, which is not done again
    let known = if made < 3 { 0 } else { made };
    let each = (elapsed * known as u32 + planned * 3 * made.max(1) as u32)
        / (made.max(1) * (known + 3)) as u32;
    each.max(planned) * trials as u32
}

/// Would as many trials again make quiet what is not?
fn again_helps(raw: &[Raw], gate: Option<&Gate>, streams: &[Stream]) -> bool {
    let judged = |raw: &Raw| gated(raw.record.clone(), &raw.windows, gate);
    let trials: Vec<TrialRecord> = raw.iter().map(judged).collect();
    trust::again_helps(&summarise(streams, &trials))
}

/// How fast the DUT's CPU is now, and how far from the others: a fifth of a second of readings. The facts tell the distance.
pub(super) fn calibrate(parameters: &Parameters, facts: &mut Facts) -> Vec<Reading> {
    let placement = &parameters.placement;
    let readings: Option<Vec<Reading>> = Probes::on_dut_cpu(placement, |probes| {
        (0..CALIBRATION_READINGS)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(1));
                probes.read()
            })
            .collect()
    });
    let is_absent = readings.is_none();
    let readings = readings.unwrap_or_default();
    let gate = Gate::calibrate(&readings);
    facts.states = gate.map(|gate| gate.states()).unwrap_or_default();
    let told = match facts.states.first() {
        Some(now) if !now.round_trip_ns.is_empty() => format!(
            "{now} now: the round trip of a cache line between {}",
            pairs(placement)
        ),
        _ if is_absent => {
            "not read: there is no probe, for no CPU of the DUT is this machine's".into()
        }
        _ if !placement.is_separate() => "not read: generator and DUT share a CPU".to_owned(),
        _ => "not read: it needs real-time priority (root), and the other CPUs for a few microseconds"
            .into(),
    };
    facts.placement.insert("distance".into(), told);
    readings
}

fn build(
    parameters: &Parameters,
    stream: &Stream,
    stop: &Control,
    run: &mut Run<'_>,
) -> Result<(Bed, Box<dyn Rig>), LabError> {
    let bed = parameters.bed(1)?;
    let (mut tester, words) = open_tester(&bed, parameters)?;
    if !run.has_bed {
        run.bed_ready(&bed, &words)?;
    }
    if let Some(configuration) = &parameters.configuration {
        configure(&bed, 0, tester.as_mut(), stream, configuration, stop, run)?;
    }
    Ok((bed, tester))
}

pub(super) struct Progress<'a> {
    pub planned: &'a Planned,
    pub stream: &'a Stream,
    pub iterations: u32,
    pub done: u32,
    pub steps: u32,
    pub left: Duration,
}

/// One trial, while progress is told from this thread. `None` when the run was stopped in it.
pub(super) fn trial(
    bench: &mut Bench<'_>,
    stream: &Stream,
    load: Option<f64>,
    duration: Duration,
    gate: Option<&Gate>,
    progress: &Progress<'_>,
    run: &mut Run<'_>,
) -> Result<Option<(Vec<Window>, Counted)>, LabError> {
    // a trial needs some more windows than the median of the quiet ones: about half of the shortest trial
    let wanted = MIN_WINDOWS.max((duration.as_millis() / 50) as usize);
    let enough = |windows: &[Window]| judge(windows, gate, load).quiet.windows as usize >= wanted;
    let stop = bench.control.clone();
    let (sender, glimpses) = mpsc::channel::<Glimpse>();
    let result = std::thread::scope(|scope| -> Result<_, LabError> {
        let worker = scope.spawn(move || {
            let sender = sender;
            bench.windows(stream, load, duration, &enough, &sender)
        });
        let mut last: Option<Instant> = None;
        while let Ok(glimpse) = glimpses.recv() {
            if last.is_none_or(|t| t.elapsed() >= PROGRESS_EVERY) {
                last = Some(Instant::now());
                run.tell(progress.event(glimpse))?;
            }
        }
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let result = match result {
        Err(error @ LabError::Disturbed { .. }) => {
            (Vec::new(), Counted::nothing(1, error.to_string()))
        }
        result => result?,
    };
    Ok((!stop.is_stopped()).then_some(result))
}

impl Progress<'_> {
    fn event(&self, glimpse: Glimpse) -> EventKind {
        let of = self.stream;
        let plural = if of.flows == 1 { "" } else { "s" };
        let control = if self.planned.control {
            " (control)"
        } else {
            ""
        };
        EventKind::Progress {
            activity: format!(
                "{} B, {} flow{plural}{control}, iteration {} of {}",
                of.frame_size_bytes, of.flows, self.planned.iteration, self.iterations
            ),
            done: self.done,
            steps: self.steps,
            left_s: self.left.as_secs_f64(),
            offered_load_pps: Some(glimpse.offered_load_pps),
            forwarding_rate_pps: Some(glimpse.forwarding_rate_pps),
            estimate: None,
        }
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "a record is made of that many things, once"
)]
pub(super) fn record(
    tester: &dyn Rig,
    planned: &Planned,
    trials_before: usize,
    started_at: String,
    stream: &Stream,
    load: Option<f64>,
    windows: &[Window],
    counted: &Counted,
) -> TrialRecord {
    let counters = counted.counters[0].clone();
    let span = windows.last().map_or(0.0, |w| w.start_s + w.duration_s);
    let intended = load.map(|_| counters.generator_sent + counters.generator_not_sent);
    let ledger = balance(&counters, intended);
    let mut reasons = counted.objections.clone();
    reasons.extend(objections(&ledger, &counters));
    TrialRecord {
        test_case: if planned.control {
            format!("{}/control", stream.id())
        } else {
            stream.id()
        },
        procedure: ID.into(),
        iteration: planned.iteration,
        trial: trials_before as u32 + 1,
        control: planned.control,
        started_at,
        variant: Variant::default(),
        directions: Vec::new(),
        stream: stream.clone(),
        engine: tester.names().0.into(),
        hold_ups: load.map(|_| HoldUps::Forgive),
        receiver: tester.names().1.into(),
        duration_s: span,
        intended_load_pps: load,
        offered_load_pps: 0.0,
        not_saturated: false,
        forwarding_rate_pps: None,
        forwarding_rate_ungated_pps: None,
        quiet: Default::default(),
        contended: Default::default(),
        apart: Vec::new(),
        probes: Vec::new(),
        windows_not_offered: 0,
        frame_loss_ratio: if counters.generator_sent > 0 {
            ledger.frames_lost as f64 / counters.generator_sent as f64
        } else {
            0.0
        },
        ledger,
        counters,
        asked: None,
        validity: Validity { reasons },
    }
}

pub(super) fn gated(
    mut record: TrialRecord,
    windows: &[Window],
    gate: Option<&Gate>,
) -> TrialRecord {
    let strata = judge(windows, gate, record.intended_load_pps);
    record.not_saturated = strata.is_not_saturated();
    record.offered_load_pps = strata.offered_pps;
    record.forwarding_rate_pps = strata.quiet.forwarding_rate_pps;
    record.forwarding_rate_ungated_pps = strata.ungated_pps;
    record.quiet = strata.quiet;
    record.contended = strata.contended;
    record.apart = strata.apart;
    record.windows_not_offered = strata.not_offered;
    record
}

pub(super) fn keep_windows(
    run: &Run<'_>,
    record: &TrialRecord,
    windows: &[Window],
) -> Result<(), LabError> {
    // of several pairs of CPUs in one field, and nothing where no distance was read
    let distances = |reading: &Reading| -> String {
        let all: Vec<String> = (reading.distances_ns.iter())
            .map(|ns| format!("{ns:.1}"))
            .collect();
        all.join(" ")
    };
    let mut csv = String::from(
        "start_s,duration_s,frames_sent,frames_received,dut_waited_s,probe_before_per_ns,probe_after_per_ns,distance_before_ns,distance_after_ns\n",
    );
    for w in windows {
        csv += &format!(
            "{:.6},{:.9},{},{},{:.9},{:.3},{:.3},{},{}\n",
            w.start_s,
            w.duration_s,
            w.sent,
            w.received,
            w.dut_waited_s,
            w.before.additions_per_ns,
            w.after.additions_per_ns,
            distances(&w.before),
            distances(&w.after)
        );
    }
    Ok(run.writer.raw(
        &record.test_case,
        record.trial,
        "intervals.csv",
        csv.as_bytes(),
    )?)
}

fn summary(
    parameters: &Parameters,
    run: &Run<'_>,
    gate: Option<&Gate>,
    trials: &[TrialRecord],
) -> Summary {
    let test_cases = summarise(&parameters.streams, trials);
    let control = control(&parameters.streams[0], trials);
    let noise = trust::of_cases(gate, &test_cases, control.as_ref());
    let mut warnings = Vec::new();
    if !parameters.privileged {
        warnings.push(crate::user_namespace::MISSING.to_owned());
    }
    if !parameters.placement.is_separate() {
        warnings.push(
            "generator and DUT share a CPU: these figures only compare settings on this machine"
                .into(),
        );
    }
    let smallest = test_cases
        .iter()
        .filter(|c| c.forwarding_rate_pps.is_some())
        .min_by_key(|c| (c.stream.frame_size_bytes, std::cmp::Reverse(c.stream.flows)));
    Summary {
        format: RUN_FORMAT,
        run: run.info.id.clone(),
        procedure: ID.into(),
        imix_estimate_l2_bps: smallest
            .and_then(|c| c.forwarding_rate_pps)
            .map(imix_estimate_l2_bps),
        test_cases,
        control,
        comparisons: Vec::new(),
        imported: Vec::new(),
        cases: Vec::new(),
        outcomes: Vec::new(),
        noise,
        warnings,
    }
}
