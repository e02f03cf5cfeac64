//! Campaigns by slices: every configuration of the matrix beside the reference DUT, all of them built anew for every iteration.
//!
//! Test cases with the same traffic stand beside each other in one [`Row`]; with a sweep each has a DUT for every value. A configuration that
//! cannot be applied leaves its row, and the others go on. Start with [`rows`] and [`Running::by_slices`].

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fwdlab_measure::ahead;
use fwdlab_measure::campaign::Turn;
use fwdlab_measure::maxfwd::control_of;
use fwdlab_measure::paired::{Rebuild, of_rebuild, pool};
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

use super::campaign::{Attempts, Running, SKIPPED};
use super::paired::{Beside, CONTROLS, Row};
use super::plan::Plan;
use super::trial::block;
use super::{Measured, Run, verify};
use crate::dut::sweep::Swept;
use crate::error::LabError;

/// More DUTs beside each other take longer to build than to measure.
const MOST_DUTS: usize = 64;

/// A rebuild with fewer blocks of slices would say nothing when a third of them is disturbed.
const ENOUGH_BLOCKS: u32 = 8;

/// Shortest slices' time of a rebuild that is worth building for.
const MIN_SLICES: Duration = Duration::from_millis(600);

/// What a rebuild takes beside its slices, until that is known; and more of it is not reckoned with.
const OVERHEAD: Duration = Duration::from_millis(500);
const MOST_OVERHEAD: Duration = Duration::from_secs(2);

/// Time to build one DUT.
const BUILD: Duration = Duration::from_millis(250);

/// Test cases that stand beside each other: those with the same traffic.
pub(super) fn rows(cases: &[Case]) -> Vec<Vec<usize>> {
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

/// Says what slices cannot measure.
pub(super) fn check(parameters: &Plan, p: &campaign::Paired) -> Result<(), FileError> {
    let campaign = parameters.campaign();
    let wrong = |way: &[&str], why: String| Err(campaign.error(way, why));
    if campaign.is_simulated() {
        let why = "slices compare real DUTs that stand beside each other; a simulated DUT has no machine whose noise they cancel";
        return wrong(&["procedure", "id"], why.into());
    }
    if p.reference != PLAIN && !campaign.configurations.contains_key(&p.reference) {
        let why = format!("there is no configuration `{}`", p.reference);
        return wrong(&["procedure", "reference"], why);
    }
    if campaign.cases.iter().any(|case| !case.variant.is_plain()) {
        let why = "slices send test frames one way: leave profiles, destinations, directions and modifiers out";
        return wrong(&["matrix"], why.into());
    }
    if campaign.cases.iter().any(|case| !case.dut.is_linux()) {
        let why = "slices compare DUTs that stand beside each other on the same CPUs, and threads of VPP poll there while it is another one's \
                   turn: measure VPP with mrr, maxfwd or a search";
        return wrong(&["procedure", "id"], why.into());
    }
    if let Some(Swept::Stream) = parameters.swept() {
        let why = "slices compare DUTs under the same traffic; say sizes and flows in the matrix";
        return wrong(&["procedure", "sweep", "parameter"], why.into());
    }
    let values = campaign.sweep.as_ref().map_or(1, |s| s.values.len());
    let rows = rows(&campaign.cases);
    let most = rows.iter().map(Vec::len).max().unwrap_or(0) * values + CONTROLS;
    match most <= MOST_DUTS {
        true => Ok(()),
        false => {
            let why = format!(
                "{most} DUTs would stand beside each other, {MOST_DUTS} are the most: fewer configurations or values"
            );
            wrong(&["procedure"], why)
        }
    }
}

/// What one rebuild of a row takes: trials, and time.
pub(super) fn estimate(parameters: &Plan, p: &campaign::Paired, row: &[usize]) -> (u32, Duration) {
    let campaign = parameters.campaign();
    if let Some(total) = parameters.total() {
        return (1, total / campaign.iterations);
    }
    let sweep = campaign.sweep.as_ref();
    let duts = (row.len() * sweep.map_or(1, |sweep| sweep.values.len()) + CONTROLS) as u32;
    (1, time(p, duts) + BUILD * duts)
}

/// How long slices are made: as was asked for, and long enough for the blocks that a rebuild needs.
fn time(p: &campaign::Paired, duts: u32) -> Duration {
    p.duration.0.max(block(duts) * ENOUGH_BLOCKS)
}

/// A row in words: its test cases.
pub(super) fn name(parameters: &Plan, row: &[usize]) -> String {
    let cases = &parameters.campaign().cases;
    let names: Vec<String> = row.iter().map(|&at| parameters.id(&cases[at])).collect();
    names.join(", ")
}

/// How long slices are made in the next rebuild, where there is a time for all rebuilds together.
struct Budget {
    total: Duration,
    began: Instant,
    /// What the last rebuild took beside its slices.
    overhead: Duration,
}

impl Budget {
    /// The time of building comes out of the share, but for the first rebuild, which also sought the load.
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

    /// The same, and at least the time of the fewest rebuilds.
    fn left_for(&self, rebuilds: usize) -> Duration {
        let least = self.overhead + self.overhead / 2 + MIN_SLICES;
        self.left().max(least * rebuilds as u32)
    }
}

/// What has been found of a row.
struct Standing<'a> {
    row: Row<'a>,
    cases: Vec<Member>,
    control: Vec<Paired>,
}

/// A test case in its row.
struct Member {
    /// Its place among all test cases.
    case: usize,
    /// The numbers of its DUTs, with the value that is set on each.
    duts: Vec<(usize, Option<u64>)>,
    /// Why it has no DUT any more: its configuration cannot be applied.
    gone: Option<Failure>,
}

impl Running<'_> {
    /// Makes every iteration. What is found of a control is returned: the first one, or one that differs from itself.
    pub(super) fn by_slices(
        &mut self,
        p: &campaign::Paired,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<Option<Comparison>, LabError> {
        let parameters = self.plan;
        let campaign = parameters.campaign();
        let rows = rows(&campaign.cases);
        let commons: Vec<super::Parameters> = rows
            .iter()
            .map(|row| {
                let case = &campaign.cases[row[0]];
                super::Parameters {
                    configuration: parameters.applied_to_all().cloned(),
                    load: p.load.map(|load| load.0),
                    ..parameters.common(vec![case.stream.clone()], case)
                }
            })
            .collect();
        let mut standing: Vec<Standing<'_>> = rows
            .iter()
            .zip(&commons)
            .map(|(row, common)| stand(parameters, p, row, common))
            .collect();
        let mut later = self.agenda.time;
        let mut pace = ahead::Turns::default();
        let turns: &[Turn] = &self.agenda.turns;
        let mut budget = parameters.total().map(|total| Budget {
            total,
            began: Instant::now(),
            overhead: OVERHEAD,
        });
        if self.before.is_resumed {
            for (index, standing) in standing.iter_mut().enumerate() {
                self.stood_before(index, p, standing, measured);
            }
        }
        let mut result = Ok(());
        for (done, turn) in turns.iter().enumerate() {
            run.wait_while_paused()?;
            if self.control.is_stopped() {
                break;
            }
            if self.has_rebuilt(turn.case, turn.iteration) {
                later = later.saturating_sub(self.agenda.cases[turn.case].1);
                continue;
            }
            let row = &standing[turn.case];
            // those that are gone say so in every iteration
            let is_known = |one: &Member| self.is_known(one.case);
            let mut others = row.cases.iter().filter(|one| !is_known(one));
            if row.cases.iter().any(is_known) && others.all(|one| one.gone.is_some()) {
                later = later.saturating_sub(self.agenda.cases[turn.case].1);
                continue;
            }
            let planned = self.agenda.cases[turn.case].1;
            let left = match &budget {
                Some(budget) => budget.left_for(turns.len() - done),
                None => pace.left(later, planned),
            };
            run.tell(self.progress(row, turn.iteration, (done, turns.len()), left))?;
            later = later.saturating_sub(planned);
            let began = Instant::now();
            let time = time(p, row.row.duts() as u32);
            let mut slices = |building: Duration| match &mut budget {
                Some(budget) => budget.share(building, (turns.len() - done) as u32, done == 0),
                None => time,
            };
            let row = &mut standing[turn.case];
            self.control.begin_case();
            let mut made = self.rebuild(p, row, turn.iteration, &mut slices, run, measured);
            if self.control.end_case() && !self.control.is_stopped() {
                row.skip();
                if matches!(made, Ok(false)) {
                    made = self.rebuild(p, row, turn.iteration, &mut slices, run, measured);
                }
            }
            pace.made(planned, began.elapsed());
            if let Err(error) = made {
                result = Err(error);
                break;
            }
        }
        let controls = standing.iter().filter_map(|one| {
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
        result.map(|()| controls.into_iter().next())
    }

    /// Has an iteration of a row come to its end before the run was cut off: have all of its test cases?
    pub(super) fn has_rebuilt(&self, row: usize, iteration: u32) -> bool {
        let cases = &self.plan.campaign().cases;
        let mut of_row = rows(cases)[row].clone().into_iter();
        self.before.is_resumed
            && of_row.all(|case| {
                let name = self.plan.id(&cases[case]);
                self.before.iteration(&name, iteration).is_some()
            })
    }

    /// What was found of a row before the run was cut off, and with which load.
    fn stood_before(
        &mut self,
        row: usize,
        p: &campaign::Paired,
        standing: &mut Standing<'_>,
        measured: &Measured,
    ) {
        let campaign = self.plan.campaign();
        let turns = self.agenda.turns.iter().filter(|turn| turn.case == row);
        for turn in turns {
            if !self.has_rebuilt(row, turn.iteration) {
                continue;
            }
            for member in &standing.cases {
                let name = self.plan.id(&campaign.cases[member.case]);
                let made = self.before.iteration(&name, turn.iteration);
                self.made[member.case].extend(made.cloned());
            }
        }
        let names = standing.row.compared.iter().map(|dut| &dut.test_case);
        let names: Vec<&String> = names.collect();
        let is_of_row = |record: &&RebuildRecord| {
            let mut compared = record.compared.iter();
            compared.any(|dut| names.contains(&&dut.test_case))
        };
        let built: Vec<&RebuildRecord> = measured.rebuilds.iter().filter(is_of_row).collect();
        for record in built.iter().filter(|record| record.validity.is_valid()) {
            let result = verify::rebuild(record);
            let of_control = of_rebuild(&result, &p.reference, "control", None, &[(1, None)]);
            standing.control.extend(of_control);
        }
        let load = self.before.loads.get(&self.agenda.names[row]);
        standing
            .row
            .goes_on(built.len() as u32, load.and_then(|load| load.load_pps));
    }

    /// Builds the DUTs of a row and measures them once. Returns false if that was interrupted: then there is no iteration of it.
    fn rebuild(
        &mut self,
        p: &campaign::Paired,
        standing: &mut Standing<'_>,
        iteration: u32,
        slices: &mut dyn FnMut(Duration) -> Duration,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<bool, LabError> {
        let mut rebuilds = Vec::new();
        let mut attempts = Attempts::default();
        let (result, failure) = loop {
            if standing.is_empty() {
                // each says why it is gone
                break (nothing(), None);
            }
            match standing.row.rebuild(slices, self.control, run) {
                Ok(None) | Err(LabError::Interrupted) => return Ok(false),
                Ok(Some((result, record))) => {
                    let reasons = record.validity.reasons.join("; ");
                    rebuilds.push(record.rebuild);
                    measured.rebuilds.push(record);
                    let failure = (!reasons.is_empty()).then(|| Failure::from(reasons));
                    break (result, failure);
                }
                Err(error) => {
                    let name = standing.row.name();
                    if self.tries_again(name, iteration, &error, &mut attempts, run)? {
                        continue;
                    }
                    if self.plan.is_ended_by(&error) {
                        return Err(error);
                    }
                    let failed = standing.row.failed.take();
                    let left = failed
                        .filter(|_| is_its_own(&error))
                        .is_some_and(|dut| standing.leave(dut, Failure::from(&error)));
                    if !left || standing.is_empty() {
                        break (nothing(), Some(Failure::from(&error)));
                    }
                }
            }
        };
        let of = |name: &str, parameter: Option<&str>, duts: &[(usize, Option<u64>)]| {
            of_rebuild(&result, &p.reference, name, parameter, duts)
        };
        if failure.is_none() && !standing.is_empty() {
            standing.control.extend(of("control", None, &[(1, None)]));
        }
        let campaign = self.plan.campaign();
        let parameter = campaign.sweep.as_ref().map(|s| s.parameter.as_str());
        for member in &standing.cases {
            let case = &campaign.cases[member.case];
            let why = member.gone.clone().or_else(|| failure.clone());
            let found = of(&case.configuration, parameter, &member.duts);
            let found = found.filter(|_| why.is_none());
            let failure = match &found {
                Some(_) => None,
                None => Some(why.unwrap_or_else(|| "too few blocks of slices".into())),
            };
            let iteration = Iteration {
                iteration,
                outcomes: found
                    .map(|found| outcome(case, found, &result))
                    .into_iter()
                    .collect(),
                trials: rebuilds.clone(),
                ..Iteration::default()
            };
            let iteration = iteration.with(failure);
            run.tell(EventKind::IterationFinished {
                test_case: self.plan.id(case),
                iteration: Box::new(iteration.clone()),
            })?;
            self.made[member.case].push(iteration);
        }
        Ok(true)
    }
}

impl Running<'_> {
    /// What is under way, and what the first difference is so far.
    fn progress(
        &self,
        standing: &Standing<'_>,
        iteration: u32,
        (done, steps): (usize, usize),
        left: Duration,
    ) -> EventKind {
        let first = standing.cases.first().and_then(|member| {
            let iterations = self.made[member.case].iter();
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
                "iteration {iteration} of {}: {} DUTs beside each other",
                self.plan.campaign().iterations,
                standing.row.duts()
            ),
            done: done as u32,
            steps: steps as u32,
            left_s: left.as_secs_f64(),
            offered_load_pps: standing.row.load,
            forwarding_rate_pps: first.and_then(|first| first.plain_forwarding_rate_pps),
            estimate,
        }
    }
}

fn slices_of(outcome: &Outcome) -> Option<&Paired> {
    match &outcome.found {
        Found::Paired(found) => Some(found),
        _ => None,
    }
}

impl Standing<'_> {
    /// Has every test case left?
    fn is_empty(&self) -> bool {
        self.cases.iter().all(|member| member.gone.is_some())
    }

    /// Skips all test cases of the row, because they are measured at the same time.
    fn skip(&mut self) {
        for member in &mut self.cases {
            member.gone.get_or_insert_with(|| SKIPPED.into());
        }
    }

    /// The test case of a DUT leaves the row, with all of its DUTs. The reference and the control belong to none, and cannot.
    fn leave(&mut self, dut: usize, why: Failure) -> bool {
        let has = |member: &&mut Member| member.duts.iter().any(|(number, _)| *number == dut);
        let Some(member) = self.cases.iter_mut().find(has) else {
            return false;
        };
        let duts = std::mem::take(&mut member.duts);
        member.gone = Some(why);
        let (first, count) = (duts[0].0, duts.len());
        self.row.remove(first, count);
        let others = self.cases.iter_mut().flat_map(|member| &mut member.duts);
        others
            .filter(|(number, _)| *number > first)
            .for_each(|(number, _)| *number -= count);
        true
    }
}

/// Is it the configuration or the setting that fails, and will do so in every rebuild?
fn is_its_own(error: &LabError) -> bool {
    matches!(
        error,
        LabError::NotApplied { .. }
            | LabError::NotSet { .. }
            | LabError::DoesNotForward { .. }
            | LabError::Daemons(_)
    )
}

/// The row of these test cases, before it is built.
fn stand<'a>(
    parameters: &'a Plan,
    p: &'a campaign::Paired,
    row: &[usize],
    common: &'a super::Parameters,
) -> Standing<'a> {
    let campaign = parameters.campaign();
    let values = match &campaign.sweep {
        Some(sweep) => sweep.values.iter().copied().map(Some).collect(),
        None => vec![None],
    };
    let stream = &common.streams[0];
    let name = name(parameters, row);
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
            gone: None,
        });
        for value in &values {
            compared.push(entry(&case.configuration, false, *value, case));
            let sweep = campaign.sweep.as_ref().zip(parameters.swept()).zip(*value);
            beside.push(Beside {
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
    let mut row = Row::new(common, stream, name, beside);
    // a command may call anything plain
    let reference = Some(&p.reference).filter(|name| *name != PLAIN);
    row.reference = reference.and_then(|name| parameters.configuration(name));
    row.compared = compared;
    Standing {
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

/// How much the differences can be trusted.
pub(super) fn noise(
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
    let said = format!(
        "{}, {} of slices; {} left out because the sender was stalled or the DUT's CPU taken{tried}",
        counted(rebuilds.len(), "rebuild"),
        counted(blocks as usize, "block"),
        counted(left_out as usize, "block")
    );
    match control {
        Some(control) => trust::of_comparisons(&all, control, said),
        None => Noise {
            verdict: format!("no result: none of the rebuilds could be used: {said}"),
            too_noisy: true,
            doubts: vec!["none of the rebuilds could be used".into()],
            ..Noise::default()
        },
    }
}

fn nothing() -> Rebuild {
    Rebuild {
        blocks: 0,
        not_offered: 0,
        rates_pps: Vec::new(),
        ln_ratios: Vec::new(),
    }
}
