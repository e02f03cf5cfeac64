//! Back-to-back frames: the longest burst at minimum gap that loses nothing, and the size of the DUT's buffer (RFC 9004).
//!
//! It replaces RFC 2544 §26.4. A binary search on the length of the burst, repeated; it applies only where the throughput is below
//! the rate of the line, else no buffer is ever filled. The nearer the two are, the more an error of the throughput weighs: it is first
//! made as exact as the buffer needs it. Start with [`BackToBack`].

use fwdlab_model::outcome::{Found, Outcome};
use fwdlab_model::procedure::{Answer, Purpose, Question};
use fwdlab_model::variant::Variant;

use super::Setup;
use crate::compliance::FINAL_NS;
use crate::procedure::{Course, Procedure, check_duration, spread};

/// Repetitions of the search that RFC 2544 asks for.
pub const REPETITIONS: u32 = 50;

/// After a burst nothing is sent for so long, at least.
pub const EMPTY_NS: u64 = 2_000_000_000;

/// Longest burst that is tried, in seconds of the line: what RFC 9004 allows.
pub const LONGEST_S: f64 = 30.0;

/// The throughput is known well enough when what the buffer has to take is known to this share...
const CAPACITY_KNOWN: f64 = 0.01;

/// ...or after so many trials.
const REFINEMENTS: u32 = 10;

/// Within this share of the limit a result is the limit's.
const NEAR_LIMIT: f64 = 0.99;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Frame size, loads, conditions. The rate in a burst is the largest load: what the tester can hold, at most the line's.
    pub setup: Setup,
    /// The throughput of this size; 0 when none was found.
    pub throughput_pps: f64,
    /// The smallest load that is known to lose frames; where there is none the throughput is taken as it is.
    pub lossy_pps: Option<f64>,
    /// Duration of the trial that lost nothing at the throughput, and of those that make it more exact.
    pub trial_ns: u64,
    /// The search ends when it knows the burst to so many frames.
    pub step_frames: u64,
    /// Longest burst that is tried.
    pub limit_frames: u64,
    /// Searches.
    pub repetitions: u32,
    /// A lossy burst is repeated so often and passes when one of them is clean.
    pub verifications: u32,
}

impl Parameters {
    /// As the RFCs ask for, with bursts of up to two seconds.
    pub fn standard(setup: Setup, throughput_pps: f64, lossy_pps: Option<f64>) -> Parameters {
        Parameters {
            limit_frames: (2.0 * setup.largest_pps()).max(1.0) as u64,
            setup,
            throughput_pps,
            lossy_pps,
            trial_ns: FINAL_NS,
            step_frames: 1,
            repetitions: REPETITIONS,
            verifications: 0,
        }
    }
}

/// Time of the mean burst, the same without what was forwarded meanwhile (both in seconds), and the buffer in frames.
pub fn buffer(burst_frames: f64, line_rate_pps: f64, throughput_pps: f64) -> (f64, f64, f64) {
    let share = 1.0 - throughput_pps / line_rate_pps;
    let implied_s = burst_frames / line_rate_pps;
    (implied_s, implied_s * share, burst_frames * share)
}

/// The smallest and the largest buffer with which the longest bursts without loss are of these lengths.
///
/// The DUT forwards less than the load that lost frames. It forwards at least the throughput, less what a buffer may have hidden in the
/// trial that lost nothing: no more than the buffer in all of it, which leads to the same buffer twice. One frame is being forwarded and is
/// in no buffer.
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

/// The machine.
#[derive(Debug, Clone)]
pub struct BackToBack {
    parameters: Parameters,
    /// Trials that are left to make the throughput more exact.
    refinements: u32,
    /// Longest burst without loss of this search, and shortest with.
    low: u64,
    high: Option<u64>,
    attempts: u32,
    found: Vec<u64>,
    course: Course,
}

impl BackToBack {
    /// Prepares the searches.
    ///
    /// # Errors
    /// No repetitions, a step below one frame, a limit below the step or above 30 s, or impossible loads.
    pub fn new(parameters: Parameters) -> Result<BackToBack, String> {
        let p = &parameters;
        p.setup.check()?;
        if p.repetitions == 0 || p.step_frames == 0 {
            return Err(
                "back-to-back needs at least one repetition and a step of one frame".into(),
            );
        }
        let most = LONGEST_S * p.setup.largest_pps();
        if p.limit_frames <= p.step_frames || p.limit_frames as f64 > most {
            return Err(format!(
                "bursts of up to {} frames: the limit must be above the step of {} and at most 30 s of the load, {most:.0} frames",
                p.limit_frames, p.step_frames
            ));
        }
        check_duration("a trial", p.trial_ns, p.setup.largest_pps())?;
        Ok(BackToBack {
            parameters,
            refinements: REFINEMENTS,
            low: 0,
            high: None,
            attempts: 0,
            found: Vec::new(),
            course: Course::default(),
        })
    }

    fn applies(&self) -> bool {
        let p = &self.parameters;
        p.throughput_pps > 0.0 && p.throughput_pps < p.setup.largest_pps()
    }

    /// The load between the throughput and the smallest with loss, as long as the two are too far apart.
    fn refinement(&self) -> Option<f64> {
        let p = &self.parameters;
        let lossy = p.lossy_pps.filter(|_| self.refinements > 0)?;
        let apart = lossy - p.throughput_pps;
        let one_frame = 1e9 / p.trial_ns as f64;
        let left = p.setup.largest_pps() - p.throughput_pps;
        (apart > one_frame && apart > CAPACITY_KNOWN * left).then(|| p.throughput_pps + apart / 2.0)
    }

    fn near_limit(&self) -> bool {
        let limit = NEAR_LIMIT * self.parameters.limit_frames as f64;
        self.found.iter().any(|&burst| burst as f64 >= limit)
    }

    fn is_done(&self) -> bool {
        self.found.len() >= self.parameters.repetitions as usize
    }
}

impl Procedure for BackToBack {
    fn next_trial(&mut self) -> Option<Question> {
        // one repetition at the limit is enough to know that the limit is too low
        if !self.applies() || self.course.failure.is_some() || self.is_done() || self.near_limit() {
            return None;
        }
        let p = &self.parameters;
        if let Some(load) = self.refinement() {
            let reason = format!(
                "a more exact throughput than {:.1} % of the gap above it",
                100.0 * (p.lossy_pps.unwrap_or(load) - p.throughput_pps)
                    / (p.setup.largest_pps() - p.throughput_pps)
            );
            return Some(
                p.setup
                    .lossless_question(load, p.trial_ns, Purpose::Confirm, reason),
            );
        }
        let (frames, reason) = match self.high {
            None => (
                p.limit_frames,
                "the longest burst: it must lose frames".to_owned(),
            ),
            Some(high) => (
                self.low + (high - self.low) / 2,
                format!("between {} frames without and {high} with loss", self.low),
            ),
        };
        let rate = p.setup.largest_pps();
        let duration_ns = (frames as f64 / rate * 1e9).round() as u64;
        let reason = format!(
            "burst of {frames} frames: {reason}, search {}",
            self.found.len() + 1
        );
        let mut question =
            p.setup
                .lossless_question(rate, duration_ns.max(1), Purpose::Search, reason);
        let waits = &mut question.waits;
        // the buffer needs as long as the burst to empty, and two seconds are asked for
        waits.drain_ns = waits.drain_ns.max(EMPTY_NS).max(duration_ns);
        Some(question)
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.course.trials += 1;
        let is_clean = answer.frames_lost() == 0;
        if question.purpose == Purpose::Confirm {
            self.refinements -= 1;
            let p = &mut self.parameters;
            if is_clean {
                p.throughput_pps = question.peak_pps();
                return "no frame lost: the throughput is higher".into();
            }
            p.lossy_pps = Some(question.peak_pps());
            return "lost frames: the throughput is lower than this".into();
        }
        let p = &self.parameters;
        let frames = question.frames();
        if !is_clean && self.attempts < p.verifications {
            self.attempts += 1;
            return "lost frames; once more, one burst without loss is enough".into();
        }
        self.attempts = 0;
        match (is_clean, self.high) {
            // nothing lost at the limit
            (true, None) => (self.low, self.high) = (frames, Some(frames)),
            (true, Some(_)) => self.low = frames,
            (false, _) => self.high = Some(frames),
        }
        if self
            .high
            .is_some_and(|high| high - self.low <= p.step_frames)
        {
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

    fn give_up(&mut self, reason: &str) {
        // a throughput that cannot be made more exact is still one
        if self.refinement().is_some() {
            self.refinements = 0;
            return;
        }
        self.course.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let p = &self.parameters;
        let rate = p.setup.largest_pps();
        let counts: Vec<f64> = self.found.iter().map(|&burst| burst as f64).collect();
        let answered =
            self.applies() && self.is_done() && !self.near_limit() && self.course.failure.is_none();
        let bursts = spread(&counts).filter(|_| answered);
        let figures = bursts.map(|bursts| buffer(bursts.mean, rate, p.throughput_pps));
        let ends = bursts.zip(p.lossy_pps).map(|(bursts, lossy)| {
            ends(
                bursts.min,
                bursts.max,
                rate,
                p.throughput_pps,
                lossy,
                p.trial_ns,
            )
        });
        let verdict = match () {
            () if p.throughput_pps <= 0.0 => "not applicable: no throughput was found".to_owned(),
            () if !self.applies() => {
                "not applicable: the DUT forwards everything that can be offered, its buffer is never filled".into()
            }
            () if self.near_limit() => format!(
                "invalid: bursts at the limit of {} frames lost nothing; raise the limit",
                p.limit_frames
            ),
            () if !self.is_done() => "not all repetitions were run".into(),
            () if self.found.iter().all(|&burst| burst == 0) => "even a single frame is lost occasionally".into(),
            () => "measured".into(),
        };
        let mut further = Vec::new();
        if p.repetitions < REPETITIONS {
            further.push(format!("{} repetitions instead of 50", p.repetitions));
        }
        if p.step_frames > 1 {
            further.push(format!("burst lengths known to {} frames", p.step_frames));
        }
        if p.setup.line_rate_pps.is_none() {
            further.push(
                "there is no line rate: bursts at the largest load of the tester, not at minimum gap"
                    .into(),
            );
        }
        vec![Outcome {
            variant: Variant::default(),
            frame_size_bytes: p.setup.frame_size,
            verdict: self.course.verdict(verdict),
            answered,
            not_applicable: !self.applies() && self.course.failure.is_none(),
            compliance: p
                .setup
                .conditions
                .label("RFC 9004 back-to-back", u64::MAX, further),
            warnings: Vec::new(),
            trials: self.course.trials,
            found: Found::BackToBack(fwdlab_model::outcome::BackToBack {
                line_rate_pps: rate,
                throughput_pps: p.throughput_pps,
                lossy_pps: p.lossy_pps,
                burst_frames: bursts,
                repetitions: self.found.clone(),
                limit_frames: p.limit_frames,
                implied_time_s: figures.map(|figures| figures.0),
                corrected_time_s: figures.map(|figures| figures.1),
                buffer_frames: figures.map(|figures| figures.2),
                buffer_min_frames: ends.map(|ends| ends.0),
                buffer_max_frames: ends.and_then(|ends| ends.1),
            }),
        }]
    }
}
