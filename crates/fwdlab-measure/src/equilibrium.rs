//! Equilibrium: the load at which input equals output, as measured by labs of the BSD Router
//! Project.
//!
//! Method of Tisovsky and Baronak (IJCNIS 4, 2012): start at half of the link rate, go up while all
//! of it comes out, down if not, and halve the step after the first turn. Published runs of such
//! labs are its tests. Start with [`Equilibrium`].

use fwdlab_model::campaign;
use fwdlab_model::outcome::{EquilibriumStep, FORWARDS_NOTHING, Outcome};
use fwdlab_model::procedure::{Answer, Interval, Purpose, Question};
use fwdlab_model::units::FrameSize;
use fwdlab_stats::Sample;

use crate::procedure::{Procedure, Progress, REACHED_SHARE, check_load, sent_pps};

/// Maximum number of trials.
const MOST_TRIALS: usize = 16;

/// The state machine. All rates are integers, as in the shell script of those labs.
#[derive(Debug, Clone)]
pub struct Equilibrium {
    /// Rate of the link, or the largest load.
    max_load_pps: f64,
    parameters: campaign::Equilibrium,
    load: u64,
    step: u64,
    /// The last direction; `None` before the first turn is possible.
    went_up: Option<bool>,
    has_turned: bool,
    steps: Vec<EquilibriumStep>,
    is_done: bool,
    progress: Progress,
}

impl Equilibrium {
    /// Prepares the trials.
    ///
    /// # Errors
    /// An impossible load or tolerance.
    pub fn new(
        frame_size: FrameSize,
        max_load_pps: f64,
        parameters: campaign::Equilibrium,
    ) -> Result<Equilibrium, String> {
        let tolerance = parameters.tolerance.0;
        check_load("the largest load", max_load_pps)?;
        if !(tolerance > 0.0 && tolerance < 0.5) {
            return Err(format!(
                "a tolerance of {tolerance}: it must be above 0 and below 0.5"
            ));
        }
        if max_load_pps * tolerance < 4.0 || parameters.duration.ns() < 1_000_000_000 {
            return Err(
                "the tolerance is below one frame, or trials are shorter than a second".into(),
            );
        }
        let whole = max_load_pps as u64;
        Ok(Equilibrium {
            load: whole / 2,
            step: whole / 4,
            went_up: None,
            has_turned: false,
            steps: Vec::new(),
            is_done: false,
            progress: Progress::new(frame_size),
            max_load_pps,
            parameters,
        })
    }

    /// Returns a share of a load, rounded down.
    fn share(&self, share: f64) -> u64 {
        (self.load as f64 * share) as u64
    }
}

impl Procedure for Equilibrium {
    fn next_trial(&mut self) -> Option<Question> {
        let ended = self.is_done || self.progress.failure.is_some();
        (!ended).then(|| {
            let trend = match self.went_up {
                None => "half of the largest load",
                Some(true) => "everything came out: up",
                Some(false) => "not everything came out: down",
            };
            let reason = format!("{trend}, step {}", self.step);
            Question {
                sample_ns: Some(1_000_000_000),
                ..Question::constant(
                    self.progress.frame_size,
                    self.load as f64,
                    self.parameters.duration.ns(),
                    Purpose::Search,
                    reason,
                )
            }
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        let samples = answer
            .samples
            .iter()
            .filter(|sample| sample.frames_received > 0);
        let rates: Vec<f64> = samples.map(Interval::forwarding_rate_pps).collect();
        let median = Sample::new(rates).map_or(0.0, |sample| sample.median());
        // a frame that straddles two samples is not a loss
        let rate = ((median + 0.5) as u64).min(self.load);
        self.steps.push(EquilibriumStep {
            load_pps: self.load as f64,
            step_pps: self.step as f64,
            forwarding_rate_pps: rate as f64,
        });
        if self.steps.len() == 1 && rate < self.step {
            (self.load, self.step, self.went_up) = (rate, rate / 2, Some(false));
            self.is_done = rate == 0;
            return format!(
                "{rate} frames/s were forwarded, much less than offered: continue from that load"
            );
        }
        let up = rate >= self.share(1.0 - self.parameters.tolerance.0);
        self.has_turned |= self.went_up.is_some_and(|before| before != up);
        if self.has_turned {
            self.step /= 2;
        }
        self.went_up = Some(up);
        let most = self.max_load_pps as u64;
        let is_at_top = up && self.load >= most;
        let before = self.load;
        self.load = match up {
            true => self.load + self.step,
            false => self.load.saturating_sub(self.step),
        };
        self.load = self.load.min(most);
        self.is_done = is_at_top
            || self.load == 0
            || self.step <= self.share(self.parameters.tolerance.0)
            || self.steps.len() >= MOST_TRIALS;
        let word = if up { "all" } else { "less" };
        format!("{rate} of {before} frames/s came out: {word}")
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    /// Lowers the largest load to what the generator sent.
    fn load_not_reached(&mut self, _: &Question, answer: &Answer, reason: &str) {
        let reached = REACHED_SHARE * sent_pps(answer);
        if reached * self.parameters.tolerance.0 < 1.0 {
            return self.abort(reason);
        }
        self.max_load_pps = reached;
        self.load = reached as u64;
        self.step = self.step.min(self.load / 4);
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let last = self.steps.last().map(|step| step.forwarding_rate_pps);
        let rates = self.steps.iter().map(|step| step.forwarding_rate_pps);
        let all = self.steps.last().is_some_and(|step| {
            step.load_pps >= self.max_load_pps.floor() && self.went_up == Some(true)
        });
        let verdict = match last {
            Some(0.0) => FORWARDS_NOTHING,
            _ if all => "everything came out at the largest load: the DUT may forward more",
            _ if self.is_done => "found",
            _ => "the search has not ended",
        };
        let answered =
            self.is_done && self.progress.failure.is_none() && last.is_some_and(|pps| pps > 0.0);
        let found = fwdlab_model::outcome::Equilibrium {
            max_load_pps: self.max_load_pps,
            tolerance: self.parameters.tolerance.0,
            equilibrium_pps: last.filter(|_| self.is_done),
            max_seen_pps: rates.reduce(f64::max),
            steps: self.steps.clone(),
        };
        vec![self.progress.outcome(verdict, answered, found)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_model::outcome::Found;

    fn search(max_load_pps: f64) -> Result<Equilibrium, String> {
        let parameters = campaign::Equilibrium::default();
        Equilibrium::new(FrameSize::MIN, max_load_pps, parameters)
    }

    /// Replays a published run: its rates are the answers, its loads and steps are expected.
    fn replay(link: f64, run: &[(u64, u64, u64)], estimated: f64, max_seen: f64) {
        let mut search = search(link).unwrap();
        for (n, &(load, step, rate)) in run.iter().enumerate() {
            let question = search
                .next_trial()
                .unwrap_or_else(|| panic!("ended before {n}"));
            assert_eq!(question.peak_pps(), load as f64, "iteration {n}");
            let samples = (0..30)
                .map(|k| Interval {
                    at_ns: k * 1_000_000_000,
                    length_ns: 1_000_000_000,
                    intended_load_pps: load as f64,
                    frames_sent: load,
                    // samples before and after the load have no rate
                    frames_received: if k == 0 { 0 } else { rate },
                })
                .collect();
            search.record(
                &question,
                &Answer {
                    samples,
                    ..Answer::default()
                },
            );
            assert_eq!(search.steps[n].step_pps, step as f64, "iteration {n}");
        }
        assert_eq!(search.next_trial(), None, "the published run ended here");
        let Found::Equilibrium(found) = &search.outcomes()[0].found else {
            panic!("no equilibrium")
        };
        assert_eq!(found.equilibrium_pps, Some(estimated));
        assert_eq!(found.max_seen_pps, Some(max_seen));
    }

    /// Runs that the BSD Router Project published in its documentation, in the units of its script.
    #[test]
    fn published_runs() {
        let run = [
            (2000, 1000, 1999),
            (3000, 1000, 2949),
            (2500, 500, 2499),
            (2750, 250, 2750),
        ];
        let rest = [(2875, 125, 2875), (2937, 62, 2933), (2968, 31, 2948)];
        replay(4000.0, &[&run[..], &rest].concat(), 2948.0, 2949.0);
        let run = [
            (500, 250, 499),
            (750, 250, 670),
            (625, 125, 624),
            (687, 62, 672),
        ];
        let rest = [(656, 31, 655), (671, 15, 670), (678, 7, 670)];
        replay(1000.0, &[&run[..], &rest].concat(), 670.0, 672.0);
        let run = [
            (500, 250, 359),
            (250, 250, 250),
            (375, 125, 356),
            (313, 62, 313),
        ];
        let rest = [(344, 31, 344), (359, 15, 351), (352, 7, 350)];
        replay(1000.0, &[&run[..], &rest].concat(), 350.0, 359.0);
        // the first rate was too low: continue from there
        let run = [
            (5000, 2500, 1598),
            (1598, 799, 1597),
            (1997, 399, 1602),
            (1798, 199, 1599),
        ];
        let rest = [(1699, 99, 1600), (1650, 49, 1603), (1626, 24, 1604)];
        replay(10_000.0, &[&run[..], &rest].concat(), 1604.0, 1604.0);
    }

    #[test]
    fn at_the_ends() {
        let mut at_ends = search(1000.0).unwrap();
        while let Some(question) = at_ends.next_trial() {
            let answer = crate::remaining::ideal(&question, 1e9);
            at_ends.record(&question, &answer);
        }
        assert!(at_ends.outcomes()[0].verdict.contains("may forward more"));
        let mut at_ends = search(1000.0).unwrap();
        while let Some(question) = at_ends.next_trial() {
            let answer = crate::remaining::ideal(&question, 0.0);
            at_ends.record(&question, &answer);
        }
        assert_eq!(at_ends.outcomes()[0].verdict, FORWARDS_NOTHING);
        assert!(search(100.0).is_err());
    }
}
