//! Frame loss rate: loss over load, from the full rate down (RFC 2544 §26.3, errata 422 and 5203;
//! RFC 1242 §3.6).
//!
//! From 100 % of the full rate in steps of 10 % or less, until two successive loads lose nothing;
//! below the last whole step the load is halved. The forwarding rates show whether the DUT forwards
//! less in overload. Start with [`FrameLoss`].

use fwdlab_model::outcome::{FORWARDS_NOTHING, LossPoint, Outcome};
use fwdlab_model::procedure::{Answer, Purpose, Question};

use super::Setup;
use super::suite::Plan;
use crate::procedure::{Procedure, Progress, check_duration};

/// Largest step that the RFC allows, in percent.
pub const LARGEST_STEP: f64 = 10.0;

/// Below the last step loads are halved, down to this share of the full rate in percent.
const SMALLEST_PERCENT: f64 = 0.1;

/// A DUT collapses if its rate at the highest load is below this share of its best rate.
const COLLAPSE: f64 = 0.9;

/// The state machine.
#[derive(Debug, Clone)]
pub struct FrameLoss {
    setup: Setup,
    /// Step from one load to the next, in percent of the full rate.
    step_percent: f64,
    trial_ns: u64,
    points: Vec<LossPoint>,
    /// Number of steps of the next load below 100 %.
    steps: u32,
    clean: u32,
    /// Number of loads that the generator did not reach: they have no point.
    unreached: u32,
    progress: Progress,
}

impl FrameLoss {
    /// Prepares the trials. Skips loads that the tester cannot offer.
    ///
    /// # Errors
    /// The step is invalid, or larger than the RFC allows; a load is impossible; trials are too
    /// short.
    pub fn new(setup: Setup, plan: &Plan) -> Result<FrameLoss, String> {
        let (step_percent, trial_ns) = (plan.loss_step_percent, plan.final_ns);
        setup.check()?;
        if !(step_percent > 0.0 && step_percent <= LARGEST_STEP) {
            return Err(format!(
                "a step of {step_percent} %: RFC 2544 §26.3 allows steps above 0 and up to 10 %",
            ));
        }
        let smallest = setup.full_rate_pps() * SMALLEST_PERCENT / 100.0;
        check_duration("a trial at the smallest load", trial_ns, smallest)?;
        let reachable = setup.largest_pps() / setup.full_rate_pps();
        let steps = ((1.0 - reachable) * 100.0 / step_percent - 1e-9)
            .ceil()
            .max(0.0);
        Ok(FrameLoss {
            steps: steps as u32,
            progress: Progress::new(setup.frame_size),
            setup,
            step_percent,
            trial_ns,
            points: Vec::new(),
            clean: 0,
            unreached: 0,
        })
    }

    /// Returns the next load; below the last whole step it is halved.
    fn percent(&self) -> f64 {
        let step = self.step_percent;
        let whole = (100.0 / step + 1e-9).floor() as u32 - 1;
        let halvings = self.steps.saturating_sub(whole);
        (100.0 - f64::from(self.steps - halvings) * step) / 2f64.powi(halvings as i32)
    }
}

impl Procedure for FrameLoss {
    fn next_trial(&mut self) -> Option<Question> {
        let percent = self.percent();
        if self.clean >= 2 || percent < SMALLEST_PERCENT || self.progress.failure.is_some() {
            return None;
        }
        let load = self.setup.full_rate_pps() * percent / 100.0;
        let reason = format!("loss at {percent} % of the full rate");
        Some(
            self.setup
                .question(load, self.trial_ns, Purpose::Measure, reason),
        )
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        let loss = answer.frames_lost() as f64 / answer.frames_sent.max(1) as f64;
        let is_clean = answer.frames_lost() == 0;
        self.points.push(LossPoint {
            percent: self.percent(),
            load_pps: question.peak_pps(),
            loss_percent: 100.0 * loss,
            forwarding_rate_pps: answer.forwarding_rate_pps(),
        });
        self.steps += 1;
        self.clean = if is_clean { self.clean + 1 } else { 0 };
        match self.clean {
            0 => format!("{} % lost: down", (1e6 * loss).round() / 1e4),
            1 => "no loss: one more".into(),
            _ => "no loss twice: done".into(),
        }
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    /// The curve has no point there, and the loads around the missing one do not count as
    /// successive.
    fn load_not_reached(&mut self, _: &Question, _: &Answer, _: &str) {
        self.steps += 1;
        self.unreached += 1;
        self.clean = 0;
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let ended_clean = self.clean >= 2;
        let rates = self.points.iter().map(|point| point.forwarding_rate_pps);
        let best = rates.fold(0.0, f64::max);
        let collapse_ratio = self
            .points
            .first()
            .filter(|_| best > 0.0)
            .map(|first| first.forwarding_rate_pps / best);
        let mut warnings = Vec::new();
        if let Some(ratio) = collapse_ratio.filter(|ratio| *ratio < COLLAPSE) {
            warnings.push(format!(
                "livelock: at the highest load the DUT forwards {:.0} % of its best rate",
                100.0 * ratio
            ));
        }
        if self.unreached > 0 {
            warnings.push(format!(
                "the generator did not reach {} of the loads: the curve has no points there",
                self.unreached
            ));
        }
        let mut further = Vec::new();
        let starts_below = self
            .points
            .first()
            .is_some_and(|point| point.percent < 100.0 - 1e-9);
        if starts_below {
            further.push("partial range: the tester does not reach 100 %".into());
        }
        if !ended_clean {
            further.push("partial range: no two loads without loss at the end".into());
        }
        let lost_everything = !self.points.is_empty() && best == 0.0;
        let verdict = match (ended_clean, self.points.len()) {
            (_, 0) if self.unreached > 0 => "the generator reached none of the loads",
            (_, 0) => "nothing was measured",
            _ if lost_everything => FORWARDS_NOTHING,
            (true, 2) => "nothing was lost at the two highest loads",
            (true, _) => "measured",
            (false, _) if self.unreached > 0 => {
                "cannot tell where loss begins: the generator did not reach all loads"
            }
            (false, _) => "frames were lost down to the smallest load",
        };
        let answered = ended_clean && self.progress.failure.is_none();
        let compliance =
            self.setup
                .conditions
                .label("RFC 2544 §26.3 frame loss rate", self.trial_ns, further);
        let found = fwdlab_model::outcome::FrameLoss {
            max_load_pps: self.setup.full_rate_pps(),
            points: self.points.clone(),
            ended_clean,
            collapse_ratio,
        };
        vec![Outcome {
            compliance,
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}
