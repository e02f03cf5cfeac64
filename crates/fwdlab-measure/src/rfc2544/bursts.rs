//! Bursty traffic: how closely bursts of frames may follow each other without loss (RFC 2544 §21).
//!
//! Frames leave in bursts at minimum gap with a constant average load; for every length of a burst
//! it searches for the smallest gap between two bursts without loss, in trials of full length. The
//! longest single burst is [`super::back_to_back`]'s. Start with [`Bursty`].

use fwdlab_model::outcome::{BurstGap, Outcome};
use fwdlab_model::procedure::{Answer, Bursts, Purpose, Question};

use super::Setup;
use super::suite::Plan;
use crate::procedure::{Procedure, Progress, check_duration, time};

/// Lengths of bursts in §21, in frames.
pub const FRAMES: [u32; 4] = [16, 64, 256, 1024];

/// A DUT that has not recovered from a burst after this time will not recover.
const LONGEST_GAP_NS: u64 = 100_000_000;

/// The search for a gap ends if the largest gap with loss is smaller by at most this share.
pub const RESOLUTION: f64 = 0.01;

/// Minimum number of bursts in a trial.
const FEWEST_BURSTS: u64 = 10;

/// The state machine.
#[derive(Debug, Clone)]
pub struct Bursty {
    /// The rate in a burst is the largest load: the tester's limit, at most the line rate.
    setup: Setup,
    /// Lengths of bursts in frames.
    frames: Vec<u32>,
    trial_ns: u64,
    longest_gap_ns: u64,
    /// For the current length: the largest gap with loss and the smallest without, in nanoseconds.
    lossy: Option<f64>,
    clean: Option<f64>,
    found: Vec<BurstGap>,
    progress: Progress,
}

impl Bursty {
    /// Prepares the searches.
    ///
    /// # Errors
    /// No lengths or one below two frames, trials too short for some bursts, impossible loads.
    pub fn new(setup: Setup, plan: &Plan) -> Result<Bursty, String> {
        let (frames, trial_ns) = (plan.burst_frames.clone(), plan.final_ns);
        let longest_gap_ns = LONGEST_GAP_NS.min(trial_ns / 20);
        setup.check()?;
        let Some(longest) = frames.iter().max() else {
            return Err("no burst length was given: RFC 2544 §21 has 16,64,256,1024".into());
        };
        if frames.iter().any(|frames| *frames < 2) {
            return Err("a burst needs at least two frames".into());
        }
        let burst_ns = f64::from(*longest) / setup.largest_pps() * 1e9;
        let needed = FEWEST_BURSTS * (longest_gap_ns + burst_ns as u64);
        if trial_ns < needed {
            return Err(format!(
                "trials of {} are too short for {FEWEST_BURSTS} bursts of {longest} frames with gaps of up to {}: make them at \
                 least {} long",
                time(trial_ns),
                time(longest_gap_ns),
                time(needed)
            ));
        }
        check_duration("a trial", trial_ns, setup.largest_pps())?;
        Ok(Bursty {
            progress: Progress::new(setup.frame_size),
            setup,
            frames,
            trial_ns,
            longest_gap_ns,
            lossy: None,
            clean: None,
            found: Vec::new(),
        })
    }

    /// Returns the burst length that is being measured.
    fn bursts(&self) -> Option<Bursts> {
        let frames = *self.frames.get(self.found.len())?;
        Some(Bursts {
            frames,
            rate_pps: self.setup.largest_pps(),
        })
    }

    /// Returns the gap of the next trial, and the reason.
    fn next_gap(&self, bursts: &Bursts) -> (f64, String) {
        let shortest = 1e9 / bursts.rate_pps;
        match (self.clean, self.lossy) {
            (None, _) => (
                self.longest_gap_ns as f64,
                "the longest gap: a single burst must pass".into(),
            ),
            (Some(_), None) => (shortest, "no gap at all: the full load".into()),
            // gaps span several orders of magnitude
            (Some(clean), Some(lossy)) => (
                (clean * lossy).sqrt(),
                format!(
                    "between {} with and {} without loss",
                    gap(lossy),
                    gap(clean)
                ),
            ),
        }
    }

    fn settle(&mut self, bursts: &Bursts) {
        let of = |gap_ns: Option<f64>| gap_ns.map(|ns| ns / 1e9);
        self.found.push(BurstGap {
            frames: bursts.frames,
            gap_s: of(self.clean),
            lossy_gap_s: of(self.lossy),
            load_pps: self.clean.map(|gap_ns| bursts.load_pps(gap_ns)),
        });
        (self.clean, self.lossy) = (None, None);
    }
}

fn gap(ns: f64) -> String {
    time(ns.round() as u64)
}

impl Procedure for Bursty {
    fn next_trial(&mut self) -> Option<Question> {
        if self.progress.failure.is_some() {
            return None;
        }
        let bursts = self.bursts()?;
        let (gap_ns, cause) = self.next_gap(&bursts);
        let reason = format!(
            "bursts of {} frames, {} apart: {cause}",
            bursts.frames,
            gap(gap_ns)
        );
        let load = bursts.load_pps(gap_ns);
        Some(Question {
            bursts: Some(bursts),
            ..self
                .setup
                .question(load, self.trial_ns, Purpose::Measure, reason)
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        let Some(bursts) = self.bursts() else {
            return String::new();
        };
        let (gap_ns, _) = self.next_gap(&bursts);
        let is_clean = answer.frames_lost() == 0;
        match is_clean {
            true => self.clean = Some(gap_ns),
            false => self.lossy = Some(gap_ns),
        }
        let known = match (self.clean, self.lossy) {
            (None, Some(_)) => Some("frames are lost at any gap".to_owned()),
            (Some(clean), _) if clean * bursts.rate_pps <= 1e9 => Some("no gap is needed".into()),
            (Some(clean), Some(lossy)) if clean <= lossy * (1.0 + RESOLUTION) => {
                Some(format!("the smallest gap is {}", gap(clean)))
            }
            _ => None,
        };
        match known {
            Some(words) => {
                self.settle(&bursts);
                words
            }
            None if is_clean => "no loss: closer".into(),
            None => "lost frames: farther apart".into(),
        }
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let complete = self.found.len() == self.frames.len();
        let too_long: Vec<String> = (self.found.iter())
            .filter(|burst| burst.gap_s.is_none())
            .map(|burst| burst.frames.to_string())
            .collect();
        let verdict = match (complete, too_long.is_empty()) {
            (false, _) => "not all lengths were measured".to_owned(),
            (true, true) => "measured".into(),
            (true, false) => format!(
                "bursts of {} frames lose frames at any gap: they do not fit into the DUT's buffer",
                too_long.join(", ")
            ),
        };
        let mut further = Vec::new();
        if self.setup.line_rate_pps.is_none() {
            further.push(
                "there is no line rate: bursts at the largest load of the tester, not at minimum gap"
                    .into(),
            );
        }
        let answered = complete && self.progress.failure.is_none();
        let compliance =
            self.setup
                .conditions
                .label("RFC 2544 §21 bursty traffic", self.trial_ns, further);
        let found = fwdlab_model::outcome::BurstGaps {
            rate_pps: self.setup.largest_pps(),
            bursts: self.found.clone(),
        };
        vec![Outcome {
            compliance,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}
