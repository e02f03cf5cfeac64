//! System recovery: how long after an overload frames are still lost (RFC 2544 §26.5).
//!
//! 110 % of the throughput for a minute, then half of that; the time from the change to the last
//! lost frame. Start with [`Recovery`].

use fwdlab_model::outcome::{Found, Outcome};
use fwdlab_model::procedure::{Answer, Purpose, Question, Stretch};
use fwdlab_model::variant::Variant;

use super::Setup;
use crate::compliance::FINAL_NS;
use crate::procedure::{Procedure, Progress, check_duration, spread};

/// Number of repetitions: the RFC requires several.
pub const REPETITIONS: u32 = 10;

/// Ratio of the overload to the throughput.
const OVERLOAD: f64 = 1.1;

/// The parameters of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Frame size, loads, conditions.
    pub setup: Setup,
    /// The throughput of this size; 0 if none was found.
    pub throughput_pps: f64,
    /// Duration of the overload.
    pub overload_ns: u64,
    /// Duration of the reduced load, in which losses are detected.
    pub rest_ns: u64,
    /// Number of trials.
    pub repetitions: u32,
}

impl Parameters {
    /// Returns the values of RFC 2544.
    pub fn standard(setup: Setup, throughput_pps: f64) -> Parameters {
        Parameters {
            setup,
            throughput_pps,
            overload_ns: FINAL_NS,
            rest_ns: FINAL_NS,
            repetitions: REPETITIONS,
        }
    }
}

/// The state machine.
#[derive(Debug, Clone)]
pub struct Recovery {
    parameters: Parameters,
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
    pub fn new(parameters: Parameters) -> Result<Recovery, String> {
        let p = &parameters;
        p.setup.check()?;
        if p.repetitions == 0 {
            return Err("recovery needs at least one repetition".into());
        }
        if p.throughput_pps > 0.0 {
            let shortest = p.overload_ns.min(p.rest_ns);
            check_duration(
                "overload or rest",
                shortest,
                OVERLOAD / 2.0 * p.throughput_pps,
            )?;
        }
        Ok(Recovery {
            parameters,
            times_s: Vec::new(),
            resolution_ns: None,
            unended: 0,
            not_overloaded: 0,
            progress: Progress::default(),
        })
    }

    fn overload_pps(&self) -> f64 {
        let p = &self.parameters;
        (OVERLOAD * p.throughput_pps).min(p.setup.largest_pps())
    }

    fn applies(&self) -> bool {
        self.parameters.throughput_pps > 0.0 && self.overload_pps() > self.parameters.throughput_pps
    }
}

impl Procedure for Recovery {
    fn next_trial(&mut self) -> Option<Question> {
        let p = &self.parameters;
        if !self.applies()
            || self.progress.failure.is_some()
            || self.progress.trials >= p.repetitions
        {
            return None;
        }
        let load = self.overload_pps();
        let reason = format!(
            "{load:.0} frames/s, then half of it: when is the last frame lost? {} of {}",
            self.progress.trials + 1,
            p.repetitions
        );
        let mut question = p
            .setup
            .question(load, p.overload_ns, Purpose::Measure, reason);
        question
            .stretches
            .push(Stretch::constant(load / 2.0, p.rest_ns));
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
        let rest_ns = self.parameters.rest_ns;
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
        let p = &self.parameters;
        let is_done = self.progress.trials >= p.repetitions && self.progress.failure.is_none();
        let verdict = match () {
            () if p.throughput_pps <= 0.0 => "not applicable: no throughput was found".to_owned(),
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
        if self.applies() && self.overload_pps() < OVERLOAD * p.throughput_pps * (1.0 - 1e-9) {
            let percent = 100.0 * self.overload_pps() / p.throughput_pps;
            further.push(format!(
                "overload of {percent:.1} % of the throughput instead of 110 %"
            ));
        }
        vec![Outcome {
            variant: Variant::default(),
            frame_size_bytes: p.setup.frame_size,
            verdict: self.progress.verdict(verdict),
            answered: self.applies() && is_done && self.unended == 0 && !self.times_s.is_empty(),
            not_applicable: !self.applies() && self.progress.failure.is_none(),
            compliance: p.setup.conditions.label(
                "RFC 2544 §26.5 system recovery",
                p.overload_ns,
                further,
            ),
            warnings,
            trials: self.progress.trials,
            found: Found::Recovery(fwdlab_model::outcome::Recovery {
                overload_pps: self.overload_pps(),
                rest_pps: self.overload_pps() / 2.0,
                recovery_s: spread(&self.times_s),
                repetitions_s: self.times_s.clone(),
                resolution_s: self.resolution_ns.map(|ns| ns as f64 / 1e9),
            }),
        }]
    }
}
