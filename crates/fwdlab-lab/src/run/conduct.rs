//! The conductor: takes the turns of a run in their order, for every kind of measurement.
//!
//! Decides about pauses, skips, retries after a lost host, resuming, stopping early when results
//! are precise enough, test cases that dropped out, the remaining time, and reports of iterations;
//! no other module does. A [`Method`] measures one turn and does not know the others. Start with
//! [`Running::conduct`].

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use fwdlab_measure::campaign::{Turn, sequence};
use fwdlab_measure::precision::{evaluate, leaves_out};
use fwdlab_measure::remaining;
use fwdlab_model::campaign::Order;
use fwdlab_model::event::EventKind;
use fwdlab_model::test_case::{Failure, Iteration};

use super::campaign::Running;
use super::plan::Measures;
use super::{Control, Measured, Run};
use crate::error::LabError;

/// Reason of a test case that was skipped.
const SKIPPED: &str = "skipped on request";

/// Interval at which a wait for a lost host checks whether the run was stopped.
const LOOK: Duration = Duration::from_millis(50);

/// A method of counting, which measures a turn.
pub(super) trait Method {
    /// Returns the results of this turn from before the run was interrupted, by test case. `None`:
    /// it must be measured.
    fn before(
        &self,
        turn: Turn,
        running: &Running<'_>,
        _: &Measured,
    ) -> Option<BTreeMap<usize, Iteration>> {
        let cases = running.agenda.measures[turn.case].cases();
        let made = cases.iter().map(|&case| {
            let name = running.plan.id(&running.plan.campaign.cases[case]);
            let made = running.before.iteration(&name, turn.iteration)?;
            Some((case, made.clone()))
        });
        made.collect::<Option<_>>()
            .filter(|_| running.before.is_resumed && !cases.is_empty())
    }

    /// Prepares for the first turn, with what was measured before the run was interrupted.
    ///
    /// # Errors
    /// Fails if nothing can be measured.
    fn begin(
        &mut self,
        _: &mut Running<'_>,
        _: &mut Run<'_>,
        _: &mut Measured,
    ) -> Result<(), LabError> {
        Ok(())
    }

    /// Returns true if another turn can start while this number of turns is in progress.
    fn has_room(&self, under_way: usize) -> bool {
        under_way == 0
    }

    /// Measures a turn. `None`: it has started, and [`Method::wait`] returns its result.
    ///
    /// # Errors
    /// Fails with what ends the run, unless the cause is a lost host and a retry helps.
    fn measure(
        &mut self,
        work: &Work,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<Option<Made>, LabError>;

    /// Waits until one of the started turns ends.
    fn wait(
        &mut self,
        _: &mut Running<'_>,
        _: &mut Run<'_>,
        _: &mut Measured,
    ) -> Option<(Turn, Result<Made, LabError>)> {
        None
    }

    /// Discards the records of the last turn, which was interrupted and will be measured again.
    ///
    /// # Errors
    /// Fails if the run cannot be stored.
    fn forget(&mut self, _: &mut Run<'_>, _: &mut Measured) -> Result<(), LabError> {
        Ok(())
    }

    /// Returns true if doubling the iterations is worth the time. Called after the last turn.
    fn wants_more(&mut self, _: &Running<'_>) -> bool {
        false
    }

    /// Evaluates all turns together, also if the run was stopped.
    ///
    /// # Errors
    /// Fails if the run cannot be stored.
    fn end(
        &mut self,
        _: &mut Running<'_>,
        _: &mut Run<'_>,
        _: &mut Measured,
    ) -> Result<(), LabError> {
        Ok(())
    }
}

/// A turn to measure.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub turn: Turn,
    /// Stopped when the run is stopped or this turn is skipped.
    pub control: Control,
    /// Number of turns before this one, and of all turns.
    pub steps: (u32, u32),
    /// Planned time of this turn, and of those after it.
    pub own: Duration,
    pub later: Duration,
    /// Planned and real durations of the turns before it.
    pub pace: remaining::Turns,
    pub began: Instant,
}

impl Work {
    /// Returns the time of this turn and those after it.
    pub fn left(&self) -> Duration {
        self.pace.left(self.own + self.later, self.own)
    }
}

/// Results of a turn.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// By test case.
    pub iterations: BTreeMap<usize, Iteration>,
    /// A failure in this turn, which affects only its own test cases.
    pub error: Option<LabError>,
    /// Test cases that are not measured after this turn, with the reason.
    pub dropped: BTreeMap<usize, Failure>,
}

impl Made {
    /// Creates an empty result with this error.
    pub fn failed(error: LabError) -> Made {
        Made {
            error: Some(error),
            ..Made::default()
        }
    }

    /// Creates the result of one iteration of one test case.
    pub fn one(case: usize, iteration: Iteration) -> Made {
        Made {
            iterations: BTreeMap::from([(case, iteration)]),
            ..Made::default()
        }
    }
}

fn no_control(turn: Turn, reason: &str) -> String {
    let iteration = turn.iteration;
    format!("the A/A control has no result in iteration {iteration}: {reason}")
}

/// Turns that are left, and the pace so far.
struct RemainingTurns {
    turns: VecDeque<Turn>,
    done: u32,
    /// Planned time of `turns`.
    later: Duration,
    pace: remaining::Turns,
    last_end: Instant,
    /// Number of retries of each turn.
    attempts: BTreeMap<(usize, u32), usize>,
    /// Iterations may be doubled once.
    may_double: bool,
    /// Iteration for which `known` was computed: for each test case, whether it is precise enough,
    /// and its number of iterations.
    known_at: u32,
    known: Vec<(bool, u32)>,
}

impl Running<'_> {
    /// Measures every turn of the agenda, then evaluates all of them together, also after a
    /// failure.
    ///
    /// # Errors
    /// Fails with the error that ends the run.
    pub(super) fn conduct(
        &mut self,
        method: &mut dyn Method,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        method.begin(self, run, measured)?;
        let result = self.turns(method, run, measured);
        self.plan.host.site.set_control(self.control);
        let ended = method.end(self, run, measured);
        result.and(ended)?;
        // the final evaluation knows more, and may change some iterations
        for (case, made) in self.made.iter().enumerate() {
            let is_new = |one: &&Iteration| self.reported.get(&(case, one.iteration)) != Some(*one);
            for iteration in made.iter().filter(is_new) {
                run.record_event(self.finished(case, iteration))?;
            }
        }
        Ok(())
    }

    fn finished(&self, case: usize, iteration: &Iteration) -> EventKind {
        EventKind::IterationFinished {
            test_case: self.plan.id(&self.plan.campaign.cases[case]),
            iteration: Box::new(iteration.clone()),
        }
    }

    fn turns(
        &mut self,
        method: &mut dyn Method,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        let agenda = self.agenda;
        let mut left = RemainingTurns {
            turns: VecDeque::new(),
            done: 0,
            later: Duration::ZERO,
            pace: remaining::Turns::default(),
            last_end: Instant::now(),
            attempts: BTreeMap::new(),
            may_double: true,
            known_at: 0,
            known: Vec::new(),
        };
        for &turn in &agenda.turns {
            let Some(made) = method.before(turn, self, measured) else {
                left.turns.push_back(turn);
                left.later += agenda.cases[turn.case].1;
                continue;
            };
            for &case in agenda.measures[turn.case].cases() {
                let id = self.plan.id(&self.plan.campaign.cases[case]);
                let reported = self.before.iteration(&id, turn.iteration);
                let reported = reported.map(|one| ((case, turn.iteration), one.clone()));
                self.reported.extend(reported);
            }
            for (case, iteration) in made {
                self.made[case].push(iteration);
            }
        }
        let mut under_way: Vec<Work> = Vec::new();
        loop {
            let next = match under_way.len() {
                0 => {
                    run.wait_while_paused(self.control)?;
                    self.next(&mut left, method, run)?
                }
                some if method.has_room(some) && !self.control.is_paused() => {
                    self.next(&mut left, method, run)?
                }
                _ => None,
            };
            let (work, made) = match next {
                Some(work) => match method.measure(&work, self, run, measured).transpose() {
                    Some(made) => (work, made),
                    None => {
                        under_way.push(work);
                        continue;
                    }
                },
                None => {
                    let Some((turn, made)) = method.wait(self, run, measured) else {
                        return Ok(());
                    };
                    let at = under_way.iter().position(|work| work.turn == turn);
                    (under_way.remove(at.expect("it has begun")), made)
                }
            };
            let is_skipped = work.control.end_turn() && !self.control.is_stopped();
            let turn = work.turn;
            if is_skipped {
                let cases = agenda.measures[turn.case].cases();
                let its = under_way.iter().filter(|other| {
                    let mut others = agenda.measures[other.turn.case].cases().iter();
                    others.any(|case| cases.contains(case))
                });
                its.for_each(|other| other.control.skip());
            }
            if self.ended(turn, made, is_skipped, &mut left, method, run, measured)? {
                left.turns.push_front(turn);
                left.later += work.own;
                left.done -= 1;
                continue;
            }
            let duration = work.began.max(left.last_end).elapsed();
            left.pace.made(work.own, duration);
            left.last_end = Instant::now();
        }
    }

    /// Returns the next turn to measure. Skips turns whose test cases are known precisely enough;
    /// reports the reason for turns whose test cases have all dropped out.
    fn next(
        &mut self,
        left: &mut RemainingTurns,
        method: &mut dyn Method,
        run: &mut Run<'_>,
    ) -> Result<Option<Work>, LabError> {
        let agenda = self.agenda;
        while !self.control.is_stopped() {
            let Some(turn) = left.turns.pop_front() else {
                if !std::mem::take(&mut left.may_double) || !method.wants_more(self) {
                    break;
                }
                self.double(left, run)?;
                continue;
            };
            let own = agenda.cases[turn.case].1;
            left.later = left.later.saturating_sub(own);
            let measures = &agenda.measures[turn.case];
            let has_dropped_out = |case: &usize| self.dropped.contains_key(case);
            let is_control_of_none =
                matches!(measures, Measures::Control(of) if has_dropped_out(of));
            if is_control_of_none || self.is_enough(turn, left) {
                // a shard without the test case itself does not report why it dropped out
                if let (Measures::Control(of), true) = (measures, self.plan.is_shard())
                    && let Some(failure) = self.dropped.get(of)
                {
                    run.warn(no_control(turn, &failure.why))?;
                }
                continue;
            }
            let cases = measures.cases();
            if !cases.is_empty() && cases.iter().all(has_dropped_out) {
                self.report(turn, BTreeMap::new(), None, run)?;
                continue;
            }
            left.done += 1;
            let work = Work {
                turn,
                control: match measures {
                    Measures::Cases(_) => self.control.begin_turn(),
                    Measures::Control(_) | Measures::Together => self.control.part(),
                },
                steps: (left.done - 1, left.done + left.turns.len() as u32),
                own,
                later: left.later,
                pace: left.pace,
                began: Instant::now(),
            };
            self.plan.host.site.set_control(&work.control);
            return Ok(Some(work));
        }
        Ok(None)
    }

    /// Adds the planned number of iterations again.
    fn double(&self, left: &mut RemainingTurns, run: &mut Run<'_>) -> Result<(), LabError> {
        let (campaign, agenda) = (&self.plan.campaign, self.agenda);
        let iterations = campaign.iterations;
        let seed = self.plan.seed() + 1;
        let again = sequence(agenda.names.len(), iterations, campaign.order, seed);
        let is_own = |turn: &Turn| agenda.turns.iter().any(|own| own.case == turn.case);
        left.turns
            .extend(again.into_iter().filter(is_own).map(|turn| Turn {
                iteration: turn.iteration + iterations,
                ..turn
            }));
        left.later = agenda.time;
        run.record_event(EventKind::Note {
            text: format!(
                "too noisy so far, but doubling the iterations may be enough: {} more trials, about {:.0} s",
                left.turns.len(),
                agenda.time.as_secs_f64()
            ),
        })
    }

    /// Returns true if the results are precise enough to skip this turn.
    fn is_enough(&self, turn: Turn, left: &mut RemainingTurns) -> bool {
        let campaign = &self.plan.campaign;
        let Some(until) = campaign.until.filter(|until| turn.iteration > until.min) else {
            return false;
        };
        if campaign.order == Order::Grouped || left.known_at != turn.iteration {
            left.known_at = turn.iteration;
            let made = self.made.iter().enumerate();
            let known = made.map(|(case, made)| {
                // another shard measures it
                let is_foreign = !self.agenda.has_case(case);
                let is_known = is_foreign || evaluate(made, &until).is_narrow;
                (is_known, made.len() as u32)
            });
            left.known = known.collect();
        }
        let known = &left.known;
        let all = &self.agenda.measures;
        let has_control = all.iter().any(|one| matches!(one, Measures::Control(_)));
        let measures = &all[turn.case];
        if has_control {
            return leaves_out(measures.subject(), turn.iteration, known, campaign.order);
        }
        // in a row, do not wait for test cases that have dropped out
        let mut cases = measures.cases().iter();
        let is_over = |case: &usize| known[*case].0 || self.dropped.contains_key(case);
        cases.clone().any(|case| known[*case].0) && cases.all(is_over)
    }

    /// Handles the result of a turn. Returns true if it must be measured again.
    #[expect(clippy::too_many_arguments, reason = "everything that a turn touches")]
    fn ended(
        &mut self,
        turn: Turn,
        made: Result<Made, LabError>,
        is_skipped: bool,
        left: &mut RemainingTurns,
        method: &mut dyn Method,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<bool, LabError> {
        let is_fatal = made.is_err();
        let made = made.unwrap_or_else(Made::failed);
        let Made {
            iterations,
            error,
            dropped,
        } = made;
        if is_skipped {
            for &case in self.agenda.measures[turn.case].cases() {
                self.dropped.entry(case).or_insert_with(|| SKIPPED.into());
            }
        }
        let Some(error) = error else {
            self.report(turn, iterations, None, run)?;
            return Ok(false);
        };
        if is_skipped {
            self.report(turn, BTreeMap::new(), None, run)?;
            return Ok(false);
        }
        let attempts = left
            .attempts
            .entry((turn.case, turn.iteration))
            .or_default();
        if self.should_retry(turn, &error, attempts, run)? {
            method.forget(run, measured)?;
            return Ok(true);
        }
        // what failed while the run was stopped failed for that reason
        let is_stopped = match error {
            LabError::Interrupted => true,
            LabError::Store(_) => false,
            _ => self.control.is_stopped(),
        };
        if is_stopped {
            // what was found so far is shown, but does not count when the run is resumed
            if !iterations.is_empty() {
                self.report(turn, iterations, Some(&LabError::Interrupted), run)?;
            }
            self.control.stop();
            return Ok(false);
        }
        if is_fatal || self.plan.is_ended_by(&error) {
            return Err(error);
        }
        match &self.agenda.measures[turn.case] {
            Measures::Cases(_) => self.report(turn, iterations, Some(&error), run)?,
            // it belongs to no test case that could record the reason
            _ => run.warn(no_control(turn, &error.to_string()))?,
        }
        self.dropped.extend(dropped);
        Ok(false)
    }

    /// Reports the iterations of a turn, and the reason for those that were not measured.
    fn report(
        &mut self,
        turn: Turn,
        mut iterations: BTreeMap<usize, Iteration>,
        error: Option<&LabError>,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        for &case in self.agenda.measures[turn.case].cases() {
            let made = iterations.remove(&case);
            let own = self.dropped.get(&case).filter(|_| made.is_none()).cloned();
            let failure = own.or_else(|| error.map(Failure::from));
            let mut iteration = made.unwrap_or(Iteration {
                iteration: turn.iteration,
                ..Iteration::default()
            });
            if let Some(failure) = failure {
                iteration = iteration.without_result(failure);
                self.failed
                    .insert((case, turn.iteration), iteration.clone());
            }
            run.record_event(self.finished(case, &iteration))?;
            self.reported
                .insert((case, turn.iteration), iteration.clone());
            let made = &mut self.made[case];
            made.push(iteration);
            made.sort_by_key(|one| one.iteration);
        }
        Ok(())
    }

    /// Decides whether a turn that was interrupted by a lost host is retried. If so, reports it and
    /// waits until the host may be back.
    fn should_retry(
        &self,
        turn: Turn,
        error: &LabError,
        attempts: &mut usize,
        run: &mut Run<'_>,
    ) -> Result<bool, LabError> {
        let patience = self.plan.host.site.patience();
        let pause = patience.get(*attempts);
        let Some(pause) = pause.filter(|_| error.is_lost() && !self.control.is_stopped()) else {
            return Ok(false);
        };
        *attempts += 1;
        run.warn(format!(
            "{}, iteration {}: {error}; tried again after {} s ({attempts} of {} times)",
            self.agenda.names[turn.case],
            turn.iteration,
            pause.as_secs(),
            patience.len()
        ))?;
        let until = Instant::now() + *pause;
        while Instant::now() < until && !self.control.is_stopped() {
            std::thread::sleep(LOOK.min(*pause));
        }
        Ok(!self.control.is_stopped())
    }
}
