//! Carrying out a plan: every test case as often as it is wanted, in randomised blocks, each on a test bed of its own.
//!
//! A test case of a campaign that fails is told with its reason, and the campaign goes on; a command ends. Every trial is kept with its test
//! case and its iteration, the file and what its configurations were read from beside them. Start with [`start`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use fwdlab_engine::sim::{Dut, Simulation};
use fwdlab_measure::ahead;
use fwdlab_measure::campaign::{self as order, Turn, failure_of, seed_of};
use fwdlab_measure::efficiency;
use fwdlab_measure::gate::Gate;
use fwdlab_measure::machine::{Asked, Limit, wants_overload};
use fwdlab_measure::meters::{self, Meters};
use fwdlab_measure::precision;
use fwdlab_measure::telemetry;
use fwdlab_measure::trust;
use fwdlab_model::campaign::{Case, Every, Method, Procedure, When};
use fwdlab_model::comparison::Comparison;
use fwdlab_model::event::{Event, EventKind};
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{CUT_OFF, Noise, RunInfo, Summary, TrialRecord};
use fwdlab_model::test_case::{Failure, Iteration, TestCase};
use fwdlab_model::trial::Stream;
use fwdlab_model::units::imix_estimate_l2_bps;
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;

use super::course::{Course, Planned, Tally, invalid};
use super::device::{self, Device, Real, Simulated, doubts, simulated_noise};
use super::hooks::{Hosts, Place, around_or_error};
use super::plan::{Agenda, Plan, agenda};
use super::restarts::Restarts;
use super::resume::{self, Before, CutOff};
use super::suite::capacities;
use super::{
    Control, Measured, Run, carry_out, configure, exact, manage, open_tester, slices, verify,
    windows, with_last_words,
};
use crate::dut::sweep::{Setting, Swept};
use crate::dut::vpp::instance;
use crate::error::LabError;

/// Carries the campaign out. The run directory is made first; on success the caller adds the report and calls [`Run::finish`].
///
/// # Errors
/// Not even the first test bed can be built, or the run cannot be kept. What fails in a test case is in its outcome.
pub fn start<'a>(
    plan: &Plan,
    runs: &Path,
    control: &Control,
    listener: &'a mut dyn FnMut(&Event),
) -> Result<(Run<'a>, Measured), LabError> {
    let (agenda, info) = prepared(plan, runs, control)?;
    let inputs = plan.inputs()?;
    let run = Run::create(info, plan.host.site.is_here(), runs, control, listener)?;
    for (name, bytes) in inputs {
        run.writer.input(&name, &bytes)?;
    }
    let nothing = (Before::default(), Measured::default());
    carried_out(plan, &agenda, run, nothing, control)
}

/// Carries out what is left of a campaign that was cut off, in the same run.
///
/// # Errors
/// As [`start`]; and the plan or the machine is not what it was.
pub fn go_on<'a>(
    plan: &Plan,
    runs: &Path,
    cut: CutOff,
    control: &Control,
    listener: &'a mut dyn FnMut(&Event),
) -> Result<(Run<'a>, Measured), LabError> {
    let (agenda, info) = prepared(plan, runs, control)?;
    let is_here = plan.host.site.is_here();
    let (run, before, measured) = resume::go_on(cut, info, plan, is_here, control, listener)?;
    carried_out(plan, &agenda, run, (before, measured), control)
}

/// What is measured when, and the head of a run of it.
fn prepared(plan: &Plan, runs: &Path, control: &Control) -> Result<(Agenda, RunInfo), LabError> {
    let agenda = agenda(plan)?;
    let campaign = &plan.campaign;
    // in random order, it would be missed some time
    if campaign.cases.iter().any(|case| case.dut.is_vpp()) {
        instance::find(campaign.dut.program.as_deref())?;
    }
    let first = campaign.streams(&campaign.cases[0])?;
    let common = plan.common(first, &campaign.cases[0]);
    common.site.heed(control);
    let kind = (plan.command.as_ref()).map_or("campaign", |command| command.kind);
    let mut info = Run::head(&common, &campaign.name, kind, plan.as_values(), runs);
    if let Some(dut) = &plan.dut {
        info.facts.engine = format!("sim: {dut}");
        info.facts.driver = None;
    }
    Ok((agenda, info))
}

fn carried_out<'a>(
    plan: &Plan,
    agenda: &Agenda,
    run: Run<'a>,
    (before, measured): (Before, Measured),
    control: &Control,
) -> Result<(Run<'a>, Measured), LabError> {
    carry_out(run, measured, |run, measured| {
        let mut running = Running::new(plan, agenda, control);
        let is_resumed = before.is_resumed;
        running.before = before;
        let is_made = |case, iteration| running.is_made(case, iteration, measured);
        let (steps, time) = resume::left(agenda, &is_made);
        run.started(
            steps,
            match plan.dut {
                Some(_) => (Duration::ZERO, false),
                // how many trials a search takes depends on the DUT
                None => (time, plan.campaign.procedure.method() == Method::Trials),
            },
            is_resumed,
        )?;
        running.around(When::Before, control, run)?;
        let result = match &plan.campaign.procedure {
            Procedure::Paired(paired) => match running.by_slices(paired, run, measured) {
                Ok(compared) => {
                    running.compared = compared;
                    let counted = running.beside(run, measured);
                    counted.map(|counted| running.counted = counted)
                }
                Err(error) => Err(error),
            },
            Procedure::Maxfwd(maxfwd) => running.by_windows(maxfwd, run, measured),
            Procedure::Exact(exact) => running.by_instructions(exact, run, measured),
            _ => running.turns(run, measured),
        };
        let result = result.and_then(|()| running.flames(run, measured));
        let after = running.around(When::After, &Control::default(), run);
        running.sum_up(run, measured);
        // what was measured is not worth less by it
        if let (Err(LabError::Hook(why)), Some(summary)) = (&after, &mut measured.summary) {
            summary.warnings.push(why.clone());
            return result;
        }
        result.and(after)
    })
}

/// A campaign on its way.
pub(super) struct Running<'a> {
    pub plan: &'a Plan,
    pub agenda: &'a Agenda,
    pub control: &'a Control,
    /// From the readings before the first trial, in the end of all.
    pub gate: Option<Gate>,
    /// What was measured before the run was cut off.
    pub before: Before,
    /// Largest load of every stream: the same in all iterations, unless one turns out to be wrong.
    limits: BTreeMap<String, Limit>,
    /// Streams with which the tester cannot fill the line, in words.
    short: Vec<String>,
    /// What was made of each test case.
    pub made: Vec<Vec<Iteration>>,
    invalid: u32,
    /// Configurations that the DUT cannot have, and why: they are not tried again in every iteration.
    impossible: BTreeMap<String, String>,
    /// What a suite found, in all of its test cases.
    found: Vec<Outcome>,
    /// A/A control, where the procedure has one.
    pub compared: Option<Comparison>,
    /// Iterations of the reference once more, for the control of boots.
    pub again: Vec<Iteration>,
    /// What the same configurations cost in instructions, where that was wanted beside rates.
    pub counted: Vec<TestCase>,
    /// Restarts of the DUT so far.
    pub restarts: Restarts,
    /// Test cases that are not measured any more because somebody asked for that.
    skipped: BTreeSet<usize>,
}

/// How often what was cut off has been tried again.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    made: usize,
}

/// Why a test case was not measured any more.
pub(super) const SKIPPED: &str = "skipped on request";

/// A pause is looked up from so often, for who does not want to wait for it.
const LOOK: Duration = Duration::from_millis(50);

/// Marks trials of an iteration that is measured again.
fn cut_off(trials: &mut [TrialRecord]) {
    for trial in trials {
        trial.validity.reasons.push(CUT_OFF.into());
    }
}

impl<'a> Running<'a> {
    /// One of which nothing has been measured yet.
    pub(super) fn new(plan: &'a Plan, agenda: &'a Agenda, control: &'a Control) -> Running<'a> {
        Running {
            plan,
            agenda,
            control,
            gate: None,
            before: Before::default(),
            limits: BTreeMap::new(),
            short: Vec::new(),
            made: vec![Vec::new(); plan.campaign.cases.len()],
            invalid: 0,
            impossible: BTreeMap::new(),
            found: Vec::new(),
            compared: None,
            again: Vec::new(),
            counted: Vec::new(),
            restarts: Restarts::default(),
            skipped: BTreeSet::new(),
        }
    }

    /// The hooks around the whole campaign.
    fn around(&self, when: When, control: &Control, run: &mut Run<'_>) -> Result<(), LabError> {
        let hooks = &self.plan.campaign.hooks;
        let place = Place::default();
        let when = (when, Every::Campaign);
        around_or_error(hooks, when, &place, &Hosts::default(), control, run)
    }

    /// Is enough known of a test case, so that it is not measured any more?
    pub(super) fn is_known(&self, case: usize) -> bool {
        let until = self.plan.campaign.until.as_ref();
        until.is_some_and(|until| precision::look(&self.made[case], until).is_narrow)
    }

    /// Restarts the DUT before a bed is built for this test case, where the campaign says so.
    pub(super) fn restart(&mut self, test_case: &str, run: &mut Run<'_>) -> Result<(), LabError> {
        let campaign = &self.plan.campaign;
        let when = (campaign.reboot, campaign.order);
        let (site, control) = (&self.plan.host.site, self.control);
        self.restarts
            .before_bed(when, site, test_case, control, run)
    }
}

impl Running<'_> {
    /// Has an iteration of what is measured in a turn come to its end before the run was cut off?
    pub(super) fn is_made(&self, turn: usize, iteration: u32, measured: &Measured) -> bool {
        if !self.before.is_resumed {
            return false;
        }
        let name = &self.agenda.names[turn];
        match self.plan.campaign.procedure.method() {
            Method::Trials => self.before.iteration(name, iteration).is_some(),
            Method::Slices => self.has_rebuilt(turn, iteration),
            Method::Windows => windows::is_made(name, iteration, &measured.trials),
            Method::Instructions => exact::made(name, iteration, &measured.boots).is_some(),
        }
    }

    fn turns(&mut self, run: &mut Run<'_>, measured: &mut Measured) -> Result<(), LabError> {
        let agenda = self.agenda;
        let mut later = agenda.time;
        let mut pace = ahead::Turns::default();
        // those of iterations that count; what was cut off is told with the gap
        let before = |trial: &&TrialRecord| {
            let made = self.before.iteration(&trial.test_case, trial.iteration);
            made.is_some_and(|made| made.trials.contains(&trial.trial))
        };
        let invalid = measured.trials.iter().filter(before);
        self.invalid = invalid.filter(|trial| !trial.validity.is_valid()).count() as u32;
        for turn in &agenda.turns {
            run.wait_while_paused()?;
            if self.control.is_stopped() {
                return Ok(());
            }
            let name = &agenda.names[turn.case];
            if let Some(made) = self.before.iteration(name, turn.iteration) {
                self.made[turn.case].push(made.clone());
                later = later.saturating_sub(agenda.cases[turn.case].1);
                continue;
            }
            later = later.saturating_sub(agenda.cases[turn.case].1);
            if self.is_known(turn.case) {
                continue;
            }
            if self.skipped.contains(&turn.case) {
                self.skip(*turn, measured.trials.len(), run, measured)?;
                continue;
            }
            let began = Instant::now();
            let mut attempts = Attempts::default();
            let (first, outcomes, failure) = loop {
                let first = measured.trials.len();
                if self.plan.suite().is_none() {
                    self.control.begin_case();
                }
                let made = self.turn(*turn, (later, pace), run, measured);
                if self.control.end_case() && !self.control.is_stopped() {
                    self.skipped.insert(turn.case);
                    break (first, Vec::new(), Some(SKIPPED.into()));
                }
                let (outcomes, error) = match made {
                    Ok((outcomes, None)) => {
                        let failure = failure_of(&outcomes).map(Failure::from);
                        break (first, outcomes, failure);
                    }
                    Ok((outcomes, Some(LabError::Interrupted))) if outcomes.is_empty() => {
                        return Ok(());
                    }
                    Ok((outcomes, Some(error))) => (Some(outcomes), error),
                    Err(LabError::Interrupted) => return Ok(()),
                    Err(error) => (None, error),
                };
                let name = &agenda.names[turn.case];
                if self.tries_again(name, turn.iteration, &error, &mut attempts, run)? {
                    cut_off(&mut measured.trials[first..]);
                    run.writer.judged_again(&measured.trials)?;
                    continue;
                }
                match outcomes {
                    None => return Err(error),
                    // what it belongs to does not count
                    Some(_) if matches!(error, LabError::Hook(_)) => {
                        break (first, Vec::new(), Some(Failure::from(&error)));
                    }
                    Some(outcomes) if self.plan.is_ended_by(&error) => {
                        self.keep(*turn, outcomes, None, first, run, measured)?;
                        return Err(error);
                    }
                    Some(outcomes) => break (first, outcomes, Some(Failure::from(&error))),
                }
            };
            self.keep(*turn, outcomes, failure, first, run, measured)?;
            pace.made(agenda.cases[turn.case].1, began.elapsed());
        }
        Ok(())
    }

    /// Says of an iteration of a test case that was skipped why there is none.
    fn skip(
        &mut self,
        turn: Turn,
        first: usize,
        run: &mut Run<'_>,
        measured: &Measured,
    ) -> Result<(), LabError> {
        self.keep(turn, Vec::new(), Some(SKIPPED.into()), first, run, measured)
    }

    /// Is what a lost host has cut off tried again? Then that is told, and the time has passed after which the host may be there again.
    pub(super) fn tries_again(
        &self,
        name: &str,
        iteration: u32,
        error: &LabError,
        attempts: &mut Attempts,
        run: &mut Run<'_>,
    ) -> Result<bool, LabError> {
        let patience = self.plan.host.site.patience();
        let pause = patience.get(attempts.made);
        let Some(pause) = pause.filter(|_| error.is_lost() && !self.control.is_stopped()) else {
            return Ok(false);
        };
        attempts.made += 1;
        run.warn(format!(
            "{name}, iteration {iteration}: {error}; tried again after {} s ({} of {} times)",
            pause.as_secs(),
            attempts.made,
            patience.len()
        ))?;
        let until = Instant::now() + *pause;
        while Instant::now() < until && !self.control.is_stopped() {
            std::thread::sleep(LOOK.min(*pause));
        }
        Ok(!self.control.is_stopped())
    }

    /// Keeps what came of a turn, whose trials are those from this one on.
    fn keep(
        &mut self,
        turn: Turn,
        outcomes: Vec<Outcome>,
        failure: Option<Failure>,
        first: usize,
        run: &mut Run<'_>,
        measured: &Measured,
    ) -> Result<(), LabError> {
        if self.plan.suite().is_some() {
            self.found = outcomes;
            return Ok(());
        }
        let stopped = self.control.is_stopped();
        let iteration = Iteration {
            iteration: turn.iteration,
            outcomes,
            trials: measured.trials[first..].iter().map(|t| t.trial).collect(),
            // the readings of the DUT's host come in the end, of all test cases at once
            ..Iteration::default()
        };
        let iteration = iteration.with(match (failure, stopped) {
            (Some(_), true) => Some(Failure::from(&LabError::Interrupted)),
            (failure, _) => failure,
        });
        let case = &self.plan.campaign.cases[turn.case];
        run.tell(EventKind::IterationFinished {
            test_case: self.plan.id(case),
            iteration: Box::new(iteration.clone()),
        })?;
        self.made[turn.case].push(iteration);
        Ok(())
    }

    /// One iteration of one test case: what was found, and what failed within it.
    fn turn(
        &mut self,
        turn: Turn,
        (later, pace): (Duration, ahead::Turns),
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(Vec<Outcome>, Option<LabError>), LabError> {
        let plan = self.plan;
        let case = &plan.campaign.cases[turn.case];
        let id = plan.id(case);
        let streams = plan.campaign.streams(case)?;
        let common = plan.common(streams, case);
        let asked = plan.asked(seed_of(turn, plan.seed()), case);
        let (steps, own) = self.agenda.cases[turn.case];
        let planned = Planned {
            steps,
            of_run: self.agenda.trials,
            own,
            later,
            before: pace,
            began: Instant::now(),
        };
        let limits = plan.likely(case)?;
        let of_case = match plan.suite() {
            Some(_) => None,
            None => Some((id.as_str(), turn.iteration)),
        };
        let Some(dut) = &plan.dut else {
            return self.on_bed(&common, &asked, of_case, planned, run, measured);
        };
        if plan.suite().is_some() {
            verify::keep(&asked, &limits, run);
        }
        let course = Course {
            streams: &common.streams,
            traffic: &common.traffic,
            procedure: plan.procedure(),
            asked: &asked,
            capacities: capacities(plan.dut.as_ref(), &limits),
            held: Tally::default(),
            limits,
            case: of_case,
            planned,
            gate: None,
            hooks: &plan.campaign.hooks,
            control: self.control,
        };
        let mut device = Simulated {
            simulation: Simulation::new(match of_case {
                // every iteration has noise of its own
                Some(_) => Dut {
                    seed: asked.seed,
                    ..dut.clone()
                },
                None => dut.clone(),
            }),
            traffic: &common.traffic,
            variant: Variant::default(),
            control: self.control,
            swept: plan.swept.clone(),
            meters: Meters::default(),
        };
        let followed = course.follow(&mut device, run, measured)?;
        self.invalid += followed.invalid;
        Ok((followed.outcomes, followed.result.err()))
    }

    fn on_bed(
        &mut self,
        common: &super::Parameters,
        asked: &Asked,
        case: Option<(&str, u32)>,
        planned: Planned,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(Vec<Outcome>, Option<LabError>), LabError> {
        let configuration = common.configuration.as_ref();
        if let Some(why) = configuration.and_then(|one| self.impossible.get(&one.name)) {
            let why = format!("{why} (found out in an earlier iteration, and not tried again)");
            return Ok((Vec::new(), Some(LabError::Impossible(why))));
        }
        if let Some((test_case, _)) = case {
            match self.restart(test_case, run) {
                Ok(()) => {}
                Err(error @ (LabError::Interrupted | LabError::Store(_))) => return Err(error),
                Err(error) => return Ok((Vec::new(), Some(error))),
            }
        }
        if self.gate.is_none() {
            let readings = windows::calibrate(common, &mut run.info.facts);
            self.gate = Gate::calibrate(&readings);
        }
        let stands = device::erect(common).and_then(|(bed, routes)| {
            let (tester, words) = open_tester(&bed, common)?;
            Ok((bed, tester, words, routes))
        });
        let (bed, tester, words, routes) = match stands {
            Ok(stands) => stands,
            // a host that does not answer once: the others' beds may be built
            Err(error) if run.has_bed => return Ok((Vec::new(), Some(error))),
            Err(error) => return Err(error),
        };
        if !run.has_bed && !routes.is_empty() {
            run.info.facts.placement.insert("routes".into(), routes);
        }
        run.bed_stands(&bed, &words, common.dut.kind)?;
        let swept = self.plan.swept.clone();
        let is_set = |swept: &Swept| !matches!(swept, Swept::Stream | Swept::Units);
        let parameter = asked.sweep.as_ref().map_or("", |sweep| &sweep.parameter);
        let setting = swept
            .filter(is_set)
            .map(|swept| Setting::new(parameter, swept));
        let mut device = Real::new(bed, tester, common, self.control);
        device.setting = setting;
        // what fails from here on is this test case's
        let limits = match self.limits(&mut device, common, run) {
            Ok(limits) => limits,
            Err(error) => return Ok((Vec::new(), Some(error))),
        };
        if self.plan.suite().is_some() {
            verify::keep(asked, &limits, run);
        }
        if let Some(configuration) = &common.configuration {
            let stream = &common.streams[0];
            let control = self.control;
            let (tester, bed) = device.both();
            let applied = configure(bed, 0, tester, stream, configuration, control, run);
            if let Err(error) = applied {
                if error.is_impossible() {
                    let name = configuration.name.clone();
                    self.impossible.insert(name, error.to_string());
                }
                return Ok((Vec::new(), Some(error)));
            }
        }
        let course = Course {
            streams: &common.streams,
            traffic: &common.traffic,
            procedure: self.plan.procedure(),
            asked,
            capacities: device.capacities(&limits),
            held: device.held(),
            limits,
            case,
            planned,
            gate: self.gate.as_ref(),
            hooks: &self.plan.campaign.hooks,
            control: self.control,
        };
        let followed = match course.follow(&mut device, run, measured) {
            Ok(followed) => followed,
            Err(error) => return Ok((Vec::new(), Some(error))),
        };
        self.invalid += followed.invalid;
        self.forget_limits(common, &followed.outcomes);
        let result = (followed.result)
            .map_err(|error| with_last_words(device.bed(), error, "during this test case"));
        let undone = device.undo();
        Ok((followed.outcomes, result.and(undone).err()))
    }

    /// What can be offered: measured when a stream comes for the first time.
    fn limits(
        &mut self,
        device: &mut Real<'_>,
        common: &super::Parameters,
        run: &mut Run<'_>,
    ) -> Result<Vec<Limit>, LabError> {
        let frames = common.traffic.variants[0].frames();
        let mut limits = Vec::new();
        let (bounds, procedure) = (self.plan.bounds(), &self.plan.campaign.procedure);
        for stream in &common.streams {
            let id = id_of_limit(&frames, stream, common);
            if let Some(known) = self.limits.get(&id) {
                limits.push(known.clone());
                continue;
            }
            let size = stream.frame_size_bytes;
            let mut is_overload = false;
            let mean = common.traffic.mean().unwrap_or_else(|| size.into());
            if let Some(before) = self.before.loads.get(&id)
                && let Some(pps) = before.load_pps
            {
                let found = Limit::new(size, mean, bounds.line, pps, before.source.clone());
                self.limits.insert(id, found.clone());
                limits.push(found);
                continue;
            }
            let is_suite = self.plan.suite().is_some();
            let found = bounds.largest(size, mean, || {
                if is_suite {
                    // what can be offered in all of its series
                    return device.sustained_in_all(stream, run);
                }
                let (found, overload) = device.look(run, |device, run| {
                    device.begin(&frames, run)?;
                    let overload = match wants_overload(procedure) {
                        true => device.overload(stream)?,
                        false => None,
                    };
                    let found = match overload {
                        Some(load) => (load, "overload".into()),
                        None => device.sustained(stream)?,
                    };
                    Ok((found, overload.is_some()))
                })?;
                is_overload = overload;
                Ok(found)
            })?;
            self.short
                .extend(bounds.warning(&found).filter(|_| !is_overload));
            run.tell(EventKind::LoadFound {
                of: id.clone(),
                load_pps: Some(found.max_load_pps),
                source: found.source.clone(),
                loses_inside: false,
            })?;
            self.limits.insert(id, found.clone());
            limits.push(found);
        }
        Ok(limits)
    }

    /// A load was found while the machine was as it was then. If it turns out that it does not overload the DUT, or that the generator
    /// does not reach it, the next iteration looks for one again.
    fn forget_limits(&mut self, common: &super::Parameters, found: &[Outcome]) {
        let is_good = |one: &Outcome| one.answered && !one.found.is_tester_bound();
        if !wants_overload(&self.plan.campaign.procedure) || found.iter().all(is_good) {
            return;
        }
        let frames = common.traffic.variants[0].frames();
        for stream in &common.streams {
            let id = id_of_limit(&frames, stream, common);
            self.limits.remove(&id);
            self.before.loads.remove(&id);
        }
    }

    /// What the iterations of a test case say together, and whether its own trials were quiet enough for it.
    fn case(&self, case: &Case, iterations: Vec<Iteration>, trials: &[TrialRecord]) -> TestCase {
        let mut outcome = self.plan.summarise(case, iterations);
        let own = trials.iter().filter(|t| t.test_case == outcome.test_case);
        let of_trials = self.plan.campaign.procedure.method() == Method::Trials;
        if self.plan.dut.is_none() && of_trials && outcome.doubt.is_none() {
            let doubts = trust::doubts_of_trials(self.gate.as_ref(), own);
            outcome.doubt = (!doubts.is_empty()).then(|| doubts.join("; "));
        }
        outcome
    }

    fn sum_up(&mut self, run: &Run<'_>, measured: &mut Measured) {
        let campaign = &self.plan.campaign;
        if campaign.procedure.method() == Method::Trials {
            self.gate = (self.gate.take()).map(|gate| gate.judge_run(&mut measured.trials));
        }
        let trials = &measured.trials;
        let mut cases: Vec<TestCase> = match self.plan.suite() {
            Some(_) => {
                let named = campaign
                    .cases
                    .iter()
                    .map(|case| (self.plan.id(case), case.clone()));
                order::divide(named.collect(), std::mem::take(&mut self.found), trials)
            }
            None => {
                let made = std::mem::take(&mut self.made);
                let cases = campaign.cases.iter().zip(made);
                cases
                    .map(|(case, iterations)| self.case(case, iterations, trials))
                    .collect()
            }
        };
        for case in &mut cases {
            let own = self.counted.iter().filter(|counted| {
                let (counted, case) = (&counted.case, &case.case);
                counted.configuration == case.configuration && counted.stream == case.stream
            });
            let found = own.flat_map(|counted| &counted.outcomes);
            let found: Vec<Outcome> = found.filter(|one| one.answered).cloned().collect();
            case.outcomes.extend(found);
        }
        if let Some(until) = &campaign.until {
            for case in &mut cases {
                let most = campaign.iterations;
                let is_judged_again =
                    campaign.procedure.method() == Method::Windows && !self.control.is_stopped();
                let stopped = precision::stopped(&case.iterations, until, most, is_judged_again);
                case.stopped = Some(stopped);
            }
        }
        efficiency::keep(&mut cases, trials);
        telemetry::into_cases(&mut cases, trials);
        if let Procedure::Exact(p) = &campaign.procedure {
            fwdlab_measure::exact::compare(&mut cases, &p.reference, &self.again);
        }
        let found: Vec<Outcome> = cases
            .iter()
            .flat_map(|case| &case.outcomes)
            .cloned()
            .collect();
        // of tests that belong together
        let against = match self.plan.suite() {
            Some(_) => trust::contradictions(&found),
            None => Vec::new(),
        };
        let noise: Noise = match (&self.plan.dut, campaign.procedure.method()) {
            (Some(dut), _) => simulated_noise(dut, against),
            (None, Method::Slices) => {
                slices::noise(&cases, self.compared.as_ref(), &measured.rebuilds)
            }
            (None, Method::Windows) => {
                trust::of_cases(self.gate.as_ref(), &cases, self.compared.as_ref())
            }
            // what is counted has none
            (None, Method::Instructions) => Noise::none(),
            (None, Method::Trials) => {
                let judge = |against| trust::of_trials(self.gate.as_ref(), trials, against);
                let noise = match judge(against.clone()) {
                    quiet if !quiet.too_noisy && trust::none_is_reliable(&cases) => {
                        judge([against, vec!["no test case can be relied on".into()]].concat())
                    }
                    noise => noise,
                };
                trust::of_lossless(noise, &found)
            }
        };
        let common = self.plan.common(Vec::new(), &campaign.cases[0]);
        let mut warnings = match self.plan.dut {
            Some(_) => Vec::new(),
            None if campaign.procedure.method() == Method::Instructions => Vec::new(),
            None => doubts(&common),
        };
        warnings.extend(run.info.gaps.iter().map(resume::words));
        warnings.append(&mut self.short);
        if let Some(profile) = &common.traffic.profile {
            warnings.extend(profile.notes.clone());
        }
        warnings.extend(manage::doubts(trials));
        warnings.extend(meters::remarks(trials));
        warnings.extend(invalid(self.invalid, trials.len()));
        measured.summary = Some(Summary {
            format: RUN_FORMAT,
            run: run.info.id.clone(),
            procedure: self.plan.procedure().into(),
            imix_estimate_l2_bps: imix_estimate(&cases),
            thresholds: Vec::new(),
            test_cases: cases,
            control: self.compared.take(),
            imported: Vec::new(),
            noise,
            warnings,
        });
    }
}

/// By what the largest load of a stream is known: what overloads one kind of DUT says nothing of another.
fn id_of_limit(frames: &Variant, stream: &Stream, common: &super::Parameters) -> String {
    format!("{}@{}", frames.id(stream), common.dut.kind)
}

/// What a simple IMIX would get, from the rate of the smallest frames of most flows, where windows gave that.
fn imix_estimate(cases: &[TestCase]) -> Option<f64> {
    let with_rate = cases.iter().filter_map(|case| {
        let rate = case.windows()?.forwarding_rate_pps?;
        Some((&case.case.stream, rate))
    });
    let smallest = with_rate
        .min_by_key(|(stream, _)| (stream.frame_size_bytes, std::cmp::Reverse(stream.flows)));
    smallest.map(|(_, pps)| imix_estimate_l2_bps(pps))
}
