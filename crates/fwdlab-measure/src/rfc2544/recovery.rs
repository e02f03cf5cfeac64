//! System recovery: how long after an overload frames are still lost (RFC 2544 §26.5).
//!
//! 110 % of the throughput for a minute, then half of that; the time from the change to the last
//! lost frame. Start with [`Recovery`].

use fwdlab_model::outcome::Outcome;
use fwdlab_model::procedure::{Answer, Purpose, Question, Stretch};

use super::Setup;
use super::suite::Plan;
use crate::procedure::{Procedure, Progress, check_duration, spread};

/// Number of repetitions: the RFC requires several.
pub const REPETITIONS: u32 = 10;

/// Ratio of the overload to the throughput.
const OVERLOAD: f64 = 1.1;

/// The state machine.
#[derive(Debug, Clone)]
pub struct Recovery {
    setup: Setup,
    /// The throughput of this size; 0 if none was found.
    throughput_pps: f64,
    /// Duration of the overload, and of the reduced load, in which losses are detected.
    trial_ns: u64,
    repetitions: u32,
    times_s: Vec<f64>,
    resolution_ns: Option<u64>,
    /// Number of trials that still lost frames at their end, and of trials whose overload lost
    /// none.
    unended: u32,
    not_overloaded: u32,
    progress: Progress,
}

impl Recovery {
    /// Prepares the trials.
    ///
    /// # Errors
    /// No repetitions, impossible loads, trials that are too short.
    pub fn new(setup: Setup, throughput_pps: f64, plan: &Plan) -> Result<Recovery, String> {
        let (trial_ns, repetitions) = (plan.final_ns, plan.recovery_repetitions);
        setup.check()?;
        if repetitions == 0 {
            return Err("recovery needs at least one repetition".into());
        }
        if throughput_pps > 0.0 {
            let load_pps = OVERLOAD / 2.0 * throughput_pps;
            check_duration("overload or rest", trial_ns, load_pps)?;
        }
        Ok(Recovery {
            progress: Progress::new(setup.frame_size),
            setup,
            throughput_pps,
            trial_ns,
            repetitions,
            times_s: Vec::new(),
            resolution_ns: None,
            unended: 0,
            not_overloaded: 0,
        })
    }

    fn overload_pps(&self) -> f64 {
        (OVERLOAD * self.throughput_pps).min(self.setup.largest_pps())
    }

    fn applies(&self) -> bool {
        self.throughput_pps > 0.0 && self.overload_pps() > self.throughput_pps
    }
}

impl Procedure for Recovery {
    fn next_trial(&mut self) -> Option<Question> {
        if !self.applies()
            || self.progress.failure.is_some()
            || self.progress.trials >= self.repetitions
        {
            return None;
        }
        let load = self.overload_pps();
        let reason = format!(
            "{load:.0} frames/s, then half of it: when is the last frame lost? {} of {}",
            self.progress.trials + 1,
            self.repetitions
        );
        let mut question = self
            .setup
            .question(load, self.trial_ns, Purpose::Measure, reason);
        question
            .stretches
            .push(Stretch::constant(load / 2.0, self.trial_ns));
        question.locate_loss = true;
        Some(question)
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        self.resolution_ns = self.resolution_ns.max(answer.resolution_ns);
        let end_ns = question.stretches[0].duration_ns;
        let Some(last_ns) = answer.last_lost_ns else {
            self.not_overloaded += 1;
            return "no frame lost: this was not an overload".into();
        };
        let after_ns = last_ns.saturating_sub(end_ns);
        let rest_ns = self.trial_ns;
        // within a hundredth of the end it would have continued
        if after_ns >= rest_ns - rest_ns / 100 {
            self.unended += 1;
            return "frames were lost until the end of the trial: the DUT did not recover".into();
        }
        self.times_s.push(after_ns as f64 / 1e9);
        format!(
            "the last frame was lost {:.6} s after the overload",
            after_ns as f64 / 1e9
        )
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let is_done = self.progress.trials >= self.repetitions && self.progress.failure.is_none();
        let verdict = match () {
            () if self.throughput_pps <= 0.0 => {
                "not applicable: no throughput was found".to_owned()
            }
            () if !self.applies() => "not applicable: the tester cannot overload the DUT".into(),
            () if !is_done => "not all repetitions were run".into(),
            () if self.unended > 0 => format!(
                "in {} of {} trials it did not recover before the end",
                self.unended, self.progress.trials
            ),
            () if self.times_s.is_empty() => {
                "110 % of the throughput lost no frame: it was not an overload".into()
            }
            () if self.times_s.iter().all(|s| *s == 0.0) => {
                "no frame was lost after the overload".into()
            }
            () => "measured".into(),
        };
        let mut warnings = Vec::new();
        if self.not_overloaded > 0 && !self.times_s.is_empty() {
            warnings.push(format!(
                "{} of {} trials lost no frame in overload: they are not used",
                self.not_overloaded, self.progress.trials
            ));
        }
        let mut further = Vec::new();
        if self.applies() && self.overload_pps() < OVERLOAD * self.throughput_pps * (1.0 - 1e-9) {
            let percent = 100.0 * self.overload_pps() / self.throughput_pps;
            further.push(format!(
                "overload of {percent:.1} % of the throughput instead of 110 %"
            ));
        }
        let answered = self.applies() && is_done && self.unended == 0 && !self.times_s.is_empty();
        let not_applicable = !self.applies() && self.progress.failure.is_none();
        let compliance =
            self.setup
                .conditions
                .label("RFC 2544 §26.5 system recovery", self.trial_ns, further);
        let found = fwdlab_model::outcome::Recovery {
            overload_pps: self.overload_pps(),
            rest_pps: self.overload_pps() / 2.0,
            recovery_s: spread(&self.times_s),
            repetitions_s: self.times_s.clone(),
            resolution_s: self.resolution_ns.map(|ns| ns as f64 / 1e9),
        };
        vec![Outcome {
            not_applicable,
            compliance,
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}
