//! Maximum receive rate: what comes back at the largest load, some trials one after the other (FD.io CSIT).
//!
//! A cheap alarm for regressions; it shares the weakness of [`crate::maxfwd`] where a DUT forwards less in overload. Start with
//! [`Mrr`].

use fwdlab_model::outcome::{Compliance, Found, Outcome};
use fwdlab_model::procedure::{Answer, Purpose, Question};
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::Variant;

use crate::procedure::{
    Course, Procedure, TESTER_BOUND, check_duration, check_load, is_tester_bound, spread,
};

/// What is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Frame size, FCS counted.
    pub frame_size: FrameSize,
    /// The largest load.
    pub max_load_pps: f64,
    /// Duration of a trial.
    pub trial_ns: u64,
    /// Trials.
    pub trials: u32,
}

impl Parameters {
    /// Ten trials of a second: CSIT's preset for trends.
    pub fn standard(frame_size: FrameSize, max_load_pps: f64) -> Parameters {
        Parameters {
            frame_size,
            max_load_pps,
            trial_ns: 1_000_000_000,
            trials: 10,
        }
    }
}

/// The machine.
#[derive(Debug, Clone)]
pub struct Mrr {
    parameters: Parameters,
    rates_pps: Vec<f64>,
    /// What was really offered, at most.
    offered_pps: f64,
    course: Course,
}

impl Mrr {
    /// Prepares the trials.
    ///
    /// # Errors
    /// No trials, an impossible load, trials without a frame.
    pub fn new(parameters: Parameters) -> Result<Mrr, String> {
        check_load("the load", parameters.max_load_pps)?;
        check_duration("a trial", parameters.trial_ns, parameters.max_load_pps)?;
        if parameters.trials == 0 {
            return Err("mrr needs at least one trial".into());
        }
        Ok(Mrr {
            parameters,
            rates_pps: Vec::new(),
            offered_pps: 0.0,
            course: Course::default(),
        })
    }
}

impl Procedure for Mrr {
    fn next_trial(&mut self) -> Option<Question> {
        let p = &self.parameters;
        let made = self.rates_pps.len() as u32;
        (made < p.trials && self.course.failure.is_none()).then(|| {
            let reason = format!("output at the largest load, {} of {}", made + 1, p.trials);
            Question::constant(
                p.frame_size,
                p.max_load_pps,
                p.trial_ns,
                Purpose::Measure,
                reason,
            )
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.course.trials += 1;
        let rate = answer.forwarding_rate_pps();
        self.rates_pps.push(rate);
        let seconds = answer.duration_ns as f64 / 1e9;
        self.offered_pps = (self.offered_pps).max(answer.frames_sent as f64 / seconds);
        format!("{rate:.0} frames/s came back")
    }

    fn give_up(&mut self, reason: &str) {
        self.course.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let p = &self.parameters;
        let rate = spread(&self.rates_pps);
        let limit_pps = p.max_load_pps.min(self.offered_pps);
        let tester_bound = rate.is_some_and(|rate| is_tester_bound(rate.mean, limit_pps));
        let mut warnings = Vec::new();
        if !tester_bound && rate.is_some_and(|rate| rate.mean > limit_pps / 1.1) {
            warnings.push(
                "less than 1.1 times the output was offered: the DUT may forward more".into(),
            );
        }
        let is_done = self.rates_pps.len() as u32 >= p.trials;
        let verdict = match rate {
            Some(rate) if rate.max == 0.0 => "nothing came back",
            _ if is_done && tester_bound => TESTER_BOUND,
            _ if is_done => "measured",
            _ => "not all trials were run",
        };
        vec![Outcome {
            variant: Variant::default(),
            frame_size_bytes: p.frame_size,
            verdict: self.course.verdict(verdict),
            answered: is_done && self.course.failure.is_none(),
            compliance: Compliance::default(),
            warnings,
            trials: self.course.trials,
            found: Found::Mrr(fwdlab_model::outcome::Mrr {
                load_pps: p.max_load_pps,
                receive_rate_pps: rate,
                trials_pps: self.rates_pps.clone(),
                tester_bound,
            }),
        }]
    }
}
