//! Maximum forwarding rate in overload from one long trial: the median of its samples, without
//! those at its ends (RFC 2285 §3.6.2, docs/methodology.md, "Maximum forwarding rate").
//!
//! For any device, including those whose CPU cannot be probed; `fwdlab quick` measures the same in
//! short windows in which the machine is known to be quiet ([`crate::maxfwd`]). A second, short
//! trial slightly above the result shows whether the DUT forwards less in overload than it could.
//! Start with [`ForwardingRate`].

use fwdlab_model::campaign;
use fwdlab_model::outcome::{FORWARDS_NOTHING, Outcome};
use fwdlab_model::procedure::{Answer, Interval, Purpose, Question};
use fwdlab_model::units::FrameSize;

use crate::maxfwd::median;
use crate::procedure::{Procedure, Progress, check_duration, check_load, sent_pps, spread, time};
use crate::validity::{OVERLOAD_SHARE, SATURATION, is_lower_bound};

/// If the lower load has at least this multiple of the rate in overload, it is not noise but a
/// livelock.
const LIVELOCK: f64 = 1.05;

/// Maximum duration of the trial at the lower load.
const LOWER_NS: u64 = 5_000_000_000;

/// Minimum number of samples for a meaningful median.
const FEWEST: u64 = 3;

/// The state machine.
#[derive(Debug, Clone)]
pub struct ForwardingRate {
    /// Line rate, or the maximum that can be offered.
    load_pps: f64,
    parameters: campaign::ForwardingRate,
    made: Option<Answer>,
    lower: Option<(f64, f64)>,
    progress: Progress,
}

impl ForwardingRate {
    /// Prepares the trials.
    ///
    /// # Errors
    /// An impossible load, or fewer than three usable samples.
    pub fn new(
        frame_size: FrameSize,
        load_pps: f64,
        parameters: campaign::ForwardingRate,
    ) -> Result<ForwardingRate, String> {
        let p = &parameters;
        check_load("the load", load_pps)?;
        check_duration("a sample", p.sample.ns(), load_pps)?;
        let trimmed = p.trim_start.ns().saturating_add(p.trim_end.ns());
        if p.duration.ns() < trimmed.saturating_add(FEWEST * p.sample.ns()) {
            return Err(format!(
                "a trial of {} has fewer than {FEWEST} samples of {} when {} at its ends are not used: use a longer trial, or \
                 shorter samples or trims",
                time(p.duration.ns()),
                time(p.sample.ns()),
                time(trimmed)
            ));
        }
        Ok(ForwardingRate {
            load_pps,
            parameters,
            made: None,
            lower: None,
            progress: Progress::new(frame_size),
        })
    }

    /// Returns the samples that count: not at the ends, and with frames.
    fn used(&self) -> Vec<Interval> {
        let p = &self.parameters;
        let Some(answer) = &self.made else {
            return Vec::new();
        };
        let samples = &answer.samples;
        let first = samples.iter().find(|sample| sample.frames_received > 0);
        let last = samples.iter().rev().find(|sample| sample.frames_sent > 0);
        let (Some(first), Some(last)) = (first, last) else {
            return Vec::new();
        };
        let from_ns = first.at_ns + p.trim_start.ns();
        let until_ns = (last.at_ns + last.length_ns).saturating_sub(p.trim_end.ns());
        let counts = |sample: &&Interval| {
            // a sample on a busy machine is slightly longer than planned
            sample.at_ns >= from_ns
                && sample.at_ns + sample.length_ns <= until_ns + p.sample.ns() / 2
                && sample.frames_received > 0
        };
        let inside: Vec<Interval> = samples.iter().filter(counts).copied().collect();
        // while the sender stalls, the DUT has nothing to forward
        let steady = median(inside.iter().map(Interval::offered_load_pps)).unwrap_or(0.0);
        let is_steady = |sample: &Interval| sample.offered_load_pps() >= OVERLOAD_SHARE * steady;
        inside.into_iter().filter(is_steady).collect()
    }

    /// Returns the result, once it is measured.
    fn rate_pps(&self) -> Option<f64> {
        median(self.used().iter().map(forwarded_pps))
    }

    fn offered_pps(&self) -> Option<f64> {
        median(self.used().iter().map(Interval::offered_load_pps))
    }
}

/// Returns the forwarding rate of a sample, at most the offered load: the rest had waited since the
/// previous one.
fn forwarded_pps(sample: &Interval) -> f64 {
    sample.forwarding_rate_pps().min(sample.offered_load_pps())
}

impl Procedure for ForwardingRate {
    fn next_trial(&mut self) -> Option<Question> {
        let p = &self.parameters;
        if self.progress.failure.is_some() || self.lower.is_some() {
            return None;
        }
        if self.made.is_none() {
            return Some(Question {
                sample_ns: Some(p.sample.ns()),
                // the offered load is part of the result, whatever it is
                needs_load: false,
                ..Question::constant(
                    self.progress.frame_size,
                    self.load_pps,
                    p.duration.ns(),
                    Purpose::Measure,
                    "the output in overload",
                )
            });
        }
        let (rate, offered) = (self.rate_pps()?, self.offered_pps()?);
        let load = SATURATION * rate;
        (offered > load).then(|| Question {
            overload: true,
            ..Question::constant(
                self.progress.frame_size,
                load,
                LOWER_NS.min(p.duration.ns()),
                Purpose::Confirm,
                "slightly more than came out: does the DUT forward less in overload?",
            )
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        if self.made.is_none() {
            self.made = Some(answer.clone());
            return match self.rate_pps() {
                Some(pps) => format!(
                    "{pps:.0} frames/s came out, median of {} samples",
                    self.used().len()
                ),
                None => FORWARDS_NOTHING.into(),
            };
        }
        let (load, rate) = (sent_pps(answer), answer.forwarding_rate_pps());
        self.lower = Some((load, rate));
        format!("{rate:.0} frames/s came out")
    }

    fn abort(&mut self, reason: &str) {
        match self.made {
            // the result is valid without the additional trial
            Some(_) => self.lower = Some((0.0, 0.0)),
            None => self.progress.failure = Some(reason.into()),
        }
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let rates: Vec<f64> = self.used().iter().map(forwarded_pps).collect();
        let rate = spread(&rates);
        let offered = self.offered_pps();
        let not_saturated = rate
            .zip(offered)
            .is_some_and(|(rate, offered)| is_lower_bound(offered, rate.median));
        let lower = self.lower.filter(|(load, _)| *load > 0.0);
        let mut warnings = Vec::new();
        if not_saturated {
            warnings.push(
                "not saturated: less than 1.1 times the output was offered, so the DUT may forward more".into(),
            );
        }
        let is_livelock = lower
            .zip(rate)
            .is_some_and(|((_, lower), rate)| lower > LIVELOCK * rate.median);
        if let (Some((load, lower)), Some(rate), true) = (lower, rate, is_livelock) {
            warnings.push(format!(
                "livelock: of {load:.0} frames/s {lower:.0} came out, of {:.0} only {:.0}: this is what the DUT forwards in \
                 overload, not its maximum; a ramp or a search shows the maximum",
                offered.unwrap_or(self.load_pps),
                rate.median
            ));
        }
        let verdict = match (&self.made, rate) {
            (None, _) => "the trial was not made",
            (Some(made), None) if made.frames_received == 0 => FORWARDS_NOTHING,
            (Some(_), None) => "no sample can be used",
            _ if is_livelock => "measured; the DUT forwards less in overload (livelock)",
            _ if not_saturated => "measured, but not saturated",
            _ => "measured",
        };
        let answered = rate.is_some() && self.progress.failure.is_none();
        let found = fwdlab_model::outcome::ForwardingRate {
            load_pps: self.load_pps,
            offered_load_pps: offered,
            variation_percent: rate.and_then(|rate| Some(100.0 * rate.stdev? / rate.mean)),
            forwarding_rate_pps: rate,
            not_saturated,
            lower_load_pps: lower.map(|(load, _)| load),
            lower_forwarding_rate_pps: lower.map(|(_, rate)| rate),
            samples: self
                .made
                .as_ref()
                .map_or(Vec::new(), |made| made.samples.clone()),
        };
        vec![Outcome {
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::value::Period;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn machine(seconds: u64) -> Result<ForwardingRate, String> {
        let parameters = campaign::ForwardingRate {
            duration: Period::seconds(seconds),
            ..campaign::ForwardingRate::default()
        };
        ForwardingRate::new(FrameSize::MIN, 1000.0, parameters)
    }

    fn answer(received: &[u64]) -> Answer {
        let samples = received
            .iter()
            .zip(0..)
            .map(|(&frames_received, k)| Interval {
                at_ns: k * SECOND,
                length_ns: SECOND,
                intended_load_pps: 1000.0,
                frames_sent: 1000,
                frames_received,
            });
        Answer {
            frames_intended: 15_000,
            frames_sent: 15_000,
            duration_ns: 15 * SECOND,
            samples: samples.collect(),
            ..Answer::default()
        }
    }

    /// The samples used by docs/methodology.md, "Maximum forwarding rate": skip 5 s from the first
    /// frame that came back, skip the last 2 s before the last sent frame, and ignore samples of 0;
    /// an even number has the mean of the middle two.
    #[test]
    fn ends_and_empty_samples_do_not_count() {
        let mut machine = machine(15).unwrap();
        let question = machine.next_trial().unwrap();
        // one empty second, five of start, then 500 0 510 490 505 530, then two of end
        machine.record(
            &question,
            &answer(&[0, 1, 2, 3, 4, 5, 500, 0, 510, 490, 505, 530, 990, 990, 990]),
        );
        let used: Vec<u64> = machine.used().iter().map(|s| s.frames_received).collect();
        assert_eq!(used, [500, 510, 490, 505, 530, 990]);
        assert_eq!(machine.rate_pps(), Some(507.5));
        // slightly above the forwarding rate, and all of it comes out
        let lower = machine.next_trial().unwrap();
        assert_eq!(lower.peak_pps(), 1.1 * 507.5);
        machine.record(
            &lower,
            &Answer {
                frames_sent: 2791,
                frames_received: 2540,
                duration_ns: 5 * SECOND,
                ..Answer::default()
            },
        );
        assert_eq!(machine.next_trial(), None);
        assert_eq!(machine.outcomes()[0].verdict, "measured");
    }

    #[test]
    fn too_short_a_trial_is_reported_early() {
        let error = machine(9).unwrap_err();
        assert!(error.contains("fewer than 3 samples"), "{error}");
    }
}
