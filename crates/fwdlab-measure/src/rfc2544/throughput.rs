//! Throughput: the highest rate at which every frame comes back (RFC 2544 §26.1, erratum 422; RFC
//! 1242 §3.17).
//!
//! A binary search with arithmetic midpoints, in trials that end with the first lost frame, and a
//! full-length trial that confirms the result. One unlucky trial makes the result too low, and loss
//! at loads below the result is never noticed: for noisy software DUTs MLRsearch ([`crate::mlr`])
//! gives the same result sooner. Start with [`Throughput`].

use fwdlab_model::outcome::Outcome;
use fwdlab_model::procedure::{Answer, Purpose, Question};

use super::Setup;
use super::suite::Plan;
use crate::procedure::{
    Procedure, Progress, TESTER_BOUND, check_duration, is_tester_bound, percent, sent_pps, time,
};

/// The resolution is relative to the result, down to this share of the full rate: a search without
/// a result must end.
const FINEST: f64 = 0.01;

/// The state machine.
#[derive(Debug, Clone)]
pub struct Throughput {
    setup: Setup,
    /// The search ends if the bounds are no farther apart than this share of the upper one. Never
    /// finer than a frame in a trial, nor than this share of a hundredth of the full rate.
    resolution: f64,
    search_ns: u64,
    final_ns: u64,
    /// The largest load without loss so far; 0: none.
    low: f64,
    /// The smallest load with loss; `None` while the largest load was not tried, or lost nothing.
    lossy: Option<f64>,
    /// The smallest load that the generator did not reach.
    unreached: Option<f64>,
    /// True if `low` was measured at full length.
    is_confirmed: bool,
    step_down: f64,
    failed: u32,
    is_done: bool,
    progress: Progress,
}

impl Throughput {
    /// Prepares the search.
    ///
    /// # Errors
    /// A load is impossible, the resolution is below one frame or above the largest load, or the
    /// trials are too short.
    pub fn new(setup: Setup, plan: &Plan) -> Result<Throughput, String> {
        setup.check()?;
        let largest = setup.largest_pps();
        let Plan {
            resolution,
            search_ns,
            final_ns,
            ..
        } = *plan;
        let frames = resolution * largest * (search_ns as f64 / 1e9);
        if !(frames >= 1.0 && resolution.is_finite()) {
            return Err(format!(
                "a resolution of {} % is {frames:.2} frames in a trial of {} at the largest load: below one frame it is \
                 meaningless; use a coarser resolution or longer trials",
                percent(resolution),
                time(search_ns)
            ));
        }
        if resolution >= 1.0 {
            return Err(format!(
                "a resolution of {} % is not finer than the largest load",
                percent(resolution)
            ));
        }
        if final_ns < search_ns {
            return Err(format!(
                "the confirming trial ({}) is shorter than those of the search ({})",
                time(final_ns),
                time(search_ns)
            ));
        }
        check_duration("a trial", search_ns, largest)?;
        Ok(Throughput {
            progress: Progress::new(setup.frame_size),
            setup,
            resolution,
            search_ns,
            final_ns,
            low: 0.0,
            lossy: None,
            unreached: None,
            is_confirmed: false,
            step_down: 1.0,
            failed: 0,
            is_done: false,
        })
    }

    /// Returns the load above which the search does not need to look.
    fn high(&self) -> Option<f64> {
        self.lossy
            .into_iter()
            .chain(self.unreached)
            .reduce(f64::min)
    }

    /// Returns the largest distance of the bounds that is precise enough.
    fn resolution_pps(&self) -> f64 {
        let found = self.high().unwrap_or(self.setup.largest_pps());
        let one_frame = 1e9 / self.search_ns as f64;
        (self.resolution * found.max(FINEST * self.setup.full_rate_pps())).max(one_frame)
    }

    fn is_narrow(&self) -> bool {
        self.high()
            .is_none_or(|high| high - self.low <= self.resolution_pps() * (1.0 + 1e-9))
    }

    /// Returns the next load, whether it is the confirmation, and the reason.
    fn candidate(&self) -> Option<(f64, bool, String)> {
        if self.is_done || self.progress.failure.is_some() {
            return None;
        }
        let Some(high) = self.high() else {
            let largest = self.setup.largest_pps();
            let is_first = self.low == 0.0;
            let reason = if is_first {
                "the largest load first: if nothing is lost there, the search ends"
            } else {
                "confirm the largest load at full length"
            };
            return Some((largest, !is_first, reason.into()));
        };
        if !self.is_narrow() {
            let seconds = self.search_ns as f64 / 1e9;
            let middle = ((self.low + high) / 2.0 * seconds).round() / seconds;
            let reason = match self.lossy {
                Some(lossy) if lossy <= high => {
                    format!(
                        "halfway between {:.0} without and {high:.0} with loss",
                        self.low
                    )
                }
                _ => format!(
                    "halfway between {:.0} without loss and {high:.0}, which the generator did not reach",
                    self.low
                ),
            };
            return Some((middle, false, reason));
        }
        (self.low > 0.0).then(|| {
            let reason = "confirm the result of the search at full length".to_owned();
            (self.low, true, reason)
        })
    }

    /// After a load that passed in a short trial failed at full length: lower ones are tried at
    /// full length.
    fn step_down_from(&mut self, load: f64) {
        self.low = (load - self.step_down * self.resolution_pps()).max(0.0);
        self.step_down *= 2.0;
        self.is_confirmed = false;
    }

    fn throughput_pps(&self) -> Option<f64> {
        (self.is_confirmed && self.low > 0.0).then_some(self.low)
    }
}

impl Procedure for Throughput {
    fn next_trial(&mut self) -> Option<Question> {
        if self.is_confirmed && self.is_narrow() {
            self.is_done = true;
        }
        let (load, confirms, reason) = self.candidate()?;
        let (duration, purpose) = match confirms {
            true => (self.final_ns, Purpose::Confirm),
            false => (self.search_ns, Purpose::Search),
        };
        Some(
            self.setup
                .lossless_question(load, duration, purpose, reason),
        )
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        let load = question.peak_pps();
        let is_clean = answer.frames_lost() == 0;
        let early = if answer.ended_early {
            format!(
                ", after {} of {}",
                time(answer.duration_ns),
                time(question.duration_ns())
            )
        } else {
            String::new()
        };
        let is_full = self.search_ns >= self.final_ns;
        if question.purpose == Purpose::Confirm {
            if is_clean {
                self.is_confirmed = true;
                return "no frame lost: confirmed".into();
            }
            self.failed += 1;
            self.lossy = Some(load);
            self.step_down_from(load);
            return format!(
                "lost frames{early}: a short trial had passed, so down to {:.0}",
                self.low
            );
        }
        if is_clean {
            self.low = load;
            self.is_confirmed = is_full;
            "no frame lost: up".into()
        } else {
            self.lossy = Some(load);
            format!("lost frames{early}: down")
        }
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    /// This is not a loss: the search continues below, at most at the rate at which the generator
    /// sent.
    fn load_not_reached(&mut self, question: &Question, answer: &Answer, _: &str) {
        let load = question.peak_pps();
        self.unreached = Some(load.min(sent_pps(answer).max(self.resolution_pps())));
        if question.purpose == Purpose::Confirm {
            self.unreached = Some(load);
            self.step_down_from(load);
        }
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let throughput = self
            .throughput_pps()
            .filter(|_| self.progress.failure.is_none());
        let largest = self.setup.largest_pps();
        let below_line = self.setup.line_rate_pps.is_none_or(|line| largest < line);
        // the load above was not offered, instead of lost
        let is_above_unreached = match (self.unreached, self.lossy) {
            (Some(unreached), Some(lossy)) => unreached < lossy,
            (unreached, _) => unreached.is_some(),
        };
        let tester_bound = throughput
            .is_some_and(|pps| is_above_unreached || below_line && is_tester_bound(pps, largest));
        let mut warnings = Vec::new();
        if self.failed > 0 {
            warnings.push(format!(
                "confirming trials that failed: {}; buffers hide overload in short trials, or the DUT is noisy",
                self.failed
            ));
        }
        let verdict = match throughput {
            Some(_) if tester_bound => TESTER_BOUND.into(),
            Some(pps) if pps >= largest => "no loss at line rate".into(),
            Some(_) => "found".to_owned(),
            None if self.low == 0.0 && self.unreached.is_some() => {
                let lost = self.lossy.map_or(String::new(), |pps| {
                    format!("frames were lost at {pps:.0} frames/s, and ")
                });
                format!(
                    "cannot tell: {lost}below {:.0} frames/s the generator did not reach the load",
                    self.high().unwrap_or(largest)
                )
            }
            None if self.is_done || self.low == 0.0 && self.lossy.is_some() => format!(
                "frames were lost at every load down to {:.0} frames/s",
                self.lossy.unwrap_or(largest)
            ),
            None => "the search has not ended".into(),
        };
        let answered = throughput.is_some();
        let compliance =
            self.setup
                .conditions
                .label("RFC 2544 §26.1 throughput", self.final_ns, Vec::new());
        let found = fwdlab_model::outcome::Throughput {
            line_rate_pps: self.setup.line_rate_pps,
            max_load_pps: largest,
            throughput_pps: throughput,
            percent: throughput.map(|pps| 100.0 * pps / self.setup.full_rate_pps()),
            l2_bps: throughput.map(|pps| self.setup.frame_size.l2_bps(pps)),
            lossy_pps: self.lossy,
            resolution_pps: self.resolution_pps(),
            confirmations_failed: self.failed,
            tester_bound,
        };
        vec![Outcome {
            compliance,
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}
