//! MLRsearch: finds for several goals at once the load at which each is no longer met.
//!
//! A state machine: [`Search::next_trial`] returns the trial to run, [`Search::record`] takes its
//! result. All loads are on an integer grid and all durations are integer nanoseconds, so no
//! decision depends on the last bit of a number. Method: IETF draft-ietf-bmwg-mlrsearch; the next
//! trial is chosen as in the Python package MLRsearch 1.2.1, and a test compares with it. The
//! modules: [`goal`] (the goals), [`grid`] (the loads), [`bounds`] (classification of loads),
//! `selector` (the next trial for one goal), [`typed`] (goals as typed by users), [`outcome`]
//! (records and descriptions of a search), [`machine`] (the search as a procedure).

pub mod bounds;
pub mod goal;
pub mod grid;
pub mod machine;
pub mod outcome;
mod selector;
pub mod typed;

use std::fmt;

use fwdlab_model::procedure::Ending;

use self::bounds::{Bounds, Trials};
use self::goal::{Goal, Target, targets};
use self::grid::Grid;
use self::selector::{Selector, TrialProposal};

/// Id of the procedure in records.
pub const ID: &str = "mlrsearch";

/// The goals and the range of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The goals, at least one.
    pub goals: Vec<Goal>,
    /// Smallest load in frames per second; a goal fails if this load does not meet it.
    pub min_load_pps: f64,
    /// Largest load in frames per second: line rate, or the generator's limit.
    pub max_load_pps: f64,
    /// Duration of a first trial at the largest load whose result is not used; 0 for none.
    pub warm_up_ns: u64,
    /// The search fails if its trials have taken longer.
    pub time_limit_ns: u64,
}

/// A trial to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planned {
    /// Index of the load on the grid.
    pub load_index: u32,
    /// The load in frames per second.
    pub load_pps: f64,
    /// The duration.
    pub duration_ns: u64,
    /// True if its result will not be used.
    pub warm_up: bool,
    /// The reason for this trial.
    pub reason: Reason,
}

/// The reason for a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Warming up the DUT.
    WarmUp,
    /// The first trial: the output at the largest load.
    Maximum,
    /// The first guesses, from the measured forwarding rate.
    Estimate,
    /// The next step of a goal.
    Goal {
        /// Index of the goal.
        goal: usize,
        /// The goal's strategy.
        strategy: Strategy,
    },
}

/// How a goal narrows its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Halve the interval of the coarser target.
    Halve,
    /// Measure the lower end of the coarser target's interval for this target's duration.
    RefineLow,
    /// Measure the upper end, likewise.
    RefineHigh,
    /// No load has met the target so far: go down.
    ExtendDown,
    /// Every load has met the target so far: go up.
    ExtendUp,
    /// Both bounds are known: bisect.
    Bisect,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::Halve => "halve the interval of the coarser target",
            Strategy::RefineLow => "measure its lower bound longer",
            Strategy::RefineHigh => "measure its upper bound longer",
            Strategy::ExtendDown => "no load has met it yet: go down",
            Strategy::ExtendUp => "every load has met it so far: go up",
            Strategy::Bisect => "between its bounds",
        })
    }
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// The smallest load does not meet a goal.
    MinimumLoad {
        /// Index of the goal.
        goal: usize,
    },
    /// The trials took longer than allowed.
    TimeLimit,
}

/// The result for one goal.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalOutcome {
    /// Index of the largest load known to meet the goal, below every load known not to.
    pub relevant_lower_bound: Option<u32>,
    /// Index of the smallest load known not to meet it.
    pub relevant_upper_bound: Option<u32>,
    /// Typical forwarding rate at the lower bound.
    pub conditional_throughput_pps: Option<f64>,
    /// True if both bounds are known and no farther apart than the goal's width.
    pub is_regular: bool,
}

/// A trial used by the search, and the bounds after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Index of its load on the grid.
    pub load: u32,
    /// Intended duration.
    pub duration_ns: u64,
    /// Its loss ratio.
    pub loss_ratio: f64,
    /// One per goal.
    pub bounds: Vec<Bounds>,
}

/// The state machine.
#[derive(Debug, Clone)]
pub struct Search {
    grid: Grid,
    warm_up_ns: u64,
    time_limit_ns: u64,
    finals: Vec<Target>,
    selectors: Vec<Selector>,
    trials: Trials,
    steps: Vec<Step>,
    global_width: u32,
    spent_ns: u64,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    WarmUp,
    Maximum,
    /// The first guess is being measured.
    First(u32),
    /// The first guess and its loss, and the second guess.
    Second(u32, u32),
    Search,
    Won {
        goal: usize,
        nomination: TrialProposal,
    },
    Done(Option<Failure>),
}

impl Search {
    /// Prepares a search.
    ///
    /// # Errors
    /// A message about what is wrong with the question.
    pub fn new(question: &Question) -> Result<Search, String> {
        let Question {
            goals,
            min_load_pps: min,
            max_load_pps: max,
            ..
        } = question;
        if goals.is_empty() {
            return Err("a search needs at least one goal".into());
        }
        if !(min.is_finite() && max.is_finite() && *min > 0.0 && min < max) {
            return Err(format!(
                "the smallest load must be above 0 and below the largest; they are {min} and {max} frames per second"
            ));
        }
        for goal in goals {
            goal.check()?;
        }
        let widths: Vec<f64> = goals.iter().map(|goal| goal.width).collect();
        let grid = Grid::new(*min, *max, &widths)?;
        let selectors: Vec<Selector> = goals
            .iter()
            .map(|goal| Selector::new(targets(goal, grid.width(goal.width)), goal.expansion))
            .collect();
        Ok(Search {
            finals: selectors.iter().map(|s| s.final_target().clone()).collect(),
            grid,
            selectors,
            warm_up_ns: question.warm_up_ns,
            time_limit_ns: question.time_limit_ns,
            trials: Trials::default(),
            steps: Vec::new(),
            global_width: 0,
            spent_ns: 0,
            stage: if question.warm_up_ns > 0 {
                Stage::WarmUp
            } else {
                Stage::Maximum
            },
        })
    }

    /// Returns the loads of this search.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the trials, without the warm-up.
    pub fn trials(&self) -> &Trials {
        &self.trials
    }

    /// Returns the trials in chronological order, with the bounds after each.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the next trial, or `None` at the end of the search. Call it once, then
    /// [`Search::record`].
    pub fn next_trial(&mut self) -> Option<Planned> {
        let max = self.grid.last();
        match self.stage.clone() {
            Stage::WarmUp => Some(self.planned(max, self.warm_up_ns, Reason::WarmUp)),
            Stage::Maximum => Some(self.planned(max, self.longest_of_coarsest(), Reason::Maximum)),
            Stage::First(index) | Stage::Second(_, index) => {
                Some(self.planned(index, self.longest_of_coarsest(), Reason::Estimate))
            }
            Stage::Search => self.nominate(),
            // called again without an answer: return the same trial
            Stage::Won { goal, nomination } => Some(self.won(goal, &nomination)),
            Stage::Done(_) => None,
        }
    }

    /// Returns the condition that ends a trial of this search early, and changes nothing but its
    /// duration. A trial that ends early is recorded like any other: with its loss ratio until
    /// then, which is above the limit of every goal, and it counts with all of its intended
    /// duration.
    ///
    /// The condition is that a trial has lost more frames than the largest loss ratio of all goals
    /// allows for its whole duration. From then on it is bad for every goal regardless of the rest,
    /// and how bad does not matter:
    ///
    /// - The next trial and the bounds follow from [`bounds::classify`] alone, which knows a
    ///   trial's duration and whether it is good or bad for a goal. All targets of a goal have the
    ///   goal's loss ratio. (The trials' own time only counts against the time limit: a search that
    ///   is subject to it gets farther.)
    /// - The conditional throughput walks over the full trials at the relevant lower bound, the
    ///   least lossy first, through `max(sum, good + bad) * (1 - exceed)` of time, where good and
    ///   bad are those of full trials. That load is a lower bound: with
    ///   `W = max(sum, good + all that is bad)` it has `W - good <= W * exceed`, hence
    ///   `good >= W * (1 - exceed)`, no less than the walk. The walk ends among the good trials and
    ///   never reaches a bad one.
    /// - The loss ratio of an initial trial determines the next load, and a warm-up needs its
    ///   duration. These are not ended early.
    ///
    /// A property test runs thousands of searches both ways.
    pub fn ending(&self, planned: &Planned) -> Option<Ending> {
        let Reason::Goal { .. } = planned.reason else {
            return None;
        };
        let allowed = (self.finals.iter()).fold(0.0f64, |most, t| most.max(t.loss_ratio));
        // a sender that starts slightly early may send that many more
        let due = planned.load_pps * (planned.duration_ns as f64 / 1e9 + outcome::START_SKEW_S);
        Some(Ending::Lost {
            frames: (allowed * due).ceil() as u64,
        })
    }

    /// Takes the loss ratio of the last requested trial, and the time it took including all waits.
    pub fn record(&mut self, loss_ratio: f64, took_ns: u64) {
        self.spent_ns += took_ns;
        let max = self.grid.last();
        let duration = self.longest_of_coarsest();
        match self.stage.clone() {
            Stage::WarmUp => self.stage = Stage::Maximum,
            Stage::Maximum => {
                self.add(max, duration, loss_ratio);
                let guess = self.estimate(max, loss_ratio);
                let first = (guess < max)
                    .then(|| grid::limit(guess, self.widest_of_coarsest(), None, Some(max), max))
                    .flatten();
                match first {
                    None => self.begin(max, max),
                    Some(first) => self.stage = Stage::First(first),
                }
            }
            Stage::First(first) => {
                self.add(first, duration, loss_ratio);
                let width = self.widest_of_coarsest();
                let second = if loss_ratio > self.smallest_loss() {
                    let guess = self.estimate(first, loss_ratio);
                    grid::limit(guess, width, None, Some(first), max)
                } else {
                    grid::limit(first + width, width, Some(first), Some(max), max)
                };
                match second {
                    None => self.begin(first, first),
                    Some(second) => self.stage = Stage::Second(first, second),
                }
            }
            Stage::Second(first, second) => {
                self.add(second, duration, loss_ratio);
                self.begin(first.min(second), first.max(second));
            }
            Stage::Won { goal, nomination } => {
                self.add(nomination.load, nomination.duration_ns, loss_ratio);
                self.global_width = nomination.width;
                self.selectors[goal].won(&nomination, &self.trials, &mut self.global_width);
                self.stage = Stage::Search;
            }
            Stage::Search | Stage::Done(_) => {}
        }
        if self.spent_ns > self.time_limit_ns && !matches!(self.stage, Stage::Done(_)) {
            self.stage = Stage::Done(Some(Failure::TimeLimit));
        }
    }

    fn add(&mut self, load: u32, duration_ns: u64, loss_ratio: f64) {
        self.trials.add(load, duration_ns, loss_ratio);
        let bounds = self.finals.iter().map(|t| self.trials.bounds(t)).collect();
        self.steps.push(Step {
            load,
            duration_ns,
            loss_ratio,
            bounds,
        });
    }

    /// Returns why the search ended without a result; `None` while it is running or after a
    /// success.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.stage {
            Stage::Done(failure) => failure.as_ref(),
            _ => None,
        }
    }

    /// Returns the result of the trials so far for each goal.
    pub fn outcome(&self) -> Vec<GoalOutcome> {
        self.finals
            .iter()
            .map(|target| {
                let Bounds { lower, upper } = self.trials.bounds(target);
                GoalOutcome {
                    relevant_lower_bound: lower,
                    relevant_upper_bound: upper,
                    conditional_throughput_pps: lower.map(|index| {
                        self.grid.load(index) * (1.0 - self.trials.conditional_loss(index, target))
                    }),
                    is_regular: matches!((lower, upper), (Some(l), Some(u)) if u - l <= target.width),
                }
            })
            .collect()
    }

    fn nominate(&mut self) -> Option<Planned> {
        let mut best: Option<(usize, TrialProposal)> = None;
        let max = self.grid.last();
        for (goal, selector) in self.selectors.iter_mut().enumerate() {
            match selector.nominate(&self.trials, self.global_width, max) {
                Err(selector::MinimumLoad) => {
                    self.stage = Stage::Done(Some(Failure::MinimumLoad { goal }));
                    return None;
                }
                Ok(None) => {}
                Ok(Some(nomination)) => {
                    if best
                        .as_ref()
                        .is_none_or(|(_, best)| nomination.precedes(best))
                    {
                        best = Some((goal, nomination));
                    }
                }
            }
        }
        let Some((goal, nomination)) = best else {
            self.stage = Stage::Done(None);
            return None;
        };
        let planned = self.won(goal, &nomination);
        self.stage = Stage::Won { goal, nomination };
        Some(planned)
    }

    fn won(&self, goal: usize, nomination: &TrialProposal) -> Planned {
        let reason = Reason::Goal {
            goal,
            strategy: nomination.strategy,
        };
        self.planned(nomination.load, nomination.duration_ns, reason)
    }

    fn planned(&self, load_index: u32, duration_ns: u64, reason: Reason) -> Planned {
        Planned {
            load_index,
            load_pps: self.grid.load(load_index),
            duration_ns,
            warm_up: reason == Reason::WarmUp,
            reason,
        }
    }

    fn begin(&mut self, low: u32, high: u32) {
        self.global_width = high - low;
        for selector in &mut self.selectors {
            selector.begin(low, high);
        }
        self.stage = Stage::Search;
    }

    /// Returns the load that would lose as much as the easiest goal allows, if the DUT forwarded at
    /// its rate of this trial.
    fn estimate(&self, index: u32, loss_ratio: f64) -> u32 {
        let rate = self.grid.load(index) * (1.0 - loss_ratio) / (1.0 - self.smallest_loss());
        self.grid.floor(rate)
    }

    fn coarsest(&self) -> impl Iterator<Item = &Target> {
        self.selectors.iter().map(Selector::coarsest)
    }

    fn smallest_loss(&self) -> f64 {
        self.coarsest().map(|t| t.loss_ratio).fold(1.0, f64::min)
    }

    fn longest_of_coarsest(&self) -> u64 {
        self.coarsest().map(|t| t.trial_ns).max().unwrap_or(0)
    }

    fn widest_of_coarsest(&self) -> u32 {
        self.coarsest().map(|t| t.width).max().unwrap_or(1)
    }
}
