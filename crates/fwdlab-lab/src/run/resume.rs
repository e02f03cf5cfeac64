//! Resumes an interrupted campaign: which iterations are complete, what they found, and whether
//! anything else has changed.
//!
//! An iteration without a recorded end is measured again; its earlier records are kept, marked, and
//! not used. Loads that were found once for all iterations are those of the first session. It
//! measures nothing. Start with [`reopen`]; each procedure's own file reads what it has stored.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use fwdlab_measure::campaign::Turn;
use fwdlab_model::campaign::Counting;
use fwdlab_model::event::{Event, EventKind};
use fwdlab_model::result::{CUT_OFF, FIREWALLS, Gap, RunInfo, RunState, Validity};
use fwdlab_model::test_case::{Iteration, NoResult};
use fwdlab_model::units::counted;
use fwdlab_store::{RunWriter, StoredRun};
use jiff::{SignedDuration, Timestamp};

use super::plan::{Agenda, Plan};
use super::{Control, Measured, Run};
use crate::error::LabError;

/// An unfinished run that is opened to be resumed; it is locked against others.
pub struct CutOff {
    writer: RunWriter,
    stored: StoredRun,
    events: Vec<Event>,
}

/// A load that was found in an earlier session.
#[derive(Debug, Clone)]
pub(super) struct SearchedLoad {
    pub load_pps: Option<f64>,
    pub source: String,
    pub loses_inside: bool,
}

/// What was measured before the run was interrupted.
#[derive(Debug, Default)]
pub(super) struct EarlierResults {
    /// Finished iterations by test case and number.
    iterations: BTreeMap<(String, u32), Iteration>,
    /// Loads by the stream or row that they are of.
    pub loads: BTreeMap<String, SearchedLoad>,
    /// True if the run is resumed.
    pub is_resumed: bool,
}

/// Opens a campaign's run to resume it.
///
/// # Errors
/// Fails if the run is finished, still running, damaged, or not a campaign's.
pub fn reopen(dir: &Path) -> Result<CutOff, LabError> {
    let wrong = |reason: String| Err(LabError::Preflight(reason));
    let (writer, stored) = RunWriter::reopen(dir)?;
    let id = &stored.info.id;
    if stored.info.kind != "campaign" {
        return wrong(format!(
            "{id} is a run of `{}`: only campaigns can be resumed. Start the command again",
            stored.info.kind
        ));
    }
    let order = stored.info.parameters.get("order");
    if order.is_some_and(|order| order == "together") {
        return wrong(format!(
            "{id} measures all test cases in one turn, and none of them is finished: start it again"
        ));
    }
    if stored.state == RunState::Finished {
        return wrong(format!(
            "{id} is finished, there is nothing to resume; --retry {id} repeats its test cases without a result"
        ));
    }
    let events = stored.events();
    Ok(CutOff {
        writer,
        stored,
        events,
    })
}

/// Returns the error of a run that cannot be resumed because something differs.
pub(super) fn differs(id: &str, what: &str, was: &dyn Display, is: &dyn Display) -> LabError {
    LabError::Preflight(format!(
        "cannot resume {id}: {what} was {was} and is {is} now, so the remaining results would not be comparable with the earlier ones. \
         Restore it, or start the campaign again"
    ))
}

impl CutOff {
    /// Returns the head of the run, as it was.
    pub fn info(&self) -> &RunInfo {
        &self.stored.info
    }

    /// Returns the campaign as it was read when the run began; `None` if the run was cut off before
    /// it had kept it.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn campaign(&self) -> Result<Option<String>, LabError> {
        let kept = self.writer.kept_input("campaign.toml")?;
        Ok(kept.map(|kept| String::from_utf8_lossy(&kept).into_owned()))
    }

    /// Checks that plan and machine are the same as at the beginning of the run.
    fn fits(&self, plan: &Plan, now: &RunInfo) -> Result<(), LabError> {
        let info = &self.stored.info;
        let wrong = |action: &str, was: &dyn Display, is: &dyn Display| {
            Err(differs(&info.id, action, was, is))
        };
        if info.format != now.format {
            return wrong("the format of runs", &info.format, &now.format);
        }
        if info.tool_version != now.tool_version {
            return wrong(
                "the version of fwdlab",
                &info.tool_version,
                &now.tool_version,
            );
        }
        let (facts, others) = (&info.facts, &now.facts);
        // a host that does not answer now has no facts, and there will be no bed; counts of
        // instructions depend on the emulator and the images, which are compared when they are
        // known
        let is_known = facts.is_known()
            && others.is_known()
            && plan.campaign().procedure.counting() != Counting::Instructions;
        if is_known && facts.kernel != others.kernel {
            return wrong("the kernel", &facts.kernel, &others.kernel);
        }
        if is_known && (&facts.cpu_model, facts.cpus) != (&others.cpu_model, others.cpus) {
            let words = |facts: &fwdlab_model::facts::Facts| {
                format!(
                    "{} ({})",
                    facts.cpu_model,
                    counted(facts.cpus as usize, "CPU")
                )
            };
            return wrong("the machine", &words(facts), &words(others));
        }
        if info.seed != now.seed {
            return wrong("the seed", &info.seed, &now.seed);
        }
        for (name, value) in &now.parameters {
            let was = info.parameters.get(name);
            // older runs have it in their campaign, which is compared below
            if was.is_none() && ["configurations", FIREWALLS].contains(&name.as_str()) {
                continue;
            }
            if was != Some(value) {
                let was = was.map_or("not said".into(), ToString::to_string);
                return wrong(&format!("`{name}`"), &was, value);
            }
        }
        for (name, bytes) in plan.inputs()? {
            let kept = self.writer.kept_input(&name)?;
            // it was cut off before it had kept them
            if kept.is_none() && self.iterations().is_empty() {
                self.writer.input(&name, &bytes)?;
            } else if kept.as_ref() != Some(&bytes) {
                return Err(LabError::Preflight(format!(
                    "cannot resume {}: {name} has changed since the run began (the original is {}). Restore it, or start the campaign \
                     again",
                    info.id,
                    self.stored.path.join("inputs").join(&name).display()
                )));
            }
        }
        Ok(())
    }

    /// Returns the finished iterations of test cases. Those that a user interrupted are not
    /// finished.
    fn iterations(&self) -> BTreeMap<(String, u32), Iteration> {
        let mut iterations = BTreeMap::new();
        for event in &self.events {
            if let EventKind::IterationFinished {
                test_case,
                iteration,
            } = &event.kind
                && iteration.no_result != NoResult::Interrupted
            {
                let key = (test_case.clone(), iteration.iteration);
                iterations.insert(key, (**iteration).clone());
            }
        }
        iterations
    }

    fn loads(&self) -> BTreeMap<String, SearchedLoad> {
        let found = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::LoadFound {
                of,
                load_pps,
                source,
                loses_inside,
            } => Some((
                of.clone(),
                SearchedLoad {
                    load_pps: *load_pps,
                    source: source.clone(),
                    loses_inside: *loses_inside,
                },
            )),
            _ => None,
        });
        found.collect()
    }

    /// Returns the time of the last event of the run, in seconds since it began.
    fn last_heard(&self) -> f64 {
        self.events.iter().map(|event| event.t).fold(0.0, f64::max)
    }
}

impl EarlierResults {
    /// Returns the result of an iteration of a test case, if it is finished.
    pub fn iteration(&self, test_case: &str, iteration: u32) -> Option<&Iteration> {
        self.iterations.get(&(test_case.to_owned(), iteration))
    }

    /// Returns the finished iterations of a test case.
    pub fn iterations(&self, test_case: &str) -> impl Iterator<Item = &Iteration> {
        let at = |iteration| (test_case.to_owned(), iteration);
        let own = self.iterations.range(at(0)..=at(u32::MAX));
        own.map(|(_, iteration)| iteration)
    }
}

/// Resumes a run: updates its head, loads what was measured into `Measured`, and marks records that
/// belong to no finished iteration.
pub(super) fn go_on<'a>(
    cut: CutOff,
    now: RunInfo,
    plan: &Plan,
    control: &Control,
    listener: &'a mut dyn FnMut(&Event),
) -> Result<(Run<'a>, EarlierResults, Measured), LabError> {
    cut.fits(plan, &now)?;
    let before = EarlierResults {
        iterations: cut.iterations(),
        loads: cut.loads(),
        is_resumed: true,
    };
    let last_heard = cut.last_heard();
    let CutOff {
        mut writer, stored, ..
    } = cut;
    let mut measured = Measured {
        trials: stored.trials,
        rebuilds: stored.rebuilds,
        boots: stored.boots,
        ..Measured::default()
    };
    let after = measured.trials.len() + measured.rebuilds.len() + measured.boots.len();
    let cut_off = mark(&mut measured, &before, plan);
    if cut_off > 0 {
        // a campaign has only one kind of records
        match measured.rebuilds.is_empty() {
            true => writer.judged_again(&measured.trials)?,
            false => writer.judged_again(&measured.rebuilds)?,
        }
    }
    let resumed_at = Timestamp::now();
    let mut info = stored.info;
    let started: Timestamp = info.started_at.parse().unwrap_or(resumed_at);
    let received = SignedDuration::try_from_secs_f64(last_heard).unwrap_or_default();
    info.gaps.push(Gap {
        from: started
            .saturating_add(received)
            .unwrap_or(resumed_at)
            .to_string(),
        to: resumed_at.to_string(),
        after: after as u32,
        discarded: cut_off,
    });
    (info.state, info.finished_at, info.error) = (RunState::Running, None, None);
    writer.go_on(&info)?;
    // if the clock was set back, later events must still not precede earlier ones
    let since = resumed_at.duration_since(started).as_secs_f64();
    let since = Duration::from_secs_f64(since.max(last_heard));
    let run = Run {
        before: since,
        ..Run::new(info, writer, &plan.host.site, control, listener)
    };
    Ok((run, before, measured))
}

/// Marks the records of unfinished iterations, and returns their number. A trial of windows and a
/// boot are iterations of their own.
fn mark(measured: &mut Measured, before: &EarlierResults, plan: &Plan) -> u32 {
    use fwdlab_model::campaign::Counting;
    let mut cut_off = 0;
    // records that are already marked belong to an earlier gap, or to a lost host
    let mut mark = |validity: &mut Validity| {
        if !validity.is_cut_off() {
            cut_off += 1;
            validity.reasons.push(CUT_OFF.into());
        }
    };
    match plan.campaign().procedure.counting() {
        Counting::Trials => {
            for trial in &mut measured.trials {
                let made = before.iteration(&trial.test_case, trial.iteration);
                if !made.is_some_and(|made| made.trials.contains(&trial.trial)) {
                    mark(&mut trial.validity);
                }
            }
        }
        Counting::Slices => {
            for rebuild in &mut measured.rebuilds {
                let of_it = |(key, made): (&(String, u32), &Iteration)| {
                    let mut compared = rebuild.compared.iter();
                    made.trials.contains(&rebuild.rebuild)
                        && compared.any(|dut| !dut.control && dut.test_case == key.0)
                };
                if !before.iterations.iter().any(of_it) {
                    mark(&mut rebuild.validity);
                }
            }
        }
        Counting::Windows | Counting::Instructions => {}
    }
    cut_off
}

/// Returns the remaining trials of a plan, and their time.
pub(super) fn left(agenda: &Agenda, is_made: &dyn Fn(Turn) -> bool) -> (u32, Duration) {
    let turns = agenda.turns.iter();
    let left = turns.filter(|turn| !is_made(**turn));
    left.fold((0, Duration::ZERO), |(trials, time), turn| {
        let (of_one, takes) = agenda.cases[turn.case];
        (trials + of_one, time + takes)
    })
}

/// Describes a gap.
pub(super) fn words(gap: &Gap) -> String {
    let away = match (gap.from.parse::<Timestamp>(), gap.to.parse::<Timestamp>()) {
        (Ok(from), Ok(to)) => to.duration_since(from).as_secs().max(0),
        _ => 0,
    };
    let away = match away {
        0..120 => format!("{away} s"),
        120..7200 => format!("{} min", away / 60),
        _ => format!("{} h {} min", away / 3600, away / 60 % 60),
    };
    let cut_off = match gap.discarded {
        0 => String::new(),
        n => format!(
            "; {} of an iteration that was cut off {} kept and not used",
            counted(n as usize, "trial"),
            if n == 1 { "is" } else { "are" }
        ),
    };
    format!(
        "the run was interrupted after {} and resumed {away} later ({} to {}){cut_off}",
        counted(gap.after as usize, "trial"),
        gap.from,
        gap.to
    )
}

#[cfg(test)]
mod tests;
