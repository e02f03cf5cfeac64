//! Carries out a plan: measures every test case for the planned number of iterations, in randomised
//! blocks, each on a test bed of its own.
//!
//! If a test case fails, its reason is recorded and the campaign continues, unless it ends with the
//! first failure. Every trial is kept with its test case and its iteration, together with the
//! campaign file and the files of its configurations. [`super::conduct`] takes the turns. Start
//! with [`start`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fwdlab_measure::campaign as order;
use fwdlab_measure::efficiency;
use fwdlab_measure::gate::Gate;
use fwdlab_measure::meters;
use fwdlab_measure::precision;
use fwdlab_measure::telemetry;
use fwdlab_measure::trust;
use fwdlab_model::campaign::{Case, Counting, Every, When};
use fwdlab_model::comparison::Comparison;
use fwdlab_model::event::Event;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{RunInfo, Summary, TrialRecord};
use fwdlab_model::test_case::{Failure, Iteration, TestCase};
use fwdlab_model::units::imix_estimate_l2_bps;
use fwdlab_model::version::RUN_FORMAT;

use super::device::caveats;
use super::hooks::{Hosts, Place, run_hooks_or_fail};
use super::method::{self, bursts};
use super::plan::{Agenda, Plan, agenda};
use super::restarts::Restarts;
use super::resume::{self, CutOff, EarlierResults};
use super::{Control, Measured, Run, carry_out, manage, procedure_run};
use crate::dut::vpp::instance;
use crate::error::LabError;

/// Carries the campaign out. Creates the run directory first; on success the caller adds the report
/// and calls [`Run::finish`].
///
/// # Errors
/// Fails if even the first test bed cannot be built, or if the run cannot be stored. Failures in a
/// test case are in its outcome.
pub fn start<'a>(
    plan: &Plan,
    runs: &Path,
    control: &Control,
    listener: &'a mut dyn FnMut(&Event),
) -> Result<(Run<'a>, Measured), LabError> {
    let (agenda, info) = prepared(plan, runs, control)?;
    let inputs = plan.inputs()?;
    let run = Run::create(info, &plan.host.site, runs, control, listener)?;
    for (name, bytes) in inputs {
        run.writer.input(&name, &bytes)?;
    }
    let nothing = (EarlierResults::default(), Measured::default());
    carried_out(plan, &agenda, run, nothing, control)
}

/// Carries out the rest of an interrupted campaign, in the same run.
///
/// # Errors
/// Fails as [`start`] does, and if the plan or the machine has changed.
pub fn go_on<'a>(
    plan: &Plan,
    runs: &Path,
    cut: CutOff,
    control: &Control,
    listener: &'a mut dyn FnMut(&Event),
) -> Result<(Run<'a>, Measured), LabError> {
    let (agenda, info) = prepared(plan, runs, control)?;
    let (run, before, measured) = resume::go_on(cut, info, plan, control, listener)?;
    carried_out(plan, &agenda, run, (before, measured), control)
}

/// Returns the agenda of a plan and the head of its run.
pub(super) fn prepared(
    plan: &Plan,
    runs: &Path,
    control: &Control,
) -> Result<(Agenda, RunInfo), LabError> {
    let agenda = agenda(plan)?;
    let campaign = &plan.campaign;
    // check now: in random order it would be missed only at some later turn
    if campaign
        .cases
        .iter()
        .any(|case| case.dut.is_vpp() && case.image.is_none())
    {
        instance::find(campaign.dut.program.as_deref())?;
    }
    let first = campaign.streams(&campaign.cases[0])?;
    let common = plan.common(first, &campaign.cases[0]);
    common.site.set_control(control);
    let mut info = Run::head(
        &common,
        &campaign.name,
        &plan.host.kind,
        plan.values(),
        runs,
    );
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
    (before, measured): (EarlierResults, Measured),
    control: &Control,
) -> Result<(Run<'a>, Measured), LabError> {
    carry_out(run, measured, |run, measured| {
        let mut running = Running::new(plan, agenda, control);
        let is_resumed = before.is_resumed;
        running.before = before;
        let mut method = method::of(&plan.campaign.procedure).method(plan, agenda);
        let is_made = |turn| method.before(turn, &running, measured).is_some();
        let (steps, time) = resume::left(agenda, &is_made);
        run.started(
            steps,
            match plan.dut {
                Some(_) => (Duration::ZERO, false),
                // the number of trials of a search depends on the DUT
                None => (time, plan.campaign.procedure.counting() == Counting::Trials),
            },
            is_resumed,
        )?;
        running.run_hooks(When::Before, control, run)?;
        let result = running.conduct(method.as_mut(), run, measured);
        let result = result.and_then(|()| running.count_beside(run, measured));
        let result = result.and_then(|()| running.flames(run, measured));
        let after = running.run_hooks(When::After, &Control::default(), run);
        running.sum_up(run, measured);
        // a failed hook at the end does not invalidate what was measured
        if let (Err(LabError::Hook(reason)), Some(summary)) = (&after, &mut measured.summary) {
            summary.warnings.push(reason.clone());
            return result;
        }
        result.and(after)
    })
}

/// A run in progress.
pub(super) struct Running<'a> {
    pub plan: &'a Plan,
    pub agenda: &'a Agenda,
    pub control: &'a Control,
    /// Derived from the readings before the first trial, and at the end from all of them.
    pub gate: Option<Gate>,
    /// What was measured before the run was interrupted.
    pub before: EarlierResults,
    /// Iterations of each test case.
    pub made: Vec<Vec<Iteration>>,
    /// Iterations as they were reported.
    pub reported: BTreeMap<(usize, u32), Iteration>,
    /// Test cases that are no longer measured, with the reason.
    pub dropped: BTreeMap<usize, Failure>,
    /// Iterations that have no result for a reason that their records do not show.
    pub failed: BTreeMap<(usize, u32), Iteration>,
    /// Warnings about the loads.
    pub warnings: Vec<String>,
    /// Outcomes of all test cases that are measured together.
    pub found: Vec<Outcome>,
    /// The A/A control, if the procedure has one.
    pub compared: Option<Comparison>,
    /// Cost of the same configurations in instructions, if it was requested in addition to rates.
    counted: Vec<TestCase>,
    restarts: Restarts,
}

impl<'a> Running<'a> {
    /// Creates one without any measurement.
    pub(super) fn new(plan: &'a Plan, agenda: &'a Agenda, control: &'a Control) -> Running<'a> {
        Running {
            plan,
            agenda,
            control,
            gate: None,
            before: EarlierResults::default(),
            made: vec![Vec::new(); plan.campaign.cases.len()],
            reported: BTreeMap::new(),
            dropped: BTreeMap::new(),
            failed: BTreeMap::new(),
            warnings: Vec::new(),
            found: Vec::new(),
            compared: None,
            counted: Vec::new(),
            restarts: Restarts::default(),
        }
    }

    /// Counts the same configurations in instructions, if that was requested in addition to rates.
    fn count_beside(&mut self, run: &mut Run<'_>, measured: &mut Measured) -> Result<(), LabError> {
        if let (Some(plan), false) = (self.plan.beside()?, self.control.is_stopped()) {
            self.counted = bursts::count_instructions(&plan, self.control, run, measured)?;
        }
        Ok(())
    }

    /// Runs the hooks around the whole campaign.
    fn run_hooks(&self, when: When, control: &Control, run: &mut Run<'_>) -> Result<(), LabError> {
        let hooks = &self.plan.campaign.hooks;
        let place = Place::default();
        let when = (when, Every::Campaign);
        run_hooks_or_fail(hooks, when, &place, &Hosts::default(), control, run)
    }

    /// Restarts the DUT before a bed is built for this test case, if the campaign requests it.
    pub(super) fn restart(
        &mut self,
        test_case: &str,
        control: &Control,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        let campaign = &self.plan.campaign;
        let when = (campaign.reboot, campaign.order);
        let site = &self.plan.host.site;
        self.restarts
            .restart_if_due(when, site, test_case, control, run)
    }
}

impl Running<'_> {
    /// Summarises the iterations of a test case, and whether its own trials were quiet enough.
    fn case(&self, case: &Case, iterations: Vec<Iteration>, trials: &[TrialRecord]) -> TestCase {
        let mut outcome = self.plan.summarise(case, iterations);
        let own = trials.iter().filter(|t| t.test_case == outcome.test_case);
        let of_trials = self.plan.campaign.procedure.counting() == Counting::Trials;
        if self.plan.dut.is_none() && of_trials && outcome.doubt.is_none() {
            let doubts = trust::doubts_of_trials(self.gate.as_ref(), own);
            outcome.doubt = (!doubts.is_empty()).then(|| doubts.join("; "));
        }
        outcome
    }

    fn sum_up(&mut self, run: &Run<'_>, measured: &mut Measured) {
        let campaign = &self.plan.campaign;
        let mut invalid = None;
        if campaign.procedure.counting() == Counting::Trials {
            invalid = procedure_run::invalid(&measured.trials);
            self.gate = (self.gate.take()).map(|gate| gate.judge_run(&mut measured.trials));
        }
        let trials = &measured.trials;
        let mut cases: Vec<TestCase> = match self.plan.is_together() {
            true => {
                let named = campaign.cases.iter().map(|case| {
                    let stream = case.variant.stream(&case.stream);
                    let as_sent = Case {
                        stream,
                        ..case.clone()
                    };
                    (self.plan.id(case), as_sent)
                });
                order::divide(named.collect(), std::mem::take(&mut self.found), trials)
            }
            false => {
                let made = std::mem::take(&mut self.made);
                let cases = campaign.cases.iter().zip(made).enumerate();
                // another shard measures the others
                let is_own = |at: &usize| self.agenda.has_case(*at);
                let own = cases.filter(|(at, _)| self.plan.shard.is_none() || is_own(at));
                own.map(|(_, (case, iterations))| self.case(case, iterations, trials))
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
                let is_judged_again = campaign.procedure.counting() == Counting::Windows
                    && !self.control.is_stopped();
                let stopped = precision::stopped(&case.iterations, until, most, is_judged_again);
                case.stopped = Some(stopped);
            }
        }
        efficiency::keep(&mut cases, trials);
        telemetry::into_cases(&mut cases, trials);
        let noise = method::of(&campaign.procedure).judge(self, &mut cases, measured);
        let common = self.plan.common(Vec::new(), &campaign.cases[0]);
        let mut warnings = match self.plan.dut {
            Some(_) => Vec::new(),
            None if campaign.procedure.counting() == Counting::Instructions => Vec::new(),
            None => caveats(&common),
        };
        warnings.extend(run.info.gaps.iter().map(resume::words));
        warnings.append(&mut self.warnings);
        if let Some(profile) = &common.traffic.profile {
            warnings.extend(profile.notes.clone());
        }
        warnings.extend(manage::caveats(trials));
        warnings.extend(meters::remarks(trials));
        warnings.extend(invalid);
        measured.summary = Some(Summary {
            format: RUN_FORMAT,
            run: run.info.id.clone(),
            procedure: campaign.procedure.id().into(),
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

/// Estimates the rate with a simple IMIX from the rate of the smallest frames with the most flows,
/// if windows were measured.
fn imix_estimate(cases: &[TestCase]) -> Option<f64> {
    let with_rate = cases.iter().filter_map(|case| {
        let rate = case.windows()?.forwarding_rate_pps?;
        Some((&case.case.stream, rate))
    });
    let smallest = with_rate
        .min_by_key(|(stream, _)| (stream.frame_size_bytes, std::cmp::Reverse(stream.flows)));
    smallest.map(|(_, pps)| imix_estimate_l2_bps(pps))
}
