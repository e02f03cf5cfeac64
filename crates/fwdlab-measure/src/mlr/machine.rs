//! MLRsearch as a [`Procedure`](crate::procedure::Procedure), for campaigns and sweeps.
//!
//! It only translates: a planned trial into a request, an answer into a loss ratio, the bounds into
//! an outcome. Start with [`Machine`].

use fwdlab_model::campaign;
use fwdlab_model::outcome::{Compliance, Outcome};
use fwdlab_model::procedure::{Answer, Purpose, Question};
use fwdlab_model::search::SearchOutcome;
use fwdlab_model::variant::Variant;

use super::typed::{self, Named};
use super::{Planned, Search, outcome};
use crate::machine::Limit;
use crate::procedure::{Procedure, Progress, loss_ratio};
use crate::trust;

/// The state machine.
pub struct Machine {
    limit: Limit,
    goals: Vec<Named>,
    /// Trials end as soon as they are bad for every goal.
    early_end: bool,
    simulated: bool,
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
    pub fn new(
        limit: Limit,
        parameters: &campaign::Mlrsearch,
        simulated: bool,
    ) -> Result<Machine, String> {
        let goals = typed::parse(&parameters.goals.join(";"))?;
        let min_load_pps = limit.smallest(parameters.min)?;
        let search = Search::new(&super::Question {
            goals: goals.iter().map(|named| named.goal.clone()).collect(),
            min_load_pps,
            max_load_pps: limit.max_load_pps,
            warm_up_ns: parameters.warm_up.ns(),
            time_limit_ns: parameters.time_limit.ns(),
        })?;
        outcome::check_width(&goals, min_load_pps)?;
        Ok(Machine {
            progress: Progress::new(limit.frame_size),
            limit,
            goals,
            early_end: parameters.early_end.unwrap_or(!simulated),
            simulated,
            search,
            planned: None,
            unreached_pps: None,
            traffic_ns: 0,
        })
    }

    fn warnings(&self, found: &SearchOutcome) -> Vec<String> {
        let goals = &self.goals;
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
        outcome::shortened(&self.goals, self.limit.line, self.simulated)
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
        let reason = outcome::reason(&planned, &self.goals);
        let ending = self.search.ending(&planned);
        Some(Question {
            ending: ending.filter(|_| self.early_end),
            ..Question::constant(
                self.limit.frame_size,
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
        outcome::describe_trial(&self.search, &planned, &self.goals, loss).join("; ")
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
        let goals = self.goals.iter();
        let allowed = goals.fold(0.0f64, |most, named| most.max(named.goal.loss_ratio));
        // what did not come back, so that the rate at this load is that of the DUT
        let back = answer.frames_received as f64 / answer.frames_intended.max(1) as f64;
        // it must exceed every loss that the goals allow
        let fails = (1.01 * allowed + 1e-9).min(1.0);
        self.search
            .record((1.0 - back).clamp(fails, 1.0), answer.took_ns);
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let (search, named) = (&self.search, &self.goals);
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
            max_load_source: self.limit.source.clone(),
            max_load_index: last,
            trials: self.progress.trials,
            traffic_s: self.traffic_ns as f64 / 1e9,
            goals,
            steps: outcome::steps(search),
            failure,
            shortened: self.shortened(),
        };
        let compliance = Compliance {
            standard: "RFC 2544 §26.1 throughput".into(),
            shortened: self.shortened(),
        };
        let warnings = self.warnings(&found);
        vec![Outcome {
            compliance,
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::value::Pause;
    use fwdlab_model::units::FrameSize;

    use super::*;

    /// A sender that stalls a little says nothing of a DUT that loses most: the step has what came
    /// back.
    #[test]
    fn a_load_that_was_not_reached_counts_with_what_came_back() {
        let limit = Limit::new(FrameSize::MIN, FrameSize::MIN.into(), None, 5e6, "");
        let parameters = campaign::Mlrsearch {
            goals: vec!["ndr".into()],
            warm_up: Pause::seconds(0),
            ..campaign::Mlrsearch::default()
        };
        let mut machine = Machine::new(limit, &parameters, false).unwrap();
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
