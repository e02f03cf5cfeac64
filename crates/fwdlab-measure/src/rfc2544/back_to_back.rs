//! Back-to-back frames: the longest burst at minimum gap that loses nothing, and the size of the
//! DUT's buffer (RFC 9004).
//!
//! It replaces RFC 2544 §26.4. A repeated binary search on the length of the burst; it applies only
//! if the throughput is below the line rate, otherwise no buffer is ever filled. The closer the two
//! are, the larger is the effect of an error of the throughput: it is first measured as precisely
//! as the buffer needs it. Start with [`BackToBack`].

use fwdlab_model::outcome::Outcome;
use fwdlab_model::procedure::{Answer, Purpose, Question};

use super::Setup;
use super::suite::Plan;
use crate::procedure::{Procedure, Progress, check_duration, spread};

/// Number of repetitions of the search in RFC 2544.
pub const REPETITIONS: u32 = 50;

/// Minimum time without frames after a burst.
pub const EMPTY_NS: u64 = 2_000_000_000;

/// Longest burst to try, in seconds at line rate: the limit of RFC 9004.
pub const LONGEST_S: f64 = 30.0;

/// The throughput is precise enough if the rate that the buffer must absorb is known to this
/// share...
const CAPACITY_KNOWN: f64 = 0.01;

/// ...or after this number of trials.
const REFINEMENTS: u32 = 10;

/// A result within this share of the limit counts as the limit.
const NEAR_LIMIT: f64 = 0.99;

/// Returns the duration of the mean burst, the same without the frames forwarded during it (both in
/// seconds), and the buffer in frames.
pub fn buffer(burst_frames: f64, line_rate_pps: f64, throughput_pps: f64) -> (f64, f64, f64) {
    let share = 1.0 - throughput_pps / line_rate_pps;
    let implied_s = burst_frames / line_rate_pps;
    (implied_s, implied_s * share, burst_frames * share)
}

/// Returns the smallest and the largest buffer that explain longest bursts of these lengths.
///
/// The DUT forwards less than the load that lost frames. It forwards at least the throughput minus
/// what a buffer may have hidden in the trial without loss: at most the buffer over the whole
/// trial, so the buffer appears on both sides. One frame is being forwarded and is not in a buffer.
fn ends(
    shortest: f64,
    longest: f64,
    rate_pps: f64,
    throughput_pps: f64,
    lossy_pps: f64,
    trial_ns: u64,
) -> (f64, Option<f64>) {
    let least = shortest * (1.0 - lossy_pps / rate_pps).max(0.0) - 1.0;
    let frames = longest + 1.0;
    let hidden = frames / (rate_pps * (trial_ns as f64 / 1e9));
    let most = frames * (1.0 - throughput_pps / rate_pps) / (1.0 - hidden);
    (least.max(0.0), (hidden < 1.0).then_some(most))
}

/// The state machine.
#[derive(Debug, Clone)]
pub struct BackToBack {
    /// The rate in a burst is the largest load: the tester's limit, at most the line rate.
    setup: Setup,
    /// The throughput of this size; 0 if none was found.
    throughput_pps: f64,
    /// The smallest load that is known to lose frames; without one the throughput is used
    /// unrefined.
    lossy_pps: Option<f64>,
    /// Duration of the trial without loss at the throughput, and of those that refine it.
    trial_ns: u64,
    /// Longest burst to try.
    limit_frames: u64,
    /// Number of searches.
    repetitions: u32,
    /// Remaining trials to refine the throughput.
    refinements: u32,
    /// In this search, the longest burst without loss and the shortest with loss.
    low: u64,
    high: Option<u64>,
    found: Vec<u64>,
    progress: Progress,
}

impl BackToBack {
    /// Prepares the searches.
    ///
    /// # Errors
    /// No repetitions, a limit of no more than one frame or above 30 s, or impossible loads.
    pub fn new(
        setup: Setup,
        (throughput_pps, lossy_pps): (f64, Option<f64>),
        plan: &Plan,
    ) -> Result<BackToBack, String> {
        let (trial_ns, repetitions) = (plan.final_ns, plan.burst_repetitions);
        let limit_frames = (setup.largest_pps() * (plan.burst_ns as f64 / 1e9)) as u64;
        setup.check()?;
        if repetitions == 0 {
            return Err("back-to-back needs at least one repetition".into());
        }
        let most = LONGEST_S * setup.largest_pps();
        if limit_frames <= 1 || limit_frames as f64 > most {
            return Err(format!(
                "bursts of up to {limit_frames} frames: the limit must be above one frame and at most 30 s of the load, {most:.0} frames"
            ));
        }
        check_duration("a trial", trial_ns, setup.largest_pps())?;
        Ok(BackToBack {
            progress: Progress::new(setup.frame_size),
            setup,
            throughput_pps,
            lossy_pps,
            trial_ns,
            limit_frames,
            repetitions,
            refinements: REFINEMENTS,
            low: 0,
            high: None,
            found: Vec::new(),
        })
    }

    fn applies(&self) -> bool {
        self.throughput_pps > 0.0 && self.throughput_pps < self.setup.largest_pps()
    }

    /// Returns the load between the throughput and the smallest one with loss, as long as the two
    /// are too far apart.
    fn refinement(&self) -> Option<f64> {
        let lossy = self.lossy_pps.filter(|_| self.refinements > 0)?;
        let apart = lossy - self.throughput_pps;
        let one_frame = 1e9 / self.trial_ns as f64;
        let left = self.setup.largest_pps() - self.throughput_pps;
        (apart > one_frame && apart > CAPACITY_KNOWN * left)
            .then(|| self.throughput_pps + apart / 2.0)
    }

    fn near_limit(&self) -> bool {
        let limit = NEAR_LIMIT * self.limit_frames as f64;
        self.found.iter().any(|&burst| burst as f64 >= limit)
    }

    fn is_done(&self) -> bool {
        self.found.len() >= self.repetitions as usize
    }
}

impl Procedure for BackToBack {
    fn next_trial(&mut self) -> Option<Question> {
        // a single repetition at the limit shows that the limit is too low
        if !self.applies() || self.progress.failure.is_some() || self.is_done() || self.near_limit()
        {
            return None;
        }
        if let Some(load) = self.refinement() {
            let reason = format!(
                "a more exact throughput than {:.1} % of the gap above it",
                100.0 * (self.lossy_pps.unwrap_or(load) - self.throughput_pps)
                    / (self.setup.largest_pps() - self.throughput_pps)
            );
            return Some(self.setup.lossless_question(
                load,
                self.trial_ns,
                Purpose::Confirm,
                reason,
            ));
        }
        let (frames, reason) = match self.high {
            None => (
                self.limit_frames,
                "the longest burst: it must lose frames".to_owned(),
            ),
            Some(high) => (
                self.low + (high - self.low) / 2,
                format!("between {} frames without and {high} with loss", self.low),
            ),
        };
        let rate = self.setup.largest_pps();
        let duration_ns = (frames as f64 / rate * 1e9).round() as u64;
        let reason = format!(
            "burst of {frames} frames: {reason}, search {}",
            self.found.len() + 1
        );
        let mut question =
            self.setup
                .lossless_question(rate, duration_ns.max(1), Purpose::Search, reason);
        let waits = &mut question.waits;
        // the buffer takes as long as the burst to empty, and the RFC requires two seconds
        waits.drain_ns = waits.drain_ns.max(EMPTY_NS).max(duration_ns);
        Some(question)
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        let is_clean = answer.frames_lost() == 0;
        if question.purpose == Purpose::Confirm {
            self.refinements -= 1;
            if is_clean {
                self.throughput_pps = question.peak_pps();
                return "no frame lost: the throughput is higher".into();
            }
            self.lossy_pps = Some(question.peak_pps());
            return "lost frames: the throughput is lower than this".into();
        }
        let frames = question.frames();
        match (is_clean, self.high) {
            // no loss at the limit
            (true, None) => (self.low, self.high) = (frames, Some(frames)),
            (true, Some(_)) => self.low = frames,
            (false, _) => self.high = Some(frames),
        }
        if self.high.is_some_and(|high| high - self.low <= 1) {
            self.found.push(self.low);
            (self.low, self.high) = (0, None);
            return format!(
                "the longest burst is {} frames",
                self.found[self.found.len() - 1]
            );
        }
        match is_clean {
            true => "no loss: longer".into(),
            false => "lost frames: shorter".into(),
        }
    }

    fn abort(&mut self, reason: &str) {
        // a throughput that cannot be refined is still usable
        if self.refinement().is_some() {
            self.refinements = 0;
            return;
        }
        self.progress.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let rate = self.setup.largest_pps();
        let counts: Vec<f64> = self.found.iter().map(|&burst| burst as f64).collect();
        let answered = self.applies()
            && self.is_done()
            && !self.near_limit()
            && self.progress.failure.is_none();
        let bursts = spread(&counts).filter(|_| answered);
        let figures = bursts.map(|bursts| buffer(bursts.mean, rate, self.throughput_pps));
        let ends = bursts.zip(self.lossy_pps).map(|(bursts, lossy)| {
            ends(
                bursts.min,
                bursts.max,
                rate,
                self.throughput_pps,
                lossy,
                self.trial_ns,
            )
        });
        let verdict = match () {
            () if self.throughput_pps <= 0.0 => "not applicable: no throughput was found".to_owned(),
            () if !self.applies() => {
                "not applicable: the DUT forwards everything that can be offered, its buffer is never filled".into()
            }
            () if self.near_limit() => format!(
                "invalid: bursts at the limit of {} frames lost nothing; raise the limit",
                self.limit_frames
            ),
            () if !self.is_done() => "not all repetitions were run".into(),
            () if self.found.iter().all(|&burst| burst == 0) => "even a single frame is lost occasionally".into(),
            () => "measured".into(),
        };
        let mut further = Vec::new();
        if self.repetitions < REPETITIONS {
            further.push(format!("{} repetitions instead of 50", self.repetitions));
        }
        if self.setup.line_rate_pps.is_none() {
            further.push(
                "there is no line rate: bursts at the largest load of the tester, not at minimum gap"
                    .into(),
            );
        }
        let not_applicable = !self.applies() && self.progress.failure.is_none();
        let compliance = self
            .setup
            .conditions
            .label("RFC 9004 back-to-back", u64::MAX, further);
        let found = fwdlab_model::outcome::BackToBack {
            line_rate_pps: rate,
            throughput_pps: self.throughput_pps,
            lossy_pps: self.lossy_pps,
            burst_frames: bursts,
            repetitions: self.found.clone(),
            limit_frames: self.limit_frames,
            implied_time_s: figures.map(|figures| figures.0),
            corrected_time_s: figures.map(|figures| figures.1),
            buffer_frames: figures.map(|figures| figures.2),
            buffer_min_frames: ends.map(|ends| ends.0),
            buffer_max_frames: ends.and_then(|ends| ends.1),
        };
        vec![Outcome {
            not_applicable,
            compliance,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}
