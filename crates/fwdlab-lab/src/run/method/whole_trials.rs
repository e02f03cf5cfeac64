//! Trials that count as a whole: a search or a list of loads, on a test bed of its own for every
//! iteration of a test case.
//!
//! Test cases that are measured together are one turn, in which the procedure measures all sizes
//! and series on one bed. [`super::super::procedure_run`] follows the procedure. Start with
//! [`TrialTurns`].

use std::collections::BTreeMap;
use std::time::Duration;

use fwdlab_engine::sim::{Dut, Simulation};
use fwdlab_measure::campaign::{failure_of, seed_of};
use fwdlab_measure::gate::Gate;
use fwdlab_measure::machine::{Asked, Limit, make, wants_overload};
use fwdlab_measure::meters::Meters;
use fwdlab_measure::remaining::Tally;
use fwdlab_measure::trust;
use fwdlab_model::event::EventKind;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{CUT_OFF, Noise};
use fwdlab_model::test_case::{Failure, Iteration, TestCase};
use fwdlab_model::trial::Stream;
use fwdlab_model::variant::Variant;

use super::CountingMethod;
use super::windows::calibrate;
use crate::dut::sweep::{Setting, SweptParameter};
use crate::error::LabError;
use crate::run::campaign::Running;
use crate::run::conduct::{Made, Method, Work};
use crate::run::device::{self, Device, Real, Simulated, simulated_noise};
use crate::run::estimate::{before, capacities, estimated, far_bed};
use crate::run::plan::{Agenda, Plan};
use crate::run::procedure_run::ProcedureRun;
use crate::run::{Measured, Parameters, Run, configure, open_tester, verify, with_last_output};

/// Duration of a test case beyond its trials: a bed, an engine that proves itself, the largest
/// load.
const BED: Duration = Duration::from_secs(3);

/// Trials that count as a whole.
pub(super) struct WholeTrials;

impl CountingMethod for WholeTrials {
    fn check(&self, plan: &Plan) -> Result<(), LabError> {
        let campaign = &plan.campaign;
        let each = if plan.is_together() {
            1
        } else {
            campaign.cases.len()
        };
        for case in &campaign.cases[..each] {
            let at = |reason| campaign.error(&["procedure"], reason);
            make(&plan.asked(0, case), &plan.likely(case)?).map_err(at)?;
        }
        Ok(())
    }

    /// If all test cases are measured together, includes the bed and the search for the largest
    /// load.
    fn estimate(&self, plan: &Plan, cases: &[usize]) -> Result<(u32, Duration), LabError> {
        let case = &plan.campaign.cases[cases.first().copied().unwrap_or(0)];
        let limits = plan.likely(case)?;
        let far_bed = far_bed(&plan.host.site);
        let before = match (&plan.dut, plan.is_together()) {
            (Some(_), _) => Duration::ZERO,
            (None, true) => before(limits.len(), plan.bounds().asked.is_some()) + far_bed,
            (None, false) => BED + far_bed,
        };
        let series = match plan.is_together() {
            true => plan.campaign.variants(case).len() as u32,
            false => 1,
        };
        let requested = plan.asked(plan.seed(), case);
        let (trials, time) = estimated(&requested, &limits, plan.dut.as_ref())?;
        Ok((series * trials, before + series * time))
    }

    fn method<'a>(&'a self, _: &'a Plan, _: &'a Agenda) -> Box<dyn Method + 'a> {
        Box::new(TrialTurns::default())
    }

    fn judge(&self, running: &Running<'_>, cases: &mut [TestCase], measured: &Measured) -> Noise {
        let found = cases.iter().flat_map(|case| &case.outcomes);
        let found: Vec<Outcome> = found.cloned().collect();
        // only tests of one turn can contradict each other
        let against = match running.plan.is_together() {
            true => trust::contradictions(&found),
            false => Vec::new(),
        };
        if let Some(dut) = &running.plan.dut {
            return simulated_noise(dut, against);
        }
        let gate = running.gate.as_ref();
        let judge = |against| trust::of_trials(gate, &measured.trials, against);
        let noise = match judge(against.clone()) {
            quiet if !quiet.too_noisy && trust::none_is_reliable(cases) => {
                judge([against, vec!["no test case can be relied on".into()]].concat())
            }
            noise => noise,
        };
        trust::without_lossless_noise(noise, &found)
    }
}

/// State that all turns share.
#[derive(Default)]
struct TrialTurns {
    /// Largest load of every stream: the same in all iterations, unless one turns out to be wrong.
    limits: BTreeMap<String, Limit>,
    /// Index of the first trial of the last turn.
    first: usize,
    /// Test cases that drop out after it.
    dropped: BTreeMap<usize, Failure>,
}

impl Method for TrialTurns {
    fn measure(
        &mut self,
        work: &Work,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<Option<Made>, LabError> {
        let turn = work.turn;
        self.first = measured.trials.len();
        let (outcomes, error) = self.turn(work, running, run, measured)?;
        if running.plan.is_together() {
            running.found = outcomes;
            return Ok(Some(Made {
                error,
                ..Made::default()
            }));
        }
        let dropped = std::mem::take(&mut self.dropped);
        if error.is_some() && outcomes.is_empty() {
            return Ok(Some(Made {
                error,
                dropped,
                ..Made::default()
            }));
        }
        let failure = failure_of(&outcomes).filter(|_| error.is_none());
        let trials = measured.trials[self.first..].iter();
        let iteration = Iteration {
            iteration: turn.iteration,
            outcomes,
            trials: trials.map(|trial| trial.trial).collect(),
            failure,
            // telemetry of the DUT's host is evaluated at the end, for all test cases together
            ..Iteration::default()
        };
        Ok(Some(Made {
            error,
            dropped,
            ..Made::one(turn.case, iteration)
        }))
    }

    fn forget(&mut self, run: &mut Run<'_>, measured: &mut Measured) -> Result<(), LabError> {
        for trial in &mut measured.trials[self.first..] {
            trial.validity.reasons.push(CUT_OFF.into());
        }
        Ok(run.writer.judged_again(&measured.trials)?)
    }
}

impl TrialTurns {
    /// Measures one iteration of one test case. Returns its outcomes, and the failure within it.
    fn turn(
        &mut self,
        work: &Work,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(Vec<Outcome>, Option<LabError>), LabError> {
        let (plan, turn) = (running.plan, work.turn);
        let case = &plan.campaign.cases[turn.case];
        let id = plan.id(case);
        let streams = plan.campaign.streams(case)?;
        let common = plan.common(streams, case);
        let requested = plan.asked(seed_of(turn, plan.seed()), case);
        let limits = plan.likely(case)?;
        let of_case = match plan.is_together() {
            true => None,
            false => Some((id.as_str(), turn.iteration)),
        };
        let Some(dut) = &plan.dut else {
            return self.on_bed(work, &common, &requested, of_case, running, run, measured);
        };
        if plan.is_together() {
            verify::keep(&requested, &limits, run)?;
        }
        let progress = ProcedureRun {
            streams: &common.streams,
            traffic: &common.traffic,
            procedure: plan.campaign.procedure.id(),
            asked: &requested,
            capacities: capacities(plan.dut.as_ref(), &limits),
            held: Tally::default(),
            limits,
            case: of_case,
            work,
            trials: running.agenda.trials_of(turn),
            gate: None,
            hooks: &plan.campaign.hooks,
        };
        let mut device = Simulated {
            simulation: Simulation::new(match of_case {
                // every iteration has its own noise
                Some(_) => Dut {
                    seed: requested.seed,
                    ..dut.clone()
                },
                None => dut.clone(),
            }),
            traffic: &common.traffic,
            variant: Variant::default(),
            control: &work.control,
            swept: plan.swept.clone(),
            meters: Meters::default(),
        };
        let followed = progress.follow(&mut device, run, measured)?;
        Ok((followed.outcomes, followed.result.err()))
    }

    #[expect(clippy::too_many_arguments, reason = "everything that a turn touches")]
    fn on_bed(
        &mut self,
        work: &Work,
        common: &Parameters,
        requested: &Asked,
        case: Option<(&str, u32)>,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(Vec<Outcome>, Option<LabError>), LabError> {
        let (plan, control) = (running.plan, &work.control);
        if let Some((test_case, _)) = case {
            match running.restart(test_case, control, run) {
                Ok(()) => {}
                Err(error @ (LabError::Interrupted | LabError::Store(_))) => return Err(error),
                Err(error) => return Ok((Vec::new(), Some(error))),
            }
        }
        if running.gate.is_none() {
            let readings = calibrate(common, &mut run.info.facts);
            running.gate = Gate::calibrate(&readings);
        }
        let erected = device::erect(common).and_then(|(bed, routes)| {
            let (tester, words) = open_tester(&bed, common)?;
            Ok((bed, tester, words, routes))
        });
        let (bed, tester, words, routes) = match erected {
            Ok(erected) => erected,
            // if a host does not answer once, other test beds may still be built
            Err(error) if run.has_bed => return Ok((Vec::new(), Some(error))),
            Err(error) => return Err(error),
        };
        if !run.has_bed && !routes.is_empty() {
            run.info.facts.placement.insert("routes".into(), routes);
        }
        run.report_beds(&bed, &words, common.dut.kind)?;
        let swept = plan.swept.clone();
        let is_set = |swept: &SweptParameter| {
            !matches!(swept, SweptParameter::Stream | SweptParameter::Units)
        };
        let parameter = requested
            .sweep
            .as_ref()
            .map_or("", |sweep| &sweep.parameter);
        let setting = swept
            .filter(is_set)
            .map(|swept| Setting::new(parameter, swept));
        let mut device = Real::new(bed, tester, common, control);
        device.setting = setting;
        // a failure from here on affects only this test case
        let limits = match self.limits(&mut device, common, running, run) {
            Ok(limits) => limits,
            Err(error) => return Ok((Vec::new(), Some(error))),
        };
        if plan.is_together() {
            verify::keep(requested, &limits, run)?;
        }
        if let Some(configuration) = &common.configuration {
            let stream = &common.streams[0];
            let (tester, bed) = device.both();
            let applied = configure(bed, 0, tester, stream, configuration, control, run);
            if let Err(error) = applied {
                if error.is_impossible() {
                    self.dropped = with_configuration(&configuration.name, &error, plan);
                }
                return Ok((Vec::new(), Some(error)));
            }
        }
        let progress = ProcedureRun {
            streams: &common.streams,
            traffic: &common.traffic,
            procedure: plan.campaign.procedure.id(),
            asked: requested,
            capacities: device.capacities(&limits),
            held: device.held(),
            limits,
            case,
            work,
            trials: running.agenda.trials_of(work.turn),
            gate: running.gate.as_ref(),
            hooks: &plan.campaign.hooks,
        };
        let followed = match progress.follow(&mut device, run, measured) {
            Ok(followed) => followed,
            Err(error) => return Ok((Vec::new(), Some(error))),
        };
        self.forget_limits(common, &followed.outcomes, running);
        let result = (followed.result)
            .map_err(|error| with_last_output(device.bed(), error, "during this test case"));
        let undone = device.undo();
        Ok((followed.outcomes, result.and(undone).err()))
    }

    /// Returns the largest loads: measured when a stream occurs for the first time.
    fn limits(
        &mut self,
        device: &mut Real<'_>,
        common: &Parameters,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
    ) -> Result<Vec<Limit>, LabError> {
        let frames = common.traffic.variants[0].frames();
        let mut limits = Vec::new();
        let plan = running.plan;
        let (bounds, procedure) = (plan.bounds(), &plan.campaign.procedure);
        for stream in &common.streams {
            let id = id_of_limit(&frames, stream, common);
            if let Some(known) = self.limits.get(&id) {
                limits.push(known.clone());
                continue;
            }
            let size = stream.frame_size_bytes;
            let mut is_overload = false;
            let mean = common.traffic.mean().unwrap_or_else(|| size.into());
            if let Some(before) = running.before.loads.get(&id)
                && let Some(pps) = before.load_pps
            {
                let found = Limit::new(size, mean, bounds.line, pps, before.source.clone());
                self.limits.insert(id, found.clone());
                limits.push(found);
                continue;
            }
            let found = bounds.largest(size, mean, || {
                if plan.is_together() {
                    // the tester must sustain it in all of its series
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
            running
                .warnings
                .extend(bounds.warning(&found).filter(|_| !is_overload));
            run.record_event(EventKind::LoadFound {
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

    /// Forgets a load that no longer overloads the DUT, or that the generator does not reach: it
    /// was found while the machine was in another state, and the next iteration searches again.
    fn forget_limits(&mut self, common: &Parameters, found: &[Outcome], running: &mut Running<'_>) {
        let is_good = |one: &Outcome| one.answered && !one.found.is_tester_bound();
        if !wants_overload(&running.plan.campaign.procedure) || found.iter().all(is_good) {
            return;
        }
        let frames = common.traffic.variants[0].frames();
        for stream in &common.streams {
            let id = id_of_limit(&frames, stream, common);
            self.limits.remove(&id);
            running.before.loads.remove(&id);
        }
    }
}

/// Returns the test cases with a configuration that the DUT cannot have: they are not tried in
/// every iteration.
fn with_configuration(name: &str, error: &LabError, plan: &Plan) -> BTreeMap<usize, Failure> {
    let reason = format!("{error} (found out in an earlier iteration, and not tried again)");
    let reason = Failure::from(&LabError::Impossible(reason));
    let cases = plan.campaign.cases.iter().enumerate();
    cases
        .filter(|(_, case)| case.configuration == name)
        .map(|(at, _)| (at, reason.clone()))
        .collect()
}

/// Returns the key of a stream's largest load, which includes the kind of DUT: what overloads one
/// kind may not overload another.
fn id_of_limit(frames: &Variant, stream: &Stream, common: &Parameters) -> String {
    format!("{}@{}", frames.id(stream), common.dut.kind)
}
