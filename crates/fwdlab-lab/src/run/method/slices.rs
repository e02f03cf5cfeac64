//! Campaigns by slices: every configuration of the matrix compared with the reference DUT, all of
//! them rebuilt for every iteration.
//!
//! Test cases with the same traffic share one [`Row`]; with a sweep each has a DUT for every value.
//! A configuration that cannot be applied leaves its row, and the others are measured. Building and
//! measuring a row is in [`super::row`]. Start with [`rows`] and [`Slices`].

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fwdlab_measure::maxfwd::control_of;
use fwdlab_measure::paired::{Rebuild, pool, rebuild_result};
use fwdlab_measure::trust;
use fwdlab_model::campaign::{self, Case, PLAIN};
use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::event::{Compared, EventKind, RebuildRecord};
use fwdlab_model::file::FileError;
use fwdlab_model::outcome::{Compliance, Found, Outcome, Paired};
use fwdlab_model::result::Noise;
use fwdlab_model::test_case::{Failure, Iteration, TestCase};
use fwdlab_model::units::counted;
use fwdlab_model::variant::Variant;

use super::row::{CONTROLS, ComparedDut, Row};
use crate::dut::sweep::SweptParameter;
use crate::error::LabError;
use crate::run::campaign::Running;
use crate::run::conduct::{Made, Method, Work};
use crate::run::plan::{Agenda, Plan};
use crate::run::trial::block;
use crate::run::{Measured, Parameters, Run, verify};

/// More DUTs side by side would take longer to build than to measure.
const MOST_DUTS: usize = 64;

/// Fewest blocks of slices per rebuild: with fewer, a rebuild would be useless if a third of them
/// is disturbed.
const ENOUGH_BLOCKS: u32 = 8;

/// Shortest total time of slices that is worth a rebuild.
const MIN_SLICES: Duration = Duration::from_millis(600);

/// Initial estimate of the time that a rebuild takes in addition to its slices, and the maximum
/// that is assumed.
const OVERHEAD: Duration = Duration::from_millis(500);
const MOST_OVERHEAD: Duration = Duration::from_secs(2);

/// Time to build one DUT.
const BUILD: Duration = Duration::from_millis(250);

/// Groups test cases into rows: those with the same traffic.
pub(in crate::run) fn rows(cases: &[Case]) -> Vec<Vec<usize>> {
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

/// Rejects what slices cannot measure.
pub(in crate::run) fn check(parameters: &Plan, p: &campaign::Paired) -> Result<(), FileError> {
    let campaign = parameters.campaign();
    let wrong = |way: &[&str], reason: String| Err(campaign.error(way, reason));
    if campaign.is_simulated() {
        let reason =
            "slices compare real DUTs side by side; a simulated DUT has no machine noise to cancel";
        return wrong(&["procedure", "id"], reason.into());
    }
    if p.reference != PLAIN && !campaign.configurations.contains_key(&p.reference) {
        let reason = format!("there is no configuration `{}`", p.reference);
        return wrong(&["procedure", "reference"], reason);
    }
    if campaign.cases.iter().any(|case| !case.variant.is_plain()) {
        let reason = "slices have test frames in one direction: omit profiles, destinations, directions and modifiers";
        return wrong(&["matrix"], reason.into());
    }
    if campaign.cases.iter().any(|case| !case.dut.is_linux()) {
        let reason = "slices compare DUTs side by side on the same CPUs, and threads of VPP poll there during another DUT's \
                   turn: measure VPP with mrr, maxfwd or a search";
        return wrong(&["procedure", "id"], reason.into());
    }
    if let Some(SweptParameter::Stream) = parameters.swept_parameter() {
        let reason = "slices compare DUTs under the same traffic; set size and flows in [matrix]";
        return wrong(&["procedure", "sweep", "parameter"], reason.into());
    }
    let values = campaign.sweep.as_ref().map_or(1, |s| s.values.len());
    let rows = rows(&campaign.cases);
    let most = rows.iter().map(Vec::len).max().unwrap_or(0) * values + CONTROLS;
    match most <= MOST_DUTS {
        true => Ok(()),
        false => {
            let reason = format!(
                "{most} DUTs would be side by side; the maximum is {MOST_DUTS}: use fewer configurations or values"
            );
            wrong(&["procedure"], reason)
        }
    }
}

/// Returns the number of trials in one rebuild of a row, and its duration.
pub(in crate::run) fn estimate(
    parameters: &Plan,
    p: &campaign::Paired,
    row: &[usize],
) -> (u32, Duration) {
    let campaign = parameters.campaign();
    if let Some(within) = p.within {
        return (1, within.0 / campaign.iterations);
    }
    let sweep = campaign.sweep.as_ref();
    let duts = (row.len() * sweep.map_or(1, |sweep| sweep.values.len()) + CONTROLS) as u32;
    (1, time(p, duts) + BUILD * duts)
}

/// Returns the duration of the slices: the requested one, or longer if the blocks of a rebuild need
/// it.
fn time(p: &campaign::Paired, duts: u32) -> Duration {
    p.duration.0.max(block(duts) * ENOUGH_BLOCKS)
}

/// Divides a time limit for all rebuilds together into the durations of their slices.
struct Budget {
    total: Duration,
    began: Instant,
    /// Time that the last rebuild took in addition to its slices.
    overhead: Duration,
}

impl Budget {
    /// Returns the duration of the slices of the next rebuild: its share of the time minus the time
    /// of building, except in the first rebuild, which also searched for the load.
    fn share(&mut self, building: Duration, rebuilds_left: u32, is_first: bool) -> Duration {
        let share = self.left() / rebuilds_left.max(1);
        let building = if is_first { self.overhead } else { building };
        let slices = share.saturating_sub(building + self.overhead / 2);
        self.overhead = building.min(MOST_OVERHEAD);
        slices.max(MIN_SLICES)
    }

    fn left(&self) -> Duration {
        self.total.saturating_sub(self.began.elapsed())
    }

    /// Returns the remaining time, and at least that of this number of the shortest rebuilds.
    fn remaining_for(&self, rebuilds: u32) -> Duration {
        let least = self.overhead + self.overhead / 2 + MIN_SLICES;
        self.left().max(least * rebuilds)
    }
}

/// Rows of DUTs, which are rebuilt in every turn.
pub(in crate::run) struct Slices<'a> {
    p: &'a campaign::Paired,
    rows: Vec<PreparedRow<'a>>,
    budget: Option<Budget>,
}

/// A row with its test cases and results.
struct PreparedRow<'a> {
    row: Row<'a>,
    cases: Vec<Member>,
    control: Vec<Paired>,
}

/// A test case in its row.
struct Member {
    /// Its index among all test cases.
    case: usize,
    /// The numbers of its DUTs, with the value that is set on each.
    duts: Vec<(usize, Option<u64>)>,
}

impl<'a> Slices<'a> {
    /// Creates the rows of a run, before any of them is built.
    pub fn new(plan: &'a Plan, agenda: &Agenda, p: &'a campaign::Paired) -> Slices<'a> {
        let campaign = plan.campaign();
        let rows = agenda.measures.iter().zip(&agenda.names);
        let rows = rows.map(|(measures, name)| {
            let cases = measures.cases();
            let first = &campaign.cases[cases[0]];
            let common = Parameters {
                load: p.load.map(|load| load.0),
                ..plan.common(vec![first.stream.clone()], first)
            };
            prepare_row(plan, p, cases, common, name.clone())
        });
        Slices {
            p,
            rows: rows.collect(),
            budget: None,
        }
    }
}

impl Method for Slices<'_> {
    fn begin(
        &mut self,
        running: &mut Running<'_>,
        _: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        self.budget = self.p.within.map(|within| Budget {
            total: within.0,
            began: Instant::now(),
            overhead: OVERHEAD,
        });
        if running.before.is_resumed {
            for (standing, name) in self.rows.iter_mut().zip(&running.agenda.names) {
                let load = running.before.loads.get(name);
                standing.resume(self.p, load.and_then(|load| load.load_pps), measured);
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
        let turn = work.turn;
        let standing = &mut self.rows[turn.case];
        let is_first = work.steps.0 == 0;
        let turns = work.steps.1 - work.steps.0;
        let left = match &self.budget {
            Some(budget) => budget.remaining_for(turns),
            None => work.left(),
        };
        run.record_event(progress(running, standing, work, left))?;
        let time = time(self.p, standing.row.duts() as u32);
        let mut slices = |building: Duration| match &mut self.budget {
            Some(budget) => budget.share(building, turns, is_first),
            None => time,
        };
        loop {
            let error = match standing.row.rebuild(&mut slices, &work.control, run) {
                Ok((result, record)) => {
                    let iterations =
                        standing.iterations(running, self.p, turn.iteration, &result, &record);
                    measured.rebuilds.push(record);
                    return Ok(Some(Made {
                        iterations,
                        ..Made::default()
                    }));
                }
                Err(error) => error,
            };
            // a configuration that cannot be applied leaves its row, and the others are measured
            let failed = standing.row.failed.take();
            let failed = failed.filter(|_| is_configuration_fault(&error) && !error.is_lost());
            let leaves = failed.filter(|_| !running.plan.is_ended_by(&error));
            let Some(case) = leaves.and_then(|dut| standing.leave(dut)) else {
                return Ok(Some(Made::failed(error)));
            };
            running.dropped.insert(case, Failure::from(&error));
            if standing.cases.is_empty() {
                return Ok(Some(Made::failed(error)));
            }
        }
    }

    /// Sets the control of the run: the first row's, or one that differs from itself.
    fn end(
        &mut self,
        running: &mut Running<'_>,
        _: &mut Run<'_>,
        _: &mut Measured,
    ) -> Result<(), LabError> {
        let controls = self.rows.iter().filter_map(|one| {
            let pooled = pool(&one.control.iter().collect::<Vec<_>>())?;
            let comparison = pooled.points.into_iter().next()?.comparison;
            Some(Comparison {
                control: true,
                ..comparison
            })
        });
        let mut controls: Vec<Comparison> = controls.collect();
        let differs = |c: &Comparison| matches!(c.verdict, Verdict::Less | Verdict::More);
        controls.sort_by_key(|control| !differs(control));
        running.compared = controls.into_iter().next();
        Ok(())
    }
}

/// Returns the progress, with the first difference so far.
fn progress(
    running: &Running<'_>,
    standing: &PreparedRow<'_>,
    work: &Work,
    left: Duration,
) -> EventKind {
    let first = standing.cases.first().and_then(|member| {
        let iterations = running.made[member.case].iter();
        let found = iterations.flat_map(|one| &one.outcomes);
        let found: Vec<&Paired> = found.filter_map(slices_of).collect();
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
            standing.row.duts()
        ),
        done: work.steps.0,
        steps: work.steps.1,
        left_s: left.as_secs_f64(),
        offered_load_pps: standing.row.load,
        forwarding_rate_pps: first.and_then(|first| first.plain_forwarding_rate_pps),
        estimate,
    }
}

fn slices_of(outcome: &Outcome) -> Option<&Paired> {
    match &outcome.found {
        Found::Paired(found) => Some(found),
        _ => None,
    }
}

impl PreparedRow<'_> {
    /// Restores the rebuilds with this load from before the run was interrupted.
    fn resume(&mut self, p: &campaign::Paired, load: Option<f64>, measured: &Measured) {
        let names = self.row.compared.iter().map(|dut| &dut.test_case);
        let names: Vec<&String> = names.collect();
        let is_of_row = |record: &&RebuildRecord| {
            let mut compared = record.compared.iter();
            compared.any(|dut| names.contains(&&dut.test_case))
        };
        let built: Vec<&RebuildRecord> = measured.rebuilds.iter().filter(is_of_row).collect();
        for record in built.iter().filter(|record| record.validity.is_valid()) {
            let result = verify::rebuild(record);
            let of_control = rebuild_result(&result, &p.reference, "control", None, &[(1, None)]);
            self.control.extend(of_control);
        }
        self.row.goes_on(built.len() as u32, load);
    }

    /// Returns the iteration of each test case from a rebuild, and adds the rebuild to the control.
    fn iterations(
        &mut self,
        running: &Running<'_>,
        p: &campaign::Paired,
        iteration: u32,
        result: &Rebuild,
        record: &RebuildRecord,
    ) -> BTreeMap<usize, Iteration> {
        let of = |name: &str, parameter: Option<&str>, duts: &[(usize, Option<u64>)]| {
            rebuild_result(result, &p.reference, name, parameter, duts)
        };
        let is_valid = record.validity.is_valid();
        if is_valid {
            self.control.extend(of("control", None, &[(1, None)]));
        }
        let campaign = running.plan.campaign();
        let parameter = campaign.sweep.as_ref().map(|s| s.parameter.as_str());
        let each = self.cases.iter().map(|member| {
            let case = &campaign.cases[member.case];
            let found = of(&case.configuration, parameter, &member.duts).filter(|_| is_valid);
            let failure = match (&found, is_valid) {
                (Some(_), _) => None,
                (None, true) => Some("too few blocks of slices".into()),
                (None, false) => Some(Failure::from(record.validity.reasons.join("; "))),
            };
            let outcomes = found.map(|found| outcome(case, found, result));
            let one = Iteration {
                iteration,
                outcomes: outcomes.into_iter().collect(),
                trials: vec![record.rebuild],
                ..Iteration::default()
            };
            (member.case, one.with(failure))
        });
        each.collect()
    }

    /// Removes the test case of this DUT from the row, with all of its DUTs. Returns `None` for the
    /// reference and the control, which belong to no test case.
    fn leave(&mut self, dut: usize) -> Option<usize> {
        let has = |member: &Member| member.duts.iter().any(|(number, _)| *number == dut);
        let at = self.cases.iter().position(has)?;
        let member = self.cases.remove(at);
        let (first, count) = (member.duts[0].0, member.duts.len());
        self.row.remove(first, count);
        let others = self.cases.iter_mut().flat_map(|member| &mut member.duts);
        others
            .filter(|(number, _)| *number > first)
            .for_each(|(number, _)| *number -= count);
        Some(member.case)
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
    parameters: &'a Plan,
    p: &'a campaign::Paired,
    row: &[usize],
    common: Parameters,
    name: String,
) -> PreparedRow<'a> {
    let campaign = parameters.campaign();
    let values = match &campaign.sweep {
        Some(sweep) => sweep.values.iter().copied().map(Some).collect(),
        None => vec![None],
    };
    let stream = &common.streams[0];
    let entry = |name: &str, control: bool, value: Option<u64>, case: &Case| Compared {
        test_case: match control {
            true => control_of(&parameters.id(case)),
            false => parameters.id(case),
        },
        configuration: name.to_owned(),
        control,
        stream: stream.clone(),
        setting: value.and_then(|value| {
            let sweep = campaign.sweep.as_ref()?;
            Some((sweep.parameter.clone(), value))
        }),
    };
    let reference = Case {
        configuration: p.reference.clone(),
        ..campaign.cases[row[0]].clone()
    };
    let mut compared = vec![
        entry(&p.reference, false, None, &reference),
        entry(&p.reference, true, None, &reference),
    ];
    let (mut beside, mut cases) = (Vec::new(), Vec::new());
    for &index in row {
        let case = &campaign.cases[index];
        let first = CONTROLS + beside.len();
        cases.push(Member {
            case: index,
            duts: (first..).zip(values.iter().copied()).collect(),
        });
        for value in &values {
            compared.push(entry(&case.configuration, false, *value, case));
            let sweep = campaign
                .sweep
                .as_ref()
                .zip(parameters.swept_parameter())
                .zip(*value);
            beside.push(ComparedDut {
                name: match (&campaign.sweep, value) {
                    (Some(sweep), Some(value)) => {
                        format!("{}, {value} {}", case.configuration, sweep.parameter)
                    }
                    _ => case.configuration.clone(),
                },
                configuration: parameters.configuration(&case.configuration),
                setting: sweep
                    .map(|((sweep, swept), value)| (sweep.parameter.as_str(), swept, value)),
            });
        }
    }
    let mut row = Row::new(common, name, beside);
    row.reference = parameters.configuration(&p.reference);
    row.compared = compared;
    PreparedRow {
        row,
        cases,
        control: Vec::new(),
    }
}

fn outcome(case: &Case, found: Paired, result: &Rebuild) -> Outcome {
    Outcome {
        frame_size_bytes: case.stream.frame_size_bytes,
        variant: Variant::default(),
        verdict: format!("{} blocks of slices", result.blocks),
        found: Found::Paired(found),
        answered: true,
        not_applicable: false,
        compliance: Compliance::default(),
        warnings: Vec::new(),
        trials: 1,
    }
}

/// Evaluates how trustworthy the differences are.
pub(in crate::run) fn noise(
    cases: &[TestCase],
    control: Option<&Comparison>,
    rebuilds: &[RebuildRecord],
) -> Noise {
    let all = cases.iter().flat_map(TestCase::comparisons);
    let all: Vec<Comparison> = all.cloned().collect();
    let blocks: u32 = rebuilds.iter().map(|rebuild| rebuild.blocks).sum();
    let left_out: u32 = rebuilds.iter().map(|r| r.blocks_not_offered).sum();
    let mut of_length: BTreeMap<Reverse<u64>, usize> = BTreeMap::new();
    for length in rebuilds.iter().filter_map(|record| record.slice_s) {
        *of_length
            .entry(Reverse((1e3 * length).round() as u64))
            .or_default() += 1;
    }
    let lengths = of_length
        .iter()
        .map(|(Reverse(ms), rebuilds)| format!("{rebuilds} with slices of {ms} ms"));
    let tried = match of_length.len() {
        0 | 1 => String::new(),
        _ => format!(
            " ({}: too many longer ones were disturbed)",
            lengths.collect::<Vec<_>>().join(", ")
        ),
    };
    let output = format!(
        "{}, {} of slices; {} left out because the sender was stalled or the DUT's CPU taken{tried}",
        counted(rebuilds.len(), "rebuild"),
        counted(blocks as usize, "block"),
        counted(left_out as usize, "block")
    );
    match control {
        Some(control) => trust::of_comparisons(&all, control, output),
        None => Noise {
            verdict: format!("no result: none of the rebuilds could be used: {output}"),
            too_noisy: true,
            doubts: vec!["none of the rebuilds could be used".into()],
            ..Noise::default()
        },
    }
}
