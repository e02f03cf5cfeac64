//! Campaigns by slices: every configuration of the matrix compared with the reference DUT, all of
//! them rebuilt for every iteration.
//!
//! Test cases with the same traffic share one [`Row`]; with a sweep each has a DUT for every value.
//! A configuration that cannot be applied leaves its row, and the others are measured. Building and
//! measuring a row is in [`super::row`]. Start with [`Slices`].

use std::time::{Duration, Instant};

use fwdlab_measure::maxfwd::control_of;
use fwdlab_measure::paired::{Budget, CONTROLS, control, iteration, pool};
use fwdlab_measure::trust;
use fwdlab_model::campaign::{self, Case, PLAIN};
use fwdlab_model::event::{Compared, EventKind};
use fwdlab_model::outcome::Paired;
use fwdlab_model::result::Noise;
use fwdlab_model::test_case::{Failure, TestCase};

use super::CountingMethod;
use super::row::{ComparedDut, Row};
use crate::dut::sweep::SweptParameter;
use crate::error::LabError;
use crate::run::campaign::Running;
use crate::run::conduct::{Made, Method, Work};
use crate::run::plan::{Agenda, Plan};
use crate::run::trial::block;
use crate::run::{Measured, Parameters, Run};

/// More DUTs side by side would take longer to build than to measure.
const MOST_DUTS: usize = 64;

/// Fewest blocks of slices per rebuild: with fewer, a rebuild would be useless if a third of them
/// is disturbed.
const ENOUGH_BLOCKS: u32 = 8;

/// Time to build one DUT.
const BUILD: Duration = Duration::from_millis(250);

impl CountingMethod for campaign::Paired {
    fn check(&self, plan: &Plan) -> Result<(), LabError> {
        plan.check_load(self.load)?;
        let campaign = plan.campaign();
        let wrong = |at: &[&str], reason: &str| Err(campaign.error(at, reason).into());
        if plan.host.site.file().is_some() {
            let reason = "the test bed has one DUT, and slices need several side by side: set id = \"mrr\", whose iterations are interleaved, \
                       or measure on the embedded bed";
            return wrong(&["procedure", "id"], reason);
        }
        if campaign.is_simulated() {
            let reason = "slices compare real DUTs side by side; a simulated DUT has no machine noise to cancel";
            return wrong(&["procedure", "id"], reason);
        }
        if self.reference != PLAIN && !campaign.configurations.contains_key(&self.reference) {
            let reason = format!("there is no configuration `{}`", self.reference);
            return wrong(&["procedure", "reference"], &reason);
        }
        if campaign.cases.iter().any(|case| !case.variant.is_plain()) {
            let reason = "slices have test frames in one direction: omit profiles, destinations, directions and modifiers";
            return wrong(&["matrix"], reason);
        }
        if campaign.cases.iter().any(|case| !case.dut.is_linux()) {
            let reason = "slices compare DUTs side by side on the same CPUs, and threads of VPP poll there during another DUT's \
                       turn: measure VPP with mrr, maxfwd or a search";
            return wrong(&["procedure", "id"], reason);
        }
        if let Some(SweptParameter::Stream) = plan.swept_parameter() {
            let reason =
                "slices compare DUTs under the same traffic; set size and flows in [matrix]";
            return wrong(&["procedure", "sweep", "parameter"], reason);
        }
        let groups = self.groups(&campaign.cases);
        let most = groups.iter().map(|group| duts(plan, group)).max();
        if let Some(most) = most.filter(|most| *most > MOST_DUTS) {
            let reason = format!(
                "{most} DUTs would be side by side; the maximum is {MOST_DUTS}: use fewer configurations or values"
            );
            return wrong(&["procedure"], &reason);
        }
        plan.beside().map(drop)
    }

    /// Groups test cases into rows: those with the same traffic.
    fn groups(&self, cases: &[Case]) -> Vec<Vec<usize>> {
        let mut rows: Vec<Vec<usize>> = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let alike = |row: &&mut Vec<usize>| cases[row[0]].stream == case.stream;
            match rows.iter_mut().find(alike) {
                Some(row) => row.push(index),
                None => rows.push(vec![index]),
            }
        }
        rows
    }

    fn estimate(&self, plan: &Plan, cases: &[usize]) -> Result<(u32, Duration), LabError> {
        if let Some(within) = self.within {
            return Ok((1, within.0 / plan.campaign().iterations));
        }
        let duts = duts(plan, cases) as u32;
        Ok((1, time(self, duts) + BUILD * duts))
    }

    fn method<'a>(&'a self, plan: &'a Plan, agenda: &'a Agenda) -> Box<dyn Method + 'a> {
        let rows = agenda.measures.iter().zip(&agenda.names);
        let rows = rows.map(|(measures, name)| prepare_row(plan, self, measures.cases(), name));
        Box::new(Slices {
            p: self,
            rows: rows.collect(),
            deadline: None,
            budget: Budget::default(),
        })
    }

    fn judge(&self, running: &Running<'_>, cases: &mut [TestCase], measured: &Measured) -> Noise {
        trust::of_rebuilds(cases, running.compared.as_ref(), &measured.rebuilds)
    }
}

/// Returns the number of DUTs in the row of these test cases.
fn duts(plan: &Plan, cases: &[usize]) -> usize {
    let sweep = plan.campaign().sweep.as_ref();
    cases.len() * sweep.map_or(1, |sweep| sweep.values.len()) + CONTROLS
}

/// Returns the duration of the slices: the requested one, or longer if the blocks of a rebuild need
/// it.
fn time(p: &campaign::Paired, duts: u32) -> Duration {
    p.duration.0.max(block(duts) * ENOUGH_BLOCKS)
}

/// Rows of DUTs, which are rebuilt in every turn.
struct Slices<'a> {
    p: &'a campaign::Paired,
    rows: Vec<Row<'a>>,
    /// When the last rebuild is to end, if that was requested.
    deadline: Option<Instant>,
    budget: Budget,
}

impl Method for Slices<'_> {
    fn begin(
        &mut self,
        running: &mut Running<'_>,
        _: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        self.deadline = self.p.within.map(|within| Instant::now() + within.0);
        if running.before.is_resumed {
            for (row, name) in self.rows.iter_mut().zip(&running.agenda.names) {
                let load = running.before.loads.get(name);
                row.resume(&measured.rebuilds, load.and_then(|load| load.load_pps));
            }
        }
        Ok(())
    }

    /// Builds the DUTs of a row and measures them once.
    fn measure(
        &mut self,
        work: &Work,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<Option<Made>, LabError> {
        let (plan, turn) = (running.plan, work.turn);
        let row = &mut self.rows[turn.case];
        let is_first = work.steps.0 == 0;
        let turns = work.steps.1 - work.steps.0;
        let deadline = self.deadline;
        let until_deadline = || deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = match until_deadline() {
            Some(left) => self.budget.remaining_for(left, turns),
            None => work.left(),
        };
        run.record_event(progress(running, row, work, left))?;
        let time = time(self.p, row.duts() as u32);
        let mut slices = |building: Duration| match until_deadline() {
            Some(left) => self.budget.share(left, building, turns, is_first),
            None => time,
        };
        loop {
            let error = match row.rebuild(&mut slices, &work.control, run) {
                Ok(record) => {
                    let cases = row.cases().map(|at| {
                        let case = &plan.campaign().cases[at];
                        let made = iteration(&record, turn.iteration, &plan.id(case), case)?;
                        Some((at, made))
                    });
                    let iterations = cases.flatten().collect();
                    measured.rebuilds.push(record);
                    return Ok(Some(Made {
                        iterations,
                        ..Made::default()
                    }));
                }
                Err(error) => error,
            };
            // a configuration that cannot be applied leaves its row, and the others are measured
            let failed = row.failed.take();
            let failed = failed.filter(|_| is_configuration_fault(&error) && !error.is_lost());
            let leaves = failed.filter(|_| !plan.is_ended_by(&error));
            let Some(case) = leaves.and_then(|dut| row.leave(dut)) else {
                return Ok(Some(Made::failed(error)));
            };
            running.dropped.insert(case, Failure::from(&error));
            if row.cases().next().is_none() {
                return Ok(Some(Made::failed(error)));
            }
        }
    }

    fn end(
        &mut self,
        running: &mut Running<'_>,
        _: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        running.compared = control(&measured.rebuilds, &running.plan.campaign().cases);
        Ok(())
    }
}

/// Returns the progress, with the first difference so far.
fn progress(running: &Running<'_>, row: &Row<'_>, work: &Work, left: Duration) -> EventKind {
    let first = row.cases().next().and_then(|case| {
        let iterations = running.made[case].iter();
        let found = iterations.flat_map(|one| &one.outcomes);
        let found = found.filter_map(|outcome| outcome.found.get());
        let found: Vec<&Paired> = found.collect();
        pool(&found)?.points.into_iter().next()
    });
    let first = first.map(|point| point.comparison);
    let estimate = first.as_ref().and_then(|first| {
        let name = first.configuration.split_whitespace().collect::<Vec<_>>();
        let (name, difference) = (name.join(" "), first.difference_percent?);
        Some(match first.interval_percent {
            Some([low, high]) => format!("{name}: {difference:+.1} % [{low:+.1}, {high:+.1}]"),
            None => format!("{name}: {difference:+.1} %"),
        })
    });
    EventKind::Progress {
        activity: format!(
            "iteration {} of {}: {} DUTs side by side",
            work.turn.iteration,
            running.plan.campaign().iterations,
            row.duts()
        ),
        done: work.steps.0,
        steps: work.steps.1,
        left_s: left.as_secs_f64(),
        offered_load_pps: row.load,
        forwarding_rate_pps: first.and_then(|first| first.plain_forwarding_rate_pps),
        estimate,
    }
}

/// Returns true if the configuration or the setting itself fails, which would recur in every
/// rebuild.
fn is_configuration_fault(error: &LabError) -> bool {
    matches!(
        error,
        LabError::NotApplied { .. }
            | LabError::NotSet { .. }
            | LabError::DoesNotForward { .. }
            | LabError::Daemons(_)
    )
}

/// Creates the row of these test cases, before it is built.
fn prepare_row<'a>(
    plan: &'a Plan,
    p: &'a campaign::Paired,
    cases: &[usize],
    name: &str,
) -> Row<'a> {
    let campaign = plan.campaign();
    let first = &campaign.cases[cases[0]];
    let parameters = Parameters {
        load: p.load.map(|load| load.0),
        ..plan.common(vec![first.stream.clone()], first)
    };
    let stream = &parameters.streams[0];
    let settings: Vec<Option<(String, u64)>> = match &campaign.sweep {
        Some(sweep) => {
            let values = sweep.values.iter();
            let settings = values.map(|value| Some((sweep.parameter.clone(), *value)));
            settings.collect()
        }
        None => vec![None],
    };
    let compared = |case: &Case, control: bool, setting: Option<(String, u64)>| Compared {
        test_case: match control {
            true => control_of(&plan.id(case)),
            false => plan.id(case),
        },
        configuration: case.configuration.clone(),
        control,
        stream: stream.clone(),
        setting,
    };
    let reference = Case {
        configuration: p.reference.clone(),
        ..first.clone()
    };
    let references = [false, true].map(|control| compared(&reference, control, None));
    let beside = cases.iter().flat_map(|&at| {
        let case = &campaign.cases[at];
        let duts = settings.iter().map(move |setting| (case, setting.clone()));
        duts.map(move |(case, setting)| (at, case, setting))
    });
    let beside = beside.map(|(at, case, setting)| ComparedDut {
        case: at,
        compared: compared(case, false, setting),
        configuration: plan.configuration(&case.configuration),
    });
    let beside = beside.collect();
    let reference = plan.configuration(&p.reference);
    let swept = plan.swept_parameter();
    Row::new(parameters, name, (reference, references), beside, swept)
}
