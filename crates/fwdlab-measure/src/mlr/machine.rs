//! MLRsearch as one procedure among others, so that it can stand in campaigns and inside sweeps.
//!
//! It only translates: a planned trial into a question, an answer into a loss ratio, the bounds into an outcome. Start with
//! [`Machine`].

use fwdlab_model::link::Line;
use fwdlab_model::outcome::{Compliance, Found, Outcome};
use fwdlab_model::procedure::{Answer, Purpose, Question};
use fwdlab_model::search::SearchOutcome;
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::Variant;

use super::typed::Named;
use super::{Planned, Search, outcome};
use crate::procedure::{Course, Procedure, loss_ratio};
use crate::{trust, validity};

/// What is to be found, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Frame size, FCS counted.
    pub frame_size: FrameSize,
    /// The goals, with their names.
    pub goals: Vec<Named>,
    /// Smallest load in frames per second.
    pub min_load_pps: f64,
    /// Largest load in frames per second.
    pub max_load_pps: f64,
    /// Where that comes from, in words.
    pub max_load_source: String,
    /// A first trial whose result is not used; 0 for none.
    pub warm_up_ns: u64,
    /// The search ends when its trials took longer.
    pub time_limit_ns: u64,
    /// Trials end as soon as they are bad for every goal.
    pub early_end: bool,
    /// The line, where there is one.
    pub line: Option<Line>,
    /// No device is measured.
    pub simulated: bool,
}

/// The machine.
pub struct Machine {
    parameters: Parameters,
    search: Search,
    planned: Option<Planned>,
    /// The smallest load at which the generator fell short.
    short_from_pps: Option<f64>,
    traffic_ns: u64,
    /// Trials in which all that counts as lost never left the generator.
    lost_by_generator: u32,
    course: Course,
}

impl Machine {
    /// Prepares the search.
    ///
    /// # Errors
    /// The goals contradict themselves, the smallest load is not below the largest, or the width is less than a frame.
    pub fn new(parameters: Parameters) -> Result<Machine, String> {
        let search = Search::new(&super::Question {
            goals: parameters.goals.iter().map(|n| n.goal.clone()).collect(),
            min_load_pps: parameters.min_load_pps,
            max_load_pps: parameters.max_load_pps,
            warm_up_ns: parameters.warm_up_ns,
            time_limit_ns: parameters.time_limit_ns,
        })?;
        outcome::check_width(&parameters.goals, parameters.min_load_pps)?;
        Ok(Machine {
            parameters,
            search,
            planned: None,
            short_from_pps: None,
            traffic_ns: 0,
            lost_by_generator: 0,
            course: Course::default(),
        })
    }

    fn warnings(&self, found: &SearchOutcome) -> Vec<String> {
        let goals = &self.parameters.goals;
        let mut warnings = outcome::inversions(&self.search, goals);
        if self.lost_by_generator > 0 {
            warnings.push(format!(
                "trials in which the DUT lost nothing and the generator fell short: {}; what it did not send counts as lost, so the DUT \
                 may do more",
                self.lost_by_generator
            ));
        }
        warnings.extend(trust::far_below(
            goals.iter().map(|named| named.label.as_str()),
            found,
        ));
        warnings
    }

    fn shortened(&self) -> Vec<String> {
        let p = &self.parameters;
        outcome::shortened(&p.goals, p.line, p.simulated)
    }
}

impl Procedure for Machine {
    fn next_trial(&mut self) -> Option<Question> {
        if self.course.failure.is_some() {
            return None;
        }
        let planned = self.search.next_trial()?;
        self.planned = Some(planned);
        let purpose = match planned.warm_up {
            true => Purpose::WarmUp,
            false => Purpose::Search,
        };
        let reason = outcome::reason(&planned, &self.parameters.goals);
        let ending = self.search.ending(&planned);
        Some(Question {
            ending: ending.filter(|_| self.parameters.early_end),
            ..Question::constant(
                self.parameters.frame_size,
                planned.load_pps,
                planned.duration_ns,
                purpose,
                reason,
            )
        })
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        let Some(planned) = self.planned.take() else {
            return String::new();
        };
        self.course.trials += 1;
        self.traffic_ns += answer.duration_ns;
        if !answer.ended_early && validity::fell_short(question, answer).is_some() {
            let known = self.short_from_pps.unwrap_or(f64::INFINITY);
            self.short_from_pps = Some(known.min(planned.load_pps));
        }
        let loss = loss_ratio(question, answer);
        if !planned.warm_up && loss > 0.0 && answer.frames_lost() == 0 {
            self.lost_by_generator += 1;
        }
        self.search.record(loss, answer.took_ns);
        outcome::says(&self.search, &planned, &self.parameters.goals, loss).join("; ")
    }

    fn give_up(&mut self, reason: &str) {
        self.course.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let (search, named) = (&self.search, &self.parameters.goals);
        let goals = outcome::goals(search, named, self.short_from_pps);
        let failure = outcome::failure(search, named);
        let last = search.grid().last();
        let has_answer = |goal: &fwdlab_model::search::GoalResult| {
            goal.regular || goal.relevant_lower_bound_index == Some(last)
        };
        let answered =
            self.course.failure.is_none() && failure.is_none() && goals.iter().all(has_answer);
        let verdicts = goals.iter().map(|goal| goal.verdict.as_str());
        let verdict = match goals.iter().all(|goal| goal.verdict == "found") {
            true => "found".into(),
            false => (verdicts.chain(failure.as_deref()))
                .collect::<Vec<_>>()
                .join("; "),
        };
        let found = SearchOutcome {
            variant: Variant::default(),
            min_load_pps: search.grid().load(0),
            max_load_pps: search.grid().load(last),
            max_load_source: self.parameters.max_load_source.clone(),
            max_load_index: last,
            trials: self.course.trials,
            traffic_s: self.traffic_ns as f64 / 1e9,
            goals,
            course: outcome::course(search),
            failure,
            shortened: self.shortened(),
        };
        vec![Outcome {
            frame_size_bytes: self.parameters.frame_size,
            variant: Variant::default(),
            verdict: self.course.verdict(verdict),
            answered,
            compliance: Compliance {
                standard: "RFC 2544 §26.1 throughput".into(),
                shortened: self.shortened(),
            },
            warnings: self.warnings(&found),
            trials: self.course.trials,
            found: Found::Mlrsearch(found),
        }]
    }
}
