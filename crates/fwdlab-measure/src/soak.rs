//! Soak: one load for a long time, and whether the forwarding stays as good as at the start.
//!
//! Measures lost frames, the bursts in which they were lost, and the trend of the forwarding rate.
//! It passes if the loss is within its goal and no trend is proven. [`crate::plr`] searches for the
//! load whose average loss is a given tiny share. Start with [`Soak`].

use fwdlab_model::campaign;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::procedure::{Answer, Interval, Purpose, Question};
use fwdlab_model::units::FrameSize;
use fwdlab_stats::{Confidence, Sample, drift};

use crate::procedure::{
    Procedure, Progress, check_duration, check_load, loss_ratio, sent_pps, time,
};

/// Length of a sample; longer if there would be too many.
const SAMPLE_NS: u64 = 1_000_000_000;

/// Maximum number of samples.
const MOST_SAMPLES: u64 = 20_000;

/// Minimum number of samples for a trend.
const FEWEST_SAMPLES: u64 = 20;

/// The state machine: it requests one long trial.
#[derive(Debug, Clone)]
pub struct Soak {
    /// The load: by convention 95 % of the no-drop rate.
    load_pps: f64,
    parameters: campaign::Soak,
    made: Option<Answer>,
    /// True if the load was not offered.
    fell_short: bool,
    progress: Progress,
}

impl Soak {
    /// Prepares the trial.
    ///
    /// # Errors
    /// An impossible load or goal, or a duration too short for a trend.
    pub fn new(
        frame_size: FrameSize,
        load_pps: f64,
        parameters: campaign::Soak,
    ) -> Result<Soak, String> {
        let p = &parameters;
        check_load("the load", load_pps)?;
        check_duration("a sample", SAMPLE_NS, load_pps)?;
        if !(0.0..1.0).contains(&p.loss.0) {
            return Err(format!(
                "a loss ratio of {}: the goal must be from 0 to below 1",
                p.loss
            ));
        }
        if p.duration.ns() < FEWEST_SAMPLES * SAMPLE_NS {
            return Err(format!(
                "a soak of {} has fewer than {FEWEST_SAMPLES} samples of {}: too few for a trend",
                time(p.duration.ns()),
                time(SAMPLE_NS)
            ));
        }
        Ok(Soak {
            load_pps,
            parameters,
            made: None,
            fell_short: false,
            progress: Progress::new(frame_size),
        })
    }
}

/// Returns the lengths in nanoseconds of runs of consecutive samples that are all lossy, or all
/// clean.
fn runs(samples: &[Interval], lossy: bool) -> Vec<u64> {
    samples
        .chunk_by(|a, b| (a.loss_ratio() > 0.0) == (b.loss_ratio() > 0.0))
        .filter(|run| (run[0].loss_ratio() > 0.0) == lossy)
        .map(|run| run.iter().map(|sample| sample.length_ns).sum())
        .collect()
}

impl Procedure for Soak {
    fn next_trial(&mut self) -> Option<Question> {
        let duration_ns = self.parameters.duration.ns();
        (self.made.is_none() && self.progress.failure.is_none()).then(|| {
            let reason = format!("{:.0} frames/s for {}", self.load_pps, time(duration_ns));
            Question {
                sample_ns: Some(SAMPLE_NS * duration_ns.div_ceil(SAMPLE_NS * MOST_SAMPLES)),
                ..Question::constant(
                    self.progress.frame_size,
                    self.load_pps,
                    duration_ns,
                    Purpose::Measure,
                    reason,
                )
            }
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        self.made = Some(answer.clone());
        format!(
            "{} of {} frames lost",
            answer.frames_lost(),
            answer.frames_sent
        )
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    /// Shows its counts, which are those of another load.
    fn load_not_reached(&mut self, _: &Question, answer: &Answer, _: &str) {
        self.made = Some(answer.clone());
        self.fell_short = true;
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let goal = self.parameters.loss.0;
        let answer = self.made.clone().unwrap_or_default();
        let loss = loss_ratio(&answer);
        let samples = &answer.samples;
        let rates: Vec<f64> = samples.iter().map(Interval::forwarding_rate_pps).collect();
        let hours = answer.duration_ns as f64 / 3.6e12;
        let trend = Sample::new(rates)
            .ok()
            .zip(Confidence::new(0.95))
            .and_then(|(sample, confidence)| drift(&sample, confidence))
            .filter(|_| hours > 0.0);
        let drifts = trend.is_some_and(|trend| !trend.interval.contains(0.0));
        let within = loss <= goal;
        let seconds = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e9);
        let (bursts, clean) = (runs(samples, true), runs(samples, false));
        let verdict = match (&self.made, within, drifts) {
            (None, ..) => "not measured".to_owned(),
            _ if self.fell_short => format!(
                "cannot tell: the generator did not reach the load: {:.0} of {:.0} frames/s were offered",
                sent_pps(&answer),
                self.load_pps
            ),
            (_, true, false) => "passed: loss within its goal, no trend".into(),
            (_, true, true) => "failed: the forwarding rate drifts".into(),
            (_, false, false) => format!("failed: a loss ratio of {loss:.3e}"),
            (_, false, true) => {
                format!("failed: a loss ratio of {loss:.3e}, and the forwarding rate drifts")
            }
        };
        let answered = self.made.is_some() && !self.fell_short;
        let found = fwdlab_model::outcome::Soak {
            load_pps: self.load_pps,
            duration_s: answer.duration_ns as f64 / 1e9,
            frames_sent: answer.frames_sent,
            frames_lost: answer.frames_lost(),
            loss_ratio: loss,
            loss_ratio_goal: goal,
            longest_lossless_s: seconds(clean.iter().max()),
            loss_bursts: bursts.len() as u32,
            longest_burst_s: seconds(bursts.iter().max()),
            trend_pps_per_hour: trend.map(|trend| trend.change / hours),
            trend_interval_pps_per_hour: trend
                .map(|trend| (trend.interval.low / hours, trend.interval.high / hours)),
            passed: self.made.is_some() && !self.fell_short && within && !drifts,
            samples: answer.samples.clone(),
        };
        vec![self.progress.outcome(verdict, answered, found)]
    }
}
