//! MLRsearch as a [`Procedure`](crate::procedure::Procedure), for campaigns and sweeps.
//!
//! It only translates: a planned trial into a request, an answer into a loss ratio, the bounds into
//! an outcome. Start with [`Machine`].

use fwdlab_model::link::Line;
use fwdlab_model::outcome::{Compliance, Found, Outcome};
use fwdlab_model::procedure::{Answer, Purpose, Question};
use fwdlab_model::search::SearchOutcome;
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::Variant;

use super::typed::Named;
use super::{Planned, Search, outcome};
use crate::procedure::{Procedure, Progress, loss_ratio};
use crate::trust;

/// The parameters of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Frame size, including the FCS.
    pub frame_size: FrameSize,
    /// The goals, with their names.
    pub goals: Vec<Named>,
    /// Smallest load in frames per second.
    pub min_load_pps: f64,
    /// Largest load in frames per second.
    pub max_load_pps: f64,
    /// Origin of that limit, as text.
    pub max_load_source: String,
    /// Duration of a first trial whose result is not used; 0 for none.
    pub warm_up_ns: u64,
    /// The search ends if its trials took longer.
    pub time_limit_ns: u64,
    /// Trials end as soon as they are bad for every goal.
    pub early_end: bool,
    /// The line, if there is one.
    pub line: Option<Line>,
    /// True if no device is measured.
    pub simulated: bool,
}

/// The state machine.
pub struct Machine {
    parameters: Parameters,
    search: Search,
    planned: Option<Planned>,
    /// The smallest load that the generator did not reach.
    unreached_pps: Option<f64>,
    traffic_ns: u64,
    progress: Progress,
}

impl Machine {
    /// Prepares the search.
    ///
    /// # Errors
    /// The goals contradict themselves, the smallest load is not below the largest, or the width is
    /// less than a frame.
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
            unreached_pps: None,
            traffic_ns: 0,
            progress: Progress::default(),
        })
    }

    fn warnings(&self, found: &SearchOutcome) -> Vec<String> {
        let goals = &self.parameters.goals;
        let mut warnings = outcome::inversions(&self.search, goals);
        warnings.extend(self.unreached_pps.map(|pps| {
            format!(
                "the generator did not reach {pps:.0} frames/s: the search continued below it; the DUT may forward more"
            )
        }));
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
        if self.progress.failure.is_some() {
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

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        let Some(planned) = self.planned.take() else {
            return String::new();
        };
        self.progress.trials += 1;
        self.traffic_ns += answer.duration_ns;
        let loss = loss_ratio(answer);
        self.search.record(loss, answer.took_ns);
        outcome::describe_trial(&self.search, &planned, &self.parameters.goals, loss).join("; ")
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    /// The search continues below, as if all frames that did not come back had been lost; the
    /// result is marked as limited by the generator.
    fn load_not_reached(&mut self, _: &Question, answer: &Answer, reason: &str) {
        let Some(planned) = self.planned.take() else {
            return;
        };
        if planned.load_index == 0 {
            return self.abort(reason);
        }
        let known = self.unreached_pps.unwrap_or(f64::INFINITY);
        self.unreached_pps = Some(known.min(planned.load_pps));
        self.traffic_ns += answer.duration_ns;
        let goals = self.parameters.goals.iter();
        let allowed = goals.fold(0.0f64, |most, named| most.max(named.goal.loss_ratio));
        // what did not come back, so that the rate at this load is that of the DUT
        let back = answer.frames_received as f64 / answer.frames_intended.max(1) as f64;
        // it must exceed every loss that the goals allow
        let fails = (1.01 * allowed + 1e-9).min(1.0);
        self.search
            .record((1.0 - back).clamp(fails, 1.0), answer.took_ns);
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let (search, named) = (&self.search, &self.parameters.goals);
        let goals = outcome::goals(search, named, self.unreached_pps);
        let failure = outcome::failure(search, named);
        let last = search.grid().last();
        let has_answer = |goal: &fwdlab_model::search::GoalResult| {
            goal.regular || goal.relevant_lower_bound_index == Some(last)
        };
        let answered =
            self.progress.failure.is_none() && failure.is_none() && goals.iter().all(has_answer);
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
            trials: self.progress.trials,
            traffic_s: self.traffic_ns as f64 / 1e9,
            goals,
            steps: outcome::steps(search),
            failure,
            shortened: self.shortened(),
        };
        vec![Outcome {
            frame_size_bytes: self.parameters.frame_size,
            variant: Variant::default(),
            verdict: self.progress.verdict(verdict),
            answered,
            not_applicable: false,
            compliance: Compliance {
                standard: "RFC 2544 §26.1 throughput".into(),
                shortened: self.shortened(),
            },
            warnings: self.warnings(&found),
            trials: self.progress.trials,
            found: Found::Mlrsearch(found),
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender that stalls a little says nothing of a DUT that loses most: the step has what came
    /// back.
    #[test]
    fn a_load_that_was_not_reached_counts_with_what_came_back() {
        let mut machine = Machine::new(Parameters {
            frame_size: FrameSize::MIN,
            goals: super::super::typed::parse("ndr").unwrap(),
            min_load_pps: 1e4,
            max_load_pps: 5e6,
            max_load_source: String::new(),
            warm_up_ns: 0,
            time_limit_ns: u64::MAX,
            early_end: false,
            line: None,
            simulated: false,
        })
        .unwrap();
        let question = machine.next_trial().unwrap();
        let answer = Answer {
            frames_intended: 1000,
            frames_sent: 980,
            frames_received: 160,
            ..Answer::default()
        };
        machine.load_not_reached(&question, &answer, "it stalled");
        let step = &outcome::steps(&machine.search)[0];
        assert!((step.loss_ratio - 0.84).abs() < 1e-9, "{step:?}");
        // and the next load is near the rate of the DUT
        let next = machine.next_trial().unwrap().peak_pps();
        assert!(next < 0.2 * step.load_pps, "{next}");
    }
}
