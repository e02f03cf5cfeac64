//! Maximum receive rate: the frames that come back at the largest load, in several consecutive
//! trials (FD.io CSIT).
//!
//! A cheap alarm for regressions; like [`crate::maxfwd`], it is misleading if a DUT forwards less
//! in overload. Start with [`Mrr`].

use fwdlab_model::campaign;
use fwdlab_model::outcome::{FORWARDS_NOTHING, Outcome};
use fwdlab_model::procedure::{Answer, Purpose, Question};
use fwdlab_model::units::FrameSize;

use crate::procedure::{
    Procedure, Progress, TESTER_BOUND, check_duration, check_load, sent_pps, spread,
};
use crate::validity::is_lower_bound;

/// The state machine.
#[derive(Debug, Clone)]
pub struct Mrr {
    max_load_pps: f64,
    parameters: campaign::Mrr,
    is_warm: bool,
    rates_pps: Vec<f64>,
    /// Trials in which the DUT was not overloaded: their rates are lower bounds.
    lower_bounds: u32,
    progress: Progress,
}

impl Mrr {
    /// Prepares the trials.
    ///
    /// # Errors
    /// If there are no trials, the load is impossible, or a trial has no frame.
    pub fn new(
        frame_size: FrameSize,
        max_load_pps: f64,
        parameters: campaign::Mrr,
    ) -> Result<Mrr, String> {
        check_load("the load", max_load_pps)?;
        check_duration("a trial", parameters.duration.ns(), max_load_pps)?;
        if parameters.trials == 0 {
            return Err("mrr needs at least one trial".into());
        }
        let warm_up_ns = parameters.warm_up.ns();
        if warm_up_ns > 0 {
            check_duration("the warm-up", warm_up_ns, max_load_pps)?;
        }
        Ok(Mrr {
            max_load_pps,
            is_warm: warm_up_ns == 0,
            parameters,
            rates_pps: Vec::new(),
            lower_bounds: 0,
            progress: Progress::new(frame_size),
        })
    }
}

impl Procedure for Mrr {
    fn next_trial(&mut self) -> Option<Question> {
        let p = &self.parameters;
        if !self.is_warm && self.progress.failure.is_none() {
            return Some(Question {
                // the warm-up is not used, so it need not be repeated if the tester sends less
                needs_load: false,
                ..Question::constant(
                    self.progress.frame_size,
                    self.max_load_pps,
                    p.warm_up.ns(),
                    Purpose::WarmUp,
                    "warms the DUT up; its result is not used",
                )
            });
        }
        let made = self.rates_pps.len() as u32;
        (made < p.trials && self.progress.failure.is_none()).then(|| {
            let reason = format!("output at the largest load, {} of {}", made + 1, p.trials);
            Question {
                overload: true,
                ..Question::constant(
                    self.progress.frame_size,
                    self.max_load_pps,
                    p.duration.ns(),
                    Purpose::Measure,
                    reason,
                )
            }
        })
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        if question.purpose == Purpose::WarmUp {
            self.is_warm = true;
            return "not used".into();
        }
        let rate = answer.forwarding_rate_pps();
        self.rates_pps.push(rate);
        self.lower_bounds += u32::from(is_lower_bound(sent_pps(answer), rate));
        format!("{rate:.0} frames/s came back")
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let p = &self.parameters;
        let rate = spread(&self.rates_pps);
        let tester_bound = self.lower_bounds > 0;
        let is_done = self.rates_pps.len() as u32 >= p.trials;
        let verdict = match rate {
            Some(rate) if rate.max == 0.0 => FORWARDS_NOTHING,
            _ if is_done && tester_bound => TESTER_BOUND,
            _ if is_done => "measured",
            _ => "not all trials were run",
        };
        let answered =
            is_done && self.progress.failure.is_none() && rate.is_some_and(|rate| rate.max > 0.0);
        let found = fwdlab_model::outcome::Mrr {
            load_pps: self.max_load_pps,
            receive_rate_pps: rate,
            trials_pps: self.rates_pps.clone(),
            tester_bound,
        };
        vec![self.progress.outcome(verdict, answered, found)]
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::outcome::Found;
    use std::time::Duration;

    use fwdlab_model::campaign::value::Pause;

    use super::*;
    use crate::procedure::Session;

    #[test]
    fn a_warm_up_comes_first_and_is_in_no_figure() {
        let parameters = campaign::Mrr {
            trials: 2,
            warm_up: Pause::seconds(20),
            ..campaign::Mrr::default()
        };
        let mrr = Mrr::new(FrameSize::MIN, 1e6, parameters).unwrap();
        let mut session = Session::new(Box::new(mrr));
        let mut requested = Vec::new();
        while let Some((question, attempt)) = session.next_trial() {
            let is_first_look = requested.is_empty();
            requested.push((question.purpose, question.duration_ns(), attempt));
            let is_warm_up = question.purpose == Purpose::WarmUp;
            let seconds = question.duration_ns() / 1_000_000_000;
            session.record(&Answer {
                // the rate is lower while a table is filled
                frames_received: match question.purpose {
                    Purpose::WarmUp => 10 * seconds,
                    _ => 500 * seconds,
                },
                frames_intended: 1_000_000 * seconds,
                // a tester that falls short fills it, too
                frames_sent: if is_warm_up { 500_000 } else { 1_000_000 } * seconds,
                duration_ns: question.duration_ns(),
                objections: match is_first_look {
                    true => vec!["the table is not full".into()],
                    false => Vec::new(),
                },
                ..Answer::default()
            });
        }
        let (warm, measure) = (20_000_000_000, 1_000_000_000);
        assert_eq!(
            requested,
            [
                (Purpose::WarmUp, warm, 1),
                (Purpose::WarmUp, warm, 2),
                (Purpose::Measure, measure, 1),
                (Purpose::Measure, measure, 1),
            ]
        );
        let Found::Mrr(found) = session.outcomes().remove(0).found else {
            panic!("it is another procedure");
        };
        assert_eq!(found.trials_pps, [500.0, 500.0]);
    }

    /// If no warm-up is valid there is no figure.
    #[test]
    fn without_a_valid_warm_up_nothing_is_measured() {
        let warmed_up = |warm_up| {
            let parameters = campaign::Mrr {
                warm_up,
                ..campaign::Mrr::default()
            };
            Mrr::new(FrameSize::MIN, 1e6, parameters)
        };
        let mut session = Session::new(Box::new(warmed_up(Pause::seconds(1)).unwrap()));
        while let Some((question, _)) = session.next_trial() {
            assert_eq!(question.purpose, Purpose::WarmUp);
            session.record(&Answer {
                objections: vec!["the table is not full".into()],
                ..Answer::default()
            });
        }
        let outcome = &session.outcomes()[0];
        assert!(
            !outcome.answered && outcome.verdict.contains("the table is not full"),
            "{outcome:?}"
        );
        let error = warmed_up(Pause(Duration::from_nanos(1))).unwrap_err();
        assert!(error.contains("the warm-up"), "{error}");
    }
}
