//! Campaigns by windows: the maximum forwarding rate of every test case, each iteration one long trial. It is what `fwdlab quick` does.
//!
//! Windows of 20 ms count when the machine was quiet beside them; which were is drawn from the readings of the whole run. The result of
//! an iteration is reported when it ends, by the readings until then, and again at the end of the run if all readings change it. The first test case is measured once more in every iteration, as A/A control. Every iteration of a test case has a fresh
//! DUT; those of one configuration share it. Start with [`Running::by_windows`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fwdlab_measure::ahead;
use fwdlab_measure::campaign::{Turn, sequence};
use fwdlab_measure::conservation::objections;
use fwdlab_measure::gate::{Gate, of_run};
use fwdlab_measure::maxfwd::{ID, MIN_WINDOWS, Window, control, iterations, judge};
use fwdlab_measure::precision::{leaves_out, look};
use fwdlab_measure::procedure::MAX_INVALID;
use fwdlab_measure::trust;
use fwdlab_model::campaign::{self, Case, Every, Order, When};
use fwdlab_model::event::EventKind;
use fwdlab_model::facts::Facts;
use fwdlab_model::file::FileError;
use fwdlab_model::probe::Reading;
use fwdlab_model::result::{HoldUps, TrialRecord, Validity};
use fwdlab_model::test_case::{Failure, Iteration, NoResult, TestCase};
use fwdlab_model::trial::Stream;

use super::campaign::{Attempts, Running, SKIPPED};
use super::device::erect;
use super::hooks::{self, During, Hosts, Place, around_or_error};
use super::plan::Plan;
use super::trial::{Bench, Counted, Glimpse, Overload, SURPLUS, record, telemetry_of};
use super::{Control, Measured, Run, configure, open_tester, timestamp};
use crate::bed::Bed;
use crate::error::LabError;
use crate::tester::Rig;
use crate::witness::probe::{Probes, pairs};

/// A bed, an engine that proves itself, a configuration.
const BED: Duration = Duration::from_millis(800);

/// What a trial takes beyond its windows: start, warm-up, drain, reading counters.
const OVERHEAD: Duration = Duration::from_millis(250);

/// Readings of the probe before the first trial.
const CALIBRATION_READINGS: usize = 120;

/// Progress is told so often.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Says what windows cannot measure.
pub(super) fn check(parameters: &Plan) -> Result<(), FileError> {
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
pub(super) fn estimate(p: &campaign::Maxfwd, cases: &[Case]) -> (u32, Duration) {
    let on_one_bed = if share_beds(cases) { cases.len() } else { 1 };
    (1, p.duration.0 + OVERHEAD + BED / on_one_bed as u32)
}

/// May all test cases of an iteration be measured on one bed? Those of several configurations or kinds of DUT may not, and other series than plain ones
/// have routes of their own.
fn share_beds(cases: &[Case]) -> bool {
    let same =
        |case: &Case| case.configuration == cases[0].configuration && case.dut == cases[0].dut;
    cases
        .iter()
        .all(|case| same(case) && case.variant.is_plain())
}

/// The control is measured as if it were one more test case.
fn case_of(turn: Turn, cases: &[Case]) -> (usize, bool) {
    match turn.case < cases.len() {
        true => (turn.case, false),
        false => (0, true),
    }
}

/// A trial with its windows: the gate is drawn from all probe readings of the run, so trials are judged at the end.
struct Raw {
    record: TrialRecord,
    windows: Vec<Window>,
}

/// A bed that stands, for the test cases of one iteration.
struct Standing {
    iteration: u32,
    bed: Bed,
    tester: Box<dyn Rig>,
}

/// All trials so far, what was read beside them, and the bed of the last one.
struct Trials {
    calibration: Vec<Reading>,
    readings: Vec<Reading>,
    raw: Vec<Raw>,
    loads: BTreeMap<usize, Overload>,
    /// Why an iteration of a test case has no trial that says it.
    failures: BTreeMap<(usize, u32), Failure>,
    /// Finished iterations, as they were reported.
    reported: BTreeMap<(usize, u32), Iteration>,
    standing: Option<Standing>,
    /// Of which test cases enough was known before this iteration, and how often they were measured.
    known_at: u32,
    known: Vec<(bool, u32)>,
}

impl Trials {
    /// Every trial so far, judged by what has been read until now.
    fn judged(&self) -> Vec<TrialRecord> {
        let gate = of_run(&self.calibration, &self.readings);
        let each = self.raw.iter();
        each.map(|raw| gated(raw.record.clone(), &raw.windows, gate.as_ref()))
            .collect()
    }
}

/// A trial to make.
struct Planned<'a> {
    turn: Turn,
    control: bool,
    stream: &'a Stream,
    load: Option<f64>,
    duration: Duration,
}

/// A trial that is about to be made.
struct Attempt<'a> {
    common: &'a super::Parameters,
    planned: Planned<'a>,
    /// What hooks are told of its iteration, and where they run.
    place: &'a Place,
    hosts: &'a Hosts,
    steps: (usize, usize),
    left: Duration,
}

impl Running<'_> {
    /// Makes every iteration; all is judged at the end, also when it was stopped.
    pub(super) fn by_windows(
        &mut self,
        p: &campaign::Maxfwd,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        let campaign = self.plan.campaign();
        let began = Instant::now();
        let calibration = calibrate(&self.common_of(p, 0), &mut run.info.facts);
        let is_made = |turn: &Turn| self.is_made(turn.case, turn.iteration, measured);
        let turns = self.agenda.turns.iter().filter(|turn| !is_made(turn));
        let mut turns: VecDeque<Turn> = turns.copied().collect();
        let mut trials = self.trials_before(calibration, run, measured)?;
        let (mut done, mut result) = (0, Ok(()));
        let mut attempts: BTreeMap<(usize, u32), Attempts> = BTreeMap::new();
        let mut may_repeat = self.plan.is_command();
        while !self.control.is_stopped() {
            let Some(turn) = turns.pop_front() else {
                if !std::mem::take(&mut may_repeat) || !self.again_helps(&trials) {
                    break;
                }
                let seed = self.plan.seed() + 1;
                let again = sequence(
                    self.agenda.names.len(),
                    campaign.iterations,
                    campaign.order,
                    seed,
                );
                turns.extend(again.into_iter().map(|turn| Turn {
                    iteration: turn.iteration + campaign.iterations,
                    ..turn
                }));
                run.tell(EventKind::Note {
                    text: format!(
                        "too noisy so far, but doubling the iterations may be enough: {} more trials, about {:.0} s",
                        turns.len(),
                        self.agenda.time.as_secs_f64()
                    ),
                })?;
                continue;
            };
            if self.is_enough(turn, &mut trials) {
                continue;
            }
            let planned = self.agenda.time / self.agenda.trials.max(1);
            let pace = ahead::Turns {
                planned: planned * done as u32,
                took: began.elapsed(),
            };
            let left = match done {
                // the first ones look for their loads, which is not done again
                0..3 => planned * (turns.len() + 1) as u32,
                _ => pace.left(planned * (turns.len() + 1) as u32, planned),
            };
            let steps = (done, done + turns.len() + 1);
            done += 1;
            run.wait_while_paused()?;
            let (case, control) = case_of(turn, &campaign.cases);
            if !control {
                self.control.begin_case();
            }
            let made = self.windows(p, turn, steps, left, &mut trials, run);
            if self.control.end_case() && !self.control.is_stopped() {
                trials.standing = None;
                let is_its = |turn: &Turn| case_of(*turn, &campaign.cases) == (case, false);
                let (its, others) = turns.into_iter().partition(is_its);
                turns = others;
                for turn in [turn].into_iter().chain::<VecDeque<Turn>>(its) {
                    trials
                        .failures
                        .insert((case, turn.iteration), SKIPPED.into());
                    self.report_iteration((case, turn.iteration), &mut trials, run)?;
                }
                continue;
            }
            match made {
                Err(LabError::Interrupted) => {}
                Ok(()) => {
                    if !control {
                        self.report_iteration((case, turn.iteration), &mut trials, run)?;
                    }
                }
                Err(error) => {
                    trials.standing = None;
                    let key = (turn.case, turn.iteration);
                    let attempts = attempts.entry(key).or_default();
                    let name = &self.agenda.names[turn.case];
                    if self.tries_again(name, turn.iteration, &error, attempts, run)? {
                        turns.push_front(turn);
                        continue;
                    }
                    if self.plan.is_ended_by(&error) {
                        result = Err(error);
                        break;
                    }
                    match control {
                        false => {
                            let key = (case, turn.iteration);
                            trials.failures.insert(key, Failure::from(&error));
                            self.report_iteration(key, &mut trials, run)?;
                        }
                        // it is of no test case that could tell why it is missing
                        true => run.warn(format!(
                            "the A/A control has no result in iteration {}: {error}",
                            turn.iteration
                        ))?,
                    }
                }
            }
        }
        drop(trials.standing.take());
        result.and(self.judge(trials, run, measured))
    }

    /// Trials of before the run was cut off, with their windows; of a run that begins none.
    fn trials_before(
        &self,
        calibration: Vec<Reading>,
        run: &Run<'_>,
        measured: &mut Measured,
    ) -> Result<Trials, LabError> {
        let raw = std::mem::take(&mut measured.trials).into_iter();
        let raw = raw.map(|record| {
            let windows = kept_windows(run, &record)?;
            Ok(Raw { record, windows })
        });
        let raw: Vec<Raw> = raw.collect::<Result<_, LabError>>()?;
        let windows = raw.iter().flat_map(|raw| &raw.windows);
        let loads = self.before.loads.iter().filter_map(|(of, found)| {
            let overload = Overload {
                load_pps: found.load_pps,
                loses_inside: found.loses_inside,
            };
            let mut names = self.agenda.names.iter();
            Some((names.position(|name| name == of)?, overload))
        });
        Ok(Trials {
            calibration,
            readings: windows.map(|window| window.after.clone()).collect(),
            loads: loads.collect(),
            raw,
            failures: BTreeMap::new(),
            reported: BTreeMap::new(),
            standing: None,
            known_at: 0,
            known: Vec::new(),
        })
    }

    /// Reports an iteration of a test case, judged by the readings until now.
    fn report_iteration(
        &self,
        key: (usize, u32),
        trials: &mut Trials,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        let name = &self.agenda.names[key.0];
        let gate = of_run(&trials.calibration, &trials.readings);
        let own = trials.raw.iter();
        let own = own.filter(|raw| raw.record.test_case == *name && raw.record.iteration == key.1);
        let own: Vec<TrialRecord> = own
            .map(|raw| gated(raw.record.clone(), &raw.windows, gate.as_ref()))
            .collect();
        let made = self.iterations_of(key.0, &own, &trials.failures);
        let Some(iteration) = made.into_iter().find(|one| one.iteration == key.1) else {
            return Ok(());
        };
        run.tell(EventKind::IterationFinished {
            test_case: name.clone(),
            iteration: Box::new(iteration.clone()),
        })?;
        trials.reported.insert(key, iteration);
        Ok(())
    }

    /// Is enough known to leave this turn out?
    fn is_enough(&mut self, turn: Turn, trials: &mut Trials) -> bool {
        let campaign = self.plan.campaign();
        let Some(until) = campaign.until.filter(|until| turn.iteration > until.min) else {
            return false;
        };
        let (case, control) = case_of(turn, &campaign.cases);
        if campaign.order == Order::Grouped || trials.known_at != turn.iteration {
            trials.known_at = turn.iteration;
            let judged = trials.judged();
            let known = (0..campaign.cases.len()).map(|case| {
                let made = self.iterations_of(case, &judged, &trials.failures);
                (look(&made, &until).is_narrow, made.len() as u32)
            });
            trials.known = known.collect();
        }
        let (order, known) = (campaign.order, &trials.known);
        leaves_out((case, control), turn.iteration, known, order)
    }

    fn common_of(&self, p: &campaign::Maxfwd, case: usize) -> super::Parameters {
        let case = &self.plan.campaign().cases[case];
        super::Parameters {
            load: p.load.map(|load| load.0),
            ..self.plan.common(vec![case.stream.clone()], case)
        }
    }

    /// One iteration of one test case; again where it is invalid.
    fn windows(
        &mut self,
        p: &campaign::Maxfwd,
        turn: Turn,
        (done, steps): (usize, usize),
        left: Duration,
        trials: &mut Trials,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        let campaign = self.plan.campaign();
        let (case, control) = case_of(turn, &campaign.cases);
        let common = self.common_of(p, case);
        let stream = &common.streams[0];
        let place = Place::iteration(&self.agenda.names[turn.case], turn.iteration);
        let all = &campaign.hooks;
        for _ in 0..MAX_INVALID {
            let mut standing = self.standing(&common, turn, trials, run)?;
            let hosts = Hosts::of(&standing.bed);
            // what is made again is made on another bed, and so are they
            let before = (When::Before, Every::Iteration);
            let made =
                around_or_error(all, before, &place, &hosts, self.control, run).and_then(|()| {
                    let planned = Planned {
                        turn,
                        control,
                        stream,
                        load: None,
                        duration: p.duration.0,
                    };
                    let attempt = Attempt {
                        common: &common,
                        planned,
                        place: &place,
                        hosts: &hosts,
                        steps: (done, steps),
                        left,
                    };
                    self.attempt(attempt, &mut standing, trials, run)
                });
            let after = (When::After, Every::Iteration);
            let after = around_or_error(all, after, &place, &hosts, &Control::default(), run);
            let is_valid = made?;
            after?;
            // whatever disturbed an invalid one may have changed the DUT: a link that went down took its routes along
            if is_valid {
                trials.standing = Some(standing);
                break;
            }
        }
        Ok(())
    }

    /// One trial of a test case on a bed that stands. Is it valid?
    fn attempt(
        &self,
        attempt: Attempt<'_>,
        standing: &mut Standing,
        trials: &mut Trials,
        run: &mut Run<'_>,
    ) -> Result<bool, LabError> {
        let campaign = self.plan.campaign();
        let Attempt {
            common,
            mut planned,
            place,
            hosts,
            steps: (done, steps),
            left,
        } = attempt;
        let (turn, stream) = (planned.turn, planned.stream);
        let (case, _) = case_of(turn, &campaign.cases);
        let variant = &common.traffic.variants[0];
        let mut bench = Bench {
            bed: &standing.bed,
            tester: standing.tester.as_mut(),
            traffic: common.traffic.frames(stream, variant)?,
            count_reasons: false,
            telemetry: None,
            hooks: None,
            placement: &common.placement,
            control: self.control,
        };
        let known = match trials.loads.get(&case) {
            Some(known) => *known,
            None => match overload(common, &mut bench, stream) {
                Err(error @ LabError::Disturbed { .. }) => {
                    run.warn(format!("during the search for a load: {error}"))?;
                    return Ok(false);
                }
                found => {
                    let found = found?;
                    run.tell(EventKind::LoadFound {
                        of: self.agenda.names[case].clone(),
                        load_pps: found.load_pps,
                        source: match common.load {
                            Some(_) => "as requested".into(),
                            None => "overload".into(),
                        },
                        loses_inside: found.loses_inside,
                    })?;
                    *trials.loads.entry(case).or_insert(found)
                }
            },
        };
        planned.load = known.load_pps;
        let number = trials.raw.len() as u32 + 1;
        let place = place.trial(
            number,
            known.load_pps,
            common.traffic.flows(stream, variant),
        );
        let during = During::of(&campaign.hooks, &place, hosts, &run.info.id);
        bench.count_reasons = known.loses_inside && common.privileged;
        bench.telemetry = common.telemetry.as_ref();
        bench.hooks = Some(&during);
        let progress = Progress {
            name: &self.agenda.names[turn.case],
            planned: &planned,
            iterations: campaign.iterations.max(turn.iteration),
            done: done as u32,
            steps: steps as u32,
            left,
        };
        let started_at = timestamp();
        let gate = of_run(&trials.calibration, &trials.readings);
        let around = |when, control: &Control, run: &mut Run<'_>| {
            let when = (when, Every::Trial);
            hooks::around(&campaign.hooks, when, &place, hosts, control, run)
        };
        let mut amiss = around(When::Before, self.control, run)?;
        let made = trial(&mut bench, &planned, gate.as_ref(), &progress, run);
        if let Ok(Some((_, counted))) = &made {
            for record in &counted.hooks {
                run.keep_hook(record.clone())?;
            }
        }
        amiss.extend(around(When::After, &Control::default(), run)?);
        let Some((windows, mut counted)) = made? else {
            return Err(LabError::Interrupted);
        };
        counted.objections.extend(amiss);
        trials
            .readings
            .extend(windows.iter().map(|w| w.after.clone()));
        let record = TrialRecord {
            test_case: self.agenda.names[turn.case].clone(),
            trial: number,
            started_at,
            variant: variant.clone(),
            ..of_windows(bench.tester, &planned, &windows, &counted)
        };
        run.keep_telemetry(&record, counted.telemetry.as_deref())?;
        keep_windows(run, &record, &windows)?;
        // the gate as known now; in the end all are judged by the final one
        let mut record = gated(record, &windows, gate.as_ref());
        if record.not_saturated && may_offer_more(common, known.load_pps, stream) {
            trials.loads.remove(&case);
            record.validity.reasons.push(NOT_OVERLOADED.into());
        }
        run.writer.trial(&record)?;
        run.tell(EventKind::TrialFinished {
            record: Box::new(record.clone()),
        })?;
        let is_valid = record.validity.is_valid();
        trials.raw.push(Raw { record, windows });
        Ok(is_valid)
    }

    /// The bed of the last trial, where all of this iteration share one, or a fresh one.
    fn standing(
        &mut self,
        common: &super::Parameters,
        turn: Turn,
        trials: &mut Trials,
        run: &mut Run<'_>,
    ) -> Result<Standing, LabError> {
        let shared = share_beds(&self.plan.campaign().cases);
        // the old one goes before the new one comes
        let last = trials.standing.take();
        if let Some(last) = last.filter(|last| shared && last.iteration == turn.iteration) {
            return Ok(last);
        }
        self.restart(&self.agenda.names[turn.case].clone(), run)?;
        let (bed, _) = erect(common)?;
        let (mut tester, words) = open_tester(&bed, common)?;
        run.bed_stands(&bed, &words, common.dut.kind)?;
        if let Some(configuration) = &common.configuration {
            let (stream, control) = (&common.streams[0], self.control);
            let tester = tester.as_mut();
            configure(&bed, 0, tester, stream, configuration, control, run)?;
        }
        Ok(Standing {
            iteration: turn.iteration,
            bed,
            tester,
        })
    }

    /// Would as many trials again make quiet what is not?
    fn again_helps(&self, trials: &Trials) -> bool {
        let judged = trials.judged();
        let cases = self.plan.campaign().cases.iter().enumerate();
        let cases: Vec<TestCase> = cases
            .map(|(index, case)| {
                let iterations = self.iterations_of(index, &judged, &trials.failures);
                self.plan.summarise(case, iterations)
            })
            .collect();
        trust::again_helps(&cases)
    }

    fn iterations_of(
        &self,
        case: usize,
        judged: &[TrialRecord],
        failures: &BTreeMap<(usize, u32), Failure>,
    ) -> Vec<Iteration> {
        let name = &self.agenda.names[case];
        let own = judged.iter().filter(|record| record.test_case == *name);
        let mut all = iterations(own);
        for ((of, number), failure) in failures {
            if *of != case {
                continue;
            }
            match all.iter_mut().find(|one| one.iteration == *number) {
                Some(one) => {
                    *one = std::mem::take(one).with(Some(failure.clone()));
                    // what it belongs to does not count
                    if failure.kind == NoResult::Hook {
                        one.outcomes.clear();
                    }
                }
                None => {
                    let iteration = Iteration {
                        iteration: *number,
                        ..Iteration::default()
                    };
                    all.push(iteration.with(Some(failure.clone())));
                }
            }
        }
        all.sort_by_key(|one| one.iteration);
        all
    }

    /// What all trials say, by the readings of the whole run.
    fn judge(
        &mut self,
        trials: Trials,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        let campaign = self.plan.campaign();
        self.gate = of_run(&trials.calibration, &trials.readings);
        let gate = self.gate.as_ref();
        let raw = trials.raw.into_iter();
        measured.trials = raw
            .map(|raw| gated(raw.record, &raw.windows, gate))
            .collect();
        for (index, name) in self.agenda.names[..campaign.cases.len()].iter().enumerate() {
            let made = self.iterations_of(index, &measured.trials, &trials.failures);
            let has_changed =
                |one: &&Iteration| trials.reported.get(&(index, one.iteration)) != Some(*one);
            for iteration in made.iter().filter(has_changed) {
                run.tell(EventKind::IterationFinished {
                    test_case: name.clone(),
                    iteration: Box::new(iteration.clone()),
                })?;
            }
            self.made[index] = made;
        }
        self.compared = control(&self.agenda.names[0], &measured.trials);
        // the result follows from the trials that are kept
        Ok(run.writer.judged_again(&measured.trials)?)
    }
}

/// Why a trial of windows is invalid whose load was found while the DUT was slower.
const NOT_OVERLOADED: &str =
    "the load does not overload the DUT any more: less than 1.1 times the output was offered";

/// Can a load that was found be looked for again, and a larger one be found? Not one that was requested, that fills the line, or that is all
/// the generator has.
fn may_offer_more(parameters: &super::Parameters, load_pps: Option<f64>, stream: &Stream) -> bool {
    let more = load_pps.map(|pps| SURPLUS * pps);
    parameters.load.is_none() && more.is_some() && parameters.within_line(more, stream) > load_pps
}

/// The load of a stream: as was asked for, or one that overloads the DUT; never above the line.
fn overload(
    parameters: &super::Parameters,
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

/// How fast the DUT's CPU is now, and how far from the others: a fifth of a second of readings. The facts tell the distance.
pub(super) fn calibrate(parameters: &super::Parameters, facts: &mut Facts) -> Vec<Reading> {
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

struct Progress<'a> {
    /// Of the test case.
    name: &'a str,
    planned: &'a Planned<'a>,
    iterations: u32,
    done: u32,
    steps: u32,
    left: Duration,
}

/// One trial, while progress is told from this thread. `None` when the run was stopped in it.
fn trial(
    bench: &mut Bench<'_>,
    planned: &Planned<'_>,
    gate: Option<&Gate>,
    progress: &Progress<'_>,
    run: &mut Run<'_>,
) -> Result<Option<(Vec<Window>, Counted)>, LabError> {
    let Planned {
        stream,
        load,
        duration,
        ..
    } = *planned;
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
        EventKind::Progress {
            activity: format!(
                "{}, iteration {} of {}",
                self.name, self.planned.turn.iteration, self.iterations
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

fn of_windows(
    tester: &dyn Rig,
    planned: &Planned<'_>,
    windows: &[Window],
    counted: &Counted,
) -> TrialRecord {
    let counters = &counted.counters[0];
    let load = planned.load;
    let intended = load.map(|_| counters.generator_sent + counters.generator_not_sent);
    let record = record(tester.names(), planned.stream.clone(), counters, intended);
    let mut reasons = counted.objections.clone();
    reasons.extend(objections(&record.ledger, counters));
    TrialRecord {
        procedure: ID.into(),
        iteration: planned.turn.iteration,
        control: planned.control,
        hold_ups: load.map(|_| HoldUps::Forgive),
        duration_s: windows.last().map_or(0.0, |w| w.start_s + w.duration_s),
        intended_load_pps: load,
        telemetry: telemetry_of(counted, &record),
        validity: Validity { reasons },
        work: counted.work.clone().map(Box::new),
        ..record
    }
}

fn gated(mut record: TrialRecord, windows: &[Window], gate: Option<&Gate>) -> TrialRecord {
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

/// Has a turn been made, by trials of before the run was cut off: one that is valid, or as many as are made at most?
pub(super) fn is_made(test_case: &str, iteration: u32, trials: &[TrialRecord]) -> bool {
    let of_it = |trial: &&TrialRecord| trial.test_case == test_case && trial.iteration == iteration;
    let made = trials.iter().filter(of_it);
    let valid = made.clone().any(|trial| trial.validity.is_valid());
    valid || made.count() >= MAX_INVALID as usize
}

/// File of the windows of a trial.
const WINDOWS: &str = "intervals.csv";

fn keep_windows(run: &Run<'_>, record: &TrialRecord, windows: &[Window]) -> Result<(), LabError> {
    // of several pairs of CPUs in one field, and nothing where no distance was read
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

/// The windows of a trial as [`keep_windows`] kept them.
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
