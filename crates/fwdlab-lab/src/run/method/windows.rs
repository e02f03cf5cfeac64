//! Campaigns by windows: the maximum forwarding rate of every test case, each iteration one long
//! trial. `fwdlab quick` uses it.
//!
//! Windows of 20 ms count if the machine was quiet around them, which is judged by the probe
//! readings of the whole run. The result of an iteration is reported when it ends, by the readings
//! until then, and again at the end of the run if all readings change it. The first test case is
//! measured once more in every iteration, as A/A control. Every iteration of a test case has a
//! fresh DUT; test cases of one configuration share it. Start with [`Windows`].

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fwdlab_measure::campaign::{Turn, with_failed};
use fwdlab_measure::conservation::objections;
use fwdlab_measure::gate::Gate;
use fwdlab_measure::maxfwd::{
    ID, Trials, Window, control, is_enough, is_made, iterations, judge_trial,
};
use fwdlab_measure::overload::{Overload, may_be_larger};
use fwdlab_measure::procedure::MAX_INVALID;
use fwdlab_measure::trust;
use fwdlab_model::campaign::{self, Case, Every, When};
use fwdlab_model::event::EventKind;
use fwdlab_model::facts::Facts;
use fwdlab_model::probe::Reading;
use fwdlab_model::result::{Noise, StallPolicy, TrialRecord, Validity};
use fwdlab_model::test_case::{Iteration, NoResult, TestCase};
use fwdlab_model::trial::Stream;

use super::CountingMethod;
use crate::bed::Bed;
use crate::error::LabError;
use crate::run::campaign::Running;
use crate::run::conduct::{Made, Method, Work};
use crate::run::device::erect;
use crate::run::estimate::far_bed;
use crate::run::hooks::{self, During, Hosts, Place, run_hooks_or_fail};
use crate::run::plan::{Agenda, Plan};
use crate::run::trial::{Bench, Counted, TrialProgress, record, telemetry_of};
use crate::run::{Control, Measured, Parameters, Run, configure, open_tester, timestamp};
use crate::tester::Rig;
use crate::witness::probe::{Probes, pairs};

/// Time for a bed, an engine that proves itself, and a configuration.
const BED: Duration = Duration::from_millis(800);

/// Duration of a trial beyond its windows: start, warm-up, drain, reading counters.
const OVERHEAD: Duration = Duration::from_millis(250);

/// Number of probe readings before the first trial.
const CALIBRATION_READINGS: usize = 120;

/// Interval of progress reports.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

impl CountingMethod for campaign::Maxfwd {
    fn check(&self, plan: &Plan) -> Result<(), LabError> {
        plan.check_load(self.load)?;
        let campaign = plan.campaign();
        let wrong = |at: &[&str], reason: &str| Err(campaign.error(at, reason).into());
        if campaign.is_simulated() {
            let reason = "maxfwd chooses windows by probes of a real machine; use forwarding-rate or mrr on a simulated DUT";
            return wrong(&["procedure", "id"], reason);
        }
        if campaign.sweep.is_some() {
            let reason = "maxfwd has no sweep, because a machine is faster or slower from one bed to the next: use id = \"paired\"";
            return wrong(&["procedure", "sweep"], reason);
        }
        let mut variants = campaign.cases.iter().map(|case| &case.variant);
        if variants.any(|variant| variant.both_directions || !variant.modifiers.is_empty()) {
            let reason =
                "maxfwd measures one direction of an unmodified DUT: omit directions and modifier";
            return wrong(&["matrix"], reason);
        }
        Ok(())
    }

    fn controlled(&self, _: &[Case]) -> Option<usize> {
        Some(0)
    }

    fn estimate(&self, plan: &Plan, _: &[usize]) -> Result<(u32, Duration), LabError> {
        let cases = &plan.campaign().cases;
        let on_one_bed = if share_beds(cases) { cases.len() } else { 1 };
        let bed = BED + far_bed(&plan.host.site);
        Ok((1, self.duration.0 + OVERHEAD + bed / on_one_bed as u32))
    }

    fn method<'a>(&'a self, _: &'a Plan, _: &'a Agenda) -> Box<dyn Method + 'a> {
        Box::new(Windows {
            p: self,
            trials: Trials::default(),
            loads: BTreeMap::new(),
            standing: None,
        })
    }

    fn judge(&self, running: &Running<'_>, cases: &mut [TestCase], _: &Measured) -> Noise {
        let is_probed = !running.plan.host.placement.dut_cpus.is_empty();
        let (gate, control) = (running.gate.as_ref(), running.compared.as_ref());
        trust::of_cases(gate, is_probed, cases, control)
    }
}

/// Returns true if all test cases of an iteration can share one bed: not with several
/// configurations or kinds of DUT, nor with series other than plain ones, which have their own
/// routes.
fn share_beds(cases: &[Case]) -> bool {
    let same =
        |case: &Case| case.configuration == cases[0].configuration && case.dut == cases[0].dut;
    cases
        .iter()
        .all(|case| same(case) && case.variant.is_plain())
}

/// A bed in use, for the test cases of one iteration.
struct BedInUse {
    iteration: u32,
    /// Closed before the bed is undone: while a receiver's XDP program is attached to a veth port,
    /// the kernel refuses to restore offloads of its peer.
    tester: Box<dyn Rig>,
    bed: Bed,
}

/// All trials so far, and the bed of the last one.
struct Windows<'a> {
    p: &'a campaign::Maxfwd,
    trials: Trials,
    loads: BTreeMap<usize, Overload>,
    standing: Option<BedInUse>,
}

/// Parameters of a trial that is about to start.
struct Attempt<'a> {
    common: &'a Parameters,
    /// The context of hooks in this iteration, and their hosts.
    place: &'a Place,
    hosts: &'a Hosts,
    work: &'a Work,
}

impl Method for Windows<'_> {
    fn before(
        &self,
        turn: Turn,
        running: &Running<'_>,
        measured: &Measured,
    ) -> Option<BTreeMap<usize, Iteration>> {
        // they are judged together with all others
        let name = &running.agenda.names[turn.case];
        is_made(name, turn.iteration, &measured.trials).then(BTreeMap::new)
    }

    fn begin(
        &mut self,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        self.trials = Trials::new(calibrate(&self.common(running, 0), &mut run.info.facts));
        for record in &measured.trials {
            let windows = kept_windows(run, record)?;
            self.trials.push(record.clone(), windows);
        }
        let loads = running.before.loads.iter().filter_map(|(of, found)| {
            let overload = Overload {
                load_pps: found.load_pps,
                loses_inside: found.loses_inside,
            };
            let mut names = running.agenda.names.iter();
            Some((names.position(|name| name == of)?, overload))
        });
        self.loads = loads.collect();
        // a hook that failed after a valid trial: the trials do not show it
        for (at, name) in running.agenda.names.iter().enumerate() {
            let before = running.before.iterations(name);
            let failed = before.filter(|one| one.no_result == NoResult::Hook);
            let failed = failed.map(|one| ((at, one.iteration), one.clone()));
            running.failed.extend(failed);
        }
        self.judge(running);
        Ok(())
    }

    fn measure(
        &mut self,
        work: &Work,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        _: &mut Measured,
    ) -> Result<Option<Made>, LabError> {
        let turn = work.turn;
        let error = self.iteration(work, running, run).err();
        if error.is_some() {
            self.standing = None;
        }
        // whether enough is known is decided by all readings so far
        if running.plan.campaign().until.is_some() {
            self.judge(running);
        }
        let judged = self.trials.judged(self.trials.gate().as_ref());
        let cases = running.agenda.measures[turn.case].cases().iter();
        let iterations = cases.filter_map(|&case| {
            // the conductor adds it again
            running.made[case].retain(|one| one.iteration != turn.iteration);
            let mut all = iterations_of(case, &judged, running).into_iter();
            Some((case, all.find(|one| one.iteration == turn.iteration)?))
        });
        Ok(Some(Made {
            iterations: iterations.collect(),
            error,
            ..Made::default()
        }))
    }

    /// Returns true if doubling the trials may make noisy test cases quiet.
    fn wants_more(&mut self, running: &Running<'_>) -> bool {
        if !self.p.double {
            return false;
        }
        let judged = self.trials.judged(self.trials.gate().as_ref());
        let cases = running.plan.campaign().cases.iter().enumerate();
        let cases: Vec<TestCase> = cases
            .map(|(at, case)| {
                let made = iterations_of(at, &judged, running);
                running.plan.summarise(case, made)
            })
            .collect();
        trust::again_helps(&cases)
    }

    /// Judges all trials by the readings of the whole run.
    fn end(
        &mut self,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        self.standing = None;
        measured.trials = self.judge(running);
        running.compared = control(&running.agenda.names[0], &measured.trials);
        // the result follows from the stored trials
        Ok(run.writer.judged_again(&measured.trials)?)
    }
}

impl Windows<'_> {
    /// Judges every trial by the readings so far, and recomputes the iterations of all test cases.
    fn judge(&self, running: &mut Running<'_>) -> Vec<TrialRecord> {
        running.gate = self.trials.gate();
        let judged = self.trials.judged(running.gate.as_ref());
        for case in 0..running.made.len() {
            running.made[case] = iterations_of(case, &judged, running);
        }
        judged
    }

    fn common(&self, running: &Running<'_>, case: usize) -> Parameters {
        let case = &running.plan.campaign().cases[case];
        Parameters {
            load: self.p.load.map(|load| load.0),
            ..running.plan.common(vec![case.stream.clone()], case)
        }
    }

    /// Measures one iteration of one test case; repeats it if it is invalid.
    fn iteration(
        &mut self,
        work: &Work,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        let turn = work.turn;
        let campaign = running.plan.campaign();
        let (case, _) = running.agenda.measures[turn.case].subject();
        let common = self.common(running, case);
        let place = Place::iteration(&running.agenda.names[turn.case], turn.iteration);
        let all = &campaign.hooks;
        for _ in 0..MAX_INVALID {
            let mut standing = self.bed_for_iteration(&common, work, running, run)?;
            let hosts = Hosts::from_bed(&standing.bed);
            // a repetition uses another bed, and runs the hooks again
            let before = (When::Before, Every::Iteration);
            let made =
                run_hooks_or_fail(all, before, &place, &hosts, &work.control, run).and_then(|()| {
                    let attempt = Attempt {
                        common: &common,
                        place: &place,
                        hosts: &hosts,
                        work,
                    };
                    self.attempt(attempt, &mut standing, running, run)
                });
            let after = (When::After, Every::Iteration);
            let after = run_hooks_or_fail(all, after, &place, &hosts, &Control::default(), run);
            let is_valid = made?;
            after?;
            // what disturbed an invalid trial may have changed the DUT: a link that went down
            // removed its routes
            if is_valid {
                self.standing = Some(standing);
                break;
            }
        }
        Ok(())
    }

    /// Makes one trial of a test case on an existing bed. Returns true if it is valid.
    fn attempt(
        &mut self,
        attempt: Attempt<'_>,
        standing: &mut BedInUse,
        running: &Running<'_>,
        run: &mut Run<'_>,
    ) -> Result<bool, LabError> {
        let campaign = running.plan.campaign();
        let Attempt {
            common,
            place,
            hosts,
            work,
        } = attempt;
        let (turn, duration) = (work.turn, self.p.duration.0);
        let (stream, variant) = (&common.streams[0], &common.traffic.variants[0]);
        let (case, control) = running.agenda.measures[turn.case].subject();
        let name = &running.agenda.names[turn.case];
        let BedInUse { bed, tester, .. } = standing;
        let mut bench = Bench::new(bed, tester.as_mut(), &common.placement, &work.control);
        bench.traffic = common.traffic.frames(stream, variant)?;
        let known = match self.loads.get(&case) {
            Some(known) => *known,
            None => match overload(common, &mut bench, stream) {
                Err(error @ LabError::Disturbed { .. }) => {
                    run.warn(format!("during the search for a load: {error}"))?;
                    return Ok(false);
                }
                found => {
                    let found = found?;
                    run.record_event(EventKind::LoadFound {
                        of: running.agenda.names[case].clone(),
                        load_pps: found.load_pps,
                        source: match common.load {
                            Some(_) => "as requested".into(),
                            None => "overload".into(),
                        },
                        loses_inside: found.loses_inside,
                    })?;
                    *self.loads.entry(case).or_insert(found)
                }
            },
        };
        let load = known.load_pps;
        let number = self.trials.next_number();
        let place = place.trial(number, load, common.traffic.flows(stream, variant));
        let during = During::new(&campaign.hooks, &place, hosts, &run.info.id);
        bench.count_reasons = known.loses_inside && common.privileged;
        bench.telemetry = common.telemetry.as_ref();
        bench.hooks = Some(&during);
        let iterations = campaign.iterations.max(turn.iteration);
        let progress = |glimpse: TrialProgress| EventKind::Progress {
            activity: format!("{name}, iteration {} of {iterations}", turn.iteration),
            done: work.steps.0,
            steps: work.steps.1,
            left_s: work.left().as_secs_f64(),
            offered_load_pps: Some(glimpse.offered_load_pps),
            forwarding_rate_pps: Some(glimpse.forwarding_rate_pps),
            estimate: None,
        };
        let started_at = timestamp();
        let gate = self.trials.gate();
        let enough = |windows: &[Window]| is_enough(windows, gate.as_ref(), load, duration);
        let (made, problem) = hooks::around_trial(
            &campaign.hooks,
            &place,
            (hosts, &work.control),
            run,
            |run| {
                trial(
                    &mut bench,
                    (stream, load, duration),
                    &enough,
                    &progress,
                    run,
                )
            },
            |(_, counted)| &counted.hooks,
        )?;
        let (windows, mut counted) = made;
        counted.objections.extend(problem);
        let mut record = TrialRecord {
            test_case: name.clone(),
            iteration: turn.iteration,
            control,
            trial: number,
            started_at,
            variant: variant.clone(),
            ..of_windows(bench.tester, (stream, load), &windows, &counted)
        };
        run.keep_telemetry(&record, counted.telemetry.as_deref())?;
        keep_windows(run, &record, &windows)?;
        // the gate as known now; at the end all trials are judged by the final one
        judge_trial(&mut record, &windows, gate.as_ref());
        let is_found = common.load.is_none();
        let line_rate_pps = common.within_line(None, stream);
        if record.not_saturated && is_found && may_be_larger(known.load_pps, line_rate_pps) {
            self.loads.remove(&case);
            record.validity.reasons.push(NOT_OVERLOADED.into());
        }
        run.writer.trial(&record)?;
        run.record_event(EventKind::TrialFinished {
            record: Box::new(record.clone()),
        })?;
        let is_valid = record.validity.is_valid();
        self.trials.push(record, windows);
        Ok(is_valid)
    }

    /// Returns the bed of the last trial if all of this iteration share one, else a new one.
    fn bed_for_iteration(
        &mut self,
        common: &Parameters,
        work: &Work,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
    ) -> Result<BedInUse, LabError> {
        let turn = work.turn;
        let shared = share_beds(&running.plan.campaign().cases);
        // remove the old bed before building the new one
        let last = self.standing.take();
        if let Some(last) = last.filter(|last| shared && last.iteration == turn.iteration) {
            return Ok(last);
        }
        running.restart(&running.agenda.names[turn.case], &work.control, run)?;
        let (bed, _) = erect(common)?;
        let (mut tester, words) = open_tester(&bed, common)?;
        run.report_beds(&bed, &words, common.dut.kind)?;
        if let Some(configuration) = &common.configuration {
            let (stream, control) = (&common.streams[0], &work.control);
            let tester = tester.as_mut();
            configure(&bed, 0, tester, stream, configuration, control, run)?;
        }
        Ok(BedInUse {
            iteration: turn.iteration,
            bed,
            tester,
        })
    }
}

/// Returns the iterations of a test case, from its trials and its failures.
fn iterations_of(case: usize, judged: &[TrialRecord], running: &Running<'_>) -> Vec<Iteration> {
    let name = &running.agenda.names[case];
    let own = judged.iter().filter(|record| record.test_case == *name);
    let failed = running.failed.range((case, 0)..(case + 1, 0));
    with_failed(iterations(own), failed.map(|(_, one)| one))
}

/// Reason of an invalid trial whose load was found while the DUT was slower.
const NOT_OVERLOADED: &str =
    "the load does not overload the DUT any more: less than 1.1 times the output was offered";

/// Returns the load of a stream: the requested one, or one that overloads the DUT; at most line
/// rate.
fn overload(
    parameters: &Parameters,
    bench: &mut Bench<'_>,
    stream: &Stream,
) -> Result<Overload, LabError> {
    let found = match parameters.load {
        // it is then unknown whether frames are lost inside; a configuration may cause it
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

/// Reads for a fifth of a second how fast the DUT's CPU is now, and how far from the others. The
/// facts record the distance.
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
    let reported = match facts.states.first() {
        Some(now) if !now.round_trip_ns.is_empty() => format!(
            "{now} now: the round trip of a cache line between {}",
            pairs(placement)
        ),
        _ if is_absent => {
            "not read: the DUT has no CPU of this machine, so there is no probe".into()
        }
        _ if !placement.is_separate() => "not read: generator and DUT share a CPU".to_owned(),
        _ => "not read: it needs real-time priority (root), and the other CPUs for a few microseconds"
            .into(),
    };
    facts.placement.insert("distance".into(), reported);
    readings
}

/// Makes one trial, and reports progress from this thread.
fn trial(
    bench: &mut Bench<'_>,
    (stream, load, duration): (&Stream, Option<f64>, Duration),
    enough: &(dyn Fn(&[Window]) -> bool + Sync),
    progress: &dyn Fn(TrialProgress) -> EventKind,
    run: &mut Run<'_>,
) -> Result<(Vec<Window>, Counted), LabError> {
    let (sender, glimpses) = mpsc::channel::<TrialProgress>();
    let result = std::thread::scope(|scope| -> Result<_, LabError> {
        let worker = scope.spawn(move || {
            let sender = sender;
            bench.windows(stream, load, duration, enough, &sender)
        });
        let mut last: Option<Instant> = None;
        while let Ok(glimpse) = glimpses.recv() {
            if last.is_none_or(|t| t.elapsed() >= PROGRESS_EVERY) {
                last = Some(Instant::now());
                run.record_event(progress(glimpse))?;
            }
        }
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    match result {
        Err(error @ LabError::Disturbed { .. }) => {
            Ok((Vec::new(), Counted::link_down(1, error.to_string())))
        }
        result => result,
    }
}

fn of_windows(
    tester: &dyn Rig,
    (stream, load): (&Stream, Option<f64>),
    windows: &[Window],
    counted: &Counted,
) -> TrialRecord {
    let counters = &counted.counters[0];
    let intended = load.map(|_| counters.generator_sent + counters.generator_not_sent);
    let record = record(tester.names(), stream.clone(), counters, intended);
    let mut reasons = counted.objections.clone();
    reasons.extend(objections(&record.ledger, counters));
    TrialRecord {
        procedure: ID.into(),
        stall_policy: load.map(|_| StallPolicy::Skip),
        duration_s: windows.last().map_or(0.0, |w| w.start_s + w.duration_s),
        intended_load_pps: load,
        telemetry: telemetry_of(counted, &record),
        validity: Validity { reasons },
        work: counted.work.clone().map(Box::new),
        ..record
    }
}

/// Name of the file with the windows of a trial.
const WINDOWS: &str = "intervals.csv";

fn keep_windows(run: &Run<'_>, record: &TrialRecord, windows: &[Window]) -> Result<(), LabError> {
    // several pairs of CPUs share one field, which is empty if no distance was read
    let distances = |reading: &Reading| -> String {
        let all: Vec<String> = (reading.distances_ns.iter())
            .map(|ns| format!("{ns:.1}"))
            .collect();
        all.join(" ")
    };
    let mut csv = String::from(
        "start_s,duration_s,received_s,frames_sent,frames_received,dut_waited_s,sender_waited_s,probe_before_per_ns,probe_after_per_ns,distance_before_ns,distance_after_ns\n",
    );
    for w in windows {
        csv += &format!(
            "{:.6},{:.9},{:.9},{},{},{:.9},{:.9},{:.3},{:.3},{},{}\n",
            w.start_s,
            w.duration_s,
            w.received_s,
            w.sent,
            w.received,
            w.dut_waited_s,
            w.sender_waited_s,
            w.before.additions_per_ns,
            w.after.additions_per_ns,
            distances(&w.before),
            distances(&w.after)
        );
    }
    Ok(run
        .writer
        .raw(&record.test_case, record.trial, WINDOWS, csv.as_bytes())?)
}

/// Reads the windows of a trial that [`keep_windows`] stored.
fn kept_windows(run: &Run<'_>, record: &TrialRecord) -> Result<Vec<Window>, LabError> {
    let (case, trial) = (&record.test_case, record.trial);
    let text = run.writer.kept_raw(case, trial, WINDOWS)?;
    let text = String::from_utf8_lossy(&text);
    let windows: Option<Vec<Window>> = text.lines().skip(1).map(window_of).collect();
    windows.ok_or_else(|| {
        LabError::Preflight(format!(
            "cannot resume: {WINDOWS} of trial {trial} of {case} is damaged"
        ))
    })
}

fn window_of(line: &str) -> Option<Window> {
    let fields: Vec<&str> = line.split(',').collect();
    let [
        start,
        duration,
        received_for,
        sent,
        received,
        waited,
        sender_waited,
        speed_before,
        speed_after,
        distance_before,
        distance_after,
    ] = &fields[..]
    else {
        return None;
    };
    let reading = |speed: &str, distances: &str| {
        let distances = distances.split_whitespace().map(|ns| ns.parse().ok());
        Some(Reading {
            additions_per_ns: speed.parse().ok()?,
            distances_ns: distances.collect::<Option<_>>()?,
        })
    };
    Some(Window {
        start_s: start.parse().ok()?,
        duration_s: duration.parse().ok()?,
        received_s: received_for.parse().ok()?,
        sent: sent.parse().ok()?,
        received: received.parse().ok()?,
        dut_waited_s: waited.parse().ok()?,
        sender_waited_s: sender_waited.parse().ok()?,
        before: reading(speed_before, distance_before)?,
        after: reading(speed_after, distance_after)?,
    })
}
