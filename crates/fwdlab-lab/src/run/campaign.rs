//! Carrying out a plan: every test case as often as it is wanted, in randomised blocks, each on a test bed of its own.
//!
//! A test case of a campaign that fails is told with its reason, and the campaign goes on; a command ends. Every trial is kept with its test
//! case and its iteration, the file and what its configurations were read from beside them. Start with [`start`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fwdlab_engine::sim::{Dut, Simulation};
use fwdlab_measure::campaign::{self as order, Turn, failure_of, seed_of};
use fwdlab_measure::efficiency;
use fwdlab_measure::gate::Gate;
use fwdlab_measure::machine::{Asked, Limit, wants_overload};
use fwdlab_measure::meters::{self, Meters};
use fwdlab_measure::telemetry;
use fwdlab_measure::trust;
use fwdlab_model::campaign::{Case, Kind, Method, Procedure};
use fwdlab_model::comparison::Comparison;
use fwdlab_model::event::{Event, EventKind};
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{Noise, Summary, TrialRecord};
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::units::imix_estimate_l2_bps;
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;

use super::course::{Course, Planned, invalid};
use super::device::{self, Device, Real, Simulated, doubts, simulated_noise};
use super::plan::{Agenda, Plan, agenda};
use super::suite::capacities;
use super::traffic::Traffic;
use super::{
    Control, Measured, Run, carry_out, configure, keep_inputs, manage, open_tester, slices, verify,
    windows,
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
    let agenda = agenda(plan)?;
    let campaign = &plan.campaign;
    // in random order, it would be missed some time
    if campaign.cases.iter().any(|case| case.dut == Kind::Vpp) {
        instance::find(campaign.dut.program.as_deref())?;
    }
    let first = campaign.streams(&campaign.cases[0])?;
    // what test cases are of is kept below, with their names
    let mut common = plan.common(first, &campaign.cases[0]);
    if plan.suite().is_none() {
        common.traffic = Traffic::default();
        common.configuration = None;
    }
    let values = plan.as_values();
    let kind = (plan.command.as_ref()).map_or("campaign", |command| command.kind);
    let mut run = Run::named(&common, &campaign.name, kind, values, runs, listener)?;
    if !plan.is_command() {
        let text = campaign.origin.text.as_bytes();
        run.writer.input("campaign.toml", text)?;
    }
    for (name, configuration) in &plan.configurations {
        let folder = match plan.is_command() {
            true => String::new(),
            false => format!("{name}/"),
        };
        keep_inputs(&run.writer, configuration, &folder)?;
    }
    if let Some(configuration) = plan.applied_to_all() {
        keep_inputs(&run.writer, configuration, "")?;
    }
    for (name, profile) in &plan.profiles {
        let name = name.trim_end_matches(".toml");
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let text = profile.text.as_bytes();
        run.writer.input(&format!("profiles/{name}.toml"), text)?;
    }
    if let Some(dut) = &plan.dut {
        run.info.facts.engine = format!("sim: {dut}");
        run.info.facts.driver = None;
    }
    carry_out(run, |run, measured| {
        let mut running = Running::new(plan, &agenda, control);
        let time = match plan.dut {
            Some(_) => Duration::ZERO,
            None => agenda.time,
        };
        run.started(agenda.trials, time)?;
        let result = match &campaign.procedure {
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
        running.sum_up(run, measured);
        result
    })
}

/// A campaign on its way.
pub(super) struct Running<'a> {
    pub plan: &'a Plan,
    pub agenda: &'a Agenda,
    pub control: &'a Control,
    /// From the readings before the first trial, in the end of all.
    pub gate: Option<Gate>,
    /// Largest load of every stream: the same in all iterations.
    limits: BTreeMap<String, Limit>,
    /// Streams with which the tester cannot fill the line, in words.
    short: Vec<String>,
    /// What was made of each test case.
    pub made: Vec<Vec<Iteration>>,
    invalid: u32,
    /// What a suite found, in all of its test cases.
    found: Vec<Outcome>,
    /// A/A control, where the procedure has one.
    pub compared: Option<Comparison>,
    /// Iterations of the reference once more, for the control of boots.
    pub again: Vec<Iteration>,
    /// What the same configurations cost in instructions, where that was wanted beside rates.
    pub counted: Vec<TestCase>,
}

impl<'a> Running<'a> {
    /// One of which nothing has been measured yet.
    pub(super) fn new(plan: &'a Plan, agenda: &'a Agenda, control: &'a Control) -> Running<'a> {
        Running {
            plan,
            agenda,
            control,
            gate: None,
            limits: BTreeMap::new(),
            short: Vec::new(),
            made: vec![Vec::new(); plan.campaign.cases.len()],
            invalid: 0,
            found: Vec::new(),
            compared: None,
            again: Vec::new(),
            counted: Vec::new(),
        }
    }
}

impl Running<'_> {
    fn turns(&mut self, run: &mut Run<'_>, measured: &mut Measured) -> Result<(), LabError> {
        let agenda = self.agenda;
        let mut later = agenda.time;
        for turn in &agenda.turns {
            if self.control.is_stopped() {
                return Ok(());
            }
            let first = measured.trials.len();
            later = later.saturating_sub(agenda.cases[turn.case].1);
            let (outcomes, failure) = match self.turn(*turn, later, run, measured) {
                Ok((outcomes, None)) => {
                    let failure = failure_of(&outcomes);
                    (outcomes, failure)
                }
                Ok((outcomes, Some(LabError::Interrupted))) if outcomes.is_empty() => return Ok(()),
                Ok((outcomes, Some(error))) if self.plan.is_ended_by(&error) => {
                    self.keep(*turn, outcomes, None, first, run, measured)?;
                    return Err(error);
                }
                Ok((outcomes, Some(error))) => (outcomes, Some(error.to_string())),
                Err(LabError::Interrupted) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.keep(*turn, outcomes, failure, first, run, measured)?;
        }
        Ok(())
    }

    /// Keeps what came of a turn, whose trials are those from this one on.
    fn keep(
        &mut self,
        turn: Turn,
        outcomes: Vec<Outcome>,
        failure: Option<String>,
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
            failure: failure.map(|why| match stopped {
                true => "interrupted".into(),
                false => why,
            }),
            outcomes,
            trials: measured.trials[first..].iter().map(|t| t.trial).collect(),
            // of all test cases at once, in the end
            telemetry: None,
        };
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
        later: Duration,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(Vec<Outcome>, Option<LabError>), LabError> {
        let plan = self.plan;
        let case = &plan.campaign.cases[turn.case];
        let id = plan.id(case);
        let streams = plan.campaign.streams(case)?;
        let common = plan.common(streams, case);
        let asked = plan.asked(seed_of(turn, plan.seed()), case);
        let (steps, time) = self.agenda.cases[turn.case];
        let planned = Planned {
            steps,
            time,
            of_run: self.agenda.trials,
            later,
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
            limits,
            case: of_case,
            planned,
            gate: None,
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
                return Ok((Vec::new(), Some(error)));
            }
        }
        let course = Course {
            streams: &common.streams,
            traffic: &common.traffic,
            procedure: self.plan.procedure(),
            asked,
            capacities: capacities(None, &limits),
            limits,
            case,
            planned,
            gate: self.gate.as_ref(),
            control: self.control,
        };
        let followed = match course.follow(&mut device, run, measured) {
            Ok(followed) => followed,
            Err(error) => return Ok((Vec::new(), Some(error))),
        };
        self.invalid += followed.invalid;
        let undone = device.undo();
        Ok((followed.outcomes, followed.result.and(undone).err()))
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
            // what overloads one kind of DUT says nothing of another
            let id = format!("{}@{}", frames.id(stream), common.dut.kind);
            if let Some(known) = self.limits.get(&id) {
                limits.push(known.clone());
                continue;
            }
            let size = stream.frame_size_bytes;
            let mut is_overload = false;
            let mean = common.traffic.mean().unwrap_or_else(|| size.into());
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
            self.limits.insert(id, found.clone());
            limits.push(found);
        }
        Ok(limits)
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
                let noise = trust::of_trials(self.gate.as_ref(), trials, against);
                trust::of_lossless(noise, &found)
            }
        };
        let common = self.plan.common(Vec::new(), &campaign.cases[0]);
        let mut warnings = match self.plan.dut {
            Some(_) => Vec::new(),
            None if campaign.procedure.method() == Method::Instructions => Vec::new(),
            None => doubts(&common),
        };
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
            test_cases: cases,
            control: self.compared.take(),
            imported: Vec::new(),
            noise,
            warnings,
        });
    }
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
